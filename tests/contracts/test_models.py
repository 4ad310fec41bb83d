"""Invariants of every registered model, in every variant of its Config and for every data spec of its `build`.

A new file in models/ is tested without further changes.
"""

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

REGISTRIES = {
    "score": "regard.attention.scores",
    "position": "regard.layers.positions",
}  # settings whose value is a file name
STEPS = 400  # maximum training steps to overfit the examples


class Case(NamedTuple):
    """A registered model, one of its data specs, and changes to its TINY config."""

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
    """`model.preset=small` has fewer weights than the defaults, and works with every task of the model."""
    module = find("regard.models", name)
    for family in named_families(name):
        sizes = FAMILIES[family][0]
        small, default = (module.build(config, sizes) for config in (module.PRESETS["small"], module.Config()))
        assert sum(weight.numel() for weight in small.parameters()) < sum(
            weight.numel() for weight in default.parameters()
        )
        for task in registered_names("regard.tasks"):
            if name in compatible_models(find("regard.tasks", task).SPEC):
                recipe = recipes.read(task, settings=[f"model={name}", "model.preset=small"])
                assert recipe.model.config == module.PRESETS["small"]


@pytest.mark.parametrize("name", compatible_models(Seq2SeqSpec))
def test_an_empty_source(name: str) -> None:
    model = Case(name, Seq2SeqSpec).build().eval()
    tokens, lengths = torch.tensor([[5, 6, 3], [0, 0, 0]]), torch.tensor([3, 0])
    first = torch.full((2, 1), 2)
    both, _ = model(first, model.start(Padded(tokens, lengths)))
    alone, _ = model(first[:1], model.start(Padded(tokens[:1], lengths[:1])))
    empty, _ = model(first[:1], model.start(Padded(tokens[1:, :0], lengths[1:])))
    torch.testing.assert_close(both[:1], alone)
    torch.testing.assert_close(both[1:], empty)
    assert both.isfinite().all()


def named_families(name: str) -> list[type]:
    """Return the data spec classes that a model's `build` accepts."""
    hint = typing.get_type_hints(find("regard.models", name).build)["sizes"]
    return list(typing.get_args(hint)) if isinstance(hint, types.UnionType) else [hint]


def variants(name: str) -> Iterator[tuple[tuple[str, Any], ...]]:
    """Yield changes of a model's TINY config by one setting that has few values."""
    config = find("regard.models", name).TINY
    hints = typing.get_type_hints(type(config))
    for field in fields(config):
        values: tuple[Any, ...] = (True, False) if hints[field.name] is bool else ()
        if hints[field.name] is int and getattr(config, field.name) == 0:  # 0 stands for "off" or "default"
            values = (1,)
        if field.name in REGISTRIES:
            values = tuple(registered_names(REGISTRIES[field.name]))
        elif typing.get_origin(hints[field.name]) is typing.Literal:
            values = typing.get_args(hints[field.name])
        for value in values:
            try:
                changed = replace(config, **{field.name: value})
            except ConfigError:  # incompatible with the rest of TINY
                continue
            if changed != config:
                yield ((field.name, value),)


PLAIN = [Case(name, family) for name in registered_names("regard.models") for family in named_families(name)]
CASES = PLAIN + [Case(case.name, case.family, change) for case in PLAIN for change in variants(case.name)]


def for_cases(cases: list[Case]) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("case", cases, ids=lambda case: case.id)


def merge_error(model: Any, inputs: invariants.DecoderInputs) -> float:
    """Return the largest difference between the logits of rows merged at some step and of the same rows separately."""
    largest, parts = 0.0, [inputs.target[:2], inputs.target[2:3]]
    states = [select_sources(model.start(inputs.source), torch.tensor(rows)) for rows in ([0, 1], [2])]
    for counts in ((0, 0), (1, 3), (3, 0), (4, 2)):  # tokens of each before they are merged
        groups = list(zip(parts, states, counts, strict=True))
        separate = torch.cat([model(part, state)[0][:, count : count + 2] for part, state, count in groups])
        before = [model(part[:, :count], state)[1] if count else state for part, state, count in groups]
        state = concat_states(before[0], before[1])
        for step in range(2):
            together, state = model(torch.cat([part[:, count + step, None] for part, _, count in groups]), state)
            largest = max(largest, float((together - separate[:, step, None]).abs().max()))
    return largest


