"""The algorithms run on objects that support only + - * / sin cos."""

import math
from fractions import Fraction

import numpy as np
import pytest
from robots import ROBOTS, random_states
from tolerances import EXACT, error

import dynamics_node as dn
from dynamics_node.algorithms import aba, crba, rnea
from dynamics_node.graph import build_graph, eliminate, plan_ordering
from dynamics_node.symbolic import solve


class Symbol:
    """A number that hides its float: no comparison, no float(), no math function but sin and cos."""

    def __init__(self, value):
        self.value = value

    def _with(self, other, operation):
        value = other.value if isinstance(other, Symbol) else other
        return Symbol(operation(self.value, value))

    def __add__(self, other):
        return self._with(other, lambda a, b: a + b)

    def __sub__(self, other):
        return self._with(other, lambda a, b: a - b)

    def __rsub__(self, other):
        return self._with(other, lambda a, b: b - a)

    def __mul__(self, other):
        return self._with(other, lambda a, b: a * b)

    def __truediv__(self, other):
        return self._with(other, lambda a, b: a / b)

    def __rtruediv__(self, other):
        return self._with(other, lambda a, b: b / a)

    def __neg__(self):
        return Symbol(-self.value)

    def sin(self):
        return Symbol(math.sin(self.value))

    def cos(self):
        return Symbol(math.cos(self.value))

    def __float__(self):
        raise TypeError("a symbol has no value")

    __bool__ = __float__
    __radd__, __rmul__ = __add__, __mul__


symbols = np.vectorize(Symbol, otypes=[object])
values = np.vectorize(lambda x: x.value if isinstance(x, Symbol) else float(x), otypes=[float])


@pytest.fixture(params=["ur5", "solo12"])
def small(request):
    model = ROBOTS[request.param].model()
    q, qd, qdd, f_ext = (a[0] for a in random_states(model, 1, seed=3))
    return model, q, qd, qdd, f_ext


def test_recursions_on_symbols(small):
    model, q, qd, qdd, f_ext = small
    tau = rnea(model, q, qd, qdd, f_ext)
    traced = rnea(model, symbols(q), symbols(qd), symbols(qdd), symbols(f_ext))
    assert error(values(traced), tau) <= EXACT
    assert error(values(crba(model, symbols(q))), crba(model, q), tail=2) <= EXACT
    traced = aba(model, symbols(q), symbols(qd), symbols(tau), f_ext=symbols(f_ext))[0]
    assert error(values(traced), qdd) <= 1e-9


@pytest.mark.parametrize("ordering", ["aba", "colamd"])
def test_elimination_on_symbols(small, ordering):
    model, q, qd, qdd, f_ext = small
    tau = rnea(model, q, qd, qdd, f_ext)
    problem = dn.forward_dynamics(model)
    plan = plan_ordering(model, problem, ordering)[1]
    graph = build_graph(model, problem, *map(symbols, (q, qd, 0 * qdd, tau, f_ext)))
    for variable, value in eliminate(graph, plan).solve().items():
        if variable.kind == "qdd":
            expected = qdd[model.bodies[variable.body].joint.v]
            assert np.allclose(values(value), expected, rtol=1e-6, atol=1e-6)


def test_solve_on_fractions_is_exact():
    A = np.array([[2, 1, 0], [1, 3, 1], [0, 1, 4]]) * Fraction(1)
    x = np.array([[Fraction(1, 3)], [Fraction(2, 7)], [Fraction(-5)]])
    assert (solve(A, A @ x) == x).all()
