"""Language modeling on plain text, with character, word or subword tokens and any decoder model."""

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

from regard.core.config import check_fields
from regard.core.data_specs import LanguageSpec, SpecialTokens
from regard.core.errors import ConfigError
from regard.core.example_statistics import record_mean
from regard.core.inference_mode import eval_mode
from regard.core.inspectable import Inspectable
from regard.core.prediction import unknown_token_remarks
from regard.core.protocols import Decoder, Indices, Loss, TargetMetric
from regard.core.task import Prediction, Task
from regard.data.text import plain_text, token_stream
from regard.data.text import tokenizer as tokenizers
from regard.data.text.plain_text import PlainTextSource
from regard.data.text.tokenizer import Tokenizer
from regard.data.text.unknown_words import find_unknown_words
from regard.decoding import strategy as decoders
from regard.decoding.strategy import DecodingStrategy
from regard.tasks._shared import text_corpus
from regard.tasks._shared.text_corpus import Corpus, Level
from regard.tasks._shared.tokens import token_name
from regard.tasks.language import inspect, kneser_ney, ngram_mixture, scoring
from regard.tasks.language.generate import (
    Continuation,
    TokenIds,
    context_window,
    empty_source,
    generate,
    start_tokens,
    token_nats,
)

MAX_MIXTURE_TOKENS = 5_000_000  # training tokens up to which an n-gram model is counted in `regard evaluate`


@dataclass(frozen=True)
class Config:
    """Text source, tokenizer and crops. Without a path, the documentation inside Python is used."""

    paths: tuple[Path, ...] = ()  # files or folders of text; the text column of a table follows a #: x.tsv#4
    dataset: str = plain_text.BUILT_IN  # without paths: python (built in), or tinyshakespeare (a download)
    tokenizer: Level = "bpe"  # token unit: char, word, a subword (bpe, unigram) or a subword of bytes (bytes)
    vocab_size: int = 4000  # maximum number of tokens
    lowercase: bool = False  # lowercase all text
    min_frequency: int = 1  # minimum count of a token in the training text
    context: int = 128  # context length in tokens
    start_token: bool = True  # begin every text with a BOS token; false: as published GPT-2 models do
    batch_size: int = 32  # crops of the context length in a batch
    eval_tokens: int = 200_000  # maximum number of tokens of a split that are scored
    max_memory_mb: int = 256  # megabytes of text; the tokens of more are mapped from files in the cache folder

    def __post_init__(self) -> None:
        check_fields(self, at_least_1=("vocab_size", "min_frequency", "batch_size", "eval_tokens"))
        if self.context < 4:
            raise ConfigError(f"context={self.context} must be at least 4 tokens")

    @property
    def data_source(self) -> PlainTextSource:
        """The source of the text."""
        return PlainTextSource(self.paths, self.dataset)


@dataclass(frozen=True)
class Options:
    """Options of a request. The input text is continued."""

    tokens: int = 200  # maximum number of new tokens
    prompt: str = ""  # a text to continue, if no input is given
    n: int | None = None  # number of texts; none, here and below: the setting of the run's decoding
    temperature: float | None = None  # above 1: more diverse, below 1: less; 0: always the most likely token
    top_k: int | None = None  # sample from the k most likely tokens; 0: from all
    top_p: float | None = None  # sample from the most likely tokens that have this share of the probability
    seed: int | None = None  # seed of the samples; each of several inputs is sampled differently
    score: bool = False  # return the perplexity of the text and the log probability of each token; generate nothing
    embed: bool = False  # return the mean of the features of the text's tokens as a vector; generate nothing

    def __post_init__(self) -> None:
        check_fields(self, at_least_1=("tokens",))
        if self.temperature == 0 and (self.n or 1) > 1:
            raise ConfigError(f"n={self.n}: all texts are identical at temperature=0; use n=1")
        if self.score and self.embed:
            raise ConfigError("score and embed are two outputs; request one of them")

    def resolve_strategy(self, decoding: DecodingStrategy | None) -> DecodingStrategy:
        """Return the run's decoding strategy with these options; `sample`, if it lacks one of them."""
        strategy = decoding or decoders.build("sample")
        return strategy.with_overrides(
            num_samples=self.n, temperature=self.temperature, top_k=self.top_k, top_p=self.top_p, seed=self.seed
        )


