"""Untrusted runs: nothing is imported or written elsewhere, and every refusal is a one-line error."""

from __future__ import annotations

import copy
import json
import os
import random
import shutil
import sys
from contextlib import suppress

import pytest

from regard.core.checksummed_json import read_json, write_json
from regard.core.errors import CheckpointError, RegardError, TrustError
from regard.training import recipe as recipes
from regard.training import tensor_files
from regard.training.average import average
from regard.training.console import SilentConsole
from regard.training.load_run import load_run
from regard.training.run_folder import RunFolder, read_identity
from regard.training.train import resume, train

TINY = ["model=transformer", "model.layers=1", "model.dim=16", "model.ffn_dim=32", "model.heads=2", "data.pairs=300",
        "data.max_batch_tokens=256", "data.vocab_size=300", "training.steps=2", "training.evaluation.every=2",
        "training.evaluation.average_last=1", "decoding=greedy"]  # fmt: skip


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """A small run of built-in parts."""
    recipe = recipes.read("translation", settings=TINY)
    return train(recipe, tmp_path_factory.mktemp("own") / "run", console=SilentConsole())


@pytest.fixture
def run(trained, tmp_path):
    return shutil.copytree(trained, tmp_path / "run")


def change(run, edit):
    """Edit the configuration and write it with a correct checksum."""
    path = RunFolder(run).config
    table = read_json(path)
    edit(table)
    write_json(path, table)


@pytest.fixture
def evil(tmp_path, monkeypatch):
    """A module that creates a file when it is imported."""
    (tmp_path / "evil_lab").mkdir()
    code = f"from pathlib import Path\nPath({str(tmp_path / 'owned')!r}).touch()\n"
    for name in ("__init__", "part"):
        (tmp_path / "evil_lab" / f"{name}.py").write_text(code, encoding="utf-8")
    monkeypatch.syspath_prepend(str(tmp_path))
    yield tmp_path / "owned"
    for name in [name for name in sys.modules if name.startswith("evil_lab")]:
        del sys.modules[name]


@pytest.mark.parametrize(
    "edit",
    [
        lambda table: table.update(task="evil_lab.part"),
        lambda table: table["model"].update(name="evil_lab.part"),
        lambda table: table["model"].update(score="evil_lab.part"),
        lambda table: table["model"].update(position="evil_lab.part"),
        lambda table: table["decoding"].update(name="evil_lab.part"),
    ],
    ids=["task", "model", "score", "position", "decoding"],
)
def test_a_dotted_name_anywhere_in_a_configuration_imports_nothing(run, evil, edit):
    change(run, edit)
    for use in (load_run, resume, lambda run: average(run, last=1, out=run.parent / "mean")):
        with pytest.raises(
            TrustError, match=r"would import code from outside regard: evil_lab\.part; it was not trained"
        ):
            use(run)
    assert not evil.exists() and not (run.parent / "mean").exists()


def test_an_untrusted_run_is_loaded_with_trust(toy, silent, tmp_path, monkeypatch):
    run = train(toy(), tmp_path / "run", console=silent)
    assert load_run(run).trusted  # trained here
    monkeypatch.setenv("REGARD_CACHE", str(tmp_path / "elsewhere"))
    with pytest.raises(TrustError, match=r"outside regard: toys\.summing, toys\.gated; .* use --trust, or trust=True"):
        load_run(run)
    with pytest.raises(TrustError, match=r"toys\.summing"):
        resume(run, console=silent)
    assert load_run(run, trust=True).trusted
    resume(run, ["training.steps=13"], console=silent, trust=True)
    assert load_run(run)  # now it was trained here


def test_weights_of_an_untrusted_run_are_copied_without_importing_its_task(toy, silent, tmp_path, monkeypatch):
    first = train(toy(), tmp_path / "first", console=silent)
    change(first, lambda table: table.update(task="no_such.module"))
    started = train(toy(f"pretrained.run={first}"), tmp_path / "run", console=silent)
    assert load_run(started)


@pytest.mark.parametrize(
    "name", ["../../.bashrc", "/etc/passwd", "a/../../b", "C:\\x", "a\\b", "", ".", "..", "a//b", "a\0b"]
)
def test_a_name_that_leads_out_of_the_folder_is_refused(run, name):
    change(run, lambda table: table["files"].update({name: "0" * 64}))
    for use in (load_run, resume, lambda run: average(run, last=1, out=run.parent / "mean")):
        with pytest.raises(CheckpointError, match=r"is not a path inside the run folder; not written by regard"):
            use(run)
    assert not (run.parent / "mean").exists()


@pytest.mark.parametrize("name", ["log.jsonl", "timing.jsonl", "state", "state/lock", "events", "README.md"])
def test_nothing_is_written_through_a_link(run, tmp_path, name):
    victim = tmp_path / "victim"
    if name in ("state", "events"):
        victim.mkdir()
        (victim / "mine").write_text("mine", encoding="utf-8")
    else:
        victim.write_text("mine", encoding="utf-8")
    path = run / name
    if path.is_dir():
        shutil.rmtree(path)
    path.unlink(missing_ok=True)
    path.symlink_to(victim)
    with pytest.raises(
        CheckpointError, match=rf"{path.name}: is a link, and regard does not write through links; replace"
    ):
        resume(run, ["training.steps=3"], console=SilentConsole())
    content = victim / "mine" if victim.is_dir() else victim
    assert content.read_text(encoding="utf-8") == "mine"
    if victim.is_dir():
        assert list(victim.iterdir()) == [content]


