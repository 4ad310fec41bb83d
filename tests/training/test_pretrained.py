"""Pretrained weights: matching weights are copied, others are reported, and resuming does not need the source run."""

from __future__ import annotations

import json
import shutil
from importlib import import_module

import pytest
import torch
from toys import summing

import regard
from regard.core.errors import CheckpointError, ConfigError, DataError
from regard.tasks import translation
from regard.training import recipe as recipes
from regard.training import tensor_files
from regard.training.config import Pretrained
from regard.training.console import SilentConsole
from regard.training.load_run import load_run
from regard.training.pretrained import collect_pretrained
from regard.training.run_folder import RunFolder
from regard.training.shape_check import named_weights
from regard.training.train import resume, train


class Recorder(SilentConsole):
    def __init__(self):
        self.lines = []

    def print_line(self, text):
        if text.startswith("pretrained: "):
            self.lines.append(text)


@pytest.fixture
def first(toy, tmp_path, silent):
    """The source run."""
    return train(toy(), tmp_path / "first", console=silent)


def weights(run):
    return tensor_files.read_tensors(run / "model.safetensors")[0]


def started(first, toy, *settings):
    return toy(f"pretrained.run={first}", "seed=2", "training.steps=4", *settings)


def test_all_that_fits_is_taken(first, toy, tmp_path):
    console = Recorder()
    run = train(started(first, toy, "training.optimizer.lr=1e-30"), tmp_path / "run", console=console)
    old, new = weights(first), weights(run)
    assert all(torch.equal(old[name], new[name]) for name in old)
    assert console.lines[0].startswith(f"pretrained: {len(old)} of {len(old)} weights from {first}: embedding.weight, ")
    assert "and " in console.lines[0] and len(console.lines) == 1


def test_only_some_weights_are_copied_and_the_others_are_reported(first, toy, tmp_path):
    console = Recorder()
    settings = ["data.words=9", "model.spare=true", 'pretrained.params=["embedding.*", "readout.*", "spare.*"]']
    with pytest.raises(
        ConfigError,
        match=r"params=.*: no matching weight of .* has the shape of the model \(embedding\.weight: \(6, 8\) in the "
        r"source run, \(9, 8\) in this run\); the run has blocks\.\*, embed",
    ):
        train(started(first, toy, *settings), tmp_path / "none", console=console)
    settings[-1] = 'pretrained.params=["embedding.*", "blocks.1.*", "spare.*"]'
    run = train(started(first, toy, *settings, "training.optimizer.lr=1e-30"), tmp_path / "run", console=console)
    assert console.lines[1:] == [
        "pretrained: other shape: embedding.weight (6, 8) in the source run, (9, 8) in this run",
        "pretrained: not in the source run: spare.weight, spare.bias",
        "pretrained: files that differ from the source run, so that a weight may belong to another token "
        "(pretrained.vocabulary=true copies the files): words.json",
    ]
    old, new = weights(first), weights(run)
    assert [torch.equal(old[name], new[name]) for name in ("blocks.1.norm.weight", "blocks.1.cell.weight_ih_l0")]
    assert not torch.equal(old["blocks.0.cell.weight_ih_l0"], new["blocks.0.cell.weight_ih_l0"])
    card, table = (run / "README.md").read_text(), json.loads((run / "start.json").read_text())
    assert (
        all(line.removeprefix("pretrained: ") in card for line in console.lines[1:]) and "blocks.1.norm.weight" in card
    )
    assert table["misfits"] == {"embedding.weight": [[6, 8], [9, 8]]} and table["missing"][0] == "spare.weight"
    assert set(table["taken"]) == {name for name in old if name.startswith("blocks.1.")}


@pytest.mark.parametrize("freeze", ["true", '"blocks.*"', '["blocks.0.*", "blocks.1.*"]'])
def test_frozen_weights_stay_and_have_no_optimizer_state(first, toy, tmp_path, silent, freeze):
    recipe = started(first, toy, 'pretrained.params="blocks.*"', f"pretrained.freeze={freeze}")
    run = train(recipe, tmp_path / "run", console=silent)
    old, new = weights(first), weights(run)
    assert all(torch.equal(old[name], new[name]) == name.startswith("blocks.") for name in old)
    state = tensor_files.read_tensors(RunFolder(run).checkpoints()[-1])[0]
    trained = {name.split(".")[1] for name in state if name.startswith("optimizer.")}
    assert trained == {"embedding", "readout"}
    resume(run, ["training.steps=8"], console=silent)
    assert all(torch.equal(old[name], new) == name.startswith("blocks.") for name, new in weights(run).items())
    assert all(weight.requires_grad for weight in load_run(run).model.parameters())


