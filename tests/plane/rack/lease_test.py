# SPDX-License-Identifier: MIT
"""The lease poll (rack-protocol 6.2)."""
import json
import re
import threading
import time
import unittest

from harness import HOUR, SECOND, SOON, START_MS, VISIBILITY, Case, Refused, digest, each, function_event, ref, task_event

HELD = ("--rack-window-ms", "20000")
FAST = Case.FAST
UUID7 = re.compile(r"^[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$")


class Poll(Case):
    @each("--rack-window-ms", "700")
    def test_an_idle_poll_is_held_and_comes_back_empty(self, w):
        """R038"""
        rack = w.rack([w.name("t")])
        began = time.monotonic()
        self.assertNothing(rack.lease())
        took = time.monotonic() - began
        self.assertGreaterEqual(took, 0.69)
        self.assertLess(took, 0.7 + SOON)

    @each(*FAST)
    def test_a_grant_names_the_lease(self, w):
        """R039"""
        tier = w.name("t")
        event = task_event(w.repo, digest(tier), workspace="shop", name="sum", more=[1, {"a": None}])
        rack, lease = w.rack([tier]), w.submit(tier, event)
        grant = self.assertGranted(rack.lease(), lease)
        self.assertEqual((grant["workspace"], grant["tier"], grant["computeSize"]), ("shop", tier, "serverless"))
        self.assertEqual(json.loads(grant["eventJson"]), event)
        if w.form == "json":
            self.assertEqual(grant["attempt"], w.view(lease)["attempt"])
            self.assertEqual(grant["serverTimeMs"], grant["visibilityDeadline"] - VISIBILITY)
        large = w.submit(tier, computeSize="large")
        self.assertEqual(self.assertGranted(rack.lease(), large)["computeSize"], "large")

    @each(*FAST, forms=("json",))
    def test_a_function_has_no_attempt(self, w):
        """Section 20: null in the grant."""
        tier = w.name("t")
        rack, lease = w.rack([tier]), w.submit(tier, function_event(w.repo))
        grant = self.assertGranted(rack.lease(), lease)
        self.assertIsNone(grant["attempt"])

    @each(*HELD)
    def test_of_two_racks_one_is_granted_a_lease(self, w):
        """R040: waiting or not, and a later lease wakes the other."""
        tier = w.name("t")
        racks = [w.rack([tier]) for _ in range(4)]
        polls = [rack.poll() for rack in racks]
        w.server.until_parked(4)
        leases = []
        for left in (3, 2, 1, 0):
            leases.append(w.submit(tier))
            w.server.until_parked(left)
        got = [poll.reply().value["leaseId"] for poll in polls]
        self.assertEqual(sorted(got), sorted(lease["leaseId"] for lease in leases))

    @each(*HELD)
    def test_many_leases_at_once_go_to_as_many_racks(self, w):
        """R040: no wake is lost, and none is granted twice."""
        tiers = [w.name("t") for _ in range(3)]
        polls = [w.rack(tiers[i % 3:] + tiers[:i % 3]).poll() for i in range(12)]
        w.server.until_parked(12)
        leases = []
        threads = [threading.Thread(target=lambda i=i: leases.append(w.submit(tiers[i % 3]))) for i in range(12)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        got = [poll.reply().value["leaseId"] for poll in polls]
        self.assertEqual(sorted(got), sorted(lease["leaseId"] for lease in leases))

    @each(*FAST)
    def test_another_tier_is_not_granted(self, w):
        """R041"""
        tier = w.name("t")
        rack, lease = w.rack([]), w.submit(tier)
        for tiers in ([], [tier + "x"], [tier.upper()], [""]):
            self.assertNothing(rack.lease(tiers))
        self.assertGranted(rack.lease(["other", tier, tier]), lease)

    @each(*FAST)
    def test_polled_tiers_are_the_truth(self, w):
        """R042: also of one that is refused."""
        rack, old = w.rack(["a"]), w.rack(["a"], version="0.4.0")
        rack.lease(["b", "c", "b"])
        self.assertEqual(rack.seen()["tiers"], ["b", "c", "b"])
        old.lease(["d"])
        self.assertEqual(old.seen()["tiers"], ["d"])

    @each(*FAST)
    def test_an_old_agent_is_told_to_upgrade(self, w):
        """R043"""
        tier = w.name("t")
        rack, lease = w.rack([tier], version="0.4.12"), w.submit(tier)
        reply = rack.lease()
        self.assertRefused(reply, 426, "agent_too_old")
        self.assertIn("0.5.0", reply.message)
        self.assertEqual(w.view(lease)["status"], "pending")

    @each(*FAST)
    def test_versions_are_compared_as_numbers(self, w):
        """R044"""
        for version, passes in (("0.5.0+e3.1.0.85", True), ("0.10.0", True), ("0.5.0-beta", True), ("1", True),
                                ("0.4.9", False), ("0.5", True), ("0.4.9+0.9", False), ("", False), ("5abc", False),
                                ("0.5abc", False), ("x.9.9", True), ("0.6", True)):
            reply = w.rack([w.name("t")], version=version).lease()
            if passes:
                self.assertNothing(reply)
            else:
                self.assertRefused(reply, 426, "agent_too_old")

    @each(*FAST)
    def test_a_beat_with_a_new_version_lifts_that(self, w):
        """R045"""
        tier = w.name("t")
        rack, lease = w.rack([tier], version="0.4.0"), w.submit(tier)
        self.assertRefused(rack.lease(), 426, "agent_too_old")
        rack.beat(version="0.5.0")
        self.assertGranted(rack.lease(), lease)

    @each
    def test_another_event_version_never_gets_that_far(self, w):
        """R046: it is refused at submission; that none is granted is proved below HTTP, by the store's contract."""
        for version in (1, 3, "2", None):
            with self.assertRaises(Refused):
                w.submit(w.name("t"), {**task_event(w.repo, digest("x")), "version": version})

    @each(*FAST, "--rack-repos", "repo0,repo1,repo2,repo3", "--rack-sizes", "small,serverless")
    def test_what_the_gate_refuses_stays_pending(self, w):
        """R047: by repository and by size; and by the version that a lease wants."""
        tier = w.name("t")
        rack = w.rack([tier], version="1.0.0+e3.1.0.80")
        refused = [w.submit(tier, repo="elsewhere"), w.submit(tier, computeSize="large"),
                   w.submit(tier, e3Version="1.0.81")]
        allowed = w.submit(tier, e3Version="1.0.80")
        self.assertGranted(rack.lease(), allowed)
        self.assertNothing(rack.lease())
        self.assertEqual([w.view(lease)["status"] for lease in refused], ["pending"] * 3)

    @each(*FAST)
    def test_the_older_lease_is_granted_first(self, w):
        """R048: to the millisecond, and then by the lease's id (section 8)."""
        tier = w.name("t")
        rack, leases = w.rack([tier]), []
        for _ in range(3):
            leases += sorted((w.submit(tier) for _ in range(3)), key=lambda lease: lease["leaseId"])
            w.server.advance(1)
        for lease in leases:
            self.assertGranted(rack.lease(), lease)

    @each(*FAST)
    def test_owners_take_turns(self, w):
        """R049"""
        tier = w.name("t")
        rack = w.rack([tier])
        for owner in ("ann", "ann", "ann", "bob", "bob", "bob"):
            w.submit(tier, owner=owner)
        owners = []
        for _ in range(6):
            grant = rack.lease().value
            owners.append(next(x["owner"] for x in w.server.control(f"/leases?rack={rack.id}")["leases"]
                               if x["leaseId"] == grant["leaseId"]))
        self.assertIn(owners, (["ann", "bob"] * 3, ["bob", "ann"] * 3))

    @each(*HELD)
    def test_a_held_poll_is_granted_what_is_created(self, w):
        """R050: at once, not at the next look."""
        tier = w.name("t")
        rack = w.rack(["other", tier])
        poll = rack.poll()
        w.server.until_parked()
        began = time.monotonic()
        lease = w.submit(tier)
        self.assertGranted(poll.reply(), lease)
        self.assertLess(time.monotonic() - began, SOON)

    @each(*FAST, "--rack-visibility-ms", "7000")
    def test_the_deadline_is_the_visibility_from_now(self, w):
        """R051"""
        tier = w.name("t")
        rack, lease = w.rack([tier]), w.submit(tier)
        w.server.advance(1234)
        grant = self.assertGranted(rack.lease(), lease)
        view = w.view(lease)
        self.assertEqual(grant["visibilityDeadline"], view["claimedAt"] + 7000)
        self.assertEqual(view["deadlineAt"], grant["visibilityDeadline"])
        self.assertGreater(view["claimedAt"], START_MS)

    @each(*FAST)
    def test_a_task_has_an_attempt_and_a_function_none(self, w):
        """R052"""
        tier = w.name("t")
        rack, task = w.rack([tier]), w.submit(tier)
        self.assertGranted(rack.lease(), task)
        self.assertRegex(w.view(task)["attempt"], UUID7)
        [attempt] = w.inspect(task)["attempts"]
        self.assertEqual((attempt["state"], attempt["rackId"], attempt["bootId"], attempt["startedAt"]),
                         ("running", rack.id, "boot-1", w.view(task)["claimedAt"]))
        function = w.submit(tier, function_event(w.repo))
        self.assertGranted(rack.lease(), function)
        self.assertNotIn("attempt", w.view(function))

    @each(*FAST)
    def test_a_lapsed_lease_is_granted_again_strictly_after_its_deadline(self, w):
        """R053"""
        tier = w.name("t")
        first, second, lease = w.rack([tier]), w.rack([tier]), w.submit(tier)
        self.assertGranted(first.lease(), lease)
        w.server.advance(VISIBILITY)
        second.beat()
        self.assertNothing(second.lease())
        w.server.advance(1)
        self.assertGranted(second.lease(), lease)

    @each(*HELD)
    def test_a_held_poll_is_granted_what_lapses(self, w):
        """R053: the clock wakes it."""
        tier = w.name("t")
        first, second, lease = w.rack([tier]), w.rack([tier]), w.submit(tier)
        self.assertGranted(first.lease(), lease)
        w.server.advance(VISIBILITY - 1000)
        poll = second.poll()
        w.server.until_parked()
        w.server.advance(1001)
        self.assertGranted(poll.reply(), lease)

    @each(*FAST)
    def test_a_reclaim_has_an_attempt_of_its_own(self, w):
        """R054"""
        tier = w.name("t")
        first, second, lease = w.rack([tier]), w.rack([tier]), w.submit(tier)
        first.lease()
        before = w.view(lease)["attempt"]
        w.server.advance(VISIBILITY + 1)
        self.assertGranted(second.lease(), lease)
        now = w.inspect(lease)
        self.assertNotEqual(now["lease"]["attempt"], before)
        old, new = now["attempts"]
        self.assertEqual((old["executionId"], old["state"], old["cause"]), (before, "interrupted", "reclaimed"))
        self.assertEqual((new["executionId"], new["state"], new["rackId"]),
                         (now["lease"]["attempt"], "running", second.id))

    @each(*FAST)
    def test_an_earlier_claimant_is_barred(self, w):
        """Section 17: but for one whose word can be told apart: by its attempt in JSON, by another boot in BEAST2."""
        tier = w.name("t")
        rack, lease = w.rack([tier]), w.submit(tier, attemptLimit=5)
        self.assertGranted(rack.lease(), lease)
        w.server.advance(VISIBILITY + 1)
        if w.form == "json":
            first = w.view(lease)["attempt"]
            grant = self.assertGranted(rack.lease(), lease)
            self.assertIs(rack.extend(lease, first).value, False)
            self.assertIs(rack.extend(lease, grant["attempt"]).value, True)
        else:
            self.assertNothing(rack.lease())
            self.assertGranted(rack.lease(boot="boot-2"), lease)

    @each(*HELD)
    def test_the_servers_end_ends_a_poll(self, w):
        """R055"""
        if w.number % 2:  # a server ends once
            return
        polls = [w.rack([w.name("t")]).poll(), w.rack([], form="json").poll(["a", "b"])]
        w.server.until_parked(2)
        w.server.process.terminate()
        for poll in polls:
            self.assertNothing(poll.reply())


class Delivery(Case):
    @each(*HELD)
    def test_a_dead_poll_claims_nothing(self, w):
        """Section 20: the lease goes to the one who is there, and has spent no attempt."""
        tier = w.name("t")
        dead, alive = w.rack([tier]), w.rack([tier])
        poll = dead.poll()
        w.server.until_parked()
        poll.reset()
        held = alive.poll()
        lease = w.submit(tier)
        self.assertGranted(held.reply(), lease)
        self.assertEqual(w.view(lease)["claimNumber"], w.view(lease)["attemptsSpent"])

    @each(*HELD)
    def test_those_who_wait_wait_in_line(self, w):
        """Whoever has waited longest is granted first; one that has no use for a lease passes it on."""
        tier = w.name("t")
        racks = [w.rack([tier], version=version) for version in ("1.0.0", "1.0.0+e3.1.0.0", "1.0.0+e3.2.0.0")]
        polls = []
        for rack in racks:
            polls.append(rack.poll())
            w.server.until_parked(len(polls))
        fussy = w.submit(tier, e3Version="2.0.0")
        self.assertGranted(polls[2].reply(), fussy)
        self.assertFalse(polls[0].is_answered() or polls[1].is_answered())
        plain = w.submit(tier)
        self.assertGranted(polls[0].reply(), plain)
        plain = w.submit(tier)
        self.assertGranted(polls[1].reply(), plain)

    @each(*HELD)
    def test_a_turn_is_not_lost_on_who_cannot_have_it(self, w):
        """By a drain, ill health or a boot that waits: such racks are passed by, and served once that is over."""
        tier = w.name("t")
        drained, ill, well = w.rack([tier]), w.rack([tier]), w.rack([tier])
        w.server.control("/racks/drain", {"rackId": drained.id, "draining": True})
        ill.beat(healthy=False)
        polls = []
        for rack in (drained, ill, well):
            polls.append(rack.poll())
            w.server.until_parked(len(polls))
        first = w.submit(tier)
        self.assertGranted(polls[2].reply(), first)
        second = w.submit(tier)
        ill.beat()
        self.assertGranted(polls[1].reply(), second)
        third = w.submit(tier)
        w.server.control("/racks/drain", {"rackId": drained.id, "draining": False})
        self.assertGranted(polls[0].reply(), third)

    @each(*HELD)
    def test_one_rack_may_hold_several_polls(self, w):
        """Section 20."""
        tier = w.name("t")
        rack = w.rack([tier])
        polls = [rack.poll() for _ in range(3)]
        w.server.until_parked(3)
        leases = [ref(w.submit(tier)) for _ in range(3)]
        got = [ref(poll.reply().value) for poll in polls]
        self.assertCountEqual(got, leases)


if __name__ == "__main__":
    unittest.main()
