"""Recursive payload identification from joint states, without accelerations.

With p = M qd and dp/dt = tau + rate (algorithms/energy_and_momentum.py), both linear in inertial parameters,
a window of length T satisfies (p_end - p_begin) / T = mean(tau + rate). That is one row of the sums per
joint; both sides pass the same filter, a mean. Windows do not overlap, so that white torque noise is
independent between them and covariances are correct; the outputs of a first-order filter would be correlated.
Means use the trapezoidal rule, so steps may vary.
"""

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import ArrayLike

from dynamics_node.algorithms.joint_friction import SMOOTHING
from dynamics_node.algorithms.regressors import PER_BODY
from dynamics_node.errors import IdentificationError, InputError
from dynamics_node.estimation.payload import (
    STATIONARY,
    Payload,
    described_on,
    identifiable_parameters,
    payload_of,
    require_bearing,
)
from dynamics_node.estimation.payload_fit import COLUMNS, fit_payload, payload_sums
from dynamics_node.functions import Backend, RobotFunction, build
from dynamics_node.robot import Robot
from dynamics_node.robot.validate import HUGE
from dynamics_node.robot.wrong_calls import explains_wrong_calls

WINDOW = 0.1  # s: averages out faster motion; velocity noise is divided by it
LONGEST_GAP = 0.2  # s between two samples: a longer gap starts a new window
OFFSET, COULOMB, VISCOUS = range(PER_BODY, COLUMNS - 1)
LARGEST_ENTRY = 1e8  # N m, or per parameter: larger numbers would swamp the others in the sums
FROZEN = 0.01  # rad or m of integrated velocity while positions are constant


@dataclass(frozen=True, eq=False)
class PayloadFunctions:
    """Functions evaluated at every sample for one link of a robot. identifiable: see
    `identifiable_parameters`."""

    robot: Robot
    link: str
    momentum: RobotFunction
    regressor: RobotFunction
    identifiable: np.ndarray

    def with_inertias(self, robot: Robot) -> "PayloadFunctions":
        """The functions for a robot with a payload: see `RobotFunction.with_inertias`."""
        return replace(self, robot=robot, momentum=self.momentum.with_inertias(robot))


def payload_functions(robot: Robot, link: str, backend="auto", runtime_parameters=()) -> PayloadFunctions:
    """backend, runtime_parameters: as in `build`. Raises as `build` and `require_bearing`."""
    require_bearing(robot, link)
    momentum = build(robot, "generalized_momentum", backend=backend, runtime_parameters=runtime_parameters)
    momentum.compile()
    identifiable = identifiable_parameters(
        robot, build(robot, "joint_torque_regressor", backend="numpy", link=link)
    )
    return PayloadFunctions(
        robot, link, momentum, build(robot, "momentum_regressor", backend=backend, link=link), identifiable
    )


