"""Joints whose torques the result explains worse than the description, taken by themselves."""

import numpy as np

PARTS = 10  # of the recordings
ENOUGH = 20  # states a part
CLEARLY = 1.2  # times what the description leaves
COUNTS = 0.5  # of what the result leaves in all: parts of which less is left are quiet


def worse_joints(found):
    """{joint: sentence} of an Identified: where cross-validated or fitted torques are farther from measured
    ones than the description's, over all states or in some tenths of those that are shown."""
    result = np.maximum(found.held, found.fitted)
    told = {}
    for name, unit, k in found.joints:
        if result[k] > found.described[k]:
            told[name] = (
                f"{result[k]:.3g} {unit} are left, of the description {found.described[k]:.3g} {unit}"
            )
        elif part := _in_parts(found.shown, k):
            count, own, described = part
            told[name] = (
                f"in {count} of {PARTS} parts of the recordings more is left than of the description, "
                f"{own:.3g} {unit} instead of {described:.3g} {unit}"
            )
    return told


def _in_parts(shown, k):
    """How many parts are worse, and what is left in those of the result and of the description; None where
    no part is."""
    left = np.stack(
        [shown.measured[:, k] - shown.identified[:, k], shown.measured[:, k] - shown.described[:, k]]
    )
    left = left[:, np.isfinite(left).all(axis=0)] ** 2
    if left.shape[1] < PARTS * ENOUGH:
        return None
    parts = [part.mean(axis=1) for part in np.array_split(left, PARTS, axis=1)]
    least = COUNTS**2 * left[0].mean()
    worse = [part for part in parts if part[0] > max(CLEARLY**2 * part[1], least)]
    return (len(worse), *np.sqrt(np.mean(worse, axis=0)).tolist()) if worse else None
