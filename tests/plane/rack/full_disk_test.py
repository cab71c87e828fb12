# SPDX-License-Identifier: MIT
"""A full disk while objects, logs and results come in: refused, repeated, and nothing half recorded (rack-protocol 17:
an error where the caller still holds the lease). A limit on the size of files stands for it."""
import contextlib
import os
import resource
import time
import unittest

from data_support import Held, put, read_object, seed, sha256, staged
from harness import FORMS, SOON, Case, World, each

FAST = Case.FAST


@contextlib.contextmanager
def full(w, n_bytes=1000):
    """No file of the server's grows beyond this."""
    resource.prlimit(w.server.pid, resource.RLIMIT_FSIZE, (n_bytes, resource.RLIM_INFINITY))
    try:
        yield
    finally:
        resource.prlimit(w.server.pid, resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))


class Disk(Case):
    def tmp(self, w):
        root = os.path.join(w.server.data, "objects", "tmp")
        [own] = os.listdir(root)
        return os.listdir(os.path.join(root, own))

    # In memory, so that only objects and logs have a disk.

    @each(*FAST, stores=("memory",))
    def test_an_upload_is_refused_and_repeated(self, w):
        """R108"""
        held, data = Held(w, closure=[]), w.name("data").encode() * 10000
        target, before = held.declare(data)[0]["target"]["put"], staged(w)
        with full(w):
            answer = put(w, target, data)
            self.assertEqual((answer.status, answer.json["error"]), (503, "unavailable"))
        end = time.monotonic() + SOON  # what was begun goes right after the answer
        while self.tmp(w) and time.monotonic() < end:
            time.sleep(0.005)
        self.assertEqual((staged(w), self.tmp(w)), (before, []))
        self.assertEqual(held.write(data), sha256(data))

    @each(*FAST, stores=("memory",))
    def test_lines_are_refused_and_repeated(self, w):
        """R124: all of a request or nothing"""
        held = Held(w, closure=[])
        self.assertIs(held.rack.logs(held.lease, ("stdout", "before\n"), ("stderr", "err\n")).value, True)
        with full(w, 3000):
            chunks = (("stderr", "small\n"), ("stdout", "x" * 5000 + "\n"))
            self.assertRefused(held.rack.logs(held.lease, *chunks), 503, "unavailable")
            self.assertEqual((held.log("stdout"), held.log("stderr")), ("before\n", "err\n"))
        self.assertIs(held.rack.logs(held.lease, *chunks).value, True)
        self.assertEqual(held.log("stdout"), "before\n" + "x" * 5000 + "\n")
        self.assertEqual(held.log("stderr"), "err\nsmall\n")

    @each(*FAST, stores=("memory",))
    def test_a_completion_is_refused_and_repeated(self, w):
        """R084, R088"""
        held, data = Held(w, closure=[]), (w.name("inline").encode() * 400)[:4096]
        success = {"taskName": "t", "status": "success"}
        with full(w):
            self.assertRefused(held.complete(success, inline=data), 503, "unavailable")
            self.assertEqual(held.view()["status"], "claimed")
            self.assertEqual(w.inspect(held.lease)["attempts"][-1]["state"], "running")
        self.assertIsNone(read_object(w, sha256(data)))
        self.assertEqual(held.complete(success, inline=data).value, {"disposition": "recorded"})
        self.assertEqual(read_object(w, sha256(data)), data)

    def test_a_result_that_cannot_be_written_is_not_recorded(self):
        """R068, R090: the lease store's own disk is full"""
        for number, form in enumerate(FORMS):
            with self.subTest(form=form):
                server = self.serve("--store", "sqlite", *FAST, data=self.path(form))
                w = World(self, server, form, number)
                held = Held(w, closure=[])
                output = seed(w, b"output")
                with full(w, 1):
                    self.assertRefused(held.succeed(output), 503, "unavailable")
                    self.assertRefused(held.storage(outputs=[{"hash": sha256(b"x"), "size": 1}]), 503, "unavailable")
                reply, end = held.succeed(output), time.monotonic() + SOON
                while reply.code is not None and time.monotonic() < end:  # it tries again by itself, now and then
                    time.sleep(0.01)
                    reply = held.succeed(output)
                self.assertIn(reply.value, ({"disposition": "recorded"}, {"disposition": "idempotent"}), reply)
                self.assertEqual(held.view()["status"], "completed")
                server.stop()
                w.server = self.serve("--store", "sqlite", *FAST, data=self.path(form))
                self.assertEqual(held.view()["status"], "completed")


if __name__ == "__main__":
    unittest.main()
