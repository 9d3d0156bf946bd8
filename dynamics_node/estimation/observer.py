"""The external-torque observer: samples in, external torques and a wrench with alarm levels out.

`observer_program.py` has the equations of one cycle; `require_identifiable` checks which components of a
wrench the joint torques determine.
"""

from collections.abc import Iterable
from functools import lru_cache

import numpy as np
from numpy.typing import ArrayLike

from dynamics_node.algorithms import frame_jacobian
from dynamics_node.algorithms.first_positions import generic_positions
from dynamics_node.algorithms.health import why_not
from dynamics_node.algorithms.rates import sampled_rates
from dynamics_node.codegen import Runner
from dynamics_node.display import titled
from dynamics_node.errors import InputError, SolutionError
from dynamics_node.estimation.observer_options import COMPONENTS, ObserverOptions, levels
from dynamics_node.estimation.observer_program import begin_program, cycle_program, state_size, views
from dynamics_node.functions import ExternalWrenchEstimate
from dynamics_node.functions.arguments import Arguments, robot_signature
from dynamics_node.functions.checks import finite, require_robot
from dynamics_node.functions.choices import BACKENDS, Choice, require_known
from dynamics_node.functions.spec import FunctionSpec
from dynamics_node.identification.regression import named_in
from dynamics_node.robot import Robot
from dynamics_node.robot.robot import cached_on_robot

HOUR = 3600.0  # s
LARGEST_ALARM = 1.5  # levels: limit of averages and innovations, so that alarms end with hard pushes
RELEASE_LEVEL = 0.5  # fraction of the alarm level: below it, the alarm ends
_OF_THIS_PROCESS = ("_one_cycle", "_one_begin", "_levels")
STEP_RATIO = 2.0  # steps within this ratio have the same levels


class MomentumObserver:
    """Momentum observer of the external torques of one robot, with contact detection.

    `build_observer` returns it. Attributes are valid after a `step` that returns True; the next step
    overwrites the arrays.

    Attributes
    ----------
    torque : ndarray (nv,)
        Torques that the environment exerts at the joints, N m or N.
    torque_covariance : ndarray (nv, nv)
        Covariance of the torques.
    wrench : ndarray (6,) or None
        Wrench of the environment ON the link of the options, moment first, in link axes at its origin, N m
        and N. It is NaN if the joints do not determine it, and None without a link.
    wrench_covariance : ndarray (6, 6) or None
        Covariance of the wrench.
    identified : bool
        Whether the joints determine the wrench, see `unidentified`.
    contact : bool
        Whether the environment touches the robot.
    alarm : float
        Level of the contact detection: above 1 a contact begins.
    time : float or None
        Time of the last sample, s; None before the first.

    Examples
    --------
    >>> options = dn.ObserverOptions(velocity_std=1e-3, torque_std=0.1, link="panda_link7")
    >>> observer = dn.build_observer(robot, options, backend="numpy")
    >>> q, rest = np.full(7, 0.5), np.zeros(7)
    >>> push = dn.external_wrenches(robot, {"panda_link7": [0, 0, 0, 10, 20, 30]})
    >>> tau = dn.evaluate(robot, "inverse_dynamics", q, rest, rest, f_ext=push, backend="numpy")
    >>> for k in range(4):
    ...     estimated = observer.step(0.001 * k, q, rest, tau)
    >>> observer.external_wrench.wrench[3:].round(2)
    array([10., 20., 30.])
    >>> observer.contact
    True

    References
    ----------
    De Luca and Mattone, Actuator failure detection and isolation using generalized momenta, 2003. Haddadin,
    De Luca and Albu-Schaeffer, Robot collisions, 2017. docs/explanation/estimation.md has the equations.
    """

    def __init__(
        self, robot: Robot, options: ObserverOptions, runners: tuple[Runner, Runner], spec: FunctionSpec
    ):
        self.robot, self.options = robot, options
        self._runners = runners  # of a cycle and of the first sample
        self._spec = spec
        each = {name: options.each(name, robot.v_names) for name in _EACH}
        self._settings = _settings(options, **each)
        self._bind_fast_path()
        self._velocity_variance = each["velocity_std"] ** 2
        self._gravity = robot.gravity.astype(float)
        self._dt, self._shortest, self._longest_step = np.zeros(1), 0.0, 0.0
        size = state_size(robot.nv, len(options.windows))
        self._state, self._next = np.zeros(size), np.zeros(size)
        results = {
            name: np.full(shape, np.nan) for name, shape in runners[0].outputs.items() if name != "state"
        }
        self.torque, self.torque_covariance = results["torque"], results["torque_covariance"]
        self.wrench, self.wrench_covariance = results.get("wrench"), results.get("wrench_covariance")
        self._wrench = [results[name] for name in ("wrench", "wrench_covariance") if name in results]
        self._statistics = results["statistics"]
        self._results = tuple(results.values())
        self.reset()

    def __repr__(self):
        return titled(
            f"MomentumObserver of {self.robot.name!r}",
            link=self.options.link,
            time="no sample" if self.time is None else f"{self.time:.6g} s",
            torque=None if self.time is None else self.torque,
            contact=None if self.time is None else self.contact,
            backend=self._runners[0].backend,
        )

    def _bind_fast_path(self):
        self._one_cycle, self._one_begin = (runner.call_one for runner in self._runners)
        self._levels = self._settings[-len(self.options.windows) :]  # a view

    def __getstate__(self):
        return {name: value for name, value in self.__dict__.items() if name not in _OF_THIS_PROCESS}

    def __setstate__(self, state):
        self.__dict__.update(state)
        self._bind_fast_path()

    def reset(self) -> None:
        """Discard all samples.

        Returns
        -------
        None
        """
        self.time: float | None = None
        self.contact, self.alarm, self.identified = False, 0.0, True

    def resume(self, before: "MomentumObserver") -> None:
        """Continue from the state of another observer of the same robot, if it has the same options.

        Parameters
        ----------
        before : MomentumObserver
            The other observer, for example of the robot without payload.

        Returns
        -------
        None
        """
        if before.options == self.options and before.robot.v_names == self.robot.v_names:
            self.time, self._state[:] = before.time, before._state
            self.contact, self.alarm, self.identified = before.contact, before.alarm, before.identified

    def with_inertias(self, robot: Robot) -> "MomentumObserver":
        """Return the same observer, without samples, for a robot with other inertias; no compilation.

        Parameters
        ----------
        robot : Robot
            It differs in `runtime_parameters` of `build_observer` or in gravity only.

        Returns
        -------
        MomentumObserver

        Raises
        ------
        ValueError
            If the robot differs in more than that.
        """
        self._spec.require_changeable(robot, is_program=True)
        values = self._spec.values(robot)
        cycle, first = (runner.with_parameters(values) for runner in self._runners)
        return MomentumObserver(robot, self.options, (cycle, first), self._spec)

    def step(
        self,
        time: float,
        q: ArrayLike,
        qd: ArrayLike,
        tau: ArrayLike,
        gravity: ArrayLike | None = None,
        velocity_variance: ArrayLike | None = None,
    ) -> bool:
        """Process a sample.

        Parameters
        ----------
        time : float
            Time of any clock, s. A repeated time is skipped. An earlier one, or one more than longest_gap
            later, restarts the observer.
        q : array_like (nq,)
            Positions, closed.
        qd : array_like (nv,)
            Velocities, rad/s and m/s.
        tau : array_like (nv,)
            Torques that move the joints, N m and N: measured torques minus friction (`friction_torque`).
        gravity : array_like (3,), optional
            In place of the robot's, m/s^2.
        velocity_variance : array_like (nv,), optional
            In place of the square of velocity_std, for example from JointFilter.

        Returns
        -------
        bool
            Whether there is an estimate: from the second sample on.

        Raises
        ------
        InputError
            For an invalid argument, naming argument and coordinate; the sample is then skipped.
        SolutionError
            If loops are open or singular; the sample is then skipped.
        """
        g = self._gravity if gravity is None else gravity
        variance = self._velocity_variance if velocity_variance is None else velocity_variance
        if self.time is None:
            return self._begin(time, q, qd, tau, g, variance)
        try:
            dt = time - self.time
            restarts = not 0.0 < dt <= self.options.longest_gap
        except (TypeError, ValueError):
            raise InputError(f"time must be a finite number, not {time!r}") from None
        if restarts:
            return False if dt == 0.0 else self._begin(time, q, qd, tau, g, variance)
        if not self._shortest <= dt < self._longest_step:
            self._set_levels(dt)
        self._dt[0] = dt
        rest = (self._dt, self._settings, self._state, self._next, *self._results)
        if self._one_cycle(q, qd, tau, g, variance, *rest) is not None:
            self._run_checked(self._runners[0], (q, qd, tau, g, variance), rest)
        self._state, self._next, self.time = self._next, self._state, time
        *alarms, ambiguity = self._statistics.tolist()
        self.alarm = alarm = max(alarms)
        self.contact = alarm > (RELEASE_LEVEL if self.contact else 1.0)
        if alarm > LARGEST_ALARM:
            self._fade(np.array(alarms))
        self.identified = ambiguity <= 1.0
        if not self.identified:
            for array in self._wrench:
                array.fill(np.nan)
        return True

    @property
    def external_wrench(self) -> ExternalWrenchEstimate | None:
        """Wrench on the link of the options.

        It is None if there is no link or no sample, or if joint torques do not determine the wrench. The next
        step overwrites its arrays.
        """
        link = self.options.link
        if link is None or self.wrench is None or self.time is None or not self.identified:
            return None
        return ExternalWrenchEstimate(link, self.wrench, self.wrench_covariance)

    def unidentified(self, q: ArrayLike) -> tuple[str, ...]:
        """List the wrench components that the joints do not determine individually.

        Parameters
        ----------
        q : array_like (nq,)
            A position, closed.

        Returns
        -------
        tuple of str
            For example 'moment.x'; empty if the joints determine the wrench.
        """
        return unidentified_components(
            self.robot, np.asarray(q, dtype=float), self.options.link, self.options.components
        )

    def _begin(self, time, *sample):
        time = float(finite("time", time, ()))
        self.reset()
        if self._one_begin(*sample, self._state) is not None:
            self._run_checked(self._runners[1], sample, (self._state,))
        self.time = time
        return False

    def _run_checked(self, runner, sample, rest):
        """Fallback of the fast path, for arrays that need conversion, a missing compiler or an error
        message."""
        names = list(runner.inputs)
        arguments = Arguments(_signature(self.robot), dict(zip(names, sample, strict=False)))
        arguments.require_valid()
        for name, value in zip(names, sample, strict=False):
            if np.ndim(value) != 1:
                raise InputError(f"{name} has {np.ndim(value)} axes: a step takes one sample")
        count = len(names) - len(sample)
        given = [*arguments.rows().values(), *rest[:count]]
        (outputs, good) = runner.run_checked(1, [np.ascontiguousarray(array)[None] for array in given])
        if not good:
            q = arguments.rows()["q"].copy()
            raise SolutionError(lambda: self._reason(q))
        for place, array in zip(rest[count:], outputs, strict=True):
            place[...] = array[0]

    def _reason(self, q):
        reason = why_not(self.robot, None, q)
        return reason or "the equations have no finite solution at this state"

    def _fade(self, alarms):
        """Limit averages and filter momentum to the largest alarm, or else a hard push would be reported long
        after its end."""
        keep, nv = np.sqrt(LARGEST_ALARM / np.maximum(alarms, LARGEST_ALARM)), self.robot.nv
        parts = views(self._state, nv, len(alarms))
        parts.Z[:] *= keep[:, None]
        parts.predicted[:] += (1.0 - keep.min()) * (parts.p - parts.predicted)

    def _set_levels(self, dt):
        """Set the levels for steps between adjacent powers of STEP_RATIO around dt; shorter steps mean more
        frequent tests."""
        self._shortest = STEP_RATIO ** np.floor(np.log(dt) / np.log(STEP_RATIO))
        self._longest_step = STEP_RATIO * self._shortest
        self._levels[:] = 1.0 / _levels(self.robot.nv, self._shortest, self.options)


_EACH = ("velocity_std", "torque_std", "model_std", "bandwidth")


def build_observer(
    robot: Robot, options: ObserverOptions, backend: str = "auto", runtime_parameters: Iterable[str] = ()
) -> MomentumObserver:
    """Build the observer of external torques and of a wrench.

    Parameters
    ----------
    robot : Robot
        The robot, with or without loops, fixed or floating.
    options : ObserverOptions
        Noise, bandwidth, link and contacts.
    backend : str
        'c' (compiled for this robot and cached), 'numpy', or 'auto': 'c' if available.
    runtime_parameters : iterable of str
        Parameters that `with_inertias` may change without another build: 'inertia', 'armature'.

    Returns
    -------
    MomentumObserver

    Raises
    ------
    ValueError
        For invalid numbers, and for wrench components that joint torques determine at no position.
    KeyError
        For an unknown link.
    CompileError
        For backend c without a compiler.

    Examples
    --------
    >>> options = dn.ObserverOptions(velocity_std=1e-3, torque_std=0.1)
    >>> observer = dn.build_observer(robot, options, backend="numpy")
    >>> q, rest = robot.neutral(), np.zeros(7)
    >>> tau = dn.evaluate(robot, "gravity_torque", q, backend="numpy")
    >>> tau[3] += 5.0  # the motor works against a push
    >>> for k in range(4):
    ...     estimated = observer.step(0.001 * k, q, rest, tau)
    >>> round(float(observer.torque[3]), 3)  # N m
    -5.0
    """
    require_robot(robot)
    if not isinstance(options, ObserverOptions):
        raise TypeError(f"options must be ObserverOptions, not {type(options).__name__}")
    require_known("backend", backend, BACKENDS)
    windows = len(options.windows)
    places = tuple(COMPONENTS.index(name) for name in options.components)
    if options.link is not None:
        require_identifiable(robot, options.link, options.components)
    for name in _EACH:
        options.each(name, robot.v_names)
    parameters = tuple(runtime_parameters)
    cycle = cycle_program(robot, windows, options.link, places, parameters=parameters)
    begin = begin_program(robot, windows, parameters=parameters)
    spec = FunctionSpec(
        robot=robot,
        name="observer",
        choice=Choice("best", None, backend),
        forward=(False,) * robot.nv,
        parameters=parameters,
    )
    return MomentumObserver(robot, options, (spec.runner(cycle), spec.runner(begin)), spec)


