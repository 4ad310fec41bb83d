"""The fast ways are less work than the plain ones: counted, so that no busy machine makes a difference. What that is
worth by the clock is measured by the benchmarks (bench/README.md).

The plain way of training and decoding is the benchmark's own: nn.Transformer as tutorials use it.
"""

import itertools

import pytest
import torch
from torch import nn
from torch.nn import functional
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.flop_counter import FlopCounterMode

from regard.attention.attend import Attend
from regard.attention.masks import Mask
from regard.attention.scores import scaled_dot
from regard.layers import linear, readout
from regard.layers.dropout import Dropout
from regard.training import checkpoint, tensor_files
from systems import corpus, paths, pytorch_baseline, regard_system, workload


class Calls(TorchDispatchMode):
    """Recorder of the calls of PyTorch's kernels: name and number of output elements."""

    def __init__(self):
        super().__init__()
        self.sizes = []

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        output = function(*args, **(kwargs or {}))
        first = output[0] if isinstance(output, tuple) else output
        self.sizes.append((function.overloadpacket.__name__, first.numel() if isinstance(first, torch.Tensor) else 0))
        return output


def calls(way):
    with Calls() as counted:
        way()
    return counted.sizes


@pytest.fixture(autouse=True)
def products_that_are_counted(monkeypatch):
    """Switch off oneDNN's products, which PyTorch's counter of operations does not see."""
    monkeypatch.setattr(linear, "MIN_ONEDNN_WORK", 10**12)


def operations(way):
    """Return the additions and multiplications in matrix products, forward and backward."""
    with FlopCounterMode(display=False) as counter:
        way()
    return counter.get_total_flops()


def test_dropout_draws_a_word_for_eight_numbers():
    x = torch.randn(512, 512, requires_grad=True)
    drawn = {}
    for name, layer in (("regard", Dropout(0.3)), ("PyTorch's", nn.Dropout(0.3))):
        drawn[name] = [size for kind, size in calls(lambda layer=layer: layer(x)) if kind in ("randint", "bernoulli_")]
    assert drawn == {"regard": [512 * 512 // 8], "PyTorch's": [512 * 512]}


def test_the_chunked_loss_is_no_more_work_and_never_has_all_logits(monkeypatch):
    monkeypatch.setattr(readout, "MAX_CHUNK_LOGITS", 2**20)
    monkeypatch.setattr(readout, "MIN_CHUNK_ROWS", 64)
    x, weight = torch.randn(1024, 64, requires_grad=True), torch.randn(4000, 64, requires_grad=True)
    labels = torch.randint(0, 4000, (1024,))

    def whole():
        functional.cross_entropy(x @ weight.mT, labels, reduction="sum", label_smoothing=0.1).backward()

    def chunked():
        readout.linear_cross_entropy(x, weight, None, labels, 0.1).backward()

    assert operations(chunked) <= 1.01 * operations(whole)
    assert max(size for _, size in calls(whole)) == 1024 * 4000
    assert max(size for _, size in calls(chunked)) <= 2**20


@pytest.mark.parametrize("wide", [False, True])
def test_short_attention_is_few_calls(wide, monkeypatch):
    """Over few keys it is the calls that cost: the kernel, what the mask is made of, and what is looked at for NaN."""
    monkeypatch.setattr("regard.attention.kernels.short_keys.HAS_AVX512", wide)
    q, k, v = (torch.randn(64, 4, 15, 32) for _ in range(3))
    attend, mask = Attend(scaled_dot.Score(32)), Mask.lengths(torch.full((64,), 14), 15)
    kernel_calls = calls(lambda: attend(q, k, v, mask))
    products = [kind for kind, _ in kernel_calls if kind in ("bmm", "_scaled_dot_product_flash_attention_for_cpu")]
    assert len(products) == (2 if wide else 1)
    views = {
        "view",
        "_unsafe_view",
        "transpose",
        "unsqueeze",
        "expand",
        "slice",
        "alias",
        "detach",
        "_local_scalar_dense",
    }
    assert len([kind for kind, _ in kernel_calls if kind not in views]) <= 16


def rows(count, seed):
    """Return sentences of token ids with the lengths of Multi30k."""
    return workload.random_rows(count, seed)


def batches():
    """Repeat one small batch."""
    return itertools.repeat((rows(24, 1), rows(24, 2)))


def test_a_training_step_of_tiny_is_less_work_than_the_plain_loop():
    net = pytorch_baseline.model("tiny")
    regard_operations, baseline = (
        operations(regard_system.trainer("tiny", batches(), "float32")),
        operations(pytorch_baseline.trainer(net, net, batches(), torch.float32)),
    )
    assert regard_operations < 0.8 * baseline  # nothing is computed for padding


@pytest.mark.filterwarnings("ignore:The PyTorch API of nested tensors")  # nn.Transformer's own
def test_greedy_decoding_of_tiny_is_less_work_than_the_plain_loop():
    sentences = [[*row, workload.END] for row in rows(16, 3)]
    regard_decoder = regard_system.decoder(regard_system.model("tiny").for_decoding())
    net = pytorch_baseline.model("tiny").eval()
    assert 2 * operations(lambda: regard_decoder(sentences)) < operations(
        lambda: pytorch_baseline.greedy(net, sentences)
    )  # it has no cache


def test_a_corpus_job_takes_lines_and_gives_lines(tmp_path):
    """The benchmark's job is the path of `regard translate`; of other weights than its own, to be quick."""
    checkpoint_file = paths.weights(tmp_path, paths.ENDING)
    tensor_files.write_tensors(checkpoint_file, checkpoint.model_weights(regard_system.untied("tiny")), {})
    lines = [" ".join(map(str, row)) for row in rows(5, 4)]
    outputs = corpus.regard_job(tmp_path, width=1)(lines)
    assert len(outputs) == 5 and all(0 < int(token) < workload.VOCABULARY for line in outputs for token in line.split())
