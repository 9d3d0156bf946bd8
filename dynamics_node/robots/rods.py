"""Linkages that are driven through rods with ball joints at their ends."""

from dynamics_node.robots.text import X, Y, bar, box, joint, massless, robot, rod


def differential() -> str:
    """Roll and pitch of a plate, as an ankle has them, driven by two cranks through a rod each: the cranks
    together pitch it, against each other they roll it."""
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
    """The crank at a side, and its rod to the plate."""
    return [
        bar(f"{side}_crank", 0.1, crank),
        joint(f"{side}_motor", "shin", f"{side}_crank", (0, y, 0), Y, independent=False),
        rod(f"{side}_rod", f"{side}_crank", (crank, 0, 0), "plate", (crank, y, 0), shank),
    ]
