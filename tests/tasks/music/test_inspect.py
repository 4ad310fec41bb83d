"""A file of music is shown: a label, a time and a pitch for every token, its piano roll, and a replay."""

import json
from dataclasses import replace

import numpy as np
import pytest
import torch

from regard.attention.record import record
from regard.core.errors import DataError
from regard.data.music import midi
from regard.data.music.notes import Note
from regard.models import music_transformer
from regard.tasks import music
from regard.tasks.music import Options


@pytest.fixture(scope="module")
def parts(tmp_path_factory):
    """A short chorale and an untrained model of chorales."""
    folder = tmp_path_factory.mktemp("music")
    piece = [[72 + i // 4 % 3, 65, -1 if i < 4 else 57, 48] for i in range(12)]
    (folder / "set.json").write_text(json.dumps({"train": [piece], "valid": [piece], "test": [piece]}))
    task = music.build(music.Config(path=folder / "set.json", crop=64, window=64, max_length=2048))
    torch.manual_seed(0)
    model = music_transformer.build(replace(music_transformer.TINY, voices=4, bar=16), task.spec).eval()
    file = folder / "piece.mid"
    file.write_bytes(midi.render(task.encoding.notes(np.array(piece)), tempo=90, names=task.encoding.voices))
    return task, model, file


@pytest.fixture
def shown(parts):
    task, model, file = parts
    return task.show(model, task.read(str(file)), Options(), None)


def test_every_row_and_column_has_its_item(parts, shown):
    with torch.no_grad(), record(parts[1]) as maps:
        shown.replay()
    assert len(maps) == 2
    for found in maps.values():
        (rows,), (columns,) = shown.rows[found.queries], shown.columns[found.keys]
        assert found.weights.shape == (1, 2, len(shown.axes[rows.axis].items), len(shown.axes[columns.axis].items))
    assert shown.axes["output"].labels[:6] == ("S C5", "A F4", "T rest", "B C3", "S C5", "A F4")
    assert shown.axes["read"].labels[:3] == ("start", "S C5", "A F4") and shown.axes["read"].items[0].special
    assert shown.title == "piece.mid" and shown.views == ("pianoroll",)  # not where it lies


def test_items_lie_on_the_notes_of_the_roll(shown):
    roll = shown.extra["roll"]
    assert roll["voices"] == ["Soprano", "Alto", "Tenor", "Bass"]
    items = shown.axes["output"].items
    assert items[2].time is None and items[2].pitch is None  # a rest
    for place, item in enumerate(items):
        if item.time is not None:
            assert any(
                start <= item.time <= end and (pitch, voice) == (item.pitch, place % 4)
                for start, end, pitch, voice, _ in roll["notes"]
            )


def test_a_file_is_played_at_its_own_tempo(parts, tmp_path):
    task, model, _ = parts
    path = tmp_path / "slow.mid"
    path.write_bytes(midi.render([Note(0, 2, 72), Note(2, 4, 74)], tempo=60))
    shown = task.show(model, task.read(str(path)), Options(), None)
    assert [note[:2] for note in shown.extra["roll"]["notes"]] == [[0, 2], [2, 4]]


def test_tokens_have_their_scores(shown):
    (output,) = shown.outputs
    with torch.no_grad():
        scores = shown.replay().log_softmax(-1).gather(1, shown.chosen[:, None])[:, 0]
    assert [token.score for token in output.tokens] == pytest.approx(scores.tolist(), abs=1e-4)
    assert [token.text for token in output.tokens] == list(shown.axes[shown.answered].labels)
    assert output.score == pytest.approx(float(scores.sum()), abs=1e-2)
    assert output.rank == pytest.approx(float(scores.mean()), abs=1e-4)
    assert output.text == f"piece.mid: 48 tokens, {-float(scores.mean()):.3f} nats each"
    assert all(token.alternatives[0][1] >= token.score for token in output.tokens)
    assert shown.inputs["read"].shape == (1, 48)


def test_long_music_is_cut(parts, tmp_path):
    task, model, _ = parts
    long = tmp_path / "long.mid"
    long.write_bytes(midi.render([Note(i, i + 1, 60 + i % 7) for i in range(120)], tempo=60))
    shown = task.show(model, task.read(str(long)), Options(), None)
    assert len(shown.chosen) == music.SHOWN
    assert shown.outputs[0].text.startswith(f"long.mid: the first {music.SHOWN} of 1920 tokens, ")


def test_without_a_file_a_new_piece_is_shown(parts):
    task, model, _ = parts
    new = task.show(model, task.read(" "), Options(seconds=1.0), None)
    assert new.title == "a piece from nothing" and len(new.chosen) == 6 * 4
    assert new.outputs[0].text.startswith("a piece from nothing: 24 tokens, ")
    assert len(new.axes["output"].items) == 24 and new.extra["roll"]["notes"]


def test_what_cannot_be_read(parts, tmp_path):
    with pytest.raises(DataError, match=r"gone.mid: cannot be read: No such file or directory$"):
        parts[0].read(str(tmp_path / "gone.mid"))
