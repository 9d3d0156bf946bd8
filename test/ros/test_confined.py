"""Policies and confined nodes, see docs/how-to/security.md."""

import contextlib
import os
import shutil
import subprocess
import sys
from fnmatch import fnmatch
from pathlib import Path
from xml.etree import ElementTree

import pytest
import rig as support
from rig import efforts
from tolerances import EXACT, error

POLICY = Path(__file__).parents[2] / "docs" / "security" / "policy.xml"
NODE = "dynamics_node"
OWN_ENCLAVES = (f"/{NODE}", "/dynamics_estimator")  # for the latter see test_estimator_on_topics.py
OF_CLOCKS = {"/clock"}  # with use_sim_time only


def granted(tag, right):
    """Names of the policy of the node."""
    (enclave,) = (e for e in ElementTree.parse(POLICY).iter("enclave") if e.get("path") == f"/{NODE}")
    return {child.text for group in enclave.iter(f"{tag}s") if group.get(right) == "ALLOW" for child in group}


MEASURED = """
sensors:
  - {type: torque, joint: [panda_joint1, panda_joint2, panda_joint3, panda_joint4, panda_joint5, panda_joint6,
     panda_joint7], std: 0.05}
  - {type: imu, name: hand, link: panda_hand, std: 0.01}
"""


def covered(names, patterns):
    """The names that a pattern of the policy grants."""
    return {name for name in names for pattern in patterns if fnmatch(name, pattern)}


@pytest.fixture(scope="module")
def names_in_use(tmp_path_factory):
    """names_in_use(what, expected): names of two running nodes, one floating with contacts and one with
    sensors, without namespaces. expected: patterns."""
    folder = tmp_path_factory.mktemp("files")
    sensors, contacts = folder / "sensors.yaml", folder / "contacts.yaml"
    sensors.write_text(MEASURED)
    contacts.write_text("contacts: [{link: panda_hand}]")
    floating = {"floating_base": True, "contacts_file": str(contacts), "backend": "numpy"}
    measured = {"problem": "sensors", "sensors_file": str(sensors), "backend": "numpy"}
    rigs = [support.Rig(support_robot(), parameters) for parameters in (floating, measured)]
    for rig in rigs:
        rig.until(lambda rig=rig: NODE in rig.neighbours())
        own = NODE, rig.node.get_namespace()
        rig.until(lambda rig=rig, own=own: rig.node.get_service_names_and_types_by_node(*own))

    def names(what):
        return set().union(*(_names(rig.node, what) for rig in rigs))

    def expected_names(what, expected):
        """The names, after all expected ones exist or a timeout."""
        with contextlib.suppress(AssertionError):
            rigs[0].until(lambda: all(covered(names(what), [pattern]) for pattern in expected))
        return names(what)

    yield expected_names
    for rig in rigs:
        rig.close()


def _names(client, what):
    """Names of the node and of its process of services, which is in the same enclave."""
    space = client.get_namespace()
    known = client.get_node_names_and_namespaces()
    nodes = {name for name, where in known if where == space and name != client.get_name()}
    query = getattr(client, f"get_{what}_names_and_types_by_node")
    return {name.removeprefix(space) for node in nodes for name, _ in query(node, space)}


def support_robot():
    from robots import ROBOTS

    return ROBOTS["panda7"]


@pytest.mark.parametrize(
    "tag, right, what",
    [
        ("topic", "publish", "publisher"),
        ("topic", "subscribe", "subscriber"),
        ("service", "reply", "service"),
    ],
)
def test_the_policy_grants_exactly_the_names_in_use(names_in_use, tag, right, what):
    unused_grants = OF_CLOCKS | {"/parameter_events"}
    names = names_in_use(what, granted(tag, right) - unused_grants)
    assert names - covered(names, granted(tag, right)) == set(), "not granted"
    in_use = {pattern for pattern in granted(tag, right) if covered(names, [pattern])}
    assert granted(tag, right) - in_use <= unused_grants, "granted without a use"
    assert what != "subscriber" or f"/{NODE}/sensors/hand" in names


def test_grants_of_other_enclaves_exist():
    for enclave in ElementTree.parse(POLICY).iter("enclave"):
        for tag, give, take in (("topic", "publish", "subscribe"), ("service", "reply", "request")):
            for mine, others in ((give, take), (take, give)):
                for group in enclave.iter(f"{tag}s"):
                    if enclave.get("path") not in OWN_ENCLAVES and group.get(mine) == "ALLOW":
                        assert {child.text for child in group} <= granted(tag, others)


# --- read-only ----------------------------------------------------------------------------------------------

WRAPPER = """#!/bin/bash
exec unshare -m bash -c '
mount --make-rprivate /
mount -t tmpfs tmpfs {log}
for place in / /tmp /var/tmp; do mount -o remount,ro,bind $place 2>/dev/null; done
touch /tmp/written 2>/dev/null && exit 77
exec {python} "$@"' x "$@"
"""


@pytest.fixture
def confine(tmp_path, monkeypatch):
    """confine(): later nodes can write only to the log."""
    can = shutil.which("unshare") and os.getuid() == 0
    if not can or subprocess.run(["unshare", "-m", "mount", "--make-rprivate", "/"]).returncode:
        pytest.skip("needs the right to make a mount namespace")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))

    def apply():
        log, python = tmp_path / "log", tmp_path / "python"
        log.mkdir()
        python.write_text(WRAPPER.format(log=log, python=sys.executable))
        python.chmod(0o755)
        monkeypatch.setenv("ROS_LOG_DIR", str(log))
        monkeypatch.setattr(support.sys, "executable", str(python))

    return apply


def built(r):
    """Wait for the end of the build, including the functions of services."""
    r.diagnostic(lambda status: {v.key: v.value for v in status.values}["building"] == "False")


def test_without_a_cache_numpy_serves_and_logs_the_reason(confine, rig, panda):
    confine()
    r = rig(parameters={"backend": "auto"})
    assert error(efforts(r.answered(panda.names, panda.q, panda.qd), panda.names), panda.torque()) <= EXACT
    r.until(lambda: "no place for compiled code" in r.process.output())
    built(r)
    assert "Read-only file system" in r.process.output() and "(c)" not in r.process.output()
    assert r.process.output().count("no place for compiled code") == 1


def test_a_filled_cache_serves_without_a_compiler(confine, rig, case, tmp_path, monkeypatch):
    """No compiler is run."""
    arm = case("double_pendulum")
    command = [sys.executable, "-m", "dynamics_node.cli", "compile", str(arm.robot.file)]
    command += ["-o", str(tmp_path)]
    subprocess.run(command, check=True, capture_output=True, timeout=support.TIMEOUT)
    monkeypatch.setenv("DYNAMICS_NODE_CACHED_ONLY", "1")
    confine()
    r = rig("double_pendulum", {"backend": "auto"})
    r.until(lambda: "(c)" in r.process.output())
    assert error(efforts(r.answered(arm.names, arm.q, arm.qd), arm.names), arm.torque()) <= EXACT
    built(r)
    assert "only cached code" not in r.process.output(), "the cache is complete"
