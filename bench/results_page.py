"""docs/results.md from docs/results.json (bench/results.py), docs/music.json (bench/music.py) and the notes by hand."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import images_page
import recommendation_page

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
FIGURES, MUSIC, NGRAMS = DOCS / "results.json", DOCS / "music.json", DOCS / "ngrams.json"
CAPTIONS = DOCS / "captioning.json"


def stored(path: Path) -> dict[str, Any]:
    """The figures of a file; none where there is no file yet."""
    return json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}


def store(path: Path, figures: dict[str, Any]) -> None:
    """Keep the figures, and write the page anew."""
    path.write_text(json.dumps(figures, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    (DOCS / "results.md").write_text(page(stored(FIGURES), stored(MUSIC)), encoding="utf-8")


def table(head: str, rows: list[list[object]]) -> str:
    """Markdown; `head` is the first line."""
    lines = [head, "|" + "---|" * (head.count("|") - 1), *("| " + " | ".join(map(str, row)) + " |" for row in rows)]
    return "\n".join(lines) + "\n"


def link(name: str) -> str:
    return f"[{name}](../recipes/{name}.toml)"


def translation(figures: dict[str, Any]) -> str:
    rows: list[list[object]] = []
    for name, one in figures.items():
        if one["task"] == "translation":
            shown = [f"{one['test'][key]:.2f}" for key in ("bleu_lc", "bleu", "chrf")]
            if one["lowercase"]:
                shown[1] = "–"  # a model of small letters has no cased figure
            size = f"{one['parameters'] / 1e6:.2f} M"
            rows.append([link(name), size, one["epochs"], one["minutes"], one["decoding"], *shown])
    return table("| recipe | parameters | epochs | minutes | decoding | BLEU lc | BLEU | chrF |", rows)


def music(figures: dict[str, Any], encoding: str = "grid") -> str:
    rows: list[list[object]] = []
    for name, one in figures.items():
        if one["task"] == "music" and one.get("encoding", "grid") == encoding:
            size = f"{one['parameters'] / 1e6:.2f} M"
            splits = ("train", "valid", "whole", "test")
            nats = [f"{one[split]['nats']:.4f}" if split in one else "–" for split in splits]
            rows.append([link(name), size, one["steps"], one["minutes"], *nats])
    text = table("| recipe | parameters | steps | minutes | train | valid | valid, whole pieces | test |", rows)
    for name, one in figures.items():
        if "sight" in one:
            blind, *seen = (f"{nats:.4f}" for nats in one["sight"].values())
            sight = "".join(f"; with sight of the soprano {nats}" for nats in seen)
            text += f"\nLower voices of `{name}`, valid: {blind} nats{sight}.\n"
    return text


def held_out(figures: dict[str, Any], task: str) -> str:
    """The runs of any other task, one a line: size, budget, and the scores that have no dots in their names."""
    runs = {name: one for name, one in figures.items() if one["task"] == task}
    columns = list(dict.fromkeys(key for one in runs.values() for key in one["scores"] if "." not in key))
    rows: list[list[object]] = []
    for name, one in runs.items():
        cells = [f"{one['scores'][key]:.4g}" if key in one["scores"] else "–" for key in columns]
        size = f"{one['parameters'] / 1e6:.2f} M"
        rows.append([link(name), one["model"], size, one["steps"], one["minutes"], one["split"], *cells])
    head = " | ".join(key.replace("_", " ") for key in columns)
    return table(f"| recipe | model | parameters | steps | minutes | split | {head} |", rows)


def baselines(found: dict[str, dict[str, float]]) -> str:
    """The bags of n-grams by bench/ngrams.py."""
    rows: list[list[object]] = [
        [link(name), f"{one['features']:,.0f}", f"{one['seconds']:.0f}", *(f"{one[s]:.4f}" for s in ("valid", "test"))]
        for name, one in found.items()
    ]
    return table("| data of | n-grams | seconds | valid accuracy | test accuracy |", rows)


def beside(found: dict[str, dict[str, float]]) -> str:
    """Captioning beside a plain loop, and the gradient of hard attention with and without its baseline."""
    rows: list[list[object]] = []
    for name, one in found.items():
        ours, other = (one[key] for key in (("regard", "plain") if "plain" in one else ("baseline", "none")))
        rows.append([name, f"{ours:.4g}", f"{other:.4g}", f"{one['ratio']:.2f}"])
    return table("| what | regard, or with the baseline | a plain loop, or without it | ratio |", rows)


def skewing(rows: list[dict[str, Any]]) -> str:
    cells = [[row["length"], row["way"], f"{row['mb']:.0f}", f"{row['seconds']:.3f}"] for row in rows]
    return table("| L | way | MB above the inputs | seconds, forward and backward |", cells)


def sampling(figures: dict[str, Any]) -> str:
    ways = (("cached steps", "cached"), ("prefix recomputed", "recomputed"))
    length = figures["length"]
    rows: list[list[object]] = [[way, f"{figures[key]:.1f}", f"{length / figures[key]:.1f}"] for way, key in ways]
    ratio = figures["recomputed"] / figures["cached"]
    said = f"Length {length}, batch 1, {figures['threads']} threads, `{figures['run']}`: {ratio:.1f} times as fast.\n\n"
    return said + table("| way | seconds for the whole | tokens/s |", rows)


def positions(figures: dict[str, Any]) -> str:
    curves, bucket = figures["curves"], figures["bucket"]
    rows: list[list[object]] = [
        [f"{number * bucket}–{(number + 1) * bucket - 1}", *(f"{nats:.3f}" for nats in at)]
        for number, at in enumerate(zip(*curves.values(), strict=True))
    ]
    return table(f"| tokens | {' | '.join(curves)} |", rows)


def samples(found: dict[str, dict[str, float]]) -> str:
    names = list(next(iter(found.values())))
    rows: list[list[object]] = [[whose, *(f"{values[name]:.3f}" for name in names)] for whose, values in found.items()]
    return table(f"| piece | {' | '.join(name.replace('_', ' ') for name in names)} |", rows)


def likeness(found: dict[str, Any]) -> str:
    """What samples that were told a composer are taken for."""
    names = list(next(iter(found["taken"].values())))
    rows: list[list[object]] = [
        [told, *(f"{shares[name]:.0%}" for name in names)] for told, shares in found["taken"].items()
    ]
    said = f"It knows {found['accuracy']:.0%} of {found['excerpts']} real excerpts that it has not seen, of "
    said += f"{found['seconds']:g} seconds as the {found['each']} samples of each.\n\n"
    return said + table(f"| told | {' | '.join(f'taken for {name}' for name in names)} |", rows)


def page(figures: dict[str, Any], measured: dict[str, Any]) -> str:
    """The figures as Markdown, and below them docs/results_notes.md, which is written by hand."""
    notes = (DOCS / "results_notes.md").read_text(encoding="utf-8")
    parts = [HEAD, translation(figures), PLOT]
    if any(one["task"] == "music" for one in figures.values()):
        parts += [CHORALES, music(figures)]
    if any(one.get("encoding") == "events" for one in figures.values()):
        parts += [PERFORMANCES, music(figures, "events")]
    if "likeness" in measured:
        parts += [LIKENESS, likeness(measured["likeness"])]
    if "positions" in measured:
        parts += [BEYOND, positions(measured["positions"])]
    if "skewing" in measured:
        parts += [SKEWING, skewing(measured["skewing"])]
    if "sampling" in measured:
        parts += [SAMPLING, sampling(measured["sampling"])]
    if "samples" in measured:
        parts += [SAMPLES, samples(measured["samples"])]
    for task in dict.fromkeys(one["task"] for one in figures.values()):
        if task not in ("translation", "music"):
            parts += [TITLES.get(task, f"## {task.replace('_', ' ').capitalize()}\n"), held_out(figures, task)]
        if task == "classification" and NGRAMS.exists():
            parts += [BAGS, baselines(stored(NGRAMS))]
        if task == "images":
            parts += images_page.sections()
        if task == "captioning" and CAPTIONS.exists():
            parts += [BESIDE, beside(stored(CAPTIONS))]
    parts += recommendation_page.sections(stored(recommendation_page.PLACE))
    return "\n".join([*parts, notes])


HEAD = """# Results

