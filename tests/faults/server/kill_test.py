#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""
kill -9 of lessord under load, again and again, and a full disk now and then. Clients note every answer that they hear; a
server started on what is left must agree with all of them:

 - every accepted job is there until its end was heard: nothing that was promised is lost;
 - a job is granted to one device at a time: a grant that was heard is never given again while it holds;
 - a result that was accepted is there, byte for byte, and the job is done for good.

    kill_test.py [--rounds N] [--seconds N] [--seed N] [--disk]
"""
import argparse
import contextlib
import os
import random
import resource
import sys
import tempfile
import time

import harness
import party

LEASE_MS = 86400000  # no lease ends by itself, so that every change of hands was asked for
N_OWNERS = 6


class Broken(Exception):
    """The server broke a promise."""


def expect(condition, *what):
    if not condition:
        raise Broken(*what)


class Job:
    """What was heard of a job. `maybe` says of something that was asked for, and whose answer nobody heard."""

    def __init__(self, job_id, owner):
        self.id, self.owner = job_id, owner
        self.accepted = self.sealed = self.done = False
        self.lease = self.runner = None  # of the grant that was heard last and not given back
        self.maybe_released = self.maybe_sealed = self.maybe_done = False
        self.claimed_at = 0
        self.waited = False  # a window passed without a payload, or may have

    def may_be_free(self):
        """Given back, or its window for a payload may be over (10 s; relay-protocol 10)."""
        if self.lease and not self.sealed and time.monotonic() > self.claimed_at + 8:
            self.waited = self.maybe_released = True
        return self.maybe_released

    def text(self, kind):
        """Follows from the job, so that a lost or a swapped envelope shows."""
        return f"{kind}-{self.id}-" + kind * (300 if hash_of(self.id) % 7 else 30000)


def hash_of(text):
    return sum(text.encode())


class Client:
    """Works for one owner with two devices, and is the only one who does, so that it knows what may happen."""

    def __init__(self, number, site, ledger):
        self.owner = f"owner_{number}"
        self.site, self.ledger, self.dice = site, ledger, random.Random(ledger.seed * 1000 + number)
        self.devices = [party.Device(f"dev_{number}_{i}", self.owner) for i in (0, 1)]
        self.jobs = {}  # not acknowledged as over

    def ask(self, wire, request, what):
        """The answer when it is one, None for "later". Whatever else comes is a fault."""
        answer = wire.ask(request)
        if answer.status == 503:
            self.ledger.n_later += 1
            return None
        expect(answer.status in (200, 403, 404, 409), what, answer)
        self.ledger.n_answers += 1
        return answer

    def enqueue(self, wire):
        job = Job(f"{self.owner}-{self.ledger.next_job()}", self.owner)
        self.jobs[job.id] = job
        self.enqueue_again(wire, job)

    def enqueue_again(self, wire, job):
        answer = self.ask(wire, self.site.enqueue(job.id, self.owner), job.id)
        if answer is None:
            return
        expect(answer.status == 200, job.id, answer)
        if job.done:
            expect(answer.json["state"] == "done", "a finished job is", answer.json)
        elif job.lease and not job.may_be_free():
            expect(answer.json["state"] != "queued", "a granted job is", answer.json)
        job.accepted = True

    def claim(self, wire):
        device = self.dice.choice(self.devices)
        answer = self.ask(wire, device.claim(2), "claim")
        for stub in answer.json["jobs"] if answer else ():
            job = self.jobs.get(stub["id"])
            expect(job is not None, "granted, and over or never enqueued:", stub["id"])
            expect(not job.done, "granted, and its result was accepted:", stub["id"])
            expect(job.lease is None or job.may_be_free(), "granted twice:", stub["id"], job.runner, device.id)
            # It was enqueued, and whether we heard of it or not the relay has it.
            job.accepted, job.lease, job.runner = True, stub["lease"]["id"], device
            job.maybe_released = job.sealed = job.maybe_sealed = False
            job.claimed_at = time.monotonic()

    def seal(self, wire, job):
        job.maybe_sealed = True
        answer = self.ask(wire, self.site.payload(job.id, party.envelope(self.site, job.runner, "payload", job.text("p"))),
                          job.id)
        if answer is None:
            return
        expect(answer.status == 200 or job.maybe_released or job.maybe_done or answer.json["error"] == "too-late",
               "sealing", job.id, answer)
        job.sealed |= answer.status == 200

    def fetch(self, wire, job):
        answer = self.ask(wire, job.runner.fetch(job.id, job.lease), job.id)
        if answer is None:
            return
        if answer.status == 200:
            expect(answer.json["envelope"]["ciphertext"] == job.text("p"), "another payload", job.id)
            expect(job.maybe_sealed, "a payload that nobody sealed", job.id)
        else:
            expect(not job.sealed or job.maybe_released or job.maybe_done, "a sealed payload is gone", job.id, answer)

    def result(self, wire, job):
        job.maybe_done = True
        answer = self.ask(wire, job.runner.result(job.id, job.lease, party.envelope(
            job.runner, self.site, "result", job.text("r"))), job.id)
        if answer is None:
            return
        expect(answer.status == 200 or job.maybe_released, "a result of the holder is refused", job.id, answer)
        if answer.status == 200:
            expect(not job.done or answer.json.get("duplicate"), "a job finished twice", job.id)
            job.done = True

    def release(self, wire, job):
        job.maybe_released = True
        answer = self.ask(wire, job.runner.release((job.id, job.lease)), job.id)
        if answer is None or answer.json["released"] != [job.id]:
            return
        expect(not job.done, "given back after its end", job.id)
        job.lease = None

    def step(self, wire):
        held = [job for job in self.jobs.values() if job.lease and not job.done]
        turn = self.dice.random()
        if turn < 0.25 and len(self.jobs) < 40:
            return self.enqueue(wire)
        if turn < 0.3 and self.jobs:
            return self.enqueue_again(wire, self.dice.choice(list(self.jobs.values())))
        if turn < 0.5 or not held:
            return self.claim(wire)
        job = self.dice.choice(held)
        if not job.maybe_sealed:
            return self.seal(wire, job)
        self.dice.choices((self.fetch, self.result, self.release, self.seal), (3, 4, 1, 1))[0](wire, job)

    def work(self, server, stopping):
        """Until told to stop, or the server is gone, which is no fault."""
        try:
            with server.wire() as wire:
                while not stopping.is_set():
                    self.step(wire)
        except (harness.Gone, ConnectionError, BrokenPipeError):
            pass

    def take_result(self, job_id, text):
        job = self.jobs.pop(job_id, None)
        expect(job is not None, "a result twice, or of no job:", job_id)
        expect(job.maybe_done, "done, and nobody asked for it:", job_id)
        expect(text == job.text("r"), "another result:", job_id)
        self.ledger.n_over += 1

    def reconcile(self, states):
        """Holds what is there to what was heard, and takes over what was not. Results are taken before."""
        for job in list(self.jobs.values()):
            state = states.get(job.id)
            expect(not job.done, "a result is lost:", job.id, state)
            if state is None:
                # Three windows without a payload end a job (relay-protocol 10); of these nobody was told.
                expect(not job.accepted or job.waited, "an accepted job is lost:", job.id)
                del self.jobs[job.id]
                continue
            if job.lease and not job.may_be_free():
                expect(state != "queued", "a grant is lost:", job.id)
            if job.sealed and not job.maybe_released:
                expect(state in ("ready", "running"), "a sealed payload is lost:", job.id, state)
            if state == "queued":
                job.lease, job.sealed, job.maybe_sealed = None, False, False
            elif job.lease is None:
                job.maybe_released = True  # granted, and nobody heard to whom; it comes back by its window
            job.accepted = True
            job.maybe_done = False  # the server that was asked is dead


class Ledger:
    def __init__(self, seed):
        self.seed, self.n_jobs, self.n_answers, self.n_later = seed, 0, 0, 0
        self.n_over = 0

    def next_job(self):
        self.n_jobs += 1  # a little race gives no number twice: owners are in the name
        return self.n_jobs


def take_results(site, wire, clients):
    """Page by page: each is let go, and the next one comes."""
    while True:
        answer = wire.ask(site.results())
        expect(answer.status == 200, "results", answer)
        jobs = answer.json["jobs"]
        if not jobs:
            return
        for job in jobs:
            clients[job["jobId"].partition("-")[0]].take_result(job["jobId"], job["envelope"]["ciphertext"])
        expect(wire.ask(site.ack([job["jobId"] for job in jobs])).status == 200, "ack")


class Campaign:
    def __init__(self, directory, seed, disk):
        self.dir, self.disk = directory, disk
        self.site = party.Site("site")
        self.ledger = Ledger(seed)
        self.clients = [Client(i, self.site, self.ledger) for i in range(N_OWNERS)]
        self.dice = random.Random(seed)
        devices = [device for client in self.clients for device in client.devices]
        self.projection = os.path.join(directory, "projection.json")
        with open(self.projection, "w") as f:
            harness.json.dump(party.projection([self.site], devices), f)

    def start(self):
        server = harness.Server(os.path.join(self.dir, "data"), os.path.join(self.dir, "lessord.log"), "--projection",
                                self.projection, "--lease-ms", str(LEASE_MS), "--threads", "2")
        expect(server.port is not None, "it does not start again:", server.log()[-2000:])
        return server

    def fill_disk(self, server):
        """No file may grow, for a while; then as before."""
        largest = max(entry.stat().st_size for entry in os.scandir(server.data) if entry.is_file())
        before = resource.prlimit(server.pid, resource.RLIMIT_FSIZE, (largest, resource.RLIM_INFINITY))
        time.sleep(self.dice.random() * 0.3)
        if self.dice.random() < 0.5:
            resource.prlimit(server.pid, resource.RLIMIT_FSIZE, before)

    def round(self):
        server = self.start()
        try:
            with server.wire() as wire:
                take_results(self.site, wire, {client.owner: client for client in self.clients})
            there = server.control("/jobs?limit=10000")
            expect(not there["more"], "more jobs than can be listed")
            states = {job["jobId"]: job["state"] for job in there["jobs"]}
            for client in self.clients:
                client.reconcile(states)
            known = {job_id for client in self.clients for job_id in client.jobs}
            expect(set(states) <= known, "jobs that nobody asked for:", set(states) - known)
            crowd = harness.Crowd(*(lambda stop, c=client: c.work(server, stop) for client in self.clients))
            time.sleep(0.05 + self.dice.random() * 0.6)  # the moment at which it is killed
            if self.disk and self.dice.random() < 0.5:
                self.fill_disk(server)
            expect(server.process.poll() is None, "it died by itself:", server.log()[-2000:])
        finally:
            server.kill()
        crowd.stop()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=8)
    parser.add_argument("--seconds", type=float, help="go on for so long instead")
    parser.add_argument("--seed", type=int, default=int(time.time()))
    parser.add_argument("--disk", action="store_true", help="let the disk be full now and then")
    options = parser.parse_args()
    began, n = time.monotonic(), 0
    with tempfile.TemporaryDirectory(prefix="lessor-kill-") as directory:
        campaign = Campaign(directory, options.seed, options.disk)
        try:
            while n < options.rounds if options.seconds is None else time.monotonic() < began + options.seconds:
                campaign.round()
                n += 1
        except Exception:
            print(f"failed in round {n}, --seed {options.seed}", flush=True)
            with contextlib.suppress(OSError), open(os.path.join(directory, "lessord.log")) as f:
                print(f.read()[-3000:])
            raise
    ledger = campaign.ledger
    print(f"{n} kills, {ledger.n_jobs} jobs, {ledger.n_answers} answers held to, {ledger.n_later} times later, "
          f"{ledger.n_over} results kept, seed {options.seed}")
    return 0 if ledger.n_over and ledger.n_answers else 1


if __name__ == "__main__":
    sys.exit(main())
