import results_page


def test_the_page_is_written_from_its_files() -> None:
    page = results_page.page(results_page.stored(results_page.FIGURES), results_page.stored(results_page.MUSIC))
    assert (results_page.DOCS / "results.md").read_text(encoding="utf-8") == page
    assert "to be measured again" not in page


def test_baselines_are_listed_below_the_runs_of_their_task() -> None:
    results = {"nsmc": {"task": "classification", "scores": {"nb_svm.accuracy": 0.81234, "char_svm.accuracy": 0.85}}}
    assert "| 0.8123 | 0.8500 |" in results_page.baselines(results, "classification")
    assert results_page.baselines(results, "tagging") == ""


def test_the_parts_of_a_run_with_a_memory_are_listed() -> None:
    scores = {"chrf": 30.0, "bleu": 20.5, "bleu_13a": 9.25}
    assert "| model alone | 30.00 | 20.50 | 9.25 |" in results_page.systems(
        {"pydocs": {"systems": {"model alone": scores}}}
    )
    assert results_page.systems({"multi30k": {}}) == ""


def test_a_bleu_of_another_tokenizer_is_not_shown() -> None:
    record = {"signatures": {"bleu": "nrefs:1|tok:13a|smooth:exp"}, "pair": "en ko", "test": {"chrf": 5.0, "bleu": 4.0}}
    assert results_page.translation_figures(record) == ["5.00", "–", "–", "–"]
