"""Find implausible inertias of a robot's links and their probable causes.

Every candidate error is reversed in turn; its gain is the decrease of the link's oddness. The cause with the
largest gain is reported if the gain exceeds the prior improbability of the error. Links that remain odd are
reported without a cause. The oddest link comes first, and its corrected inertia is used in later comparisons
between links.
"""

from typing import NamedTuple

import numpy as np

from dynamics_node.identification.doctor.evidence import (
    MassProperties,
    describe_anomalies,
    find_sisters,
    is_impossible,
    is_inconsistent,
    oddness,
    second_moments,
    sister_distance,
    stacked,
    usual_scales,
)
from dynamics_node.identification.doctor.faults import DEFAULT, FAULTS, MASSLESS, SWAPPED
from dynamics_node.identification.doctor.solids import Solid

UNEXPLAINED = 9.0  # oddness: above it, a link is reported even without a cause
SWAPS = 8  # candidates for an exchange of inertias, best first
MESH_SURPRISE = 5.0
INCONSISTENT_ADVICE = "export it again from CAD; --repair writes the nearest consistent inertia"
MESH_SYMPTOM = (
    "its geometry is a thousand times too large, as if the mesh were in mm",
    'give <mesh> scale="0.001 0.001 0.001"',
)
LIGHT = 1e-3  # fraction of the robot's mass, and of the median moment of inertia of its links
USUAL_DENSITY = (200.0, 3500.0)  # kg/m^3, median over the convex hulls of a robot; published: 410 to 2800
# Median of the mean squared distance from the center, relative to the hull; 0.4 to 3.1
USUAL_SIZE = (0.2, 3.5)
FEWEST = 3  # links for these medians
MESH, UNKNOWN, NOTHING, IMPOSSIBLE = "mesh in mm", "unknown", "no inertia", "impossible"


class LinkFacts(NamedTuple):
    """A link: its name, MassProperties, Solid (None: no geometry), and whether a joint moves it."""

    name: str
    inertial: MassProperties
    solid: Solid | None
    moves: bool


class Finding(NamedTuple):
    """link; cause: a name of FAULTS, MESH, UNKNOWN, NOTHING or IMPOSSIBLE; symptom: the problem; advice: the
    remedy; odd: current oddness; right: oddness after correction; put_right: the corrected MassProperties."""

    link: str
    cause: str
    symptom: str
    advice: str
    odd: float = np.nan
    right: float = np.nan
    put_right: MassProperties | None = None


def diagnose(links) -> list[Finding]:
    """Findings of a sequence of LinkFacts, most certain first."""
    ignored = negligible(links)
    plain = [finding for link in links if link.name not in ignored and (finding := _by_numbers(link))]
    done = {finding.link for finding in plain} | ignored
    judged = [link for link in links if link.name not in done and link.solid and link.inertial.mass > 0]
    return plain + _by_geometry(judged)


def common_errors(links, findings) -> list[str]:
    """Sentences about errors that most links share: each link is within the wide range of good links, their
    median is not within the range of good robots. links, findings: of `diagnose`."""
    ignored = negligible(links) | {finding.link for finding in findings}
    judged = [link for link in links if link.name not in ignored and link.solid and link.inertial.mass > 0]
    if len(judged) < FEWEST:
        return []
    sentences = []
    density = float(np.median([link.inertial.mass / link.solid.volume for link in judged]))
    if word := _outside(density, USUAL_DENSITY, "light", "heavy"):
        sentences.append(
            f"most links are too {word}: the median density of their convex hulls is {density:.3g} kg/m^3, "
            f"that of robots is {_range(USUAL_DENSITY)}; check the unit and the material of all masses"
        )
    sizes = [np.trace(second_moments(link.inertial)) / np.trace(link.solid.second) for link in judged]
    size = float(np.median(sizes))
    if word := _outside(size, USUAL_SIZE, "small", "large"):
        sentences.append(
            f"the inertias of most links are too {word} for their masses: the median is {size:.2g} times the "
            f"inertia of their convex hulls, that of robots is {_range(USUAL_SIZE)}; check the unit and the "
            "material of all inertias"
        )
    return sentences


def _range(interval):
    return "{:g} to {:g}".format(*interval)


def _outside(value, interval, below, above):
    """`below` or `above`, or '' within the interval."""
    low, high = interval
    return below if value < low else above if value > high else ""


def negligible(links) -> set:
    """Names of links whose mass and inertia are negligible for the robot. Massless links are not among
    them."""
    masses = np.array([link.inertial.mass for link in links])
    moments = np.array([np.trace(link.inertial.inertia) for link in links])
    heavy = masses >= LIGHT * masses.sum()
    if not heavy.any():
        return set()
    usual = np.median(moments[heavy])
    light = ~heavy & (masses > 0) & (moments < LIGHT * usual)
    return {link.name for link, is_light in zip(links, light, strict=True) if is_light}


def _by_numbers(link):
    """Finding that needs no geometry, or None."""
    mass, _, inertia = link.inertial
    if mass == 0 and not inertia.any():
        if link.moves and link.solid:
            return _finding(link, FAULTS[MASSLESS])
        return None
    if mass == 0 or not inertia.any():
        what = "a mass and no inertia" if mass else "an inertia and no mass"
        return Finding(link.name, NOTHING, f"it has {what}", FAULTS[MASSLESS].advice)
    if _is_default(link.inertial):
        return _finding(link, FAULTS[DEFAULT])
    if link.solid is None and is_inconsistent(link.inertial):
        return Finding(link.name, IMPOSSIBLE, "its inertia is physically inconsistent", INCONSISTENT_ADVICE)
    return None


