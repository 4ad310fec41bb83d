"""docs/results.md from docs/results.json (bench/results.py), docs/music.json (bench/music.py) and the notes by hand."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import images_page
import recommendation_page

from regard.tasks.translation import metrics

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
FIGURES, MUSIC, BASELINES = DOCS / "results.json", DOCS / "music.json", DOCS / "baselines.json"
CAPTIONS = DOCS / "captioning.json"


def stored(path: Path) -> dict[str, Any]:
    """Return the figures of a file; empty if it does not exist."""
    return json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}


def store(path: Path, figures: dict[str, Any]) -> None:
    """Store the figures and write the page."""
    path.write_text(json.dumps(figures, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    (DOCS / "results.md").write_text(page(stored(FIGURES), stored(MUSIC)), encoding="utf-8")


def table(head: str, rows: list[list[object]]) -> str:
    """Format a Markdown table; `head` is the first line."""
    lines = [head, "|" + "---|" * (head.count("|") - 1), *("| " + " | ".join(map(str, row)) + " |" for row in rows)]
    return "\n".join(lines) + "\n"


def link(name: str) -> str:
    return f"[{name}](../recipes/{name}.toml)"


def translation(figures: dict[str, Any]) -> str:
    rows: list[list[object]] = []
    for name, record in figures.items():
        if record["task"] == "translation":
            scores = translation_figures(record)
            size = f"{record['parameters'] / 1e6:.2f} M"
            rows.append([link(name), size, record["epochs"], record["minutes"], record["decoding"], *scores])
    return table("| recipe | parameters | epochs | minutes | decoding | chrF | BLEU lc | BLEU | tokenizer |", rows)


def systems(figures: dict[str, Any]) -> str:
    """Return the scores of runs with a memory, of their parts, and of simple baselines."""
    rows: list[list[object]] = [
        [link(name), system, *(f"{scores[key]:.2f}" for key in ("chrf", "bleu", "bleu_13a"))]
        for name, record in figures.items()
        for system, scores in record.get("systems", {}).items()
    ]
    return SYSTEMS + table("| recipe | system | chrF | BLEU (`char`) | BLEU (`13a`) |", rows) if rows else ""


def translation_figures(record: dict[str, Any]) -> list[str]:
    """Return chrF, lowercased BLEU, cased BLEU and the tokenizer. BLEU is left out if its tokenizer is not the one
    that `evaluate` uses for the target language.
    """
    tokenizer = record["signatures"]["bleu"].partition("tok:")[2].partition("|")[0]
    expected = metrics.bleu_tokenizer(record["pair"].split()[-1])
    scores = {
        key: f"{record['test'][key]:.2f}" if key in record["test"] else "–" for key in ("chrf", "bleu_lc", "bleu")
    }
    if tokenizer != expected:
        return [scores["chrf"], "–", "–", "–"]
    cased = "–" if record["lowercase"] else scores["bleu"]  # a model of small letters has no cased figure
    return [scores["chrf"], scores["bleu_lc"], cased, tokenizer]


def music(figures: dict[str, Any], encoding: str = "grid") -> str:
    rows: list[list[object]] = []
    for name, figure in figures.items():
        if figure["task"] == "music" and figure.get("encoding", "grid") == encoding:
            size = f"{figure['parameters'] / 1e6:.2f} M"
            splits = ("train", "valid", "whole", "test")
            nats = [f"{figure[split]['nats']:.4f}" if split in figure else "–" for split in splits]
            rows.append([link(name), size, figure["steps"], figure["minutes"], *nats])
    text = table("| recipe | parameters | steps | minutes | train | valid | valid, whole pieces | test |", rows)
    text += per_note(figures, encoding) + conditioned(figures, encoding)
    for name, figure in figures.items():
        if "sight" in figure:
            text += sight(name, figure["sight"])
    return text


def sight(name: str, nats: dict[str, float]) -> str:
    """Format nats of the lower voices of the validation split, without and with lookahead to given voices."""
    text = f"\nLower voices of `{name}`, validation split: {nats['nats_lower_voices']:.4f} nats"
    if "nats_lower_voices_tune_in_sight" in nats:
        text += f"; with lookahead to the soprano {nats['nats_lower_voices_tune_in_sight']:.4f}"
    for voice in ("alto", "tenor", "bass"):
        if f"nats_{voice}_others_in_sight" in nats:
            given = nats[f"nats_{voice}_others_in_sight"]
            text += f"; {voice} {nats[f'nats_{voice}']:.4f}, with the other three given {given:.4f}"
    return text + ".\n"


def per_note(figures: dict[str, Any], encoding: str) -> str:
    """Return nats per note of the test split, for runs on performances that were measured with it."""
    lines = [
        f"`{name}`, test split: {figure['test']['nats_per_note']:.3f} nats per note.\n"
        for name, figure in figures.items()
        if figure["task"] == "music"
        and figure.get("encoding", "grid") == encoding
        and "nats_per_note" in figure.get("test", {})
    ]
    return "".join(f"\n{line}" for line in lines)


def conditioned(figures: dict[str, Any], encoding: str) -> str:
    """Return nats without and with the true condition of each piece, for runs with conditions."""
    lines = [
        f"`{name}`, {split} split: {figure[split]['nats']:.4f} nats without the condition, "
        f"{figure[split]['nats_conditioned']:.4f} with the true one.\n"
        for name, figure in figures.items()
        if figure["task"] == "music" and figure.get("encoding", "grid") == encoding
        for split in ("valid", "test")
        if "nats_conditioned" in figure.get(split, {})
    ]
    return "".join(f"\n{line}" for line in lines)


def held_out(figures: dict[str, Any], task: str) -> str:
    """Return one line per run of any other task: size, budget, and scores without dots in their names."""
    runs = {name: record for name, record in figures.items() if record["task"] == task}
    columns = list(dict.fromkeys(key for record in runs.values() for key in record["scores"] if "." not in key))
    rows: list[list[object]] = []
    for name, record in runs.items():
        cells = [score_cell(record, key) for key in columns]
        size = f"{record['parameters'] / 1e6:.2f} M"
        num_seeds = len(next(iter(record.get("seeds", {}).values()), []))
        title = link(name) + (f", {num_seeds} seeds" if num_seeds else "")
        rows.append([title, record["model"], size, record["steps"], record["minutes"], record["split"], *cells])
    head = " | ".join(key.replace("_", " ") for key in columns)
    return table(f"| recipe | model | parameters | steps | minutes | split | {head} |", rows)


def score_cell(record: dict[str, Any], key: str) -> str:
    """Return a score, with the standard deviation of the seeds if there are several."""
    if key not in record["scores"]:
        return "–"
    deviation = record.get("deviations", {}).get(key)
    return f"{record['scores'][key]:.4g}" + (f" ± {deviation:.2g}" if deviation else "")


def baselines(results: dict[str, dict[str, Any]], task: str) -> str:
    """The simple baselines of a task, one row for each recipe whose data was used; by bench/baselines.py."""
    records = {name: record["scores"] for name, record in results.items() if record["task"] == task}
    columns = list(dict.fromkeys(key for scores in records.values() for key in scores))
    rows: list[list[object]] = [
        [link(name), *(f"{scores[key]:.4f}" if key in scores else "–" for key in columns)]
        for name, scores in records.items()
    ]
    head = " | ".join(column.replace(".", " ") for column in columns)
    return BASELINES_HEAD + "\n" + table(f"| data of | {head} |", rows) if rows else ""


def beside(results: dict[str, dict[str, float]]) -> str:
    """Format captioning compared with a plain loop, and the gradient of hard attention with and without a baseline."""
    rows: list[list[object]] = []
    for name, record in results.items():
        first, second = (record[key] for key in (("regard", "plain") if "plain" in record else ("baseline", "none")))
        rows.append([name, f"{first:.4g}", f"{second:.4g}", f"{record['ratio']:.2f}"])
    return table("| measurement | regard, or with the baseline | plain loop, or without the baseline | ratio |", rows)


def skewing(rows: list[dict[str, Any]]) -> str:
    cells = [[row["length"], row["way"], f"{row['mb']:.0f}", f"{row['seconds']:.3f}"] for row in rows]
    return table("| L | method | MB above the inputs | seconds, forward and backward |", cells)


def sampling(figures: dict[str, Any]) -> str:
    ways = (("cached steps", "cached"), ("prefix recomputed", "recomputed"))
    length = figures["length"]
    rows: list[list[object]] = [[way, f"{figures[key]:.1f}", f"{length / figures[key]:.1f}"] for way, key in ways]
    ratio = figures["recomputed"] / figures["cached"]
    sentence = (
        f"Length {length}, batch 1, {figures['threads']} threads, `{figures['run']}`: {ratio:.1f} times as fast.\n\n"
    )
    return sentence + table("| method | seconds in total | tokens/s |", rows)


def positions(figures: dict[str, Any]) -> str:
    curves, bucket = figures["curves"], figures["bucket"]
    rows: list[list[object]] = [
        [f"{index * bucket}–{(index + 1) * bucket - 1}", *(f"{nats:.3f}" for nats in at)]
        for index, at in enumerate(zip(*curves.values(), strict=True))
    ]
    return table(f"| tokens | {' | '.join(curves)} |", rows)


def similarity(results: dict[str, Any]) -> str:
    """Format the similarity of bars by their distance, with the error of the samples and of the validation split."""
    lags = results["by_lag"]
    rows: list[list[object]] = [
        [lag, *(f"{values[lag - 1]:.3f}" for values in lags.values())]
        for lag in range(1, len(next(iter(lags.values()))) + 1)
    ]
    rows.append(["best earlier", *(f"{results['best_earlier'][name]:.3f}" for name in lags)])
    counts = ", ".join(f"{count} ({name})" for name, count in results["pieces"].items())
    sentence = (
        f"`{results['run']}`, {results['unit']}; pieces: {counts}. Similarity error against the test split: samples "
        f"{results['error']['samples']:.3f}, validation split {results['error']['valid']:.3f}.\n\n"
    )
    return sentence + table(f"| distance | {' | '.join(lags)} |", rows)


def samples(results: dict[str, dict[str, float]]) -> str:
    names = list(dict.fromkeys(name for values in results.values() for name in values))
    rows: list[list[object]] = [
        [whose, *(f"{values[name]:.3f}" if name in values else "–" for name in names)]
        for whose, values in results.items()
    ]
    return table(f"| piece | {' | '.join(name.replace('_', ' ') for name in names)} |", rows)


def likeness(results: dict[str, Any]) -> str:
    """Format the recognition of samples with a composer as condition, by each judge and guidance, with intervals."""
    text = f"`{results['run']}`; excerpts have {results['seconds']:g} seconds. Real are {results['excerpts']} held-out "
    text += (
        f"excerpts; there are {results['each']} samples for each condition. The mean of composers counts each composer "
    )
    text += "equally, as in the samples.\n\n"
    real: list[list[object]] = [
        [judge, f"{scores['accuracy']:.0%}", f"{scores['balanced_accuracy']:.0%}" if len(scores) > 1 else "–"]
        for judge, scores in results["real"].items()
    ]
    text += table("| judge | real excerpts recognized | mean of composers |", real) + "\n"
    rows: list[list[object]] = []
    for guidance, measured in results["guidance"].items():
        for judge, record in measured["judges"].items():
            low, high = wilson_interval(record["correct"], record["samples"])
            cells = (f"{record['correct']} of {record['samples']}", f"{low:.0%} to {high:.0%}")
            rows.append([guidance, judge, *cells])
    text += table("| guidance | judge | samples recognized | 95 % interval |", rows)
    for guidance, measured in results["guidance"].items():
        for judge, record in measured["judges"].items():
            names = list(next(iter(record["taken"].values())))
            shares: list[list[object]] = [
                [condition, *(f"{row[name]:.0%}" for name in names)] for condition, row in record["taken"].items()
            ]
            head = " | ".join(f"classified as {name}" for name in names)
            text += f"\nGuidance {guidance}, judge: {judge}.\n\n" + table(f"| condition | {head} |", shares)
        if "deviations" in measured:
            farthest = ", ".join(f"{name} {shift:+.1f}" for name, shift in measured["deviations"].items())
            text += f"\nFeatures of samples farthest from real excerpts, in standard deviations: {farthest}.\n"
    return text


def wilson_interval(correct: int, total: int, z: float = 1.96) -> tuple[float, float]:
    """Return the Wilson score interval of a share: 95 % for the default z."""
    if not total:
        return 0.0, 1.0
    share, spread = correct / total, z * z / total
    center = (share + spread / 2) / (1 + spread)
    half = z * math.sqrt(share * (1 - share) / total + spread / total / 4) / (1 + spread)
    return max(0.0, center - half), min(1.0, center + half)


def page(figures: dict[str, Any], measured: dict[str, Any]) -> str:
    """Return the figures as Markdown, followed by docs/results_notes.md, which is written by hand."""
    notes = (DOCS / "results_notes.md").read_text(encoding="utf-8")
    parts = [HEAD, translation(figures), PLOT, *([systems(figures)] if systems(figures) else [])]
    if any(record["task"] == "music" for record in figures.values()):
        parts += [CHORALES, music(figures)]
    for encoding, heading in (("events", PERFORMANCES), ("durations", DURATIONS)):
        if any(record.get("encoding") == encoding for record in figures.values()):
            parts += [heading, music(figures, encoding)]
    music_sections: dict[str, tuple[str, Callable[[Any], str]]] = {
        "likeness": (LIKENESS, likeness),
        "positions": (BEYOND, positions),
        "skewing": (SKEWING, skewing),
        "sampling": (SAMPLING, sampling),
        "samples": (SAMPLES, samples),
        "similarity": (SIMILARITY, similarity),
    }
    for name, (heading, format_section) in music_sections.items():
        if name in measured:
            parts += [heading, format_section(measured[name])]
    for task in dict.fromkeys(record["task"] for record in figures.values()):
        if task not in ("translation", "music"):
            parts += [TITLES.get(task, f"## {task.replace('_', ' ').capitalize()}\n"), held_out(figures, task)]
            parts += [text for text in [baselines(stored(BASELINES), task)] if text]
        if task == "image_generation":
            parts += images_page.sections()
    if all(record["task"] != "captioning" for record in figures.values()):
        parts.append(TITLES["captioning"] + "\n" + NO_CAPTIONS)
    parts += [BESIDE, beside(stored(CAPTIONS))] if CAPTIONS.exists() else []
    parts += recommendation_page.sections(stored(recommendation_page.FIGURES))
    return "\n".join([*parts, notes])


HEAD = """# Results

