# SPDX-License-Identifier: MIT
"""A full disk, a read-only one, a damaged database, another server's and a newer version's."""
import contextlib
import os
import random
import resource
import shutil
import sqlite3
import subprocess
import sys
import time
import unittest

import harness
import party

MIB = 1 << 20


def enter_own_namespace():
    """Mounts are for this test alone and go with it. False where that may not be done."""
    if os.environ.get("LESSOR_FAULTS_INSIDE"):
        return os.environ["LESSOR_FAULTS_INSIDE"] == "yes"
    command = ["unshare", "--mount"] if os.geteuid() == 0 else ["unshare", "--map-root-user", "--mount"]
    if subprocess.run([*command, "mount", "-t", "tmpfs", "none", "/mnt"], stderr=subprocess.DEVNULL).returncode:
        return False
    os.execvpe(command[0], [*command, sys.executable, *sys.argv], {**os.environ, "LESSOR_FAULTS_INSIDE": "yes"})


CAN_MOUNT = enter_own_namespace()


class Disk(harness.Case):
    def job(self, wire, job_id):
        """A job that is running: its grant."""
        self.ok(wire, self.site.enqueue(job_id, "alice"))
        grant, = self.granted(wire, self.device)
        self.seal(wire, job_id)
        self.ok(wire, self.device.fetch(*grant))
        return grant

    def result_of(self, text="r"):
        return party.envelope(self.device, self.site, "result", text)

    def states(self, server):
        return {job["jobId"]: job["state"] for job in server.control("/jobs?limit=10000")["jobs"]}

    def fill_with_jobs(self, wire, prefix, n=20000):
        """Publishes until that is refused. The ids that were accepted."""
        accepted = []
        for i in range(n):
            answer = wire.ask(self.site.enqueue(f"{prefix}{i}", "alice", purpose="p" * 2000))
            if answer.status == 503:
                self.assertEqual(answer.json["error"], "server-error")
                return accepted
            self.assertEqual(answer.status, 200, answer)
            accepted.append(f"{prefix}{i}")
        self.fail("the disk is never full")


