"""New pieces from a model: from nothing, from a primer, or around a given soprano. Every one is a valid piece."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch

from regard.core.errors import ConfigError, DataError
from regard.data.music import statistics
from regard.data.music.encoding import Grammar, Tokens
from regard.data.music.grid import NAMES, SILENT, Grid, GridGrammar
from regard.data.music.notes import Note
from regard.decoding import sample
from regard.tasks._evaluating import evaluating
from regard.tasks.music import Music


@dataclass(frozen=True)
class Request:
    """What is asked for."""

    seconds: float = 30.0  # of what is new, or of the whole where a soprano is harmonised
    prompt: Path | None = None  # a file to go on from
    keep: float | None = None  # seconds of it that are used; none: all
    harmonise: Path | None = None  # a file whose soprano is kept
    classes: tuple[str, ...] = ()  # composer, key or mode
    sampling: sample.Config = field(default_factory=sample.Config)

    def __post_init__(self) -> None:
        if not 0 < self.seconds < 24 * 3600:
            raise ConfigError(f"seconds={self.seconds}: ask for more than 0 seconds and less than a day")
        if self.keep is not None and self.keep <= 0:
            raise ConfigError(f"keep={self.keep}: keep more than 0 seconds of the prompt, or leave it out")
        if self.prompt is not None and self.harmonise is not None:
            raise ConfigError("a prompt is continued, a soprano harmonised; give one of them")


class Composition(NamedTuple):
    """A piece and what the model thinks of it."""

    notes: list[Note]  # in seconds
    tokens: Tokens
    score: float  # log probability of what is new
    given: float  # seconds that came from the prompt


class Given(NamedTuple):
    """Where a piece begins, and what may follow."""

    tokens: Tokens
    grammar: Grammar
    limit: int  # tokens that may follow
    seconds: float
    remarks: tuple[str, ...] = ()


class Composed(NamedTuple):
    """Pieces, likeliest first, and what had to be mended in the file that was given."""

    pieces: list[Composition]
    remarks: tuple[str, ...]


def compose(task: Music, model: Any, request: Request) -> Composed:
    """A request -> as many pieces as its sampling says."""
    given = _given(task, request)
    room = task.sizes.longest - len(given.tokens) - 1
    if given.limit > room:
        raise DataError(
            f"the primer has {len(given.tokens)} tokens and {given.limit} more are asked for, but the model remembers "
            f"{task.sizes.longest}; ask for fewer seconds, keep less of the primer, or set data.longest in training"
        )
    with evaluating(model) as device:
        tokens = torch.from_numpy(np.concatenate([[task.marks.start], given.tokens]))[None].to(device)
        conditions = task.classes.ask(request.classes)
        state = model.start(type(conditions)(*(part.to(device) for part in conditions)))
        if tokens.shape[1] > 1:
            _, state = model.features(tokens[:, :-1], state)
        found = sample.decode(
            model,
            state,
            marks=task.marks,
            limits=torch.tensor([given.limit], device=device),
            config=request.sampling,
            first=tokens[:, -1],
            grammar=given.grammar,
        )[0]
    pieces = []
    for hypothesis in found:
        whole = np.concatenate([given.tokens, np.array(hypothesis.tokens, dtype=np.int64)])
        notes = task.encoding.notes(task.encoding.decode(whole))
        pieces.append(Composition(notes, whole, hypothesis.score, given.seconds))
    return Composed(pieces, given.remarks)


def _given(task: Music, request: Request) -> Given:
    if request.harmonise is not None:
        return _soprano(task, request.harmonise, request)
    tokens, seconds = np.zeros(0, dtype=np.int64), 0.0
    remarks: tuple[str, ...] = ()
    if request.prompt is not None:
        opened = task.encoding.open(request.prompt)
        remarks = opened.remarks
        content = _beginning(opened.content, request.keep, task)
        tokens = task.encoding.encode(content)
        seconds = max((note.end for note in task.encoding.notes(content)), default=0.0)
    grammar = task.encoding.grammar(tokens, seconds=request.seconds)
    return Given(tokens, grammar, task.encoding.longest(request.seconds), seconds, remarks)


def _beginning(content: Any, keep: float | None, task: Music) -> Any:
    if keep is None:
        return content
    if isinstance(task.encoding, Grid):
        return content[: max(1, round(keep / task.encoding.step))]
    kept = [note._replace(end=min(note.end, keep)) for note in content if note.start < keep]
    if not kept:
        raise DataError(f"no note of the prompt begins in its first {keep:g} seconds; keep more of it")
    return kept


def _soprano(task: Music, path: Path, request: Request) -> Given:
    if not isinstance(task.encoding, Grid):
        raise DataError(f"{path}: only a model of the grid encoding has voices to harmonise; use --prompt")
    opened = task.encoding.open(path)
    line = highest(opened.content)
    steps = min(len(line), max(1, round(request.seconds / task.encoding.step)))
    voices = np.repeat(line[:steps, None], len(NAMES), axis=1)
    fixed = torch.from_numpy(task.encoding.encode(voices)).view(-1, len(NAMES))[:, 0]
    end = steps * len(NAMES)
    grammar = GridGrammar(task.encoding.size, before=0, end=end, fixed=fixed)
    return Given(np.zeros(0, dtype=np.int64), grammar, end, 0.0, opened.remarks)


def highest(grid: np.ndarray[Any, np.dtype[np.int16]]) -> np.ndarray[Any, np.dtype[np.int16]]:
    """(steps voices) -> the first voice, or where it is silent throughout the highest one that sounds."""
    first = grid[:, 0]
    top: np.ndarray[Any, np.dtype[np.int16]] = grid.max(axis=1)
    return top if (first == SILENT).all() else first


def compare(task: Music, model: Any, *, split: str, samples: int = 8, seconds: float = 30.0) -> dict[str, float]:
    """Free-running pieces beside those of a split -> the same numbers of both, and how far their histograms differ."""
    sampling = replace(sample.Config(), samples=samples)
    made = compose(task, model, Request(seconds=seconds, sampling=sampling)).pieces
    drawn = [piece.notes for piece in made]
    real = [task.encoding.notes(piece.content) for piece in task.split(split)]
    found = {
        "pitch_distance": statistics.distance(statistics.pitch_histogram(drawn), statistics.pitch_histogram(real)),
        "interval_distance": statistics.distance(
            statistics.interval_histogram(drawn), statistics.interval_histogram(real)
        ),
    }
    if isinstance(task.encoding, Grid):
        pairs = {
            "samples": statistics.describe([task.encoding.decode(piece.tokens) for piece in made]),
            "data": statistics.describe([piece.content for piece in task.split(split)]),
        }
    else:
        pairs = {"samples": statistics.texture(drawn), "data": statistics.texture(real)}
    return found | {f"{name}_{whose}": value for whose, table in pairs.items() for name, value in table.items()}
