"""Texts to texts: `regard translate` with engine auto, and CTranslate2 called directly, both with tokenization.

The run is an ordinary run folder with the tokenizer of the sentences and the model of length_matched_model.py. regard:
the command from reading to printing lines, with a request in the equivalence cache. The entry is written here without a
comparison, because random weights cause near ties that trained weights do not. CTranslate2: all lines are tokenized,
submitted and decoded together, with the batch size that is fastest on a sample. The patient CTranslate2 has the
patience of regard's search; with its default it loses the ends of sentences.
"""

from __future__ import annotations

import io
import json
import os
import time
from collections.abc import Callable
from contextlib import redirect_stdout
from pathlib import Path
from typing import Any

from systems import corpus, ct2, paths, workload

LONGEST = 128  # tokens of an output, at most
LINES = int(os.environ.get("BENCH_LINES", "10000"))  # fewer for a smoke test
BATCH = 64
Job = Callable[[list[str]], list[str]]


def prepare(folder: Path, net: Any, texts: list[str], tokenizer: Any) -> None:
    """Write the run folder, its export in a separate cache, and the lines."""
    from regard.core.files import write_text
    from regard.engines.ctranslate2 import cache, export
    from regard.training import checkpoint, tensor_files
    from regard.training import recipe as recipes
    from regard.training.run_folder import RunFolder, file_checksums, new_identity, write_config
    from systems import regard_system

    shape = workload.SHAPES["tiny"]
    sizes = {"layers": shape.layers, "dim": shape.dim, "ffn_dim": shape.hidden, "heads": shape.heads}
    model = [f"model.{name}={value}" for name, value in sizes.items()]
    data = ["data.joint=true", f"data.max_length={regard_system.SIZES.max_length}", "decoding=greedy"]
    recipe = recipes.read("translation", settings=[*model, "model.tie_embeddings=false", "model.bias=true", *data])
    run = RunFolder(paths.run(folder))
    run.path.mkdir(parents=True)
    tokenizer.save(run.path / "tokenizer.json")
    identity = new_identity(recipe, file_checksums(run), {})
    write_config(run, recipe, identity)
    facts: dict[str, Any] = {"run": identity.run_id, "step": 0, "metrics": {}}
    tensor_files.write_tensors(run.model, checkpoint.model_weights(net), facts)
    export_folder, key = cache.cache_path(run.path)
    export.export(net, regard_system.SIZES, export_folder, key=key)
    write_text(folder / "texts.json", json.dumps(texts))


def measure(kind: str, system: str, *, width: int, seconds: float, folder: Path) -> dict[str, Any]:
    """Return the rate of a corpus, of batches or of single texts."""
    texts = json.loads((folder / "texts.json").read_text(encoding="utf-8"))
    if system.startswith("regard"):
        job, answer = _regard(paths.run(folder), width=width, few=kind == "single")
    else:
        job, answer = _direct(
            paths.run(folder), system, width=width, sample=texts[-min(LINES, corpus.TRIED[width]) :], kind=kind
        )
    if kind == "corpus":
        job(texts[:200])  # warm
        started_at = time.perf_counter()
        outputs = job(texts[:LINES])
        spent = time.perf_counter() - started_at
        return {"rate": len(outputs) / spent, "length": sum(len(line.split()) for line in outputs) / len(outputs)}
    size = BATCH if kind == "batch" else 1
    groups = [texts[low : low + size] for low in range(0, min(len(texts), 20 * size), size)]
    turn = iter(range(10**9))
    step = lambda: len(answer(groups[next(turn) % len(groups)]))  # noqa: E731  # an argument
    return {"rate": workload.rate(step, seconds=seconds, warm=lambda: workload.rate(step, seconds=1.5))}


def _regard(run: Path, *, width: int, few: bool) -> tuple[Job, Job]:
    """Return the torch-free job of the command, and its function for a list of texts. Scores are not computed, as in
    CTranslate2 called directly."""
    from regard.cli import predict_loop, predict_torch_free
    from regard.cli.inputs import InputLine, InputStream
    from regard.cli.output import RowFormatter
    from regard.cli.predict_command import PredictOptions, Verb
    from regard.engines import torch_free
    from regard.engines.ctranslate2 import cache

    export_folder, _ = cache.cache_path(run)
    plain = {"min_length": 0, "no_repeat_ngram_size": 0, "suppress_tokens": []}
    beam = {"name": "beam", "beam_width": width, "nbest": 1, "length_penalty": 1.0}
    decoding = {**(beam if width > 1 else {"name": "greedy"}), **plain}
    words = [f"decoding.beam_width={width}" if width > 1 else "decoding=greedy"]
    cache.EquivalenceCache(export_folder).put(f"bench {width}", {"why": "", "options": {"n": 1}, "decoding": decoding})
    cache.EquivalenceCache(export_folder).put_command(cache.command_key(run / "config.json", words), f"bench {width}")
    verb, how = Verb("translate"), PredictOptions()
    predictor = predict_torch_free.find_torch_free(run, words, verb=verb, predict_options=how, few_inputs=few)
    if not isinstance(predictor, torch_free.TorchFreePredictor):
        raise SystemExit("regard: there is no torch-free predictor")

    def job(lines: list[str]) -> list[str]:
        printed, coming = io.StringIO(), InputStream("", [InputLine(n, text) for n, text in enumerate(lines, start=1)])
        with redirect_stdout(printed):
            predict_torch_free.print_predictions(
                predictor,
                coming,
                predict_loop.split_chunks(coming.lines, 1, times=predict_loop.EXTERNAL_ENGINE_FACTOR),
                RowFormatter(verb, how, {}),
            )
        return printed.getvalue().splitlines()

    return job, lambda texts: [answers[0].text for answers in predictor.submit(texts, return_scores=False)()]


def _direct(run: Path, system: str, *, width: int, sample: list[str], kind: str) -> tuple[Job, Job]:
    """Return the jobs of CTranslate2 called directly."""
    import tokenizers

    from regard.engines.ctranslate2 import cache, search

    tokenizer = tokenizers.Tokenizer.from_file(str(run / "tokenizer.json"))
    engine = ct2.translator(cache.cache_path(run)[0], ct2.Setting.read(system.removeprefix("patient ")))
    more = {"length_penalty": 1.0} if width > 1 else {}
    more |= {"patience": search.PATIENCE} if system.startswith("patient") else {}

    def job(lines: list[str], batch: tuple[int, str]) -> list[str]:
        rows = [[*map(str, encoding.ids), str(workload.END)] for encoding in tokenizer.encode_batch_fast(lines)]
        size, unit = batch
        results = engine.translate_batch(
            rows, beam_size=width, max_decoding_length=LONGEST, max_batch_size=size, batch_type=unit, **more
        )
        texts = tokenizer.decode_batch([[int(token) for token in result.hypotheses[0]] for result in results])
        printed = io.StringIO()
        print("\n".join(texts), file=printed)
        return texts

    if kind == "single":
        return lambda lines: job(lines, corpus.BATCHES[1]), lambda lines: job(lines, corpus.BATCHES[1])
    sample = sample if kind == "corpus" else sample[:BATCH]
    job(sample[:BATCH], corpus.BATCHES[1])  # warm
    rates = {}
    for batch in corpus.BATCHES:
        started_at = time.perf_counter()
        job(sample, batch)
        rates[batch] = time.perf_counter() - started_at
    best = min(rates, key=lambda batch: rates[batch])
    return lambda lines: job(lines, best), lambda lines: job(lines, best)
