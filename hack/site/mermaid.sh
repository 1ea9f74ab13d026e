#!/usr/bin/env bash
# Fetches what draws the site's diagrams, mermaid of npm, with its licence (MIT), into the
# folder that is named. The package is the one of this sum, or none.
set -euo pipefail
version=12.3.0
sha512=e35d774dd5de2c0b0caee27bf4ea452f93bcf8b4c55e142a676eb4ac5ded8149a2340b519b852e99ed3823eeb93d137ac99ebd2787fcad56165bccd193ae5463
out=$1
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
npm pack --silent --pack-destination "$work" "mermaid@$version" > /dev/null
echo "$sha512  $work/mermaid-$version.tgz" | sha512sum --check --quiet
rm -rf "$out"
mkdir -p "$out"
tar -xzmf "$work/mermaid-$version.tgz" -C "$out" --no-same-owner --strip-components=1 --exclude='*.map' \
  package/LICENSE package/dist/mermaid.esm.min.mjs package/dist/chunks/mermaid.esm.min
