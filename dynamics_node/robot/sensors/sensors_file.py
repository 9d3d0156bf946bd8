"""Sensors from a YAML file.

sensors:
  - {type: imu, name: imu_left, link: l_ankle, xyz: [0, 0, 0.1], std: [1e-3, 1e-3, 1e-3, 0.05, 0.05, 0.05]}
  - {type: torque, joint: [l_knee, r_knee], std: 0.5}       # one for each joint
  - {type: force_torque, joint: wrist_ft, measures: child_to_parent, std: 0.1}
  - {type: wrench, link: l_ankle, rows: [mx, my, fx, fy, fz], std: 1}

type is a key of SENSORS; the fields are those of its record.
"""

from pathlib import Path

from dynamics_node.errors import SensorError
from dynamics_node.robot.record_files import MAX_BYTES, RecordFile
from dynamics_node.robot.safe_files import plain, read_regular_file
from dynamics_node.robot.sensors.records import SENSORS, Sensor
from dynamics_node.robot.wrong_calls import explains_wrong_calls


@explains_wrong_calls
def load_sensors(path: str | Path) -> tuple[Sensor, ...]:
    """Read the sensors of a YAML file.

    Parameters
    ----------
    path : str or Path
        The file, of at most 1 MiB; see docs/reference/sensors.md for its format.

    Returns
    -------
    tuple of Sensor
        Records for `sensor_problem`.

    Raises
    ------
    SensorError
        For an invalid file; the message has the line and column.
    OSError
        For a file that cannot be read.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.NamedTemporaryFile(suffix=".yaml") as file:
    ...     _ = file.write(b"sensors: [{type: torque, joint: [panda_joint1, panda_joint2], std: 0.5}]")
    ...     file.flush()
    ...     sensors = dn.load_sensors(file.name)
    >>> [sensor.name for sensor in sensors]
    ['panda_joint1 torque', 'panda_joint2 torque']
    """
    return parse_sensors(read_regular_file(path, MAX_BYTES + 1))


def parse_sensors(text: str | bytes) -> tuple[Sensor, ...]:
    """Read the sensors of the text of a YAML file.

    Parameters
    ----------
    text : str or bytes
        Content of a file for `load_sensors`.

    Returns
    -------
    tuple of Sensor
        Records for `sensor_problem`.

    Raises
    ------
    SensorError
        For an invalid text; the message has the line and column.

    Examples
    --------
    >>> (imu,) = dn.sensors.parse_sensors("sensors: [{type: imu, link: panda_hand, std: 0.1}]")
    >>> imu.name, imu.std
    ('panda_hand imu', 0.1)
    """
    return FILE.read(text)


def _record_of(entry):
    kind = plain(entry.pop("type", None))
    if not isinstance(kind, str) or kind not in SENSORS:
        raise SensorError(f"a sensor needs a type, one of {', '.join(SENSORS)}")
    return SENSORS[kind], f"a sensor of type {kind}"


_LISTS = ("joint", "rows", "topic", "frame")
FILE = RecordFile("sensors", _record_of, SensorError, ("name", "link", "measures", *_LISTS), _LISTS, 10_000)
