"""Layouts of transcribed recordings in a folder -> audio files with transcripts.

- a table transcripts.csv, .tsv or .jsonl (or metadata.csv …) with columns for the file and its text, and optionally
  the split; or one such table per split (train.tsv, dev.tsv, test.tsv), as in Common Voice;
- LibriSpeech: files *.trans.txt with lines `ID TEXT`, next to ID.flac, in folders such as train-clean-100.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from regard.core.errors import DataError, did_you_mean
from regard.data.examples import SPLIT_ALIASES, split_of, strip_compression
from regard.data.files import tables
from regard.data.files.table_folders import join_tables, visible_files
from regard.data.files.text_files import read_lines
from regard.data.speech.audio_files import SUFFIXES, is_audio

TABLE_NAMES = ("transcripts", "transcript", "metadata")
FILE_COLUMNS = tuple("path file filename file_name file_path audio audio_path wav recording clip 파일 음성".split())
TEXT_COLUMNS = tuple("sentence text transcript transcription words label 문장 전사 내용".split())
SPLIT_COLUMNS = ("split", "set", "subset", "분할")
LIBRISPEECH_SUFFIX = ".trans.txt"
LIBRISPEECH_SPLIT = re.compile(r"(train|dev|test)-")  # train-clean-100, dev-other


class Transcript(NamedTuple):
    """An audio file with its text."""

    path: Path
    text: str
    split: str | None


class TranscriptList(NamedTuple):
    """The transcripts of a folder, and the problems of those left out."""

    transcripts: list[Transcript]
    missing: list[str]  # names of audio files that do not exist
    num_empty: int  # transcripts without text


def read_transcripts(path: Path) -> TranscriptList:
    """A folder or a table -> its transcripts. A folder in no known layout is an error."""
    if not path.exists():
        raise DataError(f"{path}: no such file or folder; give a folder with recordings and transcripts.csv")
    folder = path if path.is_dir() else path.parent
    files = transcript_files(path)
    if not files:
        raise DataError(
            f"{path}: no transcripts; add transcripts.csv with the columns file and text, or *{LIBRISPEECH_SUFFIX}"
        )
    audio_index = AudioIndex(folder)
    result = TranscriptList([], [], 0)
    for file in files:
        for name, text, split in _rows(file, folder):
            audio = audio_index.find(name, file.parent)
            if audio is None:
                result.missing.append(name)
            elif not text.strip():
                result = result._replace(num_empty=result.num_empty + 1)
            else:
                result.transcripts.append(Transcript(audio, " ".join(text.split()), split))
    if not result.transcripts:
        reason = f"no file {result.missing[0]!r}" if result.missing else "all texts are empty"
        raise DataError(f"{path}: no transcript has a recording ({reason}); name the audio files in the table")
    return result


def transcript_files(path: Path) -> list[Path]:
    """Return the files with transcripts: one table, one table per split, or all files of LibriSpeech."""
    if path.is_file():
        return [path]
    for name in TABLE_NAMES:
        for suffix in tables.SUFFIXES:
            if (path / f"{name}{suffix}").is_file():
                return [path / f"{name}{suffix}"]
    files = join_tables(path, [file for file in visible_files(path) if _is_transcript_table(file)]).files.values()
    by_split = [file for split_files in files for file in split_files]
    return by_split or sorted(path.rglob(f"*{LIBRISPEECH_SUFFIX}"))


def has_transcripts(path: Path) -> bool:
    """Return True if a folder has transcribed recordings, or a table names recordings and texts."""
    if path.is_dir():
        return any(
            file.name.endswith(LIBRISPEECH_SUFFIX) or _is_transcript_table(file) for file in transcript_files(path)
        )
    return _is_transcript_table(path)


def _is_transcript_table(file: Path) -> bool:
    """Return True if the first row of a table names an audio file."""
    if strip_compression(file).suffix not in tables.SUFFIXES:
        return False
    try:
        first = next(_rows(file, file.parent), None)
    except DataError:
        return False
    return first is not None and (is_audio(first[0]) or first[0] == "")


class AudioIndex:
    """Finds audio files below a folder by path, by name, or by name without suffix; exact names before other case."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._by_name: dict[str, list[Path]] = defaultdict(list)
        self._by_lower_name: dict[str, list[Path]] = defaultdict(list)
        for path in sorted(folder.rglob("*")):
            if path.suffix.lower() in SUFFIXES and not path.name.startswith("."):
                for name in (path.name, path.stem):
                    self._by_name[name].append(path)
                    self._by_lower_name[name.casefold()].append(path)

    def find(self, name: str, near: Path) -> Path | None:
        """Return the file of a name in a table of the folder `near`; None if there is none."""
        relative = name.strip().replace("\\", "/").removeprefix("./")
        last = Path(relative).name
        matches = self._by_name.get(last) or self._by_lower_name.get(last.casefold(), [])
        exact = [
            path
            for path in matches
            if path.with_suffix("").as_posix().endswith(Path(relative).with_suffix("").as_posix())
        ]
        here = [path for path in exact if path.parent == (near / relative).parent]
        candidates = here or exact or matches
        if len(candidates) > 1:
            names = " and ".join(str(path.relative_to(self.folder)) for path in candidates[:2])
            raise DataError(f"{self.folder}: {name!r} may be {names}; include the folder of the file")
        return candidates[0] if candidates else None


