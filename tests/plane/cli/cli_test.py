#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Every command of lessor once, against a real lessord: exit status, JSON and the ways to fail."""
import json
import os
import re
import signal
import sqlite3
import subprocess
import sys
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from harness import LESSOR, SOURCE, Case  # noqa: E402

IDENTITY = {"identity": str, "encryption": str, "encryptionSig": str}
JOB = {"siteId": str, "jobId": str, "state": str, "cancelled": bool, "kind": str, "owner": str,
       "audience": str, "purpose?": str, "sizeClass": str, "streaming": bool, "enqueuedAt": int,
       "deadlineAt": int, "hasPayload": bool, "disposition?": str, "sealAttempts": int, "reofferTo?": str,
       "refusedBy": [str], "retryAfter": [{"runnerId": str, "until": int}],
       "claim?": {"runnerId": str, "owner": str, "keyId": str, "leaseId": str, "leaseExpiresAt": int,
                  "awaitingUntil?": int}}


def commands():
    help_text = subprocess.run([LESSOR, "--help"], capture_output=True, text=True, check=True).stdout
    found = []
    for line in help_text.split("\nOptions of every command")[0].splitlines():
        m = re.match(r"  ([a-z][a-z-]*(?: [a-z][a-z-]*)*)(?: (?:-- )?[A-Z\[].*?| bash\|zsh)?(?:  |$)", line)
        if m:
            found.append(m.group(1))
    return found


class HelpAndUsage(Case):
    def test_every_level_has_help_with_examples(self):
        names = commands()
        self.assertGreater(len(names), 35)
        for words in [[]] + [[n.split()[0]] for n in names] + [n.split() for n in names]:
            answer = self.lessor(*words, "--help")
            self.assertIn("Usage: lessor", answer.out)
            self.assertIn("Examples:", answer.out)
            self.assertEqual(answer.err, "")
        self.assertIn("Exit status:", self.lessor("--help").out)

    def test_a_wrong_command_line_is_usage(self):
        for words in (["nothing"], ["site"], ["site", "nothing"], ["site", "ls", "extra"], ["site", "rm"],
                      ["site", "ls", "--nothing"], ["job", "ls", "--state", "asleep"],
                      ["job", "ls", "--limit"], ["site", "add", "s"],
                      ["site", "add", "s", "--keys", "a", "--public", "b"], ["ask", "hi"],
                      ["ask", "hi", "--site", "s", "--site-keys", "k", "--owner", "a", "--deadline", "soon"],
                      ["device", "run"], ["device", "pair", "--dir", "d"],
                      ["device", "pair", "--dir", "d", "--backend", "magic"],
                      ["device", "pair", "--dir", "d", "--backend", "echo", "--slots", "0"],
                      ["completion", "fish"], ["consent", "add", "a", "s", "--kind", "chat"],
                      ["status", "--json=yes"], ["status", "--control", "http://127.0.0.1:1"]):
            answer = self.lessor(*words, code=2)
            self.assertEqual(answer.out, "")
        done = subprocess.run([LESSOR], capture_output=True, text=True, cwd=self.dir)
        self.assertEqual((done.returncode, done.stdout), (2, ""))
        self.assertIn("Usage:", done.stderr)

    def test_version(self):
        self.assertRegex(self.lessor("version").out, r"^lessor \d+\.\d+\.\d+\n$")
        self.shape(self.lessor("version", "--json").json, {"version": str})
        self.assertEqual(self.lessor("--version").out, self.lessor("version").out)

    def test_a_server_that_does_not_run_is_named(self):
        answer = self.lessor("status", code=3)
        self.assertEqual(answer.err, f"lessor: cannot reach the server at {self.data}/control.sock: "
                                     "is lessord running?\n")
        del self.env["LESSOR_DATA"]
        answer = self.lessor("site", "ls", code=3)
        self.assertIn("./lessor-data/control.sock", answer.err)
        answer = self.lessor("--data", "elsewhere", "site", "ls", code=3)
        self.assertIn("elsewhere/control.sock", answer.err)

    def test_a_relay_that_does_not_run_is_unreachable(self):
        self.env["LESSOR_RELAY"] = "http://127.0.0.1:9"
        answer = self.lessor("device", "pair", "--dir", self.path("d"), "--backend", "echo", code=3)
        self.assertIn("127.0.0.1:9", answer.err)
        self.keys("demo.json")
        answer = self.lessor("ask", "--site", "demo", "--site-keys", "demo.json", "--owner", "alice",
                             "--deadline", "1s", "hello", code=3)
        self.assertIn("127.0.0.1:9", answer.err.splitlines()[-1])


class Keys(Case):
    def test_new_keys_are_private_and_never_overwritten(self):
        answer = self.lessor("keys", "new", "a.json", "--json")
        self.shape(answer.json, {"file": str, "keyId": str, "public": IDENTITY, "createdAt": int})
        self.assertEqual(os.stat(self.path("a.json")).st_mode & 0o777, 0o600)
        before = self.read("a.json")
        self.assertIn("is there already", self.lessor("keys", "new", "a.json", code=4).err)
        self.assertEqual(self.read("a.json"), before)
        self.lessor("keys", "new", "missing/a.json", code=5)

    def test_no_output_holds_a_private_key(self):
        self.keys("a.json")
        stored = json.loads(self.read("a.json"))
        secrets = [v for k, v in self.texts(stored) if "private" in k.lower()]
        self.assertEqual(len(secrets), 2)
        for words in (["keys", "show", "a.json"], ["keys", "show", "a.json", "--json"]):
            answer = self.lessor(*words)
            for secret in secrets:
                self.assertNotIn(secret, answer.out + answer.err)

    def texts(self, value, key=""):
        if isinstance(value, dict):
            return [t for k, v in value.items() for t in self.texts(v, key + k)]
        return [(key, value)] if isinstance(value, str) else []

    def test_keys_that_others_may_read_are_refused(self):
        self.keys("a.json")
        os.chmod(self.path("a.json"), 0o644)
        self.assertIn("a.json", self.lessor("keys", "show", "a.json", code=4).err)

    def test_what_is_no_key_file(self):
        self.write("b.json", "{}")
        self.assertIn("b.json", self.lessor("keys", "show", "b.json", code=1).err)
        self.assertIn("none.json", self.lessor("keys", "show", "none.json", code=5).err)


