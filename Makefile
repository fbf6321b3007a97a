# Everything runs through here; `make help` lists what there is.
# Parameters: make paper ENCODER=all-MiniLM-L6-v2 SEEDS=0,1,2 JOBS=2 PROFILE=paper|quick DASK=tcp://host:8786
#             LORA=published|live BACKBONE=all-MiniLM-L6-v2 SCALES=10k,100k TIMES=published|live
#             BEYOND=published|live BEYOND_SEEDS=0,1,2 TUNE=published|live

# An active conda or Binder environment is used as it is; otherwise .venv is made from the lock.
ifneq ($(CONDA_PREFIX)$(NB_PYTHON_PREFIX),)
PY := python
READY := active
else
PY := .venv/bin/python
READY := .venv/ready-$(shell cksum requirements.lock pyproject.toml | cksum | cut -d ' ' -f 1)
endif

BUILD = $(PY) -m notebooks.build

.DEFAULT_GOAL := help
.PHONY: help paper site arxiv lora scale compute beyond tune leaderboard test status verify lab bench embed clean

help:  ## list the targets
	@sed -n 's/^\([a-z]*\):.*## /\1\t/p' $(MAKEFILE_LIST) | expand -t 13

paper: $(READY)  ## run the notebooks that are stale, then set the paper: results, tables, figures, PDF, HTML
	@$(BUILD) paper $(MAKEOVERRIDES)

site: paper  ## build the pages that show all of it, into build/site
	@$(PY) -m sphinx -W --keep-going -q -b html docs build/site
	@echo build/site/index.html

arxiv: paper  ## pack the paper for arXiv: LaTeX, figures, references
	@$(BUILD) arxiv

test: $(READY)  ## run the whole test suite
	$(PY) -m pytest -n logical --maxprocesses 4 --dist loadfile

lora: $(READY)  ## run LoRA anew (hours on a CPU; goes on where it was stopped)
	@$(BUILD) lora $(MAKEOVERRIDES)

scale: $(READY)  ## compare exact search and HNSW up to 10 million entries anew (hours; SCALES=10k,1M for parts)
	@$(BUILD) scale $(MAKEOVERRIDES)

compute: $(READY)  ## measure the cost of corrections and predictions anew, on a machine at rest
	@$(BUILD) compute $(MAKEOVERRIDES)

beyond: $(READY)  ## compare all systems over 20 seeds, and stream them harder, anew (long; goes on where it was stopped)
	@$(BUILD) beyond $(MAKEOVERRIDES)

tune: $(READY)  ## search the settings of our own system anew (long; goes on where it was stopped)
	@$(BUILD) tune $(MAKEOVERRIDES)

leaderboard: $(READY)  ## check all result cards in data/results/cards and rank their systems: figures/leaderboard.md, .csv
	@$(BUILD) leaderboard $(MAKEOVERRIDES)

status: $(READY)  ## say what is stale, and why
	@$(BUILD) status $(MAKEOVERRIDES)

verify: $(READY)  ## rebuild beside the published artefacts and name each one that differs
	@$(BUILD) verify $(MAKEOVERRIDES)

lab: $(READY)  ## open the notebooks in JupyterLab, at the correction desk
	$(PY) -m jupyterlab notebooks/00_tour.ipynb

bench: $(READY)  ## measure speed and memory; writes build/bench.json
	$(PY) -m tests.bench

embed: $(READY)  ## encode the raw texts anew (OCRR_DATA_DIR or a network)
	@$(BUILD) embed $(MAKEOVERRIDES)

clean:  ## remove what builds leave behind; published artefacts stay
	rm -rf build

.PHONY: active
active:
	@$(PY) -c 'import ocrrlib, papermill' || \
	{ echo 'error: the active environment lacks the packages: conda env create -f environment.yml; conda activate ocrr' >&2; exit 1; }

.venv/ready-%:  # named by the content of the lock and of pyproject.toml
	@python3 -c 'import sys; sys.exit("error: Python 3.11 or newer is needed" if sys.version_info < (3, 11) else 0)'
	python3 -m venv .venv
	.venv/bin/python -m pip install --quiet --disable-pip-version-check -r requirements.lock
	.venv/bin/python -m pip install -qq --disable-pip-version-check --no-deps --no-build-isolation -e .
	@rm -f .venv/ready-*
	@touch $@
