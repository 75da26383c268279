# `make help` has the ten commands of every day, `make help-all` the others. Each sets up what it needs on first use.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
PYTEST := $(BIN)/python -m pytest

# Where it is set, each process that a test starts, and each of pytest's own, would compile all modules anew.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: help help-all setup check format test test-all test-programs node-programs test-real test-node test-deep replay test-failover test-mutants test-versions test-cost test-coverage test-release image test-image demo demo-real demo-node cluster bench bench-scale plugin packages docs manifests release-manifest bundle lock clean

help: # the commands of every day
	@grep -hE '^[a-z-]+:.* ## ' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.* ## /  make \1\t/' | expand -t 20

help-all: # all commands
	@grep -hE '^[a-z-]+:.* ##?#? ' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.* #+ /  make \1\t/' | expand -t 25

setup: $(READY) # a virtual environment with the locked dependencies

$(READY): requirements.lock pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements.lock
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation -e .
	@touch $@

check: $(READY) ## style, types, the layers between packages, the workflows (a minute)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/python -m tests.tools.workflows

format: $(READY) ## what `check` would complain about and a tool can fix
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

# On the simulator a process for each core: tests in line share a scene, and a process that is free takes some of those
# that wait. On a real server a file stays in one process, because its tests share what they have set up there. They wait
# half of the time, so there are four processes; see pytest_collection_modifyitems of tests/conftest.py for the order.
WORKERS := --numprocesses=auto --dist=worksteal
REAL := --numprocesses=4 --dist=loadfile --no-loadscope-reorder -m real

test: $(READY) ## all that Python alone can show: unit tests, laws, controller and plugin on the simulator (5 minutes)
	$(PYTEST) $(WORKERS) -m 'not real'
	@echo 'Not run: what needs a real control plane, real nodes, kubectl, Helm or Prometheus. All of it: make test-all'

test-all: test test-programs node-programs ## `test`, and on a real control plane and real nodes, with kubectl, Helm and Prometheus (20 minutes)
	$(PYTEST) $(REAL)

test-programs: $(READY)
	$(BIN)/python -m tests.beds.control_plane fetch || [ -z "$(CI)" ]
	$(BIN)/python -m tests.beds || [ -z "$(CI)" ]

test-real: test-programs # on a real control plane, with kubectl, Helm and Prometheus
	$(PYTEST) $(REAL) --ignore=tests/real_node

node-programs: $(READY)
	$(BIN)/python -m tests.beds.real_node fetch || [ -z "$(CI)" ]

# With KUBECONFIG on a cluster of this machine that already runs, such as kind; see tests/real_node/bed.py.
test-node: $(if $(KUBECONFIG),$(READY),node-programs) # on real nodes, and with our own image in pods (IMAGE=archive: that one); needs root on Linux
	CLUSTER=$(KUBECONFIG) IMAGE=$(abspath $(IMAGE)) $(PYTEST) tests/real_node $(if $(KUBECONFIG),,--numprocesses=3 --dist=loadfile)

# Random stories: new ones each time, and the same ones again with the SEED that a failure prints.
ifndef SEED
SEED := $(shell od -An -N3 -tu4 /dev/urandom | tr -d ' ')
endif
TESTS ?= tests/properties
FIRST ?= $(SEED)0000
HISTORIES ?= 10000

replay: $(READY) # one history of the simulation, line by line: SEED=n
	$(BIN)/python -m tests.simulation replay $(SEED)

test-deep: $(READY) # ten thousand histories of the whole controller, for PROOF.md; and thousands of runs of the property tests
	$(BIN)/python -m tests.simulation run --first=$(FIRST) --count=$(HISTORIES) --proof=PROOF.md
	PYTHONHASHSEED=$(SEED) $(BIN)/python -m pytest $(foreach test,$(TESTS),'$(test)') --hypothesis-profile=deep --hypothesis-seed=$(SEED)

test-failover: $(READY) # a leader that ends in mid-rollout, fifty times, in every way; a table (6 minutes)
	$(BIN)/python -m tests.beds.control_plane fetch
	$(BIN)/python -m tests.tools.failover --seed=$(SEED)

test-mutants: $(READY) test-programs # changes the pure core in thousands of places, and plants faults elsewhere: what do the tests notice?
	rm -rf mutants
	$(BIN)/mutmut run
	$(BIN)/python -m tests.tools.mutants.survivors
	$(BIN)/python -m tests.tools.mutants

