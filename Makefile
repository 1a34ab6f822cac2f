# `make run` and `make test` need Python 3.11 or newer, git and make; everything else they set up in .venv.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready

.PHONY: run test lint format bench lock clean help

help:
	@echo "make run     set up and watch a remote agent work in a sample workspace"
	@echo "make test    set up, check style, types and import directions, and run every test"
	@echo "make lint    the checks without the tests"
	@echo "make format  put the code into the house style"
	@echo "make bench   measure against the raw limits of this machine, in under three minutes"
	@echo "make lock    resolve the dependencies anew into requirements.lock"
	@echo "make clean   remove everything that make made"

run: $(READY)
	@$(BIN)/client-agent demo

test: lint
	$(BIN)/coverage erase
	$(BIN)/pytest --cov --cov-report=
	$(BIN)/coverage report --fail-under=88

lint: $(READY)
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports

format: $(READY)
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

$(READY): requirements.lock pyproject.toml
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Python 3.11 or newer is needed: make PYTHON=/path/to/python3.11")'
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes --requirement requirements.lock
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation --editable .
	@touch $@

bench: $(READY)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes --requirement requirements-bench.lock
	$(BIN)/python -m benchmarks

lock: $(READY)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check uv
	$(BIN)/uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-emit-index-url --no-header \
		--group dev pyproject.toml --output-file requirements.lock
	$(BIN)/uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-emit-index-url --no-header \
		--group dev --group bench pyproject.toml --constraint requirements.lock --output-file requirements-bench.lock

clean:
	rm -rf $(VENV) .coverage* htmlcov dist build .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache
