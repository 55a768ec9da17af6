# `make` lists the targets.
.DEFAULT_GOAL := help
SHELL := bash
.SHELLFLAGS := -euo pipefail -c

CLUSTER_PARTS := etcd kube-apiserver
REAL_PARTS := $(CLUSTER_PARTS) prometheus
HELM_PARTS := $(CLUSTER_PARTS) helm
ALERT_PARTS := prometheus alertmanager
STACK_PARTS := $(REAL_PARTS) alertmanager terraform-provider-kubernetes
DEPLOY_PARTS := $(HELM_PARTS) prometheus-operator actionlint
ORACLE_PARTS := $(CLUSTER_PARTS) terraform-provider-kubernetes terraform-provider-kubernetes-1.13
# The tests find the programs themselves. These variables only test whether the programs are available.
HAVE_ASSETS = { [ -x "$${KUBEBUILDER_ASSETS:-}/kube-apiserver" ] && [ -x "$${KUBEBUILDER_ASSETS:-}/etcd" ]; }
# Tests whose programs are missing are skipped with a message. REQUIRE_ALL=1 makes that an error.
skipped = { read -r what; echo "SKIPPED: $$what"; [ -z "$(REQUIRE_ALL)" ]; } <<<
can_have = { command -v go >/dev/null || parts/build --check $(1) >/dev/null; }

.PHONY: help
help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-20s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

.PHONY: test
test: lint test-fast test-cluster ## run lint, test-fast and test-cluster

.PHONY: lint
lint: ## check the format and run clippy
	cargo fmt --check
	cargo clippy --all-targets --quiet -- -D warnings
	cargo clippy --test cluster --test chaos --test real --quiet -- -D warnings

.PHONY: test-fast
test-fast: ## run the tests without a cluster
	cargo test --quiet --lib --bins --test it --test fuzz

run_cluster = cargo test --test cluster -- --test-threads=2

.PHONY: test-cluster
test-cluster: ## run the tests with a real kube-apiserver and etcd
	@if $(HAVE_ASSETS); then \
	  $(run_cluster); \
	elif $(call can_have,$(CLUSTER_PARTS)); then \
	  parts/build $(CLUSTER_PARTS) >/dev/null; \
	  $(run_cluster); \
	else \
	  $(skipped) "the tests on a real API server. They need Go to build etcd and kube-apiserver, or KUBEBUILDER_ASSETS."; \
	fi

.PHONY: test-real
test-real: bench-quick chaos-quick ## run bench-quick, chaos-quick and the tests with kubectl, Prometheus, Chromium, Terraform and Helm, and of chart, manifests and image
	@if command -v python3 >/dev/null && $(call can_have,$(CLUSTER_PARTS)); then \
	  parts/build $(CLUSTER_PARTS) >/dev/null; \
	  cargo test --test real -- --test-threads=1 declared::applied declared::table; \
	else \
	  $(skipped) "the tests with a real kubectl. They need python3 on the path, and Go to build it."; \
	fi
	@if $(call can_have,$(REAL_PARTS)); then \
	  parts/build $(REAL_PARTS) >/dev/null; \
	  cargo test --test real -- --test-threads=2 prometheus web_config dashboards; \
	else \
	  $(skipped) "the tests with a real Prometheus. They need Go to build it."; \
	fi
	@if $(call can_have,$(ALERT_PARTS)); then \
	  parts/build $(ALERT_PARTS) >/dev/null; \
	  cargo test --test real -- --test-threads=2 alerts; \
	else \
	  $(skipped) "the tests of the alerts. They need Go to build Prometheus and Alertmanager."; \
	fi
	@$(MAKE) --no-print-directory stack-test
	@if command -v chromedriver >/dev/null && command -v chromium >/dev/null; then \
	  if command -v npm >/dev/null || parts/build --check axe-core >/dev/null; then \
	    parts/build axe-core >/dev/null; \
	    cargo test --test real -- --test-threads=1 browser; \
	  else \
	    $(skipped) "the tests of accessibility. They need npm to install axe."; \
	    cargo test --test real -- --test-threads=1 browser --skip accessibility; \
	  fi; \
	else \
	  $(skipped) "the tests in a real browser. They need chromium and chromedriver (Debian: chromium, chromium-driver)."; \
	fi

	@if command -v terraform >/dev/null && command -v python3 >/dev/null && $(call can_have,$(ORACLE_PARTS)); then \
	  parts/build $(ORACLE_PARTS) >/dev/null; \
	  cargo test --test real -- --test-threads=1 terraform_table oracle demo_state terraform_source; \
	else \
	  $(skipped) "the tests with a real Terraform. They need terraform and python3 on the path, and Go to build its Kubernetes provider."; \
	fi

	@if $(call can_have,$(HELM_PARTS)); then \
	  parts/build $(HELM_PARTS) >/dev/null; \
	  cargo test --test real -- --test-threads=1 helm_source demo_release declared::helm; \
	else \
	  $(skipped) "the tests with a real Helm. They need Go to build it."; \
	fi
	@if $(call can_have,$(DEPLOY_PARTS)); then \
	  parts/build $(DEPLOY_PARTS) >/dev/null; \
	  if command -v npm >/dev/null || parts/build --check dockerfile-utils >/dev/null; then \
	    parts/build dockerfile-utils >/dev/null; \
	    cargo test --test real -- --test-threads=2 deploy; \
	  else \
	    $(skipped) "the test of the Dockerfile. It needs npm to install its linter."; \
	    cargo test --test real -- --test-threads=2 deploy --skip dockerfile; \
	  fi; \
	else \
	  $(skipped) "the tests of chart, manifests and workflows. They need Go to build Helm and an API server."; \
	fi
	@if command -v buildah >/dev/null && command -v podman >/dev/null && command -v runc >/dev/null && command -v apt-get >/dev/null && \
	    [ "$$(id -u)" = 0 ] && $(call can_have,$(CLUSTER_PARTS)); then \
	  parts/build $(CLUSTER_PARTS) >/dev/null; \
	  cargo test --test real -- image; \
	else \
	  $(skipped) "the test of the image. It needs root, buildah, podman, runc and apt-get, and Go to build an API server."; \
	fi
	@if command -v terraform >/dev/null && $(call can_have,$(ORACLE_PARTS) $(HELM_PARTS)); then \
	  parts/build $(ORACLE_PARTS) $(HELM_PARTS) >/dev/null; \
	  cargo test --test real -- --test-threads=1 all_sources; \
	else \
	  $(skipped) "the test with all sources at once. It needs terraform on the path, and Go to build Helm and Terraform's Kubernetes provider."; \
	fi

