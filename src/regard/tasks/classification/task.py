"""Classification: documents in, their labels out, and which words and sentences decided."""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from dataclasses import dataclass, field, fields
from functools import cached_property
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from regard.core.data_specs import DocumentSpec
from regard.core.errors import CheckpointError, ConfigError, DataError
from regard.core.files import write_text
from regard.core.inference_mode import eval_mode
from regard.core.inspectable import Inspectable, Output
from regard.core.progress import track
from regard.core.protocols import Indices, Loss, TargetMetric
from regard.core.state_tree import map_tensors
from regard.core.task import Prediction, Task
from regard.data import batching
from regard.data import examples as example_splits
from regard.data.examples import Examples
from regard.data.files import text_files
from regard.data.text import document_corpus, labelled_sources, masking
from regard.data.text import tokenizer as tokenizers
from regard.data.text.document_corpus import EncodedDocuments, LabelledBatch, Limits, TokenizedDocument
from regard.data.text.document_files import Document, Layout
from regard.data.text.labelled_sources import LabelledSource
from regard.data.text.sentence_splitter import Splitter
from regard.data.text.tokenizer import Tokenizer
from regard.tasks._shared import data_summary, text_corpus
from regard.tasks._shared.text_corpus import Level
from regard.tasks.classification import inspect, metrics
from regard.tasks.classification.inspect import ClassifiedDocument

LABELS_FILE = "labels.json"
MIN_BATCH_TOKENS = 4096  # padded tokens of a batch of documents that are read, at least
MAX_EXAMPLE_CHARACTERS = 400  # characters of a document that is kept as an example


@dataclass(frozen=True)
class Config:
    """Which documents, how they are cut, which tokens, which batches. Without a path, built-in reviews."""

    path: Path | None = None  # a table (.tsv, .csv, .jsonl), a folder of tables or by class, or an archive of one
    dataset: str = "reviews_en"  # without a path: reviews_en, reviews_ko (built in), or hf:… for Hugging Face
    label: str = "label"  # the column of the label: its name, or its number counted from 1
    text: str = "text"  # the column of the text
    header: bool | None = None  # whether tables begin with a line of names; none: if a column is given by name
    separator: str = ""  # what stands between several labels of a document; "": each has one
    valid: str = ""  # folders by class without splits: the files for validation, as a pattern (cv8*)
    test: str = ""  # folders by class without splits: the files for testing
    examples: int = 6000  # of the built-in training data
    splitter: Splitter = field(default_factory=Splitter)  # where sentences end
    sentence: int = 60  # tokens of a sentence; a longer one is cut into several
    sentences: int = 150  # sentences of a document that are read
    max_length: int = 3000  # tokens of a document that are read
    tokenizer: Level = "word"  # what a token is: a word, a subword (bpe, unigram, bytes) or a character (char)
    vocab_size: int = 30_000  # tokens, at most
    lowercase: bool = True  # all text is lowercased
    min_frequency: int = 2  # how often a token must be seen
    batch_size: int = 32  # documents in a batch
    max_batch_tokens: int = 40_000  # padded tokens of a batch, at most; longer documents make smaller batches
    smoothing: float = 0.0  # of the labels: this share of the probability is spread over all of them
    seed: int = 1  # of splits that are not given, and of the built-in data

    def __post_init__(self) -> None:
        for name in (
            "examples",
            "sentence",
            "sentences",
            "vocab_size",
            "min_frequency",
            "batch_size",
            "max_batch_tokens",
        ):
            if getattr(self, name) < 1:
                raise ConfigError(f"{name}={getattr(self, name)} must be at least 1")
        if self.max_length < 3:
            raise ConfigError(f"longest={self.max_length} must be at least 3: a token and two marks")
        if not 0 <= self.smoothing < 1:
            raise ConfigError(f"smoothing={self.smoothing} must be at least 0 and below 1")
        if self.path is None and self.layout != Layout(separator=self.separator):
            raise ConfigError("label, text, header, valid and test describe files; give data.path=…")

    @property
    def layout(self) -> Layout:
        """Where label and text stand in files."""
        return Layout(**{each.name: getattr(self, each.name) for each in fields(Layout)})

    @property
    def data_source(self) -> LabelledSource:
        """Where the documents come from."""
        return LabelledSource(self.path, self.dataset, self.seed, self.examples)

    @property
    def limits(self) -> Limits:
        """How much of a document is read; two tokens are left for the marks that some models set around it."""
        return Limits(self.sentence, self.sentences, self.max_length - 2)


