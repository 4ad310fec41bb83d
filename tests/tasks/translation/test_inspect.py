"""Inspection of a translation: axes that fit its attention maps, items with positions, and replays of the model."""

from dataclasses import replace

import pytest
import torch

from regard.attention.record import record
from regard.core.errors import DataError
from regard.core.protocols import Padded
from regard.decoding.strategy import DecodingStrategy, build
from regard.models import bahdanau, seq2seq, transformer
from regard.tasks import translation
from regard.tasks._shared.tokens import token_name
from regard.tasks.translation import Config, Options

TEXT = "Minsu  did not drink coffee yesterday."


@pytest.fixture(scope="module")
def task():
    return translation.build(Config(pairs=300, vocab_size=400))


@pytest.fixture(scope="module", params=[transformer, bahdanau, seq2seq], ids=lambda m: m.__name__.split(".")[-1])
def model(task, request):
    torch.manual_seed(0)
    return request.param.build(request.param.TINY, task.spec).eval()


@pytest.fixture(scope="module")
def inspected(task, model):
    return task.inspect(model, TEXT, Options(n=3), build("greedy"))


def test_source_items_have_word_and_span(inspected):
    *items, end = inspected.axes["source"].items
    assert end == ("<end>", None, None, None, None, None, True)
    for item in items:
        first, last = item.span
        assert TEXT[first:last] == item.text
        assert item.text.strip() in TEXT.split()[item.word]


def test_output_items_are_the_tokens_of_the_output(inspected):
    text = inspected.outputs[0].text
    *items, end = inspected.axes["output"].items
    assert end.special and len(items) + 1 == len(inspected.predicted_ids)
    for item in items:
        assert text[slice(*item.span)].strip() == item.text.strip() and not item.special
    words = [item.word for item in items]
    assert words == sorted(words) and max(words) == len(text.split()) - 1
    start, *read = inspected.axes["read"].items
    assert start.special and start.text == "<start>" and read == items


def test_outputs_are_the_n_best_with_their_tokens(inspected):
    assert len(inspected.outputs) == 3
    ranks = [output.rank for output in inspected.outputs[1:]]  # the first does not depend on n
    assert ranks == sorted(ranks, reverse=True)
    for output in inspected.outputs:
        assert sum(token.score for token in output.tokens) == pytest.approx(output.score, abs=1e-3)
        for token in output.tokens:
            scores = [score for _, score in token.alternatives]
            assert len(scores) == 5 and scores == sorted(scores, reverse=True) and token.score <= scores[0]
    assert [token.text for token in inspected.outputs[0].tokens] == list(inspected.axes[inspected.answer_axis].labels)


@torch.no_grad()
def test_the_replay_gives_the_scores_of_the_output(inspected):
    scores = inspected.replay().log_softmax(-1)
    predicted = scores.gather(1, inspected.predicted_ids[:, None])[:, 0]
    assert predicted.tolist() == pytest.approx([token.score for token in inspected.outputs[0].tokens], abs=1e-4)


def test_axes_fit_the_maps(inspected, model):
    if isinstance(model, seq2seq.Seq2Seq):
        pytest.skip("it has no attention")
    with torch.no_grad(), record(model) as maps:
        inspected.replay()
    for attention in maps.values():
        (rows,), (columns,) = inspected.query_axes[attention.queries], inspected.key_axes[attention.keys]
        size = len(inspected.axes[rows.axis].items), len(inspected.axes[columns.axis].items)
        assert tuple(attention.weights.shape[2:]) == size


@torch.no_grad()
def test_an_ablated_token_changes_only_the_positions_from_it_on(inspected, model):
    full = inspected.replay()
    source, read = (inspected.ablations[axis]() for axis in ("source", "read"))
    assert source.shape == (len(inspected.axes["source"].items), *full.shape)
    assert read.shape == (len(inspected.axes["read"].items), *full.shape)
    for position, logits in enumerate(read):
        torch.testing.assert_close(logits[:position], full[:position], atol=1e-4, rtol=1e-4)
        assert not torch.allclose(logits[position], full[position])
    tokens = inspected.inputs["source"][0].tolist()
    shorter = torch.tensor([tokens[1:]])
    alone = model(inspected.inputs["read"], model.start(Padded(shorter, torch.tensor([len(shorter[0])]))))
    torch.testing.assert_close(source[0], alone[0][0], atol=1e-4, rtol=1e-4)


@torch.no_grad()
def test_the_only_source_token_is_not_ablated(inspected):
    replay = replace(inspected.replay, source=Padded(torch.tensor([[3]]), torch.tensor([1])))
    torch.testing.assert_close(replay.ablate_source()[0], replay())


def test_inputs_are_the_tensors_of_the_axes(inspected):
    assert set(inspected.inputs) == {axis.input for axis in inspected.axes.values() if axis.input}
    for axis in inspected.axes.values():
        if axis.input:
            assert inspected.inputs[axis.input].shape == (1, len(axis.items))


def test_vocabularies_start_with_the_tokens_of_the_example(inspected, task):
    for vocabulary, tokenizer in zip(inspected.vocabularies, task.vocabularies, strict=True):
        assert vocabulary.size == tokenizer.vocab_size
        assert len(vocabulary.tokens) == len(set(vocabulary.tokens)) <= 120 and min(vocabulary.tokens) > 3
        assert vocabulary.labels == tuple(token_name(token, tokenizer) for token in vocabulary.tokens)
    assert set(inspected.vocabularies[0].tokens) >= set(inspected.inputs["source"][0].tolist()) - {3}


def test_the_true_alignment_is_known_if_the_output_is_correct(task, model, monkeypatch):
    source, target = task.split("test")[0]
    inspected = task.inspect(model, source, Options(), build("greedy"))
    assert inspected.truth is None and inspected.views == ("alignment",) and inspected.title == source
    (row,) = task.vocabularies.target.encode([target])
    decode = DecodingStrategy.__call__

    def decode_target(self, *args, **kwargs):
        ((best,),) = decode(self, *args, **kwargs)
        return [[best._replace(tokens=tuple(row))]]

    monkeypatch.setattr(DecodingStrategy, "__call__", decode_target)
    truth = task.inspect(model, source, Options(), build("greedy")).truth
    assert (truth.queries, truth.keys) == ("output", "source")
    assert {word for _, word in truth.links} == set(range(len(target.split())))


def test_a_blank_text_cannot_be_inspected(task):
    with pytest.raises(DataError, match=r"^there is no sentence to look at; give some text$"):
        task.inspect(None, " ", Options(), build("greedy"))
