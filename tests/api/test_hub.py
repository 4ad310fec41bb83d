"""Runs on the Hub, with the client of huggingface_hub and a loopback server: upload, download, and what is refused."""

from __future__ import annotations

import re

import pytest
from hub_server import TOKEN, serve_hub
from huggingface_hub import constants

import regard
from regard.cli.main import main
from regard.core import hub
from regard.core.errors import CheckpointError, ConfigError, HubError, TrustError
from regard.core.pretrained_runs import is_read_only, locate_run
from regard.core.trust import is_trusted
from regard.training import train as training

pytestmark = pytest.mark.filterwarnings("ignore:Use 'content:DeprecationWarning")  # of the client itself
SHIPPED, NAME = "pretrained:classification", "hf:teacher/reviews"


@pytest.fixture
def server(monkeypatch, tmp_path):
    """A Hub with a user who is logged in; the cache is empty."""
    with serve_hub() as store:
        monkeypatch.setenv("HF_ENDPOINT", store.address)
        monkeypatch.setenv("HF_TOKEN", TOKEN)
        monkeypatch.setenv("REGARD_CACHE", str(tmp_path / "cache"))
        monkeypatch.setattr(constants, "HF_HUB_DISABLE_XET", True)  # large files by the LFS protocol
        monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path / "huggingface"))
        monkeypatch.setattr(constants, "HF_HUB_OFFLINE", False)
        yield store


@pytest.fixture
def uploaded(server):
    """The Hub with a run."""
    regard.push(SHIPPED, NAME)
    return server


def test_a_run_is_uploaded_without_code_and_predicts_the_same_after_the_download(uploaded, capsys):
    files = uploaded.commits["teacher/reviews"][-1]
    assert {"config.json", "model.safetensors", "README.md", "tokenizer.json"} < set(files)
    card = files["README.md"].decode()
    assert f"# {NAME}\n" in card and f'regard.load("{NAME}")' in card and f"regard classify {NAME} " in card
    run, original = regard.load(NAME), regard.load(SHIPPED)
    texts = ["I thought that the film was great.", "The plot was boring."]
    assert [best.text for best in run.classify(texts)] == [best.text for best in original.classify(texts)]
    assert not is_trusted(run.folder) and is_read_only(run.folder) and not (run.folder / ".gitattributes").exists()
    with pytest.raises(ConfigError, match="runs of the Hub are read-only"):
        training.resume(NAME)
    before = len(uploaded.requests)
    assert locate_run(f"{NAME}@{run.folder.name}") == run.folder == locate_run(NAME)
    assert not [request for request in uploaded.requests[before:] if "resolve" in request]  # nothing twice
    capsys.readouterr()


def test_the_command_line_uploads_and_every_verb_takes_the_name(server, monkeypatch, capsys):
    for arguments in (["push", SHIPPED, NAME, "--private"], ["classify", NAME, "A boring film.", "--json"]):
        monkeypatch.setattr("sys.argv", ["regard", *arguments])
        with pytest.raises(SystemExit) as stop:
            main()
        assert not stop.value.code
    out = capsys.readouterr().out
    assert f"{server.address}/teacher/reviews\n" in out and "negative" in out


@pytest.mark.parametrize("file", ["modeling.py", "pytorch_model.bin", "tokenizer.pkl", "../config.json", "run.sh"])
def test_a_repository_with_anything_but_data_is_refused_before_a_download(uploaded, file):
    uploaded.add("teacher/reviews", {file: b"import os"})
    uploaded.requests.clear()
    with pytest.raises(TrustError, match=re.escape(f"contains {file!r}, which is not a data file of a run; nothing")):
        regard.load(NAME)
    assert not [request for request in uploaded.requests if "resolve" in request]


def test_a_changed_file_is_detected_by_its_checksum(uploaded):
    uploaded.add("teacher/reviews", {"labels.json": b"[]"})
    with pytest.raises(CheckpointError, match=r"labels\.json: its checksum does not match config\.json"):
        regard.load(NAME)


def test_errors_name_the_remedy(uploaded, monkeypatch):
    uploaded.add("teacher/other", {"model.safetensors": b""})
    for name, problem in {
        "hf:teacher": "not a name on the Hub",
        "hf:teacher/../x": "not a name on the Hub",
        "hf:teacher/missing": "no such repository, or it is private; check the name, or log in with",
        f"{NAME}@v2": "no such branch, tag or commit",
        "hf:teacher/other": r"not a run of regard \(config\.json missing\)",
    }.items():
        with pytest.raises((ConfigError, HubError), match=problem):
            regard.load(name)
    with pytest.raises(HubError, match="leave out @REVISION"):
        regard.push(SHIPPED, f"{NAME}@v2")
    monkeypatch.setenv("HF_TOKEN", "hf_wrong")
    with pytest.raises(HubError, match=r"refuses access \(401\); log in with `hf auth login`"):
        regard.push(SHIPPED, NAME)
    monkeypatch.setenv("HF_ENDPOINT", "http://127.0.0.1:9")
    with pytest.raises(HubError, match=r"http://127\.0\.0\.1:9 cannot be reached .*; check the network"):
        regard.load(NAME)


def test_names():
    assert hub.parse_name("hf:a/b@main") == ("a/b", "main") and str(hub.parse_name("hf:a/b")) == "hf:a/b"
