"""Architectures of Hugging Face transformers, one per file, named by their `model_type`.

A file has

    MODEL     the model of regard that it corresponds to
    ARCHITECTURES  the classes of transformers that can be imported
    USAGE     the ordinary code for an exported folder (usage_example.py)
    TEMPLATE  special tokens around a text, for the tokenizer; "" if there is no vocabulary
    check(config, sizes)                  raise an error if a model of regard does not fit
    build_huggingface(config, sizes, library)  build the transformers model for a model of regard
    settings_from_huggingface(huggingface_model)          settings of model and data for a transformers model
    weight_mappings(config, sizes, huggingface_config)  pairs of weights
    tables(sizes)                         weights with a row per token, and their vocabulary
    finish(tensors, huggingface_model)               weights that are computed from several weights of transformers
    huggingface_class(library)                  the class with `from_pretrained`
    difference(regard_model, huggingface_model, sizes, ids)  maximum absolute difference of logits on random inputs
"""
