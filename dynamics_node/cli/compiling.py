"""dynamics compile: ahead of time what the node will need."""

import os
import time
from pathlib import Path

from dynamics_node.cli.options import add_parameters, robot_command
from dynamics_node.codegen.cache import cache_folder
from dynamics_node.functions import SOLVERS, build_for_service, build_loop_solver
from dynamics_node.graph import ORDERINGS
from dynamics_node.robot import forward_dynamics, inverse_dynamics

SERVED = ("mass_matrix", "nonlinear_effects")  # quantities that services of the node tell


def add_parser(commands):
    text = "compile ahead of time what the node will need"
    parser = robot_command(commands, "compile", compile_robot, text)
    add_parameters(parser)
    parser.add_argument(
        "--problem", nargs="+", choices=("inverse", "forward"), default=["inverse", "forward"]
    )
    parser.add_argument("--solver", choices=SOLVERS, default="best")
    parser.add_argument("--ordering", choices=(*ORDERINGS, "best"), default="best")
    parser.add_argument(
        "--tip-links", nargs="+", metavar="LINK", default=(), help="the node's parameter tip_links"
    )
    parser.add_argument(
        "-o", "--out", type=Path, help="in place of the user's cache; start the node with XDG_CACHE_HOME=OUT"
    )


def compile_robot(model, options):
    """Fill the cache of compiled code, and say what is done."""
    if options.out:
        os.environ["XDG_CACHE_HOME"] = str(options.out.absolute())
    print(f"{model.name}: {model.nbodies} moving bodies, into {cache_folder()}")
    if model.constrained:
        closing = build_loop_solver(model, "c")
        print(f"closing loops: {len(closing.step.program.ops)} operations a step of Newton's method")
    for name in SERVED:
        build_for_service(model, name, backend="c")
    if options.tip_links:
        build_for_service(model, "operational_space_inertia_inverse", backend="c", links=options.tip_links)
    for kind in options.problem:
        print(f"{kind} dynamics ... ", end="", flush=True)
        started = time.perf_counter()
        problem = {"inverse": inverse_dynamics, "forward": forward_dynamics}[kind](model)
        solver = build_for_service(
            model, problem, batches=True, solver=options.solver, ordering=options.ordering, backend="c"
        )
        counts = solver.program.op_count()
        print(
            f"{solver.description}: {counts['mul'] + counts['add'] + counts['div']} operations, "
            f"{counts['sin']} angles, ready in {time.perf_counter() - started:.1f} s"
        )
