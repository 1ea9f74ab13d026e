# macfleet. `make demo` shows it; `make test` proves it.

# One set of flags everywhere: builds with and without -trimpath share no cache.
export GOFLAGS := -trimpath $(filter-out -trimpath,$(GOFLAGS))

# Nor do builds with and without cgo, which only the race detector needs.
export CGO_ENABLED := 0
RACE := CGO_ENABLED=1 go test -race

VERSION ?= v0.1.0-dev
LDFLAGS := -s -w -X main.version=$(VERSION)

# grpc's tracing calls methods by name, after which the linker has to keep every
# method of the agent: half as many bytes again.
AGENT_TAGS := -tags grpcnotrace

.DEFAULT_GOAL := help

.PHONY: help
help: ## show this
	@awk -F':.*## ' '/^[a-z-]+:.*## /{printf "  make %-16s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

.PHONY: demo
demo: bin/macfleet ## watch pool Macs become nodes, run Pods, and go back wiped
	bin/macfleet sandbox demo

# What decides and what acts, with everything outside simulated in memory: no sandbox, no
# control plane, and no package for minutes even where the machine is busy. test/house holds the first two.
UNIT := ./api/... ./charts/... ./cmd/... ./internal/... ./test/docs

.PHONY: unit
unit: ## the quick tests, while you work: seconds, once built
	go test -short -timeout 3m $(UNIT)
	go test -count=1 ./test/house # which reads what no kept result knows of

.PHONY: check
check: fmt check-generated lint vet unit ## before a commit: format, generated files, lint, vet, the quick tests

.PHONY: test
test: check-generated lint vet agent-size test-go ## everything CI runs: generated files, lint, vet, unit, recorded and end-to-end tests

# The first of the seeds that are new with each commit: make prints it with the command.
FRESH := $(shell if h=$$(git rev-parse --short=5 HEAD 2>/dev/null); then printf '%d\n' 0x$$(echo $$h | cut -c1-5); else date +%s; fi)

# What is long is played in parts, another one with each commit: see test/parttest. make test PART= plays all.
test-go: export PART = $(FRESH)/6
# make vet has looked; go test would again, and at all dependencies, with the race detector's code in them.
test-go: export GOFLAGS += -vet=off

# A kept result knows nothing of the programs that a test builds: hence -count=1. Most
# packages that take minutes are at the end of the alphabet: sorted backwards, they begin first.
GO_TEST := $(RACE) -timeout 100m -count=1

# After which a run of chance that hangs ends, with what each goroutine waits for.
LIMIT ?= 12h

# Histories make much that they throw away: a third less of the time with more room for it.
SCHEDULES := GOGC=800 go test ./test/schedule -timeout $(LIMIT)

.PHONY: chromium
chromium: # which the tests of the board look with
	-hack/chromium.sh # without one, that package fails

.PHONY: test-go
test-go: chromium ## the Go tests, race detector on
	$(GO_TEST) -p 4 $$(go list ./... | grep -v /test/ | sort -r) # which wait for timers more than they work
	go test -count=1 -run TestMany ./internal/agent/server -streams 10000
	$(GO_TEST) -p 3 $$(go list ./test/... | grep -v /test/schedule | sort -r)
	$(RACE) -timeout 30m ./test/schedule -run 'TestSchedules|TestSameSeed' -schedules 20
	$(SCHEDULES) -schedules 500
	$(SCHEDULES) -run 'TestSchedules$$' -schedules 250 -from $(FRESH)
	cd sandbox/controlplane && go test -timeout 30m ./...
	cd test/clusterapi && GOWORK=off go test -timeout 30m . # that no spec is forgotten
	cd test/alerts && GOWORK=off go test -timeout 30m ./... # the rules on written series; make alerts has some fire in a sandbox
	cd hack/site && GOWORK=off go test ./...
	cd hack/release && GOWORK=off go test -timeout 30m ./... # but for make release-test, which builds everything twice

