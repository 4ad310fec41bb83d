"""A third-party task, model, score and view, used by dotted names: every command works on them."""

from __future__ import annotations

import json
import pickle
import shutil
import sys
from pathlib import Path

import pytest
import torch

import regard
from regard.core.errors import RegardError
from regard.serve.app import create_explorer_app

HERE = Path(__file__).parent


@pytest.fixture(scope="module", autouse=True)
def importable():
    """Put the folder of the package `lab` on the path, as PYTHONPATH would."""
    sys.path.insert(0, str(HERE))
    yield
    sys.path.remove(str(HERE))


@pytest.fixture(scope="module")
def call():
    """Run the command line in this process: arguments -> printed text; a RegardError is raised."""
    from typer.testing import CliRunner

    from regard.cli.main import build_app

    def run(*words: object) -> str:
        result = CliRunner().invoke(build_app(), [str(word) for word in words])
        if result.exception is not None and not isinstance(result.exception, SystemExit):
            raise result.exception
        assert result.exit_code == 0, result.output
        return result.output

    return run


@pytest.fixture(scope="module")
def folder(call, tmp_path_factory) -> Path:
    """A run trained on the command line, stopped halfway and resumed."""
    out = tmp_path_factory.mktemp("runs") / "quarters"
    common = ["training.optimizer.lr=0.02", "training.schedule.warmup=5", "training.files.log_every=10"]
    call("train", "lab.quarters", *common, "training.steps=60", "training.evaluation.every=20", "--out", out)
    call("train", "--resume", out, "training.steps=120")
    return out


def rows(folder: Path) -> list[dict]:
    return [json.loads(line) for line in (folder / "log.jsonl").read_text().splitlines()]


def test_the_best_weights_are_those_with_the_least_error(folder):
    evaluations = [row for row in rows(folder) if "valid" in row]
    least = min(row["valid"]["error"] for row in evaluations)
    best = [row for row in evaluations if row["best"]]
    assert best[-1]["valid"]["error"] == least
    assert evaluations[0]["valid"]["error"] > least or len({row["valid"]["error"] for row in evaluations}) == 1


def test_named_terms_of_the_loss_are_logged(folder):
    trained = [row for row in rows(folder) if "loss" in row]
    assert trained
    for row in trained:
        assert row["likelihood"] == pytest.approx(row["loss"], rel=1e-5)


def test_no_decoding_section_is_written(folder):
    assert not json.loads((folder / "config.json").read_text()).get("decoding")


def test_evaluate_says_how_the_score_is_computed(call, folder):
    report = json.loads(call("evaluate", folder, "--json"))
    assert report["scores"]["error"] < 0.5
    assert report["signatures"]["error"].startswith("share of images")


def test_predictions_on_the_command_line(call, folder):
    images = sorted(folder.glob("example*.png"))
    lines = call("predict", folder, *images).splitlines()
    assert len(lines) == len(images) and set(lines) <= {"top left", "top right", "bottom left", "bottom right"}
    (record,) = map(json.loads, call("predict", folder, images[0], "n=3", "--json").splitlines())
    assert len(record["predictions"]) == 3
    with pytest.raises(RegardError, match="no setting 'nn'; did you mean 'n'"):
        call("predict", folder, images[0], "nn=3")


def test_predictions_in_python(folder):
    run = regard.load(folder)
    image = str(folder / "example0.png")
    (best,), (again,) = run.predict([image]), run.predict([image])
    assert best[0] == again[0] and best[0].value in range(4)
    assert run.classify([image])[0].text == best[0].text
    with pytest.raises(RegardError, match=r"lab\.quarters.*classify"):
        run.translate(["a text"])
    assert "lab.two_level" in repr(run)
    assert pickle.loads(pickle.dumps(run)).predict([image])[0][0].text == best[0].text


def test_invariants_are_checked(call, folder):
    printed = call("check", folder)
    assert "passed" in printed and "FAILED" not in printed


