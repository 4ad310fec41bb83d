"""Image datasets: sources, file formats, resizing, caching and augmentation."""
