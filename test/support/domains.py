"""ROS domains, and namespaces in them, that nobody else on this machine uses.

Two rigs in one domain answer each other's joint states: a Panda with fingers beside one without gave
torques that were off by 1e-7, and only now and then. So a domain is taken only where no port of it is in
use, it is claimed for as long as that could change, and whatever comes into it later meets other names.
"""

import os
import random
import socket
import uuid
from collections import deque
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

# Nothing of the tests leaves the machine, and nodes find each other at once. Read when a context is made.
os.environ["ROS_AUTOMATIC_DISCOVERY_RANGE"] = "LOCALHOST"
for _name in ("FASTRTPS_DEFAULT_PROFILES_FILE", "FASTDDS_DEFAULT_PROFILES_FILE"):  # until Jazzy, since Kilted
    os.environ[_name] = str(Path(__file__).with_name("discovery.xml"))

NUMBERS = range(1, 102)  # the ports of higher ones are given out by Linux to whoever asks
PARTICIPANTS = 32  # of a domain, that others find on this machine
CLAIM = 5  # this port of a domain is nobody's (RTPS 2.3, 9.6.1.1)


class Domain(NamedTuple):
    """The number of a ROS domain, and a namespace of our own in it."""

    number: int
    namespace: str

    def resolved(self, within=""):
        """Our namespace, or one within it, from the root."""
        return f"/{self.namespace}/{within}".rstrip("/")

    def remappings(self, within=""):
        """Arguments that put a node there, its absolute topics too."""
        namespace = self.resolved(within)
        moved = (f"{topic}:={namespace}{topic}" for topic in ("/clock", "/diagnostics"))
        rules = (f"__ns:={namespace}", *moved)
        return ["--ros-args", *(word for rule in rules for word in ("-r", rule))]

    def environment(self):
        """Variables of a process that takes part."""
        return {**os.environ, "ROS_DOMAIN_ID": str(self.number)}


claims = deque[socket.socket](maxlen=4)  # by then its nodes have ended, or hold ports of their own


def fresh_domain() -> Domain:
    """A domain with nobody in it, and no test run about to be. Raises RuntimeError where all are taken."""
    numbers = random.SystemRandom().sample(NUMBERS, len(NUMBERS))
    for number in numbers:
        if claim := claimed(number):
            claims.append(claim)
            return Domain(number, f"rig_{uuid.uuid4().hex[:8]}")
    raise RuntimeError("every ROS domain of this machine is in use")


def claimed(number):
    """A socket that keeps other test runs off a free domain, None when it is not free."""
    ports = (port_of(number, 0), *(port_of(number, 10 + 2 * k) for k in range(PARTICIPANTS)))
    with suppress(OSError):
        claim = _bound(port_of(number, CLAIM))
        try:
            for port in ports:
                _bound(port).close()
            return claim
        except OSError:
            claim.close()
    return None


def port_of(number, offset):
    """UDP port of a domain: 0 for discovery by multicast, 10 + 2 k by the k-th participant."""
    return 7400 + 250 * number + offset


def _bound(port):
    """A socket bound to a port that nobody has. Raises OSError."""
    result = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    try:
        result.bind(("", port))
    except OSError:
        result.close()
        raise
    return result
