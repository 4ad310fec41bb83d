"""Import and export of models: Hugging Face transformers, ONNX and CTranslate2, each verified by comparing results."""
