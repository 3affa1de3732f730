# Every target sets up what it needs. Nothing has to be activated, installed or fetched by hand.
SHELL := /bin/sh
.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
MAKEFLAGS += --no-print-directory

VENV := .venv
PY := $(VENV)/bin/python
DEMO_STAMP := $(VENV)/.demo
DEV_STAMP := $(VENV)/.dev
SOURCES := eventstore projector saver langgraph services tests examples benchmarks
PYTEST := $(PY) -m pytest
PIP_OPTIONS := --quiet --disable-pip-version-check
HERMETIC := not services and not chaos and not slow and not benchmarks
SITE := import sysconfig; print(sysconfig.get_path("purelib"))
WHEEL := build/wheel
OLDEST := build/oldest
TEST_IMAGE := python:3.13-bookworm
DEMO := examples.quickstart

# The first Python that is new enough; `make PYTHON=…` chooses another one.
PYTHON ?= $(shell for python in python3 python3.14 python3.13 python3.12 python3.11; do \
	$$python -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && echo $$python && break; done)

.PHONY: help
help: ## show the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## /{printf "  make %-16s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

.PHONY: demo
demo: $(DEMO_STAMP) ## an agent pauses, is killed and goes on; needs Python 3.11 or newer
	@$(PY) -m $(DEMO)

.PHONY: demo-kafka
demo-kafka: $(DEMO_STAMP) ## the same on a real Kafka and Redis, with the projector as a service
	@$(PY) -m services require kafka redis
	@$(PY) -m $(DEMO) --kafka

# Where a JDK or Maven is missing and cannot be installed, a Docker engine will do: the same target,
# run as root in a container whose package manager has both.
.PHONY: test
test: $(DEV_STAMP) ## every test, against a real Kafka and a real Redis; needs a JDK 17+ and Maven, or Docker
	@if $(PY) -m services require kafka redis; then $(MAKE) test-here; \
	elif docker info >/dev/null 2>&1; then $(MAKE) test-in-docker; \
	else exit 1; fi

.PHONY: test-here test-in-docker test-unit test-wheel test-oldest test-services test-conformance
test-here: test-unit test-wheel test-oldest test-services test-conformance

test-in-docker:
	docker run --rm --volume "$(CURDIR)":/source:ro $(TEST_IMAGE) sh -c 'mkdir /repository \
		&& tar -C /source --exclude ./.venv --exclude ./.services --exclude ./build -cf - . \
		| tar -C /repository -xf - && make -C /repository test'

test-unit: $(DEV_STAMP)
	$(PYTEST) -m "$(HERMETIC)" --ignore tests/conformance

# The built wheel without its sources: an environment of its own that sees the development
# environment's packages (after its own, and without the editable install), and a folder without our
# four packages.
test-wheel: $(DEV_STAMP)
	rm -rf $(WHEEL) && mkdir -p $(WHEEL)
	$(PY) -m build --no-isolation --outdir $(WHEEL)/dist . >$(WHEEL)/log || { cat $(WHEEL)/log; exit 1; }
	$(call wheel-environment,$(WHEEL))
	cd $(WHEEL)/run && LGK_WHEEL="$$(echo ../dist/*.whl)" ../venv/bin/python -m pytest -m "$(HERMETIC)" \
		tests/unit tests/test_packaging.py

# What has to do with LangGraph, with the oldest langgraph-checkpoint that the wheel accepts.
test-oldest: test-wheel
	rm -rf $(OLDEST) && mkdir -p $(OLDEST)
	$(call wheel-environment,$(OLDEST),--require-hashes --requirement requirements-oldest.txt)
	cd $(OLDEST)/run && ../venv/bin/python -m pytest -m "$(HERMETIC)" \
		--ignore tests/tools --ignore tests/test_packaging.py --ignore tests/test_sizes.py \
		--ignore tests/contracts --ignore tests/unit/eventstore --ignore tests/unit/projector \
		--ignore tests/test_imports.py --ignore tests/test_docs.py

