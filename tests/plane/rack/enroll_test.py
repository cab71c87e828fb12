# SPDX-License-Identifier: MIT
"""Enrolment, authentication, and what comes before a request is read (rack-protocol 2, 4 and 20)."""
import json
import os
import re
import threading
import unittest

import beast2
import rack_types
from harness import HOUR, MINUTE, ROOT, Case, Rack, Refused, Reply, each

UUID7 = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}")
TOKEN = re.compile(r"e3rk_[0-9a-f]{64}")
AUTHENTICATED = sorted(set(rack_types.ENDPOINTS) - {"enroll"})
EXAMPLES = {
    "lease": {"tiers": ["x"], "bootId": "b"},
    "lease/watch": {"leases": [], "bootId": None},
    "lease/extend": {"repo": "r", "leaseId": "l"},
    "heartbeat": {"healthy": True, "freeCapacity": 1, "runningLeases": [], "agentVersion": "1.0.0", "bootId": "b",
                  "cacheBytes": 0},
    "storage": {"repo": "r", "leaseId": "l", "need": [], "output": None, "envManifest": None, "outputs": [],
                "commits": []},
    "logs": {"repo": "r", "leaseId": "l", "chunks": []},
    "complete": {"repo": "r", "leaseId": "l", "resultJson": "{}", "outputUploadId": None, "inlineOutput": None},
}