def _rows(file: Path, folder: Path) -> Iterator[tuple[str, str, str | None]]:
    """Yield name of the audio file, text and split of each row of a file below a folder."""
    if file.name.endswith(LIBRISPEECH_SUFFIX):
        parents = [folder.name, *file.relative_to(folder).parts[:-1]]  # the folder may be one of the splits
        match = next((m for m in map(LIBRISPEECH_SPLIT.match, parents) if m), None)
        split = SPLIT_ALIASES[match[1]] if match else None
        for line in read_lines(file):
            name, _, text = line.strip().partition(" ")
            if name:
                yield name, text, split
        return
    file_split = split_of(strip_compression(file).stem)
    if strip_compression(file).suffix == ".jsonl":
        for where, value in tables.read_jsonl(file):
            yield _from_mapping(where, value, file_split)
        return
    records = tables.read_records(file)
    header = next(records, None)
    if header is None:
        raise DataError(f"{file}: empty; write a header with the columns file and text")
    names = [cell.strip().lower() for cell in header.cells]
    for record in records:
        if len(record.cells) != len(names):
            raise DataError(
                f"{file}:{record.line}: {len(record.cells)} cells, but there are {len(names)} columns; "
                "quote texts with commas"
            )
        yield _from_mapping(f"{file}:{record.line}", dict(zip(names, record.cells, strict=True)), file_split)


def _from_mapping(where: str, value: Any, file_split: str | None) -> tuple[str, str, str | None]:
    if not isinstance(value, Mapping):
        raise DataError(f'{where}: not an object; write {{"file": "a.wav", "text": "…"}}')
    row = {str(key).strip().lower(): cell for key, cell in value.items()}
    name, text = (_first(row, columns) for columns in (FILE_COLUMNS, TEXT_COLUMNS))
    if name is None or text is None:
        missing, columns = ("file", FILE_COLUMNS) if name is None else ("text", TEXT_COLUMNS)
        raise DataError(f"{where}: no column for the {missing}; name it {columns[0]!r} or {columns[1]!r}")
    split = (_first(row, SPLIT_COLUMNS) or "").strip().lower()
    if split and split not in SPLIT_ALIASES:
        raise DataError(f"{where}: no split {split!r}; {did_you_mean(split, SPLIT_ALIASES)}")
    return name, text, SPLIT_ALIASES[split] if split else file_split


def _first(row: Mapping[str, Any], columns: Sequence[str]) -> str | None:
    return next((str(row[column]) for column in columns if row.get(column) is not None), None)
