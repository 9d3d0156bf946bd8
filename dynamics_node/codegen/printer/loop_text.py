"""What one thread computes of a LoopProgram: sweeps over the bodies, as text.

What sweeps leave at the bodies lies in global memory, which a thread keeps for one state after the other;
the same entry of neighboring threads lies side by side. Arrays that one sweep alone reads and writes share
slots, so that caches hold them.
"""

from collections.abc import Iterable, Iterator
from itertools import accumulate

import numpy as np

from dynamics_node.codegen.printer.dialect import Values
from dynamics_node.codegen.printer.kernel_arguments import Arrays, Variant
from dynamics_node.codegen.runner import limits_in
from dynamics_node.symbolic import LoopProgram, Program
from dynamics_node.symbolic.fused import fused
from dynamics_node.symbolic.loop_program import PARENT, RATES, only_summed
from dynamics_node.symbolic.program import HEALTH

JOINTS = ("position", "sine", "cosine")
_STANDS, _SLIDES, _TURNS = range(3)  # what is computed of a joint's coordinate before the sweeps
_OF_BODY = {"f_ext": 6, "inertia": 10}  # numbers of a body in an input


class Sweeps(Arrays):
    """A state is bad when an angle is beyond what sine and cosine can do, a quaternion is not of unit length,
    health is beyond its limits, or an input or output is not finite; all its outputs are then NaN.

    size: numbers that a thread keeps. Value n of a step is t{n} in the text.
    """

    def __init__(self, program: LoopProgram, variant: Variant, same: frozenset, quaternions: tuple):
        super().__init__(program, variant._replace(shared_memory=0), same, quaternions)
        self._of_step = self.dialect._replace(name="t")
        self.program, self._count = program, len(program.parents)
        self._slots, self._passing = slots(program.parents), passing(program)
        self._summed = only_summed(program)
        kept = dict.fromkeys(JOINTS, 1) | program.arrays
        ends = [0, *accumulate(size * self._places(name) for name, size in kept.items())]
        self._kept = {name: (start, kept[name]) for name, start in zip(kept, ends, strict=False)}
        self.size = ends[-1]
        self._shared = len(set(program.v_at.tolist())) < self._count  # joints share coordinates: sums

    # --- constants ------------------------------------------------------------------------------------------

    def tables(self, lines: Iterable[str]) -> Iterator[str]:
        """Lines before the kernel: what its lines read."""
        program, text = self.program, "\n".join(lines)
        last, bodies = last_children(program.parents), np.arange(self._count)
        integers = {name: getattr(program, name) for name in ("parents", "kinds", "q_at", "v_at")}
        integers |= {"joints": self._joints(), "slots": self._slots, "is_tip": last == bodies}
        integers["begins"] = last[program.parents] == bodies  # the sum of its parent, in a sweep inward
        for name, numbers in integers.items():
            if f"{name}[" in text:
                yield _table("int", name, (str(int(number)) for number in numbers))
        reals = {"multiplier": program.positions[:, 0], "offset": program.positions[:, 1]}
        for name, array in (reals | {"numbers": program.table.ravel()}).items():
            if f"{name}[" in text:
                yield _table("real", name, (self.dialect.literal(value) for value in array.tolist()))

    def _joints(self):
        """Of every body one of _STANDS, _SLIDES, _TURNS."""
        of_kind = [_STANDS] * len(self.program.sweeps[0].steps)
        for sweep in self.program.sweeps:
            for kind, step in enumerate(sweep.steps):
                read = inputs_read(step)
                needed = _TURNS if read & {"sine", "cosine"} else _SLIDES if "position" in read else _STANDS
                of_kind[kind] = max(of_kind[kind], needed)
        return [of_kind[kind] for kind in self.program.kinds.tolist()]

    # --- a state --------------------------------------------------------------------------------------------

    def lines(self) -> Iterator[str]:
        """All lines of a state, in order."""
        yield "int bad = 0;"
        yield from self._looked_at()
        if self.program.limits:
            yield "real health = 0;"
        for (kind, _), place in self.places.items():
            if kind == "output" and self._shared:
                yield f"ROLLED for (int k = 0; k < {place.size}; ++k) {place.entry('k')} = 0;"
        yield from self._positions()
        for sweep in self.program.sweeps:
            yield from self._sweep(sweep)
        for limit in limits_in(self.program, self.variant.dtype):
            yield f"bad |= !(health <= {self.dialect.literal(limit)});"
        yield from self.no_results()

    def _looked_at(self):
        """All inputs, and quaternions among them."""
        for (kind, _), place in self.places.items():
            if kind == "input":
                watched = f"bad |= EXCEEDS({place.entry('k')}, MOST);"
                yield f"ROLLED for (int k = 0; k < {place.size}; ++k) {watched}"
        for number in self.quaternions:
            name, k = self.owner[number]
            yield self.no_unit(*(self._entry(name, k + part) for part in range(4)))

    def _positions(self):
        yield f"ROLLED for (int i = 0; i < {self._count}; ++i) if (joints[i] != {_STANDS}) {{"
        yield f"  const real angle = MUL(multiplier[i], {self._entry('q', 'q_at[i]')});"
        yield f"  {self._own('position', 'i', 0)} = angle + offset[i];"
        yield f"  if (joints[i] == {_TURNS}) {{"
        yield "    real sine, cosine;"
        yield "    bad |= EXCEEDS(angle, LARGE);"
        yield "    sincos_of_sum(angle, offset[i], &sine, &cosine);"
        yield f"    {self._own('sine', 'i', 0)} = sine;"
        yield f"    {self._own('cosine', 'i', 0)} = cosine;"
        yield "  }"
        yield "}"

    def _sweep(self, sweep):
        """One pass over the bodies."""
        last = self._count - 1
        order = f"int i = {last}; i >= 0; --i" if sweep.inward else f"int i = 0; i <= {last}; ++i"
        yield f"ROLLED for ({order}) {{"
        yield "  const int parent = parents[i] < 0 ? 0 : parents[i];"
        for kind, step in enumerate(sweep.steps):
            yield f"  {'else ' * (kind > 0)}if (kinds[i] == {kind}) {{"
            yield from (f"    {line}" for line in self._step(step))
            yield "  }"
        yield "}"

    def _step(self, step: Program):
        """What it does at body i; its results are written when all is read."""
        owner = [(name, k) for name, (size,) in step.inputs.items() for k in range(size)]
        values = Values(step, self._of_step, [self._of_step.local(k) for k in range(len(owner))])
        code, known = fused(step), set()

        def read(operands):
            for value in (operand.value for operand in operands):
                if value < len(owner) and value not in known:
                    known.add(value)
                    yield f"const real t{value} = {self._source(*owner[value])};"

        for operation in code.operations:
            yield from read(operation.operands)
            yield self._of_step.line(operation, values.text)
        for operands in code.outputs.values():
            yield from read(operands)
        for name, operands in code.outputs.items():
            for k, operand in enumerate(operands):
                yield from self._written(name, k, values.text(operand))

    def _written(self, name, k, text):
        if name == HEALTH:
            yield f"health = health + {text};"
        elif ("output", name) in self.places:
            entry = self.places["output", name].entry(f"(v_at[i] + {k})")
            yield f"{entry} = {f'{entry} + ' * self._shared}{text};"
            yield f"bad |= EXCEEDS({entry}, MOST);"
        else:
            entry, array = self._left(name, k), name.removeprefix(PARENT)
            before = f"(begins[i] ? 0 : {entry})" if array in self._summed else entry
            yield f"{entry} = {f'{before} + ' * (array != name)}{text};"

    # --- where things are -----------------------------------------------------------------------------------

    def _source(self, name, k):
        """Where body i reads entry k of something."""
        if name == "table":
            return f"numbers[i * {self.program.table.shape[1]} + {k}]"
        if place := input_of_body(name, self.program.inputs):
            given, at = place
            return self._entry(given, f"({at} + {k})" if at else k)
        return f"is_tip[i] ? 0 : {self._left(name, k)}" if name in self._summed else self._left(name, k)

    def _left(self, name, k):
        """What sweeps leave at body i, or at its parent."""
        return self._own(name.removeprefix(PARENT), "parent" if name.startswith(PARENT) else "i", k)

    def _own(self, name, body, k):
        start, size = self._kept[name]
        place = f"slots[{body}]" if name in self._passing else body
        return f"own[({start + k} + {size} * {place}) * WIDTH]"

    def _places(self, name):
        """How many of an array there are."""
        return int(self._slots.max()) + 1 if name in self._passing else self._count

    def _entry(self, name, k):
        """Entry k, a number or text, of an input."""
        if name not in self.same:
            return self.places["input", name].entry(k)
        return f"v{self.first[name] + k}" if isinstance(k, int) else f"{self.pointer[name]}[{k}]"


