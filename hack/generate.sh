#!/bin/sh
# Regenerates everything that is generated. CI fails when this leaves a diff.
set -eu
cd "$(dirname "$0")/.."

controller_gen=$(GOWORK=off go tool -modfile=tools/go.mod -n controller-gen)

"$controller_gen" object paths=./api/...
"$controller_gen" crd paths=./api/... output:crd:artifacts:config=charts/macfleet/crds
