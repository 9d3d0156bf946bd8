"""The external-torque observer: samples in, external torques and a wrench out, with levels of alarms.

`observer_program.py` has the equations of one cycle; `require_identifiable` checks which components of a
wrench the joint torques determine.
"""

from functools import lru_cache, partial

import numpy as np

from dynamics_node.algorithms import frame_jacobian
from dynamics_node.algorithms.first_positions import generic_positions
from dynamics_node.algorithms.health import why_not
from dynamics_node.algorithms.rates import sampled_rates
from dynamics_node.codegen import Runner
from dynamics_node.estimation.observer_options import COMPONENTS, ObserverOptions, levels
from dynamics_node.estimation.observer_program import begin_program, cycle_program, kept_size, views
from dynamics_node.functions import ExternalWrenchEstimate, InputError, SolutionError
from dynamics_node.functions.arguments import Arguments, robot_signature
from dynamics_node.functions.choices import Choice
from dynamics_node.functions.spec import Spec
from dynamics_node.identification.regression import named_in
from dynamics_node.robot import Robot

HOUR = 3600.0  # s
MOST_ALARM = (
    1.5  # levels, to which averages and innovations are limited, or hard pushes would outlast their end
)
RELEASED = 0.5  # of the level of an alarm, below which it ends
_OF_THIS_PROCESS = ("_one_cycle", "_one_begin", "_levels")
STEPS = 2.0  # steps that differ by less have the same levels


