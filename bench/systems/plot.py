"""docs/images/speed_cost.png: cost against length, batch and corpus size, a panel each."""

from __future__ import annotations

from pathlib import Path

from systems.page import GROWTH, exponent
from systems.targets import Works

AXES = {  # what varies -> title, below, at the side, seconds times what
    "length": ("sentence length", "tokens of source and output", "ms for a batch of 16", 1000),
    "batch": ("batch size", "sentences in a batch", "ms for the batch", 1000),
    "corpus": ("corpus size", "lines", "s for the job", 1),
}


def draw(works: Works, path: Path) -> None:
    """Write the plot if there is anything to draw."""
    kinds = [kind for kind in GROWTH if any(works.get(f"cost-{kind}", {}).values())]
    if not kinds:
        return
    import matplotlib

    matplotlib.use("agg")
    from matplotlib import pyplot as plt

    figure, panels = plt.subplots(1, len(kinds), figsize=(4.2 * len(kinds), 4.3), dpi=150, squeeze=False)
    for panel, kind in zip(panels[0], kinds, strict=True):
        _panel(panel, kind, works)
    figure.suptitle("Transformer 4+4×128, greedy: cost of decoding", fontsize=12)
    figure.tight_layout()
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path)
    plt.close(figure)


def _panel(panel, kind: str, works: Works) -> None:
    from matplotlib.ticker import LogLocator, NullFormatter, NullLocator, StrMethodFormatter

    title, below, side, factor = AXES[kind]
    curves = {name: rounds[-1]["points"] for name, rounds in works[f"cost-{kind}"].items() if rounds}
    for name, points in curves.items():
        label = f"{name}: exponent {exponent(points):.2f}"
        panel.plot([x for x, _ in points], [factor * y for _, y in points], marker="o", markersize=4, label=label)
    points = next(iter(curves.values()))
    sizes, end = [x for x, _ in points], factor * points[-1][1]
    line = [end * x / sizes[-1] for x in sizes]
    panel.plot(sizes, line, color="grey", linestyle="--", linewidth=1, zorder=0, label="proportional (exponent 1)")
    panel.set(xscale="log", yscale="log", title=title, xlabel=below, ylabel=side)
    panel.set_xticks(sizes if len(sizes) < 8 else sizes[::2])
    panel.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
    panel.yaxis.set_minor_formatter(NullFormatter())
    panel.xaxis.set_minor_locator(NullLocator())
    for axis in (panel.xaxis, panel.yaxis):
        axis.set_major_formatter(StrMethodFormatter("{x:,g}"))
    panel.grid(alpha=0.3)
    panel.legend(frameon=False, fontsize=8, loc="upper center", bbox_to_anchor=(0.5, -0.17))
