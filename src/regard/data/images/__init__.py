"""Images: where they come from, how they are read, cached and changed for training."""
