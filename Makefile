# Entry points. `make run` and `make test` are all that a newcomer needs; both install what they need.

SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help

# Expensive results are cached outside the tree, so that a fresh clone reuses them.
export HOTDESK_CACHE ?= /var/cache/hotdesk
export HOTDESK_IMAGE_DIR ?= $(HOTDESK_CACHE)/images
export CARGO_TARGET_DIR ?= $(HOTDESK_CACHE)/target
VENV := $(HOTDESK_CACHE)/venv
BENCH := $(HOTDESK_CACHE)/venv-bench/bin/python
BINARY := $(CARGO_TARGET_DIR)/release/hotdesk
PEERS := $(HOTDESK_CACHE)/bench-peers
# The folder in which `deps` installs Rust when there is none.
export PATH := $(PATH):$(or $(CARGO_HOME),$(HOME)/.cargo)/bin

.PHONY: help run test test-fast soak check bench console image image-small deps deps-check deps-package deps-test deps-bench package reproducible

help: ## list the targets
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*## /  make \1\t/' | expand -t 20

run: deps console ## build, start hotdesk and show a computer working
	packaging/dev/side-by-side "cargo build --locked --profile quick --bin hotdesk" "packaging/image/build --variant full"
	packaging/demo/run $(CARGO_TARGET_DIR)/quick/hotdesk

test: deps-test console ## run every check and test
	packaging/dev/side-by-side "$(MAKE) check" "$(MAKE) image image-small"
	HOTDESK_PYTHON=$(VENV)/bin/python packaging/dev/test all

test-fast: deps-test console ## run the tests that need no computer, in minutes
	HOTDESK_PYTHON=$(VENV)/bin/python packaging/dev/test fast

soak: deps-test console image-small ## kill the controller at random moments (ROUNDS=200) and at every step, and run most sampled tests in full
	HOTDESK_ROUNDS=$(or $(ROUNDS),200) HOTDESK_PROOF=full HOTDESK_IMAGE=$(HOTDESK_IMAGE_DIR)/small \
		HOTDESK_PYTHON=$(VENV)/bin/python cargo test --locked --test it -- --nocapture --test-threads 1 \
		crash::rounds crash::points suspension::rounds display::counting agent::bash::a_flood \
		engines::qemu_desktop schemathesis display::fidelity display::crowd templates::catalogue

check: deps-check console ## check format, lints, types of the console, the OpenAPI document and the dependencies
	packaging/dev/console check
	cargo fmt --check
	cargo clippy --locked --workspace --all-targets -- -D warnings
	packaging/dev/openapi/lint
	packaging/dev/supply/check

bench: deps-bench console image image-small ## measure against named peers (QUICK=1: only check that it runs)
	cargo build --locked --release --bin hotdesk
	CARGO_TARGET_DIR=$(PEERS) cargo build --release --locked --manifest-path benches/peers/Cargo.toml
	rm -f $(HOTDESK_CACHE)/bench/*.json
	$(BENCH) benches/cold_start.py $(BINARY) $(HOTDESK_IMAGE_DIR)/full
	$(BENCH) benches/screenshots.py $(BINARY) $(PEERS)/release/peers
	$(BENCH) benches/input.py $(BINARY) $(PEERS)/release/peers
	$(BENCH) benches/memory.py $(BINARY)
	$(BENCH) benches/concurrency.py $(BINARY)
	$(BENCH) benches/terminal.py $(BINARY)
	$(BENCH) benches/proxy.py $(BINARY) $(HOTDESK_IMAGE_DIR)/full
	$(BENCH) benches/chat.py $(BINARY) $(HOTDESK_IMAGE_DIR)/full
	$(BENCH) benches/console.py $(BINARY) $(HOTDESK_IMAGE_DIR)/small
	$(BENCH) benches/latency.py $(BINARY) $(HOTDESK_IMAGE_DIR)/full
	$(BENCH) benches/split.py $(BINARY) $(HOTDESK_IMAGE_DIR)/small
	$(BENCH) benches/vnc.py $(BINARY) $(HOTDESK_IMAGE_DIR)/full
	$(BENCH) benches/events.py $(BINARY) $(HOTDESK_IMAGE_DIR)/small
	$(BENCH) benches/lifecycle.py $(BINARY) $(HOTDESK_IMAGE_DIR)/small
	$(BENCH) benches/commands.py $(BINARY) $(HOTDESK_IMAGE_DIR)/small
	$(BENCH) benches/incus.py $(BINARY) $(HOTDESK_IMAGE_DIR)/small
	$(BENCH) benches/ready.py $(BINARY) $(HOTDESK_IMAGE_DIR)/full
	$(BENCH) benches/templates.py $(BINARY) $(HOTDESK_IMAGE_DIR)/full
	$(BENCH) benches/key_check.py
	$(BENCH) benches/goals.py

console: deps ## build the pages of the console, which the program contains
	packaging/dev/console

image: deps ## build the guest image (cached by a hash of its inputs)
	packaging/image/build --variant full >/dev/null

image-small: deps ## build the small guest image, for tests
	packaging/image/build --variant small >/dev/null

package: deps-package ## build the Debian package, an archive, a bill of materials and checksums (SIGNING_KEY=FILE: signed)
	packaging/dev/build --release
	SIGNING_KEY="$(SIGNING_KEY)" packaging/release $(CARGO_TARGET_DIR)/release/hotdesk

reproducible: deps-package ## build twice in different folders and compare to the byte (PROFILE=quick; release: what packages contain)
	packaging/dev/reproducible $(or $(PROFILE),quick)

deps: ## install what building and running need
	packaging/dev/deps run

deps-check: ## install what `make check` needs
	packaging/dev/deps check

deps-package: ## install what `make package` needs
	packaging/dev/deps package

deps-test: ## install what testing needs
	packaging/dev/deps test

deps-bench: ## install what the benchmarks need
	packaging/dev/deps bench
