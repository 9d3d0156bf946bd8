"""What is beyond a joint, of robots with loops or without."""

from dynamics_node.robot import ModelError, Robot
from dynamics_node.robot.subtree import only_subtree


def carried_alone(robot: Robot, joint: str, **_) -> Robot:
    """The robot in which nothing has inertia but what is beyond the joint: see `only_subtree`.

    Raises KeyError for an unknown joint, ModelError where a loop bridges it: what it transmits is then more
    than what moves the bodies beyond. A loop joint that ends on the joint's own body is taken to end beyond.
    """
    seen = only_subtree(robot.tree, joint)
    beyond = {i for i, body in enumerate(seen.bodies) if body.inertia.any()}
    for cluster in robot.clusters:
        if cluster.constraints and not (beyond.isdisjoint(cluster.bodies) or beyond >= {*cluster.bodies}):
            loops = ", ".join(repr(constraint.name) for constraint in cluster.constraints)
            raise ModelError(
                f"joint {joint!r} is bridged by {loops}: what it carries is not all it bears, see the "
                "quantity reaction_wrenches"
            )
    return robot.with_tree(seen)
