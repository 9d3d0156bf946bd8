"""The smallest contact forces and joint torques of a motion, within friction, surfaces and effort limits."""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Literal, NamedTuple, get_args

import numpy as np
from numpy.typing import ArrayLike

from dynamics_node.algorithms.contact_dynamics import why_no_forces
from dynamics_node.algorithms.contact_qp import ForceVariables, contact_qp_program
from dynamics_node.algorithms.health import why_not
from dynamics_node.algorithms.unlimited_forces import unlimited_forces_program
from dynamics_node.codegen.c.cone_program import ConeKernel
from dynamics_node.display import titled, with_field_repr
from dynamics_node.errors import InputError, SolutionError, UnknownNameError
from dynamics_node.functions.arguments import robot_signature
from dynamics_node.functions.checks import numbers, require_flags, shaped
from dynamics_node.functions.choices import Backend, Choice
from dynamics_node.functions.cone_qp import TOLERANCE, ConeSolver, force_size
from dynamics_node.functions.contact_limits import ForceLimits
from dynamics_node.functions.function import Function
from dynamics_node.functions.program_function import compile
from dynamics_node.functions.spec import FunctionSpec
from dynamics_node.robot import Robot
from dynamics_node.robot.contacts import Contact, ContactRows, valid_contacts
from dynamics_node.robot.wrong_calls import explains_wrong_calls
from dynamics_node.text import listed

Infeasible = Literal["raise", "nan", "least"]
INFEASIBLE = get_args(Infeasible)


@with_field_repr
class ContactForces(NamedTuple):
    """Contact forces and joint torques of a motion, and how far they are from their limits.

    Attributes
    ----------
    tau : ndarray (..., nv)
        Torques and forces at the joints, N m and N; zero where no motor is.
    contact_forces : ndarray (..., rows)
        Forces and moments of the environment on the links, in the axes of the contacts, N and N m.
    margins : ndarray (..., limits)
        Distances to the solver's `limits`, N and N m. They are negative where a limit is violated, and
        infinite at contacts that are not active.

    Examples
    --------
    >>> from dynamics_demo.robots import quadruped
    >>> legs = dn.parse_robot(quadruped(), floating_base=True)
    >>> shanks = ("fl_shank", "fr_shank", "hl_shank", "hr_shank")
    >>> feet = [dn.Contact(shank, xyz=(0, 0, -0.2), friction=0.7) for shank in shanks]
    >>> solver = dn.build_contact_solver(legs, feet, backend="numpy")
    >>> result = solver(legs.neutral(), np.zeros(legs.nv), np.zeros(legs.nv))
    >>> result.margins[:2].round(1)  # of the first foot: its normal force, and the friction that is left
    array([22. , 15.2])
    """

    tau: np.ndarray
    contact_forces: np.ndarray
    margins: np.ndarray


