"""Sensor problems: a humanoid's joint torques from its sensors, and the figures of paper 4 as operation
counts.

SuperLU is timed for factorization and one solve only. Its matrices are prepared in advance, with rows and
columns in our order, so that permc_spec NATURAL needs no symbolic analysis. Our time is the whole call, from
q, qd and readings. Gaussian elimination in numpy.longdouble is the reference for accuracy.
"""

import os
import time

import harness
import numpy as np
from robots import random_chain, robot, robot_file

import dynamics_node as dn
from dynamics_node.algorithms import dynamics_programs
from dynamics_node.graph import sensor_program
from dynamics_node.graph.estimate import plan_estimate
from dynamics_node.graph.permuted import TransformBlock, scalar_rows
from dynamics_node.graph.pivot_search import best_plan
from dynamics_node.graph.sensor_system import sensor_system, sensor_values
from dynamics_node.robot import sensors as s
from dynamics_node.robot.state_arrays import sample_positions

ROUNDS, CALLS, STATES = 9, 40, 16
LENGTHS = (2, 3, 5, 7, 10, 20, 30, 50, 70, 100)
FEET = ("left_sole_link", "right_sole_link")
AT = {"xyz": (0.02, -0.01, 0.05), "rpy": (0.1, -0.2, 0.3)}


# --- (a) a humanoid on two feet -----------------------------------------------------------------------------


def on_two_feet(model, both=False):
    """A problem with joint accelerations, two sensors of the base motion, and a wrench sensor in the right
    sole or in both; otherwise the other wrench is unknown."""
    base = model.bodies[0].name
    driven = [body.joint.name for body in model.bodies if not body.joint.type.is_free]
    sensors = [s.JointAcceleration(name, std=0.5) for name in driven]
    sensors += [s.Accelerometer(base, std=0.02, **AT), s.AngularAcceleration(base, std=0.3)]
    sensors += [s.ExternalWrench(foot, std=1.0) for foot in (FEET if both else FEET[:1])]
    return dn.sensor_problem(model, sensors, contacts=[dn.Contact(foot, "surface") for foot in FEET])


def states_of(model, problem, count=STATES):
    random = np.random.default_rng(1)
    q, qd = sample_positions(model, count, random), random.uniform(-1, 1, (count, model.nv))
    return q, qd, random.uniform(-5, 5, (count, len(problem.readings)))


def humanoid():
    """Rows of our time against SuperLU, of accuracy, and of the cost of redundancy."""
    model = robot("talos")
    problem = on_two_feet(model)
    q, qd, readings = states_of(model, problem)
    estimator = dn.build(model, problem, backend="c")
    matrices, rhs, columns = square_systems(model, problem, q, qd, readings)
    ours, theirs = together(
        lambda k: estimator(q[k], qd[k], readings[k]), lambda k: superlu(matrices[k], rhs[k])
    )
    driven = sum(not body.joint.type.is_free for body in model.bodies)
    size = f"{driven} joints, {len(columns)} unknowns"
    operations = f"{len(estimator.program.ops)} operations"
    yield harness.Row(
        f"humanoid, {driven} joints, torques from sensors", ours, "us", "lower", "SuperLU, factors + solve",
        theirs, target=0.05, reason=f"{size}; ours is the whole call, {operations}",
    )  # fmt: skip
    yield berdy(model, ours)
    yield accuracy(model, problem, estimator, q, qd, readings)
    yield from redundant(model, q, qd)


def redundant(model, q, qd):
    """A row with wrench sensors in both feet: six redundant readings."""
    problem = on_two_feet(model, both=True)
    readings = np.random.default_rng(2).uniform(-5, 5, (STATES, len(problem.readings)))
    compiled, dense = (dn.build(model, problem, backend=backend) for backend in ("c", "numpy"))
    ours, theirs = together(
        lambda k: compiled(q[k], qd[k], readings[k]), lambda k: dense(q[k], qd[k], readings[k]), turns=3
    )
    reference, compiled_results = dense(q, qd, readings), compiled(q, qd, readings)
    difference = max(
        np.abs(a - b).max() / np.abs(b).max()
        for a, b in zip(compiled_results[:3], reference[:3], strict=True)
    )
    yield harness.Row(
        "the same, sensors in both feet", ours, "us", "lower", "least squares by NumPy", theirs,
        reason=f"{len(compiled.program.ops)} operations; results differ by {difference:.1e}",
    )  # fmt: skip


