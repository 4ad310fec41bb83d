"""Corrupted scores: MusicXML, compressed MusicXML and MIDI with changed values or bytes."""

from __future__ import annotations

import io
import random
import re
import zipfile
from pathlib import Path

from fuzz_cases import Case, mutate
from regard.data.music import midi
from regard.data.music.duration_encoding import DurationEncoding
from regard.data.music.event_encoding import EventEncoding
from regard.data.music.grid_encoding import GridEncoding
from regard.data.music.notes import Note
from regard.training import recipe as recipes

NOTE = "<note><pitch><step>{0}</step><octave>{1}</octave></pitch><duration>{2}</duration><voice>{3}</voice></note>"
BOMB = (
    '<!DOCTYPE x [<!ENTITY a "{0}"><!ENTITY b "&a;&a;&a;&a;&a;&a;&a;&a;"><!ENTITY c "&b;&b;&b;&b;&b;&b;&b;&b;">'
    '<!ENTITY d "&c;&c;&c;&c;&c;&c;&c;&c;"><!ENTITY e "&d;&d;&d;&d;&d;&d;&d;&d;">]>'
)
VALUES = [
    "0",
    "-1",
    "",
    "x",
    "H",
    "1e400",
    "nan",
    "inf",
    "-inf",
    "1e308",
    "99999999999999999999",
    "0.0001",
    "٣",
    "1/0",
    " ",
]


class Kind:
    """Files of music."""

    def prepare(self, work: Path) -> None:
        notes = [("C", 4, 4, 1), ("E", 4, 4, 1), ("G", 4, 8, 1), ("C", 5, 4, 2), ("B", 3, 4, 1)] * 4
        written = "".join(NOTE.format(*note) for note in notes)
        bars = "".join(
            f'<measure number="{bar}"><attributes><divisions>4</divisions></attributes>{written}'
            "<backup><duration>8</duration></backup><forward><duration>4</duration></forward></measure>"
            for bar in range(1, 4)
        )
        self.xml = f'<?xml version="1.0"?><score-partwise><part id="P1">{bars}</part></score-partwise>'
        played = [Note(0.5 * step, 0.5 * step + 0.4, 60 + step % 12, velocity=80, voice=0) for step in range(24)]
        self.midi = midi.render(played)
        self.grid, self.performances = GridEncoding(), (EventEncoding(), DurationEncoding())
        self.performances[0].encode(played)  # its tokenizer is made once

    def make(self, rng: random.Random, folder: Path) -> Case:
        suffix = rng.choice([".xml", ".mxl", ".musicxml", ".mid", ".mid"])
        name = rng.choice(["a", "b\n", "train", "ü"]) + suffix
        change, data = _played(rng, self.midi) if suffix == ".mid" else self._score(rng)
        if suffix == ".mxl":
            change, data = f"{change} packed", _packed(rng, data)
        elif rng.random() < 0.05:
            data = rng.choice([b"", b"MThd", b"MThd\0\0\0\6\0\1\xff\xff\0\1", b"PK\3\4", b"<", rng.randbytes(300)])
        path = folder / "music" / name
        path.parent.mkdir()
        path.write_bytes(data)
        is_performance = rng.random() < (0.5 if suffix == ".mid" else 0.1)
        encoding = rng.choice(self.performances) if is_performance else self.grid
        what = f"{suffix} {change} -> {encoding.name}"
        if rng.random() < 0.25:
            return Case(f"{what} folder", lambda: _build(path.parent, encoding.name))
        return Case(what, lambda: encoding.encode(encoding.open(path).content))

    def _score(self, rng: random.Random) -> tuple[str, bytes]:
        if rng.random() < 0.3:
            return "bytes", mutate.data(rng, self.xml.encode())
        text = self.xml
        if rng.random() < 0.05:
            entity = BOMB.format("4" * rng.choice([1, 10_000]))
            text = text.replace("<score-partwise>", f"{entity}<score-partwise>").replace(
                "<divisions>4", "<divisions>&e;"
            )
            return "entities", text.encode()
        spans = [match.span(1) for match in re.finditer(r">([^<>]+)</", text)]
        for start, end in sorted(rng.sample(spans, rng.choice([1, 1, 3])), reverse=True):
            text = text[:start] + rng.choice(VALUES) + text[end:]
        if rng.random() < 0.2:
            tags = ["<note>", "</note>", "<pitch>", "<chord/>", "<cue/>", "<grace/>", "<rest/>", '<tie type="stop"/>']
            text = text.replace(rng.choice(tags[:3]), rng.choice(tags), rng.choice([1, 100]))
        return "values", text.encode()


def _played(rng: random.Random, data: bytes) -> tuple[str, bytes]:
    """Return a MIDI file with changed bytes, mostly those of events, in a track with the correct length."""
    if rng.random() < 0.4:
        return "midi", mutate.data(rng, data)
    at = data.rindex(b"MTrk")
    track = mutate.data(rng, data[at + 8 :])
    return "events of midi", data[: at + 4] + len(track).to_bytes(4, "big") + track


def _packed(rng: random.Random, data: bytes) -> bytes:
    target = io.BytesIO()
    with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as packed:
        if rng.random() < 0.5:
            packed.writestr("META-INF/container.xml", "<container/>")
        inner = rng.choice(["score.xml", "../outside/file.xml", "a/b.musicxml", "score.txt", "/"])
        packed.writestr(
            inner, data if rng.random() < 0.9 else data.replace(b"<part ", bytes([32]) * 80_000_000 + b"<part ")
        )
    content = target.getvalue()
    return mutate.data(rng, content) if rng.random() < 0.4 else content


def _build(path: Path, encoding: str) -> None:
    settings = [f"data.path={path}", f"data.encoding={encoding}", "data.crop=64", "data.window=64", "data.batch_size=2"]
    config = recipes.read("music", settings=settings).task
    task = config.module("tasks").build(config.config)
    batches = task.epoch_batches(0, 1)
    if len(batches):
        task.collate(batches[0])
