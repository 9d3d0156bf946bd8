"""Interned scalar expressions over a closed set of operations.

Constants are plain floats wherever they meet each other; an Expression always depends on an input.
The same operation on the same operands is the same node, so common subexpressions are shared as they arise.
"""

from enum import IntEnum

import numpy as np

TINY = 1e-15  # a constant below this is the rounding of a zero: cos(pi/2) is 6e-17


class Op(IntEnum):
    """The closed set. Operands are node numbers; a CONSTANT's is its value, an INPUT has none. SIN and COS
    may have a constant as second operand, which is added to the angle after its whole turns are taken off: a
    large angle would swallow the constant's digits."""

    INPUT = 0
    CONSTANT = 1
    ADD = 2
    SUB = 3
    MUL = 4
    RECIPROCAL = 5
    NEG = 6
    SIN = 7
    COS = 8


COMMUTATIVE = (Op.ADD, Op.MUL)
UNARY = (Op.RECIPROCAL, Op.NEG)
TURNING = (Op.SIN, Op.COS)
BINARY = (Op.ADD, Op.SUB, Op.MUL)


class Table:
    """All nodes of one trace, in the order they arose: an operand always comes before its use."""

    def __init__(self):
        self.nodes: list[tuple] = []
        self._number: dict[tuple, int] = {}

    def input(self) -> "Expression":
        """A new input."""
        self.nodes.append((Op.INPUT,))
        return Expression(self, len(self.nodes) - 1)

    def constant(self, value) -> int:
        """Number of a constant's node."""
        return self._intern((Op.CONSTANT, float(value)))

    def node(self, op, *operands) -> "Expression":
        """The expression of an operation on node numbers."""
        if op in COMMUTATIVE:
            operands = tuple(sorted(operands))
        return Expression(self, self._intern((op, *operands)))

    def _intern(self, node):
        number = self._number.get(node)
        if number is None:
            number = self._number[node] = len(self.nodes)
            self.nodes.append(node)
        return number


class Expression:
    """A node of a Table; it adds, multiplies and divides with its like and with numbers.

    It has no truth value and no float: a computation that asks for one depends on its input's value
    and is no straight-line program.
    """

    __slots__ = ("number", "table")

    def __init__(self, table, number):
        self.table, self.number = table, number

    @property
    def op(self):
        return self.table.nodes[self.number][0]

    def _operand(self, position=1):
        return Expression(self.table, self.table.nodes[self.number][position])

    def __add__(self, other):
        if not isinstance(other, Expression):
            if isinstance(other, np.ndarray):
                return NotImplemented  # NumPy goes through its entries
            return self if _is_zero(other) else self._with(Op.ADD, other)
        if other.op == Op.NEG:
            return self - other._operand()
        if self.op == Op.NEG:
            return other - self._operand()
        return self.table.node(Op.ADD, self.number, other.number)

    def __sub__(self, other):
        if not isinstance(other, Expression):
            return NotImplemented if isinstance(other, np.ndarray) else self + (-other)
        if self.number == other.number:
            return 0.0
        if other.op == Op.NEG:
            return self + other._operand()
        return self.table.node(Op.SUB, self.number, other.number)

    def __rsub__(self, other):
        if _is_zero(other):
            return -self
        if self.op == Op.NEG:
            return self._operand() + other
        return self.table.node(Op.SUB, self.table.constant(other), self.number)

    def __mul__(self, other):
        if not isinstance(other, Expression):
            return NotImplemented if isinstance(other, np.ndarray) else self._scaled(other)
        if self.op == Op.NEG:
            return -(self._operand() * other)
        if other.op == Op.NEG:
            return -(self * other._operand())
        return self.table.node(Op.MUL, self.number, other.number)

    def _scaled(self, factor):
        if _is_zero(factor):
            return 0.0
        if factor == 1:
            return self
        if factor == -1:
            return -self
        if self.op == Op.NEG:
            return self._operand()._scaled(-factor)
        if factor < 0:  # one product serves both signs
            return -self._scaled(-factor)
        return self._with(Op.MUL, factor)

    def __truediv__(self, other):
        if isinstance(other, Expression):
            return self * other.reciprocal()
        return NotImplemented if isinstance(other, np.ndarray) else self._scaled(1.0 / other)

    def __rtruediv__(self, other):
        return self.reciprocal() * other

    def __neg__(self):
        if self.op == Op.NEG:
            return self._operand()
        if self.op == Op.SUB:
            return self._operand(2) - self._operand(1) if not self._is_constant(1) else self._negated()
        return self._negated()

    def _negated(self):
        return self.table.node(Op.NEG, self.number)

    def _with(self, op, value):
        return self.table.node(op, self.number, self.table.constant(value))

    def reciprocal(self):
        """1 / self: one division, however many numerators share it."""
        if self.op == Op.RECIPROCAL:
            return self._operand()
        return self.table.node(Op.RECIPROCAL, self.number)

    def sin(self):
        return self._turning(Op.SIN)

    def cos(self):
        return self._turning(Op.COS)

    def _turning(self, op):
        """The operation on an angle, or on its two parts when one is constant."""
        constants = [k for k in (1, 2) if self.op in (Op.ADD, Op.SUB) and self._is_constant(k)]
        if not constants:
            return self.table.node(op, self.number)
        angle = self._operand(3 - constants[0])
        angle = -angle if self.op == Op.SUB else angle
        return self.table.node(op, angle.number, self._operand(constants[0]).number)

    def _is_constant(self, position):
        return self._operand(position).op == Op.CONSTANT

    def __float__(self):
        raise TypeError("an Expression has no value: the traced computation depends on the data")

    def __bool__(self):
        raise TypeError("an Expression has no truth value: the traced computation depends on the data")

    def __repr__(self):
        return f"<{self.op.name.lower()} {self.number}>"

    __radd__, __rmul__ = __add__, __mul__


def _is_zero(value):
    return -TINY < value < TINY
