"""
A robot on its feet
===================

You compute the torques with which a quadruped stands, lifts a foot and squats, and roll them out on a ground
with friction. You need the Solo12 and the solver DAQP: ``pip install '.[demo,contacts]'`` in a checkout, or
``./dev run -- python`` in place of ``python``.
"""

# %%
# Feet
# ----
#
# A ``Contact`` is a place where the ground can push. Without further arguments it is a point at the origin of
# its link, and its normal is up.

import matplotlib.pyplot as plt
import numpy as np

import dynamics_node as dn

robot = dn.example_robot("solo12")
names = ["FL_FOOT", "FR_FOOT", "HL_FOOT", "HR_FOOT"]
feet = [dn.Contact(name, friction=0.6) for name in names]
print(robot.v_names[:9])

# %%
# The first six coordinates are those of the base, which has no motor. Three joints of every leg follow. Both
# parts of a leg are 16 cm long, so the positions of the joints have a closed form. The feet stay where they
# are, and the base goes up, down and forward:


def stance(height, forward=0.0):
    lean = np.arctan2(forward, height)
    bend = np.arccos(np.hypot(forward, height) / 0.32)
    front, hind = [0.0, lean + bend, -2 * bend], [0.0, lean - bend, 2 * bend]
    return np.array([forward, 0.0, height, 0.0, 0.0, 0.0, 1.0, *front, *front, *hind, *hind])


q, rest = stance(0.25), np.zeros(robot.nv)

# %%
# Stand
# -----
#
# Inverse dynamics with contacts returns the torques and the forces on the feet. Many forces carry the robot;
# the result has the shortest. The last argument is 1 for every foot that touches the ground.

inverse = dn.build(robot, dn.inverse_dynamics(robot, feet))
tau, forces = inverse(q, rest, rest, [1, 1, 1, 1])
print("base:", np.abs(tau[:6]).max() < 1e-9)
print("front left leg:", tau[6:9].round(3), "N m")
print("forces:\n", forces.reshape(4, 3).round(2) + 0.0, "N")

# %%
# Forward dynamics with the same contacts confirms them: these torques cause no acceleration.

forward = dn.build(robot, dn.forward_dynamics(robot, feet))
print(np.abs(forward(q, rest, tau, [1, 1, 1, 1]).qdd).max() < 1e-9)

# %%
# Balance
# -------
#
# Which feet can the robot lift? It stays at rest if its center of mass is above the support region.

region = dn.support_region(robot, q, feet, active=[1, 1, 1, 0])
centers = [dn.evaluate(robot, "center_of_mass", stance(0.25, x)).position for x in (-0.04, 0.04)]

fig, ax = plt.subplots(figsize=(7, 5.5), layout="constrained")
ax.fill(*dn.support_region(robot, q, feet).T, color="0.9", label="four feet")
ax.fill(*region.T, color="tab:blue", alpha=0.3, label="hind right foot in the air")
ax.plot(*centers[0][:2], "x", color="tab:red", label="center of mass, 4 cm back")
ax.plot(*centers[1][:2], "o", color="tab:green", label="center of mass, 4 cm forward")
ax.set(xlabel="x [m]", ylabel="y [m]", aspect="equal")
fig.legend(frameon=False, loc="outside lower center", ncols=2)

# %%
# ``build_contact_solver`` searches for forces within the cones of friction: feet push and never pull. Such
# forces exist with the body forward. With the body back there are none, and the error names the feet.

solver = dn.build_contact_solver(robot, feet)
for x in (0.04, -0.04):
    try:
        found = solver(stance(0.25, x), rest, rest, active=[1, 1, 1, 0])
        print("normal forces:", found.contact_forces[2::3].round(2) + 0.0, "N")
    except dn.SolutionError as error:
        print(error)

# %%
# Squat
# -----
#
# The base goes down by 8 cm and up again in 0.6 s. Every function accepts a batch of states, so one call
# computes the whole motion. The base does not turn: its velocity is the derivative of its position. It is
# 3 cm forward, so the front feet carry more; the curves of left and right feet coincide.

dt = 0.001
t = np.arange(601) * dt
path = np.array([stance(h, 0.03) for h in 0.21 + 0.04 * np.cos(2 * np.pi * t / t[-1])])
qd = np.zeros((len(t), robot.nv))
qd[:, 3:] = np.gradient(np.delete(path, range(3, 7), axis=1), dt, axis=0, edge_order=2)
qdd = np.gradient(qd, dt, axis=0, edge_order=2)
squat = solver(path, qd, qdd)

fig, axes = plt.subplots(2, 1, figsize=(7, 5), sharex=True, layout="constrained")
axes[0].plot(t, squat.contact_forces[:, 2::3], label=names)
axes[0].set(ylabel="normal force [N]")
axes[1].plot(t, squat.tau[:, 6:9], label=robot.v_names[6:9])
axes[1].set(xlabel="time [s]", ylabel="torque [N m]")
for ax in axes:
    ax.legend(frameon=False, loc="upper left", bbox_to_anchor=(1.0, 1.0))
    ax.grid(alpha=0.3)

# %%
# The smallest margin is the distance of a force or torque from its limit:

worst = np.unravel_index(squat.margins.argmin(), squat.margins.shape)
print(solver.limits[worst[1]], squat.margins[worst].round(2))

# %%
# Does it hold?
# -------------
#
# A rollout finds the contacts by itself, with impacts and friction; the forces above are no input. The ground
# is a plane at the height of the feet. Torques alone, without any feedback, move the robot:

foot = dn.evaluate(robot, "frame_kinematics", q, rest, rest, link="FL_FOOT").position
ground = dn.Plane(offset=foot[2], friction=0.6)
simulator = dn.build(robot, "forward_dynamics")
moved = simulator.rollout(path[0], qd[0], squat.tau[:-1], dt=dt, contacts=feet, ground=ground)
print("largest error of the height:", np.abs(moved.q[:, 2] - path[:, 2]).max().round(4), "m")

# %%
# Without the torques it falls. Only its feet touch the ground, so its body goes through it:

fallen = simulator.rollout(path[0], qd[0], 0.0 * squat.tau[:-1], dt=dt, contacts=feet, ground=ground)
print("height:", fallen.q[-1, 2].round(3), "m")

# %%
# A robot on real feet needs feedback on top. :doc:`/how-to/legged_robots` has impacts, derivatives and
# wheels, :doc:`/how-to/contact_forces` the limits and weights of the forces, and :doc:`/how-to/rollouts`
# thousands of rollouts in one call.
