"""Check of transcribed recordings: missing, unreadable, silent and unusually long recordings, and empty transcripts."""

from __future__ import annotations

import statistics
from collections import defaultdict
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np

from regard.core.errors import DataError
from regard.data.checks.findings import Finding
from regard.data.examples import missing_splits
from regard.data.speech.audio_files import SILENCE, Recording, read_audio
from regard.data.speech.layouts import Transcript, TranscriptList, read_transcripts

CHECK_RATE = 8000  # samples per second at which recordings are examined
LONG_RATIO, LONG_SECONDS = 10, 30  # a long recording has over 10 times the median, and over 30 seconds
CLIPPED_SHARE = 0.01  # of the samples at full scale in a clipped recording
MAX_CHARACTERS_PER_SECOND = 40.0  # of a transcript; faster speech is not plausible


def check(path: Path) -> list[Finding]:
    """A folder of recordings with transcripts, or a table -> findings."""
    try:
        listed = read_transcripts(path)
    except DataError as error:
        return [Finding("error", "transcripts", path, 0, str(error).removeprefix(f"{path}: "))]
    findings = list(_listed(listed, path))
    durations: list[tuple[Transcript, float]] = []
    for transcript in listed.transcripts:
        try:
            recording = read_audio(transcript.path, CHECK_RATE)
        except DataError as error:
            reason = str(error).partition(": ")[2]
            findings.append(Finding("error", "unreadable", transcript.path, 0, reason))
            continue
        durations.append((transcript, recording.seconds))
        findings += _recording(transcript, recording)
    findings += [*_long(durations), *_repeated(listed.transcripts), *_splits(listed.transcripts, path)]
    return sorted(findings, key=lambda finding: (str(finding.file), finding.line, finding.text))


def _listed(listed: TranscriptList, path: Path) -> Iterator[Finding]:
    for name in listed.missing:
        yield Finding("error", "missing", path, 0, f"{name!r} has a transcript, but the recording does not exist")
    if listed.num_empty:
        yield Finding("warning", "empty", path, 0, f"{listed.num_empty} transcripts are empty and are ignored")


def _recording(transcript: Transcript, recording: Recording) -> Iterator[Finding]:
    peaks = np.abs(recording.waveform)
    if float(peaks.max()) < SILENCE:
        yield Finding("warning", "silent", transcript.path, 0, "the recording is silent")
    elif float((peaks >= 0.999).mean()) > CLIPPED_SHARE:
        yield Finding("warning", "clipped", transcript.path, 0, "the recording is clipped; record it less loud")
    rate = len(transcript.text) / recording.seconds
    if rate > MAX_CHARACTERS_PER_SECOND:
        text = f"{len(transcript.text)} characters in {recording.seconds:.1f} seconds; is it the right transcript?"
        yield Finding("warning", "mismatch", transcript.path, 0, text)


def _long(durations: Sequence[tuple[Transcript, float]]) -> Iterator[Finding]:
    median = statistics.median(seconds for _, seconds in durations) if durations else 0
    for transcript, seconds in durations:
        if seconds > max(LONG_RATIO * median, LONG_SECONDS):
            yield Finding("warning", "long", transcript.path, 0, f"{seconds:.0f} seconds; the median is {median:.1f}")


def _repeated(transcripts: Sequence[Transcript]) -> Iterator[Finding]:
    """Report recordings with several transcripts, and recordings in two splits."""
    by_path: dict[Path, list[Transcript]] = defaultdict(list)
    for transcript in transcripts:
        by_path[transcript.path].append(transcript)
    for path, rows in by_path.items():
        splits = sorted({row.split or "train" for row in rows})
        if len(splits) > 1:
            yield Finding("error", "splits", path, 0, f"the recording is in {' and in '.join(splits)}")
        elif len(rows) > 1:
            yield Finding("warning", "repeated", path, 0, f"the recording has {len(rows)} transcripts")


def _splits(transcripts: Sequence[Transcript], path: Path) -> Iterator[Finding]:
    """Report the error that training would raise about the splits."""
    try:
        missing = missing_splits({transcript.split or "train" for transcript in transcripts})
    except DataError as error:
        yield Finding("error", "splits", path, 0, str(error))
        return
    count = sum((transcript.split or "train") == "train" for transcript in transcripts)
    if count <= len(missing):
        yield Finding("error", "splits", path, 0, f"{count} recordings are too few to hold some out; give more")


def describe(path: Path) -> list[str]:
    """Return the number of recordings and the first one with its transcript."""
    transcripts = read_transcripts(path).transcripts
    if not transcripts:
        return []
    first = transcripts[0]
    return [f"{len(transcripts):,} recordings", f"first recording: {first.path.name}: {first.text}"]
