"""The executable `dynamics`: look at a robot, its graph, and single results, without ROS."""

import argparse
import os
import sys
import time
from pathlib import Path

import numpy as np

from dynamics_node.algorithms import bias, crba
from dynamics_node.backends.c import CompileError
from dynamics_node.backends.c.compiler import cache_folder
from dynamics_node.graph import ORDERINGS, eliminate, generic_graph, plan_ordering, to_dot, to_svg
from dynamics_node.model import ModelError, load_model
from dynamics_node.problem import forward_dynamics, hybrid_dynamics, inverse_dynamics
from dynamics_node.solver import SOLVERS, build_for_service


def main(arguments=None):
    """Exit code 0, or 1 with one line on stderr."""
    options = _parser().parse_args(arguments)
    try:
        model = load_model(
            options.urdf, floating_base=options.floating_base, joints=options.joints, strict=options.strict
        )
        options.run(model, options)
    except BrokenPipeError:  # the reader of our output has seen enough
        sys.stderr.close()
    except (ModelError, ValueError, OSError, CompileError) as error:
        print(f"dynamics: {error}", file=sys.stderr)
        return 1
    return 0


def _parser():
    parser = argparse.ArgumentParser(prog="dynamics", description=__doc__)
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    info = _command(commands, "info", show_info, "joints, bodies, limits and warnings of a robot")
    info.add_argument("--at", type=float, nargs="+", metavar="Q", help="gravity torques and mass matrix at q")
    compile_ = _command(commands, "compile", compile_robot, "compile ahead of time what the node will need")
    compile_.add_argument(
        "--problem", nargs="+", choices=("inverse", "forward"), default=["inverse", "forward"]
    )
    compile_.add_argument("--solver", choices=SOLVERS, default="best")
    compile_.add_argument("--ordering", choices=(*ORDERINGS, "best"), default="best")
    compile_.add_argument(
        "-o", "--out", type=Path, help="in place of the user's cache; start the node with XDG_CACHE_HOME=OUT"
    )
    graph = _command(commands, "graph", show_graph, "orderings, edges and a drawing of a Bayes net")
    graph.add_argument("--problem", choices=("inverse", "forward", "hybrid"), default="forward")
    graph.add_argument("--forward-joints", nargs="+", default=[], metavar="JOINT")
    graph.add_argument("--ordering", choices=(*ORDERINGS, "best"), help="default: a table of all")
    graph.add_argument("--out", type=Path, help="write the Bayes net: FILE.svg or FILE.dot")
    return parser


def _command(commands, name, run, text):
    parser = commands.add_parser(name, help=text, description=text)
    parser.add_argument("urdf", help="robot description")
    parser.add_argument("--floating-base", action="store_true")
    parser.add_argument(
        "--joints", nargs="+", metavar="JOINT", help="these move, the others are held at zero"
    )
    parser.add_argument("--strict", action="store_true", help="refuse implausible inertias")
    parser.set_defaults(run=run)
    return parser


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


def compile_robot(model, options):
    """Fill the cache of compiled code, and say what is done."""
    if options.out:
        os.environ["XDG_CACHE_HOME"] = str(options.out.absolute())
    print(f"{model.name}: {model.nbodies} moving bodies, into {cache_folder()}")
    for kind in options.problem:
        print(f"{kind} dynamics ... ", end="", flush=True)
        started = time.perf_counter()
        problem = {"inverse": inverse_dynamics, "forward": forward_dynamics}[kind](model)
        solver = build_for_service(
            model, problem, solver=options.solver, ordering=options.ordering, backend="c"
        )
        counts = solver.engine.kernel.program.op_count()
        print(
            f"{solver.description}: {counts['mul'] + counts['add'] + counts['div']} operations, "
            f"{counts['sin']} angles, ready in {time.perf_counter() - started:.1f} s"
        )


def show_graph(model, options):
    """Print a table of orderings, or one Bayes net, and draw it."""
    problem = {
        "inverse": lambda: inverse_dynamics(model),
        "forward": lambda: forward_dynamics(model),
        "hybrid": lambda: hybrid_dynamics(model, options.forward_joints),
    }[options.problem]()
    graph = generic_graph(model, problem)
    names = [options.ordering] if options.ordering else list(ORDERINGS)
    print(f"{'ordering':16} {'edges':>6} {'entries':>8}  pivots")
    for name in names:
        ordering, plan = plan_ordering(model, problem, name)
        net = eliminate(graph, plan)
        pivots = "safe" if plan.safe else "checked at run time"
        print(f"{ordering.name:16} {len(net.edges):6} {plan.size:8}  {pivots}")
    if options.ordering:
        print(net)
    if options.out:
        if not options.ordering:
            raise ValueError("--out draws one net: choose it with --ordering")
        options.out.write_text(to_dot(net) if options.out.suffix == ".dot" else to_svg(net))
        print(f"written: {options.out}")


if __name__ == "__main__":
    sys.exit(main())
