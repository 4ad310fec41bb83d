"""Translation: sentence pairs in, free-running translations and their scores out. The same for every model."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch

from regard.core.errors import ConfigError, DataError, nearest
from regard.core.files import cache_folder
from regard.core.protocols import Hypothesis, Indices, Loss, Padded
from regard.core.sizes import Marks, Text
from regard.core.tree import map_tensors
from regard.data import batching, corpus, mapped, sources, tokens
from regard.data.alignment import Links
from regard.data.batching import PairBatch
from regard.data.corpus import PairCorpus
from regard.data.text import Languages, Pair, Pairs
from regard.data.tokens import Level, Tokenizer
from regard.layers.loss import linear_cross_entropy
from regard.tasks import _bleu
from regard.tasks._evaluating import evaluating

Decode = Callable[..., list[list[Hypothesis]]]  # decode(model, state, marks=…, limits=…)
Candidate = tuple[str, float]  # a translation and its log probability
DEFAULTS: dict[str, Any] = {"model": {"name": "transformer"}, "decoding": {"name": "beam"}}
SAMPLE = 2**28  # bytes of text that vocabularies are made from: of twice as much, every second pair
SOURCES = 256  # decoded side by side: more gain nothing, and their caches leave the processor's
ROWS = 640  # hypotheses of them: more gain little, and take memory
PADDED = 4096  # source tokens of them, at least, whatever fits into a training batch
CHAPTER = 4_000_000  # pairs that are planned at once: of a larger corpus, an epoch is one chapter of that size


@dataclass(frozen=True)
class Config:
    """Which pairs, which tokens, which batches. Without a path, the built-in English -> Korean data."""

    path: Path | None = None
    name: str = sources.BUILT_IN
    source: str = "en"
    target: str = "ko"
    columns: tuple[str, ...] = ("en", "ko")  # the columns of TSV files that have no header
    pairs: int = 20_000  # of the built-in training data
    level: Level = "bpe"
    vocabulary: int = 8000
    joint: bool = False  # one vocabulary for both languages
    lowercase: bool = False
    minimum: int = 1  # how often a token must be seen
    tokens: int = 4096  # padded tokens in a batch, on its larger side
    longest: int = 256  # tokens of a sentence, end mark included; longer pairs are left out and counted
    smoothing: float = 0.1
    memory: int = 256  # megabytes of training text; the tokens of more are mapped from files in the cache folder
    seed: int = 1  # of splits that are not given, and of the built-in data

    def __post_init__(self) -> None:
        for name in ("pairs", "vocabulary", "minimum", "tokens", "longest"):
            if getattr(self, name) < 1:
                raise ConfigError(f"{name}={getattr(self, name)} must be at least 1")
        if not 0 <= self.smoothing < 1:
            raise ConfigError(f"smoothing={self.smoothing} must be at least 0 and below 1")
        if self.source == self.target:
            raise ConfigError(f"source and target are both {self.source!r}; name two languages")


class Vocabularies(NamedTuple):
    """The tokenizers of both sides; the same one twice if joint."""

    source: Tokenizer
    target: Tokenizer


class Shown(NamedTuple):
    """An example's tokens as labels of an attention map: keys are source tokens, queries are the tokens they emit."""

    source: list[str]
    target: list[str]


