import numpy as np
import pytest
import torch

from regard import decoding
from regard.core.sizes import Tokens
from regard.models import gpt
from regard.tasks._continue import go_on, nats, no_source

SIZES = Tokens(size=20, longest=16)
CPU = torch.device("cpu")


@pytest.fixture
def model():
    torch.manual_seed(0)
    return gpt.build(gpt.Config(layers=2, dim=16, heads=2), SIZES).eval()


@torch.no_grad()
def test_a_text_within_the_context_is_scored_as_it_is_read(model):
    tokens = np.random.default_rng(0).integers(4, 20, 15)
    read = torch.tensor([[SIZES.marks.start, *tokens]])
    logits, _ = model(read[:, :-1], model.start(no_source(1, CPU)))
    expected = torch.nn.functional.cross_entropy(logits[0], read[0, 1:], reduction="none")
    np.testing.assert_allclose(nats(model, tokens, SIZES, CPU), expected.numpy(), rtol=1e-5)


@torch.no_grad()
def test_a_long_text_is_scored_in_windows_that_overlap_by_half(model):
    tokens = np.random.default_rng(0).integers(4, 20, 50)
    values = nats(model, tokens, SIZES, CPU)
    np.testing.assert_allclose(values[:16], nats(model, tokens[:16], SIZES, CPU), rtol=1e-5)
    np.testing.assert_allclose(values[16:24], nats(model, tokens[8:24], SIZES, CPU)[8:], rtol=1e-5)
    assert (values > 0).all()


def ask(model, prompts, count, **settings):
    search = decoding.build("sample", **{"temperature": 0.7, "forbid": (3,), **settings})
    return go_on(model, prompts, count=count, sizes=SIZES, decoding=search, device=CPU)


@torch.no_grad()
def test_texts_outgrow_the_context_by_reading_its_last_half_again(model):
    ((text,),) = ask(model, [(5, 6)], 60)
    assert len(text.tokens) == 60 and not text.ended
    assert not {0, 1, 2} & set(text.tokens)
    beginning = ask(model, [(5, 6)], 13)[0][0].tokens
    assert text.tokens[:13] == beginning


@torch.no_grad()
def test_greedy_texts_follow_from_what_is_seen(model):
    search = decoding.build("greedy", forbid=(3,))
    ((text,),) = go_on(model, [(5, 6)], count=40, sizes=SIZES, decoding=search, device=CPU)
    whole = [5, 6, *text.tokens]
    seen = whole[15 - 7 : 15]  # the context of 16 holds a start mark and 15 tokens; 7 of them are read anew
    logits, _ = model(torch.tensor([[2, *seen]]), model.start(no_source(1, CPU)))
    logits[0, -1, :4] = -torch.inf
    assert int(logits[0, -1].argmax()) == whole[15]


@torch.no_grad()
def test_prompts_of_any_length_are_gone_on_from_together(model):
    prompts = [(), (5,), tuple(range(4, 20)) * 3]
    together = ask(model, prompts, 10)
    for number in range(3):
        shifted = [*prompts[number:], *prompts[:number]]
        assert ask(model, shifted, 10)[0][0].tokens == ask(model, shifted[:1], 10)[0][0].tokens
    assert [some[0].prompt for some in together] == [0, 1, 2]


@torch.no_grad()
def test_as_many_texts_as_samples_and_each_goes_on_by_itself(model):
    (texts,) = ask(model, [(5,)], 40, samples=4)
    assert len({text.tokens for text in texts}) == 4
    assert {len(text.tokens) for text in texts} == {40}


@torch.no_grad()
def test_a_text_may_end_by_itself(model):
    with torch.no_grad():
        model.readout.weight[3] = 5 * model.encoder.last.weight.sign()  # the end mark becomes likely
    (texts,) = ask(model, [(5,)], 40, samples=8, forbid=(), temperature=2.0)
    assert any(text.ended and len(text.tokens) < 40 for text in texts)
    assert all(3 not in text.tokens for text in texts)
