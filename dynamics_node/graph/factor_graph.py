"""FactorGraph, the equations of a tree at given states; BayesNet, the result of elimination.

A BayesNet is a directed acyclic graph of conditionals x = d - sum_k R_k y_k. The rank of a graph shows
whether it determines its variables, and which variables or equations are at fault.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from dynamics_node.algorithms.recursion import joint_motions, outward, root_acceleration, rotor_inertia
from dynamics_node.errors import IllPosedError, InputError
from dynamics_node.graph.factors import (
    JOINT_ACCELERATION,
    TORQUE,
    LinearFactor,
    Variable,
    acceleration_factor,
    joint_acceleration,
    torque,
    torque_factor,
    wrench_factor,
)
from dynamics_node.robot.transforms import joint_transforms
from dynamics_node.symbolic import cross_force, cross_motion, matvec


@dataclass(frozen=True, eq=False)
class FactorGraph:
    """The factors of one Problem over its unknown variables."""

    factors: tuple[LinearFactor, ...]

    @property
    def variables(self) -> tuple[Variable, ...]:
        return tuple(dict.fromkeys(x for factor in self.factors for x in factor.blocks))

    def given(self, values):
        """The graph with known variables moved to the right-hand sides: a problem is a choice of known
        variables."""
        return FactorGraph(tuple(factor.given(values) for factor in self.factors))

    def neighbors(self):
        """variable -> the variables it shares a factor with."""
        adjacency: dict[Variable, set[Variable]] = {x: set() for x in self.variables}
        for factor in self.factors:
            for x in factor.blocks:
                adjacency[x] |= factor.blocks.keys() - {x}
        return adjacency

    def residuals(self, values):
        """The graph with rhs - sum A x in place of rhs: the residuals of the values."""
        left = [replace(factor, rhs=factor.given(values).rhs) for factor in self.factors]
        return FactorGraph(tuple(left))

    def __str__(self):
        return "\n".join(map(str, self.factors))


def coordinate_owners(robot):
    """body that owns coordinates -> {body whose joint moves with them: its S (6, k)}: itself, and bodies of
    explicit joints."""
    owner_at = {b.joint.v.start: i for i, b in enumerate(robot.bodies) if b.joint.masters is None}
    owners: dict[int, dict] = {owner: {} for owner in owner_at.values()}
    for i, joint in enumerate(body.joint for body in robot.bodies):
        if joint.masters is None:
            owners[i][i] = joint.S
        else:
            for v in joint.masters.v:
                owners[owner_at[v]][i] = joint.S[:, v - joint.v.start, None]
    return owners


def owners_at(owners, i):
    """{body that owns coordinates: S (6, k)} of the coordinates that move a body's joint. owners:
    `coordinate_owners`."""
    return {owner: members[i] for owner, members in owners.items() if i in members}


def unknown_of(robot, problem, owner) -> Variable:
    """tau or qdd of a joint: the unknown of the Problem. Raises ValueError if both have unknown parts."""
    joint = robot.bodies[owner].joint
    chosen = problem.forward[joint.v]
    if any(chosen) != all(chosen):
        raise InputError(f"joint {joint.name!r} must be forward or inverse as a whole")
    return (joint_acceleration if chosen[0] else torque)(owner, len(chosen))


def known_values(robot, problem, qdd, tau):
    """{variable: value} of the knowns of a Problem, out of qdd and tau (..., nv)."""
    known = {}
    for owner in coordinate_owners(robot):
        joint = robot.bodies[owner].joint
        dim = joint.v.stop - joint.v.start
        if unknown_of(robot, problem, owner) == torque(owner, dim):
            known[joint_acceleration(owner, dim)] = qdd[..., joint.v]
        else:
            known[torque(owner, dim)] = tau[..., joint.v]
    return known


def tree_factors(robot, q, qd, f_ext=None, gravity=None):
    """The equations of paper 1 with every acceleration and torque unknown. q (..., nq), qd
    (..., nv); f_ext, gravity as in `rnea`."""
    X_up = joint_transforms(robot, q)
    vJ = joint_motions(robot, qd)
    v = outward(robot, X_up, vJ)
    velocity_product = cross_motion(v, vJ)
    velocity_wrench = cross_force(v, matvec(robot.inertias, v))
    external = np.zeros((robot.nbodies, 6)) if f_ext is None else f_ext
    a_root = root_acceleration(robot, gravity)
    owners = coordinate_owners(robot)
    for i, body in enumerate(robot.bodies):
        X = X_up.matrix(i)
        yield acceleration_factor(
            i, body.parent, owners_at(owners, i), X, velocity_product[..., i, :], a_root
        )
    for i in range(robot.nbodies):
        children = [c for c, parent in enumerate(robot.parents) if parent == i]
        yield wrench_factor(
            i, children, robot.inertias[i], X_up, velocity_wrench[..., i, :], external[..., i, :]
        )
    R = rotor_inertia(robot)
    for owner, S in owners.items():
        v = robot.bodies[owner].joint.v
        rotors = {
            k: R[v, robot.bodies[k].joint.v]
            for k in owners
            if k == owner or R[v, robot.bodies[k].joint.v].any()
        }
        yield torque_factor(owner, S, rotors)


def joint_values(robot, values, qdd, tau):
    """qdd and tau (..., nv) completed by the solved variables, {variable: value}."""
    qdd, tau = np.array(qdd), np.array(tau)
    names, place = robot.tree.v_names, {name: k for k, name in enumerate(robot.v_names)}
    for variable, value in values.items():
        if variable.kind in (TORQUE, JOINT_ACCELERATION):
            own = names[robot.bodies[variable.body].joint.v]
            columns = [k for k, name in enumerate(own) if name in place]  # no dependent ones
            values_at = tau if variable.kind == TORQUE else qdd
            values_at[..., [place[own[k]] for k in columns]] = value[..., columns]
    return qdd, tau


@dataclass(frozen=True, eq=False)
class Conditional:
    """variable = d - sum_k R[y_k] y_k: d (..., dim), R blocks (..., dim, dim_k)."""

    variable: Variable
    R: Mapping[Variable, np.ndarray]
    d: np.ndarray

    def __str__(self):
        parents = ", ".join(map(str, self.R))
        return f"{self.variable} | {parents}" if parents else f"{self.variable}"


@dataclass(frozen=True, eq=False)
class BayesNet:
    """The conditionals in elimination order; iterate over it, print it, draw it (graph/draw.py)."""

    conditionals: tuple[Conditional, ...]

    def __iter__(self):
        return iter(self.conditionals)

    def __len__(self):
        return len(self.conditionals)

    @property
    def edges(self):
        """(parent, child) pairs: the child is computed from the parent."""
        return tuple((y, c.variable) for c in self.conditionals for y in c.R)

    def solve(self):
        """Back-substitution in reverse order: variable -> value (..., dim)."""
        values: dict[Variable, np.ndarray] = {}
        for conditional in reversed(self.conditionals):
            x = conditional.d
            for y, R in conditional.R.items():
                x = x - matvec(R, values[y])
            values[conditional.variable] = x
        return values

    def __str__(self):
        return "\n".join(map(str, self.conditionals))


# --- rank ---------------------------------------------------------------------------------------------------


ZERO = 1e-9  # relative singular values, and entries of unit vectors, that count as zero


class Rank(NamedTuple):
    """rows, columns, rank of the equations at a generic state; open: the variables they do not determine;
    contradicting: the factors that contradict each other."""

    rows: int
    columns: int
    rank: int
    open: tuple[str, ...]
    contradicting: tuple[str, ...]

    def __str__(self):
        size = f"{self.rows} equations of rank {self.rank} for {self.columns} unknowns"
        if self.open:
            return f"under-determined: {size}; open are {', '.join(self.open)}"
        if self.contradicting:
            return f"inconsistent: {size}; these contradict each other: {', '.join(self.contradicting)}"
        return f"well posed: {size}"


def graph_rank(graph: FactorGraph) -> Rank:
    """The Rank of a graph at one state, or at the first of several."""
    A, b = dense_system(graph.factors, graph.variables)
    length = np.linalg.norm(A, axis=1)
    scale = np.where(length > 0, length, 1.0)
    A, b = A / scale[:, None], b / scale
    U, sizes, V = np.linalg.svd(A)
    rank = int((sizes > ZERO * sizes.max(initial=0.0)).sum())
    free = np.abs(V[rank:]).max(axis=0, initial=0.0) > ZERO
    missed = U[:, rank:] @ (U[:, rank:].T @ b)  # the part of b outside the range
    clash = np.abs(missed) > ZERO * max(1.0, np.abs(b).max(initial=0.0))
    variables = _marked(free, ((str(x), x.dim) for x in graph.variables))
    factors = _marked(clash, ((factor.name, factor.rows) for factor in graph.factors))
    return Rank(len(A), A.shape[1], rank, variables, factors)


def require_posed(graph: FactorGraph):
    """Raise IllPosedError unless the equations have exactly one solution."""
    rank = graph_rank(graph)
    if rank.open or rank.contradicting:
        raise IllPosedError(str(rank))


def dense_system(factors, variables):
    """A (rows, columns) and b (rows,) of factors at one state, or at the first of several; rows and columns
    in the order of factors and variables."""
    starts = dict(zip(variables, np.cumsum([0, *(x.dim for x in variables)]), strict=False))
    A = np.zeros((sum(f.rows for f in factors), sum(x.dim for x in variables)))
    b, top = np.zeros(len(A)), 0
    for factor in factors:
        rows = slice(top, top + factor.rows)
        for x, block in factor.blocks.items():
            A[rows, starts[x] : starts[x] + x.dim] = _first(block, 2)
        b[rows] = _first(factor.rhs, 1)
        top += factor.rows
    return A, b


def _first(array, axes):
    """The array of the first state."""
    return array.reshape(-1, *array.shape[array.ndim - axes :])[0]


def _marked(flags, named):
    """Names with a marked entry; named: (name, number of entries)."""
    names, start = [], 0
    for name, size in named:
        if flags[start : start + size].any():
            names.append(name)
        start += size
    return tuple(names)
