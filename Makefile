# viewsmith: `make demo` and `make test` set up everything they need.
VENV   ?= .venv
PYTHON ?= python3
PY     := $(VENV)/bin/python
# Two threads at most, and one per test worker: OpenMP threads of several workers would wait for each other.
THREADS ?= 2
WORKERS ?= 2
TEST_EXTRAS := test,image,unclip,omics,dna,parquet,viz
PIP := $(PY) -m pip install --quiet --disable-pip-version-check -c constraints.txt

CORE  := $(VENV)/.installed-core
TEST  := $(VENV)/.installed-test
CHECK := $(VENV)/.installed-check

.PHONY: help install demo test check lint study clean lock bench

help:          ## this list
	@grep -E '^[a-z]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*##/\t/'

$(CORE): pyproject.toml constraints.txt
	test -x $(PY) || $(PYTHON) -m venv $(VENV)
	$(PIP) -e .
	@touch $@

$(TEST): pyproject.toml constraints.txt
	test -x $(PY) || $(PYTHON) -m venv $(VENV)
	$(PIP) -e ".[$(TEST_EXTRAS)]"
	@touch $(CORE) $@

$(CHECK): $(TEST)
	$(PIP) -e ".[$(TEST_EXTRAS),dev]"
	@touch $@

install: $(CORE)   ## environment with the core alone

demo: $(CORE)      ## train on handwritten digits, compare, write runs/demo/report.html
	rm -rf runs/demo
	$(PY) -m viewsmith fit digits --method pinda --out runs/demo --threads $(THREADS)
	$(PY) -m viewsmith evaluate runs/demo digits --threads $(THREADS)
	$(PY) -m viewsmith report runs/demo --threads $(THREADS)

test: $(TEST)      ## all fast tests (ARGS="-k name" to choose)
	OMP_NUM_THREADS=1 $(PY) -m pytest -n $(WORKERS) $(ARGS)

lint: $(CHECK)     ## ruff, mypy and the order of the rooms
	$(VENV)/bin/ruff check .
	$(VENV)/bin/ruff format --check .
	$(VENV)/bin/mypy
	$(VENV)/bin/lint-imports

check: lint test   ## what has to be green before a change lands

lock: $(CHECK)     ## pin what is installed now (local build tags are dropped)
	$(PY) -m pip freeze --exclude-editable | sed -E "s/^(torch==[^+]*)\+.*/\1/" > constraints.tmp && mv constraints.tmp constraints.txt
	@touch $(CORE) $(TEST) $(CHECK)

clean:             ## remove the environment and the runs
	rm -rf $(VENV) runs

bench: $(TEST)     ## engine overhead, import time, PiNDA step, evaluation time
	cd benchmarks && OMP_NUM_THREADS=1 ../$(PY) engine_overhead.py
	cd benchmarks && ../$(PY) import_time.py
	cd benchmarks && OMP_NUM_THREADS=1 ../$(PY) pinda_step.py
	cd benchmarks && OMP_NUM_THREADS=$(THREADS) ../$(PY) evaluate_speed.py

study: $(TEST)     ## the study on vectors (VIEWSMITH_DATA=folder; resumes; MINUTES=60 to bound it)
	cd benchmarks && OMP_NUM_THREADS=1 ../$(PY) study.py $(MINUTES)
	cd benchmarks && ../$(PY) tables.py
