"""The C interface of CasADi's external functions, and derivatives by the names that CasADi looks up.

`F` stands for the name of a function: jac_F reads the inputs of F and out_<result>, and returns
jac_<result>_<input>, a matrix of as many rows and columns as both have entries; fwd1_F reads fwd_<input>,
too, and returns fwd_<result>; adj1_F reads adj_<result> and returns adj_<input>; its Jacobian jac_adj1_F has
the Hessians that a solver needs. Matrices are column-major, sparse ones in compressed columns; a NULL
input is zero, a NULL result is not wanted.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import NamedTuple

import numpy as np

from dynamics_node.codegen.export.entry import Entry, first_derivatives, with_health, without_zeros
from dynamics_node.codegen.export.source import body, strings
from dynamics_node.symbolic import Program, derivative_name, jacobian, pullback, pushforward
from dynamics_node.symbolic.program import HEALTH

HEAD = """/* CasADi's interface */
#ifndef casadi_int
#define casadi_int long long int
#endif
#ifndef casadi_real
#define casadi_real double
#endif
"""
_ONLY_DOUBLE = "typedef char casadi_real_must_be_double[sizeof(casadi_real) == sizeof(double) ? 1 : -1];"
_DECLARATIONS = """
int F(const casadi_real **arg, casadi_real **res, casadi_int *iw, casadi_real *w, int mem);
casadi_int F_n_in(void);
casadi_int F_n_out(void);
const char *F_name_in(casadi_int i);
const char *F_name_out(casadi_int i);
const casadi_int *F_sparsity_in(casadi_int i);
const casadi_int *F_sparsity_out(casadi_int i);
int F_work(casadi_int *sz_arg, casadi_int *sz_res, casadi_int *sz_iw, casadi_int *sz_w);
void F_incref(void);
void F_decref(void);
int F_alloc_mem(void);
int F_init_mem(int mem);
void F_free_mem(int mem);
int F_checkout(void);
void F_release(int mem);"""
_MEMORY = """void F_incref(void) {}
void F_decref(void) {}
int F_alloc_mem(void) { return 0; }
int F_init_mem(int mem) { (void)mem; return 0; }
void F_free_mem(int mem) { (void)mem; }
int F_checkout(void) { return 0; }
void F_release(int mem) { (void)mem; }
"""


@dataclass(frozen=True, eq=False)
class MatrixArgument:
    """An argument as a matrix.

    numbers (rows, columns): of an input the places of its entries in the array of the Program; of a result
    the value numbers of the Program, -1 for a zero.
    """

    name: str
    numbers: np.ndarray

    @property
    def columns(self):
        """The numbers, column by column."""
        return self.numbers.T.ravel()

    @property
    def entries(self):
        """The numbers that are not zero, in compressed columns."""
        return self.columns[self.columns >= 0]

    @cached_property
    def sparsity(self) -> list[int]:
        """As CasADi has it."""
        rows, columns = self.numbers.shape
        if (self.numbers >= 0).all():
            return [rows, columns, 1]
        there = (self.numbers >= 0).T
        ends = np.cumsum(there.sum(axis=1)).tolist()
        return [rows, columns, 0, *ends, *np.nonzero(there)[1].tolist()]


def casadi_name(entry: Entry) -> str:
    """Name of the function in CasADi."""
    return f"{entry.name}_casadi"


def names(entry: Entry) -> list[str]:
    """The functions of an Entry and of its derivatives."""
    name = casadi_name(entry)
    first = [f"jac_{name}", f"fwd1_{name}", f"adj1_{name}"] * (entry.order > 0)
    return [name, *first, *([f"jac_adj1_{name}"] * (entry.order > 1))]


def declarations(entry: Entry) -> list[str]:
    """Lines of the header."""
    return [HEAD, *(_DECLARATIONS.replace("F", name) for name in names(entry))]


def definitions(entry: Entry) -> list[str]:
    """Lines of the source."""
    largest = max(1, *(a.size for a in (*entry.inputs, *entry.outputs)))
    lines = [_ONLY_DOUBLE, f"static const casadi_real zeros[{largest}] = {{0}};", "", *_itself(entry)]
    if entry.order:
        lines += [line for derived in _derivatives(entry) for line in _text(entry, derived)]
    return lines


# Of an array with two or more axes, an input has its rows as columns, so that it is stored as it is in C. A
# result is turned over; of three axes the last two are its columns.


def as_input(name, numbers) -> MatrixArgument:
    """A MatrixArgument of the numbers of an array in the layout of inputs."""
    return MatrixArgument(name, numbers.reshape(-1, 1) if numbers.ndim < 2 else _matrix(numbers).T)


def as_result(name, numbers) -> MatrixArgument:
    """A MatrixArgument of the numbers of an array in the layout of results."""
    return MatrixArgument(name, _matrix(numbers))


def _matrix(numbers):
    rows = numbers.shape[0] if numbers.ndim else 1
    return numbers.reshape(rows, -1) if numbers.size else numbers.reshape(rows, 0)


def _places(shape):
    return np.arange(int(np.prod(shape, dtype=int))).reshape(shape)


# --- the function itself ------------------------------------------------------------------------------------


def _itself(entry):
    """Calls the plain function, and turns matrices over."""
    name, at, places, copies = casadi_name(entry), 0, [], []
    inputs = [as_input(a.name, _places(a.shape)) for a in entry.inputs]
    outputs = [as_result(a.name, _places(a.shape)) for a in entry.outputs]
    for k, block in enumerate(outputs):
        rows, columns = block.numbers.shape
        if min(rows, columns) <= 1:
            places.append(f"res[{k}] ? res[{k}] : w + {at}")
        else:
            places.append(f"w + {at}")
            copies += [
                f"  if (res[{k}]) {{",
                f"    for (int j = 0; j < {columns}; ++j)",
                f"      for (int i = 0; i < {rows}; ++i)",
                f"        res[{k}][{rows} * j + i] = w[{at} + {columns} * i + j];",
                "  }",
            ]
        at += block.numbers.size
    arguments = [f"arg[{k}] ? arg[{k}] : zeros" for k in range(len(inputs))] + places
    call = f"{entry.name}({', '.join(arguments)})"
    lines = [*(f"(void){unused};" for unused in ("iw", "w", "mem"))]
    lines.append(f"if ({call}) return 1;" if entry.can_fail else f"{call};")
    return [
        *_defined(name, lines, copies),
        *_about(name, inputs, outputs, at),
    ]


def _defined(name, body, more=()):
    """Lines of a function of CasADi's signature."""
    signature = (
        f"int {name}(const casadi_real **arg, casadi_real **res, casadi_int *iw, casadi_real *w, int mem)"
    )
    return [signature, "{", *(f"  {line}" for line in body), *more, "  return 0;", "}", ""]


