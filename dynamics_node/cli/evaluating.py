"""dynamics evaluate and compile: dynamics of tables and recordings; code for the node, ahead of time."""

import contextlib
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from dynamics_node.algorithms import friction_torque
from dynamics_node.cli.options import (
    UsageError,
    as_recorded,
    contacts_of,
    cutoff,
    joints_map,
    require_links,
    torques_of,
)
from dynamics_node.cli.parser import RECORDING, USUAL, add_command
from dynamics_node.cli.values import (
    TABLES,
    count,
    folder_to_write,
    one_of,
    plot_to_write,
    positive,
    table_to_write,
)
from dynamics_node.codegen.cache import cache_folder
from dynamics_node.errors import TableError
from dynamics_node.functions import (
    SOLVERS,
    build,
    build_contact_solver,
    build_contact_wrenches,
    build_for_service,
    build_loop_solver,
    changeable,
)
from dynamics_node.graph import ORDERINGS
from dynamics_node.identification import LowPass
from dynamics_node.io import (
    Comparison,
    TablePart,
    Tasks,
    connected,
    evaluate,
    evaluate_part,
    open_table,
    part_names,
    parts_of,
    plot_comparison,
    table_writer,
    zarr_targets,
)
from dynamics_node.io.differentiate import END
from dynamics_node.output_files import making_new
from dynamics_node.robot import forward_dynamics, inverse_dynamics
from dynamics_node.symbolic import Program

SERVICE_QUANTITIES = ("mass_matrix", "nonlinear_effects")  # quantities of the node's services
CHUNKS_OF_TASK = 64  # about a million rows: seconds
PROBLEMS = {"inverse": inverse_dynamics, "forward": forward_dynamics}
CONTACT_FORCES = ("shortest", "friction_cones")  # of the node

# --- compile ------------------------------------------------------------------------------------------------


def add_compile(commands):
    parser = add_command(
        commands,
        "compile",
        compile_robot,
        "Compile the code that the node needs, ahead of time.",
        "robot.urdf",
        "robot.urdf --tip-links tool0 -o cache   # start the node with XDG_CACHE_HOME=cache",
        "solo12.urdf --floating-base --contacts feet.yaml --contact-forces friction_cones",
        parameters=True,
    )
    parser.add_list("--problem", "inverse, forward (default: both)", "PROBLEM,...", one_of(*PROBLEMS))
    parser.add_choice("--solver", SOLVERS, default="best")
    parser.add_choice("--ordering", (*ORDERINGS, "best"), default="best")
    parser.add_list("--tip-links", "the node's parameter tip_links", "LINK,...")
    parser.add_value("--contacts", "the node's parameter contacts_file", "FILE", type=Path)
    parser.add_choice("--contact-forces", CONTACT_FORCES, "the node's parameter of that name", "shortest")
    text = "cache folder (default: the user's cache)"
    parser.add_value("-o --output", text, "FOLDER", type=folder_to_write)


def compile_robot(robot, options, printer):
    """Fill the cache of compiled code."""
    require_links(robot, "--tip-links", options.tip_links or ())
    if options.contacts is None and options.contact_forces != "shortest":
        raise UsageError(f"--contact-forces {options.contact_forces} needs --contacts")
    contacts = contacts_of(robot, options)
    if options.output:
        os.environ["XDG_CACHE_HOME"] = str(options.output.absolute())
    printer.line(f"{robot.name}: {robot.nbodies} moving bodies, into {cache_folder()}")
    if robot.constrained:
        with printer.progress("closing loops"):
            closing = build_loop_solver(robot, "c")
        program = closing.step.program
        if isinstance(program, Program):
            printer.line(f"closing loops: {len(program.ops)} operations a step of Newton's method")
    with printer.progress("services"):
        for name in SERVICE_QUANTITIES:
            build_for_service(robot, name, backend="c")
        if options.tip_links:
            links = options.tip_links
            build_for_service(robot, "operational_space_inertia_inverse", backend="c", links=links)
    if contacts:
        with printer.progress("contacts"):
            _compile_contacts(robot, contacts, options.contact_forces)
    rows = []
    for kind in options.problem or PROBLEMS:
        started = time.perf_counter()
        with printer.progress(f"{kind} dynamics"):
            for problem in dict.fromkeys(PROBLEMS[kind](robot, touching) for touching in ((), contacts)):
                build_for_service(robot, problem, batches=True, backend="c")  # of whole trajectories
            solver = build_for_service(
                robot, problem, f_ext=True, solver=options.solver, ordering=options.ordering, backend="c"
            )
        counts = solver.program.op_count()
        operations, seconds = counts["mul"] + counts["add"] + counts["div"], time.perf_counter() - started
        rows.append({"problem": kind, "solver": solver.description, "operations": operations})
        printer.line(
            f"{kind} dynamics: {solver.description}, {operations} operations, {counts['sin']} angles, "
            f"{seconds:.1f} s"
        )
    printer.data(cache=cache_folder(), problems=rows)


