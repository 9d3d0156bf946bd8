"""YAML files with a list of records, as those of sensors and of contacts.

sensors:
  - {type: imu, name: imu_left, link: l_ankle, std: 0.1}
  - {type: torque, joint: [l_knee, r_knee], std: 0.5}  # one record for each joint

An entry has the fields of a dataclass. Its place, a joint or a link, may be a list.
"""

from collections.abc import Callable
from dataclasses import MISSING, dataclass, fields
from typing import Any

from dynamics_node.robot.safe_files import composed, place, plain
from dynamics_node.text import number

MAX_BYTES = 1024 * 1024


@dataclass(frozen=True)
class RecordFile:
    """A kind of file.

    name: the key of its list. record_of: (fields of an entry {name: node}) -> (the dataclass, its name for
    messages); it may remove fields, and raises ValueError. error: the exception for everything that is wrong.
    words, lists: fields that are text, and those of them that may be a list. most: records of a file.
    """

    name: str
    record_of: Callable[[dict], tuple[Any, str]]
    error: type[Exception]
    words: tuple[str, ...]
    lists: tuple[str, ...]
    most: int

    def read(self, text: str | bytes) -> tuple:
        """The records in the text of a file. Raises `error` with the line and column."""
        if len(text) > MAX_BYTES:
            raise self.error(f"the file of {self.name} has more than {MAX_BYTES} bytes")
        top = composed(text, self.name, self.error)
        given = {} if top is None else self._fields(top)
        entries = given.get(self.name)
        if entries is None or len(given) != 1 or entries.id != "sequence":
            raise self.error(f"{self._needs}, and nothing else")
        records = tuple(record for entry in entries.value for record in self._records(entry))
        if len(records) > self.most:
            raise self.error(f"the file of {self.name} has more than {self.most} {self.name}")
        return records

    def _records(self, entry):
        """The records of an entry: one for each of several places."""
        given = self._fields(entry)
        try:
            record, kind = self.record_of(given)
        except ValueError as error:
            raise self._wrong(entry, str(error)) from None
        known = {field.name: field for field in fields(record)}
        if unknown := [node for name, node in given.items() if name not in known]:
            raise self._wrong(unknown[0], f"this field is not one of {kind}: {', '.join(sorted(known))}")
        values = {name: self._value(name, node) for name, node in given.items()}
        for name, field in known.items():
            if field.default is MISSING and not values.get(name):
                raise self._wrong(entry, f"{kind} needs {name}")
        at = "joint" if "joint" in known else "link"
        places = values.pop(at)
        if isinstance(places, list) and "name" in values:
            raise self._wrong(entry, f"{kind} with a name is at one {at}")
        for name in places if isinstance(places, list) else [places]:
            try:
                yield record(**{at: name}, **values)
            except self.error as error:
                raise self._wrong(entry, str(error)) from None

    def _value(self, name, node):
        """A field: words unchanged, numbers as floats."""
        value = plain(node)
        if name not in self.words:
            try:
                return _numbers(value)
            except (AttributeError, ValueError):
                raise self._wrong(node, f"{name} is a number or a list of numbers") from None
        words = value if isinstance(value, list) and name in self.lists else [value]
        if not all(isinstance(word, str) and word for word in words):
            what = "a word or a list of words" if name in self.lists else "one word"
            raise self._wrong(node, f"{name} is {what}")
        return value

    def _fields(self, node):
        """{field: node} of a mapping with every field once."""
        if node.id != "mapping":
            raise self.error(f"{self._needs} ({place(node.start_mark)})")
        given: dict[str, Any] = {}
        for key, value in node.value:
            if key.value in given:
                raise self._wrong(key, "this field occurs twice")
            given[key.value] = value
        return given

    @property
    def _needs(self):
        return f"the file of {self.name} needs {self.name}: a list of mappings"

    def _wrong(self, node, what) -> Exception:
        return self.error(f"{self.name}, {place(node.start_mark)}: {what}")


def _numbers(value):
    return [_numbers(item) for item in value] if isinstance(value, list) else number(value)