@dataclass(frozen=True, eq=False)
class ContactSolver:
    """Inverse dynamics of a robot that its contacts hold: the result of `build_contact_solver`. Picklable.

    A call returns the forces and torques that produce an acceleration within all limits and have the least
    weighted sum of squares. The sum has the torques in N m and the forces in N, those of a surface with
    friction and `half_lengths` at its four corners. Moments of other surfaces are divided by their mean half
    length, or by 0.1 m.

    A contact with friction only pushes, within its cone. The area of a surface with `half_lengths` transmits
    its wrench. So the center of pressure is on it, and friction limits the moment about the normal, too. The
    cones are exact. A contact without friction holds in every direction.

    Attributes
    ----------
    robot : Robot
        The robot.
    qp : Function
        q, qd, qdd, active, f_ext if it was built with it, gravity -> the arrays of the quadratic program.
    driven : ndarray (nv,)
        Whether a coordinate has a motor.
    effort_limits : ndarray (nv,)
        Limits of the torques, N m and N.

    Examples
    --------
    >>> from dynamics_demo.robots import quadruped
    >>> legs = dn.parse_robot(quadruped(), floating_base=True)
    >>> shanks = ("fl_shank", "fr_shank", "hl_shank", "hr_shank")
    >>> feet = [dn.Contact(shank, xyz=(0, 0, -0.2), friction=0.7) for shank in shanks]
    >>> solver = dn.build_contact_solver(legs, feet, backend="numpy")
    >>> solver.limits[:2]
    ('fl_shank.normal', 'fl_shank.friction')
    >>> still = np.zeros(legs.nv)
    >>> forces = solver(legs.neutral(), still, still).contact_forces
    >>> forces[solver.rows.places["hr_shank"]].round(1)[1:]
    array([ 0.2, 22. ])
    """

    robot: Robot
    qp: Function[Any]
    driven: np.ndarray
    effort_limits: np.ndarray
    _spec: FunctionSpec
    _unlimited: Function[Any]
    _judge: Function[Any]
    _variables: ForceVariables
    _cones: ConeSolver
    _limits: ForceLimits
    _all: np.ndarray  # (contacts,) of ones

    def __repr__(self):
        names = zip(self.robot.v_names, self.driven, strict=True)
        return titled(
            f"ContactSolver of {self.robot.name!r}",
            contacts=[contact.name for contact in self._variables.contacts],
            unactuated=[name for name, driven in names if not driven],
            limits=self.limits,
            backend=self.qp.runner.backend,
        )

    @property
    def rows(self) -> ContactRows:
        """Names and places of the rows of contact forces, as those of a Problem."""
        return self._variables.rows

    @property
    def limits(self) -> tuple[str, ...]:
        """Names of the margins.

        `normal` of a contact: its normal force, N. `friction`: the friction that is left, N; `friction_1` to
        `friction_4`: at a corner of a surface. `edge_x`, `edge_y`: the distance of the center of pressure
        from the edge along an axis, times the normal force, N m. `effort` of a joint: the torque that is
        left, N m or N.
        """
        return self._limits.names

    def __call__(
        self,
        q: ArrayLike,
        qd: ArrayLike,
        qdd: ArrayLike,
        active: ArrayLike | None = None,
        f_ext: ArrayLike | None = None,
        gravity: ArrayLike | None = None,
        *,
        errors: Infeasible = "raise",
    ) -> ContactForces:
        """Compute the smallest forces and torques.

        Parameters
        ----------
        q : array_like (..., nq)
            Positions; leading axes are a batch.
        qd, qdd : array_like (..., nv)
            Velocities and accelerations.
        active : array_like (..., contacts), optional
            1 for contacts that touch, 0 for others, whose forces are zero. By default all touch.
        f_ext : array_like (..., nbodies, 6), optional
            Other wrenches of the environment on the bodies, as for a Function with `f_ext=True`.
        gravity : array_like (..., 3), optional
            In place of the robot's, m/s^2.
        errors : str
            For states without forces within the limits: 'raise'; 'nan'; or 'least' for the forces that
            violate the limits least. Squares of violations in N and N m then cost 1000 times as much as those
            of forces, and `tau` has the wrench that a floating base lacks.

        Returns
        -------
        ContactForces

        Raises
        ------
        InputError
            For an invalid argument, naming argument and entry.
        SolutionError
            If no forces keep the limits. The message has the least violations: contacts that slip, tip or
            lift, joints that are too weak, and by how much.
        TypeError
            For f_ext, if it was built without.

        Examples
        --------
        >>> from dynamics_demo.robots import quadruped
        >>> legs = dn.parse_robot(quadruped(), floating_base=True)
        >>> feet = [dn.Contact(f"{leg}_shank", xyz=(0, 0, -0.2), friction=0.7) for leg in ("fl", "hr")]
        >>> solver = dn.build_contact_solver(legs, feet, backend="numpy")
        >>> still = np.zeros(legs.nv)
        >>> result = solver(legs.neutral(), still, still, active=[1, 0], errors="least")
        >>> result.tau[:2].round(1)  # N m, about x and y: one foot does not hold the robot
        array([-8. , 13.7])
        """
        if errors not in INFEASIBLE:
            raise InputError(f"errors must be {', '.join(INFEASIBLE)}, not {errors!r}")
        active = None if active is None else self._flags(active)
        touch = self._all if active is None else active
        if f_ext is not None and "f_ext" not in self.qp.defaults:
            raise TypeError("this ContactSolver takes no f_ext: build it with f_ext=True")
        arrays = (q, qd, qdd, touch, *self._rest(f_ext, gravity))
        unlimited, good = self._without_limits(arrays, active)
        if unlimited is not None and (good is True or np.all(good)):
            return unlimited
        program = self.qp(*arrays, errors="nan") if errors == "nan" else self.qp(*arrays)
        if program[0].ndim == 1 and errors != "nan":
            result, good = self._of_state(program, active, touch)
        else:
            result, good = self._of_states(program, active, touch, unlimited)
        return result if good is True or np.all(good) else self._otherwise(result, good, errors)

    def _flags(self, active):
        """The array (..., contacts) of zeros and ones."""
        axes = self.qp.signature.inputs["active"]
        array = shaped("active", active, axes)
        require_flags("active", array, axes)
        return array

    def _rest(self, f_ext, gravity):
        """The optional arguments with defaults in place of None."""
        rest: dict[str, Any] = self.qp.defaults
        if f_ext is not None or gravity is not None:
            given = {"f_ext": f_ext, "gravity": gravity}
            rest = {name: array if given[name] is None else given[name] for name, array in rest.items()}
        return rest.values()

    def _without_limits(self, arrays, active):
        """The ContactForces where no limit counts, and whether that is so, of every state. None if one state
        is known not to be such."""
        runner, q = self._unlimited.runner, arrays[0]
        found, good = runner.call_new(tuple, *arrays), True
        if found is None:
            if runner.checks and isinstance(q, np.ndarray) and q.ndim == 1:
                return None, False
            found, good = self._marked(arrays)
        tau, forces, allowed, use = found
        return ContactForces(tau, forces, self._limits.margins(allowed, use, active)), good

    def _marked(self, arrays):
        """The results of `_unlimited`, and which are finite; the others are NaN."""
        q, call = arrays[0], getattr(self._unlimited.runner, "call_marked", None)
        many = isinstance(q, np.ndarray) and q.ndim == 2
        once = call(len(q), arrays, np.dtype(np.float64)) if call is not None and many else None
        found, bad = once or (self._unlimited(*arrays, errors="nan"), None)
        good = np.isfinite(found[0]).all(axis=-1)
        if bad is None:
            return found, good
        good &= ~bad
        for array in found:
            array[~good] = np.nan
        return found, good

    def compile(self, batches: bool = False) -> None:
        """Compile in advance, so that the first call is as fast as the others.

        Parameters
        ----------
        batches : bool
            Whether to compile the code for many states as well.

        Returns
        -------
        None

        Raises
        ------
        CompileError
            If the compiler fails.
        """
        for function in (self.qp, self._unlimited, self._judge):
            function.compile(batches)
        self._cones.prepare()

    def violated(self, result: ContactForces) -> list[str]:
        """List the limits that the forces of one state violate.

        Parameters
        ----------
        result : ContactForces
            The result of a call with errors='least' at one state.

        Returns
        -------
        list of str
            Contacts that slip, tip or lift, joints that are too weak, and by how much, in N and N m. The
            missing wrench of a base follows. The list is empty if the forces keep all limits.

        Raises
        ------
        InputError
            For the result of a batch.

        Examples
        --------
        >>> from dynamics_demo.robots import quadruped
        >>> legs = dn.parse_robot(quadruped(), floating_base=True)
        >>> places = {f"{leg}_shank": (0, 0, -0.2) for leg in ("fl", "fr", "hl", "hr")}
        >>> feet = [dn.Contact(link, xyz=xyz, friction=0.1) for link, xyz in places.items()]
        >>> solver = dn.build_contact_solver(legs, feet, backend="numpy")
        >>> forward = np.zeros(legs.nv)
        >>> forward[3] = 2.0  # m/s^2
        >>> result = solver(legs.neutral(), np.zeros(legs.nv), forward, errors="least")
        >>> solver.violated(result)[0]
        "contact 'fl_shank' slips: 2.28 N are beyond its friction"
        """
        if np.ndim(result.tau) != 1:
            raise InputError(f"violated takes one state, not tau of shape {np.shape(result.tau)}")
        return self._violated(result.tau, result.margins)

    def with_inertias(self, robot: Robot) -> "ContactSolver":
        """Return the solver of a Robot with other inertias, rotor inertias or gravity, without compilation.

        Parameters
        ----------
        robot : Robot
            A robot of the same geometry, for example from `with_payload`.

        Returns
        -------
        ContactSolver

        Raises
        ------
        ValueError
            If the geometry differs, or a parameter that is not among the `runtime_parameters` of
            `build_contact_solver`.

        Examples
        --------
        >>> from dynamics_demo.robots import quadruped
        >>> legs = dn.parse_robot(quadruped(), floating_base=True)
        >>> feet = [dn.Contact(f"{leg}_shank", xyz=(0, 0, -0.2)) for leg in ("fl", "fr", "hl", "hr")]
        >>> solver = dn.build_contact_solver(legs, feet, backend="numpy", runtime_parameters=["inertia"])
        >>> loaded = dn.with_payload(legs, legs.base_link, 5.0, [0.0, 0.0, 0.1], np.zeros((3, 3)))
        >>> still = np.zeros(legs.nv)
        >>> forces = solver.with_inertias(loaded)(legs.neutral(), still, still).contact_forces
        >>> round(float(forces[2::3].sum() / 9.81 - legs.mass), 3)  # kg
        5.0
        """
        self._spec.require_changeable(robot, is_program=True)
        values, changed = self._spec.values(robot), []
        for function in (self.qp, self._unlimited):
            changed.append(_function(robot, self._variables, function.runner.with_parameters(values)))
        qp, unlimited = changed
        return replace(self, robot=robot, qp=qp, _unlimited=unlimited)

    def _of_state(self, program, active, touch):
        """The ContactForces of one state, and whether they keep the limits."""
        kernel = self._cones.kernel
        found = None if kernel is None else kernel.of_state(*program, touch)
        return (ContactForces(*found), True) if found else self._by_daqp(program, active)

    def _of_states(self, program, active, touch, known=None):
        """The same over a batch; NaN where the program is NaN or has no solution that passes the check.
        known: ContactForces, NaN at some states, which alone are computed."""
        batch = program[0].shape[:-1]
        every = [a.reshape(-1, *a.shape[len(batch) :]) for a in program]
        if known is None:
            known = [np.full((len(every[0]), size), np.nan) for size in self._sizes()]
        arrays = [a.reshape(len(every[0]), -1) for a in known]
        kept = np.isfinite(arrays[0]).all(axis=1)
        states = np.flatnonzero(~kept & np.isfinite(every[0]).all(axis=1))
        touch = np.broadcast_to(touch, (*batch, touch.shape[-1])).reshape(len(every[0]), -1)
        if self._cones.kernel is not None and len(states):
            found = self._cones.kernel(len(states), *(a[states] for a in (*every, touch)))
            for array, values in zip(arrays, found, strict=True):
                array[states] = values
            solved = np.isfinite(found[0][:, 0])
            kept[states[solved]] = True
            states = states[~solved]
        # threads take longer: a solution by DAQP is shorter than a turn of Python
        for k in states:
            result, kept[k] = self._by_daqp([a[k] for a in every], None if active is None else touch[k])
            for array, values in zip(arrays, result, strict=True):
                array[k] = values
        return ContactForces(*(a.reshape(*batch, -1) for a in arrays)), kept.reshape(batch)

    def _sizes(self):
        """Of the results."""
        return self.robot.nv, len(self.rows.names), len(self.limits)

    def _by_daqp(self, program, active):
        """The same of one state, by DAQP."""
        x = self._cones.by_daqp(program)
        if np.isnan(x[0]):
            return ContactForces(*(np.full(size, np.nan) for size in self._sizes())), False
        return self._judged(program, x, active)

    def _judged(self, program, x, active):
        """The ContactForces of x (..., n), and whether they keep the limits."""
        tau0, _, _, A, lower, upper = program
        tau, forces, allowed, use, slack = self._judge(tau0, A, x, lower, upper)
        margins = self._limits.margins(allowed, use, active)
        worst = np.minimum(margins.min(axis=-1, initial=np.inf), slack.min(axis=-1))
        good = worst >= -TOLERANCE * force_size((tau0 * tau0).sum(axis=-1))
        return ContactForces(tau, forces, margins), good

    def _otherwise(self, result, good, errors):
        """What `errors` demands where states violate limits."""
        if errors == "nan":
            return ContactForces(*(np.where(good[..., None], array, np.nan) for array in result))
        known = np.isfinite(result.tau[..., 0])
        if errors == "least" and known.all():
            return result
        bad = np.argwhere(~(known if errors == "least" else np.asarray(good)))
        state = tuple(bad[0].tolist())
        raise SolutionError(partial(self._why, result.tau[state], result.margins[state], state))

    def _why(self, tau, margins, state):
        if np.isnan(tau).any():
            return "the solutions of DAQP fail the check of their optimality"
        at = f" at state {', '.join(map(str, state))}" if state else ""
        return f"no contact forces produce this acceleration{at}: {listed(self._violated(tau, margins), 6)}"

    def _violated(self, tau, margins):
        """Words for the violated limits of one state."""
        tolerance = TOLERANCE * (1.0 + np.abs(tau).max())
        names, units = self.robot.v_names, self.robot.torque_units
        missing = [
            f"no motor gives the {tau[v]:.3g} {units[v]} that {names[v]!r} needs"
            for v in np.flatnonzero(~self.driven & (np.abs(tau) > tolerance))
        ]
        return [*self._limits.violated(margins, tolerance), *missing]


