"""Music modeling: crops of pieces, nats per note token, and generation, for the chorale grid and for performances.

Request options that have no effect are rejected.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from functools import cached_property, partial
from math import inf
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from regard.core import checksums, files
from regard.core.config import check_fields
from regard.core.data_specs import MusicSpec, SpecialTokens
from regard.core.errors import CheckpointError, ConfigError, DataError, did_you_mean
from regard.core.example_statistics import record_mean
from regard.core.inference_mode import eval_mode
from regard.core.inspectable import Inspectable
from regard.core.protocols import Decoder, Indices, Loss, TargetMetric
from regard.core.task import Prediction, Task
from regard.data.music import dataset
from regard.data.music.choose_encoding import EncodingChoice, choose_encoding
from regard.data.music.dataset import MusicCollection, Piece
from regard.data.music.encoding import Encoding
from regard.data.music.encodings import build_encoding
from regard.data.music.grid_encoding import GridEncoding
from regard.decoding import strategy as decoders
from regard.decoding.strategy import DecodingStrategy
from regard.tasks._shared import data_summary
from regard.tasks.music import crops, inspect
from regard.tasks.music.conditions import Condition, ConditionClasses, build_classes, piece_classes
from regard.tasks.music.crops import CropSpec, PieceBatch, TrainingPieces, add_special_tokens
from regard.tasks.music.generate import PieceGenerator
from regard.tasks.music.metrics import (
    RowCondition,
    class_condition,
    compare_statistics,
    no_condition,
    note_nats,
    visible_voices,
)
from regard.tasks.music.piece import to_midi, to_prediction
from regard.tasks.music.prompts import (
    Length,
    MusicFile,
    Prompt,
    continuation_prompt,
    harmonization_prompt,
    infilling_prompt,
    open_music_file,
)

FILE, EXAMPLE = "music.json", "example.mid"
EXAMPLE_SECONDS = 10.0  # length of the example file, and of a piece generated for inspection
DAY_SECONDS = 24 * 3600
SAMPLING_OPTIONS = ("n", "temperature", "top_k", "top_p", "seed")
MAX_INSPECTED_TOKENS = 1024  # about 40 seconds of a chorale; more would make a page of hundreds of megabytes


@dataclass(frozen=True)
class Config:
    """Pieces, encoding and crops. Without a path, the Bach chorales of music21 are used."""

    path: Path | None = None  # chorales as JSON, or a folder of MIDI or MusicXML files
    encoding: Literal["auto", "grid", "events", "durations"] = (
        "auto"  # four voices in equal steps; performances as events or as notes with durations; or by the data
    )
    limit: int | None = None  # maximum number of pieces, sampled from each split of the data
    crop: int = 512  # tokens of a training example
    window: int = 512  # context of evaluation in tokens; 0: entire pieces
    batch_size: int = 8  # crops in a batch
    transpose: int = 6  # maximum transposition in semitones, up or down, within the range
    tempo: float = 0.0  # performances only: maximum relative change of tempo
    max_length: int = 4096  # context of the model in tokens, prompt and continuation together
    conditions: tuple[Condition, ...] = ()  # classes that a request can give: composer, key, mode
    condition_dropout: float = 0.2  # probability that a condition is dropped in training, so that it is optional later
    visible_prob: float = (
        0.0  # probability that a training crop has fixed tokens; then melodies are harmonized with lookahead
    )
    seed: int = 1  # seed of splits that the data does not have, and of the pieces that `limit` selects

    def __post_init__(self) -> None:
        check_fields(
            self,
            at_least_1=("crop", "batch_size"),
            at_least_0=("window", "transpose"),
            probability=("tempo",),
        )
        for name in ("condition_dropout", "visible_prob"):
            if not 0 <= getattr(self, name) <= 1:
                raise ConfigError(f"{name}={getattr(self, name)} must be between 0 and 1")
        if self.visible_prob and self.encoding in ("events", "durations"):
            raise ConfigError(
                f"visible_prob={self.visible_prob}: only the grid has voices and bars; use visible_prob=0"
            )
        if self.tempo and self.encoding == "grid":
            raise ConfigError(f"tempo={self.tempo}: the grid has no tempo; use encoding='durations', or tempo=0")
        if self.max_length < max(self.crop, self.window):
            raise ConfigError(
                f"max_length={self.max_length} is less than crop={self.crop} or window={self.window}; raise it"
            )
        bar = GridEncoding().tokens_per_bar
        if self.encoding == "grid" and (self.crop % bar or self.window % bar):
            raise ConfigError(
                f"crop={self.crop}, window={self.window}: the grid needs multiples of a bar, {bar} tokens"
            )


TINY = Config(limit=12, crop=64, window=64, max_length=1024)  # for tests


@dataclass(frozen=True)
class Options:
    """Options of a request. An input file is continued; without one, a piece is generated from scratch."""

    seconds: float | None = None  # maximum length of the new part; none: until the model or the melody ends
    exact_length: bool = False  # exactly `seconds`, even in the middle of a phrase
    prompt: Path | None = None  # a MIDI or MusicXML file to continue
    prompt_seconds: float | None = None  # length of the prompt that is used; none: all
    harmonise: Path | None = None  # a file whose melody is kept; the other voices are generated
    infill: Path | None = None  # a file of which some voices or bars are generated again
    voices: tuple[str, ...] = ()  # with infill, the voices to generate: soprano, alto, tenor, bass; none: all
    bars: str | None = (
        None  # with infill, the bars to generate: 5-8, or 3,9; the first full bar is 1, an upbeat 0; none: all
    )
    condition: tuple[str, ...] = ()  # classes of the run's conditions: Bach, minor, 'G minor'
    guidance: float = 1.0  # above 1: the difference that the condition makes to log p counts this many times
    n: int | None = None  # number of pieces; none, here and below: the setting of the run's decoding
    temperature: float | None = None  # above 1: more diverse, below 1: less; 0: always the most likely token
    top_k: int | None = None  # sample from the k most likely tokens; 0: from all
    top_p: float | None = None  # sample from the most likely tokens that have this share of the probability
    seed: int | None = None  # seed of the samples

    def __post_init__(self) -> None:
        if self.seconds is not None and not 0 < self.seconds < DAY_SECONDS:
            raise ConfigError(f"seconds={self.seconds} must be more than 0 and less than a day")
        if self.prompt_seconds is not None and not 0 < self.prompt_seconds < DAY_SECONDS:
            raise ConfigError(f"prompt_seconds={self.prompt_seconds} must be more than 0 and less than a day")
        if self.exact_length and self.seconds is None:
            raise ConfigError("exact_length: the length is missing; give seconds=…")
        if (self.voices or self.bars) and self.infill is None:
            raise ConfigError("voices and bars: they select the part of a file to generate; give infill=FILE")
        if self.infill is not None and self.seconds is not None:
            raise ConfigError("infill: the piece has the length of the file; leave seconds out")
        if self.harmonise is not None and self.exact_length:
            raise ConfigError("harmonise: the piece is as long as the melody or seconds=…; leave exact_length out")
        if not 1 <= self.guidance < inf:
            raise ConfigError(f"guidance={self.guidance} must be at least 1 and finite; 1 is the condition alone")
        if self.guidance != 1 and not self.condition:
            raise ConfigError(f"guidance={self.guidance} strengthens a condition; give condition=…, or leave it out")
        if self.temperature == 0 and (self.n or 1) > 1:
            raise ConfigError(f"n={self.n}: all pieces are identical at temperature=0; use n=1")
        if self.temperature == 0 and not (self.top_k is self.top_p is self.seed is None):
            raise ConfigError("top_k, top_p and seed: they have no effect at temperature=0; leave them out")

    def resolve_strategy(self, decoding: DecodingStrategy | None) -> DecodingStrategy:
        """Return the run's decoding strategy with these options; `sample`, if it lacks one of them."""
        strategy = decoding or decoders.build("sample")
        return strategy.with_overrides(
            num_samples=self.n, temperature=self.temperature, top_k=self.top_k, top_p=self.top_p, seed=self.seed
        )

    def check_inspect_options(self, *, file: bool) -> None:
        """Raise an error for options without effect on inspection: a file is shown unchanged, or a short new piece."""
        used = () if file else ("seconds", *SAMPLING_OPTIONS)
        unused = [
            field.name
            for field in fields(self)
            if field.name not in used and getattr(self, field.name) != field.default
        ]
        if unused:
            reason = "a file is inspected unchanged" if file else "without a file a short new piece is inspected"
            raise ConfigError(f"{', '.join(unused)}: {reason}; generate a piece first, then inspect its file")


class Music(Task):
    """Music task: crops of pieces, cross entropy, nats per note token, new pieces."""

    spec: MusicSpec
    target_metric, input_suffixes = TargetMetric("nats", higher_is_better=False), dataset.SUFFIXES
    evaluation_mode = "each token predicted from the true tokens before it"

    def __init__(
        self, config: Config, encoding: Encoding, classes: ConditionClasses, *, folder: Path | None = None
    ) -> None:
        self.config, self.encoding, self.classes, self.special_tokens = config, encoding, classes, SpecialTokens()
        self.spec = MusicSpec(
            *(classes.size, encoding.size, config.max_length, self.special_tokens),
            crop_length=config.crop,
            voices=encoding.tokens_per_step,
            steps_per_bar=encoding.tokens_per_bar // max(1, encoding.tokens_per_step),
            has_fixed_tokens=config.visible_prob > 0,
        )
        self.generator = PieceGenerator(encoding, classes, self.spec)
        self._folder = folder
        example = None if folder is None or not (folder / EXAMPLE).exists() else str(folder / EXAMPLE)
        self.examples = ("",) if example is None else (example, "")  # a file to continue, and no input

    @cached_property
    def collection(self) -> MusicCollection:
        """The pieces of each split, read on first use."""
        seed = None if self.test_only else self.config.seed
        return dataset.load_collection(self.config.path, self.encoding, limit=self.config.limit, seed=seed)

    def data_warnings(self) -> list[str]:
        return list(self.collection.remarks)

    def data_summary(self) -> list[str]:
        counts = ", ".join(f"{name} {len(pieces):,}" for name, pieces in self.collection.splits.items())
        first = self.split("train")[0]
        duration = max((note.end for note in self.encoding.notes(first.content)), default=0.0)
        vocabulary = f"{self.encoding.size} tokens of the encoding {self.encoding.name!r}"
        return [
            f"pieces: {counts}; {vocabulary}",
            data_summary.format_first_example("piece", first.name, f"{duration:.1f} s"),
        ]

    def fingerprint(self) -> dict[str, str]:
        return {
            name: checksums.hash_rows(
                (piece.name, piece.composer, dataset.content_bytes(piece.content)) for piece in pieces
            )
            for name, pieces in self.collection.splits.items()
        }

    def split(self, name: str) -> list[Piece]:
        """Return the pieces of a split."""
        splits = self.collection.splits
        if name not in splits:
            raise DataError(f"the data has no split {name!r}; {did_you_mean(name, splits)}")
        if not splits[name]:
            raise DataError(f"the split {name!r} has no pieces; give more data")
        return splits[name]

    @cached_property
    def training_pieces(self) -> TrainingPieces:
        """The pieces of the training split, as crops."""
        config = self.config
        spec = CropSpec(
            length=config.crop,
            bar=self.encoding.tokens_per_bar,
            batch_size=config.batch_size,
            transpose=config.transpose,
            tempo=config.tempo,
            conditions=config.conditions,
            condition_dropout=config.condition_dropout,
            visible_prob=config.visible_prob,
            voices=self.encoding.tokens_per_step,
        )
        return TrainingPieces(self.split("train"), self.encoding, self.classes, spec=spec)

    def epoch_batches(self, epoch: int, seed: int) -> list[Indices]:
        """Return the epoch's batches of crops, as example ids."""
        return self.training_pieces.epoch_batches(epoch, seed)

    def collate(self, examples: Indices) -> PieceBatch:
        """Example ids -> conditions with fixed tokens, and crops of `crop` inputs and labels."""
        return self.training_pieces.collate(examples)

    def loss(self, model: Decoder, batch: PieceBatch) -> Loss:
        """Return the cross entropy, summed over note tokens and EOS; padding and fixed tokens are not counted."""
        return crops.crop_loss(model, batch, pad=self.special_tokens.pad)

    def evaluate(self, model: Decoder, split: str, decoding: Any) -> dict[str, float]:
        """Return `nats`: mean -log p of every note token of a split, without special tokens and padding.

        Pieces are complete and untransposed, and no condition is given. They are scored in windows of `window` tokens
        that overlap by half: after the first window, every token has at least half a window of context. A model with
        conditions also has `nats_conditioned`, given the true classes of each piece. Encodings of performances also
        have `nats_per_note`, since their numbers of tokens per note differ.
        """
        nats = self.token_nats(model, split, window=self.config.window)
        scores = {"nats": _mean("nats", nats, counts=list(map(len, nats)))}
        if not self.encoding.tokens_per_step:
            num_notes = [len(piece.content) for piece in self.split(split)]
            scores["nats_per_note"] = _mean("nats_per_note", nats, counts=num_notes)
        if self.classes.names:
            condition = partial(class_condition, classes=self._class_tokens(split))
            scores["nats_conditioned"] = self._mean_nats(model, split, condition, name="nats_conditioned")
        return scores

    def _mean_nats(self, model: Decoder, split: str, condition: RowCondition, *, name: str) -> float:
        nats = self.token_nats(model, split, window=self.config.window, condition=condition)
        return _mean(name, nats, counts=list(map(len, nats)))

    def _class_tokens(self, split: str) -> list[list[int]]:
        """Return the class tokens of each piece of a split; classes that training does not have are left out."""
        pieces, conditions = self.split(split), self.config.conditions
        keys = crops.find_keys(pieces, self.encoding, conditions)
        return [
            self.classes.encode_known(piece_classes(conditions, composer=piece.composer, key=key))
            for piece, key in zip(pieces, keys, strict=True)
        ]

    def token_nats(
        self,
        model: Decoder,
        split: str,
        *,
        window: int,
        condition: RowCondition = no_condition,
    ) -> list[NDArray[np.float64]]:
        """Return -log p of the note tokens of each piece of a split; `window` 0 reads entire pieces."""
        rows = [add_special_tokens(self.encoding.encode(piece.content)) for piece in self.split(split)]
        budget = self.config.batch_size * max(self.config.crop, window)
        bar = self.encoding.tokens_per_bar
        return note_nats(model, rows, window=window, bar=bar, budget=budget, condition=condition)

    def extra_metrics(self, model: Decoder, split: str, decoding: Any) -> dict[str, float]:
        """Compare pieces sampled with the default settings and those of a split: pitches, intervals, voice leading,
        repetition."""
        pieces = self.generator.generate_unconditional(
            model, decoders.build("sample", num_samples=8), seconds=self.encoding.default_seconds
        )
        statistics = compare_statistics(pieces, [piece.content for piece in self.split(split)], self.encoding)
        statistics |= self.wrong_condition_nats(model, split)
        return statistics | (self.lower_voice_nats(model, split) if self.encoding.tokens_per_step else {})

    def wrong_condition_nats(self, model: Decoder, split: str) -> dict[str, float]:
        """Return nats given the classes of another piece of the split; empty if all pieces have the same classes."""
        classes = self._class_tokens(split) if self.classes.names else []
        swapped = [
            next((candidate for candidate in classes[i:] + classes[:i] if candidate != tokens), tokens)
            for i, tokens in enumerate(classes)
        ]
        if swapped == classes:
            return {}
        condition, name = partial(class_condition, classes=swapped), "nats_wrong_condition"
        return {name: self._mean_nats(model, split, condition, name=name)}

    def lower_voice_nats(self, model: Decoder, split: str) -> dict[str, float]:
        """Return nats per token of the lower voices; for a model with fixed tokens, also given the highest voice, and
        of each lower voice without and with all others given."""
        names, voices = self.encoding.voices, self.encoding.tokens_per_step
        alone = self._voice_nats(model, split, no_condition)
        scores = {"nats_lower_voices": float(alone[1:].mean())}
        if not self.spec.has_fixed_tokens:
            return scores
        given_melody = self._voice_nats(model, split, partial(visible_voices, voices=voices))
        scores["nats_lower_voices_tune_in_sight"] = float(given_melody[1:].mean())
        for voice in range(1, voices):
            others = [other for other in range(voices) if other != voice]
            given = self._voice_nats(model, split, partial(visible_voices, voices=voices, visible=others))
            name = f"nats_{names[voice].lower()}"
            scores |= {name: float(alone[voice]), f"{name}_others_in_sight": float(given[voice])}
        return scores

    def _voice_nats(self, model: Decoder, split: str, condition: RowCondition) -> NDArray[np.float64]:
        """Return the mean -log p of the tokens of each voice."""
        nats = np.concatenate(self.token_nats(model, split, window=self.config.window, condition=condition))
        means: NDArray[np.float64] = nats.reshape(-1, self.encoding.tokens_per_step).mean(axis=0)
        return means  # pieces consist of complete steps

    def signatures(self) -> dict[str, str]:
        context = f"windows of {self.config.window} overlapping by half" if self.config.window else "entire pieces"
        rests = "rests included; " if self.encoding.tokens_per_step else ""
        counted = f"{rests}special tokens and padding not"
        token = "note token" if self.encoding.tokens_per_step else "token"
        text = f"mean -log p per {token} ({counted}), {context}, untransposed"
        names = ", ".join(self.config.conditions)
        return {
            "nats": f"{text}; no condition given" if names else text,
            "nats_per_note": f"{text}; summed over the tokens of a note",
            "nats_conditioned": f"as nats, given the true {names} of each piece",
            "nats_wrong_condition": f"as nats, given the {names} of another piece",
        }

    def save(self, folder: Path) -> None:
        """Write the encoding and the classes, which `load` reads, and the start of a piece as an example."""
        table = {"encoding": self.encoding.settings(), "size": self.encoding.size, "classes": self.classes.names}
        files.write_text(folder / FILE, json.dumps(table, indent=1, ensure_ascii=False) + "\n")
        if self._folder is None:
            files.write_bytes(folder / EXAMPLE, self._example())
        elif self._folder != folder and (self._folder / EXAMPLE).exists():
            files.write_bytes(folder / EXAMPLE, (self._folder / EXAMPLE).read_bytes())

    def _example(self) -> bytes:
        """Return the start of a validation piece, or else of a training piece, as a MIDI file."""
        piece = (self.collection.splits["valid"] or self.split("train"))[0]
        notes = self.encoding.notes(self.encoding.crop_start(piece.content, EXAMPLE_SECONDS))
        return to_midi(notes, self.encoding)

    def parse_input(self, text: str) -> MusicFile | None:
        """Parse a MIDI or MusicXML file; an empty text is None: generation without a prompt."""
        if not text.strip():
            return None
        return open_music_file(Path(text.strip()), self.encoding)

    def predict(
        self, model: Decoder, inputs: Sequence[MusicFile | None], options: Options, decoding: DecodingStrategy | None
    ) -> list[list[Prediction]]:
        """Files to continue, or None -> `options.n` pieces each, most likely first."""
        strategy = options.resolve_strategy(decoding)
        return [self._generate(model, file, options, strategy) for file in inputs]

    def _generate(
        self, model: Decoder, file: MusicFile | None, options: Options, decoding: DecodingStrategy
    ) -> list[Prediction]:
        prompt, title = self._prompt(file, options)
        guidance = self._guidance(options)
        pieces = self.generator.generate(model, prompt, decoding, condition=options.condition, guidance=guidance)
        return [to_prediction(piece, prompt.encoding, title=title, remarks=prompt.remarks) for piece in pieces]

    def _guidance(self, options: Options) -> float:
        if options.guidance != 1 and self.classes.names and not self.config.condition_dropout:
            raise DataError(
                f"guidance={options.guidance}: the model was always trained with its conditions, so it has no "
                "distribution without them; train with data.condition_dropout=0.2"
            )
        return options.guidance

    def _prompt(self, input_file: MusicFile | None, options: Options) -> tuple[Prompt, str]:
        """Return the prompt of a piece and its title."""
        files = (input_file, options.prompt, options.harmonise, options.infill)
        if sum(file is not None for file in files) > 1:
            raise ConfigError("more than one file; give one to continue, to harmonise or to infill")
        path = options.prompt or options.harmonise or options.infill
        melody_only = path == options.harmonise
        file = input_file if path is None else open_music_file(path, self.encoding, melody_only=melody_only)
        if options.prompt_seconds is not None and (file is None or path not in (None, options.prompt)):
            raise ConfigError(
                f"prompt_seconds={options.prompt_seconds}: there is no prompt to shorten; give one, or leave it out"
            )
        if file is None or path is None or path == options.prompt:
            length = Length(options.seconds, options.exact_length)
            prompt = continuation_prompt(file, self.encoding, prompt_seconds=options.prompt_seconds, length=length)
        elif options.harmonise is not None:
            prompt = harmonization_prompt(file, self.encoding, seconds=options.seconds)
        else:
            prompt = infilling_prompt(file, self.encoding, voices=options.voices, bars=options.bars)
        return prompt, "" if file is None else file.path.stem

    def inspect(
        self, model: Decoder, parsed_input: MusicFile | None, options: Options, decoding: DecodingStrategy | None
    ) -> Inspectable:
        """A file, or a short new piece -> the attention with which each of its tokens was predicted."""
        options.check_inspect_options(file=parsed_input is not None)
        if parsed_input is None:
            encoding, path = self.encoding, Path("a piece from nothing")
            seconds = min(options.seconds or EXAMPLE_SECONDS, EXAMPLE_SECONDS)
            strategy = options.resolve_strategy(decoding)
            tokens = self.generator.generate_unconditional(model, strategy, seconds=seconds)[0].tokens
        else:
            encoding, path = self.encoding.with_timing(parsed_input.parsed.parsed.timing), parsed_input.path
            tokens = encoding.encode(parsed_input.parsed.content)
        max_tokens = min(MAX_INSPECTED_TOKENS, self.spec.max_length - 1)
        with eval_mode(model):
            return inspect.build_inspectable(
                model, tokens, max_tokens, encoding=encoding, special_tokens=self.special_tokens, path=path
            )


