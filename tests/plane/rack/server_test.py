# SPDX-License-Identifier: MIT
"""What concerns the server as a whole: grants that nobody hears of, restarts, backups, options, real time."""
import os
import random
import signal
import subprocess
import time
import unittest

from harness import (HOUR, LESSORD, SOON, Case, Refused, Request, World, each, ref)

HELD = ("--rack-window-ms", "20000")


def frozen(server):
    """While it sleeps, what is sent and the end after it arrive together, whatever the scheduler does."""
    os.kill(server.pid, signal.SIGSTOP)
    tasks = f"/proc/{server.pid}/task"

    def state(task):
        with open(f"{tasks}/{task}/stat") as f:
            return f.read().rpartition(")")[2].split()[0]

    while any(state(task) != "T" for task in os.listdir(tasks)):
        time.sleep(0.0005)
    return lambda: os.kill(server.pid, signal.SIGCONT)


class Delivery(Case):
    @each(*HELD)
    def test_a_grant_that_nobody_hears_of_goes_back_at_once(self, w):
        """It spends no attempt and bars nobody: the same rack and boot may have it, without naming its attempt."""
        tier = w.name("t")
        rack, lease = w.rack([tier]), w.submit(tier, attemptLimit=1)
        for leave in ("hang_up", "reset") * 3:
            wake = frozen(w.server)
            getattr(rack.poll(), leave)()
            wake()
            began = time.monotonic()
            while True:
                poll = rack.poll()
                reply = poll.reply()
                if reply.status == 200:
                    break
            self.assertGranted(reply, lease)
            self.assertLess(time.monotonic() - began, SOON)
            view = w.view(lease)
            self.assertEqual(view["attemptsSpent"], 1)
            w.cancel(lease)
            lease = w.submit(tier, attemptLimit=1)

    @each(*HELD)
    def test_a_lease_is_with_the_rack_or_in_the_queue(self, w):
        """Leaving at a random moment: whatever happened, it is in exactly one of the two places."""
        dice, tier = random.Random(1), w.name("t")
        gone, other = w.rack([tier]), w.rack([tier])
        for _ in range(6):
            lease = w.submit(tier)
            poll = gone.poll()
            time.sleep(dice.random() * 0.004)
            dice.choice((poll.hang_up, poll.reset))()
            end = time.monotonic() + 1
            held = other.poll()
            while not held.is_answered(0.01):
                view = w.view(lease)
                if view["status"] == "claimed" and view["claimedBy"] == gone.id and time.monotonic() > end:
                    break  # it had been told
            if held.is_answered():
                self.assertGranted(held.reply(), lease)
            else:
                self.assertIs(gone.extend(lease, w.view(lease)["attempt"] if w.form == "json" else None).value, True)
                held.reset()
                w.server.until_parked(0)
            w.cancel(lease)


class Keeping(Case):
    def server(self, data, *options):
        return World(self, self.serve("--store", "sqlite", *options, data=self.path(data)), "json", 0)

    def test_what_was_answered_survives_a_kill(self):
        """Section 2: tokens, registrations, leases and claims are durable before they are answered."""
        w = self.server("data", *HELD)
        token, rack = w.mint(), w.rack(["x"])
        claimed, pending = w.submit("x"), w.submit("x")
        self.assertGranted(rack.lease(), claimed)
        before = (w.view(claimed), w.view(pending))
        w.policy(True)
        w.server.kill()

        again = self.server("data", *HELD)
        rack.server = again.server
        self.assertEqual((again.view(claimed), again.view(pending)), before)
        self.assertIs(rack.extend(claimed).value, True)
        self.assertIs(rack.beat(boot="boot-2").value["pendingApproval"], True)
        self.assertGranted(rack.lease(), pending)
        self.assertEqual(again.enroll(token).status, 200)

    def test_a_backup_holds_leases_and_racks(self):
        w = self.server("data", *HELD)
        rack, lease = w.rack(["x"]), w.submit("x")
        os.mkdir(self.path("copy"), 0o700)
        w.server.control("/backup", {"path": self.path("copy/lessor.db"), "leasesPath": self.path("copy/leases.db")})
        again = self.server("copy", *HELD)
        rack.server = again.server
        self.assertGranted(rack.lease(), lease)

    def test_a_backup_that_half_fails_leaves_nothing(self):
        w = self.server("data")
        path = self.path("copy.db")
        with open(path + ".leases", "w"):
            pass
        with self.assertRaises(Refused) as refused:
            w.server.control("/backup", {"path": path, "leasesPath": path + ".leases"})
        self.assertEqual(refused.exception.code, "exists")
        self.assertIn(".leases", str(refused.exception))
        self.assertFalse(os.path.exists(path))

    def test_only_hashes_are_kept_of_tokens(self):
        """Section 2: at rest."""
        w = self.server("data")
        enrolment, rack = w.mint(), w.rack(["x"])
        w.server.advance(25 * HOUR)
        successor = rack.beat().value["rotatedToken"]
        self.assertEqual(w.server.stop(), 0)
        for directory, _, names in os.walk(self.path("data")):
            for name in names:
                with open(os.path.join(directory, name), "rb") as f:
                    text = f.read()
                for token in (enrolment, rack.token, successor):
                    self.assertNotIn(token.encode(), text, name)
        self.assertNotIn("e3rk_", w.server.log())


