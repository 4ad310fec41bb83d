"""Task: data, loss, metrics, predictions and inspection of one kind of problem. Generic code only uses this interface.

A task is a package `tasks/NAME/`, or any module given by a dotted name. Its `__init__.py` has these constants:

    VERB           str: the verb of the task, e.g. "translate"; the command line, Python and the server use it
    VERBS          tuple of str, optional: all verbs, if `predict` serves several ("generate", "complete")
    VERB_OPTIONS   dict, optional: verb of VERBS -> the options that it sets: {"score": {"score": True}}
    SPEC           class from core.data_specs: the data spec that the task has; models that accept it are compatible
    DEFAULTS       dict: a recipe table that every recipe of the task overrides
    DEMO           list of "key=value" settings for a training of about 90 seconds on built-in data
    DATA_SETTINGS  tuple of str, optional: fields of Config that locate the data; they may change for a trained run
    EVALUATION_IMPORTS  tuple of (module, extra), optional: modules that `Task.evaluate` imports from optional
                   dependencies; training checks them before the first step
    SERVER_LIMITS  dict, optional: option name -> upper limit for served requests (default 1,000)

these frozen dataclasses, in which every field has an end-of-line comment for the help text:

    Config         the [data] section of a recipe
    Options        the options of a request; every field has a default
    Evaluation     optional: the options of an evaluation, see `Task.with_evaluation_options`

and these functions:

    build(config, folder=None) -> Task   from the data; with `folder`, using the files of that run folder
    load(config, folder) -> Task         from a run folder, without reading the training data
    measure(config) -> DataSize          optional: the size of the training data; without it the examples are counted
"""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from functools import cached_property
from pathlib import Path
from types import MappingProxyType
from typing import Any

from regard.core import checksums
from regard.core.errors import DataError
from regard.core.inspectable import Inspectable
from regard.core.prediction import Prediction
from regard.core.protocols import Indices, Loss, TargetMetric
from regard.core.seed import preserve_rng_state, seed_all

__all__ = ["Prediction", "Task"]


