"""The command `regard`: options and help of every verb. A verb's file is imported when it is called, torch with it.

To add a verb: write `cli/<verb>.py` with a function `run`, and a thin command here that calls it.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Annotated

import typer

from regard.core.errors import RegardError
from regard.core.version import __version__

app = typer.Typer(
    help="Attention models of every kind from one formula: train them, use them, and look at what they look at.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,  # a mistake of the user's is one line; a mistake of ours is a plain traceback
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _print_version(wanted: bool) -> None:
    if wanted:
        print(f"regard {__version__}")
        raise typer.Exit


@app.callback()
def options(
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version and exit.")
    ] = False,
) -> None:
    """Options that stand before the verb; `--version` has done its work when this is reached."""


@app.command()
def demo(
    out: Annotated[
        Path | None, typer.Option(help="Keep the trained run in this folder.", show_default="a new one")
    ] = None,
) -> None:
    """Train a small English -> Korean Transformer on built-in data and translate: no download, about 90 seconds."""
    from regard.cli.demo import run

    run(out)


@app.command()
def train(
    task: Annotated[str | None, typer.Argument(help="What to learn: translation, music.", show_default=False)] = None,
    arguments: Annotated[
        list[str] | None,
        typer.Argument(metavar="[RECIPE.toml] [KEY=VALUE]…", help="A recipe, and settings laid over it: model=luong."),
    ] = None,
    out: Annotated[
        Path | None, typer.Option(help="The run folder to make.", show_default="runs/<task>-<model>")
    ] = None,
    resume: Annotated[Path | None, typer.Option(help="Go on with this run as if it had never stopped.")] = None,
) -> None:
    """Train a model into a run folder, or go on with one."""
    from regard.cli.train import run

    settings = [word for word in ([task] if resume and task else []) + (arguments or []) if not word.endswith(".toml")]
    recipes = [Path(word) for word in arguments or [] if word.endswith(".toml")]
    if len(recipes) > 1:
        raise typer.BadParameter(f"two recipes, {recipes[0]} and {recipes[1]}; give one")
    run(None if resume else task, recipes[0] if recipes else None, settings, out=out, resume=resume)


@app.command()
def translate(
    folder: Annotated[Path, typer.Argument(metavar="RUN", help="The run folder.")],
    sentences: Annotated[
        list[str] | None, typer.Argument(help="What to translate; without it, lines of stdin.")
    ] = None,
    *,
    nbest: Annotated[int, typer.Option(help="How many translations of each sentence, with scores.")] = 1,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object a line.")] = False,
    settings: Annotated[list[str] | None, typer.Option("--set", help="decoding.width=8, decoding=greedy …")] = None,
    engine: Annotated[str, typer.Option(help="native, int8 (wide Transformers, not exact) or ctranslate2.")] = "native",
    shortlist: Annotated[
        int, typer.Option(help="Likely target tokens for each source token, 16 for example; not exact. 0: all tokens.")
    ] = 0,
    workers: Annotated[int, typer.Option(help="Processes for long inputs.", show_default="one for each core")] = 0,
) -> None:
    """Translate sentences, or standard input line by line."""
    from regard.cli.translate import How, run

    how = How(nbest=nbest, as_json=as_json, engine=engine, shortlist=shortlist, workers=workers)
    run(folder, sentences or [], how=how, settings=settings or [])


@app.command()
def generate(
    folder: Annotated[Path, typer.Argument(metavar="RUN", help="The run folder, of the task music.")],
    *,
    out: Annotated[list[Path], typer.Option(help="Files to write: x.mid, x.wav, x.png; may be given several times.")],
    prompt: Annotated[Path | None, typer.Option(help="A MIDI or MusicXML file to go on from.")] = None,
    keep: Annotated[float | None, typer.Option(help="Seconds of the prompt to use.", show_default="all")] = None,
    harmonise: Annotated[Path | None, typer.Option(help="A file whose soprano is kept; the others are new.")] = None,
    like: Annotated[list[str] | None, typer.Option(help="A class the run knows: Bach, minor, 'G minor'.")] = None,
    seconds: Annotated[float, typer.Option(help="How long the new part is.")] = 30.0,
    settings: Annotated[
        list[str] | None,
        typer.Option("--set", help="temperature=0.9, top_k=8, top_p=0.95, samples=4, seed=2 …"),
    ] = None,
) -> None:
    """Make new music: from nothing, going on from a file, or around a given soprano."""
    from regard.cli.generate import run

    wish = {"prompt": prompt, "keep": keep, "harmonise": harmonise, "classes": tuple(like or ()), "seconds": seconds}
    run(folder, wish, out=out, settings=settings or [])


@app.command()
def evaluate(
    folder: Annotated[Path, typer.Argument(metavar="RUN", help="The run folder.")],
    settings: Annotated[list[str] | None, typer.Argument(metavar="[KEY=VALUE]…", help="decoding=beam …")] = None,
    split: Annotated[str, typer.Option(help="Which part of the data.")] = "test",
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object.")] = False,
) -> None:
    """Score a run on held-out data, free-running, and say how the scores were computed."""
    from regard.cli.evaluate import run

    run(folder, settings or [], split=split, as_json=as_json)


@app.command()
def average(
    folder: Annotated[Path, typer.Argument(metavar="RUN", help="The run folder.")],
    last: Annotated[int, typer.Option(min=1, help="How many evaluations, counted from the last.")] = 5,
    out: Annotated[Path | None, typer.Option(help="The run folder to make.", show_default="RUN-average")] = None,
) -> None:
    """Average the weights of a run's last evaluations into a new run."""
    from regard.cli.average import run

    run(folder, last=last, out=out)


