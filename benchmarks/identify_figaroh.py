"""Identification of a Panda beside FIGAROH: the same states with rotor inertias, friction and noise, the same
terms, a motion that neither has seen.

FIGAROH is called as its own reference example with a known truth calls it: a subclass of BaseIdentification
whose trajectory has analytic derivatives, a unified configuration, no decimation, weighted least squares and
the convex fit with LMIs that `select_stage: physical_fit` chooses. Its Coulomb friction is sign(qd), ours is
smooth within 0.01 rad/s; that of the data is judged where it is nobody's, within 0.03 rad/s, which fits
recordings of a Panda and a UR10 no worse than either, and shown where it is FIGAROH's own. Wall time, from
arrays to parameters, our checks of the data included; BLAS has one thread.
"""

import os

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import contextlib
import io
import logging
import tempfile
import time
from pathlib import Path

import harness
import numpy as np
import yaml
from robots import PANDA, robot, robot_file

# isort: split
from identified import Truth, in_chunks  # of the tests, whose folder `robots` has found

from dynamics_node.algorithms.actuation import SMOOTHING
from dynamics_node.identification import Sums, base_parameters, identify, weighted

TERMS = ("inertia", "rotor", "viscous", "coulomb", "offset")
TIME = np.arange(0.0, 60.0, 0.01)
FRICTION = {"friction of robots": 0.03, "FIGAROH's friction": 0.0}  # rad/s within which it changes its sign
NOISE = 0.1  # N m
ROUNDS = 3
FASTER, NOT_WORSE = 0.1, 1.0
ABSENT = "needs FIGAROH: ./dev setup bench"
CONFIGURATION = {
    "robot": {
        "name": "panda",
        "properties": {
            "joints": {"active_joints": PANDA},
            "mechanics": {
                "friction_coefficients": {"viscous": [0.0] * 7, "static": [0.0] * 7},
                "actuator_inertias": [0.0] * 7,
                "joint_offsets": [0.0] * 7,
            },
            "coupling": {"has_coupled_wrist": False},
        },
    },
    "tasks": {
        "identification": {
            "enabled": True,
            "problem": {
                "model_components": {"friction": True, "joint_offset": True, "actuator_inertia": True}
            },
            "signal_processing": {"sampling_frequency": 100.0, "cutoff_frequency": 20.0},
            "physical_fit": {"enabled": True},
            "select_stage": "physical_fit",
        }
    },
}


def peer_class():
    """A subclass as FIGAROH wants it: it gives the states as they are."""
    from figaroh.identification import BaseIdentification

    class Panda(BaseIdentification):
        def __init__(self, robot, configuration, recording):
            self.recording = recording
            super().__init__(robot, configuration)
            joints = [robot.model.joints[robot.model.getJointId(name)] for name in PANDA]
            own = {"act_Jid": [joint.id for joint in joints], "act_J": joints}
            own |= {"act_idxq": [j.idx_q for j in joints], "act_idxv": [j.idx_v for j in joints]}
            self.identif_config.update(own)

        def load_trajectory_data(self, data_source=None):
            kinds = {"positions": "q", "velocities": "qd", "accelerations": "qdd", "torques": "tau"}
            given = {theirs: self.recording[ours] for theirs, ours in kinds.items()}
            return given | {"timestamps": self.recording["time"][:, None]}

        def process_kinematics_data(self, filter_config=None):
            self.processed_data = {name: rows.copy() for name, rows in self.raw_data.items()}

    return Panda


