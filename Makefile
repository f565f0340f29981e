# Needs python3 (3.11 or later) and make. Everything else goes into the checkout:
# uv into .uv, the locked packages into .venv, the benchmark's peers into .peers, the questions of
# bfcl-eval, which wants older packages than ours, into .bfcl.

PYTHON ?= python3
UV_VERSION := 0.13.7
NAMES ?= str dosing credit grid moderation tools
UV := .uv/bin/uv
BIN := .venv/bin
READY := .venv/.ready
PEERS := .peers/.ready
BFCL := .bfcl/.ready
CODE := $(wildcard src tests benchmarks examples docs/hooks.py docs/generate)
COMPILE := $(UV) pip compile --quiet --universal --python-version 3.11 --generate-hashes \
	--no-emit-index-url --no-emit-find-links --no-header

# uv uses the Python it is given and never downloads another.
export UV_PYTHON_DOWNLOADS := never
# Python keeps what it compiles, also where the environment says otherwise: the tests start a few
# hundred processes, and without it each compiles all that it imports anew.
export PYTHONDONTWRITEBYTECODE :=
# A notice of the theme, not of our pages; docs/dependencies.md says what it means for us.
export NO_MKDOCS_2_WARNING := 1

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.PHONY: help setup bfcl run tune test chromium soak search check format format-check lint types imports docs bench lock clean

help: ## Print this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-14s %s\n", $$1, $$2 }' Makefile

setup: $(READY) ## Install the locked packages and gdcb itself into .venv

bfcl: $(BFCL) ## Fetch the questions of bfcl-eval, for gdcb run tools --variant mis

run: $(READY) ## Run the whole experiment on short-term rentals and write its report
	$(BIN)/gdcb run str

tune: $(READY) $(BFCL) ## Tune all methods of all instances anew (an hour on two cores; NAMES="dosing ...")
	OPENBLAS_NUM_THREADS=1 $(BIN)/python -m gdcb.protocol.tuning $(NAMES)

