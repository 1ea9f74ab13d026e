#!/usr/bin/env bash
# Runs a command beside busy loops, as on a machine that others use: hack/busy.sh 8 make test
set -euo pipefail
count=${1:?usage: hack/busy.sh LOOPS COMMAND...}
shift
loops=()
for ((i = 0; i < count; i++)); do
	while :; do :; done &
	loops+=($!)
done
trap 'kill "${loops[@]}"' EXIT
"$@"