def _mean(name: str, nats: Sequence[NDArray[np.float64]], *, counts: Sequence[int]) -> float:
    """-log p of the tokens of each piece -> their sum divided by that of the counts, recorded by its name."""
    totals = [float(values.sum()) for values in nats]
    record_mean(name, totals, weights=counts)
    return sum(totals) / sum(counts)


def build(config: Config, folder: Path | None = None) -> Music:
    """Return the task with the classes of the training data, or those of a run folder."""
    if folder is not None:
        return load(config, folder)
    choice = _choose_encoding(config)
    config, encoding = replace(config, encoding=choice.name), build_encoding(choice.name)
    collection = dataset.load_collection(config.path, encoding, limit=config.limit, seed=config.seed)
    composers = {piece.composer for piece in collection.splits["train"]}
    task = Music(config, encoding, build_classes(config.conditions, composers))
    task.collection = collection._replace(remarks=(*filter(None, [choice.reason]), *collection.remarks))
    return task


def _choose_encoding(config: Config) -> EncodingChoice:
    """Return the encoding of the settings; for auto the one that other settings need, or that suits the data."""
    if config.encoding != "auto":
        return EncodingChoice(config.encoding)
    if config.visible_prob or config.tempo:
        return EncodingChoice("grid" if config.visible_prob else "events")
    return choose_encoding(config.path)


def load(config: Config, folder: Path) -> Music:
    """Return the task of a run folder; the data is read only when it is used."""
    path = folder / FILE
    try:
        table = json.loads(path.read_text(encoding="utf-8"))
        settings = dict(table["encoding"])
        name = settings.pop("name")
        encoding = build_encoding(name, **settings)
        size, classes = int(table["size"]), ConditionClasses(tuple(table["classes"]))
    except (OSError, ValueError, KeyError, TypeError, ConfigError) as error:
        raise CheckpointError(f"{path}: missing or damaged ({error!r}); copy it from the original run") from None
    if encoding.size != size:
        raise CheckpointError(
            f"{path}: its encoding had {size} tokens, this one has {encoding.size}; install the miditok of that run"
        )
    return Music(replace(config, encoding=name), encoding, classes, folder=folder)