def test_the_vocabulary_of_that_run(first, toy, tmp_path, silent):
    console = Recorder()
    run = train(started(first, toy, "data.words=9", "pretrained.vocabulary=true"), tmp_path / "run", console=console)
    assert load_run(run).task.spec.words == 6 and len(console.lines) == 1
    shutil.rmtree(first)
    assert load_run(run).task.spec.words == 6
    second = recipes.read(
        "toys.falling", settings=[f"pretrained.run={run}", "pretrained.vocabulary=true", "training.steps=2"]
    )
    assert train(second, tmp_path / "other", console=silent)  # another task that can be built from these files


def test_a_vocabulary_that_another_task_cannot_use_is_refused(toy, tmp_path, silent, monkeypatch):
    with monkeypatch.context() as patch:
        patch.setattr(summing.Summing, "save", lambda self, folder: None)
        first = train(recipes.read("toys.falling", settings=["training.steps=2"]), tmp_path / "first", console=silent)
    message = (
        r"pretrained\.vocabulary=true: the task toys\.summing cannot be built with the files of .*, a run of the task "
    )
    with pytest.raises(
        ConfigError, match=message + r"toys\.falling \(.*words\.json.*\); set pretrained\.vocabulary=false"
    ):
        train(started(first, toy, "pretrained.vocabulary=true"), tmp_path / "run", console=silent)


def test_an_error_of_the_same_task_is_its_own(first, toy, tmp_path, monkeypatch):
    def broken(config, folder):
        raise DataError("words.json: line 7 is empty")

    monkeypatch.setattr(summing, "load", broken)
    with pytest.raises(DataError, match=r"^words\.json: line 7 is empty$"):
        train(started(first, toy, "pretrained.vocabulary=true"), tmp_path / "run", console=SilentConsole())


@pytest.mark.parametrize("steps", range(4))
def test_killed_and_resumed_without_the_other_run_is_never_killed(first, toy, tmp_path, death, steps):
    recipe = started(
        first, toy, 'pretrained.params="blocks.*"', "pretrained.freeze=true", "training.files.save_every=2"
    )
    complete = train(recipe, tmp_path / "whole", console=SilentConsole())
    with pytest.raises(death.Killed):
        train(recipe, tmp_path / "run", console=death.Killer(steps))
    shutil.rmtree(first)
    resume(tmp_path / "run", console=SilentConsole())
    for name in ("model.safetensors", "log.jsonl", "start.json"):
        assert (tmp_path / "run" / name).read_bytes() == (complete / name).read_bytes()


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        (
            ['pretrained.params="blcks.*"'],
            r"pretrained\.params='blcks\.\*' matches no weight of the model; nearest: blocks\.\*",
        ),
        (['pretrained.params="zzzz"'], r"nearest: blocks\.\*, embedding\.\*, readout\.\*$"),
        (
            ['pretrained.freeze="embeding.*"'],
            r"pretrained\.freeze='embeding\.\*' matches no weight .* nearest: embedding\.\*",
        ),
        (["pretrained.freeze=true"], r"pretrained\.freeze: all weights of the model are frozen; leave some to train"),
        (["pretrained.params=true"], r"pretrained\.params\[0\]: expected text, got true$"),
        (["pretrained.weights=1"], r"pretrained: no setting 'weights'"),
    ],
)
def test_a_wrong_setting_is_named(first, toy, tmp_path, settings, message):
    with pytest.raises(ConfigError, match=message):
        train(started(first, toy, *settings), tmp_path / "run", console=SilentConsole())
    assert not (tmp_path / "run" / "config.json").exists()


