"""The recommender: input widths, causality, new users and items, contributions to the state, and invalid settings."""

from dataclasses import replace

import pytest
import torch

from regard.attention.record import record
from regard.core.data_specs import RecommendationSpec
from regard.core.errors import ConfigError
from regard.core.protocols.recommender import ItemCatalog, UserBatch, last_states
from regard.layers.item_softmax import FullSoftmax, all_log_probabilities
from regard.models import recommender, sasrec
from regard.models.recommender import TINY

SIZES = RecommendationSpec(
    num_users=6, num_items=10, user_field_dims=(3, 4), item_field_dims=(5,), max_length=8, span_days=10.0
)


def build_model(config=TINY, sizes=SIZES):
    torch.manual_seed(0)
    return recommender.build(config, sizes).eval()


def item_catalog(sizes=SIZES):
    generator = torch.Generator().manual_seed(1)
    profiles = torch.rand(sizes.num_items, sum(sizes.item_field_dims), generator=generator)
    return ItemCatalog(torch.arange(1, sizes.num_items + 1), profiles)


def user_batch(batch_size=3, length=4, sizes=SIZES):
    generator = torch.Generator().manual_seed(2)
    history = torch.randint(sizes.num_items, (batch_size, length), generator=generator)
    profiles = torch.rand(batch_size, sum(sizes.user_field_dims), generator=generator)
    times = torch.rand(batch_size, length, generator=generator).cumsum(dim=1)
    lengths = torch.full((batch_size,), length)
    return UserBatch(
        torch.arange(1, batch_size + 1), profiles, history, torch.zeros(batch_size, length), times, lengths
    )


def test_widths_of_queries_keys_and_values_differ():
    heads = build_model().item_attn
    widths = heads.q.in_features, heads.k.in_features, heads.v.in_features
    assert widths == (16 + 7, 16 + 5, 16) and len(set(widths)) == 3


@pytest.mark.parametrize("module", [recommender, sasrec])
def test_no_state_depends_on_later_items(module):
    torch.manual_seed(0)
    model, batch, items = module.build(module.TINY, SIZES).eval(), user_batch(), item_catalog()
    later = batch._replace(history=batch.history.clone())
    later.history[:, 2] = (later.history[:, 2] + 1) % 10
    states, changed_states = model.states(batch, items), model.states(later, items)
    assert torch.equal(states[:, :3], changed_states[:, :3]) and not torch.equal(states[:, 3], changed_states[:, 3])


@pytest.mark.parametrize("module", [recommender, sasrec])
def test_padding_has_no_effect(module):
    torch.manual_seed(0)
    model, batch, items = module.build(module.TINY, SIZES).eval(), user_batch(), item_catalog()
    padded = batch._replace(
        **{
            name: torch.cat([getattr(batch, name), getattr(batch, name)[:, :2]], 1)
            for name in ("history", "ratings", "times")
        }
    )
    assert model.states(padded, items)[:, :5].allclose(model.states(batch, items), atol=1e-5)


@pytest.mark.parametrize("module", [recommender, sasrec])
def test_the_last_states_of_padded_histories_are_those_of_all_states(module):
    torch.manual_seed(0)
    model, items = module.build(module.TINY, SIZES).eval(), item_catalog()
    batch = user_batch()._replace(lengths=torch.tensor([4, 0, 2]))
    last = last_states(model, batch, items)
    assert last.allclose(model.states(batch, items)[torch.arange(3), batch.lengths], atol=1e-5)


def test_the_choice_is_the_attention_over_items():
    model, items = build_model(), item_catalog()
    states = model.states(user_batch(), items)[:, -1]
    with torch.no_grad(), record(model, only="item_attn") as maps:
        context = model.context(states, items)
    assert maps["item_attn"].weights[0, 0].allclose(all_log_probabilities(model, states, items).exp(), atol=1e-5)
    assert context.shape == (3, 16)


def test_the_mixture_of_heads_is_the_mean_of_their_maps():
    model, items = build_model(replace(TINY, choice_heads=2)), item_catalog()
    states = model.states(user_batch(), items)[:, -1]
    with torch.no_grad(), record(model, only="item_attn") as maps:
        model.context(states, items)
    mixed = torch.einsum("mh,hmn->mn", model.gates(states).exp(), maps["item_attn"].weights[0])
    assert mixed.allclose(all_log_probabilities(model, states, items).exp(), atol=1e-5)


