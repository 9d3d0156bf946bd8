"""
Learning friction in PyTorch
============================

A Panda records a motion and noisy torques; the zeros of its encoders are wrong by a few degrees. PyTorch
learns them and networks of the friction at the same time. The gradient by the zeros goes through the inverse
dynamics.

.. image:: ../figures/friction_torch.png
   :alt: Learned and true friction of three joints, and errors of torques of another motion

./dev run -- python examples/friction_torch.py [--steps N] [--plot FILE]
"""
# sphinx_gallery_thumbnail_path = 'figures/friction_torch.png'

import argparse
import time

import numpy as np
import torch

import dynamics_node as dn
from dynamics_demo.panda import PANDA_JOINTS

ZEROS = np.radians([0.0, 2.0, -1.5, -2.5, 1.0, 2.0, 0.0])  # errors; the torques do not show that of joint 1
NOISE = 0.2  # N m
COULOMB = np.array([4.0, 4.0, 3.0, 3.0, 1.5, 1.0, 1.0])  # N m
VISCOUS = np.array([2.0, 2.0, 1.5, 1.5, 0.6, 0.5, 0.4])  # N m s/rad
STICTION, STRIBECK, SMOOTH = 1.4, 0.15, 0.05  # times Coulomb friction at rest; rad/s, rad/s
USUAL = np.radians(5.0)  # of an error of a zero: what the torques do not show stays small
STATES, UNITS, RATE = 1000, 24, 0.03  # of a motion; of the network of each joint; of Adam


def true_friction(qd):
    """Coulomb friction with the Stribeck effect, and viscous friction, N m."""
    stiction = 1 + (STICTION - 1) * np.exp(-((qd / STRIBECK) ** 2))
    return COULOMB * stiction * np.tanh(qd / SMOOTH) + VISCOUS * qd


def recorded(robot, seed):
    """q as the encoders measure it, qd, qdd and torques (STATES, nv) of a periodic motion with friction."""
    random = np.random.default_rng(seed)
    t = np.linspace(0, 20, STATES)[:, None, None]
    w = 2 * np.pi * np.arange(1, 6) / 10  # rad/s
    a, b = random.uniform(-0.2, 0.2, (2, robot.nv, 5))
    sin, cos = np.sin(w * t), np.cos(w * t)
    middle = (robot.lower_position_limits + robot.upper_position_limits) / 2
    q = middle + (a * sin + b * cos).sum(axis=2)
    qd = (w * (a * cos - b * sin)).sum(axis=2)
    qdd = (-(w**2) * (a * sin + b * cos)).sum(axis=2)
    tau = dn.build(robot, "inverse_dynamics")(q, qd, qdd) + true_friction(qd)
    return [torch.from_numpy(x) for x in (q - ZEROS, qd, qdd, tau + random.normal(0, NOISE, q.shape))]


class Friction(torch.nn.Module):
    """A network with one hidden layer for each joint: velocities to torques."""

    def __init__(self, joints):
        super().__init__()
        normal = torch.randn(3, joints, UNITS, dtype=torch.float64)
        self.slope, self.shift, self.weight = (torch.nn.Parameter(x) for x in (20 * normal[0], *normal[1:]))
        self.line = torch.nn.Parameter(torch.zeros(joints, dtype=torch.float64))

    def forward(self, qd):
        hidden = torch.tanh(self.slope * qd[..., None] + self.shift)
        return (self.weight * hidden).sum(-1) / UNITS**0.5 + self.line * qd


class Arm(torch.nn.Module):
    """Torques from what encoders measure: the compiled inverse dynamics, zeros of the encoders, friction."""

    def __init__(self, robot):
        super().__init__()
        self._inverse = dn.build(robot, "inverse_dynamics").torch()
        self.zeros = torch.nn.Parameter(torch.zeros(robot.nv, dtype=torch.float64))
        self.friction = Friction(robot.nv)

    def forward(self, q, qd, qdd):
        return self._inverse(q + self.zeros, qd, qdd) + self.friction(qd)


def learned(arm, motion, steps):
    """The loss of each step of Adam, (N m)^2."""
    *state, tau = motion
    optimizer = torch.optim.Adam(arm.parameters(), lr=RATE)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, steps)
    losses = []
    for _ in range(steps):
        optimizer.zero_grad()
        loss = (arm(*state) - tau).square().mean() + NOISE**2 / STATES * (arm.zeros / USUAL).square().mean()
        loss.backward()
        optimizer.step()
        schedule.step()
        losses.append(loss.item())
    return losses


def rms(errors):
    return errors.detach().square().mean(dim=0).sqrt().numpy()


def plot(arm, motion, before, after, path):
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, (left, right) = pyplot.subplots(1, 2, figsize=(10, 4), layout="constrained")
    qd = np.linspace(-1.5, 1.5, 400)
    grid = torch.from_numpy(np.repeat(qd[:, None], len(PANDA_JOINTS), axis=1))
    networks, truth = arm.friction(grid).detach().numpy(), true_friction(grid.numpy())
    for k, color in zip((0, 3, 5), ("C0", "C1", "C2"), strict=True):
        left.plot(qd, truth[:, k], ":", color=color)
        left.plot(qd, networks[:, k], color=color, label=f"joint {k + 1}")
    left.set(xlabel="velocity [rad/s]", ylabel="torque [N m]", title="friction: learned; dotted: true")
    left.legend()
    joints = np.arange(1, len(before) + 1)
    right.bar(joints - 0.2, before, 0.4, label="inverse dynamics")
    right.bar(joints + 0.2, after, 0.4, label="with friction and zeros")
    right.axhline(NOISE, color="k", linestyle=":", label="noise of the sensors")
    right.set(xlabel="joint", ylabel="RMS error [N m]", title="torques of another motion", yscale="log")
    right.legend()
    figure.savefig(path, dpi=110)
    pyplot.close(figure)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=400)
    parser.add_argument("--plot", metavar="FILE")
    options = parser.parse_args()

    torch.manual_seed(0)
    torch.set_num_threads(1)
    robot = dn.example_robot("panda", tips=["panda_hand"])
    arm, training, other = Arm(robot), recorded(robot, 1), recorded(robot, 2)
    *state, tau = other
    before = rms(torch.from_numpy(dn.build(robot, "inverse_dynamics")(*(x.numpy() for x in state))) - tau)
    begin = time.perf_counter()
    losses = learned(arm, training, options.steps)
    seconds, after = time.perf_counter() - begin, rms(arm(*state) - tau)
    print(f"{options.steps} steps in {seconds:.1f} s: loss {losses[0]:.3g} -> {losses[-1]:.3g} (N m)^2")
    print("RMS errors of another motion [N m]:")
    for name, one, two in zip(PANDA_JOINTS, before, after, strict=True):
        print(f"  {name}: {one:6.3f} by inverse dynamics, {two:6.3f} with friction and zeros")
    print(f"zeros [degrees]: {np.degrees(arm.zeros.detach().numpy()).round(2)}, true {np.degrees(ZEROS)}")
    if options.plot:
        plot(arm, other, before, after, options.plot)


if __name__ == "__main__":
    main()
