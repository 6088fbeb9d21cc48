GO ?= go
STATICCHECK_VERSION = v0.8.2

.DEFAULT_GOAL := help

.PHONY: help
help: ## Show this help
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | awk -F ':.*## ' '{printf "  %-12s %s\n", $$1, $$2}'

.PHONY: demo
demo: ## Drive a fleet of orders on embedded SQLite and verify the result (no setup)
	$(GO) run ./examples/fleet

.PHONY: test
test: ## Run all tests with the race detector; RQLITED=/path/to/rqlited adds real clusters, QUORATE_POSTGRES_URL a server
	@if [ -z "$$RQLITED" ] && ! command -v rqlited >/dev/null 2>&1; then \
		echo "note: no rqlited on PATH or in RQLITED, so tests on real clusters are skipped; set RQLITED=/path/to/rqlited to run them"; fi
	@if [ -z "$$QUORATE_POSTGRES_URL" ]; then \
		echo "note: QUORATE_POSTGRES_URL is not set, so tests on PostgreSQL are skipped; make test-postgres starts a server for them"; fi
	$(GO) test -race -timeout 30m ./...

.PHONY: test-postgres
test-postgres: ## Run all tests with a private PostgreSQL in a temporary folder (needs Debian's postgresql, or PGBIN)
	@server=$$(.ci/postgres start) && eval "$$server" && trap '.ci/postgres stop' EXIT && $(MAKE) test

.PHONY: lint
lint: ## Check formatting, vet and staticcheck
	@out=$$(gofmt -l .); if [ -n "$$out" ]; then echo "gofmt would change:"; echo "$$out"; exit 1; fi
	$(GO) vet ./...
	$(GO) run honnef.co/go/tools/cmd/staticcheck@$(STATICCHECK_VERSION) ./...

.PHONY: bench
bench: ## Compare the asynchronous with the synchronous store on embedded SQLite
	$(GO) run ./bench -engine sqlite -mode sync-pool,raw-batch,actor -op commit,load -callers 1,256 -duration 3s

.PHONY: bench-once
bench-once: ## Run every Go benchmark once, to see that they work
	$(GO) test -run '^$$' -bench . -benchtime 1x ./...

.PHONY: chaos
chaos: ## Break a cluster under load for a minute and check the history; set RQLITED for real nodes, ARGS for flags
	$(GO) run ./bench/chaos -duration 1m $(ARGS)

.PHONY: chaos-coordination
chaos-coordination: ## Let processes fight for locks, stop and kill them, and check that nothing is held twice; RQLITED and ARGS as above
	$(GO) run ./bench/chaoscoord -duration 1m $(ARGS)

.PHONY: fuzz
fuzz: ## Fuzz every decoder, FUZZTIME (default 10s) each
	@set -e; for pkg in $$($(GO) list ./...); do \
		for f in $$($(GO) test -list '^Fuzz' $$pkg | grep '^Fuzz' || true); do \
			echo "fuzz $$pkg $$f"; $(GO) test -run '^$$' -fuzz "^$$f\$$" -fuzztime $${FUZZTIME:-10s} $$pkg; \
		done; \
	done

.PHONY: cover
cover: ## Show the coverage of each package
	$(GO) test -cover ./...
