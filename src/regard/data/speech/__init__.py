"""Recordings of speech with transcripts: audio files, layouts, features, augmentation and batches."""
