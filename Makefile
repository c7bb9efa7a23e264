# Two commands for a person: make demo, make test. Both set up .venv first, once.
PYTHON ?= python3
BIN := .venv/bin
# What runs a study, and what tests, lints and documents the project beside it.
RUNS := .venv/.runs
READY := .venv/.ready

.PHONY: help setup demo test test-all test-slurm lint types docs bench clean

help:
	@echo "make demo      set up, run the first study (laptop preset), print its claims and figure"
	@echo "make test      set up and run the tests (under 6 minutes on two cores)"
	@echo "make test-all  the tests with the slow ones: every study, fresh kernels, the wheel (under 40 minutes)"
	@echo "make test-slurm  as root, with Debian's slurmd, slurmctld and munge: the same command on a real Slurm"
	@echo "make bench     headstart beside its peers (QUICK=1: under 5 minutes)"
	@echo "make lint      ruff;  make types  mypy;  make docs  the HTML documentation"

setup: $(READY)

$(RUNS): pyproject.toml constraints.txt
	@test -x $(BIN)/python || $(PYTHON) -m venv .venv
	@echo "setting up .venv (about a minute; once)"
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e .
	@touch $@

$(READY): $(RUNS)
	@echo "adding what tests, ruff, mypy and the documentation need (under a minute; once)"
	@$(BIN)/python -m pip install --quiet --upgrade pip
	@$(BIN)/python -m pip install --quiet -c constraints.txt -e ".[huggingface,lightning,slurm,ui,tensorboard]" --group dev
	@# A peer in the tests of muP. Its torchvision has no CPU build and is not needed.
	@$(BIN)/python -m pip install --quiet -c constraints.txt --no-deps mup
	@touch $@

demo: $(RUNS)
	$(BIN)/headstart run less_data/mini_and_full_batch_mlp --preset laptop

test: setup
	$(BIN)/python -m pytest -m "not slow"

# Ray is for the slow tests and the benchmark, as JAX is for the benchmark: installed when first needed.
test-all: setup
	@$(BIN)/python -m pip install --quiet -c constraints.txt "ray[client]"
	$(BIN)/python -m pytest

# A Slurm of one node, from Debian's packages (slurmd, slurmctld, slurm-client, munge), started and ended as root.
test-slurm: setup
	HEADSTART_TEST_SLURM=1 $(BIN)/python -m pytest -n 0 tests/lab/test_real_slurm.py

lint: setup
	$(BIN)/ruff check . && $(BIN)/ruff format --check .

types: setup
	$(BIN)/mypy

docs: setup
	$(BIN)/sphinx-build -W -q docs docs/_build/html
	@echo "docs/_build/html/index.html"

# JAX is a peer and Ray a back end, so they are installed for the benchmark alone.
bench: setup
	@$(BIN)/python -m pip install --quiet -c constraints.txt --group bench
	$(BIN)/python -m benchmarks $(if $(QUICK),--quick)
	$(BIN)/python -m benchmarks.ui $(if $(QUICK),--peer-runs 0 --repeats 1)
	$(BIN)/python -m benchmarks.far $(if $(QUICK),--quick)

clean:
	rm -rf .venv docs/_build
