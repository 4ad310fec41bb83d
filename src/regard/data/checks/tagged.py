"""Looks tagged sentences over before they are trained on: what is wrong, in which file, on which line."""

from __future__ import annotations

import unicodedata
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple, get_args

from regard.core.errors import DataError
from regard.data import examples
from regard.data.checks.documents import TYPO_RATIO, similar_label
from regard.data.checks.findings import DistinctTexts, Finding
from regard.data.files.text_files import read_lines
from regard.data.text import tag_schemes, tagged_files
from regard.data.text.tag_schemes import SEQEVAL_NAMES, Scheme
from regard.data.text.tagged_files import Block


class File(NamedTuple):
    """A file of tagged sentences, read as far as it can be."""

    split: str
    path: Path
    blocks: list[Block]
    scheme: Scheme | None  # the one that most of its sentences keep; None: there are no tags in it


def check(path: Path) -> list[Finding]:
    """A file or folder of tagged sentences -> what is wrong, by file and line."""
    if not path.exists():
        raise DataError(f"{path}: no such file or folder")
    given = {"train": path} if path.is_file() else examples.files_by_split(path, tagged_files.SUFFIXES)
    if not given:
        raise DataError(f"{path}: no files named after a split (train, valid, test) to check")
    findings: list[Finding] = []
    files = [_read(split, given[split], findings) for split in sorted(given, key=lambda name: name != "train")]
    findings += _mixed(files)
    kinds: dict[str, Counter[str]] = {}
    seen: dict[str, tuple[str, str]] = {}
    different = DistinctTexts(given)
    for file in files:
        findings += _broken(file)
        for block in file.blocks:
            different.add(" ".join(line.unit for line in block.lines), file.split)
        kinds[file.split] = Counter(kind for block in file.blocks for kind in _kinds(block))
        findings += _types(file, kinds[file.split], kinds["train"] if "train" in kinds else Counter())
        findings += _again(file, seen)
    if all(finding.level == "warning" for finding in findings):
        findings += different.findings(path)
    return sorted(findings, key=lambda finding: (str(finding.file), finding.line, finding.text))


def _read(split: str, path: Path, findings: list[Finding]) -> File:
    """The sentences of a file; lines that cannot be read are findings, and their sentences are left out."""
    try:
        form = tagged_files.detect_format(path)
        if form == "klp":
            return _read_markup(split, path, findings)
        blocks = list(_blocks(path, findings))
    except DataError as wrong:
        findings.append(Finding("error", "unreadable", path, 0, str(wrong).removeprefix(f"{path}: ")))
        return File(split, path, [], None)
    return File(split, path, blocks, best_scheme([[line.tag for line in block.lines] for block in blocks]))


def _blocks(path: Path, findings: list[Finding]) -> Iterator[Block]:
    form = tagged_files.detect_format(path)
    held: list[tagged_files.Line] = []
    for number, line in enumerate([*read_lines(path), ""], start=1):
        if not line.strip() or line.startswith(tagged_files.DOCUMENT):
            if held:
                yield Block(held[0].number, "", tuple(held))
            held = []
        elif not (form == "klue" and line.startswith("##")):
            try:
                held.append(tagged_files.parse_line(line, number, path, form))
            except DataError as wrong:
                text = str(wrong).partition(": ")[2]
                findings.append(Finding("error", "columns", path, number, text))
            if not unicodedata.is_normalized("NFC", line):
                findings.append(Finding("warning", "decomposed", path, number, "decomposed characters (not NFC)"))


def _read_markup(split: str, path: Path, findings: list[Finding]) -> File:
    blocks: list[Block] = []
    try:
        for sentence in tagged_files.read_sentences(path):
            number = int(sentence.place.rpartition(":")[2])
            units = zip(sentence.text, sentence.tags, strict=True)
            blocks.append(
                Block(number, sentence.text, tuple(tagged_files.Line(number, unit, tag) for unit, tag in units))
            )
    except DataError as wrong:
        place, _, text = str(wrong).partition(": ")
        findings.append(Finding("error", "columns", path, int(place.rpartition(":")[2]), text))
    return File(split, path, blocks, "bio")


def best_scheme(sentences: Sequence[Sequence[str]]) -> Scheme | None:
    """The scheme that most sentences keep; BIO where several are kept as often, None where nothing is tagged."""
    if all(tag == tag_schemes.OUTSIDE for tags in sentences for tag in tags):
        return None
    kept = {
        scheme: sum(tag_schemes.find_tag_error(tags, scheme) is None for tags in sentences)
        for scheme in get_args(Scheme)
    }
    best: Scheme = max(kept, key=lambda scheme: kept[scheme])
    return best


def _broken(file: File) -> Iterator[Finding]:
    """Tags that break the rules of the scheme which the file mostly keeps."""
    for block in file.blocks:
        tags = [line.tag for line in block.lines]
        wrong = None if file.scheme is None else tag_schemes.find_tag_error(tags, file.scheme)
        if wrong is None or file.scheme is None:
            continue
        other = next((name for name in get_args(Scheme) if tag_schemes.find_tag_error(tags, name) is None), None)
        beside = (
            f"; the sentence keeps {SEQEVAL_NAMES[other]}, the file mostly {SEQEVAL_NAMES[file.scheme]}"
            if other
            else ""
        )
        yield Finding("error", "scheme", file.path, block.lines[wrong.unit].number, wrong.problem + beside)


def _mixed(files: list[File]) -> Iterator[Finding]:
    """Files of one data set that are written in different schemes."""
    known = [file for file in files if file.scheme is not None]
    for file in known[1:]:
        if file.scheme != known[0].scheme and _evident(file) and _evident(known[0]):
            own, other = (SEQEVAL_NAMES[each.scheme or "bio"] for each in (file, known[0]))
            text = f"is written in {own}, but {known[0].path.name} in {other}"
            yield Finding("error", "scheme", file.path, 0, text)


def _evident(file: File) -> bool:
    """Whether a file keeps one scheme only, so that which one it is cannot be doubted."""
    tags = [[line.tag for line in block.lines] for block in file.blocks]
    return sum(all(tag_schemes.find_tag_error(t, name) is None for t in tags) for name in get_args(Scheme)) == 1


def _kinds(block: Block) -> list[str]:
    return [kind for letter, kind in tag_schemes.parse_tags([line.tag for line in block.lines]) if letter in ("B", "S")]


def _types(file: File, counts: Counter[str], trained: Counter[str]) -> Iterator[Finding]:
    """Types of entities that look like a typing mistake, or that training has not."""
    for kind, count in counts.items():
        line = next((line.number for block in file.blocks for line in block.lines if line.tag.endswith(kind)), 0)
        meant = similar_label(
            kind, [other for other in counts if counts[other] >= max(2, TYPO_RATIO * count) and other != kind]
        )
        if meant is not None:
            text = f"type {kind!r} ({count} times); did you mean {meant!r} ({counts[meant]} times)?"
            yield Finding("warning", "label", file.path, line, text)
        elif trained and kind not in trained:
            yield Finding("error", "label", file.path, line, f"type {kind!r} of {file.split} is not in training")


def _again(file: File, seen: dict[str, tuple[str, str]]) -> Iterator[Finding]:
    """Sentences that another split has too; of one or two units many are alike, and nothing is said of them."""
    for block in file.blocks:
        text = " ".join(line.unit for line in block.lines)
        split, place = seen.setdefault(text, (file.split, f"{file.path.name}:{block.first_line}"))
        if split != file.split and len(block.lines) > 2:
            yield Finding(
                "warning", "repeated", file.path, block.first_line, f"the same sentence is in {place} ({split})"
            )
