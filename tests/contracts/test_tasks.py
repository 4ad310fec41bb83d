"""Contracts of every registered task with every model that fits it; a new task is tested automatically."""

from __future__ import annotations

import importlib
import re
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NamedTuple

import numpy as np
import pytest
import torch
from task_cases import TASKS, ShortOutputs, build_task, config_of

from regard.attention.record import attention_modules, record
from regard.core import checksums, extras
from regard.core import config as configs
from regard.core.describe import describe, source_path
from regard.core.example_statistics import collect_statistics
from regard.core.inspectable import AxisRef, Inspectable
from regard.core.registry import find
from regard.core.state_tree import map_tensors
from regard.core.task import Task
from regard.decoding.strategy import DecodingStrategy, optimize_for_decoding
from regard.tasks import compatible_models
from regard.training import recipe as recipes

PAIRS = [(task, model) for task in TASKS for model in compatible_models(find("regard.tasks", task).SPEC)]
MAX_STEPS = 120  # within which two examples are learned


class Case(NamedTuple):
    """A task on little data, loaded from a run folder, and a model that fits."""

    module: Any
    task: Task
    model: Any
    decoding: DecodingStrategy | None


SHARE = re.compile(r"(.*_)?(accuracy|exact|pointing|precision|recall|f1|ap|ap50|hr|ndcg|mrr|auc)\b")  # 0 to 1


@pytest.fixture(params=PAIRS, ids="-".join)
def case(request: pytest.FixtureRequest, folders: dict[str, Path]) -> Case:
    name, model = request.param
    module, network = find("regard.tasks", name), find("regard.models", model)
    task = module.load(config_of(name), folders[name])
    torch.manual_seed(0)
    decoding = recipes.read(name).decoding
    short = None if decoding is None else ShortOutputs(decoding.name, decoding.config)
    return Case(module, task, network.build(network.TINY, task.spec), short)


@pytest.mark.parametrize("name", TASKS)
def test_the_module_declares_the_task(name: str) -> None:
    module, path = find("regard.tasks", name), source_path("regard.tasks", name)
    assert module.VERB.isalpha() and module.VERB.islower()
    task = build_task(name)
    assert isinstance(task, Task) and type(task.spec) is module.SPEC
    for kind in ("Config", "Options"):
        description = describe(path, kind)
        assert description is not None and description.summary
        assert [s.name for s in description.settings if not (s.default and s.comment)] == []
    assert module.Options() == configs.from_dict(module.Options, {}, "options")


@pytest.mark.parametrize("name", TASKS)
def test_defaults_and_demo_are_recipes(name: str) -> None:
    module = find("regard.tasks", name)
    for settings in ([], module.DEMO):
        recipe = recipes.read(name, settings=settings)
        assert recipe.model.name in compatible_models(module.SPEC)
        assert recipes.from_dict(recipe.to_dict()) == recipe
    assert any(setting.startswith("training.") for setting in module.DEMO)


@pytest.mark.parametrize("name", TASKS)
def test_the_data_summary_has_the_size_of_each_split_and_the_first_example(name: str) -> None:
    """`sentences: train 60, valid 6; 9 tags; a vocabulary of 500 tokens`, then `first sentence: …`."""
    counts, first = build_task(name).data_summary()
    assert re.match(r"[a-z ]+: train [\d,]+(, \w+ [\d,]+)*; .*\d", counts)
    assert set(re.findall(r"[:,] ([a-z]+) \d", counts.split(";")[0])) == set(build_task(name).fingerprint())
    assert re.match(r"first [a-z ]+(, \w+ -> \w+)?: \S", first) and len(first) < 300 and "\n" not in first
    assert re.fullmatch(r"[a-z]+", build_task(name).throughput_unit)


@pytest.mark.parametrize("name", TASKS)
def test_batches_depend_only_on_seed_and_epoch(name: str) -> None:
    task = build_task(name)
    epochs = [task.epoch_batches(epoch, seed) for epoch, seed in ((0, 1), (0, 1), (0, 2), (1, 1))]
    assert all(len(batch) for batches in epochs for batch in batches)
    indices = [[batch.tolist() for batch in batches] for batches in epochs]
    assert indices[0] == indices[1]
    assert indices[0] != indices[2] and indices[0] != indices[3]


