"""
MPPI: a Solo12 trots up a step
==============================

Model predictive path integral control with contacts: every 20 ms, 400 plans of joint targets are rolled out
for 0.4 s, with PD loops, friction and the step. MuJoCo is the world, which executes 20 ms of each plan.

./dev run -- python examples/mppi_solo12.py [page that plays the motion.html]
"""

import re
import sys
import time
from dataclasses import replace
from functools import partial

import mujoco
import numpy as np
from scipy.interpolate import CubicSpline

import dynamics_node as dn

# %%
# The robot, the ground, and the planner's choices.

FEET = ("FL_FOOT", "FR_FOOT", "HL_FOOT", "HR_FOOT")
HIPS = np.array([0.1946, 0.1946, -0.1946, -0.1946])  # m, in front of the middle of the body
LINK = 0.16  # m: length of a thigh, and of a shank
RADIUS = 0.015  # m, of the feet
HEIGHT = 0.22  # m, of the hips above the feet
KP, KD, EFFORT = 4.0, 0.15, 2.5  # N m/rad, N m s/rad, N m
EDGE, STEP = 0.6, 0.05  # m: where the step begins, and how high it is
FRICTION = 0.8
GOAL, SPEED = np.array([1.5, 0.0]), 0.35  # m, m/s
SAMPLES, STEPS, DT = 400, 40, 0.01  # s
CYCLE = 2  # steps
PERIOD, LIFT = 0.36, 0.08  # of the trot: s, and m by which feet rise
NEAR = 0.04  # m before the step, where feet are already above it
KNOTS = 5  # of a plan
SPREAD = np.tile([0.06, 0.12, 0.15], 4)  # rad, of the noise at the knots
TEMPERATURE = 0.1  # of the weights, relative to the median cost
SECONDS = 6.0


def ground(x, y):
    """Height of the ground: a stage of 2 m, whose edges rise along 3 cm."""
    s = np.sin(np.pi * (x - EDGE) / 2.0)
    for _ in range(5):  # the sine becomes a square wave
        s = s * (15 - 10 * s * s + 3 * s * s * s * s) / 8
    return STEP * (1 + s) / 2


def ramp(x):
    """Height of the ground for the body: it rises along 20 cm."""
    return STEP * np.clip((x - EDGE) / 0.2 + 0.5, 0.0, 1.0)


# %%
# A trot: two by two, feet swing forward for half of a period, and push back for the other half. The links of
# a leg are of equal length, so that the angles are those of a triangle.


def gait(first, start, speed):
    """Joint targets (STEPS, 12) from step `first` on, with the body at x = start."""
    after = DT * np.arange(STEPS)[:, None]
    phase = ((DT * first + after) / PERIOD + [0.0, 0.5, 0.5, 0.0]) % 1.0
    swings, part = phase < 0.5, 2 * (phase % 0.5)
    forward = np.where(swings, part - np.sin(2 * np.pi * part) / (2 * np.pi), 1 - part)
    x = 0.5 * speed * PERIOD * (forward - 0.5)
    hips = start + speed * after + HIPS
    floor = STEP * (hips + x > EDGE - np.where(swings, NEAR, 0.0))
    z = floor - ramp(hips) - HEIGHT + np.where(swings, LIFT * np.sin(np.pi * part) ** 2, 0.0)
    bend = np.arccos(np.minimum(np.hypot(x, z) / (2 * LINK), 0.99)) * [1, 1, -1, -1]
    return np.stack([0 * x, bend - np.arctan2(x, -z), -2 * bend], axis=-1).reshape(STEPS, 12)


# %%
# A plan is the trot and a spline of angles. Samples are the last plan with noise at the knots. Their mean,
# weighted by the exponentials of the negative costs, is the next plan (Williams et al., "Model predictive
# path integral control", 2017). Planning may take a cycle: plans begin at the state expected at its end.


class Planner:
    """MPPI. targets (STEPS, 12): the plan, rad."""

    def __init__(self, robot, samples=SAMPLES, seed=0):
        forward = dn.build(robot, "forward_dynamics", precision="float32")
        self.rollout = partial(
            forward.rollout,
            dt=DT,
            pd=dn.PDGains(KP, KD, EFFORT),
            contacts=[dn.Contact(foot) for foot in FEET],  # their centers
            ground=dn.Terrain(lambda x, y: ground(x, y) + RADIUS, FRICTION),
            friction=False,
            limits=False,
            sweeps=6,
        )
        times = np.linspace(0.0, STEPS, KNOTS)
        spline = CubicSpline(times, np.eye(KNOTS), bc_type="natural")
        self.of_knots = spline(np.arange(STEPS))
        self.later = spline(np.minimum(times + CYCLE, STEPS))  # knots of the same spline, a cycle later
        self.random, self.samples = np.random.default_rng(seed), samples
        self.step, self.knots, self.targets = 0, np.zeros((KNOTS, 12)), gait(0, 0.0, 0.0)

    def __call__(self, q, qd):
        """Plan for the next cycle, with the state at the start of this one. Returns q of the samples."""
        expected = self.rollout(q, qd, self.targets[:CYCLE])
        q, qd = expected.q[-1], expected.qd[-1]
        self.step += CYCLE
        velocity = 1.5 * (GOAL - q[:2])
        velocity *= min(1.0, SPEED / np.linalg.norm(velocity))
        trot = gait(self.step, q[0], velocity[0])
        noise = SPREAD * self.random.normal(size=(self.samples, KNOTS, 12))
        noise[0] = 0.0
        knots = self.later @ self.knots + noise
        states = self.rollout(q, qd, trot + self.of_knots @ knots)
        cost = total_cost(states.q[:, 1:], states.qd[:, 1:], trot, q[:2], velocity)
        cost = np.where(np.isfinite(cost), cost, np.inf)
        weights = np.exp((cost.min() - cost) / (TEMPERATURE * (np.median(cost) - cost.min()) + 1e-9))
        self.knots = np.tensordot(weights / weights.sum(), knots, axes=1)
        self.targets = trot + self.of_knots @ self.knots
        return states.q


