"""The figures of docs/explanation/papers.md, drawn anew: python docs/paper_figures.py

Those of Xie and Dellaert are drawn by the library itself, figure 1 of Nori by matplotlib.
"""

import json
import sys
from pathlib import Path

import numpy as np

import dynamics_node as dn
from dynamics_node.algorithms import dynamics_programs
from dynamics_node.graph import (
    complete_sketch,
    custom_ordering,
    eliminate,
    eliminate_some,
    generic_graph,
    graph_matrix,
    plan_elimination,
    plan_ordering,
    to_svg,
)

sys.path.append(str(Path(__file__).resolve().parents[1] / "test" / "support"))

from parallel_robots import chain

HERE = Path(__file__).parent
TABLE_3 = {  # paper 1, Table III: tau_1, qdd_2 and qdd_3 are asked
    "MD": "tau1 qdd2 qdd3 A3 F1 A1 F2 A2 F3",
    "CUSTOM": "tau1 qdd2 qdd3 F1 A1 A3 F3 A2 F2",
}
LENGTHS = (1, 2, 3, 4, 5, 7, 10, 15, 20, 30, 40, 50, 60, 70, 80, 90, 100)


def puma():
    return dn.load_robot(HERE.parent / "benchmarks" / "puma560.urdf")


def joined_edges(graph, ordering):
    """Edges of the Bayes net when all factors of a variable are joined, as the article draws it: its pivots
    use all their rows, so a row that could stay as it is is mixed with the others."""
    factors, edges = [set(factor.blocks) for factor in graph.factors], 0
    for x in ordering:
        touched = [factor for factor in factors if x in factor]
        rest = set().union(*touched) - {x}
        edges += len(rest)
        factors = [factor for factor in factors if x not in factor] + [rest]
    return edges


def nets():
    """{figure: (graph, ordering, net)} of the three-link arm."""
    model = chain(3)
    problems = {
        "inverse": dn.inverse_dynamics(model),
        "forward": dn.forward_dynamics(model),
        "hybrid": dn.hybrid_dynamics(model, model.joint_names[1:]),
    }
    graphs = {}
    for figure, kind, name in (
        ("5d", "inverse", "rnea"),
        ("7a", "forward", "crba"),
        ("7b", "forward", "aba"),
    ):
        ordering, plan = plan_ordering(model, problems[kind], name)
        graph = generic_graph(model, problems[kind])
        graphs[figure] = (graph, ordering, eliminate(graph, plan))
    graph = generic_graph(model, problems["hybrid"])
    for figure, name in (("10a", "MD"), ("10b", "CUSTOM")):
        ordering = custom_ordering(TABLE_3[name].split(), graph)
        graphs[figure] = (graph, ordering, eliminate(graph, plan_elimination(graph, ordering.variables)))
    return graphs


def drawings():
    """{name: SVG} of figures 1, 3 to 10 and 12 of Xie and Dellaert."""
    model = chain(3)
    hybrid = dn.hybrid_dynamics(model, model.joint_names[1:])
    drawings = {
        "paper1_1": complete_sketch(puma(), title="PUMA 560").svg(),
        "paper1_3": complete_sketch(model, dn.inverse_dynamics(model), "3R, inverse dynamics").svg(),
        "paper1_8": complete_sketch(model, hybrid, "3R, hybrid dynamics").svg(),
    }
    for figure, kind in ((4, dn.inverse_dynamics(model)), (6, dn.forward_dynamics(model)), (9, hybrid)):
        graph = generic_graph(model, kind)
        drawings[f"paper1_{figure}a"] = to_svg(graph, f"{kind.kind} dynamics")
        drawings[f"paper1_{figure}b"] = graph_matrix(graph)
    graph = generic_graph(model, dn.inverse_dynamics(model))
    _, plan = plan_ordering(model, dn.inverse_dynamics(model), "rnea")
    steps = (("a", 3, "torques"), ("b", 4, "torques and F1"), ("c", 6, "torques and wrenches"))
    for letter, count, what in steps:
        drawings[f"paper1_5{letter}"] = to_svg(eliminate_some(graph, plan, count), f"{what} eliminated")
    mechanism = dn.example_robot("five_bar")
    forward = dn.forward_dynamics(mechanism)
    drawings["paper1_12"] = complete_sketch(mechanism, forward, "five-bar, forward dynamics").svg()
    graph = generic_graph(mechanism, forward)
    net = eliminate(graph, plan_ordering(mechanism, forward, "aba")[1])
    drawings["paper1_12a"] = graph_matrix(graph)
    drawings["paper1_12b"] = to_svg(net, f"five-bar, ordering aba: {len(net.edges)} edges")
    for figure, (_, ordering, net) in nets().items():
        drawings[f"paper1_{figure}"] = to_svg(net, f"ordering {ordering.name}: {len(net.edges)} edges")
    return drawings


def operations(n):
    """Of inverse and forward dynamics of a chain: additions, multiplications and divisions."""
    model, counts = chain(n), []
    for problem in (dn.inverse_dynamics(model), dn.forward_dynamics(model)):
        op_counts = [program.op_count() for program in dynamics_programs(model, problem).values()]
        counts.append(min(c["add"] + c["mul"] + c["div"] for c in op_counts))
    return counts


