# SPDX-License-Identifier: MIT
"""The stream of events and the webhooks of the control API (docs/control-api.md)."""
import hashlib
import hmac
import http.server
import json
import os
import queue
import select
import socket
import stat
import subprocess
import threading
import time
import unittest
import urllib.parse

from harness import HOUR, PATIENCE, ROOT, SECOND, VISIBILITY, Case, Refused, each

JSON = ("json",)
MEMORY = ("memory",)
LESSOR = os.path.join(os.path.dirname(os.environ["LESSORD"]), "lessor")


class Stream:
    """Reads an event stream of the control API over its socket."""

    def __init__(self, server, query="", last=None):
        self.socket = socket.socket(socket.AF_UNIX)
        self.socket.settimeout(PATIENCE)
        self.socket.connect(os.path.join(server.data, "control.sock"))
        head = [f"GET /api/control/v1/events{query} HTTP/1.0", "Host: localhost"]
        if last:
            head.append(f"Last-Event-ID: {last}")
        self.socket.sendall("\r\n".join(head).encode() + b"\r\n\r\n")
        self.rest = b""
        head = self._until(b"\r\n\r\n").decode()
        assert " 200 " in head.split("\r\n")[0], head
        assert "text/event-stream" in head, head
        assert self._until(b"\n\n") == b":"  # it is there

    def _until(self, end):
        while end not in self.rest:
            more = self.socket.recv(65536)
            if not more:
                raise EOFError
            self.rest += more
        text, _, self.rest = self.rest.partition(end)
        return text

    def next(self):
        while True:
            lines = self._until(b"\n\n").decode().split("\n")
            fields = dict(line.split(": ", 1) for line in lines if not line.startswith(":"))
            if fields:
                event = json.loads(fields["data"])
                assert fields["event"] == event.get("type", "gap")
                assert fields.get("id") == event.get("id")
                return event

    def types(self, n):
        return [self.next()["type"] for _ in range(n)]

    def is_silent(self, seconds=0.2):
        return not self.rest and not select.select([self.socket], [], [], seconds)[0]

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.socket.close()


class Receiver:
    """Takes deliveries, and answers each with the next of the given statuses, the last for good."""

    def __init__(self, *statuses):
        self.statuses, self.deliveries = list(statuses) or [200], queue.Queue()
        receiver = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self):
                body = self.rfile.read(int(self.headers["Content-Length"]))
                status = receiver.statuses.pop(0) if len(receiver.statuses) > 1 else receiver.statuses[0]
                receiver.deliveries.put((dict(self.headers), body, status, time.monotonic()))
                self.send_response(status)
                if status in (301, 302, 307, 308):
                    self.send_header("Location", f"{receiver.url}/elsewhere")
                self.send_header("Content-Length", "0")
                self.end_headers()

            def log_message(self, *_):
                pass

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}"
        self.thread = threading.Thread(target=self.server.serve_forever, args=(0.01,))
        self.thread.start()

    def next(self):
        return self.deliveries.get(timeout=PATIENCE)

    def events(self, n):
        """The next n events that were taken."""
        events = []
        while len(events) < n:
            _, body, status, _ = self.next()
            if status == 200:
                events += json.loads(body)["events"]
        return events

    def stop(self):
        self.server.shutdown()
        self.server.server_close()
        self.thread.join()


class EventCase(Case):
    def receiver(self, *statuses):
        receiver = Receiver(*statuses)
        self.addCleanup(receiver.stop)
        return receiver

    def until(self, question):
        end = time.monotonic() + PATIENCE
        while not question():
            self.assertLess(time.monotonic(), end)
            time.sleep(0.01)


