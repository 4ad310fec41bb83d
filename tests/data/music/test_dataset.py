"""Pieces from JSON, folders, archives and music21; splits are by piece, and every invalid file is reported."""

import gzip
import io
import json
import shutil
import tarfile
from pathlib import Path

import numpy as np
import pytest

from regard.core.errors import DataError, MissingExtra
from regard.data.music import dataset, midi
from regard.data.music.dataset import Piece, load_collection
from regard.data.music.event_encoding import EventEncoding
from regard.data.music.grid_encoding import GridEncoding
from regard.data.music.notes import Note

GRID = GridEncoding()
STEPS = [[72, 65, 57, 48], [72, 65, -1, 48]]


def midi_bytes(pitch: int) -> bytes:
    return midi.render([Note(i * 0.5, i * 0.5 + 0.5, pitch + i * i % 7) for i in range(6)])


def test_json_of_the_chorale_set(tmp_path):
    table = {"train": [STEPS, STEPS], "valid": [STEPS], "test": [STEPS]}
    path = tmp_path / "set.json.gz"
    path.write_bytes(gzip.compress(json.dumps(table).encode()))
    splits = load_collection(path, GRID).splits
    assert {name: len(pieces) for name, pieces in splits.items()} == {"train": 2, "valid": 1, "test": 1}
    assert splits["train"][0].content.tolist() == STEPS
    assert len(load_collection(path, GRID, limit=1).splits["train"]) == 1
    with pytest.raises(DataError, match=r"set.json.gz: a grid of four voices needs encoding='grid'; for events give"):
        load_collection(path, EventEncoding())


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[", r"set.json: not chorales as JSON \(JSONDecodeError.*\); it needs train, valid and test$"),
        ('{"train": []}', r"set.json: not chorales as JSON \(KeyError\('valid'\)\); it needs train, valid and test$"),
        (
            '{"train": [[[1, 2]]], "valid": [], "test": []}',
            r"set.json: train piece 0 has shape \(1, 2\); every step needs four voices$",
        ),
    ],
)
def test_json_that_is_something_else(tmp_path, text, message):
    path = tmp_path / "set.json"
    path.write_text(text)
    with pytest.raises(DataError, match=message):
        load_collection(path, GRID)


def test_a_folder_without_an_index_is_split_by_piece(tmp_path):
    (tmp_path / "._0.mid").write_bytes(b"written by a Mac")
    for i in range(12):
        (tmp_path / f"{i}.mid").write_bytes(midi_bytes(50 + i))
    splits = load_collection(tmp_path, EventEncoding()).splits
    names = [piece.name for pieces in splits.values() for piece in pieces]
    assert sorted(names) == sorted(f"{i}.mid" for i in range(12))
    assert all(splits.values())
    assert load_collection(tmp_path, EventEncoding()).splits == splits


def test_an_index_gives_split_and_composer(tmp_path):
    (tmp_path / "a.mid").write_bytes(midi_bytes(50))
    with tarfile.open(tmp_path / "valid.tar.xz", "w:xz") as archive:
        (tmp_path / "b").write_bytes(midi_bytes(60))
        archive.add(tmp_path / "b", "b.mid")
    (tmp_path / "b").unlink()
    (tmp_path / "index.tsv").write_text("split\tfile\tcomposer\ntrain\ta.mid\tBach\nvalid\tb.mid\tLiszt\n")
    splits = load_collection(tmp_path, EventEncoding()).splits
    assert [(piece.name, piece.composer) for piece in splits["train"]] == [("a.mid", "Bach")]
    assert [(piece.name, piece.composer) for piece in splits["valid"]] == [("valid.tar.xz/b.mid", "Liszt")]
    (tmp_path / "index.tsv").write_text("split\tname\ntrain\ta.mid\n")
    with pytest.raises(DataError, match=r"index.tsv: it has no column 'file'; the first line names the columns"):
        load_collection(tmp_path, EventEncoding())
    (tmp_path / "index.tsv").write_text("split\tfile\ntrian\ta.mid\n")
    with pytest.raises(DataError, match=r"index.tsv:2: split 'trian' is not one of train, valid, test$"):
        load_collection(tmp_path, EventEncoding())


