"""dynamics info: what a robot description holds."""

import numpy as np

from dynamics_node.algorithms import bias, crba
from dynamics_node.cli.robot import robot_command


def add_parser(commands):
    parser = robot_command(commands, "info", show_info, "joints, bodies, limits and warnings of a robot")
    parser.add_argument(
        "--at", type=float, nargs="+", metavar="Q", help="gravity torques and mass matrix at q"
    )


def show_info(model, options):
    """Print what the Model holds; with --at also h and M there."""
    print(
        f"{model.name}: {model.nbodies} moving bodies, nq {model.nq}, nv {model.nv}, root {model.base_link!r}"
    )
    print(f"{'body':28} {'joint':28} {'type':10} {'mass kg':>8} {'effort limit':>12}  mimics")
    for body in model.bodies:
        joint = body.joint
        effort = "" if joint.kind == "floating" else f"{joint.limits.effort or np.inf:g}"
        print(
            f"{body.name:28} {joint.name:28} {joint.kind:10} {body.inertia[5, 5]:8.3f} {effort:>12}  "
            f"{joint.mimic or ''}"
        )
    for warning in model.warnings:
        print(f"warning: {warning}")
    if options.at is not None:
        _show_state(model, options.at)


def _show_state(model, q):
    if len(q) != model.nq:
        raise ValueError(f"--at needs {model.nq} numbers, not {len(q)}: {', '.join(model.q_names)}")
    q = np.array(q)
    with np.printoptions(precision=4, suppress=True, linewidth=160):
        print(f"gravity torques\n{bias(model, q, np.zeros(model.nv))}")
        print(f"mass matrix\n{crba(model, q)}")
