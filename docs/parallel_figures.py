"""Figures 2 and 3 of paper 5, from what `./dev bench parallel` has saved; run as it is"""

import json
from pathlib import Path

HERE = Path(__file__).parent
COLOURS = {
    "abia": "#4a7fb5",
    "jsiia": "#5a9e5a",
    "cfa": "#d9534f",
    "recursion in C": "#888888",
}
LABELS = {
    "abia": "ABIA",
    "jsiia": "JSIIA",
    "cfa": "CFA",
}


def points(rows):
    """{way: [(links, states, ms)]}"""
    series = {}
    for row in rows:
        parts = row["name"].split(", ")
        value = row["peer_value"] if row["value"] is None else row["value"]
        if value is not None and len(parts) == 3 and parts[0] in COLOURS:
            numbers = int(parts[1].split()[0]), int(parts[2].split()[0]), value
            series.setdefault(parts[0], []).append(numbers)
    return series


def draw(path, rows):
    """Time over links of one state; over states of 10 and of 200 links."""
    import matplotlib as mpl
    import matplotlib.pyplot as plt

    mpl.rcParams["svg.hashsalt"] = "dynamics_node"
    figure, parts = plt.subplots(1, 3, figsize=(12, 4))
    for way, series in points(rows).items():
        lines = (
            [(links, ms) for links, count, ms in series if count == 1 and links & (links - 1) == 0],
            [(count, ms) for links, count, ms in series if links == 10],
            [(count, ms) for links, count, ms in series if links == 200],
        )
        for axes, line in zip(parts, lines, strict=True):
            axes.plot(*zip(*line, strict=True), "o-", ms=3, color=COLOURS[way], label=LABELS.get(way, way))
    for axes, title in zip(parts, ("one state", "10 links", "200 links"), strict=True):
        axes.set(title=title, xscale="log", yscale="log", xlabel="states")
        axes.grid(alpha=0.3)
    parts[0].set(xlabel="links of a serial chain", ylabel="ms")
    figure.legend(
        *parts[0].get_legend_handles_labels(), loc="lower center", ncol=6, frameon=False, fontsize=8
    )
    figure.tight_layout(rect=(0, 0.06, 1, 1))
    figure.savefig(path, metadata={"Date": None})


if __name__ == "__main__":
    saved = json.loads((HERE.parent / "benchmarks/results/parallel.json").read_text())
    draw(HERE / "figures" / "paper5_2_3.svg", saved["rows"])
