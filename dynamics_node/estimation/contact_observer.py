"""Which contacts touch, from joint torques: the forces at the contacts that explain the external torques."""

from collections.abc import Iterable

import numpy as np
from numpy.typing import ArrayLike

from dynamics_node.algorithms.first_positions import generic_positions
from dynamics_node.codegen import Runner
from dynamics_node.display import titled
from dynamics_node.errors import InputError
from dynamics_node.estimation.base_imu import BaseImu
from dynamics_node.estimation.observer import RANK_TOLERANCE, SHARE
from dynamics_node.estimation.observer_options import ObserverOptions
from dynamics_node.estimation.observer_program import (
    STANDARD_GRAVITY,
    begin_program,
    contact_cycle_program,
)
from dynamics_node.estimation.observer_steps import EACH, ObserverSteps
from dynamics_node.functions import evaluate
from dynamics_node.functions.checks import finite, numbers, require_flags
from dynamics_node.functions.choices import BACKENDS, Choice, require_known
from dynamics_node.functions.spec import FunctionSpec
from dynamics_node.identification.regression import named_in
from dynamics_node.robot import Robot
from dynamics_node.robot.contacts import Contact, ContactRows, valid_contacts
from dynamics_node.robot.sensors import Imu
from dynamics_node.robot.wrong_calls import explains_wrong_calls
from dynamics_node.text import listed

SIGMAS = 4.0  # standard deviations of a force: the least level at which a contact begins
RELEASE = 0.5  # of this level: below it, a contact ends


