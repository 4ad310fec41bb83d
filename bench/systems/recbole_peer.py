"""RecBole's SASRec, timed in an interpreter with RecBole: its data, loader, loss and optimizer step.

    PYTHON bench/systems/recbole_peer.py RATINGS.tsv BATCHES      user, item, time without a header -> choices a second

RecBole creates an example with a full history for every choice. Its training is called without `quick_start`, which
imports ray 2.6; that does not work with NumPy 2.
"""

from __future__ import annotations

import json
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

HEAD = "user_id:token\titem_id:token\ttimestamp:float\n"
SHAPE = {
    "n_layers": 2,
    "n_heads": 1,
    "hidden_size": 64,
    "inner_size": 64,
    "hidden_dropout_prob": 0.2,
    "attn_dropout_prob": 0.2,
    "hidden_act": "relu",
    "loss_type": "BPR",
    "MAX_ITEM_LIST_LENGTH": 100,
    "train_batch_size": 256,
}


def prepared(ratings: Path, folder: Path) -> tuple[Any, Any]:
    """Table of ratings -> RecBole's model and its loader of training batches."""
    from recbole.config import Config
    from recbole.data import create_dataset, data_preparation
    from recbole.model.sequential_recommender import SASRec

    (folder / "films").mkdir()
    (folder / "films" / "films.inter").write_text(HEAD + ratings.read_text(encoding="utf-8"), encoding="utf-8")
    settings = SHAPE | {
        "data_path": str(folder),
        "load_col": {"inter": ["user_id", "item_id", "timestamp"]},
        "eval_args": {"split": {"LS": "valid_and_test"}, "order": "TO", "mode": "full", "group_by": "user"},
        "train_neg_sample_args": {"distribution": "uniform", "sample_num": 1, "dynamic": False, "candidate_num": 0},
        "use_gpu": False,
        "state": "WARNING",
        "checkpoint_dir": str(folder),
    }
    config = Config(model="SASRec", dataset="films", config_dict=settings)
    training, _, _ = data_preparation(config, create_dataset(config))
    return SASRec(config, training.dataset).train(), training


def main(ratings: str, batches: str) -> None:
    """Print the choices a second as JSON."""
    import torch

    sys.argv = sys.argv[:1]  # RecBole reads the command line too
    with tempfile.TemporaryDirectory() as folder:
        model, loader = prepared(Path(ratings), Path(folder))
        optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
        count, seconds, started_at = 0, 0.0, time.perf_counter()
        for index, batch in enumerate(loader):
            if index == 1:  # the first batch is the warm-up
                count, started_at = 0, time.perf_counter()
            optimizer.zero_grad()
            model.calculate_loss(batch).backward()
            optimizer.step()
            count, seconds = count + len(batch), time.perf_counter() - started_at
            if index == int(batches):
                break
    print(json.dumps({"choices": count, "seconds": seconds, "per_second": count / seconds}))


if __name__ == "__main__":
    main(*sys.argv[1:])
