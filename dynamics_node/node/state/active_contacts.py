"""The contacts of contacts_file, and which of them are active. Without ROS."""

from collections.abc import Iterable, Sequence

import numpy as np

from dynamics_node.errors import ContactError, InputError
from dynamics_node.node.errors import BadMessage
from dynamics_node.node.state.joint_memory import JUMP_BACK, require_few, require_once
from dynamics_node.robot import Robot
from dynamics_node.robot.contacts import Contact, load_contacts, valid_contacts
from dynamics_node.text import listed


def read_contacts(path: str, robot: Robot) -> tuple[Contact, ...]:
    """The contacts of a file, () without a path. Raises OSError, and ContactError, also for an unknown link
    and for no contact."""
    if not path:
        return ()
    try:
        contacts = valid_contacts(robot, load_contacts(path))
    except ContactError as error:
        raise ContactError(f"contacts_file: {error}") from None
    if not contacts:
        raise ContactError("contacts_file: the list has no contact; leave contacts_file empty for none")
    return contacts


def flags_of(known: Sequence[str], active: Iterable[str]) -> np.ndarray:
    """Flags (contacts,), 1 at active contacts, of their names. Raises InputError for an unknown name."""
    active = set(active)
    if unknown := [name for name in active if name not in known]:
        raise InputError(f"unknown contact {listed(sorted(unknown))}; contacts_file has: {listed(known, 40)}")
    return np.array([name in active for name in known], dtype=float)


class ActiveContacts:
    """The active contacts: those of the newest change of the parameter or message. names: of all contacts;
    flags (contacts,): 1 at active ones."""

    def __init__(self, contacts: Iterable[Contact]):
        self.names = tuple(contact.name for contact in contacts)
        self.flags = np.ones(len(self.names))
        self._chosen: tuple[str, ...] = ()  # parameter active_contacts in use
        self._stamp = 0  # ns of the last message

    def apply(self, chosen: tuple[str, ...]):
        """Use the parameter, if it has changed; () are all contacts. Raises InputError."""
        if chosen != self._chosen:
            self.flags = flags_of(self.names, chosen or self.names)
            self._chosen = chosen

    def update(self, names: Sequence[str], active: Sequence[bool], stamp: int):
        """Use a message; stamp: ns, 0 without one. Raises BadMessage, and then nothing changes."""
        require_few(names)
        require_once(names, "contact")
        if len(names) != len(active):
            raise BadMessage(f"{len(names)} names but {len(active)} entries in active")
        if 0 < stamp < self._stamp and self._stamp - stamp <= JUMP_BACK:
            raise BadMessage(f"the message is {(self._stamp - stamp) * 1e-6:.3g} ms older than the last one")
        given = zip(names, active, strict=True)
        try:
            flags_of(self.names, names)
            flags = flags_of(self.names, (name for name, is_active in given if is_active))
        except InputError as error:
            raise BadMessage(str(error)) from None
        self.flags, self._stamp = flags, stamp

    def on(self, contacts: Iterable[Contact], chosen: tuple[str, ...]) -> "ActiveContacts":
        """The active contacts of another robot: known names keep their flags, unless the parameter has
        changed. Raises InputError."""
        other = ActiveContacts(contacts)
        other.apply(chosen)
        if chosen == self._chosen:
            kept = dict(zip(self.names, self.flags, strict=True))
            rows = zip(other.names, other.flags, strict=True)
            other.flags = np.array([kept.get(name, flag) for name, flag in rows])
        other._stamp = self._stamp
        return other

    @property
    def active(self) -> tuple[str, ...]:
        """Names of the active contacts."""
        return tuple(name for name, flag in zip(self.names, self.flags, strict=True) if flag)
