"""Robots with closed loops, gears and belts, each read once, and states of them."""

from functools import cache

import numpy as np
from mechanisms import spatial_loop

import dynamics_node as dn
from dynamics_demo.robots import belt_chain, belt_leg, differential, five_bar, four_bar, geared_chain
from dynamics_node.algorithms.rates import spanning_program
from dynamics_node.symbolic import interpret

PLANAR = {"four_bar": four_bar(), "five_bar": five_bar(), "tilted five_bar": five_bar((0.4, 0.7, -0.3))}
GEARED = {"geared_chain": geared_chain(4), "belt_chain": belt_chain(2), "belt_leg": belt_leg()}
SPATIAL = {
    kind: spatial_loop(kind) for kind in ("revolute", "prismatic", "universal", "ball", "planar", "rod")
}
GEARS = {  # {robot: (rotor, ratio, joints whose sum it turns with)}, as the texts say
    "geared_chain": [(f"m{k}", 6.0, [f"j{k}"]) for k in range(1, 5)],
    "belt_chain": [
        (f"m{pair}", 4.0, joints)
        for k in (1, 2)
        for pair, joints in ((f"a{k}", [f"ja{k}"]), (f"b{k}", [f"ja{k}", f"jb{k}"]))
    ],
    "belt_leg": [
        (f"leg_{part}_rotor_joint", ratio, [f"leg_{joint}_joint" for joint in joints])
        for part, ratio, joints in (
            ("thigh", 6.0, ["thigh"]),
            ("shank", -12.0, ["shank"]),
            ("foot", 12.0, ["shank", "foot"]),
        )
    ],
}
ALL = {**PLANAR, **GEARED, "differential": differential(), **SPATIAL}


@cache
def mechanism_of(name):
    """The Robot of a text of ALL."""
    return dn.parse_robot(ALL[name])


def states(mechanism, count=4, seed=3, reach=0.25):
    """Closed positions near the assembled one, and rates."""
    random = np.random.default_rng(seed)
    start = dn.close_loops(mechanism, np.full(mechanism.nq, 0.0 if mechanism.name in SPATIAL else 0.1))
    q = start + np.zeros((count, 1))
    q[:, [mechanism.tree.independent_joints[v].q.start for v in mechanism.independent]] += random.uniform(
        -reach, reach, (count, mechanism.nv)
    )
    return dn.close_loops(mechanism, q), *random.uniform(-1, 1, (2, count, mechanism.nv))


def spread(mechanism, q, yd):
    """G and g of qd = G yd, qdd = G ydd + g, of one state, over the joints of the tree."""
    found = interpret(spanning_program(mechanism, judged=True), q=q, qd=yd, qdd=np.zeros(mechanism.nv))
    return found["G"], found["accelerations"]


def spread_to_all(mechanism, q, yd):
    """The same over every joint, explicit ones too, in the order of the bodies."""
    G, g = spread(mechanism, q, yd)
    return mechanism.joint_map @ G, mechanism.joint_map @ g
