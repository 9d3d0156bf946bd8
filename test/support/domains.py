"""ROS domains, and namespaces in them, that no other process on this machine uses.

Nodes of two tests in one domain would receive each other's joint states and publish slightly wrong torques. So a test
takes only a domain without ports in use, claims it until its nodes run, and uses a namespace of its own.
"""

import os
import random
import socket
import uuid
from collections import deque
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

# Messages stay on this machine and discovery is immediate. A context reads these variables when it is created.
os.environ["ROS_AUTOMATIC_DISCOVERY_RANGE"] = "LOCALHOST"
for _name in ("FASTRTPS_DEFAULT_PROFILES_FILE", "FASTDDS_DEFAULT_PROFILES_FILE"):  # until Jazzy, since Kilted
    os.environ[_name] = str(Path(__file__).with_name("discovery.xml"))

NUMBERS = range(1, 102)  # Linux assigns the ports of higher ones dynamically
PARTICIPANTS = 32  # of a domain, that discovery on this machine covers
CLAIM = 5  # offset of a port that RTPS leaves unused (RTPS 2.3, 9.6.1.1)


class Domain(NamedTuple):
    """The number of a ROS domain, and a unique namespace in it."""

    number: int
    namespace: str

    def resolved(self, within=""):
        """The absolute name of the namespace, or of one within it."""
        return f"/{self.namespace}/{within}".rstrip("/")

    def remappings(self, within=""):
        """Arguments that move a node and its absolute topics into the namespace."""
        namespace = self.resolved(within)
        moved = (f"{topic}:={namespace}{topic}" for topic in ("/clock", "/diagnostics"))
        rules = (f"__ns:={namespace}", *moved)
        return ["--ros-args", *(word for rule in rules for word in ("-r", rule))]

    def environment(self):
        """Environment variables of a process in the domain."""
        return {**os.environ, "ROS_DOMAIN_ID": str(self.number)}


claims = deque[socket.socket](maxlen=4)  # older ones: their nodes have ended or bound their own ports


def fresh_domain() -> Domain:
    """A domain without participants or other claims. Raises RuntimeError if there is none."""
    numbers = random.SystemRandom().sample(NUMBERS, len(NUMBERS))
    for number in numbers:
        if claim := claimed(number):
            claims.append(claim)
            return Domain(number, f"rig_{uuid.uuid4().hex[:8]}")
    raise RuntimeError("every ROS domain of this machine is in use")


def claimed(number):
    """A socket that claims a free domain against other test runs, or None if it is in use."""
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
    """A socket bound to a free port. Raises OSError if it is in use."""
    result = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    try:
        result.bind(("", port))
    except OSError:
        result.close()
        raise
    return result