class Tables(Case):
    """Sites, consents and rosters."""

    def setUp(self):
        super().setUp()
        self.serve()
        self.keys("demo.json")

    def test_sites(self):
        self.assertEqual(self.lessor("site", "ls", "--json").json, {"sites": []})
        empty = self.lessor("site", "ls")
        self.assertEqual(empty.out, "")
        self.assertIn("no sites yet", empty.err)
        added = self.lessor("site", "add", "demo", "--keys", "demo.json", "--json").json
        self.shape(added, {"ok": bool, "siteId": str, "keyId": str})
        self.assertIn("demo", self.lessor("site", "add", "demo", "--keys", "demo.json", code=4).err)
        self.lessor("site", "declare", "demo", "summaries", "translations")
        sites = self.lessor("site", "ls", "--json").json
        self.shape(sites, {"sites": [{"siteId": str, "keyId": str, "site": IDENTITY, "retiredKeys": int,
                                      "retiringUntil?": int, "purposes?": [str], "createdAt?": int}]})
        self.assertEqual(sites["sites"][0]["purposes"], ["summaries", "translations"])
        table = self.lessor("site", "ls").out.splitlines()
        self.assertEqual(table[0].split()[:3], ["SITE", "KEY", "PURPOSES"])
        self.assertEqual(table[1].index("BYOLLM-"), table[0].index("KEY"))
        self.lessor("site", "declare", "demo", "--clear")
        self.assertNotIn("purposes", self.lessor("site", "ls", "--json").json["sites"][0])
        self.lessor("site", "declare", "demo", code=2)
        self.lessor("site", "rm", "demo")
        self.assertIn("nowhere", self.lessor("site", "rm", "nowhere", code=5).err)
        self.lessor("site", "declare", "nowhere", "x", code=5)

    def test_a_site_by_its_public_identity(self):
        public = json.dumps(self.lessor("keys", "show", "demo.json", "--json").json["public"])
        self.lessor("site", "add", "demo", "--public", "-", stdin=public)
        mixed = json.loads(public)
        mixed["encryption"] = "A" * 43
        self.write("mixed.json", json.dumps(mixed))
        self.assertIn("do not belong together",
                      self.lessor("site", "add", "other", "--public", "mixed.json", code=1).err)
        self.lessor("site", "add", "other", "--public", "-", stdin="{", code=1)

    def test_rotation_sends_no_private_key_and_needs_the_old_one(self):
        self.lessor("site", "add", "demo", "--keys", "demo.json")
        self.keys("next.json")
        self.keys("foreign.json")
        rotated = self.lessor("site", "rotate", "demo", "--keys", "demo.json", "--new-keys", "next.json",
                              "--retire-after", "1d", "--json").json
        self.shape(rotated, {"ok": bool, "siteId": str, "keyId": str, "retiringUntil": int})
        site = self.lessor("site", "ls", "--json").json["sites"][0]
        self.assertEqual((site["keyId"], site["retiredKeys"]), (rotated["keyId"], 1))
        self.assertIn("did not sign", self.lessor("site", "rotate", "demo", "--keys", "demo.json",
                                                  "--new-keys", "foreign.json", code=4).err)
        self.lessor("site", "rotate", "demo", "--keys", "next.json", "--new-keys", "demo.json", code=4)
        self.lessor("site", "rotate", "nowhere", "--keys", "next.json", "--new-keys", "foreign.json", code=5)
        self.lessor("site", "rotate", "demo", "--keys", "next.json", "--new-keys", "foreign.json",
                    "--retire-after", "8d", code=2)
        os.chmod(self.path("next.json"), 0o640)
        self.lessor("site", "rotate", "demo", "--keys", "next.json", "--new-keys", "foreign.json", code=4)

    def test_consents_and_mappings(self):
        self.lessor("site", "add", "demo", "--keys", "demo.json")
        self.assertIn("site add", self.lessor("consent", "add", "alice", "nowhere", code=5).err)
        self.lessor("consent", "add", "alice", "demo", "--service", "llama", "--kind", "chat")
        self.lessor("consent", "add", "alice", "demo", code=4)
        self.lessor("consent", "add", "bob", "demo")
        self.lessor("consent", "mapping", "add", "bob", "demo", "--service", "gpt", "--purpose", "summaries",
                    "--service-owner", "alice")
        self.lessor("consent", "mapping", "add", "bob", "demo", "--service", "gpt", "--purpose", "summaries",
                    "--service-owner", "alice", code=4)
        consents = self.lessor("consent", "ls", "--json").json
        self.shape(consents, {"consents": [{
            "owner": str, "siteId": str, "paused": bool, "revoked": bool, "createdAt?": int,
            "mappings": [{"purpose": str, "kind": str, "service": str, "serviceOwner?": str}]}]})
        self.assertEqual(consents["consents"][0]["mappings"],
                         [{"purpose": "default", "kind": "llm.chat", "service": "llama"}])
        self.assertEqual([m["kind"] for m in consents["consents"][1]["mappings"]],
                         ["llm.generate", "llm.chat"])
        self.assertIn("summaries/chat -> gpt of alice", self.lessor("consent", "ls", "--owner", "bob").out)
        self.lessor("consent", "mapping", "rm", "bob", "demo", "--service", "gpt", "--purpose", "summaries",
                    "--service-owner", "alice")
        self.lessor("consent", "mapping", "rm", "bob", "demo", "--service", "gpt", code=5)
        self.lessor("consent", "mapping", "add", "eve", "demo", "--service", "gpt", code=5)
        for verb, member in (("pause", "paused"), ("resume", None), ("revoke", "revoked")):
            self.lessor("consent", verb, "alice", "demo")
            state = self.lessor("consent", "ls", "--owner", "alice", "--json").json["consents"][0]
            self.assertEqual([k for k in ("paused", "revoked") if state[k]], [member] if member else [])
        self.lessor("consent", "pause", "eve", "demo", code=5)
        self.lessor("consent", "rm", "bob", "demo")
        self.lessor("consent", "rm", "bob", "demo", code=5)

    def test_a_revoked_consent_is_given_anew_and_nothing_else(self):
        self.lessor("site", "add", "demo", "--keys", "demo.json")
        self.lessor("consent", "add", "alice", "demo", "--service", "llama")
        self.lessor("consent", "revoke", "alice", "demo")
        for verb in ("pause", "resume"):
            self.assertIn("consent add", self.lessor("consent", verb, "alice", "demo", code=4).err)
        self.assertTrue(self.lessor("consent", "ls", "--json").json["consents"][0]["revoked"])
        for service in ("llama", "other"):
            self.lessor("consent", "add", "alice", "demo", "--service", service)
            consent = self.lessor("consent", "ls", "--json").json["consents"][0]
            self.assertFalse(consent["revoked"])
            self.assertEqual([m["service"] for m in consent["mappings"]], [service, service])
            self.lessor("consent", "revoke", "alice", "demo")

    def test_mappings_of_both_kinds_when_one_is_there(self):
        self.lessor("site", "add", "demo", "--keys", "demo.json")
        self.lessor("consent", "add", "alice", "demo", "--service", "llama", "--kind", "generate")

        def kinds():
            mappings = self.lessor("consent", "ls", "--json").json["consents"][0]["mappings"]
            return [m["kind"] for m in mappings]
        self.lessor("consent", "mapping", "add", "alice", "demo", "--service", "llama")
        self.assertEqual(kinds(), ["llm.generate", "llm.chat"])
        self.lessor("consent", "mapping", "add", "alice", "demo", "--service", "llama", code=4)
        self.lessor("consent", "mapping", "rm", "alice", "demo", "--service", "llama", "--kind", "chat")
        self.lessor("consent", "mapping", "rm", "alice", "demo", "--service", "llama")
        self.assertEqual(kinds(), [])
        self.lessor("consent", "mapping", "rm", "alice", "demo", "--service", "llama", code=5)

    def test_rosters(self):
        self.lessor("roster", "add", "lab", "--owner", "alice", "bob", "carol")
        self.lessor("roster", "add", "lab", "--owner", "alice", code=4)
        self.lessor("roster", "add", "other", code=2)
        self.lessor("roster", "member", "add", "lab", "dave")
        self.lessor("roster", "member", "add", "lab", "dave", code=4)
        self.lessor("roster", "member", "rm", "lab", "bob")
        self.lessor("roster", "member", "rm", "lab", "bob", code=5)
        self.lessor("roster", "member", "add", "nowhere", "bob", code=5)
        rosters = self.lessor("roster", "ls", "--json").json
        self.shape(rosters, {"rosters": [{"rosterId": str, "owner": str, "members": [str],
                                          "createdAt?": int}]})
        self.assertEqual(rosters["rosters"][0]["members"], ["carol", "dave"])
        self.assertIn("carol, dave", self.lessor("roster", "ls").out)
        self.lessor("roster", "rm", "lab")
        self.lessor("roster", "rm", "lab", code=5)

    def test_ids_may_hold_anything_that_is_text(self):
        odd = "caf\u00e9 / ..&?%2f#\u2603 "
        self.lessor("site", "add", odd, "--keys", "demo.json")
        self.lessor("consent", "add", odd, odd)
        self.assertEqual(self.lessor("consent", "ls", "--owner", odd, "--json").json["consents"][0]["siteId"],
                         odd)
        table = self.lessor("site", "ls").out
        self.assertIn("caf\u00e9", table)
        lines = table.splitlines()
        self.assertEqual(lines[1].index("BYOLLM-"), lines[0].index("KEY"))
        self.lessor("site", "rm", odd)
        self.lessor("site", "add", "red \x1b[31m", "--keys", "demo.json", code=1)
        self.assertIn("256 bytes", self.lessor("site", "add", "x" * 257, "--keys", "demo.json", code=1).err)


