"""What is shown of a translation: axes that fit its maps, items that know their place, and honest ways to run again."""

from dataclasses import replace

import pytest
import torch

from regard.attention.record import record
from regard.core.errors import DataError
from regard.core.protocols import Padded
from regard.decoding.strategy import build
from regard.models import bahdanau, seq2seq, transformer
from regard.tasks import translation
from regard.tasks.translation import Config, Options

TEXT = "Minsu  did not drink coffee yesterday."


@pytest.fixture(scope="module")
def task():
    return translation.build(Config(pairs=300, vocab_size=400))


@pytest.fixture(scope="module", params=[transformer, bahdanau, seq2seq], ids=lambda m: m.__name__.split(".")[-1])
def model(task, request):
    torch.manual_seed(0)
    return request.param.build(request.param.TINY, task.sizes).eval()


@pytest.fixture
def shown(task, model):
    return task.show(model, TEXT, Options(n=3), build("greedy"))


def test_source_items_know_word_and_span(shown):
    *items, end = shown.axes["source"].items
    assert end == ("<end>", None, None, None, None, None, True)
    for item in items:
        first, last = item.span
        assert TEXT[first:last] == item.text
        assert item.text.strip() in TEXT.split()[item.word]


def test_output_items_are_what_was_said(shown):
    text = shown.outputs[0].text
    *items, end = shown.axes["output"].items
    assert end.special and len(items) + 1 == len(shown.chosen)
    for item in items:
        assert text[slice(*item.span)].strip() == item.text.strip() and not item.special
    words = [item.word for item in items]
    assert words == sorted(words) and max(words) == len(text.split()) - 1
    start, *read = shown.axes["read"].items
    assert start.special and start.text == "<start>" and read == items


def test_outputs_are_the_best_with_their_tokens(shown):
    assert len(shown.outputs) == 3
    ranks = [output.rank for output in shown.outputs[1:]]  # the first is the one without asking for more
    assert ranks == sorted(ranks, reverse=True)
    for output in shown.outputs:
        assert sum(token.score for token in output.tokens) == pytest.approx(output.score, abs=1e-3)
        for token in output.tokens:
            scores = [score for _, score in token.alternatives]
            assert len(scores) == 5 and scores == sorted(scores, reverse=True) and token.score <= scores[0]
    assert [token.text for token in shown.outputs[0].tokens] == list(shown.axes[shown.answered].labels)


@torch.no_grad()
def test_the_replay_gives_what_was_said(shown):
    scores = shown.replay().log_softmax(-1)
    chosen = scores.gather(1, shown.chosen[:, None])[:, 0]
    assert chosen.tolist() == pytest.approx([token.score for token in shown.outputs[0].tokens], abs=1e-4)


def test_axes_fit_the_maps(shown, model):
    if isinstance(model, seq2seq.Seq2Seq):
        pytest.skip("it has no attention")
    with torch.no_grad(), record(model) as maps:
        shown.replay()
    for found in maps.values():
        (rows,), (columns,) = shown.rows[found.queries], shown.columns[found.keys]
        size = len(shown.axes[rows.axis].items), len(shown.axes[columns.axis].items)
        assert tuple(found.weights.shape[2:]) == size


@torch.no_grad()
def test_what_is_taken_away_changes_what_comes_after_it_alone(shown, model, task):
    usual = shown.replay()
    source, read = (shown.without[axis]() for axis in ("source", "read"))
    assert source.shape == (len(shown.axes["source"].items), *usual.shape)
    assert read.shape == (len(shown.axes["read"].items), *usual.shape)
    for place, logits in enumerate(read):
        torch.testing.assert_close(logits[:place], usual[:place], atol=1e-4, rtol=1e-4)
        assert not torch.allclose(logits[place], usual[place])
    tokens = shown.inputs["source"][0].tolist()
    short = torch.tensor([tokens[1:]])
    alone = model(shown.inputs["read"], model.start(Padded(short, torch.tensor([len(short[0])]))))
    torch.testing.assert_close(source[0], alone[0][0], atol=1e-4, rtol=1e-4)


@torch.no_grad()
def test_a_source_of_one_token_keeps_it(task, model):
    lone = task.show(model, TEXT, Options(), build("greedy"))
    replay = replace(lone.replay, source=Padded(torch.tensor([[3]]), torch.tensor([1])))
    torch.testing.assert_close(replay.without_source()[0], replay())


def test_inputs_are_what_enters_the_model(shown):
    assert set(shown.inputs) == {axis.input for axis in shown.axes.values() if axis.input}
    for axis in shown.axes.values():
        if axis.input:
            assert shown.inputs[axis.input].shape == (1, len(axis.items))


def test_vocabularies_hold_the_example_first(shown, task):
    for vocabulary, tokenizer in zip(shown.vocabularies, task.vocabularies, strict=True):
        assert vocabulary.size == tokenizer.size and len(vocabulary.tokens) == len(set(vocabulary.tokens)) <= 120
        assert vocabulary.labels == tuple(map(tokenizer.name, vocabulary.tokens)) and min(vocabulary.tokens) > 3
    assert set(shown.vocabularies[0].tokens) >= set(shown.inputs["source"][0].tolist()) - {3}


def test_the_truth_is_shown_where_the_output_is_right(task, model, monkeypatch):
    source, target = task.split("test")[0]
    found = task.show(model, source, Options(), build("greedy"))
    assert found.truth is None and found.views == ("alignment",) and found.title == source
    (row,) = task.vocabularies.target.encode([target])
    right = build("greedy").__class__.__call__

    def told(self, *given, **how):
        ((best,),) = right(self, *given, **how)
        return [[best._replace(tokens=tuple(row))]]

    monkeypatch.setattr("regard.decoding.Decoding.__call__", told)
    truth = task.show(model, source, Options(), build("greedy")).truth
    assert (truth.queries, truth.keys) == ("output", "source")
    assert {word for _, word in truth.links} == set(range(len(target.split())))


def test_nothing_to_look_at(task, model):
    with pytest.raises(DataError, match=r"^there is no sentence to look at; give some text$"):
        task.show(model, " ", Options(), build("greedy"))


@pytest.mark.parametrize("own", ["greedy", "beam"])
def test_asking_for_more_does_not_change_the_first(own):
    """A wider beam may find better ones; what was answered without it stays first, and nothing comes twice."""
    task = translation.build(replace(translation.TINY, pairs=40))
    torch.manual_seed(0)
    model = bahdanau.build(bahdanau.TINY, task.spec).eval()
    decoding = build(own) if own == "greedy" else build("beam", width=2)
    texts = ["The nurse is reading.", "The cook reads a book."]
    for count in (2, 7):
        more = task.predict(model, texts, Options(n=count), decoding)
        for alone, several in zip(task.predict(model, texts, Options(), decoding), more, strict=True):
            assert several[0].text == alone[0].text and len(several) <= count
            ranks = [answer.rank for answer in several[1:]]
            assert ranks == sorted(ranks, reverse=True)
