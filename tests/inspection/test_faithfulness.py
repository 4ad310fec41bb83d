"""The two faithfulness metrics agree with their definitions."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from tiny_runs import MODELS

from regard.attention.masks import Mask
from regard.attention.record import attention_modules
from regard.core.inspectable import Axis, AxisRef, Inspectable, Item
from regard.core.protocols import Padded
from regard.inspection import faithfulness
from regard.inspection.faithfulness import Evidence, gather_evidence, measure_faithfulness, rank_correlation
from regard.inspection.interventions import Interventions, apply_interventions
from regard.inspection.json_format import Map

AXES = ("source", "read")


@pytest.fixture(params=MODELS)
def case(request, subject, sentence):
    target = subject(request.param)
    with torch.no_grad():
        return target.model, target.inspect(sentence)


@torch.no_grad()
def test_removal_is_what_happens_without_the_item(case):
    model, shown = case
    evidence = gather_evidence(model, shown, AXES)
    usual = shown.replay().argmax(-1)
    for name in AXES:
        for item, logits in enumerate(shown.ablations[name]()):
            assert ((logits.argmax(-1) != usual).numpy() == evidence.removal[name][:, item]).all()


@torch.no_grad()
def test_items_that_the_task_cannot_remove_are_masked(case):
    model, shown = case
    evidence = gather_evidence(model, replace(shown, ablations={}), ["source"])
    usual = shown.replay().argmax(-1)
    for item in range(len(shown.axes["source"].items)):
        with apply_interventions(model, Interventions(forbid=(("source", item),)), shown):
            assert ((shown.replay().argmax(-1) != usual).numpy() == evidence.removal["source"][:, item]).all()


def test_axes_with_too_many_items_to_hide_have_no_such_figure(case, monkeypatch):
    model, shown = case
    monkeypatch.setattr(faithfulness, "MAX_REMOVED_ITEMS", 3)
    assert gather_evidence(model, replace(shown, ablations={}), AXES).removal == {}


def test_of_many_answers_the_gradients_of_a_few_are_enough(case, monkeypatch):
    model, shown = case
    complete = gather_evidence(model, shown, ["source"]).gradient["source"]
    monkeypatch.setattr(faithfulness, "MAX_GRADIENT_OUTPUTS", 3)
    few = gather_evidence(model, shown, ["source"]).gradient["source"]
    tried = ~np.isnan(few).any(axis=1)
    assert tried.sum() == 3 and tried[0] and tried[-1]
    assert few[tried] == pytest.approx(complete[tried], rel=1e-4)
    weights = np.stack([np.where(tried[:, None], complete, complete[:, ::-1])]).astype(np.float32)
    assert measure_faithfulness(attention(weights), Evidence({"source": few}, {}), "output").gradient == pytest.approx(
        (1.0,)
    )


def test_no_answer_depends_on_an_item_read_later(case):
    evidence = gather_evidence(*case, AXES)
    later = np.triu_indices(len(evidence.gradient["read"]), 1)
    assert (evidence.gradient["read"][later] == 0).all()
    assert (evidence.removal["read"][later] == 0).all()
    assert (evidence.gradient["source"] > 0).any()


def test_looking_for_evidence_leaves_no_gradients_and_no_hooks(case):
    model, shown = case
    gather_evidence(model, shown, AXES)
    assert all(weight.grad is None for weight in model.parameters())
    assert not any(module._forward_hooks or module._forward_pre_hooks for module in model.modules())


def test_gradient_times_input_is_the_slope_along_the_input(subject, sentence):
    """Scaling an item's embedding by 1 + e changes the log probability by e times the (signed) product."""
    target = subject("transformer")
    model = target.model.double()
    with torch.no_grad():
        shown = target.inspect(sentence)
    evidence = gather_evidence(model, shown, ["source"])
    table, tokens = model.encoder.embedding.table, shown.inputs["source"]

    def log_p(scale):
        def hook(module, inputs, output):
            changed = output.clone()
            if torch.equal(inputs[0], tokens):
                changed[:, 2] *= scale
            return changed

        handle = table.register_forward_hook(hook)
        with torch.no_grad():
            logits = shown.replay()
        handle.remove()
        return logits.log_softmax(-1)[0, shown.predicted_ids[0]].item()

    slope = (log_p(1 + 1e-5) - log_p(1 - 1e-5)) / 2e-5
    assert abs(abs(slope) - evidence.gradient["source"][0, 2]) < 1e-6


