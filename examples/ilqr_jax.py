"""
Iterative LQR in JAX on a closed loop
=====================================

A five-bar linkage moves its tip from left to right and stops. iLQR optimizes the torques of its two motors.
Each step of the dynamics closes the loop; derivatives are exact, and follow the closed loop.

.. image:: ../figures/ilqr_jax.png
   :alt: Path of the tip, angles of the motors and their torques

./dev run -- python examples/ilqr_jax.py [--iterations N] [--plot FILE]
"""
# sphinx_gallery_thumbnail_path = 'figures/ilqr_jax.png'

import argparse
import time

import jax
import jax.numpy as jnp
import numpy as np

import dynamics_node as dn
from dynamics_demo.robots import UPRIGHT, five_bar

jax.config.update("jax_enable_x64", True)

STEPS, DT = 100, 0.01  # s
START, GOAL = (2.2, 1.6), (1.5, 0.7)  # angles of the motors, rad; at rest
TORQUE, SPEED, ANGLE = 1e-3, 100.0, 1000.0  # weights; the last two at the end
DAMPING = 1e-6  # of the backward pass


class Linkage:
    """The five-bar in JAX. A state (nq + nv,) has all positions, closed, and velocities of the motors."""

    def __init__(self, robot):
        self._forward = dn.build(robot, "forward_dynamics").jax()
        self._closing = dn.build_loop_solver(robot).step.jax()  # a Newton step of the dependent joints
        self.nq, self.own = robot.nq, np.array(robot.independent)

    def step(self, x, tau):
        """The state DT later: velocities first, then positions, then the loop."""
        q, qd = x[: self.nq], x[self.nq :]
        qd = qd + DT * self._forward(q, qd, tau)
        q = q.at[self.own].add(DT * qd)
        for _ in range(3):
            q, _ = self._closing(q)
        return jnp.concatenate([q, qd])

    def running_cost(self, x, tau):
        return TORQUE * tau @ tau

    def final_cost(self, x):
        missed = x[self.own] - jnp.array(GOAL)
        return ANGLE * missed @ missed + SPEED * x[self.nq :] @ x[self.nq :]

    def rollout(self, x, taus):
        """All states (STEPS + 1, n), and the cost."""

        def one(x, tau):
            return self.step(x, tau), (x, self.running_cost(x, tau))

        last, (states, costs) = jax.lax.scan(one, x, taus)
        return jnp.vstack([states, last]), costs.sum() + self.final_cost(last)


def backward(linkage, states, taus):
    """Feed-forward terms (STEPS, m) and gains (STEPS, m, n) along a motion."""
    A, B = jax.vmap(jax.jacfwd(linkage.step, (0, 1)))(states[:-1], taus)
    lu = jax.vmap(jax.grad(linkage.running_cost, 1))(states[:-1], taus)
    luu = jax.vmap(jax.hessian(linkage.running_cost, 1))(states[:-1], taus)

    def one(value, stage):
        gradient, hessian = value
        A, B, lu, luu = stage
        q_u, q_x = lu + B.T @ gradient, A.T @ gradient
        q_uu, q_ux, q_xx = luu + B.T @ hessian @ B, B.T @ hessian @ A, A.T @ hessian @ A
        solved = jnp.linalg.solve(q_uu + DAMPING * jnp.eye(len(lu)), jnp.column_stack([q_u, q_ux]))
        k, K = -solved[:, 0], -solved[:, 1:]
        return (q_x + q_ux.T @ k, q_xx + q_ux.T @ K), (k, K)

    last = states[-1]
    value = jax.grad(linkage.final_cost)(last), jax.hessian(linkage.final_cost)(last)
    return jax.lax.scan(one, value, (A, B, lu, luu), reverse=True)[1]


