"""Check of tagged sentences: findings by file and line."""

from __future__ import annotations

import unicodedata
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple, get_args

from regard.core.errors import DataError, pluralize
from regard.data.checks.documents import TYPO_RATIO, similar_label
from regard.data.checks.findings import DistinctTexts, Finding, unread_remarks
from regard.data.files.text_files import read_lines
from regard.data.text import tag_schemes, tagged_files
from regard.data.text.tag_schemes import SEQEVAL_NAMES, Scheme
from regard.data.text.tagged_files import Block


class File(NamedTuple):
    """The readable sentences of a file."""

    split: str
    path: Path
    blocks: list[Block]
    scheme: Scheme | None  # scheme of most sentences; None: there are no tags


def check(path: Path) -> list[Finding]:
    """File or folder of tagged sentences -> findings by file and line."""
    if not path.exists():
        raise DataError(f"{path}: no such file or folder")
    paths, remarks = ({"train": [path]}, ()) if path.is_file() else tagged_files.split_files(path)
    if not paths:
        raise DataError(f"{path}: no files named after a split (train, valid, test) to check")
    findings = [Finding("warning", "unread", path, 0, text) for text in unread_remarks(remarks, path)]
    splits = sorted(paths, key=lambda name: name != "train")
    files = [_read(split, file, findings) for split in splits for file in paths[split]]
    findings += _mixed_schemes(files)
    type_counts: dict[str, Counter[str]] = {}
    occurrences: dict[str, tuple[str, str]] = {}
    distinct_texts = DistinctTexts(paths)
    for file in files:
        findings += _scheme_errors(file)
        for block in file.blocks:
            distinct_texts.add(" ".join(line.unit for line in block.lines), file.split)
        counts = Counter(kind for block in file.blocks for kind in _entity_types(block))
        known = type_counts.get("train", Counter()) if file.split != "train" else Counter()
        findings += _unusual_types(file, counts, known)
        type_counts.setdefault(file.split, Counter()).update(counts)
        findings += _repeats(file, occurrences)
    if all(finding.level == "warning" for finding in findings):
        findings += distinct_texts.findings(path)
    return sorted(findings, key=lambda finding: (str(finding.file), finding.line, finding.text))


def describe(path: Path) -> list[str]:
    """Return lines with the number of sentences and files, and the first sentence with its entities."""
    splits = tagged_files.read(path)
    train = splits.get("train") or next(iter(splits.values()))
    first = next(iter(train), None)
    if first is None:
        return []
    entities = [f"{first.text[start:stop]} ({kind})" for start, stop, kind in tagged_files.entity_spans(first)]
    lines = [f"first sentence: {first.text[:100]} -> {', '.join(entities) or 'no entity'}"]
    if any("joined" in remark for remark in train.remarks):
        lines.insert(0, f"{len(train.files)} files, {pluralize(sum(1 for _ in train), 'sentence')}")
    return lines


def _read(split: str, path: Path, findings: list[Finding]) -> File:
    """Read the sentences of a file; unreadable lines are findings and are skipped."""
    try:
        if tagged_files.detect_format(path) == "klp":
            return _read_markup(split, path, findings)
        blocks = list(_blocks(path, findings))
    except DataError as error:
        findings.append(Finding("error", "unreadable", path, 0, str(error).removeprefix(f"{path}: ")))
        return File(split, path, [], None)
    return File(split, path, blocks, best_scheme([[line.tag for line in block.lines] for block in blocks]))


def _blocks(path: Path, findings: list[Finding]) -> Iterator[Block]:
    file_format = tagged_files.detect_format(path)
    lines: list[tagged_files.Line] = []
    for line_number, line in enumerate([*read_lines(path), ""], start=1):
        if not line.strip() or line.startswith(tagged_files.DOCUMENT):
            if lines:
                yield Block(lines[0].line_number, "", tuple(lines))
            lines = []
        elif not (file_format == "klue" and line.startswith("##")):
            try:
                lines.append(tagged_files.parse_line(line, line_number, path, file_format))
            except DataError as error:
                text = str(error).partition(": ")[2]
                findings.append(Finding("error", "columns", path, line_number, text))
            if not unicodedata.is_normalized("NFC", line):
                findings.append(Finding("warning", "decomposed", path, line_number, "decomposed characters (not NFC)"))


