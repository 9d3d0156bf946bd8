"""
A humanoid
==========

You load a humanoid with a floating base, belts and rotors. You compute the torques and foot forces of
standing, and its momentum.
"""

# %%
# Load it
# -------
#
# ``floating_base=True`` adds six velocities and seven position numbers for the root link.

import numpy as np

import dynamics_node as dn

robot = dn.example_robot("humanoid")
print(robot.nq, robot.nv)
print(robot.q_names[:8])
print(robot.v_names[:7])

# %%
# Positions begin with x, y, z and the quaternion x, y, z, w of the root link in the world. Velocities begin
# with the angular, then the linear velocity in the axes of the root link.
#
# Belts drive the knees and ankles. Their rotors are explicit joints: they have no coordinates, but their
# inertia is included.

q = robot.neutral()
print(q[:7])
print(len(robot.bodies), "bodies")

# %%
# Free fall
# ---------
#
# Without torques and contacts the root accelerates with gravity:

forward = dn.build(robot, "forward_dynamics")
qd = np.zeros(robot.nv)
fall = forward(q, qd, np.zeros(robot.nv))
print(fall[:6].round(6))

# %%
# Standing
# --------
#
# Inverse dynamics at rest returns the joint torques. The first six numbers are the missing moment and force
# on the root: the whole weight.

inverse = dn.build(robot, "inverse_dynamics", f_ext=True)
hanging = inverse(q, qd, np.zeros(robot.nv))
mass = hanging[5] / 9.81
print(f"weight {hanging[5]:.2f} N: {mass:.2f} kg")

# %%
# The ground provides it through the feet. An external wrench acts ON a link, moment first, in the axes of
# the link at its origin. Each of the two feet has six unknowns; the least-squares solution balances the root.

feet = ["left_foot", "right_foot"]
J = np.vstack([dn.build(robot, "frame_jacobian", link=foot, reference="body")(q) for foot in feet])
wrenches = np.linalg.lstsq(J[:, :6].T, hanging[:6], rcond=None)[0].reshape(2, 6)
f_ext = dn.external_wrenches(robot, dict(zip(feet, wrenches, strict=True)))
standing = inverse(q, qd, np.zeros(robot.nv), f_ext)
print("on the root:", np.abs(standing[:6]).max() < 1e-9)
for foot, wrench in zip(feet, wrenches, strict=True):
    print(f"{foot}: force {wrench[3:].round(2)} N")

# %%
# Momentum
# --------
#
# The centroidal momentum matrix maps velocities to the momentum about the center of mass:

A = dn.build(robot, "centroidal_momentum_matrix")(q)
qd = np.random.default_rng(0).uniform(-1, 1, robot.nv)
h = dn.build(robot, "centroidal_momentum")(q, qd)
print(np.allclose(A @ qd, h))

com = dn.build(robot, "center_of_mass")(q)
print(com._fields, com.position.round(3) if hasattr(com, "position") else com[0].round(3))

# %%
# The linear part of the momentum is the mass times the velocity of the center of mass:

print(np.allclose(h[3:], mass * (com[1] @ qd)))

# %%
# :doc:`/how-to/floating_base` is about floating bases in the node; :doc:`/how-to/external_torque` estimates
# contacts.