@pytest.mark.parametrize("name", TASKS)
def test_a_loaded_task_saves_the_same_files(name: str, folders: dict[str, Path], tmp_path: Path) -> None:
    module = find("regard.tasks", name)
    for restore in (module.load, module.build):  # without the data, and with it
        task = restore(config_of(name), folders[name])
        assert task.spec == build_task(name).spec and task.target_metric == build_task(name).target_metric
        folder = tmp_path / restore.__name__
        folder.mkdir()
        task.save(folder)
        first, second = ({p.name: p.read_bytes() for p in path.iterdir()} for path in (folders[name], folder))
        assert first == second


def test_loss_falls(case: Case) -> None:
    """Two examples are memorized."""
    task, model = case.task, case.model.train()
    batch = task.collate(task.epoch_batches(0, 1)[0][:2])
    optimizer = torch.optim.Adam(model.parameters(), lr=2e-2)
    losses: list[float] = []
    while not losses or losses[-1] > 0.6 * losses[0]:
        loss = task.loss(model, batch)
        assert loss.count > 0 and all(part.isfinite() for part in loss.parts.values())
        losses.append(loss.total.item() / loss.count)
        assert len(losses) < MAX_STEPS, losses
        optimizer.zero_grad()
        (loss.total / loss.count).backward()
        optimizer.step()


def test_the_loss_in_half_precision_is_close_to_the_exact_loss(case: Case) -> None:
    """`precision = "auto"` is bfloat16 on GPUs; it can be set on CPUs that support it."""
    task, model = case.task, case.model.eval()
    batch = task.collate(task.epoch_batches(0, 1)[0][:2])
    losses = []
    for half in (False, True):
        torch.manual_seed(0)
        with torch.autocast("cpu", torch.bfloat16, enabled=half):
            losses.append(task.loss(model, batch).total)
    assert losses[1].dtype == torch.float32
    assert losses[1].item() == pytest.approx(losses[0].item(), rel=0.05)
    losses[1].backward()
    assert all(p.grad.dtype == p.dtype and p.grad.isfinite().all() for p in model.parameters() if p.grad is not None)


def test_the_loss_of_a_batch_is_the_sum_over_its_examples(case: Case) -> None:
    """Totals and counts add up, so that gradient accumulation and several processes are exact."""
    task, model = case.task, case.model.eval()
    examples = task.epoch_batches(0, 1)[0][:4]
    if checksum(task.collate(examples)) != checksum(task.collate(examples)):
        return  # random parts of a batch are drawn again for each of its parts
    with torch.no_grad():
        full, first, rest = (task.loss(model, task.collate(part)) for part in (examples, examples[:1], examples[1:]))
    assert full.count == first.count + rest.count
    assert float(full.total) == pytest.approx(float(first.total + rest.total), rel=1e-4)


def checksum(batch: Any) -> str:
    return checksums.hash_batches([batch])


def test_batches_can_be_moved_to_a_device(case: Case) -> None:
    batch = case.task.collate(case.task.epoch_batches(0, 1)[0][:2])
    assert type(map_tensors(batch, lambda x: x.to("cpu"))) is type(batch)


def test_the_target_metric_is_among_the_metrics(case: Case) -> None:
    task, model = case.task, case.model.train()
    scores = task.evaluate(model, "valid", case.decoding)
    assert np.isfinite(scores[task.target_metric.metric])
    assert model.training  # restored
    assert all(isinstance(value, float) for value in scores.values())
    assert {name: value for name, value in scores.items() if SHARE.match(name) and not 0 <= value <= 1} == {}


def test_the_target_metric_is_a_function_of_the_recorded_examples(case: Case) -> None:
    """Standard error, interval and paired test are computed from these rows, so they must give the metric itself."""
    with collect_statistics() as collected:
        scores = case.task.evaluate(case.model, "valid", case.decoding)
    assert case.task.target_metric.metric in collected
    for name, statistics in collected.items():
        assert statistics.value == pytest.approx(scores[name], rel=1e-6, abs=1e-9), name
        assert statistics.num_examples >= len(statistics.rows) > 0