def _is_default(inertial):
    moments = np.diag(inertial.inertia)
    same = (inertial.inertia == moments[0] * np.eye(3)).all() and moments[0] > 0
    return bool(same and _is_power_of_ten(moments[0]))


def _is_power_of_ten(x):
    power = np.log10(x)
    return abs(power - round(power)) < 1e-9


def _finding(link, fault, odd=np.nan, right=np.nan, put_right=None):
    return Finding(link.name, fault.name, fault.symptom, fault.advice, odd, right, put_right)


def _by_geometry(links):
    """Findings about links with mass and solid, largest gain first; corrected links are used when their
    sisters are compared."""
    cases = Cases(links)
    findings = []
    waiting = {k: cases.best(k) for k in range(len(links))}
    while waiting:
        k = max(waiting, key=lambda k: waiting[k].gain)
        best = waiting.pop(k)
        if best.finding is None:
            continue
        findings.append(best.finding)
        for index, right in best.put_right.items():
            cases.now[index] = right
            if index != k:
                other = waiting.pop(index, None)
                if other is not None:
                    findings.append(cases.swapped(index, k, best.finding))
        for index in list(waiting):
            if any(sister.place in best.put_right for sister in cases.sisters[index]):
                waiting[index] = cases.best(index)
    return findings


class Best(NamedTuple):
    """The best explanation of a link: its Finding (None: healthy), its gain, and the corrected Inertials
    {link index: MassProperties}."""

    finding: Finding | None
    gain: float
    put_right: dict


class Cases:
    """All links with their current, partly corrected Inertials."""

    def __init__(self, links):
        self.links = links
        self.given = [link.inertial for link in links]
        self.now = list(self.given)
        self.sisters = find_sisters([link.solid for link in links])
        solids = [np.array(part) for part in zip(*(link.solid for link in links), strict=True)]
        self.scales = usual_scales(stacked(self.given), Solid(*solids)) if links else None

    def odd(self, k, inertials):
        """Oddness (n,) of n stacked Inertials as link k."""
        solid = self.links[k].solid
        alone = oddness(inertials, solid, self.scales)[0]
        return alone + sister_distance(inertials, solid, self.sisters[k], self.now)

    def best(self, k):
        """The Best explanation of link k."""
        link = self.links[k]
        candidates = [(f, undone) for f in FAULTS.values() if f.undo for undone in f.undo(link.inertial)]
        costs = self.odd(k, stacked([link.inertial, *(undone for _, undone in candidates)]))
        odd, corrected = costs[0], costs[1:]
        j = int((corrected + [fault.surprise for fault, _ in candidates]).argmin())
        fault, undone = candidates[j]
        gain = odd - corrected[j] - fault.surprise
        best = Best(None, -np.inf, {})
        shrunk = self._shrunk(k)
        if shrunk + MESH_SURPRISE < min(odd, corrected[j] + fault.surprise):
            finding = Finding(link.name, MESH, *MESH_SYMPTOM, odd, shrunk)
            best = Best(finding, odd - shrunk - MESH_SURPRISE, {})
        elif gain > 0 and corrected[j] < UNEXPLAINED:
            best = Best(_finding(link, fault, odd, corrected[j], undone), gain, {k: undone})
        elif odd > UNEXPLAINED or is_impossible(link.inertial, link.solid):
            best = Best(_unexplained(link, odd), max(odd - UNEXPLAINED, 0.0), {})
        return max(best, self._swap(k, odd), key=lambda explanation: explanation.gain)

    def _shrunk(self, k):
        """Oddness of link k if its geometry were a thousand times smaller."""
        solid = self.links[k].solid
        return oddness(self.given[k], solid.scaled(1e-3), self.scales)[0]

    def _swap(self, k, odd):
        """The best explanation of link k by an exchange with another link."""
        none = Best(None, -np.inf, {})
        surprise = FAULTS[SWAPPED].surprise
        if odd < surprise or len(self.links) < 2:
            return none
        swapped_oddness = self.odd(k, stacked(self.given))
        best = none
        for j in np.argsort(swapped_oddness)[:SWAPS]:
            if j == k or self.given[j] is not self.now[j]:
                continue
            pair = stacked([self.given[j], self.given[k]])
            before, after = self.odd(j, pair)
            gain = (odd + before - swapped_oddness[j] - after) - 2 * surprise
            if gain > max(best.gain, 0) and odd - swapped_oddness[j] > 0 and before - after > 0:
                finding = _swap_finding(self.links[k], self.links[j], odd, swapped_oddness[j], self.given[j])
                best = Best(finding, gain, {k: self.given[j], int(j): self.given[k]})
        return best

    def swapped(self, j, k, finding):
        """The Finding of link j, the counterpart of an exchange with link k."""
        return _swap_finding(self.links[j], self.links[k], np.nan, np.nan, self.given[k])


def _unexplained(link, odd):
    anomalies = "; ".join(describe_anomalies(link.inertial, link.solid))
    if is_inconsistent(link.inertial):
        return Finding(link.name, IMPOSSIBLE, anomalies, INCONSISTENT_ADVICE, odd)
    symptom = f"its inertia does not fit its geometry{anomalies and ': '}{anomalies}"
    return Finding(link.name, UNKNOWN, symptom, "weigh it, or export it again from CAD", odd)


def _swap_finding(link, other, odd, right, put_right):
    symptom = f"it has the inertia of link {other.name!r}, and vice versa"
    return Finding(link.name, SWAPPED, symptom, FAULTS[SWAPPED].advice, odd, right, put_right)
