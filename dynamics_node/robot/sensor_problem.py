"""Problems with sensors in place of known torques or accelerations (paper 4, Nori 2024, section III)."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

import numpy as np

from dynamics_node.errors import InputError, SensorError, UnknownNameError
from dynamics_node.robot.contacts import Contact, valid_contacts
from dynamics_node.robot.robot import Robot
from dynamics_node.robot.sensor_fitting import fitting_labels
from dynamics_node.robot.sensors import Sensor
from dynamics_node.robot.state_arrays import Shapes, state_shapes
from dynamics_node.robot.wrong_calls import explains_wrong_calls

RESULTS = ("qdd", "tau", "f_ext")


@dataclass(frozen=True)
class SensorProblem:
    """The exact dynamics, and sensors with noisy readings at one instant.

    `sensor_problem` makes it, `build` solves it, and `observability` checks it.

    Attributes
    ----------
    sensors : tuple of Sensor
        The sensors, records of `dn.sensors`.
    labels : tuple of tuple of str
        Names of the rows of every sensor, for example `imu_left.ax`.
    covariance : tuple of str
        The results with a covariance, of 'qdd', 'tau' and 'f_ext'.
    contacts : tuple of Contact
        Places at which the environment, or another link, may push with an unknown force.

    References
    ----------
    Nori, "Inverse, forward and other dynamic computations computationally optimized with sparse matrix
    factorizations", eq. (17).

    Examples
    --------
    >>> problem = dn.sensor_problem(robot, [dn.sensors.Imu("panda_hand", std=0.1, name="imu")])
    >>> problem.readings
    ('imu.wx', 'imu.wy', 'imu.wz', 'imu.ax', 'imu.ay', 'imu.az')
    """

    sensors: tuple[Sensor, ...]
    labels: tuple[tuple[str, ...], ...]
    covariance: tuple[str, ...] = ()
    contacts: tuple[Contact, ...] = ()
    kind: ClassVar[str] = "sensors"

    @cached_property
    def readings(self) -> tuple[str, ...]:
        """Names of the numbers that are read at a state, in order: those of sensors without a `value`."""
        pairs = zip(self.sensors, self.labels, strict=True)
        return tuple(label for sensor, labels in pairs for label in labels if sensor.value is None)

    @cached_property
    def places(self) -> tuple[slice | None, ...]:
        """Slice of the readings of every sensor; None for one that is known in advance."""
        places: list[slice | None] = []
        start = 0
        for sensor, labels in zip(self.sensors, self.labels, strict=True):
            read = sensor.value is None
            places.append(slice(start, start + len(labels)) if read else None)
            start += len(labels) if read else 0
        return tuple(places)

    def sensor(self, name: str) -> Sensor:
        """Return the sensor of a name.

        Parameters
        ----------
        name : str
            Name of the sensor.

        Returns
        -------
        Sensor
            Its record.

        Raises
        ------
        KeyError
            For an unknown name; the message lists the names.
        """
        for sensor in self.sensors:
            if sensor.name == name:
                return sensor
        raise UnknownNameError(f"no sensor {name!r}; there are {', '.join(s.name for s in self.sensors)}")

    def gathered(self, readings: Mapping[str, Any]) -> np.ndarray:
        """Join the readings of sensors to one array.

        Parameters
        ----------
        readings : mapping of str to array_like (..., rows)
            Reading of every sensor without a `value`; (...) for a sensor with one row.

        Returns
        -------
        ndarray (..., m)
            Numbers in the order of `readings`, over the common batch.

        Raises
        ------
        SensorError
            For missing and unknown sensors and for wrong numbers of rows; the message names the sensor.
        """
        wanted = {s.name: at for s, at in zip(self.sensors, self.places, strict=True) if at is not None}
        wanted = {name: at for name, at in wanted.items() if at.stop > at.start}
        if missing := [name for name in wanted if name not in readings]:
            raise SensorError(f"sensor {missing[0]!r} has no reading; with readings: {', '.join(readings)}")
        if unknown := [name for name in readings if name not in wanted]:
            raise SensorError(f"no sensor {unknown[0]!r} has readings; with readings: {', '.join(wanted)}")
        parts = [_reading(name, readings[name], at.stop - at.start) for name, at in wanted.items()]
        batch = np.broadcast_shapes(*(part.shape[:-1] for part in parts))
        spread = [np.broadcast_to(part, (*batch, part.shape[-1])) for part in parts]
        return np.concatenate([np.zeros((*batch, 0)), *spread], axis=-1)

    def reads(self, robot: Robot) -> Shapes:
        """Return the shapes of the arguments at a state.

        Parameters
        ----------
        robot : Robot
            The robot.

        Returns
        -------
        dict of str to tuple
            Shapes of q, qd, readings and gravity, in this order.
        """
        shapes = state_shapes(robot, ("q", "qd", "gravity"))
        return {"q": shapes["q"], "qd": shapes["qd"], "readings": (len(self.readings),)} | shapes

    def returns(self, robot: Robot) -> Shapes:
        """Return the shapes of the results at a state.

        Parameters
        ----------
        robot : Robot
            The robot.

        Returns
        -------
        dict of str to tuple
            Shapes of qdd, tau and f_ext, which are complete. Then residuals, reading minus estimate, and
            chi_square over all uncertain rows. Requested covariances follow: qdd_covariance and
            tau_covariance (nv, nv), and f_ext_covariance (nbodies, 6, 6) of every body's wrench.
        """
        shapes = state_shapes(robot, RESULTS)
        squares: Shapes = {"qdd": (robot.nv,) * 2, "tau": (robot.nv,) * 2, "f_ext": (robot.nbodies, 6, 6)}
        more: Shapes = {"residuals": (len(self.readings),), "chi_square": ()}
        return shapes | more | {f"{name}_covariance": squares[name] for name in self.covariance}


@explains_wrong_calls
def sensor_problem(
    robot: Robot,
    sensors: Iterable[Sensor],
    covariance: Iterable[str] = (),
    contacts: Contact | Iterable[Contact] = (),
) -> SensorProblem:
    """Return the problem of estimating accelerations, torques and wrenches from sensors.

    Two assumptions: the environment pushes at the contacts alone, and no motor drives floating joints or
    implicit joints of loops.

    Parameters
    ----------
    robot : Robot
        The robot.
    sensors : iterable of Sensor
        Records of `dn.sensors`, or a result of `load_sensors`. Each has its uncertainty as
        std or covariance.
    covariance : iterable of str
        Results of 'qdd', 'tau' and 'f_ext' that get a covariance.
    contacts : iterable of Contact, optional
        Contacts, or a result of `load_contacts`. Their forces are unknown: those of every row of a contact.
        Friction is not enforced.

    Returns
    -------
    SensorProblem
        The problem, which `build` makes an Estimator of.

    Raises
    ------
    SensorError
        For an unknown joint or link, one without such a reading, wrong numbers of rows, or a duplicate name.
        Also for an ExternalWrench of a link without contacts. The message names the sensor.
    ContactError
        For a contact at an unknown link or at one that is fixed; the message names it.
    ValueError
        For another name in `covariance`.

    References
    ----------
    Nori, "Inverse, forward and other dynamic computations computationally optimized with sparse matrix
    factorizations", sec. III.

    Examples
    --------
    >>> from dynamics_node.robot.sensors import JointAcceleration, JointTorque
    >>> at_rest = [JointAcceleration(joint, value=0.0, std=0.1) for joint in robot.joint_names]
    >>> sensors = [*at_rest, JointTorque("panda_joint2", std=0.2)]
    >>> problem = dn.sensor_problem(robot, sensors, covariance=["tau"])
    >>> estimate = dn.build(robot, problem, backend="numpy")
    >>> result = estimate(np.zeros(7), np.zeros(7), {"panda_joint2 torque": -4.5})
    >>> print(f"{result.tau[1]:.2f} N m, std {np.sqrt(result.tau_covariance[1, 1]):.2f} N m")
    -4.36 N m, std 0.17 N m
    """
    sensors = tuple(sensors)
    contacts = valid_contacts(robot, contacts)
    labels = fitting_labels(robot, sensors, contacts)
    covariance = set(covariance)
    names = tuple(name for name in RESULTS if name in covariance)
    if len(names) != len(covariance):
        raise InputError(
            f"covariances are available for {', '.join(RESULTS)}, not for {', '.join(sorted(covariance))}"
        )
    return SensorProblem(sensors, labels, names, contacts)


def deviations(sensor: Sensor, count: int) -> np.ndarray:
    """(count,) standard deviations of the rows of a sensor; for a covariance the roots of its diagonal."""
    if sensor.covariance is not None:
        return np.sqrt(np.diag(np.array(sensor.covariance)))
    return np.broadcast_to(np.array(sensor.std, dtype=float), (count,))


def _reading(name, value, rows):
    """value as array (..., rows)."""
    try:
        array = np.asarray(value, dtype=float)
    except (TypeError, ValueError):
        raise SensorError(f"sensor {name!r}: the reading is not an array of numbers") from None
    if rows == 1 and array.shape[-1:] != (1,):
        array = array[..., None]
    if array.shape[-1:] != (rows,):
        raise SensorError(f"sensor {name!r}: the reading has {rows} rows, but the array is {array.shape}")
    return array
