"""The translation task: sentence pairs as batches, the training loss, free-running evaluation, and predictions."""

from __future__ import annotations

import copy
import json
import math
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from itertools import islice
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from regard.core.config import check_fields
from regard.core.data_size import DataSize, measure_texts
from regard.core.data_specs import Seq2SeqSpec, SpecialTokens
from regard.core.errors import ConfigError, DataError, did_you_mean, pluralize
from regard.core.files import cache_folder, write_text
from regard.core.inference_mode import eval_mode
from regard.core.inspectable import Inspectable
from regard.core.prediction import unknown_token_remarks
from regard.core.protocols import Decoder, Hypothesis, Indices, Loss, Padded, TargetMetric
from regard.core.state_tree import map_tensors
from regard.core.task import Prediction, Task
from regard.data import batching
from regard.data import examples as example_splits
from regard.data.batching import PairBatch
from regard.data.files import text_files
from regard.data.text import (
    mapped_corpus,
    pair_corpus,
    pair_files,
    pair_sources,
    placeholders,
    tokenizer,
    translation_codec,
    translation_memory,
)
from regard.data.text.pair_corpus import PairCorpus
from regard.data.text.pair_files import Languages, Pair, Pairs
from regard.data.text.placeholders import MaskedText, Placeholders
from regard.data.text.tokenizer import Level, Tokenizer, TokenizerPair
from regard.data.text.translation_memory import Match, TranslationMemory
from regard.data.text.unknown_words import find_unknown_words
from regard.decoding.prefix_grammar import PrefixGrammar
from regard.decoding.strategy import DecodingStrategy, n_best
from regard.tasks._shared import data_summary, text_corpus
from regard.tasks._shared.batch_search import SearchBatch, max_batch_size, search_batches
from regard.tasks._shared.teacher_forcing import loss_per_token, teacher_forcing_loss
from regard.tasks.translation import baselines, inspect, metrics, retrieval

DEFAULT_EXAMPLES = {"ko": "간호사는 도서관에서 새 책을 읽고 있어요."}  # for runs without stored examples, by language
DEFAULT_EXAMPLE = "The nurse is reading a new book."
MAX_ALIGNED_PAIRS = 200  # pairs of a split on which the alignment error rate is computed
MAX_BATCH_SOURCES = 256  # decoded together; more gain nothing, and their caches no longer fit in the CPU cache
MIN_BATCH_TOKENS = 4096  # budget of source tokens in a batch that is decoded, if training batches are smaller
NUM_EXAMPLES = 3
NUM_COMPARISON_INPUTS = 32  # sources stored with a run, on which engines are compared
MAX_EXAMPLE_CANDIDATES = 200  # validation pairs from which examples are chosen
MAX_LOSS_EXPONENT = 700.0  # exp of more overflows


def check_weight(name: str, value: float | None) -> None:
    """Raise a ConfigError unless a weight is from 0 to 1, or None."""
    if value is not None and not 0 <= value <= 1:
        raise ConfigError(f"{name}={value} must be from 0 (the model alone) to 1 (the translation memory alone)")


