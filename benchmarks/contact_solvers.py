"""Solvers of contact impulses against the exact solution of 1,000 problems, see contact_problems.py.

1. The solver of rollouts by number of sweeps, from impulses of zero: how far Coulomb's law is violated,
   relative to the largest velocity without impulses. Median, 90 %, 99 % and the worst; then the error of the
   velocities that the impulses give the bodies.
2. Other methods after as many operations as ten sweeps. They are prototypes in NumPy: only operations count.
3. Rollouts, where every step begins with the impulses of the one before: states after 50 steps of 5 ms, whose
   targets change every 50 ms, against those with 1000 sweeps.
"""

import harness
import numpy as np
from contact_problems import FEET, LEGS, Problems, error, exact, families, onto_cone, soles, violation
from robots import robot

import dynamics_node as dn
from dynamics_node.codegen.contact_solver import Impulses, solve_impulses

SWEEPS = (5, 10, 20, 50, 100)
QUANTILES = {"median": 0.5, "90 %": 0.9, "99 %": 0.99, "worst": 1.0}
SOLVED = 1e-7  # larger violations of the exact solution: the problem is left out
RELATIVE_PENALTIES = (0.01, 0.1, 1.0)  # of ADMM, to the mean of the diagonal of a touch


# --- methods: p (count, rows) after a number of iterations from zero ----------------------------------------


def block_gauss_seidel(problems: Problems, sweeps):
    """That of rollouts."""
    count, none = len(problems.v), np.zeros((len(problems.v), 0))
    start = Impulses(np.zeros_like(problems.v), np.zeros((count, 2, 0)), np.zeros(count))
    target = np.zeros((count, problems.touches))
    return solve_impulses(
        problems.A, problems.v, target, none, none, problems.mu, np.zeros(0), start, sweeps
    ).p


def projected_gauss_seidel(problems: Problems, sweeps):
    """Row by row: the normal, then both tangents onto the disc of the cone at that normal."""
    A, v, mu = problems.A, problems.v, problems.mu
    p, blocks = np.zeros_like(v), diagonal_blocks(problems)
    for _ in range(sweeps):
        for c in range(problems.touches):
            t, n = slice(3 * c, 3 * c + 2), 3 * c + 2
            w = v[:, n] + np.einsum("kj,kj->k", A[:, n], p)
            p[:, n] = np.maximum(0.0, p[:, n] - w / A[:, n, n])
            w = v[:, t] + np.einsum("kij,kj->ki", A[:, t], p)
            trial = p[:, t] - w / np.linalg.eigvalsh(blocks[:, c, :2, :2])[:, 1:]
            length = np.maximum(np.linalg.norm(trial, axis=1), 1e-300)
            p[:, t] = trial * np.minimum(1.0, mu[c] * p[:, n] / length)[:, None]
    return p


def accelerated_projected_gradient(problems: Problems, iterations):
    """Nesterov's momentum with restarts; |w_t| of the iterate makes the gradient that of Coulomb's law."""
    units = np.repeat(1.0 / np.sqrt(np.linalg.norm(diagonal_blocks(problems), 2, axis=(2, 3))), 3, axis=1)
    A, v = units[:, :, None] * problems.A * units[:, None], units * problems.v
    step = 1.0 / np.linalg.eigvalsh(A)[:, -1:]
    p = ahead = np.zeros_like(v)
    t = np.ones((len(v), 1))
    for _ in range(iterations):
        gradient = shifted(v + np.einsum("kij,kj->ki", A, ahead), problems.mu)
        new = projected(ahead - step * gradient, problems.mu)
        restart = np.einsum("ki,ki->k", gradient, new - p)[:, None] > 0
        after = (1 + np.sqrt(1 + 4 * t * t)) / 2
        ahead = new + np.where(restart, 0.0, (t - 1) / after) * (new - p)
        p, t = new, np.where(restart, 1.0, after)
    return units * p


def admm(problems: Problems, iterations, penalty):
    """One factorization; |w_t| of the dual makes the problem that of Coulomb's law, as in recent solvers."""
    A, v, mu = problems.A, problems.v, problems.mu
    traces = np.trace(diagonal_blocks(problems), axis1=2, axis2=3)
    rho = penalty * np.repeat(traces / 3, 3, axis=1)
    inverse = np.linalg.inv(A + rho[:, :, None] * np.eye(v.shape[1]))
    z = y = np.zeros_like(v)
    for _ in range(iterations):
        shift = shifted(-y, mu) + y
        x = np.einsum("kij,kj->ki", inverse, rho * z - y - shift - v)
        z = projected(x + y / rho, mu)
        y = y + rho * (x - z)
    return z


def diagonal_blocks(problems):
    at = 3 * np.arange(problems.touches)[:, None] + np.arange(3)
    return problems.A[:, at[:, :, None], at[:, None, :]]


def projected(p, mu):
    return onto_cone(p.reshape(len(p), -1, 3), mu).reshape(p.shape)


def shifted(w, mu):
    """w with mu |w_t| more along the normals."""
    w = w.copy()
    w[:, 2::3] += mu * np.hypot(w[:, 0::3], w[:, 1::3])
    return w


