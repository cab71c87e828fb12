#!/bin/sh
# SPDX-License-Identifier: MIT
# Runs a program beside the reference relay: run.sh PROGRAM ARG... Installs what package-lock.json names, once.
set -eu

here=$(cd "$(dirname "$0")" && pwd)
LESSOR_SERVE_SCRIPT=$here/serve.mjs
export LESSOR_SERVE_SCRIPT
if [ -z "${LESSOR_REFERENCE_RELAY:-}" ] && ! [ "$here/node_modules/.package-lock.json" -nt "$here/package-lock.json" ]; then
        command -v npm >/dev/null || { echo "no npm: skipped"; exit 77; }
        (cd "$here" && npm ci --ignore-scripts)
fi
exec "$@"