class WorkFlow(Case):
    """A device is paired and answers."""

    def setUp(self):
        super().setUp()
        self.serve()
        self.keys("demo.json")
        self.lessor("site", "add", "demo", "--keys", "demo.json")
        self.lessor("consent", "add", "alice", "demo", "--service", "echo")

    def ask(self, *words, **more):
        return self.lessor("ask", "--site", "demo", "--site-keys", self.path("demo.json"), *words, **more)

    def test_the_whole_way(self):
        runner = self.pair("alice")
        devices = self.lessor("device", "ls", "--json").json
        self.shape(devices, {"devices": [{
            "runnerId": str, "owner": str, "keyId": str, "label": str, "platform": str, "revoked": bool,
            "createdAt?": int, "lastSeenAt?": int, "capabilities?": [dict]}]})
        self.assertEqual([d["runnerId"] for d in devices["devices"]], [runner])
        device = self.run_device()
        answer = self.ask("--owner", "alice", "what is a lease?")
        self.assertEqual(answer.out, "what is a lease?\n")
        steps = [line.split("s  ", 1)[1].split()[0] for line in answer.err.splitlines()]
        self.assertEqual([s for s in steps if s != "running"], ["queued", "claimed", "sealed", "done"])
        self.assertIn(runner, answer.err)
        answer = self.ask("--owner", "alice", "--json", "--quiet", "--kind", "generate", "-", stdin="two\nlines")
        self.assertEqual(answer.err, "")
        self.shape(answer.json, {"jobId": str, "disposition": str, "text": str, "artifactUrl?": str,
                                 "provenance": {"runnerId": str, "owner": str, "keyId": str, "leaseId": str,
                                                "model": str, "backendClass": str, "durationMs": int,
                                                "stop?": str}})
        self.assertEqual((answer.json["text"], answer.json["provenance"]["runnerId"]), ("two\nlines", runner))
        self.assertIn("echo (", self.lessor("device", "ls", "--owner", "alice").out)
        self.assertEqual(self.lessor("device", "ls", "--owner", "bob", "--json").json, {"devices": []})
        self.assertEqual(device.stop(), 0)

    def test_approving(self):
        self.assertEqual(self.lessor("device", "ls", "--pending", "--json").json, {"pairings": []})
        pairing = self.start(LESSOR, "device", "pair", "--dir", self.path("d"), "--backend", "echo",
                             "--label", "lab\u00f8r \x1b[31m", name="pair")
        code = pairing.line().split()[-1]
        pending = self.lessor("device", "ls", "--pending", "--json").json
        self.shape(pending, {"pairings": [{"userCode": str, "keyId": str, "label": str, "platform": str,
                                           "version": str, "capabilities": [dict], "startedAt": int,
                                           "expiresAt": int}]})
        self.assertEqual(pending["pairings"][0]["userCode"], code)
        self.assertIn("lab\u00f8r ?[31m", self.lessor("device", "ls", "--pending").out)
        self.lessor("device", "approve", code, code=2)
        self.lessor("device", "approve", "9999-9999", "--owner", "alice", code=5)
        self.lessor("device", "approve", "!", "--owner", "alice", code=1)
        self.assertIn("do not approve", self.lessor("device", "approve", code, "--owner", "alice", "--key",
                                                    "BYOLLM-0000-0000-0000-0000-0000-0000", code=4).err)
        approved = self.lessor("device", "approve", code.lower(), "--owner", "alice", "--json").json
        self.shape(approved, {"ok": bool, "device": {"runnerId": str, "owner": str, "keyId": str,
                                                     "label": str, "platform": str, "revoked": bool,
                                                     "createdAt": int}})
        self.assertEqual(pairing.wait(), 0)
        self.lessor("device", "approve", code, "--owner", "alice", code=5)
        runner = approved["device"]["runnerId"]
        self.lessor("device", "revoke", runner)
        self.lessor("device", "revoke", "nobody", code=5)
        self.assertTrue(self.lessor("device", "ls", "--json").json["devices"][0]["revoked"])
        stopped = self.start(LESSOR, "device", "run", "--dir", self.path("d"), "--backend", "echo",
                             name="revoked")
        self.assertEqual(stopped.wait(), 4)
        self.assertIn("revoked", self.read(stopped.log_path))
        self.lessor("device", "rm", runner)
        self.lessor("device", "rm", runner, code=5)

    def test_at_a_terminal_a_person_is_asked_and_shown(self):
        pairing = self.start(LESSOR, "device", "pair", "--dir", self.path("device"), "--backend", "echo",
                             "--json", name="pair")
        code = json.loads(pairing.line())
        approve = ["device", "approve", code["userCode"], "--owner", "alice"]
        for typed in ("n\n", "\n", "\x04"):
            out, shown = self.at_terminal(*approve, typed=typed, code=4)
            self.assertEqual(out, "")
            self.assertIn(code["keyId"], shown)
            self.assertIn("not approved", shown)
        out, shown = self.at_terminal(*approve, typed="y\n")
        self.assertIn("approved", out)
        pairing.line()
        self.assertEqual(pairing.wait(), 0)
        self.run_device()
        asking = ["ask", "--site", "demo", "--site-keys", "demo.json", "--owner", "alice", "hello"]
        out, shown = self.at_terminal(*asking)
        self.assertEqual(out, "hello\n")
        self.assertIn("\r\x1b[K\x1b[2m", shown)
        out, shown = self.at_terminal(*asking, colour=False)
        self.assertIn("\r\x1b[K ", shown)
        self.assertNotIn("\x1b[2m", shown)

    def test_a_device_that_is_not_paired(self):
        self.assertIn("device pair", self.lessor("device", "run", "--dir", self.path("none"), "--backend",
                                                 "echo", code=5).err)

    def test_pairing_that_is_stopped(self):
        pairing = self.start(LESSOR, "device", "pair", "--dir", self.path("d"), "--backend", "echo",
                             name="pair")
        pairing.line()
        self.assertEqual(pairing.stop(signal.SIGINT), 130)

    def test_an_answer_that_is_an_error(self):
        failing = self.write("fail", "#!/bin/sh\nexit 3\n", 0o700)
        self.pair("alice", "exec:" + failing, options=["--service", "echo"])
        self.run_device("exec:" + failing, options=["--service", "echo"])
        self.assertIn("the device answered with an error",
                      self.ask("--owner", "alice", "--quiet", "x", code=7).err)
        answer = self.ask("--owner", "alice", "--json", "--quiet", "x", code=7)
        self.shape(answer.json, {"jobId": str, "disposition": str,
                                 "error": {"code": str, "message": str, "retryable": bool},
                                 "provenance": dict})

    def test_a_device_that_was_not_asked_for_gets_nothing(self):
        self.pair("alice")
        device = self.lessor("device", "ls", "--json").json["devices"][0]["keyId"]
        other = self.lessor("keys", "new", "other.json", "--json").json["keyId"]
        self.run_device()
        answer = self.ask("--owner", "alice", "--device-key", other, "--deadline", "3s", "x", code=6)
        self.assertIn("was not asked for", answer.err)
        self.assertNotIn("sealed", answer.err)
        answer = self.ask("--owner", "alice", "--device-key", other, "--device-key", device, "y")
        self.assertEqual(answer.out, "y\n")
        self.ask("--owner", "alice", "--device-key", "mine", "x", code=2)

    def test_a_deadline_passes(self):
        self.assertIn("deadline", self.ask("--owner", "alice", "--deadline", "1s", "x", code=6).err)

    def test_a_slow_job_is_seen_running_and_ctrl_c_withdraws_it(self):
        slow = self.write("slow", "#!/bin/sh\nexec sleep 600\n", 0o700)
        self.pair("alice", "exec:" + slow, options=["--service", "echo"])
        self.run_device("exec:" + slow, options=["--service", "echo"])
        asking = self.start(LESSOR, "ask", "--site", "demo", "--site-keys", self.path("demo.json"),
                            "--owner", "alice", "x", name="ask")
        self.until(lambda: "running" in self.read(asking.log_path), "running")
        job = self.lessor("job", "ls", "--state", "running", "--json").json["jobs"][0]
        self.shape(job, JOB)
        self.assertEqual(asking.stop(signal.SIGINT), 130)
        self.assertIn(f"job {job['jobId']} is withdrawn", self.read(asking.log_path))

        def ended():
            jobs = self.lessor("job", "ls", "--json").json["jobs"]
            return not jobs or jobs[0]["cancelled"]
        self.until(ended, "the withdrawal")

    def test_what_a_site_may_not_do(self):
        self.keys("foreign.json")
        answer = self.lessor("ask", "--site", "demo", "--site-keys", "foreign.json", "--owner", "alice",
                             "--quiet", "x", code=4)
        self.assertIn("signature", answer.err)
        self.assertIn("not registered", self.lessor("ask", "--site", "nowhere", "--site-keys", "demo.json",
                                                    "--owner", "alice", "--quiet", "x", code=4).err)
        os.chmod(self.path("foreign.json"), 0o644)
        self.lessor("ask", "--site", "demo", "--site-keys", "foreign.json", "--owner", "alice", "x", code=4)
        self.lessor("ask", "--site", "demo", "--site-keys", "none.json", "--owner", "alice", "x", code=5)
        self.ask("--owner", "alice", "", code=1)

    def test_jobs(self):
        self.assertEqual(self.lessor("job", "ls", "--json").json, {"jobs": [], "more": False})
        asking = [self.start(LESSOR, "ask", "--site", "demo", "--site-keys", self.path("demo.json"),
                             "--owner", owner, "x", name="ask-" + owner) for owner in ("alice", "bob", "bob")]
        jobs = self.until(lambda: [j for j in [self.lessor("job", "ls", "--json").json["jobs"]]
                                   if len(j) == 3], "three jobs")[0]
        self.shape(jobs, [JOB])
        limited = self.lessor("job", "ls", "--limit", "2", "--json").json
        self.assertEqual((limited["jobs"], limited["more"]), (jobs[:2], True))
        of_bob = self.lessor("job", "ls", "--owner", "bob", "--state", "queued", "--site", "demo", "--json").json
        self.assertEqual((len(of_bob["jobs"]), of_bob["more"]), (2, False))
        self.assertTrue(self.lessor("job", "ls", "--owner", "bob", "--limit", "1", "--json").json["more"])
        self.assertEqual(self.lessor("job", "ls", "--site", "nowhere", "--json").json["jobs"], [])
        self.lessor("job", "ls", "--limit", "0", code=2)
        one = jobs[0]["jobId"]
        self.shape(self.lessor("job", "show", "demo", one, "--json").json, {"job": JOB})
        self.assertIn("queued", self.lessor("job", "show", "demo", one).out)
        self.assertIn("queued", self.lessor("job", "ls").out)
        self.lessor("job", "show", "demo", "nothing", code=5)
        self.lessor("job", "cancel", "demo", one)
        self.lessor("job", "cancel", "demo", "nothing", code=5)
        for a in asking:
            a.stop(signal.SIGINT)


