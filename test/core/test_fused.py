"""Fused Programs: the same results in fewer operations of a processor."""

import numpy as np
import pytest
from parallel_robots import chain
from robots import ROBOTS

import dynamics_node as dn
from dynamics_demo.robots import ROBOTS as LINKAGES
from dynamics_node.algorithms import dynamics_programs, quantity_program
from dynamics_node.symbolic import Op, fused, interpret, trace
from dynamics_node.symbolic.expression import QUARTER
from dynamics_node.symbolic.fused import KINDS

PROBLEMS = {"inverse": dn.inverse_dynamics, "forward": dn.forward_dynamics}
MODELS = {
    "panda": lambda: ROBOTS["panda"].model(),
    "solo12": lambda: ROBOTS["solo12"].model(),
    "quadruped": lambda: dn.parse_robot(LINKAGES["quadruped"]()),
    "five_bar": lambda: dn.parse_robot(LINKAGES["five_bar"]()),
    "chain": lambda: chain(12),
}
RULES = {
    "add": lambda a, b: a + b, "mul": lambda a, b: a * b, "fma": lambda a, b, c: a * b + c,
    "reciprocal": lambda a: 1 / a,
}  # fmt: skip


def evaluate(fused_program, **inputs):
    """{output: array} of a Fused, computed in NumPy."""
    program = fused_program.program
    flat = np.concatenate([np.ravel(inputs[name]) for name in program.inputs])
    values = dict(enumerate([*flat, *program.constants]))

    def take(operand):
        return -values[operand.value] if operand.negative else values[operand.value]

    for kind, operands, numbers in fused_program.operations:
        a = [take(operand) for operand in operands]
        if kind == "sincos":
            results = np.sin(a[0]), np.cos(a[0])
            if len(a) == 2:
                s, c = np.sin(a[1]), np.cos(a[1])
                results = results[0] * c + results[1] * s, results[1] * c - results[0] * s
        else:
            results = (RULES[kind](*a),)
        values |= {number: value for number, value in zip(numbers, results, strict=True) if number >= 0}
    return {
        name: np.reshape([take(o) for o in operands], program.outputs[name].shape)
        for name, operands in fused_program.outputs.items()
    }


@pytest.mark.parametrize("problem", PROBLEMS)
@pytest.mark.parametrize("name", MODELS)
def test_results_equal_those_of_the_program(name, problem):
    robot = MODELS[name]()
    random = np.random.default_rng(3)
    for program in dynamics_programs(robot, PROBLEMS[problem](robot)).values():
        fused_program = fused(program)
        for _ in range(3):
            state = {n: random.uniform(-1, 1, shape) for n, shape in program.inputs.items()}
            expected = interpret(program, **state)
            for output, values in evaluate(fused_program, **state).items():
                scale = np.abs(expected[output]).max()
                np.testing.assert_allclose(values, expected[output], rtol=1e-9, atol=1e-11 * scale)


@pytest.mark.parametrize("name", MODELS)
def test_operations_are_saved(name):
    """All sums and divisions remain; products remain or join sums; a sine and its cosine are one operation."""
    robot = MODELS[name]()
    for program in dynamics_programs(robot, PROBLEMS["forward"](robot)).values():
        before, after = program.op_count(), fused(program).counts()
        assert list(after) == list(KINDS)
        assert after["add"] + after["fma"] == np.isin(program.ops, (Op.ADD, Op.SUB)).sum()
        assert after["reciprocal"] == before["div"]
        assert 0 < before["mul"] - after["mul"] <= after["fma"]
        assert after["sincos"] == max(before["sin"], before["cos"])
        assert sum(after.values()) < 0.75 * sum(before.values())


def test_product_joins_all_sums_or_none():
    """Two sums use x y: both take it. x z is also an output, so it stays."""

    def outputs_of(x):
        product, other = x[0] * x[1], x[0] * x[2]
        return {"a": product + x[2], "b": x[2] - product, "c": other, "d": other + x[1]}

    fused_program = fused(trace(outputs_of, {"x": (3,)}))
    assert fused_program.counts() == {"add": 1, "mul": 1, "fma": 2, "reciprocal": 0, "sincos": 0}
    outputs = evaluate(fused_program, x=np.array([2.0, 3.0, 5.0]))
    assert [float(outputs[n]) for n in "abcd"] == [11.0, -1.0, 10.0, 13.0]


def test_sum_takes_one_product():
    fused_program = fused(trace(lambda x: {"y": x[0] * x[1] - x[2] * x[3]}, {"x": (4,)}))
    assert fused_program.counts() == {"add": 0, "mul": 1, "fma": 1, "reciprocal": 0, "sincos": 0}
    assert evaluate(fused_program, x=np.array([2.0, 3.0, 5.0, 7.0]))["y"] == -29.0


def test_repeated_product_and_square():
    """A sum takes one of two equal products; a square joins its sum."""
    fused_program = fused(
        trace(lambda x: {"y": x[0] * x[1] + x[0] * x[1], "z": x[0] * x[0] + x[1]}, {"x": (2,)})
    )
    assert evaluate(fused_program, x=np.array([3.0, 5.0])) == {"y": 30.0, "z": 14.0}


def test_negations_are_signs():
    """No negation of inputs, sums, products or angles is an operation."""
    program = trace(
        lambda x: {"y": -(x[0] * x[1]) * np.sin(-x[2]), "z": -x[0], "w": -(1.0 / -x[1]) - (-(x[0] + x[2]))},
        {"x": (3,)},
    )
    fused_program, x = fused(program), np.array([2.0, 3.0, 0.5])
    assert sum(fused_program.counts().values()) < len(program.ops)
    outputs = evaluate(fused_program, x=x)
    for name, right in interpret(program, x=x).items():
        np.testing.assert_allclose(outputs[name], right, rtol=1e-15)


@pytest.mark.parametrize("quarters", range(-5, 6))
def test_quarter_turns_are_no_constants(quarters):
    """sin(x + quarters pi/2) is plus or minus a sine or cosine: one operation for all, exact for the largest angle."""
    offset = quarters * QUARTER

    def function(x):
        turned = [np.sin(x[0] + offset), np.cos(x[0] + offset), np.sin(x[0]), np.cos(x[0])]
        return {"y": np.array([*turned, np.sin(-x[0]), np.cos(-x[0])])}

    fused_program = fused(trace(function, {"x": (1,)}))
    assert fused_program.counts()["sincos"] == 1
    assert all(len(o.operands) == 1 for o in fused_program.operations)
    for angle in (0.3, -2.0, 1e5):
        s, c = np.sin(angle), np.cos(angle)
        turned = [(s, c), (c, -s), (-s, -c), (-c, s)][quarters % 4]
        np.testing.assert_array_equal(
            evaluate(fused_program, x=np.array([angle]))["y"], [*turned, s, c, -s, c]
        )


def test_other_constant_is_added_to_its_angle():
    fused_program = fused(trace(lambda x: {"y": np.sin(x[0] + 0.5) + np.cos(x[0] + 0.5)}, {"x": (1,)}))
    (turning, _) = fused_program.operations
    assert turning.kind == "sincos" and len(turning.operands) == 2 and min(turning.values) >= 0


def test_quantity_with_constants_and_inputs_among_its_outputs():
    robot = ROBOTS["panda"].model()
    program = quantity_program(robot, "frame_jacobian", link=robot.bodies[-1].name)
    q = np.random.default_rng(0).uniform(-1, 1, program.inputs["q"])
    outputs = evaluate(fused(program), q=q)
    for name, right in interpret(program, q=q).items():
        np.testing.assert_allclose(outputs[name], right, atol=1e-14)