TINY = Config(examples=60, vocab_size=500, batch_size=8)  # for tests


@dataclass(frozen=True)
class Options:
    """What one can ask for."""

    n: int = 1  # how many labels of each document, likeliest first
    threshold: float = 0.5  # where documents may have several labels: those at least this probable are given

    def __post_init__(self) -> None:
        if self.n < 1:
            raise ConfigError(f"n={self.n}: ask for at least one")
        if not 0 < self.threshold < 1:
            raise ConfigError(f"threshold={self.threshold} must lie between 0 and 1")


class Classification(Task):
    """Documents with labels as a task: batches, loss, accuracy, labels of new documents, and how one is shown."""

    throughput_unit, input_suffixes = "documents", (".txt",)

    def __init__(
        self, config: Config, tokenizer: Tokenizer, label_names: Sequence[str], *, examples: Sequence[str] = ()
    ) -> None:
        self.config, self.tokenizer, self.label_names = config, tokenizer, list(label_names)
        self.multi_label = bool(config.separator)
        self.special_tokens = masking.special_tokens_of(tokenizer)
        limits = {
            "max_length": config.max_length,
            "max_sentence_length": config.sentence,
            "max_sentences": config.sentences,
        }
        self.spec = DocumentSpec(
            tokenizer.vocab_size,
            len(label_names),
            **limits,
            special_tokens=self.special_tokens,
            multi_label=self.multi_label,
        )
        self.target_metric = TargetMetric("f1" if self.multi_label else "accuracy", higher_is_better=True)
        self.examples = tuple(examples)

    @cached_property
    def documents(self) -> dict[str, Examples[Document]]:
        """The splits there are; opened when first asked for, so that a trained model is used without its data."""
        return labelled_sources.open_documents(
            self.config.data_source, self.config.layout, split_function=example_splits.split_function_for(self)
        )

    @cached_property
    def training_documents(self) -> EncodedDocuments:
        """The training documents as token numbers."""
        return self._encoded("train")

    def _encoded(self, split: str) -> EncodedDocuments:
        settings: dict[str, Any] = {"splitter": self.config.splitter, "limits": self.config.limits}
        documents = example_splits.get_split(self.documents, split)
        found = document_corpus.encode(
            documents, self.tokenizer, self.label_names, **settings, multi_label=self.multi_label
        )
        if not found.size:
            raise DataError(f"{documents.where}: every document of {split} is empty")
        return found

    def data_summary(self) -> list[str]:
        """How many documents there are, the labels, the vocabulary, and the first document."""
        first = next(iter(example_splits.get_split(self.documents, "train")))
        known = (f"{len(self.label_names)} labels", data_summary.format_vocabulary(self.spec.vocab_size))
        counts = data_summary.format_counts("documents", data_summary.split_sizes(self.documents), *known)
        return [counts, data_summary.format_first_example("document", first.text, ", ".join(first.labels))]

    def data_warnings(self) -> list[str]:
        """What is left out of the training documents, and how uneven the labels are."""
        found, total = self.training_documents, self.training_documents.size + self.training_documents.blank
        notes = text_files.split_encoding_remarks(self.documents.values())
        notes += [f"{found.blank} of {total} training documents are empty and are left out"] if found.blank else []
        if found.shortened:
            limits = (
                f"data.max_length={self.config.max_length} tokens or data.sentences={self.config.sentences} sentences"
            )
            notes.append(f"{found.shortened} of {total} training documents are read only up to {limits}")
        return notes + metrics.imbalance_warnings(document_corpus.label_counts(found.labels), self.label_names)

    def fingerprint(self) -> dict[str, str]:
        """A checksum of each split."""
        return {name: documents.checksum() for name, documents in self.documents.items()}

    def token_texts(self, table: str = "") -> list[str]:
        """The text of each token number; none for marks."""
        return self.tokenizer.token_texts()

    def epoch_batches(self, epoch: int, seed: int) -> list[Indices]:
        """The epoch's batches of documents of like length."""
        config = self.config
        return document_corpus.epoch_batches(
            self.training_documents.lengths(),
            batch_size=config.batch_size,
            budget=config.max_batch_tokens,
            seed=seed,
            epoch=epoch,
        )

    def collate(self, examples: Indices) -> LabelledBatch:
        """Example numbers -> documents and labels."""
        return self.training_documents.batch(examples)

    def loss(self, model: Any, batch: LabelledBatch) -> Loss:
        """Cross entropy of the labels, summed over the documents."""
        total = model.readout.loss(model(batch.documents), batch.labels, smoothing=self.config.smoothing)
        return Loss(total, len(batch.labels))

    def evaluate(self, model: Any, split: str, decoding: Any) -> dict[str, float]:
        """`accuracy` (with several labels `f1` of all and the mean `f1_macro` of labels) and the loss of a document."""
        logits, found = self._logits(model, split)
        scores = metrics.compute_metrics(
            logits, torch.from_numpy(found.labels), num_blank=found.blank, multi_label=self.multi_label
        )
        return scores | ({"empty": float(found.blank)} if found.blank else {})

    def _logits(self, model: Any, split: str) -> tuple[Tensor, EncodedDocuments]:
        found = self._encoded(split)
        logits = torch.zeros(found.size, len(self.label_names))
        with eval_mode(model) as device:
            batches = batching.batches_by_length(
                found.lengths(), budget=max(MIN_BATCH_TOKENS, self.config.max_batch_tokens)
            )
            for numbers in track(batches, total=found.size, size=len):
                given = map_tensors(found.batch(numbers).documents, lambda x: x.to(device))
                logits[numbers] = model.readout(model(given)).float().cpu()
        return logits, found

    def extra_metrics(self, model: Any, split: str, decoding: Any) -> dict[str, float]:
        """The confusion matrix, and on built-in reviews how much of the attention falls on what decides."""
        logits, found = self._logits(model, split)
        table = metrics.confusion(
            logits, torch.from_numpy(found.labels), self.label_names, multi_label=self.multi_label
        )
        reviews = labelled_sources.held_out_reviews(self.config.data_source, split)
        if reviews is None:
            return table
        cuts = self._cuts([review.text for review in reviews])
        budget = max(MIN_BATCH_TOKENS, self.config.max_batch_tokens)
        return table | metrics.attention_on_evidence(model, reviews, cuts, tokenizer=self.tokenizer, budget=budget)

    def signatures(self) -> dict[str, str]:
        """How each score is computed, for others to repeat it."""
        computed = metrics.MULTI_LABEL_SIGNATURES if self.multi_label else metrics.SINGLE_LABEL_SIGNATURES
        return computed | (
            metrics.EVIDENCE_SIGNATURES if labelled_sources.held_out_reviews(self.config.data_source, "valid") else {}
        )

    def _cuts(self, texts: Sequence[str]) -> list[TokenizedDocument]:
        settings: dict[str, Any] = {"splitter": self.config.splitter, "limits": self.config.limits}
        return document_corpus.tokenize_documents(texts, self.tokenizer, **settings)

    def parse_input(self, text: str) -> str:
        """A text, or the path of a .txt file; nothing at all is an error."""
        named = text.endswith(".txt") and "\n" not in text and Path(text).is_file()
        if not named and text.endswith(".txt") and not any(map(str.isspace, text)):
            raise DataError(f"{text}: no such file; write a text that ends like one with a space before it")
        return self.parse_untrusted_text(text_files.read_text(Path(text)) if named else text)

    def parse_untrusted_text(self, text: str) -> str:
        """A text; nothing at all is an error."""
        if not text.strip():
            raise DataError("the document is empty; give some text")
        return text

    def predict(self, model: Any, inputs: Sequence[str], options: Options, decoding: Any) -> list[list[Prediction]]:
        """Documents -> for each its labels, likeliest first; with several labels all that are probable in one line."""
        cuts = self._cuts(inputs)
        lengths = np.array([sum(map(len, cut.rows)) for cut in cuts], dtype=np.int64)
        answers: list[list[Prediction]] = [[] for _ in inputs]
        asked: dict[str, Any] = {"top": options.n, "threshold": options.threshold if self.multi_label else None}
        with eval_mode(model) as device:
            for numbers in batching.batches_by_length(
                lengths, budget=max(MIN_BATCH_TOKENS, self.config.max_batch_tokens)
            ):
                given = map_tensors(
                    document_corpus.collate_documents([cuts[i] for i in numbers]), lambda x: x.to(device)
                )
                for i, row in zip(numbers.tolist(), model.readout(model(given)).float().cpu(), strict=True):
                    answers[i] = metrics.to_predictions(row, self.label_names, **asked, remarks=_shortened(cuts[i]))
        return answers

    def inspect(self, model: Any, parsed_input: str, options: Options, decoding: Any) -> Inspectable:
        """A document -> its label, and which words and sentences the model looked at."""
        begun = time.perf_counter()
        answers = self.predict(model, [parsed_input], options, decoding)[0]
        seconds = time.perf_counter() - begun
        outputs = [Output(answer.text, answer.score, answer.rank) for answer in answers]
        review = labelled_sources.find_review(self.config.data_source, parsed_input)
        found = ClassifiedDocument(
            parsed_input, self._cuts([parsed_input])[0], outputs, answers[0].value, seconds, review
        )
        with eval_mode(model) as device:
            return inspect.build_inspectable(
                model, found, tokenizer=self.tokenizer, special_tokens=self.special_tokens, device=device
            )

    def save(self, folder: Path) -> None:
        """Write the tokenizer, the names of the labels and the examples."""
        text_corpus.save(folder, self.tokenizer, self.examples)
        write_text(folder / LABELS_FILE, json.dumps(self.label_names, indent=1, ensure_ascii=False) + "\n")


