# viewsmith: `make demo` and `make test` install everything they need.
VENV   ?= .venv
PYTHON ?= python3
PY     := $(VENV)/bin/python
# At most two threads; tests use one for each worker, because OpenMP threads of several workers wait for each other.
THREADS ?= 2
WORKERS ?= 2
PYTEST := OMP_NUM_THREADS=1 $(VENV)/bin/python -m pytest -n $(WORKERS) --dist worksteal
TEST_EXTRAS := test,image,microscopy,czi,lif,nd2,mrc,medical,astronomy,unclip,omics,parquet,excel,dna,signals,viz,track,hub,tune,export
# What is imported is compiled then: compiling all that is installed takes a minute.
PIP := $(PY) -m pip install --quiet --disable-pip-version-check --no-compile -c constraints.txt

CORE  := $(VENV)/.installed-core
TEST  := $(VENV)/.installed-test
CHECK := $(VENV)/.installed-check

.PHONY: help install demo example test test-all study-quick test-interop test-lowest test-newest release check lint style types layers study study-diffaug study-pinda study-closed-form papers crl-tac study-metaug study-genview clean lock bench bench-quick gpu bench-gpu gpu-published docs docs-links docs-pictures notebooks

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

$(CHECK): pyproject.toml constraints.txt
	test -x $(PY) || $(PYTHON) -m venv $(VENV)
	$(PIP) -e ".[$(TEST_EXTRAS),dev]"
	@touch $(CORE) $(TEST) $@

install: $(CORE)   ## environment without extras

demo: $(CORE)      ## train on handwritten digits, evaluate, embed, make views: runs/demo
	rm -rf runs/demo
	mkdir -p runs
	$(PY) -m viewsmith demo --out runs/demo --threads $(THREADS)

example: $(CORE)   ## find objects in clutter without labels, and draw them: runs/objects.png
	mkdir -p runs
	OMP_NUM_THREADS=$(THREADS) $(PY) examples/objects_in_clutter.py --out runs/objects.png

test: $(TEST)      ## tests without the slow ones, in minutes (ARGS="-k name" selects)
	$(PYTEST) -m "not slow and not gpu" $(ARGS)

test-all: $(TEST)  ## tests that `make test` leaves out: slow ones, combinations drawn anew each day, more random examples
	$(PYTEST) -m "(slow or hypothesis) and not gpu" --hypothesis-profile thorough $(ARGS)

# In an environment of its own, because these libraries bring many others.
test-interop:  ## tests with scanpy, polars, datasets of Hugging Face, Lightning, Ray, Spark and Dask (aeon, if it is there), which other tests skip
	test -x build/interop/bin/python || $(PYTHON) -m venv build/interop
	build/interop/bin/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e ".[$(TEST_EXTRAS),test-interop]"
	OMP_NUM_THREADS=1 build/interop/bin/python -m pytest -k "scanpy or polars or hugging or lightning or engines or aeon" tests/data tests/estimator tests/examples tests/modalities $(ARGS)

test-lowest:   ## `make test` with the lowest versions that pyproject.toml allows
	mkdir -p build && $(PYTHON) tests/lowest_versions.py $(TEST_EXTRAS) > build/lowest.txt
	test -x build/lowest/bin/python || $(PYTHON) -m venv build/lowest
	build/lowest/bin/python -m pip install --quiet --disable-pip-version-check -c build/lowest.txt -e ".[$(TEST_EXTRAS)]"
	OMP_NUM_THREADS=1 build/lowest/bin/python -m pytest -n $(WORKERS) --dist worksteal -m "not slow and not gpu" $(ARGS)

test-newest:   ## `make test` with the newest versions that pyproject.toml allows, of $(PYTHON), and the PyTorch for its GPU
	test -x build/newest/bin/python || $(PYTHON) -m venv build/newest
	build/newest/bin/python -m pip install --quiet --disable-pip-version-check --upgrade --upgrade-strategy eager -e ".[$(TEST_EXTRAS)]"
	OMP_NUM_THREADS=1 build/newest/bin/python -m pytest -n $(WORKERS) --dist worksteal -m "not slow and not gpu" $(ARGS)