def test_a_run_that_is_not_there_or_has_no_weights_is_named_before_anything_is_made(first, toy, tmp_path, silent):
    with pytest.raises(ConfigError, match=r"pretrained\.run=nowhere: nowhere: no such run folder"):
        train(started("nowhere", toy), tmp_path / "run", console=silent)
    (first / "model.safetensors").unlink()
    with pytest.raises(ConfigError, match=r"pretrained\.run=.*first: the run has no weights yet; train it first"):
        train(started(first, toy), tmp_path / "run", console=silent)
    assert not (tmp_path / "run").exists()
    with pytest.raises(ConfigError, match=r"set pretrained\.run=… \(folder of a run\), pretrained\.word_vectors=…"):
        toy("pretrained.freeze=true")


def test_a_trained_run_keeps_its_start_and_damage_to_it_is_named(first, toy, tmp_path, silent):
    run = train(started(first, toy), tmp_path / "run", console=silent)
    with pytest.raises(ConfigError, match=r"pretrained\.run=x: a trained run keeps its pretrained; only training"):
        resume(run, ["pretrained.run=x"])
    (run / "start.json").write_text("{}")
    with pytest.raises(CheckpointError, match=r"start\.json: its checksum does not match"):
        resume(run, console=silent)


@pytest.fixture
def spelt(monkeypatch):
    """The tokens of the toy: a special token, then a, b, …"""
    monkeypatch.setattr(summing.Summing, "token_texts", lambda self, table="": ["", *"abcdefgh"[: self.spec.words - 1]])


def vector_file(folder, width=8):
    rows = [f"{word} " + " ".join([str(float(value))] * width) for value, word in enumerate("bdz", start=1)]
    (folder / "words.vec").write_text("\n".join([f"3 {width}", *rows]) + "\n")
    return folder / "words.vec"


def test_word_vectors_initialize_a_table_and_the_coverage_is_reported(toy, spelt, tmp_path):
    console = Recorder()
    vector_settings = [
        f"pretrained.word_vectors={vector_file(tmp_path)}",
        "pretrained.embedding=embedding.weight",
        "training.optimizer.lr=1e-30",
    ]
    run = train(toy(*vector_settings, "training.steps=2"), tmp_path / "run", console=console)
    assert len(console.lines) == 1 and console.lines[0].startswith("pretrained: word vectors: embedding.weight from ")
    assert console.lines[0].endswith("words.vec: vectors for 2 of 5 words (40%)")
    assert console.lines[0].removeprefix("pretrained: ") in (run / "README.md").read_text()
    plain = train(toy("training.steps=2", "training.optimizer.lr=1e-30"), tmp_path / "plain", console=SilentConsole())
    new, old = weights(run)["embedding.weight"], weights(plain)["embedding.weight"]
    assert torch.equal(new[[0, 1, 3, 5]], old[[0, 1, 3, 5]])
    torch.testing.assert_close(new[4], 2 * new[2])  # "d" is 2 everywhere, "b" is 1
    (tmp_path / "words.vec").unlink()
    assert resume(run, ["training.steps=4"], console=SilentConsole())  # the file is not needed any more


def test_word_vectors_may_be_combined_with_a_run_and_frozen(first, toy, spelt, tmp_path, silent):
    vectors = [
        f"pretrained.word_vectors={vector_file(tmp_path)}",
        "pretrained.embedding=embedding.weight",
        "pretrained.freeze=embedding.*",
    ]
    run = train(started(first, toy, 'pretrained.params="*"', *vectors), tmp_path / "run", console=silent)
    table = json.loads((run / "start.json").read_text())
    assert "embedding.weight" not in table["taken"] and "blocks.0.norm.weight" in table["taken"]
    old, new = weights(first)["embedding.weight"], weights(run)["embedding.weight"]
    assert torch.equal(old[[1, 3, 5]], new[[1, 3, 5]]) and not torch.equal(old[[2, 4]], new[[2, 4]])