.PHONY: oracle
oracle: ## compare drift by Terraform and by the exporter, for hundreds of edits and two providers; prints a matrix
	parts/build $(ORACLE_PARTS) >/dev/null
	cargo test --test real -- --test-threads=1 --nocapture oracle

.PHONY: terraform-table
terraform-table: ## update the table of Terraform types from the provider's schema; review the diff
	parts/build $(ORACLE_PARTS) >/dev/null
	UPDATE_TABLE=1 cargo test --quiet --test real terraform_table

.PHONY: declared
declared: ## compare drift by kubectl diff and by the exporter, for applied objects and Helm releases; prints two matrices
	parts/build $(HELM_PARTS) >/dev/null
	DECLARED_EDITS=all cargo test --test real -- --test-threads=1 --nocapture declared::applied declared::helm

.PHONY: declared-table
declared-table: ## update the table of declared fields from the API server's schemas and answers; review the diff
	parts/build $(CLUSTER_PARTS) >/dev/null
	UPDATE_TABLE=1 cargo test --quiet --test real declared::table

.PHONY: demo
demo: ## run the demo, without a cluster
	cargo run --release -- demo

.PHONY: stack
stack: ## run API server, Terraform, exporter, Prometheus and Alertmanager locally until Ctrl-C
	@if command -v terraform >/dev/null && $(call can_have,$(STACK_PARTS)); then \
	  parts/build $(STACK_PARTS) >/dev/null; \
	  exec cargo test --quiet --test real -- --ignored --exact --nocapture stack::by_hand; \
	else \
	  echo "make stack needs terraform on the path, and Go to build the rest." >&2; \
	  exit 1; \
	fi

.PHONY: stack-test
stack-test: ## test the way from an edit to a page and its resolution, with all real programs
	@if command -v terraform >/dev/null && $(call can_have,$(STACK_PARTS)); then \
	  parts/build $(STACK_PARTS) >/dev/null; \
	  cargo test --test real -- --test-threads=1 stack; \
	else \
	  $(skipped) "the test from an edit to a page. It needs terraform, and Go to build the rest."; \
	fi

.PHONY: demo-shots
demo-shots: ## update the screenshots in docs/images with a real Chromium
	cargo build --release
	docs/images/shoot target/release/drift-exporter

.PHONY: dashboards
dashboards: ## update dashboards/*.json from their descriptions; review the diff
	UPDATE_DASHBOARDS=1 cargo test --quiet --test it dashboards_are_what_their_descriptions_say

.PHONY: dashboard-pictures
dashboard-pictures: ## update the pictures of the dashboards in docs/images with data of a real Prometheus
	parts/build $(REAL_PARTS) >/dev/null
	UPDATE_PICTURES=1 cargo test --quiet --test real dashboards

