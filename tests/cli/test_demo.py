"""The demonstration shows a true attention map."""

from __future__ import annotations

import torch

from regard.cli import demo


def test_rows_are_causal_distributions():
    weights = demo.look_back("a b a c".split())
    torch.testing.assert_close(weights.sum(-1), torch.ones(4))
    assert torch.equal(weights, weights.tril())


def test_a_repeated_word_finds_its_earlier_place():
    weights = demo.look_back("a b a".split())
    torch.testing.assert_close(weights[2, 0], weights[2, 2])
    assert weights[2, 0] > weights[2, 1]


def test_it_prints_every_word(capsys):
    demo.run()
    shown = capsys.readouterr().out
    assert all(word in shown for word in demo.SENTENCE.split())
    assert "Softmax[q·k/√d + M]" in shown and "100" in shown