def test_imports_of_the_evaluation_are_declared(case: Case, monkeypatch: pytest.MonkeyPatch) -> None:
    """Training checks the declared imports before the first step; an undeclared one would end it after an epoch."""
    imported: set[str] = set()

    def import_module(name: str) -> Any:
        imported.add(name)
        return importlib.import_module(name)

    monkeypatch.setattr(extras, "importlib", SimpleNamespace(import_module=import_module))
    case.task.loss(case.model, case.task.collate(case.task.epoch_batches(0, 1)[0][:2]))
    needed_by_the_loss = set(imported)  # reported by the dry run
    case.task.evaluate(case.model, "valid", case.decoding)
    declared = {module for module, _ in getattr(case.module, "EVALUATION_IMPORTS", ())}
    assert imported - needed_by_the_loss <= declared


def test_a_prediction_does_not_depend_on_the_rest_of_the_batch(case: Case) -> None:
    """Each example comes first once, because samples may depend on the position in the batch."""
    task, model, options = case.task, case.model.eval(), case.module.Options()
    inputs = [task.parse_input(text) for text in task.examples]
    assert inputs and task.predict(model, [], options, case.decoding) == []
    for first in range(len(inputs)):
        rotated = [*inputs[first:], *inputs[:first]]
        batched = task.predict(model, rotated, options, case.decoding)
        assert len(batched) == len(inputs)
        (alone,) = task.predict(model, rotated[:1], options, case.decoding)
        assert [prediction.text for prediction in batched[0]] == [prediction.text for prediction in alone]
        for in_batch, single in zip(batched[0], alone, strict=True):
            assert in_batch.score == pytest.approx(single.score, abs=1e-3)
            assert single.score is None or single.score < 1e-3  # a log probability
            assert single.probability is None or 0 <= single.probability <= 1
        ranks = [prediction.ranking_score for prediction in alone if prediction.ranking_score is not None]
        assert ranks == sorted(ranks, reverse=True)


def test_every_kind_of_file_is_rendered(case: Case) -> None:
    task, inputs = case.task, [case.task.parse_input(case.task.examples[0])]
    for model in (case.model, optimize_for_decoding(case.model.eval())):  # the native engine predicts with the second
        ((prediction, *_),) = task.predict(model, inputs, case.module.Options(), case.decoding)
        assert "\n" not in prediction.text or not prediction.files  # the text is one readable line
        for suffix in prediction.files:
            assert suffix.startswith(".") and prediction.render(suffix)


def inspect_example(case: Case) -> Inspectable:
    parsed_input = case.task.parse_input(case.task.examples[0])
    return case.task.inspect(case.model.eval(), parsed_input, case.module.Options(), case.decoding)


def test_axes_fit_the_maps(case: Case) -> None:
    inspected = inspect_example(case)
    if not attention_modules(case.model):
        return
    with torch.no_grad(), record(case.model) as maps:
        inspected.replay()
    for attention in maps.values():
        shape = attention.weights.shape
        assert fits(inspected, inspected.query_axes[attention.queries], shape, 2)
        assert fits(inspected, inspected.key_axes[attention.keys], shape, 3)


def fits(inspected: Inspectable, references: tuple[AxisRef, ...], shape: torch.Size, dimension: int) -> bool:
    """Return True if the longest axis of a name has the length of the map; axes of a padded batch may be shorter."""
    lengths = [len(inspected.axes[reference.axis].items) for reference in references]
    rows = [reference.batch for reference in references if reference.batch is not None]
    return max(lengths) == shape[dimension] and all(0 <= row < shape[0] for row in rows)


def test_axes_outputs_and_ablations_are_consistent(case: Case) -> None:
    inspected = inspect_example(case)
    with torch.no_grad():
        logits = inspected.replay()
    assert logits.dim() == 2 and inspected.predicted_ids.shape == logits.shape[:1]
    assert inspected.outputs and inspected.title and int(inspected.predicted_ids.max()) < logits.shape[1]
    if inspected.answer_axis:
        assert len(inspected.axes[inspected.answer_axis].items) == len(inspected.predicted_ids)
    for axis in inspected.axes.values():
        assert axis.title and axis.items
        assert not axis.input or axis.input in inspected.inputs
        assert axis.parent is None or axis.parent.item < len(inspected.axes[axis.parent.axis].items)
    for name, ablate in inspected.ablations.items():
        with torch.no_grad():
            assert ablate().shape == (len(inspected.axes[name].items), *logits.shape)
