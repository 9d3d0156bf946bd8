"""Readings of sensors on a moving robot and true values of all variables, by Pinocchio."""

import numpy as np
import pinocchio as pin
from oracle import Oracle

import dynamics_node as dn
from dynamics_node.graph.factors import acceleration, contact_force, joint_acceleration, torque, wrench
from dynamics_node.robot import sensors as s

ANGULAR_FIRST = [3, 4, 5, 0, 1, 2]
GRAVITY = np.array([0.0, 0.0, -9.81])


def placement(xyz, rpy):
    return pin.SE3(pin.rpy.rpyToMatrix(*map(float, rpy)), np.array(xyz, dtype=float))


def tips(model):
    parents = set(model.parents)
    return [body.name for i, body in enumerate(model.bodies) if i not in parents]


def sensor_problem_of(model, records, covariance=()):
    """The problem of sensors and contacts in one list."""
    parts: dict[bool, list] = {True: [], False: []}
    for record in records:
        parts[isinstance(record, dn.Contact)].append(record)
    return dn.sensor_problem(model, parts[False], covariance, contacts=parts[True])


def driven(model):
    return [joint.name for joint in model.independent_joints if not joint.type.is_free]


class Truth:
    """A robot of ROBOTS at q, qd, qdd with wrenches (link, xyz, rpy, wrench (6,) moment first, in the axes of that
    frame). The least wrenches at `supports`, (link, xyz, rpy, rows), balance a floating base; by default the root."""

    def __init__(self, robot, model, q, qd, qdd, wrenches=(), supports=()):
        self.model, self.state = model, (q, qd, qdd)
        self.oracle = Oracle(robot, model)
        self.pin = self.oracle.pin
        self.wrenches = [*wrenches, *self._support_wrenches(wrenches, supports)]
        self.f_ext = self.f_ext_of(self.wrenches)
        self.tau = self.oracle.inverse(q, qd, qdd, self.f_ext)
        self.data = self.oracle.data
        self.moving = self.pin.createData()
        pin.forwardKinematics(self.pin, self.moving, self.oracle.q(q), self.oracle.v(qd), self.oracle.v(qdd))

    def _support_wrenches(self, wrenches, supports):
        if not self.model.floating_base:
            return []
        supports = supports or [(self.model.bodies[0].name, np.zeros(3), np.zeros(3), range(6))]
        q, qd, qdd = self.state
        missing = self.oracle.inverse(q, qd, qdd, self.f_ext_of(wrenches))[:6]
        unit = [(link, xyz, rpy, np.eye(6)[row]) for link, xyz, rpy, rows in supports for row in rows]
        still = np.zeros_like(qd)
        weight = self.oracle.inverse(q, still, still)[:6]
        acts = [self.oracle.inverse(q, still, still, self.f_ext_of([one]))[:6] - weight for one in unit]
        least = np.linalg.lstsq(np.transpose(acts), -missing, rcond=None)[0]
        return [(link, xyz, rpy, size * w) for (link, xyz, rpy, w), size in zip(unit, least, strict=True)]

    def f_ext_of(self, wrenches):
        f_ext = np.zeros((self.model.nbodies, 6))
        for link, xyz, rpy, w in wrenches:
            joint, at = self.on_joint(link, xyz, rpy)
            body = next(k for k, body in enumerate(self.model.bodies) if self._number(body) == joint)
            f_ext[body] += at.act(pin.Force(w[3:], w[:3])).vector[ANGULAR_FIRST]
        return f_ext

    def _number(self, body):
        return self.pin.getJointId("root_joint" if body.joint.kind == "floating" else body.joint.name)

    def on_joint(self, link, xyz, rpy):
        frame = self.pin.frames[self.pin.getFrameId(link, pin.BODY)]
        return frame.parentJoint, frame.placement * placement(xyz, rpy)

    def values(self, problem):
        """{variable: value} of all variables of a sensor problem of this robot."""
        values = {}
        for i, body in enumerate(self.model.bodies):
            number = self._number(body)
            values[acceleration(i)] = self.data.a_gf[number].vector[ANGULAR_FIRST]
            values[wrench(i)] = self.data.f[number].vector[ANGULAR_FIRST]
            joint = body.joint
            if joint.masters is None:
                values[torque(i, joint.type.nv)] = self.tau[joint.v]
                values[joint_acceleration(i, joint.type.nv)] = self.state[2][joint.v]
        for number, contact in enumerate(problem.contacts):
            assert contact.kind == "surface"
            values[contact_force(number, 6)] = self._external(contact)
        return values

    def _external(self, at):
        """The sum of all wrenches on a link, in the frame of a sensor or contact on it."""
        total = np.zeros(6)
        for link, xyz, rpy, w in self.wrenches:
            if link == at.link:
                there = placement(at.xyz, at.rpy).inverse() * placement(xyz, rpy)
                total += there.act(pin.Force(w[3:], w[:3])).vector[ANGULAR_FIRST]
        return total

    def readings(self, problem):
        read = [self.reading(sensor) for sensor in problem.sensors if sensor.value is None]
        return np.concatenate([np.zeros(0), *read])

    def reading(self, sensor):
        q, qd, qdd = self.state
        if isinstance(sensor, (s.JointTorque, s.JointAcceleration)):
            joint = next(b.joint for b in self.model.bodies if b.joint.name == sensor.joint)
            values = self.tau if isinstance(sensor, s.JointTorque) else qdd
            return joint.rate(values)
        if isinstance(sensor, s.ExternalWrench):
            return self._external(sensor)[[s.WRENCH.index(row) for row in sensor.rows]]
        if isinstance(sensor, s.ForceTorque):
            body = next(b for b in self.model.bodies if b.joint.name == sensor.joint)
            f = self.data.f[self._number(body)]
            sign = {"parent_to_child": 1.0, "child_to_parent": -1.0}[sensor.measures]
            return sign * placement(sensor.xyz, sensor.rpy).actInv(f).vector[ANGULAR_FIRST]
        joint, at = self.on_joint(sensor.link, sensor.xyz, sensor.rpy)
        world = self.moving.oMi[joint] * at
        v, a = at.actInv(self.moving.v[joint]), at.actInv(self.moving.a[joint])
        proper = a.linear + np.cross(v.angular, v.linear) - world.rotation.T @ GRAVITY
        return {
            s.Accelerometer: proper,
            s.AngularAcceleration: a.angular,
            s.Gyro: v.angular,
            s.Imu: np.concatenate([v.angular, proper]),
        }[type(sensor)]
