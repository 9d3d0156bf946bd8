"""Identification of a Panda against FIGAROH: the same noisy states and terms, evaluated on an unseen motion.

FIGAROH runs as in its reference example with a known truth: a subclass of BaseIdentification with analytic
derivatives, no decimation, weighted least squares, and the convex fit of `select_stage: physical_fit`. Its
Coulomb friction is sign(qd); ours is smooth within 0.01 rad/s. Targets apply to data whose friction is smooth
within 0.03 rad/s, the model of neither; it fits recordings of a Panda and a UR10 no worse. Rows with
FIGAROH's friction have no target. Wall time is from arrays to parameters, including our data checks; BLAS has
one thread.
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
from identified import Truth, in_chunks  # of test/support, which `robots` adds to the path

from dynamics_node.algorithms.joint_friction import SMOOTHING
from dynamics_node.identification import Sums, base_parameters, identify, weighted

TERMS = ("inertia", "rotor", "viscous", "coulomb", "offset")
TIME = np.arange(0.0, 60.0, 0.01)
FRICTION = {"friction of robots": 0.03, "FIGAROH's friction": 0.0}  # rad/s, width of the sign change
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
    """The subclass for FIGAROH, with unfiltered states."""
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
    """FIGAROH's identification and torques, with its own regressor."""

    def __init__(self, folder, physical):
        import pinocchio

        full = pinocchio.buildModelFromUrdf(str(robot_file("panda")))
        locked = [full.getJointId(name) for name in list(full.names)[1:] if name not in PANDA]
        self._robot = pinocchio.RobotWrapper(
            pinocchio.buildReducedModel(full, locked, pinocchio.neutral(full))
        )
        self._class, self._path = peer_class(), Path(folder) / f"panda-{physical}.yaml"
        configuration = yaml.safe_load(yaml.safe_dump(CONFIGURATION))
        if not physical:
            del configuration["tasks"]["identification"]["physical_fit"]
            del configuration["tasks"]["identification"]["select_stage"]
        self._path.write_text(yaml.safe_dump(configuration))

    def identify(self, recording):
        with contextlib.redirect_stdout(io.StringIO()):
            identification = self._class(self._robot, str(self._path), recording)
            identification.initialize()
            identification.solve(decimate=False, plotting=False, wls=True)
        return identification

    def torques(self, identification, recording):
        """(rows, joints): torques of the selected parameters on other states."""
        from figaroh.tools.regressor import build_regressor_basic

        states = [recording[kind] for kind in ("q", "qd", "qdd")]
        W = build_regressor_basic(self._robot, *states, identification.identif_config)
        base_columns = np.delete(W, identification._idx_eliminated, axis=1)[:, identification._base_indices]
        selected = identification.selected
        phi = identification.phi_base if selected is None else selected.phi_base_equivalent
        return (base_columns @ np.asarray(phi)).reshape(len(PANDA), -1).T


def timed(call):
    """The result of a call and its wall time in s, the least of ROUNDS."""
    times = []
    for _ in range(ROUNDS):
        begin = time.perf_counter()
        result = call()
        times.append(time.perf_counter() - begin)
    return result, min(times)


def recordings(truth, width):
    """Recordings for identification and for evaluation; width: rad/s, of the sign change of Coulomb
    friction."""
    pair = truth.recording(1, noise=NOISE, time=TIME), truth.recording(2, noise=NOISE, time=TIME)
    coulomb = truth.parameters[truth.linear.places("coulomb")]
    for recording in pair:
        friction = np.tanh(recording["qd"] / width) if width else np.sign(recording["qd"])
        recording["tau"] += coulomb * (friction - np.tanh(recording["qd"] / SMOOTHING))
    return pair


def least_squares(truth, recording):
    """Base parameters by weighted least squares."""
    base = base_parameters(truth.linear)
    sums = Sums(truth.linear, base)
    sums.add(recording)
    return base, weighted(sums, base.values(truth.linear.described)).x


def compared(folder, name):
    """Rows of both kinds of friction, with and without physically consistent bodies."""
    truth = Truth(robot("panda"), backend="c", terms=TERMS)
    for friction, width in FRICTION.items():
        known, unseen = recordings(truth, width)
        W = truth.linear.matrix(*(unseen[kind] for kind in ("q", "qd", "qdd")))
        for physical, kind in ((True, "bodies that can be"), (False, "base parameters")):
            peer = Peer(folder, physical)
            if physical:
                ours_identified, our_time = timed(
                    lambda r=known: identify(truth.robot, [in_chunks(r)], terms=TERMS, backend="c")
                )
                our_error = W @ ours_identified.parameters - unseen["tau"]
            else:
                (base, x), our_time = timed(lambda r=known: least_squares(truth, r))
                our_error = base.reduced(W) @ x - unseen["tau"]
            theirs, their_time = timed(lambda p=peer, r=known: p.identify(r))
            their_error = peer.torques(theirs, unseen) - unseen["tau"]
            what = f"panda, {friction}, {kind}"
            target = NOT_WORSE if width else None
            yield harness.Row(
                f"{what}: RMS unseen", _rms(our_error), "N m", "lower", name, _rms(their_error), target=target
            )
            yield harness.Row(f"{what}: time", our_time, "s", "lower", name, their_time, target=FASTER)


def _rms(errors):
    return float(np.sqrt(np.mean(errors**2)))


def absent():
    """The row without FIGAROH."""
    return [harness.Row("panda beside FIGAROH", None, "", "lower", reason=ABSENT)]


def main():
    options = harness.arguments("identify_figaroh").parse_args()
    package_versions = harness.versions("numpy", "pin", "figaroh")
    logging.disable(logging.WARNING)
    if package_versions["figaroh"] == "absent":
        rows = absent()
    else:
        with tempfile.TemporaryDirectory() as folder:
            rows = list(compared(folder, f"FIGAROH {package_versions['figaroh']}"))
    harness.finish("identify_figaroh", rows, package_versions, options.save)


if __name__ == "__main__":
    main()
