"""Optimizers (PyTorch's Adam, AdamW, Adagrad, Muon and SGD, fused if the device supports it) and
learning rate schedules.

Schedules are pure functions of the step, so that they have no state to save.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from torch import nn
from torch.distributed.tensor import DTensor

from regard.core.errors import ConfigError
from regard.training.config import Optimizer, Schedule

LRFactor = Callable[[int], float]


def build(config: Optimizer, model: nn.Module) -> torch.optim.Optimizer:
    """Build the optimizer of all trainable parameters; gains and biases (fewer than two axes) have no weight decay."""
    check_sparse(config, model)
    if config.name == "muon":
        return MuonWithAdamW(config, model)
    trainable = [parameter for parameter in model.parameters() if parameter.requires_grad]
    groups = [
        {"params": [p for p in trainable if p.dim() >= 2], "weight_decay": config.weight_decay},
        {"params": [p for p in trainable if p.dim() < 2], "weight_decay": 0.0},
    ]
    groups = [group for group in groups if group["params"]]
    if config.name == "sgd":
        return torch.optim.SGD(groups, lr=config.lr)
    optimizer_class: Any = {"adam": torch.optim.Adam, "adamw": torch.optim.AdamW, "adagrad": torch.optim.Adagrad}[
        config.name
    ]
    betas = {} if config.name == "adagrad" else {"betas": config.betas}
    optimizer: torch.optim.Optimizer = optimizer_class(
        groups,
        lr=config.lr,
        eps=config.eps,
        fused=_can_fuse(trainable),
        **betas,
    )
    return optimizer


class MuonWithAdamW(torch.optim.Optimizer):
    """Muon for the matrices of hidden layers, AdamW for all other parameters (Jordan 2024; Liu et al. 2025).

    Muon replaces the momentum of a matrix by the nearest orthogonal matrix. Embedding tables and the output projection
    stay with AdamW: their rows are separate vectors. Muon's step is scaled to the root mean square of AdamW's step
    (Liu et al. 2025, equation 4), so that one learning rate and one weight decay serve both.
    """

    def __init__(self, config: Optimizer, model: nn.Module) -> None:
        trainable = {name: p for name, p in model.named_parameters() if p.requires_grad}
        hidden = hidden_matrices(model) & trainable.keys()
        if not hidden:
            raise ConfigError("training.optimizer: name='muon' needs matrices in hidden layers; set name='adamw'")
        rest = [p for name, p in trainable.items() if name not in hidden]
        super().__init__(list(trainable.values()), {"lr": config.lr})
        self.muon = torch.optim.Muon(
            [trainable[name] for name in trainable if name in hidden],
            lr=config.lr,
            weight_decay=config.weight_decay,
            adjust_lr_fn="match_rms_adamw",
        )
        self.adamw = torch.optim.AdamW(
            [
                {"params": [p for p in rest if p.dim() >= 2], "weight_decay": config.weight_decay},
                {"params": [p for p in rest if p.dim() < 2], "weight_decay": 0.0},
            ],
            lr=config.lr,
            betas=config.betas,
            eps=config.eps,
            fused=_can_fuse(rest),
        )
        # Both optimizers share this optimizer's groups and state, so that one schedule and one checkpoint serve both.
        self.param_groups = [*self.muon.param_groups, *self.adamw.param_groups]
        self.muon.state = self.adamw.state = self.state

    def step(self, closure: Callable[[], float] | None = None) -> float | None:  # type: ignore[override]
        """Update the hidden matrices by Muon and all other parameters by AdamW."""
        if closure is not None:
            raise ConfigError("training.optimizer: muon takes no closure")
        self.muon.step()
        self.adamw.step()
        return None


def hidden_matrices(model: nn.Module) -> set[str]:
    """Return the names of the weights of linear and recurrent layers, except for output projections and tied tables."""
    tables = {id(module.weight) for module in model.modules() if isinstance(module, nn.Embedding)}
    return {
        f"{path}.{name}"
        for path, module in model.named_modules()
        if isinstance(module, nn.Linear | nn.RNNBase) and "readout" not in path.split(".")
        for name, parameter in module.named_parameters(recurse=False)
        if parameter.dim() == 2 and id(parameter) not in tables
    }


def check_weight_decay(config: Optimizer) -> None:
    """Raise a ConfigError for Adam with weight decay.

    Adam normalizes the gradient, and with it a decay term in the gradient. A value of 0.01 that suits AdamW keeps a
    network at its initial weights there (Loshchilov and Hutter 2019, section 2).
    """
    if config.name == "adam" and config.weight_decay:
        raise ConfigError(
            f"training.optimizer: weight_decay={config.weight_decay} with name='adam' is far stronger than the value "
            "suggests; set name='adamw', which decouples the decay from the gradient"
        )


def check_sparse(config: Optimizer, model: nn.Module) -> None:
    """Raise a ConfigError for an optimizer other than SGD without weight decay if the gradients of a table are
    sparse."""
    tables = (name for name, module in model.named_modules() if isinstance(module, nn.Embedding) and module.sparse)
    name = next(tables, None)
    if name is None or (config.name == "sgd" and not config.weight_decay):
        return
    raise ConfigError(
        f"training.optimizer: name={config.name!r} with weight_decay={config.weight_decay} needs dense gradients, "
        f"those of {name} are sparse; set name='sgd' and weight_decay=0, or model.sparse=false"
    )


def _can_fuse(parameters: list[nn.Parameter]) -> bool:
    return all(
        p.device.type in ("cpu", "cuda") and p.is_floating_point() and not isinstance(p, DTensor) for p in parameters
    )


def set_lr(optimizer: torch.optim.Optimizer, lr: float) -> None:
    """Set the learning rate of every parameter group."""
    for group in optimizer.param_groups:
        group["lr"] = lr


def constant(step: int, *, warmup: int) -> float:
    """step (from 1) -> factor: linear warm-up to 1, then constant."""
    return min(1.0, step / warmup)


def noam(step: int, *, warmup: int) -> float:
    """step -> min(step^-0.5, step · warmup^-1.5): Vaswani et al. 2017, equation 3, with lr = d_model^-0.5."""
    return min(1 / math.sqrt(step), step / (warmup * math.sqrt(warmup)))


def inverse_sqrt(step: int, *, warmup: int) -> float:
    """step -> the same curve, scaled to a peak of 1 at the end of the warm-up."""
    return min(step / warmup, math.sqrt(warmup / step))


def cosine(step: int, *, warmup: int, total: int, min_lr_ratio: float) -> float:
    """step -> linear warm-up to 1, then cosine decay to `min_lr_ratio` at step `total`."""
    if step <= warmup:
        return step / warmup
    done = min(1.0, (step - warmup) / max(1, total - warmup))
    return min_lr_ratio + (1 - min_lr_ratio) * 0.5 * (1 + math.cos(math.pi * done))


def schedule(config: Schedule, total_steps: int | None) -> LRFactor:
    """Return the function step -> factor of lr; `total_steps` is the last step, needed by cosine only."""
    if config.name == "cosine":
        total = total_steps or config.warmup
        return partial(cosine, warmup=config.warmup, total=total, min_lr_ratio=config.min_lr_ratio)
    curves: dict[str, Callable[..., float]] = {"constant": constant, "noam": noam, "inverse_sqrt": inverse_sqrt}
    return partial(curves[config.name], warmup=config.warmup)