class Events(EventCase):
    @each(forms=JSON)
    def test_a_life_is_told_as_it_happens(self, w):
        tier = w.name("t")
        rack = w.rack(tiers=(tier,))
        with Stream(w.server, f"?repo={w.repo}") as events:
            lease = w.submit(tier, run="nightly")
            event = events.next()
            self.assertEqual((event["type"], event["repo"], event["lease"], event["run"], event["tier"]),
                             ("lease.claimable", w.repo, lease["leaseId"], "nightly", tier))
            self.assertGranted(rack.lease(), lease)
            event = events.next()
            self.assertEqual((event["type"], event["rack"], event["claimNumber"]), ("lease.claimed", rack.id, 1))
            self.assertIn("attempt", event)
            rack.extend(lease)  # tells nothing new
            rack.complete(lease)
            self.assertEqual(events.types(1), ["lease.completed"])

    @each(forms=JSON, stores=MEMORY)
    def test_filters_hold_the_rest_back(self, w):
        tier = w.name("t")
        one, other = w.submit(tier, run="one"), w.submit(tier, run="other")
        name = urllib.parse.quote(one["leaseId"])
        with Stream(w.server, "?run=one") as run, Stream(w.server, f"?lease={name}") as lease, \
                Stream(w.server, "?types=lease.superseded,policy.changed") as types, Stream(w.server) as everything:
            w.cancel(other)
            w.cancel(one)
            w.supersede(w.submit(tier))
            w.policy(True)
            self.assertEqual(run.next()["lease"], one["leaseId"])
            self.assertEqual(lease.next()["lease"], one["leaseId"])
            self.assertEqual(types.types(2), ["lease.superseded", "policy.changed"])
            self.assertEqual(everything.types(5), ["lease.cancelled", "lease.cancelled", "lease.claimable",
                                                   "lease.superseded", "policy.changed"])
            self.assertTrue(run.is_silent(0) and lease.is_silent(0) and types.is_silent(0))

    @each(forms=JSON, stores=MEMORY)
    def test_what_becomes_of_racks_and_their_attempts_is_told(self, w):
        tier = w.name("t")
        with Stream(w.server) as events:
            rack = w.rack(tiers=(tier,))
            seen = events.next()
            self.assertEqual((seen["type"], seen["rack"]), ("rack.changed", rack.id))
            lease = w.submit(tier, attemptLimit=1)
            self.assertGranted(rack.lease(), lease)
            w.server.advance(VISIBILITY + SECOND)
            w.server.advance(VISIBILITY + SECOND)
            types = set()
            while not {"lease.claimed", "lease.poisoned", "attempt.ended"} <= types:
                types.add(events.next()["type"])
            w.remove(rack)
            while "rack.removed" not in types:
                types.add(events.next()["type"])

    @each(forms=JSON, stores=MEMORY)
    def test_a_reader_goes_on_where_it_was(self, w):
        with Stream(w.server) as events:
            lease = w.submit(w.name("t"))
            first = events.next()
        w.cancel(lease)
        second = w.submit(w.name("t"))
        with Stream(w.server, last=first["id"]) as events:
            self.assertEqual(events.types(2), ["lease.cancelled", "lease.claimable"])
        with Stream(w.server, f"?after={first['id']}&types=lease.claimable") as events:
            self.assertEqual(events.next()["lease"], second["leaseId"])
        with Stream(w.server, "?after=oldest") as events:
            self.assertEqual(events.next()["type"], "server.started")

    def test_a_reader_of_the_server_before_is_told_of_the_gap(self):
        server = self.serve("--store", "memory")
        with Stream(server, "?after=oldest") as events:
            last = events.next()["id"]
        self.assertEqual(server.stop(), 0)
        server = self.serve("--store", "memory")
        with Stream(server, last=last) as events:
            self.assertEqual(events.next(), {"missed": None})
            self.assertEqual(events.next()["type"], "server.started")

    @each(forms=JSON, stores=MEMORY)
    def test_whoever_is_overtaken_is_told_how_much_was_missed(self, w):
        with Stream(w.server, "?after=oldest&types=server.started") as events:
            started = events.next()["id"]
        for i in range(4200):  # two events each, and 8192 are kept
            w.cancel(w.submit("x"))
        with Stream(w.server, last=started) as events:
            gap = events.next()
            self.assertGreaterEqual(gap["missed"], 200)
            self.assertIn(events.next()["type"], ("lease.claimable", "lease.cancelled"))

    @each(forms=JSON, stores=MEMORY)
    def test_bad_questions_are_refused(self, w):
        with self.assertRaises(Refused) as caught:
            w.server.control("/events?types=lease.eaten")
        self.assertEqual((caught.exception.status, caught.exception.code), (400, "invalid"))

    def test_a_server_that_stops_ends_its_streams(self):
        server = self.serve("--store", "memory")
        with Stream(server) as events:
            server.until_parked()
            self.assertEqual(server.stop(), 0)
            with self.assertRaises(EOFError):
                events.next()

    def test_the_command_prints_them(self):
        server = self.serve("--store", "memory")
        process = subprocess.Popen([LESSOR, "--data", server.data, "events", "--after", "oldest", "--json"],
                                   stdout=subprocess.PIPE, text=True)
        try:
            self.assertEqual(json.loads(process.stdout.readline())["type"], "server.started")
            server.control("/racks/policy", {"requireStartApproval": True}, "PUT")
            self.assertEqual(json.loads(process.stdout.readline())["type"], "policy.changed")
        finally:
            process.terminate()
            process.communicate()


