# SPDX-License-Identifier: MIT
"""Real rack agents, and a gate between them and the server: a proxy that can hold, cut or answer any call."""
import glob
import hashlib
import json
import os
import signal
import socket
import subprocess
import threading
import time

import harness
from harness import PATIENCE

LESSOR = os.path.join(os.path.dirname(os.environ["LESSORD"]), "lessor")


# --- The gate ---

class Held:
    """A request that waits at the gate."""

    def __init__(self, path, head, body):
        self.path, self.head, self.body = path, head, body
        self.opened = threading.Event()
        self.cut = False

    @property
    def json(self):
        return json.loads(self.body)


class Gate:
    """Between agents and a server, which may be another one after a while."""

    def __init__(self, port):
        self.upstream = port
        self.rules = []  # (predicate of (method, path, body), what) with what: "hold", "cut", or (status, body)
        self.seen = []  # (method, path, body) of every request that went through
        self.heads = []  # the same with its headers
        self.held = []
        self.changed = threading.Condition()
        self.closed = False
        self.sockets = set()
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port = self.listener.getsockname()[1]
        threading.Thread(target=self._accept, daemon=True).start()

    @property
    def url(self):
        return f"http://127.0.0.1:{self.port}"

    def close(self):
        if self.closed:
            return
        self.closed = True
        self.rules = []
        self.listener.shutdown(socket.SHUT_RDWR)
        self.listener.close()
        self.cut_all()
        for held in self.held:
            held.opened.set()

    def cut_all(self):
        """Breaks every connection."""
        with self.changed:
            sockets = list(self.sockets)
        for s in sockets:
            try:
                s.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass

    def rule(self, part, what, when=lambda method, path, body: True):
        """For requests whose path has this in it. Returns the rule, to be taken off."""
        rule = (lambda method, path, body: part in path and when(method, path, body), what)
        with self.changed:
            self.rules.insert(0, rule)
        return rule

    def drop(self, rule):
        with self.changed:
            self.rules.remove(rule)

    def hold(self, part, when=lambda method, path, body: True):
        return self.rule(part, "hold", when)

    def wait_held(self, part=""):
        end = time.monotonic() + PATIENCE
        with self.changed:
            while True:
                for held in self.held:
                    if part in held.path and not held.opened.is_set():
                        return held
                if not self.changed.wait(end - time.monotonic()):
                    raise AssertionError(f"nothing came to {part}: {[s[:2] for s in self.seen]}")

    def wait_seen(self, part, n=1):
        end = time.monotonic() + PATIENCE
        with self.changed:
            while sum(part in path for _, path, _ in self.seen) < n:
                if not self.changed.wait(end - time.monotonic()):
                    raise AssertionError(f"{part} was never asked for {n} times")

    def count(self, part, method=None):
        return sum(part in path and method in (None, m) for m, path, _ in self.seen)

    def open(self, held=None):
        """Lets one request go on, or all, and holds none any more."""
        with self.changed:
            if held is None:
                self.rules = [rule for rule in self.rules if rule[1] != "hold"]
            for one in self.held if held is None else [held]:
                one.opened.set()

    def _accept(self):
        while True:
            try:
                client, _ = self.listener.accept()
            except OSError:
                return
            threading.Thread(target=self._serve, args=(client,), daemon=True).start()

    def _serve(self, client):
        upstream = None
        with self.changed:
            self.sockets.add(client)
        try:
            client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            got = b""
            while not self.closed:
                while b"\r\n\r\n" not in got:
                    part = client.recv(262144)
                    if not part:
                        return
                    got += part
                head, _, got = got.partition(b"\r\n\r\n")
                lines = head.decode("latin-1").split("\r\n")
                method, path, _ = lines[0].split(" ")
                headers = {n.lower(): v.strip() for n, v in (line.split(":", 1) for line in lines[1:])}
                n = int(headers.get("content-length", 0))
                while len(got) < n:
                    part = client.recv(262144)
                    if not part:
                        return
                    got += part
                body, got = got[:n], got[n:]
                if not self._may_pass(client, method, path, head, body):
                    continue
                if upstream is None:
                    upstream = socket.create_connection(("127.0.0.1", self.upstream), PATIENCE)
                    upstream.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                    with self.changed:
                        self.sockets.add(upstream)
                    threading.Thread(target=self._back, args=(upstream, client), daemon=True).start()
                upstream.sendall(head + b"\r\n\r\n" + body)
        except (OSError, Cut):
            pass
        finally:
            for s in (client, upstream):
                if s is not None:
                    with self.changed:
                        self.sockets.discard(s)
                    try:
                        s.shutdown(socket.SHUT_RDWR)  # a thread that waits for it would keep it open
                    except OSError:
                        pass
                    s.close()

    def _may_pass(self, client, method, path, head, body):
        with self.changed:
            what = next((what for fits, what in self.rules if fits(method, path, body)), None)
            self.seen.append((method, path, body))
            self.heads.append((method, path, head))
            held = None
            if what == "hold":
                held = Held(path, head, body)
                self.held.append(held)
            self.changed.notify_all()
        if held is not None:
            held.opened.wait()
            if held.cut:
                raise Cut
        elif what == "cut":
            raise Cut
        elif what is not None:
            status, text = what
            text = json.dumps(text).encode()
            client.sendall(f"HTTP/1.1 {status} No\r\ncontent-type: application/json\r\n"
                           f"content-length: {len(text)}\r\n\r\n".encode() + text)
            return False
        return True

    def _back(self, upstream, client):
        try:
            while True:
                part = upstream.recv(262144)
                if not part:
                    break
                client.sendall(part)
        except OSError:
            pass
        try:
            client.shutdown(socket.SHUT_RDWR)
        except OSError:
            pass