class MomentumObserver:
    """What pushes on one robot, step by step. Made by `build_observer`.

    After a `step` that returns True: torque (nv,), N m or N, that the environment exerts at the joints, with
    torque_covariance (nv, nv); wrench (6,) ON the link of the options, moment first, in link axes at its
    origin, with wrench_covariance (6, 6), NaN where the joints do not tell it: then `identified` is False,
    see `unidentified`; contact; and alarm, which is above 1 where a contact begins. These arrays are written
    again by the next step. time: of the last sample, None before the first.
    """

    def __init__(self, robot: Robot, options: ObserverOptions, runners, specs):
        self.robot, self.options = robot, options
        self._runners: tuple[Runner, Runner] = runners  # of a cycle, of the first sample
        self._specs: tuple[Spec, Spec] = specs
        each = {name: options.each(name, robot.v_names) for name in _EACH}
        self._told = _told(options, **each)
        self._quicken()
        self._velocity_variance = each["velocity_std"] ** 2
        self._gravity = robot.gravity.astype(float)
        self._dt, self._shortest, self._longest_step = np.zeros(1), 0.0, 0.0
        size = kept_size(robot.nv, len(options.windows))
        self._kept, self._next = np.zeros(size), np.zeros(size)
        results = {
            name: np.full(shape, np.nan) for name, shape in runners[0].outputs.items() if name != "kept"
        }
        self.torque, self.torque_covariance = results["torque"], results["torque_covariance"]
        self.wrench, self.wrench_covariance = results.get("wrench"), results.get("wrench_covariance")
        self._wrench = [results[name] for name in ("wrench", "wrench_covariance") if name in results]
        self._judged = results["judged"]
        self._results = tuple(results.values())
        self.reset()

    def _quicken(self):
        self._one_cycle, self._one_begin = (runner.call_one for runner in self._runners)
        self._levels = self._told[-len(self.options.windows) :]  # a view

    def __getstate__(self):
        return {name: value for name, value in self.__dict__.items() if name not in _OF_THIS_PROCESS}

    def __setstate__(self, state):
        self.__dict__.update(state)
        self._quicken()

    def reset(self):
        """Forget all samples."""
        self.time: float | None = None
        self.contact, self.alarm, self.identified = False, 0.0, True

    def resume(self, before: "MomentumObserver"):
        """Go on where another one of the same robot is, if it has the same options."""
        if before.options == self.options and before.robot.v_names == self.robot.v_names:
            self.time, self._kept[:] = before.time, before._kept
            self.contact, self.alarm, self.identified = before.contact, before.alarm, before.identified

    def with_inertias(self, robot: Robot) -> "MomentumObserver":
        """The same, without samples, of a robot that differs in `runtime_parameters` of `build_observer`,
        or in gravity: no compilation. Raises ValueError as `RobotFunction.with_inertias`."""
        for spec in self._specs:
            spec.require_changeable(robot)
        pairs = zip(self._runners, self._specs, strict=True)
        runners = tuple(runner.with_parameters(spec.values(robot)) for runner, spec in pairs)
        return MomentumObserver(robot, self.options, runners, self._specs)

    def step(self, time, q, qd, tau, gravity=None, velocity_variance=None) -> bool:
        """Take in a sample; True when there is an estimate, from the second one on.

        time: s, of any clock; one that is the last again is left out, one that is earlier or more than
        longest_gap later is a first one. q (nq,), qd, tau (nv,): tau is what moves the joints, measured
        torque less friction (`friction_torque`). gravity (3,) and velocity_variance (nv,) in place of the
        robot's and of velocity_std. Raises InputError and SolutionError, argument and coordinate by name; the
        sample is then left out.
        """
        g = self._gravity if gravity is None else gravity
        variance = self._velocity_variance if velocity_variance is None else velocity_variance
        if self.time is None:
            return self._begin(time, q, qd, tau, g, variance)
        dt = time - self.time
        if not 0.0 < dt <= self.options.longest_gap:
            return False if dt == 0.0 else self._begin(time, q, qd, tau, g, variance)
        if not self._shortest <= dt < self._longest_step:
            self._learn(dt)
        self._dt[0] = dt
        rest = (self._dt, self._told, self._kept, self._next, *self._results)
        if self._one_cycle(q, qd, tau, g, variance, *rest) is not None:
            self._slowly(self._runners[0], (q, qd, tau, g, variance), rest)
        self._kept, self._next, self.time = self._next, self._kept, time
        *alarms, doubt = self._judged.tolist()
        self.alarm = alarm = max(alarms)
        self.contact = alarm > (RELEASED if self.contact else 1.0)
        if alarm > MOST_ALARM:
            self._fade(np.array(alarms))
        self.identified = doubt <= 1.0
        if not self.identified:
            for array in self._wrench:
                array.fill(np.nan)
        return True

    @property
    def external_wrench(self) -> ExternalWrenchEstimate | None:
        """On the link of the options; None without one, before the first sample, and where joint torques do
        not determine the wrench. Its arrays are written again by the next step."""
        link = self.options.link
        if link is None or self.wrench is None or self.time is None or not self.identified:
            return None
        return ExternalWrenchEstimate(link, self.wrench, self.wrench_covariance)

    def unidentified(self, q) -> tuple[str, ...]:
        """Components of the wrench that joints at q (nq,) do not tell, or not apart from each other."""
        return untold(self.robot, np.asarray(q, dtype=float), self.options.link, self.options.components)

    def _begin(self, time, *sample):
        if not np.isfinite(time):
            raise InputError(f"time is not finite: {time}")
        self.reset()
        if self._one_begin(*sample, self._kept) is not None:
            self._slowly(self._runners[1], sample, (self._kept,))
        self.time = time
        return False

    def _slowly(self, runner, sample, rest):
        """Where the quick way declines: arrays that are not plain, no compiler, or a reason in words."""
        names = list(runner.inputs)
        arguments = Arguments(_signature(self.robot), dict(zip(names, sample, strict=False)))
        arguments.require_valid()
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
        """Averages and the filter's momentum as they would be with the largest alarm that counts: else a hard
        push would show for long after its end."""
        keep, nv = np.sqrt(MOST_ALARM / np.maximum(alarms, MOST_ALARM)), self.robot.nv
        parts = views(self._kept, nv, len(alarms))
        parts.Z[:] *= keep[:, None]
        parts.predicted[:] += (1.0 - keep.min()) * (parts.p - parts.predicted)

    def _learn(self, dt):
        """The levels for steps from the power of STEPS below dt to the one above; the shorter they are, the
        more often one looks."""
        self._shortest = STEPS ** np.floor(np.log(dt) / np.log(STEPS))
        self._longest_step = STEPS * self._shortest
        self._levels[:] = 1.0 / _levels(self.robot.nv, self._shortest, self.options)


