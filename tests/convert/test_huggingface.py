"""Export of runs to transformers: equal logits, the same run after importing it again, errors for other settings."""

import re
import shutil

import pytest
import torch

import regard
from regard.convert import huggingface
from regard.convert.export_run import export_run
from regard.convert.import_model import import_model
from regard.core.errors import CheckpointError, ConfigError
from regard.core.protocols import Padded
from regard.training.load_run import load_run

TWO = ["model.layers=2", "model.dim=16", "model.heads=2", "training.steps=2", "training.evaluation.every=2"]
TEXT = ["data.vocab_size=300", "data.context=24", "data.batch_size=4", "data.eval_tokens=500"]
PAIRS = ["data.pairs=300", "data.vocab_size=300", "data.max_length=40", "model.ffn_dim=24", "decoding=greedy"]
RUNS = {
    "marian": ("translation", [*TWO, *PAIRS, "model.norm=post"]),
    "marian joint": ("translation", [*TWO, *PAIRS, "model.norm=post", "data.joint=true", "model.decoder_layers=1"]),
    "marian untied": (
        "translation",
        [*TWO, *PAIRS, "model.norm=post", "model.tie_embeddings=false", "model.bias=true"],
    ),
    "pegasus": ("translation", [*TWO, *PAIRS, "data.joint=true"]),
    "pegasus biased": ("translation", [*TWO, *PAIRS, "data.joint=true", "model.bias=true", "model.activation=gelu"]),
    "gpt2": ("language", [*TWO, *TEXT]),
    "bert": ("masked_language", [*TWO, *TEXT, "model.ffn_dim=24", "model.norm=post"]),
    "bert pairs": ("masked_language", [*TWO, *TEXT, "model.ffn_dim=24", "model.norm=post", "data.sentence_pairs=next"]),
    "roberta": ("masked_language", [*TWO, *TEXT, "model.ffn_dim=24", "model.norm=post", "model.segments=0"]),
    "pre-norm": ("masked_language", [*TWO, *TEXT, "model.ffn_dim=24"]),
    "pre-norm, one segment": ("masked_language", [*TWO, *TEXT, "model.ffn_dim=24", "model.segments=0"]),
    "vit": ("image_classification", [*TWO, "model.patch=2"]),
}


@pytest.fixture
def run(trained):
    """A function: a name in RUNS -> the folder of the run."""

    def train_named(name):
        task, settings = RUNS[name]
        return trained(task, *settings)

    return train_named


@pytest.mark.parametrize("name", RUNS)
def test_exported_and_imported_is_the_same_run(library, run, name, tmp_path):
    folder = run(name)
    export_run(folder, "huggingface", tmp_path / "exported")
    before, after = regard.load(folder), regard.load(import_model(str(tmp_path / "exported"), tmp_path / "back"))
    inputs = [before.task.examples[0]]
    options = {} if before.recipe.decoding is None else {"decoding": "greedy"}
    expected, actual = before.predict(inputs, **options)[0], after.predict(inputs, **options)[0]
    assert [prediction.text for prediction in actual] == [prediction.text for prediction in expected]
    assert actual[0].score == pytest.approx(expected[0].score, rel=1e-3, abs=1e-3)


def test_transformers_computes_the_same_logits(library, run, tmp_path):
    folder = run("marian")
    export_run(folder, "huggingface", tmp_path / "exported")
    model = library.MarianMTModel.from_pretrained(tmp_path / "exported").eval()
    tokenizer = library.AutoTokenizer.from_pretrained(tmp_path / "exported")
    text = "The cook is reading a book."
    parts = load_run(folder)
    source = parts.task.encode_sources([text])
    assert tokenizer(text)["input_ids"] == source.tokens[0].tolist()
    start = torch.tensor([[2, 7, 9]])
    with torch.no_grad():
        expected, _ = parts.model(start, parts.model.start(Padded(*source)))
        torch.testing.assert_close(
            model(input_ids=source.tokens, decoder_input_ids=start).logits, expected, atol=1e-4, rtol=1e-4
        )


