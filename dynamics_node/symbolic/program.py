"""Program: named inputs and outputs, and scalar operations in order. Tracing makes one from a function."""

import hashlib
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from dynamics_node.display import titled
from dynamics_node.errors import ProgramError
from dynamics_node.symbolic.expression import BINARY, TURNING, UNARY, Expression, Op, Tape

FORMAT = 3
HEALTH = "health"
_ARRAYS = ("constants", "ops", "left", "right")


@dataclass(frozen=True, eq=False, repr=False)
class Program:
    """Values 0, 1, ... in order: the scalars of the inputs, the constants, then one for every operation.

    inputs: {name: shape}; constants (c,); ops, left, right (n,): Op and value numbers (right is -1 if there
    is one operand); outputs: {name: array of value numbers}.

    limits: of the entries of the last output, `health` (len(limits),), of a Program that can fail. If an
    entry exceeds its limit or is NaN, the other outputs are invalid. Empty for a Program that cannot fail.
    """

    inputs: dict[str, tuple[int, ...]]
    constants: np.ndarray
    ops: np.ndarray
    left: np.ndarray
    right: np.ndarray
    outputs: dict[str, np.ndarray]
    limits: tuple[float, ...] = ()

    def __post_init__(self):
        _validate(self)

    def __repr__(self):
        outputs = {name: numbers.shape for name, numbers in self.outputs.items()}
        return titled(
            f"Program: {self.length} operations, {len(self.constants)} constants",
            inputs=[f"{name} {shape}" for name, shape in self.inputs.items()],
            outputs=[f"{name} {shape}" for name, shape in outputs.items()],
            limits=self.limits or None,
        )

    @cached_property
    def input_size(self):
        return sum(int(np.prod(shape)) for shape in self.inputs.values())

    @cached_property
    def first_operation(self):
        """Number of the first operation's value."""
        return self.input_size + len(self.constants)

    @property
    def length(self):
        """Operations in the text."""
        return len(self.ops)

    def op_count(self):
        """{'add', 'mul', 'div', 'neg', 'sin', 'cos'}: number of operations. A subtraction is an addition, and
        so is the constant next to an angle."""
        counts = Counter(Op(op).name for op in self.ops)
        columns = zip(self.ops.tolist(), self.left.tolist(), self.right.tolist(), strict=True)
        sums = {(a, b) for op, a, b in columns if op in TURNING and b >= 0}
        return {
            "add": counts["ADD"] + counts["SUB"] + len(sums),
            "mul": counts["MUL"],
            "div": counts["RECIPROCAL"],
            "neg": counts["NEG"],
            "sin": counts["SIN"],
            "cos": counts["COS"],
        }

    def digest(self):
        """Hash of the complete program."""
        parts = hashlib.sha256(repr((FORMAT, self.inputs, self.limits)).encode())
        for name in _ARRAYS:
            parts.update(np.ascontiguousarray(getattr(self, name)).tobytes())
        for name, numbers in self.outputs.items():
            parts.update(repr((name, numbers.shape)).encode() + np.ascontiguousarray(numbers).tobytes())
        return parts.hexdigest()

    def depth(self):
        """Length of the longest chain of dependent operations."""
        return max(self.depths(), default=0)

    def depths(self) -> list[int]:
        """For every value, the length of the longest chain of operations that ends with it."""
        depth = [0] * self.first_operation
        for a, b in zip(self.left.tolist(), self.right.tolist(), strict=True):
            depth.append(1 + max(depth[a], depth[b] if b >= 0 else 0))
        return depth

    def save(self, path):
        """Write to a .npz file."""
        arrays: dict[str, Any] = {f"output {name}": numbers for name, numbers in self.outputs.items()}
        arrays |= {f"input {name}": np.array(shape, dtype=int) for name, shape in self.inputs.items()}
        arrays |= {name: getattr(self, name) for name in _ARRAYS}
        np.savez_compressed(path, format=FORMAT, limits=np.array(self.limits), **arrays)

    @classmethod
    def load(cls, path):
        """Read and check a file of `save`. Raises ProgramError."""
        try:
            with np.load(path, allow_pickle=False) as file:
                if file["format"] != FORMAT:
                    raise ProgramError(f"{path}: format {file['format']} is of another version")
                inputs = {k[6:]: tuple(map(int, file[k])) for k in file.files if k.startswith("input ")}
                outputs = {k[7:]: file[k] for k in file.files if k.startswith("output ")}
                limits = tuple(map(float, file["limits"]))
                arrays = {name: file[name] for name in _ARRAYS}
                return cls(inputs=inputs, outputs=outputs, limits=limits, **arrays)
        except (KeyError, OSError, ValueError) as error:
            raise ProgramError(f"{path} contains no Program: {error}") from None


def _validate(program):
    """Check the closed op set, the order of operands and finite constants."""
    first = program.first_operation
    count = len(program.ops)
    if not (len(program.left) == len(program.right) == count):
        raise ProgramError("ops and operands differ in number")
    if not np.isfinite(program.constants).all():
        raise ProgramError("a constant is not finite")
    binary = np.isin(program.ops, BINARY)
    turning = np.isin(program.ops, TURNING)
    if not np.all(binary | turning | np.isin(program.ops, UNARY)):
        raise ProgramError("an operation is not in the set")
    numbers = first + np.arange(count)
    if not (np.all(program.left >= 0) and np.all(program.left < numbers)):
        raise ProgramError("an operand is used before it is computed")
    alone = program.right == -1
    if not np.all(np.where(binary, (program.right >= 0) & (program.right < numbers), turning | alone)):
        raise ProgramError("an operand is used before it is computed, or a unary operation has two")
    constant = (program.right >= program.input_size) & (program.right < first)
    if not np.all(constant | alone | ~turning):
        raise ProgramError("the second operand of a sine or cosine is no constant")
    for name, numbers in program.outputs.items():
        if np.any(numbers < 0) or np.any(numbers >= first + count):
            raise ProgramError(f"output {name!r} is no value of the program")
    require_health(program)


