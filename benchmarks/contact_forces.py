"""Contact forces of one state and of many, against the same quadratic program from Pinocchio's matrices.

Both sides are called from Python with new arrays. The peer has Pinocchio's torques and Jacobians, NumPy's
products, and DAQP with pyramids of eight faces within the cones. Its result is not checked. Ours has exact
cones, and checks the conditions of optimality. At states within limits both have the same solution; at limits
the pyramids are a part of the cones. Thread CPU time on one core; the calls of a row alternate.
"""

import time

import daqp
import harness
import numpy as np
import pinocchio as pin
from robots import robot, robot_file

import dynamics_node as dn

TARGET = 0.25
ROUNDS, CALLS, MANY = 9, 8, 256
FACES = np.arange(8) * np.pi / 4
ANGULAR_FIRST = [3, 4, 5, 0, 1, 2]
FEET = ("FL_FOOT", "FR_FOOT", "HL_FOOT", "HR_FOOT")
SOLES = ("left_sole_link", "right_sole_link")
HALF_LENGTHS, FRICTION = (0.1, 0.06), 0.7


class Peer:
    """Pinocchio and DAQP. points: [(frame, [arm, ...])]: forces at points of links."""

    def __init__(self, model, file, points):
        self.pin = pin.buildModelFromUrdf(str(file), pin.JointModelFreeFlyer())
        self.data = self.pin.createData()
        names = [name for name in list(self.pin.names)[2:]]
        at = [model.v_names.index(name) for name in names]
        self.order = np.array([*ANGULAR_FIRST, *at])  # ours, in the order of theirs
        self.q_order = np.array([*range(7), *(model.q_names.index(name) for name in names)])
        self.frames = [self.pin.getFrameId(link) for link, _ in points]
        self.arms = [
            [np.array([[0, -z, y], [z, 0, -x], [-y, x, 0]]) for x, y, z in arms] for _, arms in points
        ]
        k = sum(map(len, self.arms))
        self.limits = model.effort_limits[self.order][6:]
        faces = np.stack([np.cos(FACES), np.sin(FACES), -FRICTION * np.cos(np.pi / 8) * np.ones(8)], axis=1)
        self.A = np.zeros((self.pin.nv + 8 * k, 3 * k))
        self.A[self.pin.nv :] = np.kron(np.eye(k), faces)
        self.upper, self.lower = np.zeros(len(self.A)), np.full(len(self.A), -1e30)
        self.sense = np.zeros(len(self.A), dtype=np.int32)
        self.sense[:6] = 5

    def __call__(self, q, qd, qdd):
        q, qd, qdd = q[self.q_order], qd[self.order], qdd[self.order]
        tau = pin.rnea(self.pin, self.data, q, qd, qdd)
        pin.computeJointJacobians(self.pin, self.data, q)
        J = np.concatenate(
            [
                self._axes(frame, arms) @ (own[:3] - arm @ own[3:])
                for frame, arms in zip(self.frames, self.arms, strict=True)
                for own in [pin.getFrameJacobian(self.pin, self.data, frame, pin.LOCAL)]
                for arm in arms
            ]
        )
        JA = J[:, 6:]
        nv = len(tau)
        H = np.eye(len(J)) + JA @ JA.T
        self.A[:nv] = J.T
        self.upper[:nv] = self.lower[:nv] = tau
        self.upper[6:nv] += self.limits
        self.lower[6:nv] -= self.limits
        x, _, status, _ = daqp.solve(H, -JA @ tau[6:], self.A, self.upper, self.lower, self.sense)
        if status != 1:
            raise ArithmeticError(status)
        return tau - J.T @ x, x

    def _axes(self, frame, arms):
        """Those of the world for a point, those of the link for a surface."""
        return pin.updateFramePlacement(self.pin, self.data, frame).rotation if len(arms) == 1 else np.eye(3)


def cases():
    """(name, Robot, contacts, Peer)"""
    solo = robot("solo12")
    feet = [dn.Contact(foot, friction=FRICTION) for foot in FEET]
    yield "solo12, four feet", solo, feet, Peer(solo, robot_file("solo12"), [(f, [(0, 0, 0)]) for f in FEET])
    talos = robot("talos")
    soles = [dn.Contact(sole, "surface", half_lengths=HALF_LENGTHS, friction=FRICTION) for sole in SOLES]
    x, y = HALF_LENGTHS
    corners = [(x, y, 0), (x, -y, 0), (-x, -y, 0), (-x, y, 0)]
    yield "talos, two soles", talos, soles, Peer(talos, robot_file("talos"), [(s, corners) for s in SOLES])


