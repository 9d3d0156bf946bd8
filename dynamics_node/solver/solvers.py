"""The callables that `build` returns: checked arrays in, arrays out."""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Protocol

import numpy as np

from dynamics_node.model import Model
from dynamics_node.model.parameters import changed_parameters, same_geometry
from dynamics_node.problem import Problem
from dynamics_node.solver.checks import (
    SolutionError,
    checked,
    checked_position,
    delivered,
    finite_solution,
    same_batch,
)
from dynamics_node.solver.choices import Choice


class Engine(Protocol):
    """What a backend makes: see dynamics_node.backends."""

    @property
    def description(self) -> str: ...

    def __call__(self, q, qd, qdd, tau, f_ext, gravity) -> tuple[np.ndarray, np.ndarray]: ...

    def with_model(self, model) -> "Engine": ...

    def prepare(self): ...


def _single_state(engine, kernel):
    """`solve` of a compiled engine's kernel; of another engine something that always declines."""
    return getattr(engine, kernel).solve if hasattr(engine, kernel) else lambda *arguments: False


@dataclass(frozen=True, eq=False)
class Solver:
    """One robot, one problem, one way to solve it. Picklable.

    Arrays: q (..., nq); qd, qdd, tau (..., nv); f_ext (..., nbodies, 6), wrench of the environment ON
    every body in its axes at its origin, moment first; gravity (..., 3) m/s^2 in place of the model's. The
    leading axes are the batch. Raises InputError (argument and coordinate by name) and SolutionError.
    """

    model: Model
    problem: Problem
    choice: Choice
    engine: Engine
    parameters: tuple[str, ...] = ()
    _one_state: Callable = field(init=False, repr=False)
    _gravity: np.ndarray = field(init=False, repr=False)

    @property
    def description(self):
        """What runs, for people: `aba`, `colamd`, ..."""
        return self.engine.description

    def with_model(self, model: Model) -> "Solver":
        """The same solver for a Model that differs in inertias, rotor inertias or gravity: no compilation.

        Raises ValueError when the geometry differs, or what was not among the `parameters` of `build`.
        """
        if not same_geometry(model, self.model):
            raise ValueError("the Model differs in more than inertias, rotor inertias and gravity")
        if constant := changed_parameters(model, self.model) - set(self.parameters):
            raise ValueError(
                f"this solver was built for constant {', '.join(sorted(constant))}: see parameters of build"
            )
        return replace(self, model=model, engine=self.engine.with_model(model))

    def __post_init__(self):
        """_one_state: compiled code for one state; returns None when it has written the result, False when it
        declines. Attributes of the object are what Python finds fastest."""
        object.__setattr__(self, "_one_state", _single_state(self.engine, "kernel"))
        object.__setattr__(self, "_gravity", self.model.gravity)

    def prepare(self):
        """Do now what calls or `with_model` may need later, as code for wrenches. Raises CompileError."""
        self.engine.prepare()

    @cached_property
    def _one_state_with_wrenches(self):
        return _single_state(self.engine, "kernel_with_wrenches")

    def __getstate__(self):
        return {name: value for name, value in self.__dict__.items() if not name.startswith("_one_state")}

    def __setstate__(self, state):
        self.__dict__.update(state)
        self.__post_init__()

    def _solve(self, q, qd, qdd, tau, f_ext, gravity):
        model = self.model
        q = checked_position(model, q)
        qd = checked("qd", qd, (model.nv,), model.v_names)
        qdd = None if qdd is None else checked("qdd", qdd, (model.nv,), model.v_names)
        tau = None if tau is None else checked("tau", tau, (model.nv,), model.v_names)
        if f_ext is not None:
            bodies = [body.name for body in model.bodies]
            f_ext = checked("f_ext", f_ext, (model.nbodies, 6), bodies)
        if gravity is not None:
            gravity = checked("gravity", gravity, (3,), "xyz")
        named = {"q": (q, 1), "qd": (qd, 1), "qdd": (qdd, 1), "tau": (tau, 1), "f_ext": (f_ext, 2)}
        batch = same_batch({**named, "gravity": (gravity, 1)})
        q, qd = _spread(q, batch), _spread(qd, batch)
        zero = np.broadcast_to(np.zeros(model.nv), (*batch, model.nv))
        qdd = zero if qdd is None else _spread(qdd, batch)
        tau = zero if tau is None else _spread(tau, batch)
        try:
            qdd, tau = self.engine(q, qd, qdd, tau, f_ext, gravity)
        except np.linalg.LinAlgError as error:
            raise SolutionError(f"no solution at this state: {error}") from None
        finite_solution(*{"inverse": (tau,), "forward": (qdd,), "hybrid": (qdd, tau)}[self.problem.kind])
        return qdd, tau


def _spread(array, batch):
    shape = (*batch, array.shape[-1])
    return array if array.shape == shape else np.broadcast_to(array, shape)


# The two calls below differ in the name of what is known alone: a shared one would make both a tenth slower.


class InverseDynamics(Solver):
    """tau = f(q, qd, qdd)."""

    def __call__(self, q, qd, qdd, f_ext=None, *, gravity=None, out=None):
        """tau (..., nv) in N m or N."""
        one = np.empty(self.model.nv) if out is None else out
        g = self._gravity if gravity is None else gravity
        if f_ext is None:
            declined = self._one_state(q, qd, qdd, g, one)
        else:
            declined = self._one_state_with_wrenches(q, qd, qdd, g, f_ext, one)
        if declined is None:
            return one
        return delivered(self._solve(q, qd, qdd, None, f_ext, gravity)[1], out)


class ForwardDynamics(Solver):
    """qdd = f(q, qd, tau)."""

    def __call__(self, q, qd, tau, f_ext=None, *, gravity=None, out=None):
        """qdd (..., nv) in rad/s^2 or m/s^2."""
        one = np.empty(self.model.nv) if out is None else out
        g = self._gravity if gravity is None else gravity
        if f_ext is None:
            declined = self._one_state(q, qd, tau, g, one)
        else:
            declined = self._one_state_with_wrenches(q, qd, tau, g, f_ext, one)
        if declined is None:
            return one
        return delivered(self._solve(q, qd, None, tau, f_ext, gravity)[0], out)


class HybridDynamics(Solver):
    """qdd, tau = f(q, qd, qdd, tau): of both, only what the Problem knows is read."""

    def __call__(self, q, qd, qdd, tau, f_ext=None, *, gravity=None):
        """qdd, tau (..., nv), complete."""
        forward = np.array(self.problem.forward)
        qdd = _known("qdd", qdd, ~forward, self.model)
        tau = _known("tau", tau, forward, self.model)
        return self._solve(q, qd, qdd, tau, f_ext, gravity)


def _known(name, value, known, model):
    """What is not known may be anything, NaN too: it is not read."""
    array = np.array(value, dtype=np.float64)
    if array.shape[-1:] == (model.nv,):
        array[..., ~known] = 0.0
    return array
