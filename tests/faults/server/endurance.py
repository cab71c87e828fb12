#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""
Loads one lessord for a long time with whole lives of jobs, beside clients that vanish, wait and talk nonsense, and watches
what it holds: memory, sockets and the database may not grow with what has passed.

    endurance.py [--seconds N] [--store memory|sqlite] [--lanes N]
"""
import argparse
import json
import os
import random
import statistics
import sys
import tempfile
import time

import harness
import party

GROWTH, SLACK_KB = 1.10, 4096  # what is no leak: caches that fill, and an allocator that does not tidy up at once
LOG_KB = 16384  # and on disk, the write-ahead log: it may grow to this before it is folded back for the first time


class Lane:
    def __init__(self, number, site):
        self.site, self.n, self.number = site, 0, number
        self.device = party.Device(f"dev_{number}", f"owner_{number}")
        self.dice = random.Random(number)

    def life(self, ask):
        job_id = f"{self.number}-{self.n}"
        text = "x" * self.dice.choice((300, 1500, 1500, 40000))
        ask(self.site.enqueue(job_id, self.device.owner))
        jobs = ask(self.device.claim())["jobs"]
        if [job["id"] for job in jobs] != [job_id]:
            raise AssertionError(f"claimed {jobs} instead of {job_id}")
        lease = jobs[0]["lease"]["id"]
        ask(self.site.payload(job_id, party.envelope(self.site, self.device, "payload", text)))
        if ask(self.device.fetch(job_id, lease))["envelope"]["ciphertext"] != text:
            raise AssertionError(f"{job_id} has another payload")
        if self.dice.random() < 0.1:
            ask(self.device.heartbeat((job_id, lease)))
        ask(self.device.result(job_id, lease, party.envelope(self.device, self.site, "result", text)))
        if ask(self.site.ack([job_id]))["acked"] != [job_id]:
            raise AssertionError(f"{job_id} was not forgotten")
        self.n += 1

    def work(self, server):
        def run(stopping):
            def ask(request):
                answer = wire.ask(request)
                if answer.status != 200:
                    raise AssertionError(f"{request.target}: {answer}")
                return answer.json

            while not stopping.is_set():
                with server.wire() as wire:
                    for _ in range(200):
                        self.life(ask)
                        if stopping.is_set():
                            break
        return run


def nuisance(server, site):
    """Whoever else there is on the internet."""
    dice = random.Random(99)
    stranger = party.Site("nobody")

    def run(stopping):
        while not stopping.is_set():
            with server.wire() as wire:
                turn = dice.randrange(5)
                if turn == 0:
                    wire.send(site.pending("&wait=25000").bytes())
                    time.sleep(dice.random() * 0.05)
                elif turn == 1:
                    data = site.enqueue("never", "nobody").bytes()
                    wire.send(data[:dice.randrange(len(data))])
                elif turn == 2:
                    wire.send(bytes(dice.randrange(256) for _ in range(200)))
                elif turn == 3:
                    wire.ask(stranger.enqueue("x", "y"))
                else:
                    wire.ask(site.post("payload", b'{"protocolVersion":"2","a":' + b"[" * 50000))
                dice.choice((wire.close, wire.reset))()
            time.sleep(0.01)
    return run


def kept(values):
    """What it held after it had settled, and at the end."""
    n = len(values)
    return statistics.median(values[n // 4:n // 2]), statistics.median(values[-max(n // 5, 1):])


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=30)
    parser.add_argument("--store", choices=harness.STORES, default="sqlite")
    parser.add_argument("--lanes", type=int, default=6)
    options = parser.parse_args()
    site, waiting = party.Site("site"), party.Site("site_of_nothing")
    lanes = [Lane(i, site) for i in range(options.lanes)]
    with tempfile.TemporaryDirectory(prefix="lessor-endurance-") as directory:
        projection = os.path.join(directory, "projection.json")
        with open(projection, "w") as f:
            json.dump(party.projection([site, waiting], [lane.device for lane in lanes]), f)
        server = harness.Server(os.path.join(directory, "data"), os.path.join(directory, "log"), "--projection", projection,
                                "--store", options.store, "--threads", "2")
        crowd = harness.Crowd(*(lane.work(server) for lane in lanes), nuisance(server, waiting))
        memory, sockets, disk = [], [], []
        end = time.monotonic() + options.seconds
        while time.monotonic() < end and not crowd.errors:
            time.sleep(min(1, options.seconds / 20))
            memory.append(server.status_kb("VmRSS"))
            sockets.append(server.n_sockets())
            disk.append(sum(entry.stat().st_size for entry in os.scandir(server.data)) // 1024)
        crowd.stop()
        code = server.stop()
        log = server.log()
    figures = {"lives": sum(lane.n for lane in lanes), "seconds": round(options.seconds), "exit": code}
    grown = []
    for name, values in (("rss_kb", memory), ("sockets", sockets), ("disk_kb", disk)):
        before, after = kept(values)
        figures[name] = {"settled": round(before), "end": round(after), "most": max(values)}
        slack = {"sockets": 20, "rss_kb": SLACK_KB, "disk_kb": SLACK_KB + LOG_KB}[name]
        if after > before * GROWTH + slack:
            grown.append(name)
    print(json.dumps(figures))
    if grown or code != 0 or '"level":"error"' in log:
        print(f"grew: {', '.join(grown) or 'nothing'}; exit {code}\n{log[-2000:]}", file=sys.stderr)
        return 1
    return 0 if figures["lives"] else 1


if __name__ == "__main__":
    sys.exit(main())
