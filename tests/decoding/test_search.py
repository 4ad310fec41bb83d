"""Search in steps: a step is a value, sources are finished once, and joining at any step changes nobody's output."""

import pytest
import torch

from regard.decoding.strategy import build

LIMITS = [7, 0, 12, 4]
DECODERS = pytest.mark.parametrize(
    "decoding",
    [
        build("greedy"),
        build("beam", width=4, nbest=3),
        build("beam", width=3, length_penalty=0.0, no_repeat=2, min_length=3),
        build("sample", samples=3, temperature=2.0),
    ],
    ids=lambda decoding: f"{decoding.name}{decoding.width}",
)


@pytest.fixture
def model(toys):
    return toys.Recurrent(9)


def search(toys, model, decoding, **how):
    return decoding.search(model, marks=toys.marks, **how)


def begin(one, model, source, limits, **how):
    with torch.no_grad():
        return one.begin(model.start(source), torch.tensor(limits), **how)


def finish(one, running):
    """What is finished of a running search, by source."""
    found = {}
    while running.sources.numel():
        running, finished = one.step(running)
        assert not found.keys() & finished.keys()
        found |= finished
    return found


def alike(one, other):
    assert one.keys() == other.keys()
    for source in one:
        assert [h.tokens for h in one[source]] == [h.tokens for h in other[source]]
        for index in (1, 2):
            assert [h[index] for h in one[source]] == pytest.approx([h[index] for h in other[source]], abs=1e-4)


@DECODERS
def test_a_loop_over_steps_is_the_whole(toys, model, decoding):
    one, source = search(toys, model, decoding), torch.randn(4, 8)
    with torch.no_grad():
        whole = one.run(model.start(source), limits=torch.tensor(LIMITS))
    assert finish(one, begin(one, model, source, LIMITS)) == dict(enumerate(whole))


@DECODERS
def test_a_step_is_a_value(toys, model, decoding):
    one = search(toys, model, decoding)
    running = begin(one, model, torch.randn(4, 8), LIMITS)
    for _ in range(3):
        running, _ = one.step(running)
    assert finish(one, running) == finish(one, running)


@DECODERS
@pytest.mark.parametrize("later", [0, 1, 3, 6, 20])
@pytest.mark.parametrize("ahead", [0, 2])
def test_joined_is_apart(toys, model, decoding, later, ahead):
    """`more` has made `ahead` steps of its own when it joins after `later` steps."""
    one = search(toys, model, decoding)
    first, second = torch.randn(4, 8), torch.randn(3, 8)
    apart = finish(one, begin(one, model, first, LIMITS))
    apart |= {4 + source: found for source, found in finish(one, begin(one, model, second, [5, 9, 3])).items()}
    running, more = begin(one, model, first, LIMITS), begin(one, model, second, [5, 9, 3])
    found = {}
    for _ in range(later):
        running, finished = one.step(running) if running.sources.numel() else (running, {})
        found |= finished
    for _ in range(ahead):
        more, finished = one.step(more)
        found |= {4 + source: each for source, each in finished.items()}
    alike(found | finish(one, one.join(running, more)), apart)


@DECODERS
def test_one_after_the_other(toys, model, decoding):
    """As a server does it: a source joins at every step, and those that are finished leave."""
    one, sources = search(toys, model, decoding), torch.randn(9, 8)
    alone = {i: finish(one, begin(one, model, sources[i : i + 1], [3 + i]))[0] for i in range(9)}
    running, found = begin(one, model, sources[:1], [3]), {}
    for i in range(1, 9):
        running, finished = one.step(running)
        found |= finished
        running = one.join(running, begin(one, model, sources[i : i + 1], [3 + i]))
        assert running.tokens.shape[2] == running.lengths.max()  # padding that nobody needs is cut off
    alike(found | finish(one, running), alone)


def test_draws_depend_on_the_source_s_number(toys, model):
    one, source = search(toys, model, build("sample", temperature=4.0)), torch.randn(1, 8).expand(3, -1)
    with torch.no_grad():
        state = model.start(source)
    limits = torch.tensor([12] * 3)
    counted, turned, same = (
        one.run(state, limits=limits, sample_indices=None if numbers is None else torch.tensor(numbers))
        for numbers in (None, [2, 1, 0], [5, 5, 5])
    )
    assert counted == turned[::-1] and len({found[0].tokens for found in counted}) == 3
    assert len({found[0].tokens for found in same}) == 1


class Climbing:
    """Each token is greater than the one before it, and nothing ends before two."""

    def allowed(self, history):
        tokens = torch.arange(9).expand(len(history), -1)
        length = history.shape[1]
        last = history[:, -1:] if length else torch.full((len(history), 1), 3)
        return (tokens > last) | ((tokens == 3) & (length >= 2))


@DECODERS
def test_a_grammar_sees_each_source_s_own_tokens(toys, model, decoding):
    one = search(toys, model, decoding, grammar=Climbing())
    running, _ = one.step(begin(one, model, torch.randn(2, 8), [5, 6]))
    running = one.join(running, begin(one, model, torch.randn(2, 8), [4, 5]))
    for hypotheses in finish(one, running).values():
        for tokens, _, _ in hypotheses:
            assert list(tokens) == sorted(set(tokens)) and min(tokens, default=4) > 3
