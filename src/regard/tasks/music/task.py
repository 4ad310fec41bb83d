"""Music: pieces as tokens and nats per note token. The same for the chorales' grid and for performances.

What one can ask of a model of music in one request; what would change nothing is refused.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields
from functools import cached_property, partial
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from regard.core import checksums, files
from regard.core.data_specs import MusicSpec, SpecialTokens
from regard.core.errors import CheckpointError, ConfigError, DataError, did_you_mean
from regard.core.inference_mode import eval_mode
from regard.core.inspectable import Inspectable
from regard.core.protocols import Decoder, Indices, Loss, Padded, TargetMetric
from regard.core.protocols.music import MusicCondition
from regard.core.task import Prediction, Task
from regard.data.music import dataset
from regard.data.music.dataset import MusicCollection, Piece
from regard.data.music.encoding import Encoding
from regard.data.music.event_encoding import EventEncoding
from regard.data.music.grid_encoding import GridEncoding
from regard.decoding import strategy as decoders
from regard.decoding.strategy import DecodingStrategy
from regard.tasks._shared import data_summary
from regard.tasks.music import crops, generate, inspect
from regard.tasks.music.conditions import Condition, ConditionClasses, build_classes
from regard.tasks.music.crops import (
    CropSpec,
    PieceBatch,
    TrainingPieces,
    add_special_tokens,
    melody_condition,
    no_condition,
    note_nats,
)
from regard.tasks.music.generate import PieceGenerator
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
EXAMPLE_SECONDS = 10.0  # of a piece that are kept as an example, or made to be shown
MAX_INSPECTED_TOKENS = 1024  # tokens: about 40 seconds of a chorale; more would make a page of hundreds of megabytes


@dataclass(frozen=True)
class Config:
    """Which pieces, which tokens, which crops. Without a path, the Bach chorales inside music21."""

    path: Path | None = None  # chorales as JSON, or a folder of MIDI or MusicXML files
    encoding: Literal["grid", "events"] = "grid"  # four voices in equal steps, or notes as they are played
    limit: int | None = None  # pieces read, drawn from each split that is given
    crop: int = 512  # tokens of a training example
    window: int = 512  # tokens that evaluation sees at once; 0: whole pieces
    batch_size: int = 8  # crops in a batch
    transpose: int = 6  # semitones at most, up or down, inside the range
    tempo: float = 0.0  # events only: at most so much slower or faster, as a share
    max_length: int = 4096  # tokens the model remembers, primer and continuation together
    conditions: tuple[Condition, ...] = ()  # what a piece can be asked to be like: composer, key, mode
    condition_dropout: float = 0.2  # how often a condition is not told in training, so that it need not be given later
    visible_prob: float = (
        0.0  # how often some of a crop is shown beforehand; then tunes are harmonised with sight of what comes
    )
    seed: int = 1  # of splits that are not given, and of the pieces that `limit` leaves

    def __post_init__(self) -> None:
        if min(self.crop, self.batch_size) < 1 or min(self.window, self.transpose) < 0:
            raise ConfigError("crop and rows must be at least 1, window and transpose at least 0")
        if not 0 <= self.tempo < 1 or not 0 <= self.condition_dropout <= 1 or not 0 <= self.visible_prob <= 1:
            raise ConfigError(
                f"tempo={self.tempo}, drop={self.condition_dropout}, shown={self.visible_prob}: shares lie in 0 … 1"
            )
        if self.visible_prob and self.encoding != "grid":
            raise ConfigError(f"shown={self.visible_prob}: only the grid has voices and bars to show; use shown=0")
        if self.tempo and self.encoding == "grid":
            raise ConfigError(f"tempo={self.tempo}: the grid has no tempo; use encoding='events', or tempo=0")
        if self.max_length < max(self.crop, self.window):
            raise ConfigError(
                f"longest={self.max_length} is less than crop={self.crop} or window={self.window}; raise it"
            )
        bar = GridEncoding().tokens_per_bar
        if self.encoding == "grid" and (self.crop % bar or self.window % bar):
            raise ConfigError(f"crop={self.crop}, window={self.window}: the grid needs multiples of {bar}, a bar")


TINY = Config(limit=12, crop=64, window=64, max_length=1024)  # for tests


class Music(Task):
    """Pieces as a task: crops, loss, nats per note token, new pieces."""

    target_metric, input_suffixes = TargetMetric("nats", higher_is_better=False), dataset.SUFFIXES
    evaluation_mode = "each token foretold from the true ones before it"

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
        kept = () if folder is None or not (folder / EXAMPLE).exists() else (str(folder / EXAMPLE),)
        self.examples = (*kept, "")  # a file to continue, and nothing

    @cached_property
    def collection(self) -> MusicCollection:
        """The pieces of each split; read when first asked for."""
        seed = None if self.test_only else self.config.seed
        return dataset.load_collection(self.config.path, self.encoding, limit=self.config.limit, seed=seed)

    def data_warnings(self) -> list[str]:
        """What a user should know of the data: files that were mended or left out, and why."""
        return list(self.collection.remarks)

    def data_summary(self) -> list[str]:
        """How many pieces there are, as what tokens, and the first of them."""
        counts = ", ".join(f"{name} {len(several):,}" for name, several in self.collection.splits.items())
        first = self.split("train")[0]
        last = max((note.end for note in self.encoding.notes(first.content)), default=0.0)
        vocabulary = f"{self.encoding.size} tokens of the encoding {self.encoding.name!r}"
        return [
            f"pieces: {counts}; {vocabulary}",
            data_summary.format_first_example("piece", first.name, f"{last:.1f} s"),
        ]

    def fingerprint(self) -> dict[str, str]:
        """A checksum of the pieces of each split."""
        return {
            name: checksums.hash_rows(
                (piece.name, piece.composer, dataset.content_bytes(piece.content)) for piece in several
            )
            for name, several in self.collection.splits.items()
        }

    def split(self, name: str) -> list[Piece]:
        """The pieces of a split."""
        splits = self.collection.splits
        if name not in splits:
            raise DataError(f"the data has no split {name!r}; {did_you_mean(name, splits)}")
        if not splits[name]:
            raise DataError(f"the split {name!r} has no pieces; give more data")
        return splits[name]

    @cached_property
    def training_pieces(self) -> TrainingPieces:
        """The pieces of the training split, as crops."""
        settings = ("batch_size", "transpose", "tempo", "conditions", "condition_dropout", "visible_prob")
        named = {name: getattr(self.config, name) for name in settings}
        shape = CropSpec(
            length=self.config.crop, bar=self.encoding.tokens_per_bar, voices=self.encoding.tokens_per_step, **named
        )
        return TrainingPieces(self.split("train"), self.encoding, self.classes, spec=shape)

    def epoch_batches(self, epoch: int, seed: int) -> list[Indices]:
        """The epoch's batches of crops, each an example number; the same on every process."""
        return self.training_pieces.epoch_batches(epoch, seed)

    def collate(self, examples: Indices) -> PieceBatch:
        """Example numbers -> conditions, what is shown, and crops of `crop` inputs with one label more."""
        return self.training_pieces.collate(examples)

    def loss(self, model: Decoder, batch: PieceBatch) -> Loss:
        """The training loss: cross entropy summed over note tokens and end marks that were not shown; padding is never
        counted."""
        return crops.crop_loss(model, batch, pad=self.special_tokens.pad)

    def evaluate(self, model: Decoder, split: str, decoding: Any) -> dict[str, float]:
        """`nats`: mean -log p of every note token of a split, each counted once; marks and padding are not.

        Pieces are whole and untransposed, no condition is told. They are read in windows of `window` tokens that
        overlap by half: every token but those of a piece's first window sees at least half a window before it.
        """
        nats = self.token_nats(model, split, window=self.config.window)
        return {"nats": sum(float(values.sum()) for values in nats) / sum(map(len, nats))}

    def token_nats(self, model: Decoder, split: str, *, window: int, **told: Any) -> list[NDArray[np.float64]]:
        """For each piece of a split -log p of its note tokens, in order; `window` 0 reads pieces whole."""
        rows = [add_special_tokens(self.encoding.encode(piece.content)) for piece in self.split(split)]
        budget = self.config.batch_size * max(self.config.crop, window)
        return note_nats(model, rows, window=window, bar=self.encoding.tokens_per_bar, budget=budget, **told)

    def extra_metrics(self, model: Decoder, split: str, decoding: Any) -> dict[str, float]:
        """Pieces from nothing, drawn as `sample` does without settings, beside those of a split: pitches, intervals,
        voice leading, repetition."""
        drawn = self.generator.generate_unconditional(
            model, decoders.build("sample", samples=8), seconds=self.encoding.default_seconds
        )
        compared = generate.compare_statistics(drawn, [piece.content for piece in self.split(split)], self.encoding)
        return compared | (self.lower_voice_nats(model, split) if self.encoding.tokens_per_step else {})

    def lower_voice_nats(self, model: Decoder, split: str) -> dict[str, float]:
        """Nats per token of all voices but the highest; of a model that can see that one, also with sight of it."""
        told: dict[str, Callable[[Tensor], Padded | MusicCondition]] = {"lower_voices": no_condition}
        if self.spec.has_fixed_tokens:
            told["lower_voices_tune_in_sight"] = partial(melody_condition, voices=self.encoding.tokens_per_step)
        found = {}
        for name, saying in told.items():
            nats = np.concatenate(self.token_nats(model, split, window=self.config.window, told=saying))
            lower = np.arange(len(nats)) % self.encoding.tokens_per_step > 0  # pieces are whole steps
            found[f"nats_{name}"] = float(nats[lower].mean())
        return found

    def signatures(self) -> dict[str, str]:
        """How each score is computed, for others to repeat it."""
        seen = f"windows of {self.config.window} overlapping by half" if self.config.window else "whole pieces"
        return {"nats": f"mean -log p per note token (rests included; marks and padding not), {seen}, untransposed"}

    def save(self, folder: Path) -> None:
        """Write the encoding and the classes, from which `load` makes the task, and the beginning of a piece to try."""
        table = {"encoding": self.encoding.settings(), "size": self.encoding.size, "classes": self.classes.names}
        files.write_text(folder / FILE, json.dumps(table, indent=1, ensure_ascii=False) + "\n")
        if self._folder is None:
            files.write_bytes(folder / EXAMPLE, self._example())
        elif self._folder != folder and (self._folder / EXAMPLE).exists():
            files.write_bytes(folder / EXAMPLE, (self._folder / EXAMPLE).read_bytes())

    def _example(self) -> bytes:
        """The beginning of a validation piece as a MIDI file, or of a training piece where there is none."""
        piece = (self.collection.splits["valid"] or self.split("train"))[0]
        notes = self.encoding.notes(self.encoding.crop_start(piece.content, EXAMPLE_SECONDS))
        return to_midi(notes, self.encoding)

    def parse_input(self, text: str) -> MusicFile | None:
        """The path of a MIDI or MusicXML file -> its content; an empty text is nothing, from which a piece is made."""
        if not text.strip():
            return None
        return open_music_file(Path(text.strip()), self.encoding)

    def predict(
        self, model: Decoder, inputs: Sequence[MusicFile | None], options: Options, decoding: DecodingStrategy | None
    ) -> list[list[Prediction]]:
        """Files to continue, or None -> for each as many pieces as are asked for, likeliest first."""
        return [self._answers(model, given, options, options.resolve_strategy(decoding)) for given in inputs]

    def _answers(
        self, model: Decoder, given: MusicFile | None, options: Options, decoding: DecodingStrategy
    ) -> list[Prediction]:
        beginning, title = self._beginning(given, options)
        made = self.generator.generate(model, beginning, decoding, condition=options.condition)
        return [to_prediction(piece, beginning.encoding, title=title, remarks=beginning.remarks) for piece in made]

    def _beginning(self, given: MusicFile | None, options: Options) -> tuple[Prompt, str]:
        """What a piece begins with, and what it is called after."""
        if sum(part is not None for part in (given, options.prompt, options.harmonise, options.infill)) > 1:
            raise ConfigError("a prompt is continued, a tune harmonised, a gap filled; give one file")
        path = options.prompt or options.harmonise or options.infill
        file = given if path is None else open_music_file(path, self.encoding, melody_only=path == options.harmonise)
        if options.prompt_seconds is not None and (file is None or path not in (None, options.prompt)):
            raise ConfigError(
                f"prompt_seconds={options.prompt_seconds}: it is how much of a prompt is used; give a prompt, or leave it out"
            )
        if file is None or path is None or path == options.prompt:
            length = Length(options.seconds, options.exact_length)
            beginning = continuation_prompt(file, self.encoding, prompt_seconds=options.prompt_seconds, length=length)
        elif options.harmonise is not None:
            beginning = harmonization_prompt(file, self.encoding, seconds=options.seconds)
        else:
            beginning = infilling_prompt(file, self.encoding, voices=options.voices, bars=options.bars)
        return beginning, "" if file is None else file.path.stem

    def inspect(
        self, model: Decoder, parsed_input: MusicFile | None, options: Options, decoding: DecodingStrategy | None
    ) -> Inspectable:
        """A file -> what the model looked at when it foretold each of its tokens; without one, of a short new piece."""
        options.check_inspect_options(file=parsed_input is not None)
        encoding = (
            self.encoding if parsed_input is None else self.encoding.with_timing(parsed_input.parsed.parsed.timing)
        )
        if parsed_input is None:
            short = min(options.seconds or EXAMPLE_SECONDS, EXAMPLE_SECONDS)
            tokens = self.generator.generate_unconditional(model, options.resolve_strategy(decoding), seconds=short)[
                0
            ].tokens
        else:
            tokens = encoding.encode(parsed_input.parsed.content)
        path, most = (
            Path("a piece from nothing") if parsed_input is None else parsed_input.path,
            min(MAX_INSPECTED_TOKENS, self.spec.max_length - 1),
        )
        with eval_mode(model):
            return inspect.build_inspectable(
                model, tokens, most, encoding=encoding, special_tokens=self.special_tokens, path=path
            )


