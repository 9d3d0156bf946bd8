"""Quantities of a Model at once, by NumPy, for a few states or from time to time.

A call interprets the recursion: 0.2 to 0.9 ms for an arm. In a loop use the compiled function of the same
quantity, `build_quantity(model, "mass_matrix")`: about 1 us a call, and millions of states at a time.

All take q (..., nq), qd (..., nv), gravity (..., 3) over one batch, arrays or lists; they raise InputError
with argument and coordinate by name, KeyError for an unknown link, and TypeError for what is no Model.
"""

import numpy as np

from dynamics_node import algorithms
from dynamics_node.algorithms.pivots import why_singular
from dynamics_node.model import Model
from dynamics_node.solver.arguments import Arguments, robot_signature
from dynamics_node.solver.checks import SolutionError


def mass_matrix(model: Model, q):
    """M (..., nv, nv), armature included. Interpreted; `build_quantity(model, "mass_matrix")` compiles it."""
    (q,) = _checked(model, q=q)
    return algorithms.crba(model, q)


def bias(model: Model, q, qd, f_ext=None, gravity=None):
    """h (..., nv) of M qdd + h = tau: gravity, Coriolis and centrifugal terms, external wrenches f_ext
    (..., nbodies, 6) as of a Solver. gravity in place of the model's. Interpreted; `build_quantity(model,
    "bias")` compiles it."""
    optional = {"f_ext": f_ext, "gravity": gravity}
    given = {name: value for name, value in optional.items() if value is not None}
    q, qd, *arrays = _checked(model, q=q, qd=qd, **given)
    return algorithms.bias(model, q, qd, **dict(zip(given, arrays, strict=True)))


def link_jacobian(model: Model, q, link, reference="world_aligned"):
    """J (..., 6, nv), angular rows first: J qd = velocity of the link's origin. reference: 'world_aligned'
    (axes of the model root) or 'body'; ValueError for another."""
    (q,) = _checked(model, q=q)
    return algorithms.link_jacobian(model, q, link, reference)


def link_pose(model: Model, q, link):
    """R (..., 3, 3) from link to root axes and p (..., 3), the link's origin in the root frame, m."""
    (q,) = _checked(model, q=q)
    return algorithms.link_pose(model, q, link)


def operational_space_inertia(model: Model, q, links, reference="world_aligned"):
    """Lambda^-1 (..., 6 k, 6 k) and J (..., 6 k, nv) of k links. Raises SolutionError where the mass matrix
    is singular. Interpreted; `build_quantity(model, "operational_space_inertia", links=[...])` compiles
    it."""
    (q,) = _checked(model, q=q)
    if reason := why_singular(model, np.ones(model.nv, dtype=bool), q):
        raise SolutionError(reason)
    try:
        return algorithms.operational_space_inertia(model, q, links, reference)
    except np.linalg.LinAlgError:
        raise SolutionError("the mass matrix is singular at this position") from None


def _checked(model, **values):
    """The arrays of the arguments, over one batch."""
    if not isinstance(model, Model):
        raise TypeError(
            f"a Model is wanted, not {type(model).__name__}; of a Mechanism `build_quantity` gives the same"
        )
    arguments = Arguments(robot_signature(model), values)
    arguments.refuse_bad()
    return arguments.spread().values()