class Cut(Exception):
    pass


# --- Agents ---

class Agent:
    """`lessor rack run`, and what it tells."""

    def __init__(self, case, directory, *options, sandbox=True):
        self.case, self.dir = case, directory
        self.events = []
        self.changed = threading.Condition()
        self.log = open(directory + ".log", "ab")
        self.process = subprocess.Popen(
            [LESSOR, "rack", "run", "--json", "--dir", directory, "--tier", "shell",
             *([] if sandbox else ["--no-sandbox"]), *options],
            env={**{k: v for k, v in os.environ.items() if not k.startswith("LESSOR")}, "SECRET": "1"},
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=self.log)
        self.reader = threading.Thread(target=self._read, daemon=True)
        self.reader.start()
        case.addCleanup(self.kill)

    def _read(self):
        for line in self.process.stdout:
            with self.changed:
                self.events.append(json.loads(line))
                self.changed.notify_all()
        with self.changed:
            self.events.append({"event": "gone"})
            self.changed.notify_all()

    def wait(self, event, n=1, seconds=PATIENCE):
        """The n-th event of that name."""
        end = time.monotonic() + seconds
        with self.changed:
            while True:
                found = [e for e in self.events if e["event"] == event]
                if len(found) >= n:
                    return found[n - 1]
                if self.events and self.events[-1]["event"] == "gone":
                    raise AssertionError(f"no {event}: {self.told()}")
                if not self.changed.wait(end - time.monotonic()):
                    raise AssertionError(f"no {event}: {self.told()}")

    def has(self, event):
        return any(e["event"] == event for e in self.events)

    def told(self):
        with open(self.dir + ".log", errors="replace") as f:
            return f"{self.events}\n{f.read()}"

    def end(self, seconds=PATIENCE):
        """Its exit status."""
        code = self.process.wait(seconds)
        self.reader.join()
        self.process.stdout.close()
        self.log.close()
        return code

    def stop(self, seconds=PATIENCE):
        self.process.send_signal(signal.SIGTERM)
        return self.end(seconds)

    def kill(self):
        if self.process.poll() is None:
            self.process.kill()
        if not self.process.stdout.closed:
            self.end()


def processes(mark):
    """How many processes have this in their command line."""
    n = 0
    for path in glob.glob("/proc/[0-9]*/cmdline"):
        try:
            with open(path, "rb") as f:
                n += mark.encode() in f.read()
        except OSError:
            pass
    return n


