"""Files of sentence pairs that are read together: tables, aligned files by suffix, or two text files by name or script.

train.csv  part1.csv              a table, or several tables with the same columns
news.en    news.ko                aligned lines; the suffix is the language
english.txt  korean.txt           aligned lines; the name has the language, or the script of the lines tells it
"""

from __future__ import annotations

import re
from itertools import islice
from pathlib import Path
from typing import NamedTuple

from regard.core.errors import DataError, did_you_mean
from regard.data.examples import COMPRESSED_SUFFIXES, split_of, strip_compression
from regard.data.files import table_folders
from regard.data.files.text_files import read_lines
from regard.data.text.languages import LANGUAGE_NAMES, language_names, script_of, script_of_language

SETTINGS = "data.source=… data.target=…"
TEXT_SUFFIX = ".txt"
SKIPPED_STEMS = ("readme", "license", "contents")  # text files that are not data
SNIFF_LINES = 100  # lines that are examined
Codes = tuple[str, str]  # source and target language


class Group(NamedTuple):
    """A table, or the aligned files of source and target, and their split."""

    split: str
    files: tuple[Path, ...]


class PairGroups(NamedTuple):
    """The groups of a path, and remarks on files that are joined or not read."""

    groups: list[Group]
    remarks: tuple[str, ...] = ()


def find_groups(path: Path, codes: Codes) -> PairGroups:
    """File, stem of two files, or folder -> the files that are read together."""
    if path.is_file():
        files = aligned_files(path, codes) or (path,)
        remarks = table_folders.split_column_remarks(path)
        return PairGroups([Group("train", files)], remarks)
    if not path.is_dir():
        sides = tuple(_existing(path.with_name(f"{path.name}.{code}")) for code in codes)
        if all(side.exists() for side in sides):
            return PairGroups([Group("train", sides)])
        raise DataError(f"{path}: no such file or folder")
    tables, remarks = table_folders.tables_by_split(path)
    if tables:
        return _single_split_is_train(PairGroups([Group(s, (file,)) for s in tables for file in tables[s]], remarks))
    return _single_split_is_train(_aligned_in(path, codes))


def aligned_files(path: Path, codes: Codes) -> tuple[Path, Path] | None:
    """One of two aligned files (news.en) -> both (news.en, news.ko); None if it is a table or of another language."""
    name = strip_compression(path)
    if name.suffix == TEXT_SUFFIX:
        sides = None if has_tab(path) else find_text_pair(path.parent, codes)
        return sides if sides is not None and path in sides else None
    if name.suffix.removeprefix(".") not in codes:
        return None
    stem = name.with_suffix("")
    source, target = (_existing(stem.with_name(f"{stem.name}.{code}")) for code in codes)
    for side, code in zip((source, target), codes, strict=True):
        if not side.exists():
            raise DataError(
                f"{path}: there is no {side.name} next to it; add that file with the aligned lines of {code}, or name "
                f"another language: {SETTINGS}"
            )
    return source, target


def find_text_pair(folder: Path, codes: Codes) -> tuple[Path, Path] | None:
    """Folder -> two text files with as many lines, by the languages in their names or by their scripts; else None."""
    files = text_files_in(folder)
    source, target = (next((file for file in files if named_language(file) == code), None) for code in codes)
    if source is not None and target is not None:
        return source, target
    if len(files) != 2 or any(map(has_tab, files)) or _count_lines(files[0]) != _count_lines(files[1]):
        return None
    scripts = [script_of(" ".join(islice(read_lines(file), SNIFF_LINES))) for file in files]
    expected = [script_of_language(code) for code in codes]
    if None in expected or expected[0] == expected[1]:
        return None
    if scripts == expected:
        return files[0], files[1]
    return (files[1], files[0]) if scripts == expected[::-1] else None


def named_language(file: Path) -> str | None:
    """english.txt, train_ko.txt -> the code of the language in the name; None if there is none, or two."""
    words = re.split(r"[\W_]+", strip_compression(file).stem.casefold())
    codes = [code for code in LANGUAGE_NAMES if any(word in language_names(code) for word in words)]
    return codes[0] if len(codes) == 1 else None


