# SPDX-License-Identifier: MIT
"""Runs the real lessord in a directory of the test's own, and talks to it by bytes. What was started is stopped by pid."""
import json
import os
import shutil
import signal
import socket
import subprocess
import tempfile
import threading
import time
import unittest

import party

LESSORD = os.environ["LESSORD"]
PATIENCE = 60  # seconds for anything to happen, on a busy machine
STORES = ("memory", "sqlite")


class Answer:
    def __init__(self, status, headers, body):
        self.status, self.headers, self.body = status, headers, body

    @property
    def json(self):
        return json.loads(self.body)

    def __repr__(self):
        return f"{self.status} {self.body[:300]!r}"


class Gone(Exception):
    """The other side closed before its answer was whole."""


class Wire:
    """A connection, of which a test sees every byte."""

    def __init__(self, port):
        self.socket = socket.create_connection(("127.0.0.1", port), PATIENCE)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.got = b""

    def send(self, data):
        self.socket.sendall(data)

    def _more(self):
        part = self.socket.recv(262144)
        if not part:
            raise Gone(self.got[:200])
        self.got += part

    def answer(self):
        while b"\r\n\r\n" not in self.got:
            self._more()
        head, _, rest = self.got.partition(b"\r\n\r\n")
        lines = head.decode("latin-1").split("\r\n")
        headers = {n.strip().lower(): v.strip() for n, v in (line.split(":", 1) for line in lines[1:])}
        n = int(headers.get("content-length", 0))
        parts, have = [rest], len(rest)
        while have < n:
            part = self.socket.recv(262144)
            if not part:
                raise Gone(rest[:200])
            parts.append(part)
            have += len(part)
        rest = b"".join(parts)
        self.got = rest[n:]
        return Answer(int(lines[0].split()[1]), headers, rest[:n])

    def ask(self, request):
        self.send(request if isinstance(request, bytes) else request.bytes())
        return self.answer()

    def is_closed(self):
        """Waits for the other side's end; False when it says something instead."""
        try:
            return not self.got and self.socket.recv(1) == b""
        except ConnectionResetError:
            return True

    def close(self):
        self.socket.close()

    def reset(self):
        """Goes without a word more: what is under way is thrown away."""
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
        self.socket.close()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()


class Server:
    def __init__(self, data, log, *options, env=(), before=None):
        self.data, self.log_path = data, log
        self._log = open(log, "ab")
        self.process = subprocess.Popen(
            [LESSORD, "--data", data, "--listen", "127.0.0.1:0", "--log-level", "warning",
             "--max-connections", "1000", *options],
            env={**{k: v for k, v in os.environ.items() if not k.startswith("LESSOR")}, **dict(env)},
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=self._log, preexec_fn=before)
        line = self.process.stdout.readline().decode()
        self.port = int(line.rsplit(":", 1)[1]) if line.startswith("listening on ") else None
        self.scheme = line.split("//")[0][-6:-1] if self.port else None

    @property
    def pid(self):
        return self.process.pid

    def log(self):
        with open(self.log_path, errors="replace") as f:
            return f.read()

    def wire(self):
        return Wire(self.port)

    def ask(self, request):
        with self.wire() as wire:
            return wire.ask(request)

    def control(self, path):
        """GET of the control API, by its socket."""
        with socket.socket(socket.AF_UNIX) as s:
            s.settimeout(PATIENCE)
            s.connect(os.path.join(self.data, "control.sock"))
            s.sendall(f"GET /api/control/v1{path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n".encode())
            text = b"".join(iter(lambda: s.recv(262144), b""))
        return json.loads(text.partition(b"\r\n\r\n")[2])

    def ready(self):
        return self.ask(b"GET /health/ready HTTP/1.1\r\nHost: h\r\n\r\n").status

    def hook(self, name, value):
        body = json.dumps(value).encode()
        answer = self.ask(party.Request("POST", "/test/" + name, {}, body))
        if answer.status != 200:
            raise AssertionError(f"/test/{name}: {answer}")

    def n_sockets(self):
        """Sockets that it has open, its listeners included."""
        names = []
        for fd in os.listdir(f"/proc/{self.pid}/fd"):
            try:
                names.append(os.readlink(f"/proc/{self.pid}/fd/{fd}"))
            except FileNotFoundError:
                pass
        return sum(name.startswith("socket:") for name in names)

    def status_kb(self, field):
        """VmRSS, VmHWM, … of /proc/PID/status."""
        with open(f"/proc/{self.pid}/status") as f:
            return next(int(line.split()[1]) for line in f if line.startswith(field + ":"))

    def kill(self):
        self.process.kill()
        return self.wait()

    def wait(self, seconds=PATIENCE):
        code = self.process.wait(seconds)
        self.process.stdout.close()
        self._log.close()
        return code

    def stop(self, number=signal.SIGTERM, seconds=PATIENCE):
        if self.process.poll() is None:
            self.process.send_signal(number)
        try:
            return self.wait(seconds)
        except subprocess.TimeoutExpired:
            self.kill()
            raise


