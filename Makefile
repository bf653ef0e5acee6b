# Two commands do all: `make demo` and `make test`. Each sets everything up by itself.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/ready
DEMO := $(VENV)/demo
STUDY := $(VENV)/study
INSTALL := $(BIN)/python -m pip install --quiet --disable-pip-version-check --editable

# Where the numbers of a guarantee are made.
CERTIFYING := src/pais/privacy/amplification.py,src/pais/accounting/*,src/pais/privacy/calibration.py,src/pais/mechanisms/noise.py

# Read by `make test`: for instance TESTING=--cov to measure what the tests reach.
TESTING ?=


.DEFAULT_GOAL := help

.PHONY: help demo test test-quick covered check fix wheel docs notebook study paper paper-quick bench bench-all bench-kmeans bench-models bench-peers bench-stream audit faults fuzz clean

help:  ## List the targets
	@awk -F ':.*##' '/^[a-z-]+:.*##/ { printf "  make %-13s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

demo: $(DEMO)  ## Private k-means on bundled data: four ways to keep rows compared, report in out/report.html
	$(BIN)/pais demo --out out

study: $(DEMO)  ## The Laplace-sum study: figure and table in out/
	$(BIN)/python -m experiments.laplace_sum --out out

paper: $(STUDY)  ## The paper's study on the data sets present, about an hour; goes on where it was stopped
	$(BIN)/python -m experiments.paper --out docs/results

paper-quick: $(STUDY)  ## The same in under three minutes, on a reduced grid: out/paper-quick/report/RESULTS.md
	$(BIN)/python -m experiments.paper --grid quick --work out/paper-quick --out out/paper-quick/report

test: $(READY)  ## All tests
	$(BIN)/python -m pytest -n auto --dist loadfile $(TESTING)

test-quick: $(READY)  ## Tests of every module in about two minutes: no Spark, statistics, accuracy or slow cases
	$(BIN)/python -m pytest -n auto --dist loadfile -m "not slow and not statistical and not spark and not accuracy" $(TESTING)

covered: $(READY)  ## After `make test TESTING=--cov`: every branch where numbers are certified, 95 % of all
	$(BIN)/coverage report --skip-covered --show-missing --fail-under=95
	$(BIN)/coverage report --show-missing --fail-under=100 --include="$(CERTIFYING)"

check: $(READY)  ## Format, lint, types
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy

fix: $(READY)  ## Format the code and apply the safe fixes of the linter
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

wheel: $(VENV)/wheel  ## Sdist and wheel in dist/, checked, and tried on the oldest and newest Python at hand
	$(BIN)/python tests/support/wheel_build.py

docs: $(VENV)/site  ## Guides, theory and reference as a site in out/site; every warning is an error
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict

notebook: $(READY)  ## The guide to segments as an executed notebook: examples/segments.ipynb
	$(BIN)/python -m examples.notebook

$(VENV)/site: pyproject.toml | $(BIN)/python
	$(INSTALL) ".[docs]"
	touch $@

$(VENV)/wheel: pyproject.toml | $(BIN)/python
	$(INSTALL) ".[wheel]"
	touch $@

bench: $(READY)  ## Speed and memory of k-means, as ratios measured in one run, about two minutes: out/bench/speed.md
	$(BIN)/python -m benchmarks.speed --only blobs near-blobs covertype kernels memory small --out out/bench

bench-all: $(READY)  ## Every table at one commit, then docs/benchmarks.md, about 75 minutes; goes on where it was stopped
	$(BIN)/python -m benchmarks.all

bench-kmeans: $(READY)  ## Cost of private k-means in many regimes, by size of the sample, on people, and its elbow
	$(BIN)/python -m benchmarks.regimes
	$(BIN)/python -m benchmarks.prediction
	$(BIN)/python -m benchmarks.people
	$(BIN)/python -m benchmarks.elbow

bench-models: $(READY)  ## Accuracy of private regressions and principal components, and coverage of their intervals
	$(BIN)/python -m benchmarks.regression
	$(BIN)/python -m benchmarks.logistic
	$(BIN)/python -m benchmarks.pca
	$(BIN)/python -m benchmarks.coverage_models

bench-peers: $(READY)  ## Other packages on the same rows, each in an environment made for it
	$(BIN)/python -m benchmarks.peers
	$(BIN)/python -m benchmarks.peers.statistics

bench-stream: $(READY)  ## Rows in files: fits, memory and time by rows, command line, Spark; up to 7 GB of disk
	$(BIN)/python -m benchmarks.stream

audit: $(READY)  ## Replay thousands of random calls with a record and without it, about seven minutes; goes on where it was stopped
	$(BIN)/python -m tests.support.replay_table --resume out/audit.jsonl

faults: $(READY)  ## Plant every fault of tests/support/faults.yaml in a copy of the package: the tests it names must fail
	$(BIN)/python -m tests.support.faults

fuzz: $(READY)  ## A million damaged files and argument vectors: each ends in success or a declared error
	$(BIN)/python -m tests.support.fuzz.run

$(BIN)/python:
	$(PYTHON) -m venv $(VENV)

$(DEMO): pyproject.toml | $(BIN)/python
	$(INSTALL) ".[plots]"
	touch $@

$(STUDY): pyproject.toml | $(BIN)/python
	$(INSTALL) ".[study]"
	touch $@ $(DEMO)

$(READY): pyproject.toml | $(BIN)/python
	$(INSTALL) ".[test,check]"
	touch $@ $(STUDY) $(DEMO)

clean:  ## Remove the environment and everything built
	rm -rf $(VENV) out build dist .pytest_cache .mypy_cache .ruff_cache
