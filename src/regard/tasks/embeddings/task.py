"""Word embeddings by skip-gram with negative sampling: rows of words, loss, nearest words and analogies."""

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

from regard.core.config import check_fields
from regard.core.data_specs import EmbeddingSpec, SpecialTokens
from regard.core.errors import ConfigError, DataError, did_you_mean
from regard.core.example_statistics import record_mean
from regard.core.inference_mode import eval_mode
from regard.core.inspectable import Inspectable
from regard.core.progress import track
from regard.core.protocols import Indices, Loss, TargetMetric
from regard.core.state_tree import map_tensors
from regard.core.task import Prediction, Task
from regard.data.counter_rng import uniform
from regard.data.text import plain_text, token_stream, word_vectors
from regard.data.text import tokenizer as tokenizers
from regard.data.text.plain_text import Documents, PlainTextSource
from regard.data.text.token_stream import TokenStream
from regard.data.text.tokenizer import Tokenizer
from regard.data.text.word_vectors import WordVectors
from regard.tasks._shared import data_summary, text_corpus
from regard.tasks.embeddings import inspect
from regard.tasks.embeddings.metrics import analogy, similarity
from regard.tasks.embeddings.word_space import EmbeddingModel, Term, WordSpace

WORD_PATTERN = re.compile(r"[^\W_]+")
SALTS_PER_POSITION = 2**20  # different random draws for the row at one position
NUM_EXAMPLES = 3
PREVIEW_CHARACTERS = 2000  # characters of the text that the data summary quotes from


@dataclass(frozen=True)
class Config:
    """Text source, vocabulary and neighbours. Without a path, the documentation inside Python is used."""

    paths: tuple[Path, ...] = ()  # files or folders of text; the text column of a table follows a #: x.tsv#4
    dataset: str = plain_text.BUILT_IN  # without paths: python (built in), or tinyshakespeare (a download)
    vocab_size: int = 50_000  # maximum number of words
    min_frequency: int = 5  # minimum count of a word in the training text
    lowercase: bool = True  # lowercase all text
    window: int = 5  # maximum number of neighbours on each side; sampled for every word
    negatives: int = 5  # weight of the noise words: negatives per pair of neighbours
    shared_negatives: int = 16  # noise words sampled per row, shared by all its words
    sample: float = 1e-3  # subsampling threshold: words more frequent than this are dropped at random
    length: int = 48  # words of a row before subsampling
    batch_size: int = 256  # rows in a batch
    eval_tokens: int = 200_000  # maximum number of words of a split that are scored

    def __post_init__(self) -> None:
        sizes = ("vocab_size", "min_frequency", "window", "negatives", "shared_negatives", "batch_size", "eval_tokens")
        check_fields(self, at_least_1=sizes)
        if self.length < 2:
            raise ConfigError(f"length={self.length} must be at least 2 words")
        if not self.sample > 0:
            raise ConfigError(f"sample={self.sample} must be greater than 0; 1 keeps all words")

    @property
    def data_source(self) -> PlainTextSource:
        """The source of the text."""
        return PlainTextSource(self.paths, self.dataset)


@dataclass(frozen=True)
class Options:
    """Options of a request. The input is a word, or a sum of words: king - man + woman."""

    n: int = 10  # number of words, nearest first

    def __post_init__(self) -> None:
        check_fields(self, at_least_1=("n",))


class EmbeddingBatch(NamedTuple):
    """Rows of words, their windows and noise words."""

    tokens: Tensor  # (r t)
    windows: Tensor  # (r t) neighbours on each side; 0: padding
    noise_tokens: Tensor  # (r k)


