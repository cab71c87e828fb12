#!/bin/sh
# SPDX-License-Identifier: MIT
# Runs the peers' store contract: run.sh DRIVER KINDS. Installs what package-lock.json names, once.
set -eu

LESSOR_STORE_DRIVER=$(realpath "$1")
LESSOR_STORE_KINDS=$2
export LESSOR_STORE_DRIVER LESSOR_STORE_KINDS

cd "$(dirname "$0")"
command -v npm >/dev/null || { echo "no npm: skipped"; exit 77; }
if ! [ node_modules/.package-lock.json -nt package-lock.json ]; then
        npm ci --ignore-scripts
fi
exec npx --no-install vitest run