def total_cost(q, qd, trot, start, velocity):
    """(samples,): of the body's path, height, orientation and rates, and of the angles of the legs."""
    ahead, behind = ramp(q[..., 0] + HIPS[0]), ramp(q[..., 0] + HIPS[2])
    pitch = (behind - ahead) / (HIPS[0] - HIPS[2])
    path = start + velocity * DT * np.arange(1, STEPS + 1)[:, None]
    cost = 60 * ((q[..., :2] - path) ** 2).sum(axis=-1)
    cost += 150 * (q[..., 2] - (ahead + behind) / 2 - HEIGHT - RADIUS) ** 2
    cost += 30 * (q[..., 3] ** 2 + (q[..., 4] - pitch / 2) ** 2) + 20 * q[..., 5] ** 2
    cost += 0.02 * (qd[..., :3] ** 2).sum(axis=-1) + 0.3 * ((q[..., 7:] - trot) ** 2).sum(axis=-1)
    return cost.sum(axis=1)


# %%
# The world: contacts are soft there, feet are balls, shanks hit the edge of a box, and motors close their
# loops at 1 kHz.


class World:
    """The robot in MuJoCo, at rest on the ground."""

    def __init__(self, robot):
        self.model = self._model(robot)
        self.data = mujoco.MjData(self.model)
        joints = [self.model.joint(name) for name in robot.joint_names]
        self.q_at, self.v_at = [j.qposadr[0] for j in joints], [j.dofadr[0] for j in joints]
        self.data.qpos[2], self.data.qpos[self.q_at] = HEIGHT + RADIUS, gait(0, 0.0, 0.0)[0]
        mujoco.mj_forward(self.model, self.data)

    def _model(self, robot):
        urdf = dn.example_robot_file("solo12").read_text()
        urdf = re.sub(r"<(visual|collision)\b.*?</\1>|<dynamics[^>]*/>", "", urdf, flags=re.S)
        compiler = '<mujoco><compiler balanceinertia="false" fusestatic="false"/></mujoco>'
        spec = mujoco.MjSpec.from_string(urdf.replace("<link", compiler + "<link", 1))
        spec.option.timestep, spec.option.cone = 1e-3, mujoco.mjtCone.mjCONE_ELLIPTIC
        spec.option.integrator = mujoco.mjtIntegrator.mjINT_IMPLICITFAST
        shape, surface = mujoco.mjtGeom, {"friction": [FRICTION, 0, 0], "condim": 3, "solref": [4e-3, 1]}
        spec.worldbody.add_geom(type=shape.mjGEOM_PLANE, size=[5, 5, 0.1], **surface)
        place = {"size": [1, 1, STEP / 2], "pos": [EDGE + 1, 0, STEP / 2]}
        spec.worldbody.add_geom(type=shape.mjGEOM_BOX, **place, **surface)
        spec.body("base_link").add_freejoint()
        surface |= {"mass": 0.0, "contype": 1, "conaffinity": 0}  # the robot does not hit itself
        for foot in FEET:
            spec.body(foot).add_geom(type=shape.mjGEOM_SPHERE, size=[RADIUS, 0, 0], **surface)
            ends = [0.0, 0.0, 0.0, *spec.body(foot).pos]
            shank = spec.body(foot.replace("FOOT", "LOWER_LEG"))
            shank.add_geom(type=shape.mjGEOM_CAPSULE, size=[0.008, 0, 0], fromto=ends, **surface)
        for name in robot.joint_names:
            motor = spec.add_actuator(target=name, trntype=mujoco.mjtTrn.mjTRN_JOINT)
            motor.set_to_position(kp=KP, kv=KD)
            motor.forcelimited, motor.forcerange = True, [-EFFORT, EFFORT]
        return spec.compile()

    def state(self):
        """q and qd as the library has them: velocities of the base are in its axes, the angular one first."""
        qpos, qvel, R = self.data.qpos, self.data.qvel, np.zeros(9)
        mujoco.mju_quat2Mat(R, qpos[3:7])
        orientation = qpos[[4, 5, 6, 3]] / np.linalg.norm(qpos[3:7])
        q = np.concatenate([qpos[:3], orientation, qpos[self.q_at]])
        return q, np.concatenate([qvel[3:6], R.reshape(3, 3).T @ qvel[:3], qvel[self.v_at]])

    def advance(self, targets):
        """A step of DT for every row of targets."""
        for row in targets:
            self.data.ctrl[:] = row
            mujoco.mj_step(self.model, self.data, nstep=round(DT / self.model.opt.timestep))


