# SPDX-License-Identifier: MIT
"""Bad input gets a clear error, behind a good signature too, and changes nothing."""
import copy
import json
import unittest

import harness
import party

VERSION = "?protocolVersion=2"  # for bodies that declare none, so that they reach what is behind
WRONG = {str: [None, True, 7, [], {}, ""], int: [None, True, "7", 1.5, -1, 0, 9007199254740992, [], {}],
         bool: [None, 0, 1, "true", [], {}], dict: [None, True, 7, "", []], list: [None, True, 7, "", {}]}


def places(value, at=()):
    """Every value within a JSON value, by its path, outermost first."""
    yield at, value
    for key, part in value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ():
        yield from places(part, (*at, key))


def replaced(root, at, value):
    root = copy.deepcopy(root)
    holder = root
    for key in at[:-1]:
        holder = holder[key]
    holder[at[-1]] = value
    return root


def removed(root, at):
    root = copy.deepcopy(root)
    holder = root
    for key in at[:-1]:
        holder = holder[key]
    del holder[at[-1]]
    return root


class BadInput(harness.Case):
    def setUp(self):
        super().setUp()
        self.server = self.serve("--store", "sqlite")
        self.wire = self.server.wire()
        self.addCleanup(self.wire.close)
        self.lease = "none"

    def tearDown(self):
        """Whatever came: it serves on, has taken nothing, and had no trouble."""
        self.assertEqual(self.server.ready(), 200)
        self.assertEqual(self.server.stop(), 0)
        self.assertNotIn('"level":"error"', self.server.log())

    def nothing_was_taken(self):
        with self.server.wire() as wire:
            for device in self.devices:
                self.assertEqual(self.granted(wire, device, 64), [])

    def good(self):
        """One good request of each endpoint: (who, name, body)."""
        site, device = self.site, self.device
        ref = {"jobId": "j", "leaseId": self.lease}
        both = {"protocolVersion": "2"}
        return [
            (site, "enqueue", {**both, "siteId": site.id, "stub": site.stub("j", "alice", purpose="p")}),
            (site, "payload", {**both, "siteId": site.id, "jobId": "j",
                               "envelope": party.envelope(site, device, "payload", "c")}),
            (site, "cancel", {**both, "siteId": site.id, "jobId": "j"}),
            (site, "ack", {**both, "siteId": site.id, "jobIds": ["j"]}),
            (device, "claim", {**both, "runnerId": device.id, "max": 1, "capabilities": [
                {**party.CAPABILITIES[0], "knownModels": ["m"]}]}),
            (device, "fetch", {**both, "runnerId": device.id, **ref}),
            (device, "result", {**both, "runnerId": device.id, **ref, "disposition": "ok",
                                "envelope": party.envelope(device, site, "result", "c")}),
            (device, "heartbeat", {**both, "runnerId": device.id, "daemonVersion": "1.0.0",
                                   "capabilities": party.CAPABILITIES, "activeLeases": [ref], "withheld": [
                                       {"kind": "llm.chat", "claimants": [{"service": "a", "offer": "team"},
                                                                          {"service": "b", "offer": "private"}]}]}),
            (device, "release", {**both, "runnerId": device.id, "leases": [ref], "reason": "shutdown"}),
        ]

    def refuses(self, who, name, body, why, query=VERSION):
        request = who.post(name, body)
        request.target += query
        answer = self.wire.ask(request)
        self.assertEqual((answer.status, answer.json["error"]), (400, "bad-request"), (name, why, body, answer))
        self.assertEqual(set(answer.json), {"error", "message"})
        self.assertEqual(answer.json["message"], "request failed schema validation")

    def test_the_good_requests_are_good(self):
        """Else the refusals below would prove nothing."""
        for who, name, body in self.good():
            answer = self.wire.ask(who.post(name, body))
            self.assertIn((answer.status, answer.json.get("error")), [(200, None), (404, "not-found"), (409, "too-late")],
                          (name, answer))

    def test_malformed_json(self):
        for who, name, body in self.good():
            text = json.dumps(body)
            for bad in (text[:-1] + ",}", text + "x", text + text, text.replace(":", "=", 1), text.replace('"', "'"),
                        text[:-1] + ',"n":NaN}', text[:-1] + ',"n":01}', text[:-1] + ',"n":+1}', text[:-1] + ',"n":.5}',
                        text[:-1] + ',"n":1.}', text[:-1] + ',"n":0x1}', text[:-1] + ',"n":Infinity}', "/**/" + text,
                        text.replace('"2"', '"2\t"', 1), text.replace('"2"', '"\\x32"', 1), "null", "true", "1",
                        '"text"', "[]", f"[{text}]", " ", "\0", text + "\0", "\ufeff\ufeff" + text, "nul", "{", "}"):
                self.refuses(who, name, bad.encode(), "malformed")
        self.nothing_was_taken()

    def test_truncated_json(self):
        """Cut at every byte, and signed as it is."""
        for who, name, body in self.good():
            text = json.dumps(body, separators=(",", ":")).encode()
            for n in range(len(text)):
                self.refuses(who, name, text[:n], f"cut at {n}")
        self.nothing_was_taken()

    def test_deeply_nested_json(self):
        for who, name, body in self.good():
            for opening, closing in (("[", "]"), ('{"a":', "}")):
                for depth in (65, 1000, 150000):
                    self.refuses(who, name, (opening * depth + "1" + closing * depth).encode(), depth)
                    self.refuses(who, name, (opening * depth).encode(), depth)
            self.refuses(who, name, {**body, "x": json.loads("[" * 60 + "]" * 60)}, "deep within")
        self.nothing_was_taken()

    def test_wrong_types(self):
        for who, name, body in self.good():
            for at, value in places(body):
                for wrong in WRONG[type(value)]:
                    if at == () or at == ("protocolVersion",):
                        continue
                    # What may be empty or nothing at all is no mistake there.
                    if (wrong == 0 and at[-1] == "durationMs") or (wrong == "" and at == ("envelope", "x")):
                        continue
                    self.refuses(who, name, replaced(body, at, wrong), at)
                if isinstance(value, str) and at[-1] in ("kind", "audience", "sizeClass", "direction", "disposition",
                                                          "reason", "backendId", "backendClass", "offerScope", "offer"):
                    self.refuses(who, name, replaced(body, at, "sideways"), at)
        for n in (0, 65, 64.5, 1e300):
            self.refuses(self.device, "claim", {**self.good()[4][2], "max": n}, n)
        self.nothing_was_taken()

    def test_a_wrong_version(self):
        for who, name, body in self.good():
            for wrong in (None, True, 2, [], {}, "", "1", "3", "10", "2 ", "2\0"):
                answer = self.wire.ask(who.post(name, {**body, "protocolVersion": wrong}))
                self.assertEqual((answer.status, answer.json["error"]), (400, "unsupported-protocol-version"), wrong)
                self.assertEqual(answer.json["supported"], ["2"])
        self.nothing_was_taken()

    def test_unknown_and_missing_keys(self):
        optional = {"purpose", "knownModels", "withheld", "protocolVersion"}
        for who, name, body in self.good():
            for at, value in places(body):
                if isinstance(value, dict):
                    for unknown in ("x", "", "__proto__", "constructor", "jobid", "JobId", "jobId\0", "j\u00f6b"):
                        self.refuses(who, name, replaced(body, (*at, unknown), "x"), (at, unknown))
                    for key in value:
                        if key not in optional:
                            self.refuses(who, name, removed(body, (*at, key)), (at, key))
        self.nothing_was_taken()

    def test_of_duplicate_keys_the_last_one_counts(self):
        """relay-protocol section 2, at every level."""
        text = json.dumps(self.good()[0][2])
        for n, (first, then) in enumerate([('"protocolVersion": "2"', '"protocolVersion": "1", "protocolVersion": "2"'),
                                           ('"id": "j"', '"id": 7, "id": "j"'),
                                           ('"siteId"', '"siteId": "site_b", "siteId"'),
                                           ('"stub": {', '"stub": [], "stub": {')]):
            twice = text.replace(first, then, 1).replace('"j"', f'"j{n}"')
            self.assertEqual(self.ok(self.wire, self.site.post("enqueue", twice.encode()))["jobId"], f"j{n}")
        last = text.replace('"protocolVersion": "2"', '"protocolVersion": "2", "protocolVersion": "1"').encode()
        self.assertEqual(self.wire.ask(self.site.post("enqueue", last)).json["error"], "unsupported-protocol-version")
        last = text.replace('"id": "j"', '"id": "j", "id": 7').encode()
        self.refuses(self.site, "enqueue", last, "the last id is none")
        last = text.replace('"siteId": "site_a"', '"siteId": "site_a", "siteId": "site_b"').encode()
        self.assertEqual(self.wire.ask(self.site.post("enqueue", last)).status, 403)

    def test_bytes_that_are_no_text(self):
        for who, name, body in self.good():
            text = json.dumps(body).encode()
            for bad in (b"\xff", b"\xc0\x80", b"\xe0\x80\x80", b"\xed\xa0\x80", b"\xf4\x90\x80\x80", b"\xc3", b"\x80",
                        b"\xf8\x88\x80\x80\x80", b"\\ud800", b"\\udc00x", b"\\ud800\\ud800", b"\0", b"\x01", b"\n"):
                for word in (b'"j"', b'"site_a"', b'"dev_1"', b'"none"'):
                    if word in text:
                        self.refuses(who, name, text.replace(word, word[:-1] + bad + b'"', 1), bad)
        self.nothing_was_taken()

    def test_ids_may_hold_any_text(self):
        """NUL included: what is cut at it would be another job's id."""
        for store in harness.STORES:
            data = self.path("ids-" + store)
            server = self.serve("--store", store, data=data)
            ids = ["a", "a\0", "a\0b", "\0", " ", "\u00e4", "a\u0308", "\U0001f600", "\ufeff", "../x", "%00", "'; --",
                   "\u2028", "\x7f", "x" * 4000, "\r\nX: y"]
            with server.wire() as wire:
                for job_id in ids:
                    self.assertEqual(self.ok(wire, self.site.enqueue(job_id, "alice"))["jobId"], job_id)
                if store == "sqlite":
                    server.kill()
                    server = self.serve("--store", store, data=data)
            with server.wire() as wire:
                seen = []
                while len(seen) < len(ids):
                    jobs = self.granted(wire, self.device, 64)
                    self.assertTrue(jobs, seen)
                    for job_id, lease in jobs:
                        seen.append(job_id)
                        self.seal(wire, job_id)
                        self.ok(wire, self.device.fetch(job_id, lease))
                        self.ok(wire, self.device.result(
                            job_id, lease, party.envelope(self.device, self.site, "result", "r")))
                self.assertEqual(seen, ids)
                self.assertEqual([job["jobId"] for job in self.ok(wire, self.site.results())["jobs"]], ids)
            self.assertEqual(server.stop(), 0)

    def test_ids_in_headers(self):
        good = self.site.enqueue("j", "alice")
        for value, status in (("", 401), ("nobody", 401), ("site_a, site_a", 401), ("site_a\xff", 401), ("SITE_A", 401),
                              ("site_a" * 500, 401), ("site_a\0b", 400), ("site_a\0", 400), ("\0site_a", 400),
                              ("site_a\rx: y", 400), ("site_a\r\n x", 400), ("site_a\x01", 400)):
            good.headers["x-byollm-site"] = value
            with self.server.wire() as wire:
                answer = wire.ask(good)
                self.assertEqual(answer.status, status, (value[:20], answer))
        self.nothing_was_taken()

    def test_signature_headers(self):
        for damage in ({"x-byollm-signature": ""}, {"x-byollm-signature": "A"}, {"x-byollm-signature": "A" * 86},
                       {"x-byollm-signature": "!" * 4000}, {"x-byollm-issued-at": "-1"}, {"x-byollm-issued-at": "1e400"},
                       {"x-byollm-issued-at": "9" * 400}, {"x-byollm-issued-at": "0"}, {"x-byollm-issued-at": "now"}):
            request = self.site.enqueue("j", "alice")
            request.headers.update(damage)
            answer = self.wire.ask(request)
            self.assertEqual((answer.status, answer.json["error"]), (401, "unauthorized"), (damage, answer))
        self.nothing_was_taken()

    @staticmethod
    def send_what_it_takes(wire, data):
        try:
            wire.send(data)
        except ConnectionError:
            pass

    def test_a_body_over_its_limit(self):
        """Declared or not, and an answer even to a client that goes on sending."""
        for who, name, limit in ((self.site, "enqueue", 1 << 20), (self.device, "claim", 1 << 20),
                                 (self.device, "heartbeat", 1 << 20), (self.site, "payload", 40 << 20),
                                 (self.device, "result", 40 << 20)):
            request = who.post(name, b" " * (limit + 1))
            undeclared = request.head("Transfer-Encoding: chunked", length=False)
            for data in (request.bytes(), undeclared + b"%x\r\n" % (limit + 1) + request.body + b"\r\n0\r\n\r\n"):
                with self.server.wire() as wire:
                    sender = harness.Crowd(lambda _: self.send_what_it_takes(wire, data))
                    answer = wire.answer()
                    self.assertEqual((answer.status, answer.json["error"]), (413, "bad-request"), (name, answer))
                    sender.stop()
        self.refuses(self.site, "enqueue", b" " * (1 << 20), "as large as it may be, and nothing in it")
        self.nothing_was_taken()

    def test_an_envelope_over_its_ceiling(self):
        self.ok(self.wire, self.site.enqueue("j", "alice"))
        (job, lease), = self.granted(self.wire, self.device)
        empty = len(json.dumps(party.envelope(self.site, self.device, "payload", ""), separators=(",", ":")))
        for more, status in ((1, 400), (0, 200)):
            request = self.site.payload(job, party.envelope(
                self.site, self.device, "payload", "A" * (6291456 - empty + more)))
            answer = self.wire.ask(request)
            self.assertEqual(answer.status, status, answer)
            if status == 400:
                self.assertRegex(answer.json["message"], "^this message is 6.1 MB and the limit is 6.0 MB")
        self.assertEqual(len(self.ok(self.wire, self.device.fetch(job, lease))["envelope"]["ciphertext"]), 6291456 - empty)

    def test_another_method(self):
        """Any method but POST is read like a GET, with an empty body; never 405 (relay-protocol 5)."""
        for who, name, body in self.good():
            for method in ("GET", "PUT", "DELETE", "PATCH", "OPTIONS", "BREW"):
                request = who.post(name, b"")
                request.method, request.target = method, request.target + VERSION
                answer = self.wire.ask(request)
                self.assertEqual((answer.status, answer.json["error"]), (400, "bad-request"), (method, name, answer))
                request = who.post(name, body)  # signed with a body that does not count
                request.method, request.target = method, request.target + VERSION
                self.assertEqual(self.wire.ask(request).status, 401, (method, name))
        for method, path, status in (("POST", "/health/live", 404), ("PUT", "/health/ready", 404), ("GET", "/", 404),
                                     ("POST", "/byollm", 404), ("GET", "/byollm/nothing", 400)):
            self.assertEqual(self.wire.ask(party.Request(method, path, {}, b"")).status, status, (method, path))
        self.nothing_was_taken()

    def ends_with(self, data, *statuses):
        """An answer and then the end: who is that confused is not listened to further."""
        with self.server.wire() as wire:
            wire.send(data)
            answer = wire.answer()
            self.assertIn(answer.status, statuses, (data[:300], answer))
            self.assertEqual(answer.headers["connection"], "close")
            try:
                while wire.socket.recv(65536):  # libmicrohttpd 0.9.75 writes the head of its own refusals twice
                    pass
            except ConnectionResetError:
                pass

    def test_wrong_content_length(self):
        request = self.site.enqueue("j", "alice")
        n = len(request.body)
        for lengths in (["Content-Length: -1"], ["Content-Length: +1"], ["Content-Length: 0x10"], ["Content-Length: ten"],
                        ["Content-Length: "], ["Content-Length: 1 2"], ["Content-Length: 1,1"],
                        ["Content-Length: 18446744073709551617"], ["Content-Length: 99999999999999999999999999"],
                        [f"Content-Length: {n}", f"Content-Length: {n + 1}"],
                        [f"Content-Length: {n}", "Transfer-Encoding: chunked"]):
            self.ends_with(request.head(*lengths, length=False) + request.body, 400, 413)
        # Too short: what was signed is not what came, and the rest is no request.
        with self.server.wire() as wire:
            wire.send(request.head(f"Content-Length: {n - 10}", length=False) + request.body + b"\r\n\r\n")
            answer = wire.answer()
            self.assertIn(answer.status, (400, 401), answer)
            try:
                self.assertEqual(wire.answer().status, 400)
            except (harness.Gone, ConnectionResetError):
                pass
        # Too long: nobody answers for a body that did not come.
        with self.server.wire() as wire:
            wire.send(request.head(f"Content-Length: {n + 10}", length=False) + request.body)
            wire.socket.shutdown(1)
            try:
                self.assertEqual(wire.answer().status, 400)
            except (harness.Gone, ConnectionResetError):
                pass
        self.nothing_was_taken()

    def test_pipelined_requests(self):
        """Each is answered in its place, a bad one among them too."""
        jobs = [f"p{i}" for i in range(30)]
        requests = [self.site.enqueue(job, "alice") for job in jobs]
        requests[10] = self.site.post("enqueue", b'{"protocolVersion":"2"')
        requests[10].target += VERSION
        requests[20].headers["x-byollm-signature"] = "A" * 86
        with self.server.wire() as wire:
            wire.send(b"".join(r.bytes() for r in requests))
            for i, job in enumerate(jobs):
                answer = wire.answer()
                self.assertEqual(answer.status, {10: 400, 20: 401}.get(i, 200), answer)
                if answer.status == 200:
                    self.assertEqual(answer.json["jobId"], job)
        # The whole life of a job, in one breath.
        with self.server.wire() as wire:
            (job, lease), = self.granted(wire, self.device)
            wire.send(self.site.payload(job, party.envelope(self.site, self.device, "payload", "c")).bytes() +
                      self.device.fetch(job, lease).bytes() +
                      self.device.result(job, lease, party.envelope(self.device, self.site, "result", "r")).bytes() +
                      self.site.results().bytes())
            answers = [wire.answer() for _ in range(4)]
            self.assertEqual([a.status for a in answers], [200] * 4)
            self.assertEqual([j["jobId"] for j in answers[3].json["jobs"]], [job])

    def test_chunked_bodies(self):
        for i, n in enumerate((1, 7, 1000)):
            request = self.site.enqueue(f"c{i}", "alice")
            parts = [request.body[at:at + n] for at in range(0, len(request.body), n)]
            with self.server.wire() as wire:
                wire.send(request.head("Transfer-Encoding: chunked", length=False))
                for part in parts:
                    wire.send(b"%x;name=value\r\n%s\r\n" % (len(part), part))
                wire.send(b"0\r\nX-After: x\r\n\r\n")
                self.assertEqual(wire.answer().json["jobId"], f"c{i}")
                self.ok(wire, self.site.enqueue(f"c{i}", "alice"))
        request = self.site.enqueue("bad", "alice")
        head = request.head("Transfer-Encoding: chunked", length=False)
        for bad in (b"zz\r\n", b"-1\r\n", b"\r\n", b"fffffffffffffffff\r\n", b"4\r\nabcdefgh\r\n0\r\n\r\n"):
            self.ends_with(head + bad + b"\r\n", 400, 413)
        self.ends_with(request.head("Transfer-Encoding: gzip", length=False), 400)
        device = self.devices[0]
        with self.server.wire() as wire:
            self.assertEqual([job for job, _ in self.granted(wire, device, 64)], ["c0", "c1"])  # two a pair at a time

    def test_garbage_instead_of_http(self):
        for data in (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", b"\0" * 200 + b"\r\n\r\n", b"GET\r\n\r\n",
                     b"GET / HTTP/9.9\r\n\r\n", b"GET / HTTP/1.1\r\n\r\n", b"GET  / HTTP/1.1\r\nHost: h\r\n\r\n",
                     b"POST /byollm/claim HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n", b"\r\n" * 50000,
                     b"GET / HTTP/1.1\r\nHost: h\r\n" + b"x: y\r\n" * 5000 + b"\r\n",
                     b"GET / HTTP/1.1\r\nHost: h\r\nx: " + b"y" * 200000 + b"\r\n\r\n"):
            with self.server.wire() as wire:
                try:
                    wire.send(data)
                    wire.socket.shutdown(1)
                    self.assertGreaterEqual(wire.answer().status, 400, data[:40])
                except (harness.Gone, OSError):
                    pass
        self.nothing_was_taken()


if __name__ == "__main__":
    unittest.main()
