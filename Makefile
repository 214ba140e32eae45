# Commands for development. The first call creates a virtual environment; it needs only Python and pip.

# The first of these with a supported version is used; `make PYTHON=python3.13 test` selects another.
PYTHON ?= python3.11 python3.12 python3.13 python3
VENV ?= .venv
# Test processes, each with one thread.
WORKERS ?= 2
# Files and folders for `make test`.
TESTS ?= tests
# What is installed beside the package, and the versions of everything; `make EXTRAS=all` installs all extras.
EXTRAS ?= dev
ALL_EXTRAS := $(shell awk '/^\[/ { reads = /extras_require/ } reads && /^[a-z]+ =/ { printf "%s%s", comma, $$1; comma = "," }' setup.cfg)
CONSTRAINTS ?= constraints.txt
# More arguments for the command behind a target: make demo ARGS='--text "not bad at all"'
ARGS ?=

BIN := $(VENV)/bin
WHEEL := $(VENV)/wheel
# Folders are listed too, so that a deleted module counts as a change.
SOURCES := $(shell find graphattn builders models experiments -not -name '__pycache__' -not -name '*.pyc')

unexport PYTHONPATH PYTHONHOME PYTHONDONTWRITEBYTECODE

.DEFAULT_GOAL := help
.PHONY: help install demo test test-all test-oldest lint bench docs clean

help: ## show this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "make %-8s %s\n", $$1, $$2 }' Makefile

install: $(VENV)/.installed ## create the virtual environment with the package and its dependencies

demo: $(VENV)/.installed ## from a generated corpus to graphs, a classifier, a tagger and a picture
	$(BIN)/graphattn demo $(ARGS)

PYTEST := GRAPHATTN_WHEEL="$$(echo $(WHEEL)/*.whl)" PYTHONSAFEPATH=1 $(BIN)/pytest -o pythonpath= -n $(WORKERS) --dist loadfile --no-loadscope-reorder

test: $(VENV)/.installed ## run the fast tests against the built wheel, in a few minutes
	$(PYTEST) -m "not slow" $(TESTS) $(ARGS)

test-all: $(VENV)/.installed ## run all tests, the examples of docstrings, README.md and docs/ against the built wheel
	$(PYTEST) --doctest-modules --pyargs graphattn tests $(ARGS)

test-oldest: ## run the fast tests with the oldest versions of the dependencies that setup.cfg allows
	$(MAKE) test VENV=.venv-oldest CONSTRAINTS=constraints-oldest.txt EXTRAS=inspect,plot,pyg,tensorboard,test,translation PYTHON=python3.11

lint: $(VENV)/.installed ## check style, format and types
	@status=0; set -x; \
	$(BIN)/ruff check . || status=1; \
	$(BIN)/ruff format --check . || status=1; \
	$(BIN)/mypy || status=1; \
	{ set +x; } 2>/dev/null; exit $$status

bench: $(VENV)/.installed ## measure speed and memory against peers, and write the tables of docs/benchmarks.md
	$(BIN)/python -m pip install --quiet -c constraints.txt "$$(echo $(WHEEL)/*.whl)[bench]"
	$(BIN)/graphattn bench $(or $(ARGS),all --out docs/benchmarks)

docs: $(VENV)/.installed ## build the documentation site with its API reference in site/
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --quiet --strict $(ARGS)

clean: ## remove the virtual environment and everything built
	rm -rf $(VENV) .venv-oldest .venv-3.12 .venv-3.13 build dist site *.egg-info .mypy_cache .pytest_cache .ruff_cache

# The pip that comes with Python 3.11 needs a minute more to resolve the extras.
$(VENV)/.python:
	@for python in $(PYTHON); do \
	    if "$$python" -c 'import ensurepip, sys, venv; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; \
	    then "$$python" -m venv --clear $(VENV) && $(BIN)/python -m pip install --quiet --upgrade pip && touch $@; exit; fi; \
	done; \
	echo "GraphAttn needs Python 3.11 or newer with its venv module and found none under the names '$(PYTHON)':" \
	    "name one with make PYTHON=/path/to/python3" >&2; exit 1

# setuptools would pack what an earlier build left in build/.
$(VENV)/.wheel: $(VENV)/.python setup.cfg pyproject.toml README.md LICENSE $(SOURCES)
	rm -rf build $(WHEEL)
	$(BIN)/python -m pip wheel --quiet --no-deps --wheel-dir $(WHEEL) .
	@touch $@

# Modules are compiled when they are first imported: pip would compile all of them, for more than a minute. `pip check`
# finds conflicts, which pip would otherwise look for twice.
$(VENV)/.dependencies: setup.cfg $(CONSTRAINTS) | $(VENV)/.wheel
	@echo "Installing the dependencies into $(VENV): a few minutes the first time."
	$(BIN)/python -m pip install --quiet --no-compile --no-warn-conflicts -c $(CONSTRAINTS) "$$(echo $(WHEEL)/*.whl)[$(EXTRAS:all=$(ALL_EXTRAS))]"
	$(BIN)/python -m pip check
	@touch $@

$(VENV)/.installed: $(VENV)/.wheel $(VENV)/.dependencies
	$(BIN)/python -m pip install --quiet --no-deps --force-reinstall $(WHEEL)/*.whl
	@touch $@
