"""Write docs/results.md from run folders: figures come from a run's own files and a fresh decoding of the test data.

    python bench/results.py RUNS            # RUNS/<recipe name>/ is a run trained by recipes/<recipe name>.toml

RUNS/<recipe name>-2/, -3/ … are runs of the same recipe with other seeds: the page shows mean and standard deviation.
Figures already in docs/results.json stay unless their run is given again. The plot of BLEU by sentence length is drawn
from the German -> English runs (Bahdanau et al. 2015, figure 2).
"""

from __future__ import annotations

import json
import platform
import re
import sys
import time
from itertools import pairwise
from pathlib import Path
from statistics import mean, stdev
from typing import Any

from results_page import FIGURES, ROOT, store, stored

from regard.api.run import Run, load
from regard.core.errors import DataError
from regard.tasks.translation import baselines, metrics
from regard.training import stored_evaluations

SEED_SUFFIX = re.compile(r"-\d+$")  # of the folder of a run with another seed
EDGES = (1, 7, 10, 13, 16, 20, 60)  # source words


def main(runs: Path) -> None:
    """Evaluate the runs, then write the figures and the page."""
    figures = stored(FIGURES)
    by_recipe: dict[str, list[Path]] = {}
    for folder in sorted(path for path in runs.iterdir() if (path / "model.safetensors").exists()):
        by_recipe.setdefault(SEED_SUFFIX.sub("", folder.name), []).append(folder)
    for recipe, folders in by_recipe.items():
        if (ROOT / "recipes" / f"{recipe}.toml").exists():
            print(recipe, flush=True)
            records = [measure(folder) for folder in folders]
            figures[recipe] = records[0] if len(records) == 1 else mean_of_seeds(records)
            store(FIGURES, figures)
    plot(figures)
    store(FIGURES, figures)


def chorales(run: Run) -> dict[str, Any]:
    """Return nats of each split in windows, of complete validation pieces, and of their lower voices; also with the
    melody visible, if a run has it.
    """
    if run.recipe.task.config.encoding != "grid":
        return {split: run.evaluate(split) for split in ("valid", "test")}
    metrics: dict[str, Any] = {split: run.evaluate(split) for split in ("train", "valid", "test")}
    task: Any = run.task
    whole = task.token_nats(run.model, "valid", window=0)
    metrics["whole"] = {"nats": sum(nats.sum() for nats in whole) / sum(map(len, whole))}
    metrics["sight"] = task.lower_voice_nats(run.model, "valid")
    return metrics


def measure(folder: Path) -> dict[str, Any]:
    """Return the metadata of a run, and its scores on the test data with its recipe's decoder."""
    run = load(folder)
    if run.recipe.task.name == "music":
        return {"task": "music", "encoding": run.recipe.task.config.encoding, **basics(run), **chorales(run)}
    if run.recipe.task.name != "translation":
        return {"task": run.recipe.task.name, **basics(run), **held_out(run)}
    task: Any = run.task
    pairs = task.split("test")
    begin = time.perf_counter()
    translations = run.translate([source for source, _ in pairs])
    seconds = time.perf_counter() - begin
    references = [target for _, target in pairs]
    if run.recipe.task.config.lowercase:  # the model writes small letters only: so do the references
        references = [text.lower() for text in references]
    language = run.recipe.task.config.target
    return {
        "task": "translation",
        "pair": f"{run.recipe.task.config.source} -> {language}",
        **basics(run),
        "test": metrics.compute_metrics(translations, references, tokenize=task.bleu_tokenizer),
        "signatures": run.task.signatures(),
        "lowercase": run.recipe.task.config.lowercase,
        "sentences": len(pairs),
        "decoding_seconds": round(seconds, 1),
        "by_length": by_length(pairs, translations, references, tokenize=task.bleu_tokenizer),
        **({} if task.memory is None else {"systems": systems(run, pairs, translations)}),
    }


def systems(run: Run, pairs: list[Any], translations: list[str]) -> dict[str, dict[str, float]]:
    """Return the scores of a run with a memory, of its parts, and of simple baselines."""
    sources, train = [source for source, _ in pairs], list(run.task.pairs["train"])
    outputs = {
        "model and memory": translations,
        "model alone": run.translate(sources, memory_weight=0.0),
        "memory of the run alone": run.translate(sources, memory_weight=1.0),
        "target of the most similar source": baselines.memory(train, sources),
        "word by word": baselines.word_by_word(train, sources),
    }
    return {name: system_scores(texts, [target for _, target in pairs], run.task) for name, texts in outputs.items()}


