PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check -q

.PHONY: demo test verify bench evidence chromium clean

demo: $(VENV)/.demo
	$(BIN)/enlist demo

test: $(VENV)/.test chromium
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/python -m pytest -n auto -m "not verify"

verify: $(VENV)/.test
	$(BIN)/python -m benchmarks.verify --output docs/verify.md
	$(BIN)/python -m benchmarks.notebooks --check

bench: $(VENV)/.test
	$(BIN)/python -m benchmarks.selectors
	$(BIN)/python -m benchmarks.training

evidence: $(VENV)/.test
	$(BIN)/python -m benchmarks.evidence --output docs

chromium:
	.ci/chromium

$(BIN)/python:
	$(PYTHON) -m venv $(VENV)

$(VENV)/.demo: pyproject.toml constraints.txt | $(BIN)/python
	$(PIP) install -c constraints.txt -e ".[sim]"
	touch $@

$(VENV)/.test: pyproject.toml constraints.txt | $(BIN)/python
	$(PIP) install -c constraints.txt -e ".[test]"
	touch $@ $(VENV)/.demo

clean:
	rm -rf $(VENV) build dist runs .pytest_cache .mypy_cache .ruff_cache .hypothesis
