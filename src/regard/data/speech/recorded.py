"""Transcribed audio files as splits of utterances. Features are computed once per speed and cached in files."""

from __future__ import annotations

import json
from collections.abc import Sequence
from hashlib import blake2b, sha256
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from regard.core import checksums
from regard.core.errors import DataError
from regard.core.files import atomic_folder, cache_folder
from regard.core.progress import track
from regard.core.protocols import Indices
from regard.data.captions.dataset import summarize_names
from regard.data.examples import HELD_OUT_DIVISOR, HELD_OUT_EXAMPLES, Splits, hash_keys, hold_out, missing_splits
from regard.data.speech.audio_files import Waveform, read_audio
from regard.data.speech.augment import change_speed
from regard.data.speech.features import Features, LogMel
from regard.data.speech.layouts import Transcript, read_transcripts
from regard.data.speech.utterances import SpeechCollection, WordSpan

VERSION = 1
FEATURE_DTYPE = np.float16  # of cached features


class FeatureCache(NamedTuple):
    """Features of all files at one speed, memory-mapped."""

    frames: NDArray[np.float16]  # (all frames m)
    stops: NDArray[np.int64]  # (n) end of the frames of each file; an unreadable or too long file has none
    problems: tuple[str, ...]

    def features(self, index: int) -> Features:
        """Return the features (t m) of a file."""
        return self.frames[self.start(index) : int(self.stops[index])].astype(np.float32)

    def start(self, index: int) -> int:
        """Return the index of the first frame of a file."""
        return int(self.stops[index - 1]) if index else 0

    def num_frames(self) -> NDArray[np.int64]:
        """(n): frames of each file."""
        return np.diff(self.stops, prepend=0)


class RecordedUtterances:
    """The files of one split."""

    def __init__(
        self, rows: Indices, transcripts: Sequence[Transcript], caches: dict[float, FeatureCache], log_mel: LogMel
    ) -> None:
        self.rows, self.log_mel, self.caches = rows, log_mel, caches
        self.paths = [transcripts[row].path for row in rows.tolist()]
        self.transcripts = tuple(transcripts[row].text for row in rows.tolist())

    def __len__(self) -> int:
        return len(self.rows)

    def num_frames(self) -> NDArray[np.int64]:
        return self.caches[1.0].num_frames()[self.rows]

    def features(self, index: int) -> Features:
        return self.caches[1.0].features(int(self.rows[index]))

    def training_features(self, index: int, random: np.random.Generator) -> Features:
        """Return features at a random speed."""
        speeds = sorted(self.caches)
        return self.caches[speeds[random.integers(len(speeds))]].features(int(self.rows[index]))

    def waveform(self, index: int) -> Waveform:
        return read_audio(self.paths[index], self.log_mel.rate).waveform

    def word_spans(self, index: int) -> tuple[WordSpan, ...]:
        """Return no spans: boundaries in files are not known."""
        return ()

    def checksum(self) -> str:
        digests = (blake2b(self.features(i).tobytes()).hexdigest() for i in range(len(self)))
        return checksums.hash_rows(zip(digests, self.transcripts, strict=True))


def read_folder(
    path: Path, log_mel: LogMel, *, speeds: Sequence[float], max_seconds: float, seed: int, test_only: bool = False
) -> SpeechCollection:
    """Read the transcribed recordings of a folder; missing splits are cut off train, by speaker-independent hashes."""
    listed = read_transcripts(path)
    transcripts = listed.transcripts
    caches = {speed: _cached(transcripts, log_mel, speed, max_seconds) for speed in {1.0, *speeds}}
    usable = np.flatnonzero(caches[1.0].num_frames() > 0)
    problems = caches[1.0].problems
    if not len(usable):
        raise DataError(f"{path}: no recording can be used: {problems[0]}")
    splits = _split(usable, transcripts, seed=seed, test_only=test_only)
    remarks = (
        *summarize_names("recordings do not exist", listed.missing),
        *([f"{listed.num_empty} transcripts are empty and are ignored"] if listed.num_empty else []),
        *summarize_names("recordings cannot be used", problems),
    )
    utterances = {name: RecordedUtterances(rows, transcripts, caches, log_mel) for name, rows in splits.items()}
    return SpeechCollection(Splits(utterances), remarks)


def _split(usable: Indices, transcripts: Sequence[Transcript], *, seed: int, test_only: bool) -> dict[str, Indices]:
    named: dict[str, list[int]] = {}
    for row in usable.tolist():
        named.setdefault(transcripts[row].split or "train", []).append(row)
    splits = {name: np.array(rows, np.int64) for name, rows in named.items()}
    if test_only:
        return dict.fromkeys(("train", "valid", "test"), usable) if list(splits) == ["train"] else splits
    missing = missing_splits(splits)
    if not missing:
        return splits
    keys = hash_keys((str(transcript.path.name).encode() for transcript in transcripts), seed)
    size = min(HELD_OUT_EXAMPLES, len(splits["train"]) // HELD_OUT_DIVISOR) or 1
    held_out = hold_out(splits["train"], keys, missing, size=size, noun="recordings")
    return {"train": held_out["train"], **{k: v for k, v in splits.items() if k != "train"},
            **{name: held_out[name] for name in missing}}  # fmt: skip


def _cached(transcripts: Sequence[Transcript], log_mel: LogMel, speed: float, max_seconds: float) -> FeatureCache:
    """Return the features of all files at a speed, from the cache or computed."""
    stats = [(str(transcript.path.resolve()), transcript.path.stat()) for transcript in transcripts]
    facts = [(path, stat.st_size, stat.st_mtime_ns) for path, stat in stats]
    key = sha256(f"{VERSION} {log_mel} {speed} {max_seconds} {facts}".encode()).hexdigest()[:24]
    folder = cache_folder() / "speech" / key
    if not folder.exists():
        with atomic_folder(folder) as draft:
            _write(draft, transcripts, log_mel, speed=speed, max_seconds=max_seconds)
    try:
        problems = tuple(json.loads((folder / "problems.json").read_text(encoding="utf-8")))
        stops = np.load(folder / "stops.npy", allow_pickle=False)
        size = (int(stops[-1]), log_mel.bands)
        frames = (
            np.memmap(folder / "frames", FEATURE_DTYPE, "r", shape=size) if size[0] else np.zeros(size, FEATURE_DTYPE)
        )
    except (OSError, ValueError):
        raise DataError(f"{folder}: damaged; delete this folder, and it is created again") from None
    return FeatureCache(frames, stops, problems)


def _write(
    folder: Path, transcripts: Sequence[Transcript], log_mel: LogMel, *, speed: float, max_seconds: float
) -> None:
    stops, total, problems = [], 0, []
    with (folder / "frames").open("wb") as file:
        for transcript in track(transcripts, total=len(transcripts)):
            try:
                recording = read_audio(transcript.path, log_mel.rate, max_seconds=max_seconds)
                features = log_mel(change_speed(recording.waveform, speed))
            except DataError as error:
                problems.append(str(error))
            else:
                file.write(features.astype(FEATURE_DTYPE).tobytes())
                total += len(features)
            stops.append(total)
    np.save(folder / "stops.npy", np.array(stops, np.int64), allow_pickle=False)
    (folder / "problems.json").write_text(json.dumps(problems, ensure_ascii=False), encoding="utf-8")
