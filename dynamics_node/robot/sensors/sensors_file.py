"""Sensors from a YAML file.

sensors:
  - {type: imu, name: imu_left, link: l_ankle, xyz: [0, 0, 0.1], std: [1e-3, 1e-3, 1e-3, 0.05, 0.05, 0.05]}
  - {type: torque, joint: [l_knee, r_knee], std: 0.5}       # one for each joint
  - {type: force_torque, joint: wrist_ft, measures: child_to_parent, std: 0.1}
  - {type: wrench, link: l_ankle, rows: [measured, measured, unknown, measured, measured, measured], std: 1}

type is a key of SENSORS; the fields are those of its record.
"""

from dataclasses import MISSING, fields
from pathlib import Path

from dynamics_node.errors import SensorError
from dynamics_node.robot.safe_files import composed, place, plain, read_regular_file
from dynamics_node.robot.sensors.records import SENSORS, Sensor
from dynamics_node.text import number

MAX_BYTES = 1024 * 1024
MAX_SENSORS = 10_000
_WORDS = ("name", "joint", "link", "rows", "topic", "frame", "measures")


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
    if len(text) > MAX_BYTES:
        raise SensorError(f"the file of sensors has more than {MAX_BYTES} bytes")
    top = _mapping(composed(text, "sensors", SensorError))
    entries = top.get("sensors")
    if list(top) != ["sensors"] or entries is None or entries.id != "sequence":
        raise SensorError("the file of sensors needs sensors: a list, and nothing else")
    sensors = [sensor for entry in entries.value for sensor in _sensors(entry)]
    if len(sensors) > MAX_SENSORS:
        raise SensorError(f"the file of sensors has more than {MAX_SENSORS} sensors")
    return tuple(sensors)


def _sensors(entry):
    """The sensors of one entry: one for each of several joints."""
    given = _mapping(entry)
    kind = plain(given.pop("type", None))
    if not isinstance(kind, str) or kind not in SENSORS:
        raise _wrong(entry, f"a sensor needs a type, one of {', '.join(SENSORS)}")
    record = SENSORS[kind]
    known = {field.name for field in fields(record)}
    if unknown := [node for name, node in given.items() if name not in known]:
        raise _wrong(
            unknown[0], f"this field is not one of a sensor of type {kind}: {', '.join(sorted(known))}"
        )
    values = {name: _value(name, node) for name, node in given.items()}
    at = "joint" if "joint" in known else "link"
    for field in fields(record):
        if field.default is MISSING and not values.get(field.name):
            raise _wrong(entry, f"a sensor of type {kind} needs {field.name}")
    places = values.pop(at)
    several = isinstance(places, list)
    if several and "name" in values:
        raise _wrong(entry, f"a sensor with a name is at one {at}")
    for name in places if several else [places]:
        try:
            yield record(**{at: name}, **values)
        except SensorError as error:
            raise _wrong(entry, str(error)) from None


def _value(name, node):
    """A field: words unchanged, numbers as floats."""
    value = plain(node)
    if name in _WORDS:
        words = value if isinstance(value, list) else [value]
        if name in ("name", "link", "measures") and isinstance(value, list):
            raise _wrong(node, f"{name} is one word, not a list")
        if not all(isinstance(word, str) and word for word in words):
            raise _wrong(node, f"{name} is a word or a list of words")
        return value
    try:
        return _numbers(value)
    except (AttributeError, ValueError):
        raise _wrong(node, f"{name} is a number or a list of numbers") from None


def _numbers(value):
    return [_numbers(item) for item in value] if isinstance(value, list) else number(value)


def _mapping(node):
    """{field: node} of a mapping with every field once."""
    if node is None or node.id != "mapping":
        raise SensorError(
            "the file of sensors needs sensors: a list of mappings"
            + (f" ({place(node.start_mark)})" if node else "")
        )
    fields: dict[str, object] = {}
    for key, value in node.value:
        if key.value in fields:
            raise _wrong(key, "this field occurs twice")
        fields[key.value] = value
    return fields


def _wrong(node, what) -> SensorError:
    return SensorError(f"sensors, {place(node.start_mark)}: {what}")
