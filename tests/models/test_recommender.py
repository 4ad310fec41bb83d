"""The recommender: widths that differ, a sign that has to be learnt, new users and items, a state that is a sum."""

from dataclasses import replace

import pytest
import torch

from regard.attention.record import record
from regard.core.data_specs import RecommendationSpec
from regard.core.errors import ConfigError
from regard.core.protocols.recommender import ItemCatalog, UserBatch
from regard.layers.item_softmax import FullSoftmax, all_log_probabilities
from regard.models import recommender, sasrec
from regard.models.recommender import TINY

SIZES = RecommendationSpec(
    num_users=6, num_items=10, user_field_dims=(3, 4), item_field_dims=(5,), max_length=8, span_days=10.0
)


def built(config=TINY, sizes=SIZES):
    torch.manual_seed(0)
    return recommender.build(config, sizes).eval()


def shelf(sizes=SIZES):
    generator = torch.Generator().manual_seed(1)
    profiles = torch.rand(sizes.num_items, sum(sizes.item_field_dims), generator=generator)
    return ItemCatalog(torch.arange(1, sizes.num_items + 1), profiles)


def people(rows=3, length=4, sizes=SIZES):
    generator = torch.Generator().manual_seed(2)
    history = torch.randint(sizes.num_items, (rows, length), generator=generator)
    profiles = torch.rand(rows, sum(sizes.user_field_dims), generator=generator)
    times = torch.rand(rows, length, generator=generator).cumsum(dim=1)
    lengths = torch.full((rows,), length)
    return UserBatch(torch.arange(1, rows + 1), profiles, history, torch.zeros(rows, length), times, lengths)


def test_widths_of_queries_keys_and_values_differ():
    heads = built().item_attn
    widths = heads.q.in_features, heads.k.in_features, heads.v.in_features
    assert widths == (16 + 7, 16 + 5, 16) and len(set(widths)) == 3


@pytest.mark.parametrize("kind", [recommender, sasrec])
def test_no_state_sees_what_is_chosen_later(kind):
    torch.manual_seed(0)
    model, given, items = kind.build(kind.TINY, SIZES).eval(), people(), shelf()
    later = given._replace(history=given.history.clone())
    later.history[:, 2] = (later.history[:, 2] + 1) % 10
    one, other = model.states(given, items), model.states(later, items)
    assert torch.equal(one[:, :3], other[:, :3]) and not torch.equal(one[:, 3], other[:, 3])


@pytest.mark.parametrize("kind", [recommender, sasrec])
def test_padding_changes_nothing(kind):
    torch.manual_seed(0)
    model, given, items = kind.build(kind.TINY, SIZES).eval(), people(), shelf()
    more = given._replace(
        **{
            name: torch.cat([getattr(given, name), getattr(given, name)[:, :2]], 1)
            for name in ("history", "ratings", "times")
        }
    )
    assert model.states(more, items)[:, :5].allclose(model.states(given, items), atol=1e-5)


def test_the_choice_is_the_attention_over_items():
    model, items = built(), shelf()
    states = model.states(people(), items)[:, -1]
    with torch.no_grad(), record(model, only="item_attn") as maps:
        context = model.context(states, items)
    assert maps["item_attn"].weights[0, 0].allclose(all_log_probabilities(model, states, items).exp(), atol=1e-5)
    assert context.shape == (3, 16)


def test_the_mixture_of_heads_is_the_mean_of_their_maps():
    model, items = built(replace(TINY, choice_heads=2)), shelf()
    states = model.states(people(), items)[:, -1]
    with torch.no_grad(), record(model, only="item_attn") as maps:
        model.context(states, items)
    mixed = torch.einsum("mh,hmn->mn", model.gates(states).exp(), maps["item_attn"].weights[0])
    assert mixed.allclose(all_log_probabilities(model, states, items).exp(), atol=1e-5)