@dataclass(frozen=True)
class Config:
    """Sentence pairs, tokenizer and batches. Without a path, the built-in English -> Korean data."""

    path: Path | None = None  # a file or folder of sentence pairs
    dataset: str = pair_sources.BUILT_IN  # without a path: the built-in data, a known download, or hf:… (Hugging Face)
    source: str = "en"  # the language to translate from: a file suffix, a column name, or a column number from 1
    target: str = "ko"  # the language to translate to
    columns: tuple[str, ...] = ()  # column names of tables without a header, in order; none: source, target
    header: bool | None = None  # whether tables start with a header line; none: detected, or an error if unclear
    pairs: int = 20_000  # training pairs of the built-in data
    tokenizer: Level = "bpe"  # token type: subwords (bpe, unigram), words (word) or characters (char)
    vocab_size: int = 8000  # maximum number of tokens in a vocabulary
    joint: bool = False  # use one vocabulary for both languages
    lowercase: bool = False  # lowercase all text
    min_frequency: int = 1  # minimum number of occurrences of a token
    max_batch_tokens: int = 4096  # padded tokens in a batch, on its larger side
    max_length: int = 256  # maximum tokens of a sentence, end token included; longer pairs are left out and counted
    smoothing: float = 0.1  # label smoothing: share of the probability that is spread over all tokens
    similar_pairs: int = 0  # similar training pairs whose targets follow each source; the run stores the training pairs
    placeholders: bool = False  # replace words that translations copy, such as names and code, by ①, ② … in both texts
    memory_weight: float = 0.0  # weight of similar training pairs against the model; the run stores the training pairs
    memory_pairs: int = 16  # similar training pairs that are compared with the hypotheses of the model
    max_memory_mb: int = 256  # training text up to this size is encoded in memory; more is mapped from the cache folder
    seed: int = 1  # of generated splits and of the built-in data

    def __post_init__(self) -> None:
        check_fields(
            self,
            at_least_1=("pairs", "vocab_size", "min_frequency", "max_batch_tokens", "max_length", "memory_pairs"),
            at_least_0=("similar_pairs",),
            probability=("smoothing",),
        )
        if self.similar_pairs and not self.joint:
            raise ConfigError(
                f"similar_pairs={self.similar_pairs} appends target texts to the sources; set data.joint=true"
            )
        check_weight("memory_weight", self.memory_weight)
        if self.source == self.target:
            raise ConfigError(f"source and target are both {self.source!r}; name two languages")

    @property
    def has_memory(self) -> bool:
        """True if the run stores the training pairs."""
        return bool(self.similar_pairs or self.memory_weight)

    @property
    def data_source(self) -> pair_sources.PairSource:
        """Location and columns of the sentence pairs."""
        languages = Languages(self.source, self.target, self.columns, self.header)
        return pair_sources.PairSource(self.path, self.dataset, languages, self.seed)


TINY = Config(pairs=200, vocab_size=300, max_batch_tokens=512)  # for tests


@dataclass(frozen=True)
class Options:
    """Options of a request; the search itself is set by the [decoding] section of the run."""

    n: int = 1  # number of translations of each text; the first does not depend on n, a beam is widened if necessary
    prefix: str = ""  # start of every translation, which the model continues
    alignments: bool = False  # add the word alignment to each translation: ||| 0-0 1-2, source word - target word
    memory_weight: float | None = (
        None  # weight of similar training pairs, 0 (the model alone) … 1; none: that of the run
    )

    def __post_init__(self) -> None:
        check_fields(self, at_least_1=("n",))
        check_weight("memory_weight", self.memory_weight)


@dataclass(frozen=True)
class Evaluation:
    """Options of an evaluation: other texts, translations of another system, the BLEU tokenizer."""

    source: Path | None = None  # a file of texts to translate, one per line, instead of a split
    target: Path | None = None  # their reference translations, line by line
    hypotheses: Path | None = None  # translations of another system, one per line: scored instead of the model's
    bleu: str = ""  # BLEU tokenizer: 13a, char, intl, zh, ko-mecab …; "": the default of the target language
    memory_weight: float | None = (
        None  # weight of similar training pairs, 0 (the model alone) … 1; none: that of the run
    )

    def __post_init__(self) -> None:
        check_weight("memory_weight", self.memory_weight)
        if (self.source and not self.target) or (self.target and not (self.source or self.hypotheses)):
            raise ConfigError("a source and a target go together: source=test.en target=test.ko")


