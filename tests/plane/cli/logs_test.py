#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""lessor logs, and logs in the control API: whole, in parts, while they grow, and as events."""
import json
import os
import socket
import subprocess
import sys
import threading
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from harness import LESSOR, PATIENCE  # noqa: E402
from rack_test import RackCase  # noqa: E402


class Reader:
    """An answer that is read while it comes."""

    def __init__(self, path, target, headers):
        self.s = socket.socket(socket.AF_UNIX)
        self.s.settimeout(PATIENCE)
        self.s.connect(path)
        self.s.sendall("\r\n".join([f"GET /api/control/v1{target} HTTP/1.1", "Host: x", *headers, "", ""]).encode())
        self.file = self.s.makefile("rb")
        self.status = int(self.file.readline().split()[1])
        self.headers = {}
        while (line := self.file.readline().strip()):
            name, _, value = line.decode().partition(": ")
            self.headers[name.lower()] = value

    def piece(self):
        """The next chunk; b"" at the end."""
        n = int(self.file.readline(), 16)
        data = self.file.read(n)
        self.file.readline()
        return data

    def until(self, wanted):
        got = b""
        while len(got) < len(wanted):
            got += self.piece()
        return got

    def rest(self):
        return b"".join(iter(self.piece, b""))

    def events(self):
        """Until the end."""
        found = []
        for block in self.rest().decode().split("\n\n"):
            fields = dict(line.split(": ", 1) for line in block.splitlines() if line and not line.startswith(":"))
            if fields:
                found.append((fields["event"], fields["id"], json.loads(fields["data"])))
        return found

    def close(self):
        self.file.close()
        self.s.close()


class LogCase(RackCase):
    OPTIONS = ("--rack-window-ms", "100", "--rack-visibility-ms", "60000")

    def setUp(self):
        super().setUp()
        self.gpu = self.rack()
        self.lease = self.create("--attempts", "5")
        self.grant = self.gpu.poll()

    def write_log(self, stdout="", stderr="", grant=None):
        grant = grant or self.grant
        chunks = [{"stream": name, "data": text} for name, text in (("stdout", stdout), ("stderr", stderr)) if text]
        self.assertTrue(self.gpu.call("logs", {"repo": grant["repo"], "leaseId": grant["leaseId"],
                                               "attempt": grant["attempt"], "chunks": chunks}))

    def complete(self, grant=None, status="failed"):
        grant = grant or self.grant
        self.gpu.call("complete", {"repo": grant["repo"], "leaseId": grant["leaseId"], "attempt": grant["attempt"],
                                   "resultJson": json.dumps({"taskName": "train", "status": status, "exitCode": 3})})

    def open(self, target, *headers):
        reader = Reader(os.path.join(self.data, "control.sock"), target, headers)
        self.addCleanup(reader.close)
        return reader

    def get(self, query="", *headers):
        """(status, headers, body) of an answer with a length."""
        reader = self.open(f"/logs?number={self.lease['number']}{query}", *headers)
        return reader.status, reader.headers, reader.file.read(int(reader.headers["content-length"]))