def _about(name, inputs, outputs, work):
    """Lines of the functions that describe a function."""
    lines = [
        f"casadi_int {name}_n_in(void) {{ return {len(inputs)}; }}",
        f"casadi_int {name}_n_out(void) {{ return {len(outputs)}; }}",
        "",
    ]
    for side, blocks in (("in", inputs), ("out", outputs)):
        lines += strings(f"const char *{name}_name_{side}(casadi_int i)", [block.name for block in blocks])
        lines += _sparsities(f"const casadi_int *{name}_sparsity_{side}(casadi_int i)", blocks)
    return [
        *lines,
        f"int {name}_work(casadi_int *sz_arg, casadi_int *sz_res, casadi_int *sz_iw, casadi_int *sz_w)",
        "{",
        f"  if (sz_arg) *sz_arg = {len(inputs)};",
        f"  if (sz_res) *sz_res = {len(outputs)};",
        "  if (sz_iw) *sz_iw = 0;",
        f"  if (sz_w) *sz_w = {work};",
        "  return 0;",
        "}",
        "",
        _MEMORY.replace("F_", f"{name}_"),
    ]


def _sparsities(signature, blocks):
    lines = [signature, "{"]
    for k, block in enumerate(blocks):
        lines.append(f"  static const casadi_int s{k}[] = {{{', '.join(map(str, block.sparsity))}}};")
    lines.append("  switch (i) {")
    lines += [f"    case {k}: return s{k};" for k in range(len(blocks))]
    return [*lines, "    default: return 0;", "  }", "}", ""]


# --- derivatives --------------------------------------------------------------------------------------------


class Derived(NamedTuple):
    """A derivative: its inputs, of which a Program reads some, and results of its values."""

    name: str
    inputs: list[MatrixArgument]
    program: Program
    results: list[MatrixArgument]