def _table(kind, name, numbers):
    return f"TABLE {kind} {name}[] = {{{', '.join(numbers)}}};"


def input_of_body(name: str, inputs: Iterable[str]) -> tuple[str, str] | None:
    """(input, text of where its numbers begin at body i) that a step reads by a name, if it is an input."""
    if name == "pose":
        return "q", "q_at[i]"
    if name in _OF_BODY:
        return name, f"{_OF_BODY[name]} * i"
    return (name, "v_at[i]" if name in RATES else "") if name in inputs else None


def last_children(parents: np.ndarray) -> np.ndarray:
    """(n,) Of every body the last one that hangs on it, itself where there is none."""
    last = np.arange(len(parents))
    last[parents[parents >= 0]] = np.flatnonzero(parents >= 0)  # of several the last one is kept
    return last


def slots(parents: np.ndarray) -> np.ndarray:
    """(n,) A slot for every body, its own from its turn to that of its last child, in either direction."""
    last, own, free_from = last_children(parents), [], [0]
    for body in range(len(parents)):
        slot = next((k for k, free in enumerate(free_from) if free <= body), len(free_from))
        free_from[slot:] = [int(last[body]) + 1, *free_from[slot + 1 :]]
        own.append(slot)
    return np.array(own)


def passing(program: LoopProgram) -> set[str]:
    """Arrays that one sweep alone reads and writes."""
    used = [{name for step in sweep.steps for name in _arrays(step)} for sweep in program.sweeps]
    return {name for name in program.arrays if sum(name in names for names in used) <= 1}


def inputs_read(step: Program) -> set[str]:
    """Names of the inputs that a step needs."""
    owner = [name for name, (size,) in step.inputs.items() for _ in range(size)]
    results = [numbers.ravel() for numbers in step.outputs.values()]
    used = np.unique(np.concatenate([step.left, step.right, *results]))
    return {owner[n] for n in used.tolist() if 0 <= n < len(owner)}


def _arrays(step):
    return {name.removeprefix(PARENT) for name in (*inputs_read(step), *step.outputs)}
