# SPDX-License-Identifier: MIT
"""The control API of the rack plane (docs/control-api.md, rack-protocol 18): what producers and operators do."""
import json
import threading
import unittest

from harness import (HOUR, MINUTE, SECOND, VISIBILITY, Case, Refused, World, digest, each, ref, task_event)

JSON = ("json",)
HELD = ("--rack-window-ms", "20000")
FAST = Case.FAST
NOTHING = digest("")


class Asking(threading.Thread):
    """A question whose answer takes its time."""

    def __init__(self, server, path):
        super().__init__()
        self.server, self.path, self.answer = server, path, None
        self.start()

    def run(self):
        self.answer = self.server.ask_control("GET", self.path)

    def json(self):
        self.join()
        return self.answer.json


class ControlCase(Case):
    def assertNo(self, status, code, ask, *args, **more):
        with self.assertRaises(Refused) as caught:
            ask(*args, **more)
        self.assertEqual((caught.exception.status, caught.exception.code), (status, code), caught.exception)
        return str(caught.exception)

    def submit(self, w, *args, **more):
        """Leases of one millisecond have no order among them."""
        w.server.advance(1)
        return w.submit(*args, **more)

    def granted(self, w, rack, lease):
        self.assertGranted(rack.lease(), lease)
        return w.view(lease)

    def lose(self, w, racks=()):
        """Time passes until a claim is lost; the racks go on beating."""
        w.server.advance(VISIBILITY + SECOND)
        for rack in racks:
            rack.beat()
        w.server.advance(VISIBILITY + SECOND)
        for rack in racks:
            rack.beat()