class Enrolment(Case):
    @each
    def test_a_token_is_exchanged_for_a_rack(self, w):
        """R001 R014"""
        reply = w.enroll(w.mint(), label="lab 3", tiers=["a", "b"], capacity=7)
        self.assertEqual(reply.status, 200, reply)
        self.assertRegex(reply.value["rackId"], re.compile("^" + UUID7.pattern + "$"))
        self.assertRegex(reply.value["rackToken"], re.compile("^" + TOKEN.pattern + "$"))
        seen = Rack(w.server, w.form, rack_id=reply.value["rackId"]).seen()
        self.assertEqual((seen["label"], seen["tiers"], seen["capacity"], seen["healthy"]), ("lab 3", ["a", "b"], 7, True))
        self.assertNotIn("lastBoot", seen)
        self.assertNotIn("approvedBoot", seen)

    @each
    def test_a_token_is_exchanged_once(self, w):
        """R002"""
        token = w.mint()
        self.assertEqual(w.enroll(token).status, 200)
        self.assertUnauthorized(w.enroll(token))

    @each
    def test_of_many_exchanges_one_succeeds(self, w):
        """R003"""
        token, replies = w.mint(), []
        threads = [threading.Thread(target=lambda: replies.append(w.enroll(token))) for _ in range(12)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(sorted(r.status for r in replies), [200] + [401] * 11)

    @each
    def test_a_token_ends_at_its_expiry(self, w):
        """R004"""
        early, late = w.mint(2 * MINUTE), w.mint(2 * MINUTE)
        w.server.advance(2 * MINUTE - 1)
        self.assertEqual(w.enroll(early).status, 200)
        w.server.advance(1)
        self.assertUnauthorized(w.enroll(late))

    @each
    def test_what_cannot_be_read_is_no_credential(self, w):
        """R005: in BEAST2 401; the JSON form says 400 (section 20)."""
        nobody = Rack(w.server, w.form)
        for body in (b"", b"\0", b"{", b"[]", nobody.body("enroll", {
                "enrollmentToken": w.mint(), "hostInfo": {"label": "", "tiers": [], "capacity": 1, "agentVersion": ""}})[:-2]):
            reply = nobody.call("enroll", body=body)
            if w.form == "beast2":
                self.assertUnauthorized(reply)
            else:
                self.assertEqual((reply.status, reply.code), (400, "bad_request"), reply)

    @each
    def test_a_wrong_type_is_no_credential(self, w):
        """R005: the type alone decides; parameters count in BEAST2 and not in JSON."""
        token = w.mint()
        message = {"enrollmentToken": token,
                   "hostInfo": {"label": "", "tiers": [], "capacity": 1, "agentVersion": "1.0.0"}}
        beast, other = Rack(w.server, "beast2"), Rack(w.server, w.form)
        for kind in ("application/beast2; charset=utf-8", "Application/BEAST2", "text/plain", "application/octet-stream"):
            self.assertUnauthorized(beast.call("enroll", message, content_type=kind))
        kind = {"beast2": "application/vnd.elara.beast2", "json": "Application/JSON ; charset=utf-8"}[w.form]
        self.assertEqual(other.call("enroll", message, content_type=kind).status, 200)

    @each(forms=("json",))
    def test_an_unknown_member_is_refused_and_named(self, w):
        """Section 19."""
        reply = Rack(w.server, "json").call("enroll", body=json.dumps({
            "enrollmentToken": "x", "hostInfo": {"label": "", "tiers": [], "capacity": 1, "agentVersion": "", "gpu": 1}}).encode())
        self.assertEqual((reply.status, reply.code), (400, "bad_request"))
        self.assertIn("gpu", reply.message)

    @each
    def test_too_long_a_body_leaves_the_token_usable(self, w):
        """R006"""
        token = w.mint()
        message = {"enrollmentToken": token,
                   "hostInfo": {"label": "x" * 65536, "tiers": [], "capacity": 1, "agentVersion": "1.0.0"}}
        reply = Rack(w.server, w.form).call("enroll", message)
        self.assertEqual(reply.status, 413, reply)
        self.assertEqual(w.enroll(token).status, 200)


class Authentication(Case):
    @each
    def test_every_other_call_wants_a_rack_token(self, w):
        """R007 R008 R009: and the empty bearer, another scheme, another case."""
        for name in AUTHENTICATED:
            nobody = Rack(w.server, w.form)
            self.assertUnauthorized(nobody.call(name, EXAMPLES[name]))
            for value in ("Bearer secret", "Bearer E3RK_" + "0" * 64, "Bearer e3rk_" + "0" * 64, "Bearer ",
                          "bearer e3rk_" + "0" * 64, "Bearer  e3rk_" + "0" * 64, "e3rk_" + "0" * 64,
                          "Basic e3rk_" + "0" * 64):
                request = nobody.request(name, EXAMPLES[name])
                request.headers["Authorization"] = value
                self.assertUnauthorized(Reply(w.form, name, w.server.ask(request)))

    @each
    def test_an_enrolment_token_is_no_rack_token(self, w):
        """R010"""
        token = w.mint()
        for name in AUTHENTICATED:
            self.assertUnauthorized(Rack(w.server, w.form, token).call(name, EXAMPLES[name]))
        self.assertEqual(w.enroll(token).status, 200)

    @each
    def test_a_removed_rack_is_nobody(self, w):
        """R011: with every one of its tokens."""
        rack = w.rack()
        w.server.advance(25 * HOUR)
        successor = rack.beat().value["rotatedToken"]
        w.remove(rack)
        for token in (rack.token, successor):
            for name in AUTHENTICATED:
                self.assertUnauthorized(Rack(w.server, w.form, token).call(name, EXAMPLES[name]))

    @each("--rack-window-ms", "20000")
    def test_removal_ends_a_held_poll(self, w):
        """R012"""
        rack = w.rack(["x"])
        poll = rack.poll()
        w.server.until_parked()
        w.remove(rack)
        self.assertUnauthorized(poll.reply())

    @each
    def test_a_beat_beside_a_removal_registers_nobody(self, w):
        """R013"""
        for _ in range(10):
            rack = w.rack()
            beats = [threading.Thread(target=rack.beat) for _ in range(3)]
            for thread in beats:
                thread.start()
            w.remove(rack)
            for thread in beats:
                thread.join()
            with self.assertRaises(Refused):
                rack.seen()
            self.assertUnauthorized(rack.beat())


class Transport(Case):
    @each(Case.FAST[0], Case.FAST[1])
    def test_another_type_is_an_undecodable_body(self, w):
        """R015"""
        rack = Rack(w.server, "beast2", w.rack().token)
        for name in AUTHENTICATED:
            for kind in ("text/plain", "application/beast2; v=5", "application/beast2,application/beast2"):
                reply = rack.call(name, EXAMPLES[name], content_type=kind)
                self.assertEqual((reply.status, reply.code), (200, "ERR"), (name, kind, reply))
            request = rack.request(name, EXAMPLES[name])
            del request.headers["Content-Type"]
            self.assertEqual(Reply("beast2", name, w.server.ask(request)).code, "ERR")

    @each
    def test_a_chunked_body_over_the_limit(self, w):
        """R016"""
        rack = w.rack()
        with w.server.wire() as wire:
            request = rack.request("heartbeat", body=b"")
            wire.send(request.head("Transfer-Encoding: chunked", length=False))
            chunk = b"10000\r\n" + b"x" * 65536 + b"\r\n"
            try:
                for _ in range(33):
                    wire.send(chunk)
                wire.send(b"0\r\n\r\n")
            except OSError:
                pass  # it need not read on
            answer = wire.answer()
        self.assertEqual(answer.status, 413, answer)
        self.assertEqual(answer.headers["content-type"].split(";")[0],
                         "application/json" if w.form == "json" else "text/plain")

    @each
    def test_a_body_of_exactly_the_limit(self, w):
        """R017"""
        rack = w.rack()
        for name, limit in (("heartbeat", 2097152), ("lease/extend", 2097152)):
            body = rack.body(name, EXAMPLES[name])
            if w.form == "json":
                body += b" " * (limit - len(body))
                self.assertEqual(rack.call(name, body=body).status, 200)
            else:
                body += b"\0" * (limit - len(body))
                self.assertEqual(rack.call(name, body=body).code, "ERR")
            self.assertEqual(rack.call(name, body=body + b" ").status, 413)

    @each(stores=("memory",))
    def test_a_body_that_does_not_come(self, w):
        """R018: within 15 s, however slowly it comes."""
        rack = w.rack()
        with w.server.wire() as wire:
            wire.send(rack.request("heartbeat", body=b"x" * 1000).head() + b"x" * 10)
            self.assertEqual(wire.answer().status, 408)

    @each
    def test_the_credential_comes_before_the_body(self, w):
        """R019"""
        stranger = Rack(w.server, w.form, "e3rk_" + "0" * 64)
        for name in AUTHENTICATED:
            self.assertUnauthorized(stranger.call(name, body=b"x" * 2097153))

    @each
    def test_a_declared_excess_is_refused_unread(self, w):
        """Section 20: when it is known; the answer arrives although the body never does."""
        rack = w.rack()
        for token, status in ((rack.token, 413), ("e3rk_" + "0" * 64, 401)):
            request = Rack(w.server, w.form, token).request("heartbeat", body=b"")
            with w.server.wire() as wire:
                wire.send(request.head("Content-Length: 4000000", length=False))
                self.assertEqual(wire.answer().status, status)

    @each
    def test_paths_and_methods_match_exactly(self, w):
        """Section 20: a query is ignored; other methods are 404, behind authentication where the path is known."""
        rack = w.rack()
        for name in ("lease/", "Lease", "heartbeat/", "nothing", "", "lease/watch/x", "data", "enroll/"):
            request = rack.request("heartbeat", EXAMPLES["heartbeat"])
            request.target = "/api/rack/" + name
            self.assertEqual(w.server.ask(request).status, 404, name)
        request = rack.request("heartbeat", EXAMPLES["heartbeat"])
        request.target += "?x=1"
        self.assertEqual(w.server.ask(request).status, 200)
        for method in ("GET", "PUT", "OPTIONS", "DELETE"):
            self.assertEqual(w.server.ask(rack.request("heartbeat", body=b"", method=method)).status, 404)
            self.assertEqual(w.server.ask(rack.request("enroll", body=b"", method=method)).status, 404)
            nobody = Rack(w.server, w.form)
            self.assertEqual(w.server.ask(nobody.request("heartbeat", body=b"", method=method)).status, 401)

    @each("--allow-from", "192.0.2.0/24", forms=("beast2",))
    def test_the_allowlist_comes_first(self, w):
        """Section 1: 403 text/plain, before a path or a credential is looked at."""
        for target in ("/api/rack/heartbeat", "/api/rack/enroll", "/api/rack/nothing", "/api/rack/data/x"):
            request = Rack(w.server, w.form).request("heartbeat", EXAMPLES["heartbeat"])
            request.target = target
            answer = w.server.ask(request)
            self.assertEqual((answer.status, answer.headers["content-type"].split(";")[0]), (403, "text/plain"))


class Vectors(Case):
    @each(forms=("beast2",), stores=("memory",))
    def test_every_malformed_vector_is_refused(self, w):
        """beast2 10: over HTTP, at the path whose type it is of; where no request has it, at one that takes another type."""
        with open(os.path.join(ROOT, "tests", "data", "beast2.json")) as f:
            malformed = json.load(f)["malformed"]
        paths = {"RackLeaseRequestType": "lease", "RackStorageRequestType": "storage", "RackLeaseRefType": "lease/extend",
                 "RackCompleteRequestType": "complete", "RackLogsRequestType": "logs"}
        rack = w.rack()
        for vector in malformed:
            with self.subTest(why=vector["why"]):
                reply = rack.call(paths.get(vector["type"], "heartbeat"), body=bytes.fromhex(vector["hex"]))
                self.assertEqual((reply.status, reply.code), (200, "ERR"))
        self.assertEqual(w.enroll(w.mint()).status, 200)

    @each(Case.FAST[0], Case.FAST[1], forms=("beast2",), stores=("memory",))
    def test_every_request_of_the_vectors_is_read(self, w):
        """As other writers write it: deflated, in segments, with references."""
        with open(os.path.join(ROOT, "tests", "data", "beast2.json")) as f:
            vectors = json.load(f)
        paths = {"RackLeaseRequestType": "lease", "RackExtendRequestType": "lease/extend",
                 "RackLeaseRefType": "lease/extend", "RackHeartbeatRequestType": "heartbeat"}
        rack = w.rack(beat=False)
        for vector in vectors["vectors"] + vectors["decode_only"]:
            if vector["type"] in paths:
                with self.subTest(note=vector["note"]):
                    reply = rack.call(paths[vector["type"]], body=bytes.fromhex(vector["hex"]))
                    self.assertIn(reply.status, (200, 204))
                    if paths[vector["type"]] != "lease":  # its agent is as old as the vector says
                        self.assertIsNone(reply.code, reply)


if __name__ == "__main__":
    unittest.main()
