"""Tiny translation models over the built-in data, for tests."""

from __future__ import annotations

import torch

from regard.core.registry import find
from regard.decoding import beam
from regard.inspection.collect import About, Subject
from regard.inspection.tables import Tables
from regard.tasks import translation

MODELS = ("transformer", "bahdanau", "luong")


def make_task():
    return translation.build(translation.Config(pairs=60, level="word", vocabulary=400, longest=64))


def make_model(task, name):
    torch.manual_seed(3)
    module = find("regard.models", name)
    return module.build(module.TINY, task.sizes).eval()


def briefly(module, config):
    """A decoder whose outputs are at most eight tokens: untrained models never end by themselves."""

    def decode(model, state, *, marks, limits):
        return module.decode(model, state, marks=marks, limits=limits.clamp(max=8), config=config)

    return decode


def make_subject(task, name="transformer"):
    decode = briefly(beam, beam.Config(width=3, nbest=3))
    about = About("translation", name, {"run": name})
    # The tables of the model are given, so that t-SNE is not run in every test.
    return Subject(task, make_model(task, name), decode, about, tables=Tables(None, ()))