@pytest.mark.parametrize("layers", [0, 2])
def test_the_last_state_is_the_sum_of_its_parts(layers):
    model, items = built(replace(TINY, layers=layers, user_dim=3)), shelf()
    with torch.no_grad():
        torch.nn.init.normal_(model.last.weight)
        torch.nn.init.normal_(model.last.bias)
        parts = model.state_contributions(people(1), items)
        state = model.states(people(1), items)[0, -1]
    assert parts.contributions.sum(dim=0).allclose(state, atol=1e-4)
    assert parts.contributions.shape[0] == 1 + 2 + 4 and float(parts.weights.sum()) == pytest.approx(1, abs=1e-5)


def test_a_history_without_blocks_is_a_set_but_for_its_last_item():
    model, given, items = built(replace(TINY, layers=0, position="none")), people(1), shelf()
    still = given._replace(times=torch.zeros_like(given.times))
    turned = still._replace(history=still.history[:, [1, 0, 2, 3]])
    assert model.states(still, items)[:, -1].allclose(model.states(turned, items)[:, -1], atol=1e-5)


def test_new_users_and_new_items_are_known_by_their_profiles():
    model, items = built(), shelf()
    fresh = ItemCatalog(torch.zeros(4, dtype=torch.long), torch.rand(4, 5))
    nobody = people(2, 0)._replace(numbers=torch.zeros(2, dtype=torch.long))
    states = model.states(nobody, items)[:, -1]
    scores = all_log_probabilities(model, states, fresh)
    assert scores.isfinite().all() and (scores[0] - scores[1]).abs().max() > 1e-6
    assert (scores[:, 0] - scores[:, 1]).abs().max() > 1e-6


@pytest.mark.parametrize("objective", ["next", "opinion"])
def test_the_sign_of_a_preference_is_learnt(objective):
    """Users and items share one feature; half of the items are chosen by those who are unlike them."""
    torch.manual_seed(0)
    sizes = RecommendationSpec(num_users=0, num_items=0, user_field_dims=(2,), item_field_dims=(2,), max_length=1)
    model = recommender.build(replace(TINY, layers=0), sizes)
    kind = torch.tensor([[1.0, 0.0], [-1.0, 0.0]])
    items = ItemCatalog(torch.zeros(2, dtype=torch.long), kind)
    none = torch.zeros(2, 0)
    users = UserBatch(torch.zeros(2, dtype=torch.long), kind, none.long(), none, none, torch.zeros(2, dtype=torch.long))
    opposite = torch.tensor([1, 0])
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    for _ in range(60):
        states = model.states(users, items)[:, -1]
        if objective == "next":
            loss = FullSoftmax()(model, states, items, opposite)
        else:
            liked, not_liked = (
                model.rating_logits(users, items, places[:, None]) for places in (opposite, 1 - opposite)
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


def test_while_training_profiles_and_items_are_left_out_at_times():
    model, given, items = built(replace(TINY, profile_dropout=0.5, item_dropout=0.5)).train(), people(40), shelf()
    told = model.known.fields.drop_fields(given.profiles)
    hidden = (told[:, :3] == torch.tensor([0.0, 0.0, 1.0])).all(dim=1)
    assert 5 < int(hidden.sum()) < 35 and torch.equal(told[~hidden, :3], given.profiles[~hidden, :3])
    assert not torch.equal(model.items(items), model.items(items))
    assert torch.equal(model.eval().known.fields.drop_fields(given.profiles), given.profiles)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"dim": 0}, "dim, heads, hidden and choice_heads must be at least 1"),
        ({"choice_heads": 3}, "dim=16 cannot be divided among heads=2 and choice_heads=3"),
        ({"item_dropout": 1.0}, "item_dropout=1.0 is not a probability below 1"),
    ],
)
def test_wrong_settings(change, message):
    with pytest.raises(ConfigError, match=message):
        replace(TINY, **change)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"layers": 0}, "layers, dim, heads and hidden must be at least 1"),
        ({"heads": 3}, "dim=16 cannot be divided among heads=3"),
        ({"dropout": 1.0}, "dropout=1.0 is not a probability below 1"),
    ],
)
def test_wrong_settings_of_sasrec(change, message):
    with pytest.raises(ConfigError, match=message):
        replace(sasrec.TINY, **change)
