"""The model card: everything on it was measured."""

from __future__ import annotations

from regard.training import sealed
from regard.training.run import load_parts, train


def test_it_says_what_was_measured(toy, tmp_path, silent):
    run = load_parts(train(toy(), tmp_path / "sums", console=silent))
    card = (tmp_path / "sums" / "README.md").read_text()
    facts = sealed.read_facts(tmp_path / "sums" / "model.safetensors")
    assert card.startswith("---\n") and "# sums" in card
    assert f"{sum(p.numel() for p in run.model.parameters()):,} parameters" in card
    assert f"(step {facts['step']})" in card and f"| accuracy | {facts['metrics']['accuracy']:.4g} |" in card
    assert "12 steps, 2 whole epochs" in card and "ended by: steps" in card
    assert 'regard.load("sums")' in card and '"words": 6' in card