# Each Kubernetes of tests/beds/control_plane/versions, built on first use. CI=true: what is not to be had fails.
VERSIONS := $(notdir $(patsubst %/go.mod,%,$(wildcard tests/beds/control_plane/versions/*/go.mod)))
ON_VERSION := $(patsubst %,tests/%,contract e2e manifests plugin/cluster plugin/real system)
ON_1.30 := tests/manifests tests/contract/test_native_templates.py $(patsubst %,tests/e2e/test_%.py,roles rollout install leader)
ON_1.30 += tests/plugin/real
ON_1.30 += -k 'not (cpu and memory)' # pods/resize came with 1.33

test-versions: $(VERSIONS:%=test-version-%) # installation, rules and rollouts on the oldest Kubernetes, all with a control plane on the newest

test-version-%: $(READY)
	KUBERNETES_VERSION=$* $(BIN)/python -m tests.beds.control_plane fetch
	CI=true KUBERNETES_VERSION=$* $(BIN)/python -m pytest $(or $(ON_$*),$(ON_VERSION))

test-cost: $(READY) # what a decision, an event and a cached pod cost, as ratios to plain dicts, and what progressive fields add; each with a ceiling
	$(BIN)/python -m tests.tools.bench --only decide,progressive

test-coverage: $(READY) # which branches of the pure packages and of controller/runtime their tests leave out; fails below 95 %
	$(BIN)/python -m coverage run -m pytest -m 'not real' $(addprefix tests/unit/controller/,api inplace planner runtime) tests/unit/kubectl_plugin tests/plugin
	$(BIN)/python -m coverage report

test-release: check test-all test-mutants test-deep test-failover test-versions test-cost test-coverage # all of it, as before a release

image: $(READY) ## the image, by docker or podman; where there is none, as an OCI archive in dist/
	$(BIN)/python -m tests.tools.image

test-image: $(READY) # the Containerfile's build, performed in a folder; no container engine is needed
	$(BIN)/python -m pytest tests/tools/image/dry_build.py

demo: $(READY) ## a DaemonSet on 24 simulated nodes, in your terminal
	$(BIN)/python -m tests.tools.demo

demo-real: $(READY) # the same on a real control plane
	$(BIN)/python -m tests.tools.demo --real

demo-node: $(READY) # our image in containers on three real nodes (IMAGE=archive: that one); root on Linux
	$(BIN)/python -m tests.tools.demo.on_nodes $(IMAGE)

cluster: $(READY) ## a real control plane with 24 nodes and the controller, for your kubectl
	$(BIN)/python -m tests.tools.demo --cluster

bench: $(READY) ## ours beside the native DaemonSet controller, as ratios; what test-cost judges, too
	$(BIN)/python -m tests.tools.bench

SCALE := loop,look,deploy,roll,lost,start,memory,crowd

bench-scale: $(READY) # the same on 1,000, 5,000 and 15,000 nodes for docs/cost.md; KRUISE_MANAGER=binary: OpenKruise's, too (2 hours)
	$(BIN)/python -m tests.tools.bench --nodes 1000,5000,15000 --only $(SCALE) --minutes 170 --into docs/cost.json
	$(BIN)/python -m tests.tools.bench.growth

plugin: $(READY) # the kubectl plugin as an archive for this platform, and its krew manifest, in dist/
	$(BIN)/python -m tests.tools.krew $(if $(URL),--url $(URL)) $(if $(HOMEPAGE),--homepage $(HOMEPAGE))

packages: $(READY) # wheel and sdist, as the package index wants them, in dist/
	$(BIN)/python -m tests.tools.packages

docs: $(READY) ## the manuals of metrics, from a running controller, and of the plugin's verbs
	$(BIN)/python -m tests.tools.metrics_manual
	$(BIN)/python -m tests.tools.cli_manual

manifests: $(READY) # what is made of others: PrometheusRule, dashboards, install.yaml, chart, schema; RUNBOOKS=URL: where alerts point to
	$(BIN)/python -m tests.tools.monitoring $(RUNBOOKS)
	$(BIN)/python -m tests.tools.install_yaml
	$(BIN)/python -m tests.tools.chart
	$(BIN)/python -m tests.tools.openapi

release-manifest: $(READY) # dist/install.yaml with the image of a release, IMAGE=NAME:TAG@sha256:…
	$(BIN)/python -m tests.tools.install_yaml --image $(IMAGE)

bundle: $(READY) # all that a site without network needs, in dist/; IMAGE=file adds the image
	$(BIN)/python -m tests.tools.bundle $(if $(IMAGE),--image $(IMAGE))

lock: # bring both locks up to date with pyproject.toml; the runtime's holds what the image installs
	$(PYTHON) -m venv build/lock
	build/lock/bin/python -m pip install --quiet --disable-pip-version-check pip-tools
	build/lock/bin/pip-compile --quiet --extra dev --generate-hashes --allow-unsafe --strip-extras \
		--no-emit-index-url --no-emit-trusted-host --no-emit-find-links --no-header \
		--output-file requirements.lock pyproject.toml
	build/lock/bin/pip-compile --quiet --generate-hashes --allow-unsafe --strip-extras --constraint requirements.lock \
		--no-emit-index-url --no-emit-trusted-host --no-emit-find-links --no-header \
		--output-file requirements-runtime.lock pyproject.toml

clean: ## the virtual environment and all caches of this folder
	rm -rf $(VENV) build dist mutants *.egg-info .pytest_cache .mypy_cache .ruff_cache .hypothesis