def operations(method, rows):
    """(of the preparation, of an iteration): additions and multiplications; a root or a division is ten."""
    touches, product = rows // 3, 2 * rows * rows
    return {
        "block Gauss-Seidel": (100 * touches, product + 110 * touches),
        "projected Gauss-Seidel": (30 * touches, product + 55 * touches),
        "accelerated projected gradient": (10 * product, product + 80 * touches),  # the power method
        "ADMM": (rows**3, product + 90 * touches),  # the inverse of a definite matrix
    }[method]


# --- tables -------------------------------------------------------------------------------------------------


def quantiles(values):
    return np.quantile(values, list(QUANTILES.values()))


def line(name, values):
    print(f"  {name:44}" + "".join(f"{value:10.1e}" for value in values))


def of_sweeps(problems, best):
    """The distributions by number of sweeps, as rows."""
    print(f"{problems.name}: {len(best)} problems, {3 * problems.touches} rows")
    for sweeps in SWEEPS:
        p = block_gauss_seidel(problems, sweeps)
        found = np.r_[quantiles(violation(problems, p)), quantiles(error(problems, p, best))]
        line(f"{sweeps} sweeps: violation; error of velocities", found)
        for name, value in zip(QUANTILES, found, strict=False):
            yield harness.Row(f"{problems.name}, {sweeps} sweeps, {name}", value, "", "lower")


def at_equal_operations(problems, best):
    rows = 3 * problems.touches
    budget = np.dot(operations("block Gauss-Seidel", rows), (1, 10))
    methods = {
        "block Gauss-Seidel": block_gauss_seidel,
        "projected Gauss-Seidel": projected_gauss_seidel,
        "accelerated projected gradient": accelerated_projected_gradient,
    }
    for penalty in RELATIVE_PENALTIES:
        methods[f"ADMM, {penalty:g}"] = lambda given, n, penalty=penalty: admm(given, n, penalty)
    for name, method in methods.items():
        start, each = operations(name.split(",")[0], rows)
        iterations = max(0, int((budget - start) // each))
        p = method(problems, iterations)
        found = np.r_[quantiles(violation(problems, p)), quantiles(error(problems, p, best))]
        line(f"{name}: {iterations} iterations", found)
        yield harness.Row(f"{problems.name}, {name}, median", found[0], "", "lower")


def of_rollouts():
    """Warm starts, joints held by PD loops: how far states are from those with 1000 sweeps."""
    random, count = np.random.default_rng(0), 128
    solo, talos = robot("solo12"), robot("talos")
    stand = np.r_[0, 0, 0.223, 0, 0, 0, 1, LEGS]
    upright = talos.neutral()
    upright[2] -= dn.evaluate(talos, "frame_poses", upright, links=["left_sole_link"]).positions[0, 2]
    for name, model, q, contacts, gains, reach in (
        ("Solo12 on four feet", solo, stand, FEET, dn.PDGains(5.0, 0.1), 0.3),
        ("Talos on eight points", talos, upright, list(soles()), dn.PDGains(1000.0, 20.0), 0.02),
    ):
        noise = random.uniform(-reach, reach, (count, 5, model.nq - 7))
        targets = q[7:] + np.repeat(noise, 10, axis=1)
        qd = random.uniform(-0.3, 0.3, (count, model.nv))
        forward = dn.build(model, "forward_dynamics")
        arguments = (q, qd, targets, 0.005)
        options = {"contacts": contacts, "pd": gains, "friction": False, "limits": False}
        right = forward.rollout(*arguments, sweeps=1000, **options)
        print(f"{name}: positions and velocities of the base, from those with 1000 sweeps, after 50 steps")
        for sweeps in (3, 6, *SWEEPS[1:]):
            path = forward.rollout(*arguments, sweeps=sweeps, **options)
            pairs = (path.q[:, -1, :3], right.q[:, -1, :3]), (path.qd[:, -1, :6], right.qd[:, -1, :6])
            away = [np.abs(a - b).max(axis=1) for a, b in pairs]
            line(f"{sweeps} sweeps", np.concatenate([quantiles(part) for part in away]))
            yield harness.Row(f"{name}, rollout, {sweeps} sweeps, median", np.median(away[0]), "", "lower")


def main():
    options = harness.arguments("contact_solvers").parse_args()
    solved = []
    for problems in families():
        best = exact(problems)
        good = violation(problems, best) < SOLVED
        solved.append((problems._replace(A=problems.A[good], v=problems.v[good]), best[good]))
        if not good.all():
            print(f"{problems.name}: Pinocchio has no solution of {(~good).sum()}")
    print(f"quantiles: {', '.join(QUANTILES)}; twice")
    rows = [row for pair in solved for row in of_sweeps(*pair)]
    print("as many operations as ten sweeps of block Gauss-Seidel")
    for problems, best in solved:
        print(problems.name)
        rows += at_equal_operations(problems, best)
    rows += of_rollouts()
    harness.finish("contact_solvers", rows, harness.versions("pin", "numpy"), options.save)


if __name__ == "__main__":
    main()
