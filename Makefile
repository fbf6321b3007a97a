# Everything runs through here; `make help` lists what there is, `make -n paper` says what is left to do.
# Each executed notebook in build/notebooks depends on its source, on what it reads and on the library; figures, tables
# and results depend on the executed notebook that makes them: `make figures/fig2_recovery.pdf` makes just that.

# What can be set, with its default. The first line changes what comes out: that goes to a folder of its own.
OUTCOME := ENCODER SEEDS PROFILE BACKBONE BEYOND_SEEDS
OTHER := JOBS DASK SCALES LORA TIMES BEYOND
d.ENCODER := all-MiniLM-L6-v2
d.SEEDS := 0,1,2
d.PROFILE := paper
d.BACKBONE := all-MiniLM-L6-v2
d.BEYOND_SEEDS := 0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17,18,19
d.JOBS := $(shell nproc 2>/dev/null || echo 2)
d.SCALES := 10k
d.LORA := published
d.TIMES := published
d.BEYOND := published
$(foreach name,$(OUTCOME) $(OTHER),$(eval $(name) = $(d.$(name))))
# What was given is checked; `verify` passes on to its own make only what it says.
WORDS := $(MAKEOVERRIDES)
MAKEOVERRIDES :=
# Two notebooks at a time, unless JOBS=1 or -j says otherwise.
ifeq ($(filter -j%,$(MAKEFLAGS)),)
MAKEFLAGS += -j$(if $(filter 1,$(JOBS)),1,2)
endif
SET := $(strip $(foreach name,$(OUTCOME),$(if $(filter-out $(d.$(name)),$($(name))),$(name)=$($(name)))))
space := $() $()
O := $(if $(SET),build/variants/$(subst =,-,$(subst /,--,$(subst $(space),_,$(SET))))/)
# A folder given as O may end without a slash.
override O := $(if $(O),$(patsubst %/,%,$(O))/)
NB := $(if $(O),$(O)notebooks,build/notebooks)