PUSHES = {"within limits": 0.0, "at limits": 2.5}  # m/s^2, accelerations of the base


def states(model, count, push):
    """q, qd, qdd near a squat; without push, the contacts hold the robot within all limits."""
    random = np.random.default_rng(0)
    q = np.tile(model.neutral(), (count, 1))
    q[:, 7:] += random.uniform(-0.05, 0.05, (count, model.nq - 7))
    if model.nv == 18:
        q[:, 7:] += [0.0, 0.8, -1.6] * 4
    qd, qdd = random.uniform(-0.1, 0.1, (2, count, model.nv))
    qdd[:, 3:6] += random.uniform(-push, push, (count, 3))
    return q, qd, qdd


def sway(model, count=1000, step=2e-3):
    """q, qd, qdd of a Solo12 whose base sways in circles, at 500 Hz, while its joints move."""
    t = step * np.arange(count)[:, None]
    turn, phase = 2 * np.pi, 2 * np.pi * t + np.arange(model.nv - 6)
    q = np.tile(model.neutral(), (count, 1))
    q[:, 7:] += np.array([0.0, 0.8, -1.6] * 4) + 0.05 * np.sin(phase)
    qd, qdd = np.zeros((2, count, model.nv))
    qd[:, 6:], qdd[:, 6:] = 0.05 * turn * np.cos(phase), -0.05 * turn**2 * np.sin(phase)
    qdd[:, 3:5] = 3.5 * np.hstack([np.sin(turn * t), np.cos(turn * t)])
    return q, qd, qdd


def chosen(solver, every, push):
    """Of states the possible ones, with a push those at which a limit counts."""
    tau, _, margins = solver(*every, errors="nan")
    good = ~np.isnan(tau[:, 0])
    if push:
        good &= margins.min(axis=1) < 1e-6 * np.abs(tau).max(axis=1)
    return [array[good] for array in every]


def elapsed(call):
    begin = time.thread_time_ns()
    call()
    return 1e-3 * (time.thread_time_ns() - begin)


def together(*calls):
    """us of each of the alternating calls: the least of the medians of CALLS turns over ROUNDS rounds."""
    rounds = [[np.median([elapsed(call) for _ in range(CALLS)]) for call in calls] for _ in range(ROUNDS)]
    return np.min(rounds, axis=0)


def rows():
    for name, model, contacts, peer in cases():
        solver = dn.build_contact_solver(model, contacts)
        for where, push in PUSHES.items():
            many = MANY if not push else 4 * MANY
            every = chosen(solver, states(model, many, push), push)
            count = len(every[0])
            different = difference(solver, peer, every)
            print(f"{name}, {where}: {count} of {many} states; tau differ by {different:.1e}")
            yield from times(f"{name}, {where}", solver, peer, every)
        if name.startswith("solo12"):
            yield from times(f"{name}, sways at limits", solver, peer, chosen(solver, sway(model), 1.0))


def times(name, solver, peer, every):
    """Rows of one state and of all."""
    singles, count = list(zip(*every, strict=True))[:32], len(every[0])
    calls = (
        lambda: [solver(*state) for state in singles],
        lambda: [peer(*state) for state in singles],
        lambda: solver(*every),
        lambda: [peer(*state) for state in singles],
    )
    one, theirs, many, again = together(*calls) / [len(singles), len(singles), count, len(singles)]
    yield harness.Row(f"{name}, one state", one, "us", "lower", "Pinocchio + DAQP", theirs, target=TARGET)
    yield harness.Row(
        f"{name}, {count} states", many, "us", "lower", "Pinocchio + DAQP", again, target=TARGET
    )


def difference(solver, peer, every):
    """The largest difference of torques in the order of the peer, relative to the largest torque."""
    worst = 0.0
    for state in list(zip(*every, strict=True))[:32]:
        tau, _ = peer(*state)
        ours = solver(*state).tau[peer.order]
        worst = max(worst, np.abs(tau - ours).max() / np.abs(tau).max())
    return worst


if __name__ == "__main__":
    choices = harness.arguments("contact_forces").parse_args()
    packages = harness.versions("numpy", "pin", "daqp")
    harness.finish("contact_forces", list(rows()), packages, choices.save)
