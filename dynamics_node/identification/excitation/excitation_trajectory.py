"""The result of the search: a motion, its information and use of limits."""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike

from dynamics_node.algorithms import friction_torque
from dynamics_node.display import titled
from dynamics_node.functions import build
from dynamics_node.identification.base_parameters import BaseParameters
from dynamics_node.identification.excitation.objective import ExcitationProblem, condition
from dynamics_node.identification.regressor_model import RegressorModel
from dynamics_node.io.motion_files import trajectory_message
from dynamics_node.robot import Robot

DIGITS = 6  # after the decimal point: micrometers, below encoder resolution
RATE = 20.0  # points per second: controllers interpolate them by fifth-degree polynomials


@dataclass(frozen=True, eq=False, repr=False)
class ExcitationTrajectory:
    """A periodic motion that starts and ends at rest, and its information about base parameters.

    `design_excitation` returns it.

    Attributes
    ----------
    problem : ExcitationProblem
        The Fourier series, the limits and the regressor.
    coefficients : ndarray (nv, size)
        Coefficients of the series.
    before : float
        Condition of the best random motion within the limits.
    tried : int
        Number of random motions within the limits.

    Examples
    --------
    >>> from dynamics_demo.robots import geared_chain
    >>> arm = dn.parse_robot(geared_chain(1))  # a link on a geared motor
    >>> motion = dn.design_excitation(arm, 5.0, 2, restarts=1, time_limit=0.1, backend="numpy")
    >>> motion.condition <= motion.before
    True
    >>> message = motion.message(rate=20)  # a trajectory_msgs/JointTrajectory
    >>> message["joint_names"], len(message["points"])
    (['j1'], 101)
    """

    problem: ExcitationProblem
    coefficients: np.ndarray
    before: float
    tried: int

    def __repr__(self):
        name, most = max(self.used.items(), key=lambda item: item[1])
        return titled(
            f"ExcitationTrajectory of {self.robot.name!r}: {self.period:g} s",
            joints=self.robot.v_names,
            harmonics=self.problem.series.harmonics,
            parameters=f"{self.base.count} base parameters",
            condition=f"{self.condition:.4g}, {self.before:.4g} of the best random motion",
            limit=f"{name}, {100 * most:.0f} % used",
            notes=self.notes or None,
        )

    @property
    def robot(self) -> Robot:
        """The robot of the motion."""
        return self.linear.robot

    @property
    def linear(self) -> RegressorModel:
        """The torques as a linear function of parameters."""
        return self.problem.regressor.linear

    @property
    def base(self) -> BaseParameters:
        """The base parameters that the motion excites."""
        return self.problem.regressor.base

    @property
    def period(self) -> float:
        """Duration of the motion, s."""
        return self.problem.series.period

    @property
    def notes(self) -> tuple[str, ...]:
        """Assumed limits, as sentences."""
        return self.problem.bounds.notes

    @property
    def start(self) -> np.ndarray:
        """Position (nv,) at start and end, rad or m."""
        return self.states(np.zeros(1))[0][0]

    def times(self, rate: float = RATE) -> np.ndarray:
        """Times of a whole period including its end.

        Parameters
        ----------
        rate : float
            Approximate number of times per second.

        Returns
        -------
        ndarray (count,)
            Evenly spaced times, s.
        """
        return np.linspace(0.0, self.period, 1 + max(1, round(self.period * rate)))

    def states(self, time: ArrayLike) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Positions, rates and accelerations at some times.

        Parameters
        ----------
        time : ndarray (count,)
            Times, s.

        Returns
        -------
        q, qd, qdd : ndarray (count, nv)
            In rad or m, and s.
        """
        return self.problem.curves_at(time).states(self.coefficients)

    def torques(self, time: ArrayLike) -> np.ndarray:
        """Torques of the described robot with its friction.

        Parameters
        ----------
        time : ndarray (count,)
            Times, s.

        Returns
        -------
        ndarray (count, nv)
            Torques, N m or N.
        """
        q, qd, qdd = self.states(time)
        tree = self.robot
        inverse = build(tree, "inverse_dynamics", backend=self.linear.backend)
        return inverse(q, qd, qdd) + friction_torque(tree, q, qd)

    def message(self, rate: float = RATE) -> dict:
        """One period as a trajectory_msgs/JointTrajectory of dictionaries and lists.

        Parameters
        ----------
        rate : float
            Approximate number of points per second.

        Returns
        -------
        dict
            The fields of the message; `yaml.safe_dump` writes it for ``ros2 topic pub``.
        """
        time = self.times(rate)
        kinds = zip(("positions", "velocities", "accelerations"), self.states(time), strict=True)
        fields = {kind: np.round(rows, DIGITS) + 0.0 for kind, rows in kinds}  # no negative zero
        return trajectory_message(self.robot.v_names, time, fields)

    @cached_property
    def used(self) -> dict[str, float]:
        """The largest used fraction of every limit, {name: fraction}, on a fine grid of times."""
        most = self.problem.used(self.coefficients, self.problem.fine)
        return dict(zip(self.problem.names, most.tolist(), strict=True))

    @cached_property
    def information(self) -> np.ndarray:
        """Information (r, r) of one sample of every torque, averaged over the period."""
        return self.problem.information(self.coefficients)

    @property
    def condition(self) -> float:
        """Condition of the base regressor, in the requested units."""
        return condition(self.information)

    def std(self, count: int) -> np.ndarray:
        """Expected standard deviations of base parameters.

        Parameters
        ----------
        count : int
            Number of recorded samples.

        Returns
        -------
        ndarray (r,)
            Standard deviations, in SI units.
        """
        return self.problem.regressor.sizes * np.sqrt(np.diagonal(np.linalg.inv(self.information)) / count)
