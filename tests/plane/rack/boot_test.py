# SPDX-License-Identifier: MIT
"""Boots and their approval (rack-protocol 3)."""
import unittest

from harness import Case, Refused, each

HELD = ("--rack-window-ms", "20000")
FAST = Case.FAST


class Boots(Case):
    def under_policy(self, w, on=True):
        w.policy(on)
        self.addCleanup(lambda: w.server.process.poll() is None and w.policy(False))

    @each(*FAST)
    def test_the_first_boot_is_adopted(self, w):
        """R030"""
        self.under_policy(w)
        tier = w.name("t")
        rack, lease = w.rack([tier], beat=False), w.submit(tier)
        self.assertIs(rack.beat().value["pendingApproval"], False)
        self.assertGranted(rack.lease(), lease)
        w.policy(False)

    @each(*FAST)
    def test_adoption_does_not_wait_for_the_policy(self, w):
        """R030: the first boot was adopted before there was one."""
        tier = w.name("t")
        rack, lease = w.rack([tier]), w.submit(tier)
        self.under_policy(w)
        self.assertIs(rack.beat().value["pendingApproval"], False)
        self.assertGranted(rack.lease(), lease)
        w.policy(False)

    @each(*FAST)
    def test_an_unapproved_boot_is_granted_nothing(self, w):
        """R031: the boot that the poll names counts, not the one of the last beat."""
        self.under_policy(w)
        tier = w.name("t")
        rack, lease = w.rack([tier]), w.submit(tier)
        self.assertNothing(rack.lease(boot="boot-2"))
        rack.beat(boot="boot-2")
        self.assertGranted(rack.lease(boot="boot-1"), lease)
        w.policy(False)

    @each(*FAST)
    def test_a_poll_before_the_first_beat_is_granted_nothing(self, w):
        """R032: only a beat adopts."""
        self.under_policy(w)
        tier = w.name("t")
        rack = w.rack([tier], beat=False)
        w.submit(tier)
        self.assertNothing(rack.lease())
        self.assertNotIn("approvedBoot", rack.seen())
        w.policy(False)

    @each
    def test_a_new_boot_is_told_that_it_waits(self, w):
        """R033"""
        self.under_policy(w)
        rack = w.rack()
        self.assertIs(rack.beat(boot="boot-2").value["pendingApproval"], True)
        w.approve(rack, "boot-2")
        self.assertIs(rack.beat(boot="boot-2").value["pendingApproval"], False)
        self.assertIs(rack.beat(boot="boot-1").value["pendingApproval"], True)
        w.policy(False)
        self.assertIs(rack.beat(boot="boot-1").value["pendingApproval"], False)

    @each(*HELD)
    def test_approval_leads_to_a_grant_in_the_same_poll(self, w):
        """R034"""
        self.under_policy(w)
        tier = w.name("t")
        rack, lease = w.rack([tier]), w.submit(tier)
        rack.beat(boot="boot-2")
        poll = rack.poll(boot="boot-2")
        w.server.until_parked()
        w.approve(rack, "boot-2")
        self.assertGranted(poll.reply(), lease)
        w.policy(False)

    @each(*HELD)
    def test_lifting_the_policy_leads_to_a_grant_in_the_same_poll(self, w):
        """R034 R036"""
        self.under_policy(w)
        tier = w.name("t")
        rack, lease = w.rack([tier], beat=False), w.submit(tier)
        poll = rack.poll()
        w.server.until_parked()
        w.policy(False)
        self.assertGranted(poll.reply(), lease)

    @each
    def test_only_the_boot_that_was_seen_last_can_be_approved(self, w):
        """R035"""
        rack = w.rack()
        rack.beat(boot="boot-2")
        for boot in ("boot-1", "boot-3", "boot-2 "):
            with self.assertRaises(Refused) as refused:
                w.approve(rack, boot)
            self.assertEqual((refused.exception.status, refused.exception.code), (409, "boot-changed"))
        self.assertEqual(rack.seen()["approvedBoot"], "boot-1")
        w.approve(rack, "boot-2")
        self.assertEqual(rack.seen()["approvedBoot"], "boot-2")

    @each
    def test_without_the_policy_a_new_boot_is_granted_work(self, w):
        """R036"""
        tier = w.name("t")
        rack, lease = w.rack([tier]), w.submit(tier)
        self.assertGranted(rack.lease(boot="boot-9"), lease)

    @each(*FAST)
    def test_a_quarantined_rack_goes_on_with_what_it_holds(self, w):
        """R037"""
        tier = w.name("t")
        rack, lease = w.rack([tier]), w.submit(tier)
        self.assertGranted(rack.lease(), lease)
        self.under_policy(w)
        rack.beat(boot="boot-2", running=[lease])
        self.assertNothing(rack.lease(boot="boot-2"))
        self.assertIs(rack.extend(lease).value, True)
        self.assertIs(rack.logs(lease, ("stdout", "line\n")).value, True)
        self.assertEqual(rack.storage(lease).code, None)
        self.assertEqual(rack.complete(lease).value["disposition"], "recorded")
        w.policy(False)


if __name__ == "__main__":
    unittest.main()
