"""Independent computations: inverse dynamics of the same URDF by Pinocchio.

Pinocchio has the five-bar as a tree; the loop is closed geometrically, rates follow from Jacobians.
"""

import numpy as np

TOLERANCE = 1e-10  # error relative to the largest torque


def require_pinocchio():
    """The pinocchio module. Raises ImportError with the installation command."""
    try:
        import pinocchio
    except ImportError as error:
        raise ImportError("the monitor computes torques with Pinocchio: pip install pin") from error
    return pinocchio


class ArmOracle:
    """Torques (n,) of some joints of a URDF; the others stay at zero.

    rotors: inertias (n,) at the joints; payload: of `tracked_arm`. Friction is the URDF's, by the law of
    docs/reference/ros.md: damping qd + friction tanh(qd / 0.01 rad/s).
    """

    def __init__(self, urdf, joints, rotors, payload):
        pin = self._pin = require_pinocchio()
        whole = pin.buildModelFromXML(urdf)
        fixed = [whole.getJointId(name) for name in list(whole.names)[1:] if name not in joints]
        self._model = model = pin.buildReducedModel(whole, fixed, pin.neutral(whole))
        frame = model.frames[model.getFrameId(payload.link)]
        ball = pin.Inertia(payload.mass, np.array(payload.center), payload.moment * np.eye(3))
        model.appendBodyToJoint(frame.parentJoint, ball, frame.placement)
        self._order = [model.joints[model.getJointId(name)].idx_v for name in joints]
        armature = np.zeros(model.nv)
        armature[self._order] = rotors
        model.armature = armature
        self._damping, self._friction = model.damping[self._order], model.friction[self._order]
        self._data = model.createData()

    def torques(self, q, qd, qdd):
        """(n,) of the full dynamics at q, qd, qdd (n,)."""
        tau = self._pin.rnea(self._model, self._data, *map(self._theirs, (q, qd, qdd)))[self._order]
        return tau + self._damping * qd + self._friction * np.tanh(qd / 0.01)

    def gravity(self, q):
        """Holding torques (n,) at q (n,)."""
        tau = self._pin.computeGeneralizedGravity(self._model, self._data, self._theirs(q))
        return tau[self._order].copy()

    def _theirs(self, values):
        theirs = np.zeros(self._model.nv)
        theirs[self._order] = values
        return theirs


def torque_error(tau, expected):
    """max|tau - expected| / max(1e-6, max|expected|)."""
    return float(np.abs(tau - expected).max() / max(1e-6, np.abs(expected).max()))


# --- the five-bar -------------------------------------------------------------------------------------------


DRIVEN, PASSIVE = ("j1", "j2"), ("j3", "j4")
BASE, UPPER, LOWER = 0.2, 0.4, 0.5  # m


