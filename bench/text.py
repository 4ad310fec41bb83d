"""Speed of models of text beside their peers, in one run on the same machine, shapes and data. What is compared:

gpt          tokens/s of training: regard's gpt, nanoGPT's model written plainly in PyTorch, HF GPT-2
generation   tokens/s, one text of 512 tokens drawn: regard (cache, fast copy) and HF `generate`
bert         tokens/s of training: regard's bert (gaps alone go through the readout) and HF BERT for masked language
hierarchical documents/s of training: regard's hierarchical and a plain loop over documents and sentences
word2vec     words/s of one pass over Brown and IMDB: regard's skipgram and gensim (in C, two threads)

python bench/text.py [gpt generation bert hierarchical word2vec] [--rounds 3] [--quick]

Systems take turns in every round; the table has the median and the range. It is kept in docs/text.json.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path

import numpy as np
import torch

from regard import decoding
from regard.core.gaps import Gaps
from regard.core.sizes import Documents, Marks, Masked, Tokens
from regard.layers.grouping import Grouped
from regard.models import bert, gpt, hierarchical, skipgram
from regard.tasks import embeddings
from regard.tasks._continue import go_on, no_source
from regard.training.hardware import keep_freed_memory
from systems.text_peers import PlainGPT, PlainHierarchical, Shape, hf_bert, hf_gpt

DATA = Path(__file__).parents[2] / "shared" / "data"
PLACE = Path(__file__).parents[1] / "docs" / "text.json"
Work = Callable[[], int]  # does some work -> how many units of it


def optimizer(model: torch.nn.Module, *, fused: bool) -> torch.optim.Optimizer:
    return torch.optim.AdamW(model.parameters(), lr=1e-3, fused=fused or None)


def training(model: torch.nn.Module, loss: Callable[[], torch.Tensor], units: int, *, fused: bool) -> Work:
    """One step of training; peers have the optimizer as their own scripts have it on a CPU."""
    chosen = optimizer(model.train(), fused=fused)

    def step() -> int:
        value = loss()
        chosen.zero_grad(set_to_none=True)
        value.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        chosen.step()
        return units

    return step


def gpt_training(quick: bool) -> dict[str, Work]:
    shape = Shape(2, 64, 2, 64, 69) if quick else Shape(4, 128, 4, 128, 69, dropout=0.1)
    rows = 4 if quick else 32
    text = torch.randint(4, shape.vocabulary, (rows, shape.context + 1))
    read, following, units = text[:, :-1].contiguous(), text[:, 1:].contiguous(), rows * shape.context
    config = gpt.Config(layers=shape.layers, dim=shape.dim, heads=shape.heads, dropout=shape.dropout)
    ours, plain, theirs = gpt.build(config, Tokens(shape.vocabulary, shape.context)), PlainGPT(shape), hf_gpt(shape)
    source = no_source(rows, torch.device("cpu"))

    def our_loss() -> torch.Tensor:
        features, _ = ours.features(read, ours.start(source))
        return ours.readout.loss(features.flatten(0, 1), following.flatten()) / units

    return {
        "regard": training(ours, our_loss, units, fused=True),
        "plain PyTorch (nanoGPT)": training(plain, lambda: plain.loss(read, following), units, fused=False),
        "HF GPT-2": training(theirs, lambda: theirs(input_ids=read, labels=read).loss, units, fused=False),
    }


def generation(quick: bool) -> dict[str, Work]:
    count = 32 if quick else 512
    shape = Shape(4, 128, 4, count + 8, 69)
    config = gpt.Config(layers=shape.layers, dim=shape.dim, heads=shape.heads)
    sizes = Tokens(shape.vocabulary, shape.context)
    ours, theirs = gpt.build(config, sizes).eval(), hf_gpt(shape).eval()
    search = decoding.build("sample", forbid=(Marks.end,))

    @torch.no_grad()
    def our_text() -> int:
        texts = go_on(ours, [(5,)], count=count, sizes=sizes, decoding=search, device=torch.device("cpu"))
        return len(texts[0][0].tokens)

    def their_text() -> int:
        out = theirs.generate(
            torch.tensor([[5]]), max_new_tokens=count, min_new_tokens=count, do_sample=True, use_cache=True
        )
        return out.shape[1] - 1

    return {"regard": our_text, "HF generate": their_text}


def bert_training(quick: bool) -> dict[str, Work]:
    shape = Shape(2, 64, 2, 64, 500) if quick else Shape(4, 128, 4, 128, 8000, dropout=0.1)
    rows = 4 if quick else 32
    tokens = torch.randint(4, shape.vocabulary - 1, (rows, shape.context))
    chosen = torch.rand(tokens.shape) < 0.15
    seen, lengths = tokens.masked_fill(chosen, shape.vocabulary - 1), torch.full((rows,), shape.context)
    gaps = Gaps(seen, tokens, lengths, chosen, chosen.long(), torch.zeros_like(tokens))
    config = bert.Config(
        layers=shape.layers, dim=shape.dim, heads=shape.heads, hidden=4 * shape.dim, dropout=shape.dropout, norm="post"
    )
    marks = Marks(mask=shape.vocabulary - 1)
    ours, theirs = bert.build(config, Masked(shape.vocabulary, shape.context, marks)), hf_bert(shape)
    labels, present = tokens.masked_fill(~chosen, -100), torch.ones_like(tokens)

    def our_loss() -> torch.Tensor:
        return ours.readout.loss(ours(gaps).features, tokens[chosen]) / int(chosen.sum())

    def their_loss() -> torch.Tensor:
        return theirs(input_ids=seen, attention_mask=present, labels=labels).loss

    return {
        "regard": training(ours, our_loss, tokens.numel(), fused=True),
        "HF BERT": training(theirs, their_loss, tokens.numel(), fused=False),
    }


def hierarchical_training(quick: bool) -> dict[str, Work]:
    count, vocabulary, random = (3 if quick else 16), 5000, np.random.default_rng(0)
    counts = torch.from_numpy(random.integers(4, 14, count))
    lengths = torch.from_numpy(random.integers(6, 34, int(counts.sum())))
    tokens = torch.randint(4, vocabulary, (len(lengths), int(lengths.max())))
    tokens = tokens * (torch.arange(tokens.shape[1]) < lengths[:, None])
    sentences = [row[:n] for row, n in zip(tokens, lengths.tolist(), strict=True)]
    edges = np.concatenate([[0], np.cumsum(counts.numpy())])
    documents = [sentences[a:b] for a, b in pairwise(edges)]
    labels = torch.randint(0, 2, (count,))
    sizes = Documents(vocabulary, 2, longest=600, sentence=40, sentences=20)
    ours = hierarchical.build(hierarchical.Config(dropout=0.0, word_dropout=0.0), sizes)
    plain = PlainHierarchical(vocabulary, 100, 50, 2)
    batch = Grouped(tokens, lengths, counts)
    return {
        "regard": training(ours, lambda: ours.readout.loss(ours(batch), labels) / count, count, fused=True),
        "plain loop": training(plain, lambda: plain.loss(documents, labels), count, fused=False),
    }


def word2vec(quick: bool) -> dict[str, Work]:
    from gensim.models import Word2Vec

    paths = () if quick else (str(DATA / "brown" / "brown.zip"), f"{DATA / 'imdb' / 'train.tsv.xz'}#4")
    task = embeddings.build(embeddings.Config(paths=paths))
    model = skipgram.build(skipgram.Config(dim=100), task.sizes)
    chosen = torch.optim.Adagrad(model.parameters(), lr=0.1, fused=True)
    words, names = task.stream("train").tokens, task.words()

    def our_pass() -> int:
        for examples in task.plan(0, 1):
            loss = task.loss(model, task.batch(examples))
            chosen.zero_grad(set_to_none=True)
            (loss.total / loss.count).backward()
            chosen.step()
        return len(words)

    rows = [[names[token] for token in words[i : i + 1000] if token > 3] for i in range(0, len(words), 1000)]
    peer = Word2Vec(vector_size=100, window=5, negative=5, sg=1, sample=1e-3, min_count=1, workers=2)
    peer.build_vocab(rows)  # ours has its words already too

    def their_pass() -> int:
        peer.train(rows, total_examples=len(rows), epochs=1)
        return len(words)

    return {"regard": our_pass, "gensim": their_pass}


BENCHES = {
    "gpt": gpt_training,
    "generation": generation,
    "bert": bert_training,
    "hierarchical": hierarchical_training,
    "word2vec": word2vec,
}


def timed(work: Work, least: float) -> float:
    """Units a second, over at least so many seconds."""
    begun, units, seconds = time.perf_counter(), 0, 0.0
    while seconds < least:
        units += work()
        seconds = time.perf_counter() - begun
    return units / seconds


def measure(name: str, *, rounds: int, quick: bool) -> dict[str, list[float]]:
    systems = BENCHES[name](quick)
    rates: dict[str, list[float]] = {system: [] for system in systems}
    if name != "word2vec":
        for work in systems.values():
            work()  # the first call of a kernel is slow
    for _ in range(rounds):
        for system, work in systems.items():
            rates[system].append(timed(work, 0.1 if quick else 5.0))
    return rates


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("benches", nargs="*", help=", ".join(BENCHES))
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--quick", action="store_true", help="tiny shapes, to see that it runs; nothing is kept")
    given = parser.parse_args()
    keep_freed_memory()
    kept = json.loads(PLACE.read_text()) if PLACE.exists() else {}
    for name in given.benches or BENCHES:
        rates = measure(name, rounds=given.rounds, quick=given.quick)
        ours = statistics.median(rates["regard"])
        for system, values in rates.items():
            middle, spread = statistics.median(values), f"{min(values):,.0f} … {max(values):,.0f}"
            print(
                f"{name:14}{system:26}{middle:12,.0f} a second ({spread})   regard is {ours / middle:.2f} times as fast"
            )
        kept[name] = {"threads": torch.get_num_threads(), "rates": rates}
    if not given.quick:
        PLACE.write_text(json.dumps(kept, indent=1) + "\n")


if __name__ == "__main__":
    main()
