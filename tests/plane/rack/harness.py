# SPDX-License-Identifier: MIT
"""A real lessord whose clock is in the test's hand, and racks that talk to it on either wire.

A test is a method that is marked @each: it runs on each store and each wire, with a server of its own for each store. It
gets a world: the server, and makers of racks and leases whose names nobody else has.
"""
import hashlib
import json
import os
import select
import shutil
import socket
import sys
import tempfile
import time
import unittest

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))))
os.environ.setdefault("LESSORD", os.path.join(ROOT, "build-hooks", "lessord"))
sys.path.insert(0, os.path.join(ROOT, "tests", "faults", "server"))

import beast2  # noqa: E402
import rack_types  # noqa: E402
from party import Request  # noqa: E402

# By its path, since this file has the same name.
import importlib.util  # noqa: E402
_spec = importlib.util.spec_from_file_location("server_harness",
                                               os.path.join(ROOT, "tests", "faults", "server", "harness.py"))
server_harness = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(server_harness)
Answer, Gone, PATIENCE, STORES, Wire = (server_harness.Answer, server_harness.Gone, server_harness.PATIENCE,
                                        server_harness.STORES, server_harness.Wire)

LESSORD = os.environ["LESSORD"]
FORMS = ("beast2", "json")
CONTENT_TYPES = {"beast2": "application/beast2", "json": "application/json"}
START_MS = 1760000000000
SECOND, MINUTE, HOUR = 1000, 60000, 3600000
VISIBILITY = 60 * SECOND
SOON = 5  # seconds within which what an event brings about must be there, on a busy machine


class Refused(AssertionError):
    """The control API said no."""

    def __init__(self, answer):
        super().__init__(repr(answer))
        self.status, self.code = answer.status, answer.json.get("error")


class Server(server_harness.Server):
    """With a clock that stands still until it is told to advance."""

    def __init__(self, data, log, *options, env=(), before=None):
        super().__init__(data, log, *options, env={"LESSOR_TEST_NOW_MS": str(START_MS), **dict(env)}, before=before)

    def advance(self, ms):
        self.hook("advance", {"advance": ms})

    def ask_control(self, method, path, body=b"", headers=()):
        with socket.socket(socket.AF_UNIX) as s:
            s.settimeout(PATIENCE)
            s.connect(os.path.join(self.data, "control.sock"))
            head = [f"{method} /api/control/v1{path} HTTP/1.1", "Host: localhost", "Connection: close",
                    *(f"{name}: {value}" for name, value in dict(headers).items()), f"Content-Length: {len(body)}"]
            s.sendall("\r\n".join(head).encode() + b"\r\n\r\n" + body)
            text = b"".join(iter(lambda: s.recv(262144), b""))
        head, _, rest = text.partition(b"\r\n\r\n")
        lines = head.decode("latin-1").split("\r\n")
        return Answer(int(lines[0].split()[1]), dict(line.lower().split(": ", 1) for line in lines[1:]), rest)

    def control(self, path, body=None, method=None):
        """What the control API answers; raises Refused. With a body: POST."""
        answer = self.ask_control(method or ("GET" if body is None else "POST"), path,
                                  b"" if body is None else json.dumps(body).encode(),
                                  {"Content-Type": "application/json"} if body is not None else {})
        if answer.status != 200:
            raise Refused(answer)
        return answer.json

    def until_parked(self, n=1):
        """Until so many requests wait for something."""
        end = time.monotonic() + PATIENCE
        while self.control("/status")["http"]["parked"] != n:
            if time.monotonic() > end:
                raise AssertionError(f"{n} requests never waited at the same time")
            time.sleep(0.002)


# --- Racks ---

class Reply:
    """An answer on either wire: `value` of a success, None of a 204; else the refusal's `code`, which is "ERR" for
    the error in a BEAST2 envelope."""

    def __init__(self, form, name, answer):
        self.form, self.status, self.headers = form, answer.status, answer.headers
        self.code = self.message = self.value = None
        kind = answer.headers.get("content-type")
        success = rack_types.ENDPOINTS[name][1]
        if answer.status == 204:
            assert answer.body == b"", answer
        elif answer.status == 200 and form == "json":
            assert kind == "application/json", kind
            self.value = beast2.from_json(success, answer.json)
        elif answer.status == 200:
            assert kind == "application/beast2", f"R014: {kind}"
            value = beast2.decode(rack_types.response(success), answer.body)
            if "success" in value:
                self.value = value["success"]
            else:
                assert set(value["error"]) == {"internal"}, value
                self.code, self.message = "ERR", value["error"]["internal"]["message"]
        elif kind == "application/json":
            body = answer.json
            if form == "json":
                assert set(body) == {"error", "message"}, body
                self.code, self.message = body["error"], body["message"]
            else:
                assert set(body) == {"success", "error"} and body["success"] is False, body
                self.code, self.message = body["error"]["type"], body["error"]["message"]
        else:
            self.code, self.message = kind, answer.body.decode()

    def __repr__(self):
        return f"{self.status} {self.code or ''} {self.message or self.value!r}"


