"""Generated code under the address and undefined-behavior sanitizers."""

import os
import subprocess
import sys

import compilers
import pytest

FLAGS = ("-fsanitize=address,undefined", "-fno-sanitize-recover=all")

VALID_CODE = """
import array, pickle
import numpy as np
import dynamics_node as dn
from dynamics_node.codegen.c import batch_kernel, kernel
from dynamics_demo.robots import geared_chain
from robots import ROBOTS, random_states

kernel.QUICK = batch_kernel.QUICK = 0  # one order and one set of flags: instrumented code compiles slowly

for name, floating in (("ur5", False), ("double_pendulum", True)):
    model = ROBOTS[name]._replace(floating_base=floating).model()
    q, qd, qdd, f_ext = random_states(model, 3)
    problems = [dn.inverse_dynamics(model), dn.forward_dynamics(model)]
    for problem in problems[: 2 if floating else 1]:
        solve = dn.build(model, problem, backend="c", runtime_parameters=("inertia", "armature"), f_ext=True)
        for k in range(3):
            solve(q[k], qd[k], qdd[k])
            solve(q[k], qd[k], qdd[k], f_ext[k], gravity=np.array([1.0, 2.0, 3.0]), out=np.zeros(model.nv))
            solve(q[k].tolist(), qd[k], qdd[k])
        solve(q, qd, qdd)
        solve(q, qd, qdd, f_ext)
        if not floating:  # vectors read whole rows, past their ends but within the arrays
            for precision in ("float64", "float32"):
                solve_many = dn.build(model, problem, backend="c", precision=precision)
                for count in (64, 65, 79, 97):
                    solve_many(*(a.copy() for a in random_states(model, count)[:3]))
        one, new = solve.runner.call_one, solve.runner.call_new
        out = np.zeros(model.nv)
        for bad in (q[0][:-3], q, None, array.array("f", [0.0]), np.zeros(0), q[0] * np.nan, q[0] * 1e300, b"x"):
            one(bad, qd[0], qdd[0], model.gravity, out)
            one(q[0], qd[0], qdd[0], model.gravity, bad)
            new(tuple, bad, qd, qdd, model.gravity)
            new(tuple, q, bad, qdd, model.gravity)
            new(tuple, q[0], bad, qdd[0], model.gravity)
        one()
        one(q[0])
        new()
        new(tuple, q)
        new(tuple, q[:0], qd[:0], qdd[:0], model.gravity)
        pickle.loads(pickle.dumps(solve)).with_inertias(model)(q[0], qd[0], qdd[0])
    link = list(model.frames)[-1]
    pair = dn.build(model, "operational_space_inertia_inverse", backend="c", links=[link])
    assert pair(q[0]).jacobian.shape == pair(q).jacobian.shape[1:] == pair(q[0].tolist()).jacobian.shape
pendulum = dn.build(dn.parse_robot(geared_chain(1)), "forward_dynamics", backend="c")
for count in (1, 9, 17):
    pendulum.rollout(np.ones((count, 1)), [0.0], np.zeros((count, 3, 1)), 0.01, integrator="rk4")
print("through")
"""

INVALID_CODE = """
import numpy as np
from dynamics_node.codegen.c import Kernel
from dynamics_node.symbolic import trace
kernel = Kernel(trace(lambda x: {"y": np.sin(x) * x}, {"x": (64,)}))
kernel.run(np.zeros((3, 64))[:, :1].copy(), np.zeros((3, 64)))  # two of three states are missing
print("through")
"""


@pytest.fixture
def sanitized(tmp_path):
    """run(code): runs a Python process whose generated code is instrumented."""
    compilers.require("gcc", *FLAGS)
    query = subprocess.run(["gcc", "-print-file-name=libasan.so"], capture_output=True, text=True, check=True)
    asan = query.stdout.strip()
    compilers.require("gcc", under=("env", f"LD_PRELOAD={asan}"))
    compiler = tmp_path / "cc"
    compiler.write_text(f'#!/bin/sh\nexec gcc {" ".join(FLAGS)} "$@" -O0\n')
    compiler.chmod(0o755)

    def run(code):
        environment = {
            **os.environ,
            "CC": str(compiler),
            "XDG_CACHE_HOME": str(tmp_path),
            "LD_PRELOAD": asan,
            "ASAN_OPTIONS": "detect_leaks=0",
            "PYTHONPATH": os.pathsep.join(sys.path),
        }
        command = [sys.executable, "-c", code]
        return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=280)

    return run


@pytest.mark.timeout(300)
def test_generated_code_is_clean(sanitized):
    done = sanitized(VALID_CODE)
    assert done.returncode == 0 and done.stdout == "through\n", done.stderr[-4000:]
    assert "Sanitizer" not in done.stderr and "runtime error" not in done.stderr, done.stderr[-4000:]


def test_sanitizer_detects_a_short_array(sanitized):
    done = sanitized(INVALID_CODE)
    assert done.returncode != 0 and "AddressSanitizer" in done.stderr