class Server(Case):
    """The server as a whole."""

    def test_status_and_metrics(self):
        self.serve()
        status = self.lessor("status", "--json").json
        self.shape(status, {
            "version": str, "startedAt": int, "uptimeMs": int, "now": int, "logLevel": str,
            "store": {"kind": str, "data": str, "writable": bool, "problem?": str, "jobs": dict,
                      "devicesSeen": int, "setAside": int},
            "projection": {"source": str, "file?": str, "sites": int, "consents": int, "devices": int,
                           "rosters": int, "revoked": int},
            "policy": {"source": str, "file?": str},
            "rackPlane": {"kind": str, "writable": bool, "problem?": str, "leases": dict, "lapsed": int, "racks": dict,
                          "waiting": int, "capabilities": int, "environments": int, "setAside": int},
            "http": {"listeners": [str], "connections": int, "requests": int, "parked": int, "accepted": int,
                     "refused": int},
            "process": {"pid": int, "rssBytes": int, "openFiles": int, "cpuMs": int}})
        self.assertEqual(status["http"]["listeners"], [self.relay])
        self.assertIn(self.relay, self.lessor("status").out)
        metrics = self.lessor("metrics").out
        seen = set()
        for line in metrics.splitlines():
            if line.startswith("# TYPE "):
                seen.add(line.split()[2])
            elif not line.startswith("#"):
                m = re.match(r'^([a-z_]+)(\{[a-z]+="[^"]*"(,[a-z]+="[^"]*")*\})? -?[0-9.]+$', line)
                self.assertTrue(m, line)
                self.assertIn(re.sub("_(sum|count)$", "", m.group(1)) if m.group(1) not in seen
                              else m.group(1), seen, line)
        self.assertRegex(metrics, r'http_requests_total\{listener="control",route="status",status="2xx"\} 2')
        self.assertTrue(metrics.endswith("\n"))

    def test_the_log_level(self):
        self.serve()
        self.assertEqual(self.lessor("log-level").out, "info\n")
        self.assertEqual(self.lessor("log-level", "debug", "--json").json, {"level": "debug"})
        self.assertEqual(self.lessor("log-level").out, "debug\n")
        self.lessor("log-level", "loud", code=2)

    def test_a_backup_is_whole_and_replaces_nothing(self):
        self.serve()
        self.keys("demo.json")
        self.lessor("site", "add", "demo", "--keys", "demo.json")
        self.shape(self.lessor("backup", "copy.db", "--json").json, {"ok": bool, "path": str})
        with sqlite3.connect(self.path("copy.db")) as db:
            self.assertEqual(db.execute("PRAGMA integrity_check").fetchone(), ("ok",))
            names = [r[0] for r in db.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
            self.assertTrue([n for n in names if n.startswith("directory_")], names)
        db.close()
        self.assertIn("is there already", self.lessor("backup", "copy.db", code=4).err)
        self.lessor("backup", "missing/copy.db", code=1)

    def test_memory_has_nothing_to_back_up(self):
        self.serve("--store", "memory")
        self.assertIn("in memory", self.lessor("backup", "copy.db", code=4).err)
        self.assertFalse(os.path.exists(self.path("copy.db")))

    def test_a_projection_from_a_file(self):
        empty = json.dumps({"sites": [], "consents": [], "devices": [], "rosters": [], "revoked": []})
        self.write("p.json", empty)
        self.serve("--projection", self.path("p.json"))
        self.keys("demo.json")
        public = self.lessor("keys", "show", "demo.json", "--json").json["public"]
        whole = {"sites": [{"siteId": "demo", "site": public}],
                 "consents": [{"owner": "alice", "siteId": "demo"}],
                 "devices": [{"owner": "alice", "runnerId": "r1", "device": public}],
                 "rosters": [{"id": "lab", "owner": "alice", "members": ["bob"]}]}
        self.lessor("projection", "put", "-", stdin=json.dumps(whole))
        self.assertEqual(json.loads(self.read("p.json")), whole)
        shown = self.lessor("projection", "show").json
        self.assertEqual(shown["sites"][0]["siteId"], "demo")
        self.assertEqual(self.lessor("site", "ls", "--json").json["sites"][0]["siteId"], "demo")
        self.assertEqual(self.lessor("consent", "ls", "--json").json["consents"][0]["owner"], "alice")
        self.assertEqual(self.lessor("device", "ls", "--json").json["devices"][0]["runnerId"], "r1")
        self.assertEqual(self.lessor("roster", "ls", "--json").json["rosters"][0]["members"], ["bob"])
        broken = json.dumps({"consents": [{"owner": "", "siteId": "demo"}]})
        self.assertIn("consents[0].owner", self.lessor("projection", "put", "-", stdin=broken, code=1).err)
        self.assertEqual(json.loads(self.read("p.json")), whole)
        refused = self.lessor("device", "revoke", "r1", code=4)
        self.assertIn("p.json", refused.err)
        self.assertEqual(self.lessor("status", "--json").json["projection"]["file"], self.path("p.json"))

    def test_the_built_in_tables_are_not_put(self):
        self.serve()
        self.assertIn("built-in tables", self.lessor("projection", "put", "-", stdin="{}", code=4).err)

    def test_edits_need_something_to_edit(self):
        self.write("p.json", '{"consents":[]}')
        self.write("q.json", "{}")
        self.serve("--projection", self.path("p.json"), "--policy", self.path("q.json"))
        self.keys("demo.json")
        for words in (["site", "add", "demo", "--keys", "demo.json"], ["consent", "add", "a", "demo"],
                      ["consent", "mapping", "add", "a", "demo", "--service", "s"],
                      ["roster", "add", "r", "--owner", "a"]):
            self.assertRegex(self.lessor(*words, code=4).err, r"[pq]\.json")

    def test_over_tcp_a_token_is_needed(self):
        token = self.write("token", "correct-horse-battery-staple\n")
        self.write("wrong", "correct-horse-battery-stapl\n")
        self.write("open", "correct-horse-battery-staple\n", 0o644)
        port = self.free_port()
        self.serve("--control-listen", f"127.0.0.1:{port}", "--control-token", token)
        del self.env["LESSOR_DATA"]
        url = f"http://127.0.0.1:{port}"
        self.shape(self.lessor("status", "--json", "--control", url, "--token", token).json["store"],
                   {"kind": str, "data": str, "writable": bool, "jobs": dict, "devicesSeen": int,
                    "setAside": int})
        self.assertIn("Bearer", self.lessor("status", "--control", url, "--token", "wrong", code=4).err)
        self.lessor("status", "--control", url, "--token", "open", code=4)
        self.lessor("status", "--control", url, "--token", "none", code=5)
        self.assertIn(url, self.lessor("status", "--control", "http://127.0.0.1:9", "--token", token,
                                       code=3).err.replace(":9", f":{port}"))

    def test_over_tls_a_certificate_of_ones_own_is_trusted(self):
        token = self.write("token", "correct-horse-battery-staple\n")
        self.certificate("cert.pem", "key.pem")
        port = self.free_port()
        self.serve("--control-listen", f"127.0.0.1:{port}", "--control-token", token,
                   "--tls-cert", self.path("cert.pem"), "--tls-key", self.path("key.pem"))
        there = ["status", "--control", f"https://127.0.0.1:{port}", "--token", token]
        self.lessor(*there, code=3)
        self.lessor(*there, "--ca", self.path("cert.pem"))

    def test_what_a_start_would_refuse_the_check_refuses(self):
        for name in ("a", "b"):
            self.certificate(f"{name}.pem", f"{name}.key")
        self.write("short", "too-short\n")
        self.write("open", "correct-horse-battery-staple\n", 0o644)
        self.write("token", "correct-horse-battery-staple\n")
        tls = ["--tls-cert", "a.pem", "--tls-key"]
        control = ["--control-listen", "127.0.0.1:0", "--control-token"]
        self.check(0, *tls, "a.key", *control, "token")
        for code, words, said in ((2, [*tls, "b.key"], "together"), (1, [*tls, "none"], "none"),
                                  (2, [*control, "short"], "16 characters"),
                                  (2, [*control, "open"], "chmod 600"), (2, ["--listen", "127.0.0.1"], "PORT"),
                                  (2, ["--listen", "localhost:80"], "localhost:80"),
                                  (2, ["--listen", "127.0.0.1:65536"], "65536")):
            self.assertIn(said, self.check(code, *words))

    def test_a_bad_line_of_the_file_is_named_by_its_number(self):
        for number, text, said in ((3, "# a note\n\nleese-ms = 1\n", "leese-ms"),
                                   (2, "store = memory\nlease-ms = soon\n", "lease-ms"),
                                   (1, "no equals sign here\n", "no equals")):
            self.write("conf", text)
            message = self.check(2, "--config", "conf")
            self.assertIn(f"conf:{number}: ", message)
            self.assertIn(said, message)

    def check(self, code, *words):
        done = subprocess.run([os.environ["LESSORD"], "--check-config", *words], capture_output=True, text=True,
                              cwd=self.dir)
        self.assertEqual(done.returncode, code, done.stderr)
        self.assertFalse(os.path.exists(self.path("lessor-data")))
        return done.stderr

    def certificate(self, cert, key):
        subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256",
                        "-nodes", "-days", "2", "-subj", "/CN=localhost", "-addext",
                        "subjectAltName=IP:127.0.0.1", "-keyout", self.path(key), "-out", self.path(cert)],
                       check=True, capture_output=True)
        os.chmod(self.path(key), 0o600)

    def free_port(self):
        import socket
        with socket.socket() as s:
            s.bind(("127.0.0.1", 0))
            return s.getsockname()[1]


