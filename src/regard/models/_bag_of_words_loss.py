"""Auxiliary loss for captioning: predict the words of an image without their order, which trains the CNN."""

from __future__ import annotations

from torch import Tensor, nn

from regard.core.data_specs import SpecialTokens


class BagOfWordsLoss(nn.Module):
    """Cross entropy of the words of an image's captions, predicted from the mean of its grid cells.

    The gradient through the decoder trains an untrained CNN slowly, because the language model is learned first. This
    loss trains the CNN directly, like word detectors (Fang et al. 2015, section 3.1).
    """

    def __init__(self, in_features: int, vocab_size: int, *, special_tokens: SpecialTokens, weight: float) -> None:
        super().__init__()
        self.tell = nn.Linear(in_features, vocab_size)
        self.special_tokens, self.weight = special_tokens, weight

    def loss(self, cells: Tensor, captions: Tensor) -> Tensor:
        """Cells (b s d), the captions of each image in consecutive rows (b·n t) -> Σ -log p(word), weighted."""
        log_probs = self.tell(cells.mean(dim=1)).float().log_softmax(dim=-1)  # (b v)
        words = captions.reshape(len(cells), -1)  # (b n·t)
        special = self.special_tokens
        is_special = (words == special.pad) | (words == special.bos) | (words == special.eos)
        total: Tensor = -self.weight * log_probs.gather(1, words).masked_fill(is_special, 0.0).sum()
        return total
