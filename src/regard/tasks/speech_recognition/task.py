"""The speech recognition task: recordings as batches, the training loss, evaluation, and transcripts of recordings."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path
from typing import Literal

import numpy as np
import torch

from regard.core.config import check_fields
from regard.core.data_specs import SpecialTokens, SpeechSpec
from regard.core.errors import ConfigError, DataError, did_you_mean
from regard.core.files import write_bytes
from regard.core.inference_mode import eval_mode
from regard.core.inspectable import Inspectable
from regard.core.protocols import Hypothesis, Indices, Loss, TargetMetric
from regard.core.protocols.speech import SpeechBatch, SpeechFrames, SpeechModel
from regard.core.task import Prediction, Task
from regard.data import batching
from regard.data.builtin import spoken_digits
from regard.data.builtin.spoken_digits import Reading, StringSettings
from regard.data.speech import recorded
from regard.data.speech.audio_files import SUFFIXES, Recording, encode_wav, read_audio
from regard.data.speech.augment import SpecAugment
from regard.data.speech.features import HOP_SECONDS, Features, LogMel
from regard.data.speech.utterances import SpeechCollection, Utterances
from regard.data.text import tokenizer
from regard.data.text.tokenizer import Level, Tokenizer
from regard.decoding.strategy import DecodingStrategy, n_best
from regard.tasks._shared import data_summary
from regard.tasks._shared.batch_search import SearchBatch, max_batch_size, search_batches
from regard.tasks.speech_recognition import alignment, inspect, metrics, robustness, transcript_files

CollectionLoader = Callable[[bool], SpeechCollection]  # argument: all data is test data
TOKENIZER_FILE, EXAMPLE_FILES = "tokenizer.json", ("example_1.wav", "example_2.wav")
BUILT_IN = "spoken_digits"
MAX_BATCH_RECORDINGS = 64  # decoded together
MIN_RATE = 4000  # samples per second


@dataclass(frozen=True)
class Config:
    """Recordings and their transcripts. Without a path, strings of spoken digits."""

    path: Path | None = None  # a folder with recordings and transcripts.csv, tsv or jsonl; LibriSpeech; Common Voice
    dataset: str = BUILT_IN  # without a path: spoken_digits
    strings: int = 8000  # training strings of the built-in data
    digits: tuple[int, int] = (1, 7)  # minimum and maximum number of digits in a string
    reading: Reading = "english"  # transcripts of the built-in data: english (three), korean (삼) or digits (3)
    held_out_speaker: str = ""  # a speaker of the built-in data who is only in the metric unseen_speaker_error
    snr: tuple[float, float] = (10.0, 40.0)  # noise of the built-in data: signal-to-noise ratio in dB, from and to
    sample_rate: int = 8000  # recordings are resampled to this rate; 16000 retains more of wideband speech
    bands: int = 40  # log-mel energies of a frame
    speeds: tuple[float, ...] = (0.9, 1.0, 1.1)  # speed perturbation: training recordings are played at one of these
    time_masks: int = 2  # SpecAugment: masked spans of time in a training recording
    time_mask_frames: int = 15  # SpecAugment: maximum frames of a masked span
    band_masks: int = 2  # SpecAugment: masked spans of bands in a training recording
    band_mask_width: int = 6  # SpecAugment: maximum bands of a masked span
    tokenizer: Level | Literal["auto"] = (
        "auto"  # token type: word, char, bpe, unigram; auto: word for digits, else char
    )
    vocab_size: int = 1_000  # maximum number of tokens
    min_frequency: int = 1  # minimum number of occurrences of a token
    lowercase: bool = True  # lowercase transcripts
    max_length: int = 200  # maximum tokens of a transcript, end token included; longer ones are left out and counted
    max_seconds: float = 20.0  # maximum duration of a recording; longer ones are left out and counted
    batch_frames: int = 12_000  # maximum frames in a batch, padding included
    smoothing: float = 0.0  # label smoothing: share of the probability that is spread over all tokens
    seed: int = 1  # of the built-in data and of generated splits

    def __post_init__(self) -> None:
        check_fields(
            self,
            at_least_1=("strings", "bands", "vocab_size", "min_frequency", "max_length", "batch_frames"),
            at_least_0=("time_masks", "time_mask_frames", "band_masks", "band_mask_width"),
            positive=("max_seconds",),
            probability=("smoothing",),
        )
        if self.sample_rate < MIN_RATE:
            raise ConfigError(f"sample_rate={self.sample_rate}: must be at least {MIN_RATE}")
        if not 1 <= self.digits[0] <= self.digits[1]:
            raise ConfigError(f"digits={list(self.digits)}: give the minimum and the maximum, such as [1, 7]")
        if not self.speeds or not all(0.5 <= speed <= 2 for speed in self.speeds):
            raise ConfigError(f"speeds={list(self.speeds)}: give factors between 0.5 and 2, such as [0.9, 1.0, 1.1]")
        if self.path is None and self.dataset != BUILT_IN:
            hint = did_you_mean(self.dataset, (BUILT_IN,))
            raise ConfigError(f"no data {self.dataset!r}; files are given as data.path=…; {hint}")
        spoken_digits.check_speaker(self.held_out_speaker)

    @property
    def log_mel(self) -> LogMel:
        """The features of recordings."""
        return LogMel(self.sample_rate, self.bands)

    def string_settings(self, **changes: object) -> StringSettings:
        """Return the settings of built-in strings."""
        settings = StringSettings(self.digits, self.snr, self.reading, self.speeds)
        return settings._replace(**changes)  # type: ignore[arg-type]  # fields of StringSettings


TINY = Config(  # for tests
    strings=12, digits=(1, 2), bands=8, batch_frames=600, max_length=16, max_seconds=8.0, time_masks=0, band_masks=0
)


@dataclass(frozen=True)
class Options:
    """Options of a request; the search itself is set by the [decoding] section of the run."""

    n: int = (
        1  # number of transcripts of each recording; the first does not depend on n, a beam is widened if necessary
    )
    silence: str = ""  # a span to silence first: start,stop in seconds, e.g. 0.5,0.9

    def __post_init__(self) -> None:
        check_fields(self, at_least_1=("n",))
        self.silenced_span()

    def silenced_span(self) -> tuple[float, float] | None:
        """Return the span to silence in seconds; None if there is none."""
        return parse_span(self.silence) if self.silence else None


def parse_span(text: str) -> tuple[float, float]:
    """'start,stop' in seconds -> a span."""
    try:
        start, stop = (float(edge) for edge in text.split(","))
    except ValueError:
        start, stop = 1.0, 0.0
    if not 0 <= start < stop < float("inf"):
        raise ConfigError(f"silence={text!r}: give start,stop in seconds, e.g. 0.5,0.9")
    return start, stop


class SpeechRecognition(Task):
    """Recognition of speech."""

    spec: SpeechSpec

    def __init__(
        self, config: Config, vocabulary: Tokenizer, *, load_collection: CollectionLoader, folder: Path | None = None
    ) -> None:
        self.config, self.vocabulary, self._load_collection, self._folder = config, vocabulary, load_collection, folder
        self.special_tokens, self.log_mel = SpecialTokens(), config.log_mel
        max_frames = int(config.max_seconds / HOP_SECONDS)
        self.spec = SpeechSpec(config.bands, vocabulary.vocab_size, config.max_length, max_frames, self.special_tokens)
        self.target_metric = TargetMetric("word_error", higher_is_better=False)
        self.higher_is_better = {"character_error": False, "exact": True, "alignment_error": False}
        self.input_suffixes = SUFFIXES
        self.examples = tuple(
            str(folder / name) for name in EXAMPLE_FILES if folder is not None and (folder / name).exists()
        )

    @cached_property
    def collection(self) -> SpeechCollection:
        """The utterances of each split, read on first use."""
        return self._load_collection(self.test_only)

    @cached_property
    def training_tokens(self) -> list[list[int]]:
        """The token ids of the training transcripts."""
        return self.vocabulary.encode(self.collection.split("train").transcripts)

    @cached_property
    def _usable(self) -> Indices:
        """The training utterances within the limits of length and duration."""
        config, train = self.config, self.collection.split("train")
        lengths = np.array([len(row) + 1 for row in self.training_tokens], np.int64)
        frames = train.num_frames()
        limit = min(self.spec.max_frames, config.batch_frames)
        usable = np.flatnonzero((lengths <= config.max_length) & (frames <= limit))
        if not len(usable):
            raise DataError(
                f"no recording has at most max_length={config.max_length} tokens and {limit * HOP_SECONDS:g} seconds; "
                "raise data.max_length, data.max_seconds or data.batch_frames"
            )
        return usable

    def data_warnings(self) -> list[str]:
        num_long = len(self.collection.split("train")) - len(self._usable)
        limits = f"{self.config.max_seconds:g} seconds or {self.config.max_length} tokens"
        text = f"{num_long} training recordings are longer than {limits}: left out"
        return [*self.collection.remarks, *([text] if num_long else [])]

    def data_summary(self) -> list[str]:
        splits, train = self.collection.splits, self.collection.split("train")
        sizes = {name: len(splits[name]) for name in sorted(splits, key=lambda name: name != "train")}
        hours = f"{train.num_frames().sum() * HOP_SECONDS / 3600:.1f} hours of training speech"
        vocabulary = data_summary.format_vocabulary(self.spec.vocab_size)
        return [
            data_summary.format_counts("recordings", sizes, hours, vocabulary),
            data_summary.format_first_example("transcript", train.transcripts[0]),
        ]

    def fingerprint(self) -> dict[str, str]:
        return {name: part.checksum() for name, part in self.collection.splits.items()}

    def token_texts(self, table: str = "") -> list[str]:
        return self.vocabulary.token_texts()

    def epoch_batches(self, epoch: int, seed: int) -> list[Indices]:
        """Return the batches of an epoch; those of the first epoch are sorted by duration (Amodei et al. 2016, 3.2).

        Attention learns where a word is from strings of few words.
        """
        frames = self.collection.split("train").num_frames()
        batches = batching.epoch_batches(
            frames, frames, candidates=self._usable, budget=self.config.batch_frames, seed=seed, epoch=epoch
        )
        return batches if epoch else sorted(batches, key=lambda batch: int(frames[batch].max()))

    def collate(self, examples: Indices) -> SpeechBatch:
        """Example indices -> augmented features and transcripts."""
        config, train = self.config, self.collection.split("train")
        random = np.random.default_rng(int(torch.randint(2**62, ())))
        masks = SpecAugment(config.time_masks, config.time_mask_frames, config.band_masks, config.band_mask_width)
        features = [masks(train.training_features(i, random), random) for i in examples.tolist()]
        rows = [[self.special_tokens.bos, *self.training_tokens[i], self.special_tokens.eos] for i in examples.tolist()]
        return SpeechBatch(alignment.collate_features(features), batching.pad(rows))

    def loss(self, model: SpeechModel, batch: SpeechBatch) -> Loss:
        """Return the loss of the model, counted in tokens."""
        total = model.loss(batch, pad=self.special_tokens.pad, smoothing=self.config.smoothing)
        return Loss(total, int((batch.target.lengths - 1).sum()))

    def evaluate(self, model: SpeechModel, split: str, decoding: DecodingStrategy) -> dict[str, float]:
        """Return the error rates of free-running transcripts.

        For built-in data and a model with attention also `alignment_error`, `attention_outside` and `monotonic`.
        """
        part = self.collection.split(split)
        scores = self.score_split(model, part, decoding)
        aligned = alignment.alignment_scores(model, part, self.vocabulary, self.special_tokens)
        if aligned is None:
            return scores
        names = ("alignment_error", "attention_outside", "monotonic")
        return scores | dict(zip(names, aligned, strict=True))

    def score_split(self, model: SpeechModel, part: Utterances, decoding: DecodingStrategy) -> dict[str, float]:
        """Return the error rates on some utterances."""
        features = [part.features(i) for i in range(len(part))]
        texts = [self.decode_tokens(best[0].tokens) for best in self.search_transcripts(model, features, decoding)]
        return metrics.error_rates(texts, part.transcripts)

    def extra_metrics(self, model: SpeechModel, split: str, decoding: DecodingStrategy) -> dict[str, float]:
        """For built-in data: errors on single digits, at several noise levels, on longer strings, on another speaker,
        and the accuracy of a baseline without learning."""
        if self.config.path is not None:
            return {}
        score = partial(self.score_split, model, decoding=decoding)
        return robustness.robustness_scores(self.config, split, score)

    def signatures(self) -> dict[str, str]:
        built_in = {} if self.config.path is not None else alignment.signatures() | robustness.signatures(self.config)
        return metrics.signatures() | built_in

    def search_transcripts(
        self, model: SpeechModel, features: Sequence[Features], decoding: DecodingStrategy
    ) -> list[list[Hypothesis]]:
        """Features (t m) of each recording -> its transcripts, best first; at most one token per state."""

        def load_batch(indices: Indices, device: torch.device) -> SearchBatch:
            source = alignment.collate_features([features[i] for i in indices.tolist()])
            limits = (source.lengths // model.reduction + 1).clamp(max=self.spec.max_length - 1).to(device)
            return SearchBatch(SpeechFrames(source.frames.to(device), source.lengths.to(device)), limits)

        lengths = np.array([len(part) for part in features], np.int64)
        budget = max(self.config.batch_frames, int(lengths.max(initial=0)))
        batches = batching.batches_by_length(
            lengths, budget=budget, max_rows=max_batch_size(decoding, MAX_BATCH_RECORDINGS)
        )
        return search_batches(
            model,
            decoding,
            batches,
            load_batch,
            special_tokens=self.special_tokens,
            sample_indices=range(len(features)),
        )

    def decode_tokens(self, tokens: Sequence[int]) -> str:
        return self.vocabulary.decode([tokens])[0]

    def save(self, folder: Path) -> None:
        """Write the vocabulary and example recordings."""
        self.vocabulary.save(folder / TOKENIZER_FILE)
        for index, name in enumerate(EXAMPLE_FILES):
            if self._folder is not None and (self._folder / name).exists():
                write_bytes(folder / name, (self._folder / name).read_bytes())
            elif self._folder is None and index < len(self.collection.split("valid")):
                waveform = self.collection.split("valid").waveform(index)
                write_bytes(folder / name, encode_wav(waveform, self.config.sample_rate))

    def parse_input(self, text: str) -> Recording:
        """The path of an audio file -> the recording at the sampling rate of the model."""
        if not text.strip():
            raise DataError("there is no recording; give the path of an audio file (WAV, FLAC, OGG)")
        path = Path(text.strip())
        return read_audio(path, self.config.sample_rate, max_seconds=self.config.max_seconds)

    def predict(
        self, model: SpeechModel, inputs: Sequence[Recording], options: Options, decoding: DecodingStrategy
    ) -> list[list[Prediction]]:
        """Recordings -> the transcripts of each, best first."""
        if not inputs:
            return []
        recordings = [silence(recording, options) for recording in inputs]
        features = [self.log_mel(recording.waveform) for recording in recordings]
        search = partial(self.search_transcripts, model, features)
        return [
            [self._prediction(model, recording, part, hypothesis) for hypothesis in hypotheses]
            for recording, part, hypotheses in zip(
                recordings, features, n_best(search, decoding, count=options.n), strict=True
            )
        ]

    def _prediction(
        self, model: SpeechModel, recording: Recording, features: Features, hypothesis: Hypothesis
    ) -> Prediction:
        text = self.decode_tokens(hypothesis.tokens)
        remarks = (f"{recording.name}: {'; '.join(recording.remarks)}",) if recording.remarks else ()
        files = transcript_files.renderers(
            model, features, hypothesis.tokens, vocabulary=self.vocabulary, special_tokens=self.special_tokens
        )
        return Prediction(text, hypothesis.score, hypothesis.rank_score, value=text, files=files, remarks=remarks)

    def inspect(
        self, model: SpeechModel, parsed_input: Recording, options: Options, decoding: DecodingStrategy
    ) -> Inspectable:
        """A recording -> its transcripts, their attention over time, and transcripts with parts of it silenced."""
        recording = silence(parsed_input, options)
        started_at = time.perf_counter()
        features = [self.log_mel(recording.waveform)]
        (hypotheses,) = n_best(partial(self.search_transcripts, model, features), decoding, count=options.n)
        seconds = time.perf_counter() - started_at
        spans = inspect.silence_spans(recording.seconds)
        silenced = [self.log_mel(silence_span(recording, span).waveform) for span in spans]
        texts = [self.decode_tokens(best[0].tokens) for best in self.search_transcripts(model, silenced, decoding)]
        transcribed = inspect.TranscribedRecording(
            recording, features[0], hypotheses, seconds, tuple(zip(spans, texts, strict=True)), self.log_mel
        )
        with eval_mode(model) as device:
            return inspect.build_inspectable(
                model, transcribed, self.vocabulary, special_tokens=self.special_tokens, device=device
            )


def silence(recording: Recording, options: Options) -> Recording:
    """Return the recording with the span of a request silenced."""
    span = options.silenced_span()
    return recording if span is None else silence_span(recording, span)


def silence_span(recording: Recording, span: tuple[float, float]) -> Recording:
    """Return a copy of a recording with zeros from start to stop, in seconds."""
    waveform = recording.waveform.copy()
    start, stop = (round(min(edge, recording.seconds) * recording.rate) for edge in span)
    waveform[start:stop] = 0
    return recording._replace(waveform=waveform)


def _load_collection(config: Config, *, test_only: bool) -> SpeechCollection:
    if config.path is None:
        return spoken_digits.make_strings(
            config.strings,
            config.string_settings(),
            log_mel=config.log_mel,
            seed=config.seed,
            held_out_speaker=config.held_out_speaker,
        )
    return recorded.read_folder(
        config.path,
        config.log_mel,
        speeds=config.speeds,
        max_seconds=config.max_seconds,
        seed=config.seed,
        test_only=test_only,
    )


def build(config: Config, folder: Path | None = None) -> SpeechRecognition:
    """Build the task with a vocabulary trained on the training transcripts, or with that of a run folder."""
    if folder is not None:
        return load(config, folder)
    collection = _load_collection(config, test_only=False)
    automatic: Level = "word" if config.path is None else "char"
    vocabulary = tokenizer.train(
        collection.split("train").transcripts,
        level=automatic if config.tokenizer == "auto" else config.tokenizer,
        size=config.vocab_size,
        lowercase=config.lowercase,
        minimum=config.min_frequency,
    )
    return SpeechRecognition(config, vocabulary, load_collection=lambda _: collection)


def load(config: Config, folder: Path) -> SpeechRecognition:
    """Load the task of a run folder; the data is read only when it is needed."""
    return SpeechRecognition(
        config,
        tokenizer.load(folder / TOKENIZER_FILE),
        load_collection=lambda test_only: _load_collection(config, test_only=test_only),
        folder=folder,
    )