# %%
# The robot falls when its body is lower than 12 cm above the ground, or tilts by more than 60 degrees.


def run(planner, world, seconds):
    """q (cycles + 1, nq); the bodies of samples by cycle; the wall time and the CPU time of every plan, s."""
    path, samples, durations = [world.state()[0]], {}, []
    for cycle in range(round(seconds / DT / CYCLE)):
        targets = planner.targets[:CYCLE]
        begin = np.array([time.perf_counter(), time.process_time()])
        sampled = planner(*world.state())
        durations.append([time.perf_counter(), time.process_time()] - begin)
        if cycle % 40 == 0:
            samples[cycle] = sampled[:60, :, :3]
        world.advance(targets)
        path.append(world.state()[0])
        if fallen(path[-1]):
            break
    return np.array(path), samples, np.array(durations)


def fallen(q):
    """Whether the robot fell."""
    return q[2] - ramp(q[0]) < 0.12 or 1 - 2 * (q[3] ** 2 + q[4] ** 2) < 0.5


def main(page=None):
    robot = dn.example_robot("solo12")
    Planner(robot)(*World(robot).state())  # compiles the loop
    path, samples, durations = run(Planner(robot), World(robot), SECONDS)
    left, fell = np.linalg.norm(path[-1, :2] - GOAL), fallen(path[-1])
    rise = 100 * (path[-1, 2] - path[0, 2])
    print(f"{'fell' if fell else 'upright'}, {100 * left:.1f} cm from the goal, {rise:.1f} cm higher")
    (wall, cpu), cycle = 1e3 * np.median(durations, axis=0), 1e3 * CYCLE * DT
    print(f"a plan of {SAMPLES} samples takes {wall:.1f} ms, and {cpu:.1f} ms of CPU time")
    print(f"{cycle / wall:.1f} times as fast as real time, {2 * cycle / cpu:.1f} times on two idle cores")
    draw(robot, path, samples)
    if page:
        print(f"written: {write_page(page, robot, path)}")
    return 1 if fell or left > 0.1 else 0


# %%
# Above: the robot from the side, later in brighter colors, and in gray the body in samples. Below: the feet.


def draw(robot, path, samples):
    import matplotlib.pyplot as plt

    drawing = dn.robot_drawing(robot, path)
    _, (side, feet) = plt.subplots(2, figsize=(10, 6), height_ratios=(3, 2), constrained_layout=True)
    side.fill_between([EDGE, EDGE + 2], [STEP, STEP], color="0.9")
    for sampled in samples.values():
        side.plot(sampled[..., 0].T, sampled[..., 2].T, color="0.7", lw=0.4)
    for k in range(0, len(path), 35):
        for start, end, _ in drawing.bars:
            bar = drawing.points[k, [start, end]]
            side.plot(bar[:, 0], bar[:, 2], color=plt.cm.viridis(k / len(path)), lw=2)
    side.plot(path[:, 0], path[:, 2], color="C3")
    side.set(xlabel="x [m]", ylabel="z [m]", aspect="equal", xlim=(-0.35, 1.85), ylim=(0, 0.45))
    heights = dn.evaluate(robot, "frame_poses", path, links=list(FEET)).positions[..., 2] - RADIUS
    feet.plot(CYCLE * DT * np.arange(len(path)), 100 * heights, label=FEET)
    feet.set(xlabel="time [s]", ylabel="height of the feet [cm]")
    feet.legend(ncols=4, loc="lower right")
    plt.show()


def write_page(page, robot, path):
    """A page that plays the motion, with the edges of the step."""
    x, y = [EDGE, EDGE, EDGE, EDGE, 2.0, 2.0], [-0.4, -0.4, 0.4, 0.4, 0.4, -0.4]
    ends = np.stack([x, y, [0.0, STEP, STEP, 0.0, STEP, STEP]], axis=1)

    def drawn(q):
        drawing = dn.robot_drawing(robot, q)
        n = drawing.points.shape[1]
        points = np.concatenate([drawing.points, np.tile(ends, (len(q), 1, 1))], axis=1)
        edges = [(n + a, n + b, 4) for a, b in ((0, 1), (1, 2), (2, 3), (3, 0), (2, 4), (4, 5), (5, 1))]
        return replace(drawing, points=points, bars=(*drawing.bars, *edges), names=())

    still = np.zeros((len(path), robot.nv))
    along = CYCLE * DT * np.arange(len(path))
    names = {"name": robot.name, "q_names": robot.q_names, "v_names": robot.v_names, "units": {}}
    motion = dn.Trajectory(**names, time=along, q=path, qd=still, qdd=still, tau=still)
    return dn.write_animation(page, motion, drawn, "MPPI: a Solo12 trots up a step")


if __name__ == "__main__" and main(*sys.argv[1:]):
    sys.exit(1)
