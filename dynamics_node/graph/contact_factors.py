"""Contacts in the factor graph: their forces are variables, and their rows are factors.

The force lambda of a contact acts along the P of its equations (algorithms/contact_equations.py). It enters
the wrench factors (6) of the bodies that it touches. Which contacts are active is an input of the graph.
"""

from collections import defaultdict
from collections.abc import Iterable
from typing import Any, NamedTuple

import numpy as np

from dynamics_node.algorithms.contact_equations import contact_equations, drifts
from dynamics_node.algorithms.frame_kinematics import body_poses
from dynamics_node.algorithms.recursion import joint_motions, outward
from dynamics_node.algorithms.wheels import LEANING
from dynamics_node.errors import ChoiceError
from dynamics_node.graph.factors import Variable, contact_factor, contact_force, with_blocks
from dynamics_node.robot.robot import cached_on_robot
from dynamics_node.robot.transforms import joint_transforms
from dynamics_node.symbolic import Program, interpret, matvec, trace, transpose


class ContactState(NamedTuple):
    """active (..., contacts): one where a contact holds, zero elsewhere; accelerations (..., rows) of those
    that hold, in their axes."""

    active: Any
    accelerations: Any


def require_no_minimum(problem):
    """Raise ChoiceError for inverse dynamics with contacts, which minimize forces."""
    if problem.contacts and problem.kind == "inverse":
        raise ChoiceError(
            "inverse dynamics with contacts has the shortest forces, which no ordering of the factor graph "
            "computes: leave solver at 'best', or take forward dynamics"
        )


@cached_on_robot
def contact_program(tree, contacts) -> Program:
    """q, qd (of the tree), gravity (3,) -> for contact k: P{k}.{body} (6, rows), turn{k} (rows, rows),
    offset{k} (rows,): its acceleration besides P^T A, by gravity and `drifts`; of a wheel also leaning{k}."""

    def function(q, qd, gravity):
        X_up = joint_transforms(tree, q)
        velocities = outward(tree, X_up, joint_motions(tree, qd))
        results: dict[str, Any] = {}
        for k, equation in enumerate(contact_equations(tree, X_up, contacts)):
            results |= {f"P{k}.{body}": P for body, P in equation.sides}
            results[f"turn{k}"] = np.eye(equation.size) if equation.turn is None else equation.turn
            falling = _falling(tree, X_up, equation.sides, gravity)
            results[f"offset{k}"] = falling + drifts(velocities, [equation])
            if equation.wheel:
                results[f"leaning{k}"] = equation.leaning()
        return results

    return trace(function, {"q": (tree.nq,), "qd": (tree.nv,), "gravity": (3,)})


def _falling(tree, X_up, sides, gravity):
    """P^T of the acceleration of gravity; it cancels where both sides fall."""
    if len(sides) > 1:
        return np.zeros(sides[0][1].shape[1])
    ((body, P),) = sides
    E, _ = body_poses(tree, X_up, {body})[body]
    return P[3:].T @ matvec(E, gravity)


class Touched(NamedTuple):
    """Of a contact at states: its force, sides {body: P}, and the rest of `contact_program`."""

    force: Variable
    sides: dict[int, Any]
    turn: Any
    offset: Any
    leaning: Any


def touched(tree, contacts, q, rates=None, gravity=None) -> tuple[Touched, ...]:
    """The contacts at states; rates and gravity are of the offset alone."""
    gravity = tree.gravity if gravity is None else gravity
    rates = np.zeros(tree.nv) if rates is None else rates
    found = interpret(contact_program(tree, contacts), q=q, qd=rates, gravity=gravity)
    sides: list[dict] = [{} for _ in contacts]
    for name, P in found.items():
        if name.startswith("P"):
            k, body = map(int, name[1:].split("."))
            sides[k][body] = P
    forces = contact_forces(contacts)
    return tuple(
        Touched(force, sides[k], found[f"turn{k}"], found[f"offset{k}"], found.get(f"leaning{k}", 0.0))
        for k, force in enumerate(forces)
    )


def with_contacts(tree, problem, factors, q, rates, gravity, state: ContactState):
    """The factors of a robot, and those of the contacts of a Problem. rates (..., nv of the tree); gravity as
    in `rnea`."""
    on_wrenches, added = defaultdict[int, dict](dict), []
    places = problem.rows.places.values()
    contacts = zip(touched(tree, problem.contacts, q, rates, gravity), places, strict=True)
    for k, ((force, sides, turn, offset, _), place) in enumerate(contacts):
        wanted = matvec(transpose(turn), state.accelerations[..., place])
        added.append(contact_factor(k, sides, state.active[..., k], wanted - offset))
        for body, P in sides.items():
            on_wrenches[body][force] = P
    for factor in factors:
        yield with_blocks(factor, on_wrenches[factor.body]) if factor.kind == "wrench" else factor
    yield from added


def leaning_wheels(contacts: Iterable[Touched], active=None):
    """(...) bool: whether a wheel leans too much to have a lowest point; with active (..., contacts): an
    active one."""
    parts = (t.leaning if active is None else active[..., k] * t.leaning for k, t in enumerate(contacts))
    return np.asarray(sum(parts, 0.0)) > LEANING


def forces_of_contacts(tree, problem, values, q):
    """(..., rows), in the axes of the contacts, from {variable: value}."""
    parts = [matvec(t.turn, values[t.force]) for t in touched(tree, problem.contacts, q)]
    return np.concatenate(parts, axis=-1)


def contact_forces(contacts):
    """The unknown forces of contacts."""
    return [contact_force(k, len(contact.rows)) for k, contact in enumerate(contacts)]


def sides_of(tree, problem):
    """{lambda: bodies that it touches, -1 for the world}."""
    bodies = (
        [tree.frame(link).body if link else -1 for link in (contact.link, contact.other)]
        for contact in problem.contacts
    )
    return dict(zip(contact_forces(problem.contacts), bodies, strict=True))
