"""Captioned images: files, tables and the dataset."""