class Translation:
    """Sentence pairs as a task: batches, loss, BLEU, and how an example is shown."""

    def __init__(self, config: Config, vocabularies: Vocabularies) -> None:
        self.config, self.vocabularies = config, vocabularies
        self.marks = Marks()
        source, target = vocabularies.source.size, vocabularies.target.size
        self.sizes = Text(source, target, longest=config.longest, marks=self.marks, joint=config.joint)
        self.better = "bleu_lc" if config.lowercase else "bleu"

    @cached_property
    def pairs(self) -> dict[str, Pairs]:
        """The splits there are; found when first asked for, so that a trained model is used without its data."""
        return open_pairs(self.config)

    @cached_property
    def corpus(self) -> PairCorpus:
        """The training pairs as token numbers."""
        train = self.pairs["train"]
        if train.bytes > self.config.memory * 2**20:
            return mapped.mapped(train, *self.vocabularies, folder=cache_folder() / "corpora")
        return corpus.in_memory(train, *self.vocabularies)

    def notes(self) -> list[str]:
        """What a user should know of the training data: pairs that are left out, and why."""
        limit = min(self.config.longest, self.config.tokens)
        long, blank = self.corpus.longer_than(limit), self.corpus.blank
        total = self.corpus.pairs + blank
        found = [f"{long} of {total} training pairs are longer than {limit} tokens and are left out"] if long else []
        return found + ([f"{blank} of {total} training pairs have an empty side and are left out"] if blank else [])

    def split(self, name: str) -> list[Pair]:
        """The sentence pairs of a split, in memory."""
        if name not in self.pairs:
            raise DataError(f"the data has no split {name!r}; {nearest(name, self.pairs)}")
        return list(self.pairs[name])

    def plan(self, epoch: int, seed: int) -> list[Indices]:
        """The epoch's batches as example numbers; the same on every process."""
        first, last = _chapter(self.corpus.pairs, epoch=epoch, seed=seed)
        source, target = self.corpus.lengths(first, last)
        kept = batching.select(source, target, longest=self.config.longest, budget=self.config.tokens).kept
        batches = batching.plan(source, target, among=kept, budget=self.config.tokens, seed=seed, epoch=epoch)
        return [first + batch for batch in batches] if first else batches

    def batch(self, examples: Indices) -> PairBatch:
        """Example numbers -> source rows `w1 … wn end` and target rows `start w1 … wn end`."""
        return self.corpus.batch(examples, self.marks)

    def loss(self, model: Any, batch: PairBatch) -> Loss:
        """The training loss: cross entropy with label smoothing, summed over target tokens and end marks."""
        return teacher_forced(model, batch, pad=self.marks.pad, smoothing=self.config.smoothing)

    def evaluate(self, model: Any, split: str, decoding: Decode) -> dict[str, float]:
        """Free-running bleu, bleu_lc and chrf on a split, and the teacher-forced loss and perplexity per token.

        What is longer than the model allows counts as an empty translation, and as `too_long`.
        """
        pairs = self.split(split)
        texts = [source for source, _ in pairs]
        fits = [len(row) < self.config.longest for row in self.vocabularies.source.encode(texts)]
        found = iter(self.translate(model, [t for t, fit in zip(texts, fits, strict=True) if fit], decoding=decoding))
        hypotheses = [next(found)[0][0] if fit else "" for fit in fits]
        scores = _bleu.scores(hypotheses, [target for _, target in pairs], language=self.config.target)
        loss = self._loss_per_token(model, pairs)
        scores |= {"loss": loss, "perplexity": math.exp(min(loss, 700.0))}
        return scores | ({"too_long": float(fits.count(False))} if not all(fits) else {})

    def _loss_per_token(self, model: Any, pairs: Sequence[Pair]) -> float:
        rows = corpus.in_memory(pairs, *self.vocabularies)
        lengths = rows.lengths()
        kept = batching.select(*lengths, longest=self.config.longest, budget=self.config.tokens).kept
        total, count = 0.0, 0
        with evaluating(model) as device:
            for examples in batching.plan(*lengths, among=kept, budget=self.config.tokens, seed=0, epoch=0):
                batch = map_tensors(rows.batch(examples, self.marks), lambda x: x.to(device))
                loss = teacher_forced(model, batch, pad=self.marks.pad, smoothing=0.0)
                total, count = total + loss.total.item(), count + loss.count
        return total / count

    def true_links(self, split: str) -> list[Links] | None:
        """The true word alignment of each pair of a held-out split, where it is known."""
        config, languages = self.config, Languages(self.config.source, self.config.target)
        return sources.true_links(config.path, config.name, languages=languages, split=split, seed=config.seed)

    def signatures(self) -> dict[str, str]:
        """How each score is computed, for others to repeat it."""
        return _bleu.signatures(language=self.config.target)

    def encode_sources(self, texts: Sequence[str]) -> Padded:
        """Texts -> source rows `w1 … wn end`, padded; a text the model cannot hold is an error."""
        rows = [[*row, self.marks.end] for row in self.vocabularies.source.encode(texts)]
        for text, row in zip(texts, rows, strict=True):
            if len(row) > self.sizes.longest:
                short = text if len(text) <= 40 else f"{text[:40]}…"
                limit = f"the model was trained for at most {self.sizes.longest}"
                raise DataError(f"{short!r} has {len(row)} tokens with the end mark; {limit}: split the text")
        return batching.pad(rows)

    def decode_tokens(self, row: Sequence[int]) -> str:
        """Target token numbers -> text."""
        return self.vocabularies.target.decode([row])[0]

    def translate(self, model: Any, texts: Sequence[str], *, decoding: Decode) -> list[list[Candidate]]:
        """Texts -> for each, its translations with log probabilities, best first; a blank text has the empty one."""
        full = [i for i, text in enumerate(texts) if text.strip()]
        source = self.encode_sources([texts[i] for i in full])
        found: list[list[Candidate]] = [[("", 0.0)] for _ in texts]
        with evaluating(model) as device:
            model = model.prepared() if hasattr(model, "prepared") else model  # the same, faster
            budget, most = max(PADDED, self.config.tokens), min(SOURCES, max(1, ROWS // _width(decoding)))
            for rows in _by_length(source.lengths, budget=budget, most=most):
                lengths = source.lengths[rows]
                part = Padded(source.tokens[rows, : int(lengths.max())].to(device), lengths.to(device))
                limits = (2 * part.lengths + 10).clamp(max=self.sizes.longest - 1)
                best = decoding(model, model.start(part), marks=self.marks, limits=limits)
                for row, hypotheses in zip(rows.tolist(), best, strict=True):
                    decoded = self.vocabularies.target.decode([hypothesis.tokens for hypothesis in hypotheses])
                    found[full[row]] = [(t, h.score) for t, h in zip(decoded, hypotheses, strict=True)]
        return found

    def show(self, example: Pair) -> Shown:
        """A sentence pair -> the labels of its attention map, end marks included."""
        end = tokens.MARKS[self.marks.end].strip()
        pairs = zip(self.vocabularies, example, strict=True)
        return Shown(*([*(piece.text for piece in vocabulary.pieces(text)), end] for vocabulary, text in pairs))

    def save(self, folder: Path) -> None:
        """Write the vocabulary: tokenizer.json, or one file for each language."""
        for name, vocabulary in zip(_files(self.config), self.vocabularies, strict=False):
            vocabulary.save(folder / name)


def teacher_forced(model: Any, batch: PairBatch, *, pad: int, smoothing: float) -> Loss:
    """A batch -> the summed cross entropy of its target tokens and end marks, each given the true ones before it."""
    features, _ = model.features(batch.target.tokens[:, :-1], model.start(batch.source))
    labels = batch.target.tokens[:, 1:]
    real = labels != pad
    readout = model.readout
    total = linear_cross_entropy(features[real], readout.weight, readout.bias, labels[real], smoothing)
    return Loss(total, int((batch.target.lengths - 1).sum()))


def _width(decoding: Decode) -> int:
    """How many hypotheses of a sentence stand side by side: what a recipe's decoder is set to."""
    return int(getattr(getattr(decoding, "keywords", {}).get("config"), "width", 1))


def _by_length(lengths: torch.Tensor, *, budget: int, most: int) -> list[torch.Tensor]:
    """Row numbers in batches of like length within a budget of padded tokens and of rows, longest first."""
    order = torch.argsort(lengths, descending=True, stable=True)
    batches: list[torch.Tensor] = []
    while len(order):
        rows = min(most, max(1, budget // int(lengths[order[0]])))
        batches.append(order[:rows])
        order = order[rows:]
    return batches


def _chapter(pairs: int, *, epoch: int, seed: int) -> tuple[int, int]:
    """Which pairs an epoch goes through: all, or of a large corpus one of its chapters, each once before any again."""
    chapters = -(-pairs // CHAPTER)
    if chapters <= 1:
        return 0, pairs
    turn, place = divmod(epoch, chapters)
    chapter = int(np.random.default_rng([seed, turn]).permutation(chapters)[place])
    return pairs * chapter // chapters, pairs * (chapter + 1) // chapters


def open_pairs(config: Config) -> dict[str, Pairs]:
    """A config -> the sentence pairs of each split."""
    languages = Languages(config.source, config.target, config.columns)
    return sources.open_pairs(config.path, config.name, languages=languages, count=config.pairs, seed=config.seed)


def build(config: Config, folder: Path | None = None) -> Translation:
    """A config -> the task with a vocabulary made from the training data, or taken from a run folder."""
    if folder is not None:
        return load(config, folder)
    train = open_pairs(config)["train"]
    sides = [_Texts(train, side) for side in ([(0, 1)] if config.joint else [(0,), (1,)])]
    choices: dict[str, Any] = {"level": config.level, "size": config.vocabulary}
    choices |= {"lowercase": config.lowercase, "minimum": config.minimum}
    made = [tokens.train(texts, **choices) for texts in sides]
    return Translation(config, Vocabularies(made[0], made[-1]))


def load(config: Config, folder: Path) -> Translation:
    """A config and a run folder -> the task with the vocabulary of that run; the data is not needed."""
    made = [tokens.load(folder / name) for name in _files(config)]
    return Translation(config, Vocabularies(made[0], made[-1]))


def _files(config: Config) -> list[str]:
    return ["tokenizer.json"] if config.joint else ["tokenizer.source.json", "tokenizer.target.json"]


@dataclass(frozen=True)
class _Texts:
    """One or both sides of the pairs, to be gone through again and again; of a large corpus a sample."""

    pairs: Pairs
    sides: tuple[int, ...]

    def __iter__(self) -> Iterator[str]:
        every = 1 + self.pairs.bytes // SAMPLE
        return (pair[side] for pair in islice(self.pairs, 0, None, every) for side in self.sides)
