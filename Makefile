# One entry point for people and for CI. Everything runs in .venv, which the first target that needs it makes.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
JOBS ?= 2
BENCH := $(PYTHON) -m backends.triton_codegen.tool

# Triton compiles nothing where this is set
unexport TRITON_INTERPRET

.DEFAULT_GOAL := help
.PHONY: help setup demo test test-long test-gpu check format bench bench-planner bench-merges bench-plot bench-compile clean

help: ## show this text
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | awk -F ':.*## ' '{printf "  make %-14s %s\n", $$1, $$2}'

$(VENV)/.ready: pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --disable-pip-version-check -e '.[test,dev]'
	touch $@

setup: $(VENV)/.ready ## make .venv with everything in it

demo: $(VENV)/.ready ## the main job on the CPU: IR, schedule, Triton source, checked result, a cubin
	$(BIN)/python examples/quickstart.py

test: $(VENV)/.ready ## the tests that need no GPU, a sample of the slow families
	$(BIN)/python -m pytest -n $(JOBS) -q

test-long: $(VENV)/.ready ## the tests at their full counts
	$(BIN)/python -m pytest -n $(JOBS) -q --long

test-gpu: ## the tests marked gpu, with the python3 of a machine that has one
	$(PYTHON) -c "import torch; assert torch.cuda.is_available(), 'no GPU that torch can use'"
	$(PYTHON) -m pytest -q -m gpu -p no:benchmark tests

check: $(VENV)/.ready ## format, lint, types, layers
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/pyright -p pyproject.toml
	$(BIN)/lint-imports

format: $(VENV)/.ready ## rewrite the sources in the house format
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

bench: ## every set of shapes against cuBLAS, with the python3 of a machine that has a GPU
	$(BENCH) bench --set all --baseline cublas,cublaslt,data-parallel -o benchmarks/results/all

bench-planner: ## the planner's choice against the best of its own candidates, on a machine with a GPU
	$(BENCH) bench --set all --random 20 --seed 7 --candidates 100 -o benchmarks/results/planner

bench-merges: ## the merges of stream-k against each other and cuBLAS, on a machine with a GPU
	$(BENCH) bench --shape 1536x1536x4096 --shape 128x512x16384 \
	    --sweep decomposition=none,stream-k,split-k --sweep units=none,132 --sweep splits=none,2,4,8,16 \
	    --sweep merge=auto,fixup,atomic-workspace,atomic --top 9 -v -o benchmarks/results/merges

bench-plot: $(VENV)/.ready ## draw what make bench wrote
	$(BIN)/python -m backends.triton_codegen.tool plot benchmarks/results/all.csv -o benchmarks/results/all.svg

bench-compile: $(VENV)/.ready ## import, rewrite and compile times on this machine
	$(BIN)/python -m benchmarks.compile_time

clean: ## remove .venv and caches
	rm -rf $(VENV) .pytest_cache .ruff_cache .hypothesis build *.egg-info