class RealTime(Case):
    @each(*HELD, "--rack-visibility-ms", "1000", stores=("memory",), forms=("json",),
          env={"LESSOR_TEST_NOW_MS": ""})
    def test_a_lapse_is_granted_when_it_comes(self, w):
        """R053: nobody asks, and the waiting rack has it within a fraction of a second."""
        tier = w.name("t")
        first, second, lease = w.rack([tier]), w.rack([tier]), w.submit(tier)
        grant = self.assertGranted(first.lease(), lease)
        poll = second.poll()
        again = self.assertGranted(poll.reply(), lease)
        late = again["serverTimeMs"] - grant["visibilityDeadline"]
        self.assertGreater(late, 0)
        self.assertLess(late, SOON * 1000)

    @each(*HELD, stores=("sqlite",), forms=("json",), env={"LESSOR_TEST_NOW_MS": ""})
    def test_pickup_is_a_round_trip(self, w):
        """From create to the grant at a waiting rack: no interval is in it."""
        tier, took = w.name("t"), []
        rack = w.rack([tier])
        for _ in range(20):
            poll = rack.poll()
            w.server.until_parked()
            began = time.monotonic()
            lease = w.submit(tier)
            self.assertGranted(poll.reply(), lease)
            took.append(time.monotonic() - began)
        self.assertLess(sorted(took)[len(took) // 2], 0.25)


class Options(Case):
    def test_without_racks(self):
        server = self.serve("--no-rack", "--store", "memory")
        answer = server.ask(Request("POST", "/api/rack/heartbeat", {}, b""))
        self.assertEqual(answer.status, 404)
        self.assertFalse(os.path.exists(os.path.join(server.data, "objects")))
        with self.assertRaises(Refused):
            server.control("/racks")
        self.assertEqual(server.ready(), 200)

    def test_what_cannot_be_is_refused(self):
        for options, named in ((("--rack-window-ms", "29001"), "rack-window-ms"),
                               (("--rack-window-ms", "0"), "rack-window-ms"),
                               (("--rack-watch-window-ms", "20001"), "rack-watch-window-ms"),
                               (("--rack-origin", "racks.example.org"), "rack-origin"),
                               (("--rack-origin", "https://racks.example.org/x"), "rack-origin"),
                               (("--rack-visibility-ms", "x"), "rack-visibility-ms"),
                               (("--rack-poll-ms", "-1"), "rack-poll-ms")):
            done = subprocess.run([LESSORD, "--check-config", "--data", self.path("none"), *options],
                                  stderr=subprocess.PIPE, text=True)
            self.assertEqual(done.returncode, 2, options)
            self.assertIn("--" + named, done.stderr)

    def test_readiness_asks_the_lease_store_too(self):
        w = World(self, self.serve("--store", "sqlite"), "json", 0)
        self.assertEqual(w.server.ready(), 200)
        status = w.server.control("/status")
        self.assertIs(status["rackPlane"]["writable"], True)

    @each(*HELD, "--rack-poll-ms", "40", "--rack-poll-max-ms", "80", "--rack-watch-poll-ms", "40", stores=("memory",))
    def test_a_safety_net_that_is_narrow_changes_nothing(self, w):
        tier = w.name("t")
        rack = w.rack([tier])
        poll = rack.poll()
        self.assertFalse(poll.is_answered(0.3))
        lease = w.submit(tier)
        self.assertGranted(poll.reply(), lease)
        watch = rack.watch(lease)
        self.assertFalse(watch.is_answered(0.2))
        w.cancel(lease)
        self.assertEqual(watch.reply().value["stop"], [ref(lease)])


if __name__ == "__main__":
    unittest.main()
