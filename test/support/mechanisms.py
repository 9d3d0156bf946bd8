"""Generic links and loops as URDF+ text, in addition to dynamics_demo.robots."""

from itertools import combinations_with_replacement

import numpy as np


def link(name, seed=0, mass=None, solid=False):
    """A link of generic inertia, or without inertia if mass is None; solid: with a physically consistent inertia."""
    if mass is None:
        return f'<link name="{name}"/>'
    random = np.random.default_rng(seed)
    A = 0.1 * random.normal(size=(3, 3))
    inertia = mass * (A @ A.T + 0.02 * np.eye(3))
    if solid:
        inertia = np.trace(inertia) / 2 * np.eye(3) - inertia / 2
    com = " ".join(f"{x:.3f}" for x in 0.1 * random.normal(size=3))
    upper = combinations_with_replacement(enumerate("xyz"), 2)
    moments = " ".join(f'i{a}{b}="{inertia[i, j]:.6f}"' for (i, a), (j, b) in upper)
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


def robot(*parts, name="mechanism"):
    return f'<robot name="{name}">{"".join(parts)}</robot>'


def spatial_loop(kind):
    """An arm of six generic joints, and a loop joint of a kind between its tip and the ground, closed at zero."""
    random = np.random.default_rng(11)
    parts, names = [link("l0")], ["l0"]
    from dynamics_node.symbolic import motion_transform, rpy_rotation, transform_origin, transform_rotation

    X = np.eye(6)
    for k in range(1, 7):
        xyz, rpy = np.round(0.3 * random.normal(size=3), 3), np.round(random.uniform(-1, 1, 3), 3)
        axis = np.round(random.normal(size=3), 3)
        parts += [
            link(f"l{k}", k, 1.0),
            joint(f"j{k}", names[-1], f"l{k}", numbers(xyz), numbers(axis), rpy=numbers(rpy)),
        ]
        names.append(f"l{k}")
        X = motion_transform(rpy_rotation(rpy).T, xyz) @ X
    E, place = transform_rotation(X), transform_origin(X)
    rpy = (np.arctan2(E[1, 2], E[2, 2]), -np.arcsin(E[0, 2]), np.arctan2(E[0, 1], E[0, 0]))
    more = '<axis2 xyz="1 0 0"/>'
    if kind == "rod":
        place, more = place + np.array([0.3, 0.4, 0.0]), '<length value="0.5"/>'
    tie = loop("tie", kind, "l0", numbers(place), "l6", "0 0 0", "0 0 1", more, (numbers(rpy), "0 0 0"))
    return robot(*parts, tie, name=kind)


def numbers(numbers):
    return " ".join(f"{x:.17g}" for x in numbers)
