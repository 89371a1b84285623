PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
CONSTRAINTS ?= constraints.txt
# Each process takes half of the tests in their order and then some of those left: what a file shares is made once.
QUICK := -m pytest -n auto --dist worksteal -m "not verify"
# Commands that tests start would compile the package anew, each of them, where the environment forbids compiled modules.
unexport PYTHONDONTWRITEBYTECODE
PIP := $(BIN)/python -m pip --disable-pip-version-check -q

.PHONY: demo lint types tests test lowest package verify bench evidence docs chromium clean

demo: $(VENV)/.demo
	$(BIN)/enlist demo

test: lint types tests

lint: $(VENV)/.test
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(VENV)/.test
	$(BIN)/mypy

tests: $(VENV)/.test chromium
	$(BIN)/python $(QUICK)

# Wheel and sdist; the wheel is installed into an empty environment with EXTRAS and tried there. EXTRAS=sim,flower is one
# environment, EXTRAS=all has every extra together, and EXTRAS=each tries every extra alone and then all together.
package: $(VENV)/.test $(CONSTRAINTS)
	$(BIN)/python -m tools.release --extras "$(EXTRAS)" --constraints $(CONSTRAINTS)

# Tests with the lowest versions that pyproject.toml states, in an environment of their own; of PyTorch, with any.
lowest: chromium build/lowest.txt
	build/lowest/bin/python -m pip --disable-pip-version-check -q install -c build/lowest.txt -e ".[test]"
	build/lowest/bin/python $(QUICK)

build/lowest.txt: pyproject.toml
	$(PYTHON) -m venv build/lowest
	build/lowest/bin/python -m pip --disable-pip-version-check -q install uv
	build/lowest/bin/uv pip compile -q --resolution lowest-direct --extra test --python build/lowest/bin/python \
	  --no-emit-package torch pyproject.toml -o $@

verify: $(VENV)/.test
	$(BIN)/python -m benchmarks.verify --output docs/verify.md
	$(BIN)/python -m benchmarks.notebooks --check

bench: $(VENV)/.test
	$(BIN)/python -m benchmarks.selectors
	$(BIN)/python -m benchmarks.training

evidence: $(VENV)/.test
	$(BIN)/python -m benchmarks.evidence --output docs

# Broken links, missing docstrings, anything that would be loaded from the network and a search that finds nothing fail. Open build/site/index.html.
docs: $(VENV)/.docs chromium
	$(BIN)/python -m tools.site
	NO_MKDOCS_2_WARNING=1 PYTHONPATH=.:src $(BIN)/mkdocs build --quiet --strict -f build/mkdocs.yml
	$(BIN)/python -m tools.site --finish build/site
	$(BIN)/python -m tools.browse build/site

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

$(VENV)/.docs: pyproject.toml constraints.txt | $(BIN)/python
	$(PIP) install -c constraints.txt -e ".[docs]"
	touch $@

clean:
	rm -rf $(VENV) build dist runs .pytest_cache .mypy_cache .ruff_cache .hypothesis
