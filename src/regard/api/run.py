"""The Python API of a run: load or train one, then predict, evaluate, check and inspect."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, fields
from functools import cached_property, partial
from pathlib import Path
from typing import Any

import torch
from torch import nn

from regard.api.verb_methods import Verbs, as_list, check_texts
from regard.core import config as configs
from regard.core import trust as trusts
from regard.core.errors import ConfigError, DataError, did_you_mean
from regard.core.task import Prediction, Task
from regard.decoding.strategy import DecodingStrategy
from regard.engines import engine as engine_registry
from regard.engines.engine import Engine, EngineHandle
from regard.engines.select import EngineSelector
from regard.engines.torch_free import TorchFreePredictor
from regard.inspection import invariants, training_snapshots
from regard.inspection.invariants import CheckResult
from regard.inspection.report import InspectionReport, inspect_run
from regard.training import data_paths, migrations, recipe_files
from regard.training import recipe as recipes
from regard.training import train as runs
from regard.training.console import Console, LoggingConsole, SilentConsole
from regard.training.device import select_device
from regard.training.load_run import LoadedRun, load_run
from regard.training.recipe import Recipe, Settings, setting_names
from regard.training.run_folder import RunFolder, read_identity, read_origin


@dataclass(frozen=True)
class NoOptions:
    """The options of a task that declares none."""


class Run(Verbs):
    """A trained model with its task, loaded from a run folder."""

    folder: Path
    recipe: Recipe  # all settings it was trained with
    task: Task
    model: nn.Module  # in evaluation mode
    verb: str  # the verb of its task: "translate"
    verbs: tuple[str, ...]  # all verbs of its task
    options: type[Any]  # the dataclass of the request options
    settings: Settings  # changes to its recipe, from `load`

    def __init__(
        self,
        parts: LoadedRun,
        settings: Settings = (),
        *,
        device: str = "cpu",
        engine: str = engine_registry.NATIVE,
        precision: str = "float32",
    ) -> None:
        self.folder, self.recipe, self.task, self.model = parts.folder, parts.recipe, parts.task, parts.model
        module = self.recipe.task.module("tasks")
        default_verb = getattr(module, "VERB", "predict")
        self.verbs = self.task.verbs or tuple(getattr(module, "VERBS", (default_verb,)))
        self.verb = default_verb if default_verb in self.verbs else self.verbs[0]
        self.options = getattr(module, "Options", NoOptions)
        self.settings, self._device, self._engine_name, self._precision = settings, device, engine, precision
        self._parts, self._trusted = parts, parts.trusted
        self._loaded_fingerprint = engine_registry.model_fingerprint(self.model)

    def __repr__(self) -> str:
        names = f"{self.recipe.model.name} for {self.recipe.task.name}"
        return f"Run({str(self.folder)!r}: {names}, {_short(self.parameters)} parameters)"

    def __reduce__(self) -> tuple[Callable[..., Run], tuple[str, Settings]]:
        """Pickle the folder and the arguments of `load`; weights are not pickled."""
        arguments = {"device": self._device, "engine": self._engine_name, "precision": self._precision}
        return partial(load, **arguments, trust=self._trusted), (str(self.folder.resolve()), self.settings)

    @property
    def parameters(self) -> int:
        """The number of trained parameters."""
        return sum(weight.numel() for weight in self.model.parameters())

    def predict(self, inputs: Sequence[Any], **options: Any) -> list[list[Prediction]]:
        """Inputs -> the predictions for each, best first.

        The task parses each text: it is an input or the path of one. Options are the fields of `run.options`;
        `decoding="greedy"` or `decoding={"beam_width": 8}` changes the search.
        """
        inputs = as_list(inputs, self.verb)
        request, decoding = self.parse_request(options)
        predictor = self._torch_free(request, decoding)
        if predictor is not None and all(isinstance(raw_input, str) for raw_input in inputs):
            return predictor.predict(inputs) if inputs else []
        model, decoding = self._handle_for(request, decoding)
        if not inputs:
            return []
        try:
            return self.task.predict(model, [self.parse_input(raw_input) for raw_input in inputs], request, decoding)
        except (TypeError, AttributeError) as error:
            check_texts(inputs, error)
            raise

    def verb_options(self, verb: str) -> dict[str, Any]:
        """Return the options that a verb sets, so that `score` is `generate` with score=True."""
        options: dict[str, Any] = getattr(self.recipe.task.module("tasks"), "VERB_OPTIONS", {}).get(verb, {})
        return dict(options)

    def engine_handle(self, decoding: DecodingStrategy | None) -> EngineHandle:
        """Return the model and the decoding strategy that the task uses. Engine auto, which selects by the complete
        request, returns the native engine here."""
        return self._engine(decoding)

    def torch_free_predictor(self, **options: Any) -> TorchFreePredictor | None:
        """Return the predictor of engine auto that does not need the task; None if there is none."""
        return self._torch_free(*self.parse_request(options))

    def external_engine(self, request: Any, decoding: DecodingStrategy | None) -> EngineHandle | None:
        """Return the external engine that engine auto selects for a request; None if it selects the native one."""
        handle = self._handle_for(request, decoding)
        return handle if self._auto is not None and self._auto.chosen else None

    def cache_command(self, settings: Sequence[str], **options: Any) -> None:
        """Store which request a command line stands for, so that the next such command does not import torch."""
        if self._auto is not None:
            self._auto.cache_command(settings, *self.parse_request(options))

    @property
    def engine_note(self) -> str:
        """Why engine auto used the native engine for the last request; "" if there was no alternative."""
        reason = "" if self._auto is None else self._auto.why
        return f"engine native: {reason}" if reason else ""

    @property
    def uses_external_engine(self) -> bool:
        """True if the last request was computed by a library with its own threads."""
        return self._engine_name == "ctranslate2" or (self._auto is not None and self._auto.chosen)

    def _handle_for(self, request: Any, decoding: DecodingStrategy | None) -> EngineHandle:
        return self.engine_handle(decoding) if self._auto is None else self._auto.handle_for(request, decoding)

    def _torch_free(self, request: Any, decoding: DecodingStrategy | None) -> TorchFreePredictor | None:
        def predict_natively(texts: list[str]) -> list[list[Prediction]]:
            model, search = self.engine_handle(decoding)
            return self.task.predict(model, [self.parse_input(text) for text in texts], request, search)

        return None if self._auto is None else self._auto.torch_free_predictor(request, decoding, predict_natively)

    def parse_input(self, raw_input: Any) -> Any:
        """Parse a text, the path of a file or an object (a Pillow image, an array) with the task."""
        is_text = isinstance(raw_input, str) or (isinstance(raw_input, Path) and bool(self.task.input_suffixes))
        return self.task.parse_input(str(raw_input)) if is_text else self.task.parse_object(raw_input)

    def parse_request(self, options: Mapping[str, Any]) -> tuple[Any, DecodingStrategy | None]:
        """Options by name -> (Options of the task, decoding strategy of this request)."""
        names = [field.name for field in fields(self.options)]
        recipe_decoding = self.recipe.decoding
        migrations.check_renamed(options, self.options, migrations.RENAMED_OPTIONS.get(self.recipe.task.name, {}))
        for name in options:
            if name not in (*names, "decoding"):
                is_decoding = recipe_decoding is not None and recipe_decoding.has_setting(name)
                hint = f"did you mean 'decoding.{name}'?" if is_decoding else did_you_mean(name, names)
                raise ConfigError(f"{self.verb}: no setting {name!r}; {hint}")
        decoding = options.get("decoding", recipe_decoding)
        if decoding is not None and not isinstance(decoding, DecodingStrategy):
            decoding = self.recipe.with_settings({"decoding": decoding}).decoding
        table = {name: value for name, value in options.items() if name != "decoding"}
        return configs.from_dict(self.options, table, self.verb), decoding

    def look(self, raw_input: Any, **options: Any) -> InspectionReport:
        """Return a page with every attention map of one input; `.save("page.html")` writes it to a file."""
        if isinstance(raw_input, list | tuple):
            raise ConfigError("look shows one input; write look(text), not look([text])")
        request, decoding = self.parse_request(options)
        try:
            return inspect_run(self, raw_input, options=request, decoding=decoding)
        except (TypeError, AttributeError) as error:
            check_texts([raw_input], error)
            raise

    def evaluate(self, split: str = "test", **options: Any) -> dict[str, float]:
        """Return the metrics on a split, computed from predictions. Options: see `evaluation_options`."""
        with self._with_data():
            return self.evaluation_task(**options).evaluate(self.model, split, self.recipe.decoding)

    def extra_metrics(self, split: str = "test", **options: Any) -> dict[str, float]:
        """Return further metrics, which take longer."""
        with self._with_data():
            return self.evaluation_task(**options).extra_metrics(self.model, split, self.recipe.decoding)

    def baselines(self, split: str = "test") -> dict[str, float]:
        """Return NAME.METRIC of simple baselines on the same split, trained on the training data of the run."""
        with self._with_data():
            return self.task.baselines(split)

    @contextmanager
    def _with_data(self) -> Iterator[None]:
        origin = read_origin(RunFolder(self.folder))
        if origin is not None and not data_paths.has_user_data(self.recipe.task.config):
            names = [name for name in data_paths.changeable_settings(self.recipe) if name.startswith("data.path")]
            remedy = f"name the data to evaluate on: {names[0]}=…" if names else "fine-tune it in a run with data"
            raise DataError(f"{self.folder}: imported from {origin['source']}, without data; {remedy}")
        with torch.no_grad(), trusts.trust_scope(self.folder, trusted=self._trusted):
            try:
                yield
            except DataError:
                data_paths.check_paths_exist(
                    self.recipe, self.folder
                )  # its error says what to do if the data was moved
                raise

    def evaluation_task(self, **options: Any) -> Task:
        """Return the task with evaluation options, such as other texts."""
        request = configs.from_dict(self.evaluation_options, options, "evaluate")
        return (self.task if self.uses_training_data else self.task.as_test_data()).with_evaluation_options(request)

    @property
    def evaluation_options(self) -> type[Any]:
        """The dataclass of the evaluation options of the task."""
        options: type[Any] = getattr(self.recipe.task.module("tasks"), "Evaluation", NoOptions)
        return options

    @cached_property
    def uses_training_data(self) -> bool:
        """True if the data is the training data of the run, which is so unless settings name other data."""
        if not any(name.startswith("data.") for name in setting_names(self.settings)):
            return True
        return data_paths.is_same_data(self.task, read_identity(RunFolder(self.folder)).fingerprint)

    def check(self) -> list[CheckResult]:
        """Check the invariants of decoding and attention on this model."""
        return invariants.check(self.task, self.model, self.recipe.decoding, options=self.options())

    @cached_property
    def _engine(self) -> Engine:
        return engine_registry.build(self._engine_name, self._parts, self._precision)

    @cached_property
    def _auto(self) -> EngineSelector | None:
        if self._engine_name != engine_registry.AUTO:
            return None
        return EngineSelector(
            self._parts,
            precision=self._precision,
            is_unmodified=lambda: engine_registry.model_fingerprint(self.model) == self._loaded_fingerprint,
        )


def _short(count: int) -> str:
    """5_512_000 -> '5.5 M'."""
    for size, unit in ((10**9, "G"), (10**6, "M"), (10**3, "k")):
        if count >= size:
            return f"{count / size:.1f} {unit}"
    return str(count)


def load(
    folder: Path | str,
    settings: Settings = (),
    *,
    device: str = "cpu",
    engine: str = engine_registry.NATIVE,
    precision: str = "float32",
    trust: bool = False,
) -> Run:
    """Load a run from its folder; settings such as "decoding.beam_width=8" override its own.

    `device` is cpu, cuda, mps or auto. `engine` computes the predictions: native, for every model; ctranslate2, for
    plain Transformers; auto, the faster of the two if both give equal results; int8, for Transformers, faster for wide
    models and not exact. `precision="int8"` does the same for other engines. A run that was not trained on this
    machine imports nothing from outside regard and downloads nothing, unless `trust` is True.
    """
    engine_registry.check_names(engine, precision)
    parts = load_run(folder, settings, device=select_device(device), trust=trust)
    return Run(parts, settings, device=device, engine=engine, precision=precision)


def train(
    task: str,
    settings: Settings = (),
    *,
    out: Path | str,
    recipe: Path | str | None = None,
    device: str | None = None,
    quiet: bool = False,
) -> Run:
    """Train a run: `regard.train("translation", {"model": "transformer", "training.minutes": 5}, out="runs/first")`.

    `recipe` is a .toml file, or the name of a recipe that comes with regard; settings override it. `device` is used for
    training and afterwards: cpu, cuda, mps or auto. Progress is logged at the level INFO of the logger "regard", and
    printed on standard error if the program has not configured logging; `quiet` logs nothing.
    """
    settings = _with_device(settings, device)
    path = None if recipe is None else recipe_files.find_recipe(str(recipe)) or Path(recipe)
    parsed = recipes.read(task, path, settings=settings)
    return load(
        runs.train(parsed, out, step_callback=training_snapshots.record_snapshot, console=_console(quiet)),
        device=device or "cpu",
    )


def resume(
    folder: Path | str,
    settings: Settings = (),
    *,
    device: str | None = None,
    quiet: bool = False,
    trust: bool = False,
    new_log: bool = False,
) -> Run:
    """Resume a run; the result is as if it had never stopped. Settings may change [training] and [decoding].

    `new_log` starts a new log if the old one was lost or changed; see `train` and `load` for the other arguments.
    """
    runs.resume(
        folder,
        _with_device(settings, device),
        step_callback=training_snapshots.record_snapshot,
        console=_console(quiet),
        trust=trust,
        new_log=new_log,
    )
    return load(folder, device=device or "cpu", trust=trust)


def _with_device(settings: Settings, device: str | None) -> Settings:
    if device is None:
        return settings
    if isinstance(settings, Mapping):
        return {**settings, "training.hardware.device": device}
    return [*settings, f"training.hardware.device={device}"]


def _console(quiet: bool) -> Console:
    return SilentConsole() if quiet else LoggingConsole()