def untrained_parameters(model: nn.Module) -> list[str]:
    """Return the parameters without gradient, or with one that is not finite."""
    gradients = {name: p.grad for name, p in model.named_parameters()}
    return [name for name, grad in gradients.items() if grad is None or not grad.to_dense().isfinite().all()]


@for_cases([case for case in CASES if case.family in DECODED])
def test_decoding_invariants(case: Case) -> None:
    model, examples = case.build().eval(), case.examples()
    inputs = examples.inputs
    few = invariants.DecoderInputs(
        map_tensors(inputs.source, lambda part: part[:3]), inputs.target[:3], inputs.special_tokens
    )
    assert [result for result in invariants.check_decoder(model, few) if not result.passed] == []
    with torch.no_grad():
        fast = optimize_for_decoding(model)
        assert (
            fast(few.target, fast.start(few.source))[0] - examples.output(model)[:3]
        ).abs().max() < invariants.LOGIT_TOLERANCE
        assert merge_error(model, few) < invariants.LOGIT_TOLERANCE
        assert merge_error(fast, few) < invariants.LOGIT_TOLERANCE


@for_cases(CASES)
def test_recording_has_no_effect_and_every_parameter_gets_a_gradient(case: Case) -> None:
    model, examples = case.build().eval(), case.examples()
    plain = examples.output(model)
    assert plain.isfinite().all()
    if attention_modules(model):
        with record(model) as maps:
            assert torch.equal(examples.output(model), plain)
        for name, recorded in maps.items():
            sums = recorded.weights.sum(dim=-1)
            assert torch.minimum((sums - 1).abs(), sums.abs()).max() < 1e-4, name  # empty rows are padding
    examples.loss(model.train()).backward()
    assert untrained_parameters(model) == []


@for_cases(PLAIN)
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


@for_cases(CASES)
def test_saving_and_loading(case: Case, tmp_path: Path) -> None:
    model, restored = case.build(), case.build()
    with torch.no_grad():
        for parameter in restored.parameters():
            parameter.add_(1.0)
    files = [tmp_path / "first.safetensors", tmp_path / "second.safetensors"]
    tensor_files.write_tensors(files[0], checkpoint.model_weights(model), {})
    checkpoint.restore_weights(restored, tensor_files.read_tensors(files[0])[0], files[0])
    tensor_files.write_tensors(files[1], checkpoint.model_weights(restored), {})
    assert files[0].read_bytes() == files[1].read_bytes()
    examples = case.examples()
    assert torch.equal(examples.output(model.eval()), examples.output(restored.eval()))


@for_cases([case for case in PLAIN if hasattr(case.family, "joint_vocab")])
def test_a_joint_vocabulary_is_accepted(case: Case) -> None:
    sizes = replace(case.sizes, source_vocab_size=case.sizes.target_vocab_size, joint_vocab=True)
    model = case.build(sizes).eval()
    assert [
        result for result in invariants.check_decoder(model, invariants.random_inputs(sizes)) if not result.passed
    ] == []


TRANSFORMER = Case("transformer", Seq2SeqSpec)


def test_a_model_that_uses_later_tokens_is_detected() -> None:
    model, inputs = TRANSFORMER.build().eval(), TRANSFORMER.examples().inputs
    forward = model.decoder.embedding.forward
    model.decoder.embedding.forward = lambda tokens, start=0: forward(tokens, start) + forward(tokens[:, -1:], 0)
    broken = {result.invariant[0] for result in invariants.check_decoder(model, inputs) if not result.passed}
    assert {"1", "5"} <= broken


def test_a_model_with_wrong_positions_after_merging_is_detected(monkeypatch: pytest.MonkeyPatch) -> None:
    model, inputs = TRANSFORMER.build().eval(), TRANSFORMER.examples().inputs
    with torch.no_grad():
        assert merge_error(model, inputs) < invariants.LOGIT_TOLERANCE
        monkeypatch.setattr(KV, "position", property(lambda kv: kv.length))
        assert merge_error(model, inputs) > invariants.LOGIT_TOLERANCE


def test_an_unused_parameter_is_detected() -> None:
    model = TRANSFORMER.build()
    model.unused = nn.Linear(2, 2)
    TRANSFORMER.examples().loss(model).backward()
    assert untrained_parameters(model) == ["unused.weight", "unused.bias"]


def test_a_data_spec_without_examples() -> None:
    with pytest.raises(pytest.fail.Exception, match="transformer is built from Case: add it to FAMILIES"):
        Case("transformer", Case).build()
