"""`regard generate`: new music from a run, as MIDI, sound or a picture."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from regard.api.run import Run, load
from regard.core import config as configs
from regard.core import files
from regard.core.errors import ConfigError
from regard.data.music import midi, roll, sound
from regard.data.music.grid import Grid
from regard.decoding import sample
from regard.tasks._compose import Composition, Request, compose
from regard.tasks.music import Music
from regard.training.recipe import Recipe

KINDS = (".mid", ".wav", ".png")


def run(folder: Path, wish: dict[str, Any], *, out: Sequence[Path], settings: list[str]) -> None:
    """Make the pieces and write each to every file that is asked for; several samples are numbered.

    The run's own [decoding] is how tokens are drawn, with `settings` such as temperature=0.9 laid over it.
    """
    for path in out:
        if path.suffix.lower() not in KINDS:
            raise ConfigError(f"--out {path}: a file of music ends in {', '.join(KINDS)}")
    found = load(folder)
    task = music_of(found)
    made = compose(task, found.model, Request(**wish, sampling=sampling_of(found.recipe, settings)))
    for remark in made.remarks:
        print(remark)
    for number, piece in enumerate(made.pieces, start=1):
        fresh = len(piece.tokens)
        last = max((note.end for note in piece.notes), default=0.0)
        print(f"{number}: {last:.1f} s, {len(piece.notes)} notes, {fresh} tokens, log p {piece.score:.1f}")
        for path in out:
            target = path if len(made.pieces) == 1 else path.with_stem(f"{path.stem}-{number}")
            files.write_bytes(target, render(piece, task, target))
            print(f"wrote {target}")


def music_of(found: Run) -> Music:
    """The run's task, if it is one of music."""
    if not isinstance(found.task, Music):
        raise ConfigError(f"{found.folder} was trained for {found.recipe.task.name!r}; generate needs a run of music")
    return found.task


def sampling_of(recipe: Recipe, settings: list[str]) -> sample.Config:
    """How the recipe draws tokens, or how `sample` does by default, with settings laid over it."""
    drawn = recipe.decoding is not None and recipe.decoding.name == "sample"
    table = configs.to_dict(recipe.decoding.config) if drawn and recipe.decoding else {}
    return configs.from_dict(sample.Config, configs.override(table, settings), "--set")


def render(piece: Composition, task: Music, path: Path) -> bytes:
    """A piece as the bytes of a file of the path's kind."""
    kind = path.suffix.lower()
    if kind == ".wav":
        return sound.render(piece.notes)
    if kind == ".png":
        return roll.render(piece.notes, title=path.stem, names=task.encoding.voices, given=piece.given)
    tempo = task.encoding.tempo if isinstance(task.encoding, Grid) else 120.0
    return midi.render(piece.notes, tempo=tempo, names=task.encoding.voices)
