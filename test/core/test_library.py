"""`import dynamics_node` is quick; what it offers comes when it is asked for."""

import os
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
    assert dn.functions.build is dn.build
    with pytest.raises(AttributeError, match="'dynamics_node'.*'biuld'"):
        _ = dn.biuld
    names: dict = {}
    exec("from dynamics_node import *", names)
    assert set(dn.__all__) <= set(names)


@pytest.mark.parametrize("module", ["dynamics_node.node.building.build_job", "dynamics_node.cli.commands"])
def test_what_builds_a_robot_and_commands_import_no_scipy(module):
    """It takes half a second on an idle core, seconds beside a node that is busy with NumPy until it is done."""
    code = f"import sys, {module}; sys.exit(any(m.startswith('scipy') for m in sys.modules))"
    assert subprocess.run([sys.executable, "-c", code], timeout=60).returncode == 0


LINEAR_ALGEBRA = {  # what imports NumPy, and how many threads there are afterwards: of all cores, or one
    "a command": "from dynamics_node.cli import main; main(['info', '/nowhere'])",
    "a node": "from dynamics_node.node.main import serve; serve('node', 'numpy', 'absent')",
    "the library": "import dynamics_node.library, numpy",
}


@pytest.mark.skipif(sys.platform != "linux", reason="of Linux")
@pytest.mark.parametrize("what", LINEAR_ALGEBRA)
def test_entry_points_compute_with_one_thread_and_the_library_leaves_it_to_its_user(what):
    names = ("OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "BLIS_NUM_THREADS", "OMP_NUM_THREADS")
    environment = {name: value for name, value in os.environ.items() if name not in names}
    code = (
        f"import contextlib, os, sys\nwith contextlib.suppress(Exception):\n    {LINEAR_ALGEBRA[what]}\n"
        "assert 'numpy' in sys.modules\nprint(len(os.listdir('/proc/self/task')), *os.environ)"
    )
    command = [sys.executable, "-c", code]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=60)
    threads, *left = done.stdout.split()
    if what == "the library":
        assert set(left).isdisjoint(names)
    else:
        assert int(threads) == 1
