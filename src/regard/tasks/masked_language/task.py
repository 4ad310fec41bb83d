"""Masked language modeling on plain text: batches of masked rows, cross entropy, mask filling."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Literal, NamedTuple

import torch
from torch import Tensor

from regard.core.config import check_fields
from regard.core.data_specs import MaskedLMSpec
from regard.core.errors import ConfigError, DataError
from regard.core.example_statistics import record_mean
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
from regard.tasks._shared.text_vectors import vector_prediction
from regard.tasks.masked_language import fill, inspect
from regard.tasks.masked_language.masked_rows import MaskedRows, MaskedRowSpec


@dataclass(frozen=True)
class Config:
    """Text source, tokenizer and masking. Without a path, the documentation inside Python is used."""

    paths: tuple[Path, ...] = ()  # files or folders of text; the text column of a table follows a #: x.tsv#4
    dataset: str = plain_text.BUILT_IN  # without paths: python (built in), or tinyshakespeare (a download)
    tokenizer: Level = "bpe"  # token unit: char, word, a subword (bpe, unigram) or a subword of bytes (bytes)
    vocab_size: int = 8000  # maximum number of tokens, without the mask token
    lowercase: bool = False  # lowercase all text
    min_frequency: int = 1  # minimum count of a token in the training text
    context: int = 128  # context length in tokens, special tokens included
    batch_size: int = 32  # texts in a batch
    mask_prob: float = 0.15  # share of tokens that are predicted
    whole_words: bool = False  # mask all tokens of a word together
    sentence_pairs: Literal["none", "next", "order"] = (
        "none"  # two texts per row; predict whether the second is the next one, or whether the order is right
    )
    eval_tokens: int = 200_000  # maximum number of tokens of a split that are scored
    max_memory_mb: int = 256  # megabytes of text; the tokens of more are mapped from files in the cache folder

    def __post_init__(self) -> None:
        check_fields(self, at_least_1=("vocab_size", "min_frequency", "batch_size", "eval_tokens"))
        if self.context < 8:
            raise ConfigError(f"context={self.context} must be at least 8 tokens")
        if not 0 < self.mask_prob < 1:
            raise ConfigError(f"mask_prob={self.mask_prob} must be between 0 and 1")

    @property
    def data_source(self) -> PlainTextSource:
        """The source of the text."""
        return PlainTextSource(self.paths, self.dataset)


@dataclass(frozen=True)
class Options:
    """Options of a request. The text has [MASK] in place of each word to predict."""

    n: int = 5  # number of ways to fill the masks, most likely first
    embed: bool = False  # return the mean of the features of the text's tokens as a vector; fill no masks

    def __post_init__(self) -> None:
        check_fields(self, at_least_1=("n",))


class PretrainingBatch(NamedTuple):
    """Masked texts, and the labels of sentence pairs."""

    masked: MaskedBatch
    is_next: Tensor  # (b) 1 if the second text follows the first; (0) without pairs


class MaskedLanguage(Task):
    """Masked language modeling task: masked rows of plain text, cross entropy, nats per masked token, mask filling."""

    spec: MaskedLMSpec
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
        """Return the text of a split as masked rows."""
        text = self.corpus.training_stream(self.config.context) if split == "train" else self.corpus.stream(split)
        return MaskedRows(text, self._row_spec, self._words)

    @cached_property
    def _training_rows(self) -> MaskedRows:
        return self.masked_rows("train")

    @cached_property
    def _words(self) -> masking.WordBoundaries:
        return masking.WordBoundaries(self.tokenizer)

    @property
    def _row_spec(self) -> MaskedRowSpec:
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
        task = MaskedLanguage(self.config, self.tokenizer, examples=self.examples)
        task.corpus = self.corpus.as_test_data()
        return task

    def epoch_batches(self, epoch: int, seed: int) -> list[Indices]:
        """Return the epoch's batches of texts; an example id combines a position and a salt for the masks."""
        return self._training_rows.epoch_batches(self.config.batch_size, seed=seed, epoch=epoch)

    def collate(self, examples: Indices) -> PretrainingBatch:
        """Example ids -> masked texts; the masks differ between epochs."""
        return PretrainingBatch(*self._training_rows.collate(examples))

    def loss(self, model: MaskedLM, batch: PretrainingBatch) -> Loss:
        """Return the cross entropy, summed over masked tokens; with pairs, plus their mean cross entropy as a part."""
        output, masked = model(batch.masked), batch.masked
        labels = masked.tokens[masked.prediction_mask]
        total = model.readout.loss(output.features, labels)
        if model.pairs is None or output.cls_features is None:
            return Loss(total, len(labels))
        pairs = model.pairs.loss(output.cls_features, batch.is_next) * (len(labels) / len(batch.is_next))
        return Loss(total + pairs, len(labels), {"gaps": total.detach(), "pairs": pairs.detach()})

    def evaluate(self, model: MaskedLM, split: str, decoding: Any) -> dict[str, float]:
        """Return `nats` per masked token of a split and its accuracy; with pairs, their accuracy."""
        rows, total, num_correct, count = self.masked_rows(split), 0.0, 0, 0
        pairs_correct: list[bool] = []
        batch_nats: list[tuple[float, int, int]] = []  # nats, correct and predicted tokens of each batch
        with eval_mode(model) as device:
            batches = rows.sequential_batches(self.config.batch_size, max_tokens=self.config.eval_tokens)
            for examples in track(batches, total=len(batches)):
                masked, is_next = map_tensors(rows.collate(examples), lambda x: x.to(device))
                output = model(masked)
                logits, labels = model.readout(output.features).float(), masked.tokens[masked.prediction_mask]
                nats = float(torch.nn.functional.cross_entropy(logits, labels, reduction="sum"))
                batch_nats.append((nats, int((logits.argmax(dim=-1) == labels).sum()), len(labels)))
                total, num_correct, count = total + nats, num_correct + batch_nats[-1][1], count + len(labels)
                if model.pairs is not None and output.cls_features is not None and len(is_next):
                    pairs_correct += (model.pairs(output.cls_features).argmax(dim=-1) == is_next).tolist()
        if not count:
            raise DataError(f"the split {split!r} is shorter than data.context={self.config.context}; give more text")
        nats_column, hits, counts = zip(*batch_nats, strict=True)
        record_mean("nats", nats_column, weights=counts, num_examples=count)
        record_mean("accuracy", hits, weights=counts, num_examples=count)
        scores = {"nats": total / count, "accuracy": num_correct / count}
        return scores | ({"pairs_accuracy": sum(pairs_correct) / len(pairs_correct)} if pairs_correct else {})

    def signatures(self) -> dict[str, str]:
        unit = "words" if self.config.whole_words else "tokens"
        masks = (
            f"{self.config.mask_prob:.0%} of the {unit} of texts of {self.config.context} tokens, the same every time"
        )
        replaced = (
            "80 % of them replaced by the mask token, 10 % by a random token, 10 % unchanged "
            "(models with a prediction order attend to none of them)"
        )
        return {
            "nats": (
                f"mean -log p per masked token; {masks}; {replaced}; "
                f"the first {self.config.eval_tokens} tokens of the split"
            ),
            "accuracy": "share of masked tokens whose most likely token is the true one",
            "pairs_accuracy": (
                f"share of pairs ({self.config.sentence_pairs}) classified correctly; half of them are negative"
            ),
        }

    def data_summary(self) -> list[str]:
        return self.corpus.data_summary(self.config.context)

    def fingerprint(self) -> dict[str, str]:
        return self.corpus.fingerprint()

    def token_texts(self, table: str = "") -> list[str]:
        return self.corpus.token_texts()

    def save(self, folder: Path) -> None:
        """Write the tokenizer with its mask token, and the examples."""
        text_corpus.save(folder, self.tokenizer, self.examples)

    def parse_input(self, text: str) -> MaskedText:
        """Encode a text that fits into the context; without [MASK] it can only be embedded."""
        masked = masking.parse_masked_text(text, self.tokenizer)
        if len(masked.tokens) + 2 > self.spec.max_length:
            count = f"{len(masked.tokens) + 2} tokens, special tokens included"
            raise DataError(f"the text has {count}; the model's context is {self.spec.max_length}; shorten the text")
        return masked

    def predict(
        self, model: MaskedLM, inputs: Sequence[MaskedText], options: Options, decoding: Any
    ) -> list[list[Prediction]]:
        """Masked texts -> the most likely ways to fill all masks; `value` has the candidates of each mask. With `embed`
        the vector of each text instead."""
        for text in inputs:
            if options.embed and not text.tokens:
                raise DataError("there is no text to read; give some text")
            if not options.embed:
                masking.check_has_mask(text)
        with eval_mode(model) as device:
            if options.embed:
                return [
                    [vector_prediction(fill.mean_features(model, text, self.special_tokens, device))] for text in inputs
                ]
            groups = [inputs[i : i + self.config.batch_size] for i in range(0, len(inputs), self.config.batch_size)]
            return [
                fill.to_predictions(text, scores, options.n, self.tokenizer)
                for group in groups
                for text, scores in zip(group, fill.predict_masks(model, group, self.tokenizer, device), strict=True)
            ]

    def inspect(self, model: MaskedLM, parsed_input: MaskedText, options: Options, decoding: Any) -> Inspectable:
        masking.check_has_mask(parsed_input)
        with eval_mode(model) as device:
            return inspect.build_inspectable(model, parsed_input, options.n, tokenizer=self.tokenizer, device=device)


def build(config: Config, folder: Path | None = None) -> MaskedLanguage:
    """Return the task with a tokenizer trained on the training text, or loaded from a run folder."""
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
    return MaskedLanguage(config, tokenizer, examples=_with_mask(text_corpus.example_prompts(documents, num_words=9)))


def load(config: Config, folder: Path) -> MaskedLanguage:
    """Return the task with the tokenizer of a run folder; the text is not needed."""
    tokenizer = masking.with_mask(tokenizers.load(folder / text_corpus.TOKENIZER))
    examples = [text for text in text_corpus.read_examples(folder) if masking.MASK_PATTERN.search(text)]
    return MaskedLanguage(config, tokenizer, examples=examples)


def _with_mask(texts: Sequence[str]) -> list[str]:
    """Replace the longest inner word of each text by [MASK]."""
    masked = []
    for text in texts:
        words = text.split()
        index = max(range(1, len(words) - 1), key=lambda i: sum(map(str.isalpha, words[i])))
        masked.append(" ".join([*words[:index], "[MASK]", *words[index + 1 :]]))
    return masked
