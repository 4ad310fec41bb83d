"""Architectures of Hugging Face transformers, one per file, named by their `model_type`.

A file has

    MODEL     the model of regard that it corresponds to
    TEMPLATE  special tokens around a text, for the tokenizer; "" if there is no vocabulary
    check(config, sizes)                  raise an error if a model of regard does not fit
    build_theirs(config, sizes, library)  build the transformers model for a model of regard
    settings_from_theirs(theirs)          settings of model and data for a transformers model
    weight_mappings(config, sizes)        pairs of weights
    tables(sizes)                         weights with a row per token, and their vocabulary
    finish(tensors, theirs)               weights that are computed from several weights of transformers
    their_class(library)                  the class with `from_pretrained`
    difference(ours, theirs, sizes, ids)  maximum absolute difference of logits on random inputs
"""
