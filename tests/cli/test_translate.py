"""How the input is cut into pieces: all lines in their order, alike for all processes, and read as they are needed."""

import pytest
import torch
from torch import nn

from regard.cli import translate


def sizes(count, processes):
    lines = [str(number) for number in range(count)]
    pieces = list(translate._pieces(lines, processes))
    assert [line for piece in pieces for line in piece] == lines
    return [len(piece) for piece in pieces]


@pytest.mark.parametrize("processes", [1, 2, 3, 8])
@pytest.mark.parametrize("count", [0, 1, 255, 256, 511, 513, 1024, 5000, 60_001])
def test_no_line_is_lost_and_shares_are_alike(count, processes):
    found = sizes(count, processes)
    assert all(0 < size <= translate.MOST for size in found)
    last = [size for size in found if size < translate.LINES] if count > translate.LINES * processes else found
    assert not last or max(last) - min(last) < processes


def test_pieces_grow():
    assert sizes(16_384, 1) == [512, 1024, *[2048] * 7, 512]
    assert sizes(10_000, 2) == [512, 512, 1024, 1024, 2048, 2048, 1416, 1416]


def test_few_lines_are_not_shared():
    assert sizes(255, 8) == [255]
    assert sizes(256, 8) == [128, 128]
    assert sizes(1000, 2) == [500, 500]


def test_lines_are_read_as_they_are_needed():
    read = []
    pieces = translate._pieces((read.append(number) or str(number) for number in range(10**9)), 2)
    next(pieces), next(pieces)
    assert len(read) == 2 * translate.LINES


def test_there_is_a_share_for_every_core(monkeypatch):
    monkeypatch.setattr(translate, "available", lambda: 4)
    assert len(next(translate._pieces(["x"] * 2000))) == 500


class Doubling:
    """A run that says every line twice."""

    model = nn.Linear(2, 2)

    def candidates(self, texts, *, nbest):
        return [[(f"{text} {text}", 0.0)] for text in texts]


@pytest.mark.parametrize(("count", "chosen"), [(1, [1]), (translate.FEW, [1]), (translate.FEW + 1, [])])
def test_threads_are_chosen_for_a_few_sentences_only(monkeypatch, count, chosen):
    used = []
    monkeypatch.setattr(torch, "set_num_threads", used.append)
    lines = [str(number) for number in range(count)]
    pieces = list(translate._translated(Doubling(), iter([lines]), nbest=1, processes=1))
    assert [found[0][0] for _, part in pieces for found in part] == [f"{line} {line}" for line in lines]
    assert used == chosen
