"""The CTranslate2 engine: export, cache, search and text generation."""