@explains_wrong_calls
def build_contact_solver(
    robot: Robot,
    contacts: Contact | Iterable[Contact],
    *,
    force_weights: ArrayLike = 1.0,
    torque_weights: ArrayLike = 1.0,
    effort_limits: bool | ArrayLike = True,
    unactuated: Iterable[str] = (),
    f_ext: bool = False,
    backend: Backend = "auto",
    runtime_parameters: Iterable[str] = (),
) -> ContactSolver:
    """Build the solver for the smallest contact forces and joint torques of a motion.

    Needs DAQP: pip install daqp.

    Parameters
    ----------
    robot : Robot
        The robot. Joints that float have no motor.
    contacts : Contact or iterable of Contact
        Places where the environment, or another link, can push. Which of them touch is an argument of calls.
    force_weights : array_like (contacts,)
        Weights of squares of forces, above zero, 1/N^2.
    torque_weights : array_like (nv,)
        Weights of squares of torques, zero or more, 1/(N m)^2; those of unactuated coordinates do not count.
    effort_limits : bool or array_like (nv,)
        Whether the effort limits of the robot count, or others, N m and N.
    unactuated : iterable of str
        Further joints without a motor.
    f_ext : bool
        Whether wrenches of the environment on the bodies are an argument.
    backend : str
        'c', 'numpy' or 'auto', as in `build`, for the equations.
    runtime_parameters : iterable of str
        Parameters that `with_inertias` may change without another build: 'inertia', 'armature'.

    Returns
    -------
    ContactSolver

    Raises
    ------
    ContactError
        For a contact at an unknown link or at one that is fixed; the message names it.
    InputError
        For invalid weights or limits, or no contact.
    UnknownNameError
        For an unknown joint.
    ImportError
        Without DAQP.
    CompileError
        For backend c without a compiler.

    References
    ----------
    Caron, Pham and Nakamura, "Stability of Surface Contacts for Humanoid Robots", ICRA 2015.

    Arnström, Bemporad and Axehill, "A Dual Active-Set Solver for Embedded Quadratic Programming Using
    Recursive LDL Updates", 2022.

    Examples
    --------
    >>> from dynamics_demo.robots import quadruped
    >>> legs = dn.parse_robot(quadruped(), floating_base=True)
    >>> shanks = ("fl_shank", "fr_shank", "hl_shank", "hr_shank")
    >>> feet = [dn.Contact(shank, xyz=(0, 0, -0.2), friction=0.7) for shank in shanks]
    >>> solver = dn.build_contact_solver(legs, feet, backend="numpy")
    >>> still = np.zeros(legs.nv)
    >>> forces = solver(legs.neutral(), still, still, active=[0, 1, 1, 0]).contact_forces
    >>> forces.reshape(4, 3)[:, 2].round(1) + 0.0  # N, the normal forces
    array([ 0. , 43.9, 43.9,  0. ])
    """
    contacts = valid_contacts(robot, contacts)
    if not contacts:
        raise InputError("contacts are missing: name at least one")
    driven = _driven(robot, unactuated)
    weights = _weights("force_weights", force_weights, len(contacts))
    if not (weights > 0.0).all():
        raise InputError("force_weights are positive: otherwise the forces are not unique")
    if isinstance(effort_limits, bool | np.bool_):
        efforts = robot.effort_limits if effort_limits else np.full(robot.nv, np.inf)
    else:
        efforts = _weights("effort_limits", effort_limits, robot.nv, finite=False)
    variables = ForceVariables(contacts)
    torques = _weights("torque_weights", torque_weights, robot.nv)
    parameters = tuple(runtime_parameters)
    choices = driven, weights, torques, efforts, f_ext, parameters
    spec = FunctionSpec(
        robot=robot,
        name="contact_forces",
        choice=Choice("best", None, backend),
        forward=(False,) * robot.nv,
        parameters=parameters,
    )
    program = contact_qp_program(robot, variables, *choices)
    qp = _function(robot, variables, spec.runner(program))
    limits = ForceLimits(robot, variables, driven, efforts)
    unlimited_program = unlimited_forces_program(robot, variables, limits.used, *choices)
    unlimited = _function(robot, variables, spec.runner(unlimited_program))
    judge: Function[Any] = compile(limits.program(), backend, "contact_limits")
    compiled, every = None, np.ones(len(contacts))
    if qp.runner.backend == "c":
        tables = variables, driven, efforts, TOLERANCE
        compiled = partial(ConeKernel, program, limits.program(), limits.contacts, *tables)
    cones = ConeSolver(variables, ~driven, compiled)
    return ContactSolver(robot, qp, driven, efforts, spec, unlimited, judge, variables, cones, limits, every)


