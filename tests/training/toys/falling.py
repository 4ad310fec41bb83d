"""A toy task like `summing` with a metric for which lower is better, under a neutral name."""

from __future__ import annotations

from pathlib import Path

from toys import summing
from toys.summing import DEFAULTS, SPEC, VERB, Config, Options

from regard.core.protocols import TargetMetric

__all__ = ["DEFAULTS", "SPEC", "VERB", "Config", "Options", "build", "load"]


class Falling(summing.Summing):
    target_metric = TargetMetric("score", higher_is_better=False)

    def evaluate(self, model, split, decoding):
        return {"score": super().evaluate(model, split, decoding)["loss"]}


def build(config: Config, folder: Path | None = None) -> Falling:
    return Falling(config, config.words)


def load(config: Config, folder: Path) -> Falling:
    return Falling(config, config.words)
