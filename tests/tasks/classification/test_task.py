import json

import numpy as np
import pytest
import torch

from regard.core.errors import CheckpointError, ConfigError, DataError
from regard.models import flat_attention, hierarchical
from regard.tasks import classification
from regard.tasks.classification import Config, Options


def write(path, rows):
    path.write_text("label\ttext\n" + "".join(f"{label}\t{text}\n" for label, text in rows), encoding="utf-8")
    return path


ROWS = [("pos", f"a good film number {i}. I liked it.") for i in range(40)]
ROWS += [("neg", f"a bad film number {i}. I hated it!") for i in range(40)]


@pytest.fixture(scope="module")
def task():
    return classification.build(classification.TINY)


@pytest.fixture
def model(task):
    return hierarchical.build(hierarchical.TINY, task.sizes)


def test_built_in_reviews_are_learnt_and_attention_finds_what_decides():
    task = classification.build(Config(examples=1500, batch_size=16))
    torch.manual_seed(1)
    model = hierarchical.build(hierarchical.Config(), task.spec)
    optimizer = torch.optim.Adam(model.parameters(), lr=4e-3)
    for epoch in range(5):
        for numbers in task.epoch_batches(epoch, 1):
            loss = task.loss(model, task.collate(numbers))
            optimizer.zero_grad()
            (loss.total / loss.count).backward()
            optimizer.step()
    assert task.evaluate(model, "valid", None)["accuracy"] > 0.95
    report = task.extra_metrics(model, "valid", None)
    assert report["deciding_sentence"] > 0.7 and report["deciding_words"] > 0.4  # a short training
    assert sum(value for name, value in report.items() if name.startswith("confusion.")) == 500


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
        task.read(" \n ")
    (tmp_path / "review.txt").write_text("One.\nTwo.\n")
    assert task.read(str(tmp_path / "review.txt")) == "One.\nTwo.\n"
    with pytest.raises(DataError, match=r"^reviw.txt: no such file; write a text that ends like one with a space"):
        task.read("reviw.txt")
    for text in ("I read it in review.txt", " reviw.txt", "one\nreviw.txt"):
        assert task.read(text) == text


def test_one_sentence_of_ten_thousand_words(task, model):
    long = "word " * 10_000
    ((answer,),) = task.answer(model.eval(), [long], Options(), None)
    assert answer.text in task.names
    assert answer.remarks == ("only the first 2998 of 10000 tokens are read",)
    given = task.batch(task.plan(0, 1)[0]).documents
    assert given.tokens.shape[1] <= task.sizes.sentence


def test_emoji_and_decomposed_hangul_keep_their_places(task, model):
    text = "👩‍👩‍👧 좋다! 정말 좋았다. \u110b\u1167\u11bc\u1112\u116a 😀."
    shown = task.show(model.eval(), text, Options(), None)
    for name, axis in shown.axes.items():
        if name.startswith(("words.", "sentences")):
            for item in axis.items:
                start, stop = item.span
                assert 0 <= start < stop <= len(text)
    assert shown.axes["words.2"].parent == ("sentences", 2)


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


def test_several_labels(tmp_path):
    rows = [("joy|love", "I am so happy with you"), ("fear", "this is scary"), ("", "a chair"), ("joy", "happy day")]
    path = write(tmp_path / "a.tsv", [(label, f"{text} {i}") for i in range(20) for label, text in rows])
    task = classification.build(Config(path=path, separator="|", min_frequency=1))
    assert task.target_metric.metric == "f1" and task.label_names == ["fear", "joy", "love"] and task.spec.several
    model = hierarchical.build(hierarchical.TINY, task.spec)
    optimizer = torch.optim.Adam(model.parameters(), lr=2e-2)
    for epoch in range(12):
        for numbers in task.epoch_batches(epoch, 1):
            loss = task.loss(model, task.collate(numbers))
            optimizer.zero_grad()
            (loss.total / loss.count).backward()
            optimizer.step()
    scores = task.evaluate(model, "valid", None)
    assert scores["f1"] > 0.8 and {"f1_macro", "accuracy", "loss"} <= set(scores)
    (best, *others), (none, *_) = task.predict(model, ["I am so happy with you", "a chair"], Options(n=2), None)
    assert best.text in ("joy, love", "love, joy") and none.text == "none" and len(others) == 2
    assert "right.joy" in task.extra_metrics(model, "valid", None) and "f1_macro" in task.signatures()


