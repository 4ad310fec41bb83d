"""Translation: sentence pairs in, free-running translations and their scores out. The same for every model.

Texts that are translated: as tokens that a model is given, and a few that are worth trying.
"""

from __future__ import annotations

import copy
import json
import math
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from itertools import islice
from pathlib import Path
from typing import Any

from torch import Tensor

from regard.core.data_specs import Seq2SeqSpec, SpecialTokens
from regard.core.errors import ConfigError, DataError, did_you_mean
from regard.core.files import cache_folder, write_text
from regard.core.inference_mode import eval_mode
from regard.core.inspectable import Inspectable
from regard.core.protocols import Decoder, Indices, Loss, Padded, TargetMetric
from regard.core.state_tree import map_tensors
from regard.core.task import Prediction, Task
from regard.data import batching
from regard.data import examples as example_splits
from regard.data.batching import PairBatch
from regard.data.files import text_files
from regard.data.text import mapped_corpus, pair_corpus, pair_files, pair_sources, tokenizer
from regard.data.text import translation_codec as quick
from regard.data.text.pair_corpus import PairCorpus
from regard.data.text.pair_files import Languages, Pair, Pairs
from regard.data.text.tokenizer import Level, Tokenizer, TokenizerPair
from regard.decoding.strategy import DecodingStrategy, n_best
from regard.tasks._shared import data_summary, text_corpus
from regard.tasks._shared.teacher_forcing import loss_per_token, teacher_forcing_loss
from regard.tasks.translation import inspect, metrics

DEFAULT_EXAMPLES = {"ko": "간호사는 도서관에서 새 책을 읽고 있어요."}  # tried with runs that have kept no examples
MAX_ALIGNED_PAIRS = 200  # pairs of a split whose alignment is measured


@dataclass(frozen=True)
class Config:
    """Which pairs, which tokens, which batches. Without a path, the built-in English -> Korean data."""

    path: Path | None = None  # a file or folder of sentence pairs
    dataset: str = (
        pair_sources.BUILT_IN
    )  # without a path: the built-in data, a known download, or hf:… for Hugging Face
    source: str = "en"  # the language to translate from: a file's suffix, a column's name or number
    target: str = "ko"  # the language to translate to
    columns: tuple[str, ...] = ()  # the columns of tables without a header, in order; none: source, target
    header: bool | None = None  # whether tables begin with a line of names; none: it is found out, or asked
    pairs: int = 20_000  # of the built-in training data
    tokenizer: Level = "bpe"  # what a token is: a subword (bpe, unigram), a word or a character (char)
    vocab_size: int = 8000  # tokens of a vocabulary, at most
    joint: bool = False  # one vocabulary for both languages
    lowercase: bool = False  # all text is lowercased
    min_frequency: int = 1  # how often a token must be seen
    max_batch_tokens: int = 4096  # padded tokens in a batch, on its larger side
    max_length: int = 256  # tokens of a sentence, end mark included; longer pairs are left out and counted
    smoothing: float = 0.1  # of the labels: this share of the probability is spread over all tokens
    max_memory_mb: int = 256  # megabytes of training text; the tokens of more are mapped from files in the cache folder
    seed: int = 1  # of splits that are not given, and of the built-in data

    def __post_init__(self) -> None:
        for name in ("pairs", "vocab_size", "min_frequency", "max_batch_tokens", "max_length"):
            if getattr(self, name) < 1:
                raise ConfigError(f"{name}={getattr(self, name)} must be at least 1")
        if not 0 <= self.smoothing < 1:
            raise ConfigError(f"smoothing={self.smoothing} must be at least 0 and below 1")
        if self.source == self.target:
            raise ConfigError(f"source and target are both {self.source!r}; name two languages")

    @property
    def data_source(self) -> pair_sources.PairSource:
        """Where the pairs come from."""
        languages = Languages(self.source, self.target, self.columns, self.header)
        return pair_sources.PairSource(self.path, self.dataset, languages, self.seed)


TINY = Config(pairs=200, vocab_size=300, max_batch_tokens=512)  # for tests


@dataclass(frozen=True)
class Options:
    """What one can ask for in a request; how the search is made is said by the run's [decoding] settings."""

    n: int = 1  # how many translations of each text, the first as without this; a beam is made wide enough

    def __post_init__(self) -> None:
        if self.n < 1:
            raise ConfigError(f"n={self.n}: ask for at least one")


@dataclass(frozen=True)
class Evaluation:
    """What an evaluation can be told: other texts, translations made elsewhere, how BLEU cuts words."""

    source: Path | None = None  # a file of texts to translate, one a line, in place of a split
    target: Path | None = None  # their true translations, line by line
    hypotheses: Path | None = None  # translations made elsewhere, one a line: these are scored, nothing is translated
    bleu: str = ""  # what cuts words for BLEU: 13a, char, intl, zh, ko-mecab …; "": the target language's own

    def __post_init__(self) -> None:
        if (self.source and not self.target) or (self.target and not (self.source or self.hypotheses)):
            raise ConfigError("a source and a target go together: --source test.en --target test.ko")


