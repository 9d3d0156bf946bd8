"""Torque errors of approximate models of geared robots (paper 3, figure 14): a humanoid's leg on sinusoids.

Two approximations are compared with exact inverse dynamics: the independent tree with reflected rotor inertia
("approximate") and without ("unconstrained"). Errors are RMS values, also relative to the largest torque.
--robots FOLDER with mit_humanoid.urdf adds the article's robot. --plot draws the figure.
"""

from pathlib import Path

import harness
import numpy as np
from cluster_alternatives import independent_tree

import dynamics_node as dn
from dynamics_demo.robots import humanoid

RATE, SECONDS = 500.0, 4.0
AMPLITUDE = 0.4  # rad
FREQUENCIES = np.array([0.6, 0.8, 1.0, 1.25, 1.5])  # Hz, from the hip to the ankle
NAMES = ("approximate", "unconstrained")


def leg(text, foot):
    """Names of the joints between the base and a foot, including rotors, without the floating base."""
    mechanism = dn.parse_robot(text)
    tree, chain = mechanism.tree, set(mechanism.tree.ancestors[mechanism.frame(foot).body])
    bodies = set(chain)
    for cluster in mechanism.clusters:
        if chain & set(cluster.bodies):
            bodies |= set(cluster.bodies)
    return [tree.bodies[i].joint.name for i in sorted(bodies) if tree.bodies[i].joint.kind != "floating"]


def motion(t, n):
    """q, qd, qdd (len(t), n): a sine at every joint, each with its own frequency."""
    omega = 2 * np.pi * FREQUENCIES[:n]
    phase = t[:, None] * omega
    return AMPLITUDE * np.sin(phase), AMPLITUDE * omega * np.cos(phase), -AMPLITUDE * omega**2 * np.sin(phase)


def torques(text, foot):
    """t (k,), names of the joints, and {method: torques (k, n)} of a leg."""
    joints = leg(text, foot)
    exact = dn.parse_robot(text, joints=joints)
    t = np.arange(0, SECONDS, 1 / RATE)
    y, yd, ydd = motion(t, exact.nv)
    q = np.zeros((len(t), exact.nq))
    q[:, [joint.q.start for joint in exact.independent_joints]] = y
    torques_by_method = {"exact": dn.build(exact, "inverse_dynamics")(dn.close_loops(exact, q), yd, ydd)}
    for name, reflect in zip(NAMES, (True, False), strict=True):
        model = independent_tree(text, reflect=reflect, joints=joints)
        assert model.joint_names == exact.joint_names
        torques_by_method[name] = dn.build(model, "inverse_dynamics")(y, yd, ydd)
    return t, exact.joint_names, torques_by_method


def rows_of(robot, names, torques_by_method):
    exact = torques_by_method["exact"]
    for method in NAMES:
        rms = np.sqrt(np.mean((torques_by_method[method] - exact) ** 2, axis=0))
        for k, name in enumerate(names):
            note = f"{100 * rms[k] / np.abs(exact[:, k]).max():.2f} % of the largest torque"
            yield harness.Row(f"{robot}, {name}, {method}", float(rms[k]), "N m", "lower", reason=note)


def draw(path, robot, t, names, torques_by_method):
    """Draw the torque of the ankle and the errors of the approximations."""
    import matplotlib as mpl

    mpl.use("Agg")
    from matplotlib import pyplot

    mpl.rcParams["svg.hashsalt"] = "dynamics_node"
    exact = torques_by_method["exact"][:, -1]
    figure, (above, below) = pyplot.subplots(2, 1, figsize=(9, 5.5), sharex=True, layout="constrained")
    above.plot(t, exact, color="#333", label="exact, by clusters")
    for method, color in zip(NAMES, ("#4a7fb5", "#d9534f"), strict=True):
        above.plot(t, torques_by_method[method][:, -1], "--", color=color, label=method)
        below.plot(t, torques_by_method[method][:, -1] - exact, color=color, label=method)
    above.set(title=f"{robot}, {names[-1]}: inverse dynamics on sinusoids", ylabel="torque [N m]")
    below.set(ylabel="difference to\nthe exact one [N m]", xlabel="time [s]")
    for axes in (above, below):
        axes.grid(alpha=0.3)
        axes.legend(frameon=False)
    figure.savefig(path, metadata={"Date": None})


def main():
    parser = harness.arguments("accuracy")
    parser.add_argument("--robots", type=Path, help="folder with mit_humanoid.urdf")
    parser.add_argument("--plot", type=Path, help="FILE.svg of the leg of the project's own humanoid")
    options = parser.parse_args()
    legs = {"humanoid": (humanoid(), "left_foot")}
    if options.robots:
        legs["mit_humanoid"] = ((options.robots / "mit_humanoid.urdf").read_text(), "left_ankle_link")
    rows = []
    for robot, (text, foot) in legs.items():
        t, names, torques_by_method = torques(text, foot)
        rows += rows_of(robot, names, torques_by_method)
        if options.plot and robot == "humanoid":
            draw(options.plot, robot, t, names, torques_by_method)
    harness.finish("accuracy", rows, harness.versions("numpy"), options.save)


if __name__ == "__main__":
    main()