class Peer:
    """FIGAROH's parameters, over its own regressor."""

    def __init__(self, folder, physical):
        import pinocchio

        full = pinocchio.buildModelFromUrdf(str(robot_file("panda")))
        held = [full.getJointId(name) for name in list(full.names)[1:] if name not in PANDA]
        self._robot = pinocchio.RobotWrapper(pinocchio.buildReducedModel(full, held, pinocchio.neutral(full)))
        self._class, self._path = peer_class(), Path(folder) / f"panda-{physical}.yaml"
        configuration = yaml.safe_load(yaml.safe_dump(CONFIGURATION))
        if not physical:
            del configuration["tasks"]["identification"]["physical_fit"]
            del configuration["tasks"]["identification"]["select_stage"]
        self._path.write_text(yaml.safe_dump(configuration))

    def identify(self, recording):
        with contextlib.redirect_stdout(io.StringIO()):
            found = self._class(self._robot, str(self._path), recording)
            found.initialize()
            found.solve(decimate=False, plotting=False, wls=True)
        return found

    def torques(self, found, recording):
        """(rows, joints) of what it has selected, on other states."""
        from figaroh.tools.regressor import build_regressor_basic

        states = [recording[kind] for kind in ("q", "qd", "qdd")]
        W = build_regressor_basic(self._robot, *states, found.identif_config)
        kept = np.delete(W, found._idx_eliminated, axis=1)[:, found._base_indices]
        chosen = found.selected
        phi = found.phi_base if chosen is None else chosen.phi_base_equivalent
        return (kept @ np.asarray(phi)).reshape(len(PANDA), -1).T


def timed(call):
    """What a call returns, and its wall time in s, the least of ROUNDS."""
    taken = []
    for _ in range(ROUNDS):
        begin = time.perf_counter()
        found = call()
        taken.append(time.perf_counter() - begin)
    return found, min(taken)


def recordings(truth, width):
    """To learn from, and to be judged by. width: rad/s within which Coulomb friction changes its sign."""
    both = truth.recording(1, noise=NOISE, time=TIME), truth.recording(2, noise=NOISE, time=TIME)
    coulomb = truth.parameters[truth.linear.places("coulomb")]
    for one in both:
        friction = np.tanh(one["qd"] / width) if width else np.sign(one["qd"])
        one["tau"] += coulomb * (friction - np.tanh(one["qd"] / SMOOTHING))
    return both


def least_squares(truth, recording):
    """Base parameters alone."""
    base = base_parameters(truth.linear)
    sums = Sums(truth.linear, base)
    sums.add(*(recording[kind] for kind in ("q", "qd", "qdd", "tau")))
    return base, weighted(sums, base.values(truth.linear.described)).x


def compared(folder, name):
    """Rows of both kinds of friction, with consistent bodies and without."""
    truth = Truth(robot("panda"), backend="c", terms=TERMS)
    for told, width in FRICTION.items():
        known, unseen = recordings(truth, width)
        W = truth.linear.matrix(*(unseen[kind] for kind in ("q", "qd", "qdd")))
        for physical, kind in ((True, "bodies that can be"), (False, "base parameters")):
            peer = Peer(folder, physical)
            if physical:
                found, ours = timed(
                    lambda r=known: identify(truth.robot, [in_chunks(r)], terms=TERMS, backend="c")
                )
                off = W @ found.parameters - unseen["tau"]
            else:
                (base, x), ours = timed(lambda r=known: least_squares(truth, r))
                off = base.reduced(W) @ x - unseen["tau"]
            theirs, took = timed(lambda p=peer, r=known: p.identify(r))
            beside = peer.torques(theirs, unseen) - unseen["tau"]
            what = f"panda, {told}, {kind}"
            target = NOT_WORSE if width else None
            yield harness.Row(
                f"{what}: RMS unseen", _rms(off), "N m", "lower", name, _rms(beside), target=target
            )
            yield harness.Row(f"{what}: time", ours, "s", "lower", name, took, target=FASTER)


def _rms(off):
    return float(np.sqrt(np.mean(off**2)))


def absent():
    """Rows without a peer."""
    return [harness.Row("panda beside FIGAROH", None, "", "lower", reason=ABSENT)]


def main():
    options = harness.arguments("identify_figaroh").parse_args()
    found = harness.versions("numpy", "pin", "figaroh")
    logging.disable(logging.WARNING)
    if found["figaroh"] == "absent":
        rows = absent()
    else:
        with tempfile.TemporaryDirectory() as folder:
            rows = list(compared(folder, f"FIGAROH {found['figaroh']}"))
    harness.finish("identify_figaroh", rows, found, options.save)


if __name__ == "__main__":
    main()
