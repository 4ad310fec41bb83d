"""Captioning compared with a plain PyTorch loop, and the effect of a baseline on hard attention.

    python bench/captioning.py                 training steps/s and captions/s with beam 5, as a table
    python bench/captioning.py --run RUN       and the variance of the gradient of a hard captioner's choices

The plain loop is the same model as tutorials write it: one image with each caption, the readout at every step, and a
beam search image by image. It has the same weights, and is checked to give the same loss and the same captions.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

import regard
from regard.attention.policy_gradient import NoBaseline
from regard.core.data_specs import SpecialTokens
from regard.decoding.strategy import build as decoder
from regard.models import captioner
from regard.tasks import captioning

BEAM = 5
ROUNDS = 5  # the two alternate; the best round of each counts
IMAGES = 64  # to caption
SAMPLES = 64  # gradients whose variance is measured
MARKS = SpecialTokens()


class PlainCaptioner(nn.Module):
    """Show, attend and tell with soft additive attention, in plain PyTorch with the weights of a regard model."""

    def __init__(self, model: Any) -> None:
        super().__init__()
        self.cnn, self.into, self.norm = model.grid.backbone, model.grid.into, model.grid.norm
        self.register_buffer("places", model.grid.plane.raster().detach())
        self.embed, self.first, self.key = model.target, model.first, model.looking.key
        score = model.looking.cross_attn.weigh.score
        self.query, self.inner, self.energy = score.query, score.key, score.weight
        self.word, self.seen, self.hidden = model.gates_word, model.gates_seen, model.gates_hidden
        self.join, self.out = model.join, model.readout

    def encode(self, images: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        cells = self.norm(self.into(self.cnn(images).flatten(2).transpose(1, 2)).relu() + self.places)
        hidden, cell = torch.tanh(self.first(cells.mean(dim=1))).chunk(2, dim=-1)
        return cells, hidden, cell

    def step(self, words: Tensor, cells: Tensor, hidden: Tensor, cell: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        embedded = self.embed(words)
        energy = self.energy(torch.tanh(self.inner(self.key(cells)) + self.query(hidden)[:, None]))
        weights = energy.squeeze(-1).softmax(dim=1)
        gates = self.hidden(hidden)
        context = torch.sigmoid(gates[:, -1:]) * (weights[..., None] * cells).sum(dim=1)
        enter, forget, new, leave = (self.word(embedded) + self.seen(context) + gates[:, :-1]).chunk(4, dim=-1)
        cell = torch.sigmoid(forget) * cell + torch.sigmoid(enter) * torch.tanh(new)
        hidden = torch.sigmoid(leave) * torch.tanh(cell)
        features = torch.tanh(embedded + self.join(torch.cat([hidden, context], dim=-1)))
        return self.out(features), hidden, cell

    def loss(self, images: Tensor, captions: Tensor) -> Tensor:
        """One image for each caption -> Σ -log p."""
        cells, hidden, cell = self.encode(images)
        total = images.new_zeros(())
        for step in range(captions.shape[1] - 1):
            logits, hidden, cell = self.step(captions[:, step], cells, hidden, cell)
            total = total + cross_entropy(logits, captions[:, step + 1], ignore_index=MARKS.pad, reduction="sum")
        return total

    @torch.no_grad()
    def caption(self, image: Tensor, longest: int) -> list[int]:
        """One image (1 c h w) -> its best caption by a beam search, hypotheses ranked by their sums."""
        cells, hidden, cell = (x.expand(BEAM, *x.shape[1:]) for x in self.encode(image))
        rows = torch.full((BEAM, 1), MARKS.bos)
        sums = torch.tensor([0.0] + [-torch.inf] * (BEAM - 1))
        done: list[tuple[float, list[int]]] = []
        for length in range(longest):
            logits, hidden, cell = self.step(rows[:, -1], cells, hidden, cell)
            scores = sums[:, None] + logits.log_softmax(dim=-1)
            scores[:, [MARKS.pad, MARKS.bos]] = -torch.inf  # what a beam of regard never chooses either
            if length == longest - 1:
                scores[:, : MARKS.eos], scores[:, MARKS.eos + 1 :] = -torch.inf, -torch.inf
            best = scores.flatten().topk(BEAM - len(done))
            parents, words = best.indices // scores.shape[1], best.indices % scores.shape[1]
            ended = words == MARKS.eos
            done += [(float(v), rows[p, 1:].tolist()) for v, p in zip(best.values[ended], parents[ended], strict=True)]
            going = ~ended & (best.values > (max(done)[0] if done else -torch.inf))
            if not going.any():
                break
            parents = parents[going]
            rows = torch.cat([rows[parents], words[going, None]], dim=1)
            sums, hidden, cell, cells = best.values[going], hidden[parents], cell[parents], cells[: len(parents)]
        return max(done)[1]


def rate(work: Callable[[], Any]) -> float:
    """Return the calls per second."""
    started_at = time.perf_counter()
    work()
    return 1 / (time.perf_counter() - started_at)


def best_rates(work: Callable[[], Any], plain: Callable[[], Any]) -> tuple[float, float]:
    """Return the best rate of each of two functions, which alternate."""
    pairs = [(rate(work), rate(plain)) for _ in range(ROUNDS)]
    return max(work_rate for work_rate, _ in pairs), max(plain_rate for _, plain_rate in pairs)


def training(task: captioning.Captioning, model: Any, plain: PlainCaptioner) -> dict[str, float]:
    """Measure training steps/s on the same images and captions."""
    examples = task.epoch_batches(0, 1)[0]
    batch = task.collate(examples)
    tokens = batch.captions.tokens
    captions_per_image = len(tokens) // len(batch.images)
    is_present = batch.captions.lengths > 0
    images, captions = batch.images.repeat_interleave(captions_per_image, dim=0)[is_present], tokens[is_present]
    with torch.no_grad():
        loss, expected = task.loss(model.eval(), batch).total.item(), plain.eval().loss(images, captions).item()
    assert abs(loss - expected) < 1e-3 * abs(expected), (loss, expected)
    model.train()
    plain.train()

    def learn() -> None:
        task.loss(model, task.collate(examples)).total.backward()

    def learn_plainly() -> None:
        plain.loss(images, captions).backward()

    rates = best_rates(learn, learn_plainly)
    return {"regard": rates[0], "plain": rates[1], "ratio": rates[0] / rates[1]}


def caption_rates(task: captioning.Captioning, model: Any, plain: PlainCaptioner) -> dict[str, float]:
    """Measure captions/s with a beam of five."""
    pixels = task.collection.split("valid").images(np.arange(IMAGES))
    beam, longest = decoder("beam", beam_width=BEAM, length_penalty=0.0), task.spec.max_length
    images = task.image_encoder(pixels)
    model.eval()
    plain.eval()
    captions = [list(best[0].tokens) for best in task.search_captions(model, pixels, beam)]
    same = sum(tokens == plain.caption(image[None], longest) for tokens, image in zip(captions, images, strict=True))
    assert same >= 0.95 * IMAGES, f"{same} of {IMAGES} captions agree"
    rates = best_rates(
        lambda: task.search_captions(model, pixels, beam),
        lambda: [plain.caption(image[None], longest) for image in images],
    )
    return {"regard": rates[0] * IMAGES, "plain": rates[1] * IMAGES, "ratio": rates[0] / rates[1], "same": float(same)}


def variance(folder: Path) -> dict[str, float]:
    """Return the variance of the gradient of the sampled choices with and without the baseline, summed over their
    weights.
    """
    run = regard.load(folder)
    task, model = run.task, run.model
    batch = task.collate(task.epoch_batches(0, 1)[0])
    looking: Any = model.looking
    weights = [looking.key.weight, *looking.cross_attn.parameters()]
    average, variances = looking.baseline, {}
    for name, baseline in (("baseline", average), ("none", NoBaseline())):
        looking.baseline, gradients = baseline, []
        model.train()
        model.grid.eval()
        for sample in range(SAMPLES):
            torch.manual_seed(sample)
            choices = task.loss(model, batch).parts["choices"]
            gradients.append(torch.cat([g.flatten() for g in torch.autograd.grad(choices, weights)]))
        variances[name] = float(torch.stack(gradients).var(dim=0).sum())
    return {**variances, "ratio": variances["none"] / variances["baseline"]}


def main() -> None:
    """Measure, print a table, and write it as JSON where asked."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--run", type=Path, help="a run with hard attention")
    parser.add_argument("--out", type=Path, help="a JSON file")
    args = parser.parse_args()
    task = captioning.build(captioning.Config(scenes=200))
    torch.manual_seed(0)
    config = captioner.Config(dim=128, embedding=64, feature_dim=64, dropout=0.0, coverage_weight=0.0)
    model = captioner.build(config, task.spec)
    plain = PlainCaptioner(model)
    results = {
        "training steps/s": training(task, model, plain),
        "captions/s, beam 5": caption_rates(task, model, plain),
    }
    if args.run is not None:
        results["variance of the choices' gradient"] = variance(args.run)
    for name, row in results.items():
        print(f"{name}: " + ", ".join(f"{key} {value:.3g}" for key, value in row.items()))
    if args.out is not None:
        args.out.write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