Written by `python bench/results.py RUNS` and `python bench/music.py` from the runs' own files and a fresh decoding of
the test data; the numbers are in [results.json](results.json), with sacreBLEU signatures, and [music.json](music.json).
Minutes are wall time of training with evaluation, on one thread of a two-core machine shared with other work unless a
note says otherwise.

## Translation

BLEU lc is lowercased, tokenised by 13a; cased BLEU and chrF are on detokenised text.
"""
PLOT = """![BLEU by sentence length](images/bleu_by_length.png)
"""
CHORALES = """## Chorales

JSB on the 16th grid, nats per note token: the mean of -log p over every pitch and rest of every piece of the split,
each counted once; no marks, no padding, no transposition; windows of 512 tokens that overlap by half ([how](music.md)).
"""
PERFORMANCES = """### Performances

ASAP, nats per event (note on, note off, velocity, wait), windows of 512 that overlap by half; `asap_composer` is told
who wrote the piece, `asap_plain` is not.
"""
LIKENESS = """Samples that were told a composer, by `python bench/likeness.py RUN`: what a classifier of simple
statistics, trained on the real performances, takes their excerpts for.
"""
BEYOND = """### Beyond the training length

Trained on 512 tokens; nats per note token by position, whole past in view, pieces of valid and test joined end to end.