def square_systems(model, problem, q, qd, readings):
    """Permuted matrices (CSC) and right-hand sides of every state, and the columns."""
    from scipy.sparse import csc_matrix

    system = sensor_system(model, problem, q, qd, readings)
    plan = plan_estimate(system).lu
    factors = (*system.exact, *system.noisy)
    rows, rhs = scalar_rows(factors, plan.columns, plan.pattern)
    order = [pivot.row for pivot in plan.pivots]
    number = {pivot.column: k for k, pivot in enumerate(plan.pivots)}
    matrices = []
    for state in range(len(q)):
        entries = [
            (k, number[c], np.broadcast_to(entry, len(q))[state])
            for k, row in enumerate(order)
            for c, entry in rows[row].items()
        ]
        i, j, value = zip(*entries, strict=True)
        matrices.append(csc_matrix((value, (i, j)), shape=2 * (len(order),)))
    b = np.array([np.broadcast_to(rhs[row], len(q)) for row in order]).T
    return matrices, np.ascontiguousarray(b), plan.columns


def superlu(matrix, rhs):
    from scipy.sparse.linalg import splu

    return splu(matrix, permc_spec="NATURAL").solve(rhs)


def berdy(model, ours):
    """A row against iDynTree's solver for the same robot, whose readings are all joint accelerations and the
    net wrenches on all links; its time is for kinematics and estimate."""
    try:
        import idyntree.bindings as idt
    except ImportError:
        reason = "iDynTree is not installed: pip install idyntree"
        return harness.Row("the same, beside iDynTree", None, "us", "lower", reason=reason)
    call, size = berdy_solver(idt, [b.joint.name for b in model.bodies if not b.joint.type.is_free])
    (theirs,) = together(lambda k: call())
    return harness.Row(
        "the same, beside iDynTree", ours, "us", "lower", "Berdy, floating base", theirs, target=0.1,
        reason=f"{size} unknowns in its sparse Cholesky",
    )  # fmt: skip


def berdy_solver(idt, driven):
    """A function that estimates, and the number of dynamic variables."""
    loader = idt.ModelLoader()
    loader.loadReducedModelFromFile(str(robot_file("talos")), driven)
    model, options, helper = loader.model(), idt.BerdyOptions(), idt.BerdyHelper()
    options.berdyVariant = idt.BERDY_FLOATING_BASE
    options.includeAllJointAccelerationsAsSensors = True
    options.includeAllJointTorquesAsSensors = False
    options.includeAllNetExternalWrenchesAsDynamicVariables = True
    options.includeAllNetExternalWrenchesAsSensors = True
    options.baseLink = model.getLinkName(model.getDefaultBaseLink())
    helper.init(model, options)
    solver = idt.BerdySparseMAPSolver(helper)
    solver.initialize()
    positions, rates = idt.JointPosDoubleArray(model), idt.JointDOFsDoubleArray(model)
    readings, turning = idt.VectorDynSize(helper.getNrOfSensorsMeasurements()), idt.Vector3()
    random = np.random.default_rng(1)
    for array in (positions, rates, readings, turning):
        for k in range(array.size()):
            array.setVal(k, random.uniform(-1, 1))
    base = model.getFrameIndex(options.baseLink)

    def call(_owners=(loader, helper)):  # keeps the owners of referenced data alive
        solver.updateEstimateInformationFloatingBase(positions, rates, base, turning, readings)
        solver.doEstimate()

    return call, helper.getNrOfDynamicVariables()


def accuracy(model, problem, estimator, q, qd, readings):
    """A row of the largest relative error of qdd, tau and f_ext."""
    system = sensor_system(model, problem, q, qd, readings)
    variables, factors = system.variables, (*system.exact, *system.noisy)
    columns = tuple((x, k) for x in variables for k in range(x.dim))
    rows, rhs = scalar_rows(factors, columns)
    worst, results = 0.0, estimator(q, qd, readings)
    for state in range(3):
        A = np.zeros((len(rows), len(columns)), dtype=np.longdouble)
        for r, row in enumerate(rows):
            for c, entry in row.items():
                A[r, c] = np.broadcast_to(entry, len(q))[state]
        x = eliminated(A, np.array([np.broadcast_to(b, len(q))[state] for b in rhs], dtype=np.longdouble))
        values, start = {}, 0
        for variable in variables:
            values[variable] = x[start : start + variable.dim].astype(float)
            start += variable.dim
        for ours, right in zip(results[:3], sensor_values(model, system, values), strict=True):
            worst = max(worst, np.abs(ours[state] - right).max() / max(1e-6, np.abs(right).max()))
    return harness.Row(
        "the same, error", worst, "", "lower", target=1e-9, reason="against a dense solve in numpy.longdouble"
    )