def _text(entry, derived):
    """Lines of a Derived."""
    lines, given = [], {}
    blocks = {block.name: (k, block) for k, block in enumerate(derived.inputs)}
    for name in derived.program.inputs:
        k, block = blocks[name]
        lines.append(f"const casadi_real *const {name} = arg[{k}] ? arg[{k}] : zeros;")
        given[name] = [f"{name}[{n}]" for n in np.argsort(block.columns).tolist()]
    health = {HEALTH: derived.program.outputs[HEALTH]} if derived.program.limits else {}
    outputs = {f"result {k}": block.entries for k, block in enumerate(derived.results)}
    made = body(entry, derived.name, replace(derived.program, outputs=outputs | health), given)
    lines += [f"(void){unused};" for unused in ("iw", "w", "mem")]
    lines += made.lines
    for k, entries in enumerate(made.texts):
        if entries:
            lines += [
                f"if (res[{k}]) {{",
                *(f"  res[{k}][{n}] = {text};" for n, text in enumerate(entries)),
                "}",
            ]
    about = _about(derived.name, derived.inputs, derived.results, made.workspace)
    return [*made.before, *_defined(derived.name, lines), *about]


def _derivatives(entry) -> Iterator[Derived]:
    """The derivatives of an Entry."""
    name, program = casadi_name(entry), _renamed(entry)
    ins, outs = [a.name for a in entry.inputs], [a.name for a in entry.outputs]
    inputs = [as_input(a.name, _places(a.shape)) for a in entry.inputs]
    inputs += [as_result(f"out_{a.name}", _places(a.shape)) for a in entry.outputs]
    yield _first(entry, f"jac_{name}", program, inputs)
    forward = with_health(pushforward(program, outs, ins), program)
    directions = [as_input(f"fwd_{a.name}", _places(a.shape)) for a in entry.inputs]
    tangents = [as_result(n, forward.outputs[n]) for n in (f"fwd_{o}" for o in outs)]
    yield Derived(f"fwd1_{name}", [*inputs, *directions], forward, tangents)
    backward = with_health(pullback(program, outs, ins), program)
    weights = [as_result(f"adj_{a.name}", _places(a.shape)) for a in entry.outputs]
    gradients = [as_input(n, backward.outputs[n]) for n in (f"adj_{i}" for i in ins)]
    yield (adj := Derived(f"adj1_{name}", [*inputs, *weights], backward, gradients))
    if entry.order > 1:
        yield _differentiated(adj)


def _first(entry, name, program, inputs) -> Derived:
    """jac_F: by the Program of derivatives of the Entry if it has one, else by a differentiated one."""
    ins, outs = entry.inputs, entry.outputs
    first, names = first_derivatives(entry, program)
    results = []
    for o in outs:
        rows = as_result("", _places(o.shape)).columns
        for i in ins:
            columns = as_input("", _places(i.shape)).columns
            numbers = first.outputs[names[o.name, i.name]].reshape(o.size, i.size)[rows][:, columns]
            results.append(MatrixArgument(f"jac_{o.name}_{i.name}", without_zeros(first, numbers)))
    return Derived(name, inputs, first, results)


def _differentiated(derived) -> Derived:
    """The Jacobian of a Derived, by all its inputs."""
    program = derived.program
    health = {HEALTH: program.outputs[HEALTH]} if program.limits else {}
    program = replace(program, outputs={b.name: np.maximum(b.numbers, 0) for b in derived.results} | health)
    read = [b.name for b in derived.inputs if b.name in program.inputs]
    second = with_health(jacobian(program, [b.name for b in derived.results], read), program)
    results = []
    for block in derived.results:
        for argument in derived.inputs:
            numbers = np.full((block.numbers.size, argument.numbers.size), -1)
            if argument.name in read:
                there = second.outputs[derivative_name(block.name, argument.name)]
                there = np.moveaxis(there.reshape(*block.numbers.shape, -1), 0, 1).reshape(numbers.shape)
                constant = (block.columns < 0)[:, None]
                numbers = np.where(constant, -1, without_zeros(second, there[:, argument.columns]))
            results.append(MatrixArgument(f"jac_{block.name}_{argument.name}", numbers))
    inputs = [
        *derived.inputs,
        *(MatrixArgument(f"out_{b.name}", _stored(b.numbers)) for b in derived.results),
    ]
    return Derived(f"jac_{derived.name}", inputs, second, results)


def _stored(numbers):
    """Places of an input with the pattern of a result."""
    return np.where(numbers < 0, -1, 0)


def _renamed(entry):
    """The Program with the names of the results."""
    program = entry.program
    names = [name for name in program.outputs if not (program.limits and name == HEALTH)]
    named = dict(zip(names, (a.name for a in entry.outputs), strict=True))
    return replace(
        program, outputs={named.get(name, name): output for name, output in program.outputs.items()}
    )
