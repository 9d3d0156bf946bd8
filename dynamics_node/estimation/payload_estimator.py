"""What a link carries, from one joint state after the other, without accelerations.

With p = M qd and dp/dt = tau + rate (algorithms/energy_and_momentum.py), both linear in inertial parameters,
a window of length T says: (p_end - p_begin) / T = mean(tau + rate). That is one row of `PayloadSums` a joint;
both sides pass the same filter, a mean. Windows do not overlap, so that white noise of torques is independent
in them, and covariances are what they seem; after a first-order filter all samples within its time would
count anew. Means are by the trapezoidal rule, so steps may vary.
"""

from dataclasses import dataclass, replace

import numpy as np

from dynamics_node.algorithms.actuation import SMOOTHING
from dynamics_node.algorithms.regressors import PER_BODY
from dynamics_node.estimation.payload import (
    STILL,
    Payload,
    described_on,
    felt_parameters,
    payload_of,
    require_bearing,
)
from dynamics_node.estimation.payload_sums import COLUMNS, PayloadSums, fitted
from dynamics_node.functions import InputError, QuantityFunction, build
from dynamics_node.identification.identify import IdentificationError
from dynamics_node.robot import Robot
from dynamics_node.robot.validate import HUGE

WINDOW = 0.1  # s: motion faster than that is not seen, noise of velocities counts with its inverse
LONGEST_GAP = 0.2  # s between two samples; beyond, a window begins anew
OFFSET, COULOMB, VISCOUS = range(PER_BODY, COLUMNS - 1)
LARGEST = 1e8  # N m, or what takes it: numbers beyond would leave nothing of the others in the sums
FROZEN = 0.01  # rad or m that velocities tell of while positions stay to the last bit


@dataclass(frozen=True, eq=False)
class PayloadFunctions:
    """What is computed at every sample for one link of a robot. felt: see `felt_parameters`."""

    robot: Robot
    link: str
    momentum: QuantityFunction
    regressor: QuantityFunction
    felt: np.ndarray

    def with_inertias(self, robot: Robot) -> "PayloadFunctions":
        """Those of a robot that carries something: see `RobotFunction.with_inertias`."""
        return replace(self, robot=robot, momentum=self.momentum.with_inertias(robot))


def payload_functions(robot: Robot, link: str, backend="auto", runtime_parameters=()) -> PayloadFunctions:
    """backend, runtime_parameters: of `build`. Raises as it does and as `require_bearing`."""
    require_bearing(robot, link)
    momentum = build(robot, "generalized_momentum", backend=backend, runtime_parameters=runtime_parameters)
    momentum.compile()
    felt = felt_parameters(robot, build(robot, "joint_torque_regressor", backend="numpy", link=link))
    return PayloadFunctions(
        robot, link, momentum, build(robot, "momentum_regressor", backend=backend, link=link), felt
    )


