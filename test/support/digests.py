"""Prints digests that must be the same on every processor, as JSON: {robot: {Program: [digest of its text and C source,
operations]}}.

    python digests.py ROBOT ...

ROBOT: a name of OWN below, of robots.py or of dynamics_demo.robots; a + after it adds Programs.
"""

import hashlib
import json
import sys

import robots
from mechanisms import joint, link, robot

import dynamics_node as dn
from dynamics_demo import robots as linkages
from dynamics_node.algorithms import derivative_program, dynamics_programs, quantity_programs
from dynamics_node.codegen.c.render import render
from dynamics_node.graph import elimination_program, sensor_program
from dynamics_node.robot import named, sensors

TURNS = "0.3 -0.7 1.1", "0 0 1.5707963", "-1.2 0.4 0.9", "1.5707963 0 0.2", "0.7 0.1 -2", "0.1 3 0.3"
AXES = "0.3 -0.5 0.8", "0 0 1", "1 1 0", "-0.2 0.9 0.1", "1 2 -3", "0 1 0"


def generic_tree():
    """A branching tree with generic axes and origins: no entry is zero by chance."""
    parts = [link("base")]
    for k in range(6):
        parent = "base" if k == 0 else "l1" if k == 4 else f"l{k - 1}"
        parts.append(link(f"l{k}", k, 1.5, solid=True))
        parts.append(joint(f"j{k}", parent, f"l{k}", "0.1 -0.23 0.31", AXES[k], rpy=TURNS[k]))
    return robot(*parts)


def free_body():
    """A free body at the end of an arm: its joint has a constant articulated inertia."""
    ends = [("base", "l0"), ("l0", "l1"), ("l1", "l2"), ("l2", "free")]
    parts = [link("base"), *(link(child, k, 1.5, solid=True) for k, (_, child) in enumerate(ends))]
    for k, (parent, child) in enumerate(ends):
        kind = "floating" if child == "free" else "revolute"
        parts.append(joint(f"j{k}", parent, child, "0.1 -0.23 0.31", AXES[k], kind, rpy=TURNS[k]))
    return robot(*parts)


OWN = {
    "generic_tree": generic_tree,
    "free_body": free_body,
    "geared_arm": lambda: linkages.geared_chain(2),
    **linkages.ROBOTS,
}


def load(name):
    return dn.parse_robot(OWN[name]()) if name in OWN else robots.ROBOTS[name].model()


def programs(robot, more):
    """(name, Program) of the recursions; more: also of all problems that are cheap for a small robot."""
    joints = [own.name for own in robot.independent_joints if own.type.is_scalar]
    tip = robot.bodies[-1].name
    for kind in ("inverse", "forward", "hybrid")[: 3 if more else 2]:
        problem = named(kind, robot, joints[: max(1, len(joints) // 2)])
        for way, program in dynamics_programs(robot, problem).items():
            yield f"{kind} {way}", program
    for way, program in quantity_programs(robot, "operational_space_inertia_inverse", links=(tip,)).items():
        yield f"operational_space_inertia_inverse {way}", program
    if not more:
        return
    problem = dn.forward_dynamics(robot)
    yield "derivatives", derivative_program(robot, problem)
    if not robot.constrained:
        sensor = {"joint": joints[0], "xyz": (0.03, -0.05, 0.11), "rpy": (0.4, -0.7, 1.9)}
        yield "sensor_wrench", quantity_programs(robot, "sensor_wrench", **sensor)["by the tree"]
        yield "regressor", quantity_programs(robot, "joint_torque_regressor", link=tip)["by the tree"]
    yield "colamd", elimination_program(robot, problem, "colamd")
    yield "sensors", sensor_program(robot, dn.sensor_problem(robot, sensed(robot, joints, tip)))


def sensed(robot, joints, tip):
    """Redundant sensors, with an IMU whose axes are parallel to no joint axis."""
    own = [sensors.JointAcceleration(name, std=0.2) for name in joints]
    own += [sensors.Imu(tip, std=0.05, xyz=(0.03, -0.05, 0.11), rpy=(0.4, -0.7, 1.9))]
    return own + [sensors.JointTorque(name, std=0.5) for name in joints]


def digest(program):
    source = render(program)
    return [hashlib.sha256((program.digest() + source).encode()).hexdigest()[:16], source.count("\n")]


def main(names):
    digests = {}
    for name in names:
        own = load(name.rstrip("+"))
        digests[name] = {what: digest(program) for what, program in programs(own, name.endswith("+"))}
    print(json.dumps(digests))


if __name__ == "__main__":
    main(sys.argv[1:])