class Translation(Task):
    """Translation of sentence pairs."""

    spec: Seq2SeqSpec

    def __init__(
        self,
        config: Config,
        vocabularies: TokenizerPair,
        *,
        examples: Sequence[str] = (),
        comparison_inputs: Sequence[str] = (),
        memory: TranslationMemory | None = None,
        masking: Placeholders | None = None,
    ) -> None:
        self.memory, self.masking = memory, masking
        self.config, self.vocabularies, self.special_tokens = config, vocabularies, SpecialTokens()
        self.evaluation_options = Evaluation()
        self.spec = Seq2SeqSpec(
            vocabularies.source.vocab_size,
            vocabularies.target.vocab_size,
            max_length=config.max_length,
            special_tokens=self.special_tokens,
            joint_vocab=config.joint,
        )
        self.higher_is_better = {"bleu": True, "bleu_lc": True, "chrf": True, "loss": False, "perplexity": False}
        self.noise_floor = dict.fromkeys(("bleu", "bleu_lc"), metrics.NOISE_FLOOR)
        self.target_metric = TargetMetric("bleu_lc" if config.lowercase else "bleu", higher_is_better=True)
        obstacles = (name for name in ("similar_pairs", "memory_weight", "placeholders") if getattr(config, name))
        self.export_obstacle = next((f"data.{name}" for name in obstacles), "")
        self.stored_training_data = "" if memory is None else translation_memory.MEMORY_FILE
        self.examples = tuple(examples) or (DEFAULT_EXAMPLES.get(config.source, DEFAULT_EXAMPLE),)
        self.comparison_inputs = tuple(comparison_inputs)

    @cached_property
    def pairs(self) -> dict[str, Pairs]:
        """The available splits, opened on first use, so that a trained model does not need its data."""
        return pair_sources.open_pairs(
            self.config.data_source, count=self.config.pairs, split_function=example_splits.split_function_for(self)
        )

    def with_evaluation_options(self, options: Evaluation) -> Translation:
        task = copy.copy(self)
        task.evaluation_options = options
        if options.target is not None:
            pairs = pair_files.read_parallel(options.source or options.target, options.target)
            task.pairs = dict.fromkeys(("valid", "test"), pairs)
        return task

    @property
    def bleu_tokenizer(self) -> str:
        """Name of the tokenizer that BLEU uses."""
        code, columns = self.config.target, self.config.columns
        language = columns[int(code) - 1] if code.isdecimal() and 0 < int(code) <= len(columns) else code
        return metrics.bleu_tokenizer(language, self.evaluation_options.bleu)

    @cached_property
    def corpus(self) -> PairCorpus:
        """The training pairs as token ids."""
        train = self.pairs["train"] if self.masking is None else self.masking.mask_pairs(self.pairs["train"])
        if self.config.similar_pairs:
            return self._encode_pairs(list(train), exclude_same=True)
        if train.bytes > self.config.max_memory_mb * 2**20:
            return mapped_corpus.load_or_build(train, *self.vocabularies, folder=cache_folder() / "corpora")
        return pair_corpus.encode_in_memory(train, *self.vocabularies)

    def _encode_pairs(self, pairs: Sequence[Pair], *, exclude_same: bool = False) -> PairCorpus:
        """Masked pairs -> their tokens; the targets of similar training pairs may follow each source."""
        if not self.config.similar_pairs:
            return pair_corpus.encode_in_memory(pairs, *self.vocabularies)
        pairs = [pair for pair in pairs if pair_corpus.has_both_sides(pair)]
        corpus = pair_corpus.encode_in_memory(pairs, *self.vocabularies)
        parts = self._memory_rows([source for source, _ in pairs], exclude_same=exclude_same)
        sources = [self._append(corpus.source.row(i).tolist(), part) for i, part in enumerate(parts)]
        return corpus._replace(source=pair_corpus.to_ragged(sources))

    def mask(self, text: str) -> MaskedText:
        """Return a text as the model reads it, with placeholders if the run uses them."""
        return MaskedText(text, ()) if self.masking is None else self.masking.mask(text)

    def _memory_rows(self, texts: Sequence[str], *, exclude_same: bool = False) -> list[list[list[int]]]:
        """Texts -> the tokens of the targets of the most similar training pairs of each."""
        assert self.memory is not None
        similar = self.memory.targets(texts, count=self.config.similar_pairs, exclude_same=exclude_same)
        flat = iter(self.vocabularies.target.encode([target for targets in similar for target in targets]))
        return [[next(flat) for _ in targets] for targets in similar]

    def _append(self, row: list[int], targets: Sequence[Sequence[int]]) -> list[int]:
        """Source row and rows of the memory -> one row, EOS between them, cut at the maximum length."""
        joined = [*row, *(token for target in targets for token in (self.special_tokens.eos, *target))]
        return joined[: max(len(row), self.config.max_length - 1)]

    def data_warnings(self) -> list[str]:
        limit = min(self.config.max_length, self.config.max_batch_tokens)
        total = self.corpus.num_pairs + self.corpus.blank
        counts = {
            f"are longer than {limit} tokens": self.corpus.num_longer_than(limit),
            "have an empty side": self.corpus.blank,
        }
        warnings = [
            f"{count} of {total} training pairs {why} and are left out" for why, count in counts.items() if count
        ]
        for name in self.pairs:
            if name != "train" and (blank := len(list(self.pairs[name])) - len(self.split(name))):
                warnings.append(f"{pluralize(blank, 'pair')} of {name} with an empty side are not evaluated")
        return warnings

    def data_summary(self) -> list[str]:
        held_out = "".join(f", {name} {len(self.split(name)):,}" for name in self.pairs if name != "train")
        counts = f"pairs: train {self.corpus.num_pairs + self.corpus.blank:,}{held_out}"
        sizes = f"vocabularies of {self.spec.source_vocab_size:,} and {self.spec.target_vocab_size:,} tokens"
        example = next(filter(pair_corpus.has_both_sides, self.pairs["train"]), ("", ""))
        first = data_summary.format_first_example(f"pair, {self.config.source} -> {self.config.target}", *example)
        return [f"{counts}; {sizes}", first, *text_files.file_remarks(self.pairs.values())]

    def fingerprint(self) -> dict[str, str]:
        return {name: pairs.checksum() for name, pairs in self.pairs.items()}

    def split(self, name: str) -> list[Pair]:
        """Return the sentence pairs of a split in memory, without those with an empty side."""
        if name not in self.pairs:
            raise DataError(f"the data has no split {name!r}; {did_you_mean(name, self.pairs)}")
        return [pair for pair in self.pairs[name] if pair_corpus.has_both_sides(pair)]

    def token_texts(self, table: str = "") -> list[str]:
        return self.vocabularies.for_table(table).token_texts()

    def epoch_batches(self, epoch: int, seed: int) -> list[Indices]:
        budget = self.config.max_batch_tokens
        first, last = batching.epoch_shard(self.corpus.num_pairs, epoch=epoch, seed=seed)
        source, target = self.corpus.lengths(first, last)
        selection = batching.select_by_length(source, target, max_length=self.config.max_length, budget=budget)
        batches = batching.epoch_batches(
            source, target, candidates=selection.selected, budget=budget, seed=seed, epoch=epoch
        )
        return [first + batch for batch in batches] if first else batches

    def collate(self, examples: Indices) -> PairBatch:
        """Example indices -> source rows `w1 … wn EOS` and target rows `BOS w1 … wn EOS`."""
        return self.corpus.batch(examples, self.special_tokens)

    def loss(self, model: Decoder, batch: PairBatch) -> Loss:
        """Return the cross entropy with label smoothing, summed over target tokens and EOS."""
        return teacher_forcing_loss(model, batch, pad=self.special_tokens.pad, smoothing=self.config.smoothing)

    def evaluate(self, model: Decoder, split: str, decoding: DecodingStrategy) -> dict[str, float]:
        """Return the metrics of free-running translations, and the teacher-forced loss per token.

        A source that is too long counts as an empty translation.
        """
        pairs = self.split(split)
        if self.evaluation_options.hypotheses is not None:
            lines = list(self.pairs[split])
            return metrics.score_file(self.evaluation_options.hypotheses, lines, tokenize=self.bleu_tokenizer)
        masked = [self.mask(source) for source, _ in pairs]
        rows = self.vocabularies.source.encode([text for text, _ in masked])
        fits = [len(row) < self.config.max_length for row in rows]
        fitting_texts = [source for (source, _), fit in zip(pairs, fits, strict=True) if fit]
        options = Options(memory_weight=self.evaluation_options.memory_weight)
        predictions = iter(self.predict(model, fitting_texts, options, decoding))
        hypotheses = [next(predictions)[0].text if fit else "" for fit in fits]
        scores = metrics.compute_metrics(hypotheses, [target for _, target in pairs], tokenize=self.bleu_tokenizer)
        encoded = self._encode_pairs(
            [(source.text, source.mask(target)) for source, (_, target) in zip(masked, pairs, strict=True)]
        )
        loss = loss_per_token(
            model, encoded, self.special_tokens, max_length=self.config.max_length, budget=self.config.max_batch_tokens
        )
        scores |= {"loss": loss, "perplexity": math.exp(min(loss, MAX_LOSS_EXPONENT))}
        return scores | ({"too_long": float(fits.count(False))} if not all(fits) else {})

    def baselines(self, split: str) -> dict[str, float]:
        """Return the metrics of a translation memory, of a translation word by word, and of the memory of the run
        alone, whose targets are chosen as with a model."""
        pairs, train = self.split(split), list(self.pairs["train"])
        sources, references = [source for source, _ in pairs], [target for _, target in pairs]
        systems = {name: translate(train, sources) for name, translate in baselines.BASELINES.items()}
        if self.memory is not None:
            chosen = (retrieval.choose([], row, weight=1.0, count=1) for row in self._retrieve(sources, ""))
            systems["memory_consensus"] = [best[0].text for best in chosen]
        scores: dict[str, float] = {}
        for name, hypotheses in systems.items():
            values = metrics.compute_metrics(hypotheses, references, tokenize=self.bleu_tokenizer)
            scores |= {f"{name}.{metric}": value for metric, value in values.items()}
        return scores

    def extra_metrics(self, model: Any, split: str, decoding: DecodingStrategy) -> dict[str, float]:
        """Return `aer`, the lowest alignment error rate of all layers, if the true alignment is known."""
        true_links = pair_sources.true_links(self.config.data_source, split)
        if true_links is None or self.evaluation_options.target or self.evaluation_options.hypotheses:
            return {}
        masked = [(self.mask(source), target) for source, target in self.split(split)[:MAX_ALIGNED_PAIRS]]
        rates = metrics.alignment_errors(
            model,
            [(source.text, source.mask(target)) for source, target in masked],
            true_links[:MAX_ALIGNED_PAIRS],
            vocabularies=self.vocabularies,
            special_tokens=self.special_tokens,
        )
        return {"aer": min(rates.values())} if rates else {}

    def signatures(self) -> dict[str, str]:
        aer = {"aer": f"alignment error rate of the best layer, heads averaged, on the first {MAX_ALIGNED_PAIRS} pairs"}
        return metrics.signatures(self.bleu_tokenizer) | (aer if self.config.data_source.built_in else {})

    def encode_sources(self, texts: Sequence[str]) -> Padded:
        """Texts -> padded source rows `w1 … wn EOS`; a text longer than the model's maximum is an error."""
        eos, max_length = self.special_tokens.eos, self.spec.max_length
        masked = [self.mask(text).text for text in texts]
        rows = translation_codec.encode(masked, self.vocabularies.source, eos_id=eos, max_length=max_length)
        if self.config.similar_pairs:
            parts = self._memory_rows(masked)
            rows = [[*self._append(row[:-1], part), eos] for row, part in zip(rows, parts, strict=True)]
        return batching.pad(rows)

    def max_output_lengths(self, lengths: Tensor) -> Tensor:
        """Lengths of source rows (b) -> the maximum number of tokens of their translations (b)."""
        limits = translation_codec.MAX_LENGTH_RATIO * lengths + translation_codec.MAX_LENGTH_MARGIN
        return limits.clamp(max=self.spec.max_length - 1)

    def _prefix_grammar(self, prefix: str) -> PrefixGrammar | None:
        """Return the grammar of translations that start with a text; None if the text is empty."""
        text = prefix.strip()  # a blank at the end would be a token of its own
        tokens = tuple(self.vocabularies.target.encode([text])[0]) if text else ()
        if len(tokens) >= self.spec.max_length - 1:
            raise DataError(
                f"prefix: it has {len(tokens)} tokens, the model generates up to {self.spec.max_length - 1}"
            )
        if self.special_tokens.unk in tokens:
            raise DataError(f"prefix: {text!r} has characters that no translation of this model has; give another one")
        return PrefixGrammar(tokens, self.spec.target_vocab_size) if tokens else None

    def search_translations(
        self,
        model: Decoder,
        source: Padded,
        decoding: DecodingStrategy,
        *,
        sample_indices: Sequence[int],
        grammar: PrefixGrammar | None = None,
    ) -> list[list[Hypothesis]]:
        """Source rows -> the translations of each, best first. Rows of similar length are decoded together."""
        min_limit = 0 if grammar is None else len(grammar.tokens)

        def load_batch(rows: Indices, device: torch.device) -> SearchBatch:
            lengths = source.lengths[rows]
            tokens = source.tokens[rows, : int(lengths.max())]
            batch = Padded(tokens.to(device), lengths.to(device))
            return SearchBatch(batch, self.max_output_lengths(batch.lengths).clamp(min=min_limit))

        batches = batching.batches_by_length(
            source.lengths.numpy(),
            budget=max(MIN_BATCH_TOKENS, self.config.max_batch_tokens),
            max_rows=max_batch_size(decoding, MAX_BATCH_SOURCES),
        )
        return search_batches(
            model,
            decoding,
            batches,
            load_batch,
            special_tokens=self.special_tokens,
            sample_indices=sample_indices,
            grammar=grammar,
        )

    def predict(
        self, model: Decoder, inputs: Sequence[str], options: Options, decoding: DecodingStrategy
    ) -> list[list[Prediction]]:
        """Texts -> the translations of each, best first; a blank text has an empty translation.

        With a memory, the hypotheses of the search compete with the targets of similar training pairs.
        """
        weight = self._memory_weight(options)
        nonblank = [i for i, text in enumerate(inputs) if text.strip()]
        predictions = [[translation_codec.EMPTY_PREDICTION] for _ in inputs]
        source = self.encode_sources([inputs[i] for i in nonblank])
        indices = decoding.sample_indices(len(inputs))
        search = partial(
            self.search_translations,
            model,
            source,
            sample_indices=[indices[i] for i in nonblank],
            grammar=self._prefix_grammar(options.prefix),
        )
        count = decoding.width if weight else options.n  # the choice of a translation does not depend on n
        for i, hypotheses in zip(nonblank, n_best(search, decoding, count=count), strict=True):
            masked = self.mask(inputs[i])
            texts = self.vocabularies.target.decode([hypothesis.tokens for hypothesis in hypotheses])
            words = find_unknown_words(masked.text, self.vocabularies.source)
            predictions[i] = [
                Prediction(masked.restore(text), score, rank).with_unknown_tokens(words)
                for text, (_, score, rank) in zip(texts, hypotheses, strict=True)
            ]
        if weight:
            retrieved = self._retrieve([inputs[i] for i in nonblank], options.prefix)
            for i, matches in zip(nonblank, retrieved, strict=True):
                predictions[i] = retrieval.choose(predictions[i], matches, weight=weight, count=options.n)
        if options.alignments:
            for i in nonblank:
                predictions[i] = self._with_alignments(model, inputs[i], predictions[i])
        return predictions

    def _memory_weight(self, options: Options) -> float:
        """Return the weight of the memory in a request."""
        weight = self.config.memory_weight if options.memory_weight is None else options.memory_weight
        if weight and self.memory is None:
            raise ConfigError(
                f"memory_weight={weight}: the run stores no training pairs; train with data.memory_weight={weight}, "
                "or set memory_weight=0"
            )
        return weight

    def _retrieve(self, texts: Sequence[str], prefix: str) -> list[list[Match]]:
        """Texts -> the most similar training pairs of each whose targets start with the prefix, words restored."""
        if self.memory is None:
            return [[] for _ in texts]
        masked = [self.mask(text) for text in texts]
        rows = self.memory.matches([each.text for each in masked], count=self.config.memory_pairs)
        restored = (
            [match._replace(target=each.restore(match.target)) for match in row]
            for each, row in zip(masked, rows, strict=True)
        )
        return [[match for match in row if match.target.startswith(prefix.strip())] for row in restored]

    def _with_alignments(self, model: Any, text: str, predictions: Sequence[Prediction]) -> list[Prediction]:
        """Return the translations of a text with their word alignments, by attention.

        Of several layers it is the one before the last, which aligns best (Garg et al. 2019, section 4.1).
        """
        masked = self.mask(text)
        pairs = [(masked.text, masked.mask(prediction.text)) for prediction in predictions]
        source = self.encode_sources([text] * len(pairs))
        original = getattr(model, "original", model)  # an inference copy does not record its attention
        if not metrics.has_cross_attention(original):
            raise ConfigError("alignments: the model has no attention from target to source; leave the option out")
        with eval_mode(original):
            by_layer = metrics.predict_links(original, pairs, source, self.vocabularies, self.special_tokens)
        layers = list(by_layer.values())
        return [
            replace(
                prediction,
                text=f"{prediction.text} ||| {' '.join(f'{source}-{target}' for source, target in links)}",
                data={**prediction.data, "translation": prediction.text, "alignment": [list(link) for link in links]},
            )
            for prediction, unordered in zip(predictions, layers[max(0, len(layers) - 2)], strict=True)
            for links in [sorted(unordered, key=lambda link: link[::-1])]
        ]

    def inspect(self, model: Decoder, parsed_input: str, options: Options, decoding: DecodingStrategy) -> Inspectable:
        if not parsed_input.strip():
            raise DataError("there is no sentence to look at; give some text")
        with eval_mode(model) as device:
            source = map_tensors(self.encode_sources([parsed_input]), lambda x: x.to(device))
            grammar = self._prefix_grammar(options.prefix)
            limits = self.max_output_lengths(source.lengths).clamp(min=len(grammar.tokens) if grammar else 0)

            def search(strategy: DecodingStrategy) -> list[list[Hypothesis]]:
                state, special_tokens = model.start(source), self.special_tokens
                return strategy(model, state, special_tokens=special_tokens, limits=limits, grammar=grammar)

            started_at = time.perf_counter()
            (hypotheses,) = n_best(search, decoding, count=options.n)
            seconds = time.perf_counter() - started_at
            pair = parsed_input, self.decode_tokens(hypotheses[0].tokens)
            links = pair_sources.true_links_of_pair(self.config.data_source, pair, count=self.config.pairs)
            masked = self.mask(parsed_input).text
            remarks = unknown_token_remarks(find_unknown_words(masked, self.vocabularies.source))
            translated = inspect.TranslatedText(masked, source, hypotheses, seconds, links, remarks)
            return inspect.build_inspectable(
                model, translated, vocabularies=self.vocabularies, special_tokens=self.special_tokens
            )

    def decode_tokens(self, tokens: Sequence[int]) -> str:
        return self.vocabularies.target.decode([tokens])[0]

    def partial_text(self, parsed_input: str, options: Options, tokens: Sequence[int]) -> str:
        return self.mask(parsed_input).restore(self.decode_tokens(tokens))

    def reference(self, parsed_input: str) -> tuple[int, ...] | None:
        pairs = (pair for split in self.pairs.values() for pair in split)
        target = next((target for source, target in pairs if source == parsed_input), None)
        if target is None:
            return None
        masked = self.mask(parsed_input).mask(target)
        return *self.vocabularies.target.encode([masked])[0], self.special_tokens.eos

    def save(self, folder: Path) -> None:
        """Write the vocabulary (tokenizer.json, or one file for each language), examples.json and probes.json; the
        training pairs of a memory, and the words of placeholders."""
        names = translation_codec.tokenizer_files(joint=self.config.joint)
        for name, vocabulary in zip(names, self.vocabularies, strict=False):
            vocabulary.save(folder / name)
        for part in (self.memory, self.masking):
            if part is not None:
                part.save(folder)
        for name, texts in (("examples.json", self.examples), ("probes.json", self.comparison_inputs)):
            write_text(folder / name, json.dumps(texts, indent=1, ensure_ascii=False) + "\n")


