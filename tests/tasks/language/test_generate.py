import numpy as np
import pytest
import torch

from regard.core.data_specs import LanguageSpec
from regard.decoding import strategy
from regard.models import gpt
from regard.tasks.language.generate import empty_source, generate, token_nats

SIZES = LanguageSpec(vocab_size=20, max_length=16)
CPU = torch.device("cpu")


@pytest.fixture
def model():
    torch.manual_seed(0)
    return gpt.build(gpt.Config(layers=2, dim=16, heads=2), SIZES).eval()


@torch.no_grad()
def test_a_text_within_the_context_is_scored_as_it_is_read(model):
    tokens = np.random.default_rng(0).integers(4, 20, 15)
    read = torch.tensor([[SIZES.special_tokens.bos, *tokens]])
    logits, _ = model(read[:, :-1], model.start(empty_source(1, CPU)))
    expected = torch.nn.functional.cross_entropy(logits[0], read[0, 1:], reduction="none")
    np.testing.assert_allclose(token_nats(model, [tokens], SIZES, CPU)[0], expected.numpy(), rtol=1e-5)


@torch.no_grad()
def test_a_long_text_is_scored_in_windows_that_overlap_by_half(model):
    tokens = np.random.default_rng(0).integers(4, 20, 50)
    (values,) = token_nats(model, [tokens], SIZES, CPU)
    np.testing.assert_allclose(values[:16], token_nats(model, [tokens[:16]], SIZES, CPU)[0], rtol=1e-5)
    np.testing.assert_allclose(values[16:24], token_nats(model, [tokens[8:24]], SIZES, CPU)[0][8:], rtol=1e-5)
    assert (values > 0).all()


def ask(model, prompts, count, **settings):
    search = strategy.build("sample", **{"temperature": 0.7, "forbid": (3,), **settings})
    return generate(model, prompts, count=count, sizes=SIZES, decoding=search, device=CPU)


@torch.no_grad()
def test_texts_outgrow_the_context_by_reading_its_last_half_again(model):
    ((text,),) = ask(model, [(5, 6)], 60)
    assert len(text.tokens) == 60 and not text.finished
    assert not {0, 1, 2} & set(text.tokens)
    beginning = ask(model, [(5, 6)], 13)[0][0].tokens
    assert text.tokens[:13] == beginning


@torch.no_grad()
def test_greedy_texts_follow_from_what_is_seen(model):
    search = strategy.build("greedy", forbid=(3,))
    ((text,),) = generate(model, [(5, 6)], count=40, sizes=SIZES, decoding=search, device=CPU)
    whole = [5, 6, *text.tokens]
    seen = whole[15 - 7 : 15]  # the context of 16 holds a start mark and 15 tokens; 7 of them are read anew
    logits, _ = model(torch.tensor([[2, *seen]]), model.start(empty_source(1, CPU)))
    logits[0, -1, :4] = -torch.inf
    assert int(logits[0, -1].argmax()) == whole[15]


@torch.no_grad()
def test_prompts_of_any_length_are_gone_on_from_together(model):
    prompts = [(), (5,), tuple(range(4, 20)) * 3]
    together = ask(model, prompts, 10)
    for number in range(3):
        shifted = [*prompts[number:], *prompts[:number]]
        assert ask(model, shifted, 10)[0][0].tokens == ask(model, shifted[:1], 10)[0][0].tokens
    assert [some[0].prompt_index for some in together] == [0, 1, 2]


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
    assert any(text.finished and len(text.tokens) < 40 for text in texts)
    assert all(3 not in text.tokens for text in texts)


@torch.no_grad()
def test_texts_are_scored_together_as_alone(model):
    random = np.random.default_rng(0)
    texts = [random.integers(4, 20, length) for length in (7, 0, 50, 7, 16, 33, 1)]
    for together, tokens in zip(token_nats(model, texts, SIZES, CPU), texts, strict=True):
        np.testing.assert_allclose(together, token_nats(model, [tokens], SIZES, CPU)[0], rtol=1e-5)


@torch.no_grad()
@pytest.mark.parametrize("read", [2**14, 4])
def test_prompts_of_one_length_are_read_together_and_stay_in_their_order(model, monkeypatch, read):
    monkeypatch.setattr("regard.tasks.language.generate.READ", read)
    prompts = [(5, 6), (7,), (8, 9), (), (10, 11), (12,)]
    search = strategy.build("greedy", forbid=(3,))
    together = generate(model, prompts, count=30, sizes=SIZES, decoding=search, device=CPU)
    for prompt, some in zip(prompts, together, strict=True):
        alone = generate(model, [prompt], count=30, sizes=SIZES, decoding=search, device=CPU)
        assert some[0].tokens == alone[0][0].tokens


@torch.no_grad()
@pytest.mark.parametrize("length", range(10, 16))
def test_a_prompt_that_nearly_fills_the_context_goes_on_beside_short_ones(model, length):
    """It is over long before the others: in the batch it must not go on behind the last place that is learned."""
    prompts = [tuple(range(4, 4 + length)), *[(5,)] * 9]
    search = strategy.build("greedy", forbid=(3,))
    together = generate(model, prompts, count=30, sizes=SIZES, decoding=search, device=CPU)
    for prompt, some in zip(prompts[:2], together, strict=False):
        alone = generate(model, [prompt], count=30, sizes=SIZES, decoding=search, device=CPU)
        assert some[0].tokens == alone[0][0].tokens


@torch.no_grad()
@pytest.mark.parametrize("least", [0, 5, 20, 33])
def test_the_least_length_is_that_of_the_whole_text(model, least):
    model.encoder.last.weight.zero_()
    model.encoder.last.bias.fill_(1.0)
    model.readout.weight[SIZES.special_tokens.eos] = 9.0  # it ends wherever it may
    search = strategy.build("greedy", min_length=least)
    ((text,),) = generate(model, [(5, 6)], count=60, sizes=SIZES, decoding=search, device=CPU)
    assert len(text.tokens) == least and text.finished


@torch.no_grad()
@pytest.mark.parametrize("name", ["greedy", "sample", "beam"])
def test_what_is_not_to_come_twice_does_not_in_another_window(model, name):
    search = strategy.build(name, no_repeat=2, forbid=(3,))
    for (text,) in generate(model, [(5, 6), (8,)], count=70, sizes=SIZES, decoding=search, device=CPU):
        grams = list(zip(text.tokens, text.tokens[1:], strict=False))
        assert len(text.tokens) > 30 and len(set(grams)) == len(grams)


@torch.no_grad()
def test_draws_do_not_depend_on_when_others_end(model):
    alone: dict[tuple[int, ...], list[int]] = {}
    for length in range(1, 16):
        texts = ask(model, [tuple(range(4, 4 + length)), (5, 6)], 60, temperature=1.5, forbid=(), seed=2)
        alone.setdefault(texts[1][0].tokens, []).append(len(texts[0][0].tokens))
    assert len(alone) == 1 and len(set(*alone.values())) > 1  # others ended sooner and later


@torch.no_grad()
def test_samples_draw_by_themselves_in_every_window(model):
    (texts,) = ask(model, [(5,)], 40, samples=3, temperature=1.5)
    whole = [text.tokens[20:] for text in texts]
    assert len(set(whole)) == 3 and sorted(text.sample_index for text in texts) == [0, 1, 2]