![nats by position](images/music_positions.png)
"""
SKEWING = """### Memory and time of skewing

One head of 64. `gather` is a vector for every pair, an L x L x D tensor (Shaw et al. 2018); `skewing` has all weights
at once; `skewing in chunks` is what is used.
"""
SAMPLING = """### Sampling
"""
SAMPLES = """### Three samples

By `python bench/samples.py RUN OUT`, with the primer and the soprano of a chorale of the test split; the grey part of a
picture was given.

![from nothing](images/sample_unconditional.png)
![continued](images/sample_continued.png)
![harmonised](images/sample_harmonised.png)
"""
BESIDE = """By `python bench/captioning.py --run RUN --out docs/captioning.json`: the same model as tutorials write it
(same weights, an image for each caption, beam search image by image), and the variance of the gradient of the choices
of hard attention.
"""
TITLES = {
    "images": """## Images

Bits per dimension, a dimension being one channel of a pixel with the levels of the recipe (17 for digits, 2 where
binarised, else 256), nats per image of the same levels, and what a histogram of the training levels needs; where
images are enlarged, PSNR and SSIM of the likeliest image beside those of bicubic interpolation (scikit-image).
CIFAR-10 was saved as JPEG before, so its bits are not comparable with published ones. How and with what:
[images](images.md).
""",
    "image_classification": """## Classes of images

Share of images whose likeliest class is theirs, in percent, one view of each image; MNIST and CIFAR-10 on the first
halves of their test sets.
""",
    "detection": """## Objects

Average precision in percent, by its definition over 101 recalls: at overlap 0.5, and the mean over 0.50, 0.55 … 0.95;
on scenes with pairs of colour and shape that training has not.
""",
    "captioning": """## Captioning

Percent. Scenes have triples of size, colour and shape that training has not; `exact`: the caption is right word for
word; `pointing`: the most attended cell of a content word lies in its region; `more`: scenes of four things, training
has three at most. How each score is computed: [captioning](captioning.md).
""",
    "classification": """## Documents

Share of documents labelled right. Deciding words and sentence are of the built-in reviews, where what decides is known:
the share of the word attention of the deciding sentence that falls on its deciding words, and the share of documents
whose deciding sentence has the largest weight. How data and protocol are, and what others reach: [text](text.md).
""",
    "tagging": """## Entities

F1 of entities by seqeval in strict mode, scheme IOB2; no gazetteers, and no vectors but those of `word2vec` below in
`wnut17_vectors`.
""",
    "language": """## Language

Nats per token, by windows of the context that overlap by half.
""",
    "embeddings": """## Word vectors

Rank correlation with a list of alike words, and share of analogies found, on what the vocabulary covers.
""",
}
BAGS = """Bags of n-grams on the same data and splits, by `python bench/ngrams.py` (TF-IDF and logistic regression of
scikit-learn):
"""
