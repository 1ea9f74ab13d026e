# macfleet. `make demo` shows it; `make test` proves it.

export GOFLAGS := -trimpath $(filter-out -trimpath,$(GOFLAGS))

BIN        := bin
TOOLS      := cd tools && GOWORK=off go tool
CONTROLLER_GEN := GOWORK=off go tool -modfile=tools/go.mod controller-gen

.PHONY: generate
generate: ## regenerate deepcopy, CRDs, RBAC and the sandbox's rendering of the chart
	hack/generate.sh
