"""Calibration of identified standard deviations: the share of true parameters within three of them, with
filtered and with raw torques and regressors.

A two-link arm records positions and torques for 20 s at 250 Hz; velocities and accelerations are derivatives
below 10 Hz. Torque noise is a first-order process or white; friction chatters at 30 to 70 Hz.
"""

from typing import NamedTuple

import harness
import numpy as np
import robots  # noqa: F401, adds test/support to the path

# isort: split
from identified import Truth
from scipy.signal import lfilter
from two_links import ARM

import dynamics_node as dn
from dynamics_node.identification import Sums, base_parameters, weighted
from dynamics_node.io.differentiate import Derivatives, differentiated

CUTOFF, RATE, SEEDS = 10.0, 250.0, 30
TIME = np.arange(0.0, 20.0, 1.0 / RATE)
ANGLES = Derivatives("q", np.arange(2), np.zeros(2, dtype=bool), {"qd": 1, "qdd": 2})
WHITE = 0.997  # of white noise within three standard deviations


class Noise(NamedTuple):
    """Standard deviations: torque (N m) with correlation time `lasts` (s), position (rad); chatter: amplitude
    (N m)."""

    torque: float
    lasts: float
    position: float
    chatter: float = 0.0

    def __str__(self):
        lasts = f"lasts {1000 * self.lasts:g} ms" if self.lasts else "white"
        chatter = f", chatter {self.chatter:g} N m" if self.chatter else ""
        return f"{self.torque:g} N m, {lasts}; {1000 * self.position:g} mrad{chatter}"


NOISES = (
    Noise(0.05, 0.01, 1e-4),
    Noise(0.05, 0.05, 1e-4),
    Noise(0.1, 0.02, 1e-4),
    Noise(0.05, 0.02, 5e-4, 0.2),
    Noise(0.05, 0.0, 5e-4),
)


def noisy(clean, noise, seed):
    """A noisy recording of positions and torques."""
    random = np.random.default_rng(seed)
    last = np.exp(-1.0 / (RATE * noise.lasts)) if noise.lasts else 0.0
    white = random.normal(size=(500 + len(TIME), 2))
    torque = noise.torque * lfilter([np.sqrt(1 - last**2)], [1, -last], white, axis=0)[500:]
    for k in range(2):
        phase = 2 * np.pi * np.cumsum(random.uniform(30, 70, len(TIME))) / RATE
        torque[:, k] += noise.chatter * np.sin(phase)
    q = clean["q"] + noise.position * random.normal(size=clean["q"].shape)
    return {"time": TIME, "q": q, "tau": clean["tau"] + torque}


def inside(arm, base, noise):
    """Shares of base parameters within three standard deviations: raw and filtered."""
    clean = arm.recording(1, noise=0.0, time=TIME)
    right, start = base.values(arm.parameters), base.values(arm.linear.described)
    within = np.zeros((2, SEEDS, base.count), dtype=bool)
    for seed in range(SEEDS):
        chunks = list(differentiated([noisy(clean, noise, seed)], ANGLES, CUTOFF))
        for place, cutoff in enumerate((None, CUTOFF)):
            sums = Sums(arm.linear, base, cutoff)
            for chunk in chunks:
                sums.add(chunk)
            solution = weighted(sums, start)
            within[place, seed] = np.abs(solution.x - right) < 3 * solution.std
    return within.mean(axis=(1, 2))


def rows():
    arm = Truth(dn.parse_robot(ARM))
    base = base_parameters(arm.linear)
    for noise in NOISES:
        raw, filtered = inside(arm, base, noise)
        yield harness.Row(f"within 3 sigma: {noise}", filtered, "", "higher", "unfiltered", raw, target=1.0)


def main():
    options = harness.arguments("identify_noise").parse_args()
    harness.finish("identify_noise", list(rows()), harness.versions("numpy", "scipy"), options.save)


if __name__ == "__main__":
    main()
