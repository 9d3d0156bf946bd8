"""The device of this process, opened when it is asked for first."""

import logging
import os
import threading

from dynamics_node.codegen.cuda import driver as drivers
from dynamics_node.codegen.cuda.device import FORKED, Device
from dynamics_node.codegen.cuda.driver import Driver
from dynamics_node.codegen.cuda.errors import CudaError, failed

log = logging.getLogger("dynamics_node")

_lock = threading.RLock()
_opened: list[Device | CudaError] = []
_said: set[str] = set()


def _in_child():
    """Another thread may have had the lock at the fork."""
    global _lock
    _lock = threading.RLock()


os.register_at_fork(after_in_child=_in_child)


def device() -> Device:
    """The device of this process. Raises CudaError: there is none, or it is lost."""
    with _lock:
        if not _opened:
            try:
                _opened.append(Device(Driver(drivers.LIBRARY)))
            except CudaError as error:
                _opened.append(error)
        found = _opened[0]
    if isinstance(found, CudaError):
        raise CudaError(*found.args)
    found.require_usable()
    return found


def lost() -> CudaError | None:
    """What ended the use of the device that this process, or the one it was forked from, has opened."""
    found = _opened[0] if _opened else None
    if not isinstance(found, Device):
        return None
    return found.lost if found.is_ours else failed(*FORKED)


def say_once(told: str):
    """A warning, in a process once."""
    if told not in _said:
        _said.add(told)
        log.warning("%s", told)


def forget():
    """Give back all that is held on the device; the next call of `device` opens it anew."""
    with _lock:
        if _opened and isinstance(_opened[0], Device):
            _opened[0].close()
        _opened.clear()
        _said.clear()