def test_labels_come_likeliest_first(task, model):
    ((first, second),) = task.answer(model.eval(), ["a text"], Options(n=2), None)
    assert first.score >= second.score and {first.text, second.text} == set(task.names)
    assert np.exp(first.score) + np.exp(second.score) == pytest.approx(1)


def test_what_is_shown_of_a_built_in_review(task, model):
    text = next(iter(task.documents["valid"])).text
    shown = task.show(model.eval(), text, Options(), None)
    deciding = shown.extra["document"]["deciding"]
    words = [text[a:b] for a, b in deciding["words"]]
    axis = shown.axes[shown.truth.keys]
    assert axis.title.startswith("words of sentence")
    linked = {word for word, _ in shown.truth.links}
    assert [item.text for item in axis.items if item.word in linked] == [word.lower() for word in words]
    assert shown.without["sentences"]().shape == (len(shown.axes["sentences"].items), 1, 2)


def test_a_removed_word_is_a_text_without_it(task, model):
    model = model.eval()
    shown = task.show(model, "one two three. four five", Options(), None)
    with torch.no_grad():
        less = shown.without["words.0"]()[1]
        other = task.show(model, "one three. four five", Options(), None).replay()
    torch.testing.assert_close(less, other)


def test_the_flat_model_has_one_axis_of_words(task):
    model = flat_attention.build(flat_attention.TINY, task.sizes).eval()
    shown = task.show(model, "one two. three", Options(), None)
    assert set(shown.axes) == {"label", "document"} and len(shown.axes["document"].items) == 4


def test_a_run_folder_without_labels_is_an_error(task, tmp_path):
    task.save(tmp_path)
    assert classification.load(classification.TINY, tmp_path).label_names == task.names
    (tmp_path / "labels.json").write_text("{")
    with pytest.raises(CheckpointError, match=r"labels\.json: the names of the labels cannot be read"):
        classification.load(classification.TINY, tmp_path)


def test_the_vocabulary_of_another_run_is_taken_over(task, tmp_path):
    (tmp_path / "other").mkdir()
    task.save(tmp_path / "other")
    path = write(tmp_path / "a.tsv", ROWS)
    started = classification.build(Config(path=path), folder=tmp_path / "other")
    assert started.label_names == ["neg", "pos"] and started.tokenizer.vocab_size == task.tokenizer.size


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"rows": 0}, "rows=0 must be at least 1"),
        ({"longest": 2}, "longest=2 must be at least 3"),
        ({"smoothing": 1.0}, r"smoothing=1\.0 must be at least 0 and below 1"),
        ({"label": "y"}, r"label, text, header, valid and test describe files; give data\.path"),
    ],
)
def test_settings_that_cannot_be(settings, message):
    with pytest.raises(ConfigError, match=message):
        Config(**settings)


@pytest.mark.parametrize(
    ("settings", "message"), [({"top": 0}, "ask for at least one"), ({"threshold": 1.0}, "between")]
)
def test_requests_that_cannot_be(settings, message):
    with pytest.raises(ConfigError, match=message):
        Options(**settings)


def test_subwords_and_bytes(tmp_path):
    path = write(tmp_path / "a.tsv", ROWS)
    for level in ("bpe", "bytes", "char"):
        task = classification.build(Config(path=path, tokenizer=level, vocab_size=300))
        model = hierarchical.build(hierarchical.TINY, task.spec)
        assert 0 <= task.evaluate(model, "valid", None)["accuracy"] <= 1


def test_examples_are_kept_with_the_run(task, tmp_path):
    task.save(tmp_path)
    assert json.loads((tmp_path / "examples.json").read_text()) == list(task.examples) and len(task.examples) == 3


def test_changed_data_has_another_checksum(tmp_path):
    write(tmp_path / "train.tsv", ROWS)
    write(tmp_path / "valid.tsv", ROWS[:4])
    before = classification.build(Config(path=tmp_path)).fingerprint()
    write(tmp_path / "valid.tsv", ROWS[:5])
    after = classification.build(Config(path=tmp_path)).fingerprint()
    assert before["train"] == after["train"] and before["valid"] != after["valid"]