def measure(config: Config) -> DataSize:
    """Return the size of the training pairs."""
    return measure_texts("pair", pair_sources.open_pairs(config.data_source, count=config.pairs)["train"])


def build(config: Config, folder: Path | None = None) -> Translation:
    """Build the task with a vocabulary trained on the training pairs, or with that of a run folder."""
    if folder is not None:
        return load(config, folder)
    pairs = pair_sources.open_pairs(config.data_source, count=config.pairs)
    masking = placeholders.learn(pairs["train"]) if config.placeholders else None
    train = pairs["train"] if masking is None else masking.mask_pairs(pairs["train"])
    sides = [(0, 1)] if config.joint else [(0,), (1,)]
    tokenizers = [
        tokenizer.train(
            pair_corpus.PairTexts(train, side),
            level=config.tokenizer,
            size=config.vocab_size,
            lowercase=config.lowercase,
            minimum=config.min_frequency,
        )
        for side in sides
    ]
    vocabularies = TokenizerPair(tokenizers[0], tokenizers[-1])
    check_length_limit(pairs["valid"], vocabularies, max_length=config.max_length)
    examples = example_sources(pairs["valid"], vocabularies.source, max_length=config.max_length)
    memory = TranslationMemory(list(train)) if config.has_memory else None
    if memory is not None:
        memory.prepare()
    return Translation(
        config,
        vocabularies,
        examples=examples[:NUM_EXAMPLES],
        comparison_inputs=examples,
        memory=memory,
        masking=masking,
    )


