"""Three samples of a run on the chorales: from nothing, continued, harmonised; heard, seen and measured.

    python bench/samples.py RUN OUT         # OUT/*.mid, *.wav, *.png; the pictures and figures also go to docs/

The primer and the soprano are those of a chorale of the test split; the model never saw it.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import results_page

import regard
from regard.data.music import statistics
from regard.tasks.music.piece import to_midi

PRIMER_SECONDS, PIECE = 8.0, 3  # seconds of the primer; which chorale of the test split
KINDS = (".mid", ".wav", ".png")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("run", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument("--temperature", type=float, default=0.9)
    parser.add_argument("--seed", type=int, default=3)
    args = parser.parse_args()
    args.out.mkdir(parents=True, exist_ok=True)
    run = regard.load(args.run)
    task: Any = run.task
    chorale = task.split("test")[PIECE].content
    seed = args.out / "seed.mid"
    seed.write_bytes(to_midi(task.encoding.notes(chorale), task.encoding))
    wishes: dict[str, dict[str, Any]] = {
        "unconditional": {},
        "continued": {"prompt": seed, "prompt_seconds": PRIMER_SECONDS},
        "harmonised": {"harmonise": seed},
    }
    statistics_by_name: dict[str, Any] = {"the chorale itself": statistics.describe([chorale])}
    for name, wish in wishes.items():
        piece = run.generate(**wish, temperature=args.temperature, seed=args.seed)[0]
        for kind in KINDS:
            (args.out / f"{name}{kind}").write_bytes(piece.render(kind))
        (results_page.DOCS / "images" / f"sample_{name}.png").write_bytes((args.out / f"{name}.png").read_bytes())
        statistics_by_name[name] = statistics.describe([task.encoding.decode(piece.value.tokens)])
    statistics_by_name["test split"] = statistics.describe([piece_.content for piece_ in task.split("test")])
    results_page.store(results_page.MUSIC, results_page.stored(results_page.MUSIC) | {"samples": statistics_by_name})
    print(results_page.samples(statistics_by_name))


if __name__ == "__main__":
    main()