# As root with apt-get, as in a container, the browser is installed; elsewhere, or with CHROMIUM=no,
# the tests of pages are skipped, and the last line says so.
# Two workers on two cores: products that start threads of their own would only wait for each other.
test: $(READY) $(BFCL) ## Run the tests and the doctests, without the soak tests
	@if [ "$(CHROMIUM)" != no ] && [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null; then \
		$(MAKE) --no-print-directory chromium || true; fi
	OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 $(BIN)/python -m pytest -n 2 --dist worksteal

chromium: ## Install Chromium, in which pages are tested, from Debian's packages
	@command -v chromium-headless-shell >/dev/null || command -v chromium >/dev/null || \
	command -v chromium-browser >/dev/null || { set -e; \
		as_root=""; [ "$$(id -u)" = 0 ] || as_root="sudo"; \
		echo "Installing Chromium with apt-get, once, for the tests of pages; CHROMIUM=no leaves it out."; \
		$$as_root apt-get update -qq; \
		for name in chromium-headless-shell chromium; do \
			$$as_root env DEBIAN_FRONTEND=noninteractive \
				apt-get install -y -qq --no-install-recommends $$name >/dev/null && break; done; \
		command -v $$name >/dev/null; }

soak: $(READY) $(BFCL) ## Run the long tests, and search every property for a counterexample
	$(BIN)/python -m pytest -m soak
	$(MAKE) search

# Property tests have fixed examples in the tests; here each gets 50 times as many, at random, within 10 minutes.
SEARCH ?= 50
search: $(READY) $(BFCL) ## Search every property test for a counterexample (SEARCH=50 times the examples)
	OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 GDCB_SEARCH=$(SEARCH) \
		$(BIN)/python -m pytest -n 2 --dist worksteal -m "hypothesis and not soak"

check: format-check lint types imports test docs ## Run all that CI checks

format: $(READY) ## Reformat the code and mend what ruff can
	$(BIN)/ruff format $(CODE)
	$(BIN)/ruff check --fix $(CODE)

format-check: $(READY) ## Check the formatting
	$(BIN)/ruff format --check $(CODE)

lint: $(READY) ## Lint
	$(BIN)/ruff check $(CODE)

types: $(READY) ## Check the types
	$(BIN)/mypy $(CODE)

imports: $(READY) ## Check that imports point inwards
	$(BIN)/lint-imports --no-logo

docs: $(READY) ## Build the documentation into site/, warnings being errors
	$(BIN)/mkdocs build --strict --quiet
	@echo "Open site/index.html in a browser."

bench: $(READY) $(PEERS) ## Run the benchmarks against the peers (ARGS="...")
	OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 MKL_NUM_THREADS=1 $(BIN)/python -m benchmarks $(ARGS)

lock: $(UV) ## Remake the lock files (UPGRADE=--upgrade for newer versions)
	$(COMPILE) $(UPGRADE) pyproject.toml --extra dev --extra domains -o requirements.lock
	$(COMPILE) $(UPGRADE) benchmarks/requirements-peers.in -o benchmarks/requirements-peers.lock
	$(COMPILE) $(UPGRADE) --no-deps benchmarks/requirements-peers-alone.in \
		-o benchmarks/requirements-peers-alone.lock
	$(COMPILE) $(UPGRADE) --no-deps benchmarks/requirements-bfcl.in \
		-o benchmarks/requirements-bfcl.lock
	@! grep -nE '://|^ *-(i|f|-index-url|-extra-index-url|-find-links) ' \
		requirements.lock benchmarks/requirements-*.lock

clean: ## Remove what was installed, built and cached
	rm -rf .venv .uv .peers .bfcl site dist gdcb-out .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

$(READY): requirements.lock pyproject.toml | $(UV)
	@test -x $(BIN)/python || $(UV) venv --quiet --clear --python .uv/bin/python .venv
	$(UV) pip sync --quiet --python $(BIN)/python --require-hashes requirements.lock
	$(UV) pip install --quiet --python $(BIN)/python --no-deps --no-build-isolation --editable .
	@$(UV) pip check --quiet --python $(BIN)/python
	@touch $@

$(PEERS): benchmarks/requirements-peers.lock benchmarks/requirements-peers-alone.lock | $(UV)
	@test -x .peers/bin/python || $(UV) venv --quiet --clear --python .uv/bin/python .peers
	$(UV) pip sync --quiet --python .peers/bin/python --require-hashes benchmarks/requirements-peers.lock
	@$(UV) pip install --quiet --python .peers/bin/python --require-hashes --no-deps --no-build-isolation \
		-r benchmarks/requirements-peers-alone.lock || \
		echo "No C++ compiler, it seems: benchmarking without contextualbandits and obp." >&2
	@touch $@

$(BFCL): benchmarks/requirements-bfcl.lock | $(UV)
	@test -x .bfcl/bin/python || $(UV) venv --quiet --clear --python .uv/bin/python .bfcl
	$(UV) pip install --quiet --python .bfcl/bin/python --require-hashes --no-deps \
		-r benchmarks/requirements-bfcl.lock
	@touch $@

$(UV):
	@command -v "$(PYTHON)" >/dev/null || { \
		echo "gdcb needs Python 3.11 or later, and there is no '$(PYTHON)' here." >&2; exit 1; }
	@"$(PYTHON)" -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { \
		echo "gdcb needs Python 3.11 or later; '$(PYTHON)' is $$("$(PYTHON)" --version 2>&1)." >&2; \
		echo "Name another one: make PYTHON=python3.12" >&2; exit 1; }
	@"$(PYTHON)" -c 'import ensurepip, venv' 2>/dev/null || { \
		echo "'$(PYTHON)' cannot make virtual environments: it lacks ensurepip." >&2; \
		echo "On Debian and Ubuntu: apt install python3-venv" >&2; exit 1; }
	"$(PYTHON)" -m venv --clear .uv
	.uv/bin/python -m pip install --quiet --disable-pip-version-check uv==$(UV_VERSION)
