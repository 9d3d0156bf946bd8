"""Linkages with their closure equations: ordinary ones, as in technical drawings, and random ones.

Ordinary linkages have right angles, parallelograms, dimensions in whole centimeters and all joints at zero at home.
They lie in any plane, on the ground, a moving link or a floating base. Random linkages are trees of generic or
axis-parallel joints with loops of every kind.
"""

from typing import NamedTuple

import numpy as np
from mechanisms import joint, link, loop, numbers, robot

CONSTRAINTS = {"fixed": 6, "revolute": 5, "prismatic": 5, "universal": 4, "ball": 3, "planar": 3, "rod": 1}


class End(NamedTuple):
    """A frame on a link: rotation (3, 3) and origin (3,) in its axes."""

    link: str
    rotation: np.ndarray
    origin: np.ndarray


class Tie(NamedTuple):
    """A loop joint of a kind of CONSTRAINTS between two frames; second_axis: of a universal joint; length: of a rod."""

    name: str
    kind: str
    predecessor: End
    successor: End
    axis: np.ndarray
    second_axis: np.ndarray | None = None
    length: float | None = None


class Linkage(NamedTuple):
    """text: URDF+; home: {joint: closed position}; gears: ({joint: weight}, ...), weighted sums that stay zero."""

    name: str
    text: str
    ties: tuple[Tie, ...]
    gears: tuple[dict[str, float], ...]
    home: dict[str, float]
    floating_base: bool


class Drawing:
    """Links and joints at home, with closed loops. frames: {link: rotation, origin in the world}."""

    def __init__(self, name, random, floating_base=False):
        self.name, self.random, self.floating_base = name, random, floating_base
        self.frames = {"ground": (np.eye(3), np.zeros(3))}
        self.parts, self.home, self.ties, self.gears = [], {}, [], []
        self.parts.append(link("ground", self._seed(), 5.0 if floating_base else None, solid=True))

    def _seed(self):
        return int(self.random.integers(1 << 30))

    def add(self, name, parent, place, axis, kind="revolute", independent=None, rpy=(0, 0, 0), at=0.0):
        """Add a link and its joint j_<name>; place (3,): the joint's origin in the world at home."""
        R, p = self.frames[parent]
        own = R @ rotation_of(rpy)
        self.parts.append(
            link(name, self._seed(), float(np.round(self.random.uniform(0.3, 3.0), 2)), solid=True)
        )
        xyz = numbers(R.T @ (np.asarray(place) - p))
        self.parts.append(
            joint(f"j_{name}", parent, name, xyz, numbers(axis), kind, independent, numbers(rpy))
        )
        self.home[f"j_{name}"] = at
        along = own @ np.asarray(axis, float)
        turn, shift = (np.eye(3), along * at) if kind == "prismatic" else (about(along, at), 0.0)
        self.frames[name] = (turn @ own, np.asarray(place) + shift)

    def end(self, name, rotation, place):
        """The frame on a link with `rotation` and `place` in the world at home."""
        R, p = self.frames[name]
        return End(name, R.T @ rotation, R.T @ (np.asarray(place) - p))

    def tie(self, kind, a, b, place, axis=(0, 0, 1), rotation=None, **more):
        """Add a loop that is closed at home, where both of its frames coincide."""
        rotation = np.eye(3) if rotation is None else rotation
        ends = (self.end(name, rotation, place) for name in (a, b))
        self.ties.append(Tie(f"tie{len(self.ties)}", kind, *ends, np.asarray(axis, float), **more))

    def done(self):
        gears = [_gear(k, weights) for k, weights in enumerate(self.gears)]
        text = robot(*self.parts, *(_element(tie) for tie in self.ties), *gears, name=self.name)
        return Linkage(
            self.name, text, tuple(self.ties), tuple(self.gears), dict(self.home), self.floating_base
        )


def _element(tie):
    (a, R, p), (b, S, s) = tie.predecessor, tie.successor
    more = ""
    if tie.second_axis is not None:
        more = f'<axis2 xyz="{numbers(tie.second_axis)}"/>'
    if tie.length is not None:
        more = f'<length value="{tie.length:.17g}"/>'
    rpy = tuple(numbers(rpy_of(frame)) for frame in (R, S))
    return loop(tie.name, tie.kind, a, numbers(p), b, numbers(s), numbers(tie.axis), more, rpy)


def _gear(number, weights):
    (driven, ratio), (rotor, _) = weights.items()
    ends = (f'<{end} link="{name[2:]}"/>' for end, name in (("predecessor", driven), ("successor", rotor)))
    return f'<coupling name="gear{number}">{"".join(ends)}<ratio value="{ratio:.17g}"/></coupling>'


