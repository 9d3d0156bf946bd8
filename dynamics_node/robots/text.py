"""Elements of URDF+ as text. Vectors may be sequences of numbers."""

from collections.abc import Sequence

Vector = Sequence[float]
ZERO = (0.0, 0.0, 0.0)
X, Y, Z = (1.0, 0.0, 0.0), (0.0, 1.0, 0.0), (0.0, 0.0, 1.0)


def vector(numbers: Vector) -> str:
    return " ".join(repr(float(x)).removesuffix(".0") for x in numbers)


def robot(name, *parts) -> str:
    return f'<robot name="{name}">{"".join(parts)}</robot>'


def massless(name) -> str:
    return f'<link name="{name}"/>'


def link(name, mass, com: Vector, moments: Vector, rpy: Vector = ZERO) -> str:
    """moments: ixx, iyy, izz about the centre of mass, in axes turned by rpy."""
    ixx, iyy, izz = moments
    return (
        f'<link name="{name}"><inertial><origin xyz="{vector(com)}" rpy="{vector(rpy)}"/>'
        f'<mass value="{mass:g}"/><inertia ixx="{ixx:.9g}" iyy="{iyy:.9g}" izz="{izz:.9g}" '
        'ixy="0" ixz="0" iyz="0"/></inertial></link>'
    )


def box(name, mass, size: Vector, com: Vector = ZERO, rpy: Vector = ZERO) -> str:
    """A solid box of edges size (3,)."""
    x, y, z = (edge * edge * mass / 12 for edge in size)
    return link(name, mass, com, (y + z, x + z, x + y), rpy)


def bar(name, mass, length, width=0.03) -> str:
    """A solid bar along x from the origin of its link."""
    return box(name, mass, (length, width, width), (length / 2, 0.0, 0.0))


def rotor(name, mass, moment, axis: Vector) -> str:
    """A disc: moment about its axis, half of that across."""
    return link(name, mass, ZERO, [moment * (0.5 + 0.5 * abs(a)) for a in axis])


def joint(
    name, parent, child, xyz: Vector = ZERO, axis: Vector = Z, *, independent=None, effort=100.0
) -> str:
    """A revolute joint; independent: what URDF+ says of it, None for nothing."""
    flag = "" if independent is None else f' independent="{str(independent).lower()}"'
    return (
        f'<joint name="{name}" type="revolute"{flag}><parent link="{parent}"/><child link="{child}"/>'
        f'<origin xyz="{vector(xyz)}" rpy="0 0 0"/><axis xyz="{vector(axis)}"/>'
        f'<limit lower="-9" upper="9" effort="{effort:g}" velocity="20"/></joint>'
    )


def fixed(name, parent, child, xyz: Vector = ZERO, rpy: Vector = ZERO) -> str:
    return (
        f'<joint name="{name}" type="fixed"><parent link="{parent}"/><child link="{child}"/>'
        f'<origin xyz="{vector(xyz)}" rpy="{vector(rpy)}"/></joint>'
    )


def loop(name, kind, predecessor, at: Vector, successor, there: Vector, axis: Vector = Z, more="") -> str:
    """A loop joint between a point of one link and a point of another, whose axes are those of the links."""
    return (
        f'<loop name="{name}" type="{kind}">'
        f'<predecessor link="{predecessor}"><origin xyz="{vector(at)}"/></predecessor>'
        f'<successor link="{successor}"><origin xyz="{vector(there)}"/></successor>'
        f'<axis xyz="{vector(axis)}"/>{more}</loop>'
    )


def rod(name, predecessor, at: Vector, successor, there: Vector, length) -> str:
    """A rod with a ball joint at both ends."""
    return loop(name, "rod", predecessor, at, successor, there, more=f'<length value="{length!r}"/>')


def coupling(name, predecessor, successor, ratio) -> str:
    """ratio times the angle of the joints that lead to the predecessor is that of those to the successor."""
    return (
        f'<coupling name="{name}"><predecessor link="{predecessor}"/><successor link="{successor}"/>'
        f'<ratio value="{ratio:g}"/></coupling>'
    )


def motor(name, base, driven, ratio, axis: Vector, at: Vector = ZERO, mass=0.06, moment=6e-5) -> str:
    """A rotor on `base`, and the gear or belt from it to the link `driven`."""
    return "".join(
        [
            rotor(f"{name}_rotor", mass, moment, axis),
            joint(f"{name}_rotor_joint", base, f"{name}_rotor", at, axis, independent=False),
            coupling(f"{name}_gear", driven, f"{name}_rotor", ratio),
        ]
    )
