# SPDX-License-Identifier: MIT
"""Starts lessord and runs lessor, each test in a directory of its own; whatever was started is stopped by pid."""
import json
import os
import pty
import shutil
import signal
import socket
import subprocess
import tempfile
import time
import unittest

LESSORD = os.environ["LESSORD"]
LESSOR = os.environ["LESSOR"]
SOURCE = os.environ["LESSOR_SOURCE"]
PATIENCE = 60  # seconds for anything to happen, on a busy machine


class Answer:
    def __init__(self, done):
        self.code, self.out, self.err = done.returncode, done.stdout, done.stderr

    @property
    def json(self):
        return json.loads(self.out)

    def __repr__(self):
        return f"exit {self.code}\n--- stdout\n{self.out}\n--- stderr\n{self.err}"


class Started:
    """A program that runs until it is stopped; its output is read line by line."""

    def __init__(self, argv, cwd, env, log):
        self.log = open(log, "wb")
        self.process = subprocess.Popen(argv, cwd=cwd, env=env, stdin=subprocess.DEVNULL,
                                        stdout=subprocess.PIPE, stderr=self.log, text=True)
        self.log_path = log

    def line(self):
        return self.process.stdout.readline().rstrip("\n")

    def wait(self):
        """Waits for its end and returns its exit status."""
        code = self.process.wait(PATIENCE)
        self.process.stdout.close()
        self.log.close()
        return code

    def stop(self, number=signal.SIGTERM):
        """Ends it, unless it has ended, and returns its exit status."""
        if self.process.poll() is None:
            self.process.send_signal(number)
        try:
            return self.wait()
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.wait()
            raise


