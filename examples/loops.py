"""
Loops: torques, graph, actuation
================================

A robot with a closed loop: dependent joints, torques of the actuated joints, and an open position.

./dev run -- python examples/loops.py
"""
# sphinx_gallery_thumbnail_path = 'figures/demo_five_bar.png'

import numpy as np

import dynamics_node as dn
from dynamics_demo.robots import UPRIGHT, five_bar


def main():
    robot = dn.parse_robot(five_bar(UPRIGHT))
    print(f"{robot.name}: joints {', '.join(robot.q_names)}; independent {', '.join(robot.v_names)}")

    q = dn.first_closed(robot, np.array([1.9, 0.0, 1.2, 0.0]))  # j1 and j2; the others are solved for
    qd, qdd = np.array([0.3, -0.4]), np.array([0.5, 0.8])
    for name, angle, rate in zip(robot.q_names, *dn.spanning(robot, q, qd)[:2], strict=True):
        print(f"  {name}: {angle:7.3f} rad {rate:7.3f} rad/s")

    tau = dn.build(robot, "inverse_dynamics")(q, qd, qdd)
    print(f"torques of j1 and j2: {tau.round(3)} N m")
    for ordering in ("aba", "colamd"):
        forward = dn.build(robot, "forward_dynamics", solver="factor_graph", ordering=ordering)
        print(f"back through the factor graph, {ordering}: {forward(q, qd, tau).round(12)} rad/s^2")

    driven = dn.algorithms.Actuation(robot, ["j1", "j3", "j4"], weights=[1.0, 4.0, 4.0])
    torques = driven.from_coordinates(q, tau).torques
    print(f"the same by motors at j1, j3 and j4, weighted least squares: {torques.round(3)} N m")

    try:
        dn.build(robot, "inverse_dynamics")(q + 0.01, qd, qdd)
    except dn.SolutionError as error:
        print(f"SolutionError: {error}")


if __name__ == "__main__":
    main()
