"""The smallest contact forces within cones and bounds, compiled: a smoothing Newton method, in vectors of
cones, rows and columns of one state.

The program of algorithms/contact_qp.py is: least x^T H x / 2 + f^T x with E x = e, and s = h - G x in K,
friction cones and half lines. At its solution there are multipliers z in K with s^T z = 0. One unknown u = s
- z stands for both: on its eigenvalues, s and z are (sqrt(u^2 + 4 mu) +- u) / 2. So both are always in K,
and their product is mu. Newton's method on the rest, the gradient and two linear equations, takes whole
steps. It begins at the solution without cones and bounds, with mu = 1e-20. That is nearly Newton's method on
the active set, and most often takes four to six steps. Where it fails, mu begins at 1e-2 and falls with the
square of what the equations miss. A step is one factorization of H and the weighted rows of G, without the
entries that are zero between limbs.

Whole steps may fail to converge. So a result is one that meets all conditions of optimality, of which K and
mu leave the gradient and the equations to be checked, relative to the largest cost and force. The Program of
functions/contact_limits.py then computes torques and margins, which are checked, too.

Fukushima, Luo and Tseng, Smoothing functions for second-order-cone complementarity problems, 2002.
"""

import numpy as np

from dynamics_node.codegen.c.compiler import FOR_LANES, compile_library
from dynamics_node.codegen.c.library import Loaded, builtin_function, trust_arrays
from dynamics_node.codegen.c.render import renderer
from dynamics_node.codegen.c.render_straight import WIDEST, before_run, render_run, table, text_of
from dynamics_node.codegen.c.threads import in_parts, threads_worth
from dynamics_node.symbolic import depth_first

MOST_LANES = 8  # numbers in a vector
NUMBERS = {
    "LEAST_MU": 1e-20,
    "FEW_TURNS": 12,  # from LEAST_MU; 4 to 6 are usual
    "FIRST_MU": 1e-2,
    "MOST_TURNS": 25,  # from FIRST_MU; 12 are usual
    "FINE": 1e-12,  # of the conditions of optimality
    "TOLERANCE": 1e-10,  # of these, after two steps in turn
    "DAMPING": 1e-13,  # of equations that depend on each other, relative to the trace of their matrix
    "SHARE": 1e-11,  # of z in the weight of s, which is 1 / SHARE at the most
    "LIGHT": 1e-10,  # a weight of a row that moves nothing
}
GIVEN = ("TAU", "COST", "SLOPE", "MATRIX", "LOWER", "UPPER", "ACTIVE")  # the arguments of a call
ROW = ("equation", "begin", "end", "low", "high", "bound", "contact")


class ConeKernel(Loaded):
    """kernel(count, tau0, H, f, A, lower, upper, active) -> tau, contact forces and margins (count, *shape),
    of the results of `contact_qp_program` and the active contacts. They are NaN where no solution was found
    within all limits. Arrays are (count, *shape) or of one state; without count, of one state.

    program: of `contact_qp_program`, whose zeros count; judge, contacts: the Program of ForceLimits, and
    their contacts (limits,); variables: ForceVariables; driven (nv,) bool; efforts (nv,): infinite where
    there is none; tolerance: of limits, relative to the size of forces.
    """

    PER_PROCESS = ("_solve",)

    def __init__(self, program, judge, contacts, variables, driven, efforts, tolerance):
        self._tables, self._numbers = _tables(program, variables, driven, efforts)
        self._tables["limit_contact"] = contacts
        self._judge = depth_first(judge)
        results = [judge.outputs[name].size for name in ("tau", "contact_forces", "allowed")]
        self._numbers |= {"FORCES": results[1], "LIMITS": results[2], "TOLERANCE_OF_LIMITS": tolerance}
        size, n = self._numbers, self._numbers["N"]
        self._shapes = [(size["TORQUES"],), (n, n), (n,), (size["EQUATIONS"], n)]
        self._shapes += [(size["BOUNDS"],), (size["BOUNDS"],), (size["CONTACTS"],), *((k,) for k in results)]
        super().__init__(program)

    def _compile(self):
        tables = {name: np.asarray(array).tolist() for name, array in self._tables.items()}
        identity = f"cones {renderer()} {self._judge.digest()} {tables} {self._numbers}"
        return compile_library(identity, self._text, FOR_LANES)

    def _text(self):
        rows = ", ".join(f"{{{len(shape)}, {', '.join(map(str, shape))}}}" for shape in self._shapes)
        sizes = [int(np.prod(shape)) for shape in self._shapes]
        return "\n".join(
            [
                f"#define WIDEST {WIDEST}",
                *before_run(),
                text_of("lanes.c"),
                *render_run(self._judge, name="judge"),
                *(f"#define {name} {value}" for name, value in self._numbers.items()),
                f"enum {{ {', '.join(GIVEN)}, GIVEN, RESULTS = 3, MOST_AXES = 2 }};",
                *(
                    table("double" if name == "cone_friction" else "int", f"{name}[]", array)
                    for name, array in self._tables.items()
                ),
                f"static const __PTRDIFF_TYPE__ shape[GIVEN + RESULTS][MOST_AXES + 1] = {{{rows}}};",
                table("int", "size_of_one[]", sizes),
                text_of("arrays.c"),
                text_of("cone_program.c"),
            ]
        )

    def _open(self, library):
        trust_arrays(library, np.float64)
        self._solve = builtin_function(library, "cones_definition")

    def of_state(self, *arrays):
        """tau, contact forces and margins of one state; None where no solution was found."""
        tau, forces, margins = self._shapes[len(GIVEN) :]
        results = np.empty(tau), np.empty(forces), np.empty(margins)
        return results if self._solved(1, *arrays, *results) else None

    def __call__(self, count, *arrays):
        results = [np.empty((count, *shape)) for shape in self._shapes[len(GIVEN) :]]
        threads = threads_worth(count * NUMBERS["FEW_TURNS"] * self._numbers["N"] ** 3)
        every = [a.ndim > len(shape) for a, shape in zip(arrays, self._shapes, strict=False)]

        def solve(start, stop):
            parts = [a[start:stop] if each else a for a, each in zip(arrays, every, strict=True)]
            return self._solved(stop - start, *parts, *(array[start:stop] for array in results))

        in_parts(count, threads, solve)
        return results

    def _solved(self, *arguments):
        good = self._solve(*arguments)
        if good < 0:
            raise RuntimeError("compiled code refuses arrays that were made for it")  # a defect of ours
        return good


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
    padded = [*range(len(cones)), *[len(cones) - 1] * (MOST_LANES * bool(len(cones)))]
    last = [1 + int(np.flatnonzero(first <= k).max()) for k in range(v.size)]
    unmoved = v.nnormals + np.flatnonzero(limited & ~A.any(axis=1))
    tables = {
        "variable": order,
        "first": first,
        "last": last,
        "fixed": np.flatnonzero(~driven),
        "unmoved": unmoved,
        "cone_normal": cones[padded, 0],
        "cone_x": cones[padded, 1],
        "cone_y": cones[padded, 2],
        "cone_contact": v.cone_contact[padded],
        "cone_friction": v.friction[padded],
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