# An active conda or Binder environment is used as it is; otherwise .venv is made from the lock.
ifneq ($(CONDA_PREFIX)$(NB_PYTHON_PREFIX),)
PY := python
READY := active
else
PY := .venv/bin/python
READY := .venv/ready-$(shell cksum requirements.lock pyproject.toml memory/pyproject.toml | cksum | cut -d ' ' -f 1)
endif
quote = '$(subst ','\'',$1)'
GIVEN = $(foreach name,$(OUTCOME) $(OTHER),$(if $(filter-out $(d.$(name)),$($(name))),$(call quote,$(name)=$($(name)))))
# Published files change by make alone; a notebook that runs without this variable writes to build/lab.
# Two run at a time, on small products: with more threads, each would wait for the other's.
RUN = $(strip OCRR_BY_MAKE=1 OMP_NUM_THREADS=1 $(PY) -m notebooks.run JOBS=$(JOBS) $(GIVEN) OUT=$(call quote,$(O)))
LIBRARY := $(wildcard ocrrlib/*.py ocrrlib/*/*.py ocrr/*.py ocrr/*/*.py memory/corrigible/*.py memory/corrigible/*/*.py \
	studies/*.py) notebooks/output.py \
	$(addprefix paper/,style.py figures.py tables.py claims.py reproduction.py beyond.py streams.py products.py)
NOTEBOOKS := $(filter-out %.nbconvert,$(basename $(notdir $(wildcard notebooks/[0-9]*.ipynb))))
FIRST := 02_full_sweep  # others wait for it
EXECUTED := $(patsubst %,$(NB)/%.ipynb,$(FIRST) $(filter-out $(FIRST),$(NOTEBOOKS)))

.DEFAULT_GOAL := help
.PHONY: help paper notebooks site arxiv metadata lora scale compute beyond products onnx leaderboard check smoke lint test \
	test-slow verify release lab bench torture database embed clean settings active

help:  ## list the targets
	@sed -n 's/^\([a-z-]*\):.*## /\1\t/p' $(MAKEFILE_LIST) | expand -t 13

paper: notebooks $(if $(O),,paper/ocrr.pdf paper/supplement.pdf)  ## make all missing or stale results, tables, figures and the paper

notebooks: $(EXECUTED)  ## execute missing or stale notebooks

settings: $(READY)
	@$(PY) -m notebooks.run check $(MAKECMDGOALS) $(WORDS)

# What notebooks read that others make.
R := $(O)data/results
$(NB)/01_embed.ipynb: $(patsubst %,data/embeddings/%.$(d.ENCODER).safetensors,banking77 clinc150 hwu64)
$(NB)/03_storage_pareto.ipynb: $(R)/full_sweep.parquet
$(NB)/04_lora.ipynb: $(R)/storage_pareto.parquet
$(NB)/15_headline.ipynb: $(addprefix $(R)/,full_sweep.parquet storage_pareto.parquet vote_ablation.parquet) \
	$(NB)/04_lora.ipynb $(O)paper/tables/table_scale.csv paper/claims.yml
# Released points stand in these figures.
$(addprefix $(NB)/,02_full_sweep.ipynb 03_storage_pareto.ipynb 04_lora.ipynb): paper/claims.yml
$(NB)/08_claims.ipynb: $(addprefix $(R)/,full_sweep.parquet storage_pareto.parquet vote_ablation.parquet) paper/claims.yml \
	$(addprefix $(O)paper/tables/table_,parameters.csv datasets.csv file_order.csv ties.csv) $(R)/scale.parquet

# What 09_beyond runs now, 19_ledger_lda reads.
$(NB)/19_ledger_lda.ipynb: $(if $(filter live,$(BEYOND)),$(NB)/09_beyond.ipynb)

# What they show as published: reads(notebook, results).
reads = $(NB)/$1.ipynb: $(2:%=data/results/%.parquet)
BEYOND_FILES := beyond beyond_rows beyond_mpnet beyond_mpnet_rows beyond_tfidf beyond_tfidf_rows joint joint_rows
$(eval $(call reads,04_lora,lora parameters))
$(eval $(call reads,06_hnsw_scale,ledger_search race scale_costs))
$(eval $(call reads,07_compute,costs growth memory_growth))
$(eval $(call reads,08_claims,beyond))
$(eval $(call reads,09_beyond,$(BEYOND_FILES)))
$(eval $(call reads,10_streams,streams))
$(eval $(call reads,12_explore,beyond))
$(eval $(call reads,13_correction_memory,memory))
$(eval $(call reads,14_label_names,names))
$(eval $(call reads,15_headline,costs lora))
$(eval $(call reads,16_products,product_claims product_stored_wrong products stored_wrong))
$(eval $(call reads,17_known_in_stream,mixed))
$(eval $(call reads,18_when_not_to_answer,abstention few_labels))
$(eval $(call reads,19_ledger_lda,beyond beyond_mpnet beyond_tfidf costs forms))

# What is shown as published, by the target that runs it again.
published.lora := lora parameters
published.scale := scale scale_costs ledger_search race
published.compute := costs growth memory_growth
published.beyond := $(BEYOND_FILES) forms streams names mixed abstention few_labels stored_wrong
published.products := products product_claims product_stored_wrong
published.database := database_scale
published.torture := memory

# What each notebook makes: made(notebook, results, figures, tables).
define made
made.$1 := $$(addprefix $$(O),$(2:%=data/results/%.parquet) $(3:%=figures/%.pdf) $(3:%=figures/%.png) \
	$(foreach table,$4,$(addprefix paper/tables/$(table).,csv md tex)))
$$(made.$1) $(NB)/$1.ipynb &: notebooks/$1.ipynb $(LIBRARY) | settings
	@$(RUN) $$< $(NB)/$1.ipynb
endef
$(foreach name,00_from_scratch 00_tour 11_your_own 12_explore,$(eval $(call made,$(name))))
$(eval $(call made,01_embed,,,table_datasets))
$(eval $(call made,02_full_sweep,full_sweep,fig2_recovery fig4_banking77 fig5_clinc150 six_cells,\
	table_hyperparameters table_ranking table_six_cells table_sparse_policies))
$(eval $(call made,03_storage_pareto,storage_pareto,fig1_storage_pareto,table_constraints table_file_order))
$(eval $(call made,04_lora,,fig6_lora lora_variants,table_lora table_parameters))
$(eval $(call made,05_vote_ablation,vote_ablation,vote_ablation,table_ties table_vote_ablation))
$(eval $(call made,06_hnsw_scale,scale,index_race ledger_search noise_map scale_recall,\
	table_ledger_search table_race table_scale table_scale_costs table_vote_or_distance))
$(eval $(call made,07_compute,,cost_growth memory_growth,table_costs table_growth table_memory_growth))
$(eval $(call made,08_claims,,claims,table_central table_claims table_claims_summary))
$(eval $(call made,09_beyond,,all_systems six_systems three_numbers,$(addprefix table_,beyond compared corrections encoders measures \
	readings statistics)))
$(eval $(call made,10_streams,,$(addprefix streams_,asked digits drift encoder known late new scope wrong),\
	table_stream_differences table_streams))
$(eval $(call made,13_correction_memory,,,table_memory))
$(eval $(call made,14_label_names,,label_names,table_names))
$(eval $(call made,15_headline,,,table1_headline $(addprefix table_reproduction_,table1 figure1 figure2 figure4 figure5 \
	figure6 datasets sparse vote compute scale hyperparameters)))
$(eval $(call made,16_products,,,table_product_claims table_products table_stored_wrong))
$(eval $(call made,17_known_in_stream,,mixed,table_mixed table_mixed_shares))
$(eval $(call made,18_when_not_to_answer,,abstention,table_abstention table_few_labels))
$(eval $(call made,19_ledger_lda,,,table_choice table_equal table_even table_parts table_which))

# A stopped or failed notebook leaves published files as they are.
.PRECIOUS: $(foreach name,$(NOTEBOOKS),$(made.$(name)))

paper/ocrr.pdf paper/supplement.pdf &: paper/ocrr.md paper/supplement.md paper/references.bib $(foreach name,$(NOTEBOOKS),$(made.$(name))) \
		paper/quotes.yml $(wildcard data/results/*.parquet paper/template.*) paper/build.py paper/document.py paper/quotes.py
	@($(PY) -m paper.quotes README.md && $(PY) -m paper.pages) & \
	$(PY) -m paper.build --formats pdf && wait $$!

arxiv: paper  ## pack paper and supplement for arXiv: LaTeX, figures, references
	@$(PY) -m paper.build --formats arxiv --out build

# The live page's encoder comes from packages; without npm or a network the page says that it has none.
site: paper  ## build the website in build/site, and each notebook as one HTML file in build/html
	@$(PY) -m paper.build --formats html
	@$(PY) -m sphinx -W --keep-going -q -b html docs build/site
	@echo build/site/index.html

metadata: $(READY)  ## describe code, data and results for machines: CodeMeta, Zenodo, RO-Crate, Croissant
	@$(PY) -m paper.metadata

# What takes long or measures time is shown as published; these run it again, and go on after a stop.
lora: settings  ## run LoRA again (hours on a CPU)
	@$(RUN) LORA=live notebooks/04_lora.ipynb $(NB)/04_lora.ipynb

scale: settings  ## compare exact search and HNSW up to 10 million entries (hours; SCALES=10k,1M for parts)
	@$(RUN) TIMES=live $(if $(filter command,$(origin SCALES)),,SCALES=10k,100k,seeds,1M,10M,map,race_10k,race_100k,race_1M) notebooks/06_hnsw_scale.ipynb $(NB)/06_hnsw_scale.ipynb

compute: settings  ## measure the cost of corrections and predictions, on an idle machine
	@$(RUN) TIMES=live notebooks/07_compute.ipynb $(NB)/07_compute.ipynb

beyond: settings  ## compare all systems over 20 seeds, on harder streams, with names (five hours on two cores)
	@$(RUN) BEYOND=live notebooks/09_beyond.ipynb $(NB)/09_beyond.ipynb
	@$(RUN) BEYOND=live notebooks/19_ledger_lda.ipynb $(NB)/19_ledger_lda.ipynb
	@$(RUN) BEYOND=live notebooks/10_streams.ipynb $(NB)/10_streams.ipynb
	@$(RUN) BEYOND=live notebooks/14_label_names.ipynb $(NB)/14_label_names.ipynb
	@$(RUN) BEYOND=live notebooks/17_known_in_stream.ipynb $(NB)/17_known_in_stream.ipynb
	@$(RUN) BEYOND=live notebooks/18_when_not_to_answer.ipynb $(NB)/18_when_not_to_answer.ipynb
	@$(RUN) BEYOND=live notebooks/16_products.ipynb $(NB)/16_products.ipynb

# Products have an environment of their own, named by the content of its lock.
BENCH := build/products
BENCH_READY := $(BENCH)/ready-$(shell cksum studies/products.lock | cut -d ' ' -f 1)

products: $(BENCH_READY)  ## stream sentences through products that learn from corrections, ours among them (hours)
	@PYTHONPATH="$$PWD:$$PWD/memory" OMP_NUM_THREADS=1 $(BENCH)/bin/python -m studies.stored_wrong
	@PYTHONPATH="$$PWD:$$PWD/memory" OMP_NUM_THREADS=1 $(BENCH)/bin/python -m studies.products

# The encoder without torch has one, too.
ONNX := build/onnx
ONNX_READY := $(ONNX)/ready-$(shell cksum studies/onnx.lock | cut -d ' ' -f 1)

onnx: $(READY) $(ONNX_READY)  ## compare the encoder without torch with the default one: docs/onnx.csv
	@$(PY) -m studies.onnx $(ONNX)/bin/python

leaderboard: $(READY)  ## rank the published systems and those in data/results/leaderboard, log all rows: figures/leaderboard*
	@$(PY) -m paper.leaderboard

check: $(READY)  ## repeat and compare published runs, sampled by commit (SECONDS=60, SYSTEMS=slda, ALL=1)
	@$(PY) -m studies.check $(WORDS)

verify: $(READY)  ## repeat every published run, or a public sample (SAMPLE=300 SEED=1), and rebuild all artefacts
	@$(PY) -m studies.check ALL=1 $(WORDS)
ifndef SAMPLE
	@rm -rf build/verify
	@OCRR_CACHE_DIR=build/verify/cache $(MAKE) --no-print-directory notebooks O=build/verify/ JOBS=$(JOBS)
	@for part in figures paper/tables; do diff -rq $$part build/verify/$$part; done
	@for file in build/verify/data/results/*; do cmp $$file data/results/$${file##*/}; done
	@echo "all published artefacts come out byte for byte"
