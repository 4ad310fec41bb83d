"""Tagging: sentences in, the entities in them out: who, where, when."""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import islice
from pathlib import Path
from typing import Any, Literal

import numpy as np

from regard.core.data_specs import TaggingSpec
from regard.core.errors import CheckpointError, ConfigError, DataError
from regard.core.files import write_text
from regard.core.inference_mode import eval_mode
from regard.core.inspectable import Inspectable
from regard.core.progress import track
from regard.core.protocols import Indices, Loss, TargetMetric
from regard.core.state_tree import map_tensors
from regard.core.task import Prediction, Task
from regard.data import batching
from regard.data import examples as example_splits
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
from regard.tasks._shared import data_summary, text_corpus
from regard.tasks._shared.text_corpus import Level
from regard.tasks.tagging import inspect
from regard.tasks.tagging.inspect import TaggingResult

TAGS_FILE = "tags.json"
MIN_BATCH_TOKENS = 4096  # padded tokens of a batch of sentences that are read, at least


@dataclass(frozen=True)
class Config:
    """Which sentences, which units and tokens, which batches. Without a path, built-in sentences."""

    path: Path | None = None  # a file or folder of tagged sentences: CoNLL columns, KLUE or KLP
    dataset: str = "entities_en"  # without a path: entities_en or entities_ko, both built in
    format: Format = "auto"  # how files are written: conll, klue or klp; auto: by their first line
    scheme: Literal["auto", "bio", "iob1", "iobes"] = "auto"  # of the tags in files; auto: the one they keep
    tags: Literal["bio", "iobes"] = "bio"  # the scheme that the model learns
    units: UnitMode = "given"  # what is tagged: the units of the data, or words, characters, tokens of the text
    tokenizer: Level = (
        "word"  # what a token is: a whole unit (word), a subword (bpe, unigram, bytes), a character (char)
    )
    vocab_size: int = 20_000  # tokens, at most
    lowercase: bool = True  # tokens are lowercased; how a word is spelt keeps its capitals
    min_frequency: int = 1  # how often a token must be seen
    examples: int = 6000  # of the built-in training data
    max_length: int = 200  # tokens of a sentence; a longer one is read in parts
    batch_size: int = 32  # sentences in a batch
    max_batch_tokens: int = 8000  # padded tokens of a batch, at most
    seed: int = 1  # of splits that are not given, and of the built-in data

    def __post_init__(self) -> None:
        for name in ("vocab_size", "min_frequency", "examples", "batch_size", "max_batch_tokens"):
            if getattr(self, name) < 1:
                raise ConfigError(f"{name}={getattr(self, name)} must be at least 1")
        if self.max_length < 4:
            raise ConfigError(f"longest={self.max_length} must be at least 4: two tokens and two marks")

    def open_splits(self, splitting: SplitFunction = add_missing_splits) -> dict[str, Examples[Sentence]]:
        """The sentences of each split."""
        scheme = None if self.scheme == "auto" else self.scheme
        origin = LabelledSource(self.path, self.dataset, self.seed, self.examples)
        return labelled_sources.open_tagged(origin, file_format=self.format, scheme=scheme, split_function=splitting)


TINY = Config(examples=60, vocab_size=500, batch_size=8)  # for tests


@dataclass(frozen=True)
class Options:
    """What one can ask for: nothing but the tags."""


class Tagging(Task):
    """Tagged sentences as a task: batches, loss, F1 of entities, entities of new texts, and how they are shown."""

    target_metric = TargetMetric("f1", higher_is_better=True)
    throughput_unit, input_suffixes = "units", ()

    def __init__(self, config: Config, encoder: SentenceEncoder, *, examples: Sequence[str] = ()) -> None:
        self.config, self.encoder, self.examples = config, encoder, tuple(examples)
        self.special_tokens = masking.special_tokens_of(encoder.tokenizer)
        letters = len(encoder.alphabet) + len(SPECIAL_TOKENS) if encoder.alphabet else 0
        rules = tag_schemes.tag_transitions(encoder.tags, encoder.scheme)
        self.spec = TaggingSpec(
            encoder.tokenizer.vocab_size,
            letters,
            max_length=config.max_length,
            allowed_transitions=rules,
            special_tokens=self.special_tokens,
        )

    @cached_property
    def sentences(self) -> dict[str, Examples[Sentence]]:
        """The splits there are; opened when first asked for, so that a trained model is used without its data."""
        return self.config.open_splits(example_splits.split_function_for(self))

    @cached_property
    def training_sentences(self) -> list[EncodedSentence]:
        """The training sentences as token numbers."""
        return [
            part
            for sentence in example_splits.get_split(self.sentences, "train")
            for part in self.encoder.encode(sentence)
        ]

    def data_summary(self) -> list[str]:
        """How many sentences there are, the tags, the vocabulary, and the first sentence with its entities."""
        first = next(sentence for sentence in example_splits.get_split(self.sentences, "train") if sentence.units)
        known = (f"{len(self.encoder.tags)} tags", data_summary.format_vocabulary(self.spec.vocab_size))
        marked = (f"{first.text[a:b]}/{tag}" for (a, b), tag in zip(first.units, first.tags, strict=True) if tag != "O")
        return [
            data_summary.format_counts("sentences", data_summary.split_sizes(self.sentences), *known),
            data_summary.format_first_example("sentence", first.text, " ".join(marked)),
        ]

    def data_warnings(self) -> list[str]:
        """How many sentences are read in parts."""
        whole = sum(1 for sentence in self.sentences["train"] if sentence.units)
        cut = len(self.training_sentences) - whole
        more = (
            [f"long training sentences make {cut} parts more (data.max_length={self.config.max_length})"] if cut else []
        )
        known = {kind for tag in self.encoder.tags if (kind := tag.partition("-")[2])}
        return [
            *text_files.split_encoding_remarks(self.sentences.values()),
            *more,
            *tagged_corpus.unseen_type_warnings(self.sentences, known),
        ]

    def fingerprint(self) -> dict[str, str]:
        """A checksum of each split."""
        return {name: sentences.checksum() for name, sentences in self.sentences.items()}

    def token_texts(self, table: str = "") -> list[str]:
        """The text of each token number; none for marks."""
        return self.encoder.tokenizer.token_texts()

    def epoch_batches(self, epoch: int, seed: int) -> list[Indices]:
        """The epoch's batches of sentences of like length."""
        config, lengths = self.config, np.array([len(part.tokens) for part in self.training_sentences])
        return document_corpus.epoch_batches(
            lengths, batch_size=config.batch_size, budget=config.max_batch_tokens, seed=seed, epoch=epoch
        )

    def collate(self, examples: Indices) -> TaggedBatch:
        """Example numbers -> sentences and tags."""
        return tagged_corpus.collate([self.training_sentences[i] for i in examples])

    def loss(self, model: Any, batch: TaggedBatch) -> Loss:
        """-log p of the tags, summed over the sentences; counted in units."""
        counts = batch.sentences.counts
        return Loss(model.readout.loss(model(batch.sentences), batch.tags, counts), int(counts.sum()))

    def evaluate(self, model: Any, split: str, decoding: Any) -> dict[str, float]:
        """F1, precision and recall of entities, on the units of the data; and the loss for each unit."""
        true, found, loss = self._compared(model, split)
        return inspect.compute_metrics(true, found) | {"loss": loss}

    def _compared(self, model: Any, split: str) -> tuple[list[tuple[str, ...]], list[tuple[str, ...]], float]:
        given = [sentence for sentence in example_splits.get_split(self.sentences, split) if sentence.units]
        if not given:
            raise DataError(f"{self.sentences[split].where}: there is no sentence in the split {split!r}")
        answers = self._find(model, given)
        back = [
            tagged_corpus.align_entities(each.sentence, sentence.units)
            for each, sentence in zip(answers, given, strict=True)
        ]
        parts = [part for sentence in given for part in self.encoder.encode(sentence)]
        total, count = 0.0, 0
        with eval_mode(model) as device:
            for numbers in self._batches(parts):
                batch = map_tensors(tagged_corpus.collate([parts[i] for i in numbers]), lambda x: x.to(device))
                loss = self.loss(model, batch)
                total, count = total + loss.total.item(), count + loss.count
        return [sentence.tags for sentence in given], [sentence.tags for sentence in back], total / count

    def _batches(self, parts: Sequence[EncodedSentence]) -> list[Indices]:
        lengths = np.array([len(part.tokens) for part in parts], dtype=np.int64)
        return batching.batches_by_length(lengths, budget=max(MIN_BATCH_TOKENS, self.config.max_batch_tokens))

    def _find(self, model: Any, sentences: Sequence[Sentence]) -> list[TaggingResult]:
        """The best tags of each sentence, in its model's own units."""
        cut = [self.encoder.encode(sentence) for sentence in sentences]
        parts = [part for each in cut for part in each]
        tags: list[list[str]] = [[] for _ in parts]
        scores = [0.0] * len(parts)
        with eval_mode(model) as device:
            for numbers in track(self._batches(parts), total=len(parts), size=len):
                given = map_tensors(
                    tagged_corpus.collate([parts[i] for i in numbers]).sentences, lambda x: x.to(device)
                )
                features = model(given)
                best = model.readout.best(features, given.counts)
                sums = model.readout.log_probability(features, best, given.counts).tolist()
                for i, row, score in zip(numbers.tolist(), best.tolist(), sums, strict=True):
                    names = [self.encoder.tags[tag] for tag in row[: len(parts[i].firsts)]]
                    tags[i], scores[i] = tag_schemes.convert(names, self.encoder.scheme, "bio"), score
        found, place = list[TaggingResult](), 0
        for sentence, each in zip(sentences, cut, strict=True):
            here = range(place, place + len(each))
            units = tuple(unit for part in each for unit in part.sentence.units)
            joined = tuple(tag for i in here for tag in tags[i])
            found.append(TaggingResult(sentence._replace(units=units, tags=joined), sum(scores[i] for i in here)))
            place += len(each)
        return found

    def extra_metrics(self, model: Any, split: str, decoding: Any) -> dict[str, float]:
        """The table of entity types."""
        true, found, _ = self._compared(model, split)
        return inspect.metrics_by_type(true, found)

    def signatures(self) -> dict[str, str]:
        """How each score is computed, for others to repeat it."""
        return inspect.SIGNATURES

    def parse_input(self, text: str) -> str:
        """A text; nothing at all is an error."""
        if not text.strip():
            raise DataError("there is no sentence to tag; give some text")
        return text

    def predict(self, model: Any, inputs: Sequence[str], options: Options, decoding: Any) -> list[list[Prediction]]:
        """Texts -> each with its entities marked as <name:TYPE>."""
        sentences = [self.encoder.split_units(text) for text in inputs]
        found = self._find(model, sentences)
        return [[inspect.to_prediction(each, self._remarks(each.sentence))] for each in found]

    def _remarks(self, sentence: Sentence) -> tuple[str, ...]:
        parts = len(self.encoder.encode(sentence))
        return (f"longer than {self.config.max_length} tokens: read in {parts} parts",) if parts > 1 else ()

    def inspect(self, model: Any, parsed_input: str, options: Options, decoding: Any) -> Inspectable:
        """A text -> its tags, and where the model looked for each; of a long text, its first part."""
        sentence = self.encoder.split_units(parsed_input)
        begun = time.perf_counter()
        part = self.encoder.encode(sentence)[0]
        found = self._find(model, [part.sentence])[0]
        seconds = time.perf_counter() - begun
        with eval_mode(model) as device:
            names = self.encoder.tokenizer.token_text
            return inspect.build_inspectable(
                model, part, found, self.encoder.tags, token_name=names, device=device, seconds=seconds
            )

    def save(self, folder: Path) -> None:
        """Write the tokenizer, the tags, units and letters, and the examples."""
        encoder = self.encoder
        text_corpus.save(folder, encoder.tokenizer, self.examples)
        table = {"tags": list(encoder.tags), "units": encoder.data_unit, "alphabet": encoder.alphabet}
        write_text(folder / TAGS_FILE, json.dumps(table, indent=1, ensure_ascii=False) + "\n")