def eliminated(A, b):
    """x of A x = b, with scaled rows and partial pivoting."""
    Ab = np.column_stack([A, b]) / np.abs(A).max(axis=1, keepdims=True)
    n = len(b)
    for k in range(n):
        p = k + int(np.argmax(np.abs(Ab[k:, k])))
        Ab[[k, p]] = Ab[[p, k]]
        below = k + 1 + np.flatnonzero(Ab[k + 1 :, k])
        Ab[below, k:] -= (Ab[below, k] / Ab[k, k])[:, None] * Ab[k, k:]
    x = np.zeros(n, dtype=A.dtype)
    for k in reversed(range(n)):
        x[k] = (Ab[k, n] - Ab[k, k + 1 : n] @ x[k + 1 :]) / Ab[k, k]
    return x


def together(*calls, turns=CALLS):
    """us of each of the alternating call(k), k a state: the least of the medians over turns of ROUNDS
    rounds."""
    rounds = []
    for _ in range(ROUNDS):
        times = [[_elapsed(call, turn % STATES) for call in calls] for turn in range(turns)]
        rounds.append(np.median(times, axis=0))
    return (1e-3 * np.min(rounds, axis=0)).tolist()


def _elapsed(call, state):
    begin = time.thread_time_ns()
    call(state)
    return time.thread_time_ns() - begin


# --- (b) serial chains --------------------------------------------------------------------------------------


def joints(model, kind):
    return [kind(body.joint.name, std=0.1) for body in model.bodies]


def load_cells(model):
    """The problem of figure 2: joint accelerations, load cells at the first joint and at the tip; the wrench
    on the middle link is unknown."""
    first, middle, tip = (model.bodies[k].name for k in (0, model.nbodies // 2, -1))
    wrist = s.ForceTorque(model.bodies[0].joint.name, measures="parent_to_child", std=0.1)
    sensors = [*joints(model, s.JointAcceleration), wrist]
    sensors.append(s.ExternalWrench(tip, std=0.1))
    touched = [tip] if middle in (first, tip) else [tip, middle]
    return dn.sensor_problem(model, sensors, contacts=[dn.Contact(link, "surface") for link in touched])


def arithmetic(program):
    """Additions, multiplications and divisions."""
    counts = program.op_count()
    return counts["add"] + counts["mul"] + counts["div"]


def counted(n):
    """{name: operations or fill-in} for a chain of n joints."""
    model, counts = random_chain(n), {}
    for kind, sensor in (("inverse", s.JointAcceleration), ("forward", s.JointTorque)):
        problem = dn.sensor_problem(model, joints(model, sensor))
        counts[f"{kind} LU"] = arithmetic(sensor_program(model, problem))
        counts[f"{kind} fill"] = fill(model, problem).fill
        problem = getattr(dn, f"{kind}_dynamics")(model)
        counts[kind] = min(map(arithmetic, dynamics_programs(model, problem).values()))
    if n > 3:
        problem = load_cells(model)
        counts["cells LU"] = arithmetic(sensor_program(model, problem))
        plan = fill(model, problem)
        counts["cells fill"], counts["cells turns"] = (
            plan.fill,
            sum(isinstance(x, TransformBlock) for x in plan.steps),
        )
    return counts


def fill(model, problem):
    """The elimination plan in the robot's own frames."""
    q, qd, readings = states_of(model, problem, 6)
    system = sensor_system(model, problem, q, qd, readings)
    return best_plan((*system.exact, *system.noisy))


def chains():
    """Rows of figures 1 and 2 as operation counts: of our cheapest Program, and of the permuted LU of the
    generic search, which does not use the structure of inverse or forward dynamics."""
    for n in LENGTHS:
        counts = counted(n)
        for kind, name, textbook, brandl in (
            ("inverse", "RNEA", 174 * n - 134, ""),
            ("forward", "ABA", 429 * n - 507, f"Brandl counts {470 * n - 420}"),
        ):
            peer = f"textbook {name}"
            yield count(f"chain of {n}, {kind}", counts[kind], brandl, peer, textbook, 1.0)
            note = f"{counts[f'{kind} fill']} entries fill in"
            target = 1.0 if kind == "inverse" else None
            yield count(
                f"chain of {n}, {kind}, permuted LU", counts[f"{kind} LU"], note, peer, textbook, target
            )
        yield count(f"chain of {n}, inverse, fill-in", counts["inverse fill"], "by generic search", target=0)
        if n > 3:
            note = f"{counts['cells fill']} entries fill in, {counts['cells turns']} equations turned"
            yield count(f"chain of {n}, load cells at both ends, permuted LU", counts["cells LU"], note)


def count(name, value, reason="", peer="", peer_value=None, target=None):
    return harness.Row(name, value, "", "lower", peer, peer_value, target=target, reason=reason)


def main():
    options = harness.arguments("sensor_problems").parse_args()
    os.sched_setaffinity(0, {os.cpu_count() - 1})
    rows = [row for part in (humanoid, chains) for row in part()]
    harness.finish("sensor_problems", rows, harness.versions("numpy", "scipy", "idyntree"), options.save)


if __name__ == "__main__":
    main()
