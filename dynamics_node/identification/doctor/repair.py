"""The nearest inertia that a mass distribution can have."""

import numpy as np

from dynamics_node.identification.doctor.oddness import Inertial, is_impossible, second_moments

FLAT = 1e-3  # of the largest mean square, the least that is left


def nearest_consistent(inertial) -> Inertial:
    """With the same mass and centre, and the second moments nearest in the Frobenius norm of those that are
    positive definite: eigenvalues below FLAT of the largest one are raised. Of masses above 0."""
    squares, axes = np.linalg.eigh(second_moments(inertial))
    raised = np.maximum(squares, FLAT * max(squares.max(), 1e-300))
    spread = inertial.mass * (axes * raised) @ axes.T
    return inertial._replace(inertia=np.trace(spread) * np.eye(3) - spread)


def repairs(links):
    """{link: Inertial} of the LinkFacts that have an inertia and a mass and whose inertia is impossible."""
    return {
        link.name: nearest_consistent(link.inertial)
        for link in links
        if link.inertial.mass > 0 and link.inertial.inertia.any() and is_impossible(link.inertial)
    }