class FiveBarOracle:
    """Torques of the actuated joints. q (4,) are Pinocchio's positions, see `at`."""

    def __init__(self, urdf):
        pin = self._pin = require_pinocchio()
        self._model = pin.buildModelFromXML(urdf)
        tip = pin.SE3(np.eye(3), np.array([LOWER, 0.0, 0.0]))
        self._ends = [
            self._model.addFrame(
                pin.Frame(f"end of {name}", self._model.getJointId(name), tip, pin.FrameType.OP_FRAME)
            )
            for name in PASSIVE
        ]
        self._data = self._model.createData()
        self.at = {
            name: self._model.joints[self._model.getJointId(name)].idx_v for name in (*DRIVEN, *PASSIVE)
        }
        self._side = 0.0  # assembly of the first published state

    def torques(self, positions, q, qd, qdd):
        """(2,) at q, qd, qdd (2,) of the actuated joints; positions: {joint: position} as published."""
        if not self._side:
            published = np.array([positions[name] for name in PASSIVE])
            self._side = min((1.0, -1.0), key=lambda s: np.abs(self.passive(q, s) - published).max())
        return self.torques_of(self.closed(q, self._side), qd, qdd)

    def drift(self, positions):
        """Gap of the loop at published positions, m."""
        q = np.zeros(4)
        for name, k in self.at.items():
            q[k] = positions[name]
        return float(np.linalg.norm(self.gap(q)))

    def gap(self, q):
        """Vector between the ends of the loop (3,), m."""
        self._pin.framesForwardKinematics(self._model, self._data, q)
        first, second = (self._data.oMf[end].translation for end in self._ends)
        return first - second

    def closed(self, driven, side=1.0):
        """q with the actuated joints at (2,), in one of the two assemblies."""
        q = np.zeros(4)
        q[[self.at[name] for name in DRIVEN]] = driven
        q[[self.at[name] for name in PASSIVE]] = self.passive(driven, side)
        return q

    @staticmethod
    def passive(driven, side):
        """Angles (2,) of the passive joints: the circles around both elbows intersect at the tip."""
        elbows = [
            np.array([x + UPPER * np.cos(angle), UPPER * np.sin(angle)])
            for x, angle in zip((-BASE, BASE), driven, strict=True)
        ]
        apart = elbows[1] - elbows[0]
        height = side * np.sqrt(LOWER**2 - apart @ apart / 4)
        tip = sum(elbows) / 2 + height * np.array([-apart[1], apart[0]]) / np.linalg.norm(apart)
        angles = [np.arctan2(*(tip - elbow)[::-1]) for elbow in elbows]
        return np.array(angles) - driven

    def motion(self, q):
        """G (4, 2): Jacobian of all joints by the actuated ones."""
        jacobian, frame = self._pin.computeFrameJacobian, self._pin.LOCAL_WORLD_ALIGNED
        first, second = (jacobian(self._model, self._data, q, end, frame)[:3] for end in self._ends)
        free, follow = ([self.at[name] for name in names] for names in (DRIVEN, PASSIVE))
        G, self._inverse = np.zeros((4, 2)), np.linalg.pinv((first - second)[:, follow])
        G[free] = np.eye(2)
        G[follow] = -self._inverse @ (first - second)[:, free]
        return G

    def torques_of(self, q, qd, qdd):
        """(2,) at a closed q and qd, qdd (2,) of the actuated joints."""
        G = self.motion(q)
        rates, accelerations = G @ qd, G @ qdd
        self._pin.forwardKinematics(self._model, self._data, q, rates, np.zeros(4))
        ends = [self._acceleration(end) for end in self._ends]
        accelerations[[self.at[name] for name in PASSIVE]] -= self._inverse @ (ends[0] - ends[1])
        return G.T @ self._pin.rnea(self._model, self._data, q, rates, accelerations)

    def _acceleration(self, end):
        """Acceleration of a frame's origin (3,) in world axes."""
        frame = self._pin.LOCAL_WORLD_ALIGNED
        return self._pin.getFrameClassicalAcceleration(self._model, self._data, end, frame).linear


# --- robots on legs -----------------------------------------------------------------------------------------


class StandingOracle:
    """Torques of joints and the shortest wrenches at contacts. q: x y z qx qy qz qw of the base, then the
    joints; qd, qdd: angular, then linear, in axes of the base, then the joints. contacts: points with axes of
    the world, or surfaces with axes of their links, at the origins of links.

    units (6,): moment and force that count alike."""

    def __init__(self, urdf, joints, contacts):
        pin = self._pin = require_pinocchio()
        self._model = pin.buildModelFromXML(urdf, pin.JointModelFreeFlyer())
        self._data = self._model.createData()
        of_joints = [self._model.joints[self._model.getJointId(name)] for name in joints]
        self._places = np.array([*range(7), *(joint.idx_q for joint in of_joints)])
        self._order = np.array([3, 4, 5, 0, 1, 2, *(joint.idx_v for joint in of_joints)])  # linear first
        self._contacts = [(self._model.getFrameId(c.link), c.kind == "surface") for c in contacts]
        lengths = contacts[0].half_lengths or (1.0,)
        self.units = np.repeat([np.mean(lengths), 1.0], 3)

    def solve(self, q, qd, qdd, active):
        """Torques (joints,) and wrenches (contacts, 6), moment first, by `active` contacts (contacts,)."""
        theirs = np.zeros(self._model.nq), np.zeros(self._model.nv), np.zeros(self._model.nv)
        for values, places, ours in zip(
            theirs, (self._places, self._order, self._order), (q, qd, qdd), strict=True
        ):
            values[places] = ours
        needed = self._pin.rnea(self._model, self._data, *theirs)[self._order]
        J = np.stack([self._jacobian(theirs[0], *contact) for contact in self._contacts])
        J = (J * np.array(active)[:, None, None] * self.units[:, None]).reshape(-1, len(needed))
        forces = np.linalg.lstsq(J[:, :6].T, needed[:6], rcond=None)[0]
        return (needed - J.T @ forces)[6:], forces.reshape(-1, 6) * self.units

    def _jacobian(self, q, frame, is_surface):
        """(6, nv) in our order, angular first; of a point without angular part."""
        axes = self._pin.LOCAL if is_surface else self._pin.LOCAL_WORLD_ALIGNED
        J = self._pin.computeFrameJacobian(self._model, self._data, q, frame, axes)[:, self._order]
        linear, angular = np.split(J, 2)
        return np.concatenate([angular if is_surface else 0.0 * angular, linear])