def draw_operations(path):
    """Figure 1 of Nori: operations over the number of links."""
    import matplotlib as mpl
    import matplotlib.pyplot as plt

    mpl.rcParams["svg.hashsalt"] = "dynamics_node"
    n = np.array(LENGTHS)
    inverse, forward = np.array([operations(int(k)) for k in n]).T
    figure, axes = plt.subplots(figsize=(8, 4.5))
    axes.plot(
        n, 250 * n - 222 + 220 * n - 198, ":", color="#888", label="ABA as Brandl counts it, 470n - 420"
    )
    axes.plot(n, 429 * n - 507, "--", color="#d9534f", label="ABA of the textbook, 429n - 507")
    axes.plot(n, forward, "o-", ms=3, color="#d9534f", label="ours, forward dynamics")
    axes.plot(n, 174 * n - 134, "--", color="#4a7fb5", label="RNEA of the textbook, 174n - 134")
    axes.plot(n, inverse, "o-", ms=3, color="#4a7fb5", label="ours, inverse dynamics")
    axes.set(xlabel="links of a serial chain", ylabel="scalar operations", xlim=(0, 100), ylim=(0, None))
    axes.grid(alpha=0.3)
    axes.legend(frameon=False)
    figure.tight_layout()
    figure.savefig(path, metadata={"Date": None})


def draw_permuted(path, rows):
    """What the permuted LU of Nori takes, as `./dev bench sensor_problems --save` has counted it:
    figure 1 again, and torques from load cells at both ends of a chain, his figure 2."""
    import matplotlib as mpl
    import matplotlib.pyplot as plt

    mpl.rcParams["svg.hashsalt"] = "dynamics_node"
    figure, both = plt.subplots(1, 2, figsize=(10, 4))
    n = np.arange(2, 101)
    red, blue = "#d9534f", "#4a7fb5"
    both[0].plot(n, 429 * n - 507, "--", color=red, label="ABA of the textbook")
    both[0].plot(n, 174 * n - 134, "--", color=blue, label="RNEA of the textbook")
    lines = (
        (0, "forward, permuted LU", "o-", red, "forward dynamics, permuted LU"),
        (0, "forward", "o:", red, "forward dynamics, recursion"),
        (0, "inverse, permuted LU", "o-", blue, "inverse dynamics, permuted LU"),
        (0, "inverse", "o:", blue, "inverse dynamics, recursion"),
        (1, "load cells at both ends, permuted LU", "o-", "#5a9e5a", "load cells at both ends"),
        (1, "inverse, permuted LU", "o-", blue, "inverse dynamics"),
    )
    for at, name, style, color, label in lines:
        curves = {
            int(row["name"].split()[2].strip(",")): row["value"]
            for row in rows
            if row["name"].startswith("chain of ") and row["name"].split(", ", 1)[1] == name
        }
        both[at].plot(list(curves), list(curves.values()), style, ms=3, color=color, label=label)
    for axes in both:
        axes.set(xlabel="links of a serial chain", xlim=(0, 100), ylim=(0, None))
        axes.grid(alpha=0.3)
        axes.legend(frameon=False, fontsize=8)
    both[0].set_ylabel("scalar operations")
    figure.tight_layout()
    figure.savefig(path, metadata={"Date": None})


def draw_growth(path, rows, algorithms, title):
    """Figures 11 and 13 of Chignoli et al., from the figures that `./dev bench clusters --save` has left."""
    import matplotlib as mpl
    import matplotlib.pyplot as plt

    mpl.rcParams["svg.hashsalt"] = "dynamics_node"
    colors = ("#4a7fb5", "#d9534f", "#8a8a8a", "#d9a441")
    figure, both = plt.subplots(1, 2, figsize=(9, 3.8), sharey=True)
    for axes, kind in zip(both, ("GT", "PBT"), strict=True):
        for name, color in zip(algorithms, colors, strict=False):
            curves = {int(row["name"].split()[2].strip(",")): _time(row, name) for row in rows
                     if row["name"].startswith(f"{kind} of ") and _time(row, name) is not None}  # fmt: skip
            axes.plot(list(curves), list(curves.values()), "o-", ms=3, color=color, label=name)
        axes.set(xlabel="joints", title={"GT": "geared chain", "PBT": "chain with parallel belts"}[kind])
        axes.grid(alpha=0.3)
    both[0].set_ylabel("microseconds a state")
    both[0].legend(frameon=False)
    figure.suptitle(title)
    figure.tight_layout()
    figure.savefig(path, metadata={"Date": None})


def _time(row, name):
    """What a row says of an algorithm, its own or its peer's; None when nothing."""
    if row["unit"] != "us" or ", call" in row["name"]:
        return None
    return {row["name"].rsplit(", ", 1)[1]: row["value"], row["peer"]: row["peer_value"]}.get(name)


def main():
    folder = HERE / "figures"
    folder.mkdir(exist_ok=True)
    for name, svg in drawings().items():
        (folder / f"{name}.svg").write_text(svg, encoding="utf-8")
    draw_operations(folder / "paper4_1.svg")
    results = HERE.parent / "benchmarks" / "results"
    draw_permuted(folder / "paper4_2.svg", json.loads((results / "sensor_problems.json").read_text())["rows"])
    rows = json.loads((results / "clusters.json").read_text())["rows"]
    forward = ("C-ABA", "projection", "Lagrange", "approximate ABA")
    draw_growth(folder / "paper3_11.svg", rows, forward, "forward dynamics")
    tips = ("C-EFPA", "projected OSIM", "approximate EFPA")
    draw_growth(folder / "paper3_13.svg", rows, tips, "inverse operational-space inertia of the tip")
    for figure, (graph, ordering, net) in nets().items():
        joined = joined_edges(graph, ordering.variables)
        print(f"figure {figure}, {ordering.name}: {len(net.edges)} edges, all factors joined {joined}")


if __name__ == "__main__":
    main()
