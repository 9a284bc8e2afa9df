# `make demo` and `make test` need nothing but Python 3.11 or later and this checkout.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
INSTALLED := $(VENV)/.installed
KERNELS := src/adagq/codecs/kernels
WARM := $(KERNELS)/__pycache__/.warm
WORKERS ?= 2
PYTEST := $(BIN)/python -m pytest
# Modules with examples in their docstrings; learners are left out: importing torch costs more than they show.
PURE := $(filter-out src/adagq/learners/%,$(shell grep -rl '>>>' src/adagq --include='*.py'))

# One thread a process: the tests bring their own processes.
export OMP_NUM_THREADS ?= 1

.DEFAULT_GOAL := help
.PHONY: help install kernels demo check format docs test test-all bench netbench clean-kernels clean

help:  ## Show this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-14s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

install: $(INSTALLED)  ## Create .venv and install adagq with everything needed to work on it

$(INSTALLED): pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e ".[dev]"
	@touch $@

# The cache is filled by one process before the tests start several; which kernels it holds is in its folder's name.
kernels: $(WARM)  ## Compile the kernels into their cache, if any of them changed

$(WARM): $(INSTALLED) $(wildcard $(KERNELS)/*.py) benchmarks/warm_kernels.py
	$(BIN)/python benchmarks/warm_kernels.py
	@mkdir -p $(@D) && touch $@

demo: $(WARM)  ## Compare all methods on the embedded data set: a table and a report in runs/
	$(BIN)/adagq compare

check: $(INSTALLED)  ## Lint, format, types, layers
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

format: $(INSTALLED)  ## Bring the code into form
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

docs: $(INSTALLED)  ## Build the documentation into site/; a warning is an error
	NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build --strict  # --quiet would silence what --strict counts

test: check docs $(WARM)  ## Check, build the documentation, then run every test that takes seconds
	$(PYTEST) --doctest-modules $(PURE)
	$(PYTEST) -n $(WORKERS) -m "not slow"

test-all: check $(WARM)  ## Check, then run every test
	$(PYTEST) --doctest-modules $(PURE)
	$(PYTEST) -n $(WORKERS)

bench: $(WARM)  ## Measure codecs, simulator and server on this machine
	$(BIN)/adagq bench codecs
	$(BIN)/adagq bench simulator
	$(BIN)/adagq bench server

netbench: $(WARM)  ## Measure real slow links on this machine (network namespaces: root; hours; goes on after a cut)
	$(BIN)/python benchmarks/netbench/run.py

clean-kernels:  ## Delete compiled kernels
	rm -rf $(KERNELS)/__pycache__/kernels-* $(WARM)

clean: clean-kernels  ## Delete everything that make made, runs/ excepted
	find src tests benchmarks examples -name __pycache__ -prune -exec rm -rf {} +
	rm -rf $(VENV) build dist site src/*.egg-info .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache
