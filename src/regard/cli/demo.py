"""`regard demo`: the attention of a small sentence, drawn in the terminal."""

from __future__ import annotations

import torch
from rich.console import Console
from rich.table import Table
from rich.text import Text
from torch import Tensor
from torch.nn.functional import normalize

from regard.attention import scores
from regard.attention.masks import Mask
from regard.attention.weigh import Weigh

SENTENCE = "the cat that chased the mouse sleeps while the mouse eats the cheese"
DIM = 64
LENGTH = 0.6 * DIM**0.5  # of a word's vector: the less, the more a word looks around


def run() -> None:
    """Weigh the words of a sentence by likeness, each looking at itself and the words before it, and draw the map."""
    words = SENTENCE.split()
    console = Console()
    console.print(
        "Each word (row) looks at itself and the words before it: Softmax[q·k/√d + M], M causal.\n", markup=False
    )
    console.print(draw(words, look_back(words)))


def look_back(words: list[str]) -> Tensor:
    """Words -> attention weights (t t): equal words have equal vectors, so a repeated word finds its earlier place."""
    vocabulary = sorted(set(words))
    vectors = normalize(torch.randn(len(vocabulary), DIM, generator=torch.Generator().manual_seed(0))) * LENGTH
    x = vectors[[vocabulary.index(word) for word in words]][None, None]  # (b h t d)
    score = scores.build("scaled_dot", DIM)
    weights: Tensor = Weigh(score)(x, score.prepare(x), Mask.causal())
    return weights[0, 0]


def draw(words: list[str], weights: Tensor) -> Table:
    """A table of shaded cells with the weight in percent; columns are the words looked at."""
    table = Table(box=None, padding=(0, 0), header_style="")
    table.add_column("", justify="right")
    for word in words:
        table.add_column(word, justify="center", min_width=len(word) + 1)
    for word, row in zip(words, weights.tolist(), strict=True):
        table.add_row(word + " ", *(cell(weight) for weight in row))
    return table


def cell(weight: float) -> Text:
    """The weight in percent on a background that deepens with it; nothing where it rounds to zero."""
    percent = round(100 * weight)
    light = round(255 * (1 - weight))
    ink = "black" if weight < 0.5 else "white"
    return Text(f" {percent} ", style=f"{ink} on rgb({light},{light},255)") if percent else Text("·", style="dim")
