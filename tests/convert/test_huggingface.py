"""Export of runs to transformers: equal logits, the same run after importing it again, errors for other settings."""

import re
import shutil

import pytest
import torch

import regard
from regard.convert import huggingface, usage_example
from regard.convert.compare_usage import same_text
from regard.convert.export_run import export_run
from regard.convert.import_model import import_model
from regard.core.errors import CheckpointError, ConfigError
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
    "pegasus": ("translation", [*TWO, *PAIRS]),
    "pegasus joint": ("translation", [*TWO, *PAIRS, "data.joint=true"]),
    "marian unigram": ("translation", [*TWO, *PAIRS, "model.norm=post", "data.tokenizer=unigram"]),
    "pegasus biased": ("translation", [*TWO, *PAIRS, "data.joint=true", "model.bias=true", "model.activation=gelu"]),
    "gpt2": ("language", [*TWO, *TEXT]),
    "bert": ("masked_language", [*TWO, *TEXT, "model.ffn_dim=24", "model.norm=post"]),
    "bert pairs": ("masked_language", [*TWO, *TEXT, "model.ffn_dim=24", "model.norm=post", "data.sentence_pairs=next"]),
    "roberta": ("masked_language", [*TWO, *TEXT, "model.ffn_dim=24", "model.norm=post", "model.segments=0"]),
    "pre-norm": ("masked_language", [*TWO, *TEXT, "model.ffn_dim=24"]),
    "pre-norm, one segment": ("masked_language", [*TWO, *TEXT, "model.ffn_dim=24", "model.segments=0"]),
    "albert": ("masked_language", [*TWO, *TEXT, "model.preset=albert", "model.norm=post", "model.embedding=8"]),
    "gpt2 bytes": ("language", [*TWO, *TEXT, "data.tokenizer=bytes"]),
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


def test_the_ordinary_code_translates_into_the_target_language(library, run, tmp_path):
    folder = run("pegasus")
    (line,) = export_run(folder, "huggingface", tmp_path / "exported")
    assert line.endswith("with equal logits and equal predictions for 20 inputs (README.md)")
    tokenizer = library.AutoTokenizer.from_pretrained(tmp_path / "exported")
    text = "The cook is reading a book."
    parts = load_run(folder)
    source, count = parts.task.encode_sources([text]), parts.task.spec.target_vocab_size
    assert tokenizer(text)["input_ids"] == [token + count for token in source.tokens[0].tolist()]
    (row,) = parts.task.vocabularies.target.encode(["그 요리사는 책을 읽는다."])
    assert tokenizer.decode([*row, 3], skip_special_tokens=True) == parts.task.vocabularies.target.decode([row])[0]
    assert (tmp_path / "exported" / "README.md").read_text().count("AutoTokenizer.from_pretrained(folder)") == 1


def test_the_readme_runs(run, tmp_path):
    export_run(run("gpt2"), "huggingface", tmp_path / "exported")
    text = (tmp_path / "exported" / "README.md").read_text()
    code = text.split("```python\n")[1].split("```")[0].replace("FOLDER", repr(str(tmp_path / "exported")))
    names = {}
    exec(compile(code, "README.md", "exec"), names)
    (example,) = names["continue_texts"](str(tmp_path / "exported"), ["The"])
    prediction = regard.load(run("gpt2")).generate("The", tokens=16, temperature=0.0)[0]
    assert example == prediction.text and example.startswith("The ")


def test_special_tokens_have_common_names(library, run, tmp_path):
    export_run(run("bert"), "huggingface", tmp_path / "exported")
    tokenizer = library.AutoTokenizer.from_pretrained(tmp_path / "exported")
    assert (tokenizer.mask_token, tokenizer.pad_token, tokenizer.eos_token) == ("[MASK]", "<pad>", "</s>")
    parts = load_run(run("bert"))
    parsed = parts.task.parse_input("the [MASK] is read")
    assert tokenizer("the [MASK] is read")["input_ids"] == [2, *parsed.tokens, 3]


def test_different_predictions_are_refused(run, tmp_path, monkeypatch):
    constant = lambda folder, texts: ["?"] * len(texts)  # noqa: E731
    monkeypatch.setattr(usage_example.continue_texts, "__code__", constant.__code__)
    with pytest.raises(CheckpointError, match=r"regard predicts .* but transformers '\?'; nothing was written"):
        export_run(run("gpt2"), "huggingface", tmp_path / "exported")
    assert list(tmp_path.iterdir()) == []


def test_only_an_incomplete_text_may_be_a_prefix():
    assert same_text("a b", "a b") and same_text("a \N{REPLACEMENT CHARACTER}b", "ab")
    assert same_text("a b", "a b c", is_complete=False) and not same_text("a b c", "a b", is_complete=False)
    assert not same_text("a b", "a b c") and not same_text("a b", "a c", is_complete=False) and not same_text("a", "")


@pytest.mark.parametrize(
    ("task", "settings", "message"),
    [
        (
            "translation",
            [*TWO, *PAIRS, "model.position=rotary"],
            "model.norm='pre' does not fit Marian, which has 'post'; model.position='rotary' does not fit Pegasus",
        ),
        (
            "masked_language",
            [*TWO, *TEXT, "data.sentence_pairs=next"],
            "does not fit BERT, which has 'post'; .*data.sentence_pairs does not fit RoBERTa-PreLayerNorm, which",
        ),
        (
            "masked_language",
            [*TWO, *TEXT, "model=xlnet"],
            "xlnet cannot be exported: transformers has no pipeline that fills masks with it",
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
    with pytest.raises(ConfigError, match="unknown format 'onyx'; did you mean 'onnx'"):
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