class Submitting(ControlCase):
    @each(forms=JSON)
    def test_a_lease_is_as_it_was_submitted(self, w):
        tier, task = w.name("t"), digest(w.name("task"))
        inputs = [digest("a"), digest("b")]
        event = task_event(w.repo, task, inputs, workspace="shop", name="sum", e3Version="1.2.3")
        made = w.server.control("/leases/create", {
            "repo": w.repo, "tier": tier, "event": event, "workspace": "shop", "taskName": "sum",
            "computeSize": "large", "owner": "alice", "run": "nightly", "ttlMs": HOUR, "attemptLimit": 3})
        self.assertTrue(made["created"])
        lease = made["lease"]
        self.assertEqual(lease["inputsHash"], digest("\0".join(inputs)))
        self.assertEqual(lease["leaseId"].split("#")[:2], [task, lease["inputsHash"]])
        self.assertEqual(
            {k: lease[k] for k in ("repo", "workspace", "taskName", "taskHash", "tier", "computeSize", "owner", "run",
                                   "mode", "status", "view", "held", "attemptLimit", "attemptsSpent", "e3Version")},
            {"repo": w.repo, "workspace": "shop", "taskName": "sum", "taskHash": task, "tier": tier,
             "computeSize": "large", "owner": "alice", "run": "nightly", "mode": "task", "status": "pending",
             "view": "pending", "held": True, "attemptLimit": 3, "attemptsSpent": 0, "e3Version": "1.2.3"})
        self.assertEqual(lease["expiresAt"] - lease["createdAt"], HOUR)
        shown = w.server.control(f"/leases?number={lease['number']}")
        self.assertEqual(shown["lease"], {**lease, "event": event})
        self.assertEqual(shown["attempts"], [])
        named = w.server.ask_control("GET", f"/leases?repo={w.repo}&lease=" + lease["leaseId"].replace("#", "%23"))
        self.assertEqual(named.json, shown)

    @each(forms=JSON)
    def test_the_event_reaches_the_rack_as_it_was_spelled(self, w):
        """Also numbers that would not survive being read and written, and keys that look like others."""
        tier, task = w.name("t"), digest(w.name("task"))
        text = ('{ "closure" :{"hashes":["%s"]},"event":{"event":1}, "x":1.0e3, "y":90071992547409931,'
                '"z":"\\u00e9\\"}{",\n'
                '"version":2.0,"workspace":"w","taskName":"n","runnerEvent":{"inputHashes":[],"taskHash":"%s",'
                '"mode":"task","launchId":"01938a6e-0000-7000-8000-000000000000","repo":"%s","timeoutMs":1e3} }'
                % (task, task, w.repo))
        body = ' {"tier":"%s","xevent":1, "event" : %s ,"repo":"%s"}' % (tier, text, w.repo)
        answer = w.server.ask_control("POST", "/leases/create", body.encode(), {"Content-Type": "application/json"})
        self.assertEqual((answer.status, answer.json["error"]), (400, "invalid"))
        self.assertIn("xevent", answer.json["message"])
        answer = w.server.ask_control("POST", "/leases/create", body.replace('"xevent":1, ', "").encode(),
                                      {"Content-Type": "application/json"})
        self.assertEqual(answer.status, 200, answer)
        rack = w.rack([tier])
        self.assertEqual(rack.lease().value["eventJson"], text)

    @each(forms=JSON)
    def test_what_cannot_be_a_lease(self, w):
        """Section 18: the host validates the event in full and imposes repo, workspace and version."""
        task = digest(w.name("task"))
        good = {"repo": w.repo, "tier": "x", "event": task_event(w.repo, task)}
        runner = good["event"]["runnerEvent"]
        for change, word in (
                ({"repo": "@rack"}, "repo"), ({"repo": "other"}, "repo"), ({"repo": ""}, "repo"),
                ({"tier": "a b"}, "tier"), ({"computeSize": "huge"}, "size"), ({"environment": "x"}, "environment"),
                ({"workspace": "other"}, "workspace"), ({"taskName": "other"}, "taskName"),
                ({"share": True}, "key"), ({"ttlMs": 0}, "ttlMs"), ({"attemptLimit": 0}, "attemptLimit"),
                ({"timeoutMs": 5}, ""), ({"colour": "red"}, "colour"), ({"event": []}, ""), ({"event": None}, ""),
                ({"task": task}, "event"), ({"run": ""}, "run"),
                ({"event": {**good["event"], "version": 1}}, "version"),
                ({"event": {**good["event"], "closure": {"hashes": ["x"]}}}, "closure"),
                ({"event": {**good["event"], "closure": {"hashes": [task] * 513}}}, "closure"),
                ({"event": {**good["event"], "closure": {"object": task, "count": -1}}}, "closure"),
                ({"event": {**good["event"], "runnerEvent": {**runner, "mode": "intake"}}}, "mode"),
                ({"event": {**good["event"], "runnerEvent": {**runner, "timeoutMs": 0}}}, "timeoutMs"),
                ({"event": {**good["event"], "runnerEvent": {**runner, "launchId": "x"}}}, "launchId"),
                ({"event": {**good["event"], "runnerEvent": {**runner, "taskHash": "x"}}}, "taskHash")):
            with self.subTest(change=change):
                message = self.assertNo(400, "invalid", w.server.control, "/leases/create", {**good, **change})
                self.assertIn(word, message)
        self.assertEqual(w.server.control(f"/leases?repo={w.repo}")["leases"], [])

    @each(forms=JSON)
    def test_bodies_that_are_too_much_or_none(self, w):
        def ask(body):
            answer = w.server.ask_control("POST", "/leases/create", body, {"Content-Type": "application/json"})
            return answer.status, answer.json.get("error")
        head = b'{"repo":"%s","tier":"x","event":' % w.repo.encode()
        for body, wanted in ((b"", "malformed"), (b"{", "malformed"), (b"[]", "invalid"), (b"null", "invalid"),
                             (head + b'{}}', "invalid"), (head + b'{},"event":{}}', "malformed"),
                             (head + b'{"a":1,"a":2}}', "malformed"), (head + b'"\\ud800"}', "malformed"),
                             (head + b'"\xff"}', "malformed"), (b"\xef\xbb\xbf" + head + b"{}}", "malformed"),
                             (head + b"[" * 100 + b"]" * 100 + b"}", "too-large"),
                             (head + b"[" + b"1," * 600000 + b"1]}", "too-large")):
            with self.subTest(body=body[:60]):
                self.assertEqual(ask(body), (400, wanted))
        answer = w.server.ask_control("POST", "/leases/create", head + b'"' + b"x" * (4 << 20) + b'"}')
        self.assertEqual(answer.status, 413)
        self.assertEqual(w.server.control(f"/leases?repo={w.repo}")["leases"], [])

    @each(forms=JSON)
    def test_a_key_makes_one_lease_for_as_long_as_that_lives(self, w):
        task, other, key = digest(w.name("task")), digest(w.name("task")), w.name("key")

        def create(task, **more):
            return w.server.control("/leases/create", {"repo": w.repo, "tier": "x", "key": key, "owner": "alice",
                                                       "event": task_event(w.repo, task), **more})
        first, again = create(task), create(task)
        self.assertEqual((first["created"], again["created"]), (True, False))
        self.assertEqual(again["lease"]["leaseId"], first["lease"]["leaseId"])
        self.assertTrue(create(task, owner="bob")["created"])
        self.assertIn(key, self.assertNo(409, "exists", create, other))
        w.cancel(first["lease"])
        self.assertFalse(create(task)["created"], "it lives on for its retention")
        w.server.advance(16 * MINUTE)
        self.assertTrue(create(task)["created"])

    @each(forms=JSON)
    def test_shared_work_is_cancelled_when_its_last_subscriber_leaves(self, w):
        """Section 18."""
        task = digest(w.name("task"))

        def create(key):
            return w.server.control("/leases/create", {"repo": w.repo, "tier": "x", "key": key, "share": True,
                                                       "event": task_event(w.repo, task)})
        first, second = create("one"), create("two")
        self.assertEqual((first["created"], second["created"]), (True, False))
        lease = first["lease"]
        self.assertEqual(second["lease"]["leaseId"], lease["leaseId"])
        self.assertEqual(w.cancel(lease, key="one")["status"], "pending")
        self.assertEqual(w.cancel(lease, key="one")["status"], "pending")
        self.assertEqual(w.cancel(lease, key="two")["status"], "cancelled")

    @each(*FAST, forms=JSON)
    def test_owners_take_turns(self, w):
        """R049: one each, whoever has more."""
        tier = w.name("t")
        rack = w.rack([tier])
        many = [self.submit(w, tier, owner="a") for _ in range(3)]
        one = self.submit(w, tier, owner="b")
        got = [rack.lease().value["leaseId"] for _ in range(4)]
        self.assertIn(one["leaseId"], got[:2])
        self.assertEqual([g for g in got if g != one["leaseId"]], [lease["leaseId"] for lease in many])

    @each(*FAST, forms=JSON)
    def test_a_lease_that_nobody_takes_expires(self, w):
        tier = w.name("t")
        rack, lease = w.rack([tier]), self.submit(w, tier, ttlMs=10 * SECOND)
        w.server.advance(10 * SECOND)
        self.assertEqual(w.view(lease)["status"], "expired")
        self.assertNothing(rack.lease())
        again = w.server.control("/leases/replay", {"number": lease["number"]})["lease"]
        self.assertEqual(again["status"], "pending")
        self.assertNotIn("expiresAt", again)
        self.assertGranted(rack.lease(), lease)

    @each("--rack-visibility-ms", "60000", *FAST, forms=JSON)
    def test_a_task_that_loses_its_racks_is_poisoned_and_replayed(self, w):
        tier = w.name("t")
        racks = [w.rack([tier]), w.rack([tier]), w.rack([tier])]
        lease = self.submit(w, tier, attemptLimit=2)
        self.granted(w, racks[0], lease)
        self.lose(w, racks)
        self.assertEqual(self.granted(w, racks[1], lease)["attemptsSpent"], 2)
        self.lose(w, racks)
        view = w.view(lease)
        self.assertEqual((view["status"], view["cause"]), ("poisoned", "lost"))
        self.assertNothing(racks[2].lease())
        poisoned = w.server.control(f"/leases?status=poisoned&repo={w.repo}")["leases"]
        self.assertEqual([p["leaseId"] for p in poisoned], [lease["leaseId"]])
        attempts = w.inspect(lease)["attempts"]
        self.assertEqual([(a["number"], a["rackId"], a["state"]) for a in attempts],
                         [(1, racks[0].id, "interrupted"), (2, racks[1].id, "interrupted")])
        self.assertIn("poisoned", w.server.control(f"/leases/explain?number={lease['number']}")["summary"])
        again = w.server.control("/leases/replay", ref(lease))["lease"]
        self.assertEqual((again["status"], again["attemptsSpent"]), ("pending", 0))
        self.granted(w, racks[2], lease)
        self.assertEqual(len(w.inspect(lease)["attempts"]), 3)

    @each(*FAST, forms=JSON)
    def test_without_an_attempt_limit_a_lost_lease_is_superseded(self, w):
        tier = w.name("t")
        rack, lease = w.rack([tier]), self.submit(w, tier)
        self.granted(w, rack, lease)
        self.lose(w, [rack])
        view = w.view(lease)
        self.assertEqual((view["status"], view["cause"]), ("superseded", "lost"))
        self.assertNo(409, "terminal", w.server.control, "/leases/replay", ref(lease))

    @each(forms=JSON)
    def test_tasks_that_are_not_there(self, w):
        missing = digest(w.name("task"))
        message = self.assertNo(404, "not-found", w.server.control, "/leases/create",
                                {"repo": w.repo, "tier": "x", "task": missing})
        self.assertIn("task", message)


