# All commands of this repository. Each sets up what it needs; `make` alone lists them.

SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help
MAKEFLAGS += --no-builtin-rules

venv := .venv
python := $(venv)/bin/python
bench_peers := cachebox diskcache lmdb native_tuckbox pylibmc pymemcache redis tokyocabinet \
	php_apcu perl_fastmmap django_tuckbox django_locmem django_diskcache
lab_installs = $(wildcard lab/*/*/contestant.toml lab/*/*/server.toml lab/*/*/source.toml lab/*/*/host.toml) \
	$(shell find lab/contestants lab/hosts/native -name '*.rs' -o -name Cargo.toml) \
	lab/requirements-contestants.lock lab/Cargo.lock
# Lanes joined by + run at the same time, three at most: they have limits of time for what hangs, but
# judge no speed, and each leaves a core idle now and then. Only one of them may install packages.
lanes := check test-rust+test-musl+$(venv)/contestants \
	test-torture+test-python+test-django+test-wheels+test-bench+test-rig+test-catalogue+lab-smoke \
	test-controls+test-lab+test-drivers+test-fuzz test-reliability
rust_sources = $(shell find crates -name '*.rs' -o -name Cargo.toml) Cargo.toml Cargo.lock

.PHONY: FORCE help setup build demo lab lab-docs docs docs-links test check check-rust check-python prose test-rust test-musl test-torture test-controls test-fuzz hit-ratio scale \
	wheels bare-systems licences test-wheels test-python test-django test-rig test-lab lab-smoke test-drivers test-reliability test-catalogue test-bench bench instructions torture \
	torture-peers valgrind systemd-analyze redis-server format clean

help: ## List the commands.
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 16

$(venv)/made: requirements-dev.lock lab/requirements.lock
	@scripts/require cargo python3 cc
	python3 -m venv $(venv)
	$(python) -m pip install --quiet --disable-pip-version-check \
		-r requirements-dev.lock -r lab/requirements.lock
	@touch $@

$(venv)/built: $(venv)/made $(rust_sources) pyproject.toml
	VIRTUAL_ENV=$(CURDIR)/$(venv) $(venv)/bin/maturin develop --profile dist --features hooks --quiet
	@touch $@

$(venv)/drawing: $(venv)/made benches/requirements.lock
	$(python) -m pip install --quiet --disable-pip-version-check -r benches/requirements.lock
	@touch $@

$(venv)/auditing: $(venv)/made wheels/requirements.lock
	$(python) -m pip install --quiet --disable-pip-version-check -r wheels/requirements.lock
	@touch $@

$(venv)/releasing: $(venv)/auditing wheels/requirements-release.lock
	$(python) -m pip install --quiet --disable-pip-version-check -r wheels/requirements-release.lock
	@touch $@

$(venv)/writing: $(venv)/made docs/requirements.lock
	$(python) -m pip install --quiet --disable-pip-version-check -r docs/requirements.lock
	@touch $@

$(venv)/deploying: $(venv)/made tests/deployments/requirements.lock
	$(python) -m pip install --quiet --disable-pip-version-check -r tests/deployments/requirements.lock
	@touch $@

setup: $(venv)/made ## Make the virtual environment.

build: $(venv)/built ## Build the extension into the virtual environment.

demo: $(venv)/built ## Eight processes on one cache file, compared with what people use today.
	$(python) -m lab demo $(ARGS)

# What cannot be installed does not stop the rest: its rows say so.
lab: $(venv)/built ## Which cache? Five famous comparisons and one workload for all; QUICK=1 for minutes instead of hours.
	-$(python) -m lab install
	$(python) -m lab run $(if $(QUICK),--quick,--full) $(ARGS)

lab-docs: $(venv)/built ## The lab's middle form, about 90 minutes, into docs/lab; continues where it was interrupted.
	$(python) -m lab install --tests
	-$(python) -m lab run --middle --resume $(ARGS)
	$(python) -m lab publish

wheels: $(venv)/releasing ## What a release has: built for all systems, audited, tried with every Python found here.
	$(python) -m wheels build
	$(python) -m wheels audit
	python3 wheels/trial.py

