"""The tagging task: training, predictions on any text, splits, settings and errors."""

import unicodedata
from dataclasses import replace

import pytest
import torch

from regard.core.errors import CheckpointError, ConfigError, DataError
from regard.data.text import tag_schemes
from regard.models import bilstm_crf, tagger
from regard.tasks import tagging
from regard.tasks.tagging import Config, Options

pytest.importorskip("seqeval")


def train(task, model, *, epochs, lr=5e-3):
    optimizer = torch.optim.Adam(model.parameters(), lr=lr)
    for epoch in range(epochs):
        for examples in task.epoch_batches(epoch, 1):
            loss = task.loss(model, task.collate(examples))
            optimizer.zero_grad()
            (loss.total / loss.count).backward()
            optimizer.step()


@pytest.fixture(scope="module")
def korean():
    task = tagging.build(Config(dataset="entities_ko", examples=3000))
    torch.manual_seed(1)
    model = tagger.build(tagger.Config(layers=1, dim=64, ffn_dim=128, dropout=0.1), task.spec)
    train(task, model.train(), epochs=3)
    return task, model.eval()


def test_built_in_entities_are_found(korean):
    task, model = korean
    assert task.evaluate(model, "valid", None)["f1"] > 0.8
    ((prediction,),) = task.predict(model, ["아름이는 2018년에 파리에서 일했다."], Options(), None)
    assert prediction.text == "<아름:person>이는 <2018년:time>에 <파리:place>에서 일했다."
    assert {"f1.person", "recall.place", "support.time"} <= set(task.extra_metrics(model, "valid", None))


@pytest.mark.parametrize(
    ("text", "tagged"),
    [
        ("아름", "<아름:person>"),
        ("2018년", "<2018년:time>"),
        ("파리", "<파리:place>"),
        ("이순신", "<이순신:person>"),
        ("이순신 장군은 한국에서 싸웠다.", "<이순신:person> 장군은 <한국:place>에서 싸웠다."),
    ],
)
def test_names_alone_and_in_sentences(korean, text, tagged):
    task, model = korean
    assert task.predict(model, [text], Options(), None)[0][0].text == tagged


def test_new_templates_are_scored_beside_new_fillings(korean):
    task, model = korean
    scores = task.extra_metrics(model, "test", None)
    assert 0.4 < scores["f1_new_templates"] < 1
    assert task.evaluate(model, "templates", None)["f1"] == pytest.approx(scores["f1_new_templates"])


def test_spans_of_a_decomposed_text_are_those_of_the_raw_text(korean):
    task, model = korean
    raw = unicodedata.normalize("NFD", "아름이는 2018년에 파리에서 일했다.")
    ((prediction,),) = task.predict(model, [raw], Options(), None)
    entities = [(unicodedata.normalize("NFC", raw[start:stop]), kind) for start, stop, kind in prediction.value]
    assert entities == [("아름", "person"), ("2018년", "time"), ("파리", "place")]


def test_emoji_and_a_sentence_of_ten_thousand_words():
    task = tagging.build(tagging.TINY)
    model = bilstm_crf.build(bilstm_crf.TINY, task.spec).eval()
    for text in ("👩‍👩‍👧 in Paris 😀", "word " * 10_000):
        ((prediction,),) = task.predict(model, [text], Options(), None)
        tags = [line.split("\t")[1] for line in prediction.render(".conll").decode().splitlines()]
        assert tag_schemes.find_tag_error(tags, "bio") is None
    assert prediction.remarks[0] == "longer than 200 tokens: read in 51 parts"


@pytest.mark.parametrize("output", ["crf", "softmax"])
@pytest.mark.parametrize("scheme", ["bio", "iobes"])
def test_an_untrained_model_gives_valid_tags(output, scheme):
    task = tagging.build(Config(examples=60, vocab_size=500, tags=scheme))
    torch.manual_seed(3)
    model = tagger.build(replace(tagger.TINY, output=output), task.spec).eval()
    texts = [sentence.text for sentence in task.sentences["valid"]][:40]
    for (prediction,) in task.predict(model, texts, Options(), None):
        tags = [line.rpartition("\t")[2] for line in prediction.render(".conll").decode().splitlines()]
        assert tag_schemes.find_tag_error(tags, "bio") is None


@pytest.mark.parametrize(
    "settings",
    [
        {"tokenizer": "bpe"},
        {"tokenizer": "char"},
        {"units": "tokens", "tokenizer": "bpe"},
        {"units": "characters"},
        {"tokenizer": "bytes"},
    ],
)
def test_every_kind_of_token_and_unit(settings):
    task = tagging.build(Config(examples=80, vocab_size=600, **settings))
    model = tagger.build(tagger.TINY, task.spec)
    assert 0 <= task.evaluate(model, "valid", None)["f1"] <= 1
    inspected = task.inspect(model.eval(), "Anna lived in Paris.", Options(), None)
    tags = inspected.outputs[0].tokens
    assert tags and len(tags) == len(inspected.axes[inspected.answer_axis].items)
    for item in inspected.axes["units"].items:
        assert "Anna lived in Paris."[slice(*item.span)] == item.text


