"""Detection of music files; their notes are read and checked when training starts."""

from __future__ import annotations

from pathlib import Path

from regard.core.errors import pluralize

MIDI_SUFFIXES = (".mid", ".midi")
SCORE_SUFFIXES = (".mxl", ".musicxml")


def has_music(path: Path) -> bool:
    """Return True if a folder has files of music and no images or tables at its top, judged by names."""
    return path.is_dir() and bool(_files(path, (*MIDI_SUFFIXES, *SCORE_SUFFIXES)))


def describe(path: Path) -> list[str]:
    """Return a line with the number of files: 'music: 20 MIDI files'."""
    counts = {
        noun: len(_files(path, suffixes))
        for noun, suffixes in (("MIDI file", MIDI_SUFFIXES), ("MusicXML file", SCORE_SUFFIXES))
    }
    return [f"music: {', '.join(pluralize(count, noun) for noun, count in counts.items() if count)}"]


def _files(path: Path, suffixes: tuple[str, ...]) -> list[Path]:
    files = (file for file in path.rglob("*") if file.is_file() and not file.name.startswith("."))
    return sorted(file for file in files if file.suffix.lower() in suffixes)