class Api(LogCase):
    def test_each_stream_is_as_it_was_written(self):
        self.write_log("one\n", "bad\n")
        self.write_log("two\x00\ufeff\n")
        status, headers, body = self.get()
        self.assertEqual((status, body), (200, "one\ntwo\x00\ufeff\n".encode()))
        self.assertEqual((headers["lessor-attempt"], headers["lessor-attempt-number"], headers["lessor-attempt-state"]),
                         (self.grant["attempt"], "1", "running"))
        self.assertEqual(self.get("&stream=stderr")[2], b"bad\n")
        self.assertEqual(self.get("&offset=4")[2], "two\x00\ufeff\n".encode())
        self.assertEqual(self.get("&offset=400")[2], b"")
        self.assertEqual(self.get(f"&attempt={self.grant['attempt']}")[2], self.get("&attempt=1")[2])
        by_name = self.open(f"/logs?repo=lab&lease={self.grant['leaseId'].replace('#', '%23')}")
        self.assertEqual(by_name.status, 200)

    def test_a_character_is_never_split(self):
        self.write_log("a\U0001f332b")
        self.assertEqual([self.get("", f"Range: bytes=0-{n}")[2] for n in (3, 4, 5)],
                         [b"a", "a\U0001f332".encode(), "a\U0001f332b".encode()])
        status, headers, body = self.get("", "Range: bytes=1-4")
        self.assertEqual((status, headers["content-range"], body), (206, "bytes 1-4/6", "\U0001f332".encode()))
        status, headers, _ = self.get("", "Range: bytes=6-")
        self.assertEqual((status, headers["content-range"]), (416, "bytes */6"))

    def test_what_there_is_no_log_of(self):
        for query in ("&attempt=2", "&attempt=x"):
            self.assertEqual(self.get(query)[0], 404, query)
        for query in ("&stream=both", "&follow=yes", "&offset=-1"):
            self.assertEqual(self.get(query)[0], 400, query)
        waiting = self.create()
        reader = self.open(f"/logs?number={waiting['number']}")
        self.assertEqual(reader.status, 404)
        self.assertIn(b"no rack has taken", reader.file.read(int(reader.headers["content-length"])))
        self.assertEqual(self.get()[2], b"")

    def test_it_is_read_while_it_grows(self):
        self.write_log("first\n")
        reader = self.open(f"/logs?number={self.lease['number']}&follow=1")
        self.assertEqual(reader.until(b"first\n"), b"first\n")
        self.write_log("second\n", "not here\n")
        self.assertEqual(reader.until(b"second\n"), b"second\n")
        self.write_log("last\n")
        self.complete()
        self.assertEqual(reader.rest(), b"last\n")
        # One that has ended is read to its end at once.
        self.assertEqual(self.open(f"/logs?number={self.lease['number']}&follow=1").rest(), b"first\nsecond\nlast\n")

    def test_two_readers_hear_of_each_append(self):
        readers = [self.open(f"/logs?number={self.lease['number']}&follow=1") for _ in range(2)]
        for i in range(5):
            self.write_log(f"{i}\n")
            for reader in readers:
                self.assertEqual(reader.until(b"0\n"), f"{i}\n".encode())
        readers[0].close()
        self.write_log("alone\n")
        self.assertEqual(readers[1].until(b"alone\n"), b"alone\n")

    def test_events_tell_both_streams_and_the_end(self):
        self.write_log("out\n", "err\n")
        reader = self.open(f"/logs?number={self.lease['number']}", "Accept: text/event-stream")
        self.assertEqual(reader.headers["content-type"], "text/event-stream")
        self.complete()
        events = reader.events()
        self.assertEqual([e[0] for e in events], ["attempt", "log", "log", "end"])
        self.assertEqual(events[0][2]["executionId"], self.grant["attempt"])
        self.assertEqual(events[1][2], {"stream": "stdout", "offset": 0, "next": 4, "text": "out\n"})
        self.assertEqual(events[2][2], {"stream": "stderr", "offset": 0, "next": 4, "text": "err\n"})
        self.assertEqual((events[3][1], events[3][2]["state"]), ("4-4", "failed"))
        # Whoever comes back goes on where it was.
        again = self.open(f"/logs?number={self.lease['number']}", "Accept: text/event-stream", "Last-Event-ID: 4-2")
        self.assertEqual([e[2].get("text") for e in again.events()], [None, "r\n", None])
        only = self.open(f"/logs?number={self.lease['number']}&stream=stderr", "Accept: text/event-stream")
        self.assertEqual([e[2].get("stream") for e in only.events()], [None, "stderr", None])

    def test_events_without_following_end_with_what_there_is(self):
        self.write_log("out\n")
        reader = self.open(f"/logs?number={self.lease['number']}&follow=0", "Accept: text/event-stream")
        self.assertEqual([e[0] for e in reader.events()], ["attempt", "log"])

    def test_a_cancelled_attempt_gets_its_last_line(self):
        reader = self.open(f"/logs?number={self.lease['number']}&follow=1&stream=stderr")
        self.write_log("", "working\n")
        self.lessor("lease", "cancel", str(self.lease["number"]), "--reason", "not wanted")
        text = reader.rest()
        self.assertTrue(text.startswith(b"working\n"), text)
        self.assertIn(b"not wanted", text)

    def test_many_pieces_arrive_whole_and_in_order(self):
        reader = self.open(f"/logs?number={self.lease['number']}&follow=1")
        got = []
        thread = threading.Thread(target=lambda: got.append(reader.rest()))
        thread.start()
        wanted = ""
        for i in range(40):
            text = f"{i}: " + "\u00fc\U0001f332" * 2000 + "\n"
            wanted += text
            self.write_log(text)
        self.complete()
        thread.join(PATIENCE)
        self.assertEqual(got, [wanted.encode()])