class Api(Case):
    """The control API below the command line."""

    V1 = "/api/control/v1"

    def setUp(self):
        super().setUp()
        self.serve()

    def refused(self, status, code, method, path, body=None):
        got, text = self.request(method, self.V1 + path, body)
        self.assertEqual(got, status, text)
        self.shape(json.loads(text), {"error": str, "message": str})
        self.assertEqual(json.loads(text)["error"], code)
        return json.loads(text)["message"]

    def test_the_index_lists_every_endpoint(self):
        status, text = self.request("GET", self.V1)
        self.assertEqual(status, 200)
        self.shape(json.loads(text), {"endpoints": [{"method": str, "path": str, "summary": str}]})
        for endpoint in json.loads(text)["endpoints"]:
            if endpoint["path"].endswith("/events"):
                continue  # goes on until somebody hangs up
            status, answer = self.request(endpoint["method"], endpoint["path"], b"")
            self.assertNotEqual(status, 404 if endpoint["method"] == "POST" else 405, endpoint)
            json.loads(answer) if not endpoint["path"].endswith("/metrics") else None

    def test_bad_bodies(self):
        for body, part in ((b"", "DeviceName"), (b"{", "DeviceName"), (b"[]", "DeviceName"),
                           (b'{"runnerId":"a","runnerId":"b"}', "twice"),
                           (b'{"runnerId":"a","more":1}', "more"), (b'{"runnerId":1}', "runnerId"),
                           (b'{"runnerId":""}', "runnerId"), (b'{"runnerId":"\xff"}', "DeviceName"),
                           (b"[" * 200, "DeviceName"), (b"{}", "runnerId")):
            status, text = self.request("POST", self.V1 + "/devices/revoke", body)
            self.assertEqual(status, 400, (body, text))
            self.assertIn(part, json.loads(text)["message"])
        self.refused(404, "not-found", "POST", "/devices/revoke", b'{"runnerId":"a\\u0000b"}')

    def test_too_large_a_body(self):
        status, _ = self.request("POST", self.V1 + "/devices/revoke", b" " * (1048576 + 1))
        self.assertEqual(status, 413)

    def test_wrong_places(self):
        self.refused(404, "not-found", "GET", "/nothing")
        self.refused(404, "not-found", "POST", "/sites")
        self.refused(404, "not-found", "GET", "/sites/add")
        self.refused(400, "invalid", "GET", "/jobs/show")
        self.refused(400, "invalid", "GET", "/jobs?limit=many")
        self.refused(400, "invalid", "GET", "/jobs?state=asleep")
        self.refused(400, "invalid", "POST", "/backup", b'{"path":"relative.db"}')

    def test_the_relay_does_not_serve_it(self):
        from urllib.error import HTTPError
        from urllib.request import urlopen
        with self.assertRaises(HTTPError) as caught:
            urlopen(self.relay + self.V1 + "/status")
        self.assertEqual(caught.exception.code, 404)
        caught.exception.close()


