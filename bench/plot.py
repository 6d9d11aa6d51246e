"""Draw the results: `python bench/plot.py RESULTS.json OUT.png`; needs matplotlib, in an environment of its own."""

import json
import sys
from typing import Any

import matplotlib as mpl

mpl.use("Agg")
import matplotlib.pyplot as plt

COLOURS = {
    "floor": "#9e9e9e",
    "interpose": "#1565c0",
    "agent_framework": "#c62828",
    "strands": "#ef6c00",
    "langchain": "#6a1b9a",
}


def main(source: str, target: str) -> None:
    """Draw each workload with 10 middlewares as bars, on a logarithmic scale."""
    with open(source) as file:
        results: dict[str, Any] = json.load(file)
    chosen = [entry for entry in results["cases"] if entry["case"]["hooks"] == "seam" and entry["case"]["n"] == 10]
    columns = min(4, len(chosen))
    rows = -(-len(chosen) // columns)
    figure, axes = plt.subplots(rows, columns, figsize=(3.4 * columns, 2.5 * rows), squeeze=False)
    for axis in axes.flat[len(chosen) :]:
        axis.axis("off")
    for axis, entry in zip(axes.flat, chosen, strict=False):
        _bars(axis, entry, results["labels"])
    figure.suptitle("10 middlewares, less is better, logarithmic")
    figure.tight_layout()
    figure.savefig(target, dpi=110)


def _bars(axis: Any, entry: dict[str, Any], labels: dict[str, str]) -> None:
    names = [name for name in labels if name in entry["figures"]]
    values = [max(entry["figures"][name]["value"], 1e-4) for name in names]
    bars = axis.barh([labels[name] for name in names], values, color=[COLOURS[name] for name in names])
    axis.bar_label(
        bars, labels=[f"{value:,.0f}" if value >= 100 else f"{value:.3g}" for value in values], padding=3, fontsize=7
    )
    axis.set_xscale("log")
    axis.set_xlim(min(values) / 2, max(values) * 8)
    axis.invert_yaxis()
    axis.set_title(entry["title"], fontsize=8)
    axis.tick_params(labelsize=7)
    axis.spines[["top", "right"]].set_visible(False)


if __name__ == "__main__":
    main(*sys.argv[1:3])
