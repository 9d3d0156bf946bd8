"""From recordings to parameters, stage by stage, each with a verdict."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field

import numpy as np

from dynamics_node.identification.base_parameters import BaseParameters, base_parameters
from dynamics_node.identification.consistent import DOUBT, consistent_parameters
from dynamics_node.identification.excitation import Excitation, excitation
from dynamics_node.identification.linear import USUAL, LinearModel
from dynamics_node.identification.looks import Look
from dynamics_node.identification.robots import identified_robot, identified_text
from dynamics_node.identification.sample import together
from dynamics_node.identification.solve import Solution, cross_validated, ordinary, residuals, weighted
from dynamics_node.identification.sums import Sums
from dynamics_node.identification.torques import about_torques

ROBUST = 3  # times that weights follow from residuals
METHODS = ("ordinary", "weighted", "robust")
Chunks = Callable[[], Iterator[dict[str, np.ndarray]]]  # {kind: (k, ...)} with q, qd, qdd, tau and maybe time


class IdentificationError(ValueError):
    """Data that tell too little, in sentences."""


@dataclass(frozen=True, eq=False)
class Identified:
    """parameters (p,): those that bodies can have; solution: of the base parameters, without that condition.

    described, fitted, held (nv,): root mean squares of measured less computed torques, N m or N: of the
    description (without friction, unless it tells some), of the parameters, and of base parameters at data
    they have not seen. complaints: what is odd about the data.
    """

    linear: LinearModel
    base: BaseParameters
    excitation: Excitation
    solution: Solution
    parameters: np.ndarray
    described: np.ndarray
    fitted: np.ndarray
    held: np.ndarray
    rows: int
    complaints: tuple[str, ...] = field(default=())

    @property
    def robot(self):
        """The Model or Mechanism with these parameters."""
        return identified_robot(self.linear, self.parameters)

    def text(self, description: str) -> str:
        """The URDF with other numbers: see `identified_text`."""
        return identified_text(description, self.linear, self.parameters)

    @property
    def better(self):
        """Whether torques are nearer to the measured ones than the description's, taken together."""
        size = np.maximum(self.described, 1e-300)
        return bool(np.mean((np.maximum(self.held, self.fitted) / size) ** 2) < 1.0)


def identify(
    robot,
    recordings: Iterable[Chunks],
    terms=USUAL,
    method="weighted",
    doubt=DOUBT,
    force=False,
    advance=None,
    backend="auto",
) -> Identified:
    """Parameters of a robot, with loops or without, from recordings, each read twice, or five times if
    robust.

    terms: of `LinearModel`; method: of METHODS; doubt: of `consistent_parameters`; force: go on although a
    motion does not tell everything: what it leaves open stays near the description. advance(rows): called
    on the way. backend: of `LinearModel`. Raises IdentificationError for data that tell too little, all
    reasons together.
    """
    if method not in METHODS:
        raise ValueError(f"unknown method {method!r}; there are {', '.join(METHODS)}")
    recordings, linear = list(recordings), LinearModel(robot, tuple(terms), backend)
    base = base_parameters(linear)
    complaints, sample, rows = _looked_at(linear, base, recordings)
    sums, start = Sums(linear, base, rows), base.values(linear.described)
    _add(sums, recordings, None, advance)
    S, count = sums.S.sum(axis=0), sums.count.sum(axis=0)
    complaints += about_torques(linear, base, S, count, sample) if sample else []
    solution = ordinary(sums, start) if method == "ordinary" else weighted(sums, start)
    for _ in range(ROBUST if method == "robust" else 0):
        again = Sums(linear, base, rows)
        _add(again, recordings, (solution.x, solution.spread), advance)
        solution = weighted(again, start)
    found = excitation(base, solution.information)
    _require_enough(found, count, complaints, force)
    parameters = consistent_parameters(linear, base, solution, doubt)
    return Identified(
        linear=linear,
        base=base,
        excitation=found,
        solution=solution,
        parameters=parameters,
        described=residuals(S, count, start),
        fitted=residuals(S, count, base.values(parameters)),
        held=cross_validated(sums, start),
        rows=int(sums.rows - sums.skipped),
        complaints=tuple(complaints),
    )


def _looked_at(linear, base, recordings):
    """Complaints, a sample of rows of all recordings, and the number of their rows."""
    complaints: list[str] = []
    looks = []
    for number, chunks in enumerate(recordings, 1):
        looks.append(look := Look(linear, base))
        for chunk in chunks():
            look.add(chunk)
        which = f"recording {number}: " if len(recordings) > 1 else ""
        complaints += [which + told for told in look.complaints()]
    return complaints, together([look.sample for look in looks]), sum(look.rows for look in looks)


def _add(sums, recordings, fit, advance):
    for chunks in recordings:
        for chunk in chunks():
            sums.add(chunk["q"], chunk["qd"], chunk["qdd"], chunk["tau"], fit)
            if advance:
                advance(len(chunk["qd"]))


def _require_enough(found, count, complaints, force):
    if not count.any():
        raise IdentificationError("; ".join(["no row can be used", *complaints]))
    if force or not (weak := found.lost):
        return
    more = f"; {len(weak) - 6} more" if len(weak) > 6 else ""
    reason = f"the motion does not tell {len(weak)} of {len(found.singular)} combinations of parameters: "
    remedy = "Move more joints, further and faster; or force it"
    raise IdentificationError(". ".join([reason + "; ".join(weak[:6]) + more, *complaints, remedy]))
