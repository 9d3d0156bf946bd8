"""Plots of the demos, and a GIF of `tracking`: the arm, its target, and its errors."""

import re

import numpy as np

from dynamics_demo.animation import FINER, FRAMES, SIZE, WIDE, coarser, opened, specification, write_gif
from dynamics_demo.panda import PANDA_JOINTS
from dynamics_demo.tracked_arm import CYCLE, PAYLOAD, THIRDS, described

ARM = f"Panda with {PAYLOAD.mass:g} kg in its hand"
SHADES = ("#fbe9e7", "#fff6e0", "#e8f5e9")  # of the thirds
MISSING = np.array([230, 90, 20])  # color of the target


def plot_torques(monitor, path):
    """Published and computed torques over time, their difference, and the gap of a loop."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    t = np.array(monitor.times) - monitor.times[0]
    published, computed = np.array(monitor.published), np.array(monitor.computed)
    panels = 3 if monitor.drifts else 2
    figure, (above, *others) = pyplot.subplots(
        panels, 1, figsize=(10, 3.5 + 1.5 * panels), sharex=True, height_ratios=(3, *[1] * (panels - 1)),
        layout="constrained",
    )  # fmt: skip
    for k, name in enumerate(monitor.robot.joints):
        (line,) = above.plot(t, published[:, k], label=name)
        above.plot(t[::25], computed[::25, k], "o", markersize=2.5, color=line.get_color(), alpha=0.6)
    above.set_ylabel("torque [N m]")
    title = "inverse dynamics over ROS 2 topics: lines published, dots Pinocchio"
    above.set_title(f"{monitor.robot.title}, {title}")
    above.legend(ncols=4, fontsize=8)
    series = [(np.abs(published - computed).max(axis=1), "largest\ndifference [N m]")]
    series += [(np.array(monitor.drifts), "opening of\nthe loop [m]")] if monitor.drifts else []
    for axes, (values, label) in zip(others, series, strict=True):
        axes.semilogy(t, np.maximum(values, 1e-18), linewidth=0.6)
        axes.set_ylabel(label)
    others[-1].set_xlabel("time [s]")
    for axes in (above, *others):
        axes.grid(alpha=0.3)
    figure.savefig(path, dpi=110)
    pyplot.close(figure)


def plot_tracking(tracking, path):
    """Tracking errors, torques, and their difference from Pinocchio over time."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    t, thirds = tracking.time, np.linspace(0.0, tracking.trajectory.seconds, 4)
    figure, axes = pyplot.subplots(
        3, 1, figsize=(10, 8.5), sharex=True, height_ratios=(3, 2.4, 1), layout="constrained"
    )
    errors, torques, difference = axes
    known = np.isfinite(tracking.difference)
    for k, name in enumerate(PANDA_JOINTS):
        (line,) = errors.plot(t, 1e3 * tracking.error[:, k], linewidth=1.1, label=name.removeprefix("panda_"))
        torques.plot(t[known], tracking.torque[known, k], linewidth=1.0, color=line.get_color())
        dots = slice(k * 3, None, 50)
        torques.plot(
            t[dots], tracking.expected[dots, k], "o", markersize=2.5, color=line.get_color(), alpha=0.6
        )
    top = 1.45e3 * np.nanmax(np.abs(tracking.error))
    errors.set_ylim(-top, top)
    for n, name in enumerate(THIRDS):
        middle = thirds[n : n + 2].mean()
        label = f"{name}\n{1e3 * tracking.overall(n):.2g} mrad"
        errors.text(middle, 0.95 * top, label, ha="center", va="top", fontsize=13, linespacing=1.4)
        for own in axes:
            own.axvspan(*thirds[n : n + 2], color=SHADES[n], linewidth=0, zorder=-1)
    errors.set_title(f"{ARM} follows a trajectory in MuJoCo: torques of dynamics_node over ROS 2 topics")
    errors.set_ylabel("tracking error [mrad]")
    errors.legend(ncols=7, fontsize=8, loc="lower center")
    torques.set_ylabel("torque [N m]")
    torques.set_title("published torques (lines) and Pinocchio's (dots)", fontsize=10)
    largest = np.abs(tracking.torque - tracking.expected).max(axis=1)
    difference.semilogy(t[known], np.maximum(largest[known], 1e-18), linewidth=0.6, color="#444")
    difference.set_ylabel("difference [N m]")
    difference.set_xlabel("time [s]")
    difference.set_xlim(0, tracking.trajectory.seconds)
    for own in axes:
        own.grid(alpha=0.3)
    figure.savefig(path, dpi=110)
    pyplot.close(figure)


