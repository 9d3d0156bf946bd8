"""The plot of a robot on legs, and its GIF: the robot with the forces of the node, and its errors."""

import re

import numpy as np

from dynamics_demo.animation import FINER, coarser, opened, specification, write_gif
from dynamics_demo.legged_robots import Legged
from dynamics_demo.plots import SHADES

PHASE_SHADES = (*SHADES, "#e3f2fd")
ARROW = np.array([0.90, 0.30, 0.05, 1.0])  # forces of the node
LENGTH, THICK = 0.8, 0.009  # of an arrow of the whole weight, relative to the distance of the camera
SEEN_THROUGH = 0.6  # opacity of the robot, in which arrows begin
SIZE, WIDE = 340, 360  # pixels: side of the picture of the robot, and width of the curves
FRAMES, COLORS = 10.0, 64  # pictures per second, and colors: a small file
FOOT = 0.016  # m, radius of the drawn point feet


def plot_legged(monitor, path):
    """Errors of the body, normal forces of the node and of MuJoCo, and differences from Pinocchio."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    t, feet = np.array(monitor.times), len(monitor.legged.feet)
    error, forces, ground = (np.array(x) for x in (monitor.error, monitor.forces, monitor.ground))
    figure, axes = pyplot.subplots(
        3, 1, figsize=(10, 8.5), sharex=True, height_ratios=(3, 3, 1), layout="constrained"
    )
    body, normal, difference = axes
    _draw_errors(body, t, error)
    _draw_phases(monitor, body, axes)
    body.set_title(
        f"{monitor.legged.title} on {feet} feet in MuJoCo: torques of dynamics_node over ROS 2 topics"
    )
    body.set_ylabel("error of the body [mm]")
    body.legend(ncols=3, fontsize=8, loc="lower center")
    for k, name in enumerate(monitor.legged.feet):
        (line,) = normal.plot(t, forces[:, k, 5], linewidth=1.0, label=name)
        dots = slice(3 * k, None, 40)
        normal.plot(t[dots], ground[dots, k, 5], "o", markersize=2.5, color=line.get_color(), alpha=0.6)
    normal.set_ylim(-0.02 * monitor.weight, 1.3 * np.percentile(ground[:, :, 5], 99.5))
    normal.set_ylabel("normal force [N]")
    normal.set_title("forces at the feet: of the node (lines) and in MuJoCo (dots)", fontsize=10)
    normal.legend(ncols=4, fontsize=8, loc="upper left")
    difference.semilogy(t, np.maximum(monitor.difference, 1e-18), linewidth=0.6, color="#444")
    difference.set_ylabel("relative difference\nfrom Pinocchio")
    difference.set_xlabel("time [s]")
    difference.set_xlim(0, monitor.seconds)
    for own in axes:
        own.grid(alpha=0.3)
    figure.savefig(path, dpi=110)
    pyplot.close(figure)


def _draw_errors(body, t, error):
    for k, name in enumerate("xyz"):
        body.plot(t, 1e3 * error[:, k], linewidth=1.2, label=name)
    top = 1.5e3 * np.abs(error[:, :3]).max()
    body.set_ylim(-top, top)


def _draw_phases(monitor, body, axes):
    """The shade of each phase, and its name and error."""
    top = body.get_ylim()[1]
    for (name, (begin, end)), color in zip(monitor.phases.items(), PHASE_SHADES, strict=False):
        label = f"{name}\n{1e3 * monitor.position_error(name):.2g} mm"
        body.text((begin + end) / 2, 0.95 * top, label, ha="center", va="top", fontsize=11, linespacing=1.4)
        for own in axes:
            own.axvspan(begin, end, color=color, linewidth=0, zorder=-1)


# --- the GIF -----------------------------------------------------------------------------------------------


class LeggedDrawing:
    """Renders a robot on the ground, and forces at its feet.

    Raises ImportError with the installation command if MuJoCo cannot render.
    """

    def __init__(self, legged: Legged):
        self._legged, robot = legged, legged.robot()
        self._mujoco, self._model, self._renderer = opened(self._renderer_of)
        self._data, self._weight = self._mujoco.MjData(self._model), 9.81 * robot.mass
        self._q_at = [self._model.joint(name).qposadr[0] for name in robot.joint_names]
        self._feet = [self._model.body(foot).id for foot in legged.feet]
        self._camera = self._mujoco.MjvCamera()
        self._camera.distance, self._camera.azimuth, self._camera.elevation = legged.view[1], 150, -14
        self._camera.lookat[:] = 0.0, 0.0, legged.view[0]

    def close(self):
        """Free driver resources."""
        self._renderer.close()

    def picture(self, q, forces):
        """(SIZE, SIZE, 3) bytes of the robot at q (nq,) with wrenches (feet, 6) on its feet."""
        mujoco, data = self._mujoco, self._data
        data.qpos[:7] = q[[0, 1, 2, 6, 3, 4, 5]]
        data.qpos[self._q_at] = q[7:]
        mujoco.mj_forward(self._model, data)
        self._renderer.update_scene(data, self._camera)
        for body, wrench in zip(self._feet, forces, strict=True):
            rotation = data.xmat[body].reshape(3, 3) if self._legged.half_lengths else np.eye(3)
            self._add_arrow(data.xpos[body], rotation @ wrench[3:])
        return coarser(self._renderer.render())

    def _add_arrow(self, place, force):
        """A force from a place; its length is in proportion."""
        mujoco, scene, size = self._mujoco, self._renderer.scene, self._legged.view[1]
        if np.linalg.norm(force) < 0.005 * self._weight:
            return
        arrow, kind = scene.geoms[scene.ngeom], mujoco.mjtGeom.mjGEOM_ARROW
        mujoco.mjv_initGeom(arrow, kind, np.zeros(3), np.zeros(3), np.eye(3).ravel(), ARROW)
        tip = place + LENGTH * size * force / self._weight
        mujoco.mjv_connector(arrow, kind, THICK * size, place, tip)
        scene.ngeom += 1

    def _renderer_of(self, mujoco):
        """The module, the robot with its meshes on a floor, and its renderer."""
        legged = self._legged
        text = re.sub(r"<collision\b.*?</collision>", "", legged.urdf(), flags=re.S)
        spec = specification(mujoco, legged.file, text, visual=True)
        spec.body(legged.base).add_freejoint()
        for geom in spec.geoms:
            geom.rgba = [0.62, 0.66, 0.73, SEEN_THROUGH]
        sky = {"type": mujoco.mjtTexture.mjTEXTURE_SKYBOX, "builtin": mujoco.mjtBuiltin.mjBUILTIN_FLAT}
        spec.add_texture(name="sky", rgb1=[1, 1, 1], rgb2=[1, 1, 1], width=8, height=48, **sky)
        top = 0.0 if legged.half_lengths else -FOOT
        wide = 0.5 * legged.view[1]
        spec.worldbody.add_geom(
            type=mujoco.mjtGeom.mjGEOM_BOX, size=[0.6 * wide, 0.45 * wide, 0.01 * wide],
            pos=[0, 0, top - 0.01 * wide], rgba=[0.88, 0.90, 0.93, 1],
        )  # fmt: skip
        model = spec.compile()
        return mujoco, model, mujoco.Renderer(model, SIZE * FINER, SIZE * FINER)


def save_legged_animation(monitor, path):
    """Render all pictures of a run and write the GIF. Raises as `LeggedDrawing`."""
    drawing, page = LeggedDrawing(monitor.legged), _Page(monitor)
    pictures, cycles = [], np.searchsorted(monitor.times, np.arange(0.0, monitor.times[-1], 1 / FRAMES))
    for k in cycles:
        pictures.append(page.picture(k, drawing.picture(monitor.q[k], monitor.forces[k])))
    drawing.close()
    write_gif(pictures, path, FRAMES, COLORS)


class _Page:
    """The robot, the errors of its body and the normal forces so far."""

    def __init__(self, monitor):
        import matplotlib

        matplotlib.use("Agg")
        from matplotlib import pyplot

        self._monitor, self._t = monitor, np.array(monitor.times)
        self._figure = pyplot.figure(figsize=((SIZE + WIDE) / 100, SIZE / 100), dpi=100)
        self._robot = self._figure.figimage(np.full((SIZE, SIZE, 3), 255, dtype=np.uint8), 0, 0)
        left, middle = SIZE / (SIZE + WIDE) / 2, 1 - WIDE / (SIZE + WIDE) / 2
        arrows = "forces of the node at the feet"
        self._figure.text(left, 0.03, arrows, color=ARROW[:3] * 0.85, ha="center", fontsize=10)
        self._name = self._figure.text(middle, 0.93, "", ha="center", fontsize=13, weight="bold")
        above, below = (self._figure.add_axes((0.56, bottom, 0.42, 0.3)) for bottom in (0.53, 0.1))
        self._errors = _curves(above, 1e3 * np.array(monitor.error)[:, :3], "error of the body x, y, z [mm]")
        self._forces = _curves(below, np.array(monitor.forces)[:, :, 5], "normal forces of the feet [N]")
        above.set_xticklabels([])
        for own in (above, below):
            own.set_xlim(0, monitor.seconds)
            for (begin, end), color in zip(monitor.phases.values(), PHASE_SHADES, strict=False):
                own.axvspan(begin, end, color=color, linewidth=0, zorder=-1)

    def picture(self, k, robot):
        """(SIZE, SIZE + WIDE, 3) bytes of a cycle; robot: its picture."""
        for lines, values in (self._errors, self._forces):
            for line, value in zip(lines, values.T, strict=True):
                line.set_data(self._t[:k:5], value[:k:5])
        phases = self._monitor.phases.items()
        self._name.set_text(next(name for name, (_, end) in phases if self._t[k] < end))
        self._robot.set_data(robot)
        self._figure.canvas.draw()
        return np.asarray(self._figure.canvas.buffer_rgba())[..., :3].copy()


def _curves(axes, values, title):
    """Empty lines, and their values (k, n)."""
    low, high = np.percentile(values, 0.1), np.percentile(values, 99.9)
    axes.set_ylim(low - 0.1 * (high - low), high + 0.1 * (high - low))
    axes.set_title(title, fontsize=9)
    axes.tick_params(labelsize=8)
    axes.grid(alpha=0.3)
    return [axes.plot([], [], linewidth=1.2)[0] for _ in values.T], values
