"""`import dynamics_node` is quick; what it offers comes when it is asked for."""

import subprocess
import sys

import pytest

import dynamics_node as dn


def test_heavy_imports_wait_until_something_is_asked_for():
    """A node that is being started can be stopped: see node/main.py."""
    code = "import sys, dynamics_node.node.main as m; print('numpy' in sys.modules, 'rclpy' in sys.modules)"
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True
    )
    assert done.stdout == "False False\n"


def test_everything_is_there_and_named():
    assert set(dn.__all__) <= set(dir(dn))
    assert all(getattr(dn, name) is not None for name in dn.__all__)
    assert dn.solver.build is dn.build
    with pytest.raises(AttributeError, match="module 'dynamics_node' has no attribute 'biuld'"):
        _ = dn.biuld
    names: dict = {}
    exec("from dynamics_node import *", names)
    assert set(dn.__all__) <= set(names)


@pytest.mark.parametrize("module", ["dynamics_node.node.build_job", "dynamics_node.cli"])
def test_what_builds_a_robot_and_commands_import_no_scipy(module):
    """It takes half a second on an idle core, seconds beside a node that is busy with NumPy until it is done."""
    code = f"import sys, {module}; sys.exit(any(m.startswith('scipy') for m in sys.modules))"
    assert subprocess.run([sys.executable, "-c", code], timeout=60).returncode == 0