class ContactObserver(ObserverSteps):
    """Observer of contact forces and of the contacts that touch. `build_contact_observer` returns it.

    A contact begins when its normal force exceeds `level` of the robot's weight, or four of its standard
    deviations if that is more. It ends below half of that. Contacts without friction hold in every direction:
    the length of their force counts. A contact whose force is too uncertain stays as it is.

    Attributes
    ----------
    contact_forces : ndarray (rows,)
        Forces and moments of the environment on the links, in the axes of the contacts, N and N m. NaN before
        the first estimate; the next step overwrites them.
    active : ndarray (contacts,)
        1 for contacts that touch, 0 for others; an argument of dynamics with contacts.
    unclear : tuple of str
        Contacts whose standard deviation is too large to decide.
    level : float
        The share of the weight at which a contact begins.
    rows : ContactRows
        Names and places of the rows of contact forces.
    imu : Imu or None
        The IMU of the build.
    q : ndarray (nq,)
        Positions of the last sample; with an IMU, the base is at zero, with the vertical of the IMU.
    time : float or None
        Time of the last sample, s; None before the first.

    Examples
    --------
    >>> from dynamics_demo.robots import quadruped
    >>> legs = dn.parse_robot(quadruped(), floating_base=True)
    >>> shanks = ("fl_shank", "fr_shank", "hl_shank", "hr_shank")
    >>> feet = [dn.Contact(shank, xyz=(0, 0, -0.2), friction=0.7) for shank in shanks]
    >>> options = dn.ObserverOptions(velocity_std=1e-3, torque_std=0.01, bandwidth=100.0)
    >>> observer = dn.build_contact_observer(legs, feet, options, backend="numpy")
    >>> q, rest = legs.neutral(), np.zeros(legs.nv)
    >>> q[9], q[8] = 1.2, -0.6  # the front left leg is bent
    >>> tau, forces = dn.evaluate(
    ...     legs, "inverse_dynamics", q, rest, rest, [0, 1, 1, 0], contacts=feet, backend="numpy"
    ... )
    >>> tau[:6] = 0.0  # the base has no motor
    >>> for k in range(50):
    ...     estimated = observer.step(0.002 * k, q, rest, tau)
    >>> observer.active
    array([0., 1., 1., 0.])
    """

    def __init__(
        self,
        robot: Robot,
        contacts: tuple[Contact, ...],
        options: ObserverOptions,
        level: float,
        runners: tuple[Runner, Runner],
        spec: FunctionSpec,
        base: BaseImu | None = None,
    ):
        super().__init__(robot, options, runners, spec, ())
        self._base, self.imu = base, None if base is None else base.imu
        self.q = np.full(robot.nq, np.nan)
        if base is not None:
            self._velocity_variance[:6] = base.velocity_variance
            self._settings = np.concatenate([self._settings, base.acceleration_variance])
        self.rows, self.level = ContactRows(contacts), level
        self.contact_forces, self._variances = self._results["contact_forces"], self._results["variances"]
        weight = robot.mass * STANDARD_GRAVITY
        self._begin_level = level * weight
        self._clear_level = max(level, 0.5 / len(contacts)) * weight
        rows = [self._rows_of_force(contact) for contact in contacts]
        self._decisive = np.zeros((len(contacts), len(self.rows.names)), dtype=bool)
        for flags, places in zip(self._decisive, rows, strict=True):
            flags[places] = True
        self._normal = np.array([places[-1] for places in rows])
        self._grips = np.flatnonzero([contact.friction is None for contact in contacts])
        self.reset()

    def _rows_of_force(self, contact):
        """Indices of the decisive rows of a contact; the normal force is the last."""
        first = self.rows.places[contact.name].start
        forces = [first + k for k, row in enumerate(contact.rows) if row.startswith("f")]
        return forces if contact.friction is None else forces[-1:]

    def __repr__(self):
        return titled(
            f"ContactObserver of {self.robot.name!r}",
            contacts=[contact.name for contact in self.rows.contacts],
            imu=None if self.imu is None else self.imu.name,
            time="no sample" if self.time is None else f"{self.time:.6g} s",
            active=self.active,
            backend=self._runners[0].backend,
        )

    @property
    def normal_forces(self) -> dict[str, float]:
        """The estimated normal force of each contact, N."""
        rows = zip(self.rows.contacts, self.contact_forces[self._normal], strict=True)
        return {contact.name: float(force) for contact, force in rows}

    def reset(self, active: ArrayLike | None = None) -> None:
        """Discard all samples.

        Parameters
        ----------
        active : array_like (contacts,), optional
            Contacts that touch until forces decide; by default all.

        Returns
        -------
        None

        Raises
        ------
        InputError
            For flags other than 0 and 1.
        """
        names = [contact.name for contact in self.rows.contacts]
        flags = np.ones(len(names)) if active is None else finite("active", active, (len(names),))
        require_flags("active", flags, (flags.shape, names))
        self.active, self.unclear = flags.copy(), ()
        self._begin_again()
        if self._base is not None:
            self._base.reset()

    def step(
        self,
        time: float,
        q: ArrayLike,
        qd: ArrayLike,
        tau: ArrayLike,
        gravity: ArrayLike | None = None,
        velocity_variance: ArrayLike | None = None,
        imu: ArrayLike | None = None,
    ) -> bool:
        """Process a sample; see `MomentumObserver.step`.

        Parameters
        ----------
        time : float
            Time of any clock, s.
        q : array_like (nq,)
            Positions, closed.
        qd : array_like (nv,)
            Velocities, rad/s and m/s.
        tau : array_like (nv,)
            Measured torques minus friction, zero at a floating base, N m and N.
        gravity : array_like (3,), optional
            In place of the robot's, m/s^2.
        velocity_variance : array_like (nv,), optional
            In place of the square of velocity_std.
        imu : array_like (6,), optional
            Reading of the IMU of the build, in its axes: angular velocity, rad/s, and acceleration, m/s^2,
            9.81 upward at rest. The base in q and qd, and gravity, are then not read.

        Returns
        -------
        bool
            Whether there is an estimate: from the second sample on. Without one, `active` stays.

        Raises
        ------
        InputError
            For an invalid argument, naming argument and coordinate; the sample is then skipped.
        SolutionError
            If loops are open or singular; the sample is then skipped.
        """
        if self._base is not None:
            q, qd, gravity = self._base.state(time, q, qd, imu)
            if velocity_variance is not None:
                variance = numbers("velocity_variance", velocity_variance).copy()
                variance[..., :6] = self._base.velocity_variance
                velocity_variance = variance
        elif imu is not None:
            raise InputError(
                "imu is given, but the observer is built without one: build_contact_observer(imu=)"
            )
        if not self._advance(time, q, qd, tau, gravity, velocity_variance):
            return False
        self.q = np.array(q, dtype=float)
        forces, variances = self.contact_forces, self._variances
        push = forces[self._normal]
        for k in self._grips:
            push[k] = np.linalg.norm(forces[self._decisive[k]])
        largest = np.where(self._decisive, variances, 0.0).max(axis=1)
        level = np.maximum(self._begin_level, SIGMAS * np.sqrt(largest))
        clear = level <= self._clear_level
        self.active[clear & (push > level)] = 1.0
        self.active[clear & (push < RELEASE * level)] = 0.0
        self.unclear = self._names(~clear)
        return True

    def _names(self, flags):
        if not flags.any():
            return ()
        return tuple(c.name for c, flag in zip(self.rows.contacts, flags, strict=True) if flag)

    def _like(self, robot, runners):
        contacts = self.rows.contacts
        base = None if self.imu is None else BaseImu(robot, self.imu, contacts)
        other = ContactObserver(robot, contacts, self.options, self.level, runners, self._spec, base)
        other.active[:] = self.active
        return other

    def _continue(self, before):
        if before.imu != self.imu:
            return
        super()._continue(before)
        if self._base is not None:
            self._base.resume(before._base)
        if before.rows.contacts == self.rows.contacts:
            self.active[:] = before.active


