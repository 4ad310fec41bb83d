"""The classification task: training, predictions on any text, several labels, settings and errors."""

import json
from collections import Counter

import numpy as np
import pytest
import torch

from regard.core.errors import CheckpointError, ConfigError, DataError
from regard.models import flat_attention, hierarchical
from regard.tasks import classification
from regard.tasks.classification import Config, Options
from regard.tasks.classification.prediction import to_predictions
from regard.tasks.classification.task import imbalance_warnings


def write(path, rows):
    path.write_text("label\ttext\n" + "".join(f"{label}\t{text}\n" for label, text in rows), encoding="utf-8")
    return path


def train(task, model, *, epochs, lr):
    optimizer = torch.optim.Adam(model.parameters(), lr=lr)
    for epoch in range(epochs):
        for examples in task.epoch_batches(epoch, 1):
            loss = task.loss(model, task.collate(examples))
            optimizer.zero_grad()
            (loss.total / loss.count).backward()
            optimizer.step()


ROWS = [("pos", f"a good film number {i}. I liked it.") for i in range(40)]
ROWS += [("neg", f"a bad film number {i}. I hated it!") for i in range(40)]


@pytest.fixture(scope="module")
def task():
    return classification.build(classification.TINY)


@pytest.fixture
def model(task):
    return hierarchical.build(hierarchical.TINY, task.spec)


def test_built_in_reviews_are_learned_and_attention_is_on_the_evidence():
    task = classification.build(Config(examples=2000, batch_size=16))
    torch.manual_seed(1)
    model = hierarchical.build(hierarchical.Config(embedding=50, dim=24), task.spec)
    train(task, model, epochs=4, lr=6e-3)
    assert task.evaluate(model, "valid", None)["accuracy"] > 0.95
    extra = task.extra_metrics(model, "valid", None)
    assert extra["deciding_sentence"] > 0.7 and extra["deciding_words"] > 0.4  # after a short training
    assert sum(value for name, value in extra.items() if name.startswith("confusion.")) == 500


def test_rare_labels_of_an_automatic_split_do_not_stop_the_training(tmp_path):
    rows = [*ROWS, *((f"rare{i}", f"an odd film number {i}") for i in range(40))]
    task = classification.build(Config(path=write(tmp_path / "a.tsv", rows), min_frequency=1))
    assert len(task.label_names) == 42
    (warning,) = (line for line in task.data_warnings() if "held out" in line)
    assert warning.startswith("no training document has the label 'rare")
    assert task.evaluate(hierarchical.build(hierarchical.TINY, task.spec), "test", None)["loss"] > 0


def test_an_empty_document_is_left_out_of_training_and_wrong_in_evaluation(tmp_path):
    path = write(tmp_path / "a.tsv", [*ROWS, ("pos", " "), ("neg", "")])
    task = classification.build(Config(path=path, tokenizer="word", min_frequency=1))
    assert "2 of" in " ".join(task.data_warnings()) or task.training_documents.blank < 2
    folder = tmp_path / "splits"
    folder.mkdir()
    write(folder / "train.tsv", ROWS)
    write(folder / "valid.tsv", [("pos", "a good film"), ("neg", " ")])
    task = classification.build(Config(path=folder))
    scores = task.evaluate(flat_attention.build(flat_attention.TINY, task.spec), "valid", None)
    assert scores["empty"] == 1 and scores["accuracy"] <= 0.5


def test_a_blank_text_is_refused_and_a_file_is_read(task, tmp_path):
    with pytest.raises(DataError, match="the document is empty; give some text"):
        task.parse_input(" \n ")
    (tmp_path / "review.txt").write_text("One.\nTwo.\n")
    assert task.parse_input(str(tmp_path / "review.txt")) == "One.\nTwo.\n"
    with pytest.raises(DataError, match=r"^reviw.txt: no such file; put a space before it if it is a text$"):
        task.parse_input("reviw.txt")
    for text in ("I read it in review.txt", " reviw.txt", "one\nreviw.txt"):
        assert task.parse_input(text) == text


def test_a_sentence_of_ten_thousand_words_is_truncated(task, model):
    long = "word " * 10_000
    ((prediction,),) = task.predict(model.eval(), [long], Options(), None)
    assert prediction.text in task.label_names
    assert prediction.remarks[0] == "only the first 2998 of 10000 tokens are read"
    documents = task.collate(task.epoch_batches(0, 1)[0]).documents
    assert documents.tokens.shape[1] <= task.spec.max_sentence_length


