"""dynamics compile and evaluate: ahead of time what the node needs; dynamics of tables and recordings."""

import contextlib
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

from dynamics_node.algorithms import friction_torque
from dynamics_node.cli.options import (
    add_friction,
    add_parameters,
    add_recording,
    as_recorded,
    cutoff,
    joints_map,
    progress,
    robot_command,
    torques_of,
)
from dynamics_node.codegen.cache import cache_folder
from dynamics_node.functions import SOLVERS, build, build_for_service, build_loop_solver
from dynamics_node.graph import ORDERINGS
from dynamics_node.identification import LowPass
from dynamics_node.io import (
    CUTOFF,
    Comparison,
    TableError,
    check_plot,
    evaluate,
    open_table,
    plot_comparison,
    table_writer,
)
from dynamics_node.robot import forward_dynamics, inverse_dynamics

SERVED = ("mass_matrix", "nonlinear_effects")  # quantities that services of the node tell


def add_compile(commands):
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


def add_evaluate(commands):
    text = "inverse or forward dynamics of every state of a table or a recording"
    parser = robot_command(commands, "evaluate", evaluate_table, text)
    add_parameters(parser)
    parser.add_argument(
        "--problem", choices=("inverse", "forward"), default="inverse",
        help="inverse: torques; forward: accelerations (inverse)",
    )  # fmt: skip
    parser.add_argument(
        "--input", type=Path, required=True, metavar="FILE",
        help="states: .npz, .csv, .parquet; JointStates: a rosbag2 folder, .db3, .mcap, a ROS 1 .bag",
    )  # fmt: skip
    parser.add_argument("--output", type=Path, metavar="FILE", help="results: .npz, .csv or .parquet")
    add_recording(parser)
    still = parser.add_mutually_exclusive_group()
    still.add_argument(
        "--differentiate", action="store_true",
        help="what is missing of velocities and accelerations are derivatives, low-passed without delay",
    )  # fmt: skip
    still.add_argument("--zero-velocity", action="store_true", help="velocities that nobody tells are zero")
    parser.add_argument(
        "--cutoff", type=float, metavar="HZ",
        help="of the low-pass of --differentiate: half of the amplitude is left there "
        f"({CUTOFF:g}, or a quarter of the states a second)",
    )  # fmt: skip
    add_friction(parser, default=False)
    parser.add_argument(
        "--compare", action="store_true", help="measured with computed torques, joint by joint"
    )
    parser.add_argument(
        "--unfiltered", action="store_true",
        help="--compare torques as they are; default: where accelerations are derivatives, measured and "
        "computed torques go through the same low-pass",
    )  # fmt: skip
    parser.add_argument("--plot", type=Path, metavar="FILE", help="--compare as .png, .svg or .pdf")
    parser.add_argument("--precision", choices=("float64", "float32"), default="float64")
    parser.add_argument("--chunk", type=int, default=16384, metavar="ROWS", help="rows in memory at a time")


def evaluate_table(model, options):
    """Read, compute and write in chunks; say what was assumed, how many there were, which could not be
    computed, and how far measured torques are from them."""
    compares = options.compare or options.plot is not None
    _check(options, compares)
    moved = as_recorded(model, options, [options.input])
    if options.problem == "forward" and moved.v_names != model.v_names:
        others = ", ".join(name for name in moved.v_names if name not in model.v_names)
        raise TableError(f"--problem forward: {others} move in the recording; name all joints by --joints")
    problem = {"inverse": inverse_dynamics, "forward": forward_dynamics}[options.problem](moved)
    table = open_table(
        options.input, moved, problem, options.chunk, options.topic, joints_map=joints_map(options),
        measured=torques_of(model, moved) if compares else False, zero_velocity=options.zero_velocity,
        cutoff=cutoff(options) if options.differentiate else None,
    )  # fmt: skip
    for note in table.notes:
        print(f"dynamics: {note}", file=sys.stderr)
    comparison = Comparison(model) if compares else None
    solver = build(moved, problem, precision=options.precision)
    if options.friction:
        solver = _WithFriction(solver)
    summary = _run(solver, table, options, comparison, model)
    if summary.bad:
        print(
            f"dynamics: {summary.bad} states are not finite, not of unit length, have no solution or no "
            f"derivatives; their results are NaN (first: row {summary.first_bad})",
            file=sys.stderr,
        )
    if comparison:
        _show(comparison, _below(table, options))
        if options.plot:
            plot_comparison(options.plot, comparison, f"{model.name}, {options.input.name}", table.timed)
            print(f"written: {options.plot}")


