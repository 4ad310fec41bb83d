"""Every model that is listed keeps the laws, in every variant that its Config allows and for every family of sizes that
its `build` names: a new file under models/ is tested by being there."""

import types
import typing
from collections.abc import Iterator
from dataclasses import fields, replace
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import torch
from model_examples import DECODED, FAMILIES
from torch import nn

from regard.attention.record import attention_modules, record
from regard.core.data_specs import Seq2SeqSpec
from regard.core.errors import ConfigError
from regard.core.protocols import Padded
from regard.core.registry import find, registered_names
from regard.core.state_tree import concat_states, map_tensors, select_sources
from regard.decoding.strategy import optimize_for_decoding
from regard.inspection import invariants
from regard.layers.kv_cache import KV
from regard.tasks import compatible_models
from regard.training import checkpoint, tensor_files
from regard.training import recipe as recipes

REGISTRIES = {"score": "regard.attention.scores", "position": "regard.layers.positions"}  # settings that name a file
STEPS = 400  # within which they are learnt by heart


class Case(NamedTuple):
    """A listed model, one of the families that it is built from, and what is changed of its TINY."""

    name: str
    family: type
    change: tuple[tuple[str, Any], ...] = ()

    @property
    def id(self) -> str:
        return "-".join([self.name, self.family.__name__, *(f"{key}={value}" for key, value in self.change)])

    @property
    def sizes(self) -> Any:
        if self.family not in FAMILIES:
            pytest.fail(f"{self.name} is built from {self.family.__name__}: add it to FAMILIES in model_examples.py")
        return FAMILIES[self.family][0]

    def build(self, sizes: Any = None, **change: Any) -> Any:
        torch.manual_seed(0)
        module = find("regard.models", self.name)
        return module.build(replace(module.TINY, **dict(self.change) | change), sizes or self.sizes)

    def examples(self) -> Any:
        torch.manual_seed(1)
        return FAMILIES[self.family][1](self.sizes)


@pytest.mark.parametrize("name", registered_names("regard.models"))
def test_every_model_has_a_small_preset_that_can_be_trained(name: str) -> None:
    """`model.preset=small` has fewer weights than the defaults, with every task that the model fits."""
    module = find("regard.models", name)
    for family in named_families(name):
        sizes = FAMILIES[family][0]
        small, whole = (module.build(config, sizes) for config in (module.PRESETS["small"], module.Config()))
        assert sum(weight.numel() for weight in small.parameters()) < sum(w.numel() for w in whole.parameters())
        for task in registered_names("regard.tasks"):
            if name in compatible_models(find("regard.tasks", task).SIZES):
                recipe = recipes.read(task, settings=[f"model={name}", "model.preset=small"])
                assert recipe.model.config == module.PRESETS["small"]


@pytest.mark.parametrize("name", compatible_models(Seq2SeqSpec))
def test_an_empty_source_is_a_source_too(name: str) -> None:
    model = Case(name, Seq2SeqSpec).build().eval()
    tokens, lengths = torch.tensor([[5, 6, 3], [0, 0, 0]]), torch.tensor([3, 0])
    first = torch.full((2, 1), 2)
    both, _ = model(first, model.start(Padded(tokens, lengths)))
    alone, _ = model(first[:1], model.start(Padded(tokens[:1], lengths[:1])))
    nothing, _ = model(first[:1], model.start(Padded(tokens[1:, :0], lengths[1:])))
    torch.testing.assert_close(both[:1], alone)
    torch.testing.assert_close(both[1:], nothing)
    assert both.isfinite().all()


def named_families(name: str) -> list[type]:
    """What a model's `build` says that it takes."""
    hint = typing.get_type_hints(find("regard.models", name).build)["sizes"]
    return list(typing.get_args(hint)) if isinstance(hint, types.UnionType) else [hint]


def variants(name: str) -> Iterator[tuple[tuple[str, Any], ...]]:
    """What can be changed of a model's TINY by one setting that has few values."""
    config = find("regard.models", name).TINY
    hints = typing.get_type_hints(type(config))
    for field in fields(config):
        values: tuple[Any, ...] = (True, False) if hints[field.name] is bool else ()
        if hints[field.name] is int and getattr(config, field.name) == 0:  # 0 stands for "not" or "as the others"
            values = (1,)
        if field.name in REGISTRIES:
            values = tuple(registered_names(REGISTRIES[field.name]))
        elif typing.get_origin(hints[field.name]) is typing.Literal:
            values = typing.get_args(hints[field.name])
        for value in values:
            try:
                changed = replace(config, **{field.name: value})
            except ConfigError:  # it does not go with the rest of TINY
                continue
            if changed != config:
                yield ((field.name, value),)


PLAIN = [Case(name, family) for name in registered_names("regard.models") for family in named_families(name)]
CASES = PLAIN + [Case(case.name, case.family, change) for case in PLAIN for change in variants(case.name)]


def each(cases: list[Case]) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("case", cases, ids=lambda case: case.id)