class Pending:
    """A request that is under way."""

    def __init__(self, rack, name, wire):
        self.rack, self.name, self.wire = rack, name, wire

    def is_answered(self, seconds=0):
        return bool(select.select([self.wire.socket], [], [], seconds)[0])

    def reply(self):
        try:
            return Reply(self.rack.form, self.name, self.wire.answer())
        finally:
            self.wire.close()

    def hang_up(self):
        self.wire.close()

    def reset(self):
        self.wire.reset()


class Rack:
    """Somebody with a rack token, or without one."""

    def __init__(self, server, form, token=None, rack_id=None, boot="boot-1", tiers=(), version="1.0.0"):
        self.server, self.form, self.token, self.id = server, form, token, rack_id
        self.boot, self.tiers, self.version = boot, list(tiers), version

    def headers(self, content_type=None):
        headers = {"Content-Type": content_type or CONTENT_TYPES[self.form]}
        if self.token is not None:
            headers["Authorization"] = "Bearer " + self.token
        return headers

    def body(self, name, message):
        kind = rack_types.ENDPOINTS[name][0]
        if self.form == "json":
            return json.dumps(beast2.to_json(kind, message)).encode()
        return beast2.encode(kind, message)

    def request(self, name, message=None, body=None, content_type=None, method="POST"):
        body = self.body(name, message) if body is None else body
        return Request(method, "/api/rack/" + name, self.headers(content_type), body)

    def send(self, name, message):
        wire = self.server.wire()
        wire.send(self.request(name, message).bytes())
        return Pending(self, name, wire)

    def call(self, name, message=None, **more):
        return Reply(self.form, name, self.server.ask(self.request(name, message, **more)))

    # The calls, with what tests mostly say.

    def poll(self, tiers=None, boot=None):
        return self.send("lease", {"tiers": self.tiers if tiers is None else tiers,
                                   "bootId": self.boot if boot is None else boot})

    def lease(self, tiers=None, boot=None):
        """A poll, and its end: the reply."""
        return self.poll(tiers, boot).reply()

    def beat(self, running=(), healthy=True, version=None, boot=None, token=None):
        rack = self if token is None else Rack(self.server, self.form, token)
        return rack.call("heartbeat", {
            "healthy": healthy, "freeCapacity": 1, "runningLeases": [ref(lease) for lease in running],
            "agentVersion": version or self.version, "bootId": self.boot if boot is None else boot, "cacheBytes": 0})

    def extend(self, lease, attempt=None):
        message = ref(lease)
        if attempt is not None:
            message["attempt"] = attempt
        return self.call("lease/extend", message)

    def watch(self, *leases):
        return self.send("lease/watch", {"leases": [ref(lease) for lease in leases], "bootId": self.boot})

    def complete(self, lease, result=None, upload=None, inline=None, attempt=None):
        message = {**ref(lease), "resultJson": json.dumps(result or {"taskName": "t", "status": "failed"}),
                   "outputUploadId": upload, "inlineOutput": inline}
        if attempt is not None:
            message["attempt"] = attempt
        return self.call("complete", message)

    def logs(self, lease, *chunks, attempt=None):
        message = {**ref(lease), "chunks": [{"stream": stream, "data": text} for stream, text in chunks]}
        if attempt is not None:
            message["attempt"] = attempt
        return self.call("logs", message)

    def storage(self, lease, need=(), output=None, env=None, outputs=(), commits=(), attempt=None):
        message = {**ref(lease), "need": list(need), "output": output, "envManifest": env,
                   "outputs": list(outputs), "commits": list(commits)}
        if attempt is not None:
            message["attempt"] = attempt
        return self.call("storage", message)

    # As the server sees it.

    def seen(self):
        return next(r for r in self.server.control("/racks?rack=" + self.id)["racks"])


def ref(lease):
    """The name of a lease, of a grant, or a name."""
    return {"repo": lease["repo"], "leaseId": lease["leaseId"]}


# --- Leases ---

def digest(text):
    return hashlib.sha256(text.encode()).hexdigest()


_uuids = 0


def uuid7():
    global _uuids
    _uuids += 1
    return f"{START_MS:012x}"[:8] + "-" + f"{START_MS:012x}"[8:] + f"-7000-8000-{_uuids:012x}"


def task_event(repo, task, inputs=(), workspace="w", name="t", closure=None, **more):
    return {"version": 2, "workspace": workspace, "taskName": name, "closure": {"hashes": closure or [task]},
            "runnerEvent": {"mode": "task", "launchId": uuid7(), "repo": repo, "timeoutMs": 60000, "taskHash": task,
                            "inputHashes": list(inputs)}, **more}


def function_event(repo, workspace="w", name="fn:f", **more):
    return {"version": 2, "workspace": workspace, "taskName": name, "closure": {"hashes": []},
            "runnerEvent": {"mode": "run-detached", "launchId": uuid7(), "repo": repo, "timeoutMs": 60000,
                            "spec": {"bodyIr": "", "args": [],
                                     "runner": {"type": "custom", "value": {"command": ["true"]}},
                                     "limits": {"timeoutMs": 60000, "maxResultBytes": 1000, "maxLogBytes": 1000}}},
            **more}


