"""What can be wrong with a robot description and with sensors."""

import warnings

LISTED = 3


class ModelError(ValueError):
    """A robot description that cannot be used; the message names the joint or link and the reason."""


class ModelWarning(UserWarning):
    """Parts of a robot description that are left out, or implausible; all are in `warnings` of the robot."""


def warned(robot):
    """The robot, after one ModelWarning with its first warnings, if it has any."""
    if robot.warnings:
        more = len(robot.warnings) - LISTED
        rest = f"; and {more} more, see `warnings` of the robot" if more > 0 else ""
        text = f"{robot.name}: {'; '.join(robot.warnings[:LISTED])}{rest}"
        warnings.warn(text, ModelWarning, stacklevel=3)
    return robot


class SensorError(ValueError):
    """A sensor that cannot be: the message names it, says what is wrong and what to do."""
