"""Which words an image is described by, told without their order: a loss that teaches convolutions what words mean."""

from __future__ import annotations

from torch import Tensor, nn

from regard.core.data_specs import SpecialTokens


class BagOfWordsLoss(nn.Module):
    """The words of an image's captions as a bag, foretold from the mean of its cells.

    Through a decoder a fresh convolution hears little of what is in an image for long: it is quicker to learn which
    word follows which. Here it is asked at once, as word detectors are (Fang et al. 2015, section 3.1).
    """

    def __init__(self, in_features: int, vocab_size: int, *, special_tokens: SpecialTokens, weight: float) -> None:
        super().__init__()
        self.tell = nn.Linear(in_features, vocab_size)
        self.marks, self.weight = special_tokens, weight

    def loss(self, cells: Tensor, captions: Tensor) -> Tensor:
        """Cells (b s d), the captions of each image side by side (b·n t) -> Σ -log p(word), weighted."""
        logs = self.tell(cells.mean(dim=1)).float().log_softmax(dim=-1)  # (b v)
        words = captions.reshape(len(cells), -1)  # (b n·t)
        silent = (words == self.marks.pad) | (words == self.marks.bos) | (words == self.marks.eos)
        total: Tensor = -self.weight * logs.gather(1, words).masked_fill(silent, 0.0).sum()
        return total
