# `make check` runs all checks of a change, in the environment of .venv if it exists.
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

fix: # automatic corrections
	$(PYTHON) -m ruff format .
	$(PYTHON) -m ruff check --fix .
