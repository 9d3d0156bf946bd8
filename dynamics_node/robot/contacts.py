"""Contacts: places on links where the world, or another link, can push. Their file."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, fields
from functools import cached_property
from pathlib import Path
from typing import Literal

import numpy as np

from dynamics_node.errors import ContactError
from dynamics_node.robot.record_files import MAX_BYTES, RecordFile
from dynamics_node.robot.robot import Robot
from dynamics_node.robot.safe_files import read_regular_file
from dynamics_node.robot.validate import HUGE
from dynamics_node.robot.wrong_calls import explains_wrong_calls
from dynamics_node.text import listed, one_line

Kind = Literal["point", "surface", "wheel"]
MAX_CONTACTS = 1000
LEAST = 1e-6  # m; a smaller radius or half length is an error of units
_ROWS: dict[str, tuple[str, ...]] = {
    "point": ("fx", "fy", "fz"),
    "surface": ("mx", "my", "mz", "fx", "fy", "fz"),
    "wheel": ("fx", "fy", "fz"),
}
_OF_KIND = {
    "point": ("normal", "radius"),
    "surface": ("rpy", "half_lengths"),
    "wheel": ("normal", "axis", "radius", "roller"),
}


@explains_wrong_calls
@dataclass(frozen=True)
class Contact:
    """A place on a link where the world, or another link, can push.

    The z axis of a contact is the normal: a positive fz pushes the link away from the other side. Forces and
    accelerations of a contact are in its axes, about its origin.

    Parameters
    ----------
    link : str
        The link that is pushed.
    kind : {'point', 'surface', 'wheel'}
        'point': three forces at a point of the link, such as a foot that is a ball. 'surface': moments and
        forces of a flat face, such as a sole. 'wheel': the forces at the lowest point of a disc, which rolls.
    name : str
        Its name; by default that of the link.
    xyz : sequence of float (3,)
        Its origin in link axes, m; of a wheel, the center of the disc.
    rpy : sequence of float (3,)
        Axes of a surface in link axes, angles as in URDF, rad; z points from the other side into the link.
    normal : sequence of float (3,)
        Normal at a point or wheel, in the axes of the other side.
    friction : float, optional
        Coefficient of friction. Without one, the contact holds in every direction, like a grip.
    half_lengths : sequence of float (2,), optional
        Half of the lengths of a surface along x and y, m: the center of pressure stays within.
    axis : sequence of float (3,)
        Axis of a wheel in link axes.
    radius : float, optional
        Radius of a wheel, m; or of the ball around a point, which touches the ground of rollouts.
    roller : float, optional
        Angle about the normal from the axis of a wheel to those of its rollers, rad. It is 0.785 or -0.785
        for a mecanum wheel, 1.571 for an omnidirectional one. The force then acts along the axis of the
        roller, and along the normal. Without rollers, a wheel does not slip sideways.
    other : str
        The link on the other side; by default the world.

    Raises
    ------
    ContactError
        For an invalid value, naming the contact.

    Examples
    --------
    >>> foot = dn.Contact("FL_FOOT", friction=0.7)
    >>> sole = dn.Contact("left_sole", "surface", half_lengths=(0.1, 0.06), friction=0.7)
    >>> wheel = dn.Contact("wheel_left", "wheel", axis=(0, 1, 0), radius=0.1)
    >>> [contact.rows for contact in (foot, sole, wheel)]
    [('fx', 'fy', 'fz'), ('mx', 'my', 'mz', 'fx', 'fy', 'fz'), ('fx', 'fy', 'fz')]
    """

    link: str
    kind: Kind = "point"
    name: str = ""
    xyz: tuple[float, ...] = (0.0, 0.0, 0.0)
    rpy: tuple[float, ...] = (0.0, 0.0, 0.0)
    normal: tuple[float, ...] = (0.0, 0.0, 1.0)
    friction: float | None = None
    half_lengths: tuple[float, ...] | None = None
    axis: tuple[float, ...] = (0.0, 1.0, 0.0)
    radius: float | None = None
    roller: float | None = None
    other: str = ""

    def __post_init__(self):
        self._check_words()
        if self.kind not in _ROWS:
            raise self._wrong("kind", f"one of {', '.join(_ROWS)}, not {self.kind!r}")
        self._check_fields_of_kind()
        for field in ("xyz", "rpy", "normal", "axis"):
            self._keep(field, self._numbers(field, 3))
        for field in ("normal", "axis"):
            self._keep(field, self._unit(field))
        for field, least in (("friction", 0.0), ("radius", LEAST), ("roller", None)):
            self._check_number(field, least)
        if self.kind == "wheel" and self.radius is None:
            raise self._wrong("radius", "missing: a wheel needs it, in m")
        if self.half_lengths is not None:
            self._keep("half_lengths", self._numbers("half_lengths", 2))
            if min(self.half_lengths) < LEAST:
                raise self._wrong("half_lengths", f"{LEAST:g} m or more: a line is no surface")

    def _check_words(self):
        for field in ("link", "name", "other"):
            if not isinstance(getattr(self, field), str):
                raise ContactError(f"contact: {field} is text, not {getattr(self, field)!r}")
        if not self.link:
            raise ContactError("contact: link is missing")
        self._keep("name", self.name or self.link)

    def _check_fields_of_kind(self):
        """Raise ContactError for a field of another kind that differs from its default."""
        defaults = {field.name: field.default for field in fields(self)}
        for other in set().union(*_OF_KIND.values()) - set(_OF_KIND[self.kind]):
            if not _same(getattr(self, other), defaults[other]):
                raise self._wrong(other, f"no property of a {self.kind}: leave it out")

    def _numbers(self, field, count):
        try:
            array = np.array(getattr(self, field), dtype=float)
        except (TypeError, ValueError):
            array = np.zeros(0)
        if array.shape != (count,) or not np.all(np.abs(array) < HUGE):
            raise self._wrong(field, f"{count} finite numbers, not {one_line(getattr(self, field), 60)}")
        return tuple(array.tolist())

    def _unit(self, field):
        direction = np.array(getattr(self, field))
        length = float(np.sqrt((direction * direction).sum()))
        if not length > LEAST:
            raise self._wrong(field, "a direction, not zero")
        return tuple((direction / length).tolist())

    def _check_number(self, field, least):
        value = getattr(self, field)
        if value is None:
            return
        number_like = isinstance(value, int | float | np.integer | np.floating) and not isinstance(
            value, bool
        )
        if not number_like or not abs(value) < HUGE or (least is not None and value < least):
            bound = "a finite number" if least is None else f"a finite number of {least:g} or more"
            raise self._wrong(field, f"{bound}, not {one_line(value, 60)}")
        self._keep(field, float(value))

    def _keep(self, field, value):
        object.__setattr__(self, field, value)

    def _wrong(self, field, what):
        return ContactError(f"contact {one_line(self.name or self.link, 60)!r}: {field} is {what}")

    @property
    def rows(self) -> tuple[str, ...]:
        """Names of its components: moments about and forces along its axes."""
        return ("fx", "fz") if self.roller is not None else _ROWS[self.kind]


@explains_wrong_calls
@dataclass(frozen=True)
class Plane:
    """A plane of the ground, fixed in the world; several are walls or the steps of stairs.

    Parameters
    ----------
    normal : sequence of float (3,)
        Its normal, away from the ground.
    offset : float
        Its distance from the origin of the world along the normal, m.
    friction : float
        Coefficient of friction; that of a contact counts where it is smaller.
    restitution : float
        Share of the normal velocity of an impact with which a contact rebounds, 0 to 1.

    Raises
    ------
    ContactError
        For a value that is not finite or out of its range.

    Examples
    --------
    >>> dn.Plane(normal=(0.5, 0, 1), friction=0.6).normal[2].__round__(3)  # a slope
    0.894
    """

    normal: tuple[float, ...] = (0.0, 0.0, 1.0)
    offset: float = 0.0
    friction: float = 0.8
    restitution: float = 0.0

    def __post_init__(self):
        try:
            normal = np.array(self.normal, dtype=float)
            offset = float(self.offset)
        except (TypeError, ValueError):
            raise ContactError(f"plane: {one_line(self, 100)} has a value that is no number") from None
        length = float(np.sqrt((normal * normal).sum())) if normal.shape == (3,) else 0.0
        if not LEAST < length < HUGE or not abs(offset) < HUGE:
            raise ContactError("plane: normal is a direction, and all numbers are finite")
        _check_surface("plane", self.friction, self.restitution)
        object.__setattr__(self, "normal", tuple((normal / length).tolist()))


def _same(value, default):
    """Whether two fields are equal, sequences entry by entry."""
    if isinstance(default, tuple) and isinstance(value, Iterable) and not isinstance(value, str):
        return tuple(value) == default
    return value is default or value == default


@explains_wrong_calls
@dataclass(frozen=True)
class Terrain:
    """Ground of rollouts whose height is a function, fixed in the world.

    Parameters
    ----------
    height : callable
        ``height(x, y)`` returns the height in m at x and y in m, made by +, -, *, /, numpy.sin and
        numpy.cos. It is called once, with symbols. Slopes go up to 85 degrees; steeper, results are NaN.
    friction : float
        Coefficient of friction; that of a contact counts where it is smaller.
    restitution : float
        Share of the normal velocity of an impact with which a contact rebounds, 0 to 1.

    Raises
    ------
    ContactError
        For a value that is not finite or out of its range.

    Examples
    --------
    >>> def stairs(x, y):  # rise 0.1 m every 0.3 m, with rounded edges
    ...     turns = 2 * np.pi / 0.3
    ...     x = x - np.sin(turns * x) / turns
    ...     return (x - np.sin(turns * x) / turns) / 3
    >>> ground = dn.Terrain(stairs, friction=0.7)
    """

    height: Callable
    friction: float = 0.8
    restitution: float = 0.0

    def __post_init__(self):
        if not callable(self.height):
            raise ContactError(f"terrain: height is a function of x and y, not {one_line(self.height, 60)}")
        _check_surface("terrain", self.friction, self.restitution)


Ground = Plane | Terrain | Callable  # what `ground` of a rollout is, or a sequence of them


def _check_surface(name, friction, restitution):
    """Raise ContactError for a coefficient out of its range."""
    for word, value, most in (("friction", friction, HUGE), ("restitution", restitution, 1.0)):
        number = isinstance(value, int | float | np.number) and not isinstance(value, bool)
        if not number or not 0 <= value <= most:
            raise ContactError(f"{name}: {word} is a number from 0 to {most:g}, not {one_line(value, 60)}")


class ContactRows:
    """Where the rows of contacts lie in arrays over all rows.

    contacts: of a Problem; names: `FL_FOOT.fx`, ...; places: {name of the contact: slice of its rows}.
    """

    def __init__(self, contacts: Iterable[Contact]):
        self.contacts = tuple(contacts)
        self.names = tuple(f"{contact.name}.{row}" for contact in self.contacts for row in contact.rows)

    @cached_property
    def places(self) -> dict[str, slice]:
        ends = np.cumsum([0, *(len(contact.rows) for contact in self.contacts)]).tolist()
        return {c.name: slice(*ends[k : k + 2]) for k, c in enumerate(self.contacts)}

    def of_rows(self, per_contact):
        """The array over the rows with the entry (contacts,) of its contact at each."""
        return np.repeat(per_contact, [len(contact.rows) for contact in self.contacts], axis=-1)


def valid_contacts(
    robot: Robot, contacts: Contact | Iterable[Contact], balls: bool = False
) -> tuple[Contact, ...]:
    """The contacts as a tuple. Raises ContactError for an unknown link, a name that occurs twice, two
    sides that do not move relative to each other, and a point with a radius unless `balls`."""
    contacts = (contacts,) if isinstance(contacts, Contact) else tuple(contacts)
    if len(contacts) > MAX_CONTACTS:
        raise ContactError(f"{len(contacts)} contacts are more than {MAX_CONTACTS}")
    names: set[str] = set()
    for contact in contacts:
        if not isinstance(contact, Contact):
            remedy = ": dn.load_contacts reads a file of them" if isinstance(contact, str) else ""
            raise TypeError(f"contacts are Contact records, not {type(contact).__name__}{remedy}")
        label = f"contact {one_line(contact.name, 60)!r}"
        if contact.name in names:
            raise ContactError(f"{label} occurs twice: give one of them another name")
        names.add(contact.name)
        if contact.kind == "point" and contact.radius and not balls:
            raise ContactError(
                f"{label}: radius of a point is for rollouts; place the point on the ball by xyz"
            )
        for link in filter(None, (contact.link, contact.other)):
            if link not in robot.frames:
                known = listed(robot.frames, 40)
                raise ContactError(f"{label}: unknown link {one_line(link, 60)!r}; the robot has: {known}")
        other = robot.frames[contact.other].body if contact.other else -1
        if robot.frames[contact.link].body == other:
            fixed = repr(contact.other) if contact.other else "the world"
            raise ContactError(f"{label}: its link is fixed to {fixed}, so no motion brings them together")
    return contacts


# --- the file -----------------------------------------------------------------------------------------------


@explains_wrong_calls
def load_contacts(path: str | Path) -> tuple[Contact, ...]:
    """Read the contacts of a YAML file.

    Parameters
    ----------
    path : str or Path
        The file, of at most 1 MiB. Its list `contacts` has the fields of every Contact; `link` may be a list
        of links with one contact each.

    Returns
    -------
    tuple of Contact
        For `forward_dynamics`, `inverse_dynamics` and `hybrid_dynamics`.

    Raises
    ------
    ContactError
        For an invalid file; the message has the line and column.
    OSError
        For a file that cannot be read.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.NamedTemporaryFile(suffix=".yaml") as file:
    ...     _ = file.write(b"contacts: [{link: [FL_FOOT, FR_FOOT], friction: 0.7}]")
    ...     file.flush()
    ...     contacts = dn.load_contacts(file.name)
    >>> [contact.name for contact in contacts]
    ['FL_FOOT', 'FR_FOOT']
    """
    return parse_contacts(read_regular_file(path, MAX_BYTES + 1))


def parse_contacts(text: str | bytes) -> tuple[Contact, ...]:
    """The contacts of the text of a file. Raises ContactError."""
    return FILE.read(text)


FILE = RecordFile(
    "contacts",
    lambda entry: (Contact, "a contact"),
    ContactError,
    words=("link", "kind", "name", "other"),
    lists=("link",),
    most=MAX_CONTACTS,
)
