#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Holds a real server to docs/openapi.yaml: every endpoint of the control API answers as is said there, and says nothing
that is not said; requests that the description allows are taken, and rack messages in JSON read as described."""
import hashlib
import json
import os
import re
import subprocess
import sys
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from harness import LESSORD, SOURCE  # noqa: E402
from rack_test import RackCase  # noqa: E402

DOC = json.loads(subprocess.run([os.path.join(SOURCE, "tools", "openapi"), "--json"], stdout=subprocess.PIPE, check=True,
                                env={**os.environ, "LESSOR_BUILD": os.path.dirname(LESSORD)}).stdout)
V1 = "/api/control/v1"
TYPES = {"object": dict, "array": list, "string": str, "boolean": bool, "integer": int, "number": (int, float),
         "null": type(None)}


def resolve(schema):
    while "$ref" in schema:
        node = DOC
        for part in schema["$ref"].removeprefix("#/").split("/"):
            node = node[part]
        schema = node
    return schema


def problems(schema, value, where="answer"):
    """What is wrong with a value, as a list. Objects that name their members have no others."""
    schema = resolve(schema)
    if not schema:
        return []
    for several in ("oneOf", "anyOf"):
        if several in schema:
            tried = [problems(s, value, where) for s in schema[several]]
            return [] if [] in tried else min(tried, key=len)
    if "const" in schema:
        return [] if value == schema["const"] else [f"{where}: not {schema['const']!r}"]
    if "enum" in schema and value not in schema["enum"]:
        return [f"{where}: {value!r} is none of {schema['enum']}"]
    wanted = TYPES[schema["type"]]
    if not isinstance(value, wanted) or (isinstance(value, bool) and schema["type"] != "boolean"):
        return [f"{where}: {value!r} is no {schema['type']}"]
    found = []
    if schema["type"] == "string" and len(value) < schema.get("minLength", 0):
        found.append(f"{where}: too short")
    if schema["type"] == "integer" and not schema.get("minimum", value) <= value <= schema.get("maximum", value):
        found.append(f"{where}: {value} is out of bounds")
    if schema["type"] == "array":
        for i, item in enumerate(value):
            found += problems(schema["items"], item, f"{where}[{i}]")
    if schema["type"] == "object" and "properties" in schema:
        found += [f"{where}.{key}: missing" for key in schema.get("required", []) if key not in value]
        found += [f"{where}.{key}: not described" for key in value if key not in schema["properties"]]
        for key, part in schema["properties"].items():
            if key in value:
                found += problems(part, value[key], f"{where}.{key}")
    elif isinstance(schema.get("additionalProperties"), dict):
        for key, item in value.items():
            found += problems(schema["additionalProperties"], item, f"{where}.{key}")
    return found


class Described(RackCase):
    OPTIONS = ("--rack-window-ms", "100", "--rack-visibility-ms", "60000")

    def setUp(self):
        super().setUp()
        self.asked = set()

    def ask(self, method, path, body=None, raw=None, status=200):
        """Asks, and checks both sides against the description."""
        bare, _, query = path.partition("?")
        operation = DOC["paths"][V1 + bare][method.lower()]
        known = {p["name"]: p for p in operation.get("parameters", []) if p["in"] == "query"}
        given = {part.partition("=")[0] for part in query.split("&") if part}
        self.assertLessEqual(given, set(known), path)
        if status == 200:
            self.assertLessEqual({n for n, p in known.items() if p["required"]}, given, path)
        if body is not None:
            content = operation["requestBody"]["content"]["application/json"]["schema"]
            if status == 200:
                self.assertEqual(problems(content, body, "body"), [], path)
            raw = json.dumps(body).encode()
        got, text = self.request(method, V1 + path, raw)
        self.assertEqual(got, status, f"{method} {path}: {text}")
        if status != 200:
            self.assertEqual(problems({"$ref": "#/components/schemas/control.Refusal"}, json.loads(text)), [])
            return json.loads(text)
        self.asked.add((method, bare))
        content = operation["responses"]["200"]["content"]
        if "application/json" not in content:
            return text
        answer = json.loads(text)
        self.assertEqual(problems(content["application/json"]["schema"], answer, f"{method} {bare}"), [])
        return answer

    def sites_and_consents(self):
        self.keys("demo.json")
        public = self.lessor("keys", "show", "demo.json", "--json").json["public"]
        self.ask("POST", "/sites/add", {"siteId": "demo", "site": public, "purposes": ["p"]})
        self.ask("POST", "/sites/declare", {"siteId": "demo", "purposes": ["p", "q"]})
        self.ask("POST", "/consents/add", {"owner": "alice", "siteId": "demo",
                                           "mappings": [{"kind": "llm.chat", "service": "echo"}]})
        mapping = {"owner": "alice", "siteId": "demo", "purpose": "p", "kind": "llm.chat", "service": "echo"}
        self.ask("POST", "/mappings/add", mapping)
        self.ask("GET", "/consents?owner=alice")
        self.ask("POST", "/mappings/remove", mapping)
        for what in ("pause", "resume", "revoke"):
            self.ask("POST", f"/consents/{what}", {"owner": "alice", "siteId": "demo"})
        self.ask("GET", "/sites")
        self.ask("POST", "/sites/undeclare", {"siteId": "demo"})
        self.ask("POST", "/consents/add", {"owner": "alice", "siteId": "demo"})
        self.ask("POST", "/rosters/add", {"rosterId": "lab", "owner": "alice"})
        self.ask("POST", "/members/add", {"rosterId": "lab", "member": "bob"})
        self.ask("GET", "/rosters")
        self.ask("GET", "/projection")
        self.ask("POST", "/members/remove", {"rosterId": "lab", "member": "bob"})
        self.ask("POST", "/rosters/remove", {"rosterId": "lab"})

    def devices_and_jobs(self):
        pairing = self.start(os.environ["LESSOR"], "device", "pair", "--dir", self.path("device"), "--backend", "echo",
                             "--json", name="pair")
        code = json.loads(pairing.line())
        self.assertEqual(len(self.ask("GET", "/pairings")["pairings"]), 1)
        device = self.ask("POST", "/devices/approve", {"userCode": code["userCode"], "owner": "alice"})["device"]
        self.assertEqual(pairing.wait(), 0)
        running = self.run_device()
        asked = self.start(os.environ["LESSOR"], "ask", "--site", "demo", "--site-keys", "demo.json", "--owner", "bob",
                           "--json", "hello", name="ask")
        self.until(lambda: self.ask("GET", "/jobs")["jobs"], "the job")
        job = self.ask("GET", "/jobs?site=demo&limit=5")["jobs"][0]
        self.ask("GET", f"/jobs/show?site=demo&job={job['jobId']}")
        self.until(lambda: "lastSeenAt" in self.ask("GET", "/devices?owner=alice")["devices"][0], "the first beat")
        self.ask("POST", "/jobs/cancel", {"siteId": "demo", "jobId": job["jobId"]})
        asked.stop()
        running.stop()
        self.ask("POST", "/devices/revoke", {"runnerId": device["runnerId"]})
        self.ask("POST", "/devices/remove", {"runnerId": device["runnerId"]})

    def the_server(self):
        self.ask("GET", "")
        self.ask("GET", "/status")
        self.assertIn("lessor_", self.ask("GET", "/metrics"))
        self.ask("PUT", "/log-level", self.ask("GET", "/log-level"))
        self.ask("POST", "/backup", {"path": self.path("copy.db")})

    def objects(self):
        layer = b"layer" * 100
        digest = "sha256:" + hashlib.sha256(layer).hexdigest()
        hash = self.ask("PUT", "/objects?repo=lab", raw=b"an object")["hash"]
        self.ask("PUT", f"/objects?repo=lab&hash={hash}", raw=b"an object")
        self.assertEqual(self.ask("GET", f"/objects?repo=lab&hash={hash}"), "an object")
        self.ask("GET", "/objects/list?repo=lab&limit=1")
        self.ask("GET", "/objects/repos")
        self.ask("POST", "/objects/touch", {"repo": "lab", "hashes": [hash, "0" * 64]})
        self.ask("POST", "/objects/gc", {"graceMs": 1000000, "dryRun": True})
        self.ask("POST", "/objects/verify", {"repo": "lab", "setAside": False})
        self.ask("PUT", f"/environments/layers?digest={digest}", raw=layer)
        name = {"envHash": "e" * 64, "e3Version": "1.0"}
        self.ask("POST", "/environments/publish", {**name, "baseImage": "i", "baseTier": "py",
                                                   "layers": [{"digest": digest}]})
        self.ask("GET", "/environments")
        self.ask("GET", f"/environments?env={'e' * 64}&version=1.0")
        self.ask("POST", "/environments/remove", name)
        self.ask("GET", f"/objects?repo=lab&hash={'1' * 64}", status=404)
        self.ask("PUT", f"/objects?repo=lab&hash={'1' * 64}", raw=b"x", status=400)

    def leases_and_racks(self):
        token = self.ask("POST", "/racks/tokens/create", {"label": "x", "ttlMs": 60000})
        self.ask("GET", "/racks/tokens")
        self.ask("POST", "/racks/tokens/revoke", {"tokenId": token["tokenId"]})
        self.assertFalse(self.ask("GET", "/racks/policy")["requireStartApproval"])
        self.ask("PUT", "/racks/policy", {"requireStartApproval": False})
        rack = self.rack()
        made = self.ask("POST", "/leases/create", {"repo": "lab", "tier": "shell", "event": json.loads(self.event()),
                                                   "run": "nightly", "key": "k", "attemptLimit": 3})["lease"]
        name = f"repo=lab&lease={made['leaseId'].replace('#', '%23')}"
        grant = rack.poll()
        rack.call("logs", {"repo": "lab", "leaseId": grant["leaseId"], "chunks": [{"stream": "stdout", "data": "hi\n"}]})
        self.assertEqual(self.ask("GET", f"/logs?{name}&stream=stdout&offset=1&attempt=1"), "i\n")
        rack.call("complete", {"repo": "lab", "leaseId": grant["leaseId"],
                               "resultJson": json.dumps({"taskName": "train", "status": "failed", "error": "no"})})
        lease = self.ask("GET", f"/leases?{name}")["lease"]
        self.assertEqual(lease["status"], "completed")
        self.ask("GET", f"/leases?number={made['number']}")
        self.ask("GET", "/leases?status=pending,completed&run=nightly&limit=1")
        self.ask("GET", f"/leases/find?repo=lab&task={lease['taskHash']}&inputs={lease['inputsHash']}")
        self.ask("GET", f"/leases/watch?{name}&until=end&wait=10")
        self.ask("GET", "/runs?run=nightly")
        self.ask("GET", "/runs")
        self.ask("GET", "/runs/watch?run=nightly&wait=10")
        waiting = self.create()
        self.ask("GET", f"/leases/explain?number={waiting['number']}")
        self.ask("POST", "/leases/cancel", {"number": waiting["number"], "reason": "r"})
        other = self.create()
        self.ask("POST", "/leases/supersede", {"repo": "lab", "leaseId": other["leaseId"]})
        short = self.create("--ttl", "1ms")
        self.until(lambda: self.ask("GET", f"/leases?number={short['number']}")["lease"]["status"] == "expired", "the end")
        self.ask("POST", "/leases/replay", {"number": short["number"]})
        self.ask("POST", "/runs/cancel", {"run": "nightly"})
        self.ask("GET", "/racks")
        self.ask("GET", f"/racks/activity?rack={rack.id}&limit=2")
        self.ask("POST", "/racks/approve", {"rackId": rack.id})
        self.ask("POST", "/racks/drain", {"rackId": rack.id, "draining": True})
        self.ask("POST", "/racks/remove", {"rackId": rack.id})

    def test_every_endpoint_answers_as_described(self):
        self.the_server()
        self.sites_and_consents()
        self.devices_and_jobs()
        self.ask("POST", "/sites/remove", {"siteId": "demo"})
        self.ask("POST", "/consents/remove", {"owner": "alice", "siteId": "demo"}, status=404)
        self.objects()
        self.leases_and_racks()
        hook = self.ask("POST", "/webhooks/add", {"url": "http://127.0.0.1:9/", "types": ["lease.claimed"], "repo": "lab"})
        self.ask("GET", "/webhooks")
        self.ask("POST", "/webhooks/remove", {"webhookId": hook["webhookId"]})
        self.ask("GET", "/status")
        described = {(method.upper(), path.removeprefix(V1)) for path, item in DOC["paths"].items()
                     if path.startswith(V1) for method in item}
        # With another key, another kind of server, or without an end: their own tests have them.
        self.assertEqual(described - self.asked, {("POST", "/sites/rotate"), ("POST", "/consents/remove"),
                                                  ("PUT", "/projection"), ("GET", "/events")})

    def test_queries_are_those_that_the_sources_read(self):
        read = set()
        for name in os.listdir(os.path.join(SOURCE, "src", "plane")):
            if not name.startswith("control"):
                continue
            with open(os.path.join(SOURCE, "src", "plane", name), encoding="utf-8") as f:
                read |= set(re.findall(r'control_query(?:_int)?\(\s*(?:log->)?(?:upload->)?call,\s*"(\w+)"', f.read()))
        said = {p["name"] for path, item in DOC["paths"].items() if path.startswith(V1)
                for operation in item.values() for p in operation.get("parameters", []) if p["in"] == "query"}
        self.assertEqual(said, read)

    def statuses(self, prefix):
        return {int(status) for path, item in DOC["paths"].items() if path.startswith(prefix) and "{" not in path
                for operation in item.values() for status in operation["responses"] if status.isdigit()}

    def source(self, *path):
        with open(os.path.join(SOURCE, "src", *path), encoding="utf-8") as f:
            return f.read()

    def test_statuses_are_those_of_the_refusal_tables(self):
        refusals = re.findall(r"^ +\[RACK_\w+\] = \{(\d+), ", self.source("plane", "rack_call.c"), re.M)
        self.assertGreater(len(refusals), 8)
        # 408 is the HTTP server's; 204 and 200 are no refusals.
        self.assertEqual(self.statuses("/api/rack/"), {int(s) for s in refusals} | {200, 204, 408})
        refusals = re.findall(r'X\(\w+, (\d+), "', self.source("wire", "relay_errors.h"))
        self.assertGreater(len(refusals), 8)
        said = self.statuses("/relay/") | self.statuses("/byollm/")
        self.assertLessEqual({int(s) for s in refusals} - {501}, said)

    def test_rack_messages_are_as_described(self):
        def check(name, body):
            operation = DOC["paths"]["/api/rack/" + name]["post"]
            content = operation["requestBody"]["content"]["application/json"]["schema"]
            self.assertEqual(problems(content, body, name), [])
            answer = rack.call(name, body)
            if answer is not None:
                content = operation["responses"]["200"]["content"]["application/json"]["schema"]
                self.assertEqual(problems(content, answer, name), [])
            return answer
        rack = self.rack()
        check("heartbeat", {"healthy": True, "freeCapacity": 1, "runningLeases": [{"repo": "r", "leaseId": "l"}],
                            "agentVersion": "1.0.0", "bootId": "boot-1", "cacheBytes": 0})
        self.create()
        grant = check("lease", {"tiers": ["shell"], "bootId": "boot-1"})
        ref = {"repo": grant["repo"], "leaseId": grant["leaseId"]}
        check("lease/extend", {**ref, "attempt": grant["attempt"]})
        check("lease/watch", {"leases": [], "bootId": None})
        check("logs", {**ref, "chunks": [{"stream": "stderr", "data": "x"}]})
        check("storage", {**ref, "need": [], "output": None, "envManifest": None, "commits": [], "attempt": None,
                          "outputs": [{"hash": hashlib.sha256(b"x").hexdigest(), "size": 1}]})
        check("complete", {**ref, "resultJson": '{"taskName":"t","status":"failed"}', "outputUploadId": None,
                           "inlineOutput": None})


if __name__ == "__main__":
    unittest.main(verbosity=1)
