"""The Functions of a robot: what `build` returns."""

from dataclasses import dataclass, field, replace
from functools import cached_property, partial

import numpy as np
from numpy.typing import ArrayLike

from dynamics_node.algorithms.health import why_not
from dynamics_node.algorithms.quantities import QUANTITIES
from dynamics_node.algorithms.results import HybridDynamics, NearestDynamics
from dynamics_node.algorithms.singular_positions import nearest_dynamics
from dynamics_node.codegen import Runner, finite_states, on_device
from dynamics_node.errors import InputError, SolutionError, UndeterminedError
from dynamics_node.functions.arguments import Arguments
from dynamics_node.functions.function import Function, ProgramFunction
from dynamics_node.functions.spec import Spec
from dynamics_node.robot import Robot


@dataclass(frozen=True, eq=False, kw_only=True, repr=False)
class RobotFunction(Function):
    """A Function of a robot's state.

    Arguments are q (..., nq); qd, qdd, tau (..., nv); f_ext (..., nbodies, 6), the wrench of the environment
    ON every body in its axes at its origin, moment first; gravity (..., 3) in m/s^2 in place of the robot's.

    Parameters
    ----------
    robot : Robot
        The robot whose inertias and gravity count.
    spec : Spec
        The arguments of its build.
    description : str
        Readable name of the algorithm: `aba`, `colamd`, ...
    """

    robot: Robot
    spec: Spec
    description: str
    _made: dict = field(
        default_factory=dict, repr=False
    )  # on first use; shared with the results of with_inertias

    def __post_init__(self):
        row = QUANTITIES.get(self.spec.name)
        self._keep(why=partial(_why, self.robot, self.spec.forward, row and row.refusal))
        super().__post_init__()

    def _summary(self):
        rows = super()._summary()
        robot = f"{self.robot.name}, nq {self.robot.nq}, nv {self.robot.nv}"
        return {"robot": robot, "algorithm": self.description, **rows}

    def __getstate__(self):
        state = super().__getstate__()
        state.pop("_pushed", None)
        return state

    @property
    def problem(self):
        """The solved Problem; None for another quantity."""
        return self.spec.problem

    @property
    def choice(self):
        """Solver, ordering and backend; the backend is the actual one."""
        return self.spec.choice._replace(backend=self.runner.backend)

    def with_inertias(self, robot: Robot):
        """Return the function of a Robot with other inertias, rotor inertias or gravity, without compilation.

        Parameters
        ----------
        robot : Robot
            A robot of the same geometry, for example from `with_payload`.

        Returns
        -------
        Function
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
        self.spec.require_changeable(robot)
        runner = self.runner.with_parameters(self.spec.values(robot))
        return replace(self, robot=robot, runner=runner)

    def derivatives(self, backend: str | None = None) -> "QuantityFunction":
        """Build the derivatives of the result as a Function of the same arguments, exact to rounding.

        Parameters
        ----------
        backend : str, optional
            Backend of the derivatives; by default that of this function.

        Returns
        -------
        QuantityFunction
            For inverse dynamics it returns `InverseDynamicsDerivatives`, for forward and hybrid dynamics
            theirs; for `inverse_dynamics_derivatives` the second derivatives. It has this function's inertias
            and runtime parameters.

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
        from dynamics_node.functions.build import build_derivatives  # avoids a circular import

        return build_derivatives(self, backend)

    @property
    def reads_wrenches(self) -> bool:
        """Whether f_ext may be an argument."""
        name = self.spec.name
        return name in QUANTITIES and QUANTITIES[name].wrenches

    @cached_property
    def with_wrenches(self) -> Runner:
        """The Runner that also reads f_ext, made on first use. Raises CompileError."""
        if "f_ext" not in self._made:
            self._made["f_ext"] = self.spec.runner(wrenches=True)
        return self._made["f_ext"].with_parameters(self.spec.values(self.robot))

    @cached_property
    def _pushed(self):
        """`call_one` and `call_new` with wrenches."""
        return self._quick_ways(self.with_wrenches)

    def compile(self, batches: bool = False) -> None:
        """Compile in advance, as in Function, also for `with_inertias`."""
        _ = self.spec.values(self.robot)
        super().compile(batches)


