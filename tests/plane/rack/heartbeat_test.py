# SPDX-License-Identifier: MIT
"""Heartbeats and extensions (rack-protocol 6.3 and 6.4)."""
import unittest

from harness import SECOND, VISIBILITY, Case, each, ref


class Heartbeat(Case):
    OPTIONS = Case.FAST

    def held(self, w, rack, **more):
        """A lease that the rack holds."""
        lease = w.submit(rack.tiers[0], **more)
        self.assertGranted(rack.lease(), lease)
        return lease

    def stops(self, rack, *leases):
        return rack.beat(running=leases).value["stop"]

    @each
    def test_a_beat_says_how_the_rack_is(self, w):
        """R056"""
        rack = w.rack(["a", "b"], beat=False)
        w.server.advance(5 * SECOND)
        rack.beat(healthy=False, version="1.2.3", boot="boot-7")
        seen = rack.seen()
        self.assertEqual((seen["healthy"], seen["agentVersion"], seen["lastBoot"]), (False, "1.2.3", "boot-7"))
        self.assertEqual(seen["lastSeenAt"], seen["enrolledAt"] + 5 * SECOND)
        self.assertEqual((seen["tiers"], seen["capacity"]), (["a", "b"], 2))
        w.server.advance(5 * SECOND)
        rack.beat(boot="")
        self.assertEqual((rack.seen()["healthy"], rack.seen()["lastBoot"]), (True, ""))

    @each
    def test_a_cancelled_lease_is_to_stop(self, w):
        """R057"""
        rack = w.rack([w.name("t")])
        lease = self.held(w, rack)
        self.assertEqual(self.stops(rack, lease), [])
        w.cancel(lease)
        self.assertEqual(self.stops(rack, lease), [ref(lease)])

    @each
    def test_a_superseded_lease_is_to_stop(self, w):
        """R058"""
        rack = w.rack([w.name("t")])
        lease = self.held(w, rack)
        w.supersede(lease)
        self.assertEqual(self.stops(rack, lease), [ref(lease)])

    @each
    def test_an_unknown_lease_is_to_stop(self, w):
        """R059: also by half of its name."""
        rack = w.rack([w.name("t")])
        lease = self.held(w, rack)
        unknown = [{"repo": "nowhere", "leaseId": lease["leaseId"]}, {"repo": lease["repo"], "leaseId": "x"},
                   {"repo": "", "leaseId": ""}]
        self.assertEqual(self.stops(rack, *unknown), unknown)

    @each
    def test_a_lease_of_another_rack_is_to_stop(self, w):
        """R060"""
        tier = w.name("t")
        rack, other = w.rack([tier]), w.rack([tier])
        lease = self.held(w, rack)
        w.server.advance(VISIBILITY + 1)
        self.assertGranted(other.lease(), lease)
        self.assertEqual(self.stops(rack, lease), [ref(lease)])
        self.assertEqual(self.stops(other, lease), [])

    @each
    def test_a_completed_lease_is_not_to_stop(self, w):
        """R061"""
        rack = w.rack([w.name("t")])
        lease = self.held(w, rack)
        self.assertEqual(rack.complete(lease).value["disposition"], "recorded")
        self.assertEqual(self.stops(rack, lease), [])

    @each
    def test_a_lapsed_lease_is_not_to_stop(self, w):
        """R062: nor is one that was never claimed."""
        rack = w.rack([w.name("t")])
        lease = self.held(w, rack)
        pending = w.submit(w.name("t"))
        w.server.advance(VISIBILITY + 1)
        self.assertEqual(self.stops(rack, lease, pending), [])

    @each
    def test_stops_keep_their_order(self, w):
        """R063: and are answered as often as they are asked."""
        rack = w.rack([w.name("t")])
        kept, gone, dead = self.held(w, rack), self.held(w, rack), self.held(w, rack)
        w.cancel(dead)
        w.supersede(gone)
        unknown = {"repo": "r", "leaseId": "l"}
        self.assertEqual(self.stops(rack, gone, unknown, kept, dead, gone, kept),
                         [ref(gone), unknown, ref(dead), ref(gone)])

    @each
    def test_a_beat_moves_no_deadline(self, w):
        """R067"""
        rack = w.rack([w.name("t")])
        lease = self.held(w, rack)
        before = w.view(lease)
        w.server.advance(30 * SECOND)
        rack.beat(running=[lease])
        after = w.view(lease)
        self.assertEqual((after["deadlineAt"], after["version"]), (before["deadlineAt"], before["version"]))


class Extend(Case):
    OPTIONS = Case.FAST

    @each
    def test_the_holder_moves_the_deadline(self, w):
        """R064: and is not seen by that."""
        tier = w.name("t")
        rack, lease = w.rack([tier]), w.submit(tier)
        grant = self.assertGranted(rack.lease(), lease)
        seen = rack.seen()["lastSeenAt"]
        w.server.advance(20 * SECOND)
        self.assertIs(rack.extend(lease).value, True)
        self.assertEqual(w.view(lease)["deadlineAt"], grant["visibilityDeadline"] + 20 * SECOND)
        self.assertEqual(rack.seen()["lastSeenAt"], seen)

    @each
    def test_nobody_else_does(self, w):
        """R065"""
        tier = w.name("t")
        rack, other, lease = w.rack([tier]), w.rack([tier]), w.submit(tier)
        self.assertIs(rack.extend(lease).value, False, "pending")
        self.assertGranted(rack.lease(), lease)
        self.assertIs(other.extend(lease).value, False)
        self.assertIs(rack.extend({"repo": "r", "leaseId": "l"}).value, False)
        for end in (w.cancel, w.supersede, rack.complete):
            ended = w.submit(tier)
            self.assertGranted(rack.lease(), ended)
            end(ended)
            self.assertIs(rack.extend(ended).value, False)

    @each
    def test_a_lapsed_lease_can_be_extended(self, w):
        """R066"""
        tier = w.name("t")
        rack, lease = w.rack([tier]), w.submit(tier)
        self.assertGranted(rack.lease(), lease)
        w.server.advance(2 * VISIBILITY)
        self.assertIs(rack.extend(lease).value, True)
        self.assertEqual(w.view(lease)["view"], "claimed")

    @each(forms=("json",))
    def test_a_stale_attempt_holds_nothing(self, w):
        """Section 19; null is the same as absent, and in a ref it is unknown (section 20)."""
        tier = w.name("t")
        rack, lease = w.rack([tier]), w.submit(tier)
        grant = self.assertGranted(rack.lease(), lease)
        self.assertIs(rack.extend(lease, grant["attempt"]).value, True)
        self.assertIs(rack.extend(lease, "0198c0de-0000-7000-8000-000000000000").value, False)
        self.assertIs(rack.call("lease/extend", {**ref(lease), "attempt": None}).value, True)
        reply = rack.call("lease/watch", {"leases": [{**ref(lease), "attempt": grant["attempt"]}]})
        self.assertEqual((reply.status, reply.code), (400, "bad_request"))
        self.assertIn("attempt", reply.message)


if __name__ == "__main__":
    unittest.main()
