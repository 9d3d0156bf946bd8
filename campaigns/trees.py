"""Stressed trees by every backend against Pinocchio.

Every tree is checked by NumPy and by its interpreted Program, which detects wrong constants like compiled
code. One in GRAPH and COMPILED is checked by the factor graph and compiled code, which take most of the time.
"""

from typing import NamedTuple

import numpy as np
from oracle import Reference
from stressed import Tree, stressed_tree
from tolerances import EPS, EXACT, error

import dynamics_node as dn
from dynamics_node.algorithms import dynamics_programs
from dynamics_node.errors import IllPosedError
from dynamics_node.robot.state_arrays import sample_positions
from dynamics_node.symbolic import interpret

COMPILED, GRAPH = 40, 10  # one in this number of trees
STATES = 4
FRAME_ERROR = 1e-12  # relative to the terms of a sum: rounding of frame entries within 1e-13 of 0 and 1
SINGULAR = 1e-12  # smallest eigenvalue of a mass matrix with unit diagonal that a solver may reject


REGULAR = 1e-9  # ... and above which a solver must solve every state


class Case(NamedTuple):
    """A tree; seed: of its states."""

    tree: Tree
    seed: int
    compiled: bool
    graph: bool

    @property
    def name(self):
        base = " on a floating base" if self.tree.floating_base else ""
        return f"tree of {self.tree.text.count('<joint')} joints{base}, states {self.seed}"

    @property
    def text(self):
        return self.tree.text


class _States(NamedTuple):
    """Arrays over the states: inputs, and results of Pinocchio."""

    q: np.ndarray
    qd: np.ndarray
    qdd: np.ndarray
    f_ext: np.ndarray
    tau: np.ndarray
    M: np.ndarray
    parts: np.ndarray


def draw(random: np.random.Generator) -> Case:
    """A stressed tree."""
    tree = stressed_tree(random)
    seed = int(random.integers(2**31))
    return Case(tree, seed, bool(random.integers(COMPILED) == 0), bool(random.integers(GRAPH) == 0))


def check(case: Case) -> str:
    """'ok', or 'refused: ', 'FALSELY REFUSED: ' or 'SILENT ERROR: ' with the reason."""
    tree = case.tree
    try:
        model = dn.parse_robot(tree.text, floating_base=tree.floating_base)
    except dn.ModelError as reason:
        if "massless links" in str(reason):
            return f"refused: {reason}"
        return f"FALSELY REFUSED: {reason}"
    if not model.nv:
        return "refused: nothing moves"
    reference = Reference(tree.expanded, model, tree.mimics, tree.armature)
    states = _states(model, reference, np.random.default_rng(case.seed))
    wrong = [*_inverse(model, case, states), *_quantities(model, reference, states)]
    refused = solvable = ""
    for problem in (dn.forward_dynamics(model), _hybrid(model, case)):
        try:
            wrong += _forward(model, case, problem, states)
        except (dn.ModelError, IllPosedError) as reason:
            refused = str(reason)
            solvable = solvable or _why_solvable(problem, states)
    if wrong:
        return f"SILENT ERROR: {'; '.join(wrong)}"
    if refused:
        return f"FALSELY REFUSED: {refused} ({solvable})" if solvable else f"refused: {refused}"
    return "ok"


def _states(model, reference, random):
    """States at home, at right angles and random. The last has large angles, except of mimicked joints, whose
    product with the multiplier rounds."""
    followed = {name for joint in model.explicit_joints for name in joint.masters.names}
    q = sample_positions(model, STATES, random, 3.0)
    q[0] = model.neutral()
    for joint in [joint for joint in model.independent_joints if joint.kind in ("revolute", "continuous")]:
        q[1, joint.q] = random.integers(-1, 3) * np.pi / 2
        if joint.name not in followed:
            q[-1, joint.q] *= 10 ** random.uniform(0, 8)
    qd, qdd = random.uniform(-2, 2, (2, STATES, model.nv))
    f_ext = random.uniform(-5, 5, (STATES, model.nbodies, 6))
    tau = np.array([reference.inverse(*state) for state in zip(q, qd, qdd, f_ext, strict=True)])
    M = np.array([reference.mass_matrix(x) for x in q])
    return _States(q, qd, qdd, f_ext, tau, M, _parts(model, q, qd, qdd, f_ext))


def _least_eigenvalues(M):
    """Smallest eigenvalues of mass matrices (..., n, n) scaled to a unit diagonal."""
    if not M.shape[-1]:
        return np.ones(len(M))
    size = np.sqrt(np.maximum(np.einsum("...kk->...k", M), 1e-300))
    return np.linalg.eigvalsh(M / (size[..., :, None] * size[..., None, :]))[..., 0]


def _hybrid(model, case):
    names = [joint.name for joint in model.independent_joints]
    return dn.hybrid_dynamics(model, names[case.seed % 2 :: 2])


def _why_solvable(problem, states):
    """Reason why a rejection was wrong: torques determine the accelerations at some state."""
    forward = np.array(problem.forward)
    least = _least_eigenvalues(states.M[:, forward][:, :, forward]).max()
    return f"{problem.kind}: least eigenvalue {least:.1e}" if least > 1e3 * SINGULAR else ""


