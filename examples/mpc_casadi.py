"""
Model predictive control in CasADi
==================================

A Panda moves its hand around a post with 60 % of its torques. IPOPT plans the next second every 50 ms, with
exact Hessians of the inverse dynamics and of the position of the hand. The arm carries a load of 1 kg;
the plans do not include it. The first plan takes 21 iterations. With the approximation ``limited-memory`` it
takes 125, and a later plan fails.

.. image:: ../figures/mpc_casadi.png
   :alt: Path of the hand around the post, and torques within their limits

./dev run -- python examples/mpc_casadi.py [--plans N] [--hessian limited-memory] [--plot FILE]
"""
# sphinx_gallery_thumbnail_path = 'figures/mpc_casadi.png'

import argparse
import time

import casadi
import numpy as np

import dynamics_node as dn
from dynamics_demo.panda import PANDA_JOINTS

HAND = "panda_hand"
INTERVALS, STEP = 20, 0.05  # of the horizon, s
SUBSTEPS = 50  # of the simulated arm in an interval
START = np.array([0.9, 0.5, 0.0, -1.8, 0.0, 2.3, 0.8])  # at rest
GOAL = np.array([0.40, -0.50, 0.30])  # m
POST, RADIUS = np.array([0.45, 0.0]), 0.12  # m: axis and radius of a vertical post, with room for the hand
SHARE = 0.6  # of the torques of the URDF
LOAD = 1.0  # kg, which the planner does not know


def planner(robot, hessian):
    """The problem, its variables q, qd, qdd, and its parameters: q and qd now."""
    # the library's functions, compiled; order 2: with second derivatives
    order = 2 if hessian == "exact" else 1
    torque = dn.build(robot, "inverse_dynamics").casadi(order=order)
    pose = dn.build(robot, "frame_pose", link=HAND).casadi(order=order)

    opti = casadi.Opti()
    q, qd = opti.variable(robot.nv, INTERVALS + 1), opti.variable(robot.nv, INTERVALS + 1)
    qdd = opti.variable(robot.nv, INTERVALS)
    now = opti.parameter(robot.nv), opti.parameter(robot.nv)
    tau = torque.map(INTERVALS)(q[:, :-1], qd[:, :-1], qdd) / (SHARE * robot.effort_limits)
    hand = pose.map(INTERVALS + 1)(q)[1]

    inside = opti.variable()  # m^2: how far the post may be entered, after a disturbance
    opti.minimize(
        20 * casadi.sumsqr(hand - GOAL)
        + 0.05 * casadi.sumsqr(tau)
        + 0.1 * casadi.sumsqr(qd)
        + 0.001 * casadi.sumsqr(qdd)
        + 1e3 * inside
    )
    opti.subject_to(q[:, 0] == now[0])
    opti.subject_to(qd[:, 0] == now[1])
    opti.subject_to(q[:, 1:] == q[:, :-1] + STEP * qd[:, :-1] + STEP**2 / 2 * qdd)
    opti.subject_to(qd[:, 1:] == qd[:, :-1] + STEP * qdd)
    opti.subject_to(opti.bounded(-1, casadi.vec(tau), 1))
    outside = casadi.sum1((hand[:2, 1:] - POST) ** 2).T - RADIUS**2
    opti.subject_to(outside >= -inside)
    opti.subject_to(inside >= 0)
    limits = np.tile(robot.velocity_limits, INTERVALS)
    opti.subject_to(opti.bounded(-limits, casadi.vec(qd[:, 1:]), limits))
    options = {"print_level": 0, "sb": "yes", "hessian_approximation": hessian}
    opti.solver("ipopt", {"print_time": False}, options)
    opti.set_initial(q, np.tile(START[:, None], INTERVALS + 1))
    return opti, (q, qd, qdd), now


