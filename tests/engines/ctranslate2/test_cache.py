"""The export cache: incomplete exports are created again, and a damaged equivalence.json is ignored."""

import pytest

from regard.core.errors import FileError
from regard.engines.ctranslate2 import cache


def write(text):
    return lambda draft: (draft / "model.bin").write_text(text)


def test_an_export_is_complete_for_its_weights_only(tmp_path):
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


def test_comparisons_are_stored_next_to_the_export(tmp_path):
    cache.create_export(tmp_path / "export", "w", write("x"))
    equivalence = cache.EquivalenceCache(tmp_path / "export")
    assert equivalence.get("k") is None and equivalence.get_by_command("a") is None
    equivalence.put("k", {"why": "", "options": {}})
    equivalence.put_command("a", "k")
    assert equivalence.get("k") == equivalence.get_by_command("a") == {"why": "", "options": {}}
    assert cache.is_complete(tmp_path / "export", "w")
    (tmp_path / "export" / cache.EQUIVALENCE).write_text("{")
    assert equivalence.get("k") is None and equivalence.get_by_command("a") is None


def test_different_requests_have_different_keys(tmp_path):
    keys = {cache.request_key({"a": 1}, options, {"name": "beam"}) for options in ({}, {"n": 1}, {"n": 2})}
    assert len(keys) == 3
    config = tmp_path / "config.json"
    config.write_text("1")
    key = cache.command_key(config, ["n=2"])
    assert key == cache.command_key(config, ["n=2"]) != cache.command_key(config, [])
    config.write_text("2")
    assert cache.command_key(config, ["n=2"]) != key


def test_an_export_of_another_process_is_accepted_and_other_failures_are_not(tmp_path):
    def write_while_another_process_finishes(draft):
        cache.create_export(tmp_path / "export", "w", write("x"))
        raise OSError("directory not empty")

    cache.create_export(tmp_path / "export", "w", write_while_another_process_finishes)
    assert cache.is_complete(tmp_path / "export", "w")
    (tmp_path / "file").write_text("")
    with pytest.raises(FileError, match="could not be written"):
        cache.create_export(tmp_path / "file" / "export", "w", write("x"))
