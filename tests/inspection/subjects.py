"""What tests look into: tiny translation models over the built-in data, and two small tasks of their own."""

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
# Settings under which untrained models, which never end by themselves, say little.
BEAM = DecodingStrategy("beam", beam.Config(beam_width=3, nbest=3, no_repeat_ngram_size=1))
GREEDY = DecodingStrategy("greedy", greedy.Config(no_repeat_ngram_size=1))
TABLES = ParameterTables(None, ())  # the tables of the model are given, so that t-SNE is not run in every test


def make_task():
    return translation.build(translation.Config(pairs=60, tokenizer="word", vocab_size=400, max_length=12))


def make_model(task, name):
    torch.manual_seed(3)
    module = find("regard.models", name)
    return module.build(module.TINY, task.spec).eval()


def make_subject(task, name="transformer"):
    about = RunInfo("translation", name, {"run": name})
    return InspectionTarget(task, make_model(task, name), BEAM, about, tables=TABLES)


def make_small(module, task, **settings):
    """A task of our own, with a model without training."""
    torch.manual_seed(1)
    about = RunInfo(module.__name__, "model", {"run": module.__name__})
    return InspectionTarget(task(), module.Model().eval(), None, about, tables=TABLES, **settings)


def make_documents():
    return make_small(documents, documents.Documents)


def make_pictures():
    return make_small(pictures, pictures.Pictures)
