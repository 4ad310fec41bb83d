"""The classification task: labelled documents as batches, the training loss, evaluation, and predicted labels."""

from __future__ import annotations

import json
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, fields
from functools import cached_property
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from regard.core.config import check_fields
from regard.core.data_size import DataSize, measure_texts
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
from regard.data.text.unknown_words import find_unknown_words_of_sentences
from regard.layers.ngram_votes import NgramVotes
from regard.tasks._shared import data_summary, text_corpus
from regard.tasks._shared.text_corpus import Level
from regard.tasks._shared.text_vectors import vector_prediction
from regard.tasks.classification import baselines, calibration, inspect, metrics
from regard.tasks.classification.baselines import LabelledTexts
from regard.tasks.classification.inspect import ClassifiedDocument, DocumentModel
from regard.tasks.classification.prediction import to_predictions, truncation_remarks

LABELS_FILE = "labels.json"
# Tokens in a batch at inference: with 40,000 the layers take 1.8 times as long, unless freed memory is retained.
INFERENCE_TOKENS = 8192
NUM_EXAMPLES = 3
MAX_EXAMPLE_CANDIDATES = 200  # validation documents from which examples are chosen
MAX_EXAMPLE_CHARACTERS = 400  # of a document that is stored as an example
NUM_SPECIAL_TOKENS = 2  # BOS and EOS, which some models add to a document
IMBALANCE_RATIO = 10  # labels are uneven if one is this many times as frequent as another


@dataclass(frozen=True)
class Config:
    """Documents, sentence splitting, tokenizer and batches. Without a path, built-in reviews."""

    path: Path | None = None  # a table (.tsv, .csv, .jsonl), a folder of tables or one by class, or an archive of one
    dataset: str = "reviews_en"  # without a path: reviews_en, reviews_ko (built in), or hf:… for Hugging Face
    label: str = "label"  # the column of the label: its name, or its number from 1
    text: str = "text"  # the column of the text
    header: bool | None = None  # whether tables start with a header line; none: if a column is given by name
    separator: str = ""  # separator between several labels of a document; "": each document has one label
    valid: str = ""  # folders by class without splits: a pattern of the validation files (cv8*)
    test: str = ""  # folders by class without splits: a pattern of the test files
    examples: int = 6000  # training documents of the built-in data
    splitter: Splitter = field(default_factory=Splitter)  # sentence splitting
    sentence: int = 60  # maximum tokens of a sentence; a longer one is split
    sentences: int = 150  # maximum sentences of a document; the rest is not read
    max_length: int = 3000  # maximum tokens of a document; the rest is not read
    tokenizer: Level = "word"  # token type: words (word), subwords (bpe, unigram, bytes) or characters (char)
    vocab_size: int = 30_000  # maximum number of tokens
    lowercase: bool = True  # lowercase all text
    min_frequency: int = 2  # minimum number of occurrences of a token
    batch_size: int = 32  # documents in a batch
    max_batch_tokens: int = 40_000  # maximum padded tokens in a batch; batches of long documents are smaller
    smoothing: float = 0.0  # label smoothing: share of the probability that is spread over all labels
    seed: int = 1  # of generated splits and of the built-in data

    def __post_init__(self) -> None:
        counts = ("examples", "sentence", "sentences", "vocab_size", "min_frequency", "batch_size", "max_batch_tokens")
        check_fields(self, at_least_1=counts, probability=("smoothing",))
        if self.max_length < NUM_SPECIAL_TOKENS + 1:
            raise ConfigError(f"max_length={self.max_length} must be at least 3: one token, BOS and EOS")
        if self.path is None and self.layout != Layout(separator=self.separator):
            raise ConfigError("label, text, header, valid and test describe files; give data.path=…")

    @property
    def layout(self) -> Layout:
        """Columns of the label and the text in files."""
        return Layout(**{setting.name: getattr(self, setting.name) for setting in fields(Layout)})

    @property
    def data_source(self) -> LabelledSource:
        """Location of the documents."""
        return LabelledSource(self.path, self.dataset, self.seed, self.examples)

    @property
    def limits(self) -> Limits:
        """Maximum size of a document; two tokens are reserved for BOS and EOS."""
        return Limits(self.sentence, self.sentences, self.max_length - NUM_SPECIAL_TOKENS)


TINY = Config(examples=60, vocab_size=500, batch_size=8)  # for tests


@dataclass(frozen=True)
class Options:
    """Options of a request."""

    n: int = 1  # number of labels of each document, most likely first
    threshold: float = 0.5  # if documents may have several labels: minimum probability of a predicted label
    temperature: float = 1.0  # divisor of the logits, above 1: less confident; regard evaluate prints the fitted value
    embed: bool = False  # return the vector of the document that the output layer reads, instead of labels

    def __post_init__(self) -> None:
        check_fields(self, at_least_1=("n",), positive=("temperature",))
        if not 0 < self.threshold < 1:
            raise ConfigError(f"threshold={self.threshold} must be between 0 and 1")


