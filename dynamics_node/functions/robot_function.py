"""The Function of a robot: what `build` returns."""

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, overload

import numpy as np
from numpy.typing import ArrayLike

from dynamics_node.algorithms import results
from dynamics_node.algorithms.contact_dynamics import why_no_forces
from dynamics_node.algorithms.health import why_not
from dynamics_node.algorithms.integrators import IntegratorName
from dynamics_node.algorithms.quantities import QUANTITIES, QuantityOptions
from dynamics_node.algorithms.results import ContactRollout, NearestDynamics, Rollout
from dynamics_node.algorithms.singular_positions import UndeterminedError, nearest_dynamics
from dynamics_node.codegen import finite_states, on_device
from dynamics_node.errors import ChoiceError, InputError, SolutionError
from dynamics_node.functions.arguments import Arguments, robot_signature
from dynamics_node.functions.choices import Backend, Choice
from dynamics_node.functions.function import Function, Result
from dynamics_node.functions.pd_gains import PDGains
from dynamics_node.functions.rollout import roll_out, roll_out_with_contacts
from dynamics_node.functions.solvers import solver_of
from dynamics_node.functions.spec import FunctionSpec
from dynamics_node.names import called_here
from dynamics_node.robot import Problem, Robot
from dynamics_node.robot.contacts import Contact, Ground, Plane
from dynamics_node.robot.wrong_calls import explains_wrong_calls

FLOOR = Plane()