def build(config: Config, folder: Path | None = None) -> Tagging:
    """A config -> the task with a vocabulary made from the training sentences, or taken from a run folder."""
    splits = config.open_splits()
    train = list(splits["train"])
    kinds = {kind for sentence in train for *_, kind in tagged_files.entity_spans(sentence)}
    if not kinds:
        raise DataError(f"{splits['train'].where}: no unit is tagged as part of an entity; there is nothing to learn")
    tokenizer = _vocabulary(config, train) if folder is None else tokenizers.load(folder / text_corpus.TOKENIZER)
    names = tuple(tag_schemes.tag_vocabulary(kinds, config.tags))
    natural = tagged_corpus.detect_unit(train)
    few = [sentence.text for sentence in islice(splits["valid"], 200) if len(tagged_files.entity_spans(sentence)) > 1]
    spelt = config.units == "words" or (config.units == "given" and natural == "words")
    table = {"tags": names, "units": natural, "alphabet": tagged_corpus.collect_alphabet(train) if spelt else ""}
    return Tagging(
        config, _encoder(config, tokenizer, table), examples=sorted(few, key=len)[:3] or ["Anna is in Paris."]
    )


def _vocabulary(config: Config, sentences: Sequence[Sentence]) -> Tokenizer:
    choices: dict[str, Any] = {
        "size": config.vocab_size,
        "lowercase": config.lowercase,
        "minimum": config.min_frequency,
    }
    if config.tokenizer == "word" and config.units != "tokens":
        units = [text[start:stop] for text, spans, *_ in sentences for start, stop in spans]
        return tagged_corpus.train_word_tokenizer(units, **choices)
    texts = [sentence.text for sentence in sentences]
    if config.tokenizer == "bytes":
        return byte_bpe.train(texts, **choices)
    return tokenizers.train(texts, level=config.tokenizer, **choices)


def _encoder(config: Config, tokenizer: Tokenizer, table: dict[str, Any]) -> SentenceEncoder:
    longest = config.max_length - 2  # room for the marks that some models set around a sentence
    names = tuple(table["tags"])
    return SentenceEncoder(tokenizer, config.units, table["units"], table["alphabet"], names, config.tags, longest)


def load(config: Config, folder: Path) -> Tagging:
    """A config and a run folder -> the task with the vocabulary and tags of that run; the data is not needed."""
    path = folder / TAGS_FILE
    try:
        table = dict(json.loads(path.read_text(encoding="utf-8")))
        tokenizer = tokenizers.load(folder / text_corpus.TOKENIZER)
        encoder = _encoder(config, tokenizer, table)
    except (OSError, ValueError, TypeError, KeyError) as wrong:
        raise CheckpointError(f"{path}: the tags cannot be read ({wrong})") from None
    return Tagging(config, encoder, examples=text_corpus.read_examples(folder))
