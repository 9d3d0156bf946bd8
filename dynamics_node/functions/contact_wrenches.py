"""Wrenches on links by forces at contacts."""

from collections.abc import Iterable
from typing import Any

import numpy as np

from dynamics_node.algorithms.contact_equations import contact_equations
from dynamics_node.algorithms.reduced_frames import economical_program
from dynamics_node.codegen import make_runner
from dynamics_node.functions.arguments import Signature, robot_signature
from dynamics_node.functions.choices import Backend
from dynamics_node.functions.function import Function
from dynamics_node.robot import Robot, state_shapes
from dynamics_node.robot.contacts import Contact, ContactRows
from dynamics_node.robot.transforms import joint_transforms
from dynamics_node.symbolic import Program, inverse_motion_transform


def build_contact_wrenches(
    robot: Robot, contacts: Iterable[Contact], backend: Backend = "auto"
) -> Function[Any]:
    """The Function of q (nq,) and contact_forces (rows,), in the axes of the contacts: wrenches (contacts, 6)
    on their links, moment first, in the axes of the links at their origins. Raises CompileError for backend c
    without a compiler."""
    rows, of_robot = ContactRows(contacts), robot_signature(robot)
    inputs = {"q": of_robot.inputs["q"], "contact_forces": ((len(rows.names),), rows.names)}
    runner = make_runner(_program(robot, rows), backend, quaternions=robot.quaternion_places)
    return Function(signature=Signature("contact_wrenches", inputs, of_robot.quaternions), runner=runner)


def _program(robot: Robot, rows: ContactRows) -> Program:
    reads = {**state_shapes(robot, ("q",)), "contact_forces": (len(rows.names),)}

    def function(own, q, contact_forces):
        tree, places = own.tree, rows.places.values()
        equations = contact_equations(tree, joint_transforms(tree, q), rows.contacts)
        wrenches = [
            inverse_motion_transform(tree.frame(contact.link).X).T @ (e.P @ e.inward(contact_forces[place]))
            for contact, place, e in zip(rows.contacts, places, equations, strict=True)
        ]
        return {"wrenches": np.stack(wrenches)}

    return economical_program(robot, reads, function, reframed=False)