class Classification(Task):
    """Classification of documents with one or several labels."""

    spec: DocumentSpec
    throughput_unit, input_suffixes = "documents", (".txt",)

    def __init__(
        self, config: Config, tokenizer: Tokenizer, label_names: Sequence[str], *, examples: Sequence[str] = ()
    ) -> None:
        self.config, self.tokenizer, self.label_names = config, tokenizer, list(label_names)
        self.multi_label = bool(config.separator)
        self.special_tokens = masking.special_tokens_of(tokenizer)
        self.spec = DocumentSpec(
            tokenizer.vocab_size,
            len(label_names),
            max_length=config.max_length,
            max_sentence_length=config.sentence,
            max_sentences=config.sentences,
            special_tokens=self.special_tokens,
            multi_label=self.multi_label,
        )
        self.target_metric = TargetMetric("f1" if self.multi_label else "accuracy", higher_is_better=True)
        self.examples = tuple(examples)

    @cached_property
    def documents(self) -> dict[str, Examples[Document]]:
        """The available splits, opened on first use, so that a trained model does not need its data."""
        return labelled_sources.open_documents(
            self.config.data_source, self.config.layout, split_function=example_splits.split_function_for(self)
        )

    @cached_property
    def training_documents(self) -> EncodedDocuments:
        """The training documents as token ids."""
        return self._encode_split("train")

    def _encode_split(self, split: str) -> EncodedDocuments:
        documents = example_splits.get_split(self.documents, split)
        encoded = document_corpus.encode(
            documents,
            self.tokenizer,
            self.label_names,
            splitter=self.config.splitter,
            limits=self.config.limits,
            multi_label=self.multi_label,
        )
        if not encoded.size:
            raise DataError(f"{documents.where}: every document of {split} is empty")
        return encoded

    def data_summary(self) -> list[str]:
        first = next(iter(example_splits.get_split(self.documents, "train")))
        sizes = (f"{len(self.label_names)} labels", data_summary.format_vocabulary(self.spec.vocab_size))
        counts = data_summary.format_counts("documents", data_summary.split_sizes(self.documents), *sizes)
        return [counts, data_summary.format_first_example("document", first.text, ", ".join(first.labels))]

    def data_warnings(self) -> list[str]:
        train = self.training_documents
        total = train.size + train.blank
        warnings = text_files.file_remarks(self.documents.values())
        if train.blank:
            warnings.append(f"{train.blank} of {total} training documents are empty and are left out")
        if train.shortened:
            limits = (
                f"data.max_length={self.config.max_length} tokens or data.sentences={self.config.sentences} sentences"
            )
            warnings.append(f"{train.shortened} of {total} training documents are read only up to {limits}")
        counts = document_corpus.label_counts(train.labels)
        warnings += document_corpus.missing_label_warnings(counts, self.label_names)
        return warnings + imbalance_warnings(counts, self.label_names)

    def fingerprint(self) -> dict[str, str]:
        return {name: documents.checksum() for name, documents in self.documents.items()}

    def token_texts(self, table: str = "") -> list[str]:
        return self.tokenizer.token_texts()

    def epoch_batches(self, epoch: int, seed: int) -> list[Indices]:
        """Return batches of documents of similar length."""
        return document_corpus.epoch_batches(
            self.training_documents.lengths(),
            batch_size=self.config.batch_size,
            budget=self.config.max_batch_tokens,
            seed=seed,
            epoch=epoch,
        )

    def collate(self, examples: Indices) -> LabelledBatch:
        return self.training_documents.batch(examples)

    def loss(self, model: DocumentModel, batch: LabelledBatch) -> Loss:
        """Return the cross entropy of the labels, summed over the documents."""
        total = model.readout.loss(model(batch.documents), batch.labels, smoothing=self.config.smoothing)
        return Loss(total, len(batch.labels))

    def initialize(self, model: DocumentModel) -> None:
        """Count the n-grams of the training documents for the n-gram votes of a model."""
        votes = getattr(model, "votes", None)
        if isinstance(votes, NgramVotes):
            encoded = self.training_documents
            votes.fit(
                encoded.batch(indices)
                for indices in batching.batches_by_length(encoded.lengths(), budget=INFERENCE_TOKENS)
            )

    def evaluate(self, model: DocumentModel, split: str, decoding: Any) -> dict[str, float]:
        """Return `accuracy` (with several labels also micro `f1` and `f1_macro`) and the loss per document."""
        logits, encoded = self._split_logits(model, split)
        scores = metrics.compute_metrics(
            logits, torch.from_numpy(encoded.labels), num_blank=encoded.blank, multi_label=self.multi_label
        )
        return scores | ({"empty": float(encoded.blank)} if encoded.blank else {})

    def _split_logits(self, model: DocumentModel, split: str) -> tuple[Tensor, EncodedDocuments]:
        encoded = self._encode_split(split)
        logits = torch.zeros(encoded.size, len(self.label_names))
        with eval_mode(model) as device:
            batches = batching.batches_by_length(encoded.lengths(), budget=INFERENCE_TOKENS)
            for indices in track(batches, total=encoded.size, size=len):
                documents = map_tensors(encoded.batch(indices).documents, lambda x: x.to(device))
                logits[indices] = model.readout(model(documents)).float().cpu()
        return logits, encoded

    def extra_metrics(self, model: DocumentModel, split: str, decoding: Any) -> dict[str, float]:
        """Return the confusion matrix, F1 by label, calibration, and on built-in reviews the attention on the
        evidence."""
        logits, encoded = self._split_logits(model, split)
        labels = torch.from_numpy(encoded.labels)
        table = metrics.confusion(logits, labels, self.label_names, multi_label=self.multi_label)
        if not self.multi_label:
            table |= metrics.metrics_by_label(logits, labels, self.label_names)
            table |= self._calibration(model, split, logits=logits, labels=labels)
        reviews = labelled_sources.held_out_reviews(self.config.data_source, split)
        if reviews is None:
            return table
        return table | metrics.attention_on_evidence(
            model,
            reviews,
            self._tokenize([review.text for review in reviews]),
            tokenizer=self.tokenizer,
            budget=INFERENCE_TOKENS,
        )

    def _calibration(self, model: DocumentModel, split: str, *, logits: Tensor, labels: Tensor) -> dict[str, float]:
        """Return the calibration error and the reliability diagram, and both with the temperature that is fitted on
        the validation documents, if the split is another one."""
        table = calibration.reliability(logits, labels)
        if split == "valid" or "valid" not in self.documents:
            return table
        valid_logits, valid = self._split_logits(model, "valid")
        temperature = calibration.fit_temperature(valid_logits, torch.from_numpy(valid.labels))
        scaled = calibration.reliability(logits / temperature, labels)
        return table | {"temperature": temperature, "calibration_error_scaled": scaled["calibration_error"]}

    def baselines(self, split: str) -> dict[str, float]:
        """Return the accuracy of an NB-SVM and of an SVM over character n-grams; an empty document counts as wrong."""
        if self.multi_label:
            return {}
        valid = self._labelled_texts("valid") if "valid" in self.documents and split != "valid" else None
        return baselines.baseline_metrics(self._labelled_texts("train"), valid, self._labelled_texts(split))

    def _labelled_texts(self, split: str) -> LabelledTexts:
        indices = {name: index for index, name in enumerate(self.label_names)}
        documents = list(example_splits.get_split(self.documents, split))
        labels = [indices.get(document.labels[0], -1) if document.text.strip() else -1 for document in documents]
        return LabelledTexts([document.text for document in documents], labels)

    def signatures(self) -> dict[str, str]:
        table = metrics.MULTI_LABEL_SIGNATURES if self.multi_label else metrics.SINGLE_LABEL_SIGNATURES
        has_evidence = labelled_sources.held_out_reviews(self.config.data_source, "valid")
        return table | (metrics.EVIDENCE_SIGNATURES if has_evidence else {})

    def _tokenize(self, texts: Sequence[str]) -> list[TokenizedDocument]:
        return document_corpus.tokenize_documents(
            texts, self.tokenizer, splitter=self.config.splitter, limits=self.config.limits
        )

    def parse_input(self, text: str) -> str:
        """Return a text, or the content of a .txt file if the text is its path; an empty text is an error."""
        is_path = text.endswith(".txt") and "\n" not in text and Path(text).is_file()
        if not is_path and text.endswith(".txt") and not any(map(str.isspace, text)):
            raise DataError(f"{text}: no such file; put a space before it if it is a text")
        return self.parse_untrusted_text(text_files.read_text(Path(text)) if is_path else text)

    def parse_untrusted_text(self, text: str) -> str:
        """Return the text; an empty text is an error."""
        if not text.strip():
            raise DataError("the document is empty; give some text")
        return text

    def predict(
        self, model: DocumentModel, inputs: Sequence[str], options: Options, decoding: Any
    ) -> list[list[Prediction]]:
        """Documents -> the labels of each, most likely first; with several labels, the first prediction lists all.
        With `embed` the vector of each document instead."""
        config, tokenizer = self.config, self.tokenizer
        sentences = document_corpus.encode_sentences(inputs, tokenizer, splitter=config.splitter)
        documents = [document_corpus.truncate(document, config.limits) for document in sentences]
        lengths = np.array([sum(map(len, document.rows)) for document in documents], dtype=np.int64)
        predictions: list[list[Prediction]] = [[] for _ in inputs]
        with eval_mode(model) as device:
            for indices in batching.batches_by_length(lengths, budget=INFERENCE_TOKENS):
                batch = document_corpus.collate_documents([documents[i] for i in indices])
                features = model(map_tensors(batch, lambda x: x.to(device)))
                if options.embed:
                    for i, vector in zip(indices.tolist(), features.float().cpu().numpy(), strict=True):
                        predictions[i] = [vector_prediction(vector)]
                    continue
                logits = model.readout(features).float().cpu() / options.temperature
                labels_of = to_predictions(
                    logits,
                    self.label_names,
                    top=options.n,
                    threshold=options.threshold if self.multi_label else None,
                    remarks=[truncation_remarks(documents[i]) for i in indices],
                )
                for i, labels in zip(indices.tolist(), labels_of, strict=True):
                    words = find_unknown_words_of_sentences(inputs[i], tokenizer, sentences[i])
                    predictions[i] = [label.with_unknown_tokens(words) for label in labels] if words else labels
        return predictions

    def inspect(self, model: DocumentModel, parsed_input: str, options: Options, decoding: Any) -> Inspectable:
        started_at = time.perf_counter()
        predictions = self.predict(model, [parsed_input], options, decoding)[0]
        seconds = time.perf_counter() - started_at
        classified = ClassifiedDocument(
            parsed_input,
            self._tokenize([parsed_input])[0],
            [Output(prediction.text, prediction.score, prediction.ranking_score) for prediction in predictions],
            predictions[0].value,
            seconds,
            labelled_sources.find_review(self.config.data_source, parsed_input),
            predictions[0].remarks,
        )
        with eval_mode(model) as device:
            return inspect.build_inspectable(
                model, classified, tokenizer=self.tokenizer, special_tokens=self.special_tokens, device=device
            )

    def save(self, folder: Path) -> None:
        """Write the tokenizer, the label names and the examples."""
        text_corpus.save(folder, self.tokenizer, self.examples)
        write_text(folder / LABELS_FILE, json.dumps(self.label_names, indent=1, ensure_ascii=False) + "\n")


def imbalance_warnings(counts: Counter[int], names: Sequence[str]) -> list[str]:
    """Return a warning if the labels are uneven."""
    if not counts:
        return []
    (most, large), (least, small) = counts.most_common()[0], counts.most_common()[-1]
    if large < IMBALANCE_RATIO * small:
        return []
    return [f"uneven labels: {large} training documents are {names[most]!r}, {small} are {names[least]!r}"]


def measure(config: Config) -> DataSize:
    """Return the size of the training documents."""
    documents = labelled_sources.open_documents(config.data_source, config.layout)["train"]
    return measure_texts("document", ((document.text,) for document in documents))


def build(config: Config, folder: Path | None = None) -> Classification:
    """Build the task with a vocabulary trained on the training documents, or with that of a run folder."""
    documents = labelled_sources.open_documents(config.data_source, config.layout)
    names = document_corpus.training_labels(documents)
    if folder is None:
        tokenizer = document_corpus.train_tokenizer(
            documents["train"],
            size=config.vocab_size,
            splitter=config.splitter,
            level=config.tokenizer,
            lowercase=config.lowercase,
            minimum=config.min_frequency,
        )
    else:
        tokenizer = tokenizers.load(folder / text_corpus.TOKENIZER)
    candidates = islice(documents["valid"], MAX_EXAMPLE_CANDIDATES)
    texts = [document.text for document in candidates if document.text.strip()]
    short = [" ".join(text.split()) for text in texts if len(text) <= MAX_EXAMPLE_CHARACTERS]
    return Classification(config, tokenizer, names, examples=sorted(short or texts, key=len)[-NUM_EXAMPLES:])


def load(config: Config, folder: Path) -> Classification:
    """Load the task with the vocabulary and labels of a run folder; the data is not needed."""
    path = folder / LABELS_FILE
    try:
        names = [str(name) for name in json.loads(path.read_text(encoding="utf-8"))]
    except (OSError, ValueError, TypeError) as error:
        raise CheckpointError(f"{path}: the label names cannot be read ({error})") from None
    tokenizer = tokenizers.load(folder / text_corpus.TOKENIZER)
    return Classification(config, tokenizer, names, examples=text_corpus.read_examples(folder))