@dataclass(frozen=True, eq=False, kw_only=True, repr=False)
class QuantityFunction(RobotFunction, ProgramFunction):
    """A quantity: arguments are its inputs, by position or by name; gravity and f_ext are optional."""

    _takes_f_ext = True

    def __post_init__(self):
        if "gravity" in self.runner.inputs:
            self._keep(defaults={"gravity": self.robot.gravity.astype(self.precision)})
        super().__post_init__()

    def _with_f_ext(self, arrays, named, out, errors):
        """The results with external wrenches, by another Runner."""
        f_ext = named.pop("f_ext")
        if f_ext is None:
            return self(*arrays, out=out, errors=errors, **named)
        if not self.reads_wrenches:
            raise TypeError(f"{self.signature.name} does not depend on external wrenches: leave f_ext out")
        runner, arrays = self.with_wrenches, self._placed(arrays, named)
        given = dict(zip(self.runner.inputs, arrays, strict=False)) | {"f_ext": f_ext}
        arrays = tuple(given[name] for name in runner.inputs if name in given)
        one_state, new = self._pushed
        if out is None:
            results = new(self._result, *arrays)
            return self._slowly(runner, arrays, errors) if results is None else results
        places = out if isinstance(out, tuple) else (out,)
        if one_state(*arrays, *places) is not None:
            self._states(runner, arrays, places, errors)
        return places[0] if self._single else places


class DynamicsFunction(RobotFunction):
    """The solution of a Problem for a robot."""

    _gravity: np.ndarray
    _at_once_first = True

    def __post_init__(self):
        super().__post_init__()
        self._keep(_gravity=self.robot.gravity.astype(self.dtype))
        self._call_at_once(HybridDynamics, self._gravity)

    def compile(self, batches: bool = False) -> None:
        """Compile in advance, as in RobotFunction, also for external wrenches."""
        super().compile(batches)
        _ = self.with_wrenches

    def _slowly(self, f_ext, out, errors, *arrays):
        """The results, in a tuple, without the fast path; arrays: all inputs but f_ext."""
        if f_ext is None:
            return self._states(self.runner, arrays, out, errors)
        return self._states(self.with_wrenches, (*arrays, f_ext), out, errors)

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
            the self-motions counts, which qd leaves open. Where branches of assembly meet, it selects one.
            By default rates have the least kinetic energy.

        Returns
        -------
        NearestDynamics

        Raises
        ------
        InputError
            For an invalid argument, naming argument and entry.
        SolutionError
            If a loop is open, if torques determine no acceleration, or if the result depends on the branch.

        See Also
        --------
        NearestDynamics : with an example.
        """
        names = [name for name in self.problem.reads(self.robot) if name != "gravity"]
        if len(arrays) != len(names):
            raise TypeError(f"nearest takes {', '.join(names)}: {len(names)} arguments, not {len(arrays)}")
        given = dict(zip(names, arrays, strict=True))
        if self.problem.kind == "hybrid":
            forward = np.array(self.problem.forward)
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
        return NearestDynamics(*(_stacked(own, arguments.batch) for own in zip(*states, strict=True)))

    def _nearest(self, state):
        """The NearestDynamics of one state. Raises SolutionError."""
        state = {"gravity": self.robot.gravity} | state
        try:
            return nearest_dynamics(self.robot, self.problem.forward, **state)
        except UndeterminedError as reason:
            raise SolutionError(str(reason)) from None

    def _run(self, runner, count, rows, errors):
        """See Function; with singular='nearest' states without a result are computed by Gauss' principle."""
        if not self.spec.nearest:
            return super()._run(runner, count, rows, errors)
        solved = super()._run(runner, count, rows, "nan")
        for k in np.flatnonzero(~finite_states(solved)):
            state = {name: a if a.ndim == self._axes(name) else a[k] for name, a in rows.items()}
            try:
                result = self._nearest(state)
            except SolutionError:
                if errors == "raise":
                    raise
                continue
            for name, target in zip(runner.outputs, solved, strict=True):
                target[k] = getattr(result, name)
        return solved


# The two calls below differ only in the name of the known argument; one shared method would cost 10 % a call.


class InverseDynamicsFunction(DynamicsFunction):
    """Inverse dynamics: tau = f(q, qd, qdd)."""

    def __call__(self, q, qd, qdd, f_ext=None, *, gravity=None, out=None, errors="raise"):
        """Compute the torques of an acceleration.

        Parameters
        ----------
        q : array_like (..., nq)
            Positions, closed.
        qd : array_like (..., nv)
            Velocities, rad/s and m/s.
        qdd : array_like (..., nv)
            Accelerations, rad/s^2 and m/s^2.
        f_ext : array_like (..., nbodies, 6), optional
            Wrenches of the environment ON the bodies, in their axes at their origins, moment first, N m and
            N.
        gravity : array_like (..., 3), optional
            In place of the robot's, m/s^2.
        out : ndarray (..., nv), optional
            The place of the result.
        errors : str
            'raise', or 'nan': NaN for states without a result.

        Returns
        -------
        ndarray (..., nv)
            Torques and forces of the joints, N m and N.

        Raises
        ------
        InputError
            For an invalid argument, naming argument and entry.
        SolutionError
            If there is no finite result.
        """
        g = self._gravity if gravity is None else gravity
        if f_ext is None:
            if out is None:
                tau = self._new(None, q, qd, qdd, g)
            else:
                tau = out if self._one_state(q, qd, qdd, g, out) is None else None
        else:
            one_state, new = self._pushed
            if out is None:
                tau = new(None, q, qd, qdd, g, f_ext)
            else:
                tau = out if one_state(q, qd, qdd, g, f_ext, out) is None else None
        if tau is None:
            (tau,) = self._slowly(f_ext, None if out is None else (out,), errors, q, qd, qdd, g)
        return tau


