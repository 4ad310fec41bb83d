"""Speed of text models compared with their peers, in one run with the same machine, shapes and data:

gpt          tokens/s of training by characters: regard's gpt, nanoGPT's model in plain PyTorch, HF GPT-2
gpt_words    the same with a vocabulary of 8,000 subwords
generation   tokens/s, one sampled text of 512 tokens: regard (cache, optimized copy) and HF `generate`
exported     the same by `--engine ctranslate2`, and HF `generate`
bert         tokens/s of training: regard's bert (readout of masked positions only) and HF BERT
hierarchical documents/s of training: regard's hierarchical and a plain loop over documents and sentences
word2vec     words/s of one pass over Brown and IMDB: regard's skipgram and gensim (in C, two threads)

Run by bench/all.py: regard with the settings of `regard train` (precision auto, fused optimizer, freed memory is kept),
peers as in their own scripts, also in bfloat16 and compiled.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import ctranslate2
import torch
from comparisons import Bench, Systems, Work, named, regard_training, training, variants

from regard.core.data_specs import DocumentSpec, LanguageSpec, MaskedLMSpec, SpecialTokens
from regard.core.protocols.masked_lm import MaskedBatch
from regard.decoding import strategy
from regard.engines.ctranslate2 import generation as generation_engine
from regard.engines.ctranslate2.export import export
from regard.models import bert, gpt, hierarchical, skipgram
from regard.tasks import embeddings
from regard.tasks.language.generate import empty_source, generate
from systems.text_peers import PlainGPT, PlainHierarchical, Shape, hf_bert, hf_gpt, sample

DATA = Path(__file__).parents[2] / "shared" / "data"


def gpt_training(quick: bool, vocabulary: int = 69) -> Systems:
    shape = Shape(2, 64, 2, 64, vocabulary) if quick else Shape(4, 128, 4, 128, vocabulary, dropout=0.1)
    rows = 4 if quick else 32
    text = torch.randint(4, shape.vocabulary, (rows, shape.context + 1))
    read, following, units = text[:, :-1].contiguous(), text[:, 1:].contiguous(), rows * shape.context

    def regard_work() -> Work:
        config = gpt.Config(layers=shape.layers, dim=shape.dim, heads=shape.heads, dropout=shape.dropout)
        model = gpt.build(config, LanguageSpec(shape.vocabulary, shape.context))
        source = empty_source(rows, torch.device("cpu"))

        def loss() -> torch.Tensor:
            features, _ = model.features(read, model.start(source))
            return model.readout.loss(features.flatten(0, 1), following.flatten()) / units

        return regard_training(model, loss, units)

    def plain(dtype: torch.dtype, compiled: bool) -> Work:
        model = PlainGPT(shape)
        return training(model, lambda: model.loss(read, following), units, dtype=dtype, compiled=compiled)

    def peer(dtype: torch.dtype, compiled: bool) -> Work:
        model = hf_gpt(shape)
        loss = lambda: model(input_ids=read, labels=read).loss  # noqa: E731  # an argument
        return training(model, loss, units, dtype=dtype, compiled=compiled)

    return {"regard": regard_work, **variants("nanoGPT", plain), **variants("HF GPT-2", peer)}


def generation(quick: bool) -> Systems:
    return _generation(
        quick, lambda model, sizes: (model, strategy.build("sample", suppress_tokens=(SpecialTokens.eos,)))
    )


def exported_generation(quick: bool) -> Systems:
    folder = Path(tempfile.mkdtemp()) / "exported"

    def exported(model: gpt.GPT, sizes: LanguageSpec) -> tuple[Any, strategy.DecodingStrategy]:
        export(model, sizes, folder)
        search = strategy.build("sample", suppress_tokens=(SpecialTokens.eos,))
        factory = generation_engine.GeneratorFactory(ctranslate2, folder, "float32")
        return generation_engine.CT2LanguageModel(model), generation_engine.ct2_generation(search, factory)

    return _generation(quick, exported)


def _generation(
    quick: bool, ready: Callable[[gpt.GPT, LanguageSpec], tuple[Any, strategy.DecodingStrategy]]
) -> Systems:
    """`ready`: a model and its spec -> the model that generates, and the decoding strategy."""
    count = 32 if quick else 512
    shape = Shape(4, 128, 4, count + 8, 69)

    def regard_work() -> Work:
        sizes, device = LanguageSpec(shape.vocabulary, shape.context), torch.device("cpu")
        config = gpt.Config(layers=shape.layers, dim=shape.dim, heads=shape.heads)
        model, search = ready(gpt.build(config, sizes).eval(), sizes)

        @torch.no_grad()
        def text() -> int:
            return len(generate(model, [(5,)], count=count, sizes=sizes, decoding=search, device=device)[0][0].tokens)

        return text

    def peer_work() -> Work:
        model, ends = hf_gpt(shape).eval(), {"max_new_tokens": count, "min_new_tokens": count}
        begin = torch.tensor([[5]])
        return lambda: model.generate(begin, **ends, do_sample=True, use_cache=True).shape[1] - 1

    return {"regard": regard_work, "HF generate": peer_work}


def bert_training(quick: bool) -> Systems:
    shape = Shape(2, 64, 2, 64, 500) if quick else Shape(4, 128, 4, 128, 8000, dropout=0.1)
    rows, mask = (4 if quick else 32), shape.vocabulary - 1
    tokens = torch.randint(4, mask, (rows, shape.context))
    chosen = torch.rand(tokens.shape) < 0.15
    input_tokens, lengths = tokens.masked_fill(chosen, mask), torch.full((rows,), shape.context)

    def regard_work() -> Work:
        size = {"layers": shape.layers, "dim": shape.dim, "heads": shape.heads, "ffn_dim": 4 * shape.dim}
        config = bert.Config(**size, dropout=shape.dropout, norm="post")
        model = bert.build(config, MaskedLMSpec(shape.vocabulary, shape.context, SpecialTokens(mask=mask)))
        gaps = MaskedBatch(input_tokens, tokens, lengths, chosen, chosen.long(), torch.zeros_like(tokens))
        count = int(chosen.sum())
        return regard_training(
            model, lambda: model.readout.loss(model(gaps).features, tokens[chosen]) / count, tokens.numel()
        )

    def peer(dtype: torch.dtype, compiled: bool) -> Work:
        model, labels, present = hf_bert(shape), tokens.masked_fill(~chosen, -100), torch.ones_like(tokens)
        loss = lambda: model(input_ids=input_tokens, attention_mask=present, labels=labels).loss  # noqa: E731
        return training(model, loss, tokens.numel(), dtype=dtype, compiled=compiled)

    return {"regard": regard_work, **variants("HF BERT", peer)}


def hierarchical_training(quick: bool) -> Systems:
    count, sizes = (
        (3 if quick else 32),
        DocumentSpec(30_000, 2, max_length=3000, max_sentence_length=60, max_sentences=150),
    )
    documents, labels = sample(count, sizes), torch.zeros(count, dtype=torch.long)
    model = hierarchical.build(hierarchical.Config(dropout=0.0, word_dropout=0.0), sizes)
    loop = PlainHierarchical(model)  # the same weights
    torch.testing.assert_close(model(documents), loop(documents), rtol=1e-3, atol=1e-4)

    def loss(chosen: torch.nn.Module) -> torch.Tensor:
        return torch.nn.functional.cross_entropy(model.readout(chosen(documents)), labels)

    return {
        "regard": lambda: regard_training(model, lambda: loss(model), count),
        "plain loop": lambda: training(loop, lambda: loss(loop), count, dtype=torch.float32),
    }


def word2vec(quick: bool) -> Systems:
    paths = () if quick else (DATA / "brown" / "brown.zip", DATA / "imdb" / "train.tsv.xz#4")
    task = embeddings.build(embeddings.Config(paths=paths))
    words, names = task.stream("train").tokens, task.token_texts()

    def regard_work() -> Work:
        model = skipgram.build(skipgram.Config(dim=100), task.spec)
        chosen = torch.optim.Adagrad(model.parameters(), lr=0.1, fused=True)
        plan = task.epoch_batches(0, 1)  # negatives and subsampling are prepared, like gensim's vocabulary
        task.collate(plan[0])

        def text() -> int:
            for examples in plan:
                loss = task.loss(model, task.collate(examples))
                chosen.zero_grad(set_to_none=True)
                (loss.total / loss.count).backward()
                chosen.step()
            return len(words)

        return text

    def peer_work() -> Work:
        from gensim.models import Word2Vec

        rows = [[names[token] for token in words[i : i + 1000] if token > 3] for i in range(0, len(words), 1000)]
        peer = Word2Vec(vector_size=100, window=5, negative=5, sg=1, sample=1e-3, min_count=1, workers=2)
        peer.build_vocab(rows)

        def text() -> int:
            peer.train(rows, total_examples=len(rows), epochs=1)
            return len(words)

        return text

    return {"regard": regard_work, "gensim": peer_work}


BENCHES = {
    "gpt": Bench(gpt_training, named("nanoGPT", "HF GPT-2"), "tokens/s"),
    "gpt_words": Bench(partial(gpt_training, vocabulary=8000), named("nanoGPT", "HF GPT-2"), "tokens/s"),
    "generation": Bench(generation, ("regard", "HF generate"), "tokens/s"),
    "exported": Bench(exported_generation, ("regard", "HF generate"), "tokens/s"),
    "bert": Bench(bert_training, named("HF BERT"), "tokens/s"),
    "hierarchical": Bench(hierarchical_training, ("regard", "plain loop"), "documents/s"),
    "word2vec": Bench(word2vec, ("regard", "gensim"), "words/s", seconds=0.1, warm=False),
}
