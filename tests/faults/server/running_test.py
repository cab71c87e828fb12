# SPDX-License-Identifier: MIT
"""Signals under load, the clock, memory and descriptors of the real process."""
import json
import os
import resource
import shutil
import ssl
import subprocess
import time
import unittest
import signal

import harness
import party

LATE = 1796134500000  # where the settable clock starts


class Load(harness.Case):
    """Clients that publish and look on, each on a connection of its own, and count what was answered."""

    def publish(self, server, number, wire_of=None):
        def work(stopping):
            i = 0
            while not stopping.is_set():
                with (wire_of or harness.Server.wire)(server) as wire:
                    for _ in range(50):
                        job_id = f"l{number}-{i}"
                        i += 1
                        try:
                            wire.send(self.site.enqueue(job_id, "alice").bytes())
                        except OSError:
                            return  # closed between two requests, which is what an idle connection gets
                        try:
                            answer = wire.answer()
                        except (harness.Gone, ConnectionError):
                            if not self.ending:
                                raise
                            self.unanswered.append(job_id)
                            return
                        self.assertEqual(answer.status, 200, answer)
                        self.accepted.append(job_id)
                        if answer.headers.get("connection") == "close" or stopping.is_set():
                            break
                if self.ending:
                    return
        return work

    def setUp(self):
        super().setUp()
        self.accepted, self.unanswered, self.ending = [], [], False

    def states(self, server):
        return {job["jobId"]: job["state"] for job in server.control("/jobs?limit=10000")["jobs"]}


class Signals(Load):
    def test_the_end_under_load(self):
        """Within 10 s, with an answer to everything that was taken, long polls and slow bodies included."""
        for number in (signal.SIGTERM, signal.SIGINT):
            data = self.path(f"data-{number}")
            server = self.serve(data=data, env={"LESSOR_THREADS": "2"})
            self.setUp_counts()
            crowd = harness.Crowd(*(self.publish(server, f"{number}-{i}") for i in range(8)))
            waiting = server.wire()
            waiting.send(self.sites[1].pending("&wait=25000").bytes())
            slow, request = server.wire(), self.site.enqueue("slow", "alice")
            slow.send(request.head() + request.body[:10])
            self.until(lambda: len(self.accepted) > 300, "some load")
            self.ending = True
            began = time.monotonic()
            server.process.send_signal(number)
            self.assertEqual(waiting.answer().json, {"jobs": []})
            slow.send(request.body[10:])
            self.assertEqual(slow.answer().status, 200)
            self.assertEqual(server.wait(), 0, server.log())
            self.assertLess(time.monotonic() - began, 10)
            waiting.close()
            slow.close()
            crowd.stop()
            self.assertEqual(self.unanswered, [])
            server = self.serve(data=data)
            self.assertEqual(set(self.states(server)), {"slow", *self.accepted})
            self.assertEqual(server.stop(), 0)

    def setUp_counts(self):
        self.accepted, self.unanswered, self.ending = [], [], False

    def test_a_client_that_never_ends_is_cut_off_in_time(self):
        server = self.serve()
        slow, request = server.wire(), self.site.enqueue("slow", "alice")
        slow.send(request.head() + request.body[:10])
        self.assertEqual(server.ask(self.site.enqueue("j", "alice")).status, 200)
        began = time.monotonic()
        self.assertEqual(server.stop(), 1)
        self.assertLess(time.monotonic() - began, 10)
        slow.close()
        self.assertRegex(server.log(), r"lessord: some requests were cut off[^\n]*\n$")
        self.assertEqual(self.states(self.serve()), {"j": "queued"})

    def certificate(self, name):
        subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes",
                        "-keyout", self.path("key.new"), "-out", self.path("cert.new"), "-days", "2", "-subj", f"/CN={name}"],
                       check=True, stderr=subprocess.DEVNULL)
        os.replace(self.path("key.new"), self.path("key.pem"))
        os.replace(self.path("cert.new"), self.path("cert.pem"))

    def secure(self, server):
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        wire = server.wire()
        wire.socket = context.wrap_socket(wire.socket)
        return wire

    def name_of(self, server):
        with self.secure(server) as wire:
            return ssl.DER_cert_to_PEM_cert(wire.socket.getpeercert(True))

    @unittest.skipUnless(shutil.which("openssl"), "no openssl to make certificates with")
    def test_reading_again_under_load(self):
        """Good and broken certificates and projections: what is broken stays out, and nobody notices."""
        self.certificate("one")
        server = self.serve("--tls-cert", self.path("cert.pem"), "--tls-key", self.path("key.pem"))
        good = party.projection(self.sites, self.devices)
        crowd = harness.Crowd(*(self.publish(server, i, self.secure) for i in range(4)))
        log = 0

        def reload(event):
            nonlocal log
            server.process.send_signal(signal.SIGHUP)
            self.until(lambda: server.log().count(event) > log, event)
            log = server.log().count(event)

        first = self.name_of(server)
        for bad in ("", "{", "[]", '{"consents":[],"x":1}', json.dumps(good)[:-5], '{"sites":[]}', "\0" * 1000, "\xff"):
            self.write("projection.json", bad)
            reload("source-refused")
        stranger = party.Site("site_new")
        self.write("projection.json", json.dumps(party.projection([*self.sites, stranger], self.devices)))
        server.process.send_signal(signal.SIGHUP)
        with self.secure(server) as wire:
            self.until(lambda: wire.ask(stranger.enqueue("n", "alice")).status == 200, "the new projection")
        log = 0
        for bad in ("", "no certificate", "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"):
            self.write("cert.pem", bad)
            reload("certificate-not-reloaded")
        self.assertEqual(self.name_of(server), first)
        self.certificate("two")
        server.process.send_signal(signal.SIGHUP)
        self.until(lambda: self.name_of(server) != first, "the new certificate")
        for _ in range(50):
            server.process.send_signal(signal.SIGHUP)
            time.sleep(0.002)
        n = len(self.accepted)
        self.until(lambda: len(self.accepted) > n + 100, "work going on")
        crowd.stop()
        self.ending = True
        self.assertEqual(server.stop(), 0)
        server = self.serve()
        self.assertLessEqual(set(self.accepted), set(self.states(server)))


