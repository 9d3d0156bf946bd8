"""Robots with closed loops, gears and belts, as URDF+ text: for the demo, examples, tests and benchmarks.

`python -m dynamics_demo.robots five_bar > five_bar.urdf` prints one of them.
"""

import argparse
from collections.abc import Callable, Sequence
from math import pi, sin

# --- elements of URDF+ as text ---------------------------------------------------------------------------

Vector = Sequence[float]
ZERO = (0.0, 0.0, 0.0)
X, Y, Z = (1.0, 0.0, 0.0), (0.0, 1.0, 0.0), (0.0, 0.0, 1.0)


def vector(numbers: Vector) -> str:
    return " ".join(repr(float(x)).removesuffix(".0") for x in numbers)


def robot(name, *parts) -> str:
    return f'<robot name="{name}">{"".join(parts)}</robot>'


def massless(name) -> str:
    return f'<link name="{name}"/>'


def link(name, mass, com: Vector, moments: Vector, rpy: Vector = ZERO) -> str:
    """moments: ixx, iyy, izz about the center of mass, in axes rotated by rpy."""
    ixx, iyy, izz = moments
    return (
        f'<link name="{name}"><inertial><origin xyz="{vector(com)}" rpy="{vector(rpy)}"/>'
        f'<mass value="{mass:g}"/><inertia ixx="{ixx:.9g}" iyy="{iyy:.9g}" izz="{izz:.9g}" '
        'ixy="0" ixz="0" iyz="0"/></inertial></link>'
    )


def box(name, mass, size: Vector, com: Vector = ZERO, rpy: Vector = ZERO) -> str:
    """A solid box of edges size (3,)."""
    x, y, z = (edge * edge * mass / 12 for edge in size)
    return link(name, mass, com, (y + z, x + z, x + y), rpy)


def bar(name, mass, length, width=0.03) -> str:
    """A solid bar along x from the origin of its link."""
    return box(name, mass, (length, width, width), (length / 2, 0.0, 0.0))


def rotor(name, mass, moment, axis: Vector) -> str:
    """A disk: moment about its axis, half of that across."""
    return link(name, mass, ZERO, [moment * (0.5 + 0.5 * abs(a)) for a in axis])


def joint(
    name, parent, child, xyz: Vector = ZERO, axis: Vector = Z, *, independent=None, effort=100.0
) -> str:
    """A revolute joint; independent: its URDF+ attribute, None to omit it."""
    flag = "" if independent is None else f' independent="{str(independent).lower()}"'
    return (
        f'<joint name="{name}" type="revolute"{flag}><parent link="{parent}"/><child link="{child}"/>'
        f'<origin xyz="{vector(xyz)}" rpy="0 0 0"/><axis xyz="{vector(axis)}"/>'
        f'<limit lower="-9" upper="9" effort="{effort:g}" velocity="20"/></joint>'
    )


def fixed(name, parent, child, xyz: Vector = ZERO, rpy: Vector = ZERO) -> str:
    return (
        f'<joint name="{name}" type="fixed"><parent link="{parent}"/><child link="{child}"/>'
        f'<origin xyz="{vector(xyz)}" rpy="{vector(rpy)}"/></joint>'
    )


def loop(name, kind, predecessor, at: Vector, successor, there: Vector, axis: Vector = Z, more="") -> str:
    """A loop joint between a point of one link and a point of another, in link axes."""
    return (
        f'<loop name="{name}" type="{kind}">'
        f'<predecessor link="{predecessor}"><origin xyz="{vector(at)}"/></predecessor>'
        f'<successor link="{successor}"><origin xyz="{vector(there)}"/></successor>'
        f'<axis xyz="{vector(axis)}"/>{more}</loop>'
    )


def rod(name, predecessor, at: Vector, successor, there: Vector, length) -> str:
    """A rod with a ball joint at both ends."""
    return loop(name, "rod", predecessor, at, successor, there, more=f'<length value="{length!r}"/>')


def coupling(name, predecessor, successor, ratio) -> str:
    """ratio times the angle of the joints to the predecessor equals that of the joints to the successor."""
    return (
        f'<coupling name="{name}"><predecessor link="{predecessor}"/><successor link="{successor}"/>'
        f'<ratio value="{ratio:g}"/></coupling>'
    )