@pytest.mark.parametrize(
    ("task", "settings", "message"),
    [
        (
            "translation",
            [*TWO, *PAIRS],
            "model.norm='pre' does not fit Marian, which has 'post'; data.joint=False does not fit",
        ),
        (
            "masked_language",
            [*TWO, *TEXT, "data.sentence_pairs=next"],
            "does not fit BERT, which has 'post'; data.sentence_pairs does not fit RoBERTa-PreLayerNorm, which",
        ),
        (
            "language",
            [*TWO, *TEXT, "model.position=rotary"],
            "model.position='rotary' does not fit GPT-2",
        ),
        (
            "translation",
            ["model=bahdanau", "model.dim=8", "model.embedding=8", *TWO[3:], *PAIRS[:3]],
            "transformers has no architecture for the model bahdanau; supported models: bert, gpt, transformer, vit",
        ),
        ("image_classification", [*TWO, "model.patch=3"], "images of 8x8 pixels cannot be divided into patches of 3"),
    ],
)
def test_unsupported_settings_are_a_one_line_error_and_nothing_is_written(
    library, trained, tmp_path, *, task, settings, message
):
    with pytest.raises(ConfigError, match=message):
        export_run(trained(task, *settings), "huggingface", tmp_path / "exported")
    assert not (tmp_path / "exported").exists()


def test_different_logits_are_refused(library, run, tmp_path, monkeypatch):
    monkeypatch.setattr("regard.convert.architectures.gpt2.difference", lambda *_: 0.5)
    with pytest.raises(CheckpointError, match=r"the logits of gpt differ from transformers by 0\.5; nothing"):
        export_run(run("gpt2"), "huggingface", tmp_path / "exported")
    assert not (tmp_path / "exported").exists()


def test_an_existing_folder_is_not_overwritten(run, tmp_path):
    (tmp_path / "exported").mkdir()
    (tmp_path / "exported" / "mine").write_text("")
    with pytest.raises(CheckpointError, match=r"is not empty and not a run \(it contains mine\)"):
        export_run(run("gpt2"), "huggingface", tmp_path / "exported")
    with pytest.raises(ConfigError, match="--to onyx: did you mean 'onnx'"):
        export_run(run("gpt2"), "onyx", tmp_path / "other")


def test_the_head_of_another_task_cannot_be_exported(run, tmp_path):
    parts = load_run(run("gpt2"))
    with_other_head = parts.__class__(parts.folder, parts.recipe, parts.task, torch.nn.Linear(1, 1))
    with pytest.raises(ConfigError, match="a gpt with the head of another task; only its own head can be exported"):
        huggingface.export(with_other_head, tmp_path / "exported")


def test_export_to_ctranslate2(run, tmp_path):
    ctranslate2 = pytest.importorskip("ctranslate2", reason="the extra ctranslate2 is not installed")
    (line,) = export_run(run("marian"), "ctranslate2", tmp_path / "exported")
    assert line.endswith("greedy search gives equal results for 32 texts")
    names = {path.name for path in (tmp_path / "exported").iterdir()}
    assert {"model.bin", "tokenizer.source.json", "tokenizer.target.json", "seal.json"} <= names
    engine = ctranslate2.Translator(str(tmp_path / "exported"))
    assert engine.translate_batch([["7", "3"]], max_decoding_length=3)[0].hypotheses
    assert [path.name for path in tmp_path.iterdir()] == ["exported"]
    shutil.rmtree(tmp_path / "exported")


def test_export_of_an_encoder_to_ctranslate2_is_compared(run, tmp_path, monkeypatch):
    pytest.importorskip("ctranslate2", reason="the extra ctranslate2 is not installed")
    (line,) = export_run(run("bert"), "ctranslate2", tmp_path / "exported")
    count = int(re.search(r"predictions are equal for (\d+) texts", line)[1])
    assert count > 0
    monkeypatch.setattr("regard.engines.ctranslate2.models.CT2Encoder.forward", lambda self, text, segments=None: (
        self.original(text, segments).flip(-1)
    ))  # fmt: skip
    with pytest.raises(CheckpointError, match="nothing was written"):
        export_run(run("bert"), "ctranslate2", tmp_path / "other")
    assert not (tmp_path / "other").exists()
