#!/bin/sh
# SPDX-License-Identifier: MIT
#
# beast2-tool answers a line for a line: the rendering and the bytes encoded anew, or why not.
set -eu

tool=$1
section=89456173740d0a0500140102010902047265706f00076c656173654964000100
good=${section}0004040172016c

answers=$(printf '%s\n' "RackLeaseRefType $good" "RackLeaseRefType ${good}00" "RackLeaseRefType ${good}0" \
        "NoSuchType $good" '' "RackLeaseRefType" "RackLeaseRefType $section" "ErrorType $good" |
        "$tool" | sed 's/^error: ..*/error/')
expected="{\"repo\":\"r\",\"leaseId\":\"l\"} $good"
for line in 2 3 4 5 6 7 8; do
        expected="$expected
error"
done
if [ "$answers" != "$expected" ]; then
        printf 'expected:\n%s\nanswered:\n%s\n' "$expected" "$answers" >&2
        exit 1
fi