def text_files_in(folder: Path) -> list[Path]:
    """Return the .txt files of a folder, except notes such as README.txt."""
    files = sorted(file for file in folder.iterdir() if file.is_file() and not file.name.startswith("."))
    texts = [file for file in files if strip_compression(file).suffix == TEXT_SUFFIX]
    return [file for file in texts if not file.name.casefold().startswith(SKIPPED_STEMS)]


def _aligned_in(folder: Path, codes: Codes) -> PairGroups:
    files = {strip_compression(path).name: path for path in sorted(folder.iterdir()) if path.is_file()}
    sides = [{Path(name).stem: path for name, path in files.items() if Path(name).suffix == f".{c}"} for c in codes]
    if not any(sides):
        groups = _text_groups(folder, codes)
        if groups:
            return PairGroups(groups)
    table_folders.check_not_nested(folder)
    for code, side in zip(codes, sides, strict=True):
        if not side:
            present = {Path(name).suffix.removeprefix(".") for name in files} - {"", "md", "txt", "json"}
            raise DataError(f"{folder}: no file for language {code!r}; {did_you_mean(code, present)}{_hint(folder)}")
    stems = sorted({*sides[0], *sides[1]})
    named = [stem for stem in stems if split_of(stem)] or (stems if len(stems) == 1 else [])
    groups, unread = [], [stem for stem in stems if stem not in named]
    for stem in named:
        split = split_of(stem) or "train"
        if any(group.split == split for group in groups):
            unread.append(stem)
            continue
        for code, side in zip(codes, sides, strict=True):
            if stem not in side:
                raise DataError(f"{folder}: {stem}.{code} is missing; the other language has {stem}")
        groups.append(Group(split, (sides[0][stem], sides[1][stem])))
    if not groups:
        raise DataError(f"{folder}: no file named train, valid or test; it has {', '.join(sorted(files)[:5])}")
    return PairGroups(groups, (f"{folder}: not read: {', '.join(sorted(unread))}",) if unread else ())


def _text_groups(folder: Path, codes: Codes) -> list[Group]:
    """Return the groups of text files whose names have the languages, one per split, or the only two text files."""
    files = text_files_in(folder)
    splits = sorted({split_of(strip_compression(file).stem) or "train" for file in files})
    groups = []
    for split in splits:
        part = [file for file in files if (split_of(strip_compression(file).stem) or "train") == split]
        sides = [[file for file in part if named_language(file) == code] for code in codes]
        if any(len(side) > 1 for side in sides):
            raise DataError(
                f"{folder}: several text files of one language ({', '.join(file.name for file in part[:4])}); give the "
                "path of one of two aligned files"
            )
        if all(sides):
            groups.append(Group(split, (sides[0][0], sides[1][0])))
    if groups:
        return groups
    pair = find_text_pair(folder, codes)
    return [] if pair is None else [Group("train", pair)]


def _hint(folder: Path) -> str:
    """Return a hint for two text files whose languages are unknown."""
    files = text_files_in(folder)
    if len(files) != 2:
        return ""
    counts = [_count_lines(file) for file in files]
    names = " and ".join(file.name for file in files)
    if counts[0] != counts[1]:
        return f"; {names} have {counts[0]:,} and {counts[1]:,} lines, so they are not aligned"
    return f"; {names} have {counts[0]:,} lines each: rename them after their languages, for example x.en and x.ko"


def _single_split_is_train(pair_groups: PairGroups) -> PairGroups:
    """Use the only split for training, whatever its name."""
    if len({group.split for group in pair_groups.groups}) > 1:
        return pair_groups
    return pair_groups._replace(groups=[group._replace(split="train") for group in pair_groups.groups])


def _existing(path: Path) -> Path:
    """Return the path, or the path of its compressed file if only that exists."""
    candidates = [path, *(path.with_name(path.name + suffix) for suffix in COMPRESSED_SUFFIXES)]
    return next((candidate for candidate in candidates if candidate.exists()), path)


def has_tab(path: Path) -> bool:
    """Return True if one of the first lines of a file has a tab."""
    return any("\t" in line for line in islice(read_lines(path), SNIFF_LINES))


def _count_lines(path: Path) -> int:
    return sum(1 for _ in read_lines(path))
