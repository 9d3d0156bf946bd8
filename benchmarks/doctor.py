"""Twelve kinds of errors planted in every robot of example-robot-data: the doctor's detection rate, the rate
of correct causes, and its findings about the unmodified robots.

The same errors, and factors of eight, are planted on all links at once. A hundred random robots without an
error follow: solids, shells and motors within random shapes.

Each error is planted in a random moving link that weighs more than a thousandth of the robot and has no
finding yet (or any moving link, if all have findings). It must change the second moments or the center of
mass by at least one standard deviation of the solid; a rotated inertia about an axis of symmetry is no error.
A detected error yields a new finding about this link; a correct one names this cause. Robots without such a
link count as left out.
"""

import collections
import json
from pathlib import Path

import numpy as np
from harness import HERE, Row, arguments, finish, versions

from dynamics_node.errors import ModelError
from dynamics_node.identification.doctor.diagnosis import LinkFacts, common_errors, diagnose, negligible
from dynamics_node.identification.doctor.evidence import MassProperties, second_moments
from dynamics_node.identification.doctor.faults import FAULTS, SWAPPED
from dynamics_node.identification.doctor.report import facts
from dynamics_node.identification.doctor.solids import (
    box,
    cylinder,
    enclosed,
    joined,
    link_geometry,
    read_triangles,
)
from dynamics_node.robot.loading import read_description
from dynamics_node.robot.urdf_shapes import parse_shapes
from dynamics_node.robot.validate import validate

EFFECT = 1.0
DETECTED, CORRECT = 0.95, 0.80
SHARED = {  # factors of mass and inertia on all links: the density of steel in one place or another
    "inertia of all x 8": (1, 8), "inertia of all / 8": (1, 1 / 8),
    "mass of all x 8": (8, 1), "mass of all / 8": (1 / 8, 1),
    "mass and inertia of all x 8": (8, 8), "mass and inertia of all / 8": (1 / 8, 1 / 8),
}  # fmt: skip
RANDOM_ROBOTS = 100


def main():
    parser = arguments("doctor")
    parser.add_argument("--seed", type=int, default=0, help="seed of the choice of links (default: 0)")
    options = parser.parse_args()
    robots = dict(read_robots())
    results, everywhere, alarms, counts = [], [], [], collections.Counter()
    for name, links in robots.items():
        untouched = diagnose(links)
        alarms += [(name, finding) for finding in untouched]
        counts["links"] += len(links)
        counts["healthy robots"] += not untouched
        for number, fault in enumerate(FAULTS.values()):
            random = np.random.default_rng([options.seed, number])
            results.append((name, fault.name, trial(links, fault, untouched, random)))
        everywhere += trials_everywhere(links, untouched, np.random.default_rng(options.seed))
        counts["robots with a common error"] += bool(common_errors(links, untouched))
    false = [diagnose(links) or common_errors(links, []) for links in random_robots(options.seed)]
    rows = [*_rows(results), Row("untouched: robots", len(robots), "", "higher"),
            Row("untouched: robots without a finding", counts["healthy robots"], "", "higher"),
            Row("untouched: links", counts["links"], "", "higher"), *_alarm_rows(alarms),
            Row("untouched: robots with a common error", counts["robots with a common error"], "", "lower"),
            *_rows_everywhere(everywhere),
            Row("random robots with a finding", sum(map(bool, false)), "of 100", "lower")]  # fmt: skip
    finish(
        "doctor", rows, versions("numpy", "scipy", "trimesh", "pycollada", "example-robot-data"), options.save
    )
    _list_alarms(alarms, options.save)


