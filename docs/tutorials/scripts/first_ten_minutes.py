"""
First ten minutes with the library
==================================

You load a robot, compute its torques and accelerations, and then a thousand states at once. You need
the package and the Panda: ``pip install '.[demo]'`` in a checkout, or ``./dev run -- python`` in place of
``python``.
"""

# %%
# Load a robot
# ------------
#
# A robot comes from a URDF file. ``example_robot`` reads one of the package ``example-robot-data``; for your
# own file it is ``dn.load_robot("arm.urdf")``.

import matplotlib.pyplot as plt
import numpy as np

import dynamics_node as dn

robot = dn.example_robot("panda", tips=["panda_hand"])
print(robot.name, robot.nq, robot.nv)
print(robot.v_names)

# %%
# ``joints`` lists the joints that move. The fingers of the hand stay at zero, and their mass is included.
# Without ``joints``, the Panda has eight coordinates: the second finger mimics the first one, and has none of
# its own.
#
# ``robot.v_names`` is the order of every vector: positions ``q``, velocities ``qd``, accelerations ``qdd``
# and torques ``tau``. It is the order of the URDF. Units are rad, m, s, N m and N.
#
# Torques
# -------
#
# ``build`` compiles a function for this robot. That takes a fraction of a second, once: the code is cached.

inverse = dn.build(robot, "inverse_dynamics")

q = np.array([0.0, -0.8, 0.0, -2.3, 0.0, 1.6, 0.8])
qd = np.zeros(7)
qdd = np.zeros(7)
gravity_torques = inverse(q, qd, qdd)
for name, torque in zip(robot.v_names, gravity_torques, strict=True):
    print(f"{name}: {torque:8.3f} N m")

# %%
# At rest, inverse dynamics returns the torques that hold the robot against gravity. They are also the
# quantity ``gravity_torque``. ``evaluate`` computes a quantity in one call. The first call
# compiles, as ``build`` does; later calls reuse the function:

print(np.abs(dn.evaluate(robot, "gravity_torque", q) - gravity_torques).max() < 1e-12)

# %%
# Accelerations
# -------------
#
# Forward dynamics is the inverse of inverse dynamics. Both agree to rounding:

forward = dn.build(robot, "forward_dynamics")
qdd = np.linspace(-1.0, 1.0, 7)
tau = inverse(q, qd, qdd)
print(np.abs(forward(q, qd, tau) - qdd).max() < 1e-10)

# %%
# A thousand states
# -----------------
#
# Every function accepts batches: any number of axes before the last one. One call computes all states, in
# vectors and on all cores. Here joint 4 moves through its range while the others stay.

many = np.tile(q, (1000, 1))
many[:, 3] = np.linspace(-3.0, -0.1, 1000)
torques = inverse(many, np.zeros((1000, 7)), np.zeros((1000, 7)))
print(torques.shape)

fig, ax = plt.subplots(figsize=(7, 3.5), layout="constrained")
for index in (1, 3, 5):
    ax.plot(many[:, 3], torques[:, index], label=robot.v_names[index])
ax.set(xlabel="position of panda_joint4 [rad]", ylabel="gravity torque [N m]")
ax.legend(frameon=False)
ax.grid(alpha=0.3)

# %%
# Mass matrix and Jacobian
# ------------------------
#
# More quantities have names: the mass matrix, Jacobians, energies, momenta, regressors. The table is in
# :doc:`/reference/quantities`. Options such as the link are keywords.

M = dn.build(robot, "mass_matrix")(q)
J = dn.build(robot, "frame_jacobian", link="panda_hand")(q)
print(M.shape, J.shape)
print(np.linalg.eigvalsh(M).min() > 0)

# %%
# The six rows of a Jacobian are angular first, then linear. The order holds for every 6-vector of the
# library; :doc:`/reference/conventions` lists this and the other conventions.
#
# Several results are a named tuple:

hand = dn.build(robot, "frame_kinematics", link="panda_hand")(q, qd, qdd)
print(hand._fields)
print(hand.position.round(3))

# %%
# Derivatives
# -----------
#
# ``derivatives()`` builds the exact derivatives of a function, for optimal control and Gauss-Newton
# methods:

derivatives = forward.derivatives()(q, qd, tau)
print(derivatives._fields)
print(np.allclose(derivatives.dqdd_dtau @ M, np.eye(7)))

# %%
# The derivative of the accelerations with respect to the torques is the inverse of the mass matrix.
#
# A payload
# ---------
#
# ``with_payload`` returns another robot: a kilogram in the hand, 5 cm from its origin, as a small ball.

loaded = dn.with_payload(robot, "panda_hand", 1.0, com=[0, 0, 0.05], inertia_com=1e-3 * np.eye(3))
more = dn.build(loaded, "inverse_dynamics")(q, qd, np.zeros(7)) - gravity_torques
print(more.round(2))

# %%
# A wrong argument
# ----------------
#
# Arguments are checked, and errors name the argument and the joint:

try:
    inverse(q[:6], qd, qdd)
except dn.InputError as error:
    print(error)

# %%
# You can now compute with any URDF. :doc:`/tutorials/first_torque` publishes these torques on a topic;
# :doc:`closed_loop` and :doc:`humanoid` are about robots that are more than an arm.
