"""The smallest contact forces within cones and bounds, compiled: a smoothing Newton method, a vector of
states at a time, several threads.

The program of algorithms/contact_qp.py is: least x^T H x / 2 + f^T x with E x = e, and s = h - G x in K,
friction cones and half lines. At its solution there are multipliers z in K with s^T z = 0. One unknown u = s
- z stands for both: on its eigenvalues, s and z are (sqrt(u^2 + 4 mu) +- u) / 2. So both are always in K,
and their product is mu. Newton's method on the rest, the gradient and two linear equations, takes whole
steps; mu falls with the square of what these miss, to 1e-24. A step is one factorization of H and the
weighted rows of G, without the entries that are zero between limbs.

Whole steps may fail to converge. So a result is one that meets all conditions of optimality, of which K and
mu leave the gradient and the equations to be checked, relative to the largest cost and force.

Fukushima, Luo and Tseng, Smoothing functions for second-order-cone complementarity problems, 2002.
"""

import numpy as np

from dynamics_node.codegen.c.batch_kernel import width_flags
from dynamics_node.codegen.c.compiler import compile_library
from dynamics_node.codegen.c.library import Loaded, builtin_function, trust_arrays
from dynamics_node.codegen.c.render import renderer
from dynamics_node.codegen.c.render_straight import before_run, table, text_of
from dynamics_node.codegen.c.threads import in_parts, threads_worth

NUMBERS = {
    "MOST_TURNS": 25,  # 12 are usual
    "FIRST_MU": 1e-2,
    "SMALL_MU": 1e-22,
    "LEAST_MU": 1e-24,
    "TOLERANCE": 1e-10,  # of the conditions of optimality
    "DAMPING": 1e-13,  # of equations that depend on each other, relative to the trace of their matrix
    "SHARE": 1e-11,  # of z in the weight of s, which is 1 / SHARE at the most
}
GIVEN = ("TAU", "COST", "SLOPE", "MATRIX", "LOWER", "UPPER", "ACTIVE")  # the arguments of a call
ROW = ("equation", "begin", "end", "low", "high", "bound", "contact")


class ConeKernel(Loaded):
    """kernel(count, tau0, H, f, A, lower, upper, active) -> x (count, n), of the results of
    `contact_qp_program` and the active contacts. x is NaN where no solution was found. Arrays are (count,
    *shape) or of one state.

    program: of `contact_qp_program`, whose zeros count; variables: ForceVariables; driven (nv,) bool; efforts
    (nv,): infinite where there is none.
    """

    PER_PROCESS = ("_solve",)

    def __init__(self, program, variables, driven, efforts):
        self._tables, self._numbers = _tables(program, variables, driven, efforts)
        super().__init__(program)

    def _compile(self):
        tables = {name: np.asarray(array).tolist() for name, array in self._tables.items()}
        identity = f"cones {renderer()} {tables} {self._numbers}"
        return compile_library(identity, self._text, ("-O2", *width_flags()))

    def _text(self):
        size = self._numbers
        n, bounds = size["N"], size["BOUNDS"]
        shapes = [(size["TORQUES"],), (n, n), (n,), (size["EQUATIONS"], n), (bounds,), (bounds,)]
        shapes += [(size["CONTACTS"],), (n,)]
        rows = ", ".join(f"{{{len(shape)}, {', '.join(map(str, shape))}}}" for shape in shapes)
        return "\n".join(
            [
                *before_run(),
                text_of("lanes.c"),
                *(f"#define {name} {value}" for name, value in size.items()),
                f"enum {{ {', '.join(GIVEN)}, GIVEN, MOST_AXES = 2 }};",
                *(
                    table("double" if name == "cone_friction" else "int", f"{name}[]", array)
                    for name, array in self._tables.items()
                ),
                f"static const __PTRDIFF_TYPE__ shape[GIVEN + 1][MOST_AXES + 1] = {{{rows}}};",
                text_of("arrays.c"),
                text_of("cone_program.c"),
            ]
        )

    def _open(self, library):
        trust_arrays(library, np.float64)
        self._solve = builtin_function(library, "cones_definition")

    def __call__(self, count, *arrays):
        n = self._numbers["N"]
        x, threads = np.empty((count, n)), threads_worth(count * NUMBERS["MOST_TURNS"] * n**3)
        if threads == 1:
            self._solved(count, *arrays, x)
            return x
        shapes = [*(numbers.ndim for numbers in self.program.outputs.values())][: len(GIVEN) - 1]
        every = [a.ndim > ndim for a, ndim in zip(arrays, (*shapes, 1), strict=True)]

        def solve(start, stop):
            parts = [a[start:stop] if each else a for a, each in zip(arrays, every, strict=True)]
            return self._solved(stop - start, *parts, x[start:stop])

        in_parts(count, threads, solve)
        return x

    def _solved(self, *arguments):
        if not self._solve(*arguments):
            raise RuntimeError("compiled code refuses arrays that were made for it")  # a defect of ours
        return True


def _tables(program, v, driven, efforts):
    """{name: array} and {name: number} of the C text. Variables are in the order of their contacts there."""
    order = np.argsort(v.contact, kind="stable")
    place, nv = np.argsort(order), len(driven)
    zeros = np.flatnonzero(program.constants == 0.0) + program.input_size
    H, A = (~np.isin(program.outputs[name], zeros)[:, order] for name in ("H", "A"))
    H, limited = H[order], np.concatenate([driven & np.isfinite(efforts), np.ones(len(A) - nv, dtype=bool)])
    found: list[tuple] = []
    for k in np.flatnonzero(limited & A.any(axis=1)):
        own = np.flatnonzero(A[k])
        contact = -1 if k < nv else v.contact[order[own[0]]]
        found.append((k, own[0], own[-1] + 1, k < nv, 1, v.nnormals + k, contact))
    for k in np.setdiff1d(np.arange(v.nnormals), v.normals):
        found.append((-1, place[k], place[k] + 1, 1, 0, k, v.contact[k]))
    rows = np.array(found, dtype=int).reshape(-1, len(ROW))
    cones = np.concatenate([v.normals[:, None], v.tangents], axis=1)
    cones = place[cones].reshape(-1, 3)
    spans = [*((row.min(), row.max() + 1) for row in cones), *rows[:, 1:3]]
    first = np.array([np.flatnonzero(row).min(initial=i) for i, row in enumerate(H)])
    for begin, end in spans:
        first[begin:end] = np.minimum(first[begin:end], begin)
    unmoved = v.nnormals + np.flatnonzero(limited & ~A.any(axis=1))
    tables = {
        "variable": order,
        "first": first,
        "fixed": np.flatnonzero(~driven),
        "unmoved": unmoved,
        **{f"cone_{name}": column for name, column in zip(("normal", "x", "y"), cones.T, strict=True)},
        "cone_contact": v.cone_contact,
        "cone_friction": v.friction,
        **{f"row_{name}": column for name, column in zip(ROW, rows.T, strict=True)},
    }
    numbers = {
        "N": v.size,
        "FIXED": int((~driven).sum()),
        "CONES": len(cones),
        "ROWS": len(rows),
        "UNMOVED": len(unmoved),
        "TORQUES": nv,
        "EQUATIONS": len(A),
        "BOUNDS": v.nnormals + len(A),
        "CONTACTS": len(v.contacts),
    }
    return tables, NUMBERS | numbers