# $(1): folder; $(2): what to install beside the wheel
define wheel-environment
$(PY) -m venv --without-pip $(1)/venv
$(PY) -c '$(SITE)' >"$$($(1)/venv/bin/python -c '$(SITE)')/development.pth"
$(if $(2),$(PY) -m pip --python $(1)/venv/bin/python install $(PIP_OPTIONS) --ignore-installed $(2))
$(PY) -m pip --python $(1)/venv/bin/python install $(PIP_OPTIONS) --ignore-installed --no-deps $(WHEEL)/dist/*.whl
mkdir $(1)/run && cp -r $(wildcard tests services examples benchmarks docs *.md pyproject.toml) $(1)/run
endef

test-services: $(DEV_STAMP)
	$(PYTEST) -m "(services or chaos or slow) and not benchmarks" --ignore tests/conformance

test-conformance: $(DEV_STAMP)
	$(PYTEST) -m "not benchmarks" tests/conformance

.PHONY: bench
bench: $(DEV_STAMP) ## the benchmarks, beside PostgreSQL and memory
	@$(PY) -m services require kafka redis postgres
	$(PYTEST) -m benchmarks
	$(PY) -m benchmarks

.PHONY: up down
up: ## Kafka, Redis and the projector in Docker, at localhost:9092 and localhost:6379
	docker compose up --detach --wait --build

down: ## stop them and remove their data
	docker compose down --volumes

.PHONY: check
check: $(DEV_STAMP) ## format, lint, types, import contracts, sizes
	$(PY) -m ruff format --check .
	$(PY) -m ruff check .
	$(PY) -m mypy $(wildcard $(SOURCES))
	$(VENV)/bin/basedpyright
	$(VENV)/bin/lint-imports
	$(PYTEST) --quiet tests/test_sizes.py tests/test_imports.py

.PHONY: format
format: $(DEV_STAMP) ## format, and fix what lint can fix
	$(PY) -m ruff format .
	$(PY) -m ruff check --fix .

.PHONY: services-start services-stop
services-start: $(DEV_STAMP) ## start a Kafka and a Redis, print their addresses
	@$(PY) -m services start kafka redis

services-stop: $(DEV_STAMP) ## stop them and remove their data
	@$(PY) -m services stop

# One resolution for every platform and Python; the demo's and the image's are parts of the first.
LOCK := build/lock/bin/uv pip compile pyproject.toml --quiet --upgrade --universal \
	--python-version 3.11 --generate-hashes --no-header --no-annotate \
	--no-emit-index-url --no-emit-find-links

.PHONY: lock
lock: ## resolve the requirements files again
	$(PYTHON) -m venv build/lock && build/lock/bin/python -m pip install --quiet uv
	$(LOCK) --group dev --output-file requirements-dev.txt
	$(LOCK) --group demo --constraint requirements-dev.txt --output-file requirements-demo.txt
	$(LOCK) --constraint requirements-dev.txt --output-file requirements.txt
	$(LOCK) --group oldest --output-file requirements-oldest.txt

# --- environment -------------------------------------------------------------------------------

$(PY):
	@test -n "$(PYTHON)" || { echo "missing on this system: Python 3.11 or newer"; exit 1; }
	@$(PYTHON) -c 'import ensurepip' 2>/dev/null || { \
		test "$$(id -u)" = 0 && command -v apt-get >/dev/null \
			|| { echo "missing on this system: Python's venv module (package python3-venv)"; exit 1; }; \
		echo "installing with apt-get: python3-venv"; \
		apt-get -qq update && DEBIAN_FRONTEND=noninteractive apt-get -qq install --yes python3-venv >/dev/null; }
	$(PYTHON) -m venv $(VENV)

$(DEMO_STAMP): requirements-demo.txt pyproject.toml | $(PY)
	$(PY) -m pip install $(PIP_OPTIONS) --require-hashes -r requirements-demo.txt
	$(PY) -m pip install $(PIP_OPTIONS) --no-deps --no-build-isolation -e .
	@touch $@

$(DEV_STAMP): requirements-dev.txt pyproject.toml | $(PY)
	$(PY) -m pip install $(PIP_OPTIONS) --require-hashes -r requirements-dev.txt
	$(PY) -m pip install $(PIP_OPTIONS) --no-deps --no-build-isolation -e .
	@touch $@ $(DEMO_STAMP)
