"""Permutations of rows and columns (paper 4), planned for the worst case and applied to numbers and symbols."""

import numpy as np
import pytest

pytest.importorskip("pinocchio", reason="the oracle: pip install pin")

from parallel_robots import chain
from robots import ROBOTS, random_states
from sensor_truth import sensor_problem_of
from tolerances import error, solved

import dynamics_node as dn
from dynamics_node.graph.estimate import estimate, plan_estimate
from dynamics_node.graph.permuted import inverse_of_transform
from dynamics_node.graph.pivot_search import NoPivotError, best_plan
from dynamics_node.graph.sensor_system import sensor_system, sensor_values
from dynamics_node.robot import sensors as s
from dynamics_node.symbolic import inverse_motion_transform, motion_transform, rpy_rotation


def system_of(model, sensors, count=6, seed=20):
    """(problem, system, state) at random states."""
    problem = sensor_problem_of(model, sensors)
    q, qd, _, _ = random_states(model, count, seed=seed)
    readings = np.random.default_rng(seed).uniform(-5, 5, (count, len(problem.readings)))
    return problem, sensor_system(model, problem, q, qd, readings), (q, qd, readings)


def joints(model, kind):
    names = [b.joint.name for b in model.bodies if b.joint.masters is None and not b.joint.type.is_free]
    return [kind(name, std=0.1) for name in names]


@pytest.mark.parametrize("n", range(2, 31, 4))
def test_plan_of_inverse_dynamics_has_no_fill(n):
    """Property 1 of paper 4."""
    _, system, _ = system_of(chain(n), joints(chain(n), s.JointAcceleration))
    plan = best_plan((*system.exact, *system.noisy))
    assert plan.fill == 0
    assert all(pivot.safe for pivot in plan.pivots)
    assert len(plan.pivots) == len(plan.columns)


@pytest.mark.parametrize("name", ["panda", "talos"])
@pytest.mark.parametrize("kind", [s.JointAcceleration, s.JointTorque])
def test_generic_plans_solve_inverse_and_forward_dynamics(name, kind):
    model = ROBOTS[name].model()
    sensors = joints(model, kind)
    if model.floating_base and kind is s.JointAcceleration:
        root = model.bodies[0].name
        sensors += [s.Accelerometer(root, std=0.1), s.AngularAcceleration(root, std=0.1)]
        sensors += [dn.Contact(root, "surface")]
    _, generic, _ = system_of(model, sensors)
    plan = plan_estimate(generic)
    problem, system, (q, qd, readings) = system_of(model, sensors, count=5, seed=1)
    values = sensor_values(model, system, estimate(plan, system).values)
    if kind is s.JointTorque:
        tau = values[1]
        right = dn.build(model, dn.forward_dynamics(model), backend="numpy")(q, qd, tau)
        assert np.all(
            error(values[0], right) <= solved(dn.evaluate(model, "mass_matrix", q, backend="numpy"))
        )
        assert np.all(tau[:, -len(joints(model, kind)) :] == readings)
    else:
        inverse = dn.build(model, dn.inverse_dynamics(model), backend="numpy", f_ext=True)
        right = inverse(q, qd, values[0], values[2])
        free = model.nv - len(joints(model, kind))
        assert error(values[1][:, free:], right[:, free:]).max() <= 1e-10
        assert np.abs(right[:, :free]).max(initial=0.0) <= 1e-8


def test_fill_of_long_chains_is_linear():
    """Fill-in is linear, as for articulated bodies; a greedy choice alone would be quadratic."""
    fills = []
    for n in (15, 30):
        _, system, _ = system_of(chain(n), joints(chain(n), s.JointTorque))
        fills.append(best_plan((*system.exact, *system.noisy)).fill)
    assert fills[1] < 2.2 * fills[0]


def test_wrench_is_propagated_outward_by_rotated_equations():
    """With a sensor at the root and an unknown wrench at the tip, no entry of a rotation is a pivot."""
    model = ROBOTS["panda"].model()
    tip = model.bodies[-1].name
    sensors = [
        *joints(model, s.JointAcceleration),
        s.ForceTorque(
            model.bodies[0].joint.name,
            measures="parent_to_child",
            std=0.1,
            xyz=(0.1, 0.2, 0.3),
            rpy=(0.1, 0.2, 0.3),
        ),
        dn.Contact(tip, "surface"),
    ]
    _, system, _ = system_of(model, sensors)
    plan = best_plan((*system.exact, *system.noisy))
    assert plan.weak == 0
    assert all(pivot.safe for pivot in plan.pivots)
    assert len(plan.steps) > len(plan.pivots)


def test_inverse_of_a_transform_permutes_its_entries():
    X = motion_transform(rpy_rotation([0.3, -1.2, 2.0]), np.array([0.2, 0.5, -0.7]))
    for T in (X, -X, X.T, -X.T):
        np.testing.assert_allclose(np.array(inverse_of_transform(T)) @ T, np.eye(6), atol=1e-14)
    np.testing.assert_allclose(inverse_of_transform(X), inverse_motion_transform(X), atol=1e-14)


def test_unobservable_variable_has_no_pivot():
    model = chain(3)
    _, system, _ = system_of(model, joints(model, s.JointTorque)[:2] + joints(model, s.JointTorque)[:1][:0])
    with pytest.raises(NoPivotError, match="equation"):
        best_plan((*system.exact, *system.noisy))


def test_precise_reading_dominates_a_contradicting_one():
    """Of two readings of one torque the precise one dominates, in either order."""
    model = chain(2)
    first, second = (joint.name for joint in model.independent_joints)
    fine, coarse = s.JointTorque(first, std=1e-3, name="fine"), s.JointTorque(first, std=10.0, name="coarse")
    known = [s.JointAcceleration(second, std=1.0)]
    for sensors in ([fine, coarse], [coarse, fine]):
        problem, system, (_, _, readings) = system_of(model, [*sensors, *known])
        plan = plan_estimate(system)
        assert len(plan.redundant) == 1
        tau = sensor_values(model, system, estimate(plan, system).values)[1]
        at = problem.readings.index("fine")
        np.testing.assert_allclose(tau[:, 0], readings[:, at], atol=1e-5)
