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
# The tests find the programs themselves; here it is only asked whether they can be had at all.
HAVE_ASSETS = { [ -x "$${KUBEBUILDER_ASSETS:-}/kube-apiserver" ] && [ -x "$${KUBEBUILDER_ASSETS:-}/etcd" ]; }
# What cannot be run here is told, and nothing is wrong; unless all of it is wanted: REQUIRE_ALL=1.
skipped = { read -r what; echo "SKIPPED: $$what"; [ -z "$(REQUIRE_ALL)" ]; } <<<
can_have = { command -v go >/dev/null || parts/build --check $(1) >/dev/null; }

.PHONY: help
help: ## this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-20s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

.PHONY: test
test: lint test-fast test-cluster ## format and lints, the fast tests, the tests on a real API server

.PHONY: lint
lint: ## format and lints
	cargo fmt --check
	cargo clippy --all-targets --quiet -- -D warnings
	cargo clippy --test cluster --test real --quiet -- -D warnings

.PHONY: test-fast
test-fast: ## the tests that need no cluster
	cargo test --quiet --lib --bins --test it

run_cluster = cargo test --test cluster -- --test-threads=2

.PHONY: test-cluster
test-cluster: ## the tests on a real kube-apiserver and etcd
	@if $(HAVE_ASSETS); then \
	  $(run_cluster); \
	elif $(call can_have,$(CLUSTER_PARTS)); then \
	  parts/build $(CLUSTER_PARTS) >/dev/null; \
	  $(run_cluster); \
	else \
	  $(skipped) "the tests on a real API server. They need Go to build etcd and kube-apiserver, or KUBEBUILDER_ASSETS."; \
	fi

.PHONY: test-real
test-real: bench-quick ## the tests that need more real programs: kubectl, Prometheus, Chromium, Terraform, Helm; chart and manifests too; instruction counts
	@if command -v python3 >/dev/null && $(call can_have,$(CLUSTER_PARTS)); then \
	  parts/build $(CLUSTER_PARTS) >/dev/null; \
	  cargo test --test real -- --test-threads=1 declared::what declared::table; \
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
	  $(skipped) "the tests of alerts. They need Go to build Prometheus and Alertmanager."; \
	fi
	@$(MAKE) --no-print-directory stack-test
	@if command -v chromedriver >/dev/null && command -v chromium >/dev/null; then \
	  if command -v npm >/dev/null || parts/build --check axe-core >/dev/null; then \
	    parts/build axe-core >/dev/null; \
	    cargo test --test real -- --test-threads=1 browser; \
	  else \
	    $(skipped) "the tests of accessibility. They need npm to get axe."; \
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
	  cargo test --test real -- --test-threads=1 helm_source demo_release declared::charted; \
	else \
	  $(skipped) "the tests with a real Helm. They need Go to build it."; \
	fi
	@if $(call can_have,$(DEPLOY_PARTS)); then \
	  parts/build $(DEPLOY_PARTS) >/dev/null; \
	  if command -v npm >/dev/null || parts/build --check dockerfile-utils >/dev/null; then \
	    parts/build dockerfile-utils >/dev/null; \
	    cargo test --test real -- --test-threads=2 deploy; \
	  else \
	    $(skipped) "the test of the Dockerfile. It needs npm to get its linter."; \
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
	  cargo test --test real -- --test-threads=1 five_sources; \
	else \
	  $(skipped) "the test with all sources at once. It needs terraform on the path, and Go to build Helm and Terraform's Kubernetes provider."; \
	fi

.PHONY: oracle
oracle: ## what Terraform itself calls drift, beside what we do, for some hundred edits and two providers; prints a matrix
	parts/build $(ORACLE_PARTS) >/dev/null
	cargo test --test real -- --test-threads=1 --nocapture oracle

.PHONY: terraform-table
terraform-table: ## derive the table of Terraform types anew, from the provider's schema; read the diff
	parts/build $(ORACLE_PARTS) >/dev/null
	UPDATE_TABLE=1 cargo test --quiet --test real terraform_table

.PHONY: declared
declared: ## what kubectl calls drift, beside what we do, for edits of what it applied and what Helm installed; prints two matrices
	parts/build $(HELM_PARTS) >/dev/null
	DECLARED_EDITS=all cargo test --test real -- --test-threads=1 --nocapture declared::what declared::charted

