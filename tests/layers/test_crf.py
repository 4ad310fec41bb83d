"""The CRF compared with enumeration of all tag sequences."""

from itertools import pairwise, product

import pytest
import torch

from regard.core.data_specs import TagTransitions
from regard.core.errors import ConfigError
from regard.layers.crf import CHAINS, IndependentTags, LinearChain, TagReadout, viterbi

BIO = TagTransitions(
    (True, True, False), ((True, True, False), (True, True, True), (True, True, True)), (True, True, True)
)
IOBES = TagTransitions(  # O B I E S of one type
    (True, True, False, False, True),
    tuple(
        (False, False, True, True, False) if before in (1, 2) else (True, True, False, False, True)
        for before in range(5)
    ),
    (True, False, False, True, True),
)
FREE = TagTransitions((True,) * 3, ((True,) * 3,) * 3, (True,) * 3)
RULES = [BIO, IOBES, FREE]


def chain(rules):
    crf = LinearChain(rules).double()
    for weight in crf.parameters():
        torch.nn.init.normal_(weight)
    return crf


def is_allowed(tags, rules):
    pairs = pairwise(tags)
    return rules.first[tags[0]] and rules.last[tags[-1]] and all(rules.follows[a][b] for a, b in pairs)


def enumerated(crf, logits, rules):
    """Yield every allowed sequence with its score."""
    first, follows, last = crf.transitions()
    for tags in product(range(logits.shape[1]), repeat=logits.shape[0]):
        if is_allowed(tags, rules):
            score = first[tags[0]] + last[tags[-1]] + sum(logits[i, tag] for i, tag in enumerate(tags))
            yield tags, score + sum(follows[a, b] for a, b in pairwise(tags))


@pytest.mark.parametrize("rules", RULES)
@pytest.mark.parametrize("length", [1, 2, 4])
def test_the_partition_function_is_the_sum_over_all_sequences(rules, length):
    crf, logits = chain(rules), torch.randn(1, length, len(rules.first), dtype=torch.double)
    scores = torch.stack([score for _, score in enumerated(crf, logits[0], rules)])
    torch.testing.assert_close(crf.log_partition(logits, torch.tensor([length]))[0], scores.logsumexp(0))


@pytest.mark.parametrize("rules", RULES)
def test_the_loss_is_the_log_probability_and_viterbi_finds_the_best(rules):
    crf, logits = chain(rules), torch.randn(1, 4, len(rules.first), dtype=torch.double)
    lengths = torch.tensor([4])
    sequences = list(enumerated(crf, logits[0], rules))
    total = torch.stack([score for _, score in sequences]).logsumexp(0)
    for tags, score in sequences[:5]:
        torch.testing.assert_close(crf.log_probability(logits, torch.tensor([tags]), lengths)[0], score - total)
    best = max(sequences, key=lambda pair: pair[1])[0]
    assert tuple(viterbi(logits, crf.transitions(), lengths)[0].tolist()) == best


def test_marginals_are_sums_of_probabilities():
    crf, logits = chain(BIO), torch.randn(1, 3, 3, dtype=torch.double)
    sequences = list(enumerated(crf, logits[0], BIO))
    probabilities = torch.stack([score for _, score in sequences]).softmax(0)
    expected = torch.zeros(3, 3, dtype=torch.double)
    for (tags, _), p in zip(sequences, probabilities, strict=True):
        for position, tag in enumerate(tags):
            expected[position, tag] += p
    torch.testing.assert_close(crf.marginals(logits, torch.tensor([3]))[0], expected.detach())


@pytest.mark.parametrize("name", CHAINS)
def test_padding_has_no_effect(name):
    readout = TagReadout(6, 5, CHAINS[name](IOBES)).double()
    features = torch.randn(3, 5, 6, dtype=torch.double)
    lengths, tags = torch.tensor([5, 3, 1]), torch.tensor([[0, 1, 2, 3, 4], [4, 1, 3, 9, 9], [0, 9, 9, 9, 9]])
    wide = torch.cat([features, torch.full((3, 2, 6), 1e3, dtype=torch.double)], dim=1)
    wider = torch.cat([tags, torch.full((3, 2), 7)], dim=1)
    torch.testing.assert_close(readout.loss(wide, wider, lengths), readout.loss(features, tags, lengths))
    assert torch.equal(readout.decode(wide, lengths)[:, :5], readout.decode(features, lengths))
    torch.testing.assert_close(readout.marginals(wide, lengths)[:, :5], readout.marginals(features, lengths))
    alone = [
        readout.loss(features[i : i + 1, :n], tags[i : i + 1, :n], lengths[i : i + 1]) for i, n in enumerate([5, 3, 1])
    ]
    torch.testing.assert_close(sum(alone), readout.loss(features, tags, lengths))
    assert readout.decode(features, lengths)[1, 3:].eq(0).all()