@dataclass(frozen=True, eq=False, kw_only=True, repr=False)
class RobotFunction(Function[Result]):
    """A Function of a robot's state.

    Arguments are some of q (..., nq), qd, qdd, tau (..., nv), f_ext (..., nbodies, 6) and gravity (..., 3).
    Functions that are built with f_ext=True read f_ext: the wrench of the environment ON every body, in its
    axes at its origin, moment first. The default is zero. The default of gravity, in m/s^2, is the robot's.

    Parameters
    ----------
    robot : Robot
        The robot whose inertias and gravity count.
    spec : FunctionSpec
        The arguments of its build.
    description : str
        Readable name of the algorithm: `aba`, `colamd`, ...

    Examples
    --------
    >>> inverse = dn.build(robot, "inverse_dynamics", backend="numpy", f_ext=True)
    >>> q, rest = robot.neutral(), np.zeros(7)
    >>> push = dn.external_wrenches(robot, {"panda_hand": [0, 0, 0, 0, 0, 10.0]})  # N, along the hand
    >>> (inverse(q, rest, rest, push) - inverse(q, rest, rest)).round(2)
    array([ 0.  , -0.88,  0.  ,  0.05,  0.  ,  0.88,  0.  ])
    """

    robot: Robot
    spec: FunctionSpec
    description: str
    _rollouts: dict = field(
        default_factory=dict, repr=False
    )  # made on first use; shared with the results of with_inertias

    def __post_init__(self):
        row = QUANTITIES.get(self.spec.name)
        self._keep(why=partial(_why, self.robot, self.spec, row and row.refusal))
        optional = {"f_ext": np.zeros((self.robot.nbodies, 6)), "gravity": self.robot.gravity}
        for name in ("contact_accelerations", "restitution"):
            optional = {name: np.zeros(self.runner.inputs.get(name, ())), **optional}
        names = [name for name in optional if name in self.runner.inputs]
        self._keep(defaults={name: optional[name].astype(self.precision) for name in names})
        super().__post_init__()

    def _summary(self):
        robot = f"{self.robot.name}, nq {self.robot.nq}, nv {self.robot.nv}"
        return {"robot": robot, "algorithm": self.description, **super()._summary()}

    @property
    def problem(self) -> Any:
        """The solved Problem; None for another quantity."""
        return self.spec.problem

    @property
    def choice(self) -> Choice:
        """Solver, ordering and backend; the backend is the actual one."""
        return self.spec.choice._replace(backend=self.runner.backend)

    def with_inertias(self, robot: Robot) -> "RobotFunction[Result]":
        """Return the function of a Robot with other inertias, rotor inertias or gravity, without compilation.

        Parameters
        ----------
        robot : Robot
            A robot of the same geometry, for example from `with_payload`.

        Returns
        -------
        RobotFunction
            Of the same kind as this one.

        Raises
        ------
        ValueError
            If the geometry differs, or a parameter that is not among the `runtime_parameters` of `build`.
        ModelError
            If the mass matrix may become singular in a way that the Program does not check.

        Examples
        --------
        >>> torque = dn.build(robot, "gravity_torque", backend="numpy", runtime_parameters=["inertia"])
        >>> heavier = dn.with_payload(robot, "panda_link7", 2.0, [0.0, 0.0, 0.1], np.zeros((3, 3)))
        >>> q = robot.neutral()
        >>> (torque.with_inertias(heavier)(q) - torque(q))[[1, 3, 5]].round(2)  # N m
        array([-1.73,  0.11,  1.73])
        """
        self.spec.require_changeable(robot, self.program is not None)
        runner = self.runner.with_parameters(self.spec.values(robot))
        return replace(self, robot=robot, runner=runner)

    @explains_wrong_calls
    def derivatives(self, backend: Backend | None = None) -> "RobotFunction[Any]":
        """Build the derivatives of the result as a Function of the same arguments, exact to rounding.

        Parameters
        ----------
        backend : str, optional
            Backend of the derivatives; by default that of this function.

        Returns
        -------
        RobotFunction
            For inverse dynamics it returns `InverseDynamicsDerivatives`, for forward and hybrid dynamics
            theirs; for `inverse_dynamics_derivatives` the second derivatives. With contacts, derivatives of
            the contact forces follow. It has this function's inertias and runtime parameters.

        Raises
        ------
        ChoiceError
            For a quantity or a backend without derivatives.

        Examples
        --------
        >>> derivatives = dn.build(robot, "forward_dynamics", backend="numpy").derivatives()
        >>> derivatives(robot.neutral(), np.zeros(7), np.zeros(7))
        ForwardDynamicsDerivatives
          dqdd_dq    array (7, 7)
          dqdd_dqd   array (7, 7)
          dqdd_dtau  array (7, 7)
        """
        spec, row = self.spec, QUANTITIES.get(self.spec.name)
        if row is not None and row.write is not None:
            self._refuse_contacts("derivatives")
        if row is None or row.derivatives is None:
            derived = ", ".join(name for name, other in QUANTITIES.items() if other.derivatives)
            raise ChoiceError(f"{spec.name} has no derivatives; there are those of {derived}")
        choice = Choice("best", None, spec.choice.backend if backend is None else backend)
        derived_spec = replace(spec, robot=self.robot, name=row.derivatives, choice=choice, nearest=False)
        return robot_function(derived_spec, self.precision)

    @overload
    def rollout(
        self,
        q0: ArrayLike,
        qd0: ArrayLike,
        controls: ArrayLike,
        dt: float,
        *,
        integrator: IntegratorName = "semi_implicit_euler",
        pd: PDGains | None = None,
        feedforward: ArrayLike | None = None,
    ) -> Rollout: ...
    @overload
    def rollout(
        self,
        q0: ArrayLike,
        qd0: ArrayLike,
        controls: ArrayLike,
        dt: float,
        *,
        pd: PDGains | None = None,
        feedforward: ArrayLike | None = None,
        contacts: Contact | Iterable[Contact],
        ground: Ground | Iterable[Ground] = FLOOR,
        friction: bool = True,
        limits: bool = True,
        sweeps: int = 6,
    ) -> ContactRollout: ...
    @explains_wrong_calls
    def rollout(
        self,
        q0: ArrayLike,
        qd0: ArrayLike,
        controls: ArrayLike,
        dt: float,
        *,
        integrator: IntegratorName = "semi_implicit_euler",
        pd: PDGains | None = None,
        feedforward: ArrayLike | None = None,
        contacts: Contact | Iterable[Contact] | None = None,
        ground: Ground | Iterable[Ground] = FLOOR,
        friction: bool = True,
        limits: bool = True,
        sweeps: int = 6,
    ) -> Rollout | ContactRollout:
        """Simulate many states along many steps, for planners that sample, see docs/how-to/rollouts.md.

        For forward dynamics. Positions move on their manifold, as in `integrate`. Torques are constant within
        a step. Closed loops stay closed. With `pd`, controls are targets of PD loops instead of torques.

        With `contacts`, which may be empty, a step is semi-implicit at the level of velocities and impulses.
        Friction of contacts is within its exact cone, limits of joints stop, friction of joints acts.

        Parameters
        ----------
        q0 : array_like (..., nq)
            Positions at the start, closed, rad and m.
        qd0 : array_like (..., nv)
            Velocities at the start, rad/s and m/s.
        controls : array_like (..., steps, nv)
            Torques and forces of the joints, N m and N; leading axes broadcast. With `pd`, positions of the
            joints `robot.joint_names` (..., steps, joints), rad and m.
        dt : float
            Length of a step, s.
        integrator : str
            'semi_implicit_euler', of first order, or 'rk4', of fourth order with four times the work.
        pd : PDGains, optional
            Gains of PD loops that every step closes, implicit in kd.
        feedforward : array_like (..., steps, nv), optional
            Torques and forces in addition to those of the PD loops.
        contacts : iterable of Contact, optional
            Points of links, or balls around them, that touch the ground. The other arguments belong to it.
        ground : Plane, Terrain, callable, or iterable of them
            Surfaces of the ground; by default the floor at height 0. A function of x and y is a Terrain.
        friction : bool
            Whether damping, dry friction, springs and offsets of the joints act.
        limits : bool
            Whether joints stop at the limits of their positions.
        sweeps : int
            Number of sweeps of the solver of impulses.

        Returns
        -------
        Rollout or ContactRollout
            q (..., steps + 1, nq) and qd (..., steps + 1, nv); the first states are those at the start. From
            the step on in which a state diverges, or is singular, its results are NaN. It changes no other.
            With contacts, contact_forces and residual, too.

        Raises
        ------
        InputError
            For a wrong shape, a dt that is not positive, or a start or torque that is not finite.
        ChoiceError
            For another quantity, an unknown integrator, a solver of parallel machines, or contacts that are
            no points. For contacts or PD loops with 'rk4' or runtime parameters.
        ContactError
            For a contact at an unknown link, and a height that is made by other operations.
        CompileError
            For backend c without a compiler.

        See Also
        --------
        simulate : implicit, with friction and a trajectory.

        Examples
        --------
        >>> forward = dn.build(robot, "forward_dynamics", backend="numpy")
        >>> tau = np.zeros((3, 10, robot.nv))  # 3 samples of 10 steps
        >>> q, qd = forward.rollout(robot.neutral(), np.zeros(robot.nv), tau, dt=0.01)
        >>> q.shape, qd.shape
        ((3, 11, 7), (3, 11, 7))
        >>> qd[0, -1].round(2)  # rad/s, after a fall of 0.1 s
        array([ 0.2 ,  1.7 ,  0.21,  3.49, -0.38, -3.86, -0.38])
        """
        problem = self._problem("rollouts")
        if problem.kind != "forward":
            raise ChoiceError(f"{self.spec.name} has no rollouts: use dn.build(robot, 'forward_dynamics')")
        if feedforward is not None and pd is None:
            raise ChoiceError("feedforward belongs to pd: give torques as controls")
        if pd is None and contacts is None:
            return roll_out(self, q0, qd0, controls, dt, integrator)
        if integrator != "semi_implicit_euler":
            reason = "has no contacts and no PD loops: leave it at 'semi_implicit_euler'"
            raise ChoiceError(f"integrator {integrator!r} {reason}")
        given, loops = (self, q0, qd0, controls, dt), (pd, feedforward)
        if contacts is None:
            free = roll_out_with_contacts(*given, (), ground, False, False, 1, *loops)
            return Rollout(free.q, free.qd)
        return roll_out_with_contacts(*given, contacts, ground, friction, limits, sweeps, *loops)

    @explains_wrong_calls
    def nearest(
        self,
        *arrays: ArrayLike,
        f_ext: ArrayLike | None = None,
        gravity: ArrayLike | None = None,
        rates: ArrayLike | None = None,
    ) -> NearestDynamics:
        """Solve the problem by Gauss' principle, also at singular positions of closed loops.

        At regular positions the results are those of a call. At singular ones they have the least
        constraint, and bases of what the equations leave open (docs/explanation/loops.md). NumPy computes
        state by state, in milliseconds.

        Parameters
        ----------
        *arrays : array_like
            The arguments of a call: q (..., nq), closed; qd (..., nv); the known ones of qdd, tau (..., nv).
        f_ext : array_like (..., nbodies, 6), optional
            Wrenches of the environment ON the bodies, as in a call.
        gravity : array_like (..., 3), optional
            In place of the robot's, m/s^2.
        rates : array_like (..., nv of the tree), optional
            Rates of all joints, in the order of `robot.tree.v_names`, rad/s and m/s. Only their part along
            the self-motions counts, which qd leaves open. It selects a branch where branches of assembly
            meet. By default rates have the least kinetic energy.

        Returns
        -------
        NearestDynamics

        Raises
        ------
        ChoiceError
            For a function that solves no Problem.
        InputError
            For an invalid argument, naming argument and entry.
        SolutionError
            If a loop is open, if torques determine no acceleration, or if the result depends on the branch.

        See Also
        --------
        NearestDynamics : with an example.
        """
        problem = self._problem("nearest solution")
        names = [name for name in problem.reads(self.robot) if name != "gravity"]
        if len(arrays) != len(names):
            raise TypeError(f"nearest takes {', '.join(names)}: {len(names)} arguments, not {len(arrays)}")
        given = dict(zip(names, arrays, strict=True))
        if problem.kind == "hybrid":
            forward = np.array(problem.forward)
            given |= {"qdd": _known(given["qdd"], ~forward), "tau": _known(given["tau"], forward)}
        more = {"f_ext": f_ext, "gravity": gravity, "rates": rates}
        given |= {name: value for name, value in more.items() if value is not None}
        tree = self.robot.tree
        inputs = self.signature.inputs | {"rates": ((tree.nv,), tree.v_names)}
        arguments = Arguments(replace(self.signature, inputs=inputs), given)
        arguments.require_valid()
        if not arguments.count:
            raise InputError("q has no states")
        rows = {name: array.reshape(-1, *inputs[name][0]) for name, array in arguments.spread().items()}
        states = [self._nearest({name: a[k] for name, a in rows.items()}) for k in range(arguments.count)]
        return NearestDynamics(*(_stacked(each, arguments.batch) for each in zip(*states, strict=True)))

    def _nearest(self, state):
        """The NearestDynamics of one state. Raises SolutionError."""
        state = {"gravity": self.robot.gravity} | state
        try:
            return nearest_dynamics(self.robot, self.spec.forward, **state)
        except UndeterminedError as reason:
            raise SolutionError(str(reason)) from None

    def _run(self, count, rows, errors):
        """See Function; with singular='nearest' states without a result are computed by Gauss' principle."""
        if not self.spec.nearest:
            return super()._run(count, rows, errors)
        solved = super()._run(count, rows, "nan")
        for k in np.flatnonzero(~finite_states(solved)):
            state = {name: a if a.ndim == self._axes(name) else a[k] for name, a in rows.items()}
            try:
                result = self._nearest(state)
            except SolutionError:
                if errors == "raise":
                    raise
                continue
            for name, target in zip(self.runner.outputs, solved, strict=True):
                target[k] = getattr(result, name)
        return solved

    def _problem(self, what):
        """The Problem that it solves. Raises ChoiceError."""
        problem = self.spec.problem
        if not isinstance(problem, Problem) or not QUANTITIES[self.spec.name].is_problem:
            raise ChoiceError(f"{self.spec.name} has no {what}: use dn.build(robot, 'forward_dynamics')")
        self._refuse_contacts(what)
        return problem

    def _refuse_contacts(self, what):
        if isinstance(self.spec.problem, Problem) and self.spec.problem.contacts:
            raise ChoiceError(f"{self.spec.name} with contacts has no {what}")

    def _placed(self, arrays, named):
        """See Function; f_ext=None is no argument."""
        if "f_ext" not in self._names and named.get("f_ext", 0) is None:
            del named["f_ext"]
        for name in named.keys() - set(self._names):
            self._explain(name)
        return super()._placed(arrays, named)

    def _explain(self, name):
        """Raise TypeError if an argument would belong to the build."""
        if name in QuantityOptions.__annotations__:
            reason = f"is an option of dn.build(robot, {self.spec.name!r}, {name}=...)"
            raise TypeError(f"{name} {reason}, not of the call")
        if "f_ext" not in self._names and called_here(name, ("f_ext",)):
            row = QUANTITIES.get(self.spec.name)
            remedy = ": build it with f_ext=True" if row is not None and row.wrenches else ""
            raise TypeError(f"{self.signature.name} takes no external wrenches{remedy}")

    def _states(self, arrays, out, errors):
        """See Function; unknown entries of a hybrid problem may have any value."""
        if self.spec.name == "hybrid_dynamics":
            q, qd, qdd, tau, *rest = self._complete(arrays)
            forward = np.array(self.spec.forward)
            arrays = (q, qd, _known(qdd, ~forward), _known(tau, forward), *rest)
        return super()._states(arrays, out, errors)


