"""What all tests share lies in test/support."""

import gc
import os
import sys
from pathlib import Path

# The example robots and the demo of this checkout, also for the processes that tests start
EXAMPLES = str(Path(__file__).parents[1] / "examples")
os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, [EXAMPLES, os.environ.get("PYTHONPATH")]))
sys.path[:0] = [EXAMPLES, str(Path(EXAMPLES) / "paper2")]

# A worker a core: threads of OpenBLAS beside them wait in loops; so for the processes that tests start
for name in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS"):
    os.environ.setdefault(name, "1")

sys.path.insert(0, str(Path(__file__).parent / "support"))
sys.path.insert(0, str(Path(__file__).parent / "core"))
sys.path.insert(0, str(Path(__file__).parent / "core" / "node"))
sys.path.insert(0, str(Path(__file__).parents[1]))  # campaigns


def pytest_addoption(parser):
    parser.addoption(
        "--all", action="store_true", help="the whole product of robots, problems, algorithms, backends"
    )


def pytest_collection_finish():
    """What thousands of tests are made of is not looked through again whenever garbage is collected."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(20_000, 20, 20)


def pytest_collection_modifyitems(items):
    """What takes a minute alone begins first: nobody waits for it at the end."""
    items.sort(key=lambda item: item.get_closest_marker("long") is None)
