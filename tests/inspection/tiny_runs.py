"""Tiny inspection targets: translation models on the built-in data, and two small tasks."""

from __future__ import annotations

import documents
import pictures
import torch

from regard.core.registry import find
from regard.decoding.strategies import beam, greedy
from regard.decoding.strategy import DecodingStrategy
from regard.inspection.collect import InspectionTarget, RunInfo
from regard.inspection.parameter_tables import ParameterTables
from regard.tasks import translation

MODELS = ("transformer", "bahdanau", "luong")
# Untrained models never emit EOS; these settings keep their outputs short.
BEAM = DecodingStrategy("beam", beam.Config(beam_width=3, nbest=3, no_repeat_ngram_size=1))
GREEDY = DecodingStrategy("greedy", greedy.Config(no_repeat_ngram_size=1))
TABLES = ParameterTables(None, ())  # empty tables, so that t-SNE does not run in every test


def make_task():
    return translation.build(translation.Config(pairs=60, tokenizer="word", vocab_size=400, max_length=12))


def make_model(task, name):
    torch.manual_seed(3)
    module = find("regard.models", name)
    return module.build(module.TINY, task.spec).eval()


def make_subject(task, name="transformer"):
    run_info = RunInfo("translation", name, {"run": name})
    return InspectionTarget(task, make_model(task, name), BEAM, run_info, tables=TABLES)


def make_small(module, task, **settings):
    """Return a target for one of the small tasks, with an untrained model."""
    torch.manual_seed(1)
    run_info = RunInfo(module.__name__, "model", {"run": module.__name__})
    return InspectionTarget(task(), module.Model().eval(), None, run_info, tables=TABLES, **settings)


def make_documents():
    return make_small(documents, documents.Documents)


def make_pictures():
    return make_small(pictures, pictures.Pictures)
