"""What a Transformer learns if its decoder may look at the words that it is to foretell.

This file is also the model that may: the Transformer with no causal mask.
"""

from __future__ import annotations

from functools import partial
from typing import Any

from torch import Tensor

from regard.attention.masks import NO_MASK
from regard.core.data_specs import Seq2SeqSpec
from regard.experiments._experiment import (
    Cell,
    ClaimResult,
    Figures,
    budget,
    cells_per_seed,
    describe_seeds,
    means,
    plot_bars,
    seed_values,
)
from regard.experiments._train_small import train_small
from regard.experiments._translation_models import MODELS, TASK, data_settings
from regard.models import transformer
from regard.models.transformer import Config, DecoderStack, Transformer, TransformerState

CLAIM = (
    "Without the causal mask training cheats: the loss is low, since the answer is in sight, and generation useless."
)
WHERE = "Vaswani et al. 2017, section 3.2.3"
STEPS = 350
VARIANTS = {"causal mask": MODELS["transformer"], "no mask": (f"model={__name__}", *MODELS["transformer"][1:])}
LOSS, BLEU = "loss, true words given", "BLEU, on its own"
__all__ = ["Config"]


class UnmaskedDecoder(DecoderStack):
    """A decoder that looks at everything that is there."""

    def forward(self, tokens: Tensor, state: TransformerState) -> tuple[Tensor, TransformerState]:
        x = self.embedding(tokens, state.past[0].position)
        past = []
        for layer, before, source in zip(self.layers, state.past, state.source.value, strict=True):
            x, memory = layer(x, NO_MASK, past=before, source=source)
            past.append(memory)
        return self.last(x), TransformerState(tuple(past), state.source)


def build(config: Config, sizes: Seq2SeqSpec) -> Transformer:
    """The Transformer, its decoder without a causal mask."""
    model = transformer.build(config, sizes)
    usual = model.decoder
    model.decoder = UnmaskedDecoder(usual.embedding, list(usual.layers), usual.last)  # type: ignore[arg-type]  # they are blocks
    return model


def cells(effort: float) -> list[Cell]:
    """Both, trained alike."""
    steps, seeds = budget(effort, STEPS)
    return [cell for kind in VARIANTS for cell in cells_per_seed(kind, seeds, partial(_measure, kind, effort, steps))]


def _measure(kind: str, effort: float, steps: int, seed: int) -> dict[str, float]:
    with train_small(TASK, [*data_settings(effort), *VARIANTS[kind]], steps=steps, seed=seed) as made:
        return {LOSS: made.scores["loss"], BLEU: made.scores["bleu"]}


def verdict(figures: Figures) -> ClaimResult:
    """Its loss is below that of the masked model, its translations are worth less than half."""
    loss, bleu = means(figures, LOSS), means(figures, BLEU)
    holds = loss["no mask"] < loss["causal mask"] and bleu["no mask"] < 0.5 * bleu["causal mask"]
    return ClaimResult(
        holds,
        f"Without the mask the loss is {loss['no mask']:.2f} nats a token, with it {loss['causal mask']:.2f}, where the"
        f" true words are given. Left to itself the model without the mask reaches {bleu['no mask']:.1f} BLEU, the"
        f" other {bleu['causal mask']:.1f}. {describe_seeds(figures)}.",
    )


def draw(figures: Figures, axes: Any) -> None:
    """Loss and BLEU of both, each as a share of the larger one."""
    shares = {}
    for figure in (LOSS, BLEU):
        found = seed_values(figures, figure)
        most = max(max(values) for values in found.values()) or 1.0
        shares[figure] = {kind: [value / most for value in values] for kind, values in found.items()}
    plot_bars(axes, shares, y="share of the larger one")
    for number, (figure, form) in enumerate(((LOSS, "{:.2f} nats"), (BLEU, "{:.1f} BLEU"))):
        for place, kind in enumerate(VARIANTS):
            height = max(shares[figure][kind])
            axes.text(place + 0.4 * number - 0.2, height + 0.03, form.format(means(figures, figure)[kind]), ha="center")
    axes.set_ylim(0, 1.15)
