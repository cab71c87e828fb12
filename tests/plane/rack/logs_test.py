# SPDX-License-Identifier: MIT
"""What guests write to stdout and stderr (rack-protocol 6.7, 10 and 20)."""
import os
import threading
import time
import unittest

from data_support import Held, log_path, restarted
from harness import SECOND, SOON, VISIBILITY, Case, each, function_event

FAST = Case.FAST


class Logs(Case):
    def until_log(self, held, stream, text, attempt=None):
        end = time.monotonic() + SOON
        while held.log(stream, attempt) != text and time.monotonic() < end:
            time.sleep(0.002)
        self.assertEqual(held.log(stream, attempt), text)

    @each(*FAST)
    def test_only_the_holder_may_write(self, w):
        """R122"""
        held, stranger = Held(w, closure=[]), w.rack(["x"])
        self.assertForbidden(stranger.logs(held.lease, ("stdout", "x")))
        self.assertForbidden(stranger.logs({"repo": w.repo, "leaseId": "unknown"}, ("stdout", "x")))
        w.cancel(held.lease)
        self.assertForbidden(held.rack.logs(held.lease, ("stdout", "x")))
        self.assertEqual(held.log("stdout"), "")

    @each(*FAST)
    def test_a_function_has_no_log(self, w):
        """R123"""
        held = Held(w, event=function_event(w.repo))
        self.assertForbidden(held.rack.logs(held.lease, ("stdout", "x")))
        self.assertForbidden(held.rack.logs(held.lease))

    @each(*FAST)
    def test_chunks_are_kept_in_order_as_they_came(self, w):
        """R124: byte for byte (section 20)"""
        held = Held(w, closure=[])
        self.assertIs(held.rack.logs(held.lease, ("stdout", "one\n"), ("stderr", "a"), ("stdout", "two")).value, True)
        self.assertEqual((held.log("stdout"), held.log("stderr")), ("one\ntwo", "a"))
        odd = "\0\ufeff\r\n\u00e9\U0001f600 no end"
        self.assertIs(held.rack.logs(held.lease, ("stdout", odd), ("stderr", ""), ("stdout", "!")).value, True)
        self.assertEqual((held.log("stdout"), held.log("stderr")), ("one\ntwo" + odd + "!", "a"))
        self.assertIs(held.rack.logs(held.lease).value, True)

    @each(*FAST)
    def test_a_repeat_stands_twice(self, w):
        """R124: at least once"""
        held = Held(w, closure=[])
        for _ in range(2):
            self.assertIs(held.rack.logs(held.lease, ("stdout", "again\n")).value, True)
        self.assertEqual(held.log("stdout"), "again\nagain\n")

    @each(*FAST)
    def test_after_a_reclaim_lines_go_to_the_new_attempt(self, w):
        """R125"""
        held = Held(w, closure=[])
        first = held.attempt
        held.rack.logs(held.lease, ("stdout", "first\n"), ("stderr", "err"))
        w.server.advance(VISIBILITY + SECOND)
        second = w.rack([held.tier])
        held.grant(second)
        self.assertForbidden(held.rack.logs(held.lease, ("stdout", "late\n")))
        self.assertIs(second.logs(held.lease, ("stdout", "second\n")).value, True)
        self.assertEqual(held.log("stdout", first), "first\n")
        self.assertEqual(held.log("stdout"), "second\n")
        self.until_log(held, "stderr", "err\ne3: the lease lapsed and went to another rack\n", first)
        self.assertEqual(held.log("stderr"), "")

    @each(*FAST, forms=("json",))
    def test_an_earlier_attempt_writes_nothing(self, w):
        """R125: section 19"""
        held = Held(w, closure=[])
        other = "0199c82c-c000-74ab-9574-0e5af39cba5e"
        self.assertForbidden(held.rack.logs(held.lease, ("stdout", "x"), attempt=other))
        self.assertIs(held.rack.logs(held.lease, ("stdout", "x"), attempt=held.attempt).value, True)

    @each(*FAST)
    def test_many_at_once_lose_nothing(self, w):
        """R124: one request is one append"""
        held, texts = Held(w, closure=[]), [f"{i}: {'x' * 200}\n" for i in range(24)]
        threads = [threading.Thread(target=lambda t=t: held.rack.logs(held.lease, ("stdout", t), ("stdout", t)))
                   for t in texts]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        lines = held.log("stdout").splitlines(keepends=True)
        self.assertEqual(sorted(lines), sorted(texts * 2))
        self.assertEqual(lines[::2], lines[1::2])

    @each(*FAST)
    def test_the_logs_of_a_forgotten_lease_are_removed(self, w):
        """R124: section 18, logs go with what they belong to"""
        held = Held(w, closure=[])
        held.rack.logs(held.lease, ("stdout", "x"), ("stderr", "y"))
        held.complete()
        paths = [log_path(w, held.lease, held.attempt, stream) for stream in ("stdout", "stderr")]
        self.assertTrue(all(os.path.exists(path) for path in paths))
        w.server.advance(16 * 60 * SECOND)
        end = time.monotonic() + SOON
        while any(os.path.exists(path) for path in paths) and time.monotonic() < end:
            time.sleep(0.002)
        self.assertFalse(any(os.path.exists(path) for path in paths))

    def test_what_was_answered_is_there_after_a_kill(self):
        """R124: durable before the answer"""
        def test(w, again):
            held = Held(w, closure=[])
            self.assertIs(held.rack.logs(held.lease, ("stdout", "safe\n")).value, True)
            again(held.rack)
            self.assertEqual(held.log("stdout"), "safe\n")
            self.assertIs(held.rack.logs(held.lease, ("stdout", "more\n")).value, True)
            self.assertEqual(held.log("stdout"), "safe\nmore\n")
        restarted(self, test, kill=True)


if __name__ == "__main__":
    unittest.main()