class PayloadEstimator:
    """The payload of a link, estimated sample by sample without accelerations.

    `build_payload_estimator` returns it.

    Parameters
    ----------
    functions : PayloadFunctions
        Momenta of the robot and their regressor for the link.
    horizon : float
        Time constant of forgetting, s; 0: never.

    Attributes
    ----------
    samples : int
        Number of samples in complete windows.
    trouble : str
        Reason why a window is rejected, '' after a valid one.
    time : float or None
        Time of the last sample, s; None before the first.

    Examples
    --------
    >>> loaded = dn.with_payload(robot, "panda_link7", 1.5, [0.0, 0.05, 0.1], 0.01 * np.eye(3))
    >>> w = np.arange(1.0, 8.0)  # joint k moves by sin(k t)
    >>> estimator = dn.build_payload_estimator(robot, "panda_link7", backend="numpy")
    >>> for t in np.arange(0.0, 0.5, 0.01):
    ...     q, qd, qdd = np.sin(w * t), w * np.cos(w * t), -w * w * np.sin(w * t)
    ...     tau = dn.evaluate(loaded, "inverse_dynamics", q, qd, qdd, backend="numpy")
    ...     complete = estimator.step(t, q, qd, tau)
    >>> round(estimator.estimate(friction=False).mass, 1)
    1.5

    References
    ----------
    Atkeson, An and Hollerbach, Estimation of inertial parameters of manipulator loads and links, IJRR 5(3),
    1986.
    """

    def __init__(self, functions: PayloadFunctions, horizon: float = 0.0):
        self.functions, self.horizon = functions, horizon
        nv = functions.robot.nv
        self.sums, self.samples, self.trouble = payload_sums(nv), 0, ""
        self._drive, self._last = np.zeros((2, nv, COLUMNS))  # of this and of the previous sample
        self._drive[:, OFFSET] = self._last[:, OFFSET] = 1.0
        self._total = np.zeros((nv, COLUMNS))  # over the window
        self._count, self._begun = 0, 0.0
        self._p, self._P = np.zeros(nv), np.zeros((nv, PER_BODY))  # momenta and
        self._rates = np.zeros(nv), np.zeros((nv, PER_BODY))  # their rates at this sample
        self._first_q, self._first_p, self._first_P = np.zeros(0), self._p.copy(), self._P.copy()
        nq = functions.robot.nq
        self._low, self._high = np.full(nq, np.inf), np.full(nq, -np.inf)  # of positions
        self.time: float | None = None

    def interrupt(self) -> None:
        """Start a new window: the next sample does not continue the last one.

        Returns
        -------
        None
        """
        self.time = None

    def use(self, functions: PayloadFunctions) -> None:
        """Continue with other functions of the same link.

        Parameters
        ----------
        functions : PayloadFunctions
            For example those of the robot with the payload.

        Returns
        -------
        None
        """
        self.functions = functions
        self.interrupt()

    def step(
        self,
        time: float,
        q: np.ndarray,
        qd: np.ndarray,
        tau: np.ndarray,
        gravity: np.ndarray | None = None,
        payload: np.ndarray | None = None,
    ) -> bool:
        """Process a sample.

        Parameters
        ----------
        time : float
            Time of any clock, s. A repeated time is skipped. An earlier one, or one more than 0.2 s later,
            starts a new window.
        q : ndarray (nq,)
            Positions, closed.
        qd : ndarray (nv,)
            Velocities, rad/s and m/s.
        tau : ndarray (nv,)
            Torques that move the joints, N m and N: measured torques minus known friction.
        gravity : ndarray (3,), optional
            In place of the robot's, m/s^2.
        payload : ndarray (10,), optional
            Parameters that the robot of the functions already includes. The estimate is the total.

        Returns
        -------
        bool
            Whether a window is complete.

        Raises
        ------
        InputError
            For an invalid argument, naming argument and coordinate; a new window then starts.
        SolutionError
            If loops are open or singular; a new window then starts.
        """
        if time == self.time:
            return False
        try:
            self._evaluate(q, qd, tau, gravity)
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
            self.trouble = f"samples are {dt:.3g} s apart; at most {LONGEST_GAP:g} s is allowed"
        self._drive, self._last = self._last, self._drive
        if follows and time - self._begun < WINDOW:
            return False
        complete = follows and self._complete(time, q, payload)
        self._begun, self._first_q = time, np.array(q)
        self._first_p[:], self._first_P[:] = self._p, self._P
        self._total[:], self._count = 0.0, 0
        return complete

    def estimate(self, friction: bool = True, torque_std: ArrayLike | None = None) -> Payload:
        """Return the payload estimated so far.

        Parameters
        ----------
        friction : bool
            As in `identify_payload`.
        torque_std : float or array_like (nv,), optional
            Standard deviation of the mean torque over a window, N m or N; by default from the residuals.

        Returns
        -------
        Payload

        Raises
        ------
        IdentificationError
            Before the first window is complete.
        """
        if not self.samples:
            raise IdentificationError("no window is complete yet")
        functions, moved = self.functions, bool(np.any(self._high - self._low > STATIONARY))
        fit = fit_payload(self.sums, friction, torque_std, moved=moved)
        return payload_of(
            functions.link,
            fit,
            functions.identifiable,
            self.samples,
            (),
            described_on(functions.robot, functions.link),
        )

    def _evaluate(self, q, qd, tau, gravity):
        """Compute momenta and their driving torques at a sample."""
        functions, (rate, R) = self.functions, self._rates
        g = functions.robot.gravity if gravity is None else gravity
        _compute(functions.momentum, (q, qd, g), (self._p, rate))
        _compute(functions.regressor, (q, qd, g), (self._P, R))
        drive = tau + rate
        if not np.abs(drive).max(initial=0.0) < HUGE:
            raise InputError(f"tau is not finite or implausibly large: {tau}")
        into = self._drive
        np.negative(R, out=into[:, :PER_BODY])
        np.tanh(qd * (1.0 / SMOOTHING), out=into[:, COULOMB])
        into[:, VISCOUS], into[:, -1] = qd, drive

    def _complete(self, time, q, payload):
        if np.abs(self._total[:, VISCOUS]).max() > FROZEN and np.array_equal(q, self._first_q):
            self.trouble = "positions are constant although velocities are not zero"
            return False
        length = time - self._begun
        row = self._total / length
        row[:, :PER_BODY] += (self._P - self._first_P) / length
        row[:, -1] -= (self._p - self._first_p) / length
        if payload is not None:
            row[:, -1] += row[:, :PER_BODY] @ payload
        if not np.abs(row).max(initial=0.0) < LARGEST_ENTRY:
            self.trouble = "efforts or velocities are implausibly large"
            return False
        if self.horizon > 0:
            self.sums.fade(np.exp(-length / self.horizon))
        self.sums.accumulate(list(row[:, None]))
        self.samples += self._count
        self.trouble = ""
        return True


@explains_wrong_calls
def build_payload_estimator(
    robot: Robot, link: str, horizon: float = 0.0, backend: Backend = "auto"
) -> PayloadEstimator:
    """Build the estimator of a link's payload.

    Parameters
    ----------
    robot : Robot
        The robot without the payload, with a fixed base.
    link : str
        The link that bears the payload.
    horizon : float
        Time constant of forgetting, s; 0: never.
    backend : str
        As in `build`.

    Returns
    -------
    PayloadEstimator

    Raises
    ------
    KeyError
        For an unknown link.
    ValueError
        For a link that no joint bears, and for a floating base.

    Examples
    --------
    >>> estimator = dn.build_payload_estimator(robot, "panda_link7", backend="numpy")
    >>> q, rest = robot.neutral(), np.zeros(7)
    >>> tau = dn.evaluate(robot, "gravity_torque", q, backend="numpy")
    >>> [estimator.step(t, q, rest, tau) for t in (0.0, 0.05, 0.101)]  # a window is 0.1 s
    [False, False, True]
    >>> "not excited enough" in estimator.estimate(friction=False).refusal  # one pose is too little
    True
    """
    return PayloadEstimator(payload_functions(robot, link, backend), horizon)


def _compute(function, arrays, results):
    """Evaluate a quantity in place; falls back to the checked call, which raises errors."""
    if function.runner.call_one(*arrays, *results) is not None:
        q, qd, gravity = arrays
        for place, array in zip(results, function(q, qd, gravity=gravity), strict=True):
            place[...] = array
