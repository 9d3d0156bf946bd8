"""1,000 contact problems of one step, w = A p + v with Coulomb's law at every touch, and their solution.

At each touch p_n >= 0 and w_n >= 0, one of them zero, and p_t within the cone mu p_n and against w_t. That is
the complementarity problem itself, not its convex relaxation, and without compliance. The targets of normal
velocities are subtracted from v. Pinocchio's ADMM solves it to 1e-11 (CoulombFrictionCone, solve_ncp).
"""

from typing import NamedTuple

import numpy as np
import pinocchio as pin
from robots import robot

import dynamics_node as dn
from dynamics_node.algorithms.contact_step import contact_step
from dynamics_node.codegen.contact_solver import full, targets
from dynamics_node.symbolic import interpret

DT = 0.005
LEGS = np.array([0, 0.8, -1.6] * 2 + [0, -0.8, 1.6] * 2)
FEET = [dn.Contact(foot) for foot in ("FL_FOOT", "FR_FOOT", "HL_FOOT", "HR_FOOT")]
BOX = """
<robot name="box"> <link name="world"/>
  <joint name="free" type="floating"> <parent link="world"/> <child link="box"/> </joint>
  <link name="box"> <inertial> <mass value="2"/>
    <inertia ixx=".02" iyy=".03" izz=".04" ixy="0" ixz="0" iyz="0"/> </inertial> </link>
</robot>"""


class Problems(NamedTuple):
    """A (count, 3 touches, 3 touches), v (count, 3 touches), mu (touches,)."""

    name: str
    A: np.ndarray
    v: np.ndarray
    mu: np.ndarray

    @property
    def touches(self):
        return len(self.mu)


def soles():
    """Four corners of each sole of Talos."""
    for sole in ("left_sole_link", "right_sole_link"):
        for k, (x, y) in enumerate((a, b) for a in (-0.1, 0.1) for b in (-0.06, 0.06)):
            yield dn.Contact(sole, name=f"{sole} {k}", xyz=(x, y, 0.0))


def corners():
    """The eight corners of a box with edges of 0.2 m."""
    for k in range(8):
        yield dn.Contact("box", name=f"{k}", xyz=np.where(np.unpackbits(np.uint8(k))[-3:], 0.1, -0.1))


def families():
    """Problems of every family, 1,000 in all."""
    random = np.random.default_rng(0)
    yield standing("Solo12 on four feet", random, 200)
    yield standing("Solo12 with nearly straight legs", random, 100, bend=0.02)
    yield walking("Talos on eight points of its soles", random, 150)
    yield tumbling("box on its corners, redundant", random, 150)
    yield scattered("masses 1e-3 to 1e3 kg", random, 150)
    yield stacked("chain of masses 1e-3 to 1e3 kg", random, 100)
    yield dense("dense, of full rank", random, 100)
    yield dense("dense, near-singular", random, 50, rank=9, near=1e-8)


def standing(name, random, count, bend=1.0):
    solo = robot("solo12")
    q = np.tile(np.r_[0, 0, 0.223, 0, 0, 0, 1, bend * LEGS], (count, 1))
    q[:, 7:] += bend * random.uniform(-0.1, 0.1, (count, 12))
    q[:, 2] = -dn.evaluate(solo, "frame_poses", q, links=[c.link for c in FEET]).positions[..., 2].min(axis=1)
    return of_robot(name, solo, FEET, q, random, torques=3.0)


def walking(name, random, count):
    talos = robot("talos")
    q = np.tile(talos.neutral(), (count, 1))
    q[:, 2] -= dn.evaluate(talos, "frame_poses", talos.neutral(), links=["left_sole_link"]).positions[0, 2]
    q[:, 7:] += random.uniform(-0.02, 0.02, q[:, 7:].shape)
    return of_robot(name, talos, list(soles()), q, random, torques=20.0)


def tumbling(name, random, count):
    q = np.tile(np.r_[0, 0, 0.1, 0, 0, 0, 1.0], (count, 1))
    q[:, 3:6] = random.uniform(-0.01, 0.01, (count, 3))
    q[:, 3:] /= np.linalg.norm(q[:, 3:], axis=1, keepdims=True)
    return of_robot(name, dn.parse_robot(BOX), list(corners()), q, random)


def of_robot(name, model, contacts, q, random, torques=0.0):
    """Problems of the first half of a step at the positions q, at random velocities."""
    count = len(q)
    tau = random.uniform(-torques, torques, (count, model.nv))
    tau[:, :6] = 0.0
    step = contact_step(model, contacts, (dn.Plane(),), friction=False, limits=False)
    given = {"q": q, "qd": random.uniform(-0.5, 0.5, (count, model.nv)), "tau": tau, "dt": np.full(count, DT)}
    found = interpret(step.halves.first, **given, gravity=np.tile(model.tree.gravity, (count, 1)))
    v = np.array(found["velocity"])
    v[:, 2::3] -= targets(found["gap"], found["approach"], step.rows.restitution)
    return Problems(name, full(found["A"], step.rows.size), v, step.rows.friction)