# With QUICK=1 a few of everything, below bench/quick, to try the machinery: its figures say nothing.
BENCHED = bench$(if $(QUICK),/quick)
BENCH = -folder $(BENCHED) $(if $(QUICK),$(1))

.PHONY: bench
bench: chromium agent-size bin/hollowkubelet bin/inmemoryprovider ## all figures, each beside its peer, below bench/: 45 minutes of two quiet cores; QUICK=1 tries it in a few
	go run ./test/bench/gotest $(call BENCH,-runs 1)
	go run ./test/bench $(call BENCH,-hosts 30 -machines 20 -frees 10 -waiting 5 -peer 10s -lists 1 -replicas 10 -scale-runs 1)
	go run ./test/bench/agent $(call BENCH,-pods 5 -idle 10s)
	go run ./test/bench/kubelet $(call BENCH,-pods 3 -execs 10 -lines 20 -burst 10 -megabytes 8 -idle 10s) $(if $(IDLE),-idle $(IDLE))
	go run ./test/bench/converge $(call BENCH,-runs 1 -macs 3)
	go run ./test/bench/leader $(call BENCH,-runs 1)
	go run ./test/bench/report -to $(BENCHED)/figures.md $(BENCHED)/*.json

# Cluster API's own provider for tests at scale, from the module of its specs: a minute of one core the first time.
.PHONY: bin/inmemoryprovider
bin/inmemoryprovider:
	cd test/clusterapi && GOWORK=off go build -ldflags '-s -w' -o $(CURDIR)/bin/inmemoryprovider sigs.k8s.io/cluster-api/test/infrastructure/docker

# Kubernetes' own kubelet, from the control plane's module: five minutes of one core the first time.
.PHONY: bin/hollowkubelet
bin/hollowkubelet:
	cd test/oracle/hollowkubelet && go build -ldflags '-s -w' -o $(CURDIR)/bin/hollowkubelet .

.PHONY: bench-kubelet
bench-kubelet: agent-size bin/hollowkubelet ## measure the agent beside Kubernetes' own kubelet: Pods, exec, logs, port-forward, at rest
	go run ./test/bench/kubelet $(if $(IDLE),-idle $(IDLE))

.PHONY: figures
figures: ## take what make bench wrote below bench/ into docs/figures/, and write the tables of docs/figures.md from there
	go run ./test/bench/report $(wildcard bench/*.json)

N ?= 5000
FROM ?= 1

.PHONY: chaos
chaos: N = 1000
chaos: ## N rounds of chance against node agents, of seeds from FROM on; a seed alone: SEED=7
	$(RACE) -timeout $(LIMIT) ./test/chaos -run TestChaos -v -rounds $(N) -from $(FROM) -outage 120s $(if $(SEED),-seed $(SEED))

.PHONY: cuts
cuts: ## all cuts of bootstraps and rolls over SSH, and all bugs that chaos is to catch, of which make test plays a part
	$(RACE) -timeout 3h -v ./test/stage0 -run TestCutsOverSSHEndAsIfThereWereNone
	$(RACE) -timeout 3h -v ./test/chaos -run TestCatches

.PHONY: schedule
schedule: ## N histories of hosts, of seeds from FROM on; prints steps, steps/s and the seeds
	$(SCHEDULES) -run TestSchedules -v -schedules $(N) -from $(FROM)

FUZZ ?= 30s

.PHONY: fuzz
fuzz: ## each fuzz test looks for new inputs for FUZZ, one after the other
	hack/fuzz.sh $(FUZZ)

CONFORMANCE := bin/conformance

.PHONY: conformance
conformance: ## Kubernetes' own end-to-end suite on simulated Macs; ONLY='Kubectl exec' runs the specs of that name
	go test -count=1 -timeout 3h -v ./test/conformance -run TestKubernetesOwnSuite -args -report-dir $(CURDIR)/$(CONFORMANCE) \
		-table $(CURDIR)/docs/conformance.md $(if $(ONLY),-only '$(ONLY)',-whole)

.PHONY: capi-specs
capi-specs: ## Cluster API's own end-to-end specs on simulated Macs; ONLY='Node drain' runs the specs of that name
	go test -count=1 -timeout 3h -v ./test/conformance -run TestClusterAPIsOwnSpecs -args -report-dir $(CURDIR)/bin/capi-specs \
		-table $(CURDIR)/docs/conformance.md $(if $(ONLY),-only '$(ONLY)',-whole)

.PHONY: oracle
oracle: bin/hollowkubelet ## the same Pods on Kubernetes' own kubelet and on Macs, and what differs; PODS, SEED and MACS vary it
	go test -count=1 -timeout 2h -v ./test/oracle -run TestOracle -args -hollow $(CURDIR)/bin/hollowkubelet \
		$(if $(PODS),-pods $(PODS)) $(if $(SEED),-seed $(SEED)) $(if $(MACS),-macs $(MACS))

SOAK ?= 24h

.PHONY: scale
scale: ## a thousand hosts and Machines: claims, roll-outs, mass releases, ten minutes without the vendor, managers killed; SIZES and OUTAGE vary it
	go run ./test/scale -patience 2h $(if $(SIZES),-sizes $(SIZES)) $(if $(OUTAGE),-outage $(OUTAGE))
	go run ./test/bench/plot bench/scale-run.json bench/scale.svg

.PHONY: soak
soak: bin/alerts ## a fleet is busy for SOAK of the vendor's clock, 24 hours in half an hour; bench/ gets what it used, and the dashboards; SEED=7 varies it
	go test -count=1 -timeout 3h -v ./test/e2e -run 'TestSoak$$' -args -soak $(SOAK) -soak-figures $(CURDIR)/bench \
		-alerts $(CURDIR)/bin/alerts -soak-pictures $(CURDIR)/bench $(if $(SEED),-soak-seed $(SEED))

bin/alerts: $(wildcard test/alerts/*.go test/alerts/go.*)
	cd test/alerts && GOWORK=off go build -o ../../bin/alerts .

.PHONY: alerts
alerts: bin/alerts ## alerts of the chart fire in a sandbox with their fault, as Prometheus evaluates them
	cd test/alerts && GOWORK=off go test -timeout 30m ./...
	go test -count=1 -timeout 1h -v ./test/e2e -run TestAlertsFire -args -alerts $(CURDIR)/bin/alerts

# The modules beside the main one, but for those of Kubernetes' own control plane and kubelet: to
# look at the little that is ours in them, vet and linter would analyse all of Kubernetes.
MODULES := hack/release hack/site test/alerts test/clusterapi
# Of the linters, these look at our own lines alone.
FILE_BY_FILE := copyloopvar,errcheck,errorlint,gocritic,ineffassign,misspell,revive,unconvert
in-modules = @set -e; for module in $(MODULES); do echo "$$module: $(1)"; (cd $$module && GOWORK=off $(1)); done

.PHONY: vet
vet: ## vet every package, for Linux and for macOS
	go vet ./...
	GOOS=darwin GOARCH=arm64 go vet ./...
	$(call in-modules,go vet ./...)

.PHONY: build
build: bin/macfleet ## the CLI, the manager, the agent and the suite of its driver, below bin/
	go build -ldflags '$(LDFLAGS)' -o bin/manager ./cmd/manager
	GOOS=darwin GOARCH=arm64 go build $(AGENT_TAGS) -ldflags '$(LDFLAGS)' -o bin/tart-kubelet ./cmd/tart-kubelet
	GOOS=darwin GOARCH=arm64 go build $(AGENT_TAGS) -ldflags '$(LDFLAGS)' -o bin/driver-suite ./test/driversuite

.PHONY: bin/macfleet
bin/macfleet:
	go build -ldflags '$(LDFLAGS)' -o bin/macfleet ./cmd/macfleet

# 45 MB: what a Mac downloads over SSH at first contact.
.PHONY: agent-size
agent-size: ## the agent is one static darwin/arm64 file of at most 45 MB
	GOOS=darwin GOARCH=arm64 go build $(AGENT_TAGS) -ldflags '$(LDFLAGS)' -o bin/tart-kubelet ./cmd/tart-kubelet
	@size=$$(wc -c < bin/tart-kubelet); echo "tart-kubelet: $$size bytes"; test $$size -le 45000000

RELEASE = cd hack/release && GOWORK=off go run . $(1) -root ../.. -out ../../dist $(2)

.PHONY: image
image: ## the manager's image as an OCI layout in dist/image, without a daemon; PUSH=registry/name pushes it
	$(call RELEASE,image,-version $(VERSION))
	$(if $(PUSH),$(call RELEASE,push,$(PUSH)))

bin/helm: hack/tools/go.mod hack/tools/go.sum
	cd hack/tools && GOWORK=off go build -o ../../bin/helm helm.sh/helm/v4/cmd/helm

.PHONY: release-dry-run
release-dry-run: bin/helm ## all files of a release in dist/, offline: image, chart, clusterctl's files, CLI, sandbox, SBOM, checksums
	$(call RELEASE,dist,-version $(VERSION) -helm ../../bin/helm)

.PHONY: release-test
release-test: bin/helm ## a release of this commit made twice has the same bytes, its sandbox runs without Go, and a registry that has it installs it by docs/install.md
	cd hack/release && GOWORK=off go test -count=1 -timeout 60m -v . -run TestRelease -long

bin/hugo: hack/site/go.mod hack/site/go.sum
	cd hack/site && GOWORK=off go build -o ../../bin/hugo github.com/gohugoio/hugo

bin/mermaid/LICENSE: hack/site/mermaid.sh
	hack/site/mermaid.sh bin/mermaid

.PHONY: site
site: bin/hugo bin/mermaid/LICENSE ## the docs as a site in site/, with search; a link that leads nowhere fails it
	cd hack/site && ../../bin/hugo --quiet --destination ../../site --cleanDestinationDir
	cd hack/site && GOWORK=off go run . ../../site

.PHONY: site-test
site-test: site chromium ## the site's diagrams are drawn and its reference fits a screen, as a real Chromium sees them
	cd hack/site && GOWORK=off go test -count=1 . -site $(CURDIR)/site

.PHONY: generate
generate: ## regenerate deepcopy, CRDs, RBAC, the sandbox's rendering of the chart, and pages of the docs
	hack/generate.sh

GENERATED := api charts sandbox/world/rendered docs/operate/phases.md docs/operate/steps.md $(addprefix docs/reference/,api.md cli.md manager.md values.md)
digest = $$(find $(GENERATED) -type f | LC_ALL=C sort | xargs sha256sum | sha256sum)

.PHONY: check-generated
check-generated: ## fail when generated files are not up to date
	@set -e; before=$(digest); hack/generate.sh; after=$(digest); \
	if [ "$$before" != "$$after" ]; then \
		git --no-pager diff --stat -- $(GENERATED); \
		echo "generated files were not up to date; they are now: look at them and commit"; exit 1; fi

# Built anew only when its modules change.
bin/golangci-lint: hack/lint/go.mod hack/lint/go.sum
	cd hack/lint && GOWORK=off go build -o ../../bin/golangci-lint github.com/golangci/golangci-lint/v2/cmd/golangci-lint

.PHONY: fmt
fmt: bin/golangci-lint ## format the Go code, as gofumpt does
	bin/golangci-lint fmt ./...

.PHONY: lint
lint: bin/golangci-lint ## golangci-lint with .golangci.yml
	bin/golangci-lint run ./...
	$(call in-modules,$(CURDIR)/bin/golangci-lint run ./...)
	cd sandbox/controlplane && $(CURDIR)/bin/golangci-lint run --enable-only $(FILE_BY_FILE) ./...
