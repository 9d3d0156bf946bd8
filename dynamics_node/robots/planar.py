"""Linkages in a plane."""

from math import pi

from dynamics_node.robots.text import ZERO, Vector, bar, fixed, joint, loop, massless, robot

UPRIGHT = (pi / 2, 0.0, 0.0)  # turns the plane z = 0 so that gravity lies in it


def four_bar(kind="revolute", independent=(True, False, False), tilt: Vector = ZERO) -> str:
    """Crank 0.3 m, coupler 0.8, rocker 0.6 and ground 0.7, closed by a loop joint of a kind; independent:
    what the file says of the three joints."""
    return robot(
        "four_bar",
        massless("world"),
        massless("ground"),
        fixed("mount", "world", "ground", rpy=tilt),
        *_four_bar("", ZERO, kind, independent),
    )


def four_bars(count) -> str:
    """Many side by side on one ground."""
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
    """Paper 1, figure 11: j1 and j2 at the ground are driven, j3 and j4 passive, and j5 closes the loop."""
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
