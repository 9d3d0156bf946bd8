"""Legged robots with the rotors of their gears and belts.

Sizes, masses and ratios are of the order of those published for the MIT Mini Cheetah (Katz, Di Carlo, Kim,
ICRA 2019) and the MIT Humanoid (Chignoli, Kim, Stanger-Jones, Kim, Humanoids 2021); no file of theirs is
used.
"""

from dynamics_node.robots.text import X, Y, Z, box, joint, massless, motor, robot


def quadruped() -> str:
    """Four legs of three joints, each driven by a rotor on the link before: 12 joints, 12 rotors."""
    legs = [(f"{'f' if x > 0 else 'h'}{'l' if y > 0 else 'r'}", x, y) for x in (1, -1) for y in (1, -1)]
    return robot(
        "quadruped",
        box("torso", 3.3, (0.36, 0.2, 0.1)),
        *(part for name, x, y in legs for part in _leg(name, x, y)),
    )


def _leg(leg, x, y):
    """x, y: 1 or -1, of the corner."""
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
    """Legs of five joints and arms of four: 18 joints, 18 rotors. Belts drive the knees, and the ankles
    from the thighs, past the knees."""
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
    """A leg in a plane: a hip with a gear, knee and ankle with belts from the thigh; the ankle's runs past
    the knee, so its rotor turns with the sum of both."""
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