def test_a_log_with_a_second_name_is_copied_first(run, tmp_path):
    log = RunFolder(run).log
    before = log.read_bytes()
    os.link(log, tmp_path / "backup")
    resume(run, ["training.steps=3"], console=SilentConsole())
    assert (tmp_path / "backup").read_bytes() == before != log.read_bytes()


@pytest.mark.parametrize(
    ("setting", "value", "words"),
    [
        ("dim", 10**9, "does not fit the model|the model is larger than"),
        ("dim", 32, r"does not fit the model: .* in the file, .* in the model"),
        (
            "layers",
            10**7,
            r"the model is larger than model\.safetensors \([\d,]+ values in \d+ tensors\)",
        ),
        ("layers", 2, "does not fit the model: missing"),
        ("ffn_dim", 10**12, "does not fit the model"),
        ("heads", 10**9, "heads|does not fit"),
    ],
)
def test_a_configuration_is_compared_with_the_weights_before_anything_is_built(run, setting, value, words):
    change(run, lambda table: table["model"].update({setting: value}))
    with pytest.raises(CheckpointError, match=words):
        load_run(run)


def test_a_length_that_no_weight_depends_on_costs_nothing(run):
    change(run, lambda table: table["data"].update(max_length=2 * 10**9))
    with suppress(RegardError):
        load_run(run)


WRONG = ([], {}, "", None, -1, 10**18, 1e308, float("nan"), True, "[/red]", "../x", ["x"], {"x": []}, "\x1b[31m")


def test_no_change_of_a_configuration_is_a_traceback(run):
    """Any value anywhere: the run loads, or raises a one-line error."""
    original = json.loads(RunFolder(run).config.read_text(encoding="utf-8"))
    original.pop("sha256")
    keys = list(paths(original))
    rng = random.Random(0)
    for index in range(250):
        table = copy.deepcopy(original)
        *above, last = keys[index % len(keys)]
        inner = table
        for key in above:
            inner = inner[key]
        inner[last] = rng.choice(WRONG)
        RunFolder(run).config.write_text(json.dumps(table), encoding="utf-8")
        with suppress(RegardError):
            load_run(run)


def paths(table, above=()):
    for key, value in table.items():
        yield (*above, key)
        if isinstance(value, dict):
            yield from paths(value, (*above, key))


def test_another_run_s_model_of_the_same_shape_is_refused(run, tmp_path):
    second = train(recipes.read("translation", settings=[*TINY, "seed=2"]), tmp_path / "other", console=SilentConsole())
    shutil.copy(RunFolder(second).model, RunFolder(run).model)
    with pytest.raises(CheckpointError, match=r"model\.safetensors: belongs to run \w+, but .*run is run \w+; restore"):
        load_run(run)
    for path in (*RunFolder(second).checkpoints(), RunFolder(second).log):
        shutil.copy(path, run / path.relative_to(second))
    with pytest.raises(CheckpointError, match=r"step-\d+\.safetensors: belongs to run"):
        resume(run, ["training.steps=3"], console=SilentConsole())


def age(run):
    """Remove run ids and data checksums, as in runs of early versions."""
    folder = RunFolder(run)
    for path in (folder.model, *folder.checkpoints(), *folder.snapshots()):
        tensors, facts = tensor_files.read_tensors(path)
        facts.pop("run")
        if "progress" in facts:
            facts["progress"] |= {"data": "of old"}
            facts["progress"].pop("run")
        tensor_files.write_tensors(path, tensors, facts)
    change(run, lambda table: [table.pop(key) for key in ("run", "fingerprint")])


class Recorder(SilentConsole):
    def __init__(self):
        self.lines = []

    def print_line(self, text):
        self.lines.append(text)


def test_a_run_without_an_id_still_works_and_it_is_said(run, trained):
    age(run)
    assert read_identity(RunFolder(run)).run_id is None
    assert load_run(run)
    console = Recorder()
    resume(run, ["training.steps=3"], console=console)
    assert any(
        "started by an earlier version of regard; cannot check that its files belong together" in s
        for s in console.lines
    )
    assert load_run(run)
    shutil.copy(RunFolder(trained).model, RunFolder(run).model)
    with pytest.raises(CheckpointError, match=r"belongs to run \w+, but .* is a run without an id"):
        load_run(run)


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_weights_that_are_not_finite_are_refused(run, value):
    path = RunFolder(run).model
    tensors, metadata = tensor_files.read_tensors(path)
    name = sorted(tensors)[0]
    tensors[name].view(-1)[0] = value
    tensor_files.write_tensors(path, tensors, metadata)
    with pytest.raises(CheckpointError) as refused:
        load_run(run)
    assert str(refused.value).startswith(f"{path}: the weights are not finite: {name} has NaN or infinity; restore")


@pytest.mark.parametrize("name", ["tokenizer.source.json", "model.safetensors", "config.json"])
def test_a_link_out_of_the_run_folder_is_refused(run, tmp_path, name):
    shutil.move(run / name, tmp_path / "elsewhere")
    (run / name).symlink_to(tmp_path / "elsewhere")
    with pytest.raises(CheckpointError, match=f"{name}: is a link out of the run folder; replace it by the file"):
        load_run(run)
    (run / name).unlink()
    (run / "inside").write_bytes((tmp_path / "elsewhere").read_bytes())
    (run / name).symlink_to("inside")
    assert load_run(run)
