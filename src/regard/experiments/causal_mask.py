"""A Transformer whose decoder can attend to the words that it has to predict.

This module is also the model: a Transformer without the causal mask.
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

CLAIM = "Without the causal mask the decoder sees its targets in training: the loss is low and generation is useless."
REFERENCE = "Vaswani et al. 2017, section 3.2.3"
STEPS = 350
VARIANTS = {"causal mask": MODELS["transformer"], "no mask": (f"model={__name__}", *MODELS["transformer"][1:])}
LOSS, BLEU = "loss, teacher forcing", "BLEU, free running"
__all__ = ["Config"]


class UnmaskedDecoder(DecoderStack):
    """A decoder without a causal mask."""

    def forward(self, tokens: Tensor, state: TransformerState) -> tuple[Tensor, TransformerState]:
        x = self.embedding(tokens, state.past[0].position)
        past = []
        for layer, layer_past, source in zip(self.layers, state.past, state.source.value, strict=True):
            x, cache = layer(x, NO_MASK, past=layer_past, source=source)
            past.append(cache)
        return self.last(x), TransformerState(tuple(past), state.source)


def build(config: Config, sizes: Seq2SeqSpec) -> Transformer:
    """Build a Transformer whose decoder has no causal mask."""
    model = transformer.build(config, sizes)
    decoder = model.decoder
    model.decoder = UnmaskedDecoder(decoder.embedding, list(decoder.layers), decoder.last)  # type: ignore[arg-type]  # blocks
    return model


def cells(effort: float) -> list[Cell]:
    """Return cells with and without the mask, trained in the same way."""
    steps, seeds = budget(effort, STEPS)
    return [cell for kind in VARIANTS for cell in cells_per_seed(kind, seeds, partial(_measure, kind, effort, steps))]


def _measure(kind: str, effort: float, steps: int, seed: int) -> dict[str, float]:
    with train_small(TASK, [*data_settings(effort), *VARIANTS[kind]], steps=steps, seed=seed) as trained:
        return {LOSS: trained.scores["loss"], BLEU: trained.scores["bleu"]}


def verdict(figures: Figures) -> ClaimResult:
    """Check that without the mask the loss is lower, and BLEU is less than half."""
    loss, bleu = means(figures, LOSS), means(figures, BLEU)
    holds = loss["no mask"] < loss["causal mask"] and bleu["no mask"] < 0.5 * bleu["causal mask"]
    return ClaimResult(
        holds,
        f"With teacher forcing the loss is {loss['no mask']:.2f} nats per token without the mask and"
        f" {loss['causal mask']:.2f} with it. In free-running generation the model without the mask reaches"
        f" {bleu['no mask']:.1f} BLEU, the other {bleu['causal mask']:.1f}. {describe_seeds(figures)}.",
    )


def draw(figures: Figures, axes: Any) -> None:
    """Plot loss and BLEU of both models relative to the larger value."""
    relative = {}
    for figure in (LOSS, BLEU):
        by_kind = seed_values(figures, figure)
        largest = max(max(values) for values in by_kind.values()) or 1.0
        relative[figure] = {kind: [value / largest for value in values] for kind, values in by_kind.items()}
    plot_bars(axes, relative, y="relative to the larger value")
    for index, (figure, form) in enumerate(((LOSS, "{:.2f} nats"), (BLEU, "{:.1f} BLEU"))):
        for group, kind in enumerate(VARIANTS):
            height = max(relative[figure][kind])
            axes.text(group + 0.4 * index - 0.2, height + 0.03, form.format(means(figures, figure)[kind]), ha="center")
    axes.set_ylim(0, 1.15)