def _shortened(cut: TokenizedDocument) -> tuple[str, ...]:
    read = sum(map(len, cut.rows))
    return (f"only the first {read} of {cut.num_tokens} tokens are read",) if read < cut.num_tokens else ()


def build(config: Config, folder: Path | None = None) -> Classification:
    """A config -> the task with a vocabulary made from the training documents, or taken from a run folder."""
    documents = labelled_sources.open_documents(config.data_source, config.layout)
    names = document_corpus.training_labels(documents)
    choices: dict[str, Any] = {
        "splitter": config.splitter,
        "level": config.tokenizer,
        "lowercase": config.lowercase,
        "minimum": config.min_frequency,
    }
    if folder is None:
        tokenizer = document_corpus.train_tokenizer(documents["train"], size=config.vocab_size, **choices)
    else:
        tokenizer = tokenizers.load(folder / text_corpus.TOKENIZER)
    few = [document.text for document in islice(documents["valid"], 200) if document.text.strip()]
    short = [" ".join(text.split()) for text in few if len(text) <= MAX_EXAMPLE_CHARACTERS]
    return Classification(config, tokenizer, names, examples=sorted(short or few, key=len)[-3:])


def load(config: Config, folder: Path) -> Classification:
    """A config and a run folder -> the task with the vocabulary and labels of that run; the data is not needed."""
    path = folder / LABELS_FILE
    try:
        names = [str(name) for name in json.loads(path.read_text(encoding="utf-8"))]
    except (OSError, ValueError, TypeError) as wrong:
        raise CheckpointError(f"{path}: the names of the labels cannot be read ({wrong})") from None
    tokenizer = tokenizers.load(folder / text_corpus.TOKENIZER)
    return Classification(config, tokenizer, names, examples=text_corpus.read_examples(folder))
