"""The tagging task: tagged sentences as batches, the training loss, evaluation, and entities of new texts."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import islice
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np
import torch

from regard.core.config import check_fields
from regard.core.data_size import DataSize, measure_texts
from regard.core.data_specs import TaggingSpec
from regard.core.errors import CheckpointError, ConfigError, DataError
from regard.core.files import write_text
from regard.core.inference_mode import eval_mode
from regard.core.inspectable import Inspectable
from regard.core.prediction import unknown_token_remarks
from regard.core.progress import track
from regard.core.protocols import Indices, Loss, TargetMetric
from regard.core.state_tree import map_tensors
from regard.core.task import Prediction, Task
from regard.data import batching
from regard.data import examples as example_splits
from regard.data.builtin import entities
from regard.data.examples import Examples, SplitFunction, add_missing_splits
from regard.data.files import text_files
from regard.data.text import (
    byte_bpe,
    document_corpus,
    labelled_sources,
    masking,
    tag_schemes,
    tagged_corpus,
    tagged_files,
)
from regard.data.text import tokenizer as tokenizers
from regard.data.text.labelled_sources import LabelledSource
from regard.data.text.tagged_corpus import EncodedSentence, SentenceEncoder, TaggedBatch, UnitMode
from regard.data.text.tagged_files import Format, Sentence
from regard.data.text.tokenizer import SPECIAL_TOKENS, Tokenizer
from regard.data.text.unknown_words import MAX_WORDS, WORD, find_unknown_words
from regard.tasks._shared import data_summary, text_corpus
from regard.tasks._shared.text_corpus import Level
from regard.tasks.tagging import baselines, inspect, metrics
from regard.tasks.tagging.inspect import TaggedText, TaggingModel
from regard.tasks.tagging.prediction import TaggingResult, to_prediction

TAGS_FILE = "tags.json"
MIN_BATCH_TOKENS = 4096  # budget of padded tokens in a batch at inference, if training batches are smaller
NUM_EXAMPLES = 3
MAX_EXAMPLE_CANDIDATES = 200  # validation sentences from which examples are chosen
DEFAULT_EXAMPLE = "Anna is in Paris."
NUM_SPECIAL_TOKENS = 2  # BOS and EOS, which some models add to a sentence


@dataclass(frozen=True)
class Config:
    """Tagged sentences, units, tokenizer and batches. Without a path, built-in sentences."""

    path: Path | None = None  # a file or folder of tagged sentences: CoNLL columns, KLUE or KLP
    dataset: str = "entities_en"  # without a path: entities_en or entities_ko, both built in
    format: Format = "auto"  # file format: conll, klue or klp; auto: detected from the first line
    scheme: Literal["auto", "bio", "iob1", "iobes"] = "auto"  # tag scheme of the files; auto: detected
    tags: Literal["bio", "iobes"] = "bio"  # tag scheme that the model learns
    units: UnitMode = "given"  # tagged units: those of the data (given), or words, characters or tokens of the text
    tokenizer: Level = "word"  # token type: whole units (word), subwords (bpe, unigram, bytes) or characters (char)
    vocab_size: int = 20_000  # maximum number of tokens
    lowercase: bool = True  # lowercase tokens; the characters of a word keep their case
    min_frequency: int = 1  # minimum number of occurrences of a token
    examples: int = 6000  # training sentences of the built-in data
    max_length: int = 200  # maximum tokens of a sentence; a longer one is split into parts
    batch_size: int = 32  # sentences in a batch
    max_batch_tokens: int = 8000  # maximum padded tokens in a batch
    recall_cost: float = 0.0  # in training: added to the score of O at units of entities; above 0: more are found
    seed: int = 1  # of generated splits and of the built-in data

    def __post_init__(self) -> None:
        sizes = ("vocab_size", "min_frequency", "examples", "batch_size", "max_batch_tokens")
        check_fields(self, at_least_1=sizes, at_least_0=("recall_cost",))
        if self.max_length < NUM_SPECIAL_TOKENS + 2:
            raise ConfigError(f"max_length={self.max_length} must be at least 4: two tokens, BOS and EOS")

    def open_splits(self, splitting: SplitFunction = add_missing_splits) -> dict[str, Examples[Sentence]]:
        """Return the sentences of each split."""
        scheme = None if self.scheme == "auto" else self.scheme
        source = LabelledSource(self.path, self.dataset, self.seed, self.examples)
        return labelled_sources.open_tagged(source, file_format=self.format, scheme=scheme, split_function=splitting)


TINY = Config(examples=60, vocab_size=500, batch_size=8)  # for tests


@dataclass(frozen=True)
class Options:
    """Options of a request; there are none."""


class SplitTags(NamedTuple):
    """True and predicted BIO tags of the sentences of a split, and the mean loss per unit."""

    references: list[tuple[str, ...]]
    predictions: list[tuple[str, ...]]
    loss: float


class TaggedPart(NamedTuple):
    """The best tags of a part of a sentence in BIO, their log p, and the marginal probability of each tag."""

    tags: list[str]
    score: float
    confidences: list[float]


class Tagging(Task):
    """Tagging of entities in sentences."""

    spec: TaggingSpec
    target_metric = TargetMetric("f1", higher_is_better=True)
    throughput_unit, input_suffixes = "units", ()

    def __init__(self, config: Config, encoder: SentenceEncoder, *, examples: Sequence[str] = ()) -> None:
        self.config, self.encoder, self.examples = config, encoder, tuple(examples)
        self.special_tokens = masking.special_tokens_of(encoder.tokenizer)
        self.spec = TaggingSpec(
            encoder.tokenizer.vocab_size,
            len(encoder.alphabet) + len(SPECIAL_TOKENS) if encoder.alphabet else 0,
            max_length=config.max_length,
            allowed_transitions=tag_schemes.tag_transitions(encoder.tags, encoder.scheme),
            special_tokens=self.special_tokens,
        )

    @cached_property
    def sentences(self) -> dict[str, Examples[Sentence]]:
        """The available splits, opened on first use, so that a trained model does not need its data."""
        return self.config.open_splits(example_splits.split_function_for(self))

    @cached_property
    def training_sentences(self) -> list[EncodedSentence]:
        """The training sentences as token ids."""
        train = example_splits.get_split(self.sentences, "train")
        return [part for parts in self.encoder.encode_batch(train) for part in parts]

    def data_summary(self) -> list[str]:
        first = next(sentence for sentence in example_splits.get_split(self.sentences, "train") if sentence.units)
        sizes = (f"{len(self.encoder.tags)} tags", data_summary.format_vocabulary(self.spec.vocab_size))
        tagged_units = (
            f"{first.text[start:stop]}/{tag}"
            for (start, stop), tag in zip(first.units, first.tags, strict=True)
            if tag != tag_schemes.OUTSIDE
        )
        return [
            data_summary.format_counts("sentences", data_summary.split_sizes(self.sentences), *sizes),
            data_summary.format_first_example("sentence", first.text, " ".join(tagged_units)),
        ]

    def data_warnings(self) -> list[str]:
        num_sentences = sum(1 for sentence in self.sentences["train"] if sentence.units)
        num_extra = len(self.training_sentences) - num_sentences
        limit = f"data.max_length={self.config.max_length}"
        long = [f"long training sentences are split into {num_extra} additional parts ({limit})"] if num_extra else []
        types = {entity_type for tag in self.encoder.tags if (entity_type := tag.partition("-")[2])}
        return [
            *text_files.file_remarks(self.sentences.values()),
            *long,
            *tagged_corpus.unseen_type_warnings(self.sentences, types),
        ]

    def fingerprint(self) -> dict[str, str]:
        return {name: sentences.checksum() for name, sentences in self.sentences.items()}

    def token_texts(self, table: str = "") -> list[str]:
        return self.encoder.tokenizer.token_texts()

    def epoch_batches(self, epoch: int, seed: int) -> list[Indices]:
        """Return batches of sentences of similar length."""
        return document_corpus.epoch_batches(
            np.array([len(part.tokens) for part in self.training_sentences]),
            batch_size=self.config.batch_size,
            budget=self.config.max_batch_tokens,
            seed=seed,
            epoch=epoch,
        )

    def collate(self, examples: Indices) -> TaggedBatch:
        return tagged_corpus.collate([self.training_sentences[i] for i in examples])

    def loss(self, model: TaggingModel, batch: TaggedBatch) -> Loss:
        """Return -log p of the tag sequences, summed over the sentences and counted in units.

        In training `recall_cost` is added to the score of O at units of entities, so that the model has to prefer the
        entity by a margin: the softmax margin of Gimpel and Smith 2010, with the cost of Mohit et al. 2012.
        """
        counts, features = batch.sentences.counts, model(batch.sentences)
        if not self.config.recall_cost or not model.training:
            return Loss(model.readout.loss(features, batch.tags, counts), int(counts.sum()))
        outside = self.encoder.tags.index(tag_schemes.OUTSIDE)
        is_entity = (batch.tags != outside).to(features.dtype) * self.config.recall_cost
        logits = model.readout(features)
        costs = torch.zeros_like(logits).index_fill(2, torch.tensor([outside], device=logits.device), 1.0)
        log_p = model.readout.chain.log_probability(logits + costs * is_entity[..., None], batch.tags, counts)
        return Loss(-log_p.sum(), int(counts.sum()))

    def evaluate(self, model: TaggingModel, split: str, decoding: Any) -> dict[str, float]:
        """Return F1, precision and recall of entities, on the units of the data, and the loss per unit."""
        references, predictions, loss = self._tag_split(model, split)
        return metrics.compute_metrics(references, predictions) | {"loss": loss}

    def extra_metrics(self, model: TaggingModel, split: str, decoding: Any) -> dict[str, float]:
        """Return the metrics of each entity type; for the built-in data also F1 on new templates."""
        references, predictions, _ = self._tag_split(model, split)
        by_type = metrics.metrics_by_type(references, predictions)
        if split != "test" or entities.TEMPLATES not in self.sentences:
            return by_type
        references, predictions, _ = self._tag_split(model, entities.TEMPLATES)
        return by_type | {"f1_new_templates": metrics.compute_metrics(references, predictions)["f1"]}

    def baselines(self, split: str) -> dict[str, float]:
        """Return the metrics of a linear-chain CRF with hand-made features."""
        train = [sentence for sentence in example_splits.get_split(self.sentences, "train") if sentence.units]
        test = [sentence for sentence in example_splits.get_split(self.sentences, split) if sentence.units]
        return baselines.baseline_metrics(train, test)

    def signatures(self) -> dict[str, str]:
        return metrics.SIGNATURES

    def _tag_split(self, model: TaggingModel, split: str) -> SplitTags:
        sentences = [sentence for sentence in example_splits.get_split(self.sentences, split) if sentence.units]
        if not sentences:
            raise DataError(f"{self.sentences[split].where}: there is no sentence in the split {split!r}")
        results = self._tag(model, sentences)
        aligned = [
            tagged_corpus.align_entities(result.sentence, sentence.units)
            for result, sentence in zip(results, sentences, strict=True)
        ]
        parts = [part for parts in self.encoder.encode_batch(sentences) for part in parts]
        total, count = 0.0, 0
        with eval_mode(model) as device:
            for indices in self._inference_batches(parts):
                batch = map_tensors(tagged_corpus.collate([parts[i] for i in indices]), lambda x: x.to(device))
                loss = self.loss(model, batch)
                total, count = total + loss.total.item(), count + loss.count
        return SplitTags(
            [sentence.tags for sentence in sentences], [sentence.tags for sentence in aligned], total / count
        )

    def _inference_batches(self, parts: Sequence[EncodedSentence]) -> list[Indices]:
        lengths = np.array([len(part.tokens) for part in parts], dtype=np.int64)
        return batching.batches_by_length(lengths, budget=max(MIN_BATCH_TOKENS, self.config.max_batch_tokens))

    def _tag(
        self, model: TaggingModel, sentences: Sequence[Sentence], *, with_confidence: bool = False
    ) -> list[TaggingResult]:
        """Return the best tags of each sentence, on the units of the model."""
        parts_of = self.encoder.encode_batch(sentences)
        every_part = [part for parts in parts_of for part in parts]
        part_results = iter(self._tag_parts(model, every_part, with_confidence=with_confidence))
        results = []
        for sentence, parts in zip(sentences, parts_of, strict=True):
            tagged_parts = [next(part_results) for _ in parts]
            units = tuple(unit for part in parts for unit in part.sentence.units)
            tags = tuple(tag for part in tagged_parts for tag in part.tags)
            score = sum(part.score for part in tagged_parts)
            confidences = tuple(value for part in tagged_parts for value in part.confidences)
            results.append(TaggingResult(sentence._replace(units=units, tags=tags), score, confidences, len(parts)))
        return results

    def _tag_parts(
        self, model: TaggingModel, parts: Sequence[EncodedSentence], *, with_confidence: bool
    ) -> list[TaggedPart]:
        """Return the best tags of each part."""
        results = [TaggedPart([], 0.0, []) for _ in parts]
        with eval_mode(model) as device:
            for indices in track(self._inference_batches(parts), total=len(parts), size=len):
                batch = tagged_corpus.collate([parts[i] for i in indices]).sentences
                batch = map_tensors(batch, lambda x: x.to(device))
                features = model(batch)
                best = model.readout.decode(features, batch.counts)
                scores = model.readout.log_probability(features, best, batch.counts).tolist()
                confidences: list[list[float]] = [[] for _ in scores]
                if with_confidence and best.numel():
                    marginals = model.readout.marginals(features, batch.counts)
                    confidences = marginals.gather(2, best[..., None])[..., 0].clamp(0, 1).tolist()
                rows = zip(indices.tolist(), best.tolist(), scores, confidences, strict=True)
                for i, row, score, values in rows:
                    length = len(parts[i].first_tokens)
                    names = [self.encoder.tags[tag] for tag in row[:length]]
                    results[i] = TaggedPart(
                        tag_schemes.convert(names, self.encoder.scheme, "bio"), score, values[:length]
                    )
        return results

    def parse_input(self, text: str) -> str:
        """Return the text; an empty text is an error."""
        if not text.strip():
            raise DataError("there is no sentence to tag; give some text")
        return text

    def predict(
        self, model: TaggingModel, inputs: Sequence[str], options: Options, decoding: Any
    ) -> list[list[Prediction]]:
        """Texts -> each text with its entities marked as <name:TYPE>."""
        results = self._tag(model, [self.encoder.split_units(text) for text in inputs], with_confidence=True)
        return [
            [to_prediction(result, self._remarks(result.num_parts)).with_unknown_tokens(words)]
            for result, words in zip(results, self._unknown_units(inputs), strict=True)
        ]

    def _unknown_units(self, texts: Sequence[str]) -> Iterator[tuple[str, ...]]:
        """Yield the words of each text with an unknown token; characters that are units are joined to words."""
        if self.config.units == "tokens":
            yield from (find_unknown_words(text, self.encoder.tokenizer) for text in texts)
            return
        spans_of = [self.encoder.split_units(text).units for text in texts]
        rows = self.encoder.tokenizer.encode_distinct(
            text[start:stop] for text, spans in zip(texts, spans_of, strict=True) for start, stop in spans
        )
        is_unknown = {unit for unit, row in rows.items() if self.special_tokens.unk in row}
        for text, spans in zip(texts, spans_of, strict=True):
            unknown = [(start, stop) for start, stop in spans if text[start:stop] in is_unknown]
            words = (
                match for match in WORD.finditer(text) if any(a < match.end() and b > match.start() for a, b in unknown)
            )
            yield tuple(dict.fromkeys(match[0] for match in words))[:MAX_WORDS] if unknown else ()

    def _first_part_remarks(self, first: EncodedSentence, parts: Sequence[EncodedSentence]) -> tuple[str, ...]:
        """Return a remark if an inspection shows only the first part of a text."""
        if len(parts) == 1:
            return ()
        num_units = sum(len(part.sentence.units) for part in parts)
        return (f"only the first {len(first.sentence.units):,} of {num_units:,} words or characters are shown",)

    def _remarks(self, num_parts: int) -> tuple[str, ...]:
        return (f"longer than {self.config.max_length} tokens: read in {num_parts} parts",) if num_parts > 1 else ()

    def inspect(self, model: TaggingModel, parsed_input: str, options: Options, decoding: Any) -> Inspectable:
        """A text -> its tags and their attention; of a long text, only the first part."""
        started_at = time.perf_counter()
        parts = self.encoder.encode(self.encoder.split_units(parsed_input))
        encoded = parts[0]
        result = self._tag(model, [encoded.sentence])[0]
        seconds = time.perf_counter() - started_at
        remarks = self._first_part_remarks(encoded, parts)
        remarks += unknown_token_remarks(next(self._unknown_units([parsed_input])))
        tagged = TaggedText(encoded, result, seconds, remarks)
        with eval_mode(model) as device:
            token_name = self.encoder.tokenizer.token_text
            return inspect.build_inspectable(model, tagged, self.encoder.tags, token_name=token_name, device=device)

    def save(self, folder: Path) -> None:
        """Write the tokenizer, the tags, units and characters, and the examples."""
        encoder = self.encoder
        text_corpus.save(folder, encoder.tokenizer, self.examples)
        table = {"tags": list(encoder.tags), "units": encoder.data_unit, "alphabet": encoder.alphabet}
        write_text(folder / TAGS_FILE, json.dumps(table, indent=1, ensure_ascii=False) + "\n")


def measure(config: Config) -> DataSize:
    """Return the size of the training sentences and of their units."""
    sentences = config.open_splits()["train"]
    lengths = [stop - start for sentence in sentences for start, stop in sentence.units]
    has_own_units = config.units in ("words", "tokens")
    unit_length = 0.0 if has_own_units or not lengths else sum(lengths) / len(lengths)
    size = measure_texts("sentence", ((sentence.text,) for sentence in sentences))
    return size._replace(unit_length=1.0 if config.units == "characters" else unit_length)


def build(config: Config, folder: Path | None = None) -> Tagging:
    """Build the task with a vocabulary trained on the training sentences, or with that of a run folder."""
    splits = config.open_splits()
    train = list(splits["train"])
    types = {entity_type for sentence in train for *_, entity_type in tagged_files.entity_spans(sentence)}
    if not types:
        raise DataError(f"{splits['train'].where}: no unit is tagged as part of an entity; there is nothing to learn")
    tokenizer = _train_tokenizer(config, train) if folder is None else tokenizers.load(folder / text_corpus.TOKENIZER)
    data_unit = tagged_corpus.detect_unit(train)
    has_words = config.units == "words" or (config.units == "given" and data_unit == "words")
    table = {
        "tags": tag_schemes.tag_vocabulary(types, config.tags),
        "units": data_unit,
        "alphabet": tagged_corpus.collect_alphabet(train) if has_words else "",
    }
    candidates = islice(splits["valid"], MAX_EXAMPLE_CANDIDATES)
    texts = [sentence.text for sentence in candidates if len(tagged_files.entity_spans(sentence)) > 1]
    examples = sorted(texts, key=len)[:NUM_EXAMPLES] or [DEFAULT_EXAMPLE]
    return Tagging(config, _build_encoder(config, tokenizer, table), examples=examples)


def load(config: Config, folder: Path) -> Tagging:
    """Load the task with the vocabulary and tags of a run folder; the data is not needed."""
    path = folder / TAGS_FILE
    try:
        table = dict(json.loads(path.read_text(encoding="utf-8")))
        tokenizer = tokenizers.load(folder / text_corpus.TOKENIZER)
        encoder = _build_encoder(config, tokenizer, table)
    except (OSError, ValueError, TypeError, KeyError) as error:
        raise CheckpointError(f"{path}: the tags cannot be read ({error})") from None
    return Tagging(config, encoder, examples=text_corpus.read_examples(folder))


def _train_tokenizer(config: Config, sentences: Sequence[Sentence]) -> Tokenizer:
    settings: dict[str, Any] = {
        "size": config.vocab_size,
        "lowercase": config.lowercase,
        "minimum": config.min_frequency,
    }
    if config.tokenizer == "word" and config.units != "tokens":
        units = [text[start:stop] for text, spans, *_ in sentences for start, stop in spans]
        return tagged_corpus.train_word_tokenizer(units, **settings)
    texts = [sentence.text for sentence in sentences]
    if config.tokenizer == "bytes":
        return byte_bpe.train(texts, **settings)
    return tokenizers.train(texts, level=config.tokenizer, **settings)


def _build_encoder(config: Config, tokenizer: Tokenizer, table: dict[str, Any]) -> SentenceEncoder:
    return SentenceEncoder(
        tokenizer,
        config.units,
        table["units"],
        table["alphabet"],
        tuple(table["tags"]),
        config.tags,
        config.max_length - NUM_SPECIAL_TOKENS,
    )