class Case(unittest.TestCase):
    maxDiff = None

    def setUp(self):
        self.dir = tempfile.mkdtemp(prefix="lessor-cli-")
        self.addCleanup(shutil.rmtree, self.dir)
        self.data = os.path.join(self.dir, "data")
        self.env = {k: v for k, v in os.environ.items() if not k.startswith("LESSOR_")}
        self.env.update({"LESSOR_DATA": self.data, "NO_COLOR": "1"})
        self.relay = None

    def path(self, name):
        return os.path.join(self.dir, name)

    def read(self, name):
        with open(self.path(name)) as f:
            return f.read()

    def write(self, name, text, mode=0o600):
        with open(self.path(name), "w") as f:
            f.write(text)
        os.chmod(self.path(name), mode)
        return self.path(name)

    def start(self, *argv, name):
        started = Started(list(argv), self.dir, self.env, self.path(name + ".log"))
        self.addCleanup(lambda: started.process.poll() is None and started.stop())
        return started

    def serve(self, *options):
        """A lessord on a free port; returns it. The URL of its relay is self.relay."""
        server = self.start(LESSORD, "--data", self.data, "--listen", "127.0.0.1:0",
                            "--verification-url", "http://pair.example/", *options, name="lessord")
        self.addCleanup(lambda: self.assertEqual(server.stop(), 0, self.read(server.log_path)))
        line = server.line()
        self.assertTrue(line.startswith("listening on http"), line + self.read(server.log_path))
        self.relay = line.split()[-1]
        self.env["LESSOR_RELAY"] = self.relay
        return server

    def lessor(self, *argv, stdin="", code=0, env=None):
        """Runs a command to its end and expects its exit status; None: any."""
        done = subprocess.run([LESSOR, *argv], cwd=self.dir, env=env or self.env, input=stdin, text=True,
                              capture_output=True, timeout=PATIENCE)
        answer = Answer(done)
        if code is not None:
            self.assertEqual(answer.code, code, f"lessor {' '.join(argv)}: {answer}")
        if code:
            self.assertRegex(answer.err, r"(^|\n)lessor: [^\n]+\n$")
        return answer

    def shape(self, value, shape, where="answer"):
        """A dict has exactly the keys of the shape; a key that ends with `?` may be missing."""
        if isinstance(shape, dict):
            self.assertIsInstance(value, dict, where)
            known = {k.rstrip("?") for k in shape}
            needed = {k for k in shape if not k.endswith("?")}
            self.assertLessEqual(set(value), known, where)
            self.assertLessEqual(needed, set(value), where)
            for key, part in shape.items():
                if key.rstrip("?") in value:
                    self.shape(value[key.rstrip("?")], part, f"{where}.{key}")
        elif isinstance(shape, list):
            self.assertIsInstance(value, list, where)
            for i, item in enumerate(value):
                self.shape(item, shape[0], f"{where}[{i}]")
        else:
            self.assertIs(type(value), shape, where)

    def until(self, question, what):
        """Waits for something that another process does and that nobody can tell us of."""
        end = time.monotonic() + PATIENCE
        while time.monotonic() < end:
            answer = question()
            if answer:
                return answer
            time.sleep(0.02)
        self.fail(f"{what} did not happen")

    def request(self, method, path, body=None, headers=()):
        """One request at the control socket, with a body of bytes. Returns (status, text)."""
        s = socket.socket(socket.AF_UNIX)
        s.settimeout(PATIENCE)
        s.connect(os.path.join(self.data, "control.sock"))
        body = body if body is not None else b""
        head = [f"{method} {path} HTTP/1.1", "Host: localhost", "Connection: close",
                f"Content-Length: {len(body)}", *headers, "", ""]
        s.sendall("\r\n".join(head).encode() + body)
        got = b""
        while True:
            part = s.recv(65536)
            if not part:
                break
            got += part
        s.close()
        head, _, text = got.partition(b"\r\n\r\n")
        return int(head.split()[1]), text.decode()

    def at_terminal(self, *argv, typed="", code=0, colour=True):
        """As lessor(), with stdin and stderr at a terminal. Returns (stdout, what the terminal showed)."""
        master, slave = pty.openpty()
        env = dict(self.env, TERM="xterm")
        if colour:
            del env["NO_COLOR"]
        process = subprocess.Popen([LESSOR, *argv], cwd=self.dir, env=env, stdin=slave, stderr=slave,
                                   stdout=subprocess.PIPE, start_new_session=True)
        os.close(slave)
        os.write(master, typed.encode())
        shown = b""
        while True:
            try:
                part = os.read(master, 4096)
            except OSError:  # the other side is closed
                break
            if not part:
                break
            shown += part
        out = process.stdout.read().decode()
        process.stdout.close()
        os.close(master)
        self.assertEqual(process.wait(PATIENCE), code, shown)
        return out, shown.decode()

    # --- What many tests begin with ---

    def keys(self, name):
        self.lessor("keys", "new", name)
        return self.path(name)

    def pair(self, owner, backend="echo", directory="device", options=()):
        """A device that is paired and approved; returns its runner id."""
        pairing = self.start(LESSOR, "device", "pair", "--dir", self.path(directory), "--backend", backend,
                             "--json", *options, name="pair-" + directory)
        code = json.loads(pairing.line())
        self.shape(code, {"event": str, "userCode": str, "verificationUrl": str, "keyId": str,
                          "expiresAt": int})
        self.lessor("device", "approve", code["userCode"], "--owner", owner, "--key", code["keyId"])
        paired = json.loads(pairing.line())
        self.shape(paired, {"event": str, "runnerId": str, "owner": str, "relay": str, "keyId": str,
                            "checksGrants": bool})
        self.assertEqual(pairing.wait(), 0)
        self.assertEqual(paired["owner"], owner)
        return paired["runnerId"]

    def run_device(self, backend="echo", directory="device", options=()):
        device = self.start(LESSOR, "device", "run", "--dir", self.path(directory), "--backend", backend,
                            "--json", *options, name="run-" + directory)
        while json.loads(device.line())["event"] != "online":
            pass
        return device