class Looking(ControlCase):
    @each(forms=JSON)
    def test_lists_go_on_where_they_ended(self, w):
        leases = [self.submit(w, "x", owner="ab"[i % 2], run=w.name("r") if i == 3 else "all") for i in range(7)]
        numbers = [lease["number"] for lease in leases]
        first = w.server.control(f"/leases?repo={w.repo}&limit=3")
        self.assertEqual([lease["number"] for lease in first["leases"]], numbers[:3])
        self.assertTrue(first["more"])
        rest = w.server.control(f"/leases?repo={w.repo}&after={first['next']}")
        self.assertEqual([lease["number"] for lease in rest["leases"]], numbers[3:])
        self.assertFalse(rest["more"])
        self.assertNotIn("next", rest)
        mine = w.server.control(f"/leases?repo={w.repo}&owner=a&limit=2")
        self.assertEqual([lease["number"] for lease in mine["leases"]], [numbers[0], numbers[2]])
        w.cancel(leases[0])
        for status, wanted in (("cancelled", numbers[:1]), ("pending", numbers[1:]), ("cancelled,pending", numbers),
                               ("completed", [])):
            got = w.server.control(f"/leases?repo={w.repo}&status={status}")["leases"]
            self.assertEqual([lease["number"] for lease in got], wanted)
        for query in ("status=lost", "status=a", "limit=0", "limit=10001", "limit=x", "after=-1", "number=0",
                      "lease=x", "number=1&repo=r&lease=l"):
            self.assertNo(400, "invalid", w.server.control, "/leases?" + query)

    @each(forms=JSON)
    def test_a_planner_finds_its_work_again(self, w):
        """Section 8, findByTask: the newest that was not given up."""
        task = digest(w.name("task"))
        find = f"/leases/find?repo={w.repo}&task={task}&inputs={NOTHING}"
        self.assertNo(404, "not-found", w.server.control, find)
        old, new = self.submit(w, "x", task_event(w.repo, task)), self.submit(w, "x", task_event(w.repo, task))
        self.assertEqual(w.server.control(find)["lease"]["leaseId"], new["leaseId"])
        w.supersede(new)
        self.assertEqual(w.server.control(find)["lease"]["leaseId"], old["leaseId"])
        w.cancel(old)
        self.assertNo(404, "not-found", w.server.control, find)
        self.assertNo(400, "invalid", w.server.control, f"/leases/find?repo={w.repo}")

    @each(*FAST, forms=JSON)
    def test_ended_leases_stay_as_they_ended(self, w):
        """R057, R058: and its rack is told to stop."""
        tier = w.name("t")
        rack, lease = w.rack([tier]), self.submit(w, tier)
        self.granted(w, rack, lease)
        ended = w.cancel(lease, reason="not needed")
        self.assertEqual((ended["status"], ended["cause"], ended["claimedBy"]), ("cancelled", "cancelled", rack.id))
        self.assertEqual(rack.beat([lease]).value["stop"], [ref(lease)])
        attempt = w.inspect(lease)["attempts"][0]
        self.assertEqual((attempt["state"], attempt["cause"], attempt["reason"]),
                         ("cancelled", "cancelled", "not needed"))
        self.assertEqual(w.supersede(lease), ended)
        for path in ("cancel", "supersede", "replay"):
            self.assertNo(404, "not-found", w.server.control, "/leases/" + path, {"repo": w.repo, "leaseId": "x"})
            self.assertNo(404, "not-found", w.server.control, "/leases/" + path, {"number": 4000000})
            self.assertNo(400, "invalid", w.server.control, "/leases/" + path, {"repo": w.repo})
            self.assertNo(400, "invalid", w.server.control, "/leases/" + path, {})
            self.assertNo(400, "invalid", w.server.control, "/leases/" + path, {**ref(lease), "number": 1})

    @each(forms=JSON)
    def test_an_ended_lease_is_forgotten_and_its_number_never_used_again(self, w):
        lease = self.submit(w, "x")
        w.cancel(lease)
        w.server.advance(14 * MINUTE)
        self.assertEqual(w.view(lease)["status"], "cancelled")
        w.server.advance(2 * MINUTE)
        self.assertNo(404, "not-found", w.inspect, lease)
        self.assertGreater(self.submit(w, "x")["number"], lease["number"])
        self.assertNo(404, "not-found", w.inspect, lease)