def _solvers(model, case, problem):
    """(name, function(q, qd, known, f_ext)) of all solvers of the problem."""
    for name, program in dynamics_programs(model, problem, wrenches=True).items():
        yield f"Program of {name}", _interpreted(program, model, problem)
    choices = [{"backend": "numpy"}]
    choices += [{"solver": "factor_graph", "backend": "numpy"}] if case.graph else []
    choices += [{"backend": "c"}] if case.compiled else []
    for choice in choices:
        solver = dn.build(model, problem, f_ext=True, **choice)
        yield " ".join(choice.values()), _call_of(solver, problem)


def _interpreted(program, model, problem):
    forward = np.array(problem.forward)

    def solve(q, qd, known, f_ext):
        state = {"q": q, "qd": qd, "qdd": known, "tau": known, "f_ext": f_ext}
        with np.errstate(all="ignore"):
            outputs = {"qdd": known, "tau": known} | interpret(program, **state, gravity=model.gravity)
            healthy = np.all(outputs.get("health", np.zeros(0)) <= program.limits, axis=-1, keepdims=True)
            return np.where(healthy, np.where(forward, outputs["qdd"], outputs["tau"]), np.nan)

    return solve


def _call_of(solver, problem):
    forward = np.array(problem.forward)

    def solve(q, qd, known, f_ext):
        if problem.kind != "hybrid":
            return solver(q, qd, known, f_ext, errors="nan")
        qdd, tau = solver(q, qd, known, known, f_ext, errors="nan")
        return np.where(forward, qdd, tau)

    return solve


def _inverse(model, case, states):
    for name, solve in _solvers(model, case, dn.inverse_dynamics(model)):
        torques = solve(states.q, states.qd, states.qdd, states.f_ext)
        if worst := _excess_error(torques, states.tau, states):
            yield f"inverse by {name}: {worst:.1e}"


def _forward(model, case, problem, states):
    """Errors above tolerance x condition, and rejections at regular states. Raises ModelError."""
    forward, wrong = np.array(problem.forward), []
    dn.build(model, problem, backend="numpy")
    if not forward.any():
        return wrong
    M = states.M[:, forward][:, :, forward]
    least = _least_eigenvalues(M)
    singular = not (least > SINGULAR / 100).any()  # ... which each call may report instead of `build`
    known = np.where(forward, states.tau, states.qdd)
    limit = np.maximum(1e-9, _condition(M, states))
    for name, solve in _solvers(model, case, problem):
        solution = solve(states.q, states.qd, known, states.f_ext)
        qdd, tau = np.where(forward, solution, states.qdd), np.where(forward, states.tau, solution)
        refused = ~np.isfinite(solution).all(axis=-1)
        if singular and not refused.all():
            wrong.append(f"{problem.kind} by {name}: answers with a mass matrix that is singular everywhere")
        ratio = np.maximum(error(qdd, states.qdd), error(tau, states.tau)) / limit
        if np.any(ratio[~refused] > 1):
            wrong.append(f"{problem.kind} by {name}: {np.max(ratio[~refused]):.1e} times the tolerance")
        if np.any(least[refused] > REGULAR):
            wrong.append(f"{problem.kind} by {name}: refused at least eigenvalue {least[refused].max():.1e}")
    return wrong


def _condition(M, states):
    """Relative error of accelerations from rounding of M and of the terms of torques, which may be large even
    if their sum is small."""
    least = np.linalg.svd(M, compute_uv=False)[..., -1]
    parts = states.parts / np.maximum(1e-6, np.abs(states.qdd).max(axis=-1)) / least
    return 100 * EPS * np.linalg.cond(M) + FRAME_ERROR * parts


def _parts(model, q, qd, qdd, f_ext):
    """Largest sum of absolute terms of a torque at each state (states,)."""
    J = np.abs(
        [
            dn.evaluate(model, "frame_jacobian", q, link=body.name, reference="body", backend="numpy")
            for body in model.bodies
        ]
    )
    rates = np.abs(qdd) + np.abs(qd) * np.abs(qd).sum(axis=-1, keepdims=True)
    accelerations = np.einsum("bsij,sj->sbi", J, rates) + np.repeat([0.0, 9.81], 3)
    wrenches = np.abs(f_ext) + np.einsum("bij,sbj->sbi", np.abs(model.inertias), accelerations)
    return np.einsum("bsij,sbi->sj", J, wrenches).max(axis=-1)


def _quantities(model, reference, states):
    link = list(model.frames)[-1]
    q, qd = states.q, states.qd
    bias = [reference.inverse(x, v, 0 * v) for x, v in zip(q, qd, strict=True)]
    expected = {
        "mass_matrix": (states.M, 2, (q,), {}),
        "nonlinear_effects": (np.array(bias), 1, (q, qd), {}),
        "frame_jacobian": (np.array([reference.jacobian(x, link) for x in q]), 2, (q,), {"link": link}),
    }
    for name, (right, tail, arguments, options) in expected.items():
        compiled = dn.build(model, name, backend="numpy", **options)
        for how in ("NumPy", "Program"):
            values = (
                dn.evaluate(model, name, *arguments, **options, backend="numpy")
                if how == "NumPy"
                else compiled(*arguments)
            )
            worst = (
                _excess_error(values, right, states)
                if name == "nonlinear_effects"
                else error(values, right, tail).max()
            )
            if not worst <= EXACT:
                yield f"{name} by {how}: {worst:.1e}"


def _excess_error(values, right, states):
    """The largest error of torques (states, nv) above its tolerance, or 0.0."""
    limit = EXACT + FRAME_ERROR * states.parts / np.maximum(1e-6, np.abs(right).max(axis=-1))
    errors = error(values, right)
    return float(np.where(errors <= limit, 0.0, errors).max())
