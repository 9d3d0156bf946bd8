"""Rollouts with contacts, limits of joints and friction: 1024 samples along 50 steps against mujoco.rollout.

Points of links touch a floor, in MuJoCo spheres of 1 mm with elliptic cones. Least times of whole calls in
alternating rounds, CPU time of one core. MuJoCo's contacts are stiff springs, ours are impulses: the mean
heights of the bases after all steps are printed, and agree as far as the models do. The row "solver" is the
share of the impulses in our time: a call with six sweeps less one with one, over five sweeps, times six.
"""

import os
import time

import harness
import mujoco
import numpy as np
from mujoco.rollout import Rollout
from robots import mujoco_tree, robot

import dynamics_node as dn

SAMPLES, STEPS, DT = 1024, 50, 0.005
SECONDS, PARTS = 3.0, 8
TARGET = 0.05  # of MuJoCo's time, with AVX-512
LEGS = np.array([0, 0.8, -1.6] * 2 + [0, -0.8, 1.6] * 2)
FEET = [dn.Contact(foot) for foot in ("FL_FOOT", "FR_FOOT", "HL_FOOT", "HR_FOOT")]


def soles():
    """Four corners of each sole of Talos."""
    for sole in ("left_sole_link", "right_sole_link"):
        for k, (x, y) in enumerate((a, b) for a in (-0.1, 0.1) for b in (-0.06, 0.06)):
            yield dn.Contact(sole, name=f"{sole} {k}", xyz=(x, y, 0.0))


def cases():
    """(name, robot, q, contacts, limits)"""
    random = np.random.default_rng(0)
    solo, talos, panda = robot("solo12"), robot("talos"), robot("panda")
    stand = np.r_[0, 0, 0.223, 0, 0, 0, 1, LEGS]
    for limits in (False, True):
        q = np.tile(stand, (SAMPLES, 1))
        q[:, 7:] += random.uniform(-0.1, 0.1, (SAMPLES, 12))
        yield f"Solo12 on four feet{', limits' * limits}", solo, q, FEET, limits
    contacts = list(soles())
    q = np.tile(talos.neutral(), (SAMPLES, 1))
    lowest = dn.evaluate(talos, "frame_poses", talos.neutral(), links=["left_sole_link"]).positions[0, 2]
    q[:, 2] -= lowest
    q[:, 7:] += random.uniform(-0.02, 0.02, q[:, 7:].shape)
    yield "Talos on eight points", talos, q, contacts, False
    yield "Panda at its limits", panda, dn.random_configuration(panda, SAMPLES, random=1), [], True


def rows(name, model, q, contacts, limits):
    random = np.random.default_rng(1)
    qd, tau = (
        random.uniform(-0.3, 0.3, (SAMPLES, model.nv)),
        random.uniform(-1, 1, (SAMPLES, STEPS, model.nv)),
    )
    if model.q_names[0].startswith("floating"):
        tau[..., :6] = 0.0
    options = {"contacts": contacts, "friction": False, "limits": limits}
    for precision in ("float64", "float32"):
        forward = dn.build(model, "forward_dynamics", precision=precision)

        def ours(sweeps=6, forward=forward):
            return forward.rollout(q, qd, tau, DT, sweeps=sweeps, **options)

        theirs = peer(model, q, qd, tau, contacts, limits)
        ours()
        if precision == "float64" and contacts:
            heights = np.nanmean(ours().q[:, -1, 2]), np.nanmean(theirs()[:, -1, 2])
            print(f"{name}: mean height {heights[0]:.4f} m, MuJoCo {heights[1]:.4f} m")
        mine, mujocos, one = least_times([ours, theirs, lambda: ours(1)])
        targets = {"target": TARGET} if precision == "float64" else {}
        row = f"{name}, {precision}"
        yield harness.Row(row, mine, "ns", "lower", "mujoco.rollout", mujocos, **targets)
        yield harness.Row(f"{row}, share of six sweeps", 100 * (mine - one) / mine * 6 / 5, "%", "lower")


def peer(model, q, qd, tau, contacts, limits):
    """A function that returns qpos (samples, steps, nq) by mujoco.rollout."""
    tree = mujoco_tree(model, contacts, limits=limits)
    tree.model.opt.timestep = DT
    tree.model.opt.disableflags |= mujoco.mjtDisableBit.mjDSBL_AUTORESET
    start = np.hstack([np.zeros((len(q), 1)), tree.qpos(q), tree.qvel(q, qd)])
    data, spec = [mujoco.MjData(tree.model)], mujoco.mjtState.mjSTATE_QFRC_APPLIED
    pool = Rollout(nthread=0)

    def run():
        states, _ = pool.rollout([tree.model], data, start, tau, control_spec=spec)
        return states[..., 1 : 1 + tree.model.nq]

    return run


def least_times(calls):
    """Least CPU time of a step of a sample, ns, of every call."""
    times = [np.inf] * len(calls)
    for _ in range(PARTS):
        for k, call in enumerate(calls):
            stop = time.perf_counter() + SECONDS / PARTS
            while time.perf_counter() < stop:
                begin = time.process_time_ns()
                call()
                times[k] = min(times[k], (time.process_time_ns() - begin) / SAMPLES / STEPS)
    return times


def main():
    options = harness.arguments("contact_rollouts").parse_args()
    os.sched_setaffinity(0, {0})
    found = [row for case in cases() for row in rows(*case)]
    harness.finish("contact_rollouts", found, harness.versions("mujoco", "numpy"), options.save)


if __name__ == "__main__":
    main()
