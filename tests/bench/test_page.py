"""The page of the speed benchmark: computed from figures, also from those of a part of the works and systems."""

import json

import all as bench
import pytest

from systems import page, plot, targets


def rounds(*rates):
    return [{"rate": rate, "megabytes": 100.0, "foreign": 0.01, "length": 14.0} for rate in rates]


def points(exponent):
    return [{"points": [[n, 0.01 * n**exponent] for n in (1, 10, 100)], "megabytes": 1.0, "foreign": 0.02}]


WORKS = {
    "train-tiny": {"regard": rounds(200, 180, 210), "transformers": rounds(100, 100, 100), "PyTorch loop": []},
    "decode-tiny-beam": {
        "regard": rounds(90),
        "CTranslate2 float32 2x1": rounds(80),
        "CTranslate2 int8 2x1": rounds(100),
    },
    "corpus-tiny-greedy": {"regard": rounds(50), "CTranslate2 float32 2x1": rounds(40)},
    "startup-tiny": {"regard": [{"ready": 2.5, "megabytes": 1.0, "foreign": 0.0}]},
    "cost-length": {"regard": points(1.1)},
}


def row(task, system="regard"):
    (results,) = [t for t in targets.TARGETS if t.task == task and t.system == system]
    return targets.row(results, WORKS)


def test_a_ratio_is_the_median_of_the_rounds_against_the_peers_best_setting():
    assert row("train-tiny")[1:] == ["transformers", "≥ 2.5", "2.00 (1.80 to 2.10)", "**no**"]
    assert row("decode-tiny-beam")[1:] == ["CTranslate2 float32 2x1", "≥ 1.0", "1.12", "yes"]


def test_what_was_not_measured_says_so():
    assert row("train-base")[3:] == ["not measured", ""]
    assert row("text-single-greedy", "regard auto")[3:] == ["not measured", ""]


def test_the_page_has_what_was_measured_and_the_notes():
    text = page.page({"machine": {"processor": "2 x some"}, "works": WORKS}, "## Notes\n\nby hand\n")
    assert "by hand" in text and "### train-tiny" in text and "### train-base" not in text
    assert "| regard | 2.50 |" in text  # start-up
    assert "exponents: length 1.10" in text
    assert all(len(line) <= 120 or line.startswith("|") for line in text.splitlines())


def test_a_page_of_nothing_can_be_written():
    assert text_of_nothing().count("not measured") == len(targets.TARGETS) + len(targets.LIKE) + len(targets.OPEN) + 1


def text_of_nothing():
    return page.page({"machine": {}, "works": {}}, "")


def test_the_picture_is_drawn(tmp_path):
    pytest.importorskip("matplotlib", reason="the picture needs the extra plots")
    plot.draw(WORKS, tmp_path / "images" / "cost.png")
    assert (tmp_path / "images" / "cost.png").stat().st_size > 1000


def test_what_is_measured_is_not_measured_again():
    works = {"train-tiny": ["regard", "transformers"], "cost-length": ["regard"]}
    results = {"train-tiny": {"regard": rounds(1)}, "cost-length": {}}
    assert bench.left(works, results, count=2) == [
        (0, "train-tiny", "transformers"),
        (0, "cost-length", "regard"),
        (1, "train-tiny", "regard"),
        (1, "train-tiny", "transformers"),
    ]


def test_figures_are_kept_unless_measured_anew_or_of_another_machine(tmp_path, monkeypatch):
    monkeypatch.setattr(bench, "machine", lambda: {"processor": "this"})
    path = tmp_path / "speed.json"
    path.write_text(json.dumps({"machine": {"processor": "this"}, "works": WORKS}))
    chosen = {"train-tiny": ["regard"]}
    assert bench.begin(path, chosen, remeasure=False)["works"]["train-tiny"] == WORKS["train-tiny"]
    measured_again = bench.begin(path, chosen, remeasure=True)["works"]
    assert measured_again["train-tiny"] == {} and measured_again["startup-tiny"] == WORKS["startup-tiny"]
    monkeypatch.setattr(bench, "machine", lambda: {"processor": "another"})
    assert not any(bench.begin(path, chosen, remeasure=False)["works"].values())
