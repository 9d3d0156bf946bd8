"""What every stage of an identification comes to, in sentences: for the terminal and the page."""

from typing import NamedTuple

import numpy as np

from dynamics_node.identification.worse import worse_joints


class Verdict(NamedTuple):
    """stage: check, solve, bodies or judge; good: nothing has to be done about it."""

    stage: str
    told: str
    good: bool = True


def verdicts(found):
    """Of an Identified."""
    base = found.base
    yield from (Verdict("check", told, False) for told in found.complaints)
    yield Verdict(
        "check",
        f"{found.rows} states, {base.count} base parameters of {len(base.names)}, condition "
        f"{found.excitation.condition:.3g}; {len(base.unknowable)} parameters cannot be known so at all",
    )
    yield from (Verdict("check", f"not excited: {told}", False) for told in found.excitation.weak)
    yield Verdict("solve", _solved(found))
    yield Verdict("bodies", _bodies(found))
    for name, told in worse_joints(found).items():
        yield Verdict("judge", f"NOT better at {name}: {told}", False)
    yield Verdict("judge", f"{'' if found.better else 'NOT '}better than the description", found.better)


def _solved(found):
    known = found.solution.std < 0.1 * np.abs(found.solution.x)
    count = f"{int(known.sum())} of {found.base.count}"
    below = f" of what is below {found.cutoff:g} Hz" if found.cutoff else ""
    return f"{found.method} least squares{below}: {count} base parameters are known to a tenth"


def _bodies(found):
    own = found.linear.counts
    more = float((found.fitted[own] / np.maximum(found.best[own], 1e-300)).max(initial=1.0))
    return (
        "masses are positive and inertias those of bodies; what remains of the torques is at most "
        f"{more:.3g} times what the best base parameters leave{_mass(found)}"
    )


def _mass(found):
    """What is said of the mass of all bodies."""
    linear, base = found.linear, found.base
    if "inertia" not in linear.terms:
        return ""
    masses = np.array([name.endswith(".m") for name in linear.names], dtype=float)
    share = np.linalg.lstsq(base.combinations.T, masses, rcond=None)[0]
    told = np.allclose(share @ base.combinations, masses, atol=1e-6)
    before, after = masses @ linear.described, masses @ found.parameters
    weighs = f"; the bodies weigh {after:.3g} kg, described {before:.3g} kg"
    if not told:
        return f"{weighs}, which torques do not tell: only combinations with other parameters"
    return (
        f"{weighs}, with a standard deviation of {np.sqrt(share @ found.solution.covariance @ share):.2g} kg"
    )