def test_spans_of_emoji_and_decomposed_hangul_are_in_the_raw_text(task, model):
    text = "👩‍👩‍👧 좋다! 정말 좋았다. \u110b\u1167\u11bc\u1112\u116a 😀."
    inspected = task.inspect(model.eval(), text, Options(), None)
    for name, axis in inspected.axes.items():
        if name.startswith(("words.", "sentences")):
            for item in axis.items:
                start, stop = item.span
                assert 0 <= start < stop <= len(text)
    assert inspected.axes["words.2"].parent == ("sentences", 2)


def test_a_label_unseen_in_training_is_named(tmp_path):
    write(tmp_path / "train.tsv", ROWS)
    write(tmp_path / "valid.tsv", [("pso", "x")])
    with pytest.raises(DataError, match=r"valid\.tsv:2: label 'pso' is not in the training data; did you mean 'pos'"):
        classification.build(Config(path=tmp_path))


def test_every_document_empty(tmp_path):
    write(tmp_path / "train.tsv", ROWS)
    write(tmp_path / "valid.tsv", [("pos", " ")])
    task = classification.build(Config(path=tmp_path))
    with pytest.raises(DataError, match="every document of valid is empty"):
        task.evaluate(hierarchical.build(hierarchical.TINY, task.spec), "valid", None)


def test_documents_with_several_labels(tmp_path):
    rows = [("joy|love", "I am so happy with you"), ("fear", "this is scary"), ("", "a chair"), ("joy", "happy day")]
    path = write(tmp_path / "a.tsv", [(label, f"{text} {i}") for i in range(20) for label, text in rows])
    task = classification.build(Config(path=path, separator="|", min_frequency=1))
    assert task.target_metric.metric == "f1" and task.label_names == ["fear", "joy", "love"] and task.spec.multi_label
    model = hierarchical.build(hierarchical.TINY, task.spec)
    train(task, model, epochs=12, lr=2e-2)
    scores = task.evaluate(model, "valid", None)
    assert scores["f1"] > 0.8 and {"f1_macro", "accuracy", "loss"} <= set(scores)
    (best, *ranked), (none, *_) = task.predict(model, ["I am so happy with you", "a chair"], Options(n=2), None)
    assert best.text in ("joy, love", "love, joy") and none.text == "none" and len(ranked) == 2
    assert "right.joy" in task.extra_metrics(model, "valid", None) and "f1_macro" in task.signatures()


def test_the_most_likely_label_comes_first(task, model):
    ((first, second),) = task.predict(model.eval(), ["a text"], Options(n=2), None)
    assert first.score >= second.score and {first.text, second.text} == set(task.label_names)
    assert np.exp(first.score) + np.exp(second.score) == pytest.approx(1)


def test_the_evidence_of_a_built_in_review_is_known(task, model):
    text = next(iter(task.documents["valid"])).text
    inspected = task.inspect(model.eval(), text, Options(), None)
    evidence = inspected.extra["document"]["deciding"]
    words = [text[start:stop] for start, stop in evidence["words"]]
    axis = inspected.axes[inspected.truth.keys]
    assert axis.title.startswith("words of sentence")
    linked = {word for word, _ in inspected.truth.links}
    assert [item.text for item in axis.items if item.word in linked] == [word.lower() for word in words]
    assert inspected.ablations["sentences"]().shape == (len(inspected.axes["sentences"].items), 1, 2)


def test_ablating_a_word_equals_a_text_without_it(task, model):
    model = model.eval()
    inspected = task.inspect(model, "one two three. four five", Options(), None)
    with torch.no_grad():
        ablated = inspected.ablations["words.0"]()[1]
        shorter = task.inspect(model, "one three. four five", Options(), None).replay()
    torch.testing.assert_close(ablated, shorter)


def test_the_flat_model_has_one_axis_of_words(task):
    model = flat_attention.build(flat_attention.TINY, task.spec).eval()
    inspected = task.inspect(model, "one two. three", Options(), None)
    assert set(inspected.axes) == {"label", "document"} and len(inspected.axes["document"].items) == 4


def test_a_run_folder_without_labels_is_an_error(task, tmp_path):
    task.save(tmp_path)
    assert classification.load(classification.TINY, tmp_path).label_names == task.label_names
    (tmp_path / "labels.json").write_text("{")
    with pytest.raises(CheckpointError, match=r"labels\.json: the label names cannot be read"):
        classification.load(classification.TINY, tmp_path)