def robot_function(spec: FunctionSpec, precision: str) -> RobotFunction[Any]:
    """The Function of a FunctionSpec. Raises as `build`."""
    description, runner = solver_of(spec, precision)
    of_problem = spec.contacts is not None and spec.problem is not None
    return RobotFunction(
        signature=robot_signature(spec.robot).named(spec.name).with_contacts(spec.contacts),
        runner=runner,
        precision=precision,
        robot=spec.robot,
        spec=spec,
        description=description,
        result=results.WITH_CONTACTS[spec.name] if of_problem else QUANTITIES[spec.name].result,
    )


def _stacked(arrays, batch):
    """Arrays of the states of a batch as one (*batch, ...), with zeros behind the shorter ones."""
    stacked = np.zeros((len(arrays), *np.max([array.shape for array in arrays], axis=0)))
    for target, array in zip(stacked, arrays, strict=True):
        target[tuple(map(slice, array.shape))] = array
    return stacked.reshape(*batch, *stacked.shape[1:])


def _known(value, known):
    """The array with unknown entries replaced: they may have any value, even NaN."""
    if on_device(value):
        return value  # read completely, so it has to be finite
    array = np.array(value, dtype=np.float64)
    if array.shape[-1:] == known.shape:
        array[..., ~known] = 0.0
    return array


def _why(robot, spec, otherwise, q, active=None, **_):
    """See Function."""
    reason = why_not(robot, spec.forward, q)
    if reason or active is None:
        return reason or otherwise
    more = "" if QUANTITIES[spec.name].is_problem else ", nearly redundant or contradicting each other"
    return why_no_forces(robot.tree, spec.contacts.contacts, q, active, more)