def load(config: Config, folder: Path) -> Translation:
    """Load the task with the vocabulary of a run folder; the data is not needed."""
    return Translation(
        config,
        TokenizerPair(*translation_codec.load_tokenizers(folder, joint=config.joint)),
        examples=text_corpus.read_examples(folder),
        comparison_inputs=text_corpus.read_examples(folder, "probes.json"),
        memory=translation_memory.load(folder) if config.has_memory else None,
        masking=placeholders.load(folder) if config.placeholders else None,
    )


def check_length_limit(pairs: Iterable[Pair], vocabularies: TokenizerPair, *, max_length: int) -> None:
    """Raise a DataError before training if no validation pair is shorter than `max_length`."""
    for pair in pairs:
        sides = zip(vocabularies, pair, strict=True)
        if all(text.strip() and len(vocabulary.encode([text])[0]) < max_length for vocabulary, text in sides):
            return
    raise DataError(
        f"no pair of the validation data has fewer than {max_length} tokens on each side; raise data.max_length"
    )


def example_sources(pairs: Iterable[Pair], tokenizer: Tokenizer, *, max_length: int) -> list[str]:
    """Return sources that the model can read, as examples; those of 4 to 12 words first."""
    texts = [source for source, _ in islice(pairs, MAX_EXAMPLE_CANDIDATES) if source.strip()]
    fitting = [text for text, row in zip(texts, tokenizer.encode(texts), strict=True) if len(row) < max_length]
    return sorted(fitting, key=lambda text: not 4 <= len(text.split()) <= 12)[:NUM_COMPARISON_INPUTS]