def test_a_task_can_start_from_the_vocabulary_of_another_run(task, tmp_path):
    (tmp_path / "other").mkdir()
    task.save(tmp_path / "other")
    path = write(tmp_path / "a.tsv", ROWS)
    started = classification.build(Config(path=path), folder=tmp_path / "other")
    assert started.label_names == ["neg", "pos"] and started.tokenizer.vocab_size == task.tokenizer.vocab_size


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"batch_size": 0}, "batch_size=0 must be at least 1"),
        ({"max_length": 2}, "max_length=2 must be at least 3"),
        ({"smoothing": 1.0}, r"smoothing=1\.0 must be at least 0 and below 1"),
        ({"label": "y"}, r"label, text, header, valid and test describe files; give data\.path"),
    ],
)
def test_impossible_settings_are_errors(settings, message):
    with pytest.raises(ConfigError, match=message):
        Config(**settings)


@pytest.mark.parametrize(
    ("settings", "message"), [({"n": 0}, "n=0 must be at least 1"), ({"threshold": 1.0}, "between 0 and 1")]
)
def test_impossible_requests_are_errors(settings, message):
    with pytest.raises(ConfigError, match=message):
        Options(**settings)


def test_subwords_and_bytes(tmp_path):
    path = write(tmp_path / "a.tsv", ROWS)
    for level in ("bpe", "bytes", "char"):
        task = classification.build(Config(path=path, tokenizer=level, vocab_size=300))
        model = hierarchical.build(hierarchical.TINY, task.spec)
        assert 0 <= task.evaluate(model, "valid", None)["accuracy"] <= 1


def test_examples_are_stored_with_the_run(task, tmp_path):
    task.save(tmp_path)
    assert json.loads((tmp_path / "examples.json").read_text()) == list(task.examples) and len(task.examples) == 3


def test_changed_data_has_another_checksum(tmp_path):
    write(tmp_path / "train.tsv", ROWS)
    write(tmp_path / "valid.tsv", ROWS[:4])
    before = classification.build(Config(path=tmp_path)).fingerprint()
    write(tmp_path / "valid.tsv", ROWS[:5])
    after = classification.build(Config(path=tmp_path)).fingerprint()
    assert before["train"] == after["train"] and before["valid"] != after["valid"]


def test_predictions_have_log_probabilities():
    logits = torch.tensor([[1.0, 3.0, 2.0], [5.0, 1.0, 0.0]])
    predictions, others = to_predictions(logits, ["a", "b", "c"], top=3, threshold=None, remarks=[(), ("long",)])
    assert [prediction.text for prediction in predictions] == ["b", "c", "a"]
    assert [(prediction.text, prediction.remarks) for prediction in others] == [(name, ("long",)) for name in "abc"]
    assert sum(torch.tensor([prediction.score for prediction in predictions]).exp()) == pytest.approx(1)
    logits = torch.tensor([[1.0, -3.0, 2.0]])
    ((combined,),) = to_predictions(logits, ["a", "b", "c"], top=1, threshold=0.5, remarks=[()])
    assert combined.text == "c, a"


def test_predictions_of_many_documents_equal_those_of_each(task, model):
    texts = ["A zzz film. The qqq was good.", "Bad.", "Good. " * 200, "A film.<br />The end of it, and zzz again."]
    together = task.predict(model, texts, Options(n=2), None)
    for text, predictions in zip(texts, together, strict=True):
        (alone,) = task.predict(model, [text], Options(n=2), None)
        assert [(p.text, p.remarks, p.data) for p in predictions] == [(p.text, p.remarks, p.data) for p in alone]
        assert [p.score for p in predictions] == pytest.approx([p.score for p in alone], abs=1e-5)
    assert together[0][0].data["unknown_tokens"][:2] == ["zzz", "qqq"]
    assert "br" not in together[3][0].data["unknown_tokens"]  # a break belongs to no sentence


def test_uneven_labels_are_reported():
    warning = "uneven labels: 100 training documents are 'a', 5 are 'b'"
    assert imbalance_warnings(Counter({0: 100, 1: 5}), ["a", "b"]) == [warning]
    assert imbalance_warnings(Counter({0: 10, 1: 5}), ["a", "b"]) == imbalance_warnings(Counter(), []) == []