# --- rotations ----------------------------------------------------------------------------------------------


def about(axis, angle):
    """Rotation matrix (3, 3)."""
    n = np.asarray(axis, float) / np.linalg.norm(axis)
    K = np.cross(n, np.eye(3)).T
    return np.eye(3) + np.sin(angle) * K + (1 - np.cos(angle)) * (K @ K)


def rotation_of(rpy):
    x, y, z = np.eye(3)
    return about(z, rpy[2]) @ about(y, rpy[1]) @ about(x, rpy[0])


def rpy_of(R):
    pitch = np.arctan2(-R[2, 0], np.hypot(R[0, 0], R[1, 0]))
    if np.hypot(R[0, 0], R[1, 0]) < 1e-12:
        return np.array([np.arctan2(-R[1, 2], R[1, 1]), pitch, 0.0])
    return np.array([np.arctan2(R[2, 1], R[2, 2]), pitch, np.arctan2(R[1, 0], R[0, 0])])


def any_rotation(random):
    return about(random.normal(size=3), random.uniform(-3, 3))


# --- ordinary linkages --------------------------------------------------------------------------------------


class Plane(NamedTuple):
    """The plane of a planar linkage, on the link `base`; columns of B (3, 3): two directions and the normal."""

    drawing: Drawing
    base: str
    B: np.ndarray

    def point(self, x, y):
        return self.drawing.frames[self.base][1] + self.B @ np.array([x, y, 0.0])

    def hinge(self, name, parent, x, y, independent):
        self.drawing.add(name, parent, self.point(x, y), self.B[:, 2], independent=independent)

    def pin(self, a, b, x, y):
        kind = "revolute" if self.drawing.random.random() < 0.7 else "ball"
        self.drawing.tie(kind, a, b, self.point(x, y), self.B[:, 2])


def plane(name, random):
    """A plane along two axes or oblique, on the ground, a moving link or a floating base."""
    drawing = Drawing(name, random, floating_base=random.random() < 0.2)
    turned = np.eye(3)[:, np.roll([0, 1, 2], random.integers(3))]
    B = any_rotation(random) if random.random() < 0.2 else turned
    base = "ground"
    if random.random() < 0.4:
        base, axis = "carrier", np.eye(3)[random.integers(3)]
        drawing.add(base, "ground", (0.1, 0.2, 0.3), axis, independent=True)
    return Plane(drawing, base, B)


def palletizer(random):
    """An arm whose three parallelograms keep its tool level (Dobot, uArm, ABB IRB 660), with its upper arm vertical."""
    cm = lambda low, high: round(float(random.uniform(low, high)), 2)  # noqa: E731
    p, (upper, fore, crank) = (plane("palletizer", random), (cm(0.2, 0.4), cm(0.2, 0.4), cm(0.05, 0.15)))
    at, there = (cm(-0.08, 0.08), cm(-0.1, -0.01)), (cm(0.01, 0.08), cm(0.02, 0.1))
    p.hinge("upper", p.base, 0, 0, True)
    p.hinge("crank", p.base, 0, 0, True)
    p.hinge("forearm", "upper", 0, upper, False)
    p.hinge("rod", "crank", -crank, 0, False)
    p.hinge("link", p.base, *at, False)
    p.hinge("triangle", "upper", 0, upper, False)
    p.pin("rod", "forearm", -crank, upper)
    p.pin("link", "triangle", at[0], at[1] + upper)
    if random.random() < 0.7:
        p.hinge("bar", "triangle", there[0], upper + there[1], False)
        p.hinge("tool", "forearm", fore, upper, False)
        p.pin("bar", "tool", fore + there[0], upper + there[1])
    return p.drawing.done()


def grid(random):
    """Four-bars on a grid of 10 cm, each on a link of the previous ones."""
    p, moving = plane("grid", random), ["first"]
    point = lambda: tuple(np.round(0.1 * random.integers(-2, 3, size=2), 1))  # noqa: E731
    p.hinge("first", p.base, 0, 0, True)
    for k in range(random.integers(1, 4)):
        a, b = random.choice(moving), random.choice([p.base, *moving])
        p.hinge(f"left{k}", a, *point(), False)
        p.hinge(f"right{k}", p.base if a == b else b, *point(), False)
        p.pin(f"left{k}", f"right{k}", *point())
        moving += [f"left{k}", f"right{k}"]
    return p.drawing.done()


