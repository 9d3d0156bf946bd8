"""A two-link arm in a vertical plane for tests of the estimator, small enough for the interpreter."""

import numpy as np

import dynamics_node as dn

NAMES = ("joint1", "joint2")
ARM = """
<robot name="two_links"><link name="base"/>
<link name="upper"><inertial><origin xyz="0.3 0 0"/><mass value="2"/>
<inertia ixx="0.02" ixy="0" ixz="0" iyy="0.06" iyz="0" izz="0.06"/></inertial></link>
<link name="lower"><inertial><origin xyz="0.2 0 0"/><mass value="1"/>
<inertia ixx="0.01" ixy="0" ixz="0" iyy="0.02" iyz="0" izz="0.02"/></inertial></link>
<joint name="joint1" type="revolute"><parent link="base"/><child link="upper"/><axis xyz="0 1 0"/>
<limit lower="-3" upper="3" velocity="5" effort="50"/></joint>
<joint name="joint2" type="continuous"><parent link="upper"/><child link="lower"/><origin xyz="0.6 0 0"/>
<axis xyz="0 1 0"/><limit velocity="5" effort="50"/></joint></robot>"""
SENSORS = "sensors: [{type: imu, name: imu, link: lower, std: 0.02, topic: imu}]"
PUSH = np.array([0.0, 3.0])


class Swing:
    """The arm moves along sines under the external torque PUSH; times in s."""

    def __init__(self):
        self.model = dn.parse_robot(ARM)
        self.inverse = dn.build(self.model, dn.inverse_dynamics(self.model), backend="numpy")

    def state(self, t):
        """q, qd, qdd."""
        w = np.array([3.0, 4.0])
        return 0.4 * np.cos(w * t), -0.4 * w * np.sin(w * t), -0.4 * w**2 * np.cos(w * t)

    def torque(self, t):
        """Motor torques."""
        return self.inverse(*self.state(t)) - PUSH

    def imu(self, t):
        """(angular velocity, acceleration) in the axes of the lower link at its origin, without noise."""
        (a, b), (da, db), (dda, _) = self.state(t)
        angle, rate = a + b, da + db
        # the elbow, at 0.6 m on the upper link, in world axes x and z; a turn about y by a takes x to -z
        x = 0.6 * (-np.sin(a) * dda - np.cos(a) * da**2)
        z = 0.6 * (-np.cos(a) * dda + np.sin(a) * da**2) + 9.81
        return np.array(
            [0, rate, 0, np.cos(angle) * x - np.sin(angle) * z, 0, np.sin(angle) * x + np.cos(angle) * z]
        )
