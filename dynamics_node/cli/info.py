"""dynamics info: what a robot description holds."""

import numpy as np

from dynamics_node.algorithms import first_closed
from dynamics_node.cli.options import robot_command
from dynamics_node.functions import evaluate


def add_parser(commands):
    parser = robot_command(commands, "info", show_info, "joints, bodies, limits and warnings of a robot")
    parser.set_defaults(lists_warnings=True)
    parser.add_argument(
        "--at", type=float, nargs="+", metavar="Q", help="gravity torques and mass matrix at q"
    )


def show_info(model, options):
    """Print what the robot holds; with --at also h and M there."""
    tree = model.tree
    print(
        f"{model.name}: {model.nbodies} moving bodies, nq {model.nq}, nv {model.nv}, root {model.base_link!r}"
    )
    print(f"{'body':28} {'joint':28} {'type':10} {'mass kg':>8} {'effort limit':>12}  follows")
    for body in tree.bodies:
        joint = body.joint
        effort = "" if joint.type.is_free else f"{joint.limits.effort or np.inf:g}"
        print(
            f"{body.name:28} {joint.name:28} {joint.kind:10} {body.inertia[5, 5]:8.3f} {effort:>12}  "
            f"{', '.join(joint.masters.names) if joint.masters else ''}"
        )
    if model.constrained:
        _show_loops(model)
    for warning in model.warnings:
        print(f"warning: {warning}")
    if options.at is not None:
        _show_state(model, options.at)


def _show_loops(mechanism):
    names = mechanism.tree.v_names
    print(f"{'constraint':28} {'type':10} dependent joints")
    for cluster in (cluster for cluster in mechanism.clusters if cluster.constraints):
        dependent = ", ".join(names[v] for v in sorted(cluster.dependent))
        for constraint in cluster.constraints:
            kind = getattr(constraint, "kind", type(constraint).__name__.lower())
            print(f"{constraint.name:28} {kind:10} {dependent}")
            dependent = ""
    print(f"independent: {', '.join(mechanism.v_names)}")


def _show_state(model, q):
    if len(q) != model.nq:
        raise ValueError(f"--at needs {model.nq} numbers, not {len(q)}: {', '.join(model.q_names)}")
    for name, value in zip(model.q_names, q, strict=True):
        if not np.isfinite(value):
            raise ValueError(f"--at: {name} is {value}")
    q = first_closed(model, np.array(q))
    rest = np.zeros(model.nv)
    with np.printoptions(precision=4, suppress=True, linewidth=160):
        if model.constrained:
            print(f"closed position\n{q}")
        print(f"gravity torques\n{evaluate(model, 'nonlinear_effects', q, rest)}")
        print(f"mass matrix\n{evaluate(model, 'mass_matrix', q)}")