.PHONY: declared-table
declared-table: ## derive the table of what the API server makes of declared fields anew, from its own answers; read the diff
	parts/build $(CLUSTER_PARTS) >/dev/null
	UPDATE_TABLE=1 cargo test --quiet --test real declared::table

.PHONY: demo
demo: ## see it at work, without a cluster
	cargo run --release -- demo

.PHONY: stack
stack: ## everything from real parts on this machine, with its addresses; Ctrl-C stops it all
	@if command -v terraform >/dev/null && $(call can_have,$(STACK_PARTS)); then \
	  parts/build $(STACK_PARTS) >/dev/null; \
	  exec cargo test --quiet --test real -- --ignored --exact --nocapture stack::by_hand; \
	else \
	  echo "make stack needs terraform on the path, and Go to build the rest." >&2; \
	  exit 1; \
	fi

.PHONY: stack-test
stack-test: ## from an edit to the pager and back, through every real part
	@if command -v terraform >/dev/null && $(call can_have,$(STACK_PARTS)); then \
	  parts/build $(STACK_PARTS) >/dev/null; \
	  cargo test --test real -- --test-threads=1 stack; \
	else \
	  $(skipped) "the way from an edit to the pager. It needs terraform, and Go to build the rest."; \
	fi

.PHONY: demo-shots
demo-shots: ## the screenshots in docs/images, with a real Chromium
	cargo build --release
	docs/images/shoot target/release/drift-exporter

.PHONY: dashboards
dashboards: ## write dashboards/*.json anew from their descriptions; read the diff
	UPDATE_DASHBOARDS=1 cargo test --quiet --test it dashboards_are_what_their_descriptions_say

.PHONY: dashboard-pictures
dashboard-pictures: ## draw the pictures of the dashboards in docs/images anew, from what a real Prometheus answers
	parts/build $(REAL_PARTS) >/dev/null
	UPDATE_PICTURES=1 cargo test --quiet --test real dashboards

.PHONY: demo-state
demo-state: ## have real Terraform apply the demo's configuration anew, and keep its state and objects; read the diff
	parts/build $(ORACLE_PARTS) >/dev/null
	UPDATE_STATE=1 cargo test --quiet --test real demo_state

.PHONY: demo-release
demo-release: ## have real Helm install the demo's chart anew, and keep its release and objects; read the diff
	parts/build $(HELM_PARTS) >/dev/null
	UPDATE_RELEASE=1 cargo test --quiet --test real demo_release

.PHONY: bench
bench: ## side by side with kube-state-metrics on a real API server; prints a table
	parts/build $(CLUSTER_PARTS) kube-state-metrics >/dev/null
	cargo build --profile dist
	DRIFT_BENCH_PROGRAM=$(CURDIR)/target/dist/drift-exporter cargo bench --bench side_by_side --profile bench-driver

run_bench_quick = cargo bench --quiet --bench quick --profile bench-quick

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
schema: ## write the settings file's JSON Schema and reference anew
	cargo run --quiet -- check --schema > docs/settings.schema.json
	UPDATE_REFERENCE=1 cargo test --quiet --test it settings_reference

.PHONY: golden
golden: ## write the golden files anew, to be read in the diff
	UPDATE_GOLDEN=1 cargo test --quiet --test it golden

.PHONY: chart
chart: ## copy alerts, dashboards and the schema of settings into the chart
	UPDATE_CHART=1 cargo test --quiet --test it -- deploy::the_chart_has deploy::the_schema_of

.PHONY: install-yaml
install-yaml: chart ## write deploy/install.yaml and deploy/kustomize anew, as real Helm renders the chart; read the diff
	parts/build helm >/dev/null
	UPDATE_INSTALL=1 cargo test --quiet --test real deploy::current::manifests

ENGINE ?= docker

.PHONY: test-image
test-image: ## IMAGE=…: whether an image runs with no rights and a root that cannot be written; by docker, or ENGINE=podman
	$(ENGINE) run --rm --network none --read-only --cap-drop ALL --security-opt no-new-privileges $(IMAGE) check --pre
	test "$$($(ENGINE) inspect --type image --format '{{.Config.User}}' $(IMAGE))" = 65532:65532

.PHONY: release-notes
release-notes: ## VERSION=…: what the changelog says about a version
	@awk -v version="$(VERSION)" '/^## / {inside = $$2 == version || $$2 == "[" version "]"; if (inside) {found = 1; next}} inside {print} END {exit !found}' CHANGELOG.md
