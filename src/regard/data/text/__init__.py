"""Text data: tokenizers, sentence pairs, documents, tagged sentences and token streams.

Only modules that build batches import torch.
"""