@app.command()
def info(
    folder: Annotated[Path, typer.Argument(metavar="RUN", help="The run folder.")],
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object.")] = False,
) -> None:
    """Show what a run is: model, size, data, scores."""
    from regard.cli.info import run

    run(folder, as_json=as_json)


@app.command()
def check(folder: Annotated[Path, typer.Argument(metavar="RUN", help="The run folder.")]) -> None:
    """Check the laws of decoding on a run: cached = uncached, batched = single, fast = plain, beam 1 = greedy."""
    from regard.cli.check import run

    run(folder)


data = typer.Typer(help="Check data before training, and get public data sets.", no_args_is_help=True)
app.add_typer(data, name="data")


@data.command("check")
def data_check(path: Annotated[Path, typer.Argument(help="A folder or file of parallel text.")]) -> None:
    """Find misaligned or empty lines, duplicates across splits, outliers, encoding errors, decomposed Hangul."""
    from regard.cli.data import check as run

    run(path)


@data.command("get")
def data_get(name: Annotated[str, typer.Argument(help="multi30k, tinyshakespeare, jsb_chorales …")]) -> None:
    """Download a data set from its public home, with a checksum; goes on where it stopped."""
    from regard.cli.data import get as run

    run(name)


@app.command()
def look(
    folder: Annotated[Path, typer.Argument(metavar="RUN", help="The run folder.")],
    text: Annotated[str, typer.Argument(help="The sentence to look at.")],
    html: Annotated[Path | None, typer.Option(help="Write one page that works from disk with the network off.")] = None,
    *,
    png: Annotated[Path | None, typer.Option(help="Draw the map that aligns best.")] = None,
    pdf: Annotated[Path | None, typer.Option(help="Draw it and all heads, for print.")] = None,
    port: Annotated[int, typer.Option(help="Where to serve the page.")] = 8765,
    quiet: Annotated[bool, typer.Option(help="Do not open the browser.")] = False,
) -> None:
    """Look at every attention map of a sentence: in the browser, or as files."""
    from regard.cli.look import run

    run(folder, text, html=html, png=png, pdf=pdf, port=port, quiet=quiet)


@app.command()
def compare(
    arguments: Annotated[list[str], typer.Argument(metavar="RUN RUN… TEXT", help="Two or more runs, then a sentence.")],
    html: Annotated[Path | None, typer.Option(help="Write one page with the maps side by side.")] = None,
) -> None:
    """Put one sentence through several runs: outputs, scores, speed, size, maps."""
    from regard.cli.compare import run

    run(arguments, html=html)


@app.command()
def serve(
    folder: Annotated[Path, typer.Argument(metavar="RUN", help="The run folder.")],
    text: Annotated[str | None, typer.Option(help="The sentence shown first.", show_default=False)] = None,
    host: Annotated[str, typer.Option(help="Whom to answer; this machine alone unless told otherwise.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(help="Where.")] = 8765,
) -> None:
    """Serve the explorer of a run: new sentences and what-if in the browser."""
    from regard.cli.serve import run

    run(folder, text=text, host=host, port=port)


def main() -> None:
    """Run the command line. A RegardError becomes one line on stderr and exit code 1; a usage error is code 2."""
    # Read when torch is first imported, later. Threads that wait spin no longer than this: as fast as ever on a
    # quiet machine, and ten times faster and more where other processes want the cores too.
    os.environ.setdefault("GOMP_SPINCOUNT", "5000")
    try:
        app(prog_name="regard")
    except RegardError as error:
        print("regard:", " ".join(str(error).split()), file=sys.stderr)
        raise SystemExit(1) from None