bare-systems: ## After `make wheels`, as root: install them in bare Debians and follow the tutorial, minutes.
	wheels/bare-system.sh amd64 trixie
	wheels/bare-system.sh amd64 forky tests
	wheels/bare-system.sh arm64 trixie

# The version is pinned here, because cargo has no lock file for tools.
cargo_about := 0.9.2
licences: ## Write THIRD-PARTY-LICENSES.txt.
	cargo install --quiet --locked --root target/tools --version $(cargo_about) --features cli cargo-about
	target/tools/bin/cargo-about generate --locked --fail --config wheels/licences/about.toml \
		--manifest-path crates/python/Cargo.toml --output-file THIRD-PARTY-LICENSES.txt wheels/licences/about.hbs

test: ## Everything, lane by lane, with the time that each takes.
	@for lane in $(lanes); do SECONDS=0; together=$$([[ $$lane != *+* ]] || echo --jobs 3 --output-sync=target); \
		$(MAKE) --no-print-directory $$together $${lane//+/ }; echo "make $$lane: $$SECONDS s"; done
	@echo "make test: all lanes passed"

# What installs packages comes first: only one at a time may.
check: $(venv)/drawing $(venv)/auditing $(venv)/writing prose ## Formats, lints, types, prose, the site.
	$(MAKE) --no-print-directory --jobs 2 --output-sync=target check-rust check-python docs

check-rust: $(venv)/made
	cargo fmt --all --check
	cargo clippy --quiet --workspace --all-targets --features tuckbox-engine/hooks,tuckbox-python/hooks -- -D warnings
	cargo fmt --all --check --manifest-path lab/Cargo.toml
	CARGO_TARGET_DIR=lab/target cargo clippy --quiet --manifest-path lab/Cargo.toml --workspace --all-targets -- -D warnings
	cargo fmt --all --check --manifest-path benches/native/Cargo.toml
	cargo clippy --quiet --release --manifest-path benches/native/Cargo.toml --target-dir target/benches -- -D warnings
	cargo fmt --all --check --manifest-path benches/limits/Cargo.toml
	PYO3_PYTHON=$$(realpath $(python)) cargo clippy --quiet --release --manifest-path benches/limits/Cargo.toml \
		--target-dir target/benches/limits -- -D warnings

check-python: $(venv)/built $(venv)/drawing $(venv)/auditing
	$(venv)/bin/ruff check docs/conf.py python tests wheels rig lab reliability benches
	$(venv)/bin/ruff format --check docs/conf.py python tests wheels rig lab reliability benches
	$(venv)/bin/mypy
	$(venv)/bin/mypy --config-file wheels/pyproject.toml -p wheels
	$(venv)/bin/zizmor --quiet --offline --min-severity medium .github
	$(venv)/bin/mypy --config-file rig/pyproject.toml -p rig
	$(venv)/bin/mypy --config-file lab/pyproject.toml -p lab
	$(venv)/bin/mypy --config-file reliability/pyproject.toml -p reliability
	$(venv)/bin/mypy --config-file benches/pyproject.toml -p benches
	$(python) -m reliability document --check
	$(python) -m benches document --check
	$(python) -m benches.scale document --check
	$(python) -m mypy.stubtest tuckbox._engine

docs: $(venv)/built $(venv)/writing ## The documents as a site, into target/site/index.html; each warning is an error.
	$(venv)/bin/sphinx-build --quiet --fresh-env --fail-on-warning --keep-going \
		--doctree-dir target/site-doctrees docs target/site

docs-links: $(venv)/built $(venv)/writing ## Whether the addresses in the documents answer; needs the internet.
	$(venv)/bin/sphinx-build --builder linkcheck --doctree-dir target/site-doctrees docs target/site-links

prose: $(venv)/made ## Words and sentences of documents, comments and docstrings; the rules are in scripts/prose.
	$(venv)/bin/ast-grep scan --report-style short

test-rust: $(venv)/made ## The engine: operations, model, protocol, damage, documentation; the codec.
	scripts/scratch cargo test --profile checked -p tuckbox-arena -p tuckbox-engine -p tuckbox-testkit
	# The build of crates/engine/tests/mutants.sh, which uses it again.
	CARGO_PROFILE_CHECKED_DEBUG=0 CARGO_PROFILE_CHECKED_OPT_LEVEL=1 scripts/scratch cargo test --profile checked -p tuckbox-engine \
		--features hooks,mutants --test protocol --test power_cut --test resize --test gate --test dead_segments
	# One thread: CPython 3.11 can crash when threads that are not its own come in at the same time.
	PYO3_PYTHON=$(CURDIR)/$(python) cargo test --profile checked -p tuckbox-python -- --test-threads=1

test-musl: ## The engine with another C library, musl: files, locks, forks, kills.
	@scripts/require cargo cc
	scripts/scratch crates/engine/tests/systems.sh musl

test-torture: ## Answers that break a promise, and must be caught by the torture.
	@scripts/require cargo cc
	scripts/scratch cargo test --profile checked -p tuckbox-torture --features tuckbox-torture/points

test-controls: $(venv)/made ## Engines that break a promise, and must be caught by the torture.
	scripts/scratch crates/torture/controls.sh
	tests/reliability/controls.sh $(python)

test-fuzz: ## Each fuzz target on a fixed set of inputs; `make torture` searches at random.
	scripts/scratch fuzz/run.sh fixed

# The families of tests/reliability run in test-reliability, with their figures.
# The fixed seed gives a set one order: xdist demands the same list of tests from each process.
test-python: $(venv)/built $(venv)/deploying systemd-analyze redis-server ## The package: its API, semantics, types and processes.
	PYTHONHASHSEED=0 $(venv)/bin/pytest --numprocesses 2 --dist loadfile --ignore=tests/reliability --ignore=tests/drivers

test-django: $(venv)/built ## The backend with Django 4.2; ARGS=6.0 for that version, which needs Python 3.12.
	tests/integrations/django/versions.sh $(if $(ARGS),$(ARGS),4.2 -k "suite and not wrong or on_error or commands or test_processes")

test-wheels: $(venv)/built $(venv)/auditing valgrind ## What pip would build and install: contents, licences, metadata.
	$(venv)/bin/pytest -c wheels/pyproject.toml wheels/tests

test-rig: $(venv)/built ## What the lab, the trials and the benchmarks share; and who imports whom.
	$(venv)/bin/pytest -c rig/pyproject.toml rig/tests

test-reliability: $(venv)/built ## The short lane: every promise on trial, a quarter of an hour.
	scripts/scratch $(python) -m reliability run --lane short $(ARGS)

test-catalogue: $(venv)/built ## The catalogue of promises: what runs it, and what it says.
	$(venv)/bin/pytest -c reliability/pyproject.toml reliability/tests
	$(venv)/bin/pytest tests/reliability/test_records.py

# Rewritten only if LAB_SOURCES names another folder, whose archives must then be built.
$(venv)/lab-sources: FORCE
	@mkdir -p $(@D) && echo "$(LAB_SOURCES)" | cmp --silent - $@ || echo "$(LAB_SOURCES)" > $@

$(venv)/contestants: $(venv)/built $(venv)/lab-sources $(lab_installs)
	$(python) -m lab install --tests || { sleep 30; $(python) -m lab install --tests; }
	@touch $@

test-lab: $(venv)/contestants ## The lab, with contestants and servers that must be caught.
	PYTHONHASHSEED=0 $(venv)/bin/pytest -c lab/pyproject.toml --numprocesses 3 --dist loadfile lab/tests

test-drivers: $(venv)/contestants ## The drivers, on real servers that the tests start and stop; ARGS=--nightly cuts replies at every byte.
	PYTHONHASHSEED=0 $(venv)/bin/pytest --numprocesses 3 --dist loadfile tests/drivers $(ARGS)

lab-smoke: $(venv)/contestants ## Every contestant that can run, 300 checked operations each.
	$(python) -m lab run smoke --smoke

# Lists of packages may be old, or not there at all; and somebody else may be installing.
valgrind systemd-analyze redis-server:
	@command -v $@ > /dev/null || { \
		become=$$([ "$$(id -u)" = 0 ] || echo sudo -n); \
		{ $$become apt-get update -q || true; } && \
		$$become apt-get install -q -y --no-install-recommends -o DPkg::Lock::Timeout=600 $(@:-analyze=); }

test-bench: $(venv)/built $(venv)/drawing valgrind ## The benchmarks: their judgements, their page, and that wrong answers fail them.
	$(python) -c 'from benches import limits, native; limits.build(); native.build()'
	cargo build --quiet --profile dist -p tuckbox-engine --example replay
	$(venv)/bin/pytest -c benches/pyproject.toml benches/tests

# What cannot be installed does not stop the rest: the page says so.
bench: $(venv)/built $(venv)/drawing ## Measure Tuckbox and its peers, into the performance page; ARGS=--replace drops earlier runs; QUICK=1 keeps nothing.
	-$(python) -m lab install $(addprefix --contestant ,$(bench_peers))
	$(python) -m benches run $(if $(QUICK),--quick) $(ARGS)
	$(if $(QUICK),,$(python) -m benches document)

instructions: $(venv)/built valgrind ## What the hot paths execute, by callgrind, compared with the counts that are kept; ARGS=--keep keeps them.
	$(python) -m benches.instructions $(ARGS)

hit-ratio: $(venv)/made ## What the engine keeps, compared with known policies, on recorded traces; TRACES=DIR.
	cargo build --quiet --profile dist -p tuckbox-engine --example replay
	$(python) -m benches.hit_ratio --program target/dist/examples/replay $(if $(TRACES),--traces $(TRACES)) $(ARGS)

scale: $(venv)/built $(venv)/drawing ## What near tiers cost the far one, from 1 to 1,000 machines, into its page; TRACES=DIR.
	cargo build --quiet --profile dist -p tuckbox-engine --example replay
	$(python) -m benches.scale replay $(if $(TRACES),--traces $(TRACES))
	$(python) -m benches.scale measure
	$(python) -m benches.scale document

torture: $(venv)/contestants ## The nightly lane, hours: every promise on trial, and the drivers; goes on where it was interrupted.
	scripts/scratch $(python) -m reliability run --lane nightly --out reliability/records --resume $(ARGS)
	$(MAKE) --no-print-directory test-drivers ARGS=--nightly
	$(python) -m reliability document
	# `make test` tries the same cases each time.
	seed=$$(od -An -N4 -tu4 /dev/urandom); echo "PROPTEST_RNG_SEED=$$((seed))"; export PROPTEST_RNG_SEED=$$((seed)); \
		PROPTEST_CASES=20000 cargo test --profile checked -p tuckbox-engine --test model; \
		PYO3_PYTHON=$(CURDIR)/$(python) cargo test --profile checked -p tuckbox-python -- --test-threads=1
	$(venv)/bin/pytest --hypothesis-profile=default tests/properties tests/integrations/django/test_keys.py

torture-peers: $(venv)/built ## The same oracle on DiskCache, LMDB and Django's filebased backend, minutes.
	$(python) -m pip install --quiet --disable-pip-version-check -c lab/requirements-contestants.lock lmdb
	$(python) -m reliability peers $(ARGS)
	$(python) -m reliability document

format: $(venv)/made ## Format all sources.
	cargo fmt --all
	cargo fmt --all --manifest-path lab/Cargo.toml
	cargo fmt --all --manifest-path benches/native/Cargo.toml
	cargo fmt --all --manifest-path benches/limits/Cargo.toml
	$(venv)/bin/ruff format docs/conf.py python tests wheels rig lab reliability benches
	$(venv)/bin/ruff check --fix-only --quiet python tests wheels rig lab reliability benches

clean: ## Remove what was built.
	cargo clean
	rm -rf lab/target lab/jars lab/built $(venv) .mypy_cache .pytest_cache .ruff_cache .hypothesis
