#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""The commands for leases, runs and racks, against a real lessord and a rack that speaks JSON to it."""
import hashlib
import http.client
import json
import os
import sys
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from harness import LESSOR, PATIENCE, Case  # noqa: E402

LEASE = {"number": int, "repo": str, "leaseId": str, "workspace?": str, "taskName?": str, "taskHash?": str,
         "inputsHash?": str, "tier": str, "computeSize?": str, "e3Version?": str, "environment?": str, "run?": str,
         "owner?": str, "mode": str, "status": str, "view": str, "held": bool, "createdAt": int, "expiresAt?": int,
         "claimedBy?": str, "claimedAt?": int, "deadlineAt?": int, "endedAt?": int, "claimNumber?": int,
         "attempt?": str, "attemptsSpent": int, "attemptLimit?": int, "cause?": str, "targets": int, "version": str,
         "verdict?": {"state": str, "outputHash?": str, "exitCode?": int, "error?": str, "peakBytes?": int},
         "event?": dict, "result?": dict}
ATTEMPT = {"number": int, "executionId?": str, "rackId": str, "bootId": str, "startedAt": int, "endedAt?": int,
           "state": str, "cause?": str, "reason?": str, "outputHash?": str, "exitCode?": int, "peakBytes?": int,
           "counts": bool}
RACK = {"rackId": str, "label": str, "state": str, "tiers": [str], "capacity": int, "leases": int, "agentVersion": str,
        "e3Version?": str, "healthy": bool, "draining": bool, "pendingApproval": bool, "lastBoot?": str,
        "approvedBoot?": str, "enrolledAt": int, "lastSeenAt?": int, "lastPollAt?": int, "lastBeatAt?": int}
RUN = {"run": str, "leases": int, "ended": bool, "createdAt": int, "endedAt?": int, "version": str,
       "statuses": {s: int for s in ("pending", "claimed", "completed", "superseded", "cancelled", "poisoned",
                                     "expired")},
       "verdicts": {v: int for v in ("success", "failed", "error", "cancelled")}}


def digest(text):
    return hashlib.sha256(text.encode()).hexdigest()


class FakeRack:
    def __init__(self, relay, token, label, tiers):
        self.host = relay.removeprefix("http://")
        self.token, self.tiers, self.boot = None, tiers, "boot-1"
        joined = self.call("enroll", {"enrollmentToken": token, "hostInfo": {
            "label": label, "tiers": tiers, "capacity": 2, "agentVersion": "1.0.0"}})
        self.token, self.id = joined["rackToken"], joined["rackId"]

    def call(self, name, body):
        connection = http.client.HTTPConnection(self.host, timeout=PATIENCE)
        headers = {"Content-Type": "application/json"}
        if self.token:
            headers["Authorization"] = "Bearer " + self.token
        connection.request("POST", "/api/rack/" + name, json.dumps(body), headers)
        answer = connection.getresponse()
        text = answer.read()
        connection.close()
        if answer.status not in (200, 204):
            raise AssertionError(f"{name}: {answer.status} {text}")
        return json.loads(text) if text else None

    def beat(self, **more):
        return self.call("heartbeat", {"healthy": True, "freeCapacity": 1, "runningLeases": [], "cacheBytes": 0,
                                       "agentVersion": "1.0.0", "bootId": self.boot, **more})

    def poll(self):
        return self.call("lease", {"tiers": self.tiers, "bootId": self.boot})


class RackCase(Case):
    OPTIONS = ("--rack-window-ms", "100")

    def setUp(self):
        super().setUp()
        self.made = 0
        self.server = self.serve(*self.OPTIONS)

    def rack(self, label="gpu-1", tiers=("shell",), beat=True):
        token = self.lessor("rack", "token", "--json").json["token"]
        rack = FakeRack(self.relay, token, label, list(tiers))
        if beat:
            rack.beat()
        return rack

    def event(self, **more):
        self.made += 1
        task = digest(f"task {self.made}")
        return json.dumps({"version": 2, "workspace": "w", "taskName": "train", "closure": {"hashes": [task]},
                           "runnerEvent": {"mode": "task", "launchId": f"01938a6e-0000-7000-8000-{self.made:012x}",
                                           "repo": "lab", "timeoutMs": 60000, "taskHash": task, "inputHashes": []},
                           **more})

    def create(self, *options, **more):
        return self.lessor("lease", "create", "--repo", "lab", "--tier", "shell", "--event", "-", "--json", *options,
                           stdin=self.event(), **more).json["lease"]

    def show(self, lease):
        return self.lessor("lease", "show", str(lease["number"]), "--json").json["lease"]