class Command(LogCase):
    def logs(self, *options, **more):
        return self.lessor("logs", str(self.lease["number"]), *options, **more)

    def test_streams_go_where_they_belong(self):
        self.write_log("out\n", "err\n")
        shown = self.logs()
        self.assertEqual((shown.out, shown.err), ("out\n", "err\n"))
        shown = self.logs("--stream", "stderr")
        self.assertEqual((shown.out, shown.err), ("err\n", ""))
        lines = [json.loads(line) for line in self.logs("--json").out.splitlines()]
        self.assertEqual([(e["event"], e.get("text")) for e in lines],
                         [("attempt", None), ("log", "out\n"), ("log", "err\n")])
        by_name = self.lessor("logs", "lab", self.grant["leaseId"])
        self.assertEqual(by_name.out, "out\n")

    def test_what_there_is_none_of(self):
        self.assertIn("no attempt 7", self.logs("--attempt", "7", code=5).err)
        self.logs("--stream", "both", code=2)
        waiting = self.create()
        self.assertIn("--follow waits", self.lessor("logs", str(waiting["number"]), code=5).err)
        self.lessor("logs", "99", code=5)
        self.lessor("logs", "x", code=2)

    def follow(self, *options):
        following = subprocess.Popen([LESSOR, "logs", "-f", str(self.lease["number"]), *options], cwd=self.dir,
                                     env=self.env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self.addCleanup(lambda: following.poll() is None and following.kill())
        return following

    def test_following_ends_with_the_attempt(self):
        following = self.follow()
        self.write_log("one\n")
        self.assertEqual(following.stdout.readline(), "one\n")
        self.write_log("two\n", "oh\n")
        self.assertEqual(following.stdout.readline(), "two\n")
        self.complete()
        out, err = following.communicate(timeout=PATIENCE)
        self.assertEqual((out, err, following.returncode), ("", "oh\n", 0))

    def test_following_begins_before_a_rack_does(self):
        self.lease = self.create()
        following = self.follow()
        self.assertIn("no rack has taken", following.stderr.readline())
        grant = self.gpu.poll()
        self.write_log("at last\n", grant=grant)
        self.complete(grant)
        out, err = following.communicate(timeout=PATIENCE)
        self.assertEqual((out, following.returncode), ("at last\n", 0), err)


class Reclaimed(LogCase):
    OPTIONS = ("--rack-window-ms", "2000", "--rack-visibility-ms", "1500")

    def test_following_goes_on_with_the_next_attempt(self):
        following = subprocess.Popen([LESSOR, "logs", "-f", str(self.lease["number"])], cwd=self.dir, env=self.env,
                                     stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self.addCleanup(lambda: following.poll() is None and following.kill())
        self.write_log("first try\n")
        self.assertEqual(following.stdout.readline(), "first try\n")
        other = self.rack("gpu-2")
        second = self.until(other.poll, "the reclaim")
        self.assertEqual(second["leaseId"], self.grant["leaseId"])
        self.gpu = other
        self.write_log("second try\n", grant=second)
        self.assertEqual(following.stdout.readline(), "second try\n")
        self.complete(second)
        out, err = following.communicate(timeout=PATIENCE)
        self.assertEqual((out, following.returncode), ("", 0), err)
        self.assertIn("attempt 1 was given up; this is attempt 2", err)
        shown = self.lessor("logs", str(self.lease["number"]), "--attempt", "1")
        self.assertEqual(shown.out, "first try\n")


if __name__ == "__main__":
    unittest.main(verbosity=1)
