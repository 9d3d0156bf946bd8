"""Systems of every kind for tests of trajectory factors, and their states."""

from functools import cache

import numpy as np
import planar_oracle
from balls import ankle, ball_robot
from four_bar import four_bar
from linkages import parallelograms
from mechanisms import joint, link, loop
from mechanisms import robot as urdf
from natural_coordinates import Angle, Bar, Slider, planar_system
from robots import LOOPS, closed_states
from robots import robot_of as robot_by_name

import dynamics_node as dn
from dynamics_demo.robots import quadruped
from dynamics_node.algorithms.rates import spread_rates
from dynamics_node.robot.state_arrays import sample_positions
from dynamics_node.trajectory.systems import robot_system


def scotch_yoke():
    """A crank A P and a rod S E: S slides along the ground and P along the rod, one slider of each kind."""
    return planar_system(
        "slides",
        {"A": (0.0, 0.0), "G": (5.0, 1.0), "H": (-5.0, 1.0), "P": None, "S": None, "E": None},
        (
            Bar("A", "P", 0.7, mass=1.3, com=(0.3, 0.1), inertia=0.2),
            Bar("S", "E", 2.5, mass=0.9),
            Slider("S", "G", "H"),
            Slider("P", "S", "E"),
            Angle("crank", "A", "P"),
        ),
        independent=("crank", "x S"),
        masses={"S": 0.4},
        gravity=(0.3, -9.81),
    )


def spherical_linkage():
    """Four hinges with intersecting axes: the loop has more equations than dependent joints."""
    axes = ("0 0 1", "0.6 0 0.8", "0 0.8 0.6", "0 -0.6 0.8")
    parts, above = [link("l0")], "l0"
    for k, axis in enumerate(axes[:3]):
        parts += [link(f"l{k + 1}", k + 1, 1.0), joint(f"j{k + 1}", above, f"l{k + 1}", axis=axis)]
        above = f"l{k + 1}"
    return urdf(
        *parts, loop("tie", "revolute", "l0", "0 -0.3 0.4", above, "0 -0.3 0.4", axes[3]), name="spherical"
    )


def floating_arm():
    parts = [link("base", 1, 2.0, solid=True), link("arm", 2, 1.0, solid=True)]
    return urdf(*parts, joint("j1", "base", "arm", "0.1 0.2 0.3", "0.6 0 0.8"), name="floating")


PLANAR = {"paper": four_bar, "slides": scotch_yoke}
TEXTS = {
    "quadruped": lambda: dn.parse_robot(quadruped(), floating_base=True),
    "balls": lambda: dn.parse_robot(ball_robot(1), armature={"j1": 0.04}),
    "floating": lambda: dn.parse_robot(floating_arm(), floating_base=True),
    "floating balls": lambda: dn.parse_robot(ball_robot(3), floating_base=True),
    "ankle": lambda: dn.parse_robot(ankle()),
    "spherical": lambda: dn.parse_robot(spherical_linkage()),
    "parallelograms": lambda: dn.parse_robot(parallelograms(np.random.default_rng(2)).text),
}
TREES = ("panda7", "panda", "double_pendulum", "solo12", "floating", "balls", "floating balls")
MECHANISMS = (*LOOPS, "quadruped", "ankle", "parallelograms", "spherical")


@cache
def robot_of(name):
    if name in TEXTS:
        return TEXTS[name]()
    return robot_by_name(name)


@cache
def system_of(name):
    return PLANAR[name]() if name in PLANAR else robot_system(robot_of(name))


def position(name, random):
    """A random q of a tree, or a closed q of a mechanism near zero."""
    if name in PLANAR:
        return planar_position(name, random)
    robot = robot_of(name)
    if not robot.constrained:
        return sample_positions(robot, 1, random)[0]
    if name in LOOPS:
        return closed_states(robot)[0][random.integers(4)]
    tree = robot.tree
    return dn.close_loops(robot, system_of(name).q.moved(tree.neutral(), random.uniform(-0.1, 0.1, tree.nv)))


def planar_position(name, random):
    z = random.uniform(-3, 3, 1) if name == "paper" else random.uniform((-3, -2.2), (3, -1.5))
    return planar_oracle.KNOWN[name][0](z)


def rates(name, q, random):
    """qd, qdd (n,) that satisfy the constraints, by a dense K; tau (nv,)."""
    system = system_of(name)
    n, independent, dependent = len(system.directions), list(system.independent), list(system.dependent)
    qd, qdd, tau = random.normal(size=(3, n))
    qd[dependent] = qdd[dependent] = 0.0
    if dependent:
        K = np.stack([values(system, "velocities", q, one) for one in np.eye(n)], axis=-1)
        qd[dependent] = np.linalg.solve(K[:, dependent], -K[:, independent] @ qd[independent])
        rest = values(system, "accelerations", q, qd, qdd)
        qdd[dependent] = np.linalg.solve(K[:, dependent], -rest)
    return qd, qdd, tau[independent]


def accelerations(name, q, qd, tau):
    """qdd (n,) of all directions under torques (nv,)."""
    if name in PLANAR:
        return values(system_of(name), "forward", q, qd, tau)
    robot = robot_of(name)
    q, yd = q.copy(), qd[robot.independent]
    for _, at in robot.quaternions:
        q[at] /= np.linalg.norm(q[at])
    return spread_rates(robot, q, yd, _forward(robot)(q, yd, tau))[1]


@cache
def _forward(robot):
    return dn.build(robot, "forward_dynamics", backend="numpy")


def values(system, function, *arrays):
    return _run(system, function, tuple(len(x) for x in arrays))(*arrays)


@cache
def _run(system, function, sizes):
    from dynamics_node.symbolic import interpret, trace

    names = [f"x{k}" for k in range(len(sizes))]
    shapes = {name: (size,) for name, size in zip(names, sizes, strict=True)}
    program = trace(lambda **x: {"f": getattr(system, function)(*(x[name] for name in names))}, shapes)
    return lambda *arrays: interpret(program, **dict(zip(names, arrays, strict=True)))["f"]
