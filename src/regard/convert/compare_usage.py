"""Predictions of an exported folder by the ordinary code of transformers, compared with those of the run."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from regard.convert import usage_example
from regard.core.errors import CheckpointError
from regard.core.extras import require
from regard.decoding.strategy import build
from regard.tasks._shared.image_inputs import InputImage
from regard.training.load_run import LoadedRun

MIN_INPUTS = 20  # inputs on which both libraries are compared
MAX_PREFIX_WORDS, MAX_SKIPPED_WORDS = 40, 10
NEW_TOKENS = 16  # of a continuation, as in usage_example.py
MASK = "[MASK]"
PROBABILITY_TOLERANCE = 1e-3
RESIZED_TOLERANCE = 0.05  # of images that both libraries resize, possibly with other rounding
UNKNOWN = "\N{REPLACEMENT CHARACTER}"


class Checked(NamedTuple):
    """The inputs of a comparison: their number, and the source text of an example for the README."""

    num_inputs: int
    example: str


def check_usage(parts: LoadedRun, folder: Path, use: Callable[..., Any]) -> Checked:
    """Run the ordinary code on the exported folder; raise a CheckpointError if a prediction differs."""
    checked = COMPARISONS[use](parts, str(folder))
    if not checked.num_inputs:
        raise CheckpointError(f"{parts.folder}: no examples on which the export can be compared; nothing was written")
    return checked


def _translations(parts: LoadedRun, folder: str) -> Checked:
    task: Any = parts.task
    texts = with_parts(task.comparison_inputs or task.examples)[:MIN_INPUTS]
    source = task.encode_sources(texts)
    rows = task.search_translations(parts.model, source, build("greedy"), sample_indices=range(len(texts)))
    tokens = [hypotheses[0].tokens for hypotheses in rows]
    limits = task.max_output_lengths(source.lengths).tolist()
    is_complete = [len(row) < limit for row, limit in zip(tokens, limits, strict=True)]
    expected, actual = task.vocabularies.target.decode(tokens), usage_example.translate(folder, texts)
    _check(parts, texts, expected, actual, is_complete=is_complete)
    return Checked(len(texts), repr(texts[:1]))


def _continuations(parts: LoadedRun, folder: str) -> Checked:
    texts = [text for text in with_parts(parts.task.examples) if _fits(parts, text, NEW_TOKENS + 1)][:MIN_INPUTS]
    options = parts.recipe.task.module("tasks").Options(tokens=NEW_TOKENS, temperature=0.0)
    predictions = parts.task.predict(parts.model, texts, options, build("greedy"))
    _check(parts, texts, [row[0].text for row in predictions], usage_example.continue_texts(folder, texts))
    return Checked(len(texts), repr(texts[:1]))


def _masks(parts: LoadedRun, folder: str) -> Checked:
    masked = dict.fromkeys(text for text in masked_texts(with_parts(parts.task.examples)) if _fits(parts, text, 2))
    texts = list(masked)[:MIN_INPUTS]
    inputs, options = [parts.task.parse_input(text) for text in texts], parts.recipe.task.module("tasks").Options()
    predictions = parts.task.predict(parts.model, inputs, options, None)
    expected = [row[0].value[0][0][0].strip() for row in predictions]  # the best candidate of the only mask
    names = {"<pad>", "<unk>", "<s>", "</s>", MASK, ""}  # regard never predicts special tokens
    tokens = [
        next((token for token in row if token not in names), "") for row in usage_example.fill_masks(folder, texts)
    ]
    _check(parts, texts, expected, tokens)
    return Checked(len(texts), repr(texts[:1]))


def _fits(parts: LoadedRun, text: str, extra: int) -> bool:
    """Return True if a text and `extra` further tokens fit into the context of the model."""
    tokenizer = parts.task.tokenizer  # type: ignore[attr-defined]  # of language tasks
    return bool(len(tokenizer.encode([text])[0]) + extra <= parts.task.spec.max_length)


def _images(parts: LoadedRun, folder: str) -> Checked:
    images = list(_random_images(parts.task))
    inputs = [InputImage("", parts.task.shape.apply(image)[...], ()) for image in images]  # type: ignore[attr-defined]
    classes = parts.task.classes  # type: ignore[attr-defined]
    options = parts.recipe.task.module("tasks").Options(n=len(classes))
    expected = parts.task.predict(parts.model, inputs, options, None)
    for index, (row, actual) in enumerate(zip(expected, usage_example.classify_images(folder, images), strict=True)):
        is_resized = images[index].size != (parts.task.spec.width, parts.task.spec.height)
        tolerance = RESIZED_TOLERANCE if is_resized else PROBABILITY_TOLERANCE
        probabilities = {prediction.text: math.exp(prediction.score or 0.0) for prediction in row}
        gap = max(abs(probabilities[label] - probability) for label, probability in actual.items())
        if gap > tolerance:
            raise CheckpointError(
                f"{parts.folder}: transformers gives probabilities that differ by {gap:.2g}; nothing was written"
            )
    return Checked(len(images), '["image.png"]')


def _random_images(task: Any) -> Iterator[Any]:
    """Yield images of the size of the model and, if it resizes by stretching, of other sizes."""
    image_module, random = require("PIL.Image", extra="vision"), np.random.default_rng(0)
    for index in range(MIN_INPUTS):
        scale = 1 if index % 2 or task.shape.fit != "stretch" else 1 + index % 3
        size = task.shape.height * scale, task.shape.width * scale, 3
        levels = random.integers(0, 256, size, dtype=np.uint8)
        if task.shape.channels == 1:
            levels = np.repeat(levels[..., :1], 3, axis=-1)
        yield image_module.fromarray(levels)


def with_parts(texts: Sequence[str]) -> list[str]:
    """Return the texts, then their prefixes and the prefixes of the rest of each text, shortest first."""
    inputs = dict.fromkeys(text for text in texts if text.strip())
    for start in range(MAX_SKIPPED_WORDS):
        for length in range(1, MAX_PREFIX_WORDS):
            for text in texts:
                words = text.split()[start:]
                if length < len(words):
                    inputs.setdefault(" ".join(words[:length]))
    return list(inputs)


def masked_texts(texts: Sequence[str]) -> Iterator[str]:
    """Yield every text with each of its words masked in turn."""
    for text in texts:
        words = [word for word in text.split() if MASK not in word]
        for index in range(len(words)):
            yield " ".join([*words[:index], MASK, *words[index + 1 :]])


def _check(
    parts: LoadedRun,
    texts: Sequence[str],
    expected: Sequence[str],
    actual: Sequence[str],
    *,
    is_complete: Sequence[bool] = (),
) -> None:
    """Raise a CheckpointError for the first text that transformers predicts differently."""
    rows = zip(texts, expected, actual, is_complete or [True] * len(texts), strict=True)
    for text, first, second, complete in rows:
        if not same_text(first, second, is_complete=complete):
            raise CheckpointError(
                f"{parts.folder}: for {text!r} regard predicts {first[:60]!r} but transformers {second[:60]!r}; "
                "nothing was written"
            )


def same_text(expected: str, actual: str, *, is_complete: bool = True) -> bool:
    """Return True for equal texts. A text that is not complete, because of regard's limit, may be a prefix.

    transformers leaves out unknown tokens, for which regard writes U+FFFD.
    """
    first, second = ("".join(text.replace(UNKNOWN, "").split()) for text in (expected, actual))
    return first == second or (not is_complete and second.startswith(first))


COMPARISONS: dict[Callable[..., Any], Callable[[LoadedRun, str], Checked]] = {
    usage_example.translate: _translations,
    usage_example.continue_texts: _continuations,
    usage_example.fill_masks: _masks,
    usage_example.classify_images: _images,
}