def require_health(program):
    """Raise ProgramError unless the limits belong to the last output, `health`."""
    last = next(reversed(program.outputs), None)
    if program.limits and (last != HEALTH or program.outputs[last].shape != (len(program.limits),)):
        raise ProgramError(f"{len(program.limits)} limits need a last output {HEALTH!r} of as many entries")


_INPUT, _CONSTANT = _LEAVES = (Op.INPUT.value, Op.CONSTANT.value)
_SUB, _NEG = Op.SUB.value, Op.NEG.value


def trace(
    function: Callable[..., Mapping[str, Any]],
    inputs: Mapping[str, tuple[int, ...]],
    limits: Iterable[float] = (),
) -> Program:
    """Record the operations of a function of arrays as a Program.

    Parameters
    ----------
    function : callable
        Function of arrays by keyword, which returns a dictionary of arrays. It may use the operations of
        object arrays: + - * /, sin, cos, matrix products, indexing.
    inputs : mapping of str to tuple of int
        Shapes of its arguments.
    limits : iterable of float
        Limits of the entries of the last result, `health`, if it has one. If an entry exceeds its limit or is
        NaN, the other results are invalid.

    Returns
    -------
    Program
        Its operations in order, without those that no result depends on. `compile` makes a Function of it.

    Raises
    ------
    TypeError
        If the function needs the value of an argument, for example in a condition.

    Examples
    --------
    >>> pendulum = dn.trace(lambda angle: {"torque": 9.81 * np.sin(angle)}, {"angle": ()})
    >>> pendulum.op_count()
    {'add': 0, 'mul': 1, 'div': 0, 'neg': 0, 'sin': 1, 'cos': 0}
    >>> torque = dn.compile(pendulum, backend="numpy")
    >>> torque([0.0, np.pi / 6, np.pi / 2]).round(3)
    array([0.   , 4.905, 9.81 ])
    """
    table = Tape()
    arrays = {name: _input_array(table, shape) for name, shape in inputs.items()}
    results = {name: np.asarray(value, dtype=object) for name, value in function(**arrays).items()}
    return program_of(table, dict(inputs), results, limits)


def _input_array(table, shape):
    array = np.empty(shape, dtype=object)
    for place in np.ndindex(*shape):
        array[place] = table.input()
    return array


def program_of(table, inputs, results, limits=()) -> Program:
    """The Program for results {name: array of Expressions and numbers} of a Tape whose inputs are {name:
    shape} in order. The Tape is cleared."""
    wanted = {name: [_node(table, x) for x in array.flat] for name, array in results.items()}
    live = _live(table, wanted.values())
    inputs_first = [node for node in table.nodes if node.op == _INPUT]
    constants = [node for node in live if node.op == _CONSTANT]
    operations = _operations(live, wanted.values())
    number = [-1] * len(table.nodes)
    for new, node in enumerate([*inputs_first, *constants, *(node for node, *_ in operations)]):
        number[node.number] = new
    program = Program(
        inputs,
        np.array([node.left for node in constants], dtype=float),
        np.array([op for _, op, _, _ in operations], dtype=np.int64),
        np.array([number[left.number] for _, _, left, _ in operations], dtype=np.int64),
        np.array([-1 if right is None else number[right.number] for *_, right in operations], dtype=np.int64),
        {
            name: np.array([number[node.number] for node in wanted[name]], dtype=np.int64).reshape(r.shape)
            for name, r in results.items()
        },
        tuple(map(float, limits)),
    )
    table.clear()
    return program


def _operations(live, wanted):
    """(node, op, left, right) of all operations. The negative of a difference that nothing else uses is the
    opposite difference."""
    operations = [node for node in live if node.op not in _LEAVES]
    negatives = [node for node in operations if node.op == _NEG and node.left.op == _SUB]
    opposite: set[Expression] = set()
    if negatives:
        uses = Counter(node.number for nodes in wanted for node in nodes)
        uses.update(node.left.number for node in operations)
        uses.update(node.right.number for node in operations if node.right is not None)
        opposite = {node.left for node in negatives if uses[node.left.number] == 1}
    return [
        (node, _SUB, node.left.right, node.left.left)
        if node.op == _NEG and node.left in opposite
        else (node, node.op, node.left, node.right)
        for node in operations
        if node not in opposite
    ]


def _node(table, value):
    return value if isinstance(value, Expression) else table.constant(value)


def _live(table, wanted):
    """The nodes that an output depends on, in order."""
    needed = bytearray(len(table.nodes))
    for nodes in wanted:
        for node in nodes:
            needed[node.number] = True
    for node in reversed(table.nodes):
        if needed[node.number] and node.op not in _LEAVES:
            needed[node.left.number] = True
            if node.right is not None:
                needed[node.right.number] = True
    return [node for node in table.nodes if needed[node.number]]
