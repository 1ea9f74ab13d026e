#!/usr/bin/env bash
# The tests of the board look at it in a real Chromium: find one, or install Debian's.
set -euo pipefail
for name in chromium chromium-browser google-chrome google-chrome-stable; do
  command -v "$name" > /dev/null && exit 0
done
[[ -d "/Applications/Google Chrome.app" ]] && exit 0
if [[ $EUID -ne 0 ]] || ! command -v apt-get > /dev/null; then
  echo "hack/chromium.sh: no Chromium was found, which the tests of the board need: install one (Debian: apt-get install chromium)" >&2
  exit 1
fi
export DEBIAN_FRONTEND=noninteractive
apt-get update -qq
apt-get install -y -qq --no-install-recommends chromium fonts-dejavu-core > /dev/null