@pytest.mark.parametrize("layers", [0, 2])
def test_the_last_state_is_the_sum_of_its_parts(layers):
    model, items = build_model(replace(TINY, layers=layers, user_dim=3)), item_catalog()
    with torch.no_grad():
        torch.nn.init.normal_(model.last.weight)
        torch.nn.init.normal_(model.last.bias)
        parts = model.state_contributions(user_batch(1), items)
        state = model.states(user_batch(1), items)[0, -1]
    assert parts.contributions.sum(dim=0).allclose(state, atol=1e-4)
    assert parts.contributions.shape[0] == 1 + 2 + 4 and float(parts.weights.sum()) == pytest.approx(1, abs=1e-5)


def test_a_history_without_blocks_is_a_set_but_for_its_last_item():
    model, batch, items = build_model(replace(TINY, layers=0, position="none")), user_batch(1), item_catalog()
    without_times = batch._replace(times=torch.zeros_like(batch.times))
    reordered = without_times._replace(history=without_times.history[:, [1, 0, 2, 3]])
    assert model.states(without_times, items)[:, -1].allclose(model.states(reordered, items)[:, -1], atol=1e-5)


def test_new_users_and_items_are_represented_by_their_profiles():
    model, items = build_model(), item_catalog()
    new_items = ItemCatalog(torch.zeros(4, dtype=torch.long), torch.rand(4, 5))
    new_users = user_batch(2, 0)._replace(ids=torch.zeros(2, dtype=torch.long))
    states = model.states(new_users, items)[:, -1]
    scores = all_log_probabilities(model, states, new_items)
    assert scores.isfinite().all() and (scores[0] - scores[1]).abs().max() > 1e-6
    assert (scores[:, 0] - scores[:, 1]).abs().max() > 1e-6


@pytest.mark.parametrize("objective", ["next", "rating"])
def test_the_sign_of_a_preference_is_learned(objective):
    """Users and items share one feature; users choose the items unlike them."""
    torch.manual_seed(0)
    sizes = RecommendationSpec(num_users=0, num_items=0, user_field_dims=(2,), item_field_dims=(2,), max_length=1)
    model = recommender.build(replace(TINY, layers=0), sizes)
    profiles = torch.tensor([[1.0, 0.0], [-1.0, 0.0]])
    items = ItemCatalog(torch.zeros(2, dtype=torch.long), profiles)
    empty = torch.zeros(2, 0)
    users = UserBatch(
        torch.zeros(2, dtype=torch.long), profiles, empty.long(), empty, empty, torch.zeros(2, dtype=torch.long)
    )
    opposite = torch.tensor([1, 0])
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    for _ in range(60):
        states = model.states(users, items)[:, -1]
        if objective == "next":
            loss = FullSoftmax()(model, states, items, opposite)
        else:
            liked, not_liked = (
                model.rating_logits(users, items, indices[:, None]) for indices in (opposite, 1 - opposite)
            )
            loss = -(liked.sigmoid().log() + (-not_liked).sigmoid().log()).sum()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    with torch.no_grad():
        states = model.eval().states(users, items)[:, -1]
        if objective == "next":
            assert all_log_probabilities(model, states, items).argmax(dim=1).tolist() == [1, 0]
        else:
            assert (model.rating_logits(users, items, opposite[:, None]) > 0).all()
            assert (model.rating_logits(users, items, 1 - opposite[:, None]) < 0).all()


def test_profile_and_item_dropout_in_training():
    model, batch, items = (
        build_model(replace(TINY, profile_dropout=0.5, item_dropout=0.5)).train(),
        user_batch(40),
        item_catalog(),
    )
    dropped = model.known.fields.drop_fields(batch.profiles)
    is_unknown = (dropped[:, :3] == torch.tensor([0.0, 0.0, 1.0])).all(dim=1)
    assert 5 < int(is_unknown.sum()) < 35 and torch.equal(dropped[~is_unknown, :3], batch.profiles[~is_unknown, :3])
    assert not torch.equal(model.items(items), model.items(items))
    assert torch.equal(model.eval().known.fields.drop_fields(batch.profiles), batch.profiles)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"dim": 0}, "dim=0 must be at least 1"),
        ({"choice_heads": 3}, "dim=16 cannot be divided among heads=2 and choice_heads=3"),
        ({"item_dropout": 1.0}, "item_dropout=1.0 must be at least 0 and below 1"),
    ],
)
def test_invalid_settings(change, message):
    with pytest.raises(ConfigError, match=message):
        replace(TINY, **change)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"layers": 0}, "layers=0 must be at least 1"),
        ({"heads": 3}, "dim=16 cannot be divided among heads=3"),
        ({"dropout": 1.0}, "dropout=1.0 must be at least 0 and below 1"),
    ],
)
def test_invalid_settings_of_sasrec(change, message):
    with pytest.raises(ConfigError, match=message):
        replace(sasrec.TINY, **change)
