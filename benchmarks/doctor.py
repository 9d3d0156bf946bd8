"""Twelve kinds of errors planted in every robot of example-robot-data: how many the doctor finds, whether
it names the right cause, and what it says of the robots as they are.

A kind is planted in one link of a robot, drawn at random from those that a joint moves, that weigh more than
a thousandth of the robot and in which nothing is odd yet (where all are odd: from those). It has to change
the link by as much as the links of good robots differ from solids: its mean squares, or its centre, by one
of the solid's (an inertia turned about an axis of symmetry is no error). Found: the doctor says of this link
what it did not say before. Right: with this cause. Robots without any such link are counted as left out.
"""

import collections
import json
from pathlib import Path

import numpy as np
from harness import HERE, Row, arguments, finish, versions

from dynamics_node.identification.doctor.diagnosis import diagnose, negligible
from dynamics_node.identification.doctor.evidence import second_moments
from dynamics_node.identification.doctor.faults import FAULTS, SWAPPED
from dynamics_node.identification.doctor.report import facts
from dynamics_node.identification.doctor.solids import link_geometry, read_triangles
from dynamics_node.robot import ModelError
from dynamics_node.robot.urdf import parse_urdf
from dynamics_node.robot.urdf_shapes import parse_shapes
from dynamics_node.robot.validate import validate

EFFECT = 1.0
FOUND, RIGHT = 0.95, 0.80


def main():
    parser = arguments("doctor")
    parser.add_argument("--seed", type=int, default=0, help="which links (0)")
    options = parser.parse_args()
    robots = dict(read_robots())
    results, alarms, counts = [], [], collections.Counter()
    for name, links in robots.items():
        untouched = diagnose(links)
        alarms += [(name, finding) for finding in untouched]
        counts["links"] += len(links)
        counts["healthy robots"] += not untouched
        for number, fault in enumerate(FAULTS.values()):
            random = np.random.default_rng([options.seed, number])
            results.append((name, fault.name, trial(links, fault, untouched, random)))
    rows = [*_rows(results), Row("untouched: robots", len(robots), "", "higher"),
            Row("untouched: robots without a finding", counts["healthy robots"], "", "higher"),
            Row("untouched: links", counts["links"], "", "higher"), *_alarm_rows(alarms)]  # fmt: skip
    finish(
        "doctor", rows, versions("numpy", "scipy", "trimesh", "pycollada", "example-robot-data"), options.save
    )
    _list_alarms(alarms, options.save)


def read_robots():
    """(name, LinkFacts of the links) of every description that describes a robot."""
    import pinocchio

    folders = (path / "share/example-robot-data/robots" for path in Path(pinocchio.__file__).parents)
    folder = next((path for path in folders if path.is_dir()), None)
    if folder is None:
        raise SystemExit("the benchmark needs example-robot-data: pip install example-robot-data")
    for path in sorted(folder.rglob("*.urdf")):
        text, left_out = path.read_bytes(), []
        try:
            description = parse_urdf(text)
            validate(description)
        except ModelError as error:
            print(f"{path.name}: no robot: {error}")
            continue
        shapes = parse_shapes(text)[0]
        solids = {name: link_geometry(parts, path.parent, left_out).solid for name, parts in shapes.items()}
        read_triangles.cache_clear()
        for line in dict.fromkeys(left_out):
            print(f"{path.name}: {line}")
        yield str(path.relative_to(folder)), facts(description, solids)


def trial(links, fault, untouched, random):
    """'right', 'found' with the wrong cause, 'missed', or None where the fault cannot be planted."""
    before = {finding.link: finding.cause for finding in untouched}
    planted = _planted(links, fault, before, random)
    if planted is None:
        return None
    sick, where = planted
    after = {finding.link: finding.cause for finding in diagnose(sick)}
    new = [after[name] for name in where if name in after and after[name] != before.get(name)]
    return "missed" if not new else "right" if fault.name in new else f"found as {new[0]}"


def _planted(links, fault, before, random):
    """(links with the fault, names of those that have it), or None."""
    light = negligible(links)
    able = [k for k, link in enumerate(links) if link.name not in light and _is_able(link)]
    places = [k for k in able if links[k].name not in before] or able
    random.shuffle(places)
    for k in places:
        others = [j for j in places if j != k] if fault.name == SWAPPED else [k]
        for j in others:
            mine = links[j].inertial if j != k else fault.plant(links[k].inertial, random)
            theirs = links[k].inertial if j != k else mine
            if _effect(links[k], mine) < EFFECT or (j != k and _effect(links[j], theirs) < EFFECT):
                continue
            sick = list(links)
            sick[k] = links[k]._replace(inertial=mine)
            sick[j] = links[j]._replace(inertial=theirs)
            return sick, {links[k].name, links[j].name}
    return None


def _is_able(link):
    return link.moves and link.solid is not None and link.inertial.mass > 0 and link.inertial.inertia.any()


def _effect(link, inertial):
    """What a change makes of a link, in its solid's standard deviations; a mass of e times counts as one."""
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
            Row("found", _share(planted, found=True), "", "higher", target=FOUND),
            Row("cause right", _share(planted), "", "higher", target=RIGHT)]  # fmt: skip
    for name in FAULTS:
        own = [result for _, fault, result in results if fault == name]
        planted = [result for result in own if result]
        others = collections.Counter(result for result in planted if result not in ("right", "missed"))
        reason = f"of {len(planted)}, left out {len(own) - len(planted)} " + ", ".join(
            f"{what} {count}" for what, count in others.most_common()
        )
        rows.append(Row(f"{name}: found", _share(planted, found=True), "", "higher"))
        rows.append(Row(f"{name}: cause right", _share(planted), "", "higher", reason=reason))
    for robot, fault, result in results:
        if result == "missed":
            print(f"missed: {fault} in {robot}")
    return rows


def _share(results, found=False):
    if not results:
        return None
    return sum(result != "missed" if found else result == "right" for result in results) / len(results)


def _alarm_rows(alarms):
    causes = collections.Counter(finding.cause for _, finding in alarms)
    return [Row(f"untouched: {cause}", count, "links", "lower") for cause, count in causes.most_common()]


def _list_alarms(alarms, save):
    """Every finding about an untouched robot, by robot, with what is told of it."""
    listed = {}
    for robot, finding in alarms:
        listed.setdefault(robot, {}).setdefault(f"{finding.cause}: {finding.told}", []).append(finding.link)
    folder = HERE / "results" if save else HERE
    path = folder / "doctor_untouched.json"
    path.write_text(json.dumps(listed, indent=1) + "\n")
    print(f"written: {path.relative_to(HERE.parent)}, every finding about an untouched robot")


if __name__ == "__main__":
    main()