class Translation(Task):
    """Sentence pairs as a task: batches, loss, BLEU, translations, and how one is shown."""

    def __init__(
        self, config: Config, vocabularies: TokenizerPair, *, examples: Sequence[str] = (), probes: Sequence[str] = ()
    ) -> None:
        self.config, self.vocabularies = config, vocabularies
        self.special_tokens, self.evaluation_options, self.comparison_inputs = (
            SpecialTokens(),
            Evaluation(),
            tuple(probes),
        )
        sizes = vocabularies.source.vocab_size, vocabularies.target.vocab_size
        self.spec = Seq2SeqSpec(
            *sizes, max_length=config.max_length, special_tokens=self.special_tokens, joint_vocab=config.joint
        )
        self.higher_is_better = {"bleu": True, "bleu_lc": True, "chrf": True, "loss": False, "perplexity": False}
        self.target_metric = TargetMetric("bleu_lc" if config.lowercase else "bleu", higher_is_better=True)
        self.examples = tuple(examples) or (DEFAULT_EXAMPLES.get(config.source, "The nurse is reading a new book."),)

    @cached_property
    def pairs(self) -> dict[str, Pairs]:
        """The splits there are; found when first asked for, so that a trained model is used without its data."""
        return pair_sources.open_pairs(
            self.config.data_source, count=self.config.pairs, split_function=example_splits.split_function_for(self)
        )

    def with_evaluation_options(self, options: Evaluation) -> Translation:
        """The same for an evaluation with other texts, or of translations that were made elsewhere."""
        other = copy.copy(self)
        other.evaluation_options = options
        if options.target is not None:
            other.pairs = dict.fromkeys(
                ("valid", "test"), pair_files.read_parallel(options.source or options.target, options.target)
            )
        return other

    @property
    def bleu_tokenizer(self) -> str:
        """What cuts words for BLEU."""
        code, columns = self.config.target, self.config.columns
        named = columns[int(code) - 1] if code.isdigit() and 0 < int(code) <= len(columns) else code
        return metrics.bleu_tokenizer(named, self.evaluation_options.bleu)

    @cached_property
    def corpus(self) -> PairCorpus:
        """The training pairs as token numbers."""
        train = self.pairs["train"]
        if train.bytes > self.config.max_memory_mb * 2**20:
            return mapped_corpus.load_or_build(train, *self.vocabularies, folder=cache_folder() / "corpora")
        return pair_corpus.encode_in_memory(train, *self.vocabularies)

    def data_warnings(self) -> list[str]:
        """What a user should know of the training data: pairs that are left out, and why."""
        limit = min(self.config.max_length, self.config.max_batch_tokens)
        long, blank, total = (
            self.corpus.num_longer_than(limit),
            self.corpus.blank,
            self.corpus.num_pairs + self.corpus.blank,
        )
        counts = {f"are longer than {limit} tokens": long, "have an empty side": blank}
        return [f"{n} of {total} training pairs {what} and are left out" for what, n in counts.items() if n]

    def data_summary(self) -> list[str]:
        """How many pairs there are, the vocabularies, and the first pair."""
        held_out = "".join(f", {name} {len(self.split(name)):,}" for name in self.pairs if name != "train")
        counts = f"pairs: train {self.corpus.num_pairs + self.corpus.blank:,}{held_out}"
        sizes = f"vocabularies of {self.spec.source_vocab_size:,} and {self.spec.target_vocab_size:,} tokens"
        first = data_summary.format_first_example(
            f"pair, {self.config.source} -> {self.config.target}", *next(iter(self.pairs["train"]))
        )
        return [f"{counts}; {sizes}", first, *text_files.split_encoding_remarks(self.pairs.values())]

    def fingerprint(self) -> dict[str, str]:
        """A checksum of each split."""
        return {name: pairs.checksum() for name, pairs in self.pairs.items()}

    def split(self, name: str) -> list[Pair]:
        """The sentence pairs of a split, in memory."""
        if name not in self.pairs:
            raise DataError(f"the data has no split {name!r}; {did_you_mean(name, self.pairs)}")
        return list(self.pairs[name])

    def token_texts(self, table: str = "") -> list[str]:
        return self.vocabularies.for_table(table).token_texts()

    def epoch_batches(self, epoch: int, seed: int) -> list[Indices]:
        """The epoch's batches as example numbers; the same on every process."""
        first, last = batching.epoch_shard(self.corpus.num_pairs, epoch=epoch, seed=seed)
        source, target = self.corpus.lengths(first, last)
        kept = batching.select_by_length(
            source, target, max_length=self.config.max_length, budget=self.config.max_batch_tokens
        ).selected
        batches = batching.epoch_batches(
            source, target, candidates=kept, budget=self.config.max_batch_tokens, seed=seed, epoch=epoch
        )
        return [first + batch for batch in batches] if first else batches

    def collate(self, examples: Indices) -> PairBatch:
        """Example numbers -> source rows `w1 … wn end` and target rows `start w1 … wn end`."""
        return self.corpus.batch(examples, self.special_tokens)

    def loss(self, model: Decoder, batch: PairBatch) -> Loss:
        """The training loss: cross entropy with label smoothing, summed over target tokens and end marks."""
        return teacher_forcing_loss(model, batch, pad=self.special_tokens.pad, smoothing=self.config.smoothing)

    def evaluate(self, model: Decoder, split: str, decoding: DecodingStrategy) -> dict[str, float]:
        """Free-running scores, and the teacher-forced loss per token; what is too long counts as an empty answer."""
        pairs = self.split(split)
        if self.evaluation_options.hypotheses is not None:
            return metrics.score_file(self.evaluation_options.hypotheses, pairs, tokenize=self.bleu_tokenizer)
        texts = [source for source, _ in pairs]
        fits = [len(row) < self.config.max_length for row in self.vocabularies.source.encode(texts)]
        answers = iter(self.predict(model, [t for t, fit in zip(texts, fits, strict=True) if fit], Options(), decoding))
        told = [next(answers)[0].text if fit else "" for fit in fits]
        scores = metrics.compute_metrics(told, [target for _, target in pairs], tokenize=self.bleu_tokenizer)
        encoded = pair_corpus.encode_in_memory(pairs, *self.vocabularies)
        loss = loss_per_token(
            model, encoded, self.special_tokens, max_length=self.config.max_length, budget=self.config.max_batch_tokens
        )
        scores |= {"loss": loss, "perplexity": math.exp(min(loss, 700.0))}
        return scores | ({"too_long": float(fits.count(False))} if not all(fits) else {})

    def extra_metrics(self, model: Any, split: str, decoding: DecodingStrategy) -> dict[str, float]:
        """`aer`, the alignment error rate of the layer that has the least, where the true alignment is known."""
        truth = pair_sources.true_links(self.config.data_source, split)
        if truth is None or self.evaluation_options.target or self.evaluation_options.hypotheses:
            return {}
        few, known = self.split(split)[:MAX_ALIGNED_PAIRS], truth[:MAX_ALIGNED_PAIRS]
        rates = metrics.alignment_errors(
            model, few, known, vocabularies=self.vocabularies, special_tokens=self.special_tokens
        )
        return {"aer": min(rates.values())} if rates else {}

    def signatures(self) -> dict[str, str]:
        """How each score is computed, for others to repeat it."""
        aer = {"aer": f"alignment error rate of the best layer, heads averaged, on the first {MAX_ALIGNED_PAIRS} pairs"}
        return metrics.signatures(self.bleu_tokenizer) | (aer if self.config.data_source.built_in else {})

    def encode_sources(self, texts: Sequence[str]) -> Padded:
        """Texts -> source rows `w1 … wn end`, padded; a text the model cannot hold is an error."""
        return encode(texts, self.vocabularies.source, eos=self.special_tokens.eos, max_length=self.spec.max_length)

    def max_output_lengths(self, lengths: Tensor) -> Tensor:
        """Lengths of source rows (b) -> the most tokens that their translations may have (b)."""
        return (quick.MAX_LENGTH_RATIO * lengths + quick.MAX_LENGTH_MARGIN).clamp(max=self.spec.max_length - 1)

    def predict(
        self, model: Decoder, inputs: Sequence[str], options: Options, decoding: DecodingStrategy
    ) -> list[list[Prediction]]:
        """Texts -> for each, its translations, best first; a blank text has the empty one."""
        full, answers = [i for i, text in enumerate(inputs) if text.strip()], [[quick.EMPTY_PREDICTION] for _ in inputs]
        source = self.encode_sources([inputs[i] for i in full])
        with eval_mode(model):
            find = partial(inspect.search, model, source, sample_indices=full)
            translations = n_best(lambda how: find(self._searching(how)), decoding, count=options.n)
        for number, hypotheses in zip(full, translations, strict=True):
            texts = self.vocabularies.target.decode([hypothesis.tokens for hypothesis in hypotheses])
            answers[number] = [
                Prediction(t, score, rank) for t, (_, score, rank) in zip(texts, hypotheses, strict=True)
            ]
        return answers

    def _searching(self, decoding: DecodingStrategy) -> inspect.SearchSettings:
        return inspect.SearchSettings(
            decoding, self.special_tokens, self.max_output_lengths, budget=self.config.max_batch_tokens
        )

    def inspect(self, model: Decoder, parsed_input: str, options: Options, decoding: DecodingStrategy) -> Inspectable:
        """A text -> its translations, and how the model came to the best one."""
        if not parsed_input.strip():
            raise DataError("there is no sentence to look at; give some text")
        with eval_mode(model) as device:
            source = map_tensors(self.encode_sources([parsed_input]), lambda x: x.to(device))
            begun = time.perf_counter()
            (hypotheses,) = n_best(lambda how: self._searching(how)(model, source), decoding, count=options.n)
            seconds = time.perf_counter() - begun
            pair = parsed_input, self.vocabularies.target.decode([hypotheses[0].tokens])[0]
            links = pair_sources.true_links_of_pair(self.config.data_source, pair, count=self.config.pairs)
            translated = inspect.TranslatedText(parsed_input, source, hypotheses, seconds, links)
            return inspect.build_inspectable(
                model, translated, vocabularies=self.vocabularies, special_tokens=self.special_tokens
            )

    def decode_tokens(self, tokens: Sequence[int]) -> str:
        return self.vocabularies.target.decode([tokens])[0]

    def reference(self, parsed_input: str) -> tuple[int, ...] | None:
        return inspect.find_reference(self.pairs.values(), parsed_input, self.vocabularies.target)

    def save(self, folder: Path) -> None:
        """Write the vocabulary (tokenizer.json, or one file for each language), the examples and the probes."""
        for name, vocabulary in zip(quick.tokenizer_files(joint=self.config.joint), self.vocabularies, strict=False):
            vocabulary.save(folder / name)
        for name, texts in (("examples", self.examples), ("probes", self.comparison_inputs)):
            write_text(folder / f"{name}.json", json.dumps(texts, indent=1, ensure_ascii=False) + "\n")


