"""Import of models from transformers: runs with equal logits that predict, are inspected, checked and trained."""

import json
import math

import numpy as np
import pytest
import tokenizers
import torch
from PIL import Image

import regard
from regard.convert.import_model import import_model, task_of
from regard.core.errors import CheckpointError, ConfigError, DataError
from regard.tasks.language.generate import token_nats
from regard.training import recipe as recipes
from regard.training.train import train

INPUTS = {
    "bert": "the cook reads a [MASK] .",
    "gpt2": "the cook",
    "marian": "the cook reads",
    "pegasus": "the cook reads",
    "roberta_prelayernorm": "the cook reads a [MASK] .",
    "roberta": "the cook reads a [MASK] .",
    "albert": "the cook reads a [MASK] .",
    "xlnet": "the cook reads a [MASK] .",
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
    ("roberta", {}),
    ("roberta", {"segments": 2}),
    ("albert", {}),
    ("albert", {"hidden_act": "relu", "type_vocab_size": 1}),
    ("xlnet", {}),
    ("vit", {}),
    ("vit", {"processor": {"image_mean": [0.485, 0.456, 0.406], "image_std": [0.229, 0.224, 0.225], "resample": 3}}),
]
TASKS = {
    "marian": "translation",
    "pegasus": "translation",
    "bert": "masked_language",
    "roberta_prelayernorm": "masked_language",
    "roberta": "masked_language",
    "albert": "masked_language",
    "xlnet": "masked_language",
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


@pytest.mark.parametrize("prompt", ["the cook", "a", "", "the cook reads the book. " * 2])
def test_generated_text_equals_that_of_transformers(library, saved_model, tmp_path, prompt):
    """The tokenizer of GPT-2 adds no start token; without a prompt, generation starts from it."""
    source = saved_model("gpt2")
    run = regard.load(import_model(str(source), tmp_path / "run"), ["decoding=greedy"])
    assert not run.task.config.start_token
    model = library.GPT2LMHeadModel.from_pretrained(source)
    engine = tokenizers.Tokenizer.from_file(str(source / "tokenizer.json"))
    ids = engine.encode(prompt).ids[: 24 - 10] or [model.config.bos_token_id]
    text = engine.decode(ids) if prompt else ""
    output = model.generate(torch.tensor([ids]), max_new_tokens=8, do_sample=False, pad_token_id=0)[0].tolist()
    assert run.generate(text, tokens=8)[0].text == engine.decode(output if prompt else output[1:])


def test_a_text_without_start_token_is_scored_from_its_second_token(library, saved_model, tmp_path):
    source = saved_model("gpt2")
    run = regard.load(import_model(str(source), tmp_path / "run"))
    model = library.GPT2LMHeadModel.from_pretrained(source)
    (row,) = run.task.tokenizer.encode(["the cook"])
    ids = torch.tensor([tokenizers.Tokenizer.from_file(str(source / "tokenizer.json")).encode("the cook").ids])
    with torch.no_grad():
        expected = model(ids).logits[0, :-1].log_softmax(dim=-1).gather(1, ids[0, 1:, None])[:, 0]
        nats = token_nats(run.model, [np.array(row)], run.task.spec, torch.device("cpu"))[0]
        assert token_nats(run.model, [np.array(row[:1])], run.task.spec, torch.device("cpu"))[0].tolist() == [0]
    assert nats[0] == 0 and nats[1:] == pytest.approx(-expected.numpy(), abs=1e-4)


def test_an_image_is_processed_as_the_folder_says(library, saved_model, tmp_path):
    """The same image of another size, through the processor of the folder and through regard."""
    processor = {"image_mean": [0.485, 0.456, 0.406], "image_std": [0.229, 0.224, 0.225], "rescale_factor": 1 / 127.5}
    source = saved_model("vit", processor=processor)
    run = regard.load(import_model(str(source), tmp_path / "run"))
    levels = np.random.default_rng(0).integers(0, 256, (20, 11, 3), dtype=np.uint8)
    image = Image.fromarray(levels)
    image.save(tmp_path / "image.png")
    model = library.ViTForImageClassification.from_pretrained(source).eval()
    with torch.no_grad():
        pixels = library.AutoImageProcessor.from_pretrained(source)(image, return_tensors="pt")
        expected = model(**pixels).logits.softmax(dim=-1)[0]
    predictions = run.predict([str(tmp_path / "image.png")], n=3)[0]
    actual = {prediction.text: math.exp(prediction.score) for prediction in predictions}
    for index, label in model.config.id2label.items():
        assert actual[label] == pytest.approx(float(expected[index]), abs=1e-3)


@pytest.mark.parametrize(
    ("processor", "error", "message"),
    [
        ({"size": {"shortest_edge": 9}}, ConfigError, "size={'shortest_edge': 9} is not supported; regard resizes im"),
        ({"do_center_crop": True, "crop_size": 6}, ConfigError, "crop_size={'height': 6, 'width': 6} is not supported"),
        ({"do_pad": True}, ConfigError, "do_pad=True is not supported; regard only resizes and normalizes"),
        ({"image_mean": [0.5]}, DataError, "not an image processor .*1 values for 3 channels"),
        ({"resample": "sharp"}, DataError, "preprocessor_config.json: not an image processor"),
    ],
)
def test_other_image_processing_is_refused(saved_model, tmp_path, processor, error, message):
    with pytest.raises(error, match=message):
        import_model(str(saved_model("vit", processor=processor)), tmp_path / "run")


def test_a_model_without_image_processor_is_refused(saved_model, tmp_path):
    source = saved_model("vit")
    (source / "preprocessor_config.json").unlink()
    with pytest.raises(DataError, match=r"no preprocessor_config\.json; save the image processor next to the model"):
        import_model(str(source), tmp_path / "run")


def test_an_imported_run_has_neither_data_nor_training(saved_model, tmp_path):
    source = saved_model("bert")
    folder = import_model(str(source), tmp_path / "run")
    card = (folder / "README.md").read_text()
    assert f"from {source}, a `BertForMaskedLM`" in card and "python" not in card.replace("```python", "")
    with pytest.raises(DataError, match=r"without data; name the data to evaluate on: data\.paths=…"):
        regard.load(folder).evaluate()
    text = tmp_path / "text.txt"
    text.write_text("the cook reads a book . the dog buys two apples .\n" * 50)
    assert regard.load(folder, [f"data.paths=['{text}']"]).evaluate()["nats"] > 0


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


def test_an_imported_run_is_fine_tuned_with_its_own_sizes(saved_model, tmp_path):
    source = import_model(str(saved_model("bert")), tmp_path / "run")
    text = tmp_path / "text.txt"
    text.write_text("the cook reads a book . the dog buys two apples .\n" * 200)
    tuned = regard.train(
        "masked_language",
        [f"data.paths=['{text}']", "data.batch_size=4", f"pretrained.run={source}", "pretrained.vocabulary=true",
         "training.steps=2", "training.evaluation.every=2", "data.eval_tokens=200"],
        out=tmp_path / "tuned", quiet=True,
    )  # fmt: skip
    report = json.loads((tmp_path / "tuned" / "start.json").read_text())
    assert not report["misfits"] and not report["missing"] and len(report["taken"]) > 30
    assert tuned.recipe.model.config.dim == 16 and tuned.task.config.context == 20
    assert tuned.task.tokenizer.vocab_size == regard.load(source).task.tokenizer.vocab_size


def test_sizes_of_a_source_run_reach_another_task(saved_model, tmp_path):
    source = import_model(str(saved_model("bert")), tmp_path / "run")
    settings = [f"pretrained.run={source}", "pretrained.params=encoder.*"]
    recipe = recipes.read("classification", settings=["model=bert", *settings])
    assert (recipe.model.config.layers, recipe.model.config.norm, recipe.task.config.max_length) == (2, "post", 20)
    assert recipes.read("classification", settings=["model=bert", "model.dim=32", *settings]).model.config.dim == 32
    chosen = recipes.read("classification", settings=["model=bert", "data.max_length=30", *settings])
    with pytest.raises(ConfigError, match=r"position\.table\.weight does not fit: \(20, 16\) in the source run, "
                       r"\(30, 16\) in this run; set data\.max_length=20, or leave it out"):  # fmt: skip
        train(chosen, tmp_path / "tuned")
    wider = recipes.read("classification", settings=["model=bert", "model.ffn_dim=32", *settings])
    with pytest.raises(
        ConfigError, match=r"does not fit: .*; set the sizes of the source run: model\.layers=2 model\.dim"
    ):
        train(wider, tmp_path / "tuned")
    assert not (tmp_path / "tuned").exists()


def test_a_missing_tokenizer_is_a_one_line_error(saved_model, tmp_path):
    source = saved_model("marian")
    (source / "tokenizer.json").unlink()
    with pytest.raises(DataError, match=r"no tokenizer\.json; regard reads tokenizers of the library tokenizers: save"):
        import_model(str(source), tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_unsupported_models_are_a_one_line_error(library, saved_model, tmp_path):
    with pytest.raises(ConfigError, match="BERT with hidden_act='tanh': regard supports 'relu' or 'gelu' or"):
        import_model(str(saved_model("bert", hidden_act="tanh")), tmp_path / "run")
    with pytest.raises(
        ConfigError, match="a GPT2ForSequenceClassification; regard reads GPT2LMHeadModel and GPT2Model"
    ):
        import_model(str(saved_model("gpt2", classifier=True, pad_token_id=1)), tmp_path / "run")
    with pytest.raises(
        ConfigError, match="BERT with separate input and output embeddings: the bert of regard ties them"
    ):
        import_model(str(saved_model("bert", tie_word_embeddings=False)), tmp_path / "run")
    bart = library.BartConfig(vocab_size=9, d_model=8, encoder_layers=1, decoder_layers=1)
    bart.save_pretrained(tmp_path / "bart")
    with pytest.raises(
        ConfigError,
        match="model type bart; regard supports albert, bert, gpt2, marian, pegasus, roberta, roberta_prelayernorm",
    ):
        import_model(str(tmp_path / "bart"), tmp_path / "run")


def test_a_model_without_head_and_an_empty_folder_are_one_line_errors(library, saved_model, tmp_path):
    source = saved_model("bert")
    library.BertModel.from_pretrained(source).save_pretrained(source)
    with pytest.raises(ConfigError, match="a BertModel; regard reads BertForMaskedLM and BertForPreTraining"):
        import_model(str(source), tmp_path / "run")
    (tmp_path / "empty").mkdir()
    with pytest.raises(CheckpointError, match="empty: transformers cannot read it"):
        import_model(str(tmp_path / "empty"), tmp_path / "run")


def test_the_task_of_a_model_is_the_one_with_this_default_model():
    assert {name: task_of(name) for name in ("transformer", "gpt", "bert", "vit", "xlnet")} == {
        "xlnet": "masked_language",
        "transformer": "translation",
        "gpt": "language",
        "bert": "masked_language",
        "vit": "image_classification",
    }
    with pytest.raises(ConfigError, match="no task has the default model nothing"):
        task_of("nothing")
