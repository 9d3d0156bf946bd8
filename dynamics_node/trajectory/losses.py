"""Robust losses: what a factor costs whose squared error s, over its variance, is that of an outlier.

Zhang 1997, Parameter estimation techniques: a tutorial with application to conic fitting, sec. 9.4. Both are
fractions, which a Program can hold: no comparison, no root.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class Loss:
    """threshold: in standard deviations, the error beyond which a factor loses its weight. weight: s ->
    derivative of the cost by s, of floats or symbols; cost: s -> what is summed in place of s."""

    name: str
    threshold: float
    weight: Callable
    cost: Callable

    def __post_init__(self):
        if not self.threshold > 0:
            raise ValueError(f"threshold of loss {self.name!r} must be positive, not {self.threshold}")


def cauchy(threshold=2.385) -> Loss:
    """c^2 log(1 + s / c^2): 95 % as efficient as least squares where there are no outliers."""
    square = threshold * threshold
    return Loss(
        "cauchy",
        threshold,
        lambda s: 1.0 / (1.0 + s * (1.0 / square)),
        lambda s: square * np.log1p(s / square),
    )


def geman_mcclure(threshold=3.0) -> Loss:
    """s / (1 + s / c^2): an outlier costs no more than c^2 and has no weight at all far away."""
    square = threshold * threshold

    def weight(s):
        share = 1.0 / (1.0 + s * (1.0 / square))
        return share * share

    return Loss("geman_mcclure", threshold, weight, lambda s: s / (1.0 + s / square))
