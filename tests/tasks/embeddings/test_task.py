from dataclasses import replace

import numpy as np
import pytest
import torch

from regard.core.errors import ConfigError, DataError
from regard.data.text.word_vectors import read
from regard.models import skipgram
from regard.tasks import embeddings
from regard.tasks.embeddings import SALTS, Config, Options


def text(seed=0, sentences=400):
    """Cats and dogs stand with pets' words, cars and trains with others; "the" stands everywhere."""
    random = np.random.default_rng(seed)
    kinds = [("cat dog pet fur tail paw".split()), ("car train road wheel engine rail".split())]
    lines = []
    for _ in range(sentences):
        words = random.choice(kinds[int(random.integers(2))], 6)
        lines.append(" ".join(f"The {word}," if i % 2 else str(word) for i, word in enumerate(words)))
    return ".\n".join(lines)


@pytest.fixture(scope="module")
def config(tmp_path_factory):
    folder = tmp_path_factory.mktemp("text")
    for number, split in enumerate(("train", "valid", "test")):
        (folder / f"{split}.txt").write_text(text(number))
    return Config(paths=(str(folder),), min_frequency=2, length=9, batch_size=64, sample=0.05, window=3)


@pytest.fixture(scope="module")
def task(config):
    return embeddings.build(config)


@pytest.fixture(scope="module")
def model(task):
    torch.manual_seed(0)
    trained = skipgram.build(skipgram.Config(dim=16), task.sizes)
    optimizer = torch.optim.Adam(trained.parameters(), lr=0.02)
    for epoch in range(25):
        for examples in task.plan(epoch, 1):
            loss = task.loss(trained, task.batch(examples))
            optimizer.zero_grad()
            (loss.total / loss.count).backward()
            optimizer.step()
    return trained


def test_words_are_the_same_wherever_they_stand(task):
    assert sorted(task.words()[4:]) == sorted("the cat dog pet fur tail paw car train road wheel engine rail".split())
    assert task.words()[:4] == [""] * 4
    decoded = task.tokenizer.decode([task.stream("train").tokens[:6].tolist()])[0]
    assert decoded == " ".join(text().replace(",", "").lower().replace(".", "").split()[:6])


def test_a_batch_is_thinned_rows_with_reaches_and_others(task):
    rows, reach, others = task.batch(np.arange(200) * 9 * SALTS + 5)
    assert rows.shape == reach.shape and rows.shape[1] <= 9 and others.shape == (200, 16)
    assert ((rows == 0) == (reach == 0)).all() and int(reach.max()) == 3
    assert int(others.min()) >= 4 and int(others.max()) < task.sizes.size
    frequent = task.words().index("the")
    raw = (task.stream("train").tokens == frequent).mean()
    assert float((rows[rows > 0] == frequent).float().mean()) < 0.8 * raw
    again = task.batch(np.arange(200) * 9 * SALTS + 5)
    assert all(torch.equal(one, other) for one, other in zip((rows, reach, others), again, strict=True))


def test_it_learns_and_alike_words_are_near(task, model):
    torch.manual_seed(0)
    fresh = task.evaluate(skipgram.build(skipgram.Config(dim=16), task.sizes), "valid", None)
    scores = task.evaluate(model, "valid", None)
    assert scores["loss"] < fresh["loss"] and scores == task.evaluate(model, "valid", None)
    answers = task.answer(model, ["cat", "Train"], Options(n=5), None)
    assert {answer.text for answer in answers[0]} == set("dog pet fur tail paw".split())
    assert "cat" not in {answer.text for answer in answers[1]}
    assert set(task.signatures()) >= set(scores)


def test_every_answer_can_be_written_as_a_file_of_all_vectors(task, model, tmp_path):
    (answers,) = task.answer(model, ["cat - dog + car"], Options(n=2), None)
    assert len(answers) == 2
    for suffix in (".vec", ".bin"):
        path = tmp_path / f"words{suffix}"
        path.write_bytes(answers[0].render(suffix))
        found = read(path)
        assert found.words == task.words()[4:]
        np.testing.assert_allclose(found.matrix, model.vectors.weight.detach().numpy()[4:], rtol=1e-4, atol=1e-6)


def test_what_is_shown_are_the_answers(task, model):
    shown = task.show(model, "cat", Options(n=4), None)
    assert [output.text for output in shown.outputs] == [
        a.text for a in task.answer(model, ["cat"], Options(n=4), None)[0]
    ]


def test_it_is_saved_and_loaded_without_the_text(task, config, model, tmp_path):
    task.save(tmp_path)
    again = embeddings.build(replace(config, paths=("nowhere",)), tmp_path)
    assert again.spec == task.sizes and again.examples == task.examples and task.examples
    assert (
        again.predict(model, ["cat"], Options(), None)[0][0].text
        == task.answer(model, ["cat"], Options(), None)[0][0].text
    )


def test_the_overview_says_how_much_is_left_out(task):
    counts, first = task.overview()
    assert counts.startswith("words: train 3,600, ") and first.startswith("first words: ")
    assert "; a vocabulary of 13 different words; 0.0% are too rare for a vector (data.min_frequency=2)" in counts


def test_the_first_words_are_those_of_the_text(config, tmp_path):
    """Rare words too: with a mark in their place a text looks as if it were read in a wrong encoding."""
    path = tmp_path / "rare.txt"
    path.write_text("그리고 the " + "the cat sat on the mat\n" * 300)
    assert (
        embeddings.build(replace(config, paths=(path,))).data_summary()[1].startswith("first words: 그리고 the the cat")
    )


def test_missing_or_short_text_is_one_clear_line(task, config, tmp_path):
    with pytest.raises(DataError, match="the text has no split 'valld'; did you mean 'valid'"):
        task.stream("valld")
    (tmp_path / "train.txt").write_text(text())
    (tmp_path / "valid.txt").write_text("the cat")
    short = embeddings.build(replace(config, paths=(str(tmp_path),)))
    with pytest.raises(DataError, match=r"2 words in the split 'valid', fewer than data.length=9; give more"):
        short.stream("valid")
    (tmp_path / "train.txt").write_text("all words are different here")
    with pytest.raises(
        DataError, match=r"no word of the text is seen 2 times; give more text or a smaller data.min_frequency"
    ):
        embeddings.build(replace(config, paths=(str(tmp_path),)))


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({name: 0}, f"{name}=0 must be at least 1")
        for name in ("vocabulary", "minimum", "window", "negatives", "drawn", "rows", "evaluated")
    ]
    + [({"length": 1}, "length=1 must be at least 2 words"), ({"sample": 0.0}, "sample=0.0 must be more than 0")],
)
def test_wrong_settings_are_refused(change, words):
    with pytest.raises(ConfigError, match=words):
        Config(**change)


def test_at_least_one_word_is_asked_for():
    with pytest.raises(ConfigError, match="top=0: ask for at least one"):
        Options(n=0)