class Completions(Case):
    def complete(self, *words):
        script = self.lessor("completion", "bash").out
        self.write("c.bash", script)
        quoted = " ".join("'" + w + "'" for w in words)
        done = subprocess.run(
            ["bash", "--norc", "-c", f"source c.bash; COMP_WORDS=({quoted}); COMP_CWORD=$((${{#COMP_WORDS[@]}}-1)); "
             "_lessor; printf '%s\\n' \"${COMPREPLY[@]}\""],
            cwd=self.dir, capture_output=True, text=True)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        return done.stdout.split()

    def test_bash(self):
        self.assertIn("site", self.complete("lessor", ""))
        self.assertEqual(self.complete("lessor", "si"), ["site"])
        self.assertEqual(sorted(self.complete("lessor", "site", "")),
                         ["add", "declare", "ls", "rm", "rotate"])
        self.assertEqual(self.complete("lessor", "consent", "mapping", "a"), ["add"])
        self.assertEqual(self.complete("lessor", "--data", "x", "job", "s"), ["show"])
        self.assertEqual(self.complete("lessor", "job", "ls", "--st"), ["--state"])
        self.assertEqual(self.complete("lessor", "job", "ls", "--state", "ru"), ["running"])
        self.assertEqual(self.complete("lessor", "completion", ""), ["bash", "zsh"])
        self.write("key.json", "")
        self.assertEqual(self.complete("lessor", "keys", "show", "key"), ["key.json"])
        self.assertEqual(self.complete("lessor", "site", "add", "x", "--keys", "key"), ["key.json"])

    def test_zsh_names_every_command_and_option(self):
        script = self.lessor("completion", "zsh").out
        for name in commands():
            self.assertIn(f"    '{name}')\n", script)
        if subprocess.run(["sh", "-c", "command -v zsh"], capture_output=True).returncode == 0:
            self.write("_lessor", script)
            subprocess.run(["zsh", "-n", self.path("_lessor")], check=True)


