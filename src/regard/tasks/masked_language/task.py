"""Masked language: words are covered and foretold from both sides. The pretraining of BERT, RoBERTa, ALBERT, XLNet."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Literal, NamedTuple

import torch
from torch import Tensor

from regard.core.data_specs import MaskedLMSpec
from regard.core.errors import ConfigError, DataError
from regard.core.inference_mode import eval_mode
from regard.core.inspectable import Inspectable
from regard.core.progress import track
from regard.core.protocols import Indices, Loss, TargetMetric
from regard.core.protocols.masked_lm import MaskedBatch, MaskedLM
from regard.core.state_tree import map_tensors
from regard.core.task import Prediction, Task
from regard.data.text import masking, plain_text
from regard.data.text import tokenizer as tokenizers
from regard.data.text.masking import MaskedText
from regard.data.text.plain_text import PlainTextSource
from regard.data.text.tokenizer import Tokenizer
from regard.tasks._shared import text_corpus
from regard.tasks._shared.text_corpus import Corpus, Level
from regard.tasks.masked_language import fill
from regard.tasks.masked_language.masked_rows import MaskedRows, MaskedRowSpec


@dataclass(frozen=True)
class Config:
    """Which text, which tokens, which gaps. Without a path, the documentation inside Python."""

    paths: tuple[Path, ...] = ()  # files or folders of text; the text column of a table stands behind a #: x.tsv#4
    dataset: str = plain_text.BUILT_IN  # without paths: python (built in), or tinyshakespeare (a download)
    tokenizer: Level = "bpe"  # what a token is: char, word, a subword (bpe, unigram) or a subword of bytes (bytes)
    vocab_size: int = 8000  # tokens, at most; the mask mark comes on top
    lowercase: bool = False  # all text is lowercased
    min_frequency: int = 1  # how often a token must be seen
    context: int = 128  # tokens that the model sees at once, marks included
    batch_size: int = 32  # texts in a batch
    mask_prob: float = 0.15  # of the tokens that are foretold
    whole_words: bool = False  # all tokens of a word are covered together
    sentence_pairs: Literal["none", "next", "order"] = (
        "none"  # two texts a row: is the second the next one, is the order right?
    )
    eval_tokens: int = 200_000  # tokens of a split that are read for its score, at most
    max_memory_mb: int = 256  # megabytes of text; the tokens of more are mapped from files in the cache folder

    def __post_init__(self) -> None:
        for name in ("vocab_size", "min_frequency", "batch_size", "eval_tokens"):
            if getattr(self, name) < 1:
                raise ConfigError(f"{name}={getattr(self, name)} must be at least 1")
        if self.context < 8:
            raise ConfigError(f"context={self.context} must be at least 8 tokens")
        if not 0 < self.mask_prob < 1:
            raise ConfigError(f"share={self.mask_prob} must lie between 0 and 1")

    @property
    def data_source(self) -> PlainTextSource:
        """Where the text comes from."""
        return PlainTextSource(self.paths, self.dataset)


@dataclass(frozen=True)
class Options:
    """What one can ask for. The text has [MASK] where a word is to be found."""

    n: int = 5  # how many ways to fill the gaps, likeliest first

    def __post_init__(self) -> None:
        if self.n < 1:
            raise ConfigError(f"n={self.n}: ask for at least one")


class PretrainingBatch(NamedTuple):
    """Texts with gaps, and whether the second text of each follows the first (b); without pairs (0)."""

    masked: MaskedBatch
    is_next: Tensor


class MaskedLanguage(Task):
    """Plain text as a task: gaps, loss, nats for each gap, gaps filled."""

    target_metric = TargetMetric("nats", higher_is_better=False)
    throughput_unit, input_suffixes = "gaps", ()

    def __init__(self, config: Config, tokenizer: Tokenizer, *, examples: Sequence[str] = ()) -> None:
        self.config, self.tokenizer = config, tokenizer
        self.corpus = Corpus(config.data_source, tokenizer, max_memory_mb=config.max_memory_mb)
        self.special_tokens = masking.special_tokens_of(tokenizer)
        self.spec = MaskedLMSpec(
            tokenizer.vocab_size, config.context, self.special_tokens, has_pairs=config.sentence_pairs != "none"
        )
        self.examples = tuple(examples)

    def masked_rows(self, split: str) -> MaskedRows:
        """The text of a split as rows with gaps."""
        text = self.corpus.training_stream(self.config.context) if split == "train" else self.corpus.stream(split)
        return MaskedRows(text, self._shape, self._words)

    @cached_property
    def _training(self) -> MaskedRows:
        return self.masked_rows("train")

    @cached_property
    def _words(self) -> masking.WordBoundaries:
        return masking.WordBoundaries(self.tokenizer)

    @property
    def _shape(self) -> MaskedRowSpec:
        config = self.config
        return MaskedRowSpec(
            config.context,
            config.mask_prob,
            self.spec.vocab_size,
            self.special_tokens,
            config.whole_words,
            config.sentence_pairs,
        )

    def as_test_data(self) -> MaskedLanguage:
        """The same for text that it was not trained on."""
        other = MaskedLanguage(self.config, self.tokenizer, examples=self.examples)
        other.corpus = self.corpus.as_test_data()
        return other

    def epoch_batches(self, epoch: int, seed: int) -> list[Indices]:
        """The epoch's batches of texts, each a place and a number that its gaps follow from."""
        return self._training.epoch_batches(self.config.batch_size, seed=seed, epoch=epoch)

    def collate(self, examples: Indices) -> PretrainingBatch:
        """Example numbers -> texts with gaps, chosen anew in every epoch."""
        return PretrainingBatch(*self._training.collate(examples))

    def loss(self, model: MaskedLM, batch: PretrainingBatch) -> Loss:
        """Cross entropy summed over the gaps; with pairs, their mean cross entropy beside it as a part of its own."""
        foretold, gaps = model(batch.masked), batch.masked
        labels = gaps.tokens[gaps.prediction_mask]
        total = model.readout.loss(foretold.features, labels)
        if model.pairs is None or foretold.cls_features is None:
            return Loss(total, len(labels))
        pairs = model.pairs.loss(foretold.cls_features, batch.is_next) * (len(labels) / len(batch.is_next))
        return Loss(total + pairs, len(labels), {"gaps": total.detach(), "pairs": pairs.detach()})

    def evaluate(self, model: MaskedLM, split: str, decoding: Any) -> dict[str, float]:
        """`nats` of each gap of a split and the share that is guessed right; of pairs the share told right."""
        rows, total, right, count = self.masked_rows(split), 0.0, 0, 0
        told: list[bool] = []
        with eval_mode(model) as device:
            batches = rows.sequential_batches(self.config.batch_size, max_tokens=self.config.eval_tokens)
            for examples in track(batches, total=len(batches)):
                gaps, follows = map_tensors(rows.collate(examples), lambda x: x.to(device))
                foretold = model(gaps)
                logits, labels = model.readout(foretold.features).float(), gaps.tokens[gaps.prediction_mask]
                total += float(torch.nn.functional.cross_entropy(logits, labels, reduction="sum"))
                right, count = right + int((logits.argmax(dim=-1) == labels).sum()), count + len(labels)
                if model.pairs is not None and foretold.cls_features is not None and len(follows):
                    told += (model.pairs(foretold.cls_features).argmax(dim=-1) == follows).tolist()
        if not count:
            raise DataError(f"the split {split!r} is shorter than data.context={self.config.context}; give more text")
        scores = {"nats": total / count, "accuracy": right / count}
        return scores | ({"pairs_accuracy": sum(told) / len(told)} if told else {})

    def signatures(self) -> dict[str, str]:
        """How each score is computed, for others to repeat it."""
        unit = "words" if self.config.whole_words else "tokens"
        gaps = (
            f"{self.config.mask_prob:.0%} of the {unit} of texts of {self.config.context} tokens, the same every time"
        )
        covered = (
            "80 % of them covered by the mask mark, 10 % replaced, 10 % left (models with turns: see none of them)"
        )
        return {
            "nats": f"mean -log p per gap; {gaps}; {covered}; the first {self.config.eval_tokens} tokens of the split",
            "accuracy": "share of the gaps whose likeliest token is the true one",
            "pairs_accuracy": f"share of pairs ({self.config.sentence_pairs}) told right; half of them do not follow",
        }

    def data_summary(self) -> list[str]:
        """How much text there is."""
        return self.corpus.data_summary(self.config.context)

    def fingerprint(self) -> dict[str, str]:
        """A checksum of each split."""
        return self.corpus.fingerprint()

    def token_texts(self, table: str = "") -> list[str]:
        """The text of each token number; none for marks."""
        return self.corpus.token_texts()

    def save(self, folder: Path) -> None:
        """Write the tokenizer, the mask mark in it, and the examples."""
        text_corpus.save(folder, self.tokenizer, self.examples)

    def parse_input(self, text: str) -> MaskedText:
        """A text with [MASK] in it; without one, or longer than the model sees, an error."""
        gapped = masking.parse_masked_text(text, self.tokenizer)
        if len(gapped.tokens) + 2 > self.spec.max_length:
            count = f"{len(gapped.tokens) + 2} tokens with its marks"
            raise DataError(f"the text has {count}, but the model sees at most {self.spec.max_length}; shorten it")
        return gapped

    def predict(
        self, model: MaskedLM, inputs: Sequence[MaskedText], options: Options, decoding: Any
    ) -> list[list[Prediction]]:
        """Texts with gaps -> for each the likeliest ways to fill them all; `value` has the candidates of each gap."""
        with eval_mode(model) as device:
            groups = [inputs[i : i + self.config.batch_size] for i in range(0, len(inputs), self.config.batch_size)]
            return [
                fill.to_predictions(text, scores, options.n, self.tokenizer)
                for group in groups
                for text, scores in zip(group, fill.predict_masks(model, group, self.tokenizer, device), strict=True)
            ]

    def inspect(self, model: MaskedLM, parsed_input: MaskedText, options: Options, decoding: Any) -> Inspectable:
        """A text with gaps -> the words that might stand there, and what the model looked at to find them."""
        with eval_mode(model) as device:
            return fill.build_inspectable(model, parsed_input, options.n, tokenizer=self.tokenizer, device=device)


