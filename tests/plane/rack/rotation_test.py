# SPDX-License-Identifier: MIT
"""Rotation of rack tokens (rack-protocol 2)."""
import threading
import unittest

from harness import HOUR, MINUTE, Case, Rack, each

DAY = 24 * HOUR


class Rotation(Case):
    def offer(self, w, rack, age=DAY + 1):
        w.server.advance(age)
        token = rack.beat().value["rotatedToken"]
        self.assertRegex(token, "^e3rk_[0-9a-f]{64}$")
        return token

    def promoted(self, w):
        """A rack, its old token and the new one that replaced it."""
        rack = w.rack()
        successor = self.offer(w, rack)
        self.assertEqual(rack.beat(token=successor).status, 200)
        return rack, successor

    @each
    def test_nothing_is_offered_within_a_day(self, w):
        """R020: to the millisecond."""
        rack = w.rack()
        w.server.advance(DAY)
        self.assertIsNone(rack.beat().value["rotatedToken"])
        w.server.advance(1)
        self.assertIsNotNone(rack.beat().value["rotatedToken"])

    @each
    def test_an_old_token_draws_another(self, w):
        """R021"""
        rack = w.rack()
        self.assertNotEqual(self.offer(w, rack), rack.token)

    @each
    def test_the_old_one_works_until_the_successor_is_used(self, w):
        """R022"""
        rack = w.rack()
        successor = self.offer(w, rack)
        w.server.advance(365 * DAY)
        self.assertEqual(rack.beat().status, 200)
        w.server.advance(365 * DAY)
        self.assertEqual(rack.beat().status, 200)
        self.assertUnauthorized(rack.beat(token=successor))

    @each("--rack-window-ms", "100")
    def test_any_call_promotes(self, w):
        """R023: whatever becomes of it, since the token comes before the body (section 20)."""
        calls = [lambda r: r.beat(), lambda r: r.lease(), lambda r: r.extend({"repo": "r", "leaseId": "l"}),
                 lambda r: r.watch().reply(), lambda r: r.call("heartbeat", body=b"garbage"),
                 lambda r: r.call("heartbeat", body=b"x" * 2097153), lambda r: r.call("heartbeat", body=b"", method="GET")]
        for call in calls:
            rack = w.rack(["x"])
            successor = Rack(w.server, w.form, self.offer(w, rack))
            call(successor)
            self.assertEqual(rack.beat().status, 200, "the replaced one is in its grace")
            w.server.advance(15 * MINUTE)
            self.assertUnauthorized(rack.beat())
            self.assertEqual(successor.beat().status, 200)

    @each
    def test_the_replaced_one_has_a_quarter_of_an_hour(self, w):
        """R024"""
        rack, successor = self.promoted(w)
        w.server.advance(15 * MINUTE - 1)
        self.assertEqual(rack.beat().status, 200)
        w.server.advance(1)
        self.assertUnauthorized(rack.beat())
        self.assertEqual(rack.beat(token=successor).status, 200)

    @each
    def test_an_unused_one_is_not_offered_again_for_an_hour(self, w):
        """R025"""
        rack = w.rack()
        self.offer(w, rack)
        self.assertIsNone(rack.beat().value["rotatedToken"])
        w.server.advance(HOUR)
        self.assertIsNone(rack.beat().value["rotatedToken"])

    @each
    def test_after_an_hour_there_is_another(self, w):
        """R026"""
        rack = w.rack()
        first = self.offer(w, rack)
        w.server.advance(HOUR + 1)
        second = rack.beat().value["rotatedToken"]
        self.assertNotIn(second, (None, first, rack.token))
        self.assertUnauthorized(rack.beat(token=first))
        self.assertEqual(rack.beat(token=second).status, 200)

    @each
    def test_a_token_in_grace_draws_nothing(self, w):
        """R027: however old it is."""
        rack, _ = self.promoted(w)
        self.assertIsNone(rack.beat().value["rotatedToken"])

    @each
    def test_a_token_draws_nothing_when_it_is_promoted(self, w):
        """R028: even if it waited for longer than a day."""
        rack = w.rack()
        successor = self.offer(w, rack)
        w.server.advance(DAY + 2)
        again = rack.beat().value["rotatedToken"]
        self.assertNotEqual(again, successor)
        w.server.advance(DAY + 2)
        self.assertIsNone(rack.beat(token=again).value["rotatedToken"])
        self.assertIsNotNone(rack.beat(token=again).value["rotatedToken"], "its age counts from its issue")

    @each("--rack-rotation-ms", str(MINUTE))
    def test_another_rotation_lengthens_no_grace(self, w):
        """R029"""
        rack = w.rack()
        second = self.offer(w, rack, MINUTE + 1)
        rack.beat(token=second)  # the first is in grace for 15 minutes from here
        w.server.advance(5 * MINUTE)
        third = rack.beat(token=second).value["rotatedToken"]
        rack.beat(token=third)
        w.server.advance(10 * MINUTE - 1)
        self.assertEqual(rack.beat().status, 200)
        w.server.advance(1)
        self.assertUnauthorized(rack.beat())
        self.assertEqual(rack.beat(token=second).status, 200)

    @each
    def test_of_simultaneous_beats_one_carries_the_offer(self, w):
        """Section 20."""
        rack, replies = w.rack(), []
        w.server.advance(DAY + 1)
        threads = [threading.Thread(target=lambda: replies.append(rack.beat())) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(sum(r.value["rotatedToken"] is not None for r in replies), 1)


if __name__ == "__main__":
    unittest.main()
