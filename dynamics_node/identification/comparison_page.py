"""Write a RobotComparison of two robots as one self-contained page."""

from pathlib import Path

import numpy as np

from dynamics_node.identification.comparison import RobotComparison
from dynamics_node.io import bold, bullet_list, table, text, write_blocks


def write_comparison(comparison: RobotComparison, titles, path) -> Path:
    """Write the page to a path and return it; missing folders are created. titles: of both robots."""
    title = " and ".join(titles)
    return write_blocks(path, title, _blocks(comparison, title))


def _blocks(comparison, title):
    first, *others = comparison.lines()
    yield f"# {text(title)}"
    yield bold(first)
    yield bullet_list(others) if others else "Limits, frames, masses and numbers of joints agree."
    if not comparison.is_comparable:
        return
    yield "## Torques"
    yield "Largest difference over the workspace, and largest torque of the first robot, N m or N."
    joints = zip(comparison.joints, comparison.torques.tolist(), comparison.sizes.tolist(), strict=True)
    yield table(("joint", "difference", "largest"), joints)
    if comparison.base_parameters:
        yield "## Base parameters that differ"
        base = ((one.of, one.first, one.second) for one in comparison.base_parameters)
        yield table(("combination", "first", "second"), base)
    if (worst := comparison.worst) is not None:
        yield "## Where they differ most"
        yield f"{text(worst.joint)}: {worst.first:.6g} and {worst.second:.6g}, at this state:"
        rows = [(name, np.array2string(getattr(worst, name), precision=4)) for name in ("q", "qd", "qdd")]
        yield table(("", "value"), rows)
