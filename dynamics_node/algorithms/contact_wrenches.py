"""Wrenches on links by forces at contacts."""

import numpy as np

from dynamics_node.algorithms.contact_equations import contact_equations
from dynamics_node.algorithms.reduced_frames import economical_program
from dynamics_node.robot import Robot, state_shapes
from dynamics_node.robot.contacts import ContactRows
from dynamics_node.robot.transforms import joint_transforms
from dynamics_node.symbolic import Program, inverse_motion_transform


def contact_wrenches_program(robot: Robot, rows: ContactRows) -> Program:
    """q (nq,), contact_forces (rows,) in the axes of the contacts -> wrenches (contacts, 6) on their links,
    moment first, in the axes of the links at their origins."""
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