class Task:
    """Base class of all tasks.

    In all methods `decoding` is the decoding strategy of the recipe (regard.decoding), None if it has none.
    """

    spec: Any  # an instance of the module's SPEC
    target_metric: TargetMetric
    # metric -> True if higher is better, for metrics that training.evaluation.metric may name besides the target metric
    higher_is_better: Mapping[str, bool] = MappingProxyType({})
    # metric -> value below which its changes are noise, so that the validation loss selects the best weights
    noise_floor: Mapping[str, float] = MappingProxyType({})
    evaluation_mode: str = "as the model is used"  # how evaluation outputs are computed, for the model card
    test_only: bool = False  # all data is test data and is not split (see `as_test_data`)
    fit_s: float = 0.0  # seconds in which parts of the task itself were fitted to the training data
    throughput_unit = "tokens"  # the unit of Loss.count, for the throughput that training displays
    verbs: tuple[str, ...] = ()  # the supported verbs of VERBS, if they depend on the settings; (): all
    # verb of VERBS that this run does not support -> the setting with which a training supports it
    verb_settings: Mapping[str, str] = MappingProxyType({})
    # setting with which more than the model computes a prediction, so that no export gives the same; "": none
    export_obstacle: str = ""
    stored_training_data: str = ""  # file of the run with training examples, named in the model card; "": none
    examples: tuple[str, ...] = ()  # example inputs for the demo, `regard check` and the server's start page
    comparison_inputs: tuple[str, ...] = ()  # typical inputs on which engines are compared; (): `examples`
    # True if samples depend only on the seed and the input's index, so that the server may batch sampling requests
    samples_by_index: bool = False
    # suffixes of the files that `parse_input` opens when a text is a path; (): it opens none; None: not declared
    input_suffixes: tuple[str, ...] | None = None

    def epoch_batches(self, epoch: int, seed: int) -> list[Indices]:
        """Return the global batches of an epoch as arrays of example indices, the same on every process."""
        raise NotImplementedError

    def collate(self, examples: Indices) -> Any:
        """Return a batch of tensors: a NamedTuple, so that core.state_tree can move it to a device."""
        raise NotImplementedError

    def loss(self, model: Any, batch: Any) -> Loss:
        """Return the training loss of a batch."""
        raise NotImplementedError

    def initialize(self, model: Any) -> None:
        """Fit parts of a new model to the training data before the first step; the default has no such part."""

    def evaluate(self, model: Any, split: str, decoding: Any) -> dict[str, float]:
        """Return the metrics on a split ('valid' or 'test'), the target metric among them. See `evaluation_mode`."""
        raise NotImplementedError

    def extra_metrics(self, model: Any, split: str, decoding: Any) -> dict[str, float]:
        """Return further metrics for `regard evaluate` that are too slow to compute during training."""
        return {}

    def baselines(self, split: str) -> dict[str, float]:
        """Return NAME.METRIC of simple baselines, trained on the same training data; empty if there are none."""
        return {}

    def signatures(self) -> dict[str, str]:
        """Return metric -> a description of its computation, so that results can be reproduced."""
        return {}

    def as_test_data(self) -> Task:
        """Return a copy for data that the model was not trained on: data without splits is all test data."""
        task = copy.copy(self)
        task.test_only = True
        for name in [name for name in vars(self) if isinstance(getattr(type(self), name, None), cached_property)]:
            delattr(task, name)  # data that was already read
        return task

    def with_evaluation_options(self, options: Any) -> Task:
        """Return the task with evaluation options applied; `options` is an instance of the module's Evaluation."""
        return self

    def data_summary(self) -> list[str]:
        """Return a few lines about the data for the start of training: split sizes, vocabulary, one example."""
        return []

    def fingerprint(self) -> dict[str, str]:
        """Return split -> checksum, by which a resumed run detects changed data (core.checksums).

        The default hashes all training batches of one epoch. Tasks with other splits, or with a cheaper way for large
        data, override it. The user sees the keys: "train", "valid", "test".
        """
        with preserve_rng_state():
            return {"train": checksums.hash_batches(self._seeded(examples) for examples in self.epoch_batches(0, 0))}

    def _seeded(self, examples: Indices) -> Any:
        seed_all(0)
        return self.collate(examples)

    def token_texts(self, table: str = "") -> list[str]:
        """Return the text of each token id, "" for special tokens, to initialize an embedding table with word vectors.

        `table` is the name of the embedding table. Empty if it has no texts.
        """
        return []

    def data_warnings(self) -> list[str]:
        """Return warnings about the data to print before training: what is left out, and why."""
        return []

    def save(self, folder: Path) -> None:
        """Write the files needed to read new inputs (a tokenizer, class names) into the run folder."""

    def parse_input(self, text: str) -> Any:
        """Text from the user (the input, or the path of a file) -> a parsed input; invalid text is a DataError."""
        return text

    def parse_object(self, value: Any) -> Any:
        """Object from a Python caller (an image, an array) -> a parsed input; by default it is one already."""
        return value

    @property
    def opens_files(self) -> bool:
        """True if `parse_input` may open a file that a text names."""
        if self.input_suffixes is None:
            return type(self).parse_input is not Task.parse_input
        return bool(self.input_suffixes)

    def parse_untrusted_text(self, text: str) -> Any:
        """Text from a request -> a parsed input. The text is never interpreted as a path.

        A task whose `parse_input` opens files declares them in `input_suffixes`; clients must upload such files.
        """
        if self.input_suffixes is None and self.opens_files:
            raise DataError(
                "the task of this run does not say which files it opens (Task.input_suffixes); it accepts no requests"
            )
        if self.input_suffixes and text.strip():
            suffixes = ", ".join(self.input_suffixes)
            raise DataError(f"the input of this run is a file ({suffixes}); send the file itself, not its path")
        return self.parse_input(text)

    def decode_tokens(self, tokens: Sequence[int]) -> str:
        """Return the text of the tokens decoded so far, for streaming; "" if the tokens are not text."""
        return ""

    def partial_text(self, parsed_input: Any, options: Any, tokens: Sequence[int]) -> str:
        """Return the partial output for an input of which these tokens have been decoded."""
        return self.decode_tokens(tokens)

    def reference(self, parsed_input: Any) -> tuple[int, ...] | None:
        """Return the token ids of the reference output, EOS included, with which a model is inspected during training.

        None if the data has no reference for this input, or if outputs are not tokens.
        """
        return None

    def predict(self, model: Any, inputs: Sequence[Any], options: Any, decoding: Any) -> list[list[Prediction]]:
        """Parsed inputs -> the predictions for each, best first. `options` is an instance of the module's Options."""
        raise NotImplementedError

    def inspect(self, model: Any, parsed_input: Any, options: Any, decoding: Any) -> Inspectable:
        """Return everything a page needs to show how the model computed the prediction for an input."""
        raise NotImplementedError