class Embeddings(Task):
    """Word embedding task: rows of text, negative sampling, nearest words."""

    spec: EmbeddingSpec
    target_metric = TargetMetric("loss", higher_is_better=False)
    throughput_unit = "neighbours"

    def __init__(self, config: Config, tokenizer: Tokenizer, *, examples: Sequence[str] = ()) -> None:
        self.config, self.tokenizer, self.special_tokens = config, tokenizer, SpecialTokens()
        self.spec = EmbeddingSpec(tokenizer.vocab_size, self.special_tokens)
        self.examples = tuple(examples)
        self._streams: dict[str, TokenStream] = {}

    def as_test_data(self) -> Embeddings:
        task = Embeddings(self.config, self.tokenizer, examples=self.examples)
        task.test_only = True
        return task

    def token_texts(self, table: str = "") -> list[str]:
        return self.tokenizer.token_texts()

    def stream(self, split: str) -> TokenStream:
        """Return the words of a split; the text is read on first use."""
        if split not in self._streams:
            splits = plain_text.open_text(self.config.data_source, test_only=self.test_only)
            if split not in splits:
                raise DataError(f"the text has no split {split!r}; {did_you_mean(split, splits)}")
            stream = token_stream.encode_in_memory(_WordTexts(splits[split]), self.tokenizer)
            if len(stream.tokens) < self.config.length:
                count = f"{len(stream.tokens)} words in the split {split!r}"
                raise DataError(
                    f"{splits[split].where}: {count}, fewer than data.length={self.config.length}; give more"
                )
            self._streams[split] = stream
        return self._streams[split]

    @cached_property
    def _counts(self) -> NDArray[np.int64]:
        return np.bincount(self.stream("train").tokens, minlength=self.tokenizer.vocab_size).astype(np.int64)

    @cached_property
    def _keep_probabilities(self) -> NDArray[np.float64]:
        """The probability with which subsampling keeps each token; 0 for special tokens."""
        share = self._counts / max(1, self._counts[self.special_tokens.first_regular_id :].sum())
        ratio = self.config.sample / np.maximum(share, 1e-12)
        probabilities = np.minimum(1.0, np.sqrt(ratio) + ratio)
        probabilities[: self.special_tokens.first_regular_id] = 0.0
        return np.asarray(probabilities)

    @cached_property
    def _noise_cdf(self) -> NDArray[np.float64]:
        """Cumulative distribution of the noise words: frequency to the power of 3/4."""
        weights = self._counts.astype(np.float64) ** 0.75
        weights[: self.special_tokens.first_regular_id] = 0.0
        return np.asarray(np.cumsum(weights)[:-1] / weights.sum())  # no sample is beyond the last word

    def epoch_batches(self, epoch: int, seed: int) -> list[Indices]:
        """Return the epoch's batches of rows; an example id combines a position and a salt for the random draws."""
        config, length = self.config, len(self.stream("train").tokens)
        batches = token_stream.epoch_batches(
            length, context=config.length, batch_size=config.batch_size, seed=seed, epoch=epoch
        )
        random = np.random.default_rng([seed, epoch, 1])
        return [
            positions * SALTS_PER_POSITION + random.integers(1, SALTS_PER_POSITION, len(positions))
            for positions in batches
        ]

    def collate(self, examples: Indices) -> EmbeddingBatch:
        """Example ids -> rows of words after subsampling, with sampled windows and noise words."""
        return self._batch(self.stream("train"), examples)

    def _batch(self, text: TokenStream, examples: Indices) -> EmbeddingBatch:
        length, window = self.config.length, self.config.window
        draws = uniform(examples, 2 * length + self.config.shared_negatives)  # seeded by each example id
        rows = text.tokens[(examples // SALTS_PER_POSITION)[:, None] + np.arange(length)].astype(np.int64)
        is_kept = draws[:, :length] < self._keep_probabilities[rows]
        windows = np.where(is_kept, 1 + (draws[:, length : 2 * length] * window).astype(np.int64), 0)
        noise = np.searchsorted(self._noise_cdf, draws[:, 2 * length :], side="right")
        order = np.argsort(~is_kept, axis=1, kind="stable")[:, : max(1, int(is_kept.sum(axis=1).max()))]
        rows = np.where(is_kept, rows, self.special_tokens.pad)
        parts = (*(np.take_along_axis(part, order, axis=1) for part in (rows, windows)), noise)
        return EmbeddingBatch(*map(torch.from_numpy, parts))

    def loss(self, model: EmbeddingModel, batch: EmbeddingBatch) -> Loss:
        """Return the negative sampling loss, summed over all pairs of neighbours."""
        total, num_pairs = model.loss(*batch, negatives_per_pair=self.config.negatives)
        return Loss(total, max(1, num_pairs))

    def evaluate(self, model: EmbeddingModel, split: str, decoding: Any) -> dict[str, float]:
        """Return the loss per pair of neighbours, and scores on the built-in word lists if their words are known."""
        text, total, num_pairs = self.stream(split), 0.0, 0
        batch_losses: list[tuple[float, int]] = []
        num_tokens, batch_size = min(len(text.tokens), self.config.eval_tokens), self.config.batch_size
        positions = np.arange(0, num_tokens - self.config.length + 1, self.config.length)
        with eval_mode(model) as device:
            for low in track(range(0, len(positions), batch_size), total=-(-len(positions) // batch_size)):
                batch = self._batch(text, positions[low : low + batch_size] * SALTS_PER_POSITION)
                batch = map_tensors(batch, lambda x: x.to(device))
                loss, count = model.loss(*batch, negatives_per_pair=self.config.negatives)
                total, num_pairs = total + float(loss), num_pairs + count
                batch_losses.append((float(loss), count))
        if num_pairs:
            losses, counts = zip(*batch_losses, strict=True)
            record_mean("loss", losses, weights=counts, num_examples=num_pairs)
        space = self.word_space(model)
        return {"loss": total / max(1, num_pairs)} | similarity(space) | analogy(space)

    def signatures(self) -> dict[str, str]:
        sampling = f"window {self.config.window}, {self.config.negatives} negatives, the same samples every time"
        first = f"first {self.config.eval_tokens} words of the split"
        return {
            "loss": f"negative sampling per pair of neighbours, {sampling}, {first}",
            "similarity": "Spearman's rank correlation of cosines with regard's own list of similar words",
            "similarity_covered": "share of that list whose words both have a vector",
            "analogy": "share of regard's own analogies a : b = c : d whose d is nearest to b - a + c (3CosAdd)",
            "analogy_covered": "share of those analogies whose words all have a vector",
        }

    def fingerprint(self) -> dict[str, str]:
        return {split: text.checksum() for split, text in plain_text.open_text(self.config.data_source).items()}

    def data_summary(self) -> list[str]:
        documents = plain_text.open_text(self.config.data_source)
        splits = {split: len(self.stream(split).tokens) for split in ("train", *documents)}
        num_words = self.spec.vocab_size - self.special_tokens.first_regular_id
        rare = self._counts[self.special_tokens.unk] / len(self.stream("train").tokens)
        rare_words = f"{rare:.1%} are too rare for a vector (data.min_frequency={self.config.min_frequency})"
        preview = " ".join(next(iter(documents["train"]))[:PREVIEW_CHARACTERS].split())  # with rare words
        vocabulary = data_summary.format_vocabulary(num_words, "different words")
        counts = data_summary.format_counts("words", splits, vocabulary, rare_words)
        remarks = dict.fromkeys(remark for part in documents.values() for remark in part.remarks)
        return [counts, data_summary.format_first_example("words", f"{preview} …"), *remarks]

    def word_space(self, model: EmbeddingModel) -> WordSpace:
        """Return the words and the model's current vectors."""
        return WordSpace(self.token_texts()[self.special_tokens.first_regular_id :], self._vectors(model))

    def _vectors(self, model: EmbeddingModel) -> NDArray[np.float32]:
        """Return the vectors (n d) of the words, without those of special tokens."""
        vectors: NDArray[np.float32] = model.vectors.weight.detach().float().cpu().numpy()
        return vectors[self.special_tokens.first_regular_id :]

    def save(self, folder: Path) -> None:
        """Write the words and the examples."""
        text_corpus.save(folder, self.tokenizer, self.examples)

    def predict(
        self, model: EmbeddingModel, inputs: Sequence[str], options: Options, decoding: Any
    ) -> list[list[Prediction]]:
        """Words or sums of words -> the nearest words; saving a prediction writes the vectors of all words."""
        space = self.word_space(model)
        vectors = WordVectors(space.words, self._vectors(model))
        files = {".vec": partial(word_vectors.to_text, vectors), ".bin": partial(word_vectors.to_binary, vectors)}
        return [
            [
                Prediction(near.word, ranking_score=near.cosine, files=files, data={"cosine": near.cosine})
                for near in space.nearest(terms, options.n)
            ]
            for terms in (self._terms(space, text) for text in inputs)
        ]

    def _terms(self, space: WordSpace, text: str) -> list[Term]:
        return space.parse_terms(text, lowercase=self.config.lowercase)

    def inspect(self, model: EmbeddingModel, parsed_input: str, options: Options, decoding: Any) -> Inspectable:
        space = self.word_space(model)
        return inspect.build_inspectable(
            model,
            space,
            parsed_input,
            self._terms(space, parsed_input),
            count=options.n,
            first_id=self.special_tokens.first_regular_id,
        )


@dataclass(frozen=True)
class _WordTexts:
    """Texts reduced to words and single spaces, so that a word is the same token at every position."""

    documents: Documents

    def __iter__(self) -> Iterator[str]:
        return (" ".join(WORD_PATTERN.findall(text)) for text in self.documents)


def build(config: Config, folder: Path | None = None) -> Embeddings:
    """Return the task with the words of the training text, or those of a run folder."""
    if folder is not None:
        return load(config, folder)
    texts = _WordTexts(plain_text.open_text(config.data_source)["train"])
    size = config.vocab_size + SpecialTokens().first_regular_id
    tokenizer = tokenizers.train(
        texts, level="word", size=size, lowercase=config.lowercase, minimum=config.min_frequency
    )
    if tokenizer.vocab_size == SpecialTokens().first_regular_id:
        raise DataError(
            f"no word occurs {config.min_frequency} times in the text; give more text or a smaller data.min_frequency"
        )
    task = Embeddings(config, tokenizer)
    frequent = [word for word in task.token_texts() if len(word) >= 4 and word.isalpha()]
    return Embeddings(config, tokenizer, examples=frequent[20 : 20 + NUM_EXAMPLES] or frequent[:NUM_EXAMPLES])


def load(config: Config, folder: Path) -> Embeddings:
    """Return the task with the words of a run folder; the text is not needed."""
    return Embeddings(
        config, tokenizers.load(folder / text_corpus.TOKENIZER), examples=text_corpus.read_examples(folder)
    )
