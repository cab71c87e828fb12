#!/bin/sh
# SPDX-License-Identifier: MIT
# exports.sh LIBRARY HEADER...: fails unless the library exports exactly the functions that the public headers declare.
set -eu

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
library=$1
shift
nm -D --defined-only "$library" | awk '{print $NF}' | sed 's/@.*//' | sort -u >"$work/exported"
# Declarations: without comments, macros and inline bodies, every lessor_ name before a parenthesis that is no member.
cat "$@" | tr '\n' '\001' | sed 's|/\*[^*]*\*\+\([^/*][^*]*\*\+\)*/||g' | tr '\001' '\n' |
        awk '/^#/ { while (sub(/\\$/, "")) if ((getline) <= 0) break; next } /^static inline/ { inline = 1 }
             inline { if (/^}/) inline = 0; next } { print }' |
        grep -E '^[a-z]' | grep -v '^typedef' | sed -nE 's/^[^(]*\b(lessor_[a-z0-9_]+)\(.*/\1/p' | sort -u >"$work/declared"
if ! diff -u "$work/declared" "$work/exported" >"$work/difference"; then
        echo "declared (-) and exported (+) differ:" >&2
        grep '^[-+]lessor' "$work/difference" >&2
        exit 1
fi
