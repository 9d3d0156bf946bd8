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
from dynamics_node.algorithms.rates import sampled_rates
from dynamics_node.codegen import Runner
from dynamics_node.display import titled
from dynamics_node.errors import InputError
from dynamics_node.estimation.observer_options import COMPONENTS, ObserverOptions, levels
from dynamics_node.estimation.observer_program import begin_program, cycle_program, views
from dynamics_node.estimation.observer_steps import EACH, ObserverSteps
from dynamics_node.functions import ExternalWrenchEstimate
from dynamics_node.functions.choices import BACKENDS, Choice, require_known
from dynamics_node.functions.spec import FunctionSpec
from dynamics_node.identification.regression import named_in
from dynamics_node.robot import Robot
from dynamics_node.robot.wrong_calls import explains_wrong_calls

HOUR = 3600.0  # s
LARGEST_ALARM = 1.5  # levels: limit of averages and innovations, so that alarms end with hard pushes
RELEASE_LEVEL = 0.5  # fraction of the alarm level: below it, the alarm ends
STEP_RATIO = 2.0  # steps within this ratio have the same levels


class MomentumObserver(ObserverSteps):
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

    _OF_THIS_PROCESS = (*ObserverSteps._OF_THIS_PROCESS, "_levels")

    def __init__(
        self, robot: Robot, options: ObserverOptions, runners: tuple[Runner, Runner], spec: FunctionSpec
    ):
        super().__init__(robot, options, runners, spec, options.windows)
        self._shortest, self._longest_step = 0.0, 0.0
        results = self._results
        self.torque, self.torque_covariance = results["torque"], results["torque_covariance"]
        self.wrench, self.wrench_covariance = results.get("wrench"), results.get("wrench_covariance")
        self._wrench = [results[name] for name in ("wrench", "wrench_covariance") if name in results]
        self._statistics = results["statistics"]
        self._begin_again()

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
        super()._bind_fast_path()
        self._levels = self._settings[-len(self.options.windows) :]  # a view

    def _begin_again(self):
        super()._begin_again()
        self.contact, self.alarm, self.identified = False, 0.0, True

    def _like(self, robot, runners):
        return MomentumObserver(robot, self.options, runners, self._spec)

    def _continue(self, before):
        super()._continue(before)
        self.contact, self.alarm, self.identified = before.contact, before.alarm, before.identified

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
        if not self._advance(time, q, qd, tau, gravity, velocity_variance):
            return False
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

    def _fade(self, alarms):
        """Limit averages and filter momentum to the largest alarm, or else a hard push would be reported long
        after its end."""
        keep, nv = np.sqrt(LARGEST_ALARM / np.maximum(alarms, LARGEST_ALARM)), self.robot.nv
        parts = views(self._state, nv, len(alarms))
        parts.Z[:] *= keep[:, None]
        parts.predicted[:] += (1.0 - keep.min()) * (parts.p - parts.predicted)

    def _prepare(self, dt):
        if not self._shortest <= dt < self._longest_step:
            self._set_levels(dt)

    def _set_levels(self, dt):
        """Set the levels for steps between adjacent powers of STEP_RATIO around dt; shorter steps mean more
        frequent tests."""
        self._shortest = STEP_RATIO ** np.floor(np.log(dt) / np.log(STEP_RATIO))
        self._longest_step = STEP_RATIO * self._shortest
        self._levels[:] = 1.0 / _levels(self.robot.nv, self._shortest, self.options)


@explains_wrong_calls
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
    if not isinstance(options, ObserverOptions):
        raise TypeError(f"options must be ObserverOptions, not {type(options).__name__}")
    require_known("backend", backend, BACKENDS)
    windows = len(options.windows)
    places = tuple(COMPONENTS.index(name) for name in options.components)
    if options.link is not None:
        require_identifiable(robot, options.link, options.components)
    for name in EACH:
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


@lru_cache(maxsize=64)
def _levels(freedom, step, options):
    return levels(freedom, step, options.windows, options.false_alarms / HOUR)


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