def parallelograms(random):
    """Rockers of equal length under one bar: the second parallelogram has a redundant equation. At home the rockers are
    flat, upright or oblique."""
    p = plane("parallelograms", random)
    angle = random.choice([0.0, np.pi / 2, np.pi / 3, 0.3])
    tip = 0.2 * np.array([np.cos(angle), np.sin(angle)])
    places = np.cumsum([0, *np.round(random.uniform(0.1, 0.3, random.integers(1, 3)), 2)])
    p.hinge("crank", p.base, 0, 0, True)
    p.hinge("bar", "crank", *tip, False)
    for k, x in enumerate(places[1:]):
        p.hinge(f"rocker{k}", p.base, x, 0, False)
        p.pin("bar", f"rocker{k}", x + tip[0], tip[1])
    return p.drawing.done()


def slider_crank(random):
    """A piston, its rod, a crank (possibly at a dead center), and a gear on the crank."""
    p = plane("slider_crank", random)
    angle = random.choice([0.0, np.pi / 2, 0.7, np.pi])
    tip = 0.1 * np.array([np.cos(angle), np.sin(angle)])
    p.hinge("crank", p.base, 0, 0, True)
    p.hinge("rod", "crank", *tip, False)
    p.drawing.add("piston", p.base, p.point(0, 0), p.B[:, 0], "prismatic", False)
    p.pin("rod", "piston", tip[0] + np.sqrt(0.3**2 - tip[1] ** 2), 0.0)
    p.drawing.add("rotor", p.base, p.point(0.1, 0.1), p.B[:, 2], independent=False)
    p.drawing.gears.append({"j_crank": 7.0, "j_rotor": -1.0})
    return p.drawing.done()


