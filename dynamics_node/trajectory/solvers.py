"""Which solver a trajectory gets: our own, which is compiled or interpreted, or GTSAM's."""

from dynamics_node.trajectory.batch import Batch
from dynamics_node.trajectory.fixed_lag import FixedLag
from dynamics_node.trajectory.graph import Prior, TrajectoryGraph
from dynamics_node.trajectory.gtsam import GtsamBatch
from dynamics_node.trajectory.gtsam_lag import GtsamFixedLag


def batch_solver(graph: TrajectoryGraph, backend="auto") -> Batch | GtsamBatch:
    """All steps at once. backend: c, numpy, gtsam, or auto: c where it works. Raises ImportError, which says
    what to install, where there is no GTSAM."""
    return GtsamBatch(graph) if backend == "gtsam" else Batch(graph, backend)


def fixed_lag(
    graph: TrajectoryGraph, window, prior: Prior, backend="auto", **options
) -> FixedLag | GtsamFixedLag:
    """Step after step. backend: as of `batch_solver`; options: of FixedLag."""
    if backend == "gtsam":
        return GtsamFixedLag(graph, window, prior, **options)
    return FixedLag(graph, window, prior, backend, **options)
