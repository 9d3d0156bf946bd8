"""Paths and options of all tests; shared helpers are in test/support."""

import fcntl
import gc
import os
import sys
from pathlib import Path

import pytest

# The example robots and demos of this checkout, also for processes that tests start
EXAMPLES = str(Path(__file__).parents[1] / "examples")
os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, [EXAMPLES, os.environ.get("PYTHONPATH")]))
sys.path[:0] = [EXAMPLES, str(Path(EXAMPLES) / "paper2")]

# One worker per core: more OpenBLAS threads would wait in loops. Processes that tests start inherit this
for name in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS"):
    os.environ.setdefault(name, "1")

sys.path.insert(0, str(Path(__file__).parent / "support"))
sys.path.insert(0, str(Path(__file__).parent / "core"))
sys.path.insert(0, str(Path(__file__).parent / "core" / "node"))
sys.path.insert(0, str(Path(__file__).parents[1]))  # campaigns


def pytest_configure(config):
    """Ignore warnings about published robots; test_urdf.py expects them. In pyproject.toml, this
    would import NumPy before its threads are limited."""
    config.addinivalue_line("filterwarnings", "ignore::dynamics_node.errors.ModelWarning")


def pytest_addoption(parser):
    parser.addoption(
        "--all",
        action="store_true",
        help="test all combinations of robots, problems, algorithms and backends",
    )


def pytest_collection_finish():
    """Exclude the objects of thousands of tests from garbage collection."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(20_000, 20, 20)


# Left out by `./dev test -m "not long"`: they take most of the time, measured on two cores
LONG = {
    "test_long_robots", "test_dev", "test_packaging", "test_linkages", "test_orderings", "test_building",
    "test_estimator", "test_cache", "test_export", "test_batch", "test_product", "test_observer",
    "test_identified_demo", "test_odd_recordings", "test_nearest_dynamics", "test_backend_c", "test_limits",
    "test_sensor_programs", "test_payload_estimates", "test_number_campaigns", "test_estimated_arm",
    "test_sanitizers", "test_assemblies", "test_path_timing", "test_algorithms", "test_singular_positions",
    "test_every_processor", "test_derivatives", "test_packed", "test_excitation", "test_advice_of_identify",
    "test_identify_command", "test_widths", "test_trajectory_answers", "test_noisy_velocities",
    "test_text_of_kernels", "test_stressed_trees", "test_trajectory_factors", "test_trajectory_commands",
    "test_trajectory_problems", "test_identification", "test_tables", "test_controllers", "test_quantities",
    "test_demo", "test_estimator_on_topics", "test_service_process", "test_campaigns",
    "test_payload_estimates_on_topics", "test_parameters", "test_services", "test_bad_input",
    "test_wrench_sensor_on_topics", "test_confined", "test_switching", "test_fuzz",
}  # fmt: skip


@pytest.hookimpl(tryfirst=True)  # before -m chooses
def pytest_collection_modifyitems(items):
    """Mark the tests of long modules; tests marked so where they stand take a minute, and begin first."""
    items.sort(key=lambda item: item.get_closest_marker("long") is None)
    for item in items:
        if item.path.stem in LONG:
            item.add_marker("long")


@pytest.fixture(scope="session")
def once(tmp_path_factory):
    """once(name, make): the folder of this name after make(folder), which only the first of all workers calls."""
    shared = tmp_path_factory.getbasetemp()
    if "PYTEST_XDIST_WORKER" in os.environ:
        shared = shared.parent

    def made(name, make):
        folder = shared / name
        with (shared / f"{name}.lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            if not (folder / "made").exists():  # else: anew after a failure
                folder.mkdir(exist_ok=True)
                make(folder)
                (folder / "made").touch()
        return folder

    return made
