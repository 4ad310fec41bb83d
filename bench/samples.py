"""Three samples of a run on the chorales: from nothing, continued, harmonised; heard, seen and measured.

    python bench/samples.py RUN OUT         # OUT/*.mid, *.wav, *.png; the pictures and figures also go to docs/

The primer and the soprano are those of a chorale of the test split; the model never saw it.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import results_page

from regard.api.run import load
from regard.cli import generate
from regard.data.music import midi, statistics
from regard.tasks._compose import Request, compose

SECONDS, KEPT, PIECE = 24.0, 8.0, 3


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("run", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument("--set", action="append", default=["temperature=0.9", "seed=3"], dest="settings")
    given = parser.parse_args()
    given.out.mkdir(parents=True, exist_ok=True)
    run = load(given.run)
    task = generate.music_of(run)
    piece = task.split("test")[PIECE].content
    seed = given.out / "seed.mid"
    seed.write_bytes(midi.render(task.encoding.notes(piece), tempo=task.encoding.tempo, names=task.encoding.voices))
    wishes: dict[str, dict[str, Any]] = {
        "unconditional": {"seconds": SECONDS},
        "continued": {"seconds": SECONDS - KEPT, "prompt": seed, "keep": KEPT},
        "harmonised": {"seconds": SECONDS, "harmonise": seed},
    }
    sampling = generate.sampling_of(run.recipe, given.settings)
    found: dict[str, Any] = {"the chorale itself": statistics.describe([piece])}
    for name, wish in wishes.items():
        made = compose(task, run.model, Request(**wish, sampling=sampling)).pieces[0]
        for kind in generate.KINDS:
            path = given.out / f"{name}{kind}"
            path.write_bytes(generate.render(made, task, path))
        (results_page.DOCS / "images" / f"sample_{name}.png").write_bytes((given.out / f"{name}.png").read_bytes())
        found[name] = statistics.describe([task.encoding.decode(made.tokens)])
    found["test split"] = statistics.describe([one.content for one in task.split("test")])
    results_page.store(results_page.MUSIC, results_page.stored(results_page.MUSIC) | {"samples": found})
    print(results_page.samples(found))


if __name__ == "__main__":
    main()