def plot_touches(monitor, path):
    """Estimate with its three-sigma band and the truth, joint by joint, and the detected contacts."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    t, estimates = np.array(monitor.times), np.array(monitor.estimates)
    truths, bands = np.array(monitor.truths), 3 * np.array(monitor.sigmas)
    figure, axes = pyplot.subplots(4, 2, figsize=(11, 9), sharex=True, layout="constrained")
    *panels, last = axes.flat
    for k, (own, name) in enumerate(zip(panels, PANDA_JOINTS, strict=True)):
        low, high = estimates[:, k] - bands[:, k], estimates[:, k] + bands[:, k]
        own.fill_between(t, low, high, color="#4a7fb5", alpha=0.35, linewidth=0, label="three sigma")
        own.plot(t, estimates[:, k], color="#4a7fb5", linewidth=0.8, label="estimate of the node")
        own.plot(t, truths[:, k], color="#333", linewidth=1.0, label="applied in MuJoCo")
        own.set_title(name, fontsize=9)
        own.set_ylabel("N m")
    panels[0].legend(fontsize=8)
    last.fill_between(t, 0, np.any(truths, axis=1), color="#333", alpha=0.2, linewidth=0, label="touched")
    last.plot(t, np.array(monitor.contacts, dtype=float), color="#d9534f", label="~/contact")
    last.set_yticks([0, 1])
    last.legend(fontsize=8)
    for own in axes[-1]:
        own.set_xlabel("time [s]")
    for own in axes.flat:
        own.grid(alpha=0.3)
    figure.suptitle("External forces on a Panda in MuJoCo, at link 4, hand and link 6, without force sensors")
    figure.savefig(path, dpi=110)
    pyplot.close(figure)


# --- the GIF -----------------------------------------------------------------------------------------------


class Drawing:
    """Renders the arm.

    Raises ImportError with the installation command if MuJoCo cannot render.
    """

    def __init__(self):
        self._mujoco, self._model, self._renderer = opened(_renderer)
        mujoco = self._mujoco
        self._at = [self._model.joint(name).qposadr[0] for name in PANDA_JOINTS]
        self._data = mujoco.MjData(self._model)
        self._camera = mujoco.MjvCamera()
        self._camera.distance, self._camera.azimuth, self._camera.elevation = 1.65, 108, -15
        self._camera.lookat[:] = 0.25, 0.0, 0.46

    def close(self):
        """Free driver resources."""
        self._renderer.close()

    def picture(self, q, wanted):
        """(SIZE, SIZE, 3) bytes of the arm at q (7,); uncovered parts of the target at `wanted` (7,) are
        colored."""
        seen, covered = self._drawn(q)
        _, target = self._drawn(wanted, colors=False)
        outline = target & ~_shrunk(target, 2 * FINER)
        share = (0.55 * (target & ~covered) + 0.45 * (outline & ~covered))[..., None]
        picture = (1 - share) * seen + share * MISSING
        return coarser(picture)

    def _drawn(self, q, colors=True):
        """Pixels of the arm at q, and its mask."""
        self._data.qpos[self._at] = q
        self._mujoco.mj_forward(self._model, self._data)
        self._renderer.update_scene(self._data, self._camera)
        seen = self._renderer.render().astype(float) if colors else None
        self._renderer.enable_segmentation_rendering()
        arm = self._renderer.render()[..., 0] >= 0
        self._renderer.disable_segmentation_rendering()
        if colors:
            seen[~arm] = 255
        return seen, arm


def _renderer(mujoco):
    """The module, the arm with its collision meshes and the ball in its hand, and its renderer."""
    text = re.sub(r"<visual\b.*?</visual>", "", described(), flags=re.S)
    spec = specification(mujoco, "panda", text, visual=False)
    for geom in spec.geoms:
        geom.rgba = [0.86, 0.87, 0.9, 1]
    ball = {"type": mujoco.mjtGeom.mjGEOM_SPHERE, "size": [PAYLOAD.radius, 0, 0], "pos": PAYLOAD.center}
    spec.body(PAYLOAD.link).add_geom(**ball, rgba=[0.2, 0.3, 0.45, 1])
    model = spec.compile()
    return mujoco, model, mujoco.Renderer(model, SIZE * FINER, SIZE * FINER)


def _shrunk(mask, width):
    """A mask eroded by some pixels."""
    for axis in (0, 1):
        mask = mask & np.roll(mask, width, axis) & np.roll(mask, -width, axis)
    return mask


def save_animation(tracking, path):
    """Render all pictures of a run and write the GIF. Raises as `Drawing`."""
    drawing, page = Drawing(), _Page(tracking)
    known = np.flatnonzero(np.isfinite(tracking.q[:, 0]))
    pictures = []
    for t in np.arange(0.0, tracking.trajectory.seconds, 1 / FRAMES):
        k = known[max(np.searchsorted(known, t / CYCLE, side="right") - 1, 0)]
        arm = drawing.picture(tracking.q[k], tracking.trajectory.smooth(k * CYCLE)[0])
        pictures.append(page.picture(k, arm))
    drawing.close()
    write_gif(pictures, path)


class _Page:
    """The arm, and the tracking errors so far."""

    def __init__(self, tracking):
        import matplotlib

        matplotlib.use("Agg")
        from matplotlib import pyplot

        self._tracking = tracking
        self._figure = pyplot.figure(figsize=((SIZE + WIDE) / 100, SIZE / 100), dpi=100)
        self._arm = self._figure.figimage(np.full((SIZE, SIZE, 3), 255, dtype=np.uint8), 0, 0)
        color = MISSING / 255
        left, middle = SIZE / (SIZE + WIDE) / 2, 1 - WIDE / (SIZE + WIDE) / 2
        self._figure.text(left, 0.03, "target of the arm", color=color, ha="center", fontsize=11)
        self._name = self._figure.text(middle, 0.92, "", ha="center", fontsize=17, weight="bold")
        self._number = self._figure.text(middle, 0.85, "", ha="center", fontsize=13)
        axes = self._figure.add_axes((0.56, 0.12, 0.42, 0.62))
        known = np.isfinite(tracking.error[:, 0])
        self._t, self._errors = tracking.time[known], 1e3 * tracking.error[known]
        self._lines = [axes.plot([], [], linewidth=1.3)[0] for _ in PANDA_JOINTS]
        top = 1.05 * np.abs(self._errors).max()
        axes.set_xlim(0, tracking.trajectory.seconds)
        axes.set_ylim(-top, top)
        axes.set_xlabel("time [s]")
        axes.set_title("errors of the seven joints [mrad]", fontsize=10)
        axes.grid(alpha=0.3)
        borders = np.linspace(0.0, tracking.trajectory.seconds, 4)
        for n in range(3):
            axes.axvspan(*borders[n : n + 2], color=SHADES[n], linewidth=0, zorder=-1)

    def picture(self, k, arm):
        """(SIZE, SIZE + WIDE, 3) bytes of a cycle; arm: its picture."""
        tracking, n = self._tracking, min(3 * k // self._tracking.cycles, 2)
        until = np.searchsorted(self._t, k * CYCLE, side="right")
        for line, errors in zip(self._lines, self._errors.T, strict=True):
            line.set_data(self._t[:until], errors[:until])
        self._arm.set_data(arm)
        self._name.set_text(THIRDS[n])
        self._number.set_text(f"{1e3 * tracking.overall(n):.2g} mrad root mean square")
        self._figure.canvas.draw()
        return np.asarray(self._figure.canvas.buffer_rgba())[..., :3].copy()