class Manuals(Case):
    def manual(self, name):
        text = self.read(os.path.join(SOURCE, "docs", "man", name))
        return text.replace("\\-", "-").replace("\\(ti", "~")

    def test_lessor_1_has_every_command_option_and_exit_status(self):
        manual = self.manual("lessor.1")
        for name in commands():
            self.assertRegex(manual, rf"\.It (Xo\n\.)?Cm {re.escape(name)}\b", name)
            for option in re.findall(r"^  --([a-z-]+)", self.lessor(*name.split(), "--help").out, re.M):
                self.assertRegex(manual, rf"Fl -{option}\b", f"{name} --{option}")
        for number, _ in re.findall(r"^ +(\d+)  (.*)$", self.lessor("--help").out.split("Exit status:")[1]
                                    .split("Examples")[0], re.M):
            self.assertRegex(manual, rf"\.It {number}\b")

    def test_lessord_8_has_every_option(self):
        manual = self.manual("lessord.8")
        help_text = subprocess.run([os.environ["LESSORD"], "--help"], capture_output=True, text=True).stdout
        options = re.findall(r"^  --([a-z-]+)", help_text, re.M)
        self.assertGreater(len(options), 20)
        for option in options:
            self.assertRegex(manual, rf"\.It (Fl -|Op-)*-?{option}\b|\.It Fl -{option}\b", option)

    def test_mandoc_has_nothing_to_say(self):
        for name in ("lessor.1", "lessord.8"):
            done = subprocess.run(["mandoc", "-T", "lint", "-W", "style",
                                   os.path.join(SOURCE, "docs", "man", name)], capture_output=True, text=True)
            complaints = [line for line in done.stdout.splitlines() 
                          if "referenced manual not found" not in line and "mandoc.db" not in line]
            self.assertEqual(complaints, [])


if __name__ == "__main__":
    unittest.main(verbosity=1)