def build(config: Config, folder: Path | None = None) -> Translation:
    """A config -> the task with a vocabulary made from the training data, or taken from a run folder."""
    if folder is not None:
        return load(config, folder)
    pairs = pair_sources.open_pairs(config.data_source, count=config.pairs)
    sides = [pair_corpus.PairTexts(pairs["train"], side) for side in ([(0, 1)] if config.joint else [(0,), (1,)])]
    choices: dict[str, Any] = {
        "level": config.tokenizer,
        "lowercase": config.lowercase,
        "minimum": config.min_frequency,
    }
    tokenizers = [tokenizer.train(texts, size=config.vocab_size, **choices) for texts in sides]
    check_length_limit(
        pairs["valid"], vocabularies := TokenizerPair(tokenizers[0], tokenizers[-1]), max_length=config.max_length
    )
    some = example_sources(pairs["valid"], tokenizers[0], max_length=config.max_length)
    return Translation(config, vocabularies, examples=some[:3], probes=some)


def load(config: Config, folder: Path) -> Translation:
    """A config and a run folder -> the task with the vocabulary of that run; the data is not needed."""
    kept = {name: text_corpus.read_examples(folder, f"{name}.json") for name in ("examples", "probes")}
    return Translation(config, TokenizerPair(*quick.load_tokenizers(folder, joint=config.joint)), **kept)


