"""The robot with identified parameters, as a Model and as the text of its description."""

from dataclasses import replace

import numpy as np

from dynamics_node.algorithms import inertias_of_parameters
from dynamics_node.identification.linear import LinearModel
from dynamics_node.loops.mechanism import tree_of, with_tree
from dynamics_node.model.beyond import central_moments, mass_and_moment
from dynamics_node.model.parameters import with_parameters
from dynamics_node.model.urdf_numbers import Dynamics, Inertial, with_numbers
from dynamics_node.spatial import congruence, inverse_motion_transform, pseudo_inertia

SHARES = (1.0, 0.5, 0.25, 0.1, 0.03, 0.01, 0.001)  # of what is fixed to a body's heaviest link


def identified_robot(linear: LinearModel, parameters):
    """The Model or Mechanism with parameters (p,): inertias, rotor inertias, damping and friction."""
    tree = tree_of(linear.robot)
    inertias = tree.inertias
    if "inertia" in linear.terms:
        inertias = inertias_of_parameters(parameters[linear.places("inertia")].reshape(-1, 10))
    armature = tree.armature.copy()
    if "rotor" in linear.terms:
        armature[[joint.v.start for joint in linear.joints]] = parameters[linear.places("rotor")]
    tree = with_parameters(tree, inertias, armature)
    friction = _friction(linear, parameters)
    bodies = []
    for body in tree.bodies:
        joint = body.joint
        if joint.name in friction and joint.mimic is None:
            damping, coulomb = friction[joint.name]
            joint = replace(joint, damping=damping, friction=coulomb)
        bodies.append(replace(body, joint=joint))
    return with_tree(linear.robot, replace(tree, bodies=tuple(bodies)))


def identified_text(text, linear: LinearModel, parameters) -> str:
    """The description with these parameters: other numbers in the same text. What is fixed to a body keeps
    its inertia, and the heaviest of the links of the body takes up the difference; where no link could have
    what then remains for it, the others keep a share. Offsets, springs and rotor inertias have no place in
    a URDF. Raises ModelError as `with_numbers`."""
    links: dict[str, Inertial] = {}
    if "inertia" in linear.terms:
        wanted = inertias_of_parameters(parameters[linear.places("inertia")].reshape(-1, 10))
        for k, inertia in enumerate(wanted):
            if inertia[5, 5] > 0:
                links |= _links_of(tree_of(linear.robot), k, inertia)
    friction = {name: Dynamics(*values) for name, values in _friction(linear, parameters).items()}
    return with_numbers(text, links, friction)


def _friction(linear, parameters):
    """{joint: (viscous, Coulomb)} where either is a term. Joints that mimic one keep theirs: what they add
    to its torque is taken off."""
    if not {"viscous", "coulomb"} & set(linear.terms):
        return {}
    tree = tree_of(linear.robot)
    found = {}
    for k, joint in enumerate(linear.joints):
        at, own = joint.v.start, [joint.damping, joint.friction]
        for place, (term, all_of) in enumerate((("viscous", tree.damping), ("coulomb", tree.friction))):
            if term in linear.terms:
                wanted = parameters[linear.places(term)][k]
                own[place] = max(0.0, float(wanted - (all_of[at] - own[place])))
        found[joint.name] = tuple(own)
    return found


def _links_of(tree, body, wanted):
    """{link: Inertial} of the links of a body that change, for the body to have the inertia `wanted` (6,
    6)."""
    frames = [frame for frame in tree.frames.values() if frame.body == body and frame.inertia[5, 5] > 0]
    frames = frames or [tree.frames[tree.bodies[body].name]]
    heaviest = max(frames, key=lambda frame: frame.inertia[5, 5])
    others = [frame for frame in frames if frame is not heaviest]
    rest = sum((congruence(frame.X, frame.inertia) for frame in others), np.zeros((6, 6)))
    back = inverse_motion_transform(heaviest.X)
    for share in SHARES:
        own = congruence(back, wanted - share * rest)
        if np.linalg.eigvalsh(pseudo_inertia(own))[0] > 0:
            break
    changed = {} if share == 1.0 else {frame.name: _inertial(share * frame.inertia) for frame in others}
    return {heaviest.name: _inertial(own)} | changed


def _inertial(inertia):
    mass, moment = mass_and_moment(inertia)
    return Inertial(central_moments(inertia), mass, moment / mass)