def _read_markup(split: str, path: Path, findings: list[Finding]) -> File:
    blocks: list[Block] = []
    try:
        for sentence in tagged_files.read_sentences(path):
            line_number = int(sentence.origin.rpartition(":")[2])
            units = zip(sentence.text, sentence.tags, strict=True)
            lines = tuple(tagged_files.Line(line_number, unit, tag) for unit, tag in units)
            blocks.append(Block(line_number, sentence.text, lines))
    except DataError as error:
        location, _, text = str(error).partition(": ")
        findings.append(Finding("error", "columns", path, int(location.rpartition(":")[2]), text))
    return File(split, path, blocks, "bio")


def best_scheme(sentences: Sequence[Sequence[str]]) -> Scheme | None:
    """Return the scheme that most sentences follow; BIO if several tie, None if nothing is tagged."""
    if all(tag == tag_schemes.OUTSIDE for tags in sentences for tag in tags):
        return None
    counts = {
        scheme: sum(tag_schemes.find_tag_error(tags, scheme) is None for tags in sentences)
        for scheme in get_args(Scheme)
    }
    best: Scheme = max(counts, key=lambda scheme: counts[scheme])
    return best


def _scheme_errors(file: File) -> Iterator[Finding]:
    """Report tags that violate the scheme of most sentences of the file."""
    for block in file.blocks:
        tags = [line.tag for line in block.lines]
        error = None if file.scheme is None else tag_schemes.find_tag_error(tags, file.scheme)
        if error is None or file.scheme is None:
            continue
        match = next((name for name in get_args(Scheme) if tag_schemes.find_tag_error(tags, name) is None), None)
        hint = (
            f"; the sentence follows {SEQEVAL_NAMES[match]}, most of the file {SEQEVAL_NAMES[file.scheme]}"
            if match
            else ""
        )
        yield Finding("error", "scheme", file.path, block.lines[error.unit].line_number, error.problem + hint)


def _mixed_schemes(files: list[File]) -> Iterator[Finding]:
    """Report files of one data set with different schemes."""
    tagged = [file for file in files if file.scheme is not None]
    for file in tagged[1:]:
        first = tagged[0]
        if file.scheme != first.scheme and _has_unique_scheme(file) and _has_unique_scheme(first):
            file_scheme, first_scheme = (SEQEVAL_NAMES[item.scheme or "bio"] for item in (file, first))
            text = f"uses {file_scheme}, but {first.path.name} uses {first_scheme}"
            yield Finding("error", "scheme", file.path, 0, text)


def _has_unique_scheme(file: File) -> bool:
    """Return True if the tags of a file are valid in exactly one scheme."""
    tags = [[line.tag for line in block.lines] for block in file.blocks]
    return sum(all(tag_schemes.find_tag_error(t, name) is None for t in tags) for name in get_args(Scheme)) == 1


def _entity_types(block: Block) -> list[str]:
    parsed = tag_schemes.parse_tags([line.tag for line in block.lines])
    return [entity_type for prefix, entity_type in parsed if prefix in ("B", "S")]


def _unusual_types(file: File, counts: Counter[str], training_counts: Counter[str]) -> Iterator[Finding]:
    """Report entity types that look like a typing mistake or are not in the training data."""
    for name, count in counts.items():
        line = next((line.line_number for block in file.blocks for line in block.lines if line.tag.endswith(name)), 0)
        frequent = [label for label in counts if counts[label] >= max(2, TYPO_RATIO * count) and label != name]
        similar = similar_label(name, frequent)
        if similar is not None:
            text = f"type {name!r} ({count} times); did you mean {similar!r} ({counts[similar]} times)?"
            yield Finding("warning", "label", file.path, line, text)
        elif training_counts and name not in training_counts:
            text = f"type {name!r} of {file.split} is not in the training data"
            yield Finding("error", "label", file.path, line, text)


def _repeats(file: File, occurrences: dict[str, tuple[str, str]]) -> Iterator[Finding]:
    """Report sentences that are also in another split, except for very short ones, which repeat often."""
    for block in file.blocks:
        text = " ".join(line.unit for line in block.lines)
        split, location = occurrences.setdefault(text, (file.split, f"{file.path.name}:{block.first_line}"))
        if split != file.split and len(block.lines) > 2:
            yield Finding(
                "warning", "repeated", file.path, block.first_line, f"the same sentence is in {location} ({split})"
            )
