"""Trainable layers around the attention mechanisms."""