@unittest.skipUnless(CAN_MOUNT, "no mount may be made here")
class SmallDisk(Disk):
    def setUp(self):
        super().setUp()
        self.disk = self.path("disk")
        os.mkdir(self.disk)
        self.mount("-t", "tmpfs", "-o", "size=40m", "none", self.disk)
        self.addCleanup(lambda: subprocess.run(["umount", "--lazy", self.disk], check=True))
        self.data = os.path.join(self.disk, "data")

    @staticmethod
    def mount(*words):
        subprocess.run(["mount", *words], check=True)

    def free(self):
        st = os.statvfs(self.disk)
        return st.f_bavail * st.f_frsize

    def fill(self, leave):
        with open(os.path.join(self.disk, "ballast"), "ab") as f:
            while self.free() > leave:
                try:
                    f.write(b"\0" * min(65536, self.free() - leave))
                    f.flush()
                except OSError:
                    break

    def empty(self):
        os.unlink(os.path.join(self.disk, "ballast"))

    def test_below_the_mark_work_goes_on_and_none_is_begun(self):
        server = self.serve("--low-disk-bytes", str(16 * MIB))
        with server.wire() as wire:
            done, back, held = (self.job(wire, job_id) for job_id in ("done", "back", "held"))
            self.ok(wire, self.site.enqueue("unsealed", "alice"))
            unsealed, = self.granted(wire, self.device)
            self.assertEqual(server.ready(), 200)
            self.fill(12 * MIB)

            accepted = self.fill_with_jobs(wire, "n")
            self.assertGreater(self.free(), 4 * MIB, "the mark is looked at too late")
            self.assertEqual(wire.ask(self.site.enqueue("new", "alice")).status, 503)
            self.assertEqual(server.ready(), 503)
            self.assertEqual(wire.ask(b"GET /health/live HTTP/1.1\r\nHost: h\r\n\r\n").status, 200)
            # What is there goes on, and what frees space first of all.
            self.assertEqual(self.ok(wire, self.site.enqueue("held", "alice"))["state"], "running")
            self.ok(wire, self.device.result(*done, self.result_of("r" * 100000)))
            self.assertEqual(self.ok(wire, self.device.release(back))["released"], ["back"])
            self.seal(wire, "unsealed")
            self.ok(wire, self.device.fetch(*unsealed))
            self.assertEqual(self.ok(wire, self.device.heartbeat(held, unsealed))["lost"], [])
            self.assertTrue(self.ok(wire, self.site.cancel("held"))["cancelled"])
            self.assertEqual([job["jobId"] for job in self.ok(wire, self.site.results())["jobs"]], ["done"])
            self.assertEqual(self.ok(wire, self.site.ack(["done"]))["acked"], ["done"])

            self.empty()
            self.until(lambda: server.ready() == 200, "recovery", 10)
            self.ok(wire, self.site.enqueue("new", "alice"))
        warnings = [line for line in server.log().splitlines() if "database-low-space" in line and "lessor.db" in line]
        self.assertEqual(len(warnings), 1, server.log())
        server.kill()
        server = self.serve()
        self.assertEqual(set(self.states(server)), {"back", "held", "unsealed", "new", *accepted})

    def test_zero_sets_no_mark(self):
        self.mount("-o", "remount,size=20m", self.disk)
        server = self.serve("--low-disk-bytes", "0")
        with server.wire() as wire:
            self.ok(wire, self.site.enqueue("j", "alice"))
        self.assertEqual(server.ready(), 200)

    def test_a_disk_that_is_full_to_the_last_byte(self):
        server = self.serve("--low-disk-bytes", "0")
        with server.wire() as wire:
            running = self.job(wire, "running")
            self.fill(0)
            accepted = self.fill_with_jobs(wire, "f")
            self.assertEqual(server.ready(), 503)
            big = self.device.result(*running, self.result_of("r" * 4000000))
            self.assertEqual(wire.ask(big).status, 503)  # not taken, and not said to be
            self.assertEqual(wire.ask(self.site.results()).status, 503)
            self.empty()
            self.until(lambda: server.ready() == 200, "recovery", 20)
            self.ok(wire, big)
            self.ok(wire, self.site.enqueue("after", "alice"))
        server.kill()
        server = self.serve("--low-disk-bytes", "0")
        states = self.states(server)
        self.assertEqual(states["running"], "done")
        self.assertLessEqual({"after", *accepted}, set(states))
        with server.wire() as wire:
            job, = self.ok(wire, self.site.results())["jobs"]
            self.assertEqual(job["envelope"]["ciphertext"], "r" * 4000000)

    def test_killed_and_started_while_the_disk_is_full(self):
        server = self.serve("--low-disk-bytes", "0")
        with server.wire() as wire:
            self.fill(0)
            accepted = self.fill_with_jobs(wire, "k")
        server.kill()
        server = self.try_serve("--low-disk-bytes", "0")
        if server.port is None:  # refused, with the reason
            self.assertEqual(server.wait(), 1)
            self.assertRegex(server.log(), "lessord: .*(space|full)")
        else:
            self.assertEqual(server.ready(), 503)
            server.kill()
        self.empty()
        server = self.serve("--low-disk-bytes", "0")
        self.assertEqual(server.ready(), 200)
        self.assertLessEqual(set(accepted), set(self.states(server)))

    def test_a_new_directory_on_a_full_disk(self):
        self.fill(0)
        code, said = self.refused()
        self.assertEqual(code, 1)
        self.assertRegex(said, r"lessord: [^\n]*(space|full)[^\n]*\n$")

    def test_a_read_only_file_system(self):
        os.mkdir(self.data)
        self.mount("-o", "remount,ro", self.disk)
        for data in (self.data, os.path.join(self.disk, "new")):
            code, said = self.refused(data=data)
            self.assertEqual(code, 1)
            self.assertRegex(said, rf"lessord: [^\n]*{data}[^\n]*\n$")

    def test_an_old_database_on_a_read_only_file_system(self):
        server = self.serve("--low-disk-bytes", "1000")
        with server.wire() as wire:
            self.ok(wire, self.site.enqueue("j", "alice"))
        self.assertEqual(server.stop(), 0)
        self.mount("-o", "remount,ro", self.disk)
        code, said = self.refused()
        self.assertEqual(code, 1)
        self.assertRegex(said, rf"lessord: [^\n]*{self.data}[^\n]*\n$")
        self.mount("-o", "remount,rw", self.disk)
        self.assertEqual(self.states(self.serve()), {"j": "queued"})


