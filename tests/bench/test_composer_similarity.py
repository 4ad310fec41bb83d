"""Excerpts are described by numbers that tell composers apart; what samples are taken for is a table."""

import numpy as np
import pytest
import results_page

from regard.data.music.notes import Note

composer_similarity = pytest.importorskip("composer_similarity", reason="needs scikit-learn")


def line(pitches: list[int], *, wait: float, velocity: int) -> list[Note]:
    return [Note(index * wait, index * wait + wait, pitch, velocity) for index, pitch in enumerate(pitches)]


def test_a_piece_is_cut_into_excerpts_and_those_with_few_notes_are_left_out():
    notes = line([60, 62, 64, 65] * 20, wait=0.5, velocity=60)  # 40 seconds
    assert len(composer_similarity.excerpts(notes, 15)) == 3  # the last one has 20 notes
    assert len(composer_similarity.excerpts(notes[:70], 15)) == 2


def test_features_do_not_depend_on_key_or_length():
    calm = described([60, 62, 64, 65] * 8, wait=0.5, velocity=60)
    assert np.isfinite(calm).all()
    longer = described([60, 62, 64, 65] * 32, wait=0.5, velocity=60)
    assert np.abs(calm - longer).max() < 0.1
    wild = described([40, 80, 45, 90] * 8, wait=0.1, velocity=110)
    assert np.abs(calm - wild).max() > 5


def described(pitches: list[int], *, wait: float, velocity: int) -> np.ndarray:
    return np.array(list(composer_similarity.describe(line(pitches, wait=wait, velocity=velocity)).values()))


def test_only_the_length_features_depend_on_the_ends_of_notes():
    notes = line([60, 62, 64, 65] * 8, wait=0.5, velocity=60)
    held = [note._replace(end=note.start + 8) for note in notes]
    plain, long = composer_similarity.describe(notes), composer_similarity.describe(held)
    different = {name for name in plain if plain[name] != long[name]}
    assert different == set(composer_similarity.LENGTH_FEATURES) - {"spread of log lengths"}
    uneven = composer_similarity.describe([*held[:-1], held[-1]._replace(end=99.0)])
    assert {name for name in plain if plain[name] != uneven[name]} == set(composer_similarity.LENGTH_FEATURES)


def test_endless_notes_mislead_only_the_judge_of_all_features():
    def composer(velocity: int, length: float, seed: int) -> list[Note]:
        jitter = np.random.default_rng(seed).uniform(0.9, 1.1, size=32)
        notes = line([60, 62, 64, 65] * 8, wait=0.5, velocity=velocity)
        return [note._replace(end=note.start + length * factor) for note, factor in zip(notes, jitter, strict=True)]

    real = [("Short", 50, 0.2), ("Long", 70, 3.0)]
    rows = [composer_similarity.describe(composer(v, n, seed)) for _, v, n in real for seed in range(10)]
    judges = composer_similarity.train_judges(rows, [name for name, _, _ in real for _ in range(10)])
    sample = [composer_similarity.describe(composer(50, 8.0, seed)) for seed in range(4)]  # as Short, but without ends
    results = {
        name: composer_similarity.measure(judge, {"Short": sample, "Long": [], "": sample}, ["Long", "Short"])
        for name, judge in judges.items()
    }
    assert results["all features"]["correct"] == 0 and results["without note lengths"]["correct"] == 4
    assert results["without note lengths"]["taken"]["none"] == {"Long": 0.0, "Short": 1.0}
    for judge in judges.values():
        truth = ["Short"] * 10 + ["Short", "Long"]  # the last but one is in fact long
        scores = judge.score([*rows[:10], rows[-1], rows[-1]], truth)
        assert scores == {"accuracy": 11 / 12, "balanced_accuracy": pytest.approx((10 / 11 + 1) / 2)}
    farthest = composer_similarity.deviations(sample, rows)
    assert set(farthest) & set(composer_similarity.LENGTH_FEATURES) and len(farthest) == 3


def test_the_page_has_each_judge_with_its_interval():
    record = {"taken": {"Bach": {"Bach": 0.75, "Chopin": 0.25}}, "correct": 3, "samples": 4}
    measured = {"judges": {"all features": record}, "deviations": {"mean pitch": 1.25}}
    text = results_page.likeness(
        {
            "run": "asap",
            "real": {"all features": {"accuracy": 0.8, "balanced_accuracy": 0.6}, "older": {"accuracy": 0.7}},
            "excerpts": 40,
            "seconds": 20.0,
            "each": 8,
            "guidance": {"2": measured},
        }
    )
    assert "Real are 40 held-out excerpts" in text
    assert "| all features | 80% | 60% |" in text and "| older | 70% | – |" in text
    assert "| 2 | all features | 3 of 4 | 30% to 95% |" in text and "| Bach | 75% | 25% |" in text
    assert "standard deviations: mean pitch +1.2." in text
    assert results_page.wilson_interval(0, 0) == (0.0, 1.0)
    assert results_page.wilson_interval(10, 10)[1] == 1.0
