"""Wrenches on links by forces at contacts."""

from collections.abc import Iterable
from typing import Any

from dynamics_node.algorithms.contact_wrenches import contact_wrenches_program
from dynamics_node.codegen import make_runner
from dynamics_node.functions.arguments import Signature, robot_signature
from dynamics_node.functions.choices import Backend
from dynamics_node.functions.function import Function
from dynamics_node.robot import Robot
from dynamics_node.robot.contacts import Contact, ContactRows


def build_contact_wrenches(
    robot: Robot, contacts: Iterable[Contact], backend: Backend = "auto"
) -> Function[Any]:
    """The Function of `contact_wrenches_program`. Raises CompileError for backend c without a compiler."""
    rows, of_robot = ContactRows(contacts), robot_signature(robot)
    inputs = {"q": of_robot.inputs["q"], "contact_forces": ((len(rows.names),), rows.names)}
    runner = make_runner(contact_wrenches_program(robot, rows), backend, quaternions=robot.quaternion_places)
    return Function(signature=Signature("contact_wrenches", inputs, of_robot.quaternions), runner=runner)
