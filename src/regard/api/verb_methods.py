"""The verbs of all tasks as methods of a run, each a thin wrapper around `predict`."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, overload

import numpy as np
from numpy.typing import NDArray

from regard.core.errors import ConfigError
from regard.core.task import Prediction

if TYPE_CHECKING:
    from regard.training.recipe import Recipe


class Verbs:
    """Methods named after verbs. A verb that the task does not have raises an error that names the right one.

    An input is a text or the path of a file. Options are the fields of `run.options`; `decoding={"beam_width": 8}`
    changes the search. Methods that return one output per input return a list of outputs per input, best first, if the
    number of outputs `n` is given.
    """

    folder: Path
    recipe: Recipe
    verb: str
    verbs: tuple[str, ...]

    def predict(self, inputs: Sequence[Any], **options: Any) -> list[list[Prediction]]:
        """Inputs -> the predictions for each, best first."""
        raise NotImplementedError

    def verb_options(self, verb: str) -> dict[str, Any]:
        """Return the options that a verb sets."""
        return {}

    @overload
    def translate(self, texts: Sequence[str], *, n: None = None, **options: Any) -> list[str]: ...
    @overload
    def translate(self, texts: Sequence[str], *, n: int, **options: Any) -> list[list[str]]: ...
    def translate(self, texts: Sequence[str], *, n: int | None = None, **options: Any) -> list[str] | list[list[str]]:
        """Return the best translation of each text, or its `n` best translations. `predict` returns probabilities."""
        return _texts(self._predict_as("translate", texts, options, n), n)

    def generate(self, prompt: Any = "", /, **options: Any) -> list[Prediction]:
        """Generate texts, images or music, with or without a prompt, most likely first."""
        if isinstance(prompt, list | tuple):
            raise ConfigError("generate takes one prompt; write generate(text), or predict([…]) for several")
        return self._predict_as("generate", [prompt], options)[0]

    def score(self, texts: Sequence[str], **options: Any) -> list[Prediction]:
        """Return the log probability of each text, and of each of its tokens in `data["tokens"]`."""
        return [predictions[0] for predictions in self._predict_as("score", texts, options)]

    def embed(self, texts: Sequence[str], **options: Any) -> NDArray[np.float32]:
        """Return one vector per text (n d)."""
        rows = [predictions[0].data["vector"] for predictions in self._predict_as("embed", texts, options)]
        return np.array(rows, dtype=np.float32)

    @overload
    def classify(self, inputs: Sequence[Any], *, n: None = None, **options: Any) -> list[Prediction]: ...
    @overload
    def classify(self, inputs: Sequence[Any], *, n: int, **options: Any) -> list[list[Prediction]]: ...
    def classify(
        self, inputs: Sequence[Any], *, n: int | None = None, **options: Any
    ) -> list[Prediction] | list[list[Prediction]]:
        """Return the most likely class of each input with its probability, or its `n` most likely classes."""
        predictions = self._predict_as("classify", inputs, options, n)
        return predictions if n is not None else [ranked[0] for ranked in predictions]

    def tag(self, texts: Sequence[str], **options: Any) -> list[Prediction]:
        """Return each text with a tag for every word."""
        return [predictions[0] for predictions in self._predict_as("tag", texts, options)]

    def fill(self, texts: Sequence[str], **options: Any) -> list[list[Prediction]]:
        """Return each text with its masked positions filled, most likely first."""
        return self._predict_as("fill", texts, options)

    def complete(self, inputs: Sequence[Any], **options: Any) -> list[list[Prediction]]:
        """Return completions of each input, most likely first."""
        return self._predict_as("complete", inputs, options)

    def upscale(self, images: Sequence[Any], **options: Any) -> list[Prediction]:
        """Return each image upscaled."""
        return [predictions[0] for predictions in self._predict_as("upscale", images, options)]

    @overload
    def caption(self, images: Sequence[Any], *, n: None = None, **options: Any) -> list[str]: ...
    @overload
    def caption(self, images: Sequence[Any], *, n: int, **options: Any) -> list[list[str]]: ...
    def caption(self, images: Sequence[Any], *, n: int | None = None, **options: Any) -> list[str] | list[list[str]]:
        """Return a caption for each image, or its `n` best captions. `predict` returns probabilities."""
        return _texts(self._predict_as("caption", images, options, n), n)

    @overload
    def transcribe(self, recordings: Sequence[Any], *, n: None = None, **options: Any) -> list[str]: ...
    @overload
    def transcribe(self, recordings: Sequence[Any], *, n: int, **options: Any) -> list[list[str]]: ...
    def transcribe(
        self, recordings: Sequence[Any], *, n: int | None = None, **options: Any
    ) -> list[str] | list[list[str]]:
        """Return the transcript of each recording, or its `n` best transcripts. `predict` returns probabilities."""
        return _texts(self._predict_as("transcribe", recordings, options, n), n)

    def detect(self, images: Sequence[Any], **options: Any) -> list[list[Prediction]]:
        """Return the objects in each image, most confident first."""
        return self._predict_as("detect", images, options)

    @overload
    def recommend(self, users: Sequence[Any], **options: Any) -> list[list[Prediction]]: ...
    @overload
    def recommend(self, users: None = None, **options: Any) -> list[Prediction]: ...
    def recommend(
        self, users: Sequence[Any] | None = None, **options: Any
    ) -> list[list[Prediction]] | list[Prediction]:
        """Return items for each user, best first: `recommend(["u1", "u2"])`.

        One user is described by options, for whom a single list is returned: `recommend(user="u1")`, or a new user,
        `recommend(profile="age=30", history="title 1,title 2")`.
        """
        if users is not None:
            return self._predict_as("recommend", users, options)
        if not any(options.get(name) for name in ("user", "profile", "history")):
            raise ConfigError("recommend needs a user: recommend([user]), recommend(user=…) or recommend(history=…)")
        return self._predict_as("recommend", [""], options)[0]

    def nearest(self, words: Sequence[str], **options: Any) -> list[list[Prediction]]:
        """Return the words nearest to each word, or to a sum such as "king - man + woman"."""
        return self._predict_as("nearest", words, options)

    def _predict_as(
        self, verb: str, inputs: Sequence[Any], options: dict[str, Any], n: int | None = None
    ) -> list[list[Prediction]]:
        if verb not in self.verbs:
            method = self.verb if hasattr(Verbs, self.verb) else "predict"
            task = self.recipe.task.name
            raise ConfigError(f"{self.folder} was trained for {task}, whose verb is {self.verb}; run.{method}(…)")
        options = {**self.verb_options(verb), **options}
        return self.predict(inputs, **(options if n is None else {**options, "n": n}))


def _texts(predictions: Sequence[Sequence[Prediction]], n: int | None) -> list[str] | list[list[str]]:
    """Return the text of the first prediction of each input, or the texts of all if their number was requested."""
    if n is None:
        return [ranked[0].text for ranked in predictions]
    return [[prediction.text for prediction in ranked] for ranked in predictions]


def as_list(inputs: Any, verb: str) -> list[Any]:
    """Inputs in any container (a list, an array, a column of a table) -> a list; a single text is an error."""
    if isinstance(inputs, str | Path) or not isinstance(inputs, Iterable):
        raise ConfigError(f"{verb} takes a list of inputs; write {verb}([{_noun(inputs)}])")
    shape: tuple[int, ...] = tuple(getattr(inputs, "shape", ()))
    if len(shape) == 3 and shape[-1] in (1, 3, 4):
        raise ConfigError(f"{verb} takes a list of inputs, not one array of shape {shape}; write {verb}([array])")
    return list(inputs)


def _noun(raw_input: Any) -> str:
    return "text" if isinstance(raw_input, str) else "path" if isinstance(raw_input, Path) else "input"


def check_texts(inputs: Sequence[Any], error: Exception) -> None:
    """Raise an error for the first input that is not a text, such as an empty cell of a table."""
    for index, raw_input in enumerate(inputs, start=1):
        if not isinstance(raw_input, str):
            value = f"{repr(raw_input)[:40]} ({type(raw_input).__name__})"
            remedy = "give a text, or the path of a file if the task reads files"
            if hasattr(raw_input, "permute"):
                remedy = "convert the tensor of an image to an array: tensor.permute(1, 2, 0).numpy()"
            raise ConfigError(f"input {index} is {value}, which cannot be read: {error}; {remedy}") from error