def build(config: Config, folder: Path | None = None) -> Music:
    """A config -> the task with the classes of the training data, or those of a run folder."""
    if folder is not None:
        return load(config, folder)
    encoding: Encoding = GridEncoding() if config.encoding == "grid" else EventEncoding()
    collection = dataset.load_collection(config.path, encoding, limit=config.limit, seed=config.seed)
    composers = {piece.composer for piece in collection.splits["train"]}
    task = Music(config, encoding, build_classes(config.conditions, composers))
    task.collection = collection
    return task


def load(config: Config, folder: Path) -> Music:
    """A config and a run folder -> the task of that run; the data is not needed until it is asked for."""
    path = folder / FILE
    try:
        table = json.loads(path.read_text(encoding="utf-8"))
        settings = dict(table["encoding"])
        encoding: Encoding = {"grid": GridEncoding, "events": EventEncoding}[settings.pop("name")](**settings)
        size, classes = int(table["size"]), ConditionClasses(tuple(table["classes"]))
    except (OSError, ValueError, KeyError, TypeError) as wrong:
        raise CheckpointError(f"{path}: missing or damaged ({wrong!r}); copy it from the original run") from None
    if encoding.size != size:
        raise CheckpointError(
            f"{path}: its encoding had {size} tokens, this one has {encoding.size}; install the miditok it was made by"
        )
    return Music(config, encoding, classes, folder=folder)