@pytest.mark.parametrize(
    ("vector_settings", "message"),
    [
        (
            (7, "pretrained.embedding=embedding.weight"),
            r"words\.vec: its vectors have width 7, but the embedding table has 8; set the",
        ),
        (
            (8, "pretrained.embedding=blocks.0.norm.weight"),
            r"pretrained\.embedding: blocks\.0\.norm\.weight has the shape .*, not one row for each of the 6",
        ),
        ((8, "seed=2"), r"pretrained\.embedding='\*embedding\.table\.weight' matches no weight of the model"),
        (
            (8, "pretrained.vocabulary=true"),
            r"pretrained\.vocabulary=true copies the vocabulary of a run; set pretrained\.run=…",
        ),
    ],
)
def test_vectors_that_do_not_fit_are_named(toy, spelt, tmp_path, vector_settings, message):
    width, setting = vector_settings
    with pytest.raises((ConfigError, DataError), match=message):
        train(
            toy(f"pretrained.word_vectors={vector_file(tmp_path, width)}", setting),
            tmp_path / "run",
            console=SilentConsole(),
        )
    assert not (tmp_path / "run").exists()


def test_vectors_for_no_word_or_no_words_for_vectors(toy, tmp_path, monkeypatch):
    vector_settings = [f"pretrained.word_vectors={vector_file(tmp_path)}", "pretrained.embedding=embedding.weight"]
    with pytest.raises(ConfigError, match=r"pretrained\.word_vectors: the task has no words; remove"):
        train(toy(*vector_settings), tmp_path / "run", console=SilentConsole())
    monkeypatch.setattr(summing.Summing, "token_texts", lambda self, table="": ["", *"tuvwx"])
    with pytest.raises(
        ConfigError, match=r"pretrained\.word_vectors: .*words\.vec: vectors for 0 of 5 words .*check their language"
    ):
        train(toy(*vector_settings), tmp_path / "run", console=SilentConsole())


ENCODER, DECODER = "encoder.embedding.table.weight", "decoder.embedding.table.weight"


@pytest.mark.parametrize(
    ("name", "tables"), [("transformer", (ENCODER, DECODER)), ("seq2seq", ("source.weight", "target.weight"))]
)
def test_each_of_two_tables_begins_with_vectors_of_its_own_words(tmp_path, name, tables):
    task = translation.build(translation.Config(pairs=200, tokenizer="word", vocab_size=300))
    kind, path = import_module(f"regard.models.{name}"), tmp_path / "words.vec"
    model = kind.build(kind.TINY, task.spec)
    source, target = tables
    width, last = named_weights(model)[source].shape[1], [task.token_texts(table)[-1] for table in tables]
    path.write_text(f"2 {width}\n{last[0]}{' 1.0' * width}\n{last[1]}{' -1.0' * width}\n", encoding="utf-8")
    pattern = "*embedding.table.weight" if source == ENCODER else "[st][oa]*[et].weight"
    taken, tensors = collect_pretrained(Pretrained(word_vectors=str(path), embedding=pattern), model, task)
    assert set(taken.vectors) == {source, target} and "vectors for 1 of 29" in taken.vectors[target]
    assert (tensors[source][-1] > 0).all() and (tensors[target][-1] < 0).all()


def test_the_run_of_the_vectors_can_bring_its_words(tmp_path):
    (tmp_path / "text.txt").write_text("anna met tom in paris and tom met anna there again\n" * 30)
    short = {"training.steps": 1, "training.evaluation.every": 1}
    vector_settings = {
        "data.paths": [str(tmp_path / "text.txt")],
        "data.min_frequency": 1,
        "data.length": 5,
        "model.dim": 8,
    } | short
    words = regard.train("embeddings", vector_settings, out=tmp_path / "words", quiet=True)
    model = {"model": "bilstm_crf", "model.embedding": 8, "model.dim": 4, "data.examples": 20}
    start = {"pretrained.word_vectors": str(tmp_path / "words"), "pretrained.vocabulary": True}
    run = regard.train("tagging", model | start | short, out=tmp_path / "run", quiet=True)
    assert run.task.token_texts() == words.task.token_texts()
    taken = json.loads((tmp_path / "run" / "start.json").read_text())["vectors"]
    assert taken["embedding.table.weight"].endswith("words (100%)")
    with pytest.raises(ConfigError, match=r"pretrained\.word_vectors=.*nowhere: "):
        regard.train(
            "tagging",
            {"pretrained.word_vectors": "nowhere", "pretrained.vocabulary": True},
            out=tmp_path / "x",
            quiet=True,
        )