def test_features_that_enter_a_module_are_inputs_too(pictures):
    """Gradient × input of float features equals the product computed directly."""
    with torch.no_grad():
        shown = pictures.inspect(pictures.task.examples[0])
    evidence = gather_evidence(pictures.model, shown, ["patches"]).gradient["patches"]
    features = shown.inputs["patches"].clone().requires_grad_()
    torch.enable_grad()(pictures.model)(features).log_softmax(-1)[0, shown.predicted_ids[0]].backward()
    product = (features.grad * features.detach()).sum(-1).abs()
    assert evidence == pytest.approx(product.numpy(), abs=1e-6)


def test_each_axis_takes_its_own_row_of_an_input(documents):
    with torch.no_grad():
        shown = documents.inspect(documents.task.examples[0])
    names = ["words.0", "words.1", "words.2"]
    evidence = gather_evidence(documents.model, shown, names).gradient
    assert [evidence[name].shape for name in names] == [(1, 4), (1, 7), (1, 4)]
    assert not np.allclose(evidence["words.0"], evidence["words.2"])


def test_items_of_an_image_are_its_boxes():
    image = torch.rand(1, 1, 4, 4)
    model = torch.nn.Flatten()
    items = tuple(Item(side, box=(x, 0, x + 0.5, 1)) for side, x in (("left", 0), ("right", 0.5)))
    axes = {"regions": Axis(items, "regions", input="image")}
    refs = {"image": (AxisRef("regions"),)}
    shown = Inspectable("a", axes, {}, refs, (), lambda: model(image), torch.tensor([5]), inputs={"image": image})
    (row,) = faithfulness._gradients(model, shown, ["regions"])["regions"]
    shares = image.flatten().softmax(-1)
    slopes = ((torch.arange(16) == 5).float() - shares) * image.flatten()
    assert row == pytest.approx(slopes.view(4, 2, 2).sum(dim=(0, 2)).abs().tolist(), abs=1e-6)


def test_inputs_that_are_never_seen_or_not_differentiable_give_no_table(pictures):
    shown = pictures.inspect(pictures.task.examples[0])
    unseen = replace(shown, inputs={"patches": torch.zeros(1, 9, 4)})
    assert gather_evidence(pictures.model, unseen, ["patches"]).gradient == {}
    frozen = replace(shown, replay=torch.no_grad()(shown.replay))
    assert gather_evidence(pictures.model, frozen, ["patches"]).gradient == {}
    assert gather_evidence(pictures.model, shown, ["question 1"]).gradient == {}


def attention(weights, queries="output", keys="source", allowed=None):
    return Map("a", "a", queries, keys, weights, group="g", title="t", allowed=allowed)


def test_a_map_that_is_the_gradient_agrees_wholly_and_its_reverse_not_at_all():
    gradient = np.array([[0.1, 0.5, 0.4], [0.7, 0.1, 0.2]])
    removal = np.array([[0.0, 1.0, 0.0], [0.0, 0.0, 1.0]])
    weights = np.stack([gradient, 1 - gradient]).astype(np.float32)
    honest = measure_faithfulness(attention(weights), Evidence({"source": gradient}, {"source": removal}), "output")
    assert honest.gradient == pytest.approx((1.0, -1.0)) and honest.by_row
    assert honest.removal == (0.5, 0.0)


def test_rows_are_ranked_over_what_they_may_look_at():
    gradient = np.array([[0.1, 0.2, 0.3, 9.0]])
    weights = np.array([[[0.2, 0.3, 0.5, 0.0]]], dtype=np.float32)
    evidence = Evidence({"source": gradient}, {})
    assert measure_faithfulness(attention(weights), evidence, "output").gradient[0] < 1
    visible = np.array([[[True, True, True, False]]])
    honest = measure_faithfulness(attention(weights, allowed=visible), evidence, "output")
    assert honest.gradient == pytest.approx((1.0,)) and honest.removal == (None,)


def test_rows_too_short_to_rank_have_no_figure():
    ones = Evidence({"read": np.ones((2, 2))}, {"read": np.ones((2, 2))})
    honest = measure_faithfulness(attention(np.full((1, 2, 2), 0.5, np.float32), keys="read"), ones, "output")
    assert honest.gradient == (None,) and honest.removal == (1.0,)


