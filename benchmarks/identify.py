"""Identification of a Panda: regressors against Pinocchio from Python, accuracy for a known truth, and the
time from a file of a million states to a description.

Thread CPU time on one core; the calls of a row alternate, and the least of the medians of several rounds
counts. The peer's loop fills the same array of regressors, state by state.
"""

import os
import subprocess
import sys
import tempfile
import time
from functools import partial
from pathlib import Path

import harness
import numpy as np
from functions import together
from identified import Truth  # of test/support, which `robots` adds to the path
from robots import PANDA, random_states, robot, robot_file
from scipy.stats import chi2

import dynamics_node as dn
from dynamics_node.algorithms import inertias_of_parameters
from dynamics_node.identification import ConsistentFit, Sums, base_parameters, weighted
from dynamics_node.symbolic import pseudo_inertia

COUNTS = (256, 1024, 4096)
PER_STATE = 0.4  # us
FASTER = 1 / 20
SEEDS, NOISE = 200, 0.1  # N m
MILLION = 1_000_000
LONG = np.arange(0.0, 60.0, 0.02)
ONE_THREAD = {"OPENBLAS_NUM_THREADS": "1"}
LOOP = 200  # states of the peer's loop, whose time per state is constant


def regressors():
    """Rows of the joint torque regressor of many states."""
    model = robot("panda")
    peer = _Peer()
    states = random_states(model, max(COUNTS))
    double, single = (
        dn.build(model, "joint_torque_regressor", backend="c", precision=precision)
        for precision in ("float64", "float32")
    )
    peer.require_same(double, [a[:5] for a in states])
    for count in COUNTS:
        rows = [a[:count] for a in states]
        small = [a.astype(np.float32) for a in rows]
        ours, other, loop = together(
            lambda r=rows: double(*r), lambda r=small: single(*r), lambda r=rows: peer.loop(*r)
        )
        for suffix, value in (("", ours), (", float32", other)):
            name, per_state = f"panda regressor, {count} states{suffix}", value / count
            yield harness.Row(f"{name}, a state", per_state, "us", "lower", target=PER_STATE)
            yield harness.Row(name, per_state, "us", "lower", peer.name, loop / LOOP, target=FASTER)


class _Peer:
    """Pinocchio from Python."""

    def __init__(self):
        import pinocchio

        self._pin, self.name = pinocchio, f"Pinocchio {pinocchio.__version__}"
        full = pinocchio.buildModelFromUrdf(str(robot_file("panda")))
        locked = [full.getJointId(name) for name in list(full.names)[1:] if name not in PANDA]
        self._model = pinocchio.buildReducedModel(full, locked, pinocchio.neutral(full))
        self._data = self._model.createData()
        self._columns = 10 * self._model.nv
        self._out = np.empty((LOOP, self._model.nv, self._columns))

    def loop(self, q, qd, qdd):
        """Regressors of LOOP states, one by one."""
        compute, model, data, out = self._pin.computeJointTorqueRegressor, self._model, self._data, self._out
        for k in range(LOOP):
            out[k] = compute(model, data, q[k], qd[k], qdd[k])

    def require_same(self, function, states):
        """Raises AssertionError if both regressors differ."""
        compute = self._pin.computeJointTorqueRegressor
        right = [np.array(compute(self._model, self._data, *state)) for state in zip(*states, strict=True)]
        assert np.abs(function(*states) - right).max() <= 1e-10 * np.abs(right).max()


# --- a known truth ------------------------------------------------------------------------------------------


def simulated():
    """Rows of base parameters from noisy data of many seeds, and of torques on an unseen motion."""
    truth = Truth(robot("panda"), backend="c")
    clean, unseen = truth.recording(1, noise=0.0, time=LONG), truth.recording(2, noise=NOISE)
    linear = truth.linear
    base = base_parameters(linear)
    true_values, start, inside, worst, bodies = (
        base.values(truth.parameters),
        base.values(linear.described),
        0,
        0.0,
        0,
    )
    W = linear.matrix(*(unseen[kind] for kind in ("q", "qd", "qdd")))
    best = _rms(W @ truth.parameters - unseen["tau"])
    random = np.random.default_rng(0)
    bound = chi2.ppf(chi2.cdf(9.0, 1), base.count)  # the probability of three standard deviations
    for _ in range(SEEDS):
        sums = Sums(linear, base)
        sums.add(clean | {"tau": clean["tau"] + NOISE * random.normal(size=clean["tau"].shape)})
        solution = weighted(sums, start)
        miss = solution.x - true_values
        inside += miss @ solution.information @ miss <= bound
        p = ConsistentFit(linear, base).parameters(solution).parameters
        worst = max(worst, np.max(_rms(W @ p - unseen["tau"]) / best))
        bodies += _are_consistent(p[linear.places("inertia")])
    share = f"of {SEEDS} seeds, {base.count} base parameters"
    yield harness.Row(
        "panda base parameters within 3 sigma", inside / SEEDS, "", "higher", target=0.95, reason=share
    )
    yield harness.Row(
        "panda inertias that bodies can have", bodies / SEEDS, "", "higher", target=1.0, reason=share
    )
    yield harness.Row(
        "panda RMS on an unseen motion", worst, "", "lower", target=1.05, reason="of the truth's, worst"
    )


def _rms(rows):
    return np.sqrt(np.mean(rows**2, axis=0))


def _are_consistent(parameters):
    inertias = inertias_of_parameters(parameters.reshape(-1, 10))
    return bool(np.linalg.eigvalsh(pseudo_inertia(inertias)).min() > 0)


def from_a_file():
    """A row of `dynamics identify` in its own process, from a million recorded states to a URDF."""
    truth = Truth(robot("panda"), backend="c")
    recording = truth.recording(1, noise=0.0, time=np.arange(0.0, 20.0, 0.001))
    random, times = np.random.default_rng(0), MILLION // len(recording["time"])
    tables = {kind: np.tile(recording[kind], (times, 1)) for kind in ("q", "qd", "qdd", "tau")}
    tables["tau"] += NOISE * random.normal(size=tables["tau"].shape)
    with tempfile.TemporaryDirectory() as folder:
        table, out = Path(folder) / "states.npz", Path(folder) / "out"
        np.savez(table, **tables)
        command = [sys.executable, "-m", "dynamics_node.cli", "identify", str(robot_file("panda"))]
        command += [str(table), "-o", str(out), "--joints", ",".join(PANDA)]
        # for matrices this small, more BLAS threads only slow each other down
        run = partial(subprocess.run, command, check=True, capture_output=True, env=os.environ | ONE_THREAD)
        run()  # compiles the Programs
        before = time.perf_counter()
        run()
        elapsed = time.perf_counter() - before
    note = f"{times * len(recording['time'])} states, wall time"
    yield harness.Row("panda from file to URDF", elapsed, "s", "lower", target=20.0, reason=note)


def main():
    options = harness.arguments("identify").parse_args()
    rows = list(from_a_file())
    os.sched_setaffinity(0, {os.cpu_count() - 1})
    rows = [*regressors(), *simulated(), *rows]
    harness.finish("identify", rows, harness.versions("numpy", "pin"), options.save)


if __name__ == "__main__":
    main()
