"""Commands that predict with a run: one per verb of the tasks, and `predict` for any task."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Sequence
from itertools import zip_longest
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import typer

from regard.cli import help
from regard.cli.help import Section
from regard.cli.settings import (
    Engine,
    Folder,
    Force,
    InputFile,
    Inputs,
    Json,
    OnError,
    Out,
    Precision,
    Ray,
    SettingsCommand,
    Trust,
    Workers,
    settings_of,
    to_options,
)

if TYPE_CHECKING:
    from regard.api.run import Run
    from regard.inspection.collect import InspectionTarget


LOCAL_CLUSTER = "local"
RAY_ADDRESS = re.compile(r"local|auto|ray://\S+|[\w.-]+:\d+")  # after --ray; any other word is an input


class Verb(NamedTuple):
    """A verb, and whether its text output is numbered."""

    name: str | None = None  # None: the verb of the task of the run
    numbered: bool = False


class PredictOptions(NamedTuple):
    """Command line options of a prediction."""

    as_json: bool = False
    out: tuple[Path, ...] = ()
    engine: str = "auto"
    workers: int = 0  # 0: one per core
    trust: bool = False
    on_error: str | None = None  # stop, skip or blank; None: blank for standard input, else stop
    precision: str = "float32"
    ray: str = ""  # address of a cluster, or "local"; "": processes of this machine
    file: Path | None = None  # a file of inputs, one per line
    force: bool = False  # --out may replace existing files


class PredictCommand(SettingsCommand):
    """A command on a run: the first argument that is not a setting is the run folder."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Parse the arguments; `--ray` without an address means a cluster of this machine."""
        return super().parse_args(ctx, complete_ray(args))

    def sections(self, args: Sequence[str]) -> Iterable[Section]:
        """Return the options of the task of the run, or of all tasks with this verb."""
        verb = self.name or ""
        return help.run_sections(args, verb) or help.verb_sections(verb)

    def flags(self, args: Sequence[str]) -> Collection[str]:
        return {row[0] for section in self.sections(args) for row in section.rows if row[2] == "bool"}


def complete_ray(args: Sequence[str]) -> list[str]:
    """Arguments -> the same with `--ray` as `--ray=local` if no address follows it."""
    return [
        f"--ray={LOCAL_CLUSTER}" if word == "--ray" and not RAY_ADDRESS.fullmatch(after) else word
        for word, after in zip_longest(args, args[1:], fillvalue="")
    ]


def load_target(folder: Path, settings: Sequence[str], *, trust: bool = False) -> InspectionTarget:
    """A run folder and settings -> the target of an inspection."""
    from regard.api.run import load

    return target_with_settings(load(folder, trust=trust), settings)


def target_with_settings(run: Run, settings: Sequence[str], *, name: str | None = None) -> InspectionTarget:
    """A run and settings -> the target of an inspection, with a name."""
    from regard.inspection.report import target_of

    options, decoding = run.parse_request(to_options(settings, run.options))
    return target_of(run, options=options, decoding=decoding, name=name)


def command(verb: Verb, doc: str) -> Callable[..., None]:
    """Create the function of a command; typer builds the help from its signature and from `doc`."""

    def run(
        context: typer.Context,
        folder: Folder,
        inputs: Inputs = None,
        *,
        as_json: Json = False,
        out: Out = None,
        engine: Engine = "auto",
        precision: Precision = "float32",
        workers: Workers = 0,
        on_error: OnError = None,
        ray: Ray = "",
        file: InputFile = None,
        force: Force = False,
        trust: Trust = False,
    ) -> None:
        from regard.cli.predict_loop import run_predict

        predict_options = PredictOptions(
            as_json, tuple(out or ()), engine, workers, trust, on_error, precision, ray, file, force
        )
        run_predict(folder, inputs or [], settings_of(context), verb=verb, predict_options=predict_options)

    run.__doc__ = doc
    return run


VERBS = {  # command -> its function, one per verb of the tasks
    "caption": command(Verb("caption"), "Caption images; --out x.png shows where each word attends."),
    "classify": command(Verb("classify"), "Classify texts or files, or standard input line by line."),
    "complete": command(Verb("complete"), "Complete an image from its upper part."),
    "detect": command(Verb("detect"), "Detect objects in images."),
    "embed": command(Verb("embed"), "Print one vector per text, or per line of standard input."),
    "fill": command(Verb("fill"), "Fill the masked positions of texts, or of standard input line by line."),
    "generate": command(Verb("generate", numbered=True), "Generate texts, images or music, with or without a prompt."),
    "nearest": command(Verb("nearest"), "Find the words nearest to a word, or to a sum: king - man + woman."),
    "recommend": command(Verb("recommend"), "Recommend items to a known or new user, with reasons."),
    "score": command(Verb("score"), "Score texts: perplexity, and the log probability of every token."),
    "tag": command(Verb("tag"), "Tag the words of texts, or of standard input line by line."),
    "transcribe": command(
        Verb("transcribe"),
        "Transcribe recordings; --out x.svg shows where each token attends, x.srt its time.",
    ),
    "translate": command(Verb("translate"), "Translate texts, or standard input line by line."),
    "upscale": command(Verb("upscale"), "Upscale images."),
}
ANY_TASK = "predict"  # the command for a run of any task
COMMANDS = {
    ANY_TASK: command(Verb(), "Predict with a run of any task: texts or files, or standard input line by line."),
    **VERBS,
}