def _compile_contacts(robot, contacts, forces):
    """Compile what the node needs for contacts besides their problems."""
    build_contact_wrenches(robot, contacts, "c").compile()
    if forces == "friction_cones":
        changes = changeable(robot)
        build_contact_solver(robot, contacts, f_ext=True, backend="c", runtime_parameters=changes).compile(
            batches=True
        )


# --- evaluate -----------------------------------------------------------------------------------------------


def add_evaluate(commands):
    parser = add_command(
        commands,
        "evaluate",
        evaluate_table,
        "Compute inverse or forward dynamics of every state of a table or a recording.",
        "robot.urdf states.npz -o torques.npz",
        "robot.urdf my_bag --differentiate --compare --plot torques.png",
        "robot.urdf states.parquet -o torques.parquet --cluster tcp://scheduler:8786",
        parameters=True,
        recorded=True,
    )
    text = f"{RECORDING}; several, or a folder NAME.parquet of tables, with --cluster"
    parser.add_argument("input", type=Path, nargs="+", metavar="STATES", help=text)
    parser.add_choice("--problem", PROBLEMS, "torques, or accelerations", "inverse")
    parser.add_value("-o --output", f"results: {', '.join(TABLES)}", "FILE", type=table_to_write)
    parser.add_recording()
    still = parser.add_mutually_exclusive_group()
    text = "compute missing velocities and accelerations as derivatives, low-passed without delay"
    parser.add_switch("--differentiate", text, to=still)
    parser.add_switch("--zero-velocity", "set missing velocities to zero", to=still)
    text = f"cut-off of --differentiate, where half of the amplitude is left {USUAL}"
    parser.add_value("--cutoff", text, "HZ", type=positive)
    parser.add_friction()
    parser.add_switch("--compare", "compare measured with computed torques")
    text = (
        "compare torques as recorded (default: measured and computed torques pass the low-pass of the "
        "accelerations)"
    )
    parser.add_switch("--unfiltered", text)
    parser.add_value("--plot", "the comparison: .png, .svg, .pdf", "FILE", type=plot_to_write)
    parser.add_choice("--precision", ("float64", "float32"), default="float64")
    text = "rows in memory at a time (default: 16384)"
    parser.add_value("--chunk", text, "ROWS", type=count, default=16384)
    text = "dask scheduler whose workers read, compute, and write --output, a folder NAME.parquet or .zarr"
    parser.add_value("--cluster", text, "ADDRESS")


def evaluate_table(robot, options, printer):
    """Read, compute and write in chunks; print counts, states without a result, and the comparison."""
    compares = options.compare or options.plot is not None
    _check(options, compares)
    moved = as_recorded(robot, options, options.input, printer)
    if options.problem == "forward" and moved.v_names != robot.v_names:
        others = ", ".join(name for name in moved.v_names if name not in robot.v_names)
        raise UsageError(f"--problem forward: {others} move in the recording; name all joints by --joints")
    problem = PROBLEMS[options.problem](moved)
    choices = {
        "chunk": options.chunk,
        "topic": options.topic,
        "joints_map": joints_map(options),
        "zero_velocity": options.zero_velocity,
        "cutoff": cutoff(options) if options.differentiate else None,
    }
    if options.cluster:
        _on_cluster(robot, moved, problem, choices, options, printer)
        return
    (path,) = options.input
    measured = torques_of(robot, moved) if compares else False
    table = open_table(path, moved, problem, measured=measured, **choices)
    for note in table.notes:
        printer.note(note)
    comparison = Comparison(robot) if compares else None
    solver = _solver(moved, problem, options, printer)
    summary = _run(solver, table, options, comparison, robot, printer)
    if summary.bad:
        printer.note(_unsolved(summary.bad, f"row {summary.first_bad}", table.cutoff))
    if comparison:
        _show(comparison, _below(table, options), printer)
        if options.plot:
            plot_comparison(options.plot, comparison, f"{robot.name}, {path.name}", table.timed)
            printer.written(options.plot)


def _solver(robot, problem, options, printer) -> Any:
    with printer.progress("compiling"):
        solver = build(robot, problem, precision=options.precision)
        if options.cluster:
            solver.compile(batches=True)
    return _WithFriction(solver) if options.friction else solver


def _unsolved(count, first, cutoff):
    """Text on rows without a result, with the possible reasons."""
    reasons = "not finite, not of unit length, or without a solution"
    if cutoff is not None:
        reasons = (
            "not finite, not of unit length, without a solution, or within "
            f"{END / cutoff:.2g} s of the ends and gaps of the recording, "
            "where derivatives do not exist"
        )
    return f"{'1 row is' if count == 1 else f'{count} rows are'} NaN (first: {first}): {reasons}"


