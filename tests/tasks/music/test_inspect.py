"""Inspection of a music file: label, time and pitch of every token, the piano roll, and a replay."""

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
from regard.tasks.music.task import MAX_INSPECTED_TOKENS


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
def inspectable(parts):
    task, model, file = parts
    return task.inspect(model, task.parse_input(str(file)), Options(), None)


def test_every_row_and_column_has_its_item(parts, inspectable):
    with torch.no_grad(), record(parts[1]) as maps:
        inspectable.replay()
    assert len(maps) == 2
    for attention in maps.values():
        (rows,), (columns,) = inspectable.query_axes[attention.queries], inspectable.key_axes[attention.keys]
        assert attention.weights.shape == (
            1,
            2,
            len(inspectable.axes[rows.axis].items),
            len(inspectable.axes[columns.axis].items),
        )
    assert inspectable.axes["output"].labels[:6] == ("S C5", "A F4", "T rest", "B C3", "S C5", "A F4")
    assert (
        inspectable.axes["read"].labels[:3] == ("start", "S C5", "A F4") and inspectable.axes["read"].items[0].special
    )
    assert inspectable.title == "piece.mid" and inspectable.views == ("pianoroll",)  # without its folder


def test_items_are_on_the_notes_of_the_piano_roll(inspectable):
    roll = inspectable.extra["roll"]
    assert roll["voices"] == ["Soprano", "Alto", "Tenor", "Bass"]
    items = inspectable.axes["output"].items
    assert items[2].time is None and items[2].pitch is None  # a rest
    for position, item in enumerate(items):
        if item.time is not None:
            assert any(
                start <= item.time <= end and (pitch, voice) == (item.pitch, position % 4)
                for start, end, pitch, voice, _ in roll["notes"]
            )


def test_a_file_is_played_at_its_own_tempo(parts, tmp_path):
    task, model, _ = parts
    path = tmp_path / "slow.mid"
    path.write_bytes(midi.render([Note(0, 2, 72), Note(2, 4, 74)], tempo=60))
    inspectable = task.inspect(model, task.parse_input(str(path)), Options(), None)
    assert [note[:2] for note in inspectable.extra["roll"]["notes"]] == [[0, 2], [2, 4]]


def test_tokens_have_their_scores(inspectable):
    (output,) = inspectable.outputs
    with torch.no_grad():
        scores = inspectable.replay().log_softmax(-1).gather(1, inspectable.predicted_ids[:, None])[:, 0]
    assert [token.score for token in output.tokens] == pytest.approx(scores.tolist(), abs=1e-4)
    assert [token.text for token in output.tokens] == list(inspectable.axes[inspectable.answer_axis].labels)
    assert output.score == pytest.approx(float(scores.sum()), abs=1e-2)
    assert output.rank == pytest.approx(float(scores.mean()), abs=1e-4)
    assert output.text == f"piece.mid: 48 tokens, {-float(scores.mean()):.3f} nats each"
    assert all(token.alternatives[0][1] >= token.score for token in output.tokens)
    assert inspectable.inputs["read"].shape == (1, 48)


def test_long_music_is_cut(parts, tmp_path):
    task, model, _ = parts
    long = tmp_path / "long.mid"
    long.write_bytes(midi.render([Note(i, i + 1, 60 + i % 7) for i in range(120)], tempo=60))
    inspectable = task.inspect(model, task.parse_input(str(long)), Options(), None)
    assert len(inspectable.predicted_ids) == MAX_INSPECTED_TOKENS
    assert inspectable.outputs[0].text.startswith(f"long.mid: the first {MAX_INSPECTED_TOKENS} of 1920 tokens, ")


def test_without_a_file_a_new_piece_is_inspected(parts):
    task, model, _ = parts
    new = task.inspect(model, task.parse_input(" "), Options(seconds=1.0), None)
    assert new.title == "a piece from nothing" and len(new.predicted_ids) == 6 * 4
    assert new.outputs[0].text.startswith("a piece from nothing: 24 tokens, ")
    assert len(new.axes["output"].items) == 24 and new.extra["roll"]["notes"]


def test_a_missing_file_is_refused(parts, tmp_path):
    with pytest.raises(DataError, match=r"gone.mid: cannot be read: No such file or directory$"):
        parts[0].parse_input(str(tmp_path / "gone.mid"))