class Clock(harness.Case):
    """Time that jumps. Needs a build with test hooks."""

    def start(self, store):
        server = self.serve("--store", store, "--lease-ms", "60000", data=self.path(store),
                            env={"LESSOR_TEST_NOW_MS": str(LATE)})
        if server.ask(party.Request("POST", "/test/advance", {}, b'{"advance":0}')).status != 200:
            self.skipTest("a build without test hooks")
        self.now = LATE
        return server

    def advance(self, server, ms):
        server.hook("advance", {"advance": ms})
        self.now += ms

    def enqueue(self, job_id, deadline_in):
        return self.site.post("enqueue", {"protocolVersion": "2", "siteId": self.site.id, "stub": self.site.stub(
            job_id, "alice", deadline_ms=self.now + deadline_in)}, self.now)

    def ask(self, server, request):
        answer = server.ask(request)
        self.assertEqual(answer.status, 200, answer)
        return answer.json

    def test_a_jump_forwards_ends_what_it_should_once(self):
        for store in harness.STORES:
            server = self.start(store)
            self.ask(server, self.enqueue("short", 30000))
            self.ask(server, self.enqueue("long", 10 ** 10))
            self.assertEqual(len(self.ask(server, self.device.claim(2, at_ms=self.now))["jobs"]), 2)
            self.advance(server, 365 * 86400000 // 10)
            self.assertEqual(self.ask(server, self.site.pending(at_ms=self.now))["jobs"], [])
            # The deadline has passed for one; the other waits for whom it was with.
            self.assertEqual([j["id"] for j in self.ask(server, self.devices[1].claim(2, at_ms=self.now))["jobs"]], [])
            job, = self.ask(server, self.device.claim(2, at_ms=self.now))["jobs"]
            self.assertEqual(job["id"], "long")
            self.assertEqual(job["lease"]["expiresAt"], self.now + 60000)
            self.assertEqual(server.stop(), 0)

    def test_a_signature_of_another_time(self):
        for store in harness.STORES:
            server = self.start(store)
            for skew, status in ((120000, 200), (-120000, 200), (120001, 401), (-120001, 401), (-10 ** 12, 401), (10 ** 12, 401)):
                answer = server.ask(self.site.pending(at_ms=self.now + skew))
                self.assertEqual(answer.status, status, (skew, answer))
                if status == 401:
                    self.assertEqual((answer.json["error"], answer.json["serverTime"], answer.json["maxSkewMs"]),
                                     ("clock-skew", self.now, 120000))
            old = self.site.pending(at_ms=self.now)
            self.advance(server, 120001)
            self.assertEqual(server.ask(old).json["error"], "clock-skew")
            self.assertEqual(server.stop(), 0)

    def test_a_restart_in_the_past(self):
        """The clock was wrong and was set back: what has a time in the future waits for it, and nothing is lost."""
        server = self.start("sqlite")
        self.ask(server, self.enqueue("j", 86400000))
        grant = self.ask(server, self.device.claim(1, at_ms=self.now))["jobs"][0]["lease"]["id"]
        server.kill()
        server = self.serve("--store", "sqlite", data=self.path("sqlite"), env={"LESSOR_TEST_NOW_MS": str(LATE - 3600000)})
        self.now = LATE - 3600000
        self.assertEqual(self.ask(server, self.devices[1].claim(1, at_ms=self.now))["jobs"], [])
        self.assertEqual(self.ask(server, self.site.pending(at_ms=self.now))["jobs"][0]["leaseId"], grant)
        answer = self.ask(server, self.device.ask("result", self.now, jobId="j", leaseId=grant, disposition="ok",
                                                  envelope=party.envelope(self.device, self.site, "result", "r")))
        self.assertEqual(answer, {"accepted": True, "state": "done"})


@unittest.skipIf(os.environ.get("LESSOR_SANITIZED"), "a sanitizer's memory is not ours")
class Memory(harness.Case):
    def test_the_largest_envelope_takes_a_few_times_its_size(self):
        """In plain text and wholly in escapes, which is six times as long on the wire."""
        text = "A" * (6291456 - 300)
        for store in harness.STORES:
            server = self.serve("--store", store, "--threads", "2", data=self.path(store))
            with server.wire() as wire:
                for i, (written, times) in enumerate(((text, 5), ("\\u0041" * len(text), 14))):
                    self.ok(wire, self.site.enqueue(f"j{i}", "alice"))
                    grant, = self.granted(wire, self.device)
                    before = server.status_kb("VmRSS")
                    with open(f"/proc/{server.pid}/clear_refs", "w") as f:
                        f.write("5")  # VmHWM begins anew
                    for request in (self.site.payload(f"j{i}", party.envelope(self.site, self.device, "payload", "@")),
                                    self.device.result(*grant, party.envelope(self.device, self.site, "result", "@"))):
                        body = request.body.replace(b"@", written.encode())
                        name = request.target.rsplit("/", 1)[1]
                        who = self.site if name == "payload" else self.device
                        self.ok(wire, who.post(name, body))
                        if name == "payload":
                            got = self.ok(wire, self.device.fetch(*grant))
                            self.assertEqual(got["envelope"]["ciphertext"], text)
                    self.ok(wire, self.site.ack([f"j{i}"]))
                    peak = server.status_kb("VmHWM") - before
                    # Memory keeps what it holds in memory, so an envelope's size more.
                    self.assertLess(peak * 1024, (times + 2) * 6291456, (store, i, peak))
            self.assertEqual(server.stop(), 0)

    def test_large_bodies_at_once_share_a_budget(self):
        server = self.serve("--store", "memory", "--threads", "2")
        request = self.site.payload("nobody", party.envelope(self.site, self.device, "payload", "A" * 20000000))
        statuses = []

        def send(_):
            with server.wire() as wire:
                try:
                    wire.send(request.bytes())
                except ConnectionError:
                    pass
                statuses.append(wire.answer().status)

        before = server.status_kb("VmRSS")
        harness.Crowd(*[send] * 40).stop(tell=False)  # 800 MB
        self.assertEqual(len(statuses), 40)
        self.assertLessEqual(set(statuses), {400, 503})
        self.assertLess(server.status_kb("VmHWM") - before, 700000)
        self.assertEqual(server.stop(), 0)

    def test_bodies_of_many_values_hold_no_memory_once_answered(self):
        """Parsed, one is forty times its text; and nobody has to be known to send one."""
        server = self.serve("--store", "memory", "--threads", "2")
        before = server.status_kb("VmRSS")
        for body in (b"[" + b"0," * 500000 + b"0]", b"[" + b"{}," * 340000 + b"{}]"):
            request = party.Request("POST", "/byollm/claim", {}, body)
            wires = [server.wire() for _ in range(40)]
            for wire in wires:
                wire.send(request.bytes())
            for wire in wires:
                self.assertEqual(wire.answer().json["error"], "unsupported-protocol-version")
                wire.close()
        self.assertLess(server.status_kb("VmHWM") - before, 250000)  # of 1.6 GB
        self.assertEqual(server.stop(), 0)

    def test_a_pairing_is_small(self):
        """Anybody may start one, and it is kept: five hundred of them must be no burden."""
        server = self.serve("--verification-url", "https://example.org/")
        device = self.devices[0]
        body = {"protocolVersion": "2", "action": "start", "device": device.identity(), "capabilities": [],
                "daemon": {"version": "1", "label": "x", "platform": "linux"}}

        def start(version):
            body["daemon"]["version"] = version
            text = json.dumps(body).encode()
            return len(text), server.ask(party.Request("POST", "/byollm/pair", {}, text)).status

        n, status = start("1")
        self.assertEqual(status, 200)
        self.assertEqual(start("1" * (262144 - n + 1)), (262144, 200))
        self.assertEqual(start("1" * (262144 - n + 2)), (262145, 413))
        self.assertEqual(server.stop(), 0)


class Descriptors(harness.Case):
    def limits(self, soft, hard):
        return lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))

    def test_the_soft_limit_is_raised_to_what_connections_need(self):
        server = self.serve("--max-connections", "600", before=self.limits(64, 4096))
        soft, hard = resource.prlimit(server.pid, resource.RLIMIT_NOFILE)
        self.assertGreater(soft, 600)
        self.assertEqual(hard, 4096)
        self.assertNotIn("too-few-open-files", server.log())
        wires = [server.wire() for _ in range(500)]
        for wire in wires:
            wire.send(self.site.pending().bytes())
        self.assertEqual({wire.answer().status for wire in wires}, {200})
        for wire in wires:
            wire.close()
        self.assertEqual(server.stop(), 0)

    def test_too_low_a_hard_limit_is_said_and_lived_with(self):
        """Connections are refused, and never the store, the control socket or a file that is read again."""
        server = self.serve("--max-connections", "5000", before=self.limits(256, 256))
        self.assertRegex(server.log(), r'"event":"too-few-open-files","max_connections":5000,"served_connections":1\d\d,')
        wires = [server.wire() for _ in range(400)]
        served = 0
        for wire in wires:
            try:
                wire.send(self.site.pending().bytes())
                served += wire.answer().status == 200
            except (harness.Gone, ConnectionError):
                pass
        self.assertGreater(served, 100)
        self.assertLess(served, 256)
        stranger = party.Site("site_new")
        self.write("projection.json", json.dumps(party.projection([*self.sites, stranger], self.devices)))
        wires[0].close()
        wire = wires[1]
        self.until(lambda: wire.ask(stranger.enqueue("n", "alice")).status == 200, "the new projection")
        for wire in wires:
            wire.close()
        self.until(lambda: server.ready() == 200, "room for others")
        self.assertEqual(len(server.control("/jobs")["jobs"]), 1)
        self.assertEqual(server.stop(), 0)
        self.assertNotIn("out of descriptors", server.log())


if __name__ == "__main__":
    unittest.main()