release:       ## build wheel and sdist, install the wheel into a new environment, run the demo and the README there; timed
	$(PYTHON) tests/release.py $(ARGS)

lint: style types layers  ## ruff, mypy and the check of the layers (-j2 -O: beside each other)

style: $(CHECK)
	$(VENV)/bin/ruff check .
	$(VENV)/bin/ruff format --check .

types: $(CHECK)
	$(VENV)/bin/mypy

layers: $(CHECK)
	$(VENV)/bin/lint-imports

check: lint test   ## lint and test: run it before every change

PICTURES := run_report discover_report smears beats binding_sites objects crl_tac crl_tac_projections contrastive linear_contrast pinda learned_noise diffaug genview metaug images dna map q_values

ALL_EXTRAS := image,microscopy,czi,lif,nd2,mrc,medical,astronomy,unclip,omics,parquet,excel,dna,signals,timm,viz,track,wandb,hub,tune,export,test,test-interop,bench,dev,docs
lock:              ## pin the newest versions of all packages (torch and pandas are chosen by hand; build tags are removed)
	rm -rf build/lock && $(PYTHON) -m venv build/lock
	grep -E "^(#|torch==|pandas==)" constraints.txt > build/pins.txt
	build/lock/bin/python -m pip install --quiet --disable-pip-version-check -c build/pins.txt -e ".[$(ALL_EXTRAS)]"
	grep "^#" build/pins.txt > build/constraints.txt
	build/lock/bin/python -m pip freeze --exclude-editable | sed -E "s/^(torch==[^+]*)\+.*/\1/" >> build/constraints.txt
	mv build/constraints.txt constraints.txt

docs: $(CORE)      ## documentation in docs/_build/html; warnings are errors
	$(PIP) -e ".[docs]"
	$(PY) -m sphinx -q -W --keep-going -b html docs docs/_build/html

docs-links: $(CORE) ## check the links of the documentation to other sites (needs a network)
	$(PIP) -e ".[docs]"
	$(PY) -m sphinx -q -b linkcheck docs docs/_build/links

notebooks: $(CORE) ## execute docs/notebooks in place (VIEWSMITH_DATA=folder)
	$(PIP) -e ".[docs,image,omics]"
	OMP_NUM_THREADS=$(THREADS) $(PY) docs/notebooks/execute.py

docs-pictures: $(CORE) ## pictures of the documentation, docs/_static/*.png, by their scripts (VIEWSMITH_DATA=folder), in minutes
	$(PIP) -e ".[image]"
	set -e; cd docs/pictures; for script in $(PICTURES); do PYTHONPATH=../.. OMP_NUM_THREADS=1 ../../$(PY) $$script.py; done

clean:             ## remove the environment, the runs and built files
	rm -rf $(VENV) runs build docs/_build

# Speed cases without required options, on one thread.
SPEED := engine_overhead pinda_step image_views dna_views nt_xent nt_xent_memory resnet_step pinda_image_step \
	soft_contrastive diffusion_sampling meta_features neighbor_graph small_fit default_fit linear_contrast_rows
speed = OMP_NUM_THREADS=1 $(PY) -m benchmarks.speed $(1)
quality = OMP_NUM_THREADS=1 $(PY) -m benchmarks.quality.$(1) $(MINUTES)
tables = $(PY) -m benchmarks.tables.pages $(1)

bench: $(TEST)     ## speed cases on the CPU, in minutes (with other libraries: benchmarks/README.md)
	for case in $(SPEED); do $(call speed,$$case) || exit 1; done
	$(call speed,image_views) --side 96 --batch 64
	$(PY) -m benchmarks.speed import_time
	OMP_NUM_THREADS=$(THREADS) $(PY) -m benchmarks.speed evaluate_speed --threads $(THREADS)

bench-quick: $(TEST) ## one small round of every speed case that needs no data, as a test; writes no results
	for case in $(SPEED) import_time evaluate_speed crop_embeddings; do $(call speed,$$case) --quick || exit 1; done

