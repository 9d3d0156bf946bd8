"""Robots with loops, gears and belts, as URDF+ text."""

import numpy as np


def link(name, seed=0, mass=None):
    """A link of generic inertia; without a mass it has none."""
    if mass is None:
        return f'<link name="{name}"/>'
    random = np.random.default_rng(seed)
    A = 0.1 * random.normal(size=(3, 3))
    inertia = mass * (A @ A.T + 0.02 * np.eye(3))
    com = " ".join(f"{x:.3f}" for x in 0.1 * random.normal(size=3))
    moments = " ".join(
        f'{name}="{inertia[i, j]:.6f}"'
        for name, i, j in (
            ("ixx", 0, 0),
            ("ixy", 0, 1),
            ("ixz", 0, 2),
            ("iyy", 1, 1),
            ("iyz", 1, 2),
            ("izz", 2, 2),
        )
    )
    return (
        f'<link name="{name}"><inertial><origin xyz="{com}" rpy="0.3 -0.2 0.5"/><mass value="{mass}"/>'
        f"<inertia {moments}/></inertial></link>"
    )


def joint(name, parent, child, xyz="0 0 0", axis="0 0 1", kind="revolute", independent=None, rpy="0 0 0"):
    flag = "" if independent is None else f' independent="{str(independent).lower()}"'
    return (
        f'<joint name="{name}" type="{kind}"{flag}><parent link="{parent}"/><child link="{child}"/>'
        f'<origin xyz="{xyz}" rpy="{rpy}"/><axis xyz="{axis}"/>'
        '<limit lower="-9" upper="9" effort="100" velocity="10"/></joint>'
    )


def loop(name, kind, predecessor, at, successor, there, axis="0 0 1", more="", rpy=("0 0 0", "0 0 0")):
    return (
        f'<loop name="{name}" type="{kind}"><predecessor link="{predecessor}"><origin xyz="{at}" rpy="{rpy[0]}"/>'
        f'</predecessor><successor link="{successor}"><origin xyz="{there}" rpy="{rpy[1]}"/></successor>'
        f'<axis xyz="{axis}"/>{more}</loop>'
    )


def coupling(name, predecessor, successor, ratio):
    return (
        f'<coupling name="{name}"><predecessor link="{predecessor}"/><successor link="{successor}"/>'
        f'<ratio value="{ratio}"/></coupling>'
    )


def robot(*parts, name="mechanism"):
    return f'<robot name="{name}">{"".join(parts)}</robot>'


def four_bar(kind="revolute", flags=(True, False, False)):
    """Crank 0.3, coupler 0.8, rocker 0.6, ground 0.7 in the plane z = 0."""
    return robot(
        link("ground"), link("crank", 1, 1.0), link("coupler", 2, 2.0), link("rocker", 3, 1.5),
        joint("crank_j", "ground", "crank", independent=flags[0]),
        joint("coupler_j", "crank", "coupler", "0.3 0 0", independent=flags[1]),
        joint("rocker_j", "ground", "rocker", "0.7 0 0", independent=flags[2]),
        loop("pin", kind, "coupler", "0.8 0 0", "rocker", "0.6 0 0"), name="four_bar",
    )  # fmt: skip


def many_four_bars(count):
    """Four-bars side by side on one ground."""
    parts = [link("ground")]
    for k in range(count):
        parts += [
            link(f"crank{k}", 1, 1.0), link(f"coupler{k}", 2, 2.0), link(f"rocker{k}", 3, 1.5),
            joint(f"crank_j{k}", "ground", f"crank{k}", f"0 0 {k}", independent=True),
            joint(f"coupler_j{k}", f"crank{k}", f"coupler{k}", "0.3 0 0", independent=False),
            joint(f"rocker_j{k}", "ground", f"rocker{k}", f"0.7 0 {k}", independent=False),
            loop(f"pin{k}", "revolute", f"coupler{k}", "0.8 0 0", f"rocker{k}", "0.6 0 0"),
        ]  # fmt: skip
    return robot(*parts, name="four_bars")