def _on_cluster(robot, moved, problem, choices, options, printer):
    """Results of every part of the tables by a task, in a file of the folder --output or in its chunks of a
    Zarr group."""
    started = time.perf_counter()
    if options.differentiate:  # a recording is filtered from its beginning to its end
        parts = [TablePart(path.absolute()) for path in options.input]
    else:
        rows = CHUNKS_OF_TASK * options.chunk
        parts = [part for path in options.input for part in parts_of(path, rows)]
    with connected(options.cluster) as client:
        solver = _solver(moved, problem, options, printer)
        new = making_new(options.output.absolute())
        with new as folder, printer.progress("parts", len(parts)) as advance:
            if options.output.suffix == ".zarr":
                files = zarr_targets(parts, folder, solver, robot)
            else:
                files = [folder / name for name in part_names(parts)]
            tasks = Tasks(client).map(
                evaluate_part, list(zip(parts, files, strict=True)), lambda item: item[0].path,
                lambda _: advance(1), solver=solver, robot=robot, choices=choices,
            )  # fmt: skip
            results = list(tasks)
    for note in dict.fromkeys(note for result in results for note in result.notes):
        printer.note(note)
    states, bad = (sum(getattr(result.summary, name) for result in results) for name in ("rows", "bad"))
    printer.data(states=states, without_result=bad)
    printer.line(f"{states} states in {time.perf_counter() - started:.2f} s, {len(parts)} tasks")
    printer.written(options.output)
    if bad:
        part, summary, _, limit = next(result for result in results if result.summary.bad)
        printer.note(_unsolved(bad, f"row {part.first + summary.first_bad} of {part.path}", limit))


def _check_for_cluster(options, compares):
    if compares:
        raise UsageError("--cluster writes results; compare without it")
    if options.output is None or options.output.suffix not in (".parquet", ".zarr"):
        raise UsageError(
            "--cluster writes a folder of .parquet files or a Zarr group: name it --output NAME.parquet or "
            "NAME.zarr"
        )
    if options.output.suffix == ".zarr":
        if [path.suffix for path in options.input] != [".zarr"]:
            raise UsageError("--cluster writes --output NAME.zarr of one NAME.zarr: write a NAME.parquet")
        if options.differentiate:
            raise UsageError("--differentiate is one task: leave out --cluster, or write a NAME.parquet")
    if options.output.exists():
        raise UsageError(f"--output {options.output} exists: remove it, or name another folder")


def _check(options, compares):
    """Raise TableError for a missing input, UsageError for options that do not go together."""
    for path in options.input:
        if not path.exists():
            raise TableError(f"{path}: no such file")
    if options.cluster:
        _check_for_cluster(options, compares)
    elif len(options.input) > 1:
        raise UsageError("one recording at a time; several require --cluster")
    if options.output is None and not compares:
        raise UsageError("nothing to do: name an --output, or --compare")
    if compares and options.problem != "inverse":
        raise UsageError("--compare and --plot need torques: use --problem inverse")
    if options.cutoff is not None and not options.differentiate:
        raise UsageError("--cutoff requires --differentiate")
    if options.unfiltered and not compares:
        raise UsageError("--unfiltered requires --compare")


class _WithFriction:
    """A solver of inverse or forward dynamics for motor torques, which include friction."""

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
    """Cut-off in Hz of the low-pass of measured and computed torques, or None."""
    return None if options.unfiltered else table.cutoff


class _FilteredComparison:
    """Passes the torques `columns` to a Comparison, below a cut-off if given."""

    def __init__(self, comparison, columns, cutoff):
        self._comparison, self._columns = comparison, columns
        self._filter = None if cutoff is None else LowPass(cutoff, lambda part: part["columns"], self._take)
        self._begin = np.nan

    def __call__(self, measured, computed, time):
        measured, computed = measured[:, self._columns], computed[:, self._columns]
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


def _run(solver, table, options, comparison, robot, printer):
    """The Summary of all rows, written and compared on request, of the joints of `robot`."""
    started = time.perf_counter()
    result = "tau" if options.problem == "inverse" else "qdd"
    columns = [solver.robot.v_names.index(name) for name in robot.v_names]
    sinks: dict[str, Callable] = {}
    with contextlib.ExitStack() as stack:
        if comparison:
            sinks["compare"] = _FilteredComparison(comparison, columns, _below(table, options))
        if options.output:
            write = stack.enter_context(table_writer(options.output, robot, result, table.timed))
            sinks["write"] = lambda values, time: write(values[:, columns], time)
        progress = stack.enter_context(printer.progress("states", table.rows))
        summary = evaluate(solver, table, progress=progress, **sinks)
    printer.data(states=summary.rows, without_result=summary.bad)
    printer.line(f"{summary.rows} states in {time.perf_counter() - started:.2f} s")
    if options.output:
        printer.written(options.output)
    return summary


def _show(comparison, cutoff, printer):
    """Print the differences at every joint."""
    rows = comparison.differences()
    printer.data(cutoff=cutoff, compared=comparison.count, joints=[row._asdict() for row in rows])
    if cutoff is None:
        printer.line(f"computed minus measured torque of {comparison.count} states")
    else:
        printer.line(
            f"computed minus measured torque, both below {cutoff:g} Hz (--unfiltered: as recorded), of "
            f"{comparison.count} rows"
        )
    head = ("joint", "unit", "measured", "RMSE", "largest", "bias", "correlation")
    cells = [
        [
            row.name,
            row.unit,
            row.measured,
            row.rmse,
            row.largest,
            f"{row.bias:+.3g}",
            f"{row.correlation:.4f}",
        ]
        for row in rows
    ]
    printer.table(head, cells)
