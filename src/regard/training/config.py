"""The `[training]` section of a recipe (when to stop, how to step, when to evaluate, on what to run, what to keep) and
the `[start]` section."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from regard.core.errors import ConfigError

BUDGET_SETTINGS = ("steps", "epochs", "minutes")  # training ends at the first of them that is reached


@dataclass(frozen=True)
class Optimizer:
    """How one step changes the weights."""

    name: Literal["adam", "adamw", "adagrad"] = "adam"  # adamw: decay apart; adagrad: rare words make larger steps
    lr: float = 1e-3  # times the schedule's factor
    betas: tuple[float, float] = (0.9, 0.98)  # how slowly Adam's means of gradient and squared gradient move
    eps: float = 1e-9  # added to the root of the squared gradient's mean
    weight_decay: float = 0.0  # weight decay, on matrices only; adam has none, adamw has
    max_grad_norm: float | None = 1.0  # largest gradient norm; none = no clipping
    accumulation_steps: int = (
        1  # parts of a batch, one after the other: less memory, the same step but for batch normalisation
    )
    on_nonfinite: Literal["stop", "skip"] = "stop"  # what to do when loss or gradient is not a number

    def __post_init__(self) -> None:
        _positive("lr", self.lr)
        _positive("accumulation_steps", self.accumulation_steps)
        _positive("max_grad_norm", self.max_grad_norm)


@dataclass(frozen=True)
class Schedule:
    """How the learning rate changes with the step; see training/optimizer.py."""

    name: Literal["constant", "noam", "inverse_sqrt", "cosine"] = "inverse_sqrt"  # the curve after the rise
    warmup: int = 400  # steps of linear rise
    min_lr_ratio: float = 0.0  # what cosine ends at, as a share of lr

    def __post_init__(self) -> None:
        _positive("warmup", self.warmup)


@dataclass(frozen=True)
class Evaluation:
    """When the model is scored on the validation data, and what follows from it."""

    every: int | None = None  # steps; none = after each epoch
    patience: int | None = None  # evaluations without a new best before stopping; none = never
    average_last: int = 0  # mean of the weights of the last so many evaluations, tried at the end
    metric: str | None = None  # the score by which the best weights are chosen; none = the task's own
    higher_is_better: bool | None = None  # whether more of that score is better; none = as the task says

    def __post_init__(self) -> None:
        _positive("every", self.every)
        _positive("patience", self.patience)


@dataclass(frozen=True)
class Hardware:
    """What it runs on. None of these changes the mathematics."""

    device: Literal["auto", "cpu", "cuda", "mps"] = "auto"  # auto: a GPU if there is one
    precision: Literal["auto", "float32", "bfloat16"] = "auto"  # auto: bfloat16 on a GPU that has it
    compile: bool = False  # by torch.compile, if it can
    checkpoint_activations: bool = False  # recompute each block in the backward pass: less memory, more time
    shard: Literal["none", "full"] = "none"  # full = weights spread over the processes (FSDP)


@dataclass(frozen=True)
class Files:
    """What is written, and how often."""

    save_every: int | None = None  # steps between checkpoints; none = with each evaluation
    keep_checkpoints: int = 2  # checkpoints kept for resuming
    log_every: int = 50  # steps between rows of log.jsonl
    tensorboard: bool = False  # the log for TensorBoard too, in RUN/events

    def __post_init__(self) -> None:
        _positive("save_every", self.save_every)
        _positive("keep_checkpoints", self.keep_checkpoints)
        _positive("log_every", self.log_every)


@dataclass(frozen=True)
class Config:
    """Training ends at the first of steps, epochs and minutes that is reached."""

    steps: int | None = None  # batches
    epochs: int | None = None  # times through the data; 10 if nothing else says how long
    minutes: float | None = None  # counted over resumes, evaluation included
    optimizer: Optimizer = field(default_factory=Optimizer)  # how one step changes the weights
    schedule: Schedule = field(default_factory=Schedule)  # how the learning rate changes with the step
    evaluation: Evaluation = field(default_factory=Evaluation)  # when the model is scored, and what follows
    hardware: Hardware = field(default_factory=Hardware)  # what it runs on
    files: Files = field(default_factory=Files)  # what is written, and how often
    probe_input: str = ""  # an input whose attention maps are kept through training, for the slider of `regard look`

    def __post_init__(self) -> None:
        for name in BUDGET_SETTINGS:
            _positive(name, getattr(self, name))
        if self.steps is None and self.epochs is None and self.minutes is None:
            object.__setattr__(self, "epochs", 10)  # frozen: the one place where a default depends on other fields
        if self.schedule.name == "cosine" and self.steps is None and self.epochs is None:
            raise ConfigError("schedule.name='cosine' must know its end; give steps or epochs beside minutes")


@dataclass(frozen=True)
class Pretrained:
    """Weights of another run, or word vectors, to begin with; see training/pretrained.py."""

    run: str = ""  # the folder of that run
    params: str | tuple[str, ...] = "*"  # patterns of the names of weights to take, such as encoder.*
    freeze: bool | str | tuple[str, ...] = False  # true: what was taken is not trained; or patterns of what is not
    vocabulary: bool = False  # the task is built with the vocabulary files of that run, or of the run of the vectors
    word_vectors: str = (
        ""  # word vectors: a file of word2vec (text, binary), GloVe or fastText (text), or a run that has them
    )
    embedding: str = "*embedding.table.weight"  # pattern of the names of the tables that begin with the vectors

    def __post_init__(self) -> None:
        if not self.run and not self.word_vectors:
            raise ConfigError(
                "start: give pretrained.run=… (the folder of a run), pretrained.word_vectors=… (word vectors), or both"
            )

    @property
    def weight_patterns(self) -> tuple[str, ...]:
        """Of the weights to take."""
        return (self.params,) if isinstance(self.params, str) else self.params

    @property
    def frozen_patterns(self) -> tuple[str, ...]:
        """Of the weights not to train, where they are given by name."""
        if isinstance(self.freeze, bool):
            return ()
        return (self.freeze,) if isinstance(self.freeze, str) else self.freeze


def _positive(name: str, value: float | None) -> None:
    if value is not None and not value > 0:
        raise ConfigError(f"{name} must be more than 0, got {value}")
