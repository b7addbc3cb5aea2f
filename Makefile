# viewsmith: `make demo` and `make test` set up everything they need.
VENV   ?= .venv
PYTHON ?= python3
PY     := $(VENV)/bin/python
# Two threads at most, and one per test worker: OpenMP threads of several workers would wait for each other.
THREADS ?= 2
WORKERS ?= 2
# Compiled tests are kept whatever the environment says: compiling them takes longer than collecting them.
PYTEST := OMP_NUM_THREADS=1 PYTHONDONTWRITEBYTECODE= $(VENV)/bin/python -m pytest -n $(WORKERS) --dist worksteal
TEST_EXTRAS := test,image,unclip,omics,dna,parquet,viz
PIP := $(PY) -m pip install --quiet --disable-pip-version-check -c constraints.txt

CORE  := $(VENV)/.installed-core
TEST  := $(VENV)/.installed-test
CHECK := $(VENV)/.installed-check

.PHONY: help install demo test test-all check lint study study-diffaug crl-tac study-metaug study-genview clean lock bench bench-gpu docs

help:          ## this list
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*##/\t/'

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

test: $(TEST)      ## every property, in minutes (ARGS="-k name" to choose)
	$(PYTEST) -m "not slow" $(ARGS)

test-all: $(TEST)  ## what `make test` leaves out: slow tests, all combinations of options, more examples of properties
	$(PYTEST) -m "slow or hypothesis" --hypothesis-profile thorough $(ARGS)

lint: $(CHECK)     ## ruff, mypy and the order of the rooms
	$(VENV)/bin/ruff check .
	$(VENV)/bin/ruff format --check .
	$(VENV)/bin/mypy
	$(VENV)/bin/lint-imports

check: lint test   ## what has to be green before a change lands

ALL_EXTRAS := image,unclip,omics,dna,parquet,timm,viz,tune,export,track,lightning,test,bench,dev,docs
lock:              ## pin the newest versions of everything (torch and pandas are chosen by hand; build tags are dropped)
	rm -rf build/lock && $(PYTHON) -m venv build/lock
	grep -E "^(#|torch==|pandas==)" constraints.txt > build/pins.txt
	build/lock/bin/python -m pip install --quiet --disable-pip-version-check -c build/pins.txt -e ".[$(ALL_EXTRAS)]"
	grep "^#" build/pins.txt > build/constraints.txt
	build/lock/bin/python -m pip freeze --exclude-editable | sed -E "s/^(torch==[^+]*)\+.*/\1/" >> build/constraints.txt
	mv build/constraints.txt constraints.txt

docs: $(CORE)      ## documentation pages in docs/_build
	$(PIP) -e ".[docs]"
	$(PY) -m sphinx -q -b html docs docs/_build

clean:             ## remove the environment and the runs
	rm -rf $(VENV) runs build docs/_build

bench: $(TEST)     ## all speed scripts on the CPU, minutes (peers: benchmarks/README.md)
	cd benchmarks && OMP_NUM_THREADS=1 ../$(PY) engine_overhead.py
	cd benchmarks && ../$(PY) import_time.py
	cd benchmarks && OMP_NUM_THREADS=1 ../$(PY) pinda_step.py
	cd benchmarks && OMP_NUM_THREADS=$(THREADS) ../$(PY) evaluate_speed.py
	cd benchmarks && OMP_NUM_THREADS=1 ../$(PY) image_views.py
	cd benchmarks && OMP_NUM_THREADS=1 ../$(PY) image_views.py --side 96 --batch 64
	cd benchmarks && OMP_NUM_THREADS=1 ../$(PY) dna_views.py
	cd benchmarks && OMP_NUM_THREADS=1 ../$(PY) nt_xent.py
	cd benchmarks && OMP_NUM_THREADS=1 ../$(PY) nt_xent_memory.py
	cd benchmarks && OMP_NUM_THREADS=1 ../$(PY) resnet_step.py
	cd benchmarks && OMP_NUM_THREADS=1 ../$(PY) pinda_image_step.py
	cd benchmarks && OMP_NUM_THREADS=1 ../$(PY) soft_contrastive.py
	cd benchmarks && OMP_NUM_THREADS=1 ../$(PY) diffusion_sampling.py
	cd benchmarks && OMP_NUM_THREADS=1 ../$(PY) meta_features.py

bench-gpu: $(TEST) ## the speed scripts that take --device cuda; lines go to results/NAME_cuda.jsonl
	cd benchmarks && ../$(PY) image_views.py --device cuda
	cd benchmarks && ../$(PY) image_views.py --device cuda --side 96 --batch 64
	cd benchmarks && ../$(PY) dna_views.py --device cuda
	cd benchmarks && ../$(PY) nt_xent.py --device cuda
	cd benchmarks && ../$(PY) resnet_step.py --device cuda --batch 256 --rounds 30
	cd benchmarks && ../$(PY) pinda_image_step.py --device cuda --batch 256 --rounds 30

study: $(TEST)     ## the studies and their tables (VIEWSMITH_DATA=folder; resumes; MINUTES=60 bounds each)
	cd benchmarks && OMP_NUM_THREADS=1 ../$(PY) study.py $(MINUTES)
	cd benchmarks && OMP_NUM_THREADS=1 ../$(PY) study_domains.py $(MINUTES)
	cd benchmarks && ../$(PY) tables.py

crl-tac: $(TEST)   ## CRL-TAC's tables on MNIST and its study (VIEWSMITH_DATA=folder; resumes; MINUTES=60 bounds each)
	cd benchmarks && OMP_NUM_THREADS=1 ../$(PY) crop_embeddings.py
	cd benchmarks && OMP_NUM_THREADS=1 ../$(PY) crl_tac_mnist.py $(MINUTES)
	cd benchmarks && OMP_NUM_THREADS=1 ../$(PY) study_crl_tac.py $(MINUTES)
	cd benchmarks && ../$(PY) tables_crl_tac.py

study-diffaug: $(TEST) ## the study of DiffAug and its tables (VIEWSMITH_DATA=folder; resumes; MINUTES=60 bounds it)
	$(PIP) -e ".[test,image,unclip,omics,dna,parquet,viz,bench]"
	cd benchmarks && OMP_NUM_THREADS=1 ../$(PY) study_diffaug.py $(MINUTES)
	cd benchmarks && OMP_NUM_THREADS=1 ../$(PY) diffaug_cost.py
	cd benchmarks && OMP_NUM_THREADS=1 ../$(PY) diffaug_bank.py $(MINUTES)
	cd benchmarks && ../$(PY) tables_diffaug.py

study-metaug: $(TEST) ## the study of MetAug and its tables (VIEWSMITH_DATA=folder; resumes; MINUTES=60 bounds it)
	cd benchmarks && OMP_NUM_THREADS=1 ../$(PY) study_metaug.py $(MINUTES)
	cd benchmarks && ../$(PY) tables_metaug.py

study-genview: $(TEST) ## the study of GenView and its tables (VIEWSMITH_DATA=folder; resumes; MINUTES=60 bounds it)
	cd benchmarks && OMP_NUM_THREADS=1 ../$(PY) study_genview.py $(MINUTES)
	cd benchmarks && OMP_NUM_THREADS=1 ../$(PY) genview_cost.py
	cd benchmarks && ../$(PY) tables_genview.py