class Leases(RackCase):
    def test_a_lease_from_event_to_end(self):
        empty = self.lessor("lease", "ls")
        self.assertEqual((empty.out, empty.err), ("", "no such leases\n"))
        self.write("event.json", self.event())
        made = self.lessor("lease", "create", "--repo", "lab", "--tier", "shell", "--event", "event.json", "--name",
                           "train", "--run", "nightly", "--owner", "alice", "--ttl", "1h", "--attempts", "3", "--key",
                           "k", "--size", "small")
        self.assertRegex(made.out, r"^lease 1 waits for a rack: [0-9a-f]{64}#")
        again = self.lessor("lease", "create", "--repo", "lab", "--tier", "shell", "--event", "event.json", "--owner",
                            "alice", "--key", "k", "--json").json
        self.shape(again, {"created": bool, "lease": LEASE})
        self.assertFalse(again["created"])
        self.assertEqual(again["lease"]["computeSize"], "small")
        table = self.lessor("lease", "ls").out.splitlines()
        self.assertEqual(table[0].split(), ["LEASE", "REPO", "TASK", "TIER", "STATE", "TRIES", "RACK", "RUN", "OWNER",
                                            "CREATED"])
        self.assertEqual(table[1].split()[:9],
                         ["1", "lab", "train", "shell", "pending", "0/3", "-", "nightly", "alice"])
        self.assertEqual(table[1].index("shell"), table[0].index("TIER"))
        self.assertIn("no racks", self.lessor("lease", "why", "1").out)

        rack = self.rack()
        self.assertIn("nothing bars it", self.lessor("lease", "why", "1").out)
        grant = rack.poll()
        shown = self.lessor("lease", "show", "lab", grant["leaseId"], "--json").json
        self.shape(shown, {"lease": LEASE, "attempts": [ATTEMPT]})
        self.assertEqual(shown["lease"]["claimedBy"], rack.id)
        text = self.lessor("lease", "show", "1").out
        for part in ("state       claimed", f"rack        {rack.id}", "tries       1 of 3", "ATTEMPT  STATE"):
            self.assertIn(part, text)
        self.assertIn(rack.id, self.lessor("lease", "why", "1").out)
        self.assertIn("1  lab", self.lessor("lease", "ls", "--rack", "gpu-1").out)
        cancelled = self.lessor("lease", "cancel", "1", "--reason", "enough")
        self.assertEqual(cancelled.out, "lease 1 is cancelled\n")
        self.assertEqual(self.lessor("lease", "supersede", "1").out, "lease 1 is cancelled\n")
        self.assertIn("enough", self.lessor("lease", "show", "1").out)
        self.assertIn("nothing to replay", self.lessor("lease", "replay", "1", code=4).err)

    def test_lists_choose(self):
        for i in range(3):
            self.create("--owner", "ab"[i % 2])
        self.lessor("lease", "cancel", "1")

        def numbers(*options):
            answer = self.lessor("lease", "ls", "--json", *options).json
            self.shape(answer, {"leases": [LEASE], "more": bool, "next?": int})
            return [lease["number"] for lease in answer["leases"]]
        self.assertEqual(numbers(), [1, 2, 3])
        self.assertEqual(numbers("--status", "pending"), [2, 3])
        self.assertEqual(numbers("--status", "cancelled,completed"), [1])
        self.assertEqual(numbers("--owner", "a"), [1, 3])
        self.assertEqual(numbers("--after", "1", "--limit", "1"), [2])
        self.assertEqual(numbers("--repo", "other"), [])
        self.assertIn("--after", self.lessor("lease", "ls", "--limit", "1").err)
        self.lessor("lease", "ls", "--status", "asleep", code=1)
        self.lessor("lease", "ls", "--rack", "nobody", code=5)

    def test_wrong_command_lines(self):
        for words in (["create"], ["create", "--repo", "r", "--tier", "t"], ["show"], ["show", "x"], ["show", "0"],
                      ["show", "a", "b", "c"], ["cancel", "x"], ["ls", "--limit", "0"],
                      ["create", "--repo", "r", "--tier", "t", "--task", "h", "--event", "-"],
                      ["create", "--repo", "r", "--tier", "t", "--event", "-", "--timeout", "1h"],
                      ["create", "--repo", "r", "--tier", "t", "--task", "h", "--share"],
                      ["create", "--repo", "r", "--tier", "t", "--task", "h", "--ttl", "soon"],
                      ["create", "--repo", "r", "--tier", "t", "--task", "h", "--attempts", "0"],
                      ["create", "--repo", "r", "--tier", "t", "--task", "h", "--size", "huge"]):
            self.assertEqual(self.lessor("lease", *words, code=2).out, "")
        create = ["lease", "create", "--repo", "lab", "--tier", "shell"]
        self.lessor(*create, "--event", "nowhere.json", code=5)
        self.assertIn("JSON", self.lessor(*create, "--event", "-", stdin="{", code=1).err)
        self.assertIn("version", self.lessor(*create, "--event", "-", stdin=self.event(version=1), code=1).err)
        self.assertIn("task", self.lessor(*create, "--task", digest("x"), code=5).err)
        for verb in ("show", "why", "watch", "cancel", "supersede", "replay"):
            self.assertIn("99", self.lessor("lease", verb, "99", code=5).err)
            self.lessor("lease", verb, "lab", "nothing", code=5)

    def test_watching(self):
        lease = self.create()
        watch = self.start(LESSOR, "lease", "watch", str(lease["number"]), name="watch")
        self.assertEqual(watch.line(), "pending")
        rack = self.rack()
        rack.poll()
        self.assertEqual(watch.line(), f"claimed by rack {rack.id}, attempt 1")
        rack.call("lease/extend", {"repo": "lab", "leaseId": lease["leaseId"]})
        self.lessor("lease", "supersede", str(lease["number"]))
        self.assertEqual(watch.line(), "superseded")
        self.assertEqual(watch.wait(), 7)
        answer = self.lessor("lease", "watch", str(lease["number"]), "--json", code=None)
        self.assertEqual(answer.code, 7)
        self.shape(answer.json, {"changed": bool, "lease": LEASE, "attempts": [ATTEMPT]})

    def test_watching_outlasts_the_server(self):
        lease = self.create()
        watch = self.start(LESSOR, "lease", "watch", str(lease["number"]), name="watch")
        self.assertEqual(watch.line(), "pending")
        self.assertEqual(self.server.stop(), 0)
        self.until(lambda: "away" in self.read("watch.log"), "noticing")
        self.serve(*self.OPTIONS)
        self.lessor("lease", "cancel", str(lease["number"]))
        self.assertEqual(watch.line(), "cancelled")
        self.assertEqual(watch.wait(), 7)

    def test_runs(self):
        self.assertIn("--run", self.lessor("runs", "ls").err)
        first, second = self.create("--run", "nightly"), self.create("--run", "nightly")
        watch = self.start(LESSOR, "runs", "watch", "nightly", name="watch")
        self.assertEqual(watch.line(), "0 of 2 ended; 2 pending")
        self.rack().poll()
        self.assertEqual(watch.line(), "0 of 2 ended; 1 claimed, 1 pending")
        self.lessor("lease", "supersede", str(second["number"]))
        self.assertEqual(watch.line(), "1 of 2 ended: 1 superseded; 1 claimed")
        self.shape(self.lessor("runs", "ls", "--json").json, {"runs": [RUN], "more": bool})
        self.shape(self.lessor("runs", "show", "nightly", "--json").json, {"run": RUN})
        self.assertIn("1 of 2 ended", self.lessor("runs", "ls").out)
        self.assertIn("1 of 2 ended", self.lessor("runs", "show", "nightly").out)
        self.assertEqual(self.lessor("runs", "cancel", "nightly", "--reason", "late").out,
                         "1 lease of run nightly is cancelled\n")
        self.assertEqual(watch.line(), "2 of 2 ended: 1 superseded, 1 cancelled")
        self.assertEqual(watch.wait(), 7)
        self.assertEqual(self.show(first)["status"], "cancelled")
        self.lessor("runs", "show", "nobodys", code=5)
        self.lessor("runs", "watch", "nobodys", code=5)


