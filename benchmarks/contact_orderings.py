"""Operations of forward dynamics with contacts, by the recursions and by elimination in every ordering: the
table of docs/explanation/factor-graph.md."""

import runpy
import sys
from itertools import product

import harness

import dynamics_node as dn
from dynamics_node.algorithms import cost, dynamics_programs
from dynamics_node.errors import SingularPivotError
from dynamics_node.graph import ORDERINGS, best_ordering, elimination_program

SUPPORT = harness.HERE.parent / "test" / "support"
sys.path.append(str(SUPPORT))
robot_of = runpy.run_path(str(SUPPORT / "robots.py"))["robot_of"]
FEET = [dn.Contact(f"{leg}_FOOT") for leg in ("FL", "FR", "HL", "HR")]
SOLES = [f"{side}_sole_link" for side in ("left", "right")]
CORNERS = [(x, y, 0.0) for x, y in product((-0.1, 0.1), (-0.06, 0.06))]
CASES = {
    **{f"Solo12, {n} feet": ("solo12", FEET[:n]) for n in (1, 2, 3, 4)},
    **{f"Talos, {n} soles": ("talos", [dn.Contact(s, "surface") for s in SOLES[:n]]) for n in (1, 2)},
    **{
        f"Talos, four points on {n} soles": (
            "talos",
            [dn.Contact(s, name=f"{s} {k}", xyz=xyz) for s in SOLES[:n] for k, xyz in enumerate(CORNERS)],
        )
        for n in (1, 2)
    },
    "Panda, one point": ("panda7", [dn.Contact("panda_link7", xyz=(0.05, 0, 0.1))]),
    "quadruped with gears, 4 feet": (
        "quadruped",
        [dn.Contact(f"{leg}_shank", xyz=(0, 0, -0.2)) for leg in ("fl", "fr", "hl", "hr")],
    ),
    "Tello, 2 feet": (
        "tello_humanoid",
        [dn.Contact(f"{s}-foot", xyz=(0, 0, -0.05)) for s in ("left", "right")],
    ),
}


def rows():
    for title, (name, contacts) in CASES.items():
        robot = robot_of(name)
        plain = min(dynamics_programs(robot, dn.forward_dynamics(robot)).values(), key=cost)
        problem = dn.forward_dynamics(robot, contacts)
        yield _row(f"{title}: no contacts", plain)
        for method, program in dynamics_programs(robot, problem).items():
            yield _row(f"{title}: {method}", program)
        for ordering in (*ORDERINGS, "search"):
            try:
                yield _row(f"{title}: {ordering}", _eliminated(robot, problem, ordering))
            except SingularPivotError as error:
                yield harness.Row(f"{title}: {ordering}", None, "", "lower", reason=str(error))


def _eliminated(robot, problem, ordering):
    return (
        best_ordering(robot, problem).program
        if ordering == "search"
        else elimination_program(robot, problem, ordering)
    )


def _row(title, program):
    return harness.Row(title, len(program.ops), "operations", "lower", reason=f"cost {cost(program)}")


def main():
    options = harness.arguments("contact_orderings").parse_args()
    harness.finish("contact_orderings", list(rows()), harness.versions("numpy"), options.save)


if __name__ == "__main__":
    main()
