"""Speed does not fall behind the plain way: processor time on one thread, best of several, with generous bounds."""

import time

import torch
from torch import nn
from torch.nn import functional

from regard.attention.attend import Attend
from regard.attention.masks import Mask
from regard.attention.scores import scaled_dot
from regard.core.protocols import Marks, Padded, Sizes
from regard.decoding import greedy
from regard.layers.dropout import Dropout
from regard.layers.loss import linear_cross_entropy
from regard.models import transformer

SIZES = Sizes(source=2000, target=2000, longest=64, joint=True)


def seconds(*ways, repeats=5):
    """Processor time of each way, the least of several turns, taken in turns."""
    best = [float("inf")] * len(ways)
    for way in ways:
        way()
    for _ in range(repeats):
        for number, way in enumerate(ways):
            begun = time.process_time()
            way()
            best[number] = min(best[number], time.process_time() - begun)
    return best


def test_dropout_is_cheaper_than_pytorchs():
    x = torch.randn(512, 512, requires_grad=True)
    ours, theirs = Dropout(0.3).train(), nn.Dropout(0.3).train()
    fast, plain = seconds(lambda: ours(x).sum().backward(), lambda: theirs(x).sum().backward())
    assert fast < 1.2 * plain


def test_the_chunked_loss_is_not_slower_than_the_whole_one():
    x, weight = torch.randn(1024, 64, requires_grad=True), torch.randn(4000, 64, requires_grad=True)
    labels = torch.randint(0, 4000, (1024,))

    def whole():
        functional.cross_entropy(x @ weight.mT, labels, reduction="sum", label_smoothing=0.1).backward()

    fast, plain = seconds(lambda: linear_cross_entropy(x, weight, None, labels, 0.1).backward(), whole)
    assert fast < 1.5 * plain


def test_short_attention_is_not_slower_than_the_fused_kernel():
    q, k, v = (torch.randn(64, 4, 15, 32, requires_grad=True) for _ in range(3))
    attend, mask = Attend(scaled_dot.Score(32)), Mask.lengths(torch.full((64,), 15).clamp_max(14), 15)
    allowed = mask.dense(15, 15)

    def kernel():
        functional.scaled_dot_product_attention(q, k, v, attn_mask=allowed).sum().backward()

    fast, plain = seconds(lambda: attend(q, k, v, mask).sum().backward(), kernel)
    assert fast < 1.5 * plain


def test_decoding_beats_a_loop_without_a_cache():
    torch.manual_seed(0)
    model = transformer.build(transformer.Config(layers=2, dim=64, hidden=128, heads=4), SIZES).eval()
    source = Padded(torch.randint(4, 2000, (16, 12)), torch.full((16,), 12))
    limits = torch.full((16,), 12)

    @torch.inference_mode()
    def ours():
        fast = model.prepared()
        config = greedy.Config(min_length=12)
        greedy.decode(fast, fast.start(source), marks=Marks(), limits=limits, config=config)

    @torch.inference_mode()
    def plain():
        tokens, state = torch.full((16, 1), Marks.start), model.start(source)
        for _ in range(12):
            logits, _ = model(tokens, state)
            tokens = torch.cat([tokens, logits[:, -1:].argmax(-1)], dim=1)

    fast, slow = seconds(ours, plain, repeats=3)
    assert fast < slow
