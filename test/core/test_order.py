"""Reordered operations, limb after limb or depth first: the same results with fewer live values."""

from dataclasses import replace

import numpy as np
import pytest
from parallel_robots import chain

import dynamics_node as dn
from dynamics_demo.robots import ROBOTS
from dynamics_node.algorithms import dynamics_programs, limb_after_limb, reordered
from dynamics_node.errors import ProgramError
from dynamics_node.symbolic import Op, depth_first, group_after_group, in_order, interpret, most_alive, trace

PROBLEMS = {"inverse": dn.inverse_dynamics, "forward": dn.forward_dynamics}


def _programs(name, problem):
    robot = dn.parse_robot(ROBOTS[name]())
    return robot, dynamics_programs(robot, PROBLEMS[problem](robot))


@pytest.mark.parametrize("problem", PROBLEMS)
@pytest.mark.parametrize("name", ["quadruped", "humanoid", "five_bar", "differential"])
def test_reordered_program_gives_the_same_numbers(name, problem):
    robot, programs = _programs(name, problem)
    random = np.random.default_rng(1)
    for program in programs.values():
        state = {n: random.uniform(-1, 1, (3, *shape)) for n, shape in program.inputs.items()}
        expected = interpret(program, **state)
        for other in (limb_after_limb(robot, program), depth_first(program)):
            results = interpret(other, **state)
            for output, values in expected.items():
                np.testing.assert_array_equal(results[output], values)
            assert other.limits == program.limits and other.op_count() == program.op_count()


@pytest.mark.usefixtures("every_way")
@pytest.mark.parametrize("name", ["humanoid"])
def test_reordered_robot_with_limbs_has_fewer_live_values(name):
    robot, programs = _programs(name, "inverse")
    (program,) = programs.values()
    assert most_alive(reordered(robot, program)) <= 0.6 * most_alive(program)


def test_chain_is_not_reordered():
    robot = chain(20)
    (program,) = dynamics_programs(robot, dn.inverse_dynamics(robot)).values()
    assert limb_after_limb(robot, program) is program
    assert reordered(robot, program) is None


def test_live_values_are_counted():
    """Of x y, x + y and their sum at most two values are live; inputs do not count."""
    program = trace(lambda x: {"z": x[0] * x[1] + (x[0] + x[1])}, {"x": (2,)})
    assert most_alive(program) == 2
    chain = trace(lambda x: {"z": ((x[0] * x[1]) * x[1]) * x[1]}, {"x": (2,)})
    assert most_alive(chain) == 1


def test_groups_follow_each_other():
    """Two alternating branches, a and b; the operation that needs both is last."""

    def function(a, b):
        p, q = a[0] * a[1], b[0] * b[1]
        p, q = p * p, q * q
        return {"z": np.array([p + q])}

    program = trace(function, {"a": (2,), "b": (2,)})
    groups = {"a": np.zeros(2, dtype=int), "b": np.ones(2, dtype=int)}
    ordered = group_after_group(program, groups, [-1, -1])
    branches = ["ab"[n >= 2] for n in ordered.left[[0, 2]].tolist()]
    assert branches == ["a", "b"] and ordered.left[1] == 4 and ordered.left[3] == 6


def test_depth_first_begins_with_the_longest_chain():
    """Two alternating chains, a long and a short one, and their difference: depth first computes the long chain first,
    so that only one value stays live."""

    def function(x, y):
        long, short = x[0] * x[1], y[0] * y[1]
        for _ in range(3):
            long, short = long * x[0], short + y[0] if _ == 0 else short
        return {"z": np.array([short - long])}

    program = trace(function, {"x": (2,), "y": (2,)})
    ordered = depth_first(program)
    operands = [set(pair) for pair in zip(ordered.left.tolist(), ordered.right.tolist(), strict=True)]
    assert operands == [{0, 1}, {4, 0}, {5, 0}, {6, 0}, {2, 3}, {8, 2}, {9, 7}]
    assert most_alive(ordered) == 2
    assert depth_first(ordered).digest() == ordered.digest()


def test_depth_first_inverse_dynamics_has_fewer_live_values():
    """A trace computes whole sweeps one after the other; depth first groups the operations of a torque."""
    robot = dn.parse_robot(ROBOTS["humanoid"]())
    (program,) = dynamics_programs(robot, dn.inverse_dynamics(robot)).values()
    assert most_alive(depth_first(program)) <= 0.8 * most_alive(program)


def test_depth_first_puts_unused_values_last():
    """Unused values come last; outputs that are inputs or constants need no operations."""
    base = trace(lambda x: {"y": np.array([x[0] * x[1], x[0] + x[1]])}, {"x": (2,)})
    program = replace(base, outputs={"y": np.array([3, 0])})
    ordered = depth_first(program)
    assert ordered.ops.tolist() == [Op.ADD, Op.MUL] and ordered.outputs["y"].tolist() == [2, 0]


def test_order_that_reads_undefined_values_raises_an_error():
    program = trace(lambda x: {"z": (x[0] * x[1]) * x[1]}, {"x": (2,)})
    with pytest.raises(ProgramError, match="before"):
        in_order(program, np.array([1, 0]))