class Watching(ControlCase):
    def watch(self, w, lease, **query):
        return Asking(w.server, f"/leases/watch?number={lease['number']}"
                      + "".join(f"&{key}={value}" for key, value in query.items()))

    @each(*HELD, forms=JSON)
    def test_every_change_wakes(self, w):
        """Section 18: claimed, extended, cancelled."""
        tier = w.name("t")
        rack, lease = w.rack([tier]), self.submit(w, tier)
        now = self.watch(w, lease).json()
        self.assertEqual((now["changed"], now["lease"]["version"]), (True, lease["version"]))
        steps = ((lambda: rack.lease(), "claimed"), (lambda: w.server.advance(SECOND) or rack.extend(lease), "claimed"),
                 (lambda: w.cancel(lease), "cancelled"))
        version = lease["version"]
        for step, status in steps:
            asking = self.watch(w, lease, after=version)
            w.server.until_parked()
            step()
            answer = asking.json()
            self.assertTrue(answer["changed"])
            self.assertEqual(answer["lease"]["status"], status)
            self.assertNotEqual(answer["lease"]["version"], version)
            version = answer["lease"]["version"]

    @each(*HELD, forms=JSON)
    def test_until_its_end_nothing_else_wakes(self, w):
        tier = w.name("t")
        rack, lease = w.rack([tier]), self.submit(w, tier)
        asking = self.watch(w, lease, until="end")
        w.server.until_parked()
        self.granted(w, rack, lease)
        w.server.until_parked()
        w.supersede(lease)
        answer = asking.json()
        self.assertEqual((answer["changed"], answer["lease"]["status"]), (True, "superseded"))
        self.assertEqual(answer["attempts"][0]["state"], "interrupted")
        self.assertTrue(self.watch(w, lease, until="end").json()["changed"])

    @each(*HELD, forms=JSON)
    def test_many_watch_many(self, w):
        """Each is woken by its own."""
        leases = [self.submit(w, "x") for _ in range(6)]
        asking = [self.watch(w, lease, until="end") for lease in leases for _ in range(2)]
        w.server.until_parked(12)
        for n, lease in enumerate(reversed(leases)):
            w.cancel(lease)
            w.server.until_parked(10 - 2 * n)
        for i, asked in enumerate(asking):
            self.assertEqual(asked.json()["lease"]["leaseId"], leases[i // 2]["leaseId"])

    @each(forms=JSON)
    def test_a_wait_that_brings_nothing_ends(self, w):
        lease = self.submit(w, "x")
        for wait in (0, 50):
            answer = self.watch(w, lease, after=lease["version"], wait=wait).json()
            self.assertEqual((answer["changed"], answer["lease"]["version"]), (False, lease["version"]))
        for query in ("wait=x", "wait=25001", "until=never"):
            self.assertNo(400, "invalid", w.server.control, f"/leases/watch?number={lease['number']}&{query}")
        self.assertNo(404, "not-found", w.server.control, f"/leases/watch?repo={w.repo}&lease=x")
        self.assertNo(400, "invalid", w.server.control, "/leases/watch")

    @each(forms=JSON)
    def test_what_is_forgotten_meanwhile_is_gone(self, w):
        lease = self.submit(w, "x")
        w.cancel(lease)
        asking = self.watch(w, lease, after=w.view(lease)["version"])
        w.server.until_parked()
        w.server.advance(16 * MINUTE)
        asking.join()
        self.assertEqual(asking.answer.status, 404)

    @each(*FAST, forms=JSON)
    def test_a_lapsed_claim_wakes_too(self, w):
        """Section 9: it is shown pending, then lost."""
        tier = w.name("t")
        rack, lease = w.rack([tier]), self.submit(w, tier, attemptLimit=5)
        version = self.granted(w, rack, lease)["version"]
        asking = self.watch(w, lease, after=version)
        w.server.until_parked()
        w.server.advance(VISIBILITY + 1)
        answer = asking.json()["lease"]
        self.assertEqual((answer["status"], answer["view"], answer["held"]), ("claimed", "pending", False))

    @each(*HELD, forms=JSON)
    def test_the_servers_end_ends_it(self, w):
        lease = self.submit(w, "x")
        asking = self.watch(w, lease, until="end")
        w.server.until_parked()
        w.server.process.terminate()
        self.assertFalse(asking.json()["changed"])


class Runs(ControlCase):
    @each(*FAST, forms=JSON)
    def test_a_run_is_what_its_leases_are(self, w):
        tier, run = w.name("t"), w.name("run")
        self.assertNo(404, "not-found", w.server.control, f"/runs?run={run}")
        rack = w.rack([tier])
        leases = [self.submit(w, tier, run=run) for _ in range(3)]
        self.submit(w, tier)
        self.granted(w, rack, leases[0])
        w.supersede(leases[1])
        got = w.server.control(f"/runs?run={run}")["run"]
        self.assertEqual((got["leases"], got["ended"]), (3, False))
        self.assertEqual({k: v for k, v in got["statuses"].items() if v},
                         {"claimed": 1, "superseded": 1, "pending": 1})
        self.assertIn(got, w.server.control("/runs")["runs"])
        listed = w.server.control(f"/leases?run={run}")["leases"]
        self.assertEqual([lease["number"] for lease in listed], [lease["number"] for lease in leases])
        self.assertEqual(w.server.control("/runs/cancel", {"run": run, "reason": "enough"})["cancelled"], 2)
        self.assertEqual(w.inspect(leases[0])["attempts"][0]["reason"], "enough")
        got = w.server.control(f"/runs?run={run}")["run"]
        self.assertTrue(got["ended"])
        self.assertEqual(got["statuses"]["cancelled"], 2)
        self.assertEqual(w.server.control("/runs/cancel", {"run": run})["cancelled"], 0)
        self.assertEqual(w.server.control("/runs/cancel", {"run": "nobody's"})["cancelled"], 0)

    @each(*HELD, forms=JSON)
    def test_a_run_is_watched(self, w):
        run = w.name("run")
        first, second = self.submit(w, "x", run=run), self.submit(w, "x", run=run)
        now = w.server.control(f"/runs/watch?run={run}")
        self.assertTrue(now["changed"])
        change = Asking(w.server, f"/runs/watch?run={run}&after={now['run']['version']}")
        end = Asking(w.server, f"/runs/watch?run={run}&until=end")
        w.server.until_parked(2)
        w.cancel(first)
        self.assertEqual(change.json()["run"]["statuses"]["cancelled"], 1)
        w.server.until_parked(1)
        self.submit(w, "x", run=run)
        w.cancel(second)
        w.server.until_parked(1)
        w.server.control("/runs/cancel", {"run": run})
        self.assertEqual((end.json()["changed"], end.json()["run"]["ended"]), (True, True))
        self.assertNo(404, "not-found", w.server.control, "/runs/watch?run=nobodys&wait=0")
        self.assertNo(400, "invalid", w.server.control, "/runs/watch")


class Finishing(ControlCase):
    """What a rack brings back."""

    def put(self, w, data):
        answer = w.server.ask_control("PUT", f"/objects?repo={w.repo}", data)
        self.assertEqual(answer.status, 200, answer)
        return answer.json["hash"]

    def task(self, w, data=b"1,2,3\n"):
        """A task object with one input; returns its hash and the input's."""
        hash = self.put(w, data)
        text = json.dumps({
            "format": "lessor.task/1", "argv": ["/usr/bin/wc", "-l", "data.csv"], "environment": {},
            "inputs": [{"type": "file", "path": "data.csv", "mode": "644", "hash": hash, "size": len(data)}],
            "outputs": [{"path": "out", "required": False}], "directory": ".", "network": False,
            "limits": {"timeMs": 5000}}, separators=(",", ":"))
        return self.put(w, text.encode()), hash

    @each(*FAST, forms=JSON)
    def test_a_task_object_becomes_a_lease(self, w):
        """Issue 3, item 11: a general command is a v2 event's task with a closure."""
        tier = w.name("t")
        rack, (task, data) = w.rack([tier]), self.task(w, w.name("data").encode())
        lease = w.server.control("/leases/create", {"repo": w.repo, "tier": tier, "task": task})["lease"]
        self.assertEqual((lease["taskHash"], lease["taskName"], lease["inputsHash"], lease["mode"]),
                         (task, "wc", digest(data), "task"))
        event = w.inspect(lease)["lease"]["event"]
        self.assertEqual(event["closure"], {"hashes": sorted([task, data])})
        self.assertEqual((event["runnerEvent"]["inputHashes"], event["runnerEvent"]["timeoutMs"]), ([data], 5000))
        grant = self.assertGranted(rack.lease(), lease)
        self.assertEqual(json.loads(grant["eventJson"]), event)
        named = w.server.control("/leases/create", {"repo": w.repo, "tier": tier, "task": task, "timeoutMs": 7,
                                                    "taskName": "count", "workspace": "shop"})["lease"]
        self.assertEqual((named["taskName"], named["workspace"]), ("count", "shop"))
        self.assertEqual(w.inspect(named)["lease"]["event"]["runnerEvent"]["timeoutMs"], 7)

    @each(forms=JSON)
    def test_what_is_no_task(self, w):
        _, data = self.task(w)
        create = {"repo": w.repo, "tier": "x"}
        self.assertNo(400, "invalid", w.server.control, "/leases/create", {**create, "task": data})
        self.assertNo(400, "invalid", w.server.control, "/leases/create", {**create, "task": "x"})
        gap = json.dumps({"format": "lessor.task/1", "argv": ["true"], "environment": {}, "inputs": [
            {"type": "file", "path": "a", "mode": "644", "hash": digest(w.name("gone")), "size": 1}], "outputs": [],
            "directory": ".", "network": False, "limits": {}}, separators=(",", ":"))
        self.assertNo(404, "not-found", w.server.control, "/leases/create",
                      {**create, "task": self.put(w, gap.encode())})

    @each(*HELD, forms=JSON)
    def test_a_result_is_kept_and_wakes_who_waits(self, w):
        """Sections 10 and 20: whole, unknown keys included; completed wins over what comes later (R091)."""
        tier, run = w.name("t"), w.name("run")
        rack, lease = w.rack([tier]), self.submit(w, tier, run=run)
        self.granted(w, rack, lease)
        one = Asking(w.server, f"/leases/watch?number={lease['number']}&until=end")
        all = Asking(w.server, f"/runs/watch?run={run}&until=end")
        w.server.until_parked(2)
        output = self.put(w, w.name("output").encode())
        result = {"taskName": "t", "status": "success", "outputHash": output, "peakBytes": 1e3, "extra": {"a": [None]}}
        self.assertEqual(rack.complete(lease, result).value, {"disposition": "recorded"})
        got = one.json()
        self.assertEqual(got["lease"]["result"], result)
        self.assertEqual(got["lease"]["verdict"], {"state": "success", "outputHash": output, "peakBytes": 1000})
        self.assertEqual([(a["state"], a["outputHash"]) for a in got["attempts"]], [("success", output)])
        self.assertEqual(all.json()["run"]["verdicts"], {"success": 1, "failed": 0, "error": 0, "cancelled": 0})
        self.assertEqual(w.cancel(lease)["status"], "completed")
        self.assertEqual(w.supersede(lease)["status"], "completed")
        entry = w.server.control(f"/racks/activity?rack={rack.id}")["activity"][0]
        self.assertEqual((entry["status"], entry["outcome"]), ("completed", "success"))
        self.assertNo(409, "terminal", w.server.control, "/leases/replay", ref(lease))

    @each(*FAST, forms=JSON)
    def test_every_way_to_end_has_its_word(self, w):
        """R093, R094."""
        tier, run = w.name("t"), w.name("run")
        rack = w.rack([tier])
        for result, state in (
                ({"status": "failed", "exitCode": 3, "error": "no"}, "failed"),
                ({"status": "failed", "state": "error", "error": "no disk"}, "error"),
                ({"status": "failed", "cancelled": True}, "cancelled")):
            lease = self.submit(w, tier, run=run)
            self.granted(w, rack, lease)
            self.assertEqual(rack.complete(lease, {"taskName": "t", **result}).status, 200)
            got = w.inspect(lease)
            self.assertEqual((got["lease"]["verdict"]["state"], got["attempts"][0]["state"]), (state, state))
            self.assertEqual(got["lease"]["verdict"].get("exitCode"), result.get("exitCode"))
            self.assertEqual(got["lease"]["verdict"].get("error"), result.get("error"))
        got = w.server.control(f"/runs?run={run}")["run"]
        self.assertEqual((got["ended"], got["verdicts"]),
                         (True, {"success": 0, "failed": 1, "error": 1, "cancelled": 1}))
        self.assertEqual([e.get("error") for e in w.server.control(f"/racks/activity?rack={rack.id}")["activity"]],
                         [None, "no disk", "no"])


class Explaining(ControlCase):
    def bar(self, w, lease, rack):
        why = w.server.control(f"/leases/explain?number={lease['number']}")
        one = next(r for r in why["racks"] if r["rackId"] == rack.id)
        self.assertTrue(one["reason"])
        return one["bar"], one["reason"], why["summary"]

    @each(*FAST, forms=JSON)
    def test_every_reason_has_words(self, w):
        """Issue 3: why a lease is not placed."""
        tier = w.name("t")
        lease = self.submit(w, tier, e3Version="2.0.0")
        other, rack = w.rack([w.name("t")]), w.rack([tier], version="1.0.0+e3.1.9.0")
        other.lease(), rack.lease()
        self.assertEqual(self.bar(w, lease, other)[0], "tier")
        self.assertIn(tier, self.bar(w, lease, other)[1])
        self.assertEqual(self.bar(w, lease, rack)[0], "floor")
        self.assertIn("2.0.0", self.bar(w, lease, rack)[1])
        self.assertIn("no rack", self.bar(w, lease, rack)[2])
        rack.beat(version="1.0.0+e3.2.0.0")
        self.assertEqual(self.bar(w, lease, rack)[0], "none")
        self.assertIn("1 of", self.bar(w, lease, rack)[2])
        rack.beat(version="0.4.0")
        self.assertEqual(self.bar(w, lease, rack)[0], "old")
        rack.beat(version="1.0.0+e3.2.0.0")
        w.server.control("/racks/drain", {"rackId": rack.id, "draining": True})
        self.assertEqual(self.bar(w, lease, rack)[0], "draining")
        w.server.control("/racks/drain", {"rackId": rack.id, "draining": False})
        rack.beat(version="1.0.0+e3.2.0.0", healthy=False)
        self.assertEqual(self.bar(w, lease, rack)[0], "unhealthy")
        rack.beat(version="1.0.0+e3.2.0.0")
        w.policy(True)
        rack.beat(version="1.0.0+e3.2.0.0", boot="boot-2")
        self.assertEqual(self.bar(w, lease, rack)[0], "quarantine")
        w.policy(False)
        w.server.advance(46 * SECOND)
        self.assertEqual(self.bar(w, lease, rack)[0], "unseen")
        rack.beat(version="1.0.0+e3.2.0.0")
        self.assertEqual(self.bar(w, lease, rack)[0], "none")
        self.assertIn("ask", self.bar(w, lease, rack)[1], "it does not poll")
        self.granted(w, rack, lease)
        self.assertEqual(self.bar(w, lease, rack)[0], "status")
        self.assertIn(rack.id, self.bar(w, lease, rack)[2])
        w.cancel(lease)
        self.assertIn("cancelled", self.bar(w, lease, rack)[2])

    @each(*FAST, forms=JSON)
    def test_a_rack_that_lost_it_is_barred(self, w):
        tier = w.name("t")
        rack, lease = w.rack([tier]), self.submit(w, tier, attemptLimit=5)
        self.granted(w, rack, lease)
        w.server.advance(VISIBILITY + SECOND)
        rack.beat()
        self.assertEqual(self.bar(w, lease, rack)[0], "claimed")
        self.assertNo(404, "not-found", w.server.control, "/leases/explain?number=4000000")

    @each(forms=JSON)
    def test_no_racks(self, w):
        lease = self.submit(w, "x")
        why = w.server.control(f"/leases/explain?number={lease['number']}")
        self.assertEqual(why["racks"], [])
        self.assertIn("rack token", why["summary"])


class Racks(ControlCase):
    @each(*FAST, forms=JSON)
    def test_a_rack_that_beats_and_no_longer_polls_shows(self, w):
        """Issue 3: last poll and last beat told apart."""
        tier = w.name("t")
        rack = w.rack([tier], beat=False)
        self.assertEqual(rack.seen()["state"], "new")
        rack.beat()
        rack.lease()
        seen = rack.seen()
        self.assertEqual((seen["state"], seen["tiers"], seen["capacity"], seen["leases"]), ("ready", [tier], 2, 0))
        polled = seen["lastPollAt"]
        for _ in range(3):
            w.server.advance(20 * SECOND)
            rack.beat()
        seen = rack.seen()
        self.assertEqual((seen["state"], seen["lastPollAt"]), ("not-polling", polled))
        self.assertEqual(seen["lastBeatAt"] - polled, 60 * SECOND)
        leases = [self.submit(w, tier), self.submit(w, tier)]
        for lease in leases:
            self.granted(w, rack, lease)
        for _ in range(3):
            w.server.advance(20 * SECOND)
            rack.beat()
            for lease in leases:
                rack.extend(lease)
        seen = rack.seen()
        self.assertEqual((seen["state"], seen["leases"]), ("busy", 2))
        w.server.advance(50 * SECOND)
        self.assertEqual(rack.seen()["state"], "unseen")
        rack.beat(healthy=False)
        self.assertEqual(rack.seen()["state"], "unhealthy")
        rack.beat(version="0.4.9")
        self.assertEqual(rack.seen()["state"], "too-old")
        self.assertNo(404, "not-found", w.server.control, "/racks?rack=nobody")

    @each(*FAST, forms=JSON)
    def test_a_start_is_approved_as_it_was_seen(self, w):
        """R034, R035: and a second start in between is not."""
        tier = w.name("t")
        w.policy(True)
        self.assertTrue(w.server.control("/racks")["requireStartApproval"])
        rack, lease = w.rack([tier]), self.submit(w, tier)
        rack.boot = "boot-2"
        self.assertTrue(rack.beat().value["pendingApproval"])
        self.assertEqual(rack.seen()["state"], "awaiting-approval")
        self.assertNothing(rack.lease())
        self.assertNo(409, "boot-changed", w.approve, rack, "boot-1")
        self.assertEqual(w.approve(rack), {"ok": True, "bootId": "boot-2"})
        self.assertFalse(rack.beat().value["pendingApproval"])
        self.granted(w, rack, lease)
        fresh = w.rack([tier], beat=False)
        self.assertNo(409, "refused", w.approve, fresh)
        self.assertNo(404, "not-found", w.server.control, "/racks/approve", {"rackId": "nobody"})
        w.policy(False)
        self.assertFalse(w.server.control("/racks/policy")["requireStartApproval"])
        self.assertNo(400, "invalid", w.server.control, "/racks/policy", {"requireStartApproval": 1}, "PUT")

    @each(*HELD, forms=JSON)
    def test_a_drained_rack_keeps_what_it_has_and_gets_no_more(self, w):
        tier = w.name("t")
        rack, held, lease = w.rack([tier]), self.submit(w, tier), self.submit(w, tier)
        self.granted(w, rack, held)
        w.server.control("/racks/drain", {"rackId": rack.id, "draining": True})
        self.assertEqual(rack.seen()["state"], "draining")
        self.assertTrue(rack.extend(held).value)
        poll = rack.poll()
        w.server.until_parked()
        self.assertEqual(w.view(lease)["status"], "pending")
        w.server.control("/racks/drain", {"rackId": rack.id, "draining": False})
        self.assertGranted(poll.reply(), lease)
        self.assertNo(404, "not-found", w.server.control, "/racks/drain", {"rackId": "nobody", "draining": True})
        self.assertNo(400, "invalid", w.server.control, "/racks/drain", {"rackId": rack.id})

    @each(*HELD, forms=JSON)
    def test_removal_supersedes_what_a_rack_holds_and_is_felt_at_once(self, w):
        """Section 2: by its open polls too."""
        tier = w.name("t")
        rack, lease = w.rack([tier]), self.submit(w, tier)
        self.granted(w, rack, lease)
        poll = rack.poll()
        w.server.until_parked()
        self.assertEqual(w.remove(rack)["superseded"], 1)
        self.assertUnauthorized(poll.reply())
        self.assertUnauthorized(rack.beat())
        view = w.view(lease)
        self.assertEqual((view["status"], view["cause"]), ("superseded", "deregistered"))
        self.assertNo(404, "not-found", w.remove, rack)
        self.assertNotIn(rack.id, [r["rackId"] for r in w.server.control("/racks")["racks"]])

    @each(*FAST, forms=JSON)
    def test_activity_is_newest_first_and_leaves_with_the_lease(self, w):
        """ActivityEntry of section 5, listRecentByRack of section 8."""
        tier = w.name("t")
        rack, taker = w.rack([tier]), w.rack([tier])
        leases = [self.submit(w, tier, task_event(w.repo, digest(w.name("task")), name=f"task-{i}"), attemptLimit=5)
                  for i in range(3)]
        for lease in leases:
            self.granted(w, rack, lease)
            w.server.advance(1)
        w.cancel(leases[0])
        entries = w.server.control(f"/racks/activity?rack={rack.id}")["activity"]
        self.assertEqual([e["taskName"] for e in entries], ["task-2", "task-1", "task-0"])
        self.assertEqual([e["status"] for e in entries], ["claimed", "claimed", "cancelled"])
        self.assertIn("completedAt", entries[2])
        self.assertEqual(set(entries[0]), {"number", "repo", "leaseId", "workspace", "taskName", "tier", "status",
                                           "claimedAt"})
        self.assertEqual(len(w.server.control(f"/racks/activity?rack={rack.id}&limit=1")["activity"]), 1)
        w.server.advance(VISIBILITY + SECOND)
        taker.beat()
        self.granted(w, taker, leases[1])
        left = w.server.control(f"/racks/activity?rack={rack.id}")["activity"]
        self.assertEqual([e["taskName"] for e in left], ["task-2", "task-0"])
        self.assertNo(404, "not-found", w.server.control, "/racks/activity?rack=nobody")
        self.assertNo(400, "invalid", w.server.control, "/racks/activity")

    @each("--rack-expiry-ms", str(HOUR), forms=JSON)
    def test_racks_long_unseen_are_removed(self, w):
        rack, quiet = w.rack(["x"]), w.rack(["x"])
        w.server.advance(50 * MINUTE)
        rack.beat()
        w.server.advance(11 * MINUTE)
        self.assertEqual([r["rackId"] for r in w.server.control("/racks")["racks"]], [rack.id])
        self.assertUnauthorized(quiet.beat())


class Tokens(ControlCase):
    @each(forms=JSON)
    def test_a_token_is_shown_once_and_works_once(self, w):
        """R001, R002."""
        made = w.server.control("/racks/tokens/create", {"label": "for gpu-1"})
        token = made["token"]
        self.assertRegex(token, r"^e3rk_enroll_[0-9a-f]{64}$")
        self.assertEqual(made["tokenId"], digest(token)[:16])
        self.assertEqual(made["url"], f"http://127.0.0.1:{w.server.port}")
        listed = w.server.ask_control("GET", "/racks/tokens")
        self.assertNotIn(token[20:40].encode(), listed.body)
        row = next(t for t in listed.json["tokens"] if t["tokenId"] == made["tokenId"])
        self.assertEqual((row["label"], row["expiresAt"]), ("for gpu-1", made["expiresAt"]))
        self.assertEqual(made["expiresAt"] - row["mintedAt"], 15 * MINUTE)
        self.assertEqual(w.enroll(token).status, 200)
        self.assertUnauthorized(w.enroll(token))
        self.assertEqual(w.server.control("/racks/tokens")["tokens"], [])
        self.assertNotIn(token[12:], w.server.log())

    @each(forms=JSON)
    def test_a_token_ends_with_its_time_or_when_it_is_taken_back(self, w):
        """R004."""
        made = w.server.control("/racks/tokens/create", {"ttlMs": MINUTE})
        w.server.advance(MINUTE)
        self.assertUnauthorized(w.enroll(made["token"]))
        made = w.server.control("/racks/tokens/create", {"ttlMs": 24 * HOUR})
        self.assertEqual(w.server.control("/racks/tokens/revoke", {"tokenId": made["tokenId"]}), {"ok": True})
        self.assertUnauthorized(w.enroll(made["token"]))
        self.assertNo(404, "not-found", w.server.control, "/racks/tokens/revoke", {"tokenId": made["tokenId"]})
        for bad in ({"ttlMs": MINUTE - 1}, {"ttlMs": 24 * HOUR + 1}, {"ttlMs": "1"}, {"label": "x" * 257}):
            self.assertNo(400, "invalid", w.server.control, "/racks/tokens/create", bad)
        self.assertNo(400, "invalid", w.server.control, "/racks/tokens/revoke", {"tokenId": "x"})


class Lasting(ControlCase):
    def test_all_of_it_outlives_the_server(self):
        """Section 2: durable before it is answered, and killed right after."""
        w = World(self, self.serve("--store", "sqlite", "--threads", "2", *FAST), "json", 0)
        tier = w.name("t")
        rack = w.rack([tier])
        claimed = self.submit(w, tier, run="r")
        waiting, ended = self.submit(w, tier, key="k", ttlMs=HOUR), self.submit(w, tier)
        self.granted(w, rack, claimed)
        w.supersede(ended)
        token = w.mint()
        w.policy(True)
        w.server.control("/racks/drain", {"rackId": rack.id, "draining": True})
        before = [w.inspect(lease) for lease in (claimed, waiting, ended)]
        w.server.process.kill()
        w.server.process.wait()
        server = self.serve("--store", "sqlite", "--threads", "2", *FAST, data=w.server.data)
        w.server = rack.server = server
        self.assertEqual([w.inspect(lease) for lease in (claimed, waiting, ended)], before)
        self.assertEqual(rack.seen()["state"], "draining")
        self.assertTrue(server.control("/racks/policy")["requireStartApproval"])
        self.assertEqual(w.enroll(token).status, 200)
        self.assertTrue(rack.extend(claimed).value)


if __name__ == "__main__":
    unittest.main()