class ForwardDynamicsFunction(DynamicsFunction):
    """Forward dynamics: qdd = f(q, qd, tau)."""

    def __call__(self, q, qd, tau, f_ext=None, *, gravity=None, out=None, errors="raise"):
        """Compute the accelerations by torques.

        Parameters
        ----------
        q : array_like (..., nq)
            Positions, closed.
        qd : array_like (..., nv)
            Velocities, rad/s and m/s.
        tau : array_like (..., nv)
            Torques and forces of the joints, N m and N.
        f_ext : array_like (..., nbodies, 6), optional
            Wrenches of the environment ON the bodies, in their axes at their origins, moment first, N m and
            N.
        gravity : array_like (..., 3), optional
            In place of the robot's, m/s^2.
        out : ndarray (..., nv), optional
            The place of the result.
        errors : str
            'raise', or 'nan': NaN for states without a result.

        Returns
        -------
        ndarray (..., nv)
            Accelerations, rad/s^2 and m/s^2.

        Raises
        ------
        InputError
            For an invalid argument, naming argument and entry.
        SolutionError
            If there is no finite result.
        """
        g = self._gravity if gravity is None else gravity
        if f_ext is None:
            if out is None:
                qdd = self._new(None, q, qd, tau, g)
            else:
                qdd = out if self._one_state(q, qd, tau, g, out) is None else None
        else:
            one_state, new = self._pushed
            if out is None:
                qdd = new(None, q, qd, tau, g, f_ext)
            else:
                qdd = out if one_state(q, qd, tau, g, f_ext, out) is None else None
        if qdd is None:
            (qdd,) = self._slowly(f_ext, None if out is None else (out,), errors, q, qd, tau, g)
        return qdd


class HybridDynamicsFunction(DynamicsFunction):
    """Hybrid dynamics: qdd, tau = f(q, qd, qdd, tau), of which only the known entries are read."""

    def __call__(self, q, qd, qdd, tau, f_ext=None, *, gravity=None, out=None, errors="raise"):
        """Compute the unknown accelerations and torques.

        Parameters
        ----------
        q : array_like (..., nq)
            Positions, closed.
        qd : array_like (..., nv)
            Velocities, rad/s and m/s.
        qdd : array_like (..., nv)
            Accelerations, rad/s^2 and m/s^2; unknown entries may have any value.
        tau : array_like (..., nv)
            Torques and forces of the joints, N m and N; unknown entries may have any value.
        f_ext : array_like (..., nbodies, 6), optional
            Wrenches of the environment ON the bodies, in their axes at their origins, moment first, N m and
            N.
        gravity : array_like (..., 3), optional
            In place of the robot's, m/s^2.
        out : tuple of two ndarray (..., nv), optional
            The places of the results.
        errors : str
            'raise', or 'nan': NaN for states without a result.

        Returns
        -------
        HybridDynamics
            qdd and tau (..., nv), complete.

        Raises
        ------
        InputError
            For an invalid argument, naming argument and entry.
        SolutionError
            If there is no finite result.
        """
        g = self._gravity if gravity is None else gravity
        if f_ext is None:
            if out is None:
                results = self._new(HybridDynamics, q, qd, qdd, tau, g)
            else:
                one, other = out
                results = out if self._one_state(q, qd, qdd, tau, g, one, other) is None else None
        else:
            one_state, new = self._pushed
            if out is None:
                results = new(HybridDynamics, q, qd, qdd, tau, g, f_ext)
            else:
                results = out if one_state(q, qd, qdd, tau, g, f_ext, *out) is None else None
        return self._completed(f_ext, out, errors, q, qd, qdd, tau, g) if results is None else results

    def _completed(self, f_ext, out, errors, q, qd, qdd, tau, g):
        """The results without the fast path: unknown entries may have any value."""
        forward = np.array(self.problem.forward)
        known = _known(qdd, ~forward), _known(tau, forward)
        results = self._slowly(f_ext, out, errors, q, qd, *known, g)
        return HybridDynamics(*results) if out is None else out


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


def _why(robot, forward, otherwise, q, **_):
    """See Function."""
    return why_not(robot, forward, q) or otherwise
