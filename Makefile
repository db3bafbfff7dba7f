# ringmq: few targets, each with its time budget on two cores.
#
#   make run     build and serve: name server 9876, broker 10911, data under ./data
#   make build   bin/ringmq
#   make test    all tests, with third-party clients; under 10 minutes
#   make race    the same packages under the race detector (without the clients); under 10 minutes
#   make lint    gofmt, go vet, staticcheck; under 3 minutes
#   make prove   long seeds and fuzzing; under 25 minutes
#   make fuzz    every fuzz target for FUZZTIME (10s)
#   make bench   benchmarks beside the code, and the node beside bare loops
#   make compare the node beside a stock broker 5.5.0 (JDK 17, Maven): tables and plots in perf/reports/; half an hour

SHELL     := bash
GO        ?= go
FUZZTIME  ?= 10s
VERSION   ?= $(shell git describe --tags --always --dirty 2>/dev/null || echo unknown)
export CGO_ENABLED = 0

.PHONY: run build test test-node test-clients race lint prove fuzz bench compare test-report clean

run: build
	@exec bin/ringmq serve --data data

build:
	@$(GO) build -trimpath -ldflags "-s -w -X main.version=$(VERSION)" -o bin/ringmq ./cmd/ringmq

test: test-node test-report test-clients

test-node:
	@.ci/gotest -timeout 15m ./...

# Stock Java and Go clients against the built binary. The module is nested so that its dependencies never reach the node.
# -count=1: the test cache does not see that the binary has changed.
test-clients: build
	@RINGMQ_BIN=$(CURDIR)/bin/ringmq .ci/gotest -C perf/interop -count=1 -timeout 15m ./...

# The report is a nested module, too: its plotting library is in nobody's binary.
test-report:
	@.ci/gotest -C perf/report -timeout 5m ./...

race:
	@CGO_ENABLED=1 .ci/gotest -race -timeout 20m ./...

lint:
	@bad=$$(gofmt -l $$(git ls-files '*.go')); if [ -n "$$bad" ]; then echo "gofmt -w these:"; echo "$$bad"; exit 1; fi
	@$(GO) vet ./...
	@$(GO) -C perf/interop vet ./...
	@$(GO) -C perf/report vet ./...
	@$(GO) tool staticcheck ./...
	@echo "lint: ok"

# Budget: crash seeds and the rigs on loop-mounted disks 11 min, the comparison's short form 1 min, fuzzing 8 min.
prove:
	@RINGMQ_PROVE=1 .ci/gotest -count=1 -timeout 40m -run 'Crash|EverySync|PowerCut|LostPage|DiskFull|TestKill|TornTail|Soak' ./store/... ./node/...
	@RINGMQ_PROVE=1 .ci/gotest -count=1 -timeout 10m -run TestShortForm ./perf/versus
	@$(MAKE) --no-print-directory fuzz FUZZTIME=15s

fuzz:
	@.ci/fuzz $(FUZZTIME)

bench:
	@$(GO) test -run '^$$' -bench . -benchmem ./...
	@$(MAKE) --no-print-directory build
	@$(GO) run ./perf/compare -rounds 5

# BASELINE=perf/baseline/x.json compares with an earlier run. To keep one: cp perf/reports/latest.json perf/baseline/x.json
# COMPARE holds flags of perf/versus, such as COMPARE='-rounds 1 -for 300ms -works 64x16'.
compare: build
	@$(GO) run ./perf/versus -bin bin/ringmq -out perf/reports/latest.json $(COMPARE)
	@$(GO) -C perf/report run . -in $(CURDIR)/perf/reports/latest.json -out $(CURDIR)/perf/reports $(if $(BASELINE),-baseline $(abspath $(BASELINE)))

clean:
	@rm -rf bin build