def joined_equals_apart(model: Any, trial: invariants.DecoderInputs) -> float:
    """How far the logits of rows that are joined at some step are from those of the same rows apart."""
    worst, parts = 0.0, [trial.target[:2], trial.target[2:3]]
    states = [select_sources(model.start(trial.source), torch.tensor(rows)) for rows in ([0, 1], [2])]
    for counts in ((0, 0), (1, 3), (3, 0), (4, 2)):  # tokens that each has read before they meet
        several = list(zip(parts, states, counts, strict=True))
        apart = torch.cat([model(part, state)[0][:, count : count + 2] for part, state, count in several])
        before = [model(part[:, :count], state)[1] if count else state for part, state, count in several]
        state = concat_states(before[0], before[1])
        for step in range(2):
            together, state = model(torch.cat([part[:, count + step, None] for part, _, count in several]), state)
            worst = max(worst, float((together - apart[:, step, None]).abs().max()))
    return worst


def idle(model: nn.Module) -> list[str]:
    """The parameters that got no gradient, or one that is not a number."""
    return [name for name, p in model.named_parameters() if p.grad is None or not p.grad.isfinite().all()]


@each([case for case in CASES if case.family in DECODED])
def test_the_laws_of_decoding_are_kept(case: Case) -> None:
    model, examples = case.build().eval(), case.examples()
    trial = examples.trial
    few = invariants.DecoderInputs(map_tensors(trial.source, lambda part: part[:3]), trial.target[:3], trial.marks)
    assert [verdict for verdict in invariants.check_decoder(model, few) if not verdict.passed] == []
    with torch.no_grad():
        fast = optimize_for_decoding(model)
        assert (
            fast(few.target, fast.start(few.source))[0] - examples.output(model)[:3]
        ).abs().max() < invariants.LOGIT_TOLERANCE
        assert joined_equals_apart(model, few) < invariants.LOGIT_TOLERANCE
        assert joined_equals_apart(fast, few) < invariants.LOGIT_TOLERANCE


@each(CASES)
def test_looking_changes_nothing_and_every_parameter_learns(case: Case) -> None:
    model, examples = case.build().eval(), case.examples()
    plain = examples.output(model)
    assert plain.isfinite().all()
    if attention_modules(model):
        with record(model) as maps:
            assert torch.equal(examples.output(model), plain)
        for name, seen in maps.items():
            sums = seen.weights.sum(dim=-1)
            assert torch.minimum((sums - 1).abs(), sums.abs()).max() < 1e-4, name  # an empty row is a row of padding
    examples.loss(model.train()).backward()
    assert idle(model) == []


@each(PLAIN)
def test_overfits_eight_examples(case: Case) -> None:
    config = find("regard.models", case.name).TINY
    model = case.build(**{field.name: 0.0 for field in fields(config) if field.name.endswith("dropout")})
    examples = case.examples()
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    for _ in range(STEPS):
        loss = examples.loss(model)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if loss.item() < 0.1:
            break
    assert loss.item() < 0.1


@each(CASES)
def test_saved_and_loaded_it_is_the_same(case: Case, tmp_path: Path) -> None:
    model, other = case.build(), case.build()
    with torch.no_grad():
        for parameter in other.parameters():
            parameter.add_(1.0)
    files = [tmp_path / "first.safetensors", tmp_path / "second.safetensors"]
    tensor_files.write_tensors(files[0], checkpoint.model_weights(model), {})
    checkpoint.restore_weights(other, tensor_files.read_tensors(files[0])[0], files[0])
    tensor_files.write_tensors(files[1], checkpoint.model_weights(other), {})
    assert files[0].read_bytes() == files[1].read_bytes()
    examples = case.examples()
    assert torch.equal(examples.output(model.eval()), examples.output(other.eval()))


@each([case for case in PLAIN if hasattr(case.family, "joint")])
def test_a_joint_vocabulary_is_accepted(case: Case) -> None:
    sizes = replace(case.sizes, source=case.sizes.target, joint=True)
    model = case.build(sizes).eval()
    assert [
        verdict for verdict in invariants.check_decoder(model, invariants.random_inputs(sizes)) if not verdict.passed
    ] == []


TRANSFORMER = Case("transformer", Seq2SeqSpec)


def test_a_model_that_peeks_is_caught() -> None:
    model, trial = TRANSFORMER.build().eval(), TRANSFORMER.examples().trial
    honest = model.decoder.embedding.forward
    model.decoder.embedding.forward = lambda tokens, start=0: honest(tokens, start) + honest(tokens[:, -1:], 0)
    broken = {verdict.invariant[0] for verdict in invariants.check_decoder(model, trial) if not verdict.passed}
    assert {"1", "5"} <= broken


def test_a_model_that_loses_its_places_when_joined_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    model, trial = TRANSFORMER.build().eval(), TRANSFORMER.examples().trial
    with torch.no_grad():
        assert joined_equals_apart(model, trial) < invariants.LOGIT_TOLERANCE
        monkeypatch.setattr(KV, "place", property(lambda memory: memory.length))
        assert joined_equals_apart(model, trial) > invariants.LOGIT_TOLERANCE


def test_a_parameter_that_is_not_used_is_caught() -> None:
    model = TRANSFORMER.build()
    model.spare = nn.Linear(2, 2)
    TRANSFORMER.examples().loss(model).backward()
    assert idle(model) == ["spare.weight", "spare.bias"]


def test_a_family_without_examples_is_named() -> None:
    with pytest.raises(pytest.fail.Exception, match="transformer is built from Case: add it to FAMILIES"):
        Case("transformer", Case).build()
