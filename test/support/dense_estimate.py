"""Sensor problems as one dense KKT system, independent of the library: M, h and Jacobians by Pinocchio; the unknowns
are qdd, tau and wrenches."""

import numpy as np
import pinocchio as pin
from sensor_truth import ANGULAR_FIRST, GRAVITY, placement

from dynamics_node.robot import sensors as s


class Dense:
    """The system at q and qd of a Truth. Unknowns: qdd (nv), tau (nv), and per contact the wrench (6) in its frame."""

    def __init__(self, truth, problem):
        self.truth, self.problem, self.oracle = truth, problem, truth.oracle
        self.q, self.qd, _ = truth.state
        self.nv, self.contacts = truth.model.nv, problem.contacts
        self.n = 2 * self.nv + 6 * len(self.contacts)

    def solve(self, readings):
        """{name: result}, covariances of qdd and tau, and chi-square."""
        (E, e), (N, r, W) = self._exact(readings), self._noisy(readings)
        H = N.T @ W @ N
        zero = np.zeros((len(E), len(E)))
        inverse = np.linalg.pinv(np.block([[H, E.T], [E, zero]]), rcond=1e-14)
        x = (inverse @ np.concatenate([N.T @ W @ r, e]))[: self.n]
        P = inverse[: self.n, : self.n]
        residual = r - N @ x
        nv = self.nv
        return {
            "qdd": x[:nv],
            "tau": x[nv : 2 * nv],
            "wrenches": x[2 * nv :].reshape(-1, 6),
            "chi_square": residual @ W @ residual,
            "qdd_covariance": P[:nv, :nv],
            "tau_covariance": P[nv : 2 * nv, nv : 2 * nv],
        }

    def _exact(self, readings):
        """M qdd + h - J^T w = tau; torques of a floating base are zero; exact sensors."""
        nv, model = self.nv, self.truth.model
        h = self.oracle.inverse(self.q, self.qd, np.zeros(nv))
        rows = [np.hstack([self.oracle.mass_matrix(self.q), -np.eye(nv), *map(self._push, self.contacts)])]
        right = [-h]
        free = [body.joint.v for body in model.bodies if body.joint.type.is_free]
        rows += [np.eye(self.n)[nv + v.start : nv + v.stop] for v in free]
        right += [np.zeros(len(rows_of)) for rows_of in rows[1:]]
        for sensor, at in zip(self.problem.sensors, self.problem.places, strict=True):
            if sensor.std == 0.0:
                own, known = self._rows(sensor)
                given = np.broadcast_to(sensor.value, len(own)) if at is None else readings[at]
                rows, right = [*rows, own], [*right, given - known]
        return np.vstack(rows), np.concatenate(right)

    def _push(self, contact):
        """(nv, 6): minus the torques of unit wrenches."""
        still = np.zeros(self.nv)
        weight = self.oracle.inverse(self.q, still, still)
        unit = [(contact.link, contact.xyz, contact.rpy, w) for w in np.eye(6)]
        return np.transpose(
            [self.oracle.inverse(self.q, still, still, self.truth.f_ext_of([one])) - weight for one in unit]
        )

    def _noisy(self, readings):
        N, r, blocks = [np.zeros((0, self.n))], [np.zeros(0)], []
        for sensor, at in zip(self.problem.sensors, self.problem.places, strict=True):
            if sensor.std == 0.0:
                continue
            rows, known = self._rows(sensor)
            count = len(rows)
            given = np.broadcast_to(sensor.value, count) if at is None else readings[at]
            N, r = [*N, rows], [*r, given - known]
            std = np.broadcast_to(1.0 if sensor.std is None else sensor.std, count)
            blocks.append(np.diag(std**2.0) if sensor.covariance is None else np.array(sensor.covariance))
        total = sum(map(len, blocks))
        W, top = np.zeros((total, total)), 0
        for block in blocks:
            W[top : top + len(block), top : top + len(block)] = np.linalg.inv(block)
            top += len(block)
        return np.vstack(N), np.concatenate(r), W

    def _rows(self, sensor):
        """rows (k, n) and the known part of the reading."""
        nv, model = self.nv, self.truth.model
        if isinstance(sensor, (s.JointTorque, s.JointAcceleration)):
            joint = next(b.joint for b in model.bodies if b.joint.name == sensor.joint)
            start = nv if isinstance(sensor, s.JointTorque) else 0
            rows = np.zeros((joint.type.nv, self.n))
            rows[:, start : start + nv] = joint.rate(np.eye(nv)).T
            return rows, 0.0
        if isinstance(sensor, s.ExternalWrench):
            k = [contact.link for contact in self.contacts].index(sensor.link)
            own = self.contacts[k]
            to = placement(sensor.xyz, sensor.rpy).inverse() * placement(own.xyz, own.rpy)
            turned = to.toDualActionMatrix()[np.ix_(ANGULAR_FIRST, ANGULAR_FIRST)]
            rows = np.zeros((6, self.n))
            rows[:, 2 * nv + 6 * k : 2 * nv + 6 * k + 6] = turned
            return rows[[s.WRENCH.index(row) for row in sensor.rows]], 0.0
        return self._moving(sensor)

    def _moving(self, sensor):
        """Rows of a sensor on a link: a = J qdd + bias."""
        model, data = self.oracle.pin, self.oracle.pin.createData()
        zero = np.zeros(model.nv)
        q, v = self.oracle.q(self.q), self.oracle.v(self.qd)
        pin.forwardKinematics(model, data, q, v, zero)
        joint, at = self.truth.on_joint(sensor.link, sensor.xyz, sensor.rpy)
        pin.computeJointJacobians(model, data, q)
        J = at.toActionMatrixInverse() @ pin.getJointJacobian(model, data, joint, pin.LOCAL)
        J = J[:, self.oracle.order]
        v, a, world = at.actInv(data.v[joint]), at.actInv(data.a[joint]), data.oMi[joint] * at
        proper = a.linear + np.cross(v.angular, v.linear) - world.rotation.T @ GRAVITY
        own = {
            s.Accelerometer: (J[:3], proper),
            s.AngularAcceleration: (J[3:], a.angular),
            s.Gyro: (0 * J[:3], v.angular),
            s.Imu: (np.vstack([0 * J[:3], J[:3]]), np.concatenate([v.angular, proper])),
        }[type(sensor)]
        return np.hstack([own[0], np.zeros((len(own[0]), self.n - self.nv))]), own[1]