def motor(name, base, driven, ratio, axis: Vector, at: Vector = ZERO, mass=0.06, moment=6e-5) -> str:
    """A rotor on `base`, and the gear or belt from it to the link `driven`."""
    return "".join(
        [
            rotor(f"{name}_rotor", mass, moment, axis),
            joint(f"{name}_rotor_joint", base, f"{name}_rotor", at, axis, independent=False),
            coupling(f"{name}_gear", driven, f"{name}_rotor", ratio),
        ]
    )


# --- linkages in a plane ---------------------------------------------------------------------------------

UPRIGHT = (pi / 2, 0.0, 0.0)  # rotates the plane z = 0 so that it contains gravity


def four_bar(kind="revolute", independent=(True, False, False), tilt: Vector = ZERO) -> str:
    """Crank 0.3 m, coupler 0.8, rocker 0.6 and ground 0.7, closed by a loop joint of a kind; independent:
    attributes of the three joints."""
    return robot(
        "four_bar",
        massless("world"),
        massless("ground"),
        fixed("mount", "world", "ground", rpy=tilt),
        *_four_bar("", ZERO, kind, independent),
    )


def four_bars(count) -> str:
    """Several four-bars in parallel on one ground."""
    flags = (True, False, False)
    parts = [part for k in range(count) for part in _four_bar(str(k), (0, 0, k), "revolute", flags)]
    return robot("four_bars", massless("ground"), *parts)


def _four_bar(suffix, place, kind, independent):
    crank, coupler, rocker = (f"{name}{suffix}" for name in ("crank", "coupler", "rocker"))
    x, y, z = place
    return [
        bar(crank, 1.0, 0.3),
        bar(coupler, 2.0, 0.8),
        bar(rocker, 1.5, 0.6),
        joint(f"crank_j{suffix}", "ground", crank, place, independent=independent[0]),
        joint(f"coupler_j{suffix}", crank, coupler, (0.3, 0, 0), independent=independent[1]),
        joint(f"rocker_j{suffix}", "ground", rocker, (x + 0.7, y, z), independent=independent[2]),
        loop(f"pin{suffix}", kind, coupler, (0.8, 0, 0), rocker, (0.6, 0, 0)),
    ]


def five_bar(tilt: Vector = ZERO) -> str:
    """Paper 1, figure 11: j1 and j2 at the ground are actuated, j3 and j4 passive, and j5 closes the loop."""
    return robot(
        "five_bar",
        massless("world"),
        massless("ground"),
        fixed("mount", "world", "ground", rpy=tilt),
        bar("left_upper", 1.2, 0.4),
        bar("left_lower", 1.4, 0.5),
        bar("right_upper", 1.2, 0.4),
        bar("right_lower", 1.4, 0.5),
        joint("j1", "ground", "left_upper", (-0.2, 0, 0), independent=True),
        joint("j3", "left_upper", "left_lower", (0.4, 0, 0), independent=False),
        joint("j2", "ground", "right_upper", (0.2, 0, 0), independent=True),
        joint("j4", "right_upper", "right_lower", (0.4, 0, 0), independent=False),
        loop("j5", "revolute", "left_lower", (0.5, 0, 0), "right_lower", (0.5, 0, 0)),
    )


# --- a linkage driven through rods with ball joints at their ends ----------------------------------------


def differential() -> str:
    """Roll and pitch of a plate, as in an ankle, driven by two cranks with a rod each: equal motion of the
    cranks pitches it, opposite motion rolls it."""
    crank, shank, width = 0.05, 0.25, 0.06
    sides = {"left": width, "right": -width}
    return robot(
        "differential",
        massless("shin"),
        box("cross", 0.05, (0.02, 0.02, 0.02)),
        box("plate", 0.6, (0.2, 0.09, 0.02), (0.03, 0, -0.03)),
        joint("pitch", "shin", "cross", (0, 0, -shank), Y),
        joint("roll", "cross", "plate", axis=X),
        *(part for side, y in sides.items() for part in _drive(side, y, crank, shank)),
    )


def _drive(side, y, crank, shank):
    """The crank on one side, and its rod to the plate."""
    return [
        bar(f"{side}_crank", 0.1, crank),
        joint(f"{side}_motor", "shin", f"{side}_crank", (0, y, 0), Y, independent=False),
        rod(f"{side}_rod", f"{side}_crank", (crank, 0, 0), "plate", (crank, y, 0), shank),
    ]


# --- chains of any length --------------------------------------------------------------------------------

# Serial chains of any length whose joints are driven through gears or belts (paper 3, figures 11 and 13).
#
# Their links are generic, with oblique axes of inertia, so that no term vanishes by accident.


