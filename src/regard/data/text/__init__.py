"""Text data: tokenizers, sentence pairs, documents, tagged sentences, token streams. No module here imports torch at import time unless it batches."""