endif

release: $(READY)  ## prepare a release in build/release: sample, wheels, tag, archive (VERSION=1.0.0, DRY=1 to try it)
	@$(PY) -m paper.release $(WORDS)

# What a reviewer runs first: the protocol, every system by name, the ledger's hashes, the README's example, a memory.
SMOKE := $(patsubst %,tests/test_%.py,stream scenario policies metrics voting search neighbours systems) \
	tests/test_docs.py::test_the_example_of_the_readme_ranks_a_system_of_ten_lines_among_the_published_ones \
	memory/tests/test_ledger.py memory/tests/test_memory_docs.py::test_the_five_lines_of_the_readme_run
FAST := -m "not slow and not published"
WORKERS := -n logical --maxprocesses 4 --dist worksteal

smoke: $(READY)  ## test the core's promises, one minute
	@$(PY) -m pytest $(WORKERS) $(FAST) $(SMOKE)

lint: $(READY)  ## check style, types and which room imports which
	@$(PY) -m ruff check .
	@$(PY) -m ruff format --check --quiet .
	@$(PY) -m mypy
	@PYTHONPATH=memory $(PY:python=lint-imports) --config pyproject.toml --no-logo

test: lint  ## run lint and the tests, 4 minutes
	@$(PY) -m pytest $(WORKERS) $(FAST)

