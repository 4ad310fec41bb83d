"""A command that asks a run: its arguments, and the help that lists what the run's task can be asked."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import typer

from regard.cli import help
from regard.cli.help import Section
from regard.cli.settings import (
    Engine,
    Folder,
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


class Verb(NamedTuple):
    """What a verb calls its input and its answers in JSON, and whether answers are numbered in text."""

    name: str | None = None  # None: the verb of whatever task the run has
    input_key: str = "input"
    predictions_key: str = "predictions"
    numbered: bool = False


class PredictOptions(NamedTuple):
    """What the options say."""

    as_json: bool = False
    out: tuple[Path, ...] = ()
    engine: str = "auto"
    workers: int = 0  # 0: one on each core
    trust: bool = False
    on_error: str | None = None  # stop, skip or blank; None: blank for standard input, else stop
    precision: str = "float32"
    ray: str = ""  # the address of a cluster, or local; "": this process and its own


class PredictCommand(SettingsCommand):
    """Words of a request. The first that is no setting is the run, and its task knows what can be asked."""

    def sections(self, args: Sequence[str]) -> Iterable[Section]:
        """The options of the run's task, or of the tasks that have this verb."""
        return help.run_sections(args) or help.verb_sections(self.name or "")

    def flags(self, args: Sequence[str]) -> Collection[str]:
        """Options that are true or false."""
        return {row[0] for section in self.sections(args) for row in section.rows if row[2] == "bool"}


def load_target(folder: Path, settings: Sequence[str], *, trust: bool = False) -> InspectionTarget:
    """A run folder and what is asked of it -> what inspection looks into."""
    from regard.api.run import load

    return target_with_settings(load(folder, trust=trust), settings)


def target_with_settings(run: Run, settings: Sequence[str], *, name: str | None = None) -> InspectionTarget:
    """A run and what is asked of it -> what inspection looks into, under a name."""
    from regard.inspection.report import target_of

    options, decoding = run.parse_request(to_options(settings, run.options))
    return target_of(run, options=options, decoding=decoding, name=name)


def command(verb: Verb, doc: str) -> Callable[..., None]:
    """The function behind a verb's command; typer makes its help of the arguments and of `doc`."""

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
        trust: Trust = False,
    ) -> None:
        from regard.cli.predict_loop import run_predict

        how = PredictOptions(as_json, tuple(out or ()), engine, workers, trust, on_error, precision, ray)
        run_predict(folder, inputs or [], settings_of(context), verb=verb, predict_options=how)

    run.__doc__ = doc
    return run


VERBS = {  # command -> its function: one for each verb of the tasks
    "caption": command(
        Verb("caption", "image", "captions"), "Say what is in images; --out x.png shows where each word looked."
    ),
    "classify": command(Verb("classify"), "Classify texts or files, or standard input line by line."),
    "complete": command(Verb("complete"), "Complete what is given: the rest of an image."),
    "detect": command(Verb("detect"), "Find the objects in images."),
    "fill": command(Verb("fill"), "Fill the gaps of texts, or of standard input line by line."),
    "generate": command(Verb("generate", numbered=True), "Make something new, from nothing or from what is given."),
    "nearest": command(
        Verb("nearest", "words", "nearest"), "The words nearest to a word, or to a sum: king - man + woman."
    ),
    "recommend": command(
        Verb("recommend", "user", "items"), "Items for a user of the data, or for a new one, and why."
    ),
    "tag": command(Verb("tag"), "Tag the words of texts, or of standard input line by line."),
    "translate": command(
        Verb("translate", "source", "translations"), "Translate texts, or standard input line by line."
    ),
    "upscale": command(Verb("upscale"), "Enlarge images."),
}
ANY_TASK = "predict"  # the command for a run of any task
COMMANDS = {
    ANY_TASK: command(Verb(), "Ask a run of any task: texts or files, or standard input line by line."),
    **VERBS,
}
