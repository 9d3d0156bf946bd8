"""The callables that `build` returns: checked arrays in, arrays out."""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Protocol

import numpy as np

from dynamics_node.algorithms.pivots import singular, weak_coordinates, why_singular
from dynamics_node.backends.c import Kernel
from dynamics_node.backends.compiled import CompiledEngine
from dynamics_node.backends.loops import why_not
from dynamics_node.loops.mechanism import Mechanism, tree_of
from dynamics_node.model import Model
from dynamics_node.model.parameters import changed_parameters, same_geometry
from dynamics_node.problem import Problem
from dynamics_node.solver.arguments import Arguments, solve_states
from dynamics_node.solver.checks import delivered
from dynamics_node.solver.choices import Choice


class Engine(Protocol):
    """What a backend makes: see dynamics_node.backends."""

    @property
    def description(self) -> str: ...

    def __call__(self, q, qd, qdd, tau, f_ext, gravity) -> tuple[np.ndarray, np.ndarray]: ...

    def with_model(self, model) -> "Engine": ...

    def prepare(self, batches: bool): ...


OPTIONAL = ("f_ext", "gravity")
ASKED = {"inverse": (1,), "forward": (0,), "hybrid": (0, 1)}  # of qdd, tau


@dataclass(frozen=True, eq=False)
class Solver:
    """One robot, one problem, one way to solve it. Picklable.

    Arrays: q (..., nq); qd, qdd, tau (..., nv); f_ext (..., nbodies, 6), wrench of the environment ON
    every body in its axes at its origin, moment first; gravity (..., 3) m/s^2 in place of the model's. The
    leading axes are the batch. Raises InputError (argument and coordinate by name) and SolutionError; with
    errors='nan' what concerns one state raises nothing: its results are NaN, those of the others right.

    precision: 'float64', or 'float32' of arguments and results; compiled code then computes batches so, and
    smaller numbers of states with float64.
    """

    model: Model | Mechanism
    problem: Problem
    choice: Choice
    engine: Engine
    parameters: tuple[str, ...] = ()
    precision: str = "float64"
    _one_state: Callable = field(init=False, repr=False)
    _gravity: np.ndarray = field(init=False, repr=False)

    @property
    def description(self):
        """What runs, for people: `aba`, `colamd`, ..."""
        return self.engine.description

    def with_model(self, model: Model | Mechanism) -> "Solver":
        """The same solver for a Model that differs in inertias, rotor inertias or gravity: no compilation.

        Raises ValueError when the geometry differs, or what was not among the `parameters` of `build`.
        """
        own, other = tree_of(self.model), tree_of(model)
        if not same_geometry(other, own) or not _same_loops(model, self.model):
            raise ValueError("the Model differs in more than inertias, rotor inertias and gravity")
        if constant := changed_parameters(other, own) - set(self.parameters):
            raise ValueError(
                f"this solver was built for constant {', '.join(sorted(constant))}: see parameters of build"
            )
        return replace(self, model=model, engine=self.engine.with_model(model))

    def __post_init__(self):
        """_one_state: compiled code for one state; returns None when it has written the result, False when it
        declines. Attributes of the object are what Python finds fastest."""
        object.__setattr__(self, "_one_state", self._single_state("kernel"))
        object.__setattr__(self, "_gravity", self.model.gravity)

    def prepare(self, batches=False):
        """Do now what calls or `with_model` may need later, as code for wrenches and for `batches` of states.
        Raises CompileError."""
        self.engine.prepare(batches)

    @cached_property
    def _one_state_with_wrenches(self):
        return self._single_state("kernel_with_wrenches")

    def _single_state(self, kernel):
        """`solve` of a kernel of the engine, if it is compiled, else something that always declines."""
        if self.precision == "float64" and isinstance(getattr(self.engine, kernel, None), Kernel):
            return getattr(self.engine, kernel).solve
        return lambda *arguments: False

    @property
    def dtype(self):
        """Of arguments and results."""
        return np.dtype(self.precision)

    def __getstate__(self):
        return {name: value for name, value in self.__dict__.items() if not name.startswith("_one_state")}

    def __setstate__(self, state):
        self.__dict__.update(state)
        self.__post_init__()

    def _solve(self, errors, **given):
        """The arrays that the Problem asks for, out of qdd and tau."""
        values = {name: value for name, value in given.items() if value is not None or name not in OPTIONAL}
        arguments = Arguments(self.model, values, self.dtype)
        vouched = self._vouched if hasattr(self.engine, "vouched") else None
        return solve_states(self._plain, arguments, errors, vouched, self._why)

    def _why(self, q, **_):
        """Why there is no solution at one of the positions q, if it is known."""
        if isinstance(self.model, Mechanism):
            return why_not(self.model, q, self.problem.forward)
        return why_singular(self.model, self.problem.forward, q)

    def _vouched(self, batch, q, qd, qdd=None, tau=None, f_ext=None, gravity=None):
        results = getattr(self.engine, "vouched")(q, qd, qdd, tau, f_ext, gravity)  # noqa: B009
        return None if results is None else self._asked(results)

    def _plain(self, batch, q, qd, qdd=None, tau=None, f_ext=None, gravity=None):
        zero = np.broadcast_to(np.zeros(self.model.nv, self.dtype), (*batch, self.model.nv))
        known = (zero if qdd is None else qdd, zero if tau is None else tau)
        qdd, tau = self.engine(q, qd, *known, f_ext, gravity)
        if self._weak.any():
            bad = singular(self.model, q, self.problem.forward, self._weak).any(axis=-1, keepdims=True)
            qdd, tau = np.where(bad, np.nan, qdd), np.where(bad, np.nan, tau)
        return self._asked((qdd, tau))

    @cached_property
    def _weak(self):
        """Coordinates whose pivots are watched here: none of loops, and none where compiled code does."""
        if isinstance(self.model, Mechanism) or isinstance(self.engine, CompiledEngine):
            return np.zeros(self.model.nv, dtype=bool)
        return weak_coordinates(self.model, self.problem.forward)

    def _asked(self, results):
        return [results[k].astype(self.dtype, copy=False) for k in ASKED[self.problem.kind]]


