"""
A closed loop
=============

You load a five-bar linkage, close it, compute the torques of its two motors, and drop it.
"""

# %%
# Load the linkage
# ----------------
#
# A five-bar is a loop of five links and five joints; two of the joints have motors. URDF can only describe
# trees, so the description is URDF+: a tree of four joints, and a ``<loop>`` that joins its ends.

import matplotlib.pyplot as plt
import numpy as np

import dynamics_node as dn
from dynamics_demo.robots import UPRIGHT, five_bar

text = five_bar(UPRIGHT)
print(text[text.index("<loop") : text.index("</loop>") + 7])

robot = dn.parse_robot(text)
print("positions:", robot.q_names)
print("velocities and torques:", robot.v_names)

# %%
# ``j1`` and ``j2`` are independent: they have positions, velocities and torques. The passive joints follow.
# Their positions are in ``q``; their velocities and torques are in no vector, because they depend on those
# of the independent joints.
#
# Close it
# --------
#
# A position is valid only where the loop is closed. ``dn.first_closed`` finds a closed position with the
# independent joints at the requested angles. ``close_loops`` is for positions near a closed one, and keeps
# the branch of assembly.

q = dn.first_closed(robot, np.array([1.9, 0.0, 1.2, 0.0]))
print(q.round(4))

nearby = dn.close_loops(robot, q + 0.02)
print((nearby - q).round(4))

# %%
# Torques
# -------
#
# The functions are the same as for any robot. ``qd`` and ``qdd`` have two numbers, and so does the result:
# the torques of the motors.

inverse = dn.build(robot, "inverse_dynamics")
forward = dn.build(robot, "forward_dynamics")
qd, qdd = np.array([0.3, -0.4]), np.array([0.5, 0.8])
tau = inverse(q, qd, qdd)
print(tau.round(4), "N m")
print(np.abs(forward(q, qd, tau) - qdd).max() < 1e-9)

# %%
# A position that is not closed raises an error that names the loop:

try:
    inverse(q + 0.01, qd, qdd)
except dn.SolutionError as error:
    print(error)

# %%
# ``spanning`` returns positions and velocities of all joints:

for name, angle, rate in zip(robot.q_names, *dn.spanning(robot, q, qd)[:2], strict=True):
    print(f"{name}: {angle:7.3f} rad {rate:7.3f} rad/s")

# %%
# Drop it
# -------
#
# ``simulate`` integrates the motion. The loop stays closed to rounding, since its equations hold exactly at
# every step.

start = dn.close_loops(robot, np.array([-1.2, -0.3, -1.9, 0.2]))
motion = dn.simulate(robot, start, duration=1.0)
print(f"open by at most {motion.residuals['position constraint'].max():.0e} m")

kinetic = dn.build(robot, "kinetic_energy")(motion.q, motion.qd)
potential = dn.build(robot, "potential_energy")(motion.q)
print(f"{np.ptp(potential):.1f} J are exchanged; their sum changes by {np.ptp(kinetic + potential):.1e} J")

fig, ax = plt.subplots(figsize=(7, 3.5), layout="constrained")
ax.plot(motion.time, motion.q, label=robot.q_names)
ax.set(xlabel="time [s]", ylabel="position [rad]")
ax.legend(frameon=False, ncols=4)
ax.grid(alpha=0.3)

# %%
# Gears, belts and mimic joints need no closing: their joints are linear functions of others, and are in no
# vector. :doc:`/reference/files` lists the elements of URDF+; :doc:`/explanation/loops` explains the
# algorithms.
