#!/usr/bin/env bash
# Regenerates everything that is generated: deepcopy, CRDs, the manager's rights,
# the chart as the sandbox uses it, and the docs' pages that are made from the code. CI
# fails when this leaves a diff.
set -euo pipefail
cd "$(dirname "$0")/.."

(cd hack/tools && GOWORK=off go build -o ../../bin/ tool)
PATH=$PWD/bin:$PATH
chart=charts/macfleet

controller-gen object paths=./api/...
controller-gen crd paths=./api/... output:crd:artifacts:config=$chart/crds

# A manager compares the cluster's CRDs with its own by these.
version=$(awk '$1 == "appVersion:" { print $2 }' $chart/Chart.yaml)
for crd in $chart/crds/*.yaml; do
	awk -v version="$version" -v digest="$(sha256sum <"$crd" | cut -c1-16)" '{ print }
		/^  annotations:$/ { print "    macfleet.dev/crd-digest: \"" digest "\""; print "    macfleet.dev/crd-version: " version }' "$crd" >"$crd.new"
	mv "$crd.new" "$crd"
done

# Markers beside the code say what each part of the manager needs. The markers' namespace
# "fleet" stands for the release's own.
controller-gen rbac:roleName=macfleet-manager paths=./internal/controller/... paths=./cmd/manager/... output:rbac:stdout |
	hack/chart-rbac.awk >$chart/templates/manager-rbac.yaml

rendered=sandbox/world/rendered
helm template macfleet $chart --namespace macfleet-system --values sandbox/world/values.yaml >$rendered/chart.yaml
cat $chart/crds/*.yaml >$rendered/crds.yaml

# Pages that are what the code says of itself: phases, steps, questions, flags, commands, CRDs
# and values.
go test ./charts ./cmd/macfleet ./cmd/manager ./internal/converge ./internal/converge/doctor ./internal/host -run 'TestThePageOf' -pages >&2
