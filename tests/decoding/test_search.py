"""Search in steps: a state is immutable, every source finishes once, and merging at any step does not change
outputs."""

import pytest
import torch

from regard.decoding.strategy import build

LIMITS = [7, 0, 12, 4]
DECODERS = pytest.mark.parametrize(
    "decoding",
    [
        build("greedy"),
        build("beam", beam_width=4, nbest=3),
        build("beam", beam_width=3, length_penalty=0.0, no_repeat_ngram_size=2, min_length=3),
        build("sample", num_samples=3, temperature=2.0),
    ],
    ids=lambda decoding: f"{decoding.name}{decoding.width}",
)


@pytest.fixture
def model(toys):
    return toys.Recurrent(9)


def search(toys, model, decoding, **options):
    return decoding.search(model, special_tokens=toys.special_tokens, **options)


def start(loop, model, source, limits, **options):
    with torch.no_grad():
        return loop.start(model.start(source), torch.tensor(limits), **options)


def finish(loop, running):
    """Return the hypotheses of the sources that finish, by source id."""
    results = {}
    while running.source_ids.numel():
        running, finished = loop.step(running)
        assert not results.keys() & finished.keys()
        results |= finished
    return results


def assert_alike(actual, expected):
    assert actual.keys() == expected.keys()
    for source in actual:
        assert [h.tokens for h in actual[source]] == [h.tokens for h in expected[source]]
        for index in (1, 2):
            assert [h[index] for h in actual[source]] == pytest.approx([h[index] for h in expected[source]], abs=1e-4)


@DECODERS
def test_run_equals_a_loop_over_steps(toys, model, decoding):
    loop, source = search(toys, model, decoding), torch.randn(4, 8)
    with torch.no_grad():
        whole = loop.run(model.start(source), limits=torch.tensor(LIMITS))
    assert finish(loop, start(loop, model, source, LIMITS)) == dict(enumerate(whole))


@DECODERS
def test_a_step_does_not_change_the_state(toys, model, decoding):
    loop = search(toys, model, decoding)
    running = start(loop, model, torch.randn(4, 8), LIMITS)
    for _ in range(3):
        running, _ = loop.step(running)
    assert finish(loop, running) == finish(loop, running)


@DECODERS
@pytest.mark.parametrize("later", [0, 1, 3, 6, 20])
@pytest.mark.parametrize("ahead", [0, 2])
def test_merged_sources_are_decoded_as_if_alone(toys, model, decoding, later, ahead):
    """`incoming` has made `ahead` steps when it is merged after `later` steps."""
    loop = search(toys, model, decoding)
    first, second = torch.randn(4, 8), torch.randn(3, 8)
    separate = finish(loop, start(loop, model, first, LIMITS))
    separate |= {4 + source: results for source, results in finish(loop, start(loop, model, second, [5, 9, 3])).items()}
    running, incoming = start(loop, model, first, LIMITS), start(loop, model, second, [5, 9, 3])
    results = {}
    for _ in range(later):
        running, finished = loop.step(running) if running.source_ids.numel() else (running, {})
        results |= finished
    for _ in range(ahead):
        incoming, finished = loop.step(incoming)
        results |= {4 + source: hypotheses for source, hypotheses in finished.items()}
    assert_alike(results | finish(loop, loop.merge(running, incoming)), separate)


@DECODERS
def test_merging_a_source_at_every_step(toys, model, decoding):
    """As in a server: a source is merged at every step, and finished sources leave the batch."""
    loop, sources = search(toys, model, decoding), torch.randn(9, 8)
    alone = {i: finish(loop, start(loop, model, sources[i : i + 1], [3 + i]))[0] for i in range(9)}
    running, results = start(loop, model, sources[:1], [3]), {}
    for i in range(1, 9):
        running, finished = loop.step(running)
        results |= finished
        running = loop.merge(running, start(loop, model, sources[i : i + 1], [3 + i]))
        assert running.tokens.shape[2] == running.lengths.max()  # unnecessary padding is removed
    assert_alike(results | finish(loop, running), alone)


def test_samples_depend_on_the_sample_index(toys, model):
    loop, source = search(toys, model, build("sample", temperature=4.0)), torch.randn(1, 8).expand(3, -1)
    with torch.no_grad():
        state = model.start(source)
    limits = torch.tensor([12] * 3)
    default, reverse, same = (
        loop.run(state, limits=limits, sample_indices=None if indices is None else torch.tensor(indices))
        for indices in (None, [2, 1, 0], [5, 5, 5])
    )
    assert default == reverse[::-1] and len({hypotheses[0].tokens for hypotheses in default}) == 3
    assert len({hypotheses[0].tokens for hypotheses in same}) == 1


class Climbing:
    """Each token id is greater than the previous one, and EOS is not allowed before two tokens."""

    def allowed(self, history):
        tokens = torch.arange(9).expand(len(history), -1)
        length = history.shape[1]
        last = history[:, -1:] if length else torch.full((len(history), 1), 3)
        return (tokens > last) | ((tokens == 3) & (length >= 2))


@DECODERS
def test_a_grammar_gets_the_tokens_without_padding(toys, model, decoding):
    loop = search(toys, model, decoding, grammar=Climbing())
    running, _ = loop.step(start(loop, model, torch.randn(2, 8), [5, 6]))
    running = loop.merge(running, start(loop, model, torch.randn(2, 8), [4, 5]))
    for hypotheses in finish(loop, running).values():
        for tokens, _, _ in hypotheses:
            assert list(tokens) == sorted(set(tokens)) and min(tokens, default=4) > 3