def geared_chain(links, ratio=6.0) -> str:
    """GT: every joint is driven by a rotor on the same parent link."""
    parts = [massless("l0")]
    for k in range(1, links + 1):
        axis = (Z, Y, X)[k % 3]
        parts += [
            _generic(f"l{k}", k, 1.0),
            _generic(f"r{k}", 100 + k, 0.2),
            joint(f"j{k}", f"l{k - 1}", f"l{k}", (0.3, 0.05, 0.1), axis),
            joint(f"m{k}", f"l{k - 1}", f"r{k}", (0.1, 0, 0), axis, independent=False),
            coupling(f"gear{k}", f"l{k}", f"r{k}", ratio),
        ]
    return robot("geared_chain", *parts)


def belt_chain(pairs, ratio=4.0) -> str:
    """PBT: pairs of parallel joints whose rotors are both on the previous link. The second belt runs over the
    first joint, so its rotor turns with the sum of both."""
    parts, base = [massless("l0")], "l0"
    for k in range(1, pairs + 1):
        axis, a, b = (Z, Y)[k % 2], f"a{k}", f"b{k}"
        parts += [
            _generic(a, k, 1.0),
            _generic(b, 50 + k, 0.8),
            _generic(f"ra{k}", 100 + k, 0.2),
            _generic(f"rb{k}", 150 + k, 0.2),
            joint(f"j{a}", base, a, (0.3, 0, 0.1), axis),
            joint(f"j{b}", a, b, (0.25, 0, 0), axis),
            joint(f"ma{k}", base, f"ra{k}", (0.1, 0, 0), axis, independent=False),
            joint(f"mb{k}", base, f"rb{k}", (0.15, 0, 0), axis, independent=False),
            coupling(f"ca{k}", a, f"ra{k}", ratio),
            coupling(f"cb{k}", b, f"rb{k}", ratio),
        ]
        base = b
    return robot("belt_chain", *parts)


def _generic(name, seed, mass):
    """A link with pseudorandom numbers, reproducible by its seed."""
    a, b, c, d, e, f = (sin(12.9898 * seed + 78.233 * k) for k in range(6))
    moments = [0.02 + 0.005 * x for x in (a, b, c)]
    return link(name, mass, (0.1 * d, 0.1 * e, 0.1 * f), [mass * m for m in moments], (a, b, 3 * c))


# --- legged robots ---------------------------------------------------------------------------------------

# Legged robots with the rotors of their gears and belts.
#
# Sizes, masses and ratios are of the order of those published for the MIT Mini Cheetah (Katz, Di Carlo, Kim,
# ICRA 2019) and the MIT Humanoid (Chignoli, Kim, Stanger-Jones, Kim, Humanoids 2021), without using their
# files.


def quadruped() -> str:
    """Four legs of three joints, each driven by a rotor on the previous link: 12 joints, 12 rotors."""
    legs = [(f"{'f' if x > 0 else 'h'}{'l' if y > 0 else 'r'}", x, y) for x in (1, -1) for y in (1, -1)]
    return robot(
        "quadruped",
        box("torso", 3.3, (0.36, 0.2, 0.1)),
        *(part for name, x, y in legs for part in _leg(name, x, y)),
    )


def _leg(leg, x, y):
    """x, y: 1 or -1, the corner."""
    hip, thigh, shank = (f"{leg}_{part}" for part in ("hip", "thigh", "shank"))
    return [
        box(hip, 0.54, (0.07, 0.08, 0.07), (0, 0.036 * y, 0)),
        box(thigh, 0.63, (0.05, 0.06, 0.2), (0, 0.016 * y, -0.02)),
        box(shank, 0.064, (0.02, 0.02, 0.19), (0, 0, -0.061)),
        joint(f"{hip}_joint", "torso", hip, (0.19 * x, 0.049 * y, 0), X, effort=17),
        motor(hip, "torso", hip, 6.0, X, (0.125 * x, 0.049 * y, 0)),
        joint(f"{thigh}_joint", hip, thigh, (0, 0.062 * y, 0), Y, effort=17),
        motor(thigh, hip, thigh, -6.0, Y, (0, 0.04 * y, 0)),
        joint(f"{shank}_joint", thigh, shank, (0, 0, -0.209), Y, effort=26),
        motor(shank, thigh, shank, 9.33, Y),
    ]