def planned(problem, q, qd):
    """Accelerations (nv, INTERVALS) from here; the next plan begins with this one, an interval later."""
    opti, variables, now = problem
    opti.set_value(now[0], q)
    opti.set_value(now[1], qd)
    found = opti.solve()
    values = [found.value(variable) for variable in variables]
    for variable, value in zip(variables, values, strict=True):
        opti.set_initial(variable, np.column_stack([value[:, 1:], value[:, -1]]))
    return values[2], found.stats()["iter_count"]


class Arm:
    """A simulated Panda with a load, whose motors follow accelerations by the inverse dynamics without it."""

    def __init__(self, robot):
        self._torque = dn.build(robot, "inverse_dynamics")
        self._forward = dn.build(dn.with_payload(robot, HAND, LOAD, com=(0, 0, 0.1)), "forward_dynamics")
        self._limits = SHARE * robot.effort_limits

    def moved(self, q, qd, qdd):
        """Positions, velocities, and the torques (SUBSTEPS, nv) after an interval."""
        step, torques = STEP / SUBSTEPS, []
        for _ in range(SUBSTEPS):
            torques.append(np.clip(self._torque(q, qd, qdd), -self._limits, self._limits))
            qd = qd + step * self._forward(q, qd, torques[-1])
            q = q + step * qd
        return q, qd, np.array(torques)


def plot(hands, torques, limits, path):
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, (left, right) = pyplot.subplots(1, 2, figsize=(10, 4), layout="constrained")
    left.add_patch(pyplot.Circle(POST[::-1], RADIUS, color="0.85", label="post"))
    left.plot(hands[:, 1], hands[:, 0], ".-", label="hand")
    left.plot(GOAL[1], GOAL[0], "k*", markersize=12, label="goal")
    left.set(
        xlabel="y [m]",
        ylabel="x [m]",
        aspect="equal",
        ylim=(0.2, 0.7),
        title="from above, a point every 50 ms",
    )
    left.legend(loc="lower center", ncols=3)
    time_axis = STEP / SUBSTEPS * np.arange(len(torques))
    for name, values in zip(PANDA_JOINTS, (torques / limits).T, strict=True):
        right.plot(time_axis, values, label=name.removeprefix("panda_"), linewidth=1)
    right.axhline(SHARE, color="k", linestyle=":")
    right.axhline(-SHARE, color="k", linestyle=":")
    right.set(xlabel="time [s]", ylabel="torque / limit of the URDF", title="torques")
    right.legend(ncols=2, fontsize=8)
    figure.savefig(path, dpi=110)
    pyplot.close(figure)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--plans", type=int, default=40)
    parser.add_argument("--hessian", choices=("exact", "limited-memory"), default="exact")
    parser.add_argument("--plot", metavar="FILE")
    options = parser.parse_args()

    robot = dn.example_robot("panda", tips=["panda_hand"])
    problem, arm, q, qd = planner(robot, options.hessian), Arm(robot), START, 0 * START
    position = dn.build(robot, "frame_pose", link=HAND)
    hands, torques, seconds, counts = [position(q).position], [], [], []
    for _ in range(options.plans):
        begin = time.perf_counter()
        accelerations, count = planned(problem, q, qd)
        seconds.append(time.perf_counter() - begin)
        counts.append(count)
        q, qd, own = arm.moved(q, qd, accelerations[:, 0])
        hands.append(position(q).position)
        torques.append(own)
    hands, torques = np.array(hands), np.concatenate(torques)
    nearest = np.linalg.norm(hands[:, :2] - POST, axis=1).min() - RADIUS
    missed = np.linalg.norm(hands[-1] - GOAL)
    count, second = np.median(counts), np.median(seconds)
    print(f"first plan, {options.hessian} Hessian: {counts[0]} iterations, {seconds[0]:.2f} s")
    print(f"medians of {options.plans} plans: {count:.0f} iterations, {second:.3f} s")
    print(f"smallest distance from the post {1e3 * nearest:.1f} mm; from the goal {1e3 * missed:.1f} mm")
    if options.plot:
        plot(hands, torques, robot.effort_limits, options.plot)


if __name__ == "__main__":
    main()
