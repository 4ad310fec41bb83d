"""Exports that are kept: whole or made anew, and what is known of them survives damage by being forgotten."""

from regard.engines.ctranslate2 import cache


def write(text):
    return lambda draft: (draft / "model.bin").write_text(text)


def test_an_export_is_whole_for_its_weights_only(tmp_path):
    folder = tmp_path / "export"
    assert not cache.is_complete(folder, "w")
    cache.create_export(folder, "w", write("x"))
    assert cache.is_complete(folder, "w") and not cache.is_complete(folder, "other")
    (folder / "model.bin").write_text("y")
    assert not cache.is_complete(folder, "w")
    cache.create_export(folder, "w", write("x"))
    assert cache.is_complete(folder, "w")
    (folder / "more").write_text("")
    assert not cache.is_complete(folder, "w")
    assert [path.name for path in tmp_path.iterdir()] == ["export"]


def test_what_was_found_out_is_kept_beside_the_export(tmp_path):
    cache.create_export(tmp_path / "export", "w", write("x"))
    agreed = cache.EquivalenceCache(tmp_path / "export")
    assert agreed.get("k") is None and agreed.get_by_command("a") is None
    agreed.put("k", {"why": "", "options": {}})
    agreed.put_command("a", "k")
    assert agreed.get("k") == agreed.get_by_command("a") == {"why": "", "options": {}}
    assert cache.is_complete(tmp_path / "export", "w")
    (tmp_path / "export" / cache.AGREED).write_text("{")
    assert agreed.get("k") is None and agreed.get_by_command("a") is None


def test_requests_have_names_of_their_own(tmp_path):
    names = {cache.request_key({"a": 1}, options, {"name": "beam"}) for options in ({}, {"nbest": 1}, {"nbest": 2})}
    assert len(names) == 3
    config = tmp_path / "config.json"
    config.write_text("1")
    before = cache.command_key(config, ["nbest=2"])
    assert before == cache.command_key(config, ["nbest=2"]) != cache.command_key(config, [])
    config.write_text("2")
    assert cache.command_key(config, ["nbest=2"]) != before
