"""Random trees that are numerically hard: nearly parallel axes, mounts with few digits, massless links and wrists,
extreme ratios of mass and length, coaxial joints. They have every kind of joint, mimic joints, fixed chains, rotors."""

from typing import NamedTuple

import numpy as np
from scipy.spatial.transform import Rotation

KINDS = ("revolute", "continuous", "prismatic", "planar", "floating", "fixed")
SHARES = (0.42, 0.17, 0.13, 0.05, 0.03, 0.2)
PLANAR = (("x", "prismatic", "1 0 0"), ("y", "prismatic", "0 1 0"), ("theta", "continuous", "0 0 1"))
MAX_JOINTS = 7


class Tree(NamedTuple):
    """text: the URDF; expanded: the URDF with three joints in place of every planar one; mimics: {joint: (master, multiplier,
    offset)}; armature: {joint: rotor inertia}."""

    text: str
    expanded: str
    floating_base: bool
    mimics: dict
    armature: dict


def stressed_tree(random: np.random.Generator) -> Tree:
    links, joints, expanded, mimics, armature = [_link("l0", random)], [], [], {}, {}
    single: list[str] = []  # joints with one coordinate, without mimics
    fixed_rpy = {}  # of the fixed joint above a link
    wrist = int(
        random.integers(1, 5 * MAX_JOINTS)
    )  # in some trees: three intersecting axes without mass between
    for k in range(1, random.integers(2, MAX_JOINTS + 2)):
        in_wrist = 0 <= k - wrist < 3
        parent = int(k - 1 if in_wrist or random.random() < 0.75 else random.integers(k))
        kind = "revolute" if in_wrist else str(random.choice(KINDS, p=SHARES))
        name, ends = f"j{k}", (f"l{parent}", f"l{k}")
        rpy = "0 0 0" if in_wrist else _turn(random, fixed_rpy.get(parent))
        if kind == "fixed":
            fixed_rpy[k] = rpy
        links.append(f'<link name="l{k}"/>' if 0 <= k - wrist < 2 else _link(f"l{k}", random))
        extra, axis = "", "0 0 1" if kind == "planar" else _axis(random)
        if in_wrist:
            axis = ("0 0 1", "0 1 0", str(random.choice(["0 0 1", "1 0 0"])))[k - wrist]
        if kind in ("revolute", "continuous", "prismatic"):
            if single and random.random() < 0.08:
                mimics[name] = (
                    str(random.choice(single)),
                    round(random.uniform(-2, 2), 3),
                    round(random.normal(), 3),
                )
                extra += '<mimic joint="{}" multiplier="{}" offset="{}"/>'.format(*mimics[name])
            else:
                single.append(name)
            if random.random() < 0.2:
                armature[name] = float(f"{10 ** random.uniform(-4, 0):.3g}")
                extra += f'<dynamics damping="0" armature="{armature[name]}"/>'
        place = ("0 0 0" if in_wrist else _place(random), rpy)
        joints.append(_joint(name, kind, ends, place, axis, extra))
        expanded += _expanded_planar(name, ends, place) if kind == "planar" else joints[-1:]
    floating_base = bool(random.random() < 0.4)
    texts = [_robot(links, own) for own in (joints, expanded)]
    return Tree(*texts, floating_base, mimics, armature)


def _robot(links, joints):
    return f'<robot name="stressed">\n{chr(10).join([*links, *joints])}\n</robot>'


def _expanded_planar(name, ends, place):
    """A planar joint as two prismatic joints and a revolute one."""
    between = [f"{name}.{part}" for part, _, _ in PLANAR[:2]]
    chain = [ends[0], *between, ends[1]]
    yield from (f'<link name="{link}"/>' for link in between)
    for (part, kind, axis), *own in zip(PLANAR, chain, chain[1:], strict=False):
        yield _joint(f"{name}.{part}", kind, own, place, axis, "")
        place = ("0 0 0", "0 0 0")