NUM_COMPARISON_INPUTS = 32  # sources that a run keeps, on which engines are compared


def encode(texts: Sequence[str], tokenizer: Tokenizer, *, eos: int, max_length: int) -> Padded:
    """Texts -> source rows `w1 … wn end`, padded; a text the model cannot hold is an error."""
    return batching.pad(quick.encode(texts, tokenizer, eos_id=eos, max_length=max_length))


def check_length_limit(pairs: Iterable[Pair], vocabularies: TokenizerPair, *, max_length: int) -> None:
    """Refuse validation data of which no pair is short enough, before anything is trained."""
    for pair in pairs:
        sides = zip(vocabularies, pair, strict=True)
        if all(text.strip() and len(vocabulary.encode([text])[0]) < max_length for vocabulary, text in sides):
            return
    raise DataError(
        f"no pair of the validation data has fewer than {max_length} tokens on each side; raise data.max_length"
    )


def example_sources(pairs: Iterable[Pair], tokenizer: Tokenizer, *, max_length: int) -> list[str]:
    """Sources worth trying, those first that have so many words that a glance takes them in."""
    few = [source for source, _ in islice(pairs, 200) if source.strip()]
    fitting = [text for text, row in zip(few, tokenizer.encode(few), strict=True) if len(row) < max_length]
    return sorted(fitting, key=lambda text: not 4 <= len(text.split()) <= 12)[:NUM_COMPARISON_INPUTS]