def forward(linkage, states, taus, steps, share):
    """Torques with a share of the feed-forward terms and with feedback, their states and cost."""

    def one(x, stage):
        reference, tau, k, K = stage
        tau = tau + share * k + K @ (x - reference)
        return linkage.step(x, tau), tau

    _, better = jax.lax.scan(one, states[0], (states[:-1], taus, *steps))
    return better, *linkage.rollout(states[0], better)


def optimized(linkage, x, taus, iterations):
    """Torques, states, and the cost of each iteration."""
    improve, search = (jax.jit(f, static_argnums=0) for f in (backward, forward))
    states, cost = linkage.rollout(x, taus)
    costs = [float(cost)]
    for _ in range(iterations):
        steps = improve(linkage, states, taus)
        for share in 0.5 ** np.arange(8):
            tried = search(linkage, states, taus, steps, share)
            if tried[2] < costs[-1]:  # false for NaN, too: a loop that cannot be closed
                taus, states, cost = tried
                break
        costs.append(float(cost))
        if costs[-2] - costs[-1] < 1e-9 * costs[-1]:
            break
    return taus, states, costs


def plot(robot, states, taus, costs, path):
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(1, 3, figsize=(11, 3.6), layout="constrained")
    pose = {link: dn.build(robot, "frame_pose", link=link) for link in ("left_lower", "right_lower")}
    elbows = {link: function(states[:, : robot.nq]).position for link, function in pose.items()}
    rotation = pose["left_lower"](states[:, : robot.nq]).rotation
    tip = elbows["left_lower"] + 0.5 * rotation[..., 0]
    bases = {"left_lower": "left_upper", "right_lower": "right_upper"}
    for k in range(0, STEPS + 1, 20):
        for link, elbow in elbows.items():
            base = dn.evaluate(robot, "frame_pose", states[k, : robot.nq], link=bases[link]).position
            line = np.array([base, elbow[k], tip[k]])
            axes[0].plot(line[:, 0], line[:, 2], "o-", color=str(0.8 - 0.8 * k / STEPS), markersize=3)
    axes[0].plot(tip[:, 0], tip[:, 2], "r", linewidth=1)
    axes[0].set(aspect="equal", xlabel="x [m]", ylabel="z [m]", title="every 0.2 s, and the path of the tip")
    times = DT * np.arange(STEPS)
    axes[1].plot(times, taus, label=robot.v_names)
    axes[1].set(xlabel="time [s]", ylabel="torque [N m]", title="torques of the motors")
    axes[1].legend()
    axes[2].semilogy(costs, "o-")
    axes[2].set(xlabel="iteration", title="cost")
    figure.savefig(path, dpi=110)
    pyplot.close(figure)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--iterations", type=int, default=50)
    parser.add_argument("--plot", metavar="FILE")
    options = parser.parse_args()

    robot = dn.parse_robot(five_bar(UPRIGHT))
    linkage = Linkage(robot)
    q = np.zeros(robot.nq)
    q[robot.independent] = START
    q = dn.first_closed(robot, q)
    holding = dn.evaluate(robot, "gravity_torque", q)
    x, taus = jnp.concatenate([q, np.zeros(robot.nv)]), jnp.tile(holding, (STEPS, 1))
    begin = time.perf_counter()
    taus, states, costs = optimized(linkage, x, taus, options.iterations)
    seconds, states = time.perf_counter() - begin, np.asarray(states)
    print(f"{len(costs) - 1} iterations, cost {costs[0]:.4g} -> {costs[-1]:.4g}, {seconds:.1f} s")
    missed, speed = np.abs(states[-1, robot.independent] - GOAL).max(), np.abs(states[-1, robot.nq :]).max()
    print(f"at the end {missed:.4f} rad from the goal, {speed:.4f} rad/s")
    opening = np.abs(dn.close_loops(robot, states[:, : robot.nq]) - states[:, : robot.nq]).max()
    print(f"the loop is closed within {opening:.1e} rad")
    if options.plot:
        plot(robot, states, taus, costs, options.plot)


if __name__ == "__main__":
    main()