@explains_wrong_calls
def build_contact_observer(
    robot: Robot,
    contacts: Contact | Iterable[Contact],
    options: ObserverOptions,
    *,
    imu: Imu | None = None,
    level: float = 0.06,
    backend: str = "auto",
    runtime_parameters: Iterable[str] = (),
) -> ContactObserver:
    """Build the observer of the contacts that touch.

    It needs measured torques of the joints and, of a floating base, the pose and twist or an IMU. External
    wrenches at other places disturb it.

    Parameters
    ----------
    robot : Robot
        The robot, with or without loops, fixed or floating.
    contacts : Contact or iterable of Contact
        Places where the environment can push.
    options : ObserverOptions
        Noise, bandwidth and longest_gap. A larger bandwidth means shorter delays and more noise; 100 rad/s
        suit a legged robot.
    imu : Imu, optional
        An IMU on the floating link, in place of the pose and twist of the base. Its noise replaces that of
        the base's velocity. Forces of points and wheels are then in axes that turn with the heading.
    level : float
        Share of the weight, between 0 and 1: a contact begins at this normal force.
    backend : str
        'c' (compiled for this robot and cached), 'numpy', or 'auto': 'c' if available.
    runtime_parameters : iterable of str
        Parameters that `with_inertias` may change without another build: 'inertia', 'armature'.

    Returns
    -------
    ContactObserver

    Raises
    ------
    ContactError
        For a contact at an unknown link, or at one that is fixed. With an IMU, also for a point or wheel
        whose normal is not vertical.
    SensorError
        For an IMU that is not on the floating link, and one of a robot that also hangs on the world.
    InputError
        For invalid numbers, no contact, and contacts whose forces the torques determine at no position: four
        points of a sole are one surface.
    CompileError
        For backend c without a compiler.

    Examples
    --------
    >>> from dynamics_demo.robots import quadruped
    >>> legs = dn.parse_robot(quadruped(), floating_base=True)
    >>> places = {"heel": (0, 0, -0.2), "toe": (0.1, 0, -0.2)}
    >>> corners = [dn.Contact("fl_shank", name=name, xyz=xyz) for name, xyz in places.items()]
    >>> options = dn.ObserverOptions(velocity_std=1e-3, torque_std=0.01)
    >>> dn.build_contact_observer(legs, corners, options)
    Traceback (most recent call last):
        ...
    dynamics_node.errors.InputError: joint torques do not determine the forces at heel, toe separately: ...
    """
    if not isinstance(options, ObserverOptions):
        raise TypeError(f"options must be ObserverOptions, not {type(options).__name__}")
    require_known("backend", backend, BACKENDS)
    contacts = valid_contacts(robot, contacts)
    if not contacts:
        raise InputError("contacts are missing: name at least one")
    if not 0.0 < float(numbers("level", level)) < 1.0:
        raise InputError(f"level must be between 0 and 1, not {level}")
    for name in EACH:
        options.each(name, robot.v_names)
    base = None if imu is None else BaseImu(robot, imu, contacts)
    _require_determined(robot, ContactRows(contacts))
    parameters = tuple(runtime_parameters)
    spec = FunctionSpec(
        robot=robot,
        name="contact_observer",
        choice=Choice("best", None, backend),
        forward=(False,) * robot.nv,
        parameters=parameters,
    )
    cycle = contact_cycle_program(robot, contacts, parameters, accelerated=base is not None)
    runners = spec.runner(cycle), spec.runner(begin_program(robot, 0, parameters))
    return ContactObserver(robot, contacts, options, float(level), runners, spec, base)


def _require_determined(robot, rows):
    """Raise InputError with the contacts whose forces torques determine at no position."""
    weak = [_undetermined(robot, rows, q) for q in generic_positions(robot)]
    if all(weak):
        raise InputError(
            f"joint torques do not determine the forces at {listed(min(weak, key=len))} separately: "
            "several points of a link are one contact of kind surface"
        )


def _undetermined(robot, rows, q):
    """Names of such contacts at q (nq,)."""
    J = evaluate(robot, "delassus_matrix", q, contacts=rows.contacts, backend="numpy")[1]
    directions, values, _ = np.linalg.svd(J)
    values = np.append(values, np.zeros(len(J) - len(values)))
    weak = directions[:, values <= RANK_TOLERANCE * values.max(initial=1e-300)]
    names = [contact.name for contact in rows.contacts for _ in contact.rows]
    return list(dict.fromkeys(named_in(weak, names, SHARE)))
