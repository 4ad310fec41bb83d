"""The recipe sections `[training]` (budget, optimizer, schedule, evaluation, hardware, files) and `[pretrained]`."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from regard.core.config import check_fields
from regard.core.errors import ConfigError

BUDGET_SETTINGS = ("steps", "epochs", "minutes")  # training ends at the first limit reached


@dataclass(frozen=True)
class Optimizer:
    """Optimizer of [training.optimizer]."""

    name: Literal["adam", "adamw", "adagrad", "muon", "sgd"] = (
        "adam"  # adamw: decoupled weight decay; adagrad: larger steps for rare words; muon: fewer steps for matrices
        # sgd: sparse gradients
    )
    lr: float = 1e-3  # learning rate; multiplied by the schedule's factor
    betas: tuple[float, float] = (0.9, 0.98)  # decay rates of Adam's averages of the gradient and its square
    eps: float = 1e-9  # added to the denominator
    weight_decay: float = 0.0  # weight decay of matrices; requires adamw or muon
    max_grad_norm: float | None = 1.0  # gradient norm above which gradients are clipped; none = no clipping
    accumulation_steps: int = 1  # micro-batches per batch: less memory, the same step except for batch normalization
    on_nonfinite: Literal["stop", "skip"] = "stop"  # action if loss or gradient is not finite

    def __post_init__(self) -> None:
        check_fields(self, positive=("lr", "accumulation_steps", "max_grad_norm"))


@dataclass(frozen=True)
class Schedule:
    """Learning rate schedule; see training/optimizer.py."""

    name: Literal["constant", "noam", "inverse_sqrt", "cosine"] = "inverse_sqrt"  # curve after the warm-up
    warmup: int = 400  # steps of linear warm-up
    min_lr_ratio: float = 0.0  # cosine: final learning rate as a fraction of lr

    def __post_init__(self) -> None:
        check_fields(self, positive=("warmup",))


@dataclass(frozen=True)
class Evaluation:
    """Validation during training, and what depends on it."""

    every: int | None = None  # steps; none = after each epoch
    patience: int | None = None  # early stopping: evaluations without improvement; none = never
    average_last: int = 0  # at the end, try the mean of the weights of this many last evaluations
    metric: str | None = None  # metric that selects the best weights; none = the task's target metric
    higher_is_better: bool | None = None  # direction of that metric; none = as the task defines it

    def __post_init__(self) -> None:
        check_fields(self, positive=("every", "patience"))


@dataclass(frozen=True)
class Hardware:
    """Device and memory settings. None of them changes the mathematics."""

    device: Literal["auto", "cpu", "cuda", "mps"] = "auto"  # auto: a GPU if available
    precision: Literal["auto", "float32", "bfloat16"] = "auto"  # auto: bfloat16 where it is faster and the losses agree
    compile: bool = False  # use torch.compile if it works
    checkpoint_activations: bool = False  # recompute each block in the backward pass: less memory, more time
    shard: Literal["none", "full"] = "none"  # full = shard the weights over the processes (FSDP)


@dataclass(frozen=True)
class Files:
    """Files that are written, and how often."""

    save_every: int | None = None  # steps between checkpoints; none = with each evaluation
    keep_checkpoints: int = 2  # checkpoints stored for resuming
    log_every: int = 50  # steps between rows of log.jsonl
    tensorboard: bool = False  # also write the log for TensorBoard, to RUN/events

    def __post_init__(self) -> None:
        check_fields(self, positive=("save_every", "keep_checkpoints", "log_every"))


@dataclass(frozen=True)
class Config:
    """Training settings. Training ends when the first of steps, epochs and minutes is reached."""

    steps: int | None = None  # batches
    epochs: int | None = None  # passes over the data; 10 if no limit is set
    minutes: float | None = None  # training time over all resumes, including evaluation
    optimizer: Optimizer = field(default_factory=Optimizer)  # optimizer
    schedule: Schedule = field(default_factory=Schedule)  # learning rate schedule
    evaluation: Evaluation = field(default_factory=Evaluation)  # validation
    hardware: Hardware = field(default_factory=Hardware)  # device and memory
    files: Files = field(default_factory=Files)  # files that are written, and how often
    probe_input: str = ""  # input whose attention maps are stored during training, for the slider of `regard look`

    def __post_init__(self) -> None:
        check_fields(self, positive=BUDGET_SETTINGS)
        if self.steps is None and self.epochs is None and self.minutes is None:
            object.__setattr__(self, "epochs", 10)  # frozen dataclass; this default depends on other fields
        if self.schedule.name == "cosine" and self.steps is None and self.epochs is None:
            raise ConfigError("schedule.name='cosine' needs the last step; set steps or epochs as well as minutes")


@dataclass(frozen=True)
class Pretrained:
    """Initial weights from another run or from word vectors; see training/pretrained.py."""

    run: str = ""  # folder of the source run
    params: str | tuple[str, ...] = "*"  # name patterns of the weights to copy, such as encoder.*
    freeze: bool | str | tuple[str, ...] = (
        False  # true: do not train the copied weights; or name patterns of weights not to train
    )
    vocabulary: bool = False  # build the task with the vocabulary of the source run, or of the run with the vectors
    word_vectors: str = ""  # word vectors: file of word2vec (text, binary), GloVe or fastText (text), or a run
    embedding: str = "*embedding.table.weight"  # name pattern of the embedding tables initialized with word vectors

    def __post_init__(self) -> None:
        if not self.run and not self.word_vectors:
            raise ConfigError(
                "set pretrained.run=… (folder of a run), pretrained.word_vectors=… (word vectors), or both"
            )

    @property
    def weight_patterns(self) -> tuple[str, ...]:
        """Name patterns of the weights to copy."""
        return (self.params,) if isinstance(self.params, str) else self.params

    @property
    def frozen_patterns(self) -> tuple[str, ...]:
        """Name patterns of the weights not to train; empty if `freeze` is a bool."""
        if isinstance(self.freeze, bool):
            return ()
        return (self.freeze,) if isinstance(self.freeze, str) else self.freeze
