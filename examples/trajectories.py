"""
Trajectories
============

A robot over time: simulation, its inverse, and external torques from noisy readings.

./dev run -- python examples/trajectories.py [folder for pages that play the motions]
"""
# sphinx_gallery_thumbnail_path = 'figures/demo_four_bar.png'

import sys
from functools import partial
from pathlib import Path

import numpy as np

import dynamics_node as dn
from dynamics_demo.robots import UPRIGHT, five_bar


def main():
    robot = dn.parse_robot(five_bar(UPRIGHT))
    q = dn.close_loops(robot, np.array([-1.2, -0.3, -1.9, 0.2]))

    fallen = dn.simulate(robot, q, duration=1.0)
    open_by = fallen.residuals["position constraint"].max()
    print(f"{robot.name} dropped for 1 s: loops stay closed within {open_by:.0e} m")

    time = np.linspace(0.0, 1.0, 1001)
    lift = 1.0 - np.cos(np.pi * time)
    curve = q[robot.independent] + 0.2 * lift[:, None] * [-1.0, 1.0]
    moved = dn.inverse_trajectory(robot, time, curve, q0=q)
    print(f"torques of j1 and j2 along a curve, at its end: {moved.tau[-1].round(3)} N m")
    back = dn.simulate(robot, moved.q[0], moved.qd[0], steps=1000, torque=moved.tau)
    print(
        f"simulated with these torques it follows the curve within {np.abs(back.q - moved.q).max():.0e} rad"
    )

    estimated = smooth(robot, q)
    for place, motion in {"fallen": fallen, "moved": moved, "estimated": estimated}.items():
        if len(sys.argv) > 1:
            page = Path(sys.argv[1]) / f"{place}.html"
            print(f"written: {dn.write_animation(page, motion, partial(dn.robot_drawing, robot))}")


def smooth(robot, q):
    """An external torque of 0.5 N m acts on joint j1 from 0.3 s on; encoders and motors are noisy."""
    random = np.random.default_rng(0)
    hold = dn.build(robot, "inverse_dynamics")

    def motors(q, qd):
        return hold(q, qd, 200.0 * (q0 - q)[robot.independent] - 30.0 * qd)

    q0, pushed = q, np.array([0.5, 0.0])
    truth = dn.simulate(
        robot, q, duration=0.6, dt=2e-3, torque=lambda t, q, qd: motors(q, qd) + pushed * (t > 0.3)
    )
    push = pushed * (truth.time > 0.3)[:, None]
    readings = {
        "q": truth.q + 1e-4 * random.normal(size=truth.q.shape),
        "tau": truth.tau - push + 0.02 * random.normal(size=push.shape),
    }
    noise = dn.SmootherOptions(encoder_std=1e-4, torque_std=0.02, external_torque_density=10.0)
    estimate = dn.smooth(robot, truth.time, readings, options=noise)
    value, std = estimate.external_torque[-50, 0], estimate.std["external_torque"][-50, 0]
    print(f"external torque: {value:.2f} N m, standard deviation {std:.2f} (true: {push[-50, 0]:.2f})")
    return estimate


if __name__ == "__main__":
    main()
