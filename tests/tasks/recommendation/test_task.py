"""Recommendation task: learning, lists with reasons, cold start, baselines, invalid data and requests."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from regard.core.errors import ConfigError, DataError
from regard.data.ratings import dataset, rating_files
from regard.data.ratings.tables import Columns
from regard.models import recommender, sasrec
from regard.tasks import recommendation
from regard.tasks.recommendation import TINY, Options, explain

CONFIG = replace(TINY, users=100, items=40, cold_users=0.1, cold_items=0.1)


def trained(task, epochs, config=None):
    """Return a model after a few epochs of training."""
    torch.manual_seed(0)
    model = recommender.build(config or replace(recommender.TINY, dim=32, item_dropout=0.1), task.spec)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    for epoch in range(epochs):
        for examples in task.epoch_batches(epoch, 1):
            loss = task.loss(model, task.collate(examples))
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


def test_it_learns_and_cold_start_beats_popularity(task, model):
    scores, popular = task.evaluate(model, "test", None), task.evaluation.popularity_metrics(2)
    report = task.evaluation.cold_start_metrics(model) | task.evaluation.oracle_metrics(2)
    assert popular["popularity_ndcg@10"] < scores["ndcg@10"] < report["truth_ndcg@10"] + 0.1
    assert report["new_users_ndcg@10"] > report["new_users_popularity_ndcg@10"]
    assert report["new_items_ndcg@10"] > report["new_items_popularity_ndcg@10"]
    assert set(task.signatures()) >= set(scores) | set(report) | set(popular)


def test_sampled_metrics_are_higher(task, model):
    sampled = task.evaluation.sampled_metrics(model, 2)
    assert sampled["sampled_hr@10"] >= task.evaluate(model, "test", None)["hr@10"]
    assert sampled == task.evaluation.sampled_metrics(model, 2)


def test_items_chosen_before_are_ranked_too_in_the_protocol_with_them(task, model):
    """The ranks are recomputed from the scores: an item chosen before that scores higher takes a place."""
    report, cases = task.evaluation.with_seen_metrics(model, 2), task.histories.test_cases(2)
    with torch.inference_mode():
        catalog = task.evaluation.item_catalog(torch.device("cpu"))
        scores = task.evaluation._log_probs(model, cases, catalog)
    targets = scores[torch.arange(len(cases)), task.evaluation.target_items(cases)]
    ranks = 1 + (scores > targets[:, None]).sum(dim=1)
    assert report["with_seen_hr@10"] == pytest.approx(float((ranks <= 10).double().mean()), abs=1e-6)
    assert report["with_seen_mrr"] == pytest.approx(float((1 / ranks.double()).mean()), rel=1e-3)
    assert report["with_seen_hr@10"] < task.evaluate(model, "test", None)["hr@10"]  # no film is chosen twice
    assert set(task.signatures()) >= set(report)


def test_a_constant_score_gains_nothing(task):
    """All weights zero: every item ties, so targets have the middle rank, among all items and among a sample."""
    model = sasrec.build(sasrec.TINY, task.spec).eval()
    for weight in model.parameters():
        torch.nn.init.zeros_(weight)
    num_items = len(task.data.items.ids)
    sampled = task.evaluation.sampled_metrics(model, 2)
    assert task.evaluate(model, "test", None)["hr@10"] == 0
    assert sampled["sampled_mrr"] < 2.5 / (min(num_items, 100) / 2) and sampled["sampled_hr@10"] < 0.5


ANY = replace(CONFIG, objective="any", split="random")


def test_any_other_item_is_predicted_from_a_part_of_the_history():
    task = recommendation.build(ANY)
    model = trained(task, 12, replace(recommender.TINY, dim=32, item_dropout=0.1, position="none"))
    scores, popular = task.evaluate(model, "test", None), task.evaluation.popularity_metrics(2)
    assert set(scores) == {f"{name}@10" for name in ("precision", "recall", "ndcg", "coverage", "novelty")} | {"loss"}
    assert scores["ndcg@10"] > popular["popularity_ndcg@10"]
    report = task.extra_metrics(model, "test", None)
    assert report["ease_ndcg@10"] > popular["popularity_ndcg@10"] and "sequence_knn_ndcg@10" not in report
    assert set(task.signatures()) >= set(scores) | set(report)
    query = task.parse_input(f"age=30 | {task.data.items.titles[1]}; {task.data.items.titles[2]}")
    assert len(task.predict(model, [query], Options(n=3), None)[0]) == 3


def test_the_order_of_a_history_is_hidden():
    task = recommendation.build(ANY)
    first, second = (task.collate(np.arange(4)) for _ in range(2))
    assert not first.users.history.equal(second.users.history) and not first.users.times.any()
    for case in task.histories.test_cases(2):
        history = task.histories.history_before(case)
        assert (task.data.split_ids[history] < 2).all()
        assert len(history) == (task.data.split_ids[task.data.events.users == case.user] < 2).sum()
    later = recommendation.build(replace(ANY, split="time"))
    assert later.histories.test_cases(2)


def test_baselines_that_see_the_order_are_evaluated(task, model):
    report = task.extra_metrics(model, "test", None)
    assert {"sequence_knn_hr@10", "ease_ndcg@10", "popularity_mrr"} <= set(report) <= set(task.signatures())


def test_baselines_are_chosen_on_earlier_choices_that_their_data_does_not_contain(task):
    for skipped in range(3):
        case = task.evaluation._selection_case(skipped)
        assert 0 <= case.metric(case.train.dense() + 0.5) <= 1
        assert len(case.train.users) == (task.data.split_ids < 1).sum() - skipped * len(np.unique(case.train.users))
    none_left = task.evaluation._selection_case(10_000)
    assert none_left.metric(none_left.train.dense()) == 0.0


def test_items_chosen_before_are_not_recommended(task, model):
    user = 5
    rows = slice(task.data.user_offsets[user], task.data.user_offsets[user + 1])
    chosen = set(np.array(task.data.items.titles)[task.data.events.items[rows]])
    query = task.parse_input(task.data.users.ids[user])
    (predictions,) = task.predict(model, [query], Options(n=40, reasons=0), None)
    assert not chosen & {item.text for item in predictions} and len(predictions) == 40 - len(chosen)
    (with_seen,) = task.predict(model, [query], Options(n=40, reasons=0, include_seen=True), None)
    assert len(with_seen) == 40


def test_evaluation_ranks_without_items_chosen_before(task):
    """A model that scores chosen items highest is not penalized for it."""

    class HistoryModel(torch.nn.Module):
        fields = ()

        def __init__(self):
            super().__init__()
            self.weight = torch.nn.Parameter(torch.zeros(()))

        def states(self, users, catalog):
            scores = torch.zeros(len(users.history), len(catalog.ids))
            scores.scatter_(1, users.history, 10.0)
            return scores[:, None].expand(-1, users.history.shape[1] + 1, -1)

        def gates(self, states):
            return states.new_zeros(len(states), 1)

        def scores(self, states, catalog):
            return states[:, None] + torch.arange(len(catalog.ids)) / 1000

    cases = task.histories.test_cases(2)
    ranking = task.evaluation.rank_cases(HistoryModel(), cases)
    num_unseen = len(task.data.items.ids) - np.array([len(task.histories.history_before(case)) for case in cases])
    assert (ranking.ranks.numpy() <= num_unseen).all()


def test_every_prediction_has_reasons_and_the_rank_without_the_strongest(task, model):
    text = f"age=30, occupation=artist | {task.data.items.titles[1]}; {task.data.items.titles[2]}"
    (predictions,) = task.predict(model, [task.parse_input(text)], Options(n=5, reasons=3), None)
    assert len(predictions) == 5
    names = {"age 30", "occupation artist", task.data.items.titles[1], task.data.items.titles[2]}
    for rank, prediction in enumerate(predictions, start=1):
        explanation = prediction.value.explanation
        assert {reason.name for reason in explanation.reasons} <= names and explanation.rank_without >= 1
        shares = [reason.share for reason in explanation.reasons]
        assert shares == sorted(shares, reverse=True) and sum(shares) <= 1 + 1e-5
        moved = f"it is no. {explanation.rank_without} instead of {rank}"
        assert (f"it stays no. {rank}" if explanation.rank_without == rank else moved) in prediction.text
    assert any(item.value.explanation.rank_without != rank for rank, item in enumerate(predictions, start=1))


def test_removing_evidence_equals_a_query_without_it(task, model):
    query = task.parse_input(f"age=30, occupation=artist | {task.data.items.titles[1]}; {task.data.items.titles[2]}")
    fewer = task.parse_input(f"age=30 | {task.data.items.titles[2]}")
    users, _ = task.recommender.user_batch(query)
    expected, _ = task.recommender.user_batch(fewer)
    removed = explain.remove_evidence(explain.remove_evidence(users, 3, model.fields), 2, model.fields)
    for tensor, expected_tensor in zip(removed, expected, strict=True):
        assert torch.equal(tensor, expected_tensor)


def test_a_model_without_contributions_has_reasons_too(task):
    torch.manual_seed(0)
    plain = sasrec.build(sasrec.TINY, task.spec).eval()
    (predictions,) = task.predict(plain, [task.parse_input(task.examples[0])], Options(n=3), None)
    assert all(reason.weight is None for item in predictions for reason in item.value.explanation.reasons)
    inspectable = task.inspect(plain, task.parse_input(task.examples[0]), Options(), None)
    assert inspectable.extra["recommendation"]["list"]


def test_approximate_lists_are_nearly_the_exact_ones(task, model):
    pytest.importorskip("usearch")
    exact, approximate = (
        task.predict(model, [task.parse_input(task.examples[0])], Options(n=5, index=index, reasons=0), None)[0]
        for index in ("exact", "approximate")
    )
    scores = {item.text: item.score for item in exact}
    shared = [item for item in approximate if item.text in scores]
    assert len(shared) >= 4
    assert all(item.score == pytest.approx(scores[item.text], abs=1e-4) for item in shared)


def test_approximate_lists_need_the_objective_next():
    task = recommendation.build(replace(TINY, objective="ratings"))
    message = "index=approximate: it ranks items, but this run was trained with data.objective=ratings"
    with pytest.raises(ConfigError, match=f"^{message}; leave it out$"):
        task.predict(trained(task, 0), [task.parse_input(task.examples[0])], Options(index="approximate"), None)


def test_options_override_the_input(task, model):
    options = Options(user=task.examples[1], n=3)
    ((answer, *_),) = task.predict(model, [task.parse_input("")], options, None)
    ((same, *_),) = task.predict(model, [task.parse_input(task.examples[1])], Options(n=3), None)
    assert answer.text == same.text


def test_remarks_report_missing_and_unknown_values(task, model):
    options = Options(profile="occupation=astronaut", history=task.data.items.titles[0])
    ((answer, *_),) = task.predict(model, [task.parse_input("")], options, None)
    assert "occupation='astronaut' is not in the training data" in answer.remarks[0]
    assert answer.remarks[1] == "not specified: age, occupation"


@pytest.mark.parametrize(("objective", "metric"), [("clicks", "auc"), ("ratings", "rmse")])
def test_ratings_are_learned(objective, metric):
    task = recommendation.build(replace(CONFIG, objective=objective, cold_users=0.0, cold_items=0.0, split="random"))
    untrained, model = trained(task, 0), trained(task, 4)
    before, after = (task.evaluate(item, "test", None)[metric] for item in (untrained, model))
    assert after > before if objective == "clicks" else after < before
    pytest.importorskip("sklearn")
    report = task.extra_metrics(model, "test", None)
    assert 0 < report["factorisation_auc"] <= 1 and report["factorisation_log_loss"] > 0
    (predictions,) = task.predict(model, [task.parse_input(task.examples[0])], Options(n=3), None)
    assert len(predictions) == 3 and predictions[0].value.explanation.rank_without is not None
    scores = [item.ranking_score for item in predictions]
    assert [item.score for item in predictions] == (scores if objective == "clicks" else [None] * 3)
    low, high = task.data.scale if objective == "ratings" else (-np.inf, 0.0)  # predicted ratings, or log p
    assert scores == sorted(scores, reverse=True) and all(low <= score <= high for score in scores)
    outputs = task.inspect(model, task.parse_input(task.examples[0]), Options(n=3), None).outputs
    assert [output.score for output in outputs] == (scores if objective == "clicks" else [None] * 3)


def write_ratings(path, rating):
    """Write a table of nine users with six ratings each; `rating` maps the index of a choice to its rating."""
    rows = [f"u{user},i{(user + 7 * item) % 9},{rating(item)},{item}\n" for user in range(9) for item in range(6)]
    path.write_text("user,item,rating,time\n" + "".join(rows))
    return path


@pytest.mark.parametrize(
    ("objective", "rating", "message"),
    [
        ("ratings", lambda item: 3, "^all ratings are 3: there is nothing to predict; choose data.objective=next$"),
        (
            "clicks",
            lambda item: 1 if item < 2 else 5,
            "^all ratings held out for 'valid' are liked, so AUC is undefined",
        ),
        ("clicks", lambda item: 5 if item < 2 else 1, "^all ratings held out for 'valid' are not liked, so AUC"),
    ],
)
def test_constant_ratings_are_refused(tmp_path, objective, rating, message):
    with pytest.raises(DataError, match=message):
        recommendation.build(recommendation.Config(path=write_ratings(tmp_path / "r.csv", rating), objective=objective))


@pytest.mark.parametrize("rating", [lambda item: 3 + item // 5, lambda item: 5 - item // 5])
def test_undefined_metrics_are_left_out_of_the_report(tmp_path, rating):
    """All training ratings are equal, and the held-out ratings are all liked, or all not liked."""
    pytest.importorskip("sklearn")
    task = recommendation.build(
        recommendation.Config(path=write_ratings(tmp_path / "r.csv", rating), objective="ratings")
    )
    report = task.extra_metrics(recommender.build(recommender.TINY, task.spec).eval(), "test", None)
    assert set(report) == {"factorisation_rmse"} and report["factorisation_rmse"] == pytest.approx(1.0)


@pytest.mark.parametrize("loss", ["sampled", "one_negative"])
def test_other_losses_learn_too(loss):
    task = recommendation.build(replace(TINY, loss=loss, num_negatives=8))
    before, after = (task.evaluate(trained(task, epochs), "valid", None)["ndcg@10"] for epochs in (0, 5))
    assert after > before


def test_baselines_are_evaluated_on_the_same_cases(task):
    pytest.importorskip("implicit")
    scores = task.evaluation.baseline_metrics(2) | task.evaluation.popularity_metrics(2)
    assert {f"{name}_hr@10" for name in ("popularity", "item_knn", "factorisation")} <= set(scores)
    assert scores["item_knn_ndcg@10"] > scores["popularity_ndcg@10"]


def test_an_unknown_split_is_refused(task, model):
    with pytest.raises(DataError, match="there is no split 'tset' to evaluate; did you mean 'test'"):
        task.evaluate(model, "tset", None)


def test_users_with_one_rating_are_trained_on_but_not_evaluated(tmp_path):
    rows = "".join(f"{user},a{user % 3},5,{user}\n" for user in range(9))
    (tmp_path / "r.csv").write_text("user,item,rating,time\n" + rows)
    config = recommendation.Config(path=tmp_path / "r.csv")
    with pytest.raises(
        DataError, match="no rating is held out for 'valid': users have too few ratings; give more, or choose split="
    ):
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
    ("changes", "message"),
    [
        ({"eval_k": 0}, "eval_k=0 must be at least 1"),
        ({"items": 5}, "items=5 must be at least 20"),
        ({"cold_items": 1.0}, "cold_items=1.0 must be at least 0 and below 1"),
        ({"scale": (5.0, 1.0)}, "give the lowest rating, then the highest"),
        ({"objective": "clicks", "rating": ""}, "objective=clicks needs a column of ratings"),
    ],
)
def test_invalid_settings_are_refused(changes, message):
    with pytest.raises(ConfigError, match=message):
        replace(TINY, **changes)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"n": 0}, "n=0 must be at least 1"),
        ({"reasons": -1}, "reasons=-1 must be at least 0"),
        ({"user": "1", "history": "x"}, "give user=…, or a new user's profile=… and history=…, not both"),
    ],
)
def test_invalid_options_are_refused(options, message):
    with pytest.raises(ConfigError, match=message):
        Options(**options)


@pytest.mark.parametrize("include_seen", [False, True])
def test_users_together_get_the_predictions_of_each_alone(task, model, include_seen):
    """Users of the data with short and long histories, a new user and an empty input are ranked in one batch."""
    titles = task.data.items.titles
    texts = [*task.data.users.ids[:6], "", f"age=30 | {titles[1]}; {titles[2]}"]
    queries, options = [task.parse_input(text) for text in texts], Options(n=5, include_seen=include_seen)
    together = task.predict(model, queries, options, None)
    for query, predictions in zip(queries, together, strict=True):
        (alone,) = task.predict(model, [query], options, None)
        assert [item.text for item in predictions] == [item.text for item in alone]
        assert [item.score for item in predictions] == pytest.approx([item.score for item in alone], abs=1e-5)


def test_lists_of_many_users_equal_those_of_each(task, model):
    texts = [*task.data.users.ids[:5], f"age=30 | {task.data.items.titles[1]}; {task.data.items.titles[2]}", ""]
    queries = [task.parse_input(text) for text in texts]
    for options in (Options(n=4, reasons=0), Options(n=4, reasons=2)):
        together = task.predict(model, queries, options, None)
        for query, predictions in zip(queries, together, strict=True):
            (alone,) = task.predict(model, [query], options, None)
            assert [(p.text, p.remarks, p.data) for p in predictions] == [(p.text, p.remarks, p.data) for p in alone]
            assert [p.score for p in predictions] == pytest.approx([p.score for p in alone], abs=1e-5)