def humanoid() -> str:
    """Legs of five joints and arms of four: 18 joints, 18 rotors. Belts drive the knees, and the ankles from
    the thighs over the knees."""
    sides = {"left": 1, "right": -1}
    return robot(
        "humanoid",
        box("torso", 8.5, (0.16, 0.24, 0.35), (0, 0, 0.15)),
        *(part for side, y in sides.items() for part in (*_long_leg(side, y), *_arm(side, y))),
    )


def _long_leg(side, y):
    yaw, roll = f"{side}_hip_yaw", f"{side}_hip_roll"
    return [
        box(yaw, 0.8, (0.09, 0.08, 0.08), (-0.05, 0, -0.02)),
        box(roll, 1.2, (0.1, 0.1, 0.09), (-0.02, 0, 0)),
        joint(f"{yaw}_joint", "torso", yaw, (0, 0.08 * y, -0.07), Z, effort=34),
        motor(yaw, "torso", yaw, 6.0, Z, (0, 0.08 * y, -0.02)),
        joint(f"{roll}_joint", yaw, roll, (-0.06, 0, -0.05), X, effort=34),
        motor(roll, yaw, roll, -6.0, X),
        *_shanks(side, roll, (0.06, 0.018 * y, 0)),
    ]


def belt_leg() -> str:
    """A planar leg: a hip with a gear, knee and ankle with belts from the thigh; the ankle belt runs over the
    knee, so its rotor turns with the sum of both."""
    return robot("belt_leg", massless("pelvis"), *_shanks("leg", "pelvis", (0, 0, 0)))


def _shanks(side, base, place):
    """Thigh, shank and foot, with parallel axes."""
    thigh, shank, foot = (f"{side}_{part}" for part in ("thigh", "shank", "foot"))
    return [
        box(thigh, 2.9, (0.11, 0.1, 0.26), (0, 0, -0.06)),
        box(shank, 0.5, (0.05, 0.05, 0.27), (0, 0, -0.1)),
        box(foot, 0.27, (0.15, 0.05, 0.03), (0.02, 0, -0.03)),
        joint(f"{thigh}_joint", base, thigh, place, Y, effort=72),
        motor(thigh, base, thigh, 6.0, Y, place, mass=0.25, moment=3e-4),
        joint(f"{shank}_joint", thigh, shank, (0, 0, -0.267), Y, effort=144),
        motor(shank, thigh, shank, -12.0, Y, (0, 0.02, 0), mass=0.25, moment=3e-4),
        joint(f"{foot}_joint", shank, foot, (0, 0, -0.277), Y, effort=68),
        motor(foot, thigh, foot, 12.0, Y, (0, 0.02, -0.03), mass=0.06, moment=6e-5),
    ]


def _arm(side, y):
    parts = ("shoulder", "upper_arm", "twist", "forearm")
    shoulder, lift, twist, elbow = (f"{side}_{part}" for part in parts)
    return [
        box(shoulder, 0.5, (0.08, 0.07, 0.08), (0, 0.04 * y, 0)),
        box(lift, 0.55, (0.07, 0.07, 0.09), (0, 0, -0.02)),
        box(twist, 0.6, (0.06, 0.06, 0.16), (0, 0, -0.07)),
        box(elbow, 0.3, (0.04, 0.04, 0.22), (0, 0, -0.11)),
        joint(f"{shoulder}_joint", "torso", shoulder, (0.01, 0.13 * y, 0.25), Y, effort=34),
        motor(shoulder, "torso", shoulder, 6.0, Y, (0.01, 0.08 * y, 0.25)),
        joint(f"{lift}_joint", shoulder, lift, (0, 0.06 * y, 0), X, effort=34),
        motor(lift, shoulder, lift, -6.0, X),
        joint(f"{twist}_joint", lift, twist, (0, 0, -0.1), Z, effort=34),
        motor(twist, lift, twist, 6.0, Z),
        joint(f"{elbow}_joint", twist, elbow, (0, 0, -0.17), Y, effort=55),
        motor(elbow, twist, elbow, 9.0, Y),
    ]


ROBOTS: dict[str, Callable[..., str]] = {
    "four_bar": four_bar,
    "five_bar": five_bar,
    "differential": differential,
    "belt_leg": belt_leg,
    "quadruped": quadruped,
    "humanoid": humanoid,
}


def main():
    """Print a robot by name."""
    parser = argparse.ArgumentParser(prog="python -m dynamics_demo.robots", description=__doc__)
    parser.add_argument("name", choices=ROBOTS)
    print(ROBOTS[parser.parse_args().name]())


if __name__ == "__main__":
    main()
