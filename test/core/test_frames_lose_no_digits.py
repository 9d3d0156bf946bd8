"""Accuracy with reduced frames: the compiled arithmetic against NumPy in the URDF's frames.

`interpret` runs the same operations on the same constants as compiled code.
"""

from dataclasses import replace

import numpy as np
import pytest
from mechanisms import joint, link, robot
from robots import random_states
from scipy.spatial.transform import Rotation
from tolerances import error, solved

import dynamics_node as dn
from dynamics_node.algorithms import dynamics_programs, rnea
from dynamics_node.robot.reframe import reframe
from dynamics_node.robot.transforms import fixed_turns
from dynamics_node.symbolic import interpret, transform_origin


def results_of_programs(model, problem, q, qd, known):
    """The results of inverse or forward dynamics by every Program."""
    (output,) = problem.returns(model)
    for program in dynamics_programs(model, problem).values():
        yield interpret(program, q=q, qd=qd, qdd=known, tau=known, gravity=model.gravity)[output]


def chain(*joints, mass=1.0):
    """Links b0, b1, ... and the joints between them, each given by its keywords. A joint without an axis is fixed."""
    links = [link(f"b{k}", k, mass) for k in range(len(joints) + 1)]
    ends = [
        joint(f"j{k}", f"b{k}", f"b{k + 1}", kind="revolute" if "axis" in options else "fixed", **options)
        for k, options in enumerate(joints)
    ]
    return robot(*links, *ends)


@pytest.mark.parametrize("tilt", [1e-2, 1e-4, 1e-6, 1e-8, 1e-10, 1e-12, 3e-13, 1e-14])
def test_turns_of_a_rotation_almost_about_z(tilt):
    """The first and the last turn are ill-determined separately; only their product matters."""
    mount = Rotation.from_euler("xyz", [0.4, 0.5, 0.6])
    back = mount.inv() * Rotation.from_euler("zxz", [0.7, tilt, 0.4])
    E = mount.as_matrix() @ back.as_matrix()
    turns = [turn.E.astype(float) for turn in fixed_turns(E)]
    assert np.abs(np.linalg.multi_dot([np.eye(3), np.eye(3), *turns]) - E).max() < 1e-13


@pytest.mark.parametrize("digits", [8, 10, 12])
def test_mount_and_joint_that_almost_cancel(digits):
    """Their product, rounded to these digits, is a tiny angle to the z axis of a floating base."""
    back = Rotation.from_euler("xyz", [0.4, 0.5, 0.6]).inv().as_euler("xyz")
    words = " ".join(f"{x:.{digits}f}" for x in back)
    mount = {"xyz": "0.1 0.2 0.3", "rpy": "0.4 0.5 0.6"}
    text = chain(mount, {"xyz": "0 0.1 0", "rpy": words, "axis": "0 0 1"})
    model = dn.parse_robot(text, floating_base=True)
    q, qd, qdd, _ = random_states(model, 20)
    for tau in results_of_programs(model, dn.inverse_dynamics(model), q, qd, qdd):
        assert error(tau, rnea(model, q, qd, qdd)).max() <= 1e-13


@pytest.mark.parametrize("angle", [0.011, 0.03, 0.0999, 0.101])
def test_common_normals_of_nearly_parallel_axes_are_near(angle):
    """Light links on long arms."""
    hinge = {"xyz": "3 2 1", "rpy": f"{angle} 0 0", "axis": "0 0 1"}
    model = dn.parse_robot(chain(hinge, hinge, mass=0.01))
    reach = [np.abs(transform_origin(body.X_tree)).max() for body in reframe(model)[0].bodies]
    assert max(reach) < 40
    q, qd, qdd, _ = random_states(model, 20)
    expected = rnea(model, q, qd, qdd)
    for tau in results_of_programs(model, dn.inverse_dynamics(model), q, qd, qdd):
        assert error(tau, expected).max() <= 1e-11
    for accelerations in results_of_programs(model, dn.forward_dynamics(model), q, qd, expected):
        assert np.all(
            error(accelerations, qdd) <= solved(dn.evaluate(model, "mass_matrix", q, backend="numpy"))
        )


@pytest.mark.parametrize("tilt", [4e-13, 1e-11, 1e-6])
def test_axis_near_a_coordinate_axis_is_not_rounded(tilt):
    """Pinocchio is no oracle below 1e-12; a wrench on the only link has a known component along the axis."""
    model = dn.parse_robot(chain({"axis": f"{tilt} 0 1"}, mass=1e-9))
    wrench = np.array([1e3, 0.0, 0.0, 0.0, 0.0, 0.0])  # on the link; along the axis it is tilt times that
    for program in dynamics_programs(model, dn.inverse_dynamics(model), wrenches=True).values():
        still = np.zeros(1)
        outputs = interpret(program, q=still, qd=still, qdd=still, f_ext=wrench[None], gravity=np.zeros(3))
        np.testing.assert_allclose(outputs["tau"], -1e3 * tilt, rtol=1e-3)