class PayloadEstimator:
    """What a link carries, sample by sample. horizon: s, after which a sample counts by a third; 0: never.

    samples: those that count, in windows that are complete; trouble: why a window does not count, '' after
    one that does.
    """

    def __init__(self, functions: PayloadFunctions, horizon=0.0):
        self.functions, self.horizon = functions, horizon
        nv = functions.robot.nv
        self.sums, self.samples, self.trouble = PayloadSums(nv), 0, ""
        self._drive, self._last = np.zeros((2, nv, COLUMNS))  # of this sample, of the one before
        self._drive[:, OFFSET] = self._last[:, OFFSET] = 1.0
        self._total = np.zeros((nv, COLUMNS))  # over the window
        self._count, self._begun = 0, 0.0
        self._p, self._P = np.zeros(nv), np.zeros((nv, PER_BODY))  # momenta, and
        self._rates = np.zeros(nv), np.zeros((nv, PER_BODY))  # what changes them, at this sample
        self._first_q, self._first_p, self._first_P = np.zeros(0), self._p.copy(), self._P.copy()
        nq = functions.robot.nq
        self._low, self._high = np.full(nq, np.inf), np.full(nq, -np.inf)  # of positions
        self.time: float | None = None

    def interrupt(self):
        """Begin a new window: what comes next does not follow what came."""
        self.time = None

    def use(self, functions: PayloadFunctions):
        """Go on with other functions of the same link."""
        self.functions = functions
        self.interrupt()

    def step(self, time, q, qd, tau, gravity=None, carried=None) -> bool:
        """Take in a sample; True when a window is complete.

        time: s; the same again is left out, one that is earlier or LONGEST_GAP later begins a new window. q
        (nq,), qd, tau (nv,): tau is what moves the joints: measured torque less friction, as far as it is
        known. gravity (3,) in place of the robot's. carried (10,): the payload on the link that the robot of
        the functions has already: what is found is all. Raises InputError and SolutionError, argument and
        coordinate by name; the window begins anew then.
        """
        if time == self.time:
            return False
        try:
            self._look(q, qd, tau, gravity)
        except Exception:
            self.interrupt()
            raise
        np.minimum(self._low, q, out=self._low)
        np.maximum(self._high, q, out=self._high)
        before, self.time = self.time, time
        dt = np.inf if before is None else time - before
        follows = 0.0 < dt <= LONGEST_GAP
        if follows:
            self._last += self._drive
            self._last *= 0.5 * dt
            self._total += self._last
            self._last[:, OFFSET] = 1.0
            self._count += 1
        elif 0.0 < dt < np.inf:
            self.trouble = f"samples {dt:.3g} s apart, where at most {LONGEST_GAP:g} s will do"
        self._drive, self._last = self._last, self._drive
        if follows and time - self._begun < WINDOW:
            return False
        complete = follows and self._complete(time, q, carried)
        self._begun, self._first_q = time, np.array(q)
        self._first_p[:], self._first_P[:] = self._p, self._P
        self._total[:], self._count = 0.0, 0
        return complete

    def found(self, friction=True, torque_std=None) -> Payload:
        """What samples tell so far. friction, torque_std: as of `identify_payload`, the latter of the mean
        over a window. Raises IdentificationError before the first window is complete."""
        if not self.samples:
            raise IdentificationError("nothing is gathered yet")
        own, moved = self.functions, bool(np.any(self._high - self._low > STILL))
        found = fitted(self.sums, friction, torque_std, moved=moved)
        return payload_of(own.link, found, own.felt, self.samples, (), described_on(own.robot, own.link))

    def _look(self, q, qd, tau, gravity):
        """Take momenta and what drives them at a sample."""
        own, (rate, R) = self.functions, self._rates
        g = own.robot.gravity if gravity is None else gravity
        _compute(own.momentum, (q, qd, g), (self._p, rate))
        _compute(own.regressor, (q, qd, g), (self._P, R))
        drive = tau + rate
        if not np.abs(drive).max(initial=0.0) < HUGE:
            raise InputError(f"tau is not finite, or beyond all torques: {tau}")
        into = self._drive
        np.negative(R, out=into[:, :PER_BODY])
        np.tanh(qd * (1.0 / SMOOTHING), out=into[:, COULOMB])
        into[:, VISCOUS], into[:, -1] = qd, drive

    def _complete(self, time, q, carried):
        if np.abs(self._total[:, VISCOUS]).max() > FROZEN and np.array_equal(q, self._first_q):
            self.trouble = "positions stand still while velocities say that the robot moves"
            return False
        length = time - self._begun
        row = self._total / length
        row[:, :PER_BODY] += (self._P - self._first_P) / length
        row[:, -1] -= (self._p - self._first_p) / length
        if carried is not None:
            row[:, -1] += row[:, :PER_BODY] @ carried
        if not np.abs(row).max(initial=0.0) < LARGEST:
            self.trouble = "efforts or velocities are beyond all robots"
            return False
        if self.horizon > 0:
            self.sums.fade(np.exp(-length / self.horizon))
        self.sums.add(row[None])
        self.samples += self._count
        self.trouble = ""
        return True


def build_payload_estimator(robot: Robot, link: str, horizon=0.0, backend="auto") -> PayloadEstimator:
    """The PayloadEstimator of a link. horizon: s, after which a sample counts by a third; 0: never. backend:
    of `build`. Raises KeyError for an unknown link, ValueError where joint torques do not bear it."""
    return PayloadEstimator(payload_functions(robot, link, backend), horizon)


def _compute(function, arrays, results):
    """The results of a Quantity in place; errors in its words."""
    if function.runner.call_one(*arrays, *results) is not None:
        q, qd, gravity = arrays
        for place, array in zip(results, function(q, qd, gravity=gravity), strict=True):
            place[...] = array