def read_robots():
    """(name, LinkFacts of the links) of every valid description."""
    import pinocchio

    folders = (path / "share/example-robot-data/robots" for path in Path(pinocchio.__file__).parents)
    folder = next((path for path in folders if path.is_dir()), None)
    if folder is None:
        raise SystemExit("the benchmark needs example-robot-data: pip install example-robot-data")
    for path in sorted(folder.rglob("*.urdf")):
        text, left_out = path.read_bytes(), []
        try:
            description = read_description(text)
            validate(description)
        except ModelError as error:
            print(f"{path.name}: skipped: {error}")
            continue
        shapes = parse_shapes(text)[0]
        solids = {name: link_geometry(parts, path.parent, left_out).solid for name, parts in shapes.items()}
        read_triangles.cache_clear()
        for line in dict.fromkeys(left_out):
            print(f"{path.name}: {line}")
        yield str(path.relative_to(folder)), facts(description, solids)


def trial(links, fault, untouched, random):
    """'right', 'found as CAUSE' for a wrong cause, 'missed', or None if the fault cannot be planted."""
    before = {finding.link: finding.cause for finding in untouched}
    planted = _planted(links, fault, before, random)
    if planted is None:
        return None
    modified, faulty = planted
    after = {finding.link: finding.cause for finding in diagnose(modified)}
    new = [after[name] for name in faulty if name in after and after[name] != before.get(name)]
    return "missed" if not new else "right" if fault.name in new else f"found as {new[0]}"


def trials_everywhere(links, untouched, random):
    """(name of the error, whether there is a new finding) of errors on all links with mass and inertia."""
    able = [link.inertial.mass > 0 and link.inertial.inertia.any() for link in links]
    if sum(map(_is_able, links)) < 3:
        return
    before = {(finding.link, finding.cause) for finding in untouched}
    common = len(common_errors(links, untouched))
    plants = {fault.name: fault.plant for fault in FAULTS.values() if fault.undo}
    plants |= {name: _times(*factors) for name, factors in SHARED.items()}
    for name, plant in plants.items():
        modified = [
            link._replace(inertial=plant(link.inertial, random)) if has else link
            for link, has in zip(links, able, strict=True)
        ]
        pairs = zip(links, modified, strict=True)
        if max(_effect(old, new.inertial) for old, new in pairs if _is_able(old)) < EFFECT:
            continue
        findings = diagnose(modified)
        new = {(finding.link, finding.cause) for finding in findings} - before
        yield name, bool(new) or len(common_errors(modified, findings)) > common


def _times(mass, inertia):
    return lambda link, random: link._replace(mass=mass * link.mass, inertia=inertia * link.inertia)


def random_robots(seed):
    """LinkFacts of robots without an error: 3 to 12 links of one to three boxes and cylinders, each with a
    solid, a shell, and up to half of the mass in a motor, a cylinder within the first shape."""
    random = np.random.default_rng([seed, 1])
    for _ in range(RANDOM_ROBOTS):
        material, size = random.uniform(400, 2000), np.exp(random.uniform(-2.5, 0))
        yield [_random_link(f"link{k}", material, size, random) for k in range(random.integers(3, 13))]


def _random_link(name, material, size, random):
    shapes, parts = [], []
    for _ in range(random.integers(1, 4)):
        sides = size * random.uniform(0.2, 1.0, 3)
        turn, place = np.linalg.qr(random.normal(size=(3, 3)))[0], size * random.uniform(-0.3, 0.3, 3)
        turn *= np.sign(np.linalg.det(turn))
        flat = box(sides) if random.random() < 0.5 else cylinder(0.5 * sides[:2].min(), sides[2])
        shape = enclosed(flat @ turn.T + place)
        shapes.append(shape)
        mass = material * shape.volume * random.uniform(0.5, 1.5)
        shell = random.uniform(0, 1)  # a hollow one of a surface has 5/3 of the second moments
        parts.append((mass, shape.center, shape.second * (1 + 2 / 3 * shell)))
    motor = random.uniform(0, 0.5) * sum(mass for mass, _, _ in parts)
    inner = shapes[0]
    reach = np.linalg.cholesky(inner.second) @ random.uniform(-0.8, 0.8, 3)
    parts.append((motor, inner.center + reach, 0.05 * inner.second))
    masses = np.array([mass for mass, _, _ in parts])
    com = masses @ np.array([center for _, center, _ in parts]) / masses.sum()
    spread = sum(m * (second + np.outer(c - com, c - com)) for m, c, second in parts)
    own = MassProperties(masses.sum(), com, np.trace(spread) * np.eye(3) - spread)
    return LinkFacts(name, own, joined(shapes), True)


