# SPDX-License-Identifier: MIT
"""A client that vanishes at every point of a request takes nothing with it."""
import os
import random
import signal
import time
import unittest

import harness
import party

AT_ONCE = 5  # seconds: half of the window that an unsealed claim has (relay-protocol 10)


def all_asleep(pid):
    for task in os.listdir(f"/proc/{pid}/task"):
        with open(f"/proc/{pid}/task/{task}/stat") as f:
            if f.read().rpartition(")")[2].split()[0] != "T":
                return False
    return True


def frozen(server):
    """While it sleeps, what is sent and the end after it arrive together, whatever the scheduler does."""
    os.kill(server.pid, signal.SIGSTOP)
    while not all_asleep(server.pid):  # it takes effect thread by thread
        time.sleep(0.0005)
    return lambda: os.kill(server.pid, signal.SIGCONT)


class GoneClient(harness.Case):
    def leaves_at_every_byte(self, server, data, leave):
        for n in range(len(data)):
            wire = server.wire()
            wire.send(data[:n])
            leave(wire)

    def comes_back_at_once(self, wire, device, job_id):
        """Another device gets the job, long before its window is over, and gives it back."""
        began = time.monotonic()
        grant, = self.until(lambda: self.granted(wire, device), f"{job_id} coming back", AT_ONCE)
        self.assertEqual(grant[0], job_id)
        self.assertEqual(self.ok(wire, device.release(grant))["released"], [job_id])
        return time.monotonic() - began

    @harness.each_store
    def test_a_claim_that_nobody_hears_of_goes_back_at_once(self, server, wire):
        self.ok(wire, self.site.enqueue("j", "alice"))
        other = self.devices[1]
        for leave in (harness.Wire.close, harness.Wire.reset):
            data = self.device.claim().bytes()
            self.leaves_at_every_byte(server, data, leave)
            self.comes_back_at_once(wire, other, "j")
            # Six times: more often than a job may wait out its window before it is forgotten.
            for _ in range(6):
                gone = server.wire()
                wake = frozen(server)
                gone.send(self.device.claim().bytes())
                leave(gone)
                wake()
                self.comes_back_at_once(wire, other, "j")
        # A crowd of them, each with its own job.
        for i in range(20):
            self.ok(wire, self.sites[1].enqueue(f"c{i}", "bob"))
        device = self.devices[2]
        gone = [server.wire() for _ in range(30)]
        wake = frozen(server)
        for one in gone:
            one.send(device.claim(2).bytes())
            one.close()
        wake()
        for i in range(20):
            (job, lease), *rest = self.until(lambda: self.granted(wire, device), f"c{i}", AT_ONCE)
            self.assertEqual((job, rest), (f"c{i}", []))
            self.ok(wire, self.sites[1].payload(job, party.envelope(self.sites[1], device, "payload", "c")))
            self.ok(wire, device.result(job, lease, party.envelope(device, self.sites[1], "result", "r")))

    @harness.each_store
    def test_a_claim_is_with_the_device_or_back_in_the_queue(self, server, wire):
        """Leaving at a random moment: whatever happened, the job is in exactly one of the two places."""
        dice = random.Random(1)
        for i in range(60):
            job_id = f"r{i}"
            self.ok(wire, self.site.enqueue(job_id, "alice"))
            before = server.n_sockets()
            gone = server.wire()
            self.until(lambda: server.n_sockets() > before, "being accepted")
            gone.send(self.device.claim().bytes())
            time.sleep(dice.random() * 0.003)
            dice.choice((harness.Wire.close, harness.Wire.reset))(gone)

            self.until(lambda: server.n_sockets() <= before, "the server noticing", AT_ONCE)
            pending = [job["jobId"] for job in self.ok(wire, self.site.pending())["jobs"]]
            again = [job for job, _ in self.granted(wire, self.devices[1])]
            self.assertEqual(pending + again, [job_id])
            self.assertTrue(self.ok(wire, self.site.cancel(job_id))["cancelled"])
            holder = self.ok(wire, self.site.pending())["jobs"][0]
            who = next(d for d in self.devices if d.id == holder["runnerId"])
            self.ok(wire, who.result(job_id, holder["leaseId"],
                                     party.envelope(who, self.site, "result", "r"), "canceled"))

    @harness.each_store
    def test_every_other_request_counts_whole_or_not_at_all(self, server, wire):
        envelope = party.envelope(self.site, self.device, "payload", "c" * 300)
        result = party.envelope(self.device, self.site, "result", "r" * 300)
        for leave in (harness.Wire.close, harness.Wire.reset):
            job_id = "e" + leave.__name__
            enqueue = self.site.enqueue(job_id, "alice")
            self.leaves_at_every_byte(server, enqueue.bytes(), leave)
            self.assertEqual(self.granted(wire, self.device), [])
            self.ok(wire, enqueue)
            grant, = self.granted(wire, self.device)

            payload = self.site.payload(job_id, envelope)
            self.leaves_at_every_byte(server, payload.bytes(), leave)
            answer = wire.ask(self.device.fetch(*grant))
            self.assertEqual((answer.status, answer.json["error"]), (409, "not-ready"))
            self.ok(wire, payload)

            fetch = self.device.fetch(*grant)
            self.leaves_at_every_byte(server, fetch.bytes(), leave)
            self.assertEqual(self.ok(wire, fetch)["envelope"], envelope)

            done = self.device.result(*grant, result)
            self.leaves_at_every_byte(server, done.bytes(), leave)
            self.assertEqual(self.ok(wire, self.site.results())["jobs"], [])
            gone = server.wire()  # the whole of it, and no answer heard
            wake = frozen(server)
            gone.send(done.bytes())
            gone.close()
            wake()
            self.until(lambda: self.ok(wire, self.site.results())["jobs"], "the result")
            self.assertEqual(self.ok(wire, done), {"accepted": False, "duplicate": True, "state": "done"})
            self.leaves_at_every_byte(server, self.site.results().bytes(), leave)
            job, = self.ok(wire, self.site.results())["jobs"]
            self.assertEqual((job["jobId"], job["envelope"]), (job_id, result))
            self.assertEqual(self.ok(wire, self.site.ack([job_id]))["acked"], [job_id])

    @harness.each_store
    def test_who_waits_and_leaves_costs_nothing(self, server, wire):
        before = server.n_sockets()
        for leave in (harness.Wire.close, harness.Wire.reset):
            waiting = [server.wire() for _ in range(100)]
            for one in waiting:
                one.send(self.site.pending("&wait=25000").bytes())
            self.until(lambda: server.n_sockets() >= before + 100, "all of them waiting")
            for one in waiting:
                leave(one)
            self.until(lambda: server.n_sockets() <= before, "the sockets closing", AT_ONCE)

    @harness.each_store
    def test_an_answer_that_is_read_in_part(self, server, wire):
        """A result of some megabytes, of which the reader takes a little and leaves."""
        self.ok(wire, self.site.enqueue("big", "alice"))
        grant, = self.granted(wire, self.device)
        self.seal(wire, "big")
        text = "r" * 5000000
        self.ok(wire, self.device.result(*grant, party.envelope(self.device, self.site, "result", text)))
        before = server.n_sockets()
        for n in (1, 100, 100000, 3000000):
            for leave in (harness.Wire.close, harness.Wire.reset):
                gone = server.wire()
                gone.send(self.site.results().bytes())
                got = 0
                while got < n:
                    got += len(gone.socket.recv(min(n - got, 65536)))
                leave(gone)
        self.until(lambda: server.n_sockets() <= before, "the sockets closing", AT_ONCE)
        job, = self.ok(wire, self.site.results())["jobs"]
        self.assertEqual(job["envelope"]["ciphertext"], text)


if __name__ == "__main__":
    unittest.main()