.PHONY: demo-state
demo-state: ## update the demo's state and objects with real Terraform; review the diff
	parts/build $(ORACLE_PARTS) >/dev/null
	UPDATE_STATE=1 cargo test --quiet --test real demo_state

.PHONY: demo-release
demo-release: ## update the demo's release and objects with real Helm; review the diff
	parts/build $(HELM_PARTS) >/dev/null
	UPDATE_RELEASE=1 cargo test --quiet --test real demo_release

.PHONY: bench
bench: ## compare CPU and memory with kube-state-metrics on a real API server; prints a table
	parts/build $(CLUSTER_PARTS) kube-state-metrics >/dev/null
	cargo build --profile dist
	DRIFT_BENCH_PROGRAM=$(CURDIR)/target/dist/drift-exporter cargo bench --bench side_by_side --profile bench-driver

run_bench_quick = cargo bench --quiet --bench quick --profile bench-quick

# How many mutated inputs each parser reads.
FUZZ_CASES ?= 1000000

# glibc returns freed memory at once, so that each case is measured from the same memory.
release_memory = MALLOC_TRIM_THRESHOLD_=131072 MALLOC_MMAP_THRESHOLD_=131072

.PHONY: fuzz
fuzz: ## FUZZ_CASES=…: mutate inputs of every parser; fails on a panic, on a case over 1 s or 64 MiB, and on one that never ends
	FUZZ_CASES=$(FUZZ_CASES) $(release_memory) cargo test --profile fuzz --test fuzz -- --nocapture

# The build of bench-quick: optimised, and shared with it.
run_chaos = cargo test --quiet --profile bench-quick --test chaos

.PHONY: chaos
chaos: ## CHAOS_ROWS=…: faults, hostile input and load with their bounds, half an hour; prints a table
	parts/build $(CLUSTER_PARTS) >/dev/null
	$(run_chaos)

.PHONY: chaos-quick
chaos-quick: ## the short form of chaos, at most 4 minutes
	@if $(HAVE_ASSETS); then \
	  CHAOS_QUICK=1 $(run_chaos); \
	elif $(call can_have,$(CLUSTER_PARTS)); then \
	  parts/build $(CLUSTER_PARTS) >/dev/null; \
	  CHAOS_QUICK=1 $(run_chaos); \
	else \
	  $(skipped) "the rows of chaos. They need Go to build etcd and kube-apiserver, or KUBEBUILDER_ASSETS."; \
	fi

.PHONY: bench-quick
bench-quick: ## instruction counts on fixed inputs; fails if a row needs over 5 % more than its committed baseline
	@if command -v valgrind >/dev/null && [ "$$(uname -m)" = x86_64 ]; then \
	  $(run_bench_quick); \
	else \
	  $(skipped) "the instruction counts. They need valgrind, on x86_64."; \
	fi

.PHONY: bench-quick-baseline
bench-quick-baseline: ## write the baseline of bench-quick again; read the diff
	UPDATE_BASELINE=1 $(run_bench_quick)

.PHONY: schema
schema: ## update the JSON Schema and the reference of the settings file
	cargo run --quiet -- check --schema > docs/settings.schema.json
	UPDATE_REFERENCE=1 cargo test --quiet --test it settings_reference

.PHONY: golden
golden: ## update the golden files; review the diff
	UPDATE_GOLDEN=1 cargo test --quiet --test it golden

.PHONY: chart
chart: ## copy alerts, dashboards and the settings schema into the chart
	UPDATE_CHART=1 cargo test --quiet --test it -- deploy::the_chart_has deploy::the_schema_of

.PHONY: install-yaml
install-yaml: chart ## update deploy/install.yaml and deploy/kustomize from the rendered chart; review the diff
	parts/build helm >/dev/null
	UPDATE_INSTALL=1 cargo test --quiet --test real deploy::manifests

ENGINE ?= docker

.PHONY: test-image
test-image: ## IMAGE=…: test that an image runs unprivileged with a read-only root; ENGINE is docker (default) or podman
	$(ENGINE) run --rm --network none --read-only --cap-drop ALL --security-opt no-new-privileges $(IMAGE) check --pre
	test "$$($(ENGINE) inspect --type image --format '{{.Config.User}}' $(IMAGE))" = 65532:65532

.PHONY: release-notes
release-notes: ## VERSION=…: print the changelog entry of a version
	@awk -v version="$(VERSION)" '/^## / {inside = $$2 == version || $$2 == "[" version "]"; if (inside) {found = 1; next}} inside {print} END {exit !found}' CHANGELOG.md