def test_an_inspection_has_both_levels_and_the_third_party_view(call, folder, tmp_path):
    page = tmp_path / "page.html"
    call("look", folder, folder / "example0.png", "--html", page)
    text = page.read_text(encoding="utf-8")
    assert "rows of pixels" in text
    data = json.loads(text.split('id="data">')[1].split("</script>")[0])
    maps = {(entry["name"], entry["keys"]): entry for entry in data["maps"]}
    assert {keys for name, keys in maps if name.startswith("inner")} == {f"patches.{i}" for i in range(4)}
    assert {keys for name, keys in maps if name.startswith("outer")} == {"quarters"}
    assert data["axes"]["patches.2"]["parent"] == {"axis": "quarters", "item": 2}
    assert data["axes"]["quarters"]["items"][3]["box"] == [0.5, 0.5, 1.0, 1.0]


def test_two_runs_are_compared(call, folder, tmp_path):
    printed = call("compare", folder, folder, folder / "example0.png", "--html", tmp_path / "both.html")
    assert printed.count("lab.two_level") >= 2
    assert "rows of pixels" in (tmp_path / "both.html").read_text(encoding="utf-8")


def test_info(call, folder):
    facts = json.loads(call("info", folder, "--json"))
    assert facts["task"] == "lab.quarters" and facts["parameters"] > 0


def test_served_with_a_what_if_by_axis(folder):
    from starlette.testclient import TestClient

    with TestClient(create_explorer_app(regard.load(folder)), base_url="http://127.0.0.1") as client:
        assert "rows of pixels" in client.get("/").text
        request = {"text": str(folder / "example0.png")}
        original = client.post("/api/look", json=request).json()
        changed = client.post("/api/look", json={**request, "hidden_items": [["quarters", 0]]}).json()
    assert original["outputs"][0]["text"] in ("top left", "top right", "bottom left", "bottom right")
    assert changed["maps"] != original["maps"]


def test_weights_are_taken_from_another_run(call, folder, tmp_path):
    out = tmp_path / "started"
    start = [f"pretrained.run={folder}", 'pretrained.params="inner.*"', "pretrained.freeze=true"]
    call("train", "lab.quarters", *start, "training.steps=3", "model.dim=16", "--out", out)
    old, new = regard.load(folder).model.state_dict(), regard.load(out).model.state_dict()
    assert all(torch.equal(old[name], new[name]) for name in old if name.startswith("inner."))
    assert not torch.equal(old["readout.weight"], new["readout.weight"])
    assert "inner.question" in (out / "README.md").read_text(encoding="utf-8")


def test_it_is_listed_with_its_settings(call):
    assert "how many labels" in call("list", "task", "lab.quarters")
    assert "width of the model" in call("list", "model", "lab.two_level").lower()


def test_a_model_of_another_kind_is_refused(call, tmp_path):
    with pytest.raises(
        RegardError, match=r"^model=transformer cannot be trained on the task lab\.quarters; models that fit: none"
    ):
        call("train", "lab.quarters", "model=transformer", "--out", tmp_path / "x")


def test_an_untrusted_run_imports_nothing(call, folder, tmp_path, monkeypatch):
    """The same run on another machine, and the same run with another configuration."""
    copy = tmp_path / "copy"
    shutil.copytree(folder, copy)
    assert call("info", copy)  # a copy of a run that was trained here is trusted
    config = copy / "config.json"
    table = {key: value for key, value in json.loads(config.read_text()).items() if key != "sha256"}
    config.write_text(json.dumps(table | {"seed": table["seed"] + 1}))
    image = folder / "example0.png"
    commands = [["info"], ["predict", image], ["look", image, "--html", tmp_path / "x.html"], ["evaluate"], ["check"]]
    refusal = r"would import code from outside regard: lab\.quarters, lab\.two_level.*if you trust it, use --trust"
    for words in commands:
        with pytest.raises(RegardError, match=refusal):
            call(words[0], copy, *words[1:])
    with pytest.raises(RegardError, match=refusal):
        call("train", "--resume", copy, "training.steps=121")
    with pytest.raises(RegardError, match=refusal):
        call("compare", folder, copy, image)
    assert "lab.quarters" in call("info", copy, "--trust")
    assert call("predict", copy, image, "--trust")
    monkeypatch.setenv("REGARD_CACHE", str(tmp_path / "another machine"))
    with pytest.raises(RegardError, match=refusal):
        call("info", folder)
    assert regard.load(folder, trust=True)
