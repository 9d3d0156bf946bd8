"""`import dynamics_node` is quick; public names are imported at first use."""

import ast
import os
import subprocess
import sys
from pathlib import Path

import pytest

import dynamics_node as dn


def test_starting_node_has_no_heavy_imports():
    """A starting node can be stopped: see node/main.py."""
    code = "import sys, dynamics_node.node.main as m; print('numpy' in sys.modules, 'rclpy' in sys.modules)"
    process = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True
    )
    assert process.stdout == "False False\n"


def test_public_names_exist():
    assert {name for name in dir(dn) if not name.startswith("__")} == set(dn.__all__)
    assert all(getattr(dn, name) is not None for name in dn.__all__)
    assert dn.functions.build is dn.build
    with pytest.raises(AttributeError, match="'dynamics_node'.*'biuld'"):
        _ = dn.biuld
    names: dict = {}
    exec("from dynamics_node import *", names)
    assert set(dn.__all__) <= set(names)


@pytest.mark.parametrize("module", ["dynamics_node.node.building.build_job", "dynamics_node.cli.commands"])
def test_builds_and_commands_import_no_scipy(module):
    """The import takes half a second on an idle core, and seconds next to a busy node."""
    code = f"import sys, {module}; sys.exit(any(m.startswith('scipy') for m in sys.modules))"
    assert subprocess.run([sys.executable, "-c", code], timeout=60).returncode == 0


LINEAR_ALGEBRA = {  # code that imports NumPy
    "a command": "from dynamics_node.cli import main; main(['info', '/nowhere'])",
    "a demo": "import dynamics_demo.__main__",
    "a node": "from dynamics_node.node.main import serve, worker; serve('n', 'numpy', 'absent', None, worker.WORKERS, worker.BUILD)",
    "the library": "import dynamics_node.library, numpy",
}


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
@pytest.mark.parametrize("entry", LINEAR_ALGEBRA)
def test_entry_points_use_one_thread_and_the_library_sets_no_variables(entry):
    names = ("OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "BLIS_NUM_THREADS", "OMP_NUM_THREADS")
    environment = {name: value for name, value in os.environ.items() if name not in names}
    code = (
        f"import contextlib, os, sys\nwith contextlib.suppress(Exception):\n    {LINEAR_ALGEBRA[entry]}\n"
        "assert 'numpy' in sys.modules\nprint(len(os.listdir('/proc/self/task')), *os.environ)"
    )
    command = [sys.executable, "-c", code]
    process = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=60)
    threads, *variables = process.stdout.split()
    if entry == "the library":
        assert set(variables).isdisjoint(names)
    else:
        assert int(threads) == 1


def test_a_class_name_has_one_meaning():
    """No two classes of the library have the same name, even in packages far apart."""
    places = {}
    for file in sorted(Path(dn.__file__).parent.rglob("*.py")):
        for node in ast.walk(ast.parse(file.read_text())):
            if isinstance(node, ast.ClassDef):
                places.setdefault(node.name, []).append(file.name)
    assert len(places) > 300
    assert not {name: files for name, files in places.items() if len(files) > 1}