Written by `python bench/results.py RUNS` and `python bench/music.py` from the files of the runs and a new decoding of
the test data. All values are in [results.json](results.json), with sacreBLEU signatures, and [music.json](music.json).
Minutes are wall time of training including evaluation. Unless noted otherwise, training used one thread of a two-core
machine shared with other work.

## Translation

chrF and cased BLEU are computed on detokenized text, BLEU lc on lowercased text. BLEU uses the tokenizer of the target
language, as `regard evaluate` does: characters (`char`) for Korean, `13a` for English and German. Values of different
tokenizers cannot be compared.
"""
SYSTEMS = """### Model and memory

Test data. The memory of a run consists of its training pairs; the candidate with the highest expected chrF is returned
([details](translation.md#small-data)). The last two systems of a recipe are the simple baselines of `regard baseline`.

"""
PLOT = """![BLEU by sentence length](images/bleu_by_length.png)
"""
CHORALES = """## Chorales

JSB on the 16th grid, nats per note token: the mean of -log p over every pitch and rest of every piece of the split,
each counted once. Special tokens and padding are not counted, and pieces are not transposed. Windows have 512 tokens
and overlap by half ([details](music.md)).
"""
PERFORMANCES = """### Performances

ASAP, nats per event (note on, note off, velocity, wait), in windows of 512 that overlap by half. The table gives no
condition to any model: `asap_composer` was trained with the composer as a condition, `asap_plain` without one.
"""
DURATIONS = """The same performances as notes with durations, nats per token (pitch, velocity, duration, wait). The
encodings have different numbers of tokens per note, so only the nats per note can be compared.
"""
LIKENESS = """\
Samples conditioned on a composer, by `python bench/composer_similarity.py RUN`. A classifier of simple statistics,
trained on the real performances, assigns a composer to each excerpt. The judge without note lengths is not misled by
notes that a model does not end.
"""
BEYOND = """### Beyond the training length

Trained on 512 tokens. Nats per note token by position, with all previous tokens visible; the pieces of the validation
and test splits are concatenated.

![nats by position](images/music_positions.png)
"""
SKEWING = """### Memory and time of skewing

One head of 64. `gather` stores a vector for every pair, an L x L x D tensor (Shaw et al. 2018). `skewing` computes all
weights in one step. `skewing in chunks` is the method that regard uses.
"""
SAMPLING = """### Sampling
"""
SAMPLES = """### Three samples

By `python bench/samples.py RUN OUT`, with the prompt and the soprano of a chorale of the test split. The grey part of a
picture is the input.

![unconditional](images/sample_unconditional.png)
![continued](images/sample_continued.png)
![harmonised](images/sample_harmonised.png)
"""
SIMILARITY = """### Self-similarity

By `python bench/music.py similarity RUN`: the mean similarity of two bars of a piece by their distance in bars. It is
the number of cells (voice, step in the bar, pitch) that both have, divided by the number that at least one has. `best
earlier` is the similarity to the most similar earlier bar. The similarity error (Yu et al. 2022) is the mean absolute
difference over the distances.
"""
BESIDE = """By `python bench/captioning.py --run RUN --out docs/captioning.json`. The plain loop is the same model in
tutorial style: the same weights, one image per caption, beam search image by image. The last row is the variance of the
policy gradient of hard attention.
"""
TITLES = {
    "image_generation": """## Images

Bits per dimension and nats per image, and the bits of a histogram of the training levels. A dimension is one channel of
a pixel with the levels of the recipe: 17 for digits, 2 if binarized, else 256. For upscaling: PSNR and SSIM of the most
likely level at each position in turn, and of bicubic interpolation (Pillow). The faces are 30 images of 3 people, so
small differences between their scores mean nothing. The CIFAR-10 images had been stored as JPEG, so the bits are not
comparable with published ones. Data and protocol: [images](images.md).
""",
    "image_classification": """## Classes of images

Accuracy of the most likely class (0 to 1), with one view of each image. MNIST and CIFAR-10 use the first half of
their test sets.
""",
    "speech_recognition": """## Speech

Strings of spoken digits; shares between 0 and 1. `word error`: substituted, missing and inserted digits. `alignment
error`: digits whose most attended time is outside of their true boundaries. `single digit accuracy`: the recordings
with the official test indices 0 to 2; `dtw accuracy`: the baseline without learning on the same recordings. `snr`:
noise in dB. `longer error`: strings of 8 to 14 digits. `±`: standard deviation of the seeds, if there are
several. Recordings and protocol: [speech recognition](speech.md).
""",
    "detection": """## Objects

Average precision (0 to 1), defined over 101 recalls: at overlap 0.5, and the mean over 0.50, 0.55 … 0.95. The test
scenes contain pairs of color and shape that do not occur in training. The paper of the scenes is dark to white.
""",
    "captioning": """## Captioning

BLEU, CIDEr and METEOR have their published scale of 0 to 100; `exact` and `pointing` are shares between 0 and 1. Test
scenes contain triples of size, color and shape that do not occur in training. `exact`: the caption is correct word for
word. `pointing`: the most attended cell of a content word is in its region. `more`: scenes of four objects; training
has at most three. How each score is computed: [captioning](captioning.md).
""",
    "classification": """## Documents

Accuracy of document labels. The built-in reviews have known deciding words and sentences. For them, `deciding words` is
the share of the deciding sentence's word attention on its deciding words. `deciding sentence` is the share of documents
whose deciding sentence has the largest weight. Data and protocol: [text](text.md).
""",
    "tagging": """## Entities

F1 of entities by seqeval in strict mode, scheme IOB2, without gazetteers. Only `wnut17_vectors` uses pretrained
vectors, those of `word2vec` below.
""",
    "language": """## Language

Nats per token, in windows of the context length that overlap by half.
""",
    "embeddings": """## Word vectors

Rank correlation with a list of similar words, and accuracy on analogies, both on the words that the vocabulary covers.
""",
}
BASELINES_HEAD = """\
Simple baselines on the test split of the same data, by `python bench/baselines.py` (`regard baseline`). Their cost is
chosen on the validation data.
"""
NO_CAPTIONS = """The recipes of scenes and of Flickr8k are not measured with the current scenes and settings: the paper
of the scenes was changed from dark to any brightness, and the recipes now forbid repeated n-grams.
"""
