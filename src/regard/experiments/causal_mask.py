"""A Transformer whose decoder can attend to the words that it has to predict.

This module is also the model: a Transformer without the causal mask.
"""

from __future__ import annotations

from functools import partial
from typing import Any

from torch import Tensor

from regard.attention.masks import NO_MASK
from regard.core.data_specs import Seq2SeqSpec
from regard.experiments._experiment import Cell, budget, cells_per_seed
from regard.experiments._plots import plot_bars
from regard.experiments._train_small import train_small
from regard.experiments._translation_models import BLEU_RESOLUTION, MODELS, TASK, data_settings
from regard.experiments._verdict import ClaimResult, Figures, decide, describe_seeds, difference, means, seed_values
from regard.models import transformer
from regard.models.transformer import Config, DecoderStack, Transformer, TransformerState

CLAIM = "Without the causal mask the decoder sees its targets in training: the loss is low and generation is useless."
REFERENCE = "Vaswani et al. 2017, section 3.2.3"
STEPS = 700
CURVE = "validation BLEU"
MAX_BLEU_RATIO = 0.5  # without the mask
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
        metrics = {LOSS: trained.scores["loss"], BLEU: trained.scores["bleu"]}
        return metrics | trained.late_gain(resolution=BLEU_RESOLUTION)


def verdict(figures: Figures) -> ClaimResult:
    """Check that without the mask the loss is lower, and BLEU is less than half."""
    loss, bleu = means(figures, LOSS), means(figures, BLEU)
    losses, bleus = seed_values(figures, LOSS), seed_values(figures, BLEU)
    conditions = {
        "the loss is lower without the mask": loss["no mask"] < loss["causal mask"],
        f"BLEU without the mask is below {MAX_BLEU_RATIO:.0%} of that with it": bleu["no mask"]
        < MAX_BLEU_RATIO * bleu["causal mask"],
    }
    effects = [
        difference("nats per token, no mask minus causal mask", losses["no mask"], losses["causal mask"]),
        difference("BLEU, no mask minus causal mask", bleus["no mask"], bleus["causal mask"], form="+.1f"),
    ]
    return decide(
        f"With teacher forcing the loss is {loss['no mask']:.2f} nats per token without the mask and"
        f" {loss['causal mask']:.2f} with it. In free-running generation the model without the mask reaches"
        f" {bleu['no mask']:.1f} BLEU, the other {bleu['causal mask']:.1f}. {describe_seeds(figures)}.",
        conditions,
        effects,
    )


def draw(figures: Figures, axes: Any) -> None:
    """Plot BLEU of both models, with their losses below."""
    loss = means(figures, LOSS)
    plot_bars(axes, {"BLEU": seed_values(figures, BLEU)}, y="BLEU, free running")
    axes.set_xticks(range(len(VARIANTS)), [f"{kind}\nloss {loss[kind]:.2f} nats per token" for kind in VARIANTS])
