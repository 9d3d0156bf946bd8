"""Robots with ball joints as URDF+ text."""

import numpy as np
from mechanisms import joint, link, loop, numbers, robot

KINDS = ("ball", "ball", "revolute", "continuous", "prismatic", "fixed")


def ball_robot(seed, joints=5, kinds=KINDS):
    """URDF+ text of a random tree whose first joint is a ball."""
    random = np.random.default_rng(seed)
    parts = [link("l0", 0, 1.0)]
    for k in range(1, joints + 1):
        kind = "ball" if k == 1 else str(random.choice(kinds))
        parent = f"l{k - 1 if random.random() < 0.7 else random.integers(k)}"
        place, axis, turn = np.round(random.uniform(-0.5, 0.5, (3, 3)), 3)
        parts.append(link(f"l{k}", 100 * seed + k, float(np.round(random.uniform(0.3, 3), 2)), solid=True))
        parts.append(
            joint(f"j{k}", parent, f"l{k}", numbers(place), numbers(axis), kind, rpy=numbers(3 * turn))
        )
    return robot(*parts, name=f"balls{seed}")


def leg():
    """A hip (a ball joint) and a knee."""
    parts = [link("hips"), link("thigh", 1, 2.0, solid=True), link("shank", 2, 1.0, solid=True)]
    parts += [
        joint("hip", "hips", "thigh", kind="ball"),
        joint("knee", "thigh", "shank", "0 0 -0.4", "0 1 0"),
    ]
    return robot(*parts, name="leg")


def ankle():
    """A foot on a ball joint, and two pistons from the shin to it; the foot determines them."""
    parts = [link("shin"), link("foot", 1, 1.5, solid=True), joint("ball", "shin", "foot", kind="ball")]
    for k, y in enumerate(("0.1", "-0.1")):
        bodies = [f"{name}{k}" for name in ("cross", "tube", "piston")]
        kinds = (("revolute", "1 0 0"), ("revolute", "0 1 0"), ("prismatic", "0 0 1"))
        above = "shin"
        for j, (body, (kind, axis)) in enumerate(zip(bodies, kinds, strict=True)):
            xyz = f"-0.2 {y} 0.4" if j == 0 else "0 0 0"
            parts += [
                link(body, 10 * k + j + 2, 0.3, solid=True),
                joint(f"j_{body}", above, body, xyz, axis, kind),
            ]
            above = body
        parts.append(loop(f"tie{k}", "ball", above, "0 0 -0.4", "foot", f"-0.2 {y} 0"))
    return robot(*parts, name="ankle")


def rssr(independent=None):
    """A crank and a rocker with a rod between, on ball joints: the rod also rotates about itself."""
    return robot(
        link("ground"),
        link("crank", 1, 1.0, solid=True),
        link("rod", 2, 0.5, solid=True),
        link("rocker", 3, 1.0, solid=True),
        joint("j_crank", "ground", "crank", "0 0 0", "0 0 1", independent=independent),
        joint("j_ball", "crank", "rod", "0.2 0 0", kind="ball"),
        joint("j_rocker", "ground", "rocker", "0.8 0 0.1", "0 1 0"),
        loop("tie", "ball", "rod", "0.6 0.1 0.1", "rocker", "0 0.1 0"),
        name="rssr",
    )


def wrist():
    """A hand on a ball joint, tied to the ground by four hinges: one of them determines the ball joint."""
    place = ("0.3 0 0", "0 0.3 0", "0.1 0.2 0.3", "0.2 0 0.2", "0.1 0.1 0.2")
    axes = ("0 0 1", "0 1 0", "1 0 0", "0.6 0.8 0")
    parts, above = [link("l0")], "l0"
    for k, axis in enumerate(axes):
        parts += [
            link(f"l{k + 1}", k + 1, 1.0, solid=True),
            joint(f"j{k + 1}", above, f"l{k + 1}", place[k], axis),
        ]
        above = f"l{k + 1}"
    parts += [link("hand", 9, 0.7, solid=True), joint("j5", above, "hand", place[4], kind="ball")]
    return robot(*parts, loop("tie", "fixed", "l0", "0.7 0.6 0.7", "hand", "0 0 0"), name="wrist")