def until(what, seconds=PATIENCE):
    end = time.monotonic() + seconds
    while not what():
        if time.monotonic() > end:
            raise AssertionError("it never came to that")
        time.sleep(0.01)


def sha(data):
    return hashlib.sha256(data).hexdigest()


def compact(value):
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False).encode()


class AgentCase(harness.Case):
    """A server on SQLite with its clock in the test's hand, a gate before it, and makers of agents and tasks."""

    def setUp(self):
        super().setUp()
        self.start_server()
        self.gate = Gate(self.server.port)
        self.addCleanup(self.gate.close)
        self.repo = "main"
        self.n = 0

    OPTIONS = ()

    def start_server(self):
        self.server = self.serve("--store", "sqlite", "--threads", "2", *self.OPTIONS, data=self.path("data"))
        if hasattr(self, "gate"):
            self.gate.upstream = self.server.port

    def join(self, name="rack", url=None):
        """A new rack's directory."""
        directory = self.path(name)
        token = self.server.control("/racks/tokens/create", {})["token"]
        done = subprocess.run([LESSOR, "rack", "join", url or self.gate.url, "-", "--dir", directory, "--label", name,
                               "--json"], input=token, capture_output=True, text=True)
        self.assertEqual(done.returncode, 0, done.stderr)
        return directory

    def agent(self, *options, directory=None, **more):
        return Agent(self, directory or self.join(), *options, **more)

    def put(self, data, repo=None):
        answer = self.server.ask_control("PUT", f"/objects?repo={repo or self.repo}&hash={sha(data)}", data)
        self.assertEqual(answer.status, 200, answer)
        return sha(data)

    def get(self, digest, repo=None):
        answer = self.server.ask_control("GET", f"/objects?repo={repo or self.repo}&hash={digest}")
        self.assertEqual(answer.status, 200, answer)
        return answer.body

    def file(self, path, data, mode="644"):
        return {"type": "file", "path": path, "mode": mode, "hash": self.put(data), "size": len(data)}

    def task(self, *argv, inputs=(), outputs=(), environment=None, directory=".", network=False, limits=None):
        """A task object's hash. An output that ends with ? is not required."""
        return self.put(compact({
            "format": "lessor.task/1", "argv": list(argv), "environment": environment or {}, "inputs": list(inputs),
            "outputs": [{"path": o.rstrip("?"), "required": not o.endswith("?")} for o in sorted(outputs)],
            "directory": directory, "network": network, "limits": limits or {}}))

    def submit(self, task, **more):
        return self.server.control("/leases/create", {"repo": self.repo, "tier": "shell", "task": task,
                                                      **more})["lease"]

    def script(self, text, **more):
        return self.submit(self.task("sh", "-c", text, **more))

    def inspect(self, lease):
        return self.server.control(f"/leases?number={lease['number']}")

    def ended(self, lease, seconds=PATIENCE):
        """What the server knows of a lease that has ended: its view and result."""
        end = time.monotonic() + seconds
        while True:
            seen = self.inspect(lease)
            if seen["lease"]["status"] not in ("pending", "claimed"):
                return seen
            if time.monotonic() > end:
                raise AssertionError(f"it never ended: {seen}")
            time.sleep(0.01)

    def result(self, lease):
        return self.ended(lease)["lease"]["result"]

    def log(self, lease, stream="stdout"):
        answer = self.server.ask_control("GET", f"/logs?number={lease['number']}&stream={stream}")
        self.assertEqual(answer.status, 200, answer)
        return answer.body

    def tree(self, digest, prefix=""):
        """Path -> bytes of a tree object, trees within it included."""
        value = json.loads(self.get(digest))
        self.assertEqual(value["format"], "lessor.tree/1")
        found = {}
        for entry in value["entries"]:
            path = prefix + entry["path"]
            if entry["type"] == "tree":
                found.update(self.tree(entry["hash"], path + "/"))
            elif entry["type"] == "file":
                found[path] = self.get(entry["hash"])
            else:
                found[path] = (entry["type"], entry.get("target"))
        return found
