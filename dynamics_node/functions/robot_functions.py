"""The Functions of a robot: what `build` returns."""

from dataclasses import dataclass, field, replace
from functools import cached_property, partial

import numpy as np

from dynamics_node.algorithms.health import why_not
from dynamics_node.algorithms.quantities import QUANTITIES
from dynamics_node.algorithms.results import HybridDynamics
from dynamics_node.codegen import Runner, on_device
from dynamics_node.functions.function import Function, ProgramFunction
from dynamics_node.functions.spec import Spec
from dynamics_node.robot import Robot


@dataclass(frozen=True, eq=False, kw_only=True, repr=False)
class RobotFunction(Function):
    """A Function of a robot's state: q (..., nq); qd, qdd, tau (..., nv); f_ext (..., nbodies, 6), wrench of
    the environment ON every body in its axes at its origin, moment first; gravity (..., 3) m/s^2 in place of
    the robot's.

    description: readable name of the algorithm: `aba`, `colamd`, ...; spec: the arguments of its build.
    """

    robot: Robot
    spec: Spec
    description: str
    _with_wrenches: dict = field(default_factory=dict, repr=False)  # shared with the results of with_inertias

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
        """The function of a Robot that differs in inertias, rotor inertias or gravity only; no compilation.

        Raises ValueError if the geometry differs, or a parameter that is not among the `runtime_parameters`
        of `build`.
        """
        self.spec.require_changeable(robot)
        runner = self.runner.with_parameters(self.spec.values(robot))
        return replace(self, robot=robot, runner=runner)

    def derivatives(self, backend: str | None = None) -> "QuantityFunction":
        """The derivatives of the result as a Function of the same arguments, exact to rounding.

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
        >>> derivatives = dn.build(robot, "forward_dynamics").derivatives()  # doctest: +SKIP
        >>> dqdd_dq, dqdd_dqd, dqdd_dtau = derivatives(q, qd, tau)  # doctest: +SKIP
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
        shared = self._with_wrenches
        if "f_ext" not in shared:
            shared["f_ext"] = self.spec.runner(wrenches=True)
        return shared["f_ext"].with_parameters(self.spec.values(self.robot))

    @cached_property
    def _pushed(self):
        """`call_one` and `call_new` with wrenches."""
        return self._quick_ways(self.with_wrenches)

    def compile(self, batches=False):
        """Compile in advance for calls and `with_inertias`; with `batches` also the code for many states.
        Raises CompileError."""
        _ = self.spec.values(self.robot)
        super().compile(batches)


@dataclass(frozen=True, eq=False, kw_only=True, repr=False)
class QuantityFunction(RobotFunction, ProgramFunction):
    """f(*arrays, f_ext=None): arguments are the inputs by position or by name; gravity is optional."""

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
    """One robot, one problem, one way to solve it: see RobotFunction for arguments, Function for errors."""

    _gravity: np.ndarray

    def __post_init__(self):
        super().__post_init__()
        self._keep(_gravity=self.robot.gravity.astype(self.dtype))

    def compile(self, batches=False):
        """As in RobotFunction, with code for external wrenches."""
        super().compile(batches)
        _ = self.with_wrenches

    def _slowly(self, f_ext, out, errors, *arrays):
        """The results, in a tuple, without the fast path; arrays: all inputs but f_ext."""
        if f_ext is None:
            return self._states(self.runner, arrays, out, errors)
        return self._states(self.with_wrenches, (*arrays, f_ext), out, errors)


# The two calls below differ only in the name of the known argument; one shared method would cost 10 % a call.


class InverseDynamicsFunction(DynamicsFunction):
    """tau = f(q, qd, qdd)."""

    def __call__(self, q, qd, qdd, f_ext=None, *, gravity=None, out=None, errors="raise"):
        """tau (..., nv) in N m or N."""
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
    """qdd = f(q, qd, tau)."""

    def __call__(self, q, qd, tau, f_ext=None, *, gravity=None, out=None, errors="raise"):
        """qdd (..., nv) in rad/s^2 or m/s^2."""
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
    """qdd, tau = f(q, qd, qdd, tau): only the known entries of both are read."""

    def __call__(self, q, qd, qdd, tau, f_ext=None, *, gravity=None, out=None, errors="raise"):
        """qdd, tau (..., nv), complete. out: two arrays for them, which the call returns."""
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