@pytest.mark.parametrize("name", CHAINS)
@pytest.mark.parametrize("rules", [BIO, IOBES])
def test_an_invalid_sequence_is_never_the_best(name, rules):
    size = len(rules.first)
    readout = TagReadout(4, size, CHAINS[name](rules))
    lengths = torch.randint(1, 9, (50,))
    decoded = readout.decode(30 * torch.randn(50, 8, 4), lengths)
    for tags, length in zip(decoded.tolist(), lengths.tolist(), strict=True):
        assert is_allowed(tags[:length], rules)


def test_an_empty_sequence_costs_nothing():
    crf = chain(BIO)
    logits = torch.randn(2, 3, 3, dtype=torch.double, requires_grad=True)
    tags, lengths = torch.zeros(2, 3, dtype=torch.long), torch.tensor([0, 2])
    loss = -crf.log_probability(logits, tags, lengths)
    assert loss[0] == 0
    loss.sum().backward()
    assert logits.grad[0].eq(0).all() and logits.grad.isfinite().all()


def test_gradients_are_right():
    crf = chain(IOBES)
    logits = torch.randn(2, 3, 5, dtype=torch.double, requires_grad=True)
    tags, lengths = torch.tensor([[1, 2, 3], [0, 4, 0]]), torch.tensor([3, 2])
    assert torch.autograd.gradcheck(lambda x: crf.log_probability(x, tags, lengths).sum(), logits)
    crf.log_probability(logits, tags, lengths).sum().backward()
    assert all(weight.grad.isfinite().all() for weight in crf.parameters())


def test_allowed_transitions_are_not_saved():
    assert set(LinearChain(BIO).state_dict()) == {"first", "follows", "last"}
    assert set(IndependentTags(BIO).state_dict()) == set()


def test_transitions_that_allow_no_sequence():
    with pytest.raises(ConfigError, match="allowed transitions: no sequence is possible; every tag needs"):
        LinearChain(TagTransitions((True, True), ((True, False), (False, False)), (True, True)))


def test_an_unreachable_tag_has_zero_gradient_and_probability():
    """Tag 2 cannot come first, and only tag 2 may follow tag 1: after one step tag 1 is reached from nowhere."""
    rules = TagTransitions(
        (True, False, False), ((True, False, True), (False, False, True), (True, False, True)), (True, True, True)
    )
    crf, lengths = chain(rules), torch.tensor([4, 2])
    logits = torch.randn(2, 4, 3, dtype=torch.double, requires_grad=True)
    scores = torch.stack([score for _, score in enumerated(crf, logits[0], rules)])
    torch.testing.assert_close(crf.log_partition(logits, lengths)[0], scores.logsumexp(0))
    marginals = crf.marginals(logits, lengths)
    torch.testing.assert_close(marginals[0].sum(dim=-1), torch.ones(4, dtype=torch.double))
    assert (marginals[:, :, 1] == 0).all() and (marginals[1, 2:] == 0).all()
    loss = -crf.log_probability(logits, torch.tensor([[0, 2, 0, 0], [0, 0, 0, 0]]), lengths).sum()
    for gradient in torch.autograd.grad(loss, [logits, *crf.parameters()]):
        assert gradient.isfinite().all()


def test_rules_that_allow_no_sequence_of_a_length():
    rules = TagTransitions((True, False), ((False, True), (True, False)), (False, True))
    crf, logits = chain(rules), torch.randn(1, 3, 2, dtype=torch.double)
    assert crf.log_probability(logits, torch.tensor([[0, 1, 0]]), torch.tensor([3])).item() == -torch.inf


@pytest.mark.parametrize("name", CHAINS)
def test_a_batch_of_length_zero(name):
    tags, logits, lengths = CHAINS[name](BIO), torch.zeros(2, 0, 3), torch.tensor([0, 0])
    assert viterbi(logits, tags.transitions(), lengths).shape == (2, 0)
    assert tags.log_probability(logits, torch.zeros(2, 0, dtype=torch.long), lengths).tolist() == [0, 0]
    assert tags.marginals(logits, lengths).shape == (2, 0, 3)
