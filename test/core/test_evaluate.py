"""Quantities evaluated directly equal their Programs, for trees and for loops; undefined values raise."""

import numpy as np
import pytest
from robots import ROBOTS, closed_states, random_states, robot_of
from tolerances import EXACT

import dynamics_node as dn
from dynamics_demo.robots import four_bar
from dynamics_node.algorithms import QUANTITIES, quantity_program
from dynamics_node.symbolic import interpret

LOOPS = ("tilted five_bar", "differential", "belt_leg", "belt_chain")
LOOSER = dict.fromkeys(
    [
        "inverse_mass_matrix",
        "operational_space_inertia_inverse",
        "operational_space_inertia",
        "delassus_matrix",
        "delassus_inverse",
        "impact_dynamics",
    ],
    1e-9,
) | dict.fromkeys(
    [f"{kind}_dynamics{more}" for kind in ("forward", "hybrid") for more in ("", "_derivatives")], 1e-9
)


def robot_and_state(name):
    if name in LOOPS:
        robot = robot_of(name)
        q, qd, qdd = (a[0] for a in closed_states(robot, 1, reach=0.05))
    else:
        robot = ROBOTS[name].model()
        q, qd, qdd = (a[0] for a in random_states(robot, 1)[:3])
    return robot, {"q": q, "qd": qd, "qdd": qdd, "tau": 2.0 * qdd, "gravity": np.array([0.3, -0.2, -9.0])} | {
        "active": np.ones(1),
        "restitution": np.full(1, 0.5),
    }


def options(robot, quantity):
    last = list(robot.frames)[-1]
    values = {"link": last, "links": [last], "joint": robot.bodies[-1].joint.name, "reference": "body"}
    values |= {"redundant": "least", "forward_joints": [robot.independent_joints[0].name]}
    own = {name: value for name, value in values.items() if name in QUANTITIES[quantity].options}
    return own | ({"contacts": [dn.Contact(last)]} if "contacts" in QUANTITIES[quantity].needs else {})


@pytest.mark.parametrize("name", ["panda", "solo12", "double_pendulum", *LOOPS])
def test_quantities_equal_their_programs(name):
    robot, state = robot_and_state(name)
    loops = robot.constrained
    for quantity, row in QUANTITIES.items():
        if (loops and quantity == "sensor_wrench") or (robot.nv > 2 and "second" in quantity):
            continue  # an error, or slow to trace
        if robot.nv < 6 and quantity in ("operational_space_inertia", "delassus_inverse"):
            continue  # undefined
        program = quantity_program(robot, quantity, **options(robot, quantity))
        right = interpret(program, **{read: state[read] for read in row.reads})
        arrays = [state[read] for read in row.reads if read != "gravity"]
        gravity = state["gravity"] if "gravity" in row.reads else None
        results = dn.evaluate(
            robot, quantity, *arrays, gravity=gravity, **options(robot, quantity), backend="numpy"
        )
        assert row.result is None or isinstance(results, row.result)
        for result, array in zip(row.returns, results if row.result else (results,), strict=True):
            assert array.shape == right[result].shape and array.dtype == float
            scale = max(1e-6, np.abs(right[result]).max(initial=0.0))
            wrong = np.abs(array - right[result]).max(initial=0.0) / scale
            assert wrong <= LOOSER.get(quantity, EXACT), (quantity, result)


def test_singular_position_and_overflow_raise():
    flat = four_bar().replace('xyz="0.7 0 0"', 'xyz="0.9 0 0"').replace('xyz="0.3 0 0"', 'xyz="0.1 0 0"')
    flat = flat.replace('xyz="0.6 0 0"', 'xyz="0.1 0 0"').replace('xyz="0.8 0 0"', 'xyz="0.9 0 0"')
    mechanism = dn.parse_robot(flat)
    with pytest.raises(dn.SolutionError, match="singular.*pin"):
        dn.evaluate(mechanism, "gravity_torque", np.zeros(3), backend="numpy")
    robot, state = robot_and_state("panda")
    fast = np.full(robot.nv, 1e200)
    with pytest.raises(dn.SolutionError, match="finite"):
        dn.evaluate(robot, "joint_torque_regressor", state["q"], fast, state["qdd"], backend="numpy")