def test_folders_named_as_splits(tmp_path):
    for name in ("train", "valid", "test"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "x.mid").write_bytes(midi_bytes(60))
    splits = load_collection(tmp_path, GRID).splits
    assert {name: len(pieces) for name, pieces in splits.items()} == {"train": 1, "valid": 1, "test": 1}


def test_invalid_files_are_skipped_and_reported(tmp_path):
    for i in range(3):
        (tmp_path / f"{i}.mid").write_bytes(midi_bytes(50 + i))
    (tmp_path / "empty.mid").write_bytes(b"")
    collection = load_collection(tmp_path, GRID)
    assert sum(map(len, collection.splits.values())) == 3
    assert [remark for remark in collection.remarks if "empty.mid" in remark] == [
        f"{tmp_path / 'empty.mid'}: the file is empty; export it again as MIDI; skipped"
    ]


def test_nothing_to_read(tmp_path):
    with pytest.raises(DataError, match=r"no .mid, .midi, .mxl, .xml, .musicxml file in it can be read; it has none$"):
        load_collection(tmp_path, GRID)
    with pytest.raises(
        DataError, match=r"gone: no such file or folder; give JSON or a folder of .mid files, or omit data.path$"
    ):
        load_collection(tmp_path / "gone", GRID)
    (tmp_path / "x.txt").write_text("hello")
    with pytest.raises(DataError, match=r"x.txt: neither JSON nor a folder; give Jsb16thSeparated.json.gz or a folder"):
        load_collection(tmp_path / "x.txt", GRID)


def smallest_chorales(count: int = 6) -> list[Path]:
    """The smallest chorale files of music21."""
    return sorted(dataset._music21_files(), key=lambda path: path.stat().st_size)[:count]


def test_the_chorales_are_parsed_once_and_cached(tmp_path, monkeypatch):
    monkeypatch.setenv("REGARD_CACHE", str(tmp_path))
    folder = tmp_path / "scores"
    folder.mkdir()
    for path in smallest_chorales():
        shutil.copy(path, folder)
    monkeypatch.setattr(dataset, "_music21_files", lambda: sorted(folder.glob("*.mxl")))
    first = dataset.chorales()
    assert first
    assert all(voices.shape[1] == 4 and len(voices) > 16 for voices in first.values())
    monkeypatch.setattr(dataset, "_music21_files", list)  # from now on only the cache is available
    again = dataset.chorales()
    assert again.keys() == first.keys()
    assert all((again[name] == first[name]).all() for name in first)
    splits = load_collection(None, GRID).splits
    assert sum(map(len, splits.values())) == len(first)
    assert len(load_collection(None, GRID, limit=3).splits["train"]) == 1
    with pytest.raises(DataError, match=r"^the built-in chorales: a grid of four voices needs encoding='grid'"):
        load_collection(None, EventEncoding())
    next(tmp_path.glob("music21-*-chorales.json")).write_text("[]")
    with pytest.raises(DataError, match=r"music21-.*-chorales.json: the cached chorales are damaged; delete the file"):
        dataset.chorales()


def test_without_music21_the_error_names_the_extra(tmp_path, monkeypatch):
    monkeypatch.setenv("REGARD_CACHE", str(tmp_path))
    monkeypatch.setattr(dataset.importlib.util, "find_spec", lambda name: None)
    with pytest.raises(MissingExtra, match=r"need music21, not installed; run: pip install 'regard\[music\]'$"):
        load_collection(None, GRID)


def test_copies_of_a_piece_fall_into_one_split():
    random = np.random.default_rng(0)
    originals = [random.integers(40, 70, (32, 4)).astype(np.int16) for _ in range(30)]
    copies = [Piece(f"{i} up", grid + 3) for i, grid in enumerate(originals)]
    splits = dataset.split_pieces([Piece(f"{i}", grid) for i, grid in enumerate(originals)] + copies, seed=1)
    split_of = {piece.name: split for split, pieces in splits.items() for piece in pieces}
    assert len(split_of) == 60
    assert all(split_of[f"{i}"] == split_of[f"{i} up"] for i in range(30))


def test_the_published_split(shared_data):
    splits = load_collection(shared_data / "jsb_chorales" / "Jsb16thSeparated.json.gz", GRID).splits
    tokens = {name: sum(piece.content.size for piece in pieces) for name, pieces in splits.items()}
    assert tokens == {"train": 220_912, "valid": 73_632, "test": 75_600}
    assert all((GRID.decode(GRID.encode(piece.content)) == piece.content).all() for piece in splits["valid"])


def test_damaged_files_and_links_are_skipped_and_reported(tmp_path):
    (tmp_path / "good.mid").write_bytes(midi_bytes(60))
    (tmp_path / "bad.mid").write_bytes(b"MThd")
    (tmp_path / "bad.mxl").write_bytes(b"PK\x03\x04 broken")
    (tmp_path / "step.xml").write_text(
        "<score-partwise><part><measure><attributes><divisions>0</divisions></attributes>"
        "</measure></part></score-partwise>"
    )
    with tarfile.open(tmp_path / "more.tar", "w") as archive:
        member = tarfile.TarInfo("in.mid")
        member.size = len(midi_bytes(64))
        archive.addfile(member, io.BytesIO(midi_bytes(64)))
        for name, kind in (("hard.mid", tarfile.LNKTYPE), ("soft.mid", tarfile.SYMTYPE)):
            link = tarfile.TarInfo(name)
            link.type, link.linkname = kind, "../../etc/passwd"
            archive.addfile(link)
    (tmp_path / "broken.tar.gz").write_bytes(b"\x1f\x8b\x08broken")
    collection = load_collection(tmp_path, GRID)
    names = sorted(piece.name for pieces in collection.splits.values() for piece in pieces)
    assert names == ["good.mid", "more.tar/in.mid"]
    remarks = {remark.partition(": ")[0].removeprefix(f"{tmp_path}/"): remark for remark in collection.remarks}
    for name in ("bad.mid", "bad.mxl", "step.xml"):
        assert remarks[name].endswith("; skipped")
    assert remarks["more.tar/hard.mid"].endswith("hard.mid: a link, not a file; skipped")
    assert remarks["more.tar/soft.mid"].endswith("soft.mid: a link, not a file; skipped")
    damaged = remarks["broken.tar.gz"]
    assert "damaged archive (" in damaged and damaged.endswith("; the rest of it is skipped")


def test_giant_files_are_skipped(tmp_path, monkeypatch):
    monkeypatch.setattr(midi, "MAX_FILE_BYTES", 100)
    (tmp_path / "big.mid").write_bytes(midi_bytes(60))
    with tarfile.open(tmp_path / "more.tar", "w") as archive:
        member = tarfile.TarInfo("in.mid")
        member.size = 200
        archive.addfile(member, io.BytesIO(b"x" * 200))
    with pytest.raises(
        DataError, match=r"big\.mid: more than 0 MB, too large for a MIDI file; export it again; skipped"
    ):
        load_collection(tmp_path, GRID)
    monkeypatch.setattr(dataset, "MAX_JSON_BYTES", 10)
    (tmp_path / "x.json").write_text(json.dumps({"train": [STEPS], "valid": [STEPS], "test": [STEPS]}))
    with pytest.raises(DataError, match=r"x\.json: more than 0 MB unpacked; chorales as JSON have a few"):
        load_collection(tmp_path / "x.json", GRID)


def test_without_a_seed_every_split_has_all(tmp_path):
    for index in range(3):
        (tmp_path / f"{index}.mid").write_bytes(midi_bytes(60 + index))
    assert [len(split) for split in load_collection(tmp_path, GRID, seed=None).splits.values()] == [3, 3, 3]


def test_a_limit_samples_by_the_seed_and_not_by_name(tmp_path):
    for name in ("train", "valid"):
        (tmp_path / name).mkdir()
        for i in range(9):
            (tmp_path / name / f"{'Bach' if i < 5 else 'Chopin'} {i}.mid").write_bytes(midi_bytes(50 + i))
    sampled = {
        seed: [piece.name for piece in load_collection(tmp_path, EventEncoding(), limit=3, seed=seed).splits["train"]]
        for seed in range(8)
    }
    assert all(len(names) == 3 for names in sampled.values()) and len({tuple(names) for names in sampled.values()}) > 4
    assert {name.split("/")[1].split()[0] for names in sampled.values() for name in names} == {"Bach", "Chopin"}
    again = load_collection(tmp_path, EventEncoding(), limit=3, seed=5).splits
    assert [piece.name for piece in again["train"]] == sampled[5] and len(again["valid"]) == 3
    assert dataset.sample_names("abc", None, 1) == dataset.sample_names("abc", 5, 1) == set("abc")
