"""
Batches of states
=================

Inverse dynamics of a batch of states, and forward dynamics as a check.

./dev run -- python examples/library.py [robot.urdf]
"""
# sphinx_gallery_thumbnail_path = 'figures/explain.png'

import sys

import numpy as np

import dynamics_node as dn
from dynamics_demo.panda import PANDA_JOINTS


def main():
    path, joints = (
        (sys.argv[1], None) if len(sys.argv) > 1 else (dn.example_robot_file("panda"), PANDA_JOINTS)
    )
    model = dn.load_robot(path, joints=joints)
    q, qd, qdd = np.random.default_rng(0).uniform(-1, 1, (3, 1000, model.nv))

    tau = dn.build(model, "inverse_dynamics")(q, qd, qdd)
    back = dn.build(model, "forward_dynamics")(q, qd, tau)
    print(f"{model.name}: torques of the first state [N m]")
    for name, value in zip(model.v_names, tau[0], strict=True):
        print(f"  {name:16} {value:8.3f}")
    worst = np.abs(back - qdd).max()
    print(f"forward dynamics recovers the accelerations of 1000 states within {worst:.1e} rad/s^2")

    link = model.bodies[-1].name
    lambda_inverse, _ = dn.evaluate(model, "operational_space_inertia_inverse", q[0], links=[link])
    print(f"effective mass of {link} along the world z axis: {1 / lambda_inverse[5, 5]:.3f} kg")


if __name__ == "__main__":
    main()
