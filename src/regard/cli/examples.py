"""Examples in the help of each command. RUN is a run folder of yours, TASK a task; use all other words unchanged."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from regard.tasks import DEFAULT_TASK

EXAMPLES: Mapping[str, Sequence[str]] = {  # command -> complete command lines
    "average": ("regard average RUN --last 5 --out runs/averaged",),
    "baseline": ("regard baseline TASK", "regard baseline TASK --split valid --json"),
    "caption": ("regard caption RUN photo.png", "regard caption RUN photo.png n=3 --out attended.png"),
    "check": ("regard check RUN", "regard check RUN --json"),
    "classify": ('regard classify RUN "a wonderful film" n=2', "regard classify RUN --file reviews.txt --json"),
    "compare": ('regard compare RUN RUN "a sentence"', "regard compare RUN RUN --split test"),
    "complete": ("regard complete RUN image.png rows=4 --out completed.png",),
    "data check": ("regard data check pairs.csv", "regard data check FOLDER data.source=de data.target=en"),
    "data get": ("regard data get multi30k",),
    "demo": ("regard demo", "regard demo TASK --out runs/demo"),
    "detect": ("regard detect RUN photo.png threshold=0.7 --out boxes.png",),
    "embed": ('regard embed RUN "a sentence" --json', "regard embed RUN --file sentences.txt --out vectors.jsonl"),
    "evaluate": ("regard evaluate RUN", "regard evaluate RUN --split valid --json", "regard evaluate RUN --baselines"),
    "experiment": ("regard experiment --list", "regard experiment scaling", "regard experiment all --full"),
    "export": ("regard export RUN --to onnx --out exported",),
    "fill": ('regard fill RUN "The capital of France is [MASK]." n=3',),
    "generate": ('regard generate RUN "Once upon a time" n=2', "regard generate RUN seconds=20 --out piece.mid"),
    "import": ("regard import FOLDER --out runs/imported",),
    "info": ("regard info RUN", "regard info RUN --json"),
    "list": ("regard list", "regard list models", "regard list model transformer", "regard list tasks --json"),
    "look": ('regard look RUN "a sentence"', 'regard look RUN "a sentence" --html page.html --png map.png'),
    "nearest": ('regard nearest RUN "king - man + woman" n=5', "regard nearest RUN king --out words.vec"),
    "predict": ("regard predict RUN INPUT n=3", "regard predict RUN --file inputs.txt --out outputs.jsonl"),
    "push": ("regard push RUN hf:USER/NAME", "regard push RUN hf:USER/NAME --private"),
    "recommend": ("regard recommend RUN --user 42 n=5", 'regard recommend RUN history="Alien,Blade Runner"'),
    "score": ('regard score RUN "To be, or not to be" --json',),
    "serve": ("regard serve RUN", "REGARD_KEY=secret regard serve RUN --host 0.0.0.0 --port 8000"),
    "tag": ('regard tag RUN "Ada Lovelace lived in London."', "regard tag RUN --file news.txt --json"),
    "train": (
        f"regard train {DEFAULT_TASK} data.path=pairs.csv data.source=en data.target=ko --out runs/first",
        "regard train recipes/demo.toml training.steps=200 seed=2",
        "regard train --resume RUN",
    ),
    "transcribe": ("regard transcribe RUN recording.wav", "regard transcribe RUN recording.wav --json"),
    "translate": ('regard translate RUN "a sentence" n=3', "regard translate RUN --file in.txt --out out.txt"),
    "upscale": ("regard upscale RUN small.png --out large.png",),
}  # fmt: skip


def print_examples(command: str) -> None:
    """Print the examples of a command; nothing if it has none."""
    lines = EXAMPLES.get(command, ())
    if lines:
        print("\n".join(["\nExamples", *(f"  {line}" for line in lines)]))


# printed by `regard` without arguments
FIRST_STEPS = """regard demo                    translate with a model that ships with regard, and draw its attention
regard list pretrained         the models that ship with regard, at least one for each task
regard classify pretrained:classification "A wonderful film."    use one; each task has its verb
regard serve pretrained:translation    the same in the browser, with every attention map
regard --help                  all commands; regard demo TASK --train trains a model
"""