def _check(options, compares):
    """Raise TableError for options that do not go together, before anything is computed."""
    if options.output is None and not compares:
        raise TableError("there is nothing to do: name an --output, or --compare")
    if compares and options.problem != "inverse":
        raise TableError("--compare and --plot are for torques: --problem inverse")
    if _same(options.input, options.output):
        raise TableError(f"--output {options.output} is the input: name another file")
    if options.chunk < 1:
        raise TableError(f"--chunk must be positive, not {options.chunk}")
    if options.cutoff is not None and not options.differentiate:
        raise TableError("--cutoff belongs to --differentiate")
    if options.unfiltered and not compares:
        raise TableError("--unfiltered belongs to --compare")
    if options.plot is not None:
        check_plot(options.plot)


def _same(source, target):
    """Whether both are one file."""
    return target is not None and target.exists() and source.exists() and target.samefile(source)


class _WithFriction:
    """A solver of inverse or forward dynamics whose torques are those of motors."""

    def __init__(self, solver):
        self.robot, self.problem, self._solver = solver.robot, solver.problem, solver

    def __call__(self, q, qd, known, *rest, errors):
        if self.problem.kind == "forward":
            return self._solver(q, qd, known - friction_torque(self.robot, q, qd), *rest, errors=errors)
        tau = self._solver(q, qd, known, *rest, errors=errors)
        solved = np.isfinite(tau).all(axis=1)
        tau[solved] += friction_torque(self.robot, q[solved], qd[solved])
        return tau


def _below(table, options):
    """Hz, of the low-pass of measured and computed torques; None for none."""
    return None if options.unfiltered else table.cutoff


class _Compared:
    """What a Comparison takes in: torques `own`, below a cut-off if there is one."""

    def __init__(self, comparison, own, cutoff):
        self._comparison, self._own = comparison, own
        self._filter = None if cutoff is None else LowPass(cutoff, lambda part: part["columns"], self._take)
        self._begin = np.nan

    def __call__(self, measured, computed, time):
        measured, computed = measured[:, self._own], computed[:, self._own]
        if self._filter is None:
            self._comparison.add(measured, computed, time)
            return
        if np.isnan(self._begin):
            self._begin = np.nanmin(time, initial=np.inf)
        columns = np.column_stack([np.ones(len(time)), time - self._begin, measured, computed])
        self._filter.add({"time": time, "columns": columns}, np.isfinite(columns).all(axis=1))

    def _take(self, rows, numbers):
        measured, computed = np.split(rows[:, 2:], 2, axis=1)
        self._comparison.add(measured, computed, self._begin + rows[:, 1] / rows[:, 0])


def _run(solver, table, options, comparison, robot):
    """The Summary of all rows, written and compared as asked for, of the joints of `robot`."""
    started = time.perf_counter()
    result = "tau" if options.problem == "inverse" else "qdd"
    own = [solver.robot.v_names.index(name) for name in robot.v_names]
    sinks: dict[str, Callable] = {}
    with contextlib.ExitStack() as stack:
        if comparison:
            sinks["compare"] = _Compared(comparison, own, _below(table, options))
        if options.output:
            write = stack.enter_context(table_writer(options.output, robot, result, table.timed))
            sinks["write"] = lambda found, time: write(found[:, own], time)
        advance = stack.enter_context(progress("states", table.rows))
        summary = evaluate(solver, table, advance=advance, **sinks)
    written = f", written: {options.output}" if options.output else ""
    print(f"{summary.rows} states in {time.perf_counter() - started:.2f} s{written}")
    return summary


def _show(comparison, cutoff):
    """Print what remains at every joint."""
    differences = comparison.differences()
    if cutoff is None:
        print(f"computed minus measured torque of {comparison.count} states")
    else:
        print(
            f"computed minus measured torque, both below {cutoff:g} Hz (--unfiltered: as recorded), of "
            f"{comparison.count} rows"
        )
    width = max(5, *(len(told.name) for told in differences))
    print(
        f"{'joint':{width}} unit  {'measured':>9} {'RMSE':>9} {'largest':>9} {'bias':>9} {'correlation':>11}"
    )
    for told in differences:
        numbers = f"{told.measured:9.4g} {told.rmse:9.4g} {told.largest:9.4g} {told.bias:+9.3g}"
        print(f"{told.name:{width}} {told.unit:4}  {numbers} {told.correlation:11.4f}")
