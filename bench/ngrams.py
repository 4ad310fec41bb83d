"""The bag of n-grams beside the neural models: TF-IDF and logistic regression by scikit-learn, on the data of a recipe.

    python bench/ngrams.py recipes/imdb_hierarchical.toml recipes/nsmc.toml

It is no model of `regard train`: scikit-learn fits the whole corpus at once by L-BFGS. It has no steps, batches or
weights that our trainer could run, save or resume, and to wrap it as a module would only pretend that it had.
Figures go to docs/ngrams.json and docs/results.md. Documents, splits and labels are those of the task; n-grams are of
words, or of characters where the recipe's level is not "word".
"""

from __future__ import annotations

import sys
import time
from pathlib import Path

import results_page

from regard.core import config as configs
from regard.data.text import labelled_sources
from regard.tasks import classification

WORDS = {"analyzer": "word", "ngram_range": (1, 2), "token_pattern": r"\w+|[^\w\s]"}
CHARACTERS = {"analyzer": "char_wb", "ngram_range": (1, 4)}


def texts_and_labels(documents):
    """Documents -> their texts and the first label of each; empty ones too, they count as they do for other models."""
    pairs = [(document.text, document.labels[0]) for document in documents]
    return [text for text, _ in pairs], [label for _, label in pairs]


def fit(config: classification.Config, *, most: int = 500_000) -> dict[str, float]:
    """The [data] section of a recipe -> accuracy on every held-out split, the number of features, and seconds."""
    from sklearn.feature_extraction.text import TfidfVectorizer
    from sklearn.linear_model import LogisticRegression

    splits = labelled_sources.open_documents(config.data_source, config.layout)
    how = WORDS if config.tokenizer == "word" else CHARACTERS
    started_at = time.perf_counter()
    count = TfidfVectorizer(**how, lowercase=config.lowercase, min_df=2, sublinear_tf=True, max_features=most)
    train, labels = texts_and_labels(splits["train"])
    model = LogisticRegression(C=10.0, max_iter=300).fit(count.fit_transform(train), labels)
    scores = {"features": float(len(count.vocabulary_)), "seconds": time.perf_counter() - started_at}
    for split in ("valid", "test"):
        if split in splits:
            held_out, true = texts_and_labels(splits[split])
            scores[split] = float(model.score(count.transform(held_out), true))
    return scores


def main(paths: list[str]) -> dict[str, dict[str, float]]:
    """Recipes -> the scores of each, printed as they come."""
    scores_by_recipe = {}
    for path in paths:
        table = configs.read_toml(Path(path))
        scores = fit(configs.from_dict(classification.Config, table.get("data", {}), "data"))
        print(f"{path}: " + ", ".join(f"{name} {value:.4g}" for name, value in scores.items()), flush=True)
        scores_by_recipe[Path(path).stem] = scores
    return scores_by_recipe


if __name__ == "__main__":
    results_page.store(results_page.NGRAMS, results_page.stored(results_page.NGRAMS) | main(sys.argv[1:]))
