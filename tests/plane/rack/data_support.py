# SPDX-License-Identifier: MIT
"""What the scenarios share that move data: objects and logs as they are on the disk, and capability URLs."""
import base64
import hashlib
import os

from harness import FORMS, SECOND, START_MS, Request, World, digest, task_event

SECRET_PATH = "/api/rack/data/"
LOG_HEAD = 1024  # bytes before the text (docs/objects.md)


def sha256(data):
    return hashlib.sha256(data).hexdigest()


# --- The disk ---

def object_path(w, hash, repo=None):
    return os.path.join(w.server.data, "objects", "repos", repo or w.repo, "objects", hash[:2], hash[2:])


def seed(w, data, repo=None):
    """An object of a repository. Returns its hash."""
    hash = sha256(data)
    path = object_path(w, hash, repo)
    root = os.path.dirname(os.path.dirname(os.path.dirname(path)))
    for name in ("staged", "damaged", *(f"objects/{i:02x}" for i in range(256))):
        os.makedirs(os.path.join(root, name), exist_ok=True)
    with open(path, "wb") as f:
        f.write(data)
    os.utime(path, (START_MS / 1000, START_MS / 1000))  # when it was last written, by the server's clock
    return hash


def read_object(w, hash, repo=None):
    """Its bytes, or None."""
    try:
        with open(object_path(w, hash, repo), "rb") as f:
            return f.read()
    except FileNotFoundError:
        return None


def staged(w, repo=None):
    """The receipts of the uploads that are kept aside."""
    try:
        return sorted(os.listdir(os.path.join(w.server.data, "objects", "repos", repo or w.repo, "staged")))
    except FileNotFoundError:
        return []


def log_path(w, lease, attempt, stream):
    task, inputs = lease["leaseId"].split("#")[:2]
    return os.path.join(w.server.data, "logs", lease["repo"], task[:2], f"{task}.{inputs}.{attempt}.{stream}")


def read_log(w, lease, attempt, stream):
    try:
        with open(log_path(w, lease, attempt, stream), "rb") as f:
            return f.read()[LOG_HEAD:].decode()
    except FileNotFoundError:
        return ""


# --- Leases ---

class Held:
    """A lease of a task, and the rack that holds it. The closure: what the task may read."""

    def __init__(self, w, closure=None, event=None, rack=None, tier=None, **more):
        self.w = w
        self.tier = tier or w.name("t")
        self.rack = rack or w.rack([self.tier])
        self.task = digest(self.tier)
        event = event or task_event(w.repo, self.task, closure=closure)
        if closure == []:
            event["closure"] = {"hashes": []}
        self.lease = w.submit(self.tier, event, **more)
        self.grant()

    def grant(self, rack=None):
        reply = (rack or self.rack).lease([self.tier])
        self.w.case.assertGranted(reply, self.lease)
        self.attempt = self.w.view(self.lease).get("attempt")
        return self

    def storage(self, **more):
        return self.rack.storage(self.lease, **more)

    def value(self, **more):
        reply = self.storage(**more)
        self.w.case.assertIsNone(reply.code, reply)
        return reply.value

    def declare(self, *objects):
        """Declares these bytes as outputs: the targets."""
        return self.value(outputs=[{"hash": sha256(data), "size": len(data)} for data in objects])["targets"]

    def upload(self, data):
        """Declares and sends. Returns what a commit says."""
        target = self.declare(data)[0]["target"]
        answer = put(self.w, target["put"], data)
        self.w.case.assertEqual(answer.status, 200, answer)
        return {"hash": sha256(data), "size": len(data), "version": answer.headers["x-amz-version-id"]}

    def commit(self, *commits):
        return [entry["committed"] for entry in self.value(commits=commits)["committed"]]

    def write(self, data):
        """The whole way of an output. Returns its hash."""
        self.w.case.assertEqual(self.commit(self.upload(data)), [True])
        return sha256(data)

    def outlive(self, ms):
        """Lets this much time pass, and keeps the lease."""
        while ms > 0:
            self.w.server.advance(min(ms, 50 * SECOND))
            ms -= 50 * SECOND
            self.w.case.assertEqual(self.rack.extend(self.lease).value, True)

    def complete(self, result=None, **more):
        return self.rack.complete(self.lease, result, **more)

    def succeed(self, hash, **more):
        return self.complete({"taskName": "t", "status": "success", "outputHash": hash}, **more)

    def view(self):
        return self.w.view(self.lease)

    def log(self, stream, attempt=None):
        return read_log(self.w, self.lease, attempt or self.attempt, stream)


def restarted(case, test, kill=False):
    """Runs test(world, again) on each wire, with a durable store; again() ends the server and starts it anew."""
    for number, form in enumerate(FORMS):
        with case.subTest(form=form):
            data = case.path(f"restart{number}")
            w = World(case, case.serve("--store", "sqlite", *case.FAST, data=data), form, number)

            def again(*racks):
                (w.server.kill if kill else w.server.stop)()
                w.server = case.serve("--store", "sqlite", *case.FAST, data=data)
                for rack in racks:
                    rack.server = w.server
            test(w, again)


# --- Capability URLs ---

def path_of(url):
    """What is asked for, of a URL that has the origin that the harness names."""
    origin, slash, id = url.partition(SECRET_PATH)
    assert origin == "http://relay.example" and len(id) == 64, url
    return slash + id


def status_of_head(w, url):
    """The status of a HEAD, whose answer has no body whatever its headers say."""
    with w.server.wire() as wire:
        wire.send(Request("HEAD", path_of(url), {}, b"").bytes())
        return int(wire.socket.recv(65536).split()[1])


def get(w, url, method="GET", **headers):
    return w.server.ask(Request(method, path_of(url), {k.replace("_", "-"): v for k, v in headers.items()}, b""))


def put(w, target, data, headers=None, method="PUT"):
    """`target`: {url, headers}."""
    given = dict(target.get("headers", {}))
    given.update(headers or {})
    with w.server.wire() as wire:
        request = Request(method, path_of(target["url"]), given, b"")
        wire.send(request.head(f"Content-Length: {len(data)}", length=False))
        try:
            wire.send(data)
        except (BrokenPipeError, ConnectionResetError):
            pass  # it was refused before all of it was sent
        return wire.answer()


def checksum(data):
    return base64.b64encode(hashlib.sha256(data).digest()).decode()