def _same_loops(one, other):
    """Loops are never changed, only carried over: the clusters are the same objects."""
    return getattr(one, "clusters", None) == getattr(other, "clusters", None)


# The two calls below differ in the name of what is known alone: a shared one would make both a tenth slower.


class InverseDynamics(Solver):
    """tau = f(q, qd, qdd)."""

    def __call__(self, q, qd, qdd, f_ext=None, *, gravity=None, out=None, errors="raise"):
        """tau (..., nv) in N m or N."""
        one = np.empty(self.model.nv) if out is None else out
        g = self._gravity if gravity is None else gravity
        if f_ext is None:
            declined = self._one_state(q, qd, qdd, g, one)
        else:
            declined = self._one_state_with_wrenches(q, qd, qdd, g, f_ext, one)
        if declined is None:
            return one
        (tau,) = self._solve(errors, q=q, qd=qd, qdd=qdd, f_ext=f_ext, gravity=gravity)
        return delivered(tau, out)


class ForwardDynamics(Solver):
    """qdd = f(q, qd, tau)."""

    def __call__(self, q, qd, tau, f_ext=None, *, gravity=None, out=None, errors="raise"):
        """qdd (..., nv) in rad/s^2 or m/s^2."""
        one = np.empty(self.model.nv) if out is None else out
        g = self._gravity if gravity is None else gravity
        if f_ext is None:
            declined = self._one_state(q, qd, tau, g, one)
        else:
            declined = self._one_state_with_wrenches(q, qd, tau, g, f_ext, one)
        if declined is None:
            return one
        (qdd,) = self._solve(errors, q=q, qd=qd, tau=tau, f_ext=f_ext, gravity=gravity)
        return delivered(qdd, out)


class HybridDynamics(Solver):
    """qdd, tau = f(q, qd, qdd, tau): of both, only what the Problem knows is read."""

    def __call__(self, q, qd, qdd, tau, f_ext=None, *, gravity=None, errors="raise"):
        """qdd, tau (..., nv), complete."""
        forward = np.array(self.problem.forward)
        qdd = _known(qdd, ~forward, self.model)
        tau = _known(tau, forward, self.model)
        return tuple(self._solve(errors, q=q, qd=qd, qdd=qdd, tau=tau, f_ext=f_ext, gravity=gravity))


def _known(value, known, model):
    """What is not known may be anything, NaN too: it is not read."""
    array = np.array(value, dtype=np.float64)
    if array.shape[-1:] == (model.nv,):
        array[..., ~known] = 0.0
    return array
