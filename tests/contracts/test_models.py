"""Every model that is listed keeps the laws: a new file under models/ is tested by being there."""

from dataclasses import replace
from typing import Any

import pytest
import torch

from regard.attention.attend import Attend
from regard.attention.record import record
from regard.core.errors import RegardError
from regard.core.registry import find, names
from regard.core.sizes import Text
from regard.inspection import laws

SIZES = Text(source=23, target=19, longest=12)
JOINT = Text(source=19, target=19, longest=12, joint=True)
VARIANTS: dict[str, list[dict[str, Any]]] = {
    "transformer": [{"norm": "post"}, {"share": False}, {"decoder_layers": 1}]
    + [{"position": name} for name in names("regard.layers.positions")]
    + [{"score": name} for name in names("regard.attention.scores")],
    "seq2seq": [{"cell": cell} for cell in ("rnn", "lstm")]
    + [{"context": "start"}, {"order": "reversed"}, {"layers": 1}],
    "bahdanau": [{"score": name} for name in names("regard.attention.scores")] + [{"encoder": 6}],
    "luong": [{"score": name} for name in ("dot", "general", "concat", "additive")]
    + [
        {"feed": False},
        {"window": 2},
        {"window": 1, "feed": False, "score": "concat"},
        {"cell": "gru", "directions": 1},
    ],
    "music_transformer": [{"intervals": False}, {"intervals": False, "voices": 0}],
}
TRANSLATORS = [name for name in names("regard.models") if name in VARIANTS]
CASES = [(name, {}) for name in TRANSLATORS] + [(name, change) for name in TRANSLATORS for change in VARIANTS[name]]


def build(name: str, change: dict[str, Any], sizes: Text = SIZES) -> Any:
    torch.manual_seed(0)
    module = find("regard.models", name)
    return module.build(replace(module.TINY, **change), sizes)


@pytest.mark.parametrize(("name", "change"), CASES, ids=str)
def test_every_law_is_kept(name: str, change: dict[str, Any]) -> None:
    broken = [verdict for verdict in laws.check(build(name, change), SIZES) if not verdict.kept]
    assert not broken


@pytest.mark.parametrize(("name", "change"), CASES, ids=str)
def test_looking_changes_nothing_and_rows_sum_to_one(name: str, change: dict[str, Any]) -> None:
    model = build(name, change).eval()
    given = laws.trial(SIZES)
    if not any(isinstance(part, Attend) for part in model.modules()):
        with pytest.raises(RegardError, match="this model has no attention"), record(model):
            pass
        return
    plain, _ = model(given.target, model.start(given.source))
    with record(model) as maps:
        seen, _ = model(given.target, model.start(given.source))
    assert torch.equal(seen, plain)
    for found in maps.values():
        rows = found.weights.sum(dim=-1)
        torch.testing.assert_close(rows, torch.ones_like(rows))


@pytest.mark.parametrize("name", TRANSLATORS)
def test_every_parameter_learns(name: str) -> None:
    model = build(name, {}).train()
    given = laws.trial(SIZES)
    logits, _ = model(given.target, model.start(given.source))
    logits.square().mean().backward()
    assert [key for key, weight in model.named_parameters() if weight.grad is None] == []
    assert all(weight.grad.isfinite().all() for weight in model.parameters())


@pytest.mark.parametrize("name", TRANSLATORS)
def test_a_joint_vocabulary_is_accepted(name: str) -> None:
    assert all(verdict.kept for verdict in laws.check(build(name, {}, JOINT), JOINT))


@pytest.mark.parametrize("name", TRANSLATORS)
def test_overfits_eight_examples(name: str) -> None:
    model = build(name, {"dropout": 0.0})
    given = laws.trial(SIZES, rows=8, length=6)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    for _ in range(400):
        logits, _ = model(given.target[:, :-1], model.start(given.source))
        loss = torch.nn.functional.cross_entropy(logits.flatten(0, 1), given.target[:, 1:].flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if loss.item() < 0.1:
            break
    assert loss.item() < 0.1


def test_a_broken_law_is_seen() -> None:
    """The checks can fail: a model that peeks at its last token is caught."""
    model = build("transformer", {}).eval()
    honest = model.decoder.embedding.forward
    model.decoder.embedding.forward = lambda tokens, start=0: honest(tokens, start) + honest(tokens[:, -1:], 0)
    verdicts = {verdict.law[0]: verdict.kept for verdict in laws.check(model, SIZES)}
    assert not verdicts["5"]
    assert not verdicts["1"]
