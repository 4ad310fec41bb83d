"""What a task is: data, loss, scores, answers, and what there is to see. Everything generic asks the task.

A task is one file in `tasks/`, or a module of one's own given by a dotted name. The file has

    VERB      what people call it: "translate"; command line, Python and server offer it under that name
    VERBS     optional: all its verbs, where one `answer` serves several ("generate", "complete")
    SPEC      the family of sizes it has (core.sizes), by which models that fit are found
    DEFAULTS  a recipe's table, laid under every recipe of the task
    DEMO      settings (key=value) of a training of about 90 seconds on built-in data
    Config    a frozen dataclass: the [data] section of a recipe
    Options   a frozen dataclass: what one can ask for in a single request, every field with a default and a comment
    DATA_SETTINGS  the names in Config that say where the data lies; they may be others when a trained run is used (optional)
    Evaluation  a frozen dataclass like Options: what an evaluation can be told (optional, see `evaluated`)
    SERVER_LIMITS  the most that a stranger may ask a server for, by an option's name (optional; 1,000 of what is counted)
    build(config, folder=None) -> Task    from the data, or from the files of a run folder where one is given
    load(config, folder) -> Task          from a run folder, without reading the training data
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
    """The base of every task. `decoding` is the recipe's decoder (regard.decoding.Decoding), None where it has none."""

    spec: Any  # a value of the family that the file's SPEC names
    target_metric: TargetMetric
    # for scores other than the goal's: True where more is better; training.evaluation.metric may then name them
    higher_is_better: Mapping[str, bool] = MappingProxyType({})
    evaluation_mode: str = "as the model is used"  # how the scores of an evaluation come about, for the model card
    test_only: bool = False  # its data is for testing alone, and is not cut into splits (`held_out`)
    throughput_unit = "tokens"  # what the count of a loss counts: the unit of the rate that training shows
    verbs: tuple[str, ...] = ()  # those of VERBS that it has, where that hangs on its settings; (): all of them
    examples: tuple[str, ...] = ()  # inputs worth trying: demo, check, the first page of a server
    comparison_inputs: tuple[
        str, ...
    ] = ()  # inputs like those that it will be given, on which engines are compared; (): examples
    # whether what it draws for an input depends on nothing but the seed and the input's entry in `decoding.numbers`:
    # a server then answers requests that draw together
    samples_by_index: bool = False
    # suffixes of the files that `read` opens where a text is the path of one; (): it opens none; None: nobody has said
    input_suffixes: tuple[str, ...] | None = None

    def epoch_batches(self, epoch: int, seed: int) -> list[Indices]:
        """The epoch's global batches as example numbers; the same on every process."""
        raise NotImplementedError

    def collate(self, examples: Indices) -> Any:
        """A batch of tensors (a NamedTuple, so that core.tree can move it to a device)."""
        raise NotImplementedError

    def loss(self, model: Any, batch: Any) -> Loss:
        """The training loss of a batch."""
        raise NotImplementedError

    def evaluate(self, model: Any, split: str, decoding: Any) -> dict[str, float]:
        """Scores on a split ('valid' or 'test'), come about as `scored` says; the goal's metric is among them."""
        raise NotImplementedError

    def extra_metrics(self, model: Any, split: str, decoding: Any) -> dict[str, float]:
        """Further scores that `regard evaluate` prints but that are too slow to compute during training."""
        return {}

    def signatures(self) -> dict[str, str]:
        """How each score is computed, for others to repeat it."""
        return {}

    def as_test_data(self) -> Task:
        """The same task for data that it was not trained on: what is no split of several is wholly for testing."""
        other = copy.copy(self)
        other.test_only = True
        for name in [name for name in vars(self) if isinstance(getattr(type(self), name, None), cached_property)]:
            delattr(other, name)  # data that was read
        return other

    def with_evaluation_options(self, options: Any) -> Task:
        """The same task for an evaluation as it is asked for: `asked` is a value of the file's Evaluation."""
        return self

    def data_summary(self) -> list[str]:
        """The data in a few lines, said when training begins: examples of each split, the vocabulary, one example."""
        return []

    def fingerprint(self) -> dict[str, str]:
        """Part of the data -> a checksum of it, by which a resumed run knows that it is the same (core.fingerprint).

        Here all training batches of one epoch are gone through. A task that knows its other splits, or a cheaper way
        for much data, overrides it; the names are what a user reads: "train", "valid", "test".
        """
        with preserve_rng_state():
            return {"train": checksums.hash_batches(self._seeded(examples) for examples in self.epoch_batches(0, 0))}

    def _seeded(self, examples: Indices) -> Any:
        seed_all(0)
        return self.collate(examples)

    def token_texts(self, table: str = "") -> list[str]:
        """The text of each token number, "" for marks, by which the rows of the table of embeddings with this name get
        word vectors. Empty: there are none."""
        return []

    def data_warnings(self) -> list[str]:
        """What a user should know of the data before training: what is left out, and why."""
        return []

    def save(self, folder: Path) -> None:
        """Write what reading new input needs (a tokenizer, class names) beside the weights."""

    def parse_input(self, text: str) -> Any:
        """What a user gives (a text, or the path of a file) -> an input, or an error that says what is wrong."""
        return text

    def parse_untrusted_text(self, text: str) -> Any:
        """A text that somebody else sent, to an input. It is never taken for a path: a server opens no file of its own
        because a request names one. A task whose `read` opens files says which (`opens`), and these are sent whole."""
        if self.input_suffixes is None and type(self).parse_input is not Task.parse_input:
            raise DataError("the task of this run does not say which files it opens (Task.opens); it takes no requests")
        if self.input_suffixes and text.strip():
            kinds = ", ".join(self.input_suffixes)
            raise DataError(f"the input of this run is a file ({kinds}); send the file itself, not where it lies")
        return self.parse_input(text)

    def decode_tokens(self, tokens: Sequence[int]) -> str:
        """Tokens that have been decoded so far, as text for whoever reads along; "" where they are no text."""
        return ""

    def partial_text(self, parsed_input: Any, options: Any, tokens: Sequence[int]) -> str:
        """The answer to an input as it will read, of which these tokens have been decoded so far."""
        return self.decode_tokens(tokens)

    def reference(self, parsed_input: Any) -> tuple[int, ...] | None:
        """An input -> the token numbers of its true answer, end mark included, where the data has one: what a model is
        looked at with while it learns. None for a task whose answers are not tokens."""
        return None

    def predict(self, model: Any, inputs: Sequence[Any], options: Any, decoding: Any) -> list[list[Prediction]]:
        """Inputs -> for each its answers, best first. `options` is a value of the file's Options."""
        raise NotImplementedError

    def inspect(self, model: Any, parsed_input: Any, options: Any, decoding: Any) -> Inspectable:
        """An input -> all that a page needs to show how the model answered it."""
        raise NotImplementedError