def test_a_map_without_output_rows_is_compared_with_the_gradients_of_all_outputs():
    gradient = np.array([[0.1, 0.2, 0.9], [0.0, 0.3, 0.5]])
    removal = np.array([[0.0, 0.0, 1.0], [0.0, 0.0, 0.0]])
    to_last = np.tile(np.array([0.1, 0.2, 0.7], np.float32), (1, 3, 1))
    evidence = Evidence({"source": gradient}, {"source": removal})
    honest = measure_faithfulness(attention(to_last, queries="source"), evidence, "output")
    assert honest.gradient == pytest.approx((1.0,)) and honest.removal == (1.0,) and not honest.by_row


def test_without_evidence_there_is_no_figure():
    assert measure_faithfulness(attention(np.ones((1, 1, 1), np.float32)), Evidence({}, {}), "output") is None


@given(st.lists(st.tuples(st.integers(0, 4), st.integers(0, 4)), min_size=1, max_size=12))
def test_the_rank_correlation_is_scipys_ties_and_all(pairs):
    scipy = pytest.importorskip("scipy.stats", reason="SciPy is not installed")
    first, second = (np.array(values, dtype=float) for values in zip(*pairs, strict=True))
    evidence = rank_correlation(first, second)
    if len(pairs) < 3 or len(set(first)) < 2 or len(set(second)) < 2:
        assert evidence is None
    else:
        assert evidence == pytest.approx(scipy.spearmanr(first, second).statistic)


def hiding(model, column):
    """Add hooks that mask a column of the source in all attention modules."""

    def hook(_, inputs, kwargs):
        rows, _, keys, _ = inputs[2].shape
        present = torch.ones(rows, keys, dtype=torch.bool)
        present[:, column] = False
        mask = inputs[3] if len(inputs) > 3 else kwargs.get("mask", Mask())
        return inputs[:3], {"mask": mask & Mask.present(present)}

    modules = [module for module in attention_modules(model).values() if module.keys == "source"]
    return [module.register_forward_pre_hook(hook, with_kwargs=True) for module in modules]


@torch.no_grad()
def test_with_a_hidden_token_removal_is_that_of_a_model_with_this_mask(case):
    """Hide every token in turn, including the first and the last, and remove every other token."""
    model, shown = case
    tokens, read = shown.inputs["source"], shown.inputs["read"]
    size = tokens.shape[1]
    for banned in range(size):
        with apply_interventions(model, Interventions(forbid=(("source", banned),)), shown) as forbidden:
            evidence = gather_evidence(model, shown, ["source"], hidden_items=forbidden).removal["source"]
            usual = shown.replay().argmax(-1)
        for gone in range(size):
            remaining = torch.cat([tokens[:, :gone], tokens[:, gone + 1 :]], dim=1)
            hooks = [] if gone == banned else hiding(model, banned - (banned > gone))
            logits, _ = model(read, model.start(Padded(remaining, torch.tensor([size - 1]))))
            for hook in hooks:
                hook.remove()
            assert ((logits[0].argmax(-1) != usual).numpy() == evidence[:, gone]).all(), (banned, gone)


@torch.no_grad()
def test_items_are_masked_if_removal_moves_hidden_items_to_unknown_positions(case):
    model, shown = case
    unknown = replace(shown, deletion_axes={"source": False})
    with apply_interventions(model, Interventions(forbid=(("source", 1),)), shown) as forbidden:
        evidence = gather_evidence(model, unknown, ["source"], hidden_items=forbidden).removal["source"]
        usual = shown.replay().argmax(-1)
        with apply_interventions(model, Interventions(forbid=(("source", 3),)), shown):
            assert ((shown.replay().argmax(-1) != usual).numpy() == evidence[:, 3]).all()


def test_a_head_that_is_switched_off_has_no_figures():
    random = np.random.default_rng(0)
    weights = random.random((2, 4, 5)).astype(np.float32)
    weights[0] = 0
    target = Map("m", "m", "output", "source", weights, group="g", title="t")
    evidence = measure_faithfulness(
        target, Evidence({"source": random.random((4, 5))}, {"source": np.ones((4, 5))}), "output"
    )
    assert evidence.gradient[0] is evidence.removal[0] is None
    assert evidence.gradient[1] is not None and evidence.removal[1] == 1


def test_equal_values_share_their_ranks():
    assert rank_correlation([1, 2, 2, 3], [1, 2, 3, 4]) == pytest.approx(
        0.9486833
    )  # with rank 2.5 for both; 1 or 0.8 without averaging
    assert rank_correlation([1, 1, 1, 2], [3, 3, 3, 9]) == pytest.approx(1.0)
