"""The node with a parameters file: torques of the corrected robot from the code of the described one."""

import os
import subprocess
import sys

import numpy as np
import pytest
from oracle import Oracle
from rig import efforts
from robots import ROBOTS
from std_srvs.srv import Trigger
from tolerances import error

from dynamics_node.robot.overrides import JointNumbers, Overrides, overrides_text
from dynamics_node.robot.state_arrays import sample_positions
from dynamics_node.robot.urdf_numbers import ALL_FIGURES, Inertial, with_numbers

UR5 = ROBOTS["ur5"]
CLOSE = 1e-9


class CorrectedRobot:
    """A UR5 with other bodies and joints, in a file of parameters and in a description, which Pinocchio reads."""

    def __init__(self, seed, folder):
        random = np.random.default_rng(seed)
        model = UR5.model()
        self.names = model.joint_names
        links = {}
        for body in model.bodies:
            moments = random.uniform(0.1, 0.2, 3)
            links[body.name] = Inertial(np.diag(moments), random.uniform(1, 5), random.uniform(-0.2, 0.2, 3))
        self.viscous, self.coulomb, self.creep, self.offset, self.spring = random.uniform(0.1, 2, (5, 6))
        rows = zip(self.names, self.viscous, self.coulomb, self.creep, self.offset, self.spring, strict=True)
        joints = {name: JointNumbers(None, *values) for name, *values in rows}
        self.text = overrides_text(Overrides(links, joints))
        self.file = folder / f"corrected{seed}.urdf"
        self.file.write_text(with_numbers(UR5.file.read_bytes(), links, figures=ALL_FIGURES))
        self._oracle = Oracle(UR5._replace(path=self.file), model)

    def torque(self, q, qd):
        """Torques of Pinocchio plus joint friction, springs and offsets."""
        friction = self.viscous * qd + self.coulomb * np.tanh(qd / 0.01) + self.creep * np.tanh(qd / 0.1)
        return self._oracle.inverse(q, qd, 0 * q) + friction + self.offset + self.spring * q


@pytest.fixture
def compiler(tmp_path):
    """(environment with an empty cache and a counting compiler, function that returns the count)"""
    program, log = tmp_path / "counting_cc", tmp_path / "calls"
    program.write_text(f'#!/bin/sh\necho "$@" >> {log}\nexec cc "$@" -O0\n')
    program.chmod(0o755)
    environment = {"CC": str(program), "XDG_CACHE_HOME": str(tmp_path / "cache")}
    return environment, lambda: log.read_text().count(" -o ")


def test_a_parameters_file_needs_no_compiler_and_bad_files_are_rejected(rig, tmp_path, compiler):
    environment, calls = compiler
    command = [sys.executable, "-m", "dynamics_node.cli", "compile", str(UR5.file)]
    subprocess.run(command, check=True, env={**os.environ, **environment}, stdout=subprocess.DEVNULL)
    compiled = calls()
    assert compiled > 0
    one, two, path = CorrectedRobot(1, tmp_path), CorrectedRobot(2, tmp_path), tmp_path / "parameters.yaml"
    path.write_text(one.text)
    parameters = {"backend": "auto", "parameters_file": str(path)}
    parameters |= {"compensate.friction": True, "effort_limits": "none"}
    r = rig("ur5", parameters, environment=environment)
    r.until(lambda: "(c)" in r.process.output(), what="compiled code")
    random = np.random.default_rng(5)

    def answers(other):
        q, qd = sample_positions(UR5.model(), 1, random, 1.0)[0], random.normal(size=6)
        return error(efforts(r.answered(one.names, q, qd), one.names), other.torque(q, qd))

    assert max(answers(one) for _ in range(5)) <= CLOSE

    def reloaded(text, line):
        path.write_text(text)
        before = len(r.process.output())
        assert r.call(Trigger, "reload").success
        r.until(lambda: line in r.process.output()[before:], what=line)

    reloaded(one.text.replace("mass: ", "mass: -"), "the parameters file: link 'shoulder_link': mass -")
    assert answers(one) <= CLOSE
    reloaded(one.text.replace("forearm_link", "forearm9"), "this one has no link 'forearm9'; it has")
    assert answers(one) <= CLOSE
    reloaded("links: [", "the file of parameters is not valid YAML")
    assert answers(one) <= CLOSE
    path.write_text(two.text)
    assert r.call(Trigger, "reload").success
    r.until(lambda: answers(two) <= CLOSE, what="the other parameters")
    path.unlink()
    assert r.call(Trigger, "reload").success
    r.until(lambda: f"{path}: no such file" in r.process.output(), what="why not")
    assert answers(two) <= CLOSE
    assert calls() == compiled