def _rows_everywhere(results):
    """Rates of findings of errors on all links."""
    rows = []
    for name in dict.fromkeys(name for name, _ in results):
        own = [found for other, found in results if other == name]
        rows.append(
            Row(f"on all links, {name}: found", sum(own) / len(own), "", "higher", reason=f"of {len(own)}")
        )
    found = [found for _, found in results]
    rows.append(Row("on all links: found", sum(found) / len(found), "", "higher"))
    return rows


def _planted(links, fault, before, random):
    """(links with the fault, names of the faulty ones), or None."""
    light = negligible(links)
    candidates = [k for k, link in enumerate(links) if link.name not in light and _is_able(link)]
    places = [k for k in candidates if links[k].name not in before] or candidates
    random.shuffle(places)
    for k in places:
        others = [j for j in places if j != k] if fault.name == SWAPPED else [k]
        for j in others:
            mine = links[j].inertial if j != k else fault.plant(links[k].inertial, random)
            theirs = links[k].inertial if j != k else mine
            if _effect(links[k], mine) < EFFECT or (j != k and _effect(links[j], theirs) < EFFECT):
                continue
            modified = list(links)
            modified[k] = links[k]._replace(inertial=mine)
            modified[j] = links[j]._replace(inertial=theirs)
            return modified, {links[k].name, links[j].name}
    return None


def _is_able(link):
    return link.moves and link.solid is not None and link.inertial.mass > 0 and link.inertial.inertia.any()


def _effect(link, inertial):
    """The size of a change of a link, in standard deviations of its solid; a factor of e in mass counts as
    one."""
    if inertial.mass <= 0:
        return np.inf
    whiten = np.linalg.inv(np.linalg.cholesky(link.solid.second))
    old, new = (
        np.concatenate(
            [whiten @ own.com, (whiten @ second_moments(own) @ whiten.T).ravel(), [np.log(own.mass)]]
        )
        for own in (link.inertial, inertial)
    )
    return np.abs(new - old).max()


def _rows(results):
    planted = [result for _, _, result in results if result]
    rows = [Row("errors planted", len(planted), "", "higher"),
            Row("found", _share(planted, detected=True), "", "higher", target=DETECTED),
            Row("cause right", _share(planted), "", "higher", target=CORRECT)]  # fmt: skip
    for name in FAULTS:
        own = [result for _, fault, result in results if fault == name]
        planted = [result for result in own if result]
        others = collections.Counter(result for result in planted if result not in ("right", "missed"))
        reason = f"of {len(planted)}, left out {len(own) - len(planted)} " + ", ".join(
            f"{what} {count}" for what, count in others.most_common()
        )
        rows.append(Row(f"{name}: found", _share(planted, detected=True), "", "higher"))
        rows.append(Row(f"{name}: cause right", _share(planted), "", "higher", reason=reason))
    for robot, fault, result in results:
        if result == "missed":
            print(f"missed: {fault} in {robot}")
    return rows


def _share(results, detected=False):
    if not results:
        return None
    return sum(result != "missed" if detected else result == "right" for result in results) / len(results)


def _alarm_rows(alarms):
    causes = collections.Counter(finding.cause for _, finding in alarms)
    return [Row(f"untouched: {cause}", count, "links", "lower") for cause, count in causes.most_common()]


def _list_alarms(alarms, save):
    """Write every finding about an unmodified robot, by robot."""
    listed = {}
    for robot, finding in alarms:
        key = f"{finding.cause}: {finding.symptom}"
        listed.setdefault(robot, {}).setdefault(key, []).append(finding.link)
    folder = HERE / "results" if save else HERE
    path = folder / "doctor_untouched.json"
    path.write_text(json.dumps(listed, indent=1) + "\n")
    print(f"written: {path.relative_to(HERE.parent)}, every finding about an unmodified robot")


if __name__ == "__main__":
    main()
