import math

import numpy as np
import pytest
import torch

from regard.core.errors import ConfigError, DataError
from regard.data.text.plain_text import PlainTextSource
from regard.decoding import strategy
from regard.inspection import invariants
from regard.models import gpt
from regard.tasks import language
from regard.tasks.language import Config, Options

TEXT = "the cat sat on the mat and the dog sat on the cat\n" * 30
SAMPLE = strategy.build("sample", temperature=0.8)


class Numbered(strategy.DecodingStrategy):
    """Inputs of three requests: two, one and one."""

    def sample_indices(self, count):
        assert count == 4
        return [0, 1, 0, 0]


@pytest.fixture(scope="module")
def task(tmp_path_factory):
    folder = tmp_path_factory.mktemp("text")
    for split in ("train", "valid", "test"):
        (folder / f"{split}.txt").write_text(TEXT)
    return language.build(Config(paths=(str(folder),), tokenizer="char", context=16, batch_size=4))


@pytest.fixture(scope="module")
def model(task):
    torch.manual_seed(0)
    return gpt.build(gpt.Config(layers=2, dim=32, heads=2), task.sizes)


def train(task, model, steps):
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    for _, examples in zip(range(steps), (b for epoch in range(99) for b in task.plan(epoch, 1)), strict=False):
        loss = task.loss(model, task.batch(examples))
        optimizer.zero_grad()
        (loss.total / loss.count).backward()
        optimizer.step()


def test_a_batch_is_crops_behind_a_start_mark(task):
    batch = task.batch(np.array([0, 5]))
    assert batch.read.shape == batch.following.shape == (2, 16)
    assert (batch.read[:, 0] == task.marks.start).all()
    assert torch.equal(batch.read[:, 1:], batch.following[:, :-1])
    assert task.tokenizer.decode(batch.following[1:].tolist()) == [TEXT[5:21]]


def test_the_loss_is_the_mean_over_the_crops(task, model):
    loss = task.loss(model, task.batch(np.array([0, 5])))
    assert loss.count == 32
    one, other = (task.loss(model, task.batch(np.array([place]))).total for place in (0, 5))
    torch.testing.assert_close(loss.total, one + other)


def test_it_learns_and_bits_follow_from_nats(task, model):
    before = task.evaluate(model, "valid", None)
    train(task, model, 120)
    scores = task.evaluate(model, "valid", None)
    assert scores["nats"] < before["nats"] / 2
    assert scores["bits_per_character"] == pytest.approx(scores["nats"] / math.log(2))
    assert scores["perplexity"] == pytest.approx(math.exp(scores["nats"]))
    assert "sliding window: windows of 16 tokens" in task.signatures()["nats"]


def test_only_so_many_tokens_are_scored(task, model):
    short = language.Language(Config(**{**vars(task.config), "evaluated": 20}), task.tokenizer)
    assert short.evaluate(model, "valid", None)["nats"] > 0


def test_texts_go_on_and_are_ranked_by_their_score(task, model):
    several, nothing = task.answer(model, ["the cat", ""], Options(tokens=40, n=3), SAMPLE)
    assert len(several) == len(nothing) == 3
    assert all(answer.text.startswith("the cat") and len(answer.text) <= 47 for answer in several)
    assert [answer.score for answer in several] == sorted((answer.score for answer in several), reverse=True)


def test_the_same_seed_gives_the_same_text_and_another_another(task, model):
    texts = [task.answer(model, ["the"], Options(tokens=30, seed=seed), SAMPLE)[0][0].text for seed in (1, 1, 2)]
    assert texts[0] == texts[1] != texts[2]


def test_requests_that_draw_get_together_what_each_gets_alone(task, model):
    asked, options = [["the cat", "the"], ["the dog"], ["the"]], Options(tokens=20, seed=3, n=2)
    alone = [answer.text for inputs in asked for some in task.answer(model, inputs, options, SAMPLE) for answer in some]
    flat = [text for inputs in asked for text in inputs]
    together = Numbered(SAMPLE.name, SAMPLE.config)
    found = [answer.text for some in task.answer(model, flat, options, together) for answer in some]
    assert task.numbered and found == alone
    assert [answer.text for some in task.answer(model, flat, options, SAMPLE) for answer in some] != alone


def test_a_prompt_may_be_an_option_but_not_twice(task, model):
    ((answer,),) = task.answer(model, [""], Options(tokens=5, prompt="the dog"), SAMPLE)
    assert answer.text.startswith("the dog")
    with pytest.raises(ConfigError, match="a text to go on from is given twice; give it as input or as prompt="):
        task.answer(model, ["the"], Options(prompt="the dog"), SAMPLE)


