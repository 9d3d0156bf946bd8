"""Operations limb after limb: the same results, fewer values alive."""

import numpy as np
import pytest
from generic_chains import chain

import dynamics_node as dn
from dynamics_node.program import (
    ProgramError,
    depth_first,
    group_after_group,
    in_order,
    interpret,
    most_alive,
    trace,
)
from dynamics_node.programs import dynamics_programs, limb_after_limb, reordered
from dynamics_node.robots import ROBOTS

PROBLEMS = {"inverse": dn.inverse_dynamics, "forward": dn.forward_dynamics}


def _programs(name, problem):
    robot = dn.parse_robot(ROBOTS[name]())
    return robot, dynamics_programs(robot, PROBLEMS[problem](robot))


@pytest.mark.parametrize("problem", PROBLEMS)
@pytest.mark.parametrize("name", ["quadruped", "humanoid", "five_bar", "differential"])
def test_another_order_gives_the_same_numbers(name, problem):
    robot, programs = _programs(name, problem)
    random = np.random.default_rng(1)
    for program, other in (
        (p, f(p)) for p in programs.values() for f in (depth_first, lambda p: limb_after_limb(robot, p))
    ):
        state = {n: random.uniform(-1, 1, (3, *shape)) for n, shape in program.inputs.items()}
        found, expected = interpret(other, **state), interpret(program, **state)
        for output, values in expected.items():
            np.testing.assert_array_equal(found[output], values)
        assert other.limits == program.limits and other.op_count() == program.op_count()


@pytest.mark.usefixtures("every_way")
@pytest.mark.parametrize("name", ["humanoid"])
def test_a_robot_with_limbs_keeps_fewer_values(name):
    robot, programs = _programs(name, "inverse")
    (program,) = programs.values()
    assert most_alive(reordered(robot, program)) <= 0.6 * most_alive(program)


def test_a_chain_has_one_order():
    robot = chain(20)
    (program,) = dynamics_programs(robot, dn.inverse_dynamics(robot)).values()
    assert limb_after_limb(robot, program) is program
    assert reordered(robot, program) is None


def test_values_alive_are_counted():
    """x y, x + y, and their sum: two are alive when the second is there, three inputs count nothing."""
    program = trace(lambda x: {"z": x[0] * x[1] + (x[0] + x[1])}, {"x": (2,)})
    assert most_alive(program) == 2
    chain = trace(lambda x: {"z": ((x[0] * x[1]) * x[1]) * x[1]}, {"x": (2,)})
    assert most_alive(chain) == 1


def test_depth_first_computes_what_an_output_needs_just_before_it():
    """The operand that takes longer comes first, what no output needs last."""

    def function(x):
        p, q, r = x[0] * x[1], x[1] * x[2], x[0] * x[2]
        return {"z": np.array([r + 1.0, p + q * q])}

    program = trace(function, {"x": (3,)})
    ordered = depth_first(program)
    names = {(0, 1): "p", (1, 2): "q", (0, 2): "r"}
    operands = list(zip(ordered.left.tolist(), ordered.right.tolist(), strict=True))
    assert [names.get(pair, "") for pair in operands] == ["r", "", "q", "", "p", ""]


def test_groups_come_one_after_the_other():
    """Two branches, a and b, traced by turns; what needs both is last."""

    def function(a, b):
        p, q = a[0] * a[1], b[0] * b[1]
        p, q = p * p, q * q
        return {"z": np.array([p + q])}

    program = trace(function, {"a": (2,), "b": (2,)})
    groups = {"a": np.zeros(2, dtype=int), "b": np.ones(2, dtype=int)}
    ordered = group_after_group(program, groups, [-1, -1])
    branches = ["ab"[n >= 2] for n in ordered.left[[0, 2]].tolist()]
    assert branches == ["a", "b"] and ordered.left[1] == 4 and ordered.left[3] == 6


def test_an_order_that_uses_what_is_not_there_is_refused():
    program = trace(lambda x: {"z": (x[0] * x[1]) * x[1]}, {"x": (2,)})
    with pytest.raises(ProgramError, match="before it is computed"):
        in_order(program, np.array([1, 0]))