def test_errors_in_files_name_file_and_line(tmp_path):
    path = tmp_path / "train.conll"
    path.write_text("Anna\tB-p\nsleeps\n")
    with pytest.raises(DataError, match=r"train\.conll:2: expected a word and its tag in two columns, got 'sleeps'"):
        tagging.build(Config(path=path))
    path.write_text("".join(f"Anna{i}\tO\n\n" for i in range(60)))
    with pytest.raises(DataError, match="no unit is tagged as part of an entity; there is nothing to learn"):
        tagging.build(Config(path=path))
    path.write_text("A\tB-p\n\nA\tS-p\n\nA\tB-p\nB\tI-p\n")
    with pytest.raises(DataError, match=r"train\.conll: .*1 of 3 sentences"):
        tagging.build(Config(path=path))


def test_a_type_unseen_in_training_counts_as_missed(tmp_path):
    (tmp_path / "train.conll").write_text("Anna\tB-p\nsleeps\tO\n\n" * 5)
    (tmp_path / "valid.conll").write_text("Rome\tB-q\n\n")
    task = tagging.build(Config(path=tmp_path))
    assert task.evaluate(bilstm_crf.build(bilstm_crf.TINY, task.spec), "valid", None)["recall"] == 0


def test_blank_text_is_refused():
    with pytest.raises(DataError, match="there is no sentence to tag; give some text"):
        tagging.build(tagging.TINY).parse_input(" ")


def test_a_split_without_sentences_is_an_error(tmp_path):
    (tmp_path / "train.conll").write_text("Anna\tB-p\n\n")
    (tmp_path / "valid.conll").write_text("-DOCSTART- O\n")
    task = tagging.build(Config(path=tmp_path))
    with pytest.raises(DataError, match="there is no sentence in the split 'valid'"):
        task.evaluate(bilstm_crf.build(bilstm_crf.TINY, task.spec), "valid", None)


def test_long_training_sentences_are_reported():
    assert tagging.build(tagging.TINY).data_warnings() == []
    task = tagging.build(Config(examples=60, vocab_size=500, max_length=5))
    assert task.data_warnings()[0].startswith("long training sentences are split into ")


def test_a_run_folder_without_tags_is_an_error(tmp_path):
    task = tagging.build(tagging.TINY)
    task.save(tmp_path)
    loaded = tagging.load(tagging.TINY, tmp_path)
    assert loaded.encoder.tags == task.encoder.tags and loaded.examples == task.examples
    (tmp_path / "tags.json").write_text("{}")
    with pytest.raises(CheckpointError, match=r"tags\.json: the tags cannot be read"):
        tagging.load(tagging.TINY, tmp_path)


@pytest.mark.parametrize(
    ("settings", "message"),
    [({"batch_size": 0}, "batch_size=0 must be at least 1"), ({"max_length": 3}, "max_length=3 must be at least 4")],
)
def test_impossible_settings_are_errors(settings, message):
    with pytest.raises(ConfigError, match=message):
        Config(**settings)


def test_changed_data_has_another_checksum(tmp_path):
    path = tmp_path / "train.conll"
    (tmp_path / "valid.conll").write_text("Anna\tB-p\n\n")
    path.write_text("Anna\tB-p\n\n")
    before = tagging.build(Config(path=tmp_path)).fingerprint()
    path.write_text("Anna\tB-p\n\nBob\tB-p\n\n")
    after = tagging.build(Config(path=tmp_path)).fingerprint()
    assert before["train"] != after["train"] and before["valid"] == after["valid"]


def test_words_that_training_did_not_have_are_named():
    task = tagging.build(replace(tagging.TINY, examples=500))
    model = tagger.build(tagger.TINY, task.spec).eval()
    ((prediction,),) = task.predict(model, ["Qwertz met Anna in Paris."], Options(), None)
    assert prediction.data["unknown_tokens"] == ["Qwertz"]
    assert prediction.remarks == ("not in the vocabulary, or spelled out in characters: Qwertz",)


@pytest.mark.parametrize("output", ["crf", "softmax"])
def test_the_confidence_of_an_entity_is_a_probability(output):
    task = tagging.build(Config(examples=60, vocab_size=500))
    torch.manual_seed(3)
    model = tagger.build(replace(tagger.TINY, output=output), task.spec).eval()
    texts = [sentence.text for sentence in task.sentences["valid"]][:20]
    predictions = [row[0] for row in task.predict(model, texts, Options(), None)]
    entities = [entity for prediction in predictions for entity in prediction.data["entities"]]
    assert entities and all(0 < entity["confidence"] <= 1 for entity in entities)


@pytest.mark.parametrize("output", ["crf", "softmax"])
def test_the_recall_cost_is_a_bias_of_o_at_entities_in_training_only(output):
    plain, costly = (tagging.build(replace(tagging.task.TINY, recall_cost=cost)) for cost in (0.0, 2.0))
    torch.manual_seed(0)
    model = bilstm_crf.build(replace(bilstm_crf.TINY, dropout=0.0, output=output), plain.spec)
    batch = plain.collate(next(iter(plain.epoch_batches(0, 1))))
    before = [task.loss(model.train(), batch).total for task in (plain, costly)]
    assert before[0] < before[1]
    torch.testing.assert_close(*(task.loss(model.eval(), batch).total for task in (plain, costly)))
    only_o = batch._replace(tags=torch.zeros_like(batch.tags))
    assert costly.encoder.tags[0] == tag_schemes.OUTSIDE
    torch.testing.assert_close(*(task.loss(model.train(), only_o).total for task in (plain, costly)))
