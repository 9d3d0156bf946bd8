"""The wrench that a joint transmits, by Pinocchio. A fixed joint becomes a revolute joint at rest."""

import re

import numpy as np
import pytest

pin = pytest.importorskip("pinocchio", reason="Pinocchio: pip install pin, or ros-$ROS_DISTRO-pinocchio")


class JointWrench:
    """robot: of robots.py; model: its Robot, whose joints all have one coordinate; joint: any, also a fixed one."""

    def __init__(self, robot, model, joint):
        text = robot.file.read_text()
        self._joint, head = joint, rf'(<joint\s[^>]*name="{joint}"[^>]*)'
        element = re.search(head, text)[0]
        turned = element.replace('type="fixed"', 'type="continuous"')
        self.pin = pin.buildModelFromXML(text.replace(element, turned), mimic=True)
        if robot.joints is not None:
            locked = [n for n in list(self.pin.names)[1:] if n not in (*robot.joints, joint)]
            locked = [self.pin.getJointId(name) for name in locked]
            self.pin = pin.buildReducedModel(self.pin, locked, pin.neutral(self.pin))
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
        """(6,): the wrench on the child, moment first, at a sensor in the child link."""
        arguments = [self._values(pin.neutral(self.pin), q, "idx_q")]
        arguments += [self._values(np.zeros(self.pin.nv), rates, "idx_v") for rates in (qd, qdd)]
        pin.rnea(self.pin, self.data, *arguments)
        place = pin.SE3(pin.rpy.rpyToMatrix(*map(float, rpy)), np.array(xyz, dtype=float))
        force = place.actInv(self.data.f[self.pin.getJointId(self._joint)])
        return np.concatenate([force.angular, force.linear])