class LimitedFiles(Disk):
    """A limit on file sizes is a full disk that everybody can have."""

    def limit(self, server, n_bytes):
        resource.prlimit(server.pid, resource.RLIMIT_FSIZE, (n_bytes, resource.RLIM_INFINITY))

    def largest(self):
        return max(entry.stat().st_size for entry in os.scandir(self.data) if entry.is_file())

    def test_nothing_can_be_written_and_then_it_can(self):
        server = self.serve()
        with server.wire() as wire:
            running = self.job(wire, "running")
            accepted = []
            for turn in range(3):
                self.limit(server, self.largest())
                accepted += self.fill_with_jobs(wire, f"t{turn}-")
                self.assertEqual(server.ready(), 503)
                self.assertEqual(wire.ask(self.device.result(*running, self.result_of("r" * 2000000))).status, 503)
                self.limit(server, resource.RLIM_INFINITY)
                self.until(lambda: server.ready() == 200, "recovery", 20)
                self.ok(wire, self.site.enqueue(f"after{turn}", "alice"))
            self.ok(wire, self.device.result(*running, self.result_of()))
        self.assertEqual(server.stop(), 0)
        self.assertIn("database-failing", server.log())
        states = self.states(self.serve())
        self.assertLessEqual({"running", "after0", "after1", "after2", *accepted}, set(states))

    def test_stopped_while_nothing_can_be_written(self):
        """It ends in its time, says that something is unwritten, and has promised none of it."""
        server = self.serve()
        with server.wire() as wire:
            self.limit(server, self.largest())
            accepted = self.fill_with_jobs(wire, "s")
            began = time.monotonic()
            server.stop()
            self.assertLess(time.monotonic() - began, 12)
        self.assertIn("database-ends-unwritten", server.log())
        self.assertLessEqual(set(accepted), set(self.states(self.serve())))


