"""Trust: what was trained here is remembered, what was changed or comes from elsewhere imports and fetches nothing."""

from __future__ import annotations

import json
import shutil

import pytest

from regard.core import trust
from regard.core.errors import TrustError
from regard.core.registry import find


@pytest.fixture
def run(tmp_path, monkeypatch):
    monkeypatch.setenv("REGARD_CACHE", str(tmp_path / "cache"))
    table = {"run": "a1", "task": "lab.task", "model": {"name": "lab.model", "score": "other.score", "dim": 3}}
    table |= {"decoding": {"name": "beam"}, "data": {"path": "train.tsv"}}
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / trust.CONFIG_FILE).write_text(json.dumps(table), encoding="utf-8")
    return tmp_path / "run"


def test_a_run_that_was_trained_here_is_remembered_wherever_it_lies(run, tmp_path):
    assert not trust.is_trusted(run)
    trust.mark_trusted(run)
    trust.mark_trusted(run)
    assert trust.is_trusted(run)
    assert len((tmp_path / "cache" / trust.TRUSTED_FILE).read_text(encoding="utf-8").splitlines()) == 1
    shutil.copytree(run, tmp_path / "copy")
    assert trust.is_trusted(tmp_path / "copy")


def test_a_changed_configuration_is_not_the_one_that_was_trained(run):
    trust.mark_trusted(run)
    config = run / trust.CONFIG_FILE
    config.write_text(config.read_text(encoding="utf-8").replace("lab.task", "bad.task"), encoding="utf-8")
    assert not trust.is_trusted(run)


def test_another_user_remembers_nothing(run, tmp_path, monkeypatch):
    trust.mark_trusted(run)
    monkeypatch.setenv("REGARD_CACHE", str(tmp_path / "another"))
    assert not trust.is_trusted(run)


def test_what_cannot_be_remembered_is_no_error(run, tmp_path, monkeypatch):
    (tmp_path / "file").touch()
    monkeypatch.setenv("REGARD_CACHE", str(tmp_path / "file"))
    trust.mark_trusted(run)
    assert not trust.is_trusted(run)
    trust.mark_trusted(tmp_path / "no run")
    (run / trust.CONFIG_FILE).write_text("[]", encoding="utf-8")
    assert not trust.is_trusted(run) and trust.external_modules(run) == []


def test_nothing_is_imported_for_a_stranger_and_all_of_it_is_named(run):
    with trust.trust_scope(run, trusted=False):
        with pytest.raises(
            TrustError, match=r"import code from outside regard: json\.tool, lab\.task, lab\.model, other"
        ):
            find("regard.tasks", "json.tool")
        with pytest.raises(TrustError, match=r"not trained here, or its config\.json has changed since; if you trust"):
            find("regard.tasks", "json.tool")
    with trust.trust_scope(run, trusted=True):
        assert find("regard.tasks", "json.tool")
    assert find("regard.tasks", "json.tool")  # typed by the user, for no run


def test_nothing_is_fetched_for_a_stranger(run):
    trust.check_network("https://example.org/x")
    with (
        trust.trust_scope(run, trusted=False),
        pytest.raises(TrustError, match=r"would fetch hf:x over the network; it was"),
    ):
        trust.check_network("hf:x")