# cffconvert needs an older jsonschema than JupyterLab, and an environment of its own.
CITATION := build/citation
CITATION_READY := $(CITATION)/ready-$(shell cksum tests/citation.lock | cut -d ' ' -f 1)

test-slow: $(READY) $(CITATION_READY) $(ONNX_READY)  ## run the other tests: browser, LaTeX, LoRA, Dask; published work runs again; half an hour
	@$(PY) -m pytest $(WORKERS) -m "slow or published"

lab: $(READY)  ## open the notebooks in JupyterLab, at the correction desk
	PYTHONPATH="$$PWD" $(PY) -m jupyterlab --ServerApp.root_dir="$$PWD" notebooks/00_tour.ipynb

bench: $(READY)  ## measure speed and memory as ratios in one run; writes build/bench.json
	@PYTHONPATH=memory $(PY) -m bench

torture: $(READY)  ## kill, cut off and edit correction memories, and publish how they stand it (30 minutes)
	@PYTHONPATH=memory $(PY) -m trials.torture

database: $(READY)  ## search a million vectors in PostgreSQL, and publish what it takes (ADDRESS=postgresql://..., half an hour)
	@PYTHONPATH=memory $(PY) -m trials.database_scale $(ADDRESS)

embed: settings  ## encode the raw texts again (OCRR_DATA_DIR or a network)
	@$(PY) -m notebooks.run embed $(call quote,ENCODER=$(ENCODER))

clean:  ## remove build files; published artefacts stay
	rm -rf build

active:
	@$(PY) -c 'import ocrrlib, corrigible, papermill' || \
	{ echo 'error: the active environment lacks the packages: conda env create -f environment.yml; conda activate ocrr' >&2; exit 1; }

.venv/ready-%:  # named by the content of the lock and of both pyproject.toml
	@for python in python3 python3.12 python3.11; do \
		$$python -c 'import sys; sys.exit(sys.version_info[:2] not in [(3, 11), (3, 12)])' 2>/dev/null && exec $$python -m venv .venv; \
	done; echo "error: Python 3.11 or 3.12 is needed, not $$(python3 --version 2>&1): the lock's packages have no wheels for others" >&2; exit 1
	.venv/bin/python -m pip install --quiet --disable-pip-version-check -r requirements.lock
	.venv/bin/python -m pip install -qq --disable-pip-version-check --no-deps --no-build-isolation -e . -e memory
	@.venv/bin/python -c 'import os, site; open(site.getsitepackages()[0] + "/checkout.pth", "w").write(os.getcwd() + "\n")'
	@rm -f .venv/ready-*
	@touch $@

# An environment of its own: own(folder, lock).
define own
$1/ready-%: | $(READY)
	$(PY) -m venv $1
	$1/bin/python -m pip install --quiet --disable-pip-version-check -r $2
	@rm -f $1/ready-*
	@touch $$@
endef
$(eval $(call own,$(BENCH),studies/products.lock))
$(eval $(call own,$(ONNX),studies/onnx.lock))
$(eval $(call own,$(CITATION),tests/citation.lock))
