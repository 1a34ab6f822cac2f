# `make run` and `make test` need Python 3.11 or newer, git and make; everything else they set up in .venv.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
# Most tests wait for processes and sockets: two more at a time than there are processors.
JOBS ?= $(shell $(PYTHON) -c 'import os; print(2 + (os.cpu_count() or 1))')

.PHONY: help run test soak lint format bench bench-peers mutation package screenshots lock clean browser systemd desktop bubblewrap

help:
	@echo "make run          set up and watch a remote agent work in a sample workspace"
	@echo "make test         set up, check style, types and import directions, and run every test"
	@echo "make soak         kill the daemon again and again, and count (MINUTES=5 SEED=1)"
	@echo "make lint         the checks without the tests"
	@echo "make format       put the code into the house style"
	@echo "make bench        measure against the raw limits of this machine, in under three minutes"
	@echo "make bench-peers  beside what a user might pick instead; installs it into benchmarks/.peers"
	@echo "make mutation     put faults into the code that decides, one at a time, and see whether the tests notice"
	@echo "make package      the wheel, a bundle that needs no Python, and a Debian package, into dist/"
	@echo "make screenshots  take the pictures of the page anew, into docs/pictures/"
	@echo "make lock         resolve the dependencies anew into requirements.lock"
	@echo "make clean        remove everything that make made"

run: $(READY)
	@$(BIN)/client-agent demo

test: lint browser systemd desktop
	$(BIN)/coverage erase
	$(BIN)/pytest --numprocesses=$(JOBS) --dist=worksteal --cov --cov-report=
	$(BIN)/coverage report --fail-under=88

MINUTES ?= 5
SEED ?= 1
soak: $(READY)
	@$(BIN)/python -m tests.soak --minutes $(MINUTES) --seed $(SEED)

# The pictures in README.md and docs/, taken by the page's own tests.
screenshots: $(READY) browser
	mkdir -p docs/pictures
	CLIENT_AGENT_PICTURES=docs/pictures $(BIN)/pytest tests/browser/test_looks.py -k pictures

# What some tests need beyond Python. Where it is missing and we may, Debian's package is installed.
# $(call have,PACKAGE,COMMAND that succeeds where it is there)
have = { $(2); } >/dev/null || { [ "$$(id -u)" = 0 ] && apt-get update -qq && apt-get install -y -qq $(1) >/dev/null; }

# The page is tested in a real browser.
browser:
	@$(call have,chromium,[ -n "$$CLIENT_AGENT_CHROMIUM" ] || command -v chromium || command -v chromium-browser || command -v google-chrome) || \
		{ echo "The page's tests need a browser: install chromium, or set CLIENT_AGENT_CHROMIUM to one." >&2; exit 1; }

# The service's tests let systemd judge the unit, and run it in a manager of their own.
systemd:
	@$(call have,systemd,[ "$$(uname)" != Linux ] || command -v systemd-analyze) || \
		{ echo "The service's tests need systemd-analyze: install systemd." >&2; exit 1; }

# Notifications are tested on a session bus of the tests' own; where there is no dbus-daemon, those tests are skipped.
desktop:
	@$(call have,dbus-daemon,command -v dbus-daemon) || true

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

# Commands are measured beside bubblewrap as well, where it can be had.
bubblewrap:
	@$(call have,bubblewrap,[ "$$(uname)" != Linux ] || command -v bwrap) || true

bench: $(READY) bubblewrap
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes --requirement requirements-bench.lock
	$(BIN)/python -m benchmarks

bench-peers: $(READY)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes --requirement requirements-bench.lock
	$(BIN)/python -m benchmarks.peers

mutation: $(READY)
	$(BIN)/python -m tests.mutation client_agent/policy

package: $(READY)
	$(BIN)/python packaging/build.py

lock: $(READY)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check uv
	$(BIN)/uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-emit-index-url --no-header \
		--group dev pyproject.toml --output-file requirements.lock
	$(BIN)/uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-emit-index-url --no-header \
		--group dev --group bench pyproject.toml --constraint requirements.lock --output-file requirements-bench.lock

clean:
	rm -rf $(VENV) .coverage* htmlcov dist build .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache
