"""Steps of an observer of the momentum: its Programs, and its state between samples."""

from typing import TypeVar

import numpy as np
from numpy.typing import ArrayLike

from dynamics_node.algorithms.health import why_not
from dynamics_node.codegen import Runner
from dynamics_node.errors import InputError, SolutionError
from dynamics_node.estimation.observer_options import ObserverOptions
from dynamics_node.estimation.observer_program import state_size
from dynamics_node.functions.arguments import Arguments, robot_signature
from dynamics_node.functions.checks import finite
from dynamics_node.functions.spec import FunctionSpec
from dynamics_node.robot import Robot
from dynamics_node.robot.robot import cached_on_robot

EACH = ("velocity_std", "torque_std", "model_std", "bandwidth")  # options of every coordinate
Own = TypeVar("Own", bound="ObserverSteps")


class ObserverSteps:
    """What observers of the momentum have in common. A subclass calls `_advance` in its own `step`, and names
    the attributes that pickles omit."""

    _OF_THIS_PROCESS: tuple[str, ...] = ("_one_cycle", "_one_begin")

    def __init__(
        self,
        robot: Robot,
        options: ObserverOptions,
        runners: tuple[Runner, Runner],
        spec: FunctionSpec,
        windows: tuple[float, ...],
    ):
        """runners: of a cycle and of the first sample; windows: of the contact detection of the cycle."""
        self.robot, self.options = robot, options
        self._runners, self._spec = runners, spec
        each = {name: options.each(name, robot.v_names) for name in EACH}
        self._settings = _settings(options, windows, **each)
        self._bind_fast_path()
        self._velocity_variance = each["velocity_std"] ** 2
        self._gravity = robot.gravity.astype(float)
        self._dt = np.zeros(1)
        size = state_size(robot.nv, len(windows))
        self._state, self._next = np.zeros(size), np.zeros(size)
        shapes = {name: shape for name, shape in runners[0].outputs.items() if name != "state"}
        self._results = {name: np.full(shape, np.nan) for name, shape in shapes.items()}
        self._written = tuple(self._results.values())
        self.time: float | None = None

    def _bind_fast_path(self):
        self._one_cycle, self._one_begin = (runner.call_one for runner in self._runners)

    def __getstate__(self):
        return {name: value for name, value in self.__dict__.items() if name not in self._OF_THIS_PROCESS}

    def __setstate__(self, state):
        self.__dict__.update(state)
        self._bind_fast_path()

    def reset(self) -> None:
        """Discard all samples.

        Returns
        -------
        None
        """
        self._begin_again()

    def resume(self: Own, before: Own) -> None:
        """Continue from the state of another observer of the same robot, if it has the same options.

        Parameters
        ----------
        before : observer of the same kind
            The other observer, for example of the robot without payload.

        Returns
        -------
        None
        """
        if before.options == self.options and before.robot.v_names == self.robot.v_names:
            self._continue(before)

    def _continue(self: Own, before: Own):
        """Copy the state of an observer with the same options."""
        self.time, self._state[:] = before.time, before._state

    def with_inertias(self: Own, robot: Robot) -> Own:
        """Return the same observer, without samples, for a robot with other inertias; no compilation.

        Parameters
        ----------
        robot : Robot
            It differs in the `runtime_parameters` of the build or in gravity only.

        Returns
        -------
        observer of the same kind

        Raises
        ------
        ValueError
            If the robot differs in more than that.
        """
        self._spec.require_changeable(robot, is_program=True)
        values = self._spec.values(robot)
        cycle, first = (runner.with_parameters(values) for runner in self._runners)
        return self._like(robot, (cycle, first))

    def _like(self: Own, robot: Robot, runners: tuple[Runner, Runner]) -> Own:
        """An observer with the same options."""
        raise NotImplementedError

    def _begin_again(self):
        """Forget the samples."""
        self.time = None

    def _prepare(self, dt: float):
        """Set what depends on the length of a step, s."""

    def _advance(
        self,
        time: float,
        q: ArrayLike,
        qd: ArrayLike,
        tau: ArrayLike,
        gravity: ArrayLike | None,
        velocity_variance: ArrayLike | None,
    ) -> bool:
        """Process a sample; returns whether there are results. Raises InputError and SolutionError, and then
        the sample is skipped."""
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
        self._prepare(dt)
        self._dt[0] = dt
        rest = (self._dt, self._settings, self._state, self._next, *self._written)
        if self._one_cycle(q, qd, tau, g, variance, *rest) is not None:
            self._run_checked(self._runners[0], (q, qd, tau, g, variance), rest)
        self._state, self._next, self.time = self._next, self._state, time
        return True

    def _begin(self, time, *sample):
        time = float(finite("time", time, ()))
        self._begin_again()
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


def _settings(options, windows, velocity_std, torque_std, model_std, bandwidth):
    """The numbers of ObserverSettings. For contact detection, a constant error counts as white noise of the
    same strength in the longest window."""
    drift = 2.0 * max(options.windows) * model_std**2
    lasting, rates = [options.velocity_correlation_time], 1.0 / np.array(windows)
    return np.concatenate([bandwidth, torque_std**2, model_std**2, drift, lasting, rates, 0.0 * rates])


@cached_on_robot
def _signature(robot):
    signature = robot_signature(robot)
    rates = signature.inputs["qd"]
    inputs = signature.inputs | {"velocity_variance": rates}
    return type(signature)("observer", inputs, signature.quaternions)
