"""Interned scalar expressions over a closed set of operations.

Constants are plain floats wherever they meet each other; an Expression always depends on an input.
The same operation on the same operands is the same node, so common subexpressions are shared as they arise.
"""

from enum import IntEnum
from typing import Any

import numpy as np

QUARTER, ROUNDING = np.pi / 2, 1e-15  # of a turn, rad


class Op(IntEnum):
    """The closed set of operations. Operands are node numbers; a CONSTANT's is its value, an INPUT has none.

    SIN and COS may have a constant as second operand. It is added to the angle after whole turns are removed:
    a large angle would swallow the constant's digits.
    """

    INPUT = 0
    CONSTANT = 1
    ADD = 2
    SUB = 3
    MUL = 4
    RECIPROCAL = 5
    NEG = 6
    SIN = 7
    COS = 8


UNARY = (Op.RECIPROCAL, Op.NEG)
TURNING = (Op.SIN, Op.COS)
BINARY = (Op.ADD, Op.SUB, Op.MUL)
# members of an Enum are slow to compare and to look up
_INPUT, _CONSTANT, _ADD, _SUB, _MUL, _RECIPROCAL, _NEG, _SIN, _COS = (op.value for op in Op)


class Tape:
    """All nodes of one trace, in order of creation: an operand always comes before its use."""

    def __init__(self):
        self.nodes: list[Expression] = []
        self._constants: dict[float, Expression] = {}
        self._operations: list[dict[Any, Expression]] = [{} for _ in Op]

    def input(self) -> "Expression":
        """A new input."""
        return Expression(self, _INPUT)

    def constant(self, value) -> "Expression":
        """A constant's node, with its value as left operand."""
        value = float(value)
        node = self._constants.get(value)
        if node is None:
            node = self._constants[value] = Expression(self, _CONSTANT, value)
        return node

    def unary(self, op, operand) -> "Expression":
        """The expression of an operation on one node."""
        known, number = self._operations[op], operand.number
        node = known.get(number)
        if node is None:
            node = known[number] = Expression(self, op, operand)
        return node

    def binary(self, op, left, right) -> "Expression":
        """The expression of an operation on two nodes."""
        known, key = self._operations[op], (left.number, right.number)
        node = known.get(key)
        if node is None:
            node = known[key] = Expression(self, op, left, right)
        return node

    def commuting(self, op, one, other) -> "Expression":
        """The expression of a commutative operation; the older node becomes the left operand."""
        return self.binary(op, one, other) if one.number < other.number else self.binary(op, other, one)

    def difference(self, one, other) -> "Expression":
        """One expression minus another, as a negation if the table has the opposite: no value is computed
        with both signs, for products and sums take operands of any sign."""
        opposite = self._operations[_SUB].get((other.number, one.number))
        return self.binary(_SUB, one, other) if opposite is None else -opposite

    def clear(self):
        """Drop all nodes: they refer to their Tape, so their memory is freed at once."""
        self.nodes, self._constants, self._operations = [], {}, [{} for _ in Op]


class Expression:
    """A node of a Tape. It adds, multiplies and divides with Expressions and numbers.

    It has no truth value and no float value: a computation that needs one depends on the value of its input
    and is no straight-line program.
    """

    __slots__ = ("left", "number", "op", "right", "table")

    def __init__(self, table, op, left=None, right=None):
        self.table, self.op, self.left, self.right = table, op, left, right
        self.number = len(table.nodes)
        table.nodes.append(self)

    def __add__(self, other):
        if not isinstance(other, Expression):
            if isinstance(other, np.ndarray):
                return NotImplemented  # NumPy iterates over its entries
            if other == 0:
                return self
            return other - self.left if self.op == _NEG else self._with(_ADD, other)
        if self.op == _NEG:
            return other - self.left
        if other.op == _NEG:
            return self - other.left
        return self.table.commuting(_ADD, self, other)

    def __sub__(self, other):
        if not isinstance(other, Expression):
            return NotImplemented if isinstance(other, np.ndarray) else self + (-other)
        if self is other:
            return 0.0
        if other.op == _NEG:
            return self + other.left
        if self.op == _NEG:
            return -(self.left + other)
        return self.table.difference(self, other)

    def __rsub__(self, other):
        if other == 0:
            return -self
        if self.op == _NEG:
            return self.left + other
        return self.table.binary(_SUB, self.table.constant(other), self)

    def __mul__(self, other):
        if not isinstance(other, Expression):
            return NotImplemented if isinstance(other, np.ndarray) else self._scaled(other)
        if self.op == _NEG:
            return -(self.left * other)
        if other.op == _NEG:
            return -(self * other.left)
        return self.table.commuting(_MUL, self, other)

    def _scaled(self, factor):
        if factor == 0:
            return 0.0
        if factor == 1:
            return self
        if factor == -1:
            return -self
        if self.op == _NEG:
            return self.left._scaled(-factor)
        if factor < 0:  # one product serves both signs
            return -self._with(_MUL, -factor)
        return self._with(_MUL, factor)

    def __truediv__(self, other):
        if isinstance(other, Expression):
            return self * other.reciprocal()
        return NotImplemented if isinstance(other, np.ndarray) else self._scaled(1.0 / other)

    def __rtruediv__(self, other):
        return self.reciprocal() * other

    def __neg__(self):
        if self.op == _NEG:
            return self.left
        return self.table.unary(_NEG, self)

    def _with(self, op, value):
        return self.table.commuting(op, self, self.table.constant(value))

    def reciprocal(self):
        """1 / self: one division, shared by all numerators."""
        if self.op == _NEG:
            return -self.left.reciprocal()
        return self.left if self.op == _RECIPROCAL else self.table.unary(_RECIPROCAL, self)

    def sin(self):
        return self._turning(_SIN)

    def cos(self):
        return self._turning(_COS)

    def _turning(self, op):
        """The operation on an angle, or on its two parts when one is constant. Whole quarter turns and the
        sign of the angle only change the operation and its sign."""
        angle, constant, negative = self._angle()
        turns = np.rint(constant / QUARTER)
        whole = abs(constant - turns * QUARTER) <= ROUNDING
        quarters, constant = (int(turns), 0.0) if whole else (0, constant)
        quarters += op == _COS
        kind = _COS if quarters % 2 else _SIN
        turned = (
            self.table.binary(kind, angle, self.table.constant(constant))
            if constant
            else self.table.unary(kind, angle)
        )
        return -turned if (quarters % 4 >= 2) != (negative and op == _SIN) else turned

    def _angle(self):
        """(expression, constant, negative): their sum, or its negative, is this angle."""
        if self.op == _NEG:
            angle, constant, negative = self.left._angle()
            return angle, constant, not negative
        if self.op == _SUB and self.left.op == _CONSTANT:
            return self.right, -self.left.left, True
        if self.op == _ADD and _CONSTANT in (self.left.op, self.right.op):
            angle, constant = sorted((self.left, self.right), key=lambda node: node.op == _CONSTANT)
            return angle, constant.left, False
        return self, 0.0, False

    def __float__(self):
        raise TypeError("an Expression has no value: the traced computation depends on the data")

    def __bool__(self):
        raise TypeError("an Expression has no truth value: the traced computation depends on the data")

    def __repr__(self):
        return f"<{Op(self.op).name.lower()} {self.number}>"

    __radd__, __rmul__ = __add__, __mul__