class Lost(RackCase):
    OPTIONS = ("--rack-window-ms", "100", "--rack-visibility-ms", "100")

    def test_poisoned_work_is_found_and_replayed(self):
        lease = self.create("--attempts", "1")
        self.rack().poll()
        self.until(lambda: self.show(lease)["status"] == "poisoned", "the poisoning")
        self.assertIn("poisoned", self.lessor("lease", "ls", "--status", "poisoned").out)
        text = self.lessor("lease", "show", str(lease["number"])).out
        self.assertRegex(text, r"(?m)^cause +lost$")
        self.assertRegex(text, r"(?m)^ +1  interrupted ")
        self.assertEqual(self.lessor("lease", "watch", str(lease["number"]), code=None).code, 7)
        self.assertEqual(self.lessor("lease", "replay", str(lease["number"])).out,
                         f"lease {lease['number']} is pending\n")


class Racks(RackCase):
    def test_a_token_is_ready_to_paste(self):
        minted = self.lessor("rack", "token", "--label", "lab bench", "--ttl", "1h")
        self.assertRegex(minted.out, rf"^lessor rack join {self.relay} e3rk_enroll_[0-9a-f]{{64}}\n$")
        self.assertIn("not shown again", minted.err)
        token = minted.out.split()[-1]
        tokens = self.lessor("rack", "tokens", "--json").json
        self.shape(tokens, {"tokens": [{"tokenId": str, "label": str, "mintedAt": int, "expiresAt": int}]})
        self.assertNotIn(token[20:], self.lessor("rack", "tokens", "--json").out)
        self.assertIn("lab bench", self.lessor("rack", "tokens").out)
        elsewhere = self.lessor("rack", "token", "--url", "https://lessor.example").out
        self.assertIn("rack join https://lessor.example e3rk_", elsewhere)
        shown = self.lessor("rack", "token", "--json").json
        self.shape(shown, {"token": str, "tokenId": str, "label": str, "expiresAt": int, "url": str})
        self.assertIn(shown["tokenId"], self.lessor("rack", "revoke", shown["tokenId"]).out)
        self.lessor("rack", "revoke", shown["tokenId"], code=5)
        FakeRack(self.relay, token, "gpu-1", ["shell"])
        self.assertEqual(len(self.lessor("rack", "tokens", "--json").json["tokens"]), 1)
        pasted = self.lessor("rack", "token").out.split()
        self.lessor(*pasted[1:], "--dir", self.path("rack"))
        self.assertEqual(len(self.lessor("rack", "ls", "--json").json["racks"]), 2)
        for ttl in ("1s", "2d", "soon"):
            self.lessor("rack", "token", "--ttl", ttl, code=2)
        self.assertNotIn(token[20:], self.read("lessord.log"))

    def test_looking_at_racks(self):
        empty = self.lessor("rack", "ls")
        self.assertEqual(empty.out, "")
        self.assertIn("rack token", empty.err)
        rack = self.rack("gpu-1", beat=False)
        self.assertIn(" new ", self.lessor("rack", "ls").out)
        rack.beat()
        self.assertIn(" not-polling ", self.lessor("rack", "ls").out)
        lease = self.create()
        rack.poll()
        table = self.lessor("rack", "ls").out.splitlines()
        self.assertEqual(table[0].split("  ")[0], "RACK")
        self.assertIn("LAST POLL", table[0])
        self.assertIn("LAST BEAT", table[0])
        self.assertEqual(table[1].split()[:5], [rack.id, "gpu-1", "ready", "shell", "1/2"])
        self.shape(self.lessor("rack", "ls", "--json").json, {"racks": [RACK], "requireStartApproval": bool})
        for name in (rack.id, "gpu-1", rack.id[:13]):
            shown = self.lessor("rack", "show", name, "--json").json
            self.shape(shown, {"racks": [RACK], "requireStartApproval": bool})
            self.assertEqual(shown["racks"][0]["rackId"], rack.id)
        self.assertIn("boot        boot-1", self.lessor("rack", "show", "gpu-1").out)
        self.assertRegex(self.lessor("rack", "activity", "gpu-1").out, rf"(?m)^ +{lease['number']}  lab +train +shell")
        self.shape(self.lessor("rack", "activity", "gpu-1", "--json").json, {"activity": [{
            "number": int, "repo": str, "leaseId": str, "workspace": str, "taskName": str, "tier": str, "status": str,
            "outcome?": str, "error?": str, "claimedAt": int, "completedAt?": int}]})
        twin = self.rack("gpu-1")
        self.assertIn("2 racks", self.lessor("rack", "show", "gpu-1", code=4).err)
        self.lessor("rack", "show", twin.id)
        self.lessor("rack", "show", "nobody", code=5)
        self.lessor("rack", "activity", "gpu-1", "--limit", "x", code=2)

    def test_draining_and_removing(self):
        rack = self.rack()
        lease = self.create()
        self.assertIn("given no more", self.lessor("rack", "drain", "gpu-1").out)
        self.assertIsNone(rack.poll())
        self.assertIn("draining", self.lessor("lease", "why", str(lease["number"])).out)
        self.assertIn("again", self.lessor("rack", "undrain", "gpu-1").out)
        self.assertEqual(rack.poll()["leaseId"], lease["leaseId"])
        out, shown = self.at_terminal("rack", "rm", "gpu-1", typed="no\n", code=4)
        self.assertIn("holds 1 lease,", shown)
        self.assertEqual(len(self.lessor("rack", "ls", "--json").json["racks"]), 1)
        self.assertEqual(self.lessor("rack", "rm", "gpu-1").out,
                         "rack gpu-1 is gone, and its token dead; 1 lease was superseded\n")
        self.assertEqual(self.show(lease)["cause"], "deregistered")
        with self.assertRaisesRegex(AssertionError, "401"):
            rack.beat()
        self.lessor("rack", "rm", "gpu-1", code=5)

    def test_approving_starts(self):
        self.assertRegex(self.lessor("rack", "policy").out, "^open: ")
        self.assertRegex(self.lessor("rack", "policy", "approval").out, "^approval: ")
        self.shape(self.lessor("rack", "policy", "--json").json, {"requireStartApproval": bool})
        self.lessor("rack", "policy", "closed", code=2)
        fresh = self.rack("fresh", beat=False)
        self.lessor("rack", "approve", "fresh", code=4)
        fresh.beat()
        rack = self.rack()
        rack.boot = "boot-2"
        self.assertTrue(rack.beat()["pendingApproval"])
        self.assertIn("awaiting-approval", self.lessor("rack", "ls").out)
        self.lessor("rack", "approve", "gpu-1", "--boot", "boot-1", code=4)
        _, shown = self.at_terminal("rack", "approve", "gpu-1", typed="n\n", code=4)
        self.assertIn("boot-2", shown)
        self.assertTrue(rack.beat()["pendingApproval"])
        out, _ = self.at_terminal("rack", "approve", "gpu-1", typed="y\n")
        self.assertEqual(out, "boot boot-2 of rack gpu-1 is approved\n")
        self.assertFalse(rack.beat()["pendingApproval"])


