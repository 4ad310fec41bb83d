from dataclasses import replace

import numpy as np
import pytest
import torch

from regard.core.errors import ConfigError, DataError
from regard.data.text.word_vectors import read
from regard.models import skipgram
from regard.tasks import embeddings
from regard.tasks.embeddings import Config, Options
from regard.tasks.embeddings.task import SALTS_PER_POSITION


def text(seed=0, sentences=400):
    """Return a text where pet words and vehicle words occur in different sentences, and "the" in all."""
    random = np.random.default_rng(seed)
    topics = [("cat dog pet fur tail paw".split()), ("car train road wheel engine rail".split())]
    lines = []
    for _ in range(sentences):
        words = random.choice(topics[int(random.integers(2))], 6)
        lines.append(" ".join(f"The {word}," if i % 2 else str(word) for i, word in enumerate(words)))
    return ".\n".join(lines)


@pytest.fixture(scope="module")
def config(tmp_path_factory):
    folder = tmp_path_factory.mktemp("text")
    for seed, split in enumerate(("train", "valid", "test")):
        (folder / f"{split}.txt").write_text(text(seed))
    return Config(paths=(str(folder),), min_frequency=2, length=9, batch_size=64, sample=0.05, window=3)


@pytest.fixture(scope="module")
def task(config):
    return embeddings.build(config)


@pytest.fixture(scope="module")
def model(task):
    torch.manual_seed(0)
    trained = skipgram.build(skipgram.Config(dim=16), task.spec)
    optimizer = torch.optim.Adam(trained.parameters(), lr=0.02)
    for epoch in range(25):
        for examples in task.epoch_batches(epoch, 1):
            loss = task.loss(trained, task.collate(examples))
            optimizer.zero_grad()
            (loss.total / loss.count).backward()
            optimizer.step()
    return trained


def test_words_are_the_same_token_at_every_position(task):
    assert sorted(task.token_texts()[4:]) == sorted(
        "the cat dog pet fur tail paw car train road wheel engine rail".split()
    )
    assert task.token_texts()[:4] == [""] * 4
    decoded = task.tokenizer.decode([task.stream("train").tokens[:6].tolist()])[0]
    assert decoded == " ".join(text().replace(",", "").lower().replace(".", "").split()[:6])


def test_a_batch_has_subsampled_rows_windows_and_noise_words(task):
    rows, windows, noise = task.collate(np.arange(200) * 9 * SALTS_PER_POSITION + 5)
    assert rows.shape == windows.shape and rows.shape[1] <= 9 and noise.shape == (200, 16)
    assert ((rows == 0) == (windows == 0)).all() and int(windows.max()) == 3
    assert int(noise.min()) >= 4 and int(noise.max()) < task.spec.vocab_size
    frequent = task.token_texts().index("the")
    raw_share = (task.stream("train").tokens == frequent).mean()
    assert float((rows[rows > 0] == frequent).float().mean()) < 0.8 * raw_share
    repeated = task.collate(np.arange(200) * 9 * SALTS_PER_POSITION + 5)
    assert all(torch.equal(a, b) for a, b in zip((rows, windows, noise), repeated, strict=True))


def test_it_learns_and_similar_words_are_near(task, model):
    torch.manual_seed(0)
    untrained = task.evaluate(skipgram.build(skipgram.Config(dim=16), task.spec), "valid", None)
    scores = task.evaluate(model, "valid", None)
    assert scores["loss"] < untrained["loss"] and scores == task.evaluate(model, "valid", None)
    answers = task.predict(model, ["cat", "Train"], Options(n=5), None)
    assert {answer.text for answer in answers[0]} == set("dog pet fur tail paw".split())
    assert "cat" not in {answer.text for answer in answers[1]}
    assert set(task.signatures()) >= set(scores)


def test_every_prediction_can_be_saved_as_a_file_of_all_vectors(task, model, tmp_path):
    (answers,) = task.predict(model, ["cat - dog + car"], Options(n=2), None)
    assert len(answers) == 2
    for suffix in (".vec", ".bin"):
        path = tmp_path / f"words{suffix}"
        path.write_bytes(answers[0].render(suffix))
        vectors = read(path)
        assert vectors.words == task.token_texts()[4:]
        np.testing.assert_allclose(vectors.matrix, model.vectors.weight.detach().numpy()[4:], rtol=1e-4, atol=1e-6)


def test_the_inspection_shows_the_predictions(task, model):
    inspectable = task.inspect(model, "cat", Options(n=4), None)
    assert [output.text for output in inspectable.outputs] == [
        item.text for item in task.predict(model, ["cat"], Options(n=4), None)[0]
    ]


def test_it_is_saved_and_loaded_without_the_text(task, config, model, tmp_path):
    task.save(tmp_path)
    loaded = embeddings.build(replace(config, paths=("nowhere",)), tmp_path)
    assert loaded.spec == task.spec and loaded.examples == task.examples and task.examples
    assert (
        loaded.predict(model, ["cat"], Options(), None)[0][0].text
        == task.predict(model, ["cat"], Options(), None)[0][0].text
    )


def test_the_data_summary_counts_rare_words(task):
    counts, first = task.data_summary()
    assert counts.startswith("words: train 3,600, ") and first.startswith("first words: ")
    assert "; a vocabulary of 13 different words; 0.0% are too rare for a vector (data.min_frequency=2)" in counts


def test_the_first_words_are_those_of_the_text(config, tmp_path):
    """Rare words too: with UNK in their place a text would look wrongly decoded."""
    path = tmp_path / "rare.txt"
    path.write_text("그리고 the " + "the cat sat on the mat\n" * 300)
    assert (
        embeddings.build(replace(config, paths=(path,))).data_summary()[1].startswith("first words: 그리고 the the cat")
    )


def test_missing_or_short_text_is_refused(task, config, tmp_path):
    with pytest.raises(DataError, match="the text has no split 'valld'; did you mean 'valid'"):
        task.stream("valld")
    (tmp_path / "train.txt").write_text(text())
    (tmp_path / "valid.txt").write_text("the cat")
    short = embeddings.build(replace(config, paths=(str(tmp_path),)))
    with pytest.raises(DataError, match=r"2 words in the split 'valid', fewer than data.length=9; give more"):
        short.stream("valid")
    (tmp_path / "train.txt").write_text("all words are different here")
    with pytest.raises(
        DataError, match=r"no word occurs 2 times in the text; give more text or a smaller data.min_frequency"
    ):
        embeddings.build(replace(config, paths=(str(tmp_path),)))


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({name: 0}, f"{name}=0 must be at least 1")
        for name in (
            "vocab_size",
            "min_frequency",
            "window",
            "negatives",
            "shared_negatives",
            "batch_size",
            "eval_tokens",
        )
    ]
    + [({"length": 1}, "length=1 must be at least 2 words"), ({"sample": 0.0}, "sample=0.0 must be greater than 0")],
)
def test_invalid_settings_are_refused(settings, message):
    with pytest.raises(ConfigError, match=message):
        Config(**settings)


def test_at_least_one_word_is_requested():
    with pytest.raises(ConfigError, match="n=0 must be at least 1"):
        Options(n=0)
