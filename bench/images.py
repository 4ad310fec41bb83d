"""Speed of models of images, in one run on the same machine, shapes and data. What is compared:

vit         images/s of training, 32x32x3 in patches of 4: regard's vit and timm's VisionTransformer of the same shape
            (`pip install --no-deps timm`: its ViT uses nothing of torchvision, for which an empty one stands in)
sampling    places/s of one image of 32x32x3, a place a channel: local 2-D attention with the window as its cache, full
            attention with all keys as its cache, and local 2-D attention that reads the prefix anew at every place
            (at every 96th place, of which the mean is taken: the whole would take an hour)
memory      bytes of keys and values at the fullest while that image is made: the window, and full attention

python bench/images.py [vit sampling memory] [--rounds 3] [--quick]

Systems take turns in every round, each in a process of its own. Figures are kept in docs/images_speed.json, and the
page docs/images_speed.md is made from them.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from regard.core.protocols import Subject
from regard.core.sizes import Pictures, Pixels
from regard.core.tree import map_tensors
from regard.decoding import sample
from regard.models import image_transformer, vit
from regard.tasks._painting import UNKNOWN, paint
from regard.training.hardware import keep_freed_memory

DOCS = Path(__file__).parents[1] / "docs"
FIGURES, PAGE = DOCS / "images_speed.json", DOCS / "images_speed.md"
Work = Callable[[], float]  # does some work -> how many units of it
Systems = dict[str, Callable[[], Work]]  # the first is ours
EVERY = 96  # places between two at which the prefix is read anew
SHAPE = {"layers": 6, "dim": 128, "heads": 4, "hidden": 256, "patch": 4}
SMALL = {"layers": 2, "dim": 16, "heads": 2, "hidden": 32, "patch": 4}


def training(model: torch.nn.Module, loss: Callable[[], Tensor], units: int, *, fused: bool) -> Work:
    """One step; peers have the optimizer as their own scripts have it on a CPU."""
    chosen = torch.optim.AdamW(model.train().parameters(), lr=1e-3, fused=fused or None)

    def step() -> float:
        value = loss()
        chosen.zero_grad(set_to_none=True)
        value.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        chosen.step()
        return units

    return step


def vit_training(quick: bool) -> Systems:
    side, rows, shape = (8, 2, SMALL) if quick else (32, 64, SHAPE)
    images, labels = torch.randn(rows, 3, side, side), torch.arange(rows) % 10

    def ours() -> Work:
        model = vit.build(vit.Config(**shape), Pictures(side, side, 3, 10))
        return training(model, lambda: model.readout.loss(model.features(images), labels) / rows, rows, fused=True)

    def theirs() -> Work:
        from systems.image_peers import timm_vit

        model = timm_vit(side, **shape)
        return training(model, lambda: torch.nn.functional.cross_entropy(model(images), labels), rows, fused=False)

    return {"regard": ours, "timm": theirs}


def painter(quick: bool, attention: str) -> tuple[image_transformer.ImageTransformer, int]:
    """A model of images of 32x32x3 with an untrained head, and the number of its places."""
    side = 6 if quick else 32
    small = {"layers": 1, "dim": 16, "query": (2, 2), "memory": (1, 1)}
    large = {"layers": 4, "dim": 128, "query": (4, 8), "memory": (4, 4)}
    config = image_transformer.Config(attention=attention, **(small if quick else large))
    model = image_transformer.build(config, Pixels(side, side, 3, levels=256)).eval()
    return model, side * side * 3


NOTHING = Subject(torch.zeros(1, dtype=torch.long), torch.zeros(1, 0, dtype=torch.long))


def cached(quick: bool, attention: str) -> Work:
    model, places = painter(quick, attention)

    def image() -> float:
        paint(model, NOTHING, torch.full((1, places), UNKNOWN), levels=256, how=sample.Config())
        return places

    return image


def recomputed(quick: bool) -> Work:
    """Every place of some: the features of all places before it, from nothing."""
    model, places = painter(quick, "local_2d")
    tokens = torch.randint(256, (1, places))

    @torch.no_grad()
    def some() -> float:
        ends = range(EVERY // 2, places, EVERY)
        for end in ends:
            features, _ = model.features(tokens[:, :end], model.start(NOTHING))
            model.readout(features[:, -1:])
        return len(ends)

    return some


def sampling(quick: bool) -> Systems:
    return {
        "regard": lambda: cached(quick, "local_2d"),
        "full attention, cached": lambda: cached(quick, "full"),
        "prefix read anew": lambda: recomputed(quick),
    }


def held(quick: bool, attention: str) -> Work:
    """The most bytes of keys and values that are held after any place, as a 'rate'; it takes no time to speak of."""
    model, places = painter(quick, attention)

    @torch.no_grad()
    def most() -> float:
        state, fullest = model.start(NOTHING), 0
        for _ in range(places):
            _, state = model.features(torch.zeros(1, 1, dtype=torch.long), state)
            fullest = max(fullest, size_of(state.past))
        return fullest

    return most


def size_of(past: Any) -> int:
    """Bytes of all tensors of a state, each storage once: a view of a larger buffer counts as the buffer."""
    storages: dict[int, int] = {}

    def note(tensor: Tensor) -> Tensor:
        storages[tensor.untyped_storage().data_ptr()] = tensor.untyped_storage().nbytes()
        return tensor

    map_tensors(past, note)
    return sum(storages.values())


def memory(quick: bool) -> Systems:
    return {"regard": lambda: held(quick, "local_2d"), "full attention": lambda: held(quick, "full")}


BENCHES: dict[str, Callable[[bool], Systems]] = {"vit": vit_training, "sampling": sampling, "memory": memory}
PEERS = {"vit": 1, "sampling": 2, "memory": 1}  # systems beside ours
UNITS = {"vit": "images/s", "sampling": "places/s", "memory": "bytes"}


def worker(name: str, number: int, quick: bool) -> None:
    """Print the name of one system of a bench and what it does in a second, or holds."""
    if number == 0:
        keep_freed_memory()  # as regard's own commands do
    torch.manual_seed(0)
    system, build = list(BENCHES[name](quick).items())[number]
    work = build()
    if name == "memory":
        print(json.dumps({"system": system, "rate": work()}))
        return
    if name == "vit":
        work()  # the first call of a kernel is slow
    least = 0.1 if quick else 5.0
    begun, units, seconds = time.perf_counter(), 0.0, 0.0
    while seconds < least:
        units += work()
        seconds = time.perf_counter() - begun
    print(json.dumps({"system": system, "rate": units / seconds}))


def measure(name: str, *, rounds: int, quick: bool) -> dict[str, Any]:
    """System -> its rates, one a round; what is held is the same in every round."""
    rates: dict[str, list[float]] = {}
    for _ in range(1 if name == "memory" else rounds):
        for number in range(1 + PEERS[name]):
            command = [sys.executable, __file__, "--worker", name, str(number), *(["--quick"] if quick else [])]
            done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
            found = json.loads(done.stdout.splitlines()[-1])
            rates.setdefault(found["system"], []).append(found["rate"])
    return {"threads": torch.get_num_threads(), "rates": rates}


def rows_of(name: str, figures: dict[str, Any]) -> list[list[str]]:
    """Lines of the table; the ratio is more than 1 where ours is better."""
    ours = statistics.median(figures["rates"]["regard"])
    rows = []
    for system, values in figures["rates"].items():
        middle = statistics.median(values)
        better = middle / ours if name == "memory" else ours / middle
        ratio = "" if system == "regard" else f"{better:.2f}"
        rows.append([name, system, f"{middle:,.1f} {UNITS[name]}", f"{min(values):,.1f} – {max(values):,.1f}", ratio])
    return rows


def page(figures: dict[str, Any]) -> str:
    """docs/images_speed.md."""
    names = [name for name in BENCHES if name in figures]
    threads = sorted({figures[name]["threads"] for name in names})
    lines = [
        "# Speed of models of images",
        "",
        f"Made by `python bench/images.py` on {os.cpu_count()} cores, {', '.join(map(str, threads))} threads; what is"
        " compared is said in its first lines. Median of the rounds, with the lowest and the highest.",
        "",
        "| what | system | median | range | regard is so many times better |",
        "|---|---|---|---|---|",
    ]
    return "\n".join([*lines, *("| " + " | ".join(row) + " |" for n in names for row in rows_of(n, figures[n]))]) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("benches", nargs="*", help=", ".join(BENCHES))
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--quick", action="store_true", help="tiny shapes, to see that it runs; nothing is kept")
    parser.add_argument("--worker", nargs=2, metavar=("BENCH", "NUMBER"), help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.worker:
        worker(given.worker[0], int(given.worker[1]), given.quick)
        return
    kept = json.loads(FIGURES.read_text()) if FIGURES.exists() else {}
    for name in given.benches or BENCHES:
        kept[name] = measure(name, rounds=given.rounds, quick=given.quick)
        for row in rows_of(name, kept[name]):
            print("  ".join(row), flush=True)
        if not given.quick:
            FIGURES.write_text(json.dumps(kept, indent=1) + "\n")
            PAGE.write_text(page(kept))


if __name__ == "__main__":
    main()
