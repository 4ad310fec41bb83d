"""Engines: the implementations that compute predictions (native PyTorch, CTranslate2, Ray)."""
