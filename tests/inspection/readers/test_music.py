"""A file of music is read, its maps have a label for every row and column, and the page plays and draws it."""

import json
from dataclasses import replace

import numpy as np
import pytest
import torch
from browsing import opened

from regard.core.errors import DataError
from regard.data.music import midi
from regard.data.music.notes import Note
from regard.decoding import sample
from regard.inspection.bundle import bundle
from regard.inspection.collect import About, Subject, collect
from regard.inspection.format import to_json
from regard.models import music_transformer
from regard.tasks import music


@pytest.fixture(scope="module")
def looked(tmp_path_factory):
    """A short chorale and an untrained model of chorales."""
    folder = tmp_path_factory.mktemp("music")
    piece = [[72 + i // 4 % 3, 65, -1 if i < 4 else 57, 48] for i in range(12)]
    (folder / "set.json").write_text(json.dumps({"train": [piece], "valid": [piece], "test": [piece]}))
    task = music.build(music.Config(path=folder / "set.json", crop=64, window=64, longest=2048))
    torch.manual_seed(0)
    model = music_transformer.build(replace(music_transformer.TINY, voices=4, bar=16), task.sizes).eval()
    file = folder / "piece.mid"
    file.write_bytes(midi.render(task.encoding.notes(np.array(piece)), tempo=90, names=task.encoding.voices))
    return Subject(task, model, sample.decode, About("music", "music_transformer")), file


def test_every_row_and_column_has_its_label(looked):
    subject, file = looked
    found = collect(subject, str(file))
    assert len(found.maps) == 2
    for one in found.maps:
        assert one.weights.shape == (2, 48, 48)
        np.testing.assert_allclose(one.weights.sum(axis=-1), 1, atol=1e-5)
    assert found.axes["output"].labels[:6] == ("S C5", "A F4", "T rest", "B C3", "S C5", "A F4")
    assert found.axes["read"].labels[:3] == ("start", "S C5", "A F4")
    assert found.outputs[0].text.startswith("piece.mid: 48 tokens, ")


def test_the_roll_says_where_every_token_is(looked):
    subject, file = looked
    shown = collect(subject, str(file)).shown["roll"]
    assert shown["voices"] == ["Soprano", "Alto", "Tenor", "Bass"]
    assert len(shown["spots"]) == len(shown["nats"]) == 48
    assert shown["spots"][2] is None
    sounding = {tuple(note[2:4]): note for note in shown["notes"]}
    for place, spot in enumerate(shown["spots"]):
        if spot is not None:
            start, end, *_ = max(
                (n for n in shown["notes"] if n[3] == place % 4 and n[2] == spot[1] and n[0] <= spot[0]),
            )
            assert start <= spot[0] <= end
    assert len(sounding) >= 5
    assert sum(shown["nats"]) == pytest.approx(-collect(subject, str(file)).outputs[0].score, abs=0.1)


def test_long_music_is_cut(looked, tmp_path):
    subject, _ = looked
    long = tmp_path / "long.mid"
    long.write_bytes(midi.render([Note(i, i + 1, 60 + i % 7) for i in range(120)], tempo=60))
    found = collect(subject, str(long))
    assert found.maps[0].weights.shape == (2, 1024, 1024)


def test_what_cannot_be_read(looked, tmp_path):
    subject, _ = looked
    with pytest.raises(DataError, match=r"^there is no music to look at; give the path of a .mid or .mxl file$"):
        collect(subject, " ")
    with pytest.raises(DataError, match=r"gone.mid: cannot be read: No such file or directory$"):
        collect(subject, str(tmp_path / "gone.mid"))


def test_the_page_draws_arcs_and_plays(looked, browser, tmp_path):
    subject, file = looked
    page_file = tmp_path / "page.html"
    page_file.write_text(bundle(to_json(collect(subject, str(file)))), encoding="utf-8")
    with opened(browser, page_file.as_uri(), fragment="#view=pianoroll") as page:
        notes = collect(subject, str(file)).shown["roll"]["notes"]
        assert page.locator(".roll-note").count() == len(notes)
        assert page.locator(".roll-arc").count() == 0
        page.locator(".roll").focus()
        page.keyboard.press("ArrowRight")
        page.keyboard.press("ArrowRight")
        page.wait_for_selector(".roll-arc", state="attached")
        assert "row=1" in page.url
        assert page.locator(".distribution h3 .word").inner_text() == "A F4"
        total = sum(float(value) for value in page.locator(".share-value").all_inner_texts())
        assert total == pytest.approx(1, abs=0.01)
        page.get_by_role("radio", name="2").click()
        assert "head=1" in page.url
        play = page.locator("[data-key='roll:play']")
        play.click()
        assert play.inner_text() == "■ Stop"
        play.click()
        assert play.inner_text() == "▶ Play"
        page.locator(".roll-note").last.click()
        page.wait_for_selector(".roll-chosen")
