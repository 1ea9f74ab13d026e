#!/usr/bin/env bash
# Lets each fuzz test of the root module look for new inputs: hack/fuzz.sh 30s
set -euo pipefail
cd "$(dirname "$0")/.."
grep -rn --include='*_test.go' -oE '^func Fuzz[A-Za-z0-9]*' . | sort | while IFS=: read -r file _ func; do
	name=${func#func }
	echo "== $name in $(dirname "$file")"
	go test -run '^$' -fuzz "^$name\$" -fuzztime "$1" "$(dirname "$file")" </dev/null
done
