"""Trust: runs trained here are recorded; modified or external runs may not import code or access the network."""

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


def test_a_run_trained_here_is_trusted_in_any_folder(run, tmp_path):
    assert not trust.is_trusted(run)
    trust.mark_trusted(run)
    trust.mark_trusted(run)
    assert trust.is_trusted(run)
    assert len((tmp_path / "cache" / trust.TRUSTED_FILE).read_text(encoding="utf-8").splitlines()) == 1
    shutil.copytree(run, tmp_path / "copy")
    assert trust.is_trusted(tmp_path / "copy")


def test_a_modified_configuration_is_not_trusted(run):
    trust.mark_trusted(run)
    config = run / trust.CONFIG_FILE
    config.write_text(config.read_text(encoding="utf-8").replace("lab.task", "bad.task"), encoding="utf-8")
    assert not trust.is_trusted(run)


def test_another_user_does_not_trust_the_run(run, tmp_path, monkeypatch):
    trust.mark_trusted(run)
    monkeypatch.setenv("REGARD_CACHE", str(tmp_path / "another"))
    assert not trust.is_trusted(run)


def test_a_run_that_cannot_be_recorded_is_not_an_error(run, tmp_path, monkeypatch):
    (tmp_path / "file").touch()
    monkeypatch.setenv("REGARD_CACHE", str(tmp_path / "file"))
    trust.mark_trusted(run)
    assert not trust.is_trusted(run)
    trust.mark_trusted(tmp_path / "no run")
    (run / trust.CONFIG_FILE).write_text("[]", encoding="utf-8")
    assert not trust.is_trusted(run) and trust.external_modules(run) == []


def test_imports_of_an_untrusted_run_are_refused_and_listed(run):
    with trust.trust_scope(run, trusted=False):
        with pytest.raises(
            TrustError, match=r"import code from outside regard: json\.tool, lab\.task, lab\.model, other"
        ):
            find("regard.tasks", "json.tool")
        with pytest.raises(TrustError, match=r"not trained here, or its config\.json has changed since; if you trust"):
            find("regard.tasks", "json.tool")
    with trust.trust_scope(run, trusted=True):
        assert find("regard.tasks", "json.tool")
    assert find("regard.tasks", "json.tool")  # given by the user, not by a run


def test_network_access_of_an_untrusted_run_is_refused(run):
    trust.check_network("https://example.org/x")
    with (
        trust.trust_scope(run, trusted=False),
        pytest.raises(TrustError, match=r"would fetch hf:x over the network; it was"),
    ):
        trust.check_network("hf:x")