DAY_SECONDS = 24 * 3600  # seconds
SAMPLING_OPTIONS = ("n", "temperature", "top_k", "top_p", "seed")


@dataclass(frozen=True)
class Options:
    """What one can ask for. A file that is given is continued; without one, a piece is made from nothing."""

    seconds: float | None = None  # at most, of what is new; none: until the piece ends by itself, or its tune does
    exact_length: bool = False  # just so many seconds, even in the middle of a phrase
    prompt: Path | None = None  # a MIDI or MusicXML file to continue
    prompt_seconds: float | None = None  # seconds of the prompt that are used; none: all
    harmonise: Path | None = None  # a file whose tune is kept; the other voices are new
    infill: Path | None = None  # a file of which some voices or bars are made anew
    voices: tuple[str, ...] = ()  # with infill, which are new: soprano, alto, tenor, bass; none: all
    bars: str | None = None  # with infill, which are new: 5-8, or 3,9; the first whole one is 1, an upbeat 0; none: all
    condition: tuple[str, ...] = ()  # classes that the run knows: Bach, minor, 'G minor'
    n: int | None = None  # how many pieces; none, here and below: as the run's decoding says
    temperature: float | None = None  # above 1: more surprising, below: less; 0: the likeliest token every time
    top_k: int | None = None  # only the so many likeliest tokens are drawn; 0: all
    top_p: float | None = None  # only the likeliest tokens that have this share of the probability are drawn
    seed: int | None = None  # another one gives other pieces

    def __post_init__(self) -> None:
        if self.seconds is not None and not 0 < self.seconds < DAY_SECONDS:
            raise ConfigError(f"seconds={self.seconds}: ask for more than 0 seconds and less than a day")
        if self.prompt_seconds is not None and not 0 < self.prompt_seconds < DAY_SECONDS:
            raise ConfigError(
                f"prompt_seconds={self.prompt_seconds}: keep more than 0 seconds of the prompt and less than a day, or leave it out"
            )
        if self.exact_length and self.seconds is None:
            raise ConfigError("exactly: say how long the piece is to be, with seconds=…")
        if (self.voices or self.bars) and self.infill is None:
            raise ConfigError("voices and bars say what of a file is made anew; give the file: infill=FILE")
        if self.infill is not None and self.seconds is not None:
            raise ConfigError("infill keeps the length of the file; leave seconds out")
        if self.harmonise is not None and self.exact_length:
            raise ConfigError("harmonise is as long as the tune, or at most seconds=…; leave exactly out")
        if self.temperature == 0 and (self.n or 1) > 1:
            raise ConfigError(f"n={self.n}: at temperature=0 all would be the same; ask for one")
        if self.temperature == 0 and not (self.top_k is self.top_p is self.seed is None):
            raise ConfigError("top_k, top_p and seed change nothing at temperature=0; leave them out")

    def resolve_strategy(self, decoding: DecodingStrategy | None) -> DecodingStrategy:
        """The run's decoder with the settings that are asked for; sampling, where it lacks one of them."""
        own = decoding or decoders.build("sample")
        return own.with_overrides(**{name: getattr(self, name) for name in SAMPLING_OPTIONS})

    def check_inspect_options(self, *, file: bool) -> None:
        """Refuse what changes nothing of what is looked at: a file as it is, or a short piece from nothing."""
        used = () if file else ("seconds", *SAMPLING_OPTIONS)
        idle = [one.name for one in fields(self) if one.name not in used and getattr(self, one.name) != one.default]
        if idle:
            what = "a file is looked at as it is" if file else "without a file a short piece from nothing is looked at"
            raise ConfigError(f"{', '.join(idle)}: {what}; make a piece with generate, then look at its file")
