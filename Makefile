# Needs Python 3.11 or newer with its venv module, nothing else.
VENV    ?= .venv
PYTHON  ?= $(shell for p in python3.11 python3.12 python3.13 python3 python; do \
             $$p -c 'import sys; sys.exit(sys.version_info < (3, 11))' >/dev/null 2>&1 && echo $$p && break; done)
# Whatever follows: make web ARGS="--port 9000", make test ARGS="-k memory"
ARGS    ?=
WORKERS ?= auto

BIN := $(VENV)/bin
RUN := $(BIN)/python -m
PIP := $(RUN) pip --disable-pip-version-check --quiet
# Every start would compile the whole program again where a machine forbids Python to keep it.
unexport PYTHONDONTWRITEBYTECODE

.DEFAULT_GOAL := help
.PHONY: help web test facts pages fuzz lint format bench load calibrate accuracy pins clean

help: ## this list
	@grep -hE '^[a-z]+:.*## ' $(firstword $(MAKEFILE_LIST)) | sed 's/:.*## /|/' \
	  | while IFS='|' read -r target text; do printf '  make %-9s %s\n' "$$target" "$$text"; done

web: $(VENV)/.app ## open the advisor in a browser
	$(BIN)/gpu-advisor web $(ARGS)

test: $(VENV)/.dev ## run every test
	$(RUN) pytest -n $(WORKERS) --dist loadfile --no-loadscope-reorder $(ARGS)

# What a change of data touches, without the engine's own tests.
facts: $(VENV)/.dev ## check data files and the pages that repeat them, in seconds
	$(RUN) pytest -q -n 0 tests/catalog/test_integrity.py tests/catalog/test_catalog.py \
	  tests/architecture/test_counts.py tests/architecture/test_model_families.py \
	  tests/architecture/test_models_page.py tests/test_pages.py tests/nouns/software/test_stacks.py \
	  tests/test_data_files.py tests/test_documents.py tests/test_contributing.py $(ARGS)

pages: $(VENV)/.dev ## write docs/models.md, prices.md, software.md, the tables of cli.md and the schemas
	$(RUN) docs.writers

fuzz: $(VENV)/.dev ## run 60,000 broken inputs: ARGS="--seed 7 --count 5000 --only case"
	$(RUN) tests.fuzz $(ARGS)

lint: $(VENV)/.dev ## check style, format and types
	$(RUN) ruff check .
	$(RUN) ruff format --check .
	$(RUN) mypy

format: $(VENV)/.dev ## put imports and layout in order
	$(RUN) ruff check --fix .
	$(RUN) ruff format .

bench: $(VENV)/.dev ## time the engine
	$(RUN) benchmarks $(ARGS)

load: $(VENV)/.dev ## many visitors at once: ARGS="--sessions 25 --seconds 60"
	$(RUN) benchmarks.load $(ARGS)

calibrate: $(VENV)/.dev ## fit the constants on data/measurements anew
	$(RUN) advisor.calibration $(ARGS)

accuracy: $(VENV)/.dev ## score the engine on data/measurements and write docs/accuracy.md
	$(RUN) advisor.calibration accuracy $(ARGS)

pins: $(BIN)/python ## move constraints.txt to the newest releases
	rm -rf build/pins && $(BIN)/python -m venv build/pins
	build/pins/bin/python -m pip --quiet install --upgrade 'pip>=25.1'
	build/pins/bin/python -m pip --quiet install --editable . --group dev
	{ grep '^#' constraints.txt; build/pins/bin/python -m pip freeze --exclude-editable; } > build/constraints.txt
	mv build/constraints.txt constraints.txt

clean: ## remove the environment, builds and caches
	rm -rf .venv build dist .hypothesis .mypy_cache .pytest_cache .ruff_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

$(BIN)/python:
	@test -n "$(PYTHON)" && "$(PYTHON)" -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { \
	  echo "This project needs Python 3.11 or newer on PATH; name one with: make PYTHON=/path/to/python3.11" >&2; exit 1; }
	"$(PYTHON)" -m venv --clear $(VENV)

# Stamps: an environment is set up anew only when what it is made from changes.
$(VENV)/.app: pyproject.toml constraints.txt | $(BIN)/python
	@echo "Installing the app into $(VENV): about a minute, once."
	$(PIP) install --constraint constraints.txt --editable .
	@touch $@

$(VENV)/.dev: pyproject.toml constraints.txt | $(BIN)/python
	@echo "Installing the app and the development tools into $(VENV): a minute or two, once."
	$(PIP) install --upgrade 'pip>=25.1'
	$(PIP) install --constraint constraints.txt --editable . --group dev
	@touch $(VENV)/.app $@
