"""Exports that are kept: whole or made anew, and what is known of them survives damage by being forgotten."""

from regard.api import kept


def write(text):
    return lambda draft: (draft / "model.bin").write_text(text)


def test_an_export_is_whole_for_its_weights_only(tmp_path):
    folder = tmp_path / "export"
    assert not kept.is_whole(folder, "w")
    kept.make(folder, "w", write("x"))
    assert kept.is_whole(folder, "w") and not kept.is_whole(folder, "other")
    (folder / "model.bin").write_text("y")
    assert not kept.is_whole(folder, "w")
    kept.make(folder, "w", write("x"))
    assert kept.is_whole(folder, "w")
    (folder / "more").write_text("")
    assert not kept.is_whole(folder, "w")
    assert [path.name for path in tmp_path.iterdir()] == ["export"]


def test_what_was_found_out_is_kept_beside_the_export(tmp_path):
    kept.make(tmp_path / "export", "w", write("x"))
    agreed = kept.Agreed(tmp_path / "export")
    assert agreed.found("k") is None and agreed.asked("a") is None
    agreed.note("k", {"why": "", "options": {}})
    agreed.note_words("a", "k")
    assert agreed.found("k") == agreed.asked("a") == {"why": "", "options": {}}
    assert kept.is_whole(tmp_path / "export", "w")
    (tmp_path / "export" / kept.AGREED).write_text("{")
    assert agreed.found("k") is None and agreed.asked("a") is None


def test_requests_have_names_of_their_own(tmp_path):
    names = {kept.request_key({"a": 1}, options, {"name": "beam"}) for options in ({}, {"nbest": 1}, {"nbest": 2})}
    assert len(names) == 3
    config = tmp_path / "config.json"
    config.write_text("1")
    before = kept.words_key(config, ["nbest=2"])
    assert before == kept.words_key(config, ["nbest=2"]) != kept.words_key(config, [])
    config.write_text("2")
    assert kept.words_key(config, ["nbest=2"]) != before