def _joint(name, kind, ends, place, axis, extra):
    xyz, rpy = place
    free = "" if kind in ("fixed", "floating") else f'<axis xyz="{axis}"/>'
    limit = '<limit lower="-1e3" upper="1e3" effort="100" velocity="10"/>' if kind != "fixed" else ""
    return (
        f'<joint name="{name}" type="{kind}"><parent link="{ends[0]}"/><child link="{ends[1]}"/>'
        f'<origin xyz="{xyz}" rpy="{rpy}"/>{free}{limit}{extra}</joint>'
    )


def _link(name, random):
    """A massless link, a point mass, or a body of any size with an inertia that suits its size."""
    choice = random.random()
    if choice < 0.1:
        return f'<link name="{name}"/>'
    mass, size = 10 ** random.uniform(-3, 2), 10 ** random.uniform(-2.5, 0)
    points = size * random.normal(size=(8, 3)) * random.choice([1, 0.05], size=3)
    second = points.T @ points / 8
    inertia = mass * (np.trace(second) * np.eye(3) - second) * (choice > 0.14)
    center = np.zeros(3) if random.random() < 0.2 else size * random.normal(size=3)
    entries = zip(("ixx", "ixy", "ixz", "iyy", "iyz", "izz"), inertia[np.triu_indices(3)], strict=True)
    moments = " ".join(f'{key}="{value!r}"' for key, value in ((k, float(x)) for k, x in entries))
    return (
        f'<link name="{name}"><inertial><origin xyz="{_numbers_text(center)}" rpy="0 0 0"/><mass value="{mass!r}"/>'
        f"<inertia {moments}/></inertial></link>"
    )


def _turn(random, before):
    """rpy: zero, right angles, random, a tiny angle, or the inverse of the rotation before, rounded."""
    choice = random.random()
    if choice < 0.15:
        return "0 0 0"
    if choice < 0.35:
        digits = int(random.choice([4, 6, 11, 17]))
        return " ".join(f"{x:.{digits}g}" for x in random.integers(-2, 3, 3) * np.pi / 2)
    if before is not None and choice < 0.75:
        back = Rotation.from_euler("xyz", [float(x) for x in before.split()]).inv()
        tilted = back * Rotation.from_rotvec(_tiny(random) * random.normal(size=3) * [1, 1, 0])
        digits = int(random.choice([8, 10, 12, 16]))
        angles = (tilted * Rotation.from_euler("z", random.uniform(-3, 3))).as_euler("xyz")
        return " ".join(f"{x:.{digits}f}" for x in angles)
    if choice < 0.75:
        return _numbers_text(
            _tiny(random) * random.normal(size=3) * [1, 1, 0] + [0, 0, random.choice([0.0, 0.7])]
        )
    return _numbers_text(random.uniform(-3, 3, 3))


def _axis(random):
    choice = random.random()
    if choice < 0.6:
        return _numbers_text(random.choice([-1, 1]) * np.eye(3)[random.integers(3)])
    if choice < 0.8:
        tilted = np.eye(3)[2] + _tiny(random) * random.normal(size=3)
        # Pinocchio replaces an axis within 1e-12 of a coordinate axis by that axis: it is no oracle there
        return _numbers_text(np.eye(3)[2] if np.abs(tilted - np.eye(3)[2]).max() < 2e-12 else tilted)
    return _numbers_text(random.normal(size=3))


def _place(random):
    choice = random.random()
    if choice < 0.1:
        return "0 0 0"  # often coaxial with the joint before
    if choice < 0.25:
        return f"0 0 {random.normal():.3f}"
    return _numbers_text(10 ** random.uniform(-2, 0.5) * random.normal(size=3))


def _tiny(random):
    return 10 ** random.uniform(-13, -1)


def _numbers_text(numbers):
    return " ".join(repr(float(x)) for x in np.atleast_1d(numbers))