class CropBatch(NamedTuple):
    """Crops of the training text."""

    inputs: Tensor  # (b t), a BOS token first
    targets: Tensor  # (b t) the next tokens


class Language(Task):
    """Language modeling task: crops of plain text, cross entropy, nats and bits, generation."""

    spec: LanguageSpec
    target_metric = TargetMetric("nats", higher_is_better=False)
    samples_by_index = True
    evaluation_mode = "each token predicted from the true tokens before it"

    def __init__(self, config: Config, tokenizer: Tokenizer, *, examples: Sequence[str] = ()) -> None:
        self.config, self.tokenizer, self.special_tokens = config, tokenizer, SpecialTokens()
        self.corpus = Corpus(config.data_source, tokenizer, max_memory_mb=config.max_memory_mb)
        self.spec = LanguageSpec(
            tokenizer.vocab_size,
            max_length=config.context,
            special_tokens=self.special_tokens,
            start_token=config.start_token,
        )
        self.examples = (*examples, "")  # prompts, and an empty one

    def as_test_data(self) -> Language:
        task = Language(self.config, self.tokenizer, examples=self.examples)
        task.corpus = self.corpus.as_test_data()
        return task

    def epoch_batches(self, epoch: int, seed: int) -> list[Indices]:
        """Return the epoch's batches of crops; an example id is the position of the crop's first token."""
        length = len(self.corpus.training_stream(self.config.context).tokens)
        return token_stream.epoch_batches(
            length, context=self.config.context, batch_size=self.config.batch_size, seed=seed, epoch=epoch
        )

    def collate(self, examples: Indices) -> CropBatch:
        """Positions -> crops of the context length, each after a BOS token if the texts have one."""
        targets = self.corpus.stream("train").crops(examples, self.config.context)
        if not self.config.start_token:
            return CropBatch(targets[:, :-1], targets[:, 1:])
        bos = torch.full((len(targets), 1), self.special_tokens.bos)
        return CropBatch(torch.cat([bos, targets[:, :-1]], dim=1), targets)

    def loss(self, model: Decoder, batch: CropBatch) -> Loss:
        """Return the cross entropy, summed over all tokens of the crops."""
        source = empty_source(len(batch.inputs), batch.inputs.device)
        features, _ = model.features(batch.inputs, model.start(source))
        labels = batch.targets.flatten()
        return Loss(model.readout.loss(features.flatten(0, 1), labels), labels.numel())

    def evaluate(self, model: Decoder, split: str, decoding: Any) -> dict[str, float]:
        """Return `nats` and perplexity per token, and bits per character; every token is counted once."""
        text = self.corpus.stream(split)
        tokens = text.tokens[: self.config.eval_tokens]
        with eval_mode(model) as device:
            nats = token_nats(model, [tokens], self.spec, device)[0]
        total, starts = float(nats.sum()), np.arange(0, len(tokens), self.config.context)
        window_sizes = np.diff(np.append(starts, len(tokens)))
        record_mean("nats", np.add.reduceat(nats, starts), weights=window_sizes, num_examples=len(tokens))
        mean = total / max(1, len(tokens) - (not self.config.start_token))  # without BOS the first is not predicted
        num_characters = text.num_characters * len(tokens) / len(text.tokens)
        return {
            "nats": mean,
            "perplexity": math.exp(min(mean, 700.0)),
            "bits_per_character": total / math.log(2) / num_characters,
        }

    def extra_metrics(self, model: Decoder, split: str, decoding: Any) -> dict[str, float]:
        """Return `mixture_nats` of the model mixed with an n-gram model of its training text, and the weight of the
        n-grams, which is chosen on other text: the validation text, or its other half."""
        if self.corpus.test_only or not self.config.start_token:
            return {}
        train = self.corpus.stream("train").tokens
        if len(train) > MAX_MIXTURE_TOKENS:
            return {}
        ngrams = kneser_ney.KneserNey(train, self.spec.vocab_size, max(kneser_ney.ORDERS))
        texts = [self.corpus.stream(name).tokens[: self.config.eval_tokens] for name in dict.fromkeys(("valid", split))]
        with eval_mode(model) as device:
            scored = list(zip(token_nats(model, texts, self.spec, device), map(ngrams.nats, texts), strict=True))
        if split == "valid":
            nats, weight = ngram_mixture.cross_fitted(*scored[0])
        else:
            weight = ngram_mixture.best_weight(*scored[0])
            nats = ngram_mixture.mix(*scored[1], weight)
        return {"mixture_nats": float(nats.mean()), "mixture_weight": weight}

    def baselines(self, split: str) -> dict[str, float]:
        """Return nats per token of an n-gram model with modified Kneser-Ney smoothing, on the same tokens."""
        train, valid = (self.corpus.stream(name).tokens for name in ("train", "valid"))
        test = self.corpus.stream(split).tokens[: self.config.eval_tokens]
        half = valid[: len(valid) // 2] if split == "valid" else valid  # the order is chosen on the first half
        nats, order = kneser_ney.baseline_nats(train, half, test, self.spec.vocab_size)
        return {"kneser_ney.nats": float(nats.mean()), "kneser_ney.order": float(order)}

    def signatures(self) -> dict[str, str]:
        context = self.config.context
        scored = f"of the first {self.config.eval_tokens} tokens of the split, EOS tokens between documents included"
        windows = f"text longer than the context is scored in a sliding window: windows of {context} tokens that"
        return {
            "nats": f"mean -log p per token ({self.config.tokenizer}) {scored}; {windows} overlap by half",
            "perplexity": "exp of nats",
            "mixture_nats": f"nats of a mixture with modified Kneser-Ney ({max(kneser_ney.ORDERS)}-grams)",
            "mixture_weight": "weight of the n-grams, chosen on the validation text; for valid on the other half of it",
            "bits_per_character": "-log2 p of all tokens, as for nats, per character of the raw text",
        }

    def data_summary(self) -> list[str]:
        return self.corpus.data_summary(self.config.context)

    def fingerprint(self) -> dict[str, str]:
        return self.corpus.fingerprint()

    def token_texts(self, table: str = "") -> list[str]:
        return self.corpus.token_texts()

    def save(self, folder: Path) -> None:
        """Write the tokenizer and the examples."""
        text_corpus.save(folder, self.tokenizer, [text for text in self.examples if text])

    def predict(
        self, model: Decoder, inputs: Sequence[str], options: Options, decoding: DecodingStrategy | None
    ) -> list[list[Prediction]]:
        """Texts -> `options.n` texts that begin with each of them, most likely first; or their scores or vectors."""
        if options.score or options.embed:
            read = scoring.score_texts if options.score else scoring.embed_texts
            with eval_mode(model) as device:
                return [[prediction] for prediction in read(model, inputs, self.tokenizer, self.spec, device)]
        prompts = [self._prompt(text, options) for text in inputs]
        with eval_mode(model) as device:
            outputs = self._generate(model, prompts, options, decoding, device)
            continuations = [continuation for row in outputs for continuation in row]
            rows = [(*prompts[item.prompt_index], *item.tokens) for item in continuations]
            nats = token_nats(model, [np.array(row, dtype=np.int64) for row in rows], self.spec, device)
        decoded_prompts, decoded_texts = self.tokenizer.decode(prompts), self.tokenizer.decode(rows)
        predictions: list[list[Prediction]] = [[] for _ in inputs]
        for continuation, values, decoded in zip(continuations, nats, decoded_texts, strict=True):
            index = continuation.prompt_index
            prompt = prompts[index]
            text = _restore_prompt(inputs[index] or options.prompt, decoded_prompts[index], decoded)
            score = -float(values[len(prompt) :].sum())
            words = find_unknown_words(inputs[index] or options.prompt, self.tokenizer, prompt)
            predictions[index].append(self._prediction(prompt, continuation, score, text).with_unknown_tokens(words))
        return [sorted(row, key=lambda prediction: -(prediction.ranking_score or 0)) for row in predictions]

    def _prompt(self, text: str, options: Options) -> TokenIds:
        if text and options.prompt:
            raise ConfigError("prompt: the text to continue is given twice; give it as input or as prompt=…")
        tokens = tuple(self.tokenizer.encode([text or options.prompt])[0]) if text or options.prompt else ()
        return tokens if tokens or self.config.start_token else (self.special_tokens.bos,)

    def _generate(
        self,
        model: Decoder,
        prompts: Sequence[TokenIds],
        options: Options,
        decoding: DecodingStrategy | None,
        device: torch.device,
    ) -> list[list[Continuation]]:
        strategy = options.resolve_strategy(decoding)
        return generate(model, prompts, count=options.tokens, sizes=self.spec, decoding=strategy, device=device)

    def _prediction(self, prompt: TokenIds, continuation: Continuation, score: float, text: str) -> Prediction:
        remarks = self._cut_remarks(len(prompt), len(context_window(prompt, self.spec.max_length)))
        files = {".txt": partial(str.encode, f"{text}\n")}
        return Prediction(text, score, score, value=continuation.tokens, files=files, remarks=remarks)

    def decode_tokens(self, tokens: Sequence[int]) -> str:
        return self.tokenizer.decode([tokens])[0]

    def partial_text(self, parsed_input: str, options: Options, tokens: Sequence[int]) -> str:
        prompt = self._prompt(parsed_input, options)
        decoded_prompt, decoded = self.tokenizer.decode([prompt, (*prompt, *tokens)])
        return _restore_prompt(parsed_input or options.prompt, decoded_prompt, decoded)

    def inspect(
        self, model: Decoder, parsed_input: str, options: Options, decoding: DecodingStrategy | None
    ) -> Inspectable:
        """A text -> the attention with which each of its tokens and of its continuation was predicted.

        The continuation is as long as the context allows, at least one token. Text that exceeds the context is cut at
        its start, and a remark says so.
        """
        whole = self._prompt(parsed_input, options)
        room = self.spec.max_length - 1
        num_new = min(options.tokens, max(room - len(whole), 1))
        prompt = whole[max(0, len(whole) + num_new - room) :]
        words = find_unknown_words(parsed_input or options.prompt, self.tokenizer)
        options = replace(options, prompt="", tokens=num_new, n=None if options.n is None else 1)
        with eval_mode(model) as device:
            continuation = self._generate(model, [prompt], options, decoding, device)[0][0]
            return inspect.build_inspectable(
                model,
                (*start_tokens(self.spec), *prompt),
                continuation,
                tokenizer=self.tokenizer,
                special_tokens=self.special_tokens,
                source=empty_source(1, device),
                prompt_names=self._prompt_names(parsed_input, whole)[len(whole) - len(prompt) :],
                title=parsed_input if len(prompt) == len(whole) else "",
                remarks=(*self._cut_remarks(len(whole), len(prompt)), *unknown_token_remarks(words)),
            )

    def _prompt_names(self, text: str, tokens: TokenIds) -> list[str]:
        """Return the name of each token of a text; a character that the vocabulary lacks is shown itself."""
        spans = self.tokenizer.encode_with_offsets(text)
        if [span.token for span in spans] != list(tokens):  # options.prompt precedes the text
            return [token_name(token, self.tokenizer) for token in tokens]
        unknown = self.special_tokens.unk
        return [span.text if span.token == unknown else token_name(span.token, self.tokenizer) for span in spans]

    def _cut_remarks(self, length: int, num_used: int) -> tuple[str, ...]:
        """Return a remark if the model attends to only the last `num_used` tokens of a text."""
        if num_used == length:
            return ()
        context = self.spec.max_length
        return (
            f"the context has {context} tokens: only the last {num_used:,} of the {length:,} input tokens are used",
        )


def _restore_prompt(raw_prompt: str, decoded_prompt: str, decoded: str) -> str:
    """Replace the decoded prompt by the raw one, which may have characters unknown to the model."""
    if not decoded.startswith(decoded_prompt):
        return decoded
    return raw_prompt + decoded.removeprefix(decoded_prompt)


def build(config: Config, folder: Path | None = None) -> Language:
    """Return the task with a tokenizer trained on the training text, or loaded from a run folder."""
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
    """Return the task with the tokenizer of a run folder; the text is not needed."""
    tokenizer = tokenizers.load(folder / text_corpus.TOKENIZER)
    return Language(config, tokenizer, examples=text_corpus.read_examples(folder))
