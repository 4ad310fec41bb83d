"""Language: plain text in, nats per token and texts that go on out. Characters, words or subwords; any decoder."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from regard.core.data_specs import LanguageSpec, SpecialTokens
from regard.core.errors import ConfigError
from regard.core.inference_mode import eval_mode
from regard.core.inspectable import Inspectable
from regard.core.protocols import Decoder, Indices, Loss, TargetMetric
from regard.core.task import Prediction, Task
from regard.data.text import plain_text, token_stream
from regard.data.text import tokenizer as tokenizers
from regard.data.text.plain_text import PlainTextSource
from regard.data.text.tokenizer import Tokenizer
from regard.decoding import strategy as decoders
from regard.decoding.strategy import DecodingStrategy
from regard.tasks._shared import text_corpus
from regard.tasks._shared.text_corpus import Corpus, Level
from regard.tasks.language import inspect
from regard.tasks.language.generate import Continuation, TokenIds, empty_source, generate, token_nats


@dataclass(frozen=True)
class Config:
    """Which text, which tokens, which crops. Without a path, the documentation inside Python."""

    paths: tuple[Path, ...] = ()  # files or folders of text; the text column of a table stands behind a #: x.tsv#4
    dataset: str = plain_text.BUILT_IN  # without paths: python (built in), or tinyshakespeare (a download)
    tokenizer: Level = "bpe"  # what a token is: char, word, a subword (bpe, unigram) or a subword of bytes (bytes)
    vocab_size: int = 4000  # tokens, at most
    lowercase: bool = False  # all text is lowercased
    min_frequency: int = 1  # how often a token must be seen
    context: int = 128  # tokens that the model sees at once
    batch_size: int = 32  # crops of the context in a batch
    eval_tokens: int = 200_000  # tokens of a split that are scored, at most
    max_memory_mb: int = 256  # megabytes of text; the tokens of more are mapped from files in the cache folder

    def __post_init__(self) -> None:
        for name in ("vocab_size", "min_frequency", "batch_size", "eval_tokens"):
            if getattr(self, name) < 1:
                raise ConfigError(f"{name}={getattr(self, name)} must be at least 1")
        if self.context < 4:
            raise ConfigError(f"context={self.context} must be at least 4 tokens")

    @property
    def data_source(self) -> PlainTextSource:
        """Where the text comes from."""
        return PlainTextSource(self.paths, self.dataset)


@dataclass(frozen=True)
class Options:
    """What one can ask for. The text that is given is gone on from."""

    tokens: int = 200  # new tokens, at most
    prompt: str = ""  # a text to go on from, where none is given as input
    n: int | None = None  # how many texts; none, here and below: as the run's decoding says
    temperature: float | None = None  # above 1: more surprising, below: less; 0: the likeliest token every time
    top_k: int | None = None  # only the so many likeliest tokens are drawn; 0: all
    top_p: float | None = None  # only the likeliest tokens that have this share of the probability are drawn
    seed: int | None = None  # another one gives other texts; the second of several inputs draws others than the first

    def __post_init__(self) -> None:
        if self.tokens < 1:
            raise ConfigError(f"tokens={self.tokens}: ask for at least one")
        if self.temperature == 0 and (self.n or 1) > 1:
            raise ConfigError(f"n={self.n}: at temperature=0 all would be the same; ask for one")

    def resolve_strategy(self, decoding: DecodingStrategy | None) -> DecodingStrategy:
        """The run's decoder with what is asked for; sampling, where that is no matter of the run's decoder."""
        own = decoding or decoders.build("sample")
        drawn = ("n", "temperature", "top_k", "top_p", "seed")
        return own.with_overrides(**{name: getattr(self, name) for name in drawn})


class CropBatch(NamedTuple):
    """Tokens (b t) as the model reads them, a start mark first, and those that follow them (b t)."""

    inputs: Tensor
    targets: Tensor


class Language(Task):
    """Plain text as a task: crops, loss, nats and bits, texts that go on."""

    target_metric = TargetMetric("nats", higher_is_better=False)
    samples_by_index = True
    evaluation_mode = "each token foretold from the true ones before it"

    def __init__(self, config: Config, tokenizer: Tokenizer, *, examples: Sequence[str] = ()) -> None:
        self.config, self.tokenizer, self.special_tokens = config, tokenizer, SpecialTokens()
        self.corpus = Corpus(config.data_source, tokenizer, max_memory_mb=config.max_memory_mb)
        self.spec = LanguageSpec(tokenizer.vocab_size, max_length=config.context, special_tokens=self.special_tokens)
        self.examples = (*examples, "")  # beginnings, and nothing

    def as_test_data(self) -> Language:
        """The same for text that it was not trained on."""
        other = Language(self.config, self.tokenizer, examples=self.examples)
        other.corpus = self.corpus.as_test_data()
        return other

    def epoch_batches(self, epoch: int, seed: int) -> list[Indices]:
        """The epoch's batches of crops, each the place of its first token; the same on every process."""
        length = len(self.corpus.training_stream(self.config.context).tokens)
        return token_stream.epoch_batches(
            length, context=self.config.context, batch_size=self.config.batch_size, seed=seed, epoch=epoch
        )

    def collate(self, examples: Indices) -> CropBatch:
        """Places -> crops of the context; each is read as if a text began there."""
        following = self.corpus.stream("train").crops(examples, self.config.context)
        start = torch.full((len(following), 1), self.special_tokens.bos)
        return CropBatch(torch.cat([start, following[:, :-1]], dim=1), following)

    def loss(self, model: Decoder, batch: CropBatch) -> Loss:
        """The training loss: cross entropy summed over all tokens of the crops."""
        source = empty_source(len(batch.inputs), batch.inputs.device)
        features, _ = model.features(batch.inputs, model.start(source))
        labels = batch.targets.flatten()
        return Loss(model.readout.loss(features.flatten(0, 1), labels), labels.numel())

    def evaluate(self, model: Decoder, split: str, decoding: Any) -> dict[str, float]:
        """`nats` and perplexity per token, and bits per character, of a split; every token is counted once."""
        text = self.corpus.stream(split)
        scored = text.tokens[: self.config.eval_tokens]
        with eval_mode(model) as device:
            total = float(token_nats(model, [scored], self.spec, device)[0].sum())
        mean = total / len(scored)
        characters = text.num_characters * len(scored) / len(text.tokens)
        return {
            "nats": mean,
            "perplexity": math.exp(min(mean, 700.0)),
            "bits_per_character": total / math.log(2) / characters,
        }

    def signatures(self) -> dict[str, str]:
        """How each score is computed, for others to repeat it."""
        context = self.config.context
        first = f"of the first {self.config.eval_tokens} tokens of the split, end marks between documents included"
        seen = (
            f"text longer than the context of {context} is read by a sliding window: windows of {context} tokens that"
        )
        return {
            "nats": f"mean -log p per token ({self.config.tokenizer}) {first}; {seen} overlap by half",
            "perplexity": "exp of nats",
            "bits_per_character": "-log2 p of all tokens, as for nats, per character of the raw text",
        }

    def data_summary(self) -> list[str]:
        """How much text there is."""
        return self.corpus.data_summary(self.config.context)

    def fingerprint(self) -> dict[str, str]:
        """A checksum of each split."""
        return self.corpus.fingerprint()

    def token_texts(self, table: str = "") -> list[str]:
        """The text of each token number; none for marks."""
        return self.corpus.token_texts()

    def save(self, folder: Path) -> None:
        """Write the tokenizer and the examples."""
        text_corpus.save(folder, self.tokenizer, [text for text in self.examples if text])

    def predict(
        self, model: Decoder, inputs: Sequence[str], options: Options, decoding: DecodingStrategy | None
    ) -> list[list[Prediction]]:
        """Texts -> for each as many texts that begin with it as are asked for, likeliest first."""
        prompts = [self._prompt(text, options) for text in inputs]
        with eval_mode(model) as device:
            texts = [text for some in self._go_on(model, prompts, options, decoding, device) for text in some]
            whole = [(*prompts[text.prompt_index], *text.tokens) for text in texts]
            scores = token_nats(model, [np.array(row, dtype=np.int64) for row in whole], self.spec, device)
        read, spelt = self.tokenizer.decode(prompts), self.tokenizer.decode(whole)
        answers: list[list[Prediction]] = [[] for _ in inputs]
        for text, values, words in zip(texts, scores, spelt, strict=True):
            number, prompt = text.prompt_index, prompts[text.prompt_index]
            told = _as_given(inputs[number] or options.prompt, read[number], words)
            answers[number].append(self._answer(prompt, text, -float(values[len(prompt) :].sum()), told))
        return [sorted(some, key=lambda answer: -(answer.rank or 0)) for some in answers]

    def _prompt(self, text: str, options: Options) -> TokenIds:
        if text and options.prompt:
            raise ConfigError("a text to go on from is given twice; give it as input or as prompt=…")
        return tuple(self.tokenizer.encode([text or options.prompt])[0]) if text or options.prompt else ()

    def _go_on(
        self,
        model: Decoder,
        prompts: Sequence[TokenIds],
        options: Options,
        decoding: DecodingStrategy | None,
        device: torch.device,
    ) -> list[list[Continuation]]:
        search = options.resolve_strategy(decoding)
        return generate(model, prompts, count=options.tokens, sizes=self.spec, decoding=search, device=device)

    def _answer(self, prompt: TokenIds, text: Continuation, score: float, told: str) -> Prediction:
        unknown = prompt.count(self.special_tokens.unk)
        remarks = (f"{unknown} of the {len(prompt)} tokens given are unknown to the model",) if unknown else ()
        files = {".txt": partial(str.encode, f"{told}\n")}
        return Prediction(told, score, score, value=text.tokens, files=files, remarks=remarks)

    def decode_tokens(self, tokens: Sequence[int]) -> str:
        return self.tokenizer.decode([tokens])[0]

    def partial_text(self, parsed_input: str, options: Options, tokens: Sequence[int]) -> str:
        prompt = self._prompt(parsed_input, options)
        read, told = self.tokenizer.decode([prompt, (*prompt, *tokens)])
        return _as_given(parsed_input or options.prompt, read, told)

    def inspect(
        self, model: Decoder, parsed_input: str, options: Options, decoding: DecodingStrategy | None
    ) -> Inspectable:
        """A text -> what the model looked at when it foretold each of its tokens and of those it went on by.

        Where text and continuation are longer than the context, the last part of the text that leaves room for them.
        """
        prompt = self._prompt(parsed_input, options)
        room = self.spec.max_length - 1
        new = min(options.tokens, max(room - len(prompt), room // 2, 1))
        prompt = prompt[max(0, len(prompt) + new - room) :]
        options = replace(options, prompt="", tokens=new, n=None if options.n is None else 1)
        with eval_mode(model) as device:
            text = self._go_on(model, [prompt], options, decoding, device)[0][0]
            return inspect.build_inspectable(
                model,
                prompt,
                text,
                tokenizer=self.tokenizer,
                special_tokens=self.special_tokens,
                source=empty_source(1, device),
            )


def _as_given(begun: str, read: str, told: str) -> str:
    """What was given stays as it was given, with letters that the model does not know."""
    return begun + told.removeprefix(read) if told.startswith(read) else told


def build(config: Config, folder: Path | None = None) -> Language:
    """A config -> the task with a vocabulary made from the training text, or taken from a run folder."""
    if folder is not None:
        return load(config, folder)
    tokenizer = text_corpus.build_tokenizer(
        config.data_source,
        config.tokenizer,
        config.vocab_size,
        lowercase=config.lowercase,
        min_frequency=config.min_frequency,
    )
    task = Language(config, tokenizer)
    return Language(config, tokenizer, examples=text_corpus.example_prompts(task.corpus.documents("valid")))


def load(config: Config, folder: Path) -> Language:
    """A config and a run folder -> the task with the vocabulary of that run; the text is not needed."""
    tokenizer = tokenizers.load(folder / text_corpus.TOKENIZER)
    return Language(config, tokenizer, examples=text_corpus.read_examples(folder))
