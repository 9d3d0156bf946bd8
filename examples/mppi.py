"""
MPPI: a cart swings up its pole
===============================

Model predictive path integral control: every 20 ms the motor of the cart takes its force from 500 sampled
plans, each rolled out for a second. The pole has no motor.

./dev run -- python examples/mppi.py
"""

import time

import numpy as np

import dynamics_node as dn

# %%
# The robot, its limits, and the planner's choices.

CART_POLE = """
<robot name="cart_pole"><link name="rail"/>
  <joint name="slide" type="prismatic"><parent link="rail"/><child link="cart"/><axis xyz="1 0 0"/>
    <limit lower="-2" upper="2" velocity="10" effort="40"/></joint>
  <link name="cart"><inertial><mass value="1"/>
    <inertia ixx="0.01" ixy="0" ixz="0" iyy="0.01" iyz="0" izz="0.01"/></inertial></link>
  <joint name="hinge" type="continuous"><parent link="cart"/><child link="pole"/><axis xyz="0 1 0"/></joint>
  <link name="pole"><inertial><origin xyz="0 0 0.4"/><mass value="0.2"/>
    <inertia ixx="0.01" ixy="0" ixz="0" iyy="0.01" iyz="0" izz="0.001"/></inertial></link>
</robot>"""
SAMPLES, STEPS, DT = 500, 50, 0.02
SPREAD = 10.0  # N, of the noise of forces
TEMPERATURE = 0.05  # of the weights, relative to the median cost


# %%
# A plan is a force for every step. Samples are the last plan with noise. Their mean, weighted by the
# exponentials of the negative costs, is the next plan (Williams et al., "Model predictive path integral
# control", 2017).


class Planner:
    """MPPI. plan (STEPS,): forces of the motor, N."""

    def __init__(self, robot):
        self.forward = dn.build(robot, "forward_dynamics")
        self.random = np.random.default_rng(0)
        self.most = robot.effort_limits[0]
        self.plan = np.zeros(STEPS)

    def __call__(self, q, qd):
        """The force of the next step; positions (SAMPLES, STEPS + 1, 2) of all samples."""
        noise = SPREAD * self.random.normal(size=(SAMPLES, STEPS))
        forces = np.clip(self.plan + noise, -self.most, self.most)
        torques = np.stack([forces, np.zeros_like(forces)], axis=-1)
        states = self.forward.rollout(q, qd, torques, DT)
        cost = state_cost(states).sum(axis=1) + 1e-4 * (forces**2).sum(axis=1)
        weights = np.exp((cost.min() - cost) / (TEMPERATURE * np.median(cost)))
        self.plan = weights @ forces / weights.sum()
        force, self.plan = self.plan[0], np.append(self.plan[1:], 0.0)
        return force, states.q


def state_cost(states):
    """(SAMPLES, STEPS + 1): of the angle, the distance from the middle, velocities, the ends of the rail."""
    x, angle = states.q[..., 0], states.q[..., 1]
    speed, rate = states.qd[..., 0], states.qd[..., 1]
    return (1 - np.cos(angle)) + 0.1 * x**2 + 0.02 * speed**2 + 0.005 * rate**2 + 100.0 * (np.abs(x) > 1.9)


# %%
# The pole hangs down at first. The plant is the same robot with smaller steps and a better integrator.


def swing_up(robot, seconds=2.5):
    """Time, q, the samples of some plans, and the seconds that a plan takes."""
    planner, q, qd = Planner(robot), np.array([0.0, np.pi]), np.zeros(2)
    path, samples, durations = [q], {}, []
    for step in range(round(seconds / DT)):
        began = time.perf_counter()
        force, sampled = planner(q, qd)
        durations.append(time.perf_counter() - began)
        if step % 25 == 0:
            samples[step * DT] = sampled[:100]
        plant = planner.forward.rollout(q, qd, np.tile([force, 0.0], (4, 1)), DT / 4, integrator="rk4")
        q, qd = plant.q[-1], plant.qd[-1]
        path.append(q)
    return DT * np.arange(len(path)), np.array(path), samples, np.median(durations)


def main():
    robot = dn.parse_robot(CART_POLE)
    times, path, samples, duration = swing_up(robot)
    upright = np.cos(path[:, 1]) > np.cos(0.2)
    since = times[len(upright) - np.argmin(upright[::-1])]
    print(f"upright since {since:.2f} s")
    print(f"a plan of {SAMPLES} samples takes {1e3 * duration:.1f} ms")
    draw(times, path, samples)


# %%
# Left: the angle of the pole, and in gray what some plans expected. Right: cart and pole, later in brighter
# colors.


def draw(times, path, samples):
    import matplotlib.pyplot as plt

    _, (angle, rail) = plt.subplots(1, 2, figsize=(10, 4), width_ratios=(3, 2), constrained_layout=True)
    for start, sampled in samples.items():
        angle.plot(start + DT * np.arange(STEPS + 1), sampled[..., 1].T, color="0.8", lw=0.4)
    angle.plot(times, path[:, 1], lw=2)
    angle.set(xlabel="time [s]", ylabel="angle of the pole [rad]", ylim=(0, 10))
    for k in range(0, len(path), 6):
        x, tilt = path[k]
        ends = [x, x + 0.8 * np.sin(tilt)], [0.0, 0.8 * np.cos(tilt)]
        rail.plot(*ends, color=plt.cm.viridis(k / len(path)))
    rail.set(xlabel="x [m]", ylabel="z [m]", aspect="equal")
    plt.show()


if __name__ == "__main__":
    main()
