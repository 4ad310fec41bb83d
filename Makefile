# `make check` runs everything a change must pass, in the environment of .venv if there is one.
PYTHON := $(if $(wildcard .venv/bin/python),.venv/bin/python,python3)

.PHONY: check format lint types test fix

check: format lint types test

format:
	$(PYTHON) -m ruff format --check .

lint:
	$(PYTHON) -m ruff check .

types:
	$(PYTHON) -m mypy --strict

test:
	$(PYTHON) -m pytest -n 2 --dist worksteal

fix: # what can be mended by machine
	$(PYTHON) -m ruff format .
	$(PYTHON) -m ruff check --fix .
