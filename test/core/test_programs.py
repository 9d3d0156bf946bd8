"""Inputs, outputs and parameters of Programs, for trees and for robots with loops."""

import numpy as np
import pytest
from robots import ROBOTS, random_states
from tolerances import EXACT, error

import dynamics_node as dn
from dynamics_demo.robots import five_bar, quadruped
from dynamics_node.algorithms import (
    QUANTITIES,
    derivative_program,
    dynamics_programs,
    first_closed,
    parameter_values,
    quantity_programs,
)
from dynamics_node.robot import KINDS, named
from dynamics_node.robot.inertial_parameters import with_parameters
from dynamics_node.symbolic import interpret

TREES = ("panda7", "panda", "solo12")
LOOPS = {"five_bar": five_bar(), "quadruped": quadruped()}
PARAMETERS = ("inertia", "armature")


def robot_of(name):
    return dn.parse_robot(LOOPS[name]) if name in LOOPS else ROBOTS[name].model()


def problems(robot):
    """All problems of the robot."""
    joints = [joint.name for joint in robot.independent_joints]
    return [named(kind, robot, joints[: max(1, len(joints) // 2)]) for kind in KINDS]


def state(robot, seed=1):
    """{name: array} of a state; the loops are closed."""
    tree = robot.tree
    q, qd, qdd, f_ext = (a[0] for a in random_states(tree, 1, seed))
    if robot is not tree:
        q = first_closed(robot, robot.neutral())
    n = robot.nv
    tau = np.random.default_rng(seed).uniform(-1, 1, n)
    return {"q": q, "qd": qd[:n], "qdd": qdd[:n], "tau": tau, "gravity": robot.gravity, "f_ext": f_ext}


@pytest.mark.parametrize("name", [*TREES, *LOOPS])
def test_program_has_the_inputs_and_outputs_of_its_problem(name):
    """Hybrid results are complete: they include the known values unchanged."""
    robot = robot_of(name)
    given = state(robot)
    for problem in problems(robot):
        forward = np.array(problem.forward)
        results = {}
        for way, program in dynamics_programs(robot, problem, wrenches=True).items():
            assert program.inputs == problem.reads(robot, wrenches=True)
            shapes = {name: numbers.shape for name, numbers in program.outputs.items() if name != "health"}
            assert shapes == problem.returns(robot)
            assert ("health" in program.outputs) == bool(program.limits) == robot.constrained
            results[way] = interpret(program, **given)
            assert np.all(results[way].get("health", np.zeros(0)) <= program.limits)
            if problem.kind == "hybrid":
                assert np.array_equal(results[way]["qdd"][~forward], given["qdd"][~forward])
                assert np.array_equal(results[way]["tau"][forward], given["tau"][forward])
        first, *others = results.values()
        for other in others:
            assert all(error(other[name], first[name]) <= 1e-9 for name in problem.returns(robot))


def test_inputs_are_in_order():
    """The inputs are q, qd, the known values, gravity and wrenches, in this order."""
    model = ROBOTS["ur5"].model()
    inverse, forward, hybrid = (list(problem.reads(model, wrenches=True)) for problem in problems(model))
    assert inverse == ["q", "qd", "qdd", "f_ext", "gravity"]
    assert forward == ["q", "qd", "tau", "f_ext", "gravity"]
    assert hybrid == ["q", "qd", "qdd", "tau", "f_ext", "gravity"]


def test_named():
    model = ROBOTS["ur5"].model()
    assert named("inverse", model) == dn.inverse_dynamics(model)
    assert named("forward", model, ["ignored"]) == dn.forward_dynamics(model)
    with pytest.raises(ValueError, match="'static'.*inverse, forward, hybrid"):
        named("static", model)
    with pytest.raises(ValueError, match="'nobody'"):
        named("hybrid", model, ["nobody"])


def loaded(robot):
    """The robot with a payload and other rotors."""
    tree = robot.tree
    more = dn.with_payload(tree, tree.bodies[-1].name, 2.5, [0.1, -0.2, 0.3], np.diag([0.02, 0.03, 0.04]))
    rotors = np.zeros(tree.nv)
    for joint in tree.independent_joints:
        rotors[joint.v] = 0.0 if joint.kind == "floating" else 0.3
    more = with_parameters(more, more.inertias, rotors)
    return more if robot is tree else robot.with_tree(more)


@pytest.mark.parametrize("name", ["panda", "solo12", *LOOPS])
def test_parameters_follow_a_payload(name):
    """The Program of a bare robot with inertias as inputs agrees with that of the loaded robot."""
    bare = robot_of(name)
    other, given = loaded(bare), state(bare)
    values = parameter_values(other)
    link = other.bodies[-1].name
    linked = ("jacobian", "jacobian_time_derivative", "pose", "kinematics", "jacobian_bias")
    options = {f"frame_{key}": {"link": link} for key in linked}
    options["operational_space_inertia_inverse"] = {"links": [link]}
    options["reaction_wrenches"] = {"redundant": "least"}
    given |= {"active": np.ones(1), "restitution": np.full(1, 0.5)}
    large = {name for name, own in QUANTITIES.items() if own.problem}  # see below
    large |= {"operational_space_inertia", "delassus_inverse"}  # inverses of others
    options |= {name: {"contacts": [dn.Contact(link)]} for name in ("delassus_matrix", "impact_dynamics")}
    large -= {"inverse_dynamics_second_derivatives"} if bare.nv <= 2 else set()
    if bare.nv > 12:
        large |= {"coriolis_matrix", "center_of_mass_motion"}
        large |= {"spatial_momentum_matrix", "centroidal_momentum_matrix"}
    for quantity in (name for name, own in QUANTITIES.items() if own.view is None):
        if quantity in large:
            continue
        given |= parameter_values(other, regrouped=QUANTITIES[quantity].regrouped)
        more = options.get(quantity, {})
        ways = quantity_programs(other, quantity, **more)
        for way, program in quantity_programs(bare, quantity, PARAMETERS, **more).items():
            results, right = (interpret(one, **given) for one in (program, ways[way]))
            for result in QUANTITIES[quantity].returns:
                wrong = error(results[result], right[result], tail=results[result].ndim)
                assert wrong <= 1e-9, (quantity, way)
    given |= values
    for problem in problems(bare):
        (results, *_), (right, *_) = (
            [interpret(p, **given)[next(iter(problem.returns(bare)))] for p in programs.values()]
            for programs in (
                dynamics_programs(bare, problem, parameters=PARAMETERS),
                dynamics_programs(other, problem),
            )
        )
        assert error(results, right) <= max(EXACT, 1e-9)
    for problem in problems(bare) if bare.nv < 9 else ():
        results, right = (
            interpret(derivative_program(robot, problem, parameters=parameters), **given)
            for robot, parameters in ((bare, PARAMETERS), (other, ()))
        )
        for result in ("dq", "dqd", "dknown"):
            assert error(results[result], right[result], tail=2) <= 1e-8, (problem.kind, result)


def test_unknown_quantity_or_link_is_named():
    model = ROBOTS["ur5"].model()
    with pytest.raises(ValueError, match="'inertia'.*inverse_dynamics"):
        quantity_programs(model, "inertia")
    with pytest.raises(KeyError, match="'tool'"):
        quantity_programs(model, "frame_jacobian", link="tool")
