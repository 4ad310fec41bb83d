"""Models of transformers become runs that compute the same, and can be asked, looked at, checked and trained on."""

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
KINDS = [
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
OTHERS = {
    "marian": "translation",
    "pegasus": "translation",
    "bert": "masked_language",
    "roberta_prelayernorm": "masked_language",
    "gpt2": "language",
    "vit": "image_classification",
}


@pytest.mark.parametrize(("kind", "more"), KINDS, ids=lambda value: str(value)[:40])
def test_a_model_becomes_a_run_with_the_same_logits(brought, tmp_path, kind, more):
    run = regard.load(import_model(str(brought(kind, **more)), tmp_path / "run"))
    assert run.recipe.task.name == OTHERS[kind]
    given = INPUTS[kind] or run.task.examples[0]
    answers = run.predict([given])
    assert answers[0] and answers[0][0].text is not None
    run.look(given).save(tmp_path / "page.html")
    assert (tmp_path / "page.html").stat().st_size > 10_000
    assert [verdict for verdict in run.check() if not verdict.passed] == []


def test_generated_text_is_theirs(library, brought, tmp_path):
    source = brought("gpt2")
    run = regard.load(import_model(str(source), tmp_path / "run"), ["decoding=greedy"])
    theirs = library.GPT2LMHeadModel.from_pretrained(source)
    engine = tokenizers.Tokenizer.from_file(str(source / "tokenizer.json"))
    begun = [theirs.config.bos_token_id, *engine.encode("the cook").ids]
    found = theirs.generate(torch.tensor([begun]), max_new_tokens=8, do_sample=False, pad_token_id=0)[0].tolist()
    assert run.generate("the cook", tokens=8)[0].text == engine.decode(found[1:])


def test_translations_are_theirs(library, brought, tmp_path):
    source = brought("marian")
    run = regard.load(import_model(str(source), tmp_path / "run"), ["decoding=greedy"])
    theirs = library.MarianMTModel.from_pretrained(source)
    engine = tokenizers.Tokenizer.from_file(str(source / "tokenizer.json"))
    row, size = [*engine.encode("the cook reads").ids, 0], theirs.config.vocab_size  # the pad mark is the last
    limit = 2 * len(row) + 10
    found = theirs.generate(
        torch.tensor([row]), max_new_tokens=limit, do_sample=False, num_beams=1, bad_words_ids=[[size - 1]]
    )[0].tolist()
    tokens = [token for token in found[1:] if token != 0]
    expected = engine.decode(tokens, skip_special_tokens=False).replace("<unk>", "\N{REPLACEMENT CHARACTER}")
    assert run.predict(["the cook reads"])[0][0].text == expected and tokens


def test_an_imported_run_is_trained_on(brought, tmp_path):
    source = import_model(str(brought("bert")), tmp_path / "run")
    model = regard.load(source).recipe.to_dict()["model"]
    words = [f"model.{name}={json.dumps(value)}" for name, value in model.items() if name != "name"]
    text = tmp_path / "text.txt"
    text.write_text("the cook reads a book . the dog buys two apples .\n" * 200)
    trained = regard.train(
        "masked_language",
        [*words, f"data.paths=['{text}']", "data.context=20", "data.batch_size=4", f"pretrained.run={source}",
         "pretrained.vocabulary=true", "training.steps=2", "training.evaluation.every=2", "data.eval_tokens=200"],
        out=tmp_path / "tuned", quiet=True,
    )  # fmt: skip
    taken = json.loads((tmp_path / "tuned" / "start.json").read_text())
    assert not taken["misfits"] and not taken["missing"] and len(taken["taken"]) > 30
    assert trained.task.tokenizer.vocab_size == regard.load(source).task.tokenizer.vocab_size


def test_what_is_missing_is_one_line(brought, tmp_path):
    source = brought("marian")
    (source / "tokenizer.json").unlink()
    with pytest.raises(DataError, match=r"no tokenizer\.json; sentencepiece files \(\.spm\) are not supported"):
        import_model(str(source), tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_what_regard_does_not_have_is_one_line(library, brought, tmp_path):
    with pytest.raises(ConfigError, match="BERT with hidden_act='relu': regard supports 'gelu'"):
        import_model(str(brought("bert", hidden_act="relu")), tmp_path / "run")
    with pytest.raises(ConfigError, match="BERT with tables of its own for input and output: regard's bert has one"):
        import_model(str(brought("bert", tie_word_embeddings=False)), tmp_path / "run")
    other = library.BartConfig(vocab_size=9, d_model=8, encoder_layers=1, decoder_layers=1)
    other.save_pretrained(tmp_path / "bart")
    with pytest.raises(
        ConfigError,
        match="a model of the kind bart; regard reads bert, gpt2, marian, pegasus, roberta_prelayernorm, vit",
    ):
        import_model(str(tmp_path / "bart"), tmp_path / "run")


def test_a_model_without_its_head_or_no_model_at_all_is_one_line(library, brought, tmp_path):
    source = brought("bert")
    library.BertModel.from_pretrained(source).save_pretrained(source)
    with pytest.raises(CheckpointError, match=r"no weights for .*; regard needs the model with its head"):
        import_model(str(source), tmp_path / "run")
    (tmp_path / "empty").mkdir()
    with pytest.raises(CheckpointError, match="empty: transformers cannot read it"):
        import_model(str(tmp_path / "empty"), tmp_path / "run")


def test_the_task_of_a_model_is_the_one_it_is_the_default_of():
    assert {name: task_of(name) for name in ("transformer", "gpt", "bert", "vit")} == {
        "transformer": "translation",
        "gpt": "language",
        "bert": "masked_language",
        "vit": "image_classification",
    }
    with pytest.raises(ConfigError, match="no task has the default model nothing"):
        task_of("nothing")