def build(config: Config, folder: Path | None = None) -> MaskedLanguage:
    """A config -> the task with a vocabulary made from the training text, or taken from a run folder."""
    if folder is not None:
        return load(config, folder)
    plain_tokenizer = text_corpus.build_tokenizer(
        config.data_source,
        config.tokenizer,
        config.vocab_size,
        lowercase=config.lowercase,
        min_frequency=config.min_frequency,
    )
    tokenizer = masking.with_mask(plain_tokenizer)
    documents = MaskedLanguage(config, tokenizer).corpus.documents("valid")
    return MaskedLanguage(config, tokenizer, examples=_with_gap(text_corpus.example_prompts(documents, num_words=9)))


def load(config: Config, folder: Path) -> MaskedLanguage:
    """A config and a run folder -> the task with the vocabulary of that run; the text is not needed."""
    tokenizer = masking.with_mask(tokenizers.load(folder / text_corpus.TOKENIZER))
    examples = [text for text in text_corpus.read_examples(folder) if masking.MASK_PATTERN.search(text)]
    return MaskedLanguage(config, tokenizer, examples=examples)


def _with_gap(texts: Sequence[str]) -> list[str]:
    """The longest inner word of each text left out."""
    gapped = []
    for text in texts:
        words = text.split()
        place = max(range(1, len(words) - 1), key=lambda i: sum(map(str.isalpha, words[i])))
        gapped.append(" ".join([*words[:place], "[MASK]", *words[place + 1 :]]))
    return gapped
