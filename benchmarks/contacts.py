"""Forward dynamics with contacts against Pinocchio's constraintDynamics, in its C++ core and from Python; the
derivatives against computeConstraintDynamicsDerivatives after it.

Least thread CPU times of many rounds, in which all ways and peers but the C++ core take turns; random states,
all contacts active.
"""

import os
import time

import harness
import numpy as np
import peers
from dynamics import STATES, attempt, pinocchio_model
from robots import random_states, robot

import dynamics_node as dn

ROBOTS = {
    "solo12 on four feet": ("solo12", "point", ("FL_FOOT", "FR_FOOT", "HL_FOOT", "HR_FOOT")),
    "talos on two soles": ("talos", "surface", ("left_sole_link", "right_sole_link")),
}
TARGETS = {"Program": 0.12, "call": 0.20, "batch": 0.03}  # of a call of Pinocchio from Python
BATCH = 4096
CORE, PYTHON = "C++ constraintDynamics", "pin.constraintDynamics"
DERIVED, DERIVED_TARGET = "pin, both functions", 0.25
ROUNDS = 40


def rows(name, kind, links):
    model, theirs = robot(name), pinocchio_model(name)
    contacts = [dn.Contact(link, kind) for link in links]
    forward = dn.build(model, dn.forward_dynamics(model, contacts), backend="c")
    frames = [theirs.getFrameId(link) for link in links]
    size = len(contacts[0].rows)
    times = least_times(
        {
            "Program": kernel_pass(model, forward),
            "call": call_pass(model, forward, forward),
            "batch": batch_pass(model, forward),
            "derivatives": call_pass(model, forward, forward.derivatives()),
            **python_passes(theirs, frames, size),
        }
    )
    core, reason = attempt(lambda: peers.pinocchio_contacts(theirs, frames, size))
    for way, target in TARGETS.items():
        yield way, times[way], PYTHON, times[PYTHON], target, ""
        yield way, times[way], CORE, core, None, reason
    yield "derivatives", times["derivatives"], DERIVED, times[DERIVED], DERIVED_TARGET, ""


def least_times(passes):
    """us per state, {name: least of all rounds}, of {name: (a pass, its states)}."""
    times = {name: [] for name in passes}
    for _ in range(ROUNDS):
        for name, (run, states) in passes.items():
            begin = time.thread_time_ns()
            run()
            times[name].append((time.thread_time_ns() - begin) / states / 1e3)
    return {name: min(of) for name, of in times.items()}


def arguments(model, forward, count):
    q, qd, tau = random_states(model, count)
    return q, qd, tau, np.ones((count, len(forward.problem.contacts)))


def kernel_pass(model, forward):
    """The compiled Program in a loop over states, in C."""
    state = arguments(model, forward, STATES)
    still = np.zeros((STATES, len(forward.problem.rows.names)))
    kernel = forward.runner.first.kernel
    x = np.hstack((*state, still, np.tile(model.gravity, (STATES, 1))))
    y = np.empty((STATES, sum(int(np.prod(shape)) for shape in kernel_outputs(forward))))
    return lambda: kernel.run(x, y), STATES


def kernel_outputs(forward):
    return [numbers.shape for numbers in forward.program.outputs.values()]


def call_pass(model, forward, called):
    """Calls of a function of the arguments of `forward`, with checks and new arrays."""
    states = [*zip(*(list(array) for array in arguments(model, forward, STATES)), strict=True)]

    def run():
        for state in states:
            called(*state)

    return run, STATES


def batch_pass(model, forward):
    """A batch on one core."""
    state = arguments(model, forward, BATCH)
    return lambda: forward(*state), BATCH


def python_passes(theirs, frames, size):
    """Pinocchio's forward dynamics, and these with their derivatives."""
    import pinocchio as pin

    data, models = theirs.createData(), pin.StdVec_RigidConstraintModel()
    datas = pin.StdVec_RigidConstraintData()
    kind = pin.ContactType.CONTACT_3D if size == 3 else pin.ContactType.CONTACT_6D
    for number in frames:
        frame = theirs.frames[number]
        models.append(pin.RigidConstraintModel(kind, theirs, frame.parentJoint, frame.placement, pin.LOCAL))
        datas.append(models[-1].createData())
    pin.initConstraintDynamics(theirs, data, models, datas)
    settings = pin.ProximalSettings(1e-12, 0.0, 1)
    low = -np.ones(theirs.nq)
    q = [pin.randomConfiguration(theirs, low, -low) for _ in range(STATES)]
    states = [*zip(q, *np.random.default_rng(0).uniform(-1, 1, (2, STATES, theirs.nv)), strict=True)]
    more = models, datas, settings

    def forward():
        for q, v, u in states:
            pin.constraintDynamics(theirs, data, q, v, u, *more)

    def derived():
        for q, v, u in states:
            pin.constraintDynamics(theirs, data, q, v, u, *more)
            pin.computeConstraintDynamicsDerivatives(theirs, data, *more)

    return {PYTHON: (forward, STATES), DERIVED: (derived, STATES)}


def main():
    options = harness.arguments("contacts").parse_args()
    os.sched_setaffinity(0, {os.cpu_count() - 1})
    found = [
        harness.Row(f"{name}, {way}", ours, "us", "lower", peer, value, target=target, reason=reason)
        for name, of in ROBOTS.items()
        for way, ours, peer, value, target, reason in rows(*of)
    ]
    harness.finish("contacts", found, harness.versions("dynamics_node", "numpy", "pin"), options.save)


if __name__ == "__main__":
    main()
