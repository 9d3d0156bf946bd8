"""Robots with closed loops, gears and belts, as URDF+ text: for the demo, examples, tests and benchmarks."""

from collections.abc import Callable

from dynamics_node.robots.chains import belt_chain, geared_chain
from dynamics_node.robots.legged import belt_leg, humanoid, quadruped
from dynamics_node.robots.planar import five_bar, four_bar, four_bars
from dynamics_node.robots.rods import differential

ROBOTS: dict[str, Callable[..., str]] = {
    "four_bar": four_bar,
    "five_bar": five_bar,
    "differential": differential,
    "belt_leg": belt_leg,
    "quadruped": quadruped,
    "humanoid": humanoid,
}

__all__ = [
    "ROBOTS",
    "belt_chain",
    "belt_leg",
    "differential",
    "five_bar",
    "four_bar",
    "four_bars",
    "geared_chain",
    "humanoid",
    "quadruped",
]
