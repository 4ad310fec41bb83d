"""The CTranslate2 engine.

`export` converts a model, `cache` stores exports, `search` decodes source/target models (without torch), `generation`
continues prompts with a language model, and `models` puts them together as the engine of a run.
"""