def _corners(k):
    """Both ends of rod k of a Stewart platform, in the horizontal plane."""
    side, way = 2 * np.pi / 3 * (k // 2), 1 if k % 2 else -1
    below, above = side + 0.2 * way, side + (np.pi / 3 - 0.25) * way
    return 0.5 * np.array([np.cos(below), np.sin(below), 0]), 0.3 * np.array(
        [np.cos(above), np.sin(above), 0]
    )


def stewart(random):
    """A platform on six rods whose feet slide vertically; six joints give its pose."""
    d, parent, top = Drawing("stewart", random), "ground", np.array([0, 0, 0.5])
    for k, name in enumerate(("x", "y", "z", "roll", "pitch", "platform")):
        kind = "prismatic" if k < 3 else "revolute"
        d.add(name, parent, top, np.eye(3)[k % 3], kind, False)
        parent = name
    for k in range(6):
        foot, head = _corners(k)
        d.add(f"foot{k}", "ground", foot, (0, 0, 1), "prismatic", True)
        rod(d, f"foot{k}", foot, "platform", top + head)
    return d.done()


def delta(random):
    """Three arms, each with a rod to a platform that only translates."""
    d, parent, below = Drawing("delta", random), "ground", np.array([0, 0, -0.6])
    for axis, name in zip(np.eye(3), ("x", "y", "platform"), strict=True):
        d.add(name, parent, below, axis, "prismatic", False)
        parent = name
    for k in range(3):
        R = about((0, 0, 1), 2 * np.pi / 3 * k)
        d.add(f"arm{k}", "ground", R @ (0.2, 0, 0), R @ (0, 1, 0), independent=True)
        rod(d, f"arm{k}", R @ (0.5, 0, 0), "platform", below + R @ (0.05, 0, 0))
    return d.done()


def rod(drawing, a, place, b, there):
    apart = np.asarray(there) - place
    ends = (drawing.end(a, np.eye(3), place), drawing.end(b, np.eye(3), there))
    name, length = f"tie{len(drawing.ties)}", float(np.linalg.norm(apart))
    drawing.ties.append(Tie(name, "rod", *ends, np.array([0.0, 0, 1]), length=length))


ORDINARY = (palletizer, grid, parallelograms, slider_crank, stewart, delta)


# --- overconstrained linkages, and linkages with several assemblies ------------------------------------------


def sarrus(random):
    """Two perpendicular pairs of plates, which leave their table one vertical motion, with one redundant equation.

    At home it is on that branch, with joints at multiples of 45 degrees. On another branch both pairs are folded and
    swing separately: two degrees of freedom.
    """
    d, B = Drawing("sarrus", random, floating_base=random.random() < 0.2), np.eye(3)
    if random.random() < 0.5:
        B = any_rotation(random)
    high, wide = np.round(random.uniform(0.1, 0.3, 2), 2)
    marked = random.random() < 0.5

    def add(name, parent, place, axis, independent=False):
        at = random.choice([0, 0, 0.25, 0.5, -0.5, 1]) * np.pi
        along = d.frames[parent][0].T @ B[:, axis]
        d.add(name, parent, B @ place, along, independent=independent if marked else None, at=at)

    for axis, pair in enumerate("ab"):
        out = np.eye(3)[1 - axis]
        add(f"lower_{pair}", "ground", 0.2 * out, axis, independent=axis == 0)
        add(f"upper_{pair}", f"lower_{pair}", (0.2 + wide) * out + (0, 0, high), axis)
    add("table", "upper_a", np.array([0, 0.2, 2 * high]), 0)
    d.tie("revolute", "upper_b", "table", B @ (0.2, 0, 2 * high), (0, 1, 0), B)
    return d.done()


def chain(*links):
    """A closed chain of hinges with Denavit-Hartenberg parameters (a, alpha, d). At zero, its home, the loop is open."""
    d, R, p, parent = Drawing("chain", np.random.default_rng(1)), np.eye(3), np.zeros(3), "ground"
    for k, (a, alpha, up) in enumerate(links):
        if k == len(links) - 1:
            back = about((1, 0, 0), -alpha)
            ground = End("ground", back, -back @ (a, 0, up))
            d.ties.append(Tie("tie0", "revolute", d.end(parent, R, p), ground, np.array([0, 0, 1.0])))
        else:
            rpy = rpy_of(d.frames[parent][0].T @ R)
            d.add(f"b{k}", parent, p, (0, 0, 1), rpy=rpy)
            parent = f"b{k}"
            p, R = p + R @ (a, 0, up), R @ about((1, 0, 0), alpha)
    return d.done()


def bennett(side, twist, other):
    """Four hinges with equal opposite links; other: the twist of the second link."""
    second = side * np.sin(other) / np.sin(twist)
    return chain(*((side, twist, 0), (second, other, 0)) * 2)


def door():
    """A door on two coaxial hinges."""
    d = Drawing("door", np.random.default_rng(2))
    d.add("door", "ground", (0.1, 0.2, 0), (0, 0, 1))
    d.tie("revolute", "door", "ground", np.array([0.1, 0.2, 1.0]))
    return d.done()


def three_cranks():
    """A rod on three parallel cranks of equal length, with one redundant equation. At home it is flat, and the rod can
    also rotate relative to the cranks."""
    d, along, axis = Drawing("three_cranks", np.random.default_rng(3)), np.array([1.0, 0, 0]), (0, 0, 1)
    for k, x in enumerate((0.0, 0.4, 1.0)):
        d.add(f"crank{k}", "ground", x * along, axis, independent=k == 0)
    d.add("rod", "crank0", 0.5 * along, axis, independent=False)
    for k, x in enumerate((0.4, 1.0), 1):
        d.tie("revolute", "rod", f"crank{k}", (0.5 + x) * along, axis)
    return d.done()


def five_bar():
    """Two cranks and two rods in a plane."""
    d, z = Drawing("five_bar", np.random.default_rng(4)), (0, 0, 1)
    for side, x in (("left", -0.1), ("right", 0.15)):
        d.add(f"{side}_crank", "ground", (x, 0, 0), z, independent=True)
        d.add(f"{side}_rod", f"{side}_crank", (2 * x, 0.25, 0), z, independent=False)
    d.tie("revolute", "left_rod", "right_rod", np.array([0.02, 0.5, 0]))
    return d.done()


# --- random linkages ----------------------------------------------------------------------------------------


def spatial(random, kinds=None, reach=1.0):
    """A tree of random joints, generic or along axes at right angles, with one or two loops of `kinds`; reach: of
    joints at home, rad or m from zero."""
    if kinds is None:
        kinds = random.choice(list(CONSTRAINTS), size=random.integers(1, 3)).tolist()
    d = Drawing(" and ".join(["spatial", *kinds]), random, floating_base=random.random() < 0.2)
    square, names, above = random.random() < 0.5, ["ground"], {"ground": frozenset[str]()}
    at_zero = square and reach <= 1.0 and random.random() < 0.5
    for k in range(sum(CONSTRAINTS[kind] for kind in kinds) + random.integers(1, 5)):
        parent = names[-1] if random.random() < 0.55 else random.choice(names)
        _random_joint(d, f"b{k}", parent, square, at_zero, reach)
        names.append(f"b{k}")
        above[f"b{k}"] = above[parent] | {f"b{k}"}
    for kind in kinds:
        _random_tie(d, kind, above)
    return d.done()


def _random_joint(d, name, parent, square, at_zero, reach=1.0):
    random = d.random
    kind = random.choice(["revolute", "continuous", "prismatic"], p=[0.5, 0.25, 0.25])
    if square:
        axis, rpy = np.eye(3)[random.integers(3)], random.choice([0, np.pi / 2, -np.pi / 2], 3)
        offset = random.choice([0, 0.1, 0.2, -0.1, 0.3], 3)
    else:
        axis, rpy, offset = random.normal(size=3), random.uniform(-3, 3, 3), 0.4 * random.normal(size=3)
        axis /= np.linalg.norm(axis)
    R, p = d.frames[parent]
    at = 0.0 if at_zero else float(random.uniform(-reach, reach))
    d.add(name, parent, p + R @ offset, axis, kind, rpy=rpy, at=at)


def _random_tie(d, kind, above):
    """Add a loop between two links with enough joints between them, if there are any."""
    random, names = d.random, list(above)
    for _ in range(100):
        a, b = random.choice(names, 2, replace=False)
        if len(above[a] ^ above[b]) >= CONSTRAINTS[kind]:
            break
    R, axis = any_rotation(random), random.normal(size=3)
    axis /= np.linalg.norm(axis)
    (Ra, pa), across = d.frames[a], np.cross(axis, random.normal(size=3))
    across /= np.linalg.norm(across)
    place = pa + Ra @ (0.3 * random.normal(size=3))
    if kind == "rod":
        rod(d, a, place, b, place + 0.5 * random.normal(size=3))
        return
    more = {"second_axis": across} if kind == "universal" else {}
    d.tie(kind, a, b, place, axis, R, **more)
    slide = {"prismatic": axis, "planar": across}.get(kind, np.zeros(3))
    turn = about(axis, random.uniform(-2, 2)) if kind in ("revolute", "planar") else np.eye(3)
    there = d.end(b, R @ turn, place + R @ slide * random.uniform(-0.3, 0.3))
    d.ties[-1] = d.ties[-1]._replace(successor=there)


# --- linkages drawn open ------------------------------------------------------------------------------------


def drawn_open(random):
    """Two to eight loops between frames that are far apart at zero, since the zeros of the joints are arbitrary."""
    make = random.choice([platform, ladder, open_spatial])
    return make(random, int(random.integers(2, 9)))


def open_spatial(random, loops):
    return spatial(random, random.choice(list(CONSTRAINTS), size=loops).tolist(), reach=np.pi)


def platform(random, loops):
    """A platform on legs of six joints; the first leg carries it, and the others are welded to it."""
    d = Drawing("platform", random, floating_base=random.random() < 0.2)
    top, ways = np.array([0, 0, 1.2]), 2 * np.pi * np.arange(loops + 1) / (loops + 1)
    kinds = ["revolute", "continuous", "prismatic", "revolute", "revolute", "revolute"]
    axes = np.eye(3)[[0, 1, 2, 0, 1, 2]]
    for k, way in enumerate(ways):
        foot, parent = np.array([np.cos(way), np.sin(way), 0]), "ground"
        for i, (kind, axis) in enumerate(zip(kinds, axes, strict=True)):
            name = "platform" if k == 0 and i == 5 else f"leg{k}_{i}"
            reach = 0.2 if kind == "prismatic" else np.pi if i > 2 else 0.5
            place = top + 0.5 * foot if i > 2 else foot
            d.add(name, parent, place, axis, kind, at=float(random.uniform(-reach, reach)))
            parent = name
        if k:
            d.tie("fixed", "platform", parent, top + 0.5 * foot, rotation=any_rotation(random))
    return d.done()


def ladder(random, loops):
    """Five-bars in a plane, each on links of the previous ones."""
    p, moving = plane("ladder", random), []
    for k in range(loops):
        parents = random.choice([p.base, *moving], 2)
        for side, parent in zip("ab", parents, strict=True):
            for i in range(2):
                name, at = f"{side}{k}_{i}", float(random.uniform(-np.pi, np.pi))
                place = p.point(*random.uniform(-0.4, 0.4, 2))
                along = p.drawing.frames[parent][0].T @ p.B[:, 2]
                p.drawing.add(name, parent, place, along, at=at)
                moving.append(parent := name)
        kind = random.choice(["fixed", "prismatic", "revolute", "planar", "ball"])
        rotation, point = np.column_stack([p.B[:, 2], p.B[:, 0], p.B[:, 1]]), random.uniform(-0.4, 0.4, 2)
        axis = (0, 1, 0) if kind == "prismatic" else (1, 0, 0)
        ends = f"a{k}_1", f"b{k}_1"
        p.drawing.tie(kind, *ends, p.point(*point), axis, rotation)
    return p.drawing.done()
