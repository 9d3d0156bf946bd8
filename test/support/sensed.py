"""What Pinocchio says that a joint transmits, a fixed one too: it is read as a revolute joint that stands still."""

import re

import numpy as np
import pytest

pin = pytest.importorskip("pinocchio", reason="Pinocchio: pip install pin, or ros-$ROS_DISTRO-pinocchio")


class JointWrench:
    """robot: of robots.py; model: ours, all of whose joints have one coordinate; joint: a fixed one, or not."""

    def __init__(self, robot, model, joint):
        text = robot.file.read_text()
        self._joint, head = joint, rf'(<joint\s[^>]*name="{joint}"[^>]*)'
        element = re.search(head, text)[0]
        turned = element.replace('type="fixed"', 'type="continuous"')
        self.pin = pin.buildModelFromXML(text.replace(element, turned), mimic=True)
        if robot.joints is not None:
            held = [n for n in list(self.pin.names)[1:] if n not in (*robot.joints, joint)]
            held = [self.pin.getJointId(name) for name in held]
            self.pin = pin.buildReducedModel(self.pin, held, pin.neutral(self.pin))
        self.data, self._model = self.pin.createData(), model

    def _values(self, of, values, start):
        for joint in self._model.independent_joints:
            at = self.pin.joints[self.pin.getJointId(joint.name)]
            value, first = values[joint.v.start], getattr(at, start)
            of[first : first + getattr(at, start.replace("idx_", "n"))] = (
                (np.cos(value), np.sin(value)) if start == "idx_q" and at.nq == 2 else value
            )
        return of

    def __call__(self, q, qd, qdd, xyz=(0, 0, 0), rpy=(0, 0, 0)):
        """(6,), moment first, ON the child, at a sensor in the child link."""
        arguments = [self._values(pin.neutral(self.pin), q, "idx_q")]
        arguments += [self._values(np.zeros(self.pin.nv), rates, "idx_v") for rates in (qd, qdd)]
        pin.rnea(self.pin, self.data, *arguments)
        place = pin.SE3(pin.rpy.rpyToMatrix(*map(float, rpy)), np.array(xyz, dtype=float))
        force = place.actInv(self.data.f[self.pin.getJointId(self._joint)])
        return np.concatenate([force.angular, force.linear])