class World:
    """One server, and one wire. Names made here are nobody else's."""

    def __init__(self, case, server, form, number):
        self.case, self.server, self.form, self.number = case, server, form, number
        self.repo = f"repo{number}"
        self.made = 0

    def name(self, prefix):
        self.made += 1
        return f"{prefix}-{self.number}-{self.made}"

    # --- what an operator does

    def mint(self, ttl_ms=None):
        return self.server.control("/racks/tokens/create", {"ttlMs": ttl_ms} if ttl_ms else {})["token"]

    def enroll(self, token, version="1.0.0", tiers=("x",), label="label", capacity=2, form=None):
        return Rack(self.server, form or self.form).call("enroll", {
            "enrollmentToken": token,
            "hostInfo": {"label": label, "tiers": list(tiers), "capacity": capacity, "agentVersion": version}})

    def rack(self, tiers=(), version="1.0.0", boot="boot-1", beat=True, form=None):
        """An enrolled rack, whose first boot is adopted unless `beat` is false."""
        value = self.enroll(self.mint(), version, tiers, form=form).value
        rack = Rack(self.server, form or self.form, value["rackToken"], value["rackId"], boot, tiers, version)
        if beat:
            self.case.assertEqual(rack.beat().status, 200)
        return rack

    def policy(self, require_start_approval):
        self.server.control("/racks/policy", {"requireStartApproval": require_start_approval}, "PUT")

    def remove(self, rack):
        return self.server.control("/racks/remove", {"rackId": rack.id})

    def approve(self, rack, boot=None):
        return self.server.control("/racks/approve", {"rackId": rack.id, **({"bootId": boot} if boot else {})})

    # --- what a producer does

    def submit(self, tier, event=None, **more):
        """A lease, by default of a task that is its own. Returns its view."""
        repo = more.get("repo", self.repo)
        event = event or task_event(repo, digest(self.name("task")))
        return self.server.control("/leases/create", {"repo": repo, "tier": tier, "event": event, **more})["lease"]

    def inspect(self, lease):
        return self.server.control(f"/leases?number={lease['number']}")

    def view(self, lease):
        return self.inspect(lease)["lease"]

    def cancel(self, lease, **more):
        return self.server.control("/leases/cancel", {**ref(lease), **more})["lease"]

    def supersede(self, lease, **more):
        return self.server.control("/leases/supersede", {**ref(lease), **more})["lease"]


class Case(unittest.TestCase):
    maxDiff = None
    OPTIONS = ()  # of the servers of this class
    FAST = ("--rack-window-ms", "150", "--rack-watch-window-ms", "150")  # where polls are to come back empty

    def setUp(self):
        self.dir = tempfile.mkdtemp(prefix="lessor-rack-")
        self.addCleanup(shutil.rmtree, self.dir, ignore_errors=True)

    def path(self, name):
        return os.path.join(self.dir, name)

    def serve(self, *options, data=None, **more):
        server = Server(data or self.path("data"), self.path("lessord.log"), *options, **more)
        self.addCleanup(lambda: server.process.poll() is None and server.stop())
        self.assertIsNotNone(server.port, server.log())
        return server

    def assertRefused(self, reply, status, code):
        """As the JSON wire has it; BEAST2 has its own bodies for 401 and 403, and ERR for the rest."""
        if reply.form == "json" or status in (401, 403):
            self.assertEqual((reply.status, reply.code), (status, code), reply)
        else:
            self.assertEqual((reply.status, reply.code), (200, "ERR"), reply)

    def assertUnauthorized(self, reply):
        self.assertRefused(reply, 401, "unauthorized")

    def assertForbidden(self, reply):
        self.assertRefused(reply, 403, "permission_denied")

    def assertGranted(self, reply, lease):
        self.assertEqual(reply.status, 200, reply)
        self.assertIsNone(reply.code, reply)
        self.assertEqual(ref(reply.value), ref(lease))
        return reply.value

    def assertNothing(self, reply):
        self.assertEqual(reply.status, 204, reply)


def each(*options, stores=STORES, forms=FORMS, **more):
    """@each: on every store and wire. @each("--option", ...): with options for the server."""
    if options and callable(options[0]):
        return each()(options[0])

    def decorate(test):
        def run(self):
            for at, store in enumerate(stores):
                chosen = [option for given in (self.OPTIONS, options) for option in given]
                server = self.serve("--store", store, "--threads", "2", *chosen, data=self.path(store), **more)
                for number, form in enumerate(forms):
                    with self.subTest(store=store, form=form):
                        test(self, World(self, server, form, at * len(forms) + number))
                self.assertEqual(server.stop(), 0)
                self.assertNotIn('"level":"error"', server.log())
        run.__name__, run.__doc__ = test.__name__, test.__doc__
        return run
    return decorate