_EACH = ("velocity_std", "torque_std", "model_std", "bandwidth")


def build_observer(
    robot: Robot, options: ObserverOptions, backend="auto", runtime_parameters=()
) -> MomentumObserver:
    """The external-torque observer of a robot, with loops or without, fixed or floating.

    backend: c, numpy, or auto: c where it works; runtime_parameters: as of `build`. Raises ValueError for
    numbers that cannot be and for components of a wrench that joint torques determine at no position,
    KeyError for an unknown link, CompileError for backend c without a compiler.
    """
    windows = len(options.windows)
    places = tuple(COMPONENTS.index(name) for name in options.components)
    if options.link is not None:
        require_identifiable(robot, options.link, options.components)
    for name in _EACH:
        options.each(name, robot.v_names)
    parameters = tuple(runtime_parameters)
    begin = partial(_written, begin_program, robot, windows, parameters=runtime_parameters)
    cycle = partial(
        _written, cycle_program, robot, windows, options.link, places, parameters=runtime_parameters
    )
    specs = tuple(
        Spec(
            robot=robot,
            name="observer",
            choice=Choice("best", None, backend),
            forward=(False,) * robot.nv,
            write=write,
            parameters=parameters,
        )
        for write in (cycle, begin)
    )
    return MomentumObserver(robot, options, tuple(spec.runner() for spec in specs), specs)


def _written(make, *arguments, wrenches=False, **more):
    return make(*arguments, **more)


def _told(options, velocity_std, torque_std, model_std, bandwidth):
    """The numbers of observer_program.Told. An error that stays counts, where contacts are looked for, as
    white noise that is as strong in the longest window."""
    drift = 2.0 * max(options.windows) * model_std**2
    lasting, rates = [options.velocity_correlation_time], 1.0 / np.array(options.windows)
    return np.concatenate([bandwidth, torque_std**2, model_std**2, drift, lasting, rates, 0.0 * rates])


@lru_cache(maxsize=64)
def _levels(freedom, step, options):
    return levels(freedom, step, options.windows, options.false_alarms / HOUR)


@lru_cache(maxsize=16)
def _signature(robot):
    signature = robot_signature(robot)
    rates = signature.inputs["qd"]
    inputs = signature.inputs | {"velocity_variance": rates}
    return type(signature)("observer", inputs, signature.quaternions)


RELATIVE = 1e-4  # singular value of the Jacobian, of the largest, that tells a direction
SHARE = 0.05  # of a direction that is not told, from which on a component belongs to it


def require_identifiable(robot, link, components):
    """Raise ValueError, components by name, where torques tell a wrench at no position; KeyError for an
    unknown link."""
    robot.frame(link)
    lost = [untold(robot, q, link, components) for q in generic_positions(robot)]
    if all(lost):
        told = ", ".join(sorted(lost, key=len)[0])
        raise ValueError(
            f"{robot.nv} joint torques cannot tell apart {told} of a wrench at link {link!r}: leave out "
            "components that are known to be zero, as the moments of a push at a point"
        )


def untold(robot, q, link, components) -> tuple[str, ...]:
    """Components of a wrench at a link that torques at q (nq,) do not tell, or not apart from each other."""
    J = sampled_rates(robot, q).columns(frame_jacobian(robot.tree, q, link, "body"))[
        [COMPONENTS.index(name) for name in components]
    ]
    directions, values, _ = np.linalg.svd(J)
    values = np.append(values, np.zeros(len(J) - len(values)))
    lost = directions[:, values <= RELATIVE * values.max(initial=1e-300)]
    return named_in(lost, components, SHARE)
