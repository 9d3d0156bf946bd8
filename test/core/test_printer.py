"""Plain C of a Program: what a C99 compiler without extensions makes of it is what NumPy computes."""

import ctypes
import subprocess

import compilers
import numpy as np
import pytest

compilers.require("cc", module=True)

from robots import ROBOTS, random_states

import dynamics_node as dn
from dynamics_node.algorithms import cheapest, dynamics_programs
from dynamics_node.codegen.printer import C99_DOUBLE, C99_FLOAT, straight_lines
from dynamics_node.symbolic import interpret, trace

FLAGS = ("-std=c99", "-pedantic-errors", "-Wall", "-Werror", "-Wno-unused-variable", "-O1")
PRECISIONS = [(C99_DOUBLE, np.float64, 1e-14), (C99_FLOAT, np.float32, 1e-5)]


def built(program, dialect, folder):
    """function(*arrays of the inputs): arrays of the outputs."""
    inputs = {name: f"in{k}[{{index}}]" for k, name in enumerate(program.inputs)}
    results = {name: f"out{k}[{{index}}] = {{value}};" for k, name in enumerate(program.outputs)}
    own = dialect.number
    arguments = [f"const {own} *in{k}" for k in range(len(inputs))]
    arguments += [f"{own} *out{k}" for k in range(len(results))]
    lines = straight_lines(program, inputs, results, dialect)
    text = ["#include <math.h>", f"void run({', '.join(arguments)})", "{", *lines, "}", ""]
    source, library = folder / f"{own}.c", folder / f"{own}.so"
    source.write_text("\n".join(text))
    subprocess.run(["cc", *FLAGS, "-fPIC", "-shared", "-o", library, source, "-lm"], check=True)
    run = ctypes.CDLL(library).run

    def call(*arrays):
        outputs = {name: np.empty(of.shape, arrays[0].dtype) for name, of in program.outputs.items()}
        run(*(ctypes.c_void_p(array.ctypes.data) for array in (*arrays, *outputs.values())))
        return outputs

    return call


@pytest.mark.parametrize(("dialect", "dtype", "tolerance"), PRECISIONS, ids=["double", "float"])
@pytest.mark.parametrize("kind", ["inverse", "forward"])
def test_a_panda_in_plain_c(dialect, dtype, tolerance, kind, tmp_path):
    robot = ROBOTS["panda7"].model()
    program = cheapest(dynamics_programs(robot, getattr(dn, f"{kind}_dynamics")(robot)))[1]
    run = built(program, dialect, tmp_path)
    for state in zip(*random_states(robot, 5, seed=6)[:3], strict=True):
        arrays = [np.array(array, dtype) for array in (*state, robot.gravity)]
        right = interpret(program, **dict(zip(program.inputs, map(np.float64, arrays), strict=True)))
        for name, result in run(*arrays).items():
            assert np.abs(result - right[name]).max() <= tolerance * max(1.0, np.abs(right[name]).max())


@pytest.mark.parametrize(("dialect", "dtype", "tolerance"), PRECISIONS, ids=["double", "float"])
def test_every_operation_in_plain_c(dialect, dtype, tolerance, tmp_path):
    def function(x, a):
        results = [x[0] + x[1], x[0] - x[1], x[0] * x[1], x[0] / x[1], -x[0], np.sin(x[0]), np.cos(x[1])]
        results += [np.sin(x[0] + 0.1), np.cos(x[1] - 0.7), np.sin(np.cos(x[0])), x[0] - 0.1, a * -3.3]
        return {"y": np.array(results), "same": x, "constant": np.array([-0.1, 2.0])}

    program = trace(function, {"x": (2,), "a": ()})
    x, a = np.array([0.3, -1.7], dtype), np.array(0.9, dtype)
    right = function(np.float64(x), np.float64(a))
    for name, result in built(program, dialect, tmp_path)(x, a).items():
        assert np.abs(result - right[name]).max() <= tolerance


def test_a_constant_beyond_floats_is_an_error():
    program = trace(lambda x: {"y": x * 1e200}, {"x": ()})
    with pytest.raises(ValueError, match="1e\\+200"):
        list(straight_lines(program, {"x": "x"}, {"y": "y = {value};"}, C99_FLOAT))


def test_outputs_may_be_left_out():
    program = trace(lambda x: {"y": x + 1.0, "z": x * 2.0}, {"x": ()})
    lines = list(straight_lines(program, {"x": "x"}, {"z": "z = {value};"}))
    assert lines[-1] == f"z = t{program.outputs['z']};" and not any(line.startswith("y") for line in lines)
