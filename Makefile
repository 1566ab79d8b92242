# On a fresh machine with Python 3.11, pip, make and git: `make demo`, `make test`.
# Each target sets up .venv on first use and again when what it installs has changed.

PYTHON ?= $(shell python3.11 -c '' 2>/dev/null && echo python3.11 || echo python3)
BIN := .venv/bin
INSTALLED := .venv/installed

# Two tests at a time on two cores; more threads in each would only get in the way.
PYTEST := OMP_NUM_THREADS=1 $(BIN)/python -m pytest -q -n 2

# Threads that wait for each other sleep instead of spinning: several times faster where
# other programs use the cores too.
QUIETLY := OMP_WAIT_POLICY=PASSIVE

.PHONY: demo test test-all check bench bench-quick docs clean

# Train a small GPT-2 unplanned, planned and with PyTorch's own budget; see demo/.
demo: $(INSTALLED)
	$(QUIETLY) $(BIN)/python -m examples.demo

# All tests but those marked slow.
test: $(INSTALLED)
	$(PYTEST) -m "not slow"

# Every test.
test-all: $(INSTALLED)
	$(PYTEST)

# Lint, format, types and import contracts.
check: $(INSTALLED)
	$(BIN)/ruff check --quiet
	$(BIN)/ruff format --quiet --check
	$(BIN)/mypy
	$(BIN)/lint-imports --no-logo

# Measure every benchmark case and write benchmarks/RESULTS.md.
bench: $(INSTALLED)
	$(QUIETLY) $(BIN)/python -m benchmarks

# A smoke run of the benchmarks on small cases; writes nothing into the repository.
bench-quick: $(INSTALLED)
	$(QUIETLY) $(BIN)/python -m benchmarks --quick

# Regenerate docs/cli.md from the command line and the README's tables from the results.
docs: $(INSTALLED)
	$(BIN)/python docs/generate.py
	$(BIN)/python docs/readme.py

# Remove what the other targets made.
clean:
	rm -rf .venv build demo .mypy_cache .pytest_cache .ruff_cache .hypothesis \
	  .import_linter_cache src/encamp.egg-info
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

$(INSTALLED): pyproject.toml constraints.txt
	@echo "Installing into .venv (a minute or so)"
	@$(PYTHON) -m venv .venv
	@$(BIN)/pip install -qq --disable-pip-version-check -c constraints.txt \
	  -e '.[torch,plot,service,postgres,dev]'
	@touch $@
