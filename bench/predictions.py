"""Speed of predicting 10,000 inputs, compared with a plain PyTorch loop of equal weights, on built-in data:

documents       texts/s of the labels of 10,000 reviews by `hierarchical`
tags            texts/s of the entities of 10,000 sentences by `tagger`
recommendation  users/s of the ten best items of 10,000 users by `recommender`
captions        images/s of greedy captions of 2,000 scenes by `captioner`

The loop has the same tokenization and the same layers. It takes the inputs in their order, 64 at a time, padded to the
longest of them. regard also returns what the loop leaves out: probabilities, confidences and unknown words. Reasons of
recommendations are off. Run by bench/all.py.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch
from comparisons import Bench, Systems

from regard.data.builtin import entities, reviews
from regard.data.text import document_corpus, tagged_corpus
from regard.decoding import strategy
from regard.layers.item_softmax import all_log_probabilities
from regard.tasks import captioning, classification, tagging
from regard.tasks import recommendation as recommendation_task
from regard.tasks._shared.image_inputs import InputImage
from regard.training import recipe as recipes
from regard.training.load_run import build_model
from regard.training.train import build_task

BATCH = 64
Predict = Callable[[Any], Any]


def _parts(inputs: Sequence[Any]) -> list[Sequence[Any]]:
    """Return the inputs in their order, in batches."""
    return [inputs[low : low + BATCH] for low in range(0, len(inputs), BATCH)]


def _systems(task: Any, model: Any, inputs: Sequence[Any], loop: Predict, options: Any) -> Systems:
    """Return regard's predictions and a loop over batches: `loop(batch)` returns the predictions of a batch."""

    def predict() -> float:
        return len(task.predict(model, inputs, options, strategy.build("greedy")))

    @torch.inference_mode()
    def plain() -> float:
        return sum(len(loop(part)) for part in _parts(inputs))

    return {"regard": lambda: predict, "plain loop": lambda: plain}


def _built(name: str) -> tuple[Any, Any]:
    recipe = recipes.read(name)
    task = build_task(recipe)
    return task, build_model(recipe, task).eval()


def documents(quick: bool) -> Systems:
    task, model = _built("classification")
    texts = [review.text for review in reviews.generate("train", BATCH if quick else 10_000, language="en", seed=3)]

    def loop(part: Sequence[str]) -> list[str]:
        features = model(document_corpus.collate_documents(task._tokenize(part)))
        return [task.label_names[label] for label in model.readout(features).argmax(1).tolist()]

    return _systems(task, model, texts, loop, classification.Options())


def tags(quick: bool) -> Systems:
    task, model = _built("tagging")
    texts = [row.text for row in entities.generate("train", BATCH if quick else 10_000, language="en", seed=3)]

    def loop(part: Sequence[str]) -> list[list[str]]:
        encoded = [task.encoder.encode(task.encoder.split_units(text))[0] for text in part]
        sentences = tagged_corpus.collate(encoded).sentences
        best = model.readout.decode(model(sentences), sentences.counts).tolist()
        return [[task.encoder.tags[tag] for tag in row] for row in best]

    return _systems(task, model, texts, loop, tagging.Options())


def recommendation(quick: bool) -> Systems:
    task, model = _built("recommendation")
    users = np.resize(np.arange(len(task.data.users.ids)), BATCH if quick else 10_000)
    queries, longest = [task.parse_input(task.data.users.ids[user]) for user in users], task.config.max_history
    catalog, offsets = task.histories.catalog, task.data.user_offsets

    def loop(part: Sequence[Any]) -> list[list[str]]:
        rows = [np.arange(*offsets[query.user : query.user + 2]) for query in part]
        batch = task.histories.user_batch([query.user for query in part], [row[-longest:] for row in rows])
        states = model.states(batch, catalog)[torch.arange(len(part)), batch.lengths]
        scores = all_log_probabilities(model, states, catalog)
        for i, row in enumerate(rows):
            scores[i, task.data.events.items[row]] = -torch.inf
        return [[task.data.items.titles[item] for item in best] for best in scores.topk(10, dim=1).indices.tolist()]

    return _systems(task, model, queries, loop, recommendation_task.Options(reasons=0))


def captions(quick: bool) -> Systems:
    task, model = _built("captioning")
    shape = task.shape
    pixels = np.random.default_rng(0).integers(
        0, 256, (BATCH if quick else 2_000, shape.height, shape.width, shape.channels), dtype=np.uint8
    )
    images = [InputImage(str(index), image, ()) for index, image in enumerate(pixels)]
    bos, eos = task.special_tokens.bos, task.special_tokens.eos

    def loop(part: Sequence[Any]) -> list[str]:
        state = model.start(task.image_encoder(np.stack([image.pixels for image in part])))
        tokens, ended = torch.full((len(part), 1), bos), torch.zeros(len(part), 1, dtype=torch.bool)
        outputs: list[list[int]] = [[] for _ in part]
        for _ in range(task.spec.max_length - 1):
            logits, state = model(tokens, state)
            tokens = logits[:, -1].argmax(1, keepdim=True)
            ended |= tokens == eos
            for row, token, is_done in zip(outputs, tokens[:, 0].tolist(), ended[:, 0].tolist(), strict=True):
                if not is_done:
                    row.append(token)
            if bool(ended.all()):
                break
        return [task.decode_tokens(row) for row in outputs]

    return _systems(task, model, images, loop, captioning.Options())


BENCHES = {
    name: Bench(systems, ("regard", "plain loop"), unit, seconds=0.1, warm=False)
    for name, systems, unit in (
        ("documents", documents, "texts/s"),
        ("tags", tags, "texts/s"),
        ("recommendation", recommendation, "users/s"),
        ("captions", captions, "images/s"),
    )
}
