"""
Forces along a path
===================

The forces that a Panda can exert along a path: their polytopes, and the largest upward force with and without
a payload. The effective mass of its hand in a collision.

./dev run -- python examples/capability.py [picture.png]
"""

# %%
# A path
# ------
#
# The hand moves from one side to the other and reaches out. ``capability`` takes all positions at once.

import sys

import matplotlib.pyplot as plt
import numpy as np
from mpl_toolkits.mplot3d.art3d import Poly3DCollection
from scipy.spatial import ConvexHull

import dynamics_node as dn

robot = dn.example_robot("panda", tips=["panda_hand"])
ends = np.array([[0.9, -0.9, 0.0, -2.5, 0.0, 1.6, 0.8], [-0.9, 1.0, 0.0, -0.45, 0.0, 1.45, 0.8]])
share = np.linspace(0, 1, 101)
q = dn.interpolate(robot, ends[0], ends[1], share)
bare = dn.capability(robot, "panda_hand", q, backend="numpy")
print(bare)

# %%
# In a direction
# --------------
#
# ``along`` returns the largest force, or acceleration, in a direction. A payload takes its weight from the
# upward force, and shifts the polytopes.

up = [0.0, 0.0, 1.0]
loaded = dn.capability(
    dn.with_payload(robot, "panda_hand", 2.0, com=[0.0, 0.0, 0.1]), "panda_hand", q, backend="numpy"
)
upward = bare.force.along(up), loaded.force.along(up)
for name, force in zip(("without payload", "with 2 kg"), upward, strict=True):
    print(f"upward force, {name}: {force[0]:.0f} N at the start, {force[-1]:.0f} N at the end")

# %%
# A collision
# -----------
#
# The effective mass in the direction of the motion is the mass that another body meets there.

jacobian = dn.evaluate(robot, "frame_jacobian", q, link="panda_hand", backend="numpy")
motion = jacobian[:, 3:] @ (ends[1] - ends[0])
mass = dn.effective_mass(robot, "panda_hand", q, motion, backend="numpy")
yoshikawa = dn.manipulability(robot, "panda_hand", q, backend="numpy").measure
print(f"effective mass along the path: {mass.min():.1f} to {mass.max():.1f} kg")

# %%
# The picture
# -----------
#
# Vertices are exact; their convex hull has the faces. The polytopes are drawn at the hand, 1 m for 600 N.

figure = plt.figure(figsize=(9, 4.2), layout="constrained")
space = figure.add_subplot(1, 2, 1, projection="3d")
shown = [0, 50, 100]
drawing = dn.robot_drawing(robot, q[shown])
hands = dn.evaluate(robot, "frame_pose", q[shown], link="panda_hand", backend="numpy").position
for k, color in enumerate(("#2f6fb5", "#1b6e3c", "#c4572b")):
    for first, second, _ in drawing.bars:
        space.plot(*drawing.points[k, [first, second]].T, color=color, linewidth=2)
    vertices = bare.force.vertices()[shown[k]]
    corners = hands[k] + vertices[np.isfinite(vertices).all(axis=1)] / 600
    faces = corners[ConvexHull(corners).simplices]
    space.add_collection3d(Poly3DCollection(faces, facecolor=color, edgecolor="none", alpha=0.25))
space.set(xlabel="x, m", ylabel="y, m", zlabel="z, m", title="forces of the hand")
space.set_aspect("equal")
space.view_init(elev=20, azim=-70)
rows = figure.add_gridspec(2, 2)
top, below = (figure.add_subplot(rows[k, 1]) for k in range(2))
for name, force in zip(("without payload", "2 kg"), upward, strict=True):
    top.plot(share, force, label=name)
top.set(title="largest upward force, N", ylim=(0, None))
top.legend()
below.plot(share, mass, label="effective mass, kg")
below.plot(share, 100 * yoshikawa, label="manipulability, 0.01 m³")
below.set(xlabel="position on the path", ylim=(0, None))
below.legend()

if len(sys.argv) > 1:
    figure.savefig(sys.argv[1], dpi=80)
