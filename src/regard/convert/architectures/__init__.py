"""One layout of Hugging Face transformers a file, under the name that its configurations call it by (`model_type`).

A file has

    MODEL     the model of ours that it fits
    TEMPLATE  where marks stand in a text, for the tokenizer of theirs; "": there is no vocabulary
    check(config, sizes)                  an error in one line where a model of ours does not fit
    outside(config, sizes, library)       the model of theirs, with weights of its own, for a model of ours
    inside(theirs)                        what a model of theirs is here: settings of model and data
    pairs(config, sizes)                  which weights are which
    tables(sizes)                         the weights of ours that have a row for each token, and whose tokens these are
    finish(tensors, theirs)               weights of ours that are made of several of theirs
    theirs_of(library)                    what reads a folder: it has `from_pretrained`
    difference(ours, theirs, sizes, ids)  the largest difference of logits on made inputs
"""
