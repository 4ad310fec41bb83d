"""Parts of docs/results.md on images that are not scores of single runs: recognized samples, and costs.

Figures are those of bench/image_samples.py (docs/image_samples.json) and bench/image_cost.py (docs/image_cost.json).
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import image_cost

DOCS = Path(__file__).parents[1] / "docs"
SAMPLES, COST = DOCS / "image_samples.json", DOCS / "image_cost.json"


def recognised(figures: dict[str, Any]) -> str:
    """Describe the share of generated digits that are recognized as their class."""
    classes = ", ".join(f"{digit}: {share:.0f}" for digit, share in enumerate(figures["by_class"]))
    return (
        f"### Samples\n\n`digits_images` generated {figures['samples']:,} digits at temperature 1, equally many of each"
        f" class, {figures['distinct']:,} of them distinct."
        f" `digits_vit` assigns {figures['recognised']:.1f} % of them to the requested class ({classes}), and"
        f" {figures['real_recognised']:.1f} % of the real digits of the test split to their class."
        " By `python bench/image_samples.py RUNS`.\n\n![ten samples of each class](images/digits_samples.png)\n"
    )


def cost(figures: dict[str, Any]) -> str:
    """Describe the exponents, with the plot."""
    lines = "\n".join(f"- {line}" for line in image_cost.summary(figures))
    return (
        "### Cost against the side of the image\n\nA training step on one grey image, by `python bench/image_cost.py`."
        " The exponents are those of cost = a + b · side^p, and of the last doubling of the side alone.\n\n"
        f"{lines}\n\n![cost](images/image_cost.png)\n"
    )


def sections() -> list[str]:
    """Return the sections with figures."""
    parts = []
    figures = json.loads(SAMPLES.read_text()).get("digits_images", {}) if SAMPLES.exists() else {}
    if "recognised" in figures:
        parts.append(recognised(figures))
    if COST.exists():
        parts.append(cost(json.loads(COST.read_text())))
    parts.append("Speed compared with timm's ViT, and of sampling: [speed.md](speed.md).\n")
    return parts
