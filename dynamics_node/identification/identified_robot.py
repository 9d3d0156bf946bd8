"""The robot with identified parameters, as a Robot and as description text."""

from dataclasses import replace

import numpy as np

from dynamics_node.algorithms import inertias_of_parameters
from dynamics_node.identification.regressor_model import RegressorModel
from dynamics_node.robot.inertial_parameters import with_parameters
from dynamics_node.robot.overrides import FIELDS, JointNumbers, Overrides, with_joint_numbers
from dynamics_node.robot.subtree import central_moments, mass_and_moment
from dynamics_node.robot.urdf_numbers import FIGURES, Dynamics, Inertial, with_numbers
from dynamics_node.symbolic import congruence, inverse_motion_transform, pseudo_inertia

SIGNED = ("offset", "spring")  # terms without a sign constraint
# Of the inertia of links that are fixed to a body's heaviest link
SHARES = (1.0, 0.5, 0.25, 0.1, 0.03, 0.01, 0.001, 0.0)


def identified_robot(linear: RegressorModel, parameters):
    """The Robot with parameters (p,): inertias, rotor inertias, friction, offsets, springs."""
    tree = linear.robot.tree
    inertias = tree.inertias
    if "inertia" in linear.terms:
        inertias = inertias_of_parameters(parameters[linear.places("inertia")].reshape(-1, 10))
    armature = tree.armature.copy()
    if "rotor" in linear.terms:
        armature[linear.axles] = parameters[linear.places("rotor")]
    tree = with_parameters(tree, inertias, armature)
    joints = {name: own._replace(rotor=None) for name, own in _joints(linear, parameters).items()}
    bodies = [
        replace(body, joint=with_joint_numbers(body.joint, joints.get(body.joint.name, JointNumbers())))
        for body in tree.bodies
    ]
    actuators = [
        with_joint_numbers(actuator, joints.get(actuator.name, JointNumbers())) for actuator in tree.actuators
    ]
    return linear.robot.with_tree(replace(tree, bodies=tuple(bodies), actuators=tuple(actuators)))


def identified_numbers(linear: RegressorModel, parameters) -> Overrides:
    """Numbers of links and joints for these parameters. Links fixed to a body keep their inertia and the
    heaviest link of the body absorbs the difference. If that makes it inconsistent, the other links keep only
    a share."""
    links: dict[str, Inertial] = {}
    if "inertia" in linear.terms:
        wanted = inertias_of_parameters(parameters[linear.places("inertia")].reshape(-1, 10))
        for k, inertia in enumerate(wanted):
            if inertia[5, 5] > 0:
                links |= _links_of(linear.robot.tree, k, inertia)
    return Overrides(links, _joints(linear, parameters))


def identified_text(text, linear: RegressorModel, parameters, figures=FIGURES) -> str:
    """The description with these parameters, to `figures` significant digits. Only numbers change, those of
    `identified_numbers`. A URDF has no field for offsets, springs and rotor inertias. Raises ModelError as
    `with_numbers` does."""
    numbers, friction = identified_numbers(linear, parameters), {}
    if {"viscous", "coulomb"} & set(linear.terms):
        friction = {
            name: Dynamics(number.viscous or 0.0, number.coulomb or 0.0)
            for name, number in numbers.joints.items()
        }
    return with_numbers(text, numbers.links, friction, figures)


def _joints(linear, parameters):
    """{joint: JointNumbers} of all joints with one coordinate; parameters that are not among the terms keep
    their described values. Mimic joints keep theirs: their share of the torque is subtracted."""
    numbers = {}
    for k, joint in enumerate(linear.joints):
        values = {term: float(getattr(joint, name)) for term, name in FIELDS.items()}
        for term in FIELDS:
            if term in linear.terms:
                others = linear.described[linear.places(term)][k] - values[term]
                value = parameters[linear.places(term)][k] - others
                values[term] = float(value if term in SIGNED else max(0.0, value))
        numbers[joint.name] = JointNumbers(**values)
    return numbers


def _links_of(tree, body, wanted):
    """{link: Inertial} of the links that must change for the body to have the inertia `wanted` (6, 6)."""
    frames = [frame for frame in tree.frames.values() if frame.body == body and frame.inertia[5, 5] > 0]
    frames = frames or [tree.frames[tree.bodies[body].name]]
    heaviest = max(frames, key=lambda frame: frame.inertia[5, 5])
    others = [frame for frame in frames if frame is not heaviest]
    back = inverse_motion_transform(heaviest.X)
    for share in SHARES:
        kept = [_share(frame.inertia, share) for frame in others]
        rest = (congruence(frame.X, inertia) for frame, inertia in zip(others, kept, strict=True))
        remainder = congruence(back, wanted - sum(rest, np.zeros((6, 6))))
        if _is_body(remainder):
            break
    changed = {frame.name: _inertial(inertia) for frame, inertia in zip(others, kept, strict=True)}
    return {heaviest.name: _inertial(remainder)} | ({} if share == 1.0 else changed)


def _share(inertia, share):
    """The share of a link's inertia that it keeps; a scaled point mass is inconsistent and becomes zero."""
    return share * inertia if share == 1.0 or _is_body(inertia) else np.zeros((6, 6))


def _is_body(inertia):
    return np.linalg.eigvalsh(pseudo_inertia(inertia))[0] > 0


def _inertial(inertia):
    mass, moment = mass_and_moment(inertia)
    if not mass > 0:
        return Inertial(np.zeros((3, 3)), 0.0, np.zeros(3))
    return Inertial(central_moments(inertia), mass, moment / mass)
