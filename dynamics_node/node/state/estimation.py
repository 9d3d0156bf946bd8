"""What sensors say about the motion, and whether they may be believed. Without ROS."""

from time import monotonic_ns

import numpy as np

from dynamics_node.functions import Estimate, Estimator, InputError, SolutionError
from dynamics_node.graph import chi_square_limit
from dynamics_node.node.core.no_output import NoOutput
from dynamics_node.node.state.sensor_readings import SensorReadings
from dynamics_node.symbolic import inverse_motion_transform, transpose
from dynamics_node.text import listed

FALSE_ALARMS = 1e-9  # of one state: at 1 kHz one in twelve days if every sensor is as good as it says
JUDGED_EVERY = 1_000_000_000  # ns between looks for the culprit, which take a thousand times an estimate


class Estimation:
    """Of one robot with a sensor problem; arguments as of SensorReadings. readings: the latest; chi_square:
    of the last estimate."""

    def __init__(self, model, estimator: Estimator, joint_names, unobservable_without):
        self.readings = SensorReadings(estimator.problem, joint_names, unobservable_without)
        self.chi_square = 0.0
        self.limit = chi_square_limit(estimator.degrees_of_freedom, FALSE_ALARMS)
        self._links = _contact_links(model, estimator.problem)
        self._blamed, self._judged = "", -JUDGED_EVERY

    def resumed(self, before: "Estimation | None") -> "Estimation":
        """With the readings of the Estimation before, of the same sensors."""
        if before is not None:
            self.readings.resumed(before.readings)
        return self

    def estimate(self, estimator: Estimator, q, qd, readings, gravity) -> Estimate:
        """Raises NoOutput where the sensors do not determine the motion, or contradict each other."""
        try:
            found = estimator(q, qd, readings, gravity=gravity)
        except (InputError, SolutionError) as error:
            raise NoOutput(error) from None
        self.chi_square = float(found.chi_square)
        if estimator.degrees_of_freedom and not self.chi_square <= self.limit:
            blamed = self._culprits(estimator, q, qd, readings, gravity)
            raise NoOutput(
                f"sensors contradict each other (chi-square {self.chi_square:.3g}, expected "
                f"{estimator.degrees_of_freedom}){blamed}"
            )
        return found

    def wrenches(self, f_ext) -> dict[str, np.ndarray]:
        """{link: (6,) by the environment ON it, in its axes at its origin} of f_ext (nbodies, 6)."""
        return {link: to_link @ f_ext[body] for link, (body, to_link) in self._links.items()}

    def _culprits(self, *state):
        if monotonic_ns() - self._judged > JUDGED_EVERY:
            estimator, q, qd, readings, gravity = state
            culprits = estimator.judge(q, qd, readings, gravity=gravity).culprits
            self._blamed = f": most likely {listed(culprits)} is wrong" if culprits else ""
            self._judged = monotonic_ns()
        return self._blamed


def _contact_links(model, problem):
    """{link: (its body, wrench transform from the body to the link)}: of links on one body the first, since
    their wrenches cannot be told apart."""
    found, bodies = {}, set()
    for contact in problem.contacts:
        frame = model.frame(contact.link)
        if frame.body not in bodies:
            bodies.add(frame.body)
            found[contact.link] = frame.body, transpose(inverse_motion_transform(frame.X))
    return found
