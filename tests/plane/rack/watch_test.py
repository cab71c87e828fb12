# SPDX-License-Identifier: MIT
"""The cancellation watch (rack-protocol 6.8)."""
import time
import unittest

from harness import SECOND, SOON, VISIBILITY, Case, each, ref

HELD = ("--rack-watch-window-ms", "20000")


class Watch(Case):
    def held(self, w, rack):
        lease = w.submit(rack.tiers[0])
        self.assertGranted(rack.lease(), lease)
        return lease

    @each(*HELD)
    def test_what_must_stop_already_is_answered_at_once(self, w):
        """R126: all of it, in order."""
        rack = w.rack([w.name("t")])
        live, dead = self.held(w, rack), self.held(w, rack)
        w.cancel(dead)
        unknown = {"repo": "r", "leaseId": "l"}
        began = time.monotonic()
        self.assertEqual(rack.watch(unknown, live, dead, unknown).reply().value["stop"], [unknown, ref(dead), unknown])
        self.assertEqual(rack.watch().reply().value["stop"], [])
        self.assertLess(time.monotonic() - began, SOON)

    @each("--rack-watch-window-ms", "400")
    def test_a_watch_over_live_leases_comes_back_empty(self, w):
        """R127"""
        rack = w.rack([w.name("t")])
        lease = self.held(w, rack)
        began = time.monotonic()
        self.assertEqual(rack.watch(lease).reply().value["stop"], [])
        self.assertGreaterEqual(time.monotonic() - began, 0.39)

    @each(*HELD)
    def test_a_cancellation_ends_it(self, w):
        """R128: and so does whatever else says stop."""
        tier = w.name("t")
        rack, other = w.rack([tier]), w.rack([tier])

        def reclaim(live, lease):
            """The other rack takes up the one that is not extended."""
            w.server.advance(VISIBILITY - SECOND)
            rack.extend(live)
            w.server.advance(SECOND + 1)
            other.beat()
            self.assertGranted(other.lease(), lease)

        for end in (lambda live, lease: w.cancel(lease), lambda live, lease: w.supersede(lease), reclaim):
            rack.beat()
            live, lease = self.held(w, rack), self.held(w, rack)
            watch = rack.watch(live, lease)
            w.server.until_parked()
            rack.extend(live)
            self.assertFalse(watch.is_answered(0.05))
            end(live, lease)
            began = time.monotonic()
            self.assertEqual(watch.reply().value["stop"], [ref(lease)])
            self.assertLess(time.monotonic() - began, SOON)
            w.supersede(live)

    @each(*HELD)
    def test_a_completion_does_not_end_it(self, w):
        """R061: a completed lease is not to stop."""
        rack = w.rack([w.name("t")])
        lease = self.held(w, rack)
        watch = rack.watch(lease)
        w.server.until_parked()
        rack.complete(lease)
        self.assertFalse(watch.is_answered(0.2))
        watch.hang_up()
        w.server.until_parked(0)

    @each(*HELD)
    def test_a_watch_changes_nothing(self, w):
        """R129"""
        rack = w.rack([w.name("t")])
        lease = self.held(w, rack)
        seen, view = rack.seen(), w.view(lease)
        w.server.advance(SECOND)
        watch = rack.watch(lease)
        w.server.until_parked()
        self.assertEqual((rack.seen(), w.view(lease)), (seen, view))
        watch.hang_up()
        w.server.until_parked(0)

    @each(*HELD)
    def test_removal_ends_it(self, w):
        """Section 6.8: 401."""
        rack = w.rack([w.name("t")])
        lease = self.held(w, rack)
        watch = rack.watch(lease)
        w.server.until_parked()
        w.remove(rack)
        self.assertUnauthorized(watch.reply())

    @each(*HELD)
    def test_too_many_leases(self, w):
        """Section 6.8: 256 are taken, 257 are ERR."""
        rack = w.rack()
        unknown = {"repo": "r", "leaseId": "l"}
        self.assertEqual(len(rack.watch(*[unknown] * 256).reply().value["stop"]), 256)
        self.assertRefused(rack.watch(*[unknown] * 257).reply(), 400, "bad_request")

    @each(*HELD)
    def test_the_servers_end_ends_it(self, w):
        """Section 6.8: with nothing to stop."""
        if w.number % 2:
            return
        rack = w.rack([w.name("t")])
        watch = rack.watch(self.held(w, rack))
        w.server.until_parked()
        w.server.process.terminate()
        self.assertEqual(watch.reply().value["stop"], [])


if __name__ == "__main__":
    unittest.main()
