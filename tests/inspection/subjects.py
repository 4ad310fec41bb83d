"""Tiny translation models over the built-in data, for tests."""

from __future__ import annotations

from functools import partial

import torch

from regard.core.names import find
from regard.decoding import beam
from regard.inspection.collect import About, Subject
from regard.tasks import translation

MODELS = ("transformer", "bahdanau", "luong")


def make_task():
    return translation.build(translation.Config(pairs=60, level="word", vocabulary=400, longest=64))


def make_model(task, name):
    torch.manual_seed(3)
    module = find("regard.models", name)
    return module.build(module.TINY, task.sizes).eval()


def make_subject(task, name="transformer"):
    decode = partial(beam.decode, config=beam.Config(width=3, nbest=3))
    return Subject(task, make_model(task, name), decode, About("translation", name, {"run": name}))