def scattered(name, random, count, touches=4):
    """Pairs of touches on bodies of very different mass, which a light link couples."""
    A = np.zeros((count, 3 * touches, 3 * touches))
    for k in range(count):
        masses = 10.0 ** random.uniform(-3, 3, touches)
        J = random.normal(size=(3 * touches, 3 * touches)) * 0.1 + np.eye(3 * touches)
        A[k] = J @ np.diag(np.repeat(1 / masses, 3)) @ J.T
    return Problems(name, A, random.normal(size=A.shape[:2]), np.full(touches, 0.7))


def stacked(name, random, count, bodies=4):
    """Point masses on top of each other: touch k is between masses k - 1 and k; gravity acts for a step."""
    D = np.kron(np.eye(bodies) - np.eye(bodies, k=-1), np.eye(3))
    A, v = np.zeros((count, 3 * bodies, 3 * bodies)), random.normal(size=(count, 3 * bodies)) * 0.01
    for k in range(count):
        masses = 10.0 ** random.uniform(-3, 3, bodies)
        A[k] = D @ np.diag(np.repeat(1 / masses, 3)) @ D.T
        v[k, 2] -= 9.81 * DT
    return Problems(name, A, v, np.full(bodies, 0.5))


def dense(name, random, count, touches=5, rank=None, near=0.0):
    rows = 3 * touches
    J = random.normal(size=(count, rows, rank or 2 * rows))
    A = J @ np.swapaxes(J, 1, 2) + near * np.eye(rows)
    # A velocity that some motion has: without it, a touch of a singular matrix could not be freed.
    v = np.einsum("kij,kj->ki", J, random.normal(size=J.shape[::2]))
    return Problems(name, A, v, np.linspace(0.2, 1.0, touches))


# --- the exact solution -------------------------------------------------------------------------------------


def exact(problems: Problems):
    """p (count, 3 touches) by Pinocchio. Impulses of a touch are in units that make the trace of its block 3:
    cones remain what they are."""
    model, count = pin.Model(), problems.touches
    touches, datas = pin.StdVec_ConstraintModel(), pin.StdVec_ConstraintData()
    for mu in problems.mu:
        touch = pin.PointContactConstraintModel(model, 0)
        touch.setFriction(mu)
        touches.append(pin.ConstraintModel(touch))
        datas.append(touches[-1].createData())
    traces = np.einsum("kii->ki", problems.A).reshape(-1, count, 3).sum(axis=2)
    units = np.repeat(np.sqrt(3.0 / traces), 3, axis=1)
    found = np.empty_like(problems.v)
    for k, (A, v, unit) in enumerate(zip(problems.A, problems.v, units, strict=True)):
        settings, result = pin.ADMMSolverSettings(), pin.ADMMSolverResult()
        for tolerance in ("complementarity", "feasibility"):
            setattr(settings, f"absolute_{tolerance}_tol", 1e-12)
            setattr(settings, f"relative_{tolerance}_tol", 1e-12)
        settings.max_iterations, settings.solve_ncp = 20000, True
        scaled = pin.DelassusOperatorDense(unit[:, None] * A * unit)
        pin.ADMMConstraintSolver(3 * count).solve(scaled, unit * v, touches, datas, settings, result)
        found[k] = unit * result.retrieveConstraintImpulses()
    return found


def violation(problems: Problems, p):
    """By how much impulses p violate Coulomb's law, relative to the largest velocity without impulses: the
    largest |p - P(p - s (w + mu |w_t| n))| / s of the touches. P projects onto the cone, s is 1 / |A| of the
    touch."""
    A, v, mu = problems.A, problems.v, problems.mu
    count, touches = len(v), problems.touches
    w = (v + np.einsum("kij,kj->ki", A, p)).reshape(count, touches, 3)
    at = 3 * np.arange(touches)[:, None] + np.arange(3)
    sizes = np.linalg.norm(A[:, at[:, :, None], at[:, None, :]], 2, axis=(2, 3))
    w[..., 2] += mu * np.hypot(w[..., 0], w[..., 1])
    p = p.reshape(count, touches, 3)
    left = p - onto_cone(p - w / sizes[..., None], mu)
    return (np.linalg.norm(left, axis=2) * sizes).max(axis=1) / np.abs(v).max(axis=1)


def onto_cone(p, mu):
    """The closest points (..., 3) of the cones |p_t| <= mu p_n."""
    t, n = np.hypot(p[..., 0], p[..., 1]), p[..., 2]
    normal = np.maximum(0.0, (mu * t + n) / (1 + mu * mu))
    outside = t > mu * n
    share = np.where(outside, mu * normal / np.maximum(t, 1e-300), 1.0)
    return np.stack([share * p[..., 0], share * p[..., 1], np.where(outside, normal, n)], axis=-1)


def error(problems: Problems, p, best):
    """The velocities that p gives the bodies, less those of the exact p: relative to the latter in the norm
    of kinetic energy."""
    d = p - best
    energies = [np.maximum(0.0, np.einsum("ki,kij,kj->k", x, problems.A, x)) for x in (d, best)]
    return np.sqrt(energies[0] / np.maximum(energies[1], 1e-300))
