"""Which components of a wrench at a link the torques of the joints tell."""

import numpy as np

from dynamics_node.algorithms import frame_jacobian
from dynamics_node.algorithms.first_positions import closed_samples
from dynamics_node.algorithms.spanning import sampled_rates
from dynamics_node.estimation.observer_options import COMPONENTS
from dynamics_node.identification.regression import named_in

STATES = 4  # that are tried
RELATIVE = 1e-4  # singular value of the Jacobian, of the largest, that tells a direction
SHARE = 0.05  # of a direction that is not told, from which on a component belongs to it


def require_identifiable(robot, link, components):
    """Raise ValueError, components by name, where torques tell a wrench at no position; KeyError for an
    unknown link."""
    robot.frame(link)
    random = np.random.default_rng(21)
    lost = [untold(robot, q, link, components) for q in closed_samples(robot, STATES, random)]
    if all(lost):
        told = ", ".join(sorted(lost, key=len)[0])
        raise ValueError(
            f"{robot.nv} joint torques cannot tell apart {told} of a wrench at link {link!r}: leave out "
            "components that are known to be zero, as the moments of a push at a point"
        )


def untold(robot, q, link, components) -> tuple[str, ...]:
    """Components of a wrench at a link that torques at q (nq,) do not tell, or not apart from each other."""
    J = sampled_rates(robot, q).columns(frame_jacobian(robot.tree, q, link, "body"))[
        [COMPONENTS.index(name) for name in components]
    ]
    directions, values, _ = np.linalg.svd(J)
    values = np.append(values, np.zeros(len(J) - len(values)))
    lost = directions[:, values <= RELATIVE * values.max(initial=1e-300)]
    return named_in(lost, components, SHARE)