def five_bar(tilt="0 0 0"):
    """Paper 1, figure 11: two driven joints at the ground, three passive; the last one closes the loop."""
    return robot(
        link("world"), link("ground"), joint("mount", "world", "ground", kind="fixed", rpy=tilt),
        *(link(f"l{k}", k, 1.0 + 0.2 * k) for k in range(1, 5)),
        joint("j1", "ground", "l1", "-0.2 0 0", independent=True), joint("j3", "l1", "l2", "0.4 0 0", independent=False),
        joint("j2", "ground", "l3", "0.2 0 0", independent=True), joint("j4", "l3", "l4", "0.4 0 0", independent=False),
        loop("j5", "revolute", "l2", "0.5 0 0", "l4", "0.5 0 0"), name="five_bar",
    )  # fmt: skip


def geared_chain(n, ratio=6.0):
    """GT: every joint is driven by a rotor that hangs on its parent, with a gear between (paper 3, figure 11)."""
    parts = [link("l0")]
    for k in range(1, n + 1):
        axis = ("0 0 1", "0 1 0", "1 0 0")[k % 3]
        parts += [
            link(f"l{k}", k, 1.0), link(f"r{k}", 100 + k, 0.2),
            joint(f"j{k}", f"l{k - 1}", f"l{k}", "0.3 0.05 0.1", axis), joint(f"m{k}", f"l{k - 1}", f"r{k}", "0.1 0 0", axis, independent=False),
            coupling(f"gear{k}", f"l{k}", f"r{k}", ratio),
        ]  # fmt: skip
    return robot(*parts, name="geared_chain")


def belt_chain(n, ratio=4.0):
    """PBT: pairs of parallel joints whose rotors both hang on the link before; the second one's belt runs over the
    first joint, so its rotor turns with the sum of both (paper 3, figure 13)."""
    parts, base = [link("l0")], "l0"
    for k in range(1, n + 1):
        axis = ("0 0 1", "0 1 0")[k % 2]
        a, b = f"a{k}", f"b{k}"
        parts += [
            link(a, k, 1.0), link(b, 50 + k, 0.8), link(f"ra{k}", 100 + k, 0.2), link(f"rb{k}", 150 + k, 0.2),
            joint(f"j{a}", base, a, "0.3 0 0.1", axis), joint(f"j{b}", a, b, "0.25 0 0", axis),
            joint(f"ma{k}", base, f"ra{k}", "0.1 0 0", axis, independent=False),
            joint(f"mb{k}", base, f"rb{k}", "0.15 0 0", axis, independent=False),
            coupling(f"ca{k}", a, f"ra{k}", ratio), coupling(f"cb{k}", b, f"rb{k}", ratio),
        ]  # fmt: skip
        base = b
    return robot(*parts, name="belt_chain")


def spatial_loop(kind):
    """An arm of six generic joints whose tip is tied to the ground by a joint of a kind, in the position where all are
    at zero and the tip is where the tie is."""
    random = np.random.default_rng(11)
    parts, names = [link("l0")], ["l0"]
    from dynamics_node.spatial import motion_transform, rpy_rotation, transform_origin, transform_rotation

    X = np.eye(6)
    for k in range(1, 7):
        xyz, rpy = np.round(0.3 * random.normal(size=3), 3), np.round(random.uniform(-1, 1, 3), 3)
        axis = np.round(random.normal(size=3), 3)
        parts += [
            link(f"l{k}", k, 1.0),
            joint(f"j{k}", names[-1], f"l{k}", _text(xyz), _text(axis), rpy=_text(rpy)),
        ]
        names.append(f"l{k}")
        X = motion_transform(rpy_rotation(rpy).T, xyz) @ X
    E, place = transform_rotation(X), transform_origin(X)
    rpy = (np.arctan2(E[1, 2], E[2, 2]), -np.arcsin(E[0, 2]), np.arctan2(E[0, 1], E[0, 0]))
    more = '<axis2 xyz="1 0 0"/>'
    if kind == "rod":
        place, more = place + np.array([0.3, 0.4, 0.0]), '<length value="0.5"/>'
    tie = loop("tie", kind, "l0", _text(place), "l6", "0 0 0", "0 0 1", more, (_text(rpy), "0 0 0"))
    return robot(*parts, tie, name=kind)


def _text(numbers):
    return " ".join(f"{x:.17g}" for x in numbers)