class Directory(Disk):
    @unittest.skipIf(os.geteuid() == 0, "nothing is closed to root; SmallDisk has a read-only file system")
    def test_a_directory_without_permission(self):
        os.mkdir(self.data, 0o500)
        code, said = self.refused()
        self.assertEqual(code, 1)
        self.assertIn(self.data, said)

    def test_places_where_no_directory_can_be(self):
        with open(self.path("file"), "w"):
            pass
        for data in (self.path("file"), self.path("no/such/place"), self.path("file/x"), "/proc/lessor", "x" * 5000):
            code, said = self.refused(data=data)
            self.assertIn(code, (1, 2), data)
            self.assertRegex(said, r"(^|\n)lessord: [^\n]+\n$", data)

    def test_a_second_server_is_told_who_has_it(self):
        first = self.serve()
        with first.wire() as wire:
            self.ok(wire, self.site.enqueue("j", "alice"))
            code, said = self.refused()
            self.assertEqual(code, 1)
            self.assertRegex(said, rf"in use by process {first.pid};")
            self.assertEqual(self.granted(wire, self.device)[0][0], "j")
        self.assertEqual(len(first.control("/jobs")["jobs"]), 1)
        first.kill()
        self.assertEqual(self.states(self.serve()), {"j": "awaiting-payload"})

    def test_a_second_server_that_forgets(self):
        """The memory store has no lock to take, but the control socket says that somebody is there."""
        first = self.serve()
        code, said = self.refused("--store", "memory")
        self.assertEqual(code, 1)
        self.assertRegex(said, r"lessord: [^\n]*(in use|somebody else)[^\n]*\n$")
        self.assertEqual(first.control("/jobs")["jobs"], [])

    def full_database(self):
        server = self.serve()
        with server.wire() as wire:
            self.job(wire, "running")
            for i in range(300):
                self.ok(wire, self.site.enqueue(f"j{i}", "alice", purpose="p" * 200))
        self.assertEqual(server.stop(), 0)
        return os.path.join(self.data, "lessor.db")

    def test_a_newer_database(self):
        path = self.full_database()
        good = self.bytes(path)
        with contextlib.closing(sqlite3.connect(path)) as db:
            parts = [part for part, in db.execute("SELECT part FROM lessor_schema")]
        self.assertIn("routing", parts)
        for part in parts:
            self.put(path, good)
            with contextlib.closing(sqlite3.connect(path)) as db, db:
                db.execute("UPDATE lessor_schema SET version = 1000 WHERE part = ?", (part,))
            before = self.bytes(path)
            code, said = self.refused()
            self.assertEqual(code, 1, part)
            self.assertRegex(said, rf"lessord: [^\n]*{path} was written by a newer version[^\n]*\n$", part)
            self.assertEqual(self.bytes(path), before, part)
        self.put(path, good)
        self.assertEqual(self.states(self.serve())["running"], "running")

    @staticmethod
    def bytes(path):
        with open(path, "rb") as f:
            return f.read()

    def put(self, path, content):
        with open(path, "wb") as f:
            f.write(content)

    def test_a_database_that_is_none(self):
        path = self.full_database()
        good = self.bytes(path)
        for bad in (b"not a database at all\n" * 500, b"\0" * 8192, good[:100], good[:5000], good[:len(good) // 2],
                    b"X" + good[1:], good[:16] + b"\xff" * 100 + good[116:], b"SQLite format 3\0", good[:4096] + b"\xa5" * 8192 +
                    good[12288:]):
            self.put(path, bad)
            code, said = self.refused()
            self.assertEqual(code, 1, said)
            self.assertRegex(said, rf"(^|\n)lessord: [^\n]*{path}[^\n]*\n$")
            self.assertEqual(self.bytes(path), bad, "what cannot be read is not touched")
        self.put(path, good)
        self.assertEqual(self.states(self.serve())["running"], "running")

    def test_a_database_with_some_bad_bytes(self):
        """It may start or not, and may or may not answer, but it does not fall over."""
        path = self.full_database()
        good, dice = self.bytes(path), random.Random(7)
        n_started = 0
        for turn in range(24):
            bad = bytearray(good)
            at = dice.randrange(100, len(bad) - 64)
            for i in range(dice.choice((1, 4, 64))):
                bad[at + i] = dice.randrange(256)
            self.put(path, bytes(bad))
            for name in ("lessor.db-wal", "lessor.db-shm"):
                if os.path.exists(os.path.join(self.data, name)):
                    os.unlink(os.path.join(self.data, name))
            server = self.try_serve()
            if server.port is None:
                self.assertEqual(server.wait(), 1, (turn, at))
                continue
            n_started += 1
            with server.wire() as wire:
                for request in (self.device.claim(64), self.site.results(), self.site.enqueue(f"new{turn}", "alice"),
                                self.site.enqueue("j1", "alice"), self.site.pending(), self.device.heartbeat()):
                    self.assertIn(wire.ask(request).status, (200, 401, 404, 500, 503), (turn, at))
            self.assertIn(server.stop(), (0, 1), (turn, at, server.log()[-500:]))
        self.assertGreater(n_started, 3)

    def test_a_log_that_was_cut_off(self):
        """What a crash of the machine leaves of the write-ahead log: its beginning, or its beginning and junk."""
        server = self.serve()
        with server.wire() as wire:
            for i in range(50):
                self.ok(wire, self.site.enqueue(f"j{i}", "alice"))
        server.kill()
        log = os.path.join(self.data, "lessor.db-wal")
        shutil.copytree(self.data, self.path("kept"), ignore=shutil.ignore_patterns("*.sock"))
        whole = self.bytes(log)
        n_before = None
        for n in (len(whole), len(whole) - 1, len(whole) * 3 // 4, len(whole) // 4, 100, 0):
            for junk in (b"", b"\xa5" * 5000):
                shutil.rmtree(self.data)
                shutil.copytree(self.path("kept"), self.data)
                self.put(log, whole[:n] + junk)
                server = self.serve()
                jobs = sorted(self.states(server), key=lambda job: int(job[1:]))
                # A prefix of what was told, and never a job without those before it.
                self.assertEqual(jobs, [f"j{i}" for i in range(len(jobs))])
                if n == len(whole):
                    self.assertEqual(len(jobs), 50)
                if junk == b"":
                    n_before = len(jobs)
                self.assertEqual(len(jobs), n_before)
                self.assertEqual(server.stop(), 0)


if __name__ == "__main__":
    unittest.main()
