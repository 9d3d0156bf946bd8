"""A Solo12 on its feet, served without ROS. Its torques and forces by Pinocchio."""

import numpy as np
from cases import case_of
from plain import serve
from standing import FEET, FILE, standing
from tolerances import error

EXACT = 1e-9
LEGS = np.tile([0.1, 0.8, -1.6], 4)
POSE = np.array([0.1, 0.2, 0.24, 0.05, -0.08, 0.1, 0.0])
POSE[6] = np.sqrt(1 - POSE[3:6] @ POSE[3:6])
TWIST = np.array([0.3, -0.1, 0.2, 0.1, 0.2, -0.1])
RATES = np.linspace(-0.5, 0.5, 12)
NONE = {"effort_limits": "none", "joint_state_timeout": 60.0}


class Dog:
    """A Solo12 with odometry and joint states."""

    def __init__(self, folder, text=FILE, **values):
        self.file = folder / "contacts.yaml"
        self.file.write_text(text)
        self.case = case_of("solo12")
        self.served = serve("solo12", contacts_file=str(self.file), **{**NONE, **values})
        self.core = self.served.core
        self.q, self.qd = np.concatenate([POSE, LEGS]), np.concatenate([TWIST, RATES])
        self.receive()

    def receive(self):
        self.served.receive(self.case.names, LEGS, RATES)
        self.core.state.base = self.core.state.read_base(POSE, TWIST, 0, self.served.now)

    def expected(self, feet=FEET, oracle=None, qd=None):
        oracle = oracle or self.case.oracle
        return standing(oracle, self.q, self.qd if qd is None else qd, np.zeros(18), feet)

    def agrees(self, feet=FEET, **options):
        """Whether torques, forces and residual are those of Pinocchio."""
        tau, forces = self.expected(feet, **options)
        result = self.served.solve()
        close = EXACT if len(feet) != 1 else 1e-6  # least squares lose half of the digits
        wanted = np.concatenate([forces.get(foot, np.zeros(3)) for foot in FEET])
        return (
            error(result.tau[6:], tau[6:]) < close
            and np.abs(result.loads.forces - wanted).max() < close * max(1.0, np.abs(wanted).max())
            and np.abs(result.loads.residual - tau[:6]).max() < close * np.abs(tau).max()
        )
