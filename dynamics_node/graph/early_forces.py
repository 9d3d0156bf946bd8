"""Forces of contacts and loops in an ordering as early as their rows have a regular pivot.

A force between two bodies can be solved when the joints between them are eliminated. One against the world
needs as many accelerations as it has rows: it is solved with its limb, below the body at which the tree
forks.
If limbs have fewer coordinates than rows, forces go on toward the root.
"""

from dynamics_node.graph.contact_factors import sides_of
from dynamics_node.graph.factor_graph import coordinate_owners, owners_at, unknown_of
from dynamics_node.graph.robot_graph import constraint_variables
from dynamics_node.robot.constraints import LoopJoint


def with_early_forces(robot, problem, order):
    """An order of the variables of the tree, with the forces of loops and contacts. problem: of the tree."""
    needed = _joints_between(robot, problem)
    owners = coordinate_owners(robot)
    late: dict[int, list] = {}
    for force, bodies in needed.items():
        joints = {owner for i in bodies for owner in owners_at(owners, i)}
        unknown = {unknown_of(robot, problem, owner) for owner in joints}
        at = max((k for k, x in enumerate(order) if x in unknown), default=len(order) - 1)
        late.setdefault(at, []).append(force)
    return [y for k, x in enumerate(order) for y in (x, *late.get(k, ()))]


def _joints_between(robot, problem):
    """{force: bodies whose joints are eliminated before it}"""
    needed, grounded = {}, {}
    for force, constraint in zip(constraint_variables(robot), _selected(robot), strict=True):
        if isinstance(constraint, LoopJoint):
            needed[force] = _path(robot, constraint.predecessor, constraint.successor)
        else:
            needed[force] = set(constraint.bodies)
    for force, (body, other) in sides_of(robot.tree, problem).items():
        if body >= 0 and other >= 0:
            needed[force] = _path(robot, body, other)
        else:
            grounded[force] = max(body, other)
    loops = list(needed.items())
    return needed | {force: _limb(robot, problem, body, grounded, loops) for force, body in grounded.items()}


def _selected(robot):
    """The constraints that have forces."""
    numbers = {x.body - robot.nbodies for x in constraint_variables(robot)}
    return [constraint for k, constraint in enumerate(robot.constraints) if k in numbers]


def _path(robot, body, other):
    """The bodies whose joints lie between two bodies."""
    return _above(robot, body) ^ _above(robot, other)


def _above(robot, body):
    """A body and its ancestors; none for the world."""
    return set(robot.tree.ancestors[body]) if body >= 0 else set()


def _limb(robot, problem, body, grounded, loops):
    """The bodies of the smallest limb of a body that has as many free coordinates as rows."""
    parents = robot.parents
    for top in sorted(_above(robot, body), reverse=True):
        if parents[top] >= 0 and parents.count(parents[top]) == 1 and not _is_floating(robot, parents[top]):
            continue
        limb = {i for i in range(robot.nbodies) if top in _above(robot, i)}
        rows = sum(force.dim for force, at in grounded.items() if at in limb)
        rows += sum(force.dim for force, bodies in loops if bodies <= limb)
        if _free(robot, problem, limb) >= rows:
            return limb
    return _above(robot, body)


def _is_floating(robot, body):
    return robot.bodies[body].joint.type.is_free


def _free(robot, problem, bodies):
    """How many accelerations of the joints of bodies are unknown."""
    joints = [robot.bodies[i].joint for i in bodies if robot.bodies[i].joint.masters is None]
    return sum(sum(problem.forward[joint.v]) for joint in joints)