def test_what_was_given_stays_as_it_was_given(task, model):
    ((answer,),) = task.answer(model, ["THE cat 🎬"], Options(tokens=4, n=1), SAMPLE)
    assert answer.text.startswith("THE cat 🎬")
    assert answer.remarks == ("4 of the 9 tokens given are unknown to the model",)


def test_a_decoder_without_such_settings_is_replaced_by_sampling(task, model):
    greedy = strategy.build("greedy")
    assert Options().resolve_strategy(greedy) == greedy
    assert Options(temperature=0.5).resolve_strategy(greedy) == strategy.build("sample", temperature=0.5)


def test_a_text_longer_than_the_context_is_shown_by_its_end(task, model):
    shown = task.show(model, TEXT[:100], Options(), SAMPLE)
    assert len(shown.chosen) <= 16
    assert shown.title and TEXT[:100].endswith(shown.title)
    assert shown.outputs[0].text.startswith(shown.title)


def test_what_is_shown_keeps_the_laws(task, model):
    assert [verdict for verdict in invariants.check(task, model, SAMPLE) if not verdict.passed] == []


def test_it_is_saved_and_loaded_without_the_text(task, model, tmp_path):
    task.save(tmp_path)
    config = Config(**{**vars(task.config), "paths": ("nowhere",)})
    again = language.build(config, tmp_path)
    assert again.examples == task.examples and again.spec == task.sizes
    one, other = (each.predict(model, ["the"], Options(tokens=9), SAMPLE) for each in (task, again))
    assert one[0][0].text == other[0][0].text
    with pytest.raises(DataError, match="nowhere: no such file or folder"):
        again.epoch_batches(0, 1)


def test_a_text_shorter_than_the_context_is_refused(task, tmp_path):
    (tmp_path / "x.txt").write_text("too short")
    config = Config(paths=(str(tmp_path / "x.txt"),), tokenizer="char", context=64)
    with pytest.raises(DataError, match=r"the training text has 8 tokens, fewer than data.context=64"):
        language.build(config).epoch_batches(0, 1)


def test_the_overview_says_how_much_text_there_is(task):
    counts = task.overview()[0]
    assert counts.startswith("tokens: train 1,500, ") and "; 1,500 characters of training text; a vocabulary" in counts


@pytest.mark.parametrize("name", ["vocabulary", "minimum", "rows", "evaluated"])
def test_nothing_to_count_is_refused(name):
    with pytest.raises(ConfigError, match=f"{name}=0 must be at least 1"):
        Config(**{name: 0})


def test_other_wrong_settings_are_refused():
    with pytest.raises(ConfigError, match="context=3 must be at least 4 tokens"):
        Config(context=3)
    with pytest.raises(ConfigError, match="tokens=0: ask for at least one"):
        Options(tokens=0)


def test_the_default_is_the_documentation_inside_python():
    assert Config().data_source == PlainTextSource((), "python")


def test_a_changed_text_has_another_fingerprint(task, tmp_path):
    for split in ("train", "valid"):
        (tmp_path / f"{split}.txt").write_text(TEXT)
    config = Config(paths=(str(tmp_path),), tokenizer="char", context=16)
    same = language.Language(config, task.tokenizer).fingerprint()
    assert same["train"] == task.fingerprint()["train"]
    (tmp_path / "train.txt").write_text(TEXT + "!")
    other = language.Language(config, task.tokenizer).fingerprint()
    assert other["train"] != same["train"] and other["valid"] == same["valid"]


def test_words_are_the_texts_of_tokens(task):
    assert task.words()[:4] == [""] * 4 and "t" in task.words() and len(task.words()) == task.sizes.size


def test_at_temperature_zero_the_likeliest_token_comes_every_time(task, model, tmp_path):
    cold = task.answer(model, ["the "], Options(tokens=20, temperature=0), SAMPLE)
    greedy = task.answer(model, ["the "], Options(tokens=20), strategy.build("greedy"))
    assert cold[0][0].text == greedy[0][0].text
    with pytest.raises(ConfigError, match="samples=3: at temperature=0 all would be the same; ask for one"):
        Options(temperature=0, n=3)
    assert cold[0][0].save(tmp_path / "x.txt").read_text() == cold[0][0].text + "\n"


def test_who_reads_along_reads_the_answer_as_far_as_it_is(task, model):
    (answer,) = task.answer(model, ["the €"], Options(tokens=8), strategy.build("greedy"))[0]
    told = [task.so_far("the €", Options(), answer.value[:length]) for length in range(9)]
    assert told[0] == "the €" and told[-1] == answer.text and all(answer.text.startswith(each) for each in told)