# On a GPU: the PyTorch of $(PYTHON); other missing packages come from a folder of wheels (WHEELS=folder).
GPU := CUDA_VISIBLE_DEVICES=$${CUDA_VISIBLE_DEVICES:-0} PYTHONPATH=build/gpu:src:. $(PYTHON)
gpu_packages = test -z "$(WHEELS)" || $(PYTHON) -m pip install --quiet --no-index --no-deps --upgrade --target build/gpu $(WHEELS)/*.whl

gpu:           ## tests that need a GPU (WHEELS=folder; VIEWSMITH_TEST_DEVICE=cpu runs them on the CPU)
	$(gpu_packages)
	$(GPU) -m pytest -q -m "gpu" tests/gpu $(ARGS)

bench-gpu:     ## speed cases with --device cuda; results go to results/NAME_cuda.jsonl (WHEELS=folder)
	$(gpu_packages)
	for case in image_views dna_views nt_xent soft_contrastive neighbor_graph training_step; do $(GPU) -m benchmarks.speed $$case --device cuda || exit 1; done
	$(GPU) -m benchmarks.speed image_views --device cuda --side 96 --batch 64
	for case in resnet_step pinda_image_step; do $(GPU) -m benchmarks.speed $$case --device cuda --batch 256 --rounds 30 || exit 1; done
	test -z "$$VIEWSMITH_DATA" || for d in cpu cuda; do $(GPU) -m benchmarks.speed discovery_images --device $$d; done

gpu-published: ## published sizes on a GPU, 8 minutes in each call until all is done (VIEWSMITH_DATA=folder; WHEELS=folder)
	$(gpu_packages)
	$(GPU) -m benchmarks.quality.gpu_published $(ARGS)

study-quick: $(TEST) ## every study and table with --quick on tiny data, which `make test-all` runs, too; writes no results
	$(PYTEST) tests/benchmarks/test_benchmarks_makefile.py $(ARGS)

study: $(TEST)     ## studies on vectors, images and DNA, and their tables (VIEWSMITH_DATA=folder; resumes; MINUTES=60 limits each)
	$(call quality,vectors.study)
	$(call quality,study_modalities)
	$(call tables,vectors modalities)

crl-tac: $(TEST)   ## CRL-TAC's tables on MNIST (VIEWSMITH_DATA=folder; resumes; MINUTES=60 limits each)
	$(call speed,crop_embeddings)
	$(call quality,crl_tac.crl_tac_mnist)
	$(call tables,crl_tac)

study-diffaug: $(TEST) ## DiffAug's published form and its tables (VIEWSMITH_DATA=folder; resumes; MINUTES=60 limits it)
	$(PIP) -e ".[$(TEST_EXTRAS),bench]"
	$(call quality,generated.diffaug_preset)
	$(call tables,diffaug)

study-pinda: $(TEST) ## PiNDA's table 2 with its published settings (VIEWSMITH_DATA=folder; resumes; MINUTES=60 limits it)
	$(call quality,pinda_table2)

study-closed-form: $(TEST) ## the closed form beside raw and fixed features, and its page (VIEWSMITH_DATA=folder; AEON=folder; resumes; MINUTES=60 limits it)
	$(call quality,linear_contrast)
	$(call quality,few_samples)
	$(call quality,views_in_closed_form)
	$(call tables,linear_contrast when_views_help)

papers: $(TEST)    ## the papers' claims beside the results at hand: docs/results/papers.md, and the tables of the methods' pages
	$(call tables,papers)

study-metaug: $(TEST) ## MetAug's table 1 and its tables (VIEWSMITH_DATA=folder; resumes; MINUTES=60 limits it)
	$(call quality,metaug_table1)
	$(call tables,metaug)

study-genview: $(TEST) ## GenView with views as good as asked, and its tables (VIEWSMITH_DATA=folder; resumes; MINUTES=60 limits it)
	$(call quality,generated.genview_upper_bound)
	$(call tables,genview)
