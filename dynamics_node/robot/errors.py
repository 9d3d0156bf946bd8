"""Errors of robot descriptions and sensors."""

import warnings

LISTED = 3


class ModelError(ValueError):
    """An error of a robot description; the message names the joint or link, and the reason."""


class UnknownNameError(ModelError, KeyError):
    """A name of a joint, link or sensor that a robot lacks; the message lists the known ones."""

    def __str__(self):  # a KeyError would print quotes
        return str(self.args[0])


class ModelWarning(UserWarning):
    """A warning of ignored or implausible parts of a robot description; `Robot.warnings` has all of them."""


def warned(robot):
    """The robot, after a ModelWarning with its first warnings, if it has any."""
    if robot.warnings:
        more = len(robot.warnings) - LISTED
        rest = f"; and {more} more, see `warnings` of the robot" if more > 0 else ""
        text = f"{robot.name}: {'; '.join(robot.warnings[:LISTED])}{rest}"
        warnings.warn(text, ModelWarning, stacklevel=3)
    return robot


class SensorError(ValueError):
    """An error of a sensor; the message names it, the reason and the remedy."""
