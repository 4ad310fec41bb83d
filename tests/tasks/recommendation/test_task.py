"""Recommendation as a task: learning the built-in tastes, lists and reasons, bad input, new users and items."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from regard.core.errors import ConfigError, DataError
from regard.data.ratings import dataset, rating_files
from regard.data.ratings.tables import Columns
from regard.models import recommender, sasrec
from regard.tasks import recommendation
from regard.tasks.recommendation import TINY, Options, evaluation, explain, recommend

CONFIG = replace(TINY, users=100, items=40, held_users=0.1, held_items=0.1)


def trained(task, epochs, config=None):
    """A model after a few epochs of plain training."""
    torch.manual_seed(0)
    model = recommender.build(config or replace(recommender.TINY, dim=32, item_dropout=0.1), task.sizes)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    for epoch in range(epochs):
        for examples in task.plan(epoch, 1):
            loss = task.loss(model, task.batch(examples))
            optimizer.zero_grad()
            (loss.total / loss.count).backward()
            optimizer.step()
    return model.eval()


@pytest.fixture(scope="module")
def task():
    return recommendation.build(CONFIG)


@pytest.fixture(scope="module")
def model(task):
    return trained(task, 6)


def test_tastes_are_learnt_and_new_ones_fare_better_than_by_popularity(task, model):
    scores, report = (
        task.evaluate(model, "test", None),
        evaluation.cold_start_metrics(task, model) | evaluation.oracle_metrics(task, 2),
    )
    popular = evaluation.popularity_metrics(task, 2)
    assert popular["popularity_ndcg@10"] < scores["ndcg@10"] < report["truth_ndcg@10"] + 0.1
    assert report["new_users_ndcg@10"] > report["new_users_popularity_ndcg@10"]
    assert report["new_items_ndcg@10"] > report["new_items_popularity_ndcg@10"]
    assert set(task.signatures()) >= set(scores) | set(report) | set(popular)


def test_sampled_metrics_are_higher(task, model):
    found = evaluation.sampled_metrics(task, model, 2)
    assert found["sampled_hr@10"] >= task.evaluate(model, "test", None)["hr@10"]
    assert found == evaluation.sampled_metrics(task, model, 2)


def test_a_list_has_nothing_that_was_seen(task, model):
    place = 5
    rows = slice(task.data.starts[place], task.data.starts[place + 1])
    seen = set(np.array(task.data.items.titles)[task.data.events.items[rows]])
    (listed,) = task.answer(model, [task.read(task.data.users.ids[place])], Options(n=40, reasons=0), None)
    assert not seen & {answer.text for answer in listed} and len(listed) == 40 - len(seen)
    (again,) = task.answer(
        model, [task.read(task.data.users.ids[place])], Options(n=40, reasons=0, include_seen=True), None
    )
    assert len(again) == 40


def test_evaluation_ranks_without_what_was_seen(task):
    """A model that scores what was seen highest is not hurt by it: defect 20."""

    class Nosy(torch.nn.Module):
        fields = ()

        def __init__(self):
            super().__init__()
            self.weight = torch.nn.Parameter(torch.zeros(()))

        def states(self, people, shelf):
            seen = torch.zeros(len(people.history), len(shelf.numbers))
            seen.scatter_(1, people.history, 10.0)
            return seen[:, None].expand(-1, people.history.shape[1] + 1, -1)

        def gates(self, states):
            return states.new_zeros(len(states), 1)

        def scores(self, states, shelf):
            return states[:, None] + torch.arange(len(shelf.numbers)) / 1000

    questions = task.histories.questions(2)
    ranked = task.ranked(Nosy(), questions)
    unseen = len(task.data.items.ids) - np.array([len(task.histories.before(q)) for q in questions])
    assert (ranked.ranks.numpy() <= unseen).all()


def test_every_answer_has_reasons_and_the_check(task, model):
    given = f"age=30, occupation=artist | {task.data.items.titles[1]}; {task.data.items.titles[2]}"
    (answers,) = task.answer(model, [task.read(given)], Options(n=5, reasons=3), None)
    assert len(answers) == 5
    names = {"age 30", "occupation artist", task.data.items.titles[1], task.data.items.titles[2]}
    for number, answer in enumerate(answers, start=1):
        checked = answer.value.reasons
        assert {reason.name for reason in checked.reasons} <= names and checked.rank_without >= 1
        shares = [reason.share for reason in checked.reasons]
        assert shares == sorted(shares, reverse=True) and sum(shares) <= 1 + 1e-5
        moved = f"it is no. {checked.rank_without} instead of {number}"
        assert (f"it stays no. {number}" if checked.rank_without == number else moved) in answer.text
    assert any(answer.value.reasons.rank_without != n for n, answer in enumerate(answers, start=1))


def test_taking_a_reason_away_is_as_if_it_were_never_told(task, model):
    told = task.read(f"age=30, occupation=artist | {task.data.items.titles[1]}; {task.data.items.titles[2]}")
    fewer = task.read(f"age=30 | {task.data.items.titles[2]}")
    people, _ = recommend.user_batch(task, told)
    wanted, _ = recommend.user_batch(task, fewer)
    found = explain.remove_evidence(explain.remove_evidence(people, 3, model.fields), 2, model.fields)
    for one, other in zip(found, wanted, strict=True):
        assert torch.equal(one, other)


def test_a_model_without_parts_has_reasons_too(task):
    torch.manual_seed(0)
    plain = sasrec.build(sasrec.TINY, task.sizes).eval()
    (answers,) = task.answer(plain, [task.read(task.examples[0])], Options(n=3), None)
    assert all(reason.weight is None for answer in answers for reason in answer.value.reasons.reasons)
    seen = task.show(plain, task.read(task.examples[0]), Options(), None)
    assert seen.extra["recommendation"]["list"]


def test_approximate_lists_are_nearly_the_exact_ones(task, model):
    pytest.importorskip("usearch")
    exact, near = (
        task.answer(model, [task.read(task.examples[0])], Options(n=5, index=search, reasons=0), None)[0]
        for search in ("exact", "approximate")
    )
    scores = {answer.text: answer.score for answer in exact}
    both = [answer for answer in near if answer.text in scores]
    assert len(both) >= 4
    assert all(answer.score == pytest.approx(scores[answer.text], abs=1e-4) for answer in both)


def test_approximate_lists_are_of_what_comes_next():
    task = recommendation.build(replace(TINY, objective="ratings"))
    message = "search=approximate is for lists of what comes next, and this run was trained with data.objective=ratings"
    with pytest.raises(ConfigError, match=f"^{message}; leave it out$"):
        task.predict(trained(task, 0), [task.parse_input(task.examples[0])], Options(index="approximate"), None)


def test_options_come_before_the_input(task, model):
    told = Options(user=task.examples[1], n=3)
    ((answer, *_),) = task.answer(model, [task.read("")], told, None)
    ((same, *_),) = task.answer(model, [task.read(task.examples[1])], Options(n=3), None)
    assert answer.text == same.text


def test_remarks_say_what_was_not_told_or_never_seen(task, model):
    asked = Options(profile="occupation=astronaut", history=task.data.items.titles[0])
    ((answer, *_),) = task.answer(model, [task.read("")], asked, None)
    assert "occupation='astronaut' was never seen" in answer.remarks[0]
    assert answer.remarks[1] == "not told: age, occupation"


@pytest.mark.parametrize(("objective", "metric"), [("clicks", "auc"), ("ratings", "rmse")])
def test_opinions_are_learnt(objective, metric):
    task = recommendation.build(replace(CONFIG, objective=objective, held_users=0.0, held_items=0.0, split="random"))
    fresh, model = trained(task, 0), trained(task, 4)
    before, after = (task.evaluate(each, "test", None)[metric] for each in (fresh, model))
    assert after > before if objective == "clicks" else after < before
    pytest.importorskip("sklearn")
    beside = task.extra_metrics(model, "test", None)
    assert 0 < beside["factorisation_auc"] <= 1 and beside["factorisation_log_loss"] > 0
    (answers,) = task.predict(model, [task.parse_input(task.examples[0])], Options(n=3), None)
    assert len(answers) == 3 and answers[0].value.reasons.rank_without is not None
    scores = [answer.score for answer in answers]
    low, high = task.data.scale if objective == "ratings" else (-np.inf, 0.0)  # ratings that are foretold, or log p
    assert scores == sorted(scores, reverse=True) and all(low <= score <= high for score in scores)
    outputs = task.inspect(model, task.parse_input(task.examples[0]), Options(n=3), None).outputs
    assert [output.score for output in outputs] == (scores if objective == "clicks" else [None] * 3)


def _rated(path, star):
    rows = [f"u{user},i{(user + 7 * item) % 9},{star(item)},{item}\n" for user in range(9) for item in range(6)]
    path.write_text("user,item,rating,time\n" + "".join(rows))
    return path


@pytest.mark.parametrize(
    ("objective", "star", "message"),
    [
        ("ratings", lambda item: 3, "^all ratings are 3: there is nothing to foretell; choose data.objective=next$"),
        ("clicks", lambda item: 1 if item < 2 else 5, "^all that is held out for 'valid' is liked, so there is no AUC"),
        ("clicks", lambda item: 5 if item < 2 else 1, "^all that is held out for 'valid' is not liked, so there is no"),
    ],
)
def test_ratings_that_cannot_be_told_apart_are_refused(tmp_path, objective, star, message):
    with pytest.raises(DataError, match=message):
        recommendation.build(recommendation.Config(path=_rated(tmp_path / "r.csv", star), objective=objective))


@pytest.mark.parametrize("star", [lambda item: 3 + item // 5, lambda item: 5 - item // 5])
def test_what_few_ratings_cannot_tell_is_left_out_of_the_report(tmp_path, star):
    """What is learnt from is all the same, and what is held out is all liked, or all not."""
    pytest.importorskip("sklearn")
    task = recommendation.build(recommendation.Config(path=_rated(tmp_path / "r.csv", star), objective="ratings"))
    found = task.extra_metrics(recommender.build(recommender.TINY, task.spec).eval(), "test", None)
    assert set(found) == {"factorisation_rmse"} and found["factorisation_rmse"] == pytest.approx(1.0)


@pytest.mark.parametrize("loss", ["sampled", "one_negative"])
def test_other_losses_learn_too(loss):
    task = recommendation.build(replace(TINY, loss=loss, negatives=8))
    fresh, model = (task.evaluate(trained(task, epochs), "valid", None)["ndcg@10"] for epochs in (0, 5))
    assert model > fresh


def test_rivals_are_asked_the_same(task):
    pytest.importorskip("implicit")
    found = evaluation.baseline_metrics(task, 2) | evaluation.popularity_metrics(task, 2)
    assert {f"{name}_hr@10" for name in ("popularity", "item_knn", "factorisation")} <= set(found)
    assert found["item_knn_ndcg@10"] > found["popularity_ndcg@10"]


def test_a_split_that_is_not_there(task, model):
    with pytest.raises(DataError, match="there is no split 'tset' to ask about; did you mean 'test'"):
        task.evaluate(model, "tset", None)


def test_users_with_one_rating_are_learnt_from_but_leave_nothing_to_ask(tmp_path):
    rows = "".join(f"{user},a{user % 3},5,{user}\n" for user in range(9))
    (tmp_path / "r.csv").write_text("user,item,rating,time\n" + rows)
    config = recommendation.Config(path=tmp_path / "r.csv")
    with pytest.raises(DataError, match="no rating is held out for 'valid': users have too few; give more, or split="):
        recommendation.build(config)  # before anything is written
    task = recommendation.Recommendation(
        config, dataset.build_collection(rating_files.find_tables(config.path, Columns()), config.dataset_options)
    )
    assert "9 users have fewer than three ratings (9 have one)" in task.data_warnings()[0]
    model = recommender.build(recommender.TINY, task.spec)
    assert task.loss(model, task.collate(task.epoch_batches(0, 1)[0])).total.item() > 0
    with pytest.raises(DataError, match="no rating is held out for 'valid': users have too few"):
        task.evaluate(model, "valid", None)


def test_a_leak_between_files_is_refused(tmp_path):
    (tmp_path / "train.csv").write_text("user,item,rating,time\n1,a,5,1\n1,b,5,9\n")
    (tmp_path / "test.csv").write_text("user,item,rating,time\n1,c,5,5\n")
    config = recommendation.Config(path=tmp_path, split="files")
    with pytest.raises(DataError, match="1 training ratings come from the future: user '1' has one at 9"):
        recommendation.build(config)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"top": 0}, "top=0 must be at least 1"),
        ({"items": 5}, "items=5 must be at least 20"),
        ({"held_items": 1.0}, "held_items=1.0 must be at least 0 and below 1"),
        ({"scale": (5.0, 1.0)}, "give the lowest rating, then the highest"),
        ({"objective": "clicks", "rating": ""}, "objective=clicks needs a column of ratings"),
    ],
)
def test_wrong_settings(change, message):
    with pytest.raises(ConfigError, match=message):
        replace(TINY, **change)


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        ({"count": 0}, "count=0: ask for at least one"),
        ({"reasons": -1}, "reasons=-1 must be at least 0"),
        ({"user": "1", "history": "x"}, "give user=…, or a new user's profile=… and history=…, not both"),
    ],
)
def test_wrong_requests(asked, message):
    with pytest.raises(ConfigError, match=message):
        Options(**asked)