def each_store(test):
    """Runs a test of (self, server, wire) on every store, and ends the server in good order after it."""
    def run(self):
        for store in STORES:
            with self.subTest(store=store):
                server = self.serve("--store", store, "--threads", "2", data=self.path(store))
                with server.wire() as wire:
                    wire.ask(b"GET /health/live HTTP/1.1\r\nHost: h\r\n\r\n")  # so that it is accepted
                    test(self, server, wire)
                self.assertEqual(server.stop(), 0)
                self.assertNotIn('"level":"error"', server.log())
    run.__name__, run.__doc__ = test.__name__, test.__doc__
    return run


class Case(unittest.TestCase):
    maxDiff = None
    SITES, DEVICES = ("site_a", "site_b"), (("dev_1", "alice"), ("dev_2", "alice"), ("dev_3", "bob"))

    def setUp(self):
        self.dir = tempfile.mkdtemp(prefix="lessor-faults-")
        self.addCleanup(shutil.rmtree, self.dir, ignore_errors=True)
        self.data = self.path("data")
        self.sites = [party.Site(name) for name in self.SITES]
        self.devices = [party.Device(name, owner) for name, owner in self.DEVICES]
        self.site, self.device = self.sites[0], self.devices[0]
        self.projection = self.write("projection.json", json.dumps(party.projection(self.sites, self.devices)))

    def path(self, name):
        return os.path.join(self.dir, name)

    def write(self, name, text):
        """Replaced in one step, as a server that reads the file again wants it."""
        with open(self.path(name + ".new"), "w") as f:
            f.write(text)
        os.chmod(f.name, 0o600)
        os.replace(f.name, self.path(name))
        return self.path(name)

    def try_serve(self, *options, data=None, env=(), before=None):
        server = Server(data or self.data, self.path("lessord.log"), "--projection", self.projection, *options,
                        env=env, before=before)
        self.addCleanup(lambda: server.process.poll() is None and server.stop())
        return server

    def serve(self, *options, **more):
        server = self.try_serve(*options, **more)
        self.assertIsNotNone(server.port, server.log())
        return server

    def refused(self, *options, **more):
        """A server that does not start; returns (exit status, what it said last)."""
        with open(self.path("lessord.log"), "wb"):
            pass
        server = self.try_serve(*options, **more)
        self.assertIsNone(server.port, "it serves")
        code = server.wait()
        return code, server.log()

    def ok(self, wire, request):
        answer = wire.ask(request)
        self.assertEqual(answer.status, 200, answer)
        return answer.json

    def granted(self, wire, device, n=1):
        """Claims, and returns [(job id, lease id)]."""
        return [(job["id"], job["lease"]["id"]) for job in self.ok(wire, device.claim(n))["jobs"]]

    def seal(self, wire, job_id, device=None, ciphertext="c"):
        return self.ok(wire, self.site.payload(
            job_id, party.envelope(self.site, device or self.device, "payload", ciphertext)))

    def until(self, question, what, seconds=PATIENCE):
        """Waits for something that another process does and that nobody can tell us of."""
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            answer = question()
            if answer:
                return answer
            time.sleep(0.005)
        self.fail(f"{what} did not happen within {seconds} s")


class Crowd:
    """Threads that work until they are told to stop. What one of them raised is raised by stop()."""

    def __init__(self, *works):
        self.stopping = threading.Event()
        self.errors = []
        self._threads = [threading.Thread(target=self._run, args=(work,), daemon=True) for work in works]
        for thread in self._threads:
            thread.start()

    def _run(self, work):
        try:
            work(self.stopping)
        except BaseException as e:  # noqa: B902: it is raised again where somebody looks
            self.errors.append(e)

    def stop(self, tell=True):
        if tell:
            self.stopping.set()
        for thread in self._threads:
            thread.join(PATIENCE)
            if thread.is_alive():
                raise AssertionError("a thread of the test hangs")
        if self.errors:
            raise self.errors[0]