class Webhooks(EventCase):
    def signature(self, secret, headers, body):
        mac = hmac.new(secret.encode(), headers["Lessor-Timestamp"].encode() + b"." + body, hashlib.sha256)
        return "v1=" + mac.hexdigest()

    @each(forms=JSON)
    def test_deliveries_are_signed_and_in_order(self, w):
        receiver = self.receiver()
        added = w.server.control("/webhooks/add", {"url": receiver.url, "repo": w.repo})
        self.assertRegex(added["secret"], "^[0-9a-f]{64}$")
        lease = w.submit(w.name("t"))
        w.cancel(lease)
        headers, body, _, _ = receiver.next()
        self.assertEqual(headers["Lessor-Signature"], self.signature(added["secret"], headers, body))
        self.assertLess(abs(time.time() - int(headers["Lessor-Timestamp"])), 60)
        self.assertEqual(headers["Content-Type"], "application/json")
        told = json.loads(body)
        self.assertEqual((headers["Lessor-Delivery"], headers["Lessor-Webhook"]), (told["delivery"], told["webhook"]))
        self.assertEqual(told["webhook"], added["webhookId"])
        events = told["events"]
        if len(events) < 2:
            events += receiver.events(2 - len(events))
        self.assertEqual([event["type"] for event in events], ["lease.claimable", "lease.cancelled"])
        self.until(lambda: w.server.control("/webhooks")["webhooks"][0]["delivered"] == 2)
        self.assertNotIn(added["secret"], json.dumps(w.server.control("/webhooks")))
        w.server.control("/webhooks/remove", {"webhookId": added["webhookId"]})

    @each(forms=JSON, stores=MEMORY)
    def test_a_failed_delivery_is_repeated_later_each_time(self, w):
        receiver = self.receiver(500, 503, 200)
        secret = "a secret of my own"
        added = w.server.control("/webhooks/add", {"url": receiver.url, "secret": secret,
                                                   "types": ["policy.changed"]})
        self.assertEqual(added["secret"], secret)
        w.policy(True)
        tries = [receiver.next() for _ in range(3)]
        self.assertEqual({json.loads(body)["delivery"] for _, body, _, _ in tries},
                         {json.loads(tries[0][1])["delivery"]})
        for headers, body, _, _ in tries:
            self.assertEqual(headers["Lessor-Signature"], self.signature(secret, headers, body))
        self.assertGreaterEqual(tries[1][3] - tries[0][3], 0.45)  # half of a second at least, then of two
        self.assertGreaterEqual(tries[2][3] - tries[1][3], 0.95)
        self.until(lambda: w.server.control("/webhooks")["webhooks"][0]["delivered"] == 1)
        hook = w.server.control("/webhooks")["webhooks"][0]
        self.assertEqual((hook["failed"], hook["dropped"], hook["status"]), (2, 0, 200))
        self.assertNotIn("problem", hook)
        self.assertEqual(w.server.log().count('"event":"webhook-failed"'), 1)

    @each(forms=JSON, stores=MEMORY)
    def test_redirects_are_not_followed(self, w):
        receiver = self.receiver(307, 200)
        w.server.control("/webhooks/add", {"url": receiver.url + "/here", "types": ["policy.changed"]})
        w.policy(True)
        self.assertEqual(receiver.next()[2], 307)
        self.assertEqual(receiver.next()[2], 200)  # the same URL again, later
        self.assertEqual(w.server.control("/webhooks")["webhooks"][0]["failed"], 1)

    @each(forms=JSON)
    def test_nobody_waits_for_a_webhook_that_does_not_answer(self, w):
        with socket.socket() as deaf:
            deaf.bind(("127.0.0.1", 0))
            deaf.listen(1)
            url = f"http://127.0.0.1:{deaf.getsockname()[1]}"
            w.server.control("/webhooks/add", {"url": url})
            receiver = self.receiver()
            w.server.control("/webhooks/add", {"url": receiver.url, "repo": w.repo, "types": ["lease.completed"]})
            tier = w.name("t")
            rack = w.rack(tiers=(tier,))
            began = time.monotonic()
            for _ in range(20):
                lease = w.submit(tier)
                self.assertGranted(rack.lease(), lease)
                self.assertEqual(rack.complete(lease).status, 200)
            self.assertLess(time.monotonic() - began, 10)
            self.assertEqual(len(receiver.events(20)), 20)
            self.assertTrue(select.select([deaf], [], [], PATIENCE)[0])
            for hook in w.server.control("/webhooks")["webhooks"]:
                w.server.control("/webhooks/remove", {"webhookId": hook["id"]})
            self.assertEqual(w.server.control("/webhooks")["webhooks"], [])

    @each(forms=JSON, stores=MEMORY)
    def test_what_is_not_taken_in_time_is_dropped_and_counted(self, w):
        receiver = self.receiver(500, 500, 500, 200)
        w.server.control("/webhooks/add", {"url": receiver.url, "repo": w.repo})
        for _ in range(4400):
            w.cancel(w.submit("x"))
        def hook():
            return w.server.control("/webhooks")["webhooks"][0]

        self.until(lambda: hook()["delivered"] + hook()["dropped"] == 8800)
        self.assertGreater(hook()["delivered"], 8000)

    def test_registrations_outlive_the_server_and_begin_with_its_start(self):
        server = self.serve("--store", "sqlite")
        receiver = self.receiver()
        added = server.control("/webhooks/add", {"url": receiver.url, "types": ["server.started", "policy.changed"]})
        path = os.path.join(server.data, "webhooks.json")
        self.assertEqual(stat.S_IMODE(os.stat(path).st_mode), 0o600)
        self.assertEqual(server.stop(), 0)
        server = self.serve("--store", "sqlite")
        headers, body, _, _ = receiver.next()
        self.assertEqual([event["type"] for event in json.loads(body)["events"]], ["server.started"])
        self.assertEqual(headers["Lessor-Signature"], self.signature(added["secret"], headers, body))
        server.control("/webhooks/remove", {"webhookId": added["webhookId"]})
        self.assertEqual(server.stop(), 0)
        server = self.serve("--store", "sqlite")
        self.assertEqual(server.control("/webhooks")["webhooks"], [])

    @each(forms=JSON, stores=MEMORY)
    def test_bad_registrations_are_refused(self, w):
        for body, status in (({"url": "ftp://here/"}, 400), ({"url": "file:///etc/passwd"}, 400), ({"url": "x"}, 400),
                             ({"url": "http://here/ there"}, 400), ({"url": "http://here/\r\nX: y"}, 400), ({}, 400),
                             ({"url": "http://here", "secret": "short"}, 400),
                             ({"url": "http://here", "types": ["lease.eaten"]}, 400),
                             ({"url": "http://here", "what": 1}, 400)):
            with self.assertRaises(Refused, msg=body) as caught:
                w.server.control("/webhooks/add", body)
            self.assertEqual(caught.exception.status, status, body)
        with self.assertRaises(Refused) as caught:
            w.server.control("/webhooks/remove", {"webhookId": "nobody"})
        self.assertEqual(caught.exception.status, 404)
        for _ in range(64):
            w.server.control("/webhooks/add", {"url": "http://127.0.0.1:1/"})
        with self.assertRaises(Refused) as caught:
            w.server.control("/webhooks/add", {"url": "http://127.0.0.1:1/"})
        self.assertEqual((caught.exception.status, caught.exception.code), (409, "full"))

    def test_a_damaged_file_keeps_the_server_from_starting(self):
        data = self.path("data")
        os.makedirs(data, mode=0o700)
        with open(os.path.join(data, "webhooks.json"), "w") as file:
            file.write('{"version":1,"webhooks":[{"id":"x"}]}')
        from harness import Server
        server = Server(data, self.path("log"), "--store", "memory")
        self.assertIsNone(server.port)
        self.assertIn("webhooks.json", server.log())

    def test_the_commands_add_list_and_remove(self):
        server = self.serve("--store", "memory")
        receiver = self.receiver()

        def run(*args):
            return subprocess.run([LESSOR, "--data", server.data, *args], capture_output=True, text=True, timeout=PATIENCE)

        secret = self.path("secret")
        with open(secret, "w") as file:
            file.write("a secret of my own\n")
        added = run("webhook", "add", receiver.url, "--secret-file", secret, "--types", "policy.changed,rack.removed")
        self.assertEqual((added.returncode, added.stderr), (0, ""))
        server.control("/racks/policy", {"requireStartApproval": True}, "PUT")
        headers, body, _, _ = receiver.next()
        self.assertEqual(headers["Lessor-Signature"], self.signature("a secret of my own", headers, body))
        listed = run("webhook", "ls").stdout
        self.assertIn(added.stdout.strip(), listed)
        self.assertIn(receiver.url, listed)
        self.assertEqual(run("webhook", "rm", added.stdout.strip()).returncode, 0)
        self.assertEqual(run("webhook", "rm", added.stdout.strip()).returncode, 5)
        made = run("webhook", "add", receiver.url)
        self.assertRegex(made.stderr, "[0-9a-f]{64}\n")


if __name__ == "__main__":
    unittest.main()