def _function(robot, variables, runner) -> Function[Any]:
    """The Function of the quadratic program, or of its solution without limits."""
    optional = {"f_ext": np.zeros((robot.nbodies, 6)), "gravity": robot.gravity}
    return Function(
        signature=robot_signature(robot).named("contact_forces").with_contacts(variables.rows),
        runner=runner,
        defaults={name: value for name, value in optional.items() if name in runner.inputs},
        why=partial(_why_singular, robot, variables.contacts),
    )


def _why_singular(robot, contacts, q, active, **_):
    """Why a state has no program."""
    return why_not(robot, None, q) or why_no_forces(robot.tree, contacts, q, active)


def _driven(robot, unactuated):
    """(nv,) bool"""
    joints = {joint.name: joint for joint in robot.independent_joints}
    without = [joint.name for joint in robot.independent_joints if joint.type.is_free]
    driven = np.ones(robot.nv, dtype=bool)
    for name in (*without, *((unactuated,) if isinstance(unactuated, str) else unactuated)):
        if name not in joints:
            raise UnknownNameError(f"unactuated joint {name!r} is unknown; known: {listed(joints, 40)}")
        driven[joints[name].v] = False
    return driven


def _weights(name, value, count, finite=True):
    """(count,): not negative."""
    array = numbers(name, value)
    if array.ndim > 1 or array.shape not in ((), (count,)) or not (array >= 0.0).all():
        raise InputError(f"{name} must be {count} numbers that are not negative, or one")
    if finite and not np.isfinite(array).all():
        raise InputError(f"{name} must be finite")
    return np.broadcast_to(array, count).copy()
