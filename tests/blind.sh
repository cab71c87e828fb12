#!/bin/sh
# SPDX-License-Identifier: MIT
# blind.sh FILE...: fails if a library or program refers to a primitive that could open an envelope or make a
# private encryption key. Exit status 0: blind; 1: it sees; 2: it could not be told.
set -u

[ $# -gt 0 ] || { echo "usage: blind.sh FILE..." >&2; exit 2; }
for file in "$@"; do
	symbols=$(nm "$file" 2>/dev/null) && [ -n "$symbols" ] || { echo "blind.sh: cannot list $file" >&2; exit 2; }
	seen=$(printf '%s\n' "$symbols" |
		grep -E '[[:space:]](crypto_box|crypto_secretbox|crypto_secretstream|crypto_scalarmult|crypto_kx|crypto_aead|crypto_stream|stored_keys_(read|load|generate|unseal)|envelope_(open|seal)$)')
	if [ -n "$seen" ]; then
		printf '%s: refers to\n%s\n' "$file" "$seen" >&2
		exit 1
	fi
done