def system_scores(translations: list[str], references: list[str], task: Any) -> dict[str, float]:
    """Return chrF, BLEU with the tokenizer of the language, and BLEU with the tokenizer 13a of older tables."""
    scores = metrics.compute_metrics(translations, references, tokenize=task.bleu_tokenizer)
    old = metrics.compute_metrics(translations, references, tokenize="13a")
    return {"chrf": scores["chrf"], "bleu": scores["bleu"], "bleu_13a": old["bleu"]}


def mean_of_seeds(records: list[dict[str, Any]]) -> dict[str, Any]:
    """Return the record of the first seed with the means of all seeds, their deviations, and the scores of each."""
    names = [name for name in records[0]["scores"] if all(name in record["scores"] for record in records)]
    columns = {name: [record["scores"][name] for record in records] for name in names}
    return records[0] | {
        "minutes": round(mean(record["minutes"] for record in records), 1),
        "scores": {name: mean(column) for name, column in columns.items()},
        "deviations": {name: stdev(column) for name, column in columns.items()},
        "seeds": columns,
    }


def held_out(run: Run) -> dict[str, Any]:
    """Return scores on the test data, or on the validation data if there is none. Scores that `regard evaluate`
    stored in the run folder are used; others are computed.
    """
    own_decoding = run.recipe.to_dict().get("decoding", {})
    for split in ("test", "valid"):
        for report in stored_evaluations.read_all(run.folder, run.recipe.task.name):
            if report["split"] == split and not stored_evaluations.describe_settings(report, own_decoding):
                return {"split": split, "scores": report["scores"]}
    for split in ("test", "valid"):
        try:
            return {"split": split, "scores": run.evaluate(split) | run.extra_metrics(split)}
        except DataError:  # there is no such split
            continue
    raise SystemExit(f"{run.folder}: neither test nor validation data is there")


def basics(run: Run) -> dict[str, Any]:
    """Return size, budget and validation scores from the files of the run."""
    shipped = run.folder / "pretrained.json"
    if shipped.exists():  # a shipped run has no logs
        minutes = json.loads(shipped.read_text())["minutes"]
        return sizes(run) | {"steps": run.recipe.training.steps, "minutes": minutes, "valid": {}}
    rows = [json.loads(line) for line in (run.folder / "log.jsonl").read_text().splitlines()]
    spent = [json.loads(line)["seconds"] for line in (run.folder / "timing.jsonl").read_text().splitlines()]
    looked = [row for row in rows if row.get("best")]
    return sizes(run) | {
        "steps": max(row["step"] for row in rows),
        "epochs": max(row.get("epoch", 0) for row in rows),
        "minutes": round(sum(spent) / 60, 1),
        "valid": looked[-1]["valid"] if looked else {},
    }


def sizes(run: Run) -> dict[str, Any]:
    """Return model, size, decoding and machine."""
    return {
        "model": run.recipe.model.name,
        "parameters": sum(weight.numel() for weight in run.model.parameters()),
        "decoding": run.recipe.decoding.name if run.recipe.decoding else "",
        "machine": f"{platform.machine()}, 2 cores",
    }


def by_length(
    pairs: list[Any], translations: list[str], references: list[str], *, tokenize: str
) -> list[dict[str, float]]:
    """Return BLEU by the length of the source."""
    rows = []
    for low, high in pairwise(EDGES):
        chosen = [i for i, (source, _) in enumerate(pairs) if low <= len(source.split()) < high]
        if chosen:
            scores = metrics.compute_metrics(
                [translations[i] for i in chosen], [references[i] for i in chosen], tokenize=tokenize
            )
            rows.append({"from": low, "below": high, "sentences": len(chosen), "bleu_lc": scores["bleu_lc"]})
    return rows


def plot(figures: dict[str, Any]) -> None:
    """Write docs/images/bleu_by_length.png: BLEU of a fixed context and of attention on long sentences."""
    lines = {
        name: figure
        for name, figure in figures.items()
        if figure.get("pair") == "de -> en" and name.startswith("multi30k")
    }
    if not lines:
        return
    import matplotlib.pyplot as plt

    plt.figure(figsize=(6.4, 4), dpi=150)
    for name, figure in lines.items():
        rows = figure["by_length"]
        labels = [
            f"{row['from']}-{row['below'] - 1}" if row["below"] < EDGES[-1] else f"{row['from']}+" for row in rows
        ]
        plt.plot(labels, [row["bleu_lc"] for row in rows], marker="o", label=name.removeprefix("multi30k_de_en_"))
    plt.xlabel("words in the German sentence")
    plt.ylabel("BLEU (lowercased)")
    plt.title("Multi30k German → English, test_2016_flickr")
    plt.grid(alpha=0.3)
    plt.legend(frameon=False)
    plt.tight_layout()
    plt.savefig(ROOT / "docs" / "images" / "bleu_by_length.png")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
