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
def test_a_text_within_the_context_is_scored_in_one_window(model):
    tokens = np.random.default_rng(0).integers(4, 20, 15)
    row = torch.tensor([[SIZES.special_tokens.bos, *tokens]])
    logits, _ = model(row[:, :-1], model.start(empty_source(1, CPU)))
    expected = torch.nn.functional.cross_entropy(logits[0], row[0, 1:], reduction="none")
    np.testing.assert_allclose(token_nats(model, [tokens], SIZES, CPU)[0], expected.numpy(), rtol=1e-5)


@torch.no_grad()
def test_a_long_text_is_scored_in_windows_that_overlap_by_half(model):
    tokens = np.random.default_rng(0).integers(4, 20, 50)
    (values,) = token_nats(model, [tokens], SIZES, CPU)
    np.testing.assert_allclose(values[:16], token_nats(model, [tokens[:16]], SIZES, CPU)[0], rtol=1e-5)
    np.testing.assert_allclose(values[16:24], token_nats(model, [tokens[8:24]], SIZES, CPU)[0][8:], rtol=1e-5)
    assert (values > 0).all()


def sample(model, prompts, count, **settings):
    search = strategy.build("sample", **{"temperature": 0.7, "suppress_tokens": (3,), **settings})
    return generate(model, prompts, count=count, sizes=SIZES, decoding=search, device=CPU)


@torch.no_grad()
def test_texts_may_be_longer_than_the_context(model):
    ((text,),) = sample(model, [(5, 6)], 60)
    assert len(text.tokens) == 60 and not text.finished
    assert not {0, 1, 2} & set(text.tokens)
    prefix = sample(model, [(5, 6)], 13)[0][0].tokens
    assert text.tokens[:13] == prefix


@torch.no_grad()
def test_the_last_half_of_a_full_context_is_encoded_again(model):
    search = strategy.build("greedy", suppress_tokens=(3,))
    ((text,),) = generate(model, [(5, 6)], count=40, sizes=SIZES, decoding=search, device=CPU)
    tokens = [5, 6, *text.tokens]
    window = tokens[15 - 7 : 15]  # the context of 16 holds BOS and 15 tokens; 7 of them are encoded again
    logits, _ = model(torch.tensor([[2, *window]]), model.start(empty_source(1, CPU)))
    logits[0, -1, :4] = -torch.inf
    assert int(logits[0, -1].argmax()) == tokens[15]


@torch.no_grad()
def test_prompts_of_any_length_are_continued_together(model):
    prompts = [(), (5,), tuple(range(4, 20)) * 3]
    together = sample(model, prompts, 10)
    for index in range(3):
        shifted = [*prompts[index:], *prompts[:index]]
        assert sample(model, shifted, 10)[0][0].tokens == sample(model, shifted[:1], 10)[0][0].tokens
    assert [row[0].prompt_index for row in together] == [0, 1, 2]


@torch.no_grad()
def test_each_sample_is_continued_separately(model):
    (texts,) = sample(model, [(5,)], 40, num_samples=4)
    assert len({text.tokens for text in texts}) == 4
    assert {len(text.tokens) for text in texts} == {40}


@torch.no_grad()
def test_a_text_may_end_before_the_limit(model):
    with torch.no_grad():
        model.readout.weight[3] = 5 * model.encoder.last.weight.sign()  # EOS becomes likely
    (texts,) = sample(model, [(5,)], 40, num_samples=8, suppress_tokens=(), temperature=2.0)
    assert any(text.finished and len(text.tokens) < 40 for text in texts)
    assert all(3 not in text.tokens for text in texts)


@torch.no_grad()
def test_texts_are_scored_together_as_alone(model):
    random = np.random.default_rng(0)
    texts = [random.integers(4, 20, length) for length in (7, 0, 50, 7, 16, 33, 1)]
    for together, tokens in zip(token_nats(model, texts, SIZES, CPU), texts, strict=True):
        np.testing.assert_allclose(together, token_nats(model, [tokens], SIZES, CPU)[0], rtol=1e-5)


@torch.no_grad()
@pytest.mark.parametrize("max_tokens", [2**14, 4])
def test_prompts_of_equal_length_are_encoded_together_and_keep_their_order(model, monkeypatch, max_tokens):
    monkeypatch.setattr("regard.tasks.language.generate.MAX_BATCH_TOKENS", max_tokens)
    prompts = [(5, 6), (7,), (8, 9), (), (10, 11), (12,)]
    search = strategy.build("greedy", suppress_tokens=(3,))
    together = generate(model, prompts, count=30, sizes=SIZES, decoding=search, device=CPU)
    for prompt, row in zip(prompts, together, strict=True):
        alone = generate(model, [prompt], count=30, sizes=SIZES, decoding=search, device=CPU)
        assert row[0].tokens == alone[0][0].tokens


@torch.no_grad()
@pytest.mark.parametrize("length", range(10, 16))
def test_a_prompt_that_nearly_fills_the_context_is_batched_with_short_ones(model, length):
    """It finishes long before the others and must not continue past the last learned position."""
    prompts = [tuple(range(4, 4 + length)), *[(5,)] * 9]
    search = strategy.build("greedy", suppress_tokens=(3,))
    together = generate(model, prompts, count=30, sizes=SIZES, decoding=search, device=CPU)
    for prompt, row in zip(prompts[:2], together, strict=False):
        alone = generate(model, [prompt], count=30, sizes=SIZES, decoding=search, device=CPU)
        assert row[0].tokens == alone[0][0].tokens


@torch.no_grad()
@pytest.mark.parametrize("min_length", [0, 5, 20, 33])
def test_the_minimum_length_is_that_of_the_entire_text(model, min_length):
    model.encoder.last.weight.zero_()
    model.encoder.last.bias.fill_(1.0)
    model.readout.weight[SIZES.special_tokens.eos] = 9.0  # it ends as soon as allowed
    search = strategy.build("greedy", min_length=min_length)
    ((text,),) = generate(model, [(5, 6)], count=60, sizes=SIZES, decoding=search, device=CPU)
    assert len(text.tokens) == min_length and text.finished


@torch.no_grad()
@pytest.mark.parametrize("name", ["greedy", "sample", "beam"])
def test_ngrams_are_not_repeated_in_another_window(model, name):
    search = strategy.build(name, no_repeat_ngram_size=2, suppress_tokens=(3,))
    for (text,) in generate(model, [(5, 6), (8,)], count=70, sizes=SIZES, decoding=search, device=CPU):
        grams = list(zip(text.tokens, text.tokens[1:], strict=False))
        assert len(text.tokens) > 30 and len(set(grams)) == len(grams)


@torch.no_grad()
def test_samples_do_not_depend_on_the_length_of_other_texts(model):
    alone: dict[tuple[int, ...], list[int]] = {}
    for length in range(1, 16):
        texts = sample(model, [tuple(range(4, 4 + length)), (5, 6)], 60, temperature=1.5, suppress_tokens=(), seed=2)
        alone.setdefault(texts[1][0].tokens, []).append(len(texts[0][0].tokens))
    assert len(alone) == 1 and len(set(*alone.values())) > 1  # the other texts have different lengths


@torch.no_grad()
def test_samples_differ_in_every_window(model):
    (texts,) = sample(model, [(5,)], 40, num_samples=3, temperature=1.5)
    later_tokens = [text.tokens[20:] for text in texts]
    assert len(set(later_tokens)) == 3 and sorted(text.sample_index for text in texts) == [0, 1, 2]
