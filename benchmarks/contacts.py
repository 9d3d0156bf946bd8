"""Forward dynamics with contacts against Pinocchio's constraintDynamics, in its C++ core and from Python; the
derivatives against computeConstraintDynamicsDerivatives after it.

Medians of thread CPU time over many batches of calls, random states, all contacts active, all in one run.
"""

import os

import harness
import numpy as np
import peers
from dynamics import STATES, attempt, microseconds, pinocchio_model
from robots import random_states, robot

import dynamics_node as dn

ROBOTS = {
    "solo12 on four feet": ("solo12", "point", ("FL_FOOT", "FR_FOOT", "HL_FOOT", "HR_FOOT")),
    "talos on two soles": ("talos", "surface", ("left_sole_link", "right_sole_link")),
}
TARGETS = {"Program": 0.12, "call": 0.20, "batch": 0.03}  # of a call of Pinocchio from Python
BATCH = 4096
CORE, PYTHON = "C++ constraintDynamics", "pin.constraintDynamics"
DERIVATIVES = "pin, both functions", 0.25


def rows(name, kind, links):
    model, theirs = robot(name), pinocchio_model(name)
    contacts = [dn.Contact(link, kind) for link in links]
    forward = dn.build(model, dn.forward_dynamics(model, contacts), backend="c")
    frames = [theirs.getFrameId(link) for link in links]
    size = len(contacts[0].rows)
    core, reason = attempt(lambda: peers.pinocchio_contacts(theirs, frames, size))
    python, derived = python_times(theirs, frames, size)
    times = {"Program": kernel_time(model, forward), "call": call_time(model, forward)}
    times["batch"] = batch_time(model, forward)
    for way, ours in times.items():
        yield way, ours, PYTHON, python, TARGETS[way], ""
        yield way, ours, CORE, core, None, reason
    peer, target = DERIVATIVES
    yield "derivatives", call_time(model, forward, forward.derivatives()), peer, derived, target, ""


def arguments(model, forward, count):
    q, qd, tau = random_states(model, count)
    return q, qd, tau, np.ones((count, len(forward.problem.contacts)))


def kernel_time(model, forward):
    """us per state of the compiled Program in a loop over states, in C."""
    state = arguments(model, forward, STATES)
    still = np.zeros((STATES, len(forward.problem.rows.names)))
    kernel = forward.runner.first.kernel
    x = np.hstack((*state, still, np.tile(model.gravity, (STATES, 1))))
    y = np.empty((STATES, sum(int(np.prod(shape)) for shape in kernel_outputs(forward))))
    return microseconds(lambda _: kernel.run(x, y), 20) / STATES


def kernel_outputs(forward):
    return [numbers.shape for numbers in forward.program.outputs.values()]


def call_time(model, forward, called=None):
    """us per call of a function of the same arguments with checks and new arrays."""
    states, called = [list(array) for array in arguments(model, forward, STATES)], called or forward
    return microseconds(lambda k: called(*(array[k] for array in states)))


def batch_time(model, forward):
    """us per state of a batch on one core."""
    state = arguments(model, forward, BATCH)
    return microseconds(lambda _: forward(*state), 2) / BATCH


def python_times(theirs, frames, size):
    """us of forward dynamics, and of these with their derivatives."""
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
    v, u = (list(array) for array in np.random.default_rng(0).uniform(-1, 1, (2, STATES, theirs.nv)))
    more = models, datas, settings

    def forward(k):
        pin.constraintDynamics(theirs, data, q[k], v[k], u[k], *more)

    def derived(k):
        forward(k)
        pin.computeConstraintDynamicsDerivatives(theirs, data, *more)

    return microseconds(forward), microseconds(derived)


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