@pytest.mark.parametrize("size", [1.0, 1e3, 1e6, 1e12, 1e20])
def test_large_angles_lose_no_digits(size):
    """Offsets of reduced frames are not added to the angles."""
    hinges = [{"xyz": "0.3 0.2 0.1", "rpy": f"0.{k} 0.2 0.7", "axis": f"0 {k} 1"} for k in range(1, 4)]
    model = dn.parse_robot(chain(*hinges))
    assert all(body.joint.offset for body in reframe(model)[0].bodies)
    q, qd, qdd, _ = random_states(model, 100)
    q = size * q
    expected = rnea(model, q, qd, qdd)
    for tau in results_of_programs(model, dn.inverse_dynamics(model), q, qd, qdd):
        assert error(tau, expected).max() <= 1e-13
    for solver in (dn.build(model, dn.inverse_dynamics(model), backend=b) for b in ("c", "numpy")):
        assert error(solver(q, qd, qdd), expected).max() <= 1e-13
        one_by_one = [solver(*state) for state in zip(q, qd, qdd, strict=True)]
        assert error(one_by_one, expected).max() <= 1e-13


def test_large_angles_of_long_robots():
    hinges = [{"xyz": "0.3 0.2 0.1", "rpy": f"0.{k % 9} 0.2 0.7", "axis": "0 1 1"} for k in range(60)]
    model = dn.parse_robot(chain(*hinges))
    solver = dn.build(model, dn.inverse_dynamics(model), backend="c")
    q, qd, qdd, _ = random_states(model, 5)
    for size in (1.0, 1e8):
        assert error(solver(size * q, qd, qdd), rnea(model, size * q, qd, qdd)).max() <= 1e-12


@pytest.mark.parametrize("exponent", [-7, -10, -14])
def test_robots_of_any_size(exponent):
    """Lengths, masses and gravity times s, s^3 and s: torques are those of the large robot times s^5."""
    scale = 2.0**exponent

    def arm(scale):
        parts = [link("b0")]
        for k in range(1, 4):
            place = f"{0.3 * scale:.17g} {0.1 * scale:.17g} 0"
            parts.append(
                f'<link name="b{k}"><inertial><origin xyz="{place}"/><mass value="{0.1 * k * scale**3:.17g}"/>'
                f'<inertia ixx="{1e-4 * scale**5:.17g}" iyy="{3e-4 * scale**5:.17g}" izz="{2e-4 * scale**5:.17g}" '
                f'ixy="{1e-5 * scale**5:.17g}" ixz="0" iyz="0"/></inertial></link>'
            )
            parts.append(joint(f"j{k}", f"b{k - 1}", f"b{k}", xyz=place, rpy=f"0.{k} 0.2 0", axis="0 1 1"))
        return replace(dn.parse_robot(robot(*parts)), gravity=scale * np.array([0.0, 0.0, -9.81]))

    large, small = arm(1.0), arm(scale)
    q, qd, qdd, _ = random_states(large, 20)
    expected = rnea(large, q, qd, qdd)
    for tau in results_of_programs(small, dn.inverse_dynamics(small), q, qd, qdd):
        assert error(tau / scale**5, expected).max() <= 1e-12
    M = dn.evaluate(large, "mass_matrix", q, backend="numpy")
    smaller = dn.evaluate(small, "mass_matrix", q, backend="numpy") / scale**5
    assert error(smaller, M, tail=2).max() <= 1e-12
    for accelerations in results_of_programs(small, dn.forward_dynamics(small), q, qd, expected * scale**5):
        assert np.all(error(accelerations, qdd) <= solved(M))


@pytest.mark.parametrize("seed", range(3))
def test_operations_do_not_depend_on_last_digits(seed):
    """Zeros stay zeros for any rounding of sines and products in NumPy."""
    random = np.random.default_rng(3)
    hinges = [{"xyz": _words(random), "rpy": _words(random), "axis": _words(random)} for _ in range(20)]
    model = dn.parse_robot(chain(*hinges, mass=20.0))
    digits = np.random.default_rng(seed)
    other = replace(model, bodies=tuple(_perturbed(body, digits) for body in model.bodies))
    for problem in (dn.inverse_dynamics(model), dn.forward_dynamics(model)):
        one, two = (next(iter(dynamics_programs(m, problem).values())).op_count() for m in (model, other))
        assert one == two


def _words(random):
    return " ".join(f"{x:.3f}" for x in random.normal(size=3))


def _perturbed(body, random):
    """The body with other last digits."""
    X, inertia = (a * (1 + 2e-16 * random.integers(-1, 2, (6, 6))) for a in (body.X_tree, body.inertia))
    return replace(body, X_tree=X, inertia=(inertia + inertia.T) / 2)
