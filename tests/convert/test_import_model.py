"""Import of models from transformers: runs with equal logits that predict, are inspected, checked and trained."""

import json

import pytest
import tokenizers
import torch

import regard
from regard.convert.import_model import import_model, task_of
from regard.core.errors import CheckpointError, ConfigError, DataError

INPUTS = {
    "bert": "the cook reads a [MASK] .",
    "gpt2": "the cook",
    "marian": "the cook reads",
    "pegasus": "the cook reads",
    "roberta_prelayernorm": "the cook reads a [MASK] .",
    "vit": None,
}
MODELS = [
    ("bert", {}),
    ("bert", {"pairs": True}),
    ("bert", {"segments": 1}),
    ("gpt2", {}),
    ("gpt2", {"activation_function": "gelu", "n_inner": 20}),
    ("marian", {}),
    ("marian", {"scale_embedding": False, "activation_function": "gelu"}),
    ("pegasus", {}),
    ("roberta_prelayernorm", {}),
    ("roberta_prelayernorm", {"segments": 2}),
    ("vit", {}),
]
TASKS = {
    "marian": "translation",
    "pegasus": "translation",
    "bert": "masked_language",
    "roberta_prelayernorm": "masked_language",
    "gpt2": "language",
    "vit": "image_classification",
}


@pytest.mark.parametrize(("architecture", "settings"), MODELS, ids=lambda value: str(value)[:40])
def test_a_model_becomes_a_run_with_the_same_logits(saved_model, tmp_path, architecture, settings):
    run = regard.load(import_model(str(saved_model(architecture, **settings)), tmp_path / "run"))
    assert run.recipe.task.name == TASKS[architecture]
    raw_input = INPUTS[architecture] or run.task.examples[0]
    predictions = run.predict([raw_input])
    assert predictions[0] and predictions[0][0].text is not None
    run.look(raw_input).save(tmp_path / "page.html")
    assert (tmp_path / "page.html").stat().st_size > 10_000
    assert [result for result in run.check() if not result.passed] == []


def test_generated_text_equals_that_of_transformers(library, saved_model, tmp_path):
    source = saved_model("gpt2")
    run = regard.load(import_model(str(source), tmp_path / "run"), ["decoding=greedy"])
    model = library.GPT2LMHeadModel.from_pretrained(source)
    engine = tokenizers.Tokenizer.from_file(str(source / "tokenizer.json"))
    prompt = [model.config.bos_token_id, *engine.encode("the cook").ids]
    output = model.generate(torch.tensor([prompt]), max_new_tokens=8, do_sample=False, pad_token_id=0)[0].tolist()
    assert run.generate("the cook", tokens=8)[0].text == engine.decode(output[1:])


def test_translations_equal_those_of_transformers(library, saved_model, tmp_path):
    source = saved_model("marian")
    run = regard.load(import_model(str(source), tmp_path / "run"), ["decoding=greedy"])
    model = library.MarianMTModel.from_pretrained(source)
    engine = tokenizers.Tokenizer.from_file(str(source / "tokenizer.json"))
    row, size = [*engine.encode("the cook reads").ids, 0], model.config.vocab_size  # the padding token is the last
    limit = 2 * len(row) + 10
    output = model.generate(
        torch.tensor([row]), max_new_tokens=limit, do_sample=False, num_beams=1, bad_words_ids=[[size - 1]]
    )[0].tolist()
    tokens = [token for token in output[1:] if token != 0]
    expected = engine.decode(tokens, skip_special_tokens=False).replace("<unk>", "\N{REPLACEMENT CHARACTER}")
    assert run.predict(["the cook reads"])[0][0].text == expected and tokens


def test_an_imported_run_is_fine_tuned(saved_model, tmp_path):
    source = import_model(str(saved_model("bert")), tmp_path / "run")
    config = regard.load(source).recipe.to_dict()["model"]
    settings = [f"model.{name}={json.dumps(value)}" for name, value in config.items() if name != "name"]
    text = tmp_path / "text.txt"
    text.write_text("the cook reads a book . the dog buys two apples .\n" * 200)
    tuned = regard.train(
        "masked_language",
        [*settings, f"data.paths=['{text}']", "data.context=20", "data.batch_size=4", f"pretrained.run={source}",
         "pretrained.vocabulary=true", "training.steps=2", "training.evaluation.every=2", "data.eval_tokens=200"],
        out=tmp_path / "tuned", quiet=True,
    )  # fmt: skip
    report = json.loads((tmp_path / "tuned" / "start.json").read_text())
    assert not report["misfits"] and not report["missing"] and len(report["taken"]) > 30
    assert tuned.task.tokenizer.vocab_size == regard.load(source).task.tokenizer.vocab_size


def test_a_missing_tokenizer_is_a_one_line_error(saved_model, tmp_path):
    source = saved_model("marian")
    (source / "tokenizer.json").unlink()
    with pytest.raises(DataError, match=r"no tokenizer\.json; sentencepiece files \(\.spm\) are not supported"):
        import_model(str(source), tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_unsupported_models_are_a_one_line_error(library, saved_model, tmp_path):
    with pytest.raises(ConfigError, match="BERT with hidden_act='relu': regard supports 'gelu'"):
        import_model(str(saved_model("bert", hidden_act="relu")), tmp_path / "run")
    with pytest.raises(
        ConfigError, match="BERT with separate input and output embeddings: the bert of regard ties them"
    ):
        import_model(str(saved_model("bert", tie_word_embeddings=False)), tmp_path / "run")
    bart = library.BartConfig(vocab_size=9, d_model=8, encoder_layers=1, decoder_layers=1)
    bart.save_pretrained(tmp_path / "bart")
    with pytest.raises(
        ConfigError,
        match="model type bart; regard supports bert, gpt2, marian, pegasus, roberta_prelayernorm, vit",
    ):
        import_model(str(tmp_path / "bart"), tmp_path / "run")


def test_a_model_without_head_and_an_empty_folder_are_one_line_errors(library, saved_model, tmp_path):
    source = saved_model("bert")
    library.BertModel.from_pretrained(source).save_pretrained(source)
    with pytest.raises(CheckpointError, match=r"no weights for .*; regard needs the model with its head"):
        import_model(str(source), tmp_path / "run")
    (tmp_path / "empty").mkdir()
    with pytest.raises(CheckpointError, match="empty: transformers cannot read it"):
        import_model(str(tmp_path / "empty"), tmp_path / "run")


def test_the_task_of_a_model_is_the_one_with_this_default_model():
    assert {name: task_of(name) for name in ("transformer", "gpt", "bert", "vit")} == {
        "transformer": "translation",
        "gpt": "language",
        "bert": "masked_language",
        "vit": "image_classification",
    }
    with pytest.raises(ConfigError, match="no task has the default model nothing"):
        task_of("nothing")
