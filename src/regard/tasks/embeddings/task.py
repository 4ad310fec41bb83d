"""Embeddings: a vector for every word, learned from the words around it; nearest words and sums of words."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from regard.core.data_specs import EmbeddingSpec, SpecialTokens
from regard.core.errors import ConfigError, DataError, did_you_mean
from regard.core.inference_mode import eval_mode
from regard.core.inspectable import Inspectable
from regard.core.progress import track
from regard.core.protocols import Indices, Loss, TargetMetric
from regard.core.state_tree import map_tensors
from regard.core.task import Prediction, Task
from regard.data.hash_random import uniform
from regard.data.text import plain_text, token_stream, word_vectors
from regard.data.text import tokenizer as tokenizers
from regard.data.text.plain_text import Documents, PlainTextSource
from regard.data.text.token_stream import TokenStream
from regard.data.text.tokenizer import Tokenizer
from regard.data.text.word_vectors import WordVectors
from regard.tasks._shared import data_summary, text_corpus
from regard.tasks.embeddings import inspect
from regard.tasks.embeddings.word_space import Term, WordSpace, analogy, similarity

WORD_PATTERN = re.compile(r"[^\W_]+")
SALTS_PER_POSITION = 2**20  # ways to draw what is left out of one place
NUM_EXAMPLES = 3
PREVIEW_CHARACTERS = 2000  # characters that are looked at for the first words


@dataclass(frozen=True)
class Config:
    """Which text, which words, which neighbours. Without a path, the documentation inside Python."""

    paths: tuple[Path, ...] = ()  # files or folders of text; the text column of a table stands behind a #: x.tsv#4
    dataset: str = plain_text.BUILT_IN  # without paths: python (built in), or tinyshakespeare (a download)
    vocab_size: int = 50_000  # words, at most
    min_frequency: int = 5  # how often a word must be seen
    lowercase: bool = True  # all text is lowercased
    window: int = 5  # neighbours on each side, at most; how many is drawn for every word
    negatives: int = 5  # other words that count against each pair of neighbours
    shared_negatives: int = 16  # other words that are drawn for a row of text, for all its words together
    sample: float = 1e-3  # words more frequent than this are left out the more often the more frequent they are
    length: int = 48  # words of a row, before any is left out
    batch_size: int = 256  # rows in a batch
    eval_tokens: int = 200_000  # words of a split that its loss is computed on, at most

    def __post_init__(self) -> None:
        for name in (
            "vocab_size",
            "min_frequency",
            "window",
            "negatives",
            "shared_negatives",
            "batch_size",
            "eval_tokens",
        ):
            if getattr(self, name) < 1:
                raise ConfigError(f"{name}={getattr(self, name)} must be at least 1")
        if self.length < 2:
            raise ConfigError(f"length={self.length} must be at least 2 words")
        if not self.sample > 0:
            raise ConfigError(f"sample={self.sample} must be more than 0; 1 leaves nothing out")

    @property
    def data_source(self) -> PlainTextSource:
        """Where the text comes from."""
        return PlainTextSource(self.paths, self.dataset)


@dataclass(frozen=True)
class Options:
    """What one can ask for. The input is a word, or a sum of words: king - man + woman."""

    n: int = 10  # how many words, nearest first

    def __post_init__(self) -> None:
        if self.n < 1:
            raise ConfigError(f"n={self.n}: ask for at least one")


class EmbeddingBatch(NamedTuple):
    """Rows of words (r t), how far each looks to both sides (r t; 0: padding), and other words of each row (r k)."""

    tokens: Tensor
    windows: Tensor
    noise_tokens: Tensor


class Embeddings(Task):
    """Words as a task: rows of text, negative sampling, nearest words."""

    target_metric = TargetMetric("loss", higher_is_better=False)
    throughput_unit = "neighbours"

    def __init__(self, config: Config, tokenizer: Tokenizer, *, examples: Sequence[str] = ()) -> None:
        self.config, self.tokenizer, self.special_tokens = config, tokenizer, SpecialTokens()
        self.spec = EmbeddingSpec(tokenizer.vocab_size, self.special_tokens)
        self.examples = tuple(examples)
        self._streams: dict[str, TokenStream] = {}

    def as_test_data(self) -> Embeddings:
        """The same for text that it was not trained on."""
        other = Embeddings(self.config, self.tokenizer, examples=self.examples)
        other.test_only = True
        return other

    def token_texts(self, table: str = "") -> list[str]:
        """The word of each number; none for marks."""
        return self.tokenizer.token_texts()

    def stream(self, split: str) -> TokenStream:
        """The words of a split in a row; read when first asked for."""
        if split not in self._streams:
            splits = plain_text.open_text(self.config.data_source, test_only=self.test_only)
            if split not in splits:
                raise DataError(f"the text has no split {split!r}; {did_you_mean(split, splits)}")
            found = token_stream.encode_in_memory(_spaced(splits[split]), self.tokenizer)
            if len(found.tokens) < self.config.length:
                count = f"{len(found.tokens)} words in the split {split!r}"
                raise DataError(
                    f"{splits[split].where}: {count}, fewer than data.length={self.config.length}; give more"
                )
            self._streams[split] = found
        return self._streams[split]

    @cached_property
    def _counts(self) -> NDArray[np.int64]:
        return np.bincount(self.stream("train").tokens, minlength=self.tokenizer.vocab_size).astype(np.int64)

    @cached_property
    def _kept(self) -> NDArray[np.float64]:
        """How likely each word is kept; marks never are."""
        share = self._counts / max(1, self._counts[self.special_tokens.first_regular_id :].sum())
        ratio = self.config.sample / np.maximum(share, 1e-12)
        kept = np.minimum(1.0, np.sqrt(ratio) + ratio)
        kept[: self.special_tokens.first_regular_id] = 0.0
        return np.asarray(kept)

    @cached_property
    def _noise(self) -> NDArray[np.float64]:
        """Cumulative shares from which other words are drawn: frequency to the power of 3/4."""
        weights = self._counts.astype(np.float64) ** 0.75
        weights[: self.special_tokens.first_regular_id] = 0.0
        return np.asarray(np.cumsum(weights)[:-1] / weights.sum())  # no draw is beyond the last word

    def epoch_batches(self, epoch: int, seed: int) -> list[Indices]:
        """The epoch's batches of rows, each a place and a number that all draws follow from."""
        config, length = self.config, len(self.stream("train").tokens)
        batches = token_stream.epoch_batches(
            length, context=config.length, batch_size=config.batch_size, seed=seed, epoch=epoch
        )
        random = np.random.default_rng([seed, epoch, 1])
        return [places * SALTS_PER_POSITION + random.integers(1, SALTS_PER_POSITION, len(places)) for places in batches]

    def collate(self, examples: Indices) -> EmbeddingBatch:
        """Example numbers -> rows of words, frequent ones thinned out, with reaches and other words drawn."""
        return self._batch(self.stream("train"), examples)

    def _batch(self, text: TokenStream, examples: Indices) -> EmbeddingBatch:
        length, window = self.config.length, self.config.window
        draws = uniform(examples, 2 * length + self.config.shared_negatives)  # each example's from its own number
        rows = text.tokens[(examples // SALTS_PER_POSITION)[:, None] + np.arange(length)].astype(np.int64)
        kept = draws[:, :length] < self._kept[rows]
        reach = np.where(kept, 1 + (draws[:, length : 2 * length] * window).astype(np.int64), 0)
        others = np.searchsorted(self._noise, draws[:, 2 * length :], side="right")
        order = np.argsort(~kept, axis=1, kind="stable")[:, : max(1, int(kept.sum(axis=1).max()))]
        rows = np.where(kept, rows, self.special_tokens.pad)
        parts = (*(np.take_along_axis(part, order, axis=1) for part in (rows, reach)), others)
        return EmbeddingBatch(*map(torch.from_numpy, parts))

    def loss(self, model: Any, batch: EmbeddingBatch) -> Loss:
        """Negative sampling, summed over all pairs of neighbours."""
        total, pairs = model.loss(*batch, negatives=self.config.negatives)
        return Loss(total, max(1, pairs))

    def evaluate(self, model: Any, split: str, decoding: Any) -> dict[str, float]:
        """The loss per pair of neighbours of a split, and agreement with the built-in lists where they are covered."""
        text, total, pairs = self.stream(split), 0.0, 0
        places = np.arange(
            0, min(len(text.tokens), self.config.eval_tokens) - self.config.length + 1, self.config.length
        )
        with eval_mode(model) as device:
            for low in track(
                range(0, len(places), self.config.batch_size), total=-(-len(places) // self.config.batch_size)
            ):
                batch = self._batch(text, places[low : low + self.config.batch_size] * SALTS_PER_POSITION)
                part, count = model.loss(*map_tensors(batch, lambda x: x.to(device)), negatives=self.config.negatives)
                total, pairs = total + float(part), pairs + count
        space = self.word_space(model)
        return {"loss": total / max(1, pairs)} | similarity(space) | analogy(space)

    def signatures(self) -> dict[str, str]:
        """How each score is computed, for others to repeat it."""
        near = f"window {self.config.window}, {self.config.negatives} negatives, the same draws every time"
        first = f"first {self.config.eval_tokens} words of the split"
        return {
            "loss": f"negative sampling per pair of neighbours, {near}, {first}",
            "similarity": "Spearman's rank correlation of cosines with regard's own list of alike words, covered pairs",
            "similarity_covered": "share of that list whose words both have vectors",
            "analogy": "share of regard's own analogies a : b = c : d whose d is nearest to b - a + c (3CosAdd)",
            "analogy_covered": "share of those analogies whose words all have vectors",
        }

    def fingerprint(self) -> dict[str, str]:
        """A checksum of each split."""
        return {split: text.checksum() for split, text in plain_text.open_text(self.config.data_source).items()}

    def data_summary(self) -> list[str]:
        """How much text there is, how many words have a vector, and how it begins."""
        splits = {
            split: len(self.stream(split).tokens) for split in ("train", *plain_text.open_text(self.config.data_source))
        }
        words, different = len(self.stream("train").tokens), self.spec.vocab_size - self.special_tokens.first_regular_id
        rare = self._counts[self.special_tokens.unk] / words
        few = f"{rare:.1%} are too rare for a vector (data.min_frequency={self.config.min_frequency})"
        begin = " ".join(
            next(iter(plain_text.open_text(self.config.data_source)["train"]))[:PREVIEW_CHARACTERS].split()
        )  # rare words too
        counts = data_summary.format_counts(
            "words", splits, data_summary.format_vocabulary(different, "different words"), few
        )
        return [counts, data_summary.format_first_example("words", f"{begin} …")]

    def word_space(self, model: Any) -> WordSpace:
        """The words and their vectors as the model has them now."""
        first = self.special_tokens.first_regular_id
        return WordSpace(self.token_texts()[first:], model.vectors.weight.detach().float().cpu().numpy()[first:])

    def save(self, folder: Path) -> None:
        """Write the words and the examples."""
        text_corpus.save(folder, self.tokenizer, self.examples)

    def predict(self, model: Any, inputs: Sequence[str], options: Options, decoding: Any) -> list[list[Prediction]]:
        """Words or sums of words -> for each the nearest words; a file of an answer is a file of all vectors."""
        space = self.word_space(model)
        known = WordVectors(
            space.words, model.vectors.weight.detach().float().cpu().numpy()[self.special_tokens.first_regular_id :]
        )
        files = {".vec": partial(word_vectors.to_text, known), ".bin": partial(word_vectors.to_binary, known)}
        return [
            [Prediction(near.word, near.cosine, near.cosine, files=files) for near in space.nearest(terms, options.n)]
            for terms in (self._terms(space, text) for text in inputs)
        ]

    def _terms(self, space: WordSpace, text: str) -> list[Term]:
        return space.parse_terms(text, lowercase=self.config.lowercase)

    def inspect(self, model: Any, parsed_input: str, options: Options, decoding: Any) -> Inspectable:
        """A word or a sum of words -> the nearest words, and where they lie among the most frequent ones."""
        space = self.word_space(model)
        return inspect.build_inspectable(
            model,
            space,
            parsed_input,
            self._terms(space, parsed_input),
            count=options.n,
            first_id=self.special_tokens.first_regular_id,
        )


def _spaced(documents: Documents) -> Iterator[str]:
    """Texts with nothing but words and single spaces, so that a word is the same token wherever it stands."""
    return (" ".join(WORD_PATTERN.findall(text)) for text in documents)


@dataclass(frozen=True)
class _Spaced:
    """The same, to be gone through again and again."""

    documents: Documents

    def __iter__(self) -> Iterator[str]:
        return _spaced(self.documents)


def build(config: Config, folder: Path | None = None) -> Embeddings:
    """A config -> the task with the words of the training text, or those of a run folder."""
    if folder is not None:
        return load(config, folder)
    texts = _Spaced(plain_text.open_text(config.data_source)["train"])
    size = config.vocab_size + SpecialTokens().first_regular_id
    tokenizer = tokenizers.train(
        texts, level="word", size=size, lowercase=config.lowercase, minimum=config.min_frequency
    )
    if tokenizer.vocab_size == SpecialTokens().first_regular_id:
        raise DataError(
            f"no word of the text is seen {config.min_frequency} times; give more text or a smaller data.min_frequency"
        )
    task = Embeddings(config, tokenizer)
    frequent = [word for word in task.token_texts() if len(word) >= 4 and word.isalpha()]
    return Embeddings(config, tokenizer, examples=frequent[20 : 20 + NUM_EXAMPLES] or frequent[:NUM_EXAMPLES])


def load(config: Config, folder: Path) -> Embeddings:
    """A config and a run folder -> the task with the words of that run; the text is not needed."""
    return Embeddings(
        config, tokenizers.load(folder / text_corpus.TOKENIZER), examples=text_corpus.read_examples(folder)
    )
