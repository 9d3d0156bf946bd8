"""Payload estimation: time per joint state in the node, calibration of standard deviations, effect of a tare.

The peer of the time is the torque that the node computes for the same joint state.
"""

import sys
import time

import harness
import numpy as np

sys.path.insert(0, str(harness.HERE.parent / "test" / "support"))

from carrying import COM, HAND, MASS, MOMENTS, motion, recording
from plain import serve
from robots import PANDA_JOINTS, ROBOTS

import dynamics_node as dn
from dynamics_node.estimation import payload_functions

STEP, SECONDS = 0.002, 6.0
ROUNDS, SEEDS, NOISE = 5, 200, 0.3
WRONG = 0.05  # relative, of every link's mass


def torques_of(model, states):
    return dn.build(model, "inverse_dynamics")(*states)


def loaded(model):
    return dn.with_payload(model, HAND, MASS, COM, MOMENTS)


def rubbing(qd, tau, random):
    """Friction outside the estimated model: load-dependent, with Stribeck effect."""
    size = 0.5 + 0.3 * np.exp(-((qd / 0.1) ** 2)) + 0.03 * np.abs(tau)
    return size * np.tanh(qd / 0.02) + 0.3 * qd + NOISE * random.normal(size=qd.shape)


# --- time in the node ---------------------------------------------------------------------------------------


def times(model):
    """us of thread time per joint state, to gather it and to compute its torque; medians of rounds."""
    served = serve("panda7", payload_estimation__link=HAND, backend="c")
    core, clock = served.core, np.arange(0.0, SECONDS, STEP)
    states = motion(1, time=clock)
    efforts, rounds = torques_of(loaded(model), states), []
    for _ in range(ROUNDS):
        spent = np.zeros(2)
        for sample in zip(*states[:2], efforts, strict=True):
            served.wait(STEP * 1e3)
            served.receive(PANDA_JOINTS, *sample, stamp=int(served.ros))
            begin = time.thread_time()
            core.payload_estimation.gather(core, served.now)
            between = time.thread_time()
            core.solve(lambda: served.ros, served.now)
            spent += between - begin, time.thread_time() - between
        rounds.append(spent / len(clock) * 1e6)
    return np.median(rounds, axis=0)


# --- calibration --------------------------------------------------------------------------------------------


def within(model):
    """The share of SEEDS noisy motions with mass and center of mass within three standard deviations."""
    clock = np.arange(0.0, 10.0, 0.01)
    states = motion(1, time=clock)
    own = torques_of(loaded(model), states)
    functions, inside = payload_functions(model, HAND), []
    for seed in range(SEEDS):
        random = np.random.default_rng(seed)
        noisy = own + NOISE * random.normal(size=own.shape)
        recursive = dn.PayloadEstimator(functions)
        for sample in zip(clock, states[0], states[1], noisy, strict=True):
            recursive.step(*sample)
        estimate = recursive.estimate()
        off = [(estimate.mass - MASS) / estimate.mass_std, *(estimate.com - COM) / estimate.com_std]
        inside.append(np.abs(off) <= 3)
    return float(np.mean(inside))


# --- a wrong description ------------------------------------------------------------------------------------


def errors(model, count=20):
    """RMS error of the mass, kg, with errors of WRONG in every link's mass: without a tare, and with one of
    another motion."""
    clock, mass_errors = np.arange(0.0, 20.0, 0.02), []
    for seed in range(count):
        random = np.random.default_rng(seed)
        factors = 1 + WRONG * random.normal(size=(model.nbodies, 1, 1))
        wrong = dn.with_parameters(model, model.inertias * factors, model.armature)
        recordings = []
        for robot, motions in ((loaded(wrong), seed), (wrong, seed + count)):
            states = motion(motions, time=clock)
            tau = torques_of(robot, states)
            recordings.append(recording(*states, tau + rubbing(states[1], tau, random), clock))
        own, empty = recordings
        mass_errors.append(
            [dn.identify_payload(model, HAND, [own], tare=tare).mass - MASS for tare in ([], [empty])]
        )
    return np.sqrt(np.mean(np.square(mass_errors), axis=0))


def main():
    options = harness.arguments("payload").parse_args()
    model = ROBOTS["panda7"].model()
    gather, torque = times(model)
    plain, tared = errors(model)
    rows = [
        harness.Row("a joint state gathered (Panda)", gather, "us", "lower", target=20.0),
        harness.Row(
            "a joint state gathered", gather, "us", "lower", "the torque of that state", torque, target=3.0
        ),
        harness.Row("mass and com within 3 std", within(model), "", "higher", target=0.99),
        harness.Row(
            "error of the mass, links 5 % wrong", tared, "kg", "lower", "without a tare", plain, target=0.3
        ),
    ]  # fmt: skip
    harness.finish("payload", rows, harness.versions("numpy"), options.save)


if __name__ == "__main__":
    main()
