"""A LoopProgram -> C text of `run(x, y)`, as of render_straight.py.

Every step is a function of pointers to what its body has. What a sweep adds to a parent's array is summed
there, and so are the results of joints that share a coordinate, and health.
"""

from itertools import accumulate

from dynamics_node.codegen.c.render_straight import NUMBERS, VECTOR, table
from dynamics_node.codegen.printer.dialect import Values, plain
from dynamics_node.codegen.printer.loop_text import JOINTS, input_of_body
from dynamics_node.symbolic.fused import Operand
from dynamics_node.symbolic.loop_program import PARENT, RATES, only_summed

_NUMBERS = (*JOINTS, "angle")
_SUMMED = ("qdd", "tau", "health")


def render_loops(program):
    """The tables of a LoopProgram, its steps, and `run`."""
    count = len(program.parents)
    padded = -(-count // VECTOR) * VECTOR
    sweeps = list(enumerate(program.sweeps))
    return [
        *(table("int", f"{name}[]", getattr(program, name)) for name in ("parents", "kinds", "q_at", "v_at")),
        table("double", "multiplier[]", program.positions[:, 0]),
        table("double", f"offset[{padded + 1}] __attribute__((aligned(64)))", program.positions[:, 1]),
        table("double", "table[]", program.table),
        *(line for k, sweep in sweeps for kind, step in enumerate(sweep.steps)
          for line in _step(f"step{k}_{kind}", step)),
        "static void run(const number *restrict x, number *restrict y)",
        "{",
        *(f"  static _Thread_local vector {name}_memory[{padded} / LANES];" for name in _NUMBERS),
        *(f"  number *const {name} = (number *){name}_memory;" for name in _NUMBERS),
        *(f"  static _Thread_local number {name}[{count}][{size}];" for name, size in program.arrays.items()),
        *(f"  memset({name}, 0, sizeof {name});" for name in only_summed(program)),
        f"  memset(y, 0, {sum(numbers.size for numbers in program.outputs.values())} * sizeof(number));",
        f"  for (int i = 0; i < {count}; ++i) angle[i] = multiplier[i] * x[q_at[i]];",
        f"  for (int i = 0; i < {count}; ++i) position[i] = angle[i] + offset[i];",
        f"  sincos_all({padded} / LANES, angle_memory, (vector *)offset, sine_memory, cosine_memory);",
        *(line for k, sweep in sweeps for line in _loop(program, k, sweep)),
        "}",
    ]  # fmt: skip


def _loop(program, k, sweep):
    """One pass over the bodies."""
    count = len(program.parents)
    order = f"int i = {count - 1}; i >= 0; --i" if sweep.inward else f"int i = 0; i < {count}; ++i"
    lines = [
        f"  for ({order}) {{",
        "    const int p = parents[i] < 0 ? 0 : parents[i];",
        "    switch (kinds[i]) {",
    ]
    for kind, step in enumerate(sweep.steps):
        sources = [_source(program, name) for name in step.inputs]
        targets = [_target(program, name) for name in step.outputs]
        lines.append(f"    case {kind}: step{k}_{kind}({', '.join([*sources, *targets])}); break;")
    return [*lines, "    }", "  }"]


def _source(program, name):
    """Where body i, whose parent is p, reads something."""
    if name == "table":
        return f"table + {program.table.shape[1]} * i"
    if name in JOINTS:
        return f"{name} + i"
    if place := input_of_body(name, program.inputs):
        given, at = place
        start = dict(zip(program.inputs, accumulate(program.sizes(), initial=0), strict=False))[given]
        return f"x + {start}" + f" + {at}" * bool(at)
    return _left(name)


def _target(program, name):
    """Where body i, whose parent is p, writes something or adds to it."""
    if name in program.outputs:
        return f"y + {program.outputs[name][0]}" + (" + v_at[i]" if name in RATES else "")
    return _left(name)


def _left(name):
    """What sweeps leave at a body or its parent."""
    return f"{name.removeprefix(PARENT)}[{'p' if name.startswith(PARENT) else 'i'}]"


def _step(name, program):
    """A function of pointers to the inputs and outputs of a Program; results of several bodies are sums."""
    inputs = [f"const number *restrict in_{n}" for n in program.inputs]
    outputs = [f"number *restrict out_{n}" for n in program.outputs]
    given = [f"in_{n}[{k}]" for n, (size,) in program.inputs.items() for k in range(size)]
    values = Values(program, NUMBERS, given)
    lines = [f"  {NUMBERS.line(operation, values.text)}" for operation in plain(program)]
    for output, numbers in program.outputs.items():
        sign = "+=" if output in _SUMMED or output.startswith(PARENT) else "="
        texts = [values.text(Operand(n)) for n in numbers.tolist()]
        lines += [f"  out_{output}[{k}] {sign} {text};" for k, text in enumerate(texts)]
    return [f"static inline void {name}({', '.join([*inputs, *outputs])})", "{", *lines, "}"]