def _settings(options, velocity_std, torque_std, model_std, bandwidth):
    """The numbers of ObserverSettings. For contact detection, a constant error counts as white noise of the
    same strength in the longest window."""
    drift = 2.0 * max(options.windows) * model_std**2
    lasting, rates = [options.velocity_correlation_time], 1.0 / np.array(options.windows)
    return np.concatenate([bandwidth, torque_std**2, model_std**2, drift, lasting, rates, 0.0 * rates])


@lru_cache(maxsize=64)
def _levels(freedom, step, options):
    return levels(freedom, step, options.windows, options.false_alarms / HOUR)


@cached_on_robot
def _signature(robot):
    signature = robot_signature(robot)
    rates = signature.inputs["qd"]
    inputs = signature.inputs | {"velocity_variance": rates}
    return type(signature)("observer", inputs, signature.quaternions)


# Of the largest singular value of the Jacobian: smaller ones leave a direction unidentified
RANK_TOLERANCE = 1e-4
SHARE = 0.05  # fraction of an unidentified direction: components with smaller shares are identified


def require_identifiable(robot, link, components):
    """Raise ValueError with the components if torques determine a wrench at no position; KeyError for an
    unknown link."""
    robot.frame(link)
    unidentified = [unidentified_components(robot, q, link, components) for q in generic_positions(robot)]
    if all(unidentified):
        names = ", ".join(sorted(unidentified, key=len)[0])
        raise InputError(
            f"{robot.nv} joint torques do not determine {names} of a wrench at link {link!r}: leave out "
            "components that are zero, such as the moments of a point contact"
        )


def unidentified_components(robot, q, link, components) -> tuple[str, ...]:
    """Wrench components at a link that torques at q (nq,) do not determine individually."""
    J = sampled_rates(robot, q).columns(frame_jacobian(robot.tree, q, link, "body"))[
        [COMPONENTS.index(name) for name in components]
    ]
    directions, values, _ = np.linalg.svd(J)
    values = np.append(values, np.zeros(len(J) - len(values)))
    weak = directions[:, values <= RANK_TOLERANCE * values.max(initial=1e-300)]
    return named_in(weak, components, SHARE)