class Copies(RackCase):
    def test_leases_are_copied_too(self):
        lease, rack = self.create("--run", "nightly"), self.rack()
        self.lessor("backup", "a.db", "--leases", "leases.db", "--json")
        self.assertIn("leases.db is there already",
                      self.lessor("backup", "b.db", "--leases", "leases.db", code=4).err)
        os.mkdir(self.path("other"), 0o700)
        os.rename(self.path("leases.db"), self.path("other/leases.db"))
        self.assertEqual(os.stat(self.path("other/leases.db")).st_mode & 0o777, 0o600)
        self.data = self.env["LESSOR_DATA"] = self.path("other")
        self.serve()
        self.assertEqual(self.show(lease)["run"], "nightly")
        self.assertEqual([r["rackId"] for r in self.lessor("rack", "ls", "--json").json["racks"]], [rack.id])


class Without(Case):
    def test_a_server_without_racks_says_so(self):
        self.serve("--no-rack")
        self.lessor("backup", "a.db", "--leases", "l.db", code=3)
        for words in (["rack", "ls"], ["lease", "ls"], ["runs", "ls"], ["rack", "token"], ["lease", "show", "1"]):
            self.assertIn("no tasks to racks", self.lessor(*words, code=3).err)


if __name__ == "__main__":
    unittest.main(verbosity=1)
