"""Inertial parameters as inputs of a Program: ten numbers a body, in the frames and grouped as it uses
them."""

import numpy as np

from dynamics_node.model.parameters import with_parameters
from dynamics_node.model.reframe import inertias_in, reframe
from dynamics_node.model.regroup import regroup, regrouped_away
from dynamics_node.spatial import inertia_of_pseudo, pseudo_inertia

_UPPER = np.triu_indices(4)


def with_inputs(model, regroups, inertia, armature):
    """The Model with inertial parameters (nbodies, 10) and rotor inertias (nv,) that are inputs of a Program;
    None for those that are constant."""
    inertias = model.inertias if inertia is None else _inertias(model, regroups, inertia)
    return with_parameters(model, inertias, model.armature if armature is None else armature)


def inertial_values(model, regroups, frames=None):
    """{'inertia': (nbodies, 10), 'armature': (nv,)} for the Program of a Model, which regroups inertias or
    not.

    frames: `reframe` of a Model of the same geometry, when it is at hand.
    """
    reframed, T = frames or reframe(model)
    own = with_parameters(reframed, inertias_in(T, model.inertias), model.armature)
    own = regroup(own) if regroups else own
    return {"inertia": pseudo_inertia(own.inertias)[:, _UPPER[0], _UPPER[1]], "armature": own.armature}


def _inertias(model, regroups, numbers):
    """Spatial inertias (nbodies, 6, 6) of the ten numbers of every body; zero where `regroup` says so."""
    J = np.zeros((model.nbodies, 4, 4), dtype=object)
    J[:, _UPPER[0], _UPPER[1]] = numbers
    J[:, _UPPER[1], _UPPER[0]] = numbers
    if regroups:
        J[regrouped_away(model)] = 0.0
    return inertia_of_pseudo(J)
