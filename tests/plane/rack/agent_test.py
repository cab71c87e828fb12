# SPDX-License-Identifier: MIT
"""The rack agent against the real server: what runs, how it ends, and that whatever breaks in between does no harm."""
import json
import os
import re
import signal
import socket
import subprocess
import time
import unittest

from agents import LESSOR, AgentCase, Gate, compact, processes, sha, until
from harness import HOUR, MINUTE, PATIENCE, digest, function_event, task_event

LOST = 2 * MINUTE + 1000


class Tasks(AgentCase):
    """One task from its lease to its result."""

    def test_a_task_runs_and_everything_of_it_comes_back(self):
        """rack-protocol 14: staged, run, logged, packed, committed, completed."""
        agent = self.agent()
        lease = self.script("cat data.csv; cat dir/run >&2; mkdir out; cp data.csv out/a; echo b >'out/odd \n-name'; "
                            "ln -s a out/link; chmod 755 out/a",
                            inputs=[self.file("data.csv", b"1,2\n"), self.file("dir/run", b"x" * 5000, "755")],
                            outputs=["out", "none?"])
        seen = self.ended(lease)
        result = seen["lease"]["result"]
        self.assertEqual((result["status"], result["state"], result["exitCode"]), ("success", "success", 0))
        self.assertEqual(seen["lease"]["verdict"]["state"], "success")
        self.assertGreater(result["peakBytes"], 100000)
        self.assertEqual(self.tree(result["outputHash"]),
                         {"out/a": b"1,2\n", "out/odd \n-name": b"b\n", "out/link": ("link", "a")})
        self.assertEqual(self.log(lease), b"1,2\n")
        self.assertEqual(self.log(lease, "stderr"), b"x" * 5000)
        done = agent.wait("done")
        self.assertEqual((done["state"], done["recorded"]), ("success", "recorded"))
        self.assertEqual(agent.stop(), 0)
        self.assertEqual(os.listdir(os.path.join(agent.dir, "outbox")), [])
        self.assertEqual(sorted(os.listdir(os.path.join(agent.dir, "work"))), ["group", "passwd"])

    def test_every_end_has_its_result(self):
        """The table of docs/rack.md."""
        self.agent("--slots", "4")
        cases = [
            (self.script("exit 3"), "failed", 3, "status 3"),
            (self.script("kill -9 $$"), "failed", -1, "signal 9"),
            (self.submit(self.task("no-such-command")), "failed", 127, "No such file"),
            (self.script("sleep 60", limits={"timeMs": 300}), "failed", -1, "timed out after 300 ms"),
            (self.script("head -c 3000000 /dev/zero >f; sleep 60", limits={"diskBytes": 100000}), "failed", None, "disk"),
            (self.script("true", outputs=["model"]), "failed", None, "model"),
            (self.script("mkdir out; cd out; python3 -c 'import socket as s; s.socket(s.AF_UNIX).bind(\"x\")'",
                         outputs=["out"]), "failed", None, "outputs cannot be taken"),
            (self.script("ln -s /etc/passwd out", outputs=["out"]), "failed", None, "out"),
            (self.script("true", network=True), "error", None, "network"),
            (self.submit(self.task("true", directory="no/where")), "failed", 127, "directory"),
        ]
        for lease, state, code, text in cases:
            with self.subTest(text=text):
                result = self.result(lease)
                self.assertEqual((result["status"], result["state"]), ("failed", state), result)
                if code is not None or state == "error":
                    self.assertEqual(result.get("exitCode"), code, result)
                self.assertIn(text, result["error"])
                self.assertNotIn("outputHash", result)

    def test_what_is_not_ours_ends_as_an_error_that_says_so(self):
        """A task or function of e3's."""
        self.agent()
        foreign = self.put(b"\x89Est anything")
        for event in (task_event(self.repo, foreign), function_event(self.repo)):
            lease = self.server.control("/leases/create", {"repo": self.repo, "tier": "shell", "event": event})["lease"]
            result = self.result(lease)
            self.assertEqual(result["state"], "error")
            self.assertIn("lessor.task/1 tasks only", result["error"])

    def test_an_input_outside_of_the_closure_ends_as_an_error(self):
        """R096: refused, though the lease is held."""
        self.agent()
        task = self.task("cat", "in", inputs=[self.file("in", b"x" * 5000)])
        lease = self.server.control("/leases/create", {"repo": self.repo, "tier": "shell",
                                                       "event": task_event(self.repo, task)})["lease"]
        result = self.result(lease)
        self.assertEqual(result["state"], "error", result)
        self.assertIn("inputs cannot be placed", result["error"])

    def test_logs_come_as_they_were_written(self):
        """R124; what is no UTF-8 becomes U+FFFD, and no character is split."""
        self.agent()
        lease = self.script("printf 'a\\000\\377\\303'; i=0; while [ $i -lt 40000 ]; do echo \"$i \\342\\202\\254\"; "
                            "i=$((i+1)); done; printf 'end\\342\\202'; printf 'no line end' >&2")
        self.assertEqual(self.result(lease)["state"], "success")
        text = b"a\0\xff\xc3" + b"".join(b"%d \xe2\x82\xac\n" % i for i in range(40000)) + b"end\xe2\x82"
        self.assertEqual(self.log(lease).decode(), text.decode(errors="replace"))
        self.assertEqual(self.log(lease, "stderr"), b"no line end")

    def test_logs_arrive_while_the_task_runs(self):
        self.agent()
        lease = self.script("echo first; sleep 30")
        until(lambda: self.inspect(lease)["lease"]["status"] == "claimed")
        until(lambda: self.log(lease) == b"first\n", 5)
        self.server.control("/leases/cancel", {"repo": self.repo, "leaseId": lease["leaseId"]})

    def test_a_log_is_cut_where_the_rack_says(self):
        self.agent("--log-bytes", "1000")
        lease = self.script("head -c 100000 /dev/zero | tr '\\0' x")
        self.assertEqual(self.result(lease)["state"], "success")
        self.assertRegex(self.log(lease), rb"\Ax{1000}\n\[lessor: cut here: [^\n]*\]\n\Z")

    def test_trees_of_trees_are_placed_and_packed(self):
        agent = self.agent()
        inner = compact({"format": "lessor.tree/1", "entries": [self.file("deep/x", b"deep"),
                                                                {"type": "link", "path": "up", "target": "deep/x"}]})
        outer = compact({"format": "lessor.tree/1", "entries": [
            {"type": "directory", "path": "empty"},
            {"type": "tree", "path": "in", "hash": self.put(inner), "size": len(inner)}]})
        lease = self.script("cat t/in/up; ls -A t/empty; cp -a t out",
                            inputs=[{"type": "tree", "path": "t", "hash": self.put(outer), "size": len(outer)}],
                            outputs=["out"])
        result = self.result(lease)
        self.assertEqual(result["state"], "success", result)
        self.assertEqual(self.log(lease), b"deep")
        self.assertEqual(self.tree(result["outputHash"]),
                         {"out/empty": ("directory", None), "out/in/deep/x": b"deep", "out/in/up": ("link", "deep/x")})
        agent.stop()

    def test_many_objects_go_in_batches(self):
        """R103: at most 256 a request."""
        self.agent()
        inputs = [self.file(f"i/{n:04}", b"%d" % n) for n in range(300)]
        lease = self.script("mkdir o; for f in i/*; do sed 's/^/o/' $f >o/${f#i/}; done", inputs=inputs, outputs=["o"])
        result = self.result(lease)
        self.assertEqual(result["state"], "success", result)
        tree = self.tree(result["outputHash"])
        self.assertEqual(len(tree), 300)
        self.assertEqual(tree["o/0299"], b"o299")
        for _, path, body in self.gate.seen:
            if path.endswith("/storage"):
                asked = json.loads(body)
                self.assertLessEqual(max(len(asked[k]) for k in ("need", "outputs", "commits")), 256)

    def test_more_outputs_than_a_lease_may_have_fail(self):
        """R105: 4,096 distinct objects."""
        self.agent(directory=self.join(url=f"http://127.0.0.1:{self.server.port}"))
        lease = self.script("mkdir o; cd o; i=0; while [ $i -lt 4200 ]; do echo $i >$i; i=$((i+1)); done", outputs=["o"])
        result = self.result(lease)
        self.assertEqual(result["state"], "failed", result)
        self.assertIn("outputs cannot be taken", result["error"])

    def test_slots_share_what_they_fetch(self):
        """An input of several tasks at once is fetched once, and not again by the next."""
        agent = self.agent("--slots", "4")
        big = self.file("big", os.urandom(300000))
        leases = [self.script(f"cksum big; echo {n}", inputs=[big]) for n in range(4)]
        for lease in leases:
            self.assertEqual(self.result(lease)["state"], "success")
        self.assertEqual(self.gate.count("/data/", "GET"), 1)
        self.assertEqual(agent.stop(), 0)
        agent = self.agent("--once", directory=agent.dir)
        self.assertEqual(self.result(self.script("cksum big; echo 5", inputs=[big]))["state"], "success")
        self.assertEqual(self.gate.count("/data/", "GET"), 1)
        self.assertEqual(agent.end(), 0)

    def test_the_cache_keeps_to_its_size(self):
        agent = self.agent("--cache-bytes", "200K")
        for n in range(5):
            lease = self.script(f"cksum f; echo {n}", inputs=[self.file("f", os.urandom(100000))])
            self.assertEqual(self.result(lease)["state"], "success")
        agent.wait("done", 5)
        self.assertEqual(agent.stop(), 0)
        size = sum(os.path.getsize(os.path.join(d, f)) for d, _, files in os.walk(os.path.join(agent.dir, "cache"))
                   for f in files)
        self.assertLessEqual(size, 200 << 10)

    def test_a_large_object_passes_in_little_memory(self):
        agent = self.agent()
        data = os.urandom(1 << 20) * 48
        lease = self.script("mv big out", inputs=[self.file("big", data)], outputs=["out"])
        result = self.result(lease)
        self.assertEqual(self.tree(result["outputHash"]), {"out": data})
        with open(f"/proc/{agent.process.pid}/status") as f:
            peak = next(int(line.split()[1]) for line in f if line.startswith("VmHWM:"))
        self.assertLess(peak, 40000)

    def test_without_a_sandbox_it_says_so_and_works(self):
        agent = self.agent(sandbox=False)
        lease = self.script("id -u; cat in >out; env | grep -c SECRET", inputs=[self.file("in", b"x")], outputs=["out"])
        result = self.result(lease)
        self.assertEqual((result["state"], result["exitCode"]), ("failed", 1))
        self.assertEqual(self.log(lease), b"%d\n0\n" % os.getuid())
        self.assertIn("warning: there is no sandbox", agent.told())


class Stopping(AgentCase):
    """Told to stop, in every way there is."""

    SCRIPT = "trap '' TERM HUP INT; echo up; (setsid sh -c 'while :; do sleep 4711; done' &) ; while :; do sleep 4711; done"

    def running(self, **more):
        mark = f"47{self.id().__hash__() % 89999 + 10000}"
        lease = self.submit(self.task("sh", "-c", self.SCRIPT.replace("4711", mark)), **more)
        until(lambda: processes(mark) >= 2)
        return lease, mark

    def test_a_cancelled_task_stops_within_two_seconds(self):
        """R128: by the watch; nothing of it is left, nothing is completed, and the next one runs."""
        for sandbox in (True, False):
            with self.subTest(sandbox=sandbox):
                agent = self.agent(sandbox=sandbox, directory=self.join(f"rack-{sandbox}"))
                lease, mark = self.running()
                before = time.monotonic()
                self.server.control("/leases/cancel", {"repo": self.repo, "leaseId": lease["leaseId"]})
                until(lambda: processes(mark) == 0, 2)
                agent.wait("dropped")
                self.assertLess(time.monotonic() - before, 2)
                self.assertEqual(self.inspect(lease)["lease"]["status"], "cancelled")
                self.assertNotIn("result", self.inspect(lease)["lease"])
                self.assertEqual(self.result(self.script("echo next"))["state"], "success")
                self.assertEqual(agent.stop(), 0)

    def test_the_heartbeat_is_enough_where_there_is_no_watch(self):
        """R057, rack-protocol 6.8: an agent that gets 404 relies on heartbeats."""
        self.gate.rule("lease/watch", (404, {"error": "not_found", "message": "no such path"}))
        agent = self.agent()
        lease, mark = self.running()
        self.server.control("/leases/cancel", {"repo": self.repo, "leaseId": lease["leaseId"]})
        until(lambda: processes(mark) == 0, 20)
        agent.wait("dropped")
        self.assertEqual(self.gate.count("lease/watch"), 1)

    def test_an_agent_that_is_killed_takes_its_tasks_with_it(self):
        for sandbox in (True, False):
            with self.subTest(sandbox=sandbox):
                agent = self.agent(sandbox=sandbox, directory=self.join(f"rack-{sandbox}"))
                lease, mark = self.running()
                agent.process.kill()
                until(lambda: processes(mark) == 0, 5)
                self.server.control("/leases/cancel", {"repo": self.repo, "leaseId": lease["leaseId"]})

    def test_draining_lets_a_task_finish(self):
        agent = self.agent()
        lease = self.script("echo up; while [ ! -e /tmp/stop ]; do sleep 0.1; i=x$i; [ ${#i} -gt 15 ] && exit 0; done")
        agent.wait("running")
        self.assertEqual(agent.stop(), 0)
        self.assertEqual(self.ended(lease)["lease"]["result"]["state"], "success")

    def test_draining_takes_no_more_work(self):
        agent = self.agent("--slots", "2")
        lease = self.script("sleep 1.5")
        agent.wait("running")
        agent.process.send_signal(signal.SIGTERM)
        agent.wait("draining")
        self.server.until_parked(1)  # the watch, and no poll any more
        other = self.script("echo never")
        self.assertEqual(agent.end(), 0)
        self.assertEqual(self.ended(lease)["lease"]["result"]["state"], "success")
        self.assertEqual(self.inspect(other)["lease"]["status"], "pending")

    def test_after_the_grace_tasks_are_killed_and_left_to_lapse(self):
        agent = self.agent("--grace", "300ms")
        lease, mark = self.running(attemptLimit=3)
        before = time.monotonic()
        self.assertEqual(agent.stop(), 0)
        self.assertLess(time.monotonic() - before, 4)
        self.assertEqual(processes(mark), 0)
        self.assertIn("when its lease lapses", agent.wait("dropped")["message"])
        self.assertEqual(self.inspect(lease)["lease"]["status"], "claimed")
        self.assertEqual(self.gate.count("complete"), 0)

    def test_a_second_signal_ends_it_at_once(self):
        agent = self.agent()
        _, mark = self.running()
        agent.process.send_signal(signal.SIGTERM)
        agent.wait("draining")
        agent.process.send_signal(signal.SIGTERM)
        self.assertEqual(agent.end(5), -signal.SIGTERM)
        until(lambda: processes(mark) == 0, 5)

    def test_a_removed_rack_stops_and_says_what_to_do(self):
        """R011, R012: idle, and with a task under way."""
        for busy in (False, True):
            with self.subTest(busy=busy):
                agent = self.agent(directory=self.join(f"rack-{busy}"))
                agent.wait("online")
                mark = self.running()[1] if busy else "no such process"
                with open(os.path.join(agent.dir, "rack.json")) as f:
                    self.server.control("/racks/remove", {"rackId": json.load(f)["rackId"]})
                self.assertEqual(agent.end(25), 4)
                self.assertIn("join again", agent.told())
                self.assertEqual(processes(mark), 0)

    def test_once_ends_after_one_task(self):
        agent = self.agent("--once", "--slots", "2")
        first, second = self.script("echo 1"), self.script("echo 2")
        self.assertEqual(agent.end(), 0)
        self.assertEqual(sorted(self.inspect(lease)["lease"]["status"] for lease in (first, second)),
                         ["completed", "pending"])


class Breaking(AgentCase):
    """Agent, server and network broken at every stage of a task."""

    STAGES = {  # what is held at the gate
        "fetching": ("storage", lambda m, p, b: b'"need":["' in b),
        "bytes": ("/data/", lambda m, p, b: m == "GET"),
        "logging": ("/logs", lambda m, p, b: True),
        "declaring": ("storage", lambda m, p, b: b'"outputs":[{' in b),
        "putting": ("/data/", lambda m, p, b: m == "PUT"),
        "committing": ("storage", lambda m, p, b: b'"commits":[{' in b),
        "completing": ("complete", lambda m, p, b: True),
    }

    def lease(self, n):
        return self.submit(self.task("sh", "-c", f"echo {n}; cat in >out",
                                     inputs=[self.file("in", os.urandom(20000) + b"%d" % n)], outputs=["out"]),
                           attemptLimit=5)

    def finishes(self, lease):
        result = self.result(lease)
        self.assertEqual(result["state"], "success", result)
        self.assertEqual(len(self.tree(result["outputHash"])["out"]), 20001)

    def test_agent_killed_at_every_stage(self):
        """The lease lapses, and the same rack, started again, takes it up; a result that was ready is delivered."""
        directory = self.join()
        for n, (name, (part, when)) in enumerate(self.STAGES.items()):
            with self.subTest(stage=name):
                self.gate.hold(part, when)
                agent = self.agent(directory=directory)
                lease = self.lease(n)
                held = self.gate.wait_held(part)
                agent.kill()
                held.cut = True
                self.gate.open()
                if name != "completing":
                    self.server.advance(MINUTE + 1000)
                agent = self.agent("--once", directory=directory) if name != "completing" \
                    else self.agent(directory=directory)
                self.finishes(lease)
                attempts = self.inspect(lease)["attempts"]
                self.assertEqual(len(attempts), 1 if name == "completing" else 2)
                if name != "completing":
                    self.assertEqual(attempts[0]["state"], "interrupted")  # R054
                    self.assertEqual(agent.end(), 0)
                else:
                    agent.wait("done")
                    self.assertEqual(agent.stop(), 0)

    def test_server_restarted_at_every_stage(self):
        """The agent goes on where it was, with the same attempt."""
        agent = self.agent()
        for n, (name, (part, when)) in enumerate(self.STAGES.items()):
            with self.subTest(stage=name):
                self.gate.hold(part, when)
                lease = self.lease(n)
                held = self.gate.wait_held(part)
                self.assertEqual(self.server.stop(), 0)
                self.gate.cut_all()
                held.cut = True
                self.start_server()
                self.gate.open()
                self.finishes(lease)
                self.assertEqual(len(self.inspect(lease)["attempts"]), 1)
        self.assertEqual(agent.stop(), 0)

    def test_network_cut_at_every_stage(self):
        agent = self.agent()
        for n, (name, (part, when)) in enumerate(self.STAGES.items()):
            with self.subTest(stage=name):
                self.gate.hold(part, when)
                lease = self.lease(n)
                held = self.gate.wait_held(part)
                cut = self.gate.rule("", "cut")
                self.gate.cut_all()
                held.cut = True
                self.gate.open()
                self.gate.wait_seen("", len(self.gate.seen) + 2)
                self.gate.drop(cut)
                self.finishes(lease)
        self.assertTrue(agent.has("trouble"))
        self.assertEqual(agent.stop(), 0)

    def test_answers_to_be_patient_at_every_stage(self):
        """429, 503, 500 and 408: asked again, and not before the time that was said."""
        agent = self.agent()
        agent.wait("online")
        for n, (name, (part, when)) in enumerate(self.STAGES.items()):
            with self.subTest(stage=name):
                status = (429, 503, 500, 408)[n % 4]
                rule = self.gate.rule(part, (status, {"error": "unavailable", "message": "not now"}), when)
                lease = self.lease(n)
                until(lambda: sum(part in p and when(m, p, b) for m, p, b in self.gate.seen) >= n + 2)
                self.gate.drop(rule)
                self.finishes(lease)
        self.assertEqual(agent.stop(), 0)

    def test_a_lease_that_another_rack_took_over_is_dropped(self):
        """R060, R071: its late word counts for nothing."""
        first = self.agent(directory=self.join("first"))
        lease = self.submit(self.task("sh", "-c", "sleep 1; echo done >out", outputs=["out"]), attemptLimit=5)
        first.wait("running")
        first.process.send_signal(signal.SIGSTOP)
        self.gate.cut_all()
        self.server.advance(MINUTE + 1000)
        second = self.agent(directory=self.join("second"))
        self.assertEqual(self.result(lease)["state"], "success")
        first.process.send_signal(signal.SIGCONT)
        first.wait("dropped")
        seen = self.inspect(lease)
        self.assertEqual([a["state"] for a in seen["attempts"]], ["interrupted", "success"])
        self.assertEqual(first.stop(), 0)
        self.assertEqual(second.stop(), 0)

    def test_a_result_that_cannot_be_delivered_is_kept(self):
        """Also over a stop and a start: it is delivered by the next, and acknowledged."""
        self.gate.rule("complete", (503, {"error": "unavailable", "message": "not now"}))
        agent = self.agent("--grace", "500ms")
        lease = self.lease(1)
        self.gate.wait_seen("complete", 2)
        outbox = os.path.join(agent.dir, "outbox")
        self.assertEqual(len(os.listdir(outbox)), 1)
        self.assertEqual(agent.stop(), 0)
        self.assertTrue(agent.has("kept"))
        self.assertEqual(len(os.listdir(outbox)), 1)
        self.gate.rules.clear()
        agent = self.agent(directory=agent.dir)
        self.finishes(lease)
        self.assertEqual(agent.wait("done")["recorded"], "recorded")
        self.assertIn("1 results of an earlier run", agent.told())
        until(lambda: os.listdir(outbox) == [])
        self.assertEqual(agent.stop(), 0)

    def test_a_kept_result_whose_lease_is_gone_is_forgotten(self):
        """R072: discarded, and dropped."""
        self.gate.hold("complete")
        agent = self.agent()
        lease = self.lease(1)
        held = self.gate.wait_held("complete")
        agent.kill()
        held.cut = True
        self.gate.open()
        self.server.control("/leases/cancel", {"repo": self.repo, "leaseId": lease["leaseId"]})
        agent = self.agent(directory=agent.dir)
        until(lambda: os.listdir(os.path.join(agent.dir, "outbox")) == [])
        self.assertEqual(self.inspect(lease)["lease"]["status"], "cancelled")
        self.assertEqual(agent.stop(), 0)

    def test_a_transfer_goes_on_where_it_broke(self):
        """GET with Range, after a cut in the middle."""
        data = os.urandom(8 << 20)
        broken = []

        class Half(Gate):
            def _back(self, upstream, client):
                n, at = 0, 0
                try:
                    while True:
                        part = upstream.recv(65536)
                        if not part:
                            break
                        n += len(part)
                        if n > 3 << 20 and not broken:
                            broken.append(n)
                            break
                        client.sendall(part)
                except OSError:
                    pass
                try:
                    client.shutdown(socket.SHUT_RDWR)
                except OSError:
                    pass

        self.gate.close()
        self.gate = Half(self.server.port)
        self.addCleanup(self.gate.close)
        agent = self.agent()
        lease = self.script("cksum <big; mv big out", inputs=[self.file("big", data)], outputs=["out"])
        result = self.result(lease)
        self.assertEqual(result["state"], "success", result)
        self.assertEqual(self.tree(result["outputHash"])["out"], data)
        self.assertTrue(broken)
        ranges = [re.search(rb"\r\nrange: bytes=(\d+)-", head, re.I) for m, p, head in self.gate.heads
                  if m == "GET" and "/data/" in p]
        self.assertEqual([bool(r) for r in ranges], [False, True])
        self.assertGreater(int(ranges[1][1]), 1 << 20)
        self.assertEqual(agent.stop(), 0)


class Trust(AgentCase):
    """Whom and what it believes."""

    def test_a_tampered_object_is_not_used(self):
        """R100: bytes that are not the hash's end the task as an error, and are not kept."""
        agent = self.agent()
        entry = self.file("in", b"good" * 2000)
        path = os.path.join(self.server.data, "objects", "repos", self.repo, "objects", entry["hash"][:2],
                            entry["hash"][2:])
        lease_task = self.task("sh", "-c", "cat in", inputs=[entry])
        with open(path, "r+b") as f:
            f.write(b"evil")
        lease = self.submit(lease_task)
        result = self.result(lease)
        self.assertEqual(result["state"], "error", result)
        self.assertIn("something else", result["error"])
        self.assertEqual(self.log(lease), b"")
        kept = [f for _, _, files in os.walk(os.path.join(agent.dir, "cache", "objects")) for f in files]
        self.assertNotIn(entry["hash"][2:], kept)
        with open(path, "r+b") as f:
            f.write(b"good")
        self.assertEqual(self.result(self.script("cat in; true", inputs=[entry]))["state"], "success")

    def test_a_stolen_url_is_of_no_use_afterwards(self):
        """R116, R118: nor with a token while it is good."""
        agent = self.agent()
        self.gate.hold("/data/", lambda m, p, b: m == "GET")
        lease = self.script("cat in", inputs=[self.file("in", b"x" * 10000)])
        held = self.gate.wait_held("/data/")
        with open(os.path.join(agent.dir, "rack.json")) as f:
            token = json.load(f)["token"]

        def steal(*headers):
            text = "\r\n".join([f"GET {held.path} HTTP/1.1", "Host: h", *headers]) + "\r\n\r\n"
            return self.server.ask(text.encode()).status
        self.assertEqual(steal(f"Authorization: Bearer {token}"), 400)
        self.assertNotIn(b"uthorization", held.head)
        self.gate.open()
        self.assertEqual(self.result(lease)["state"], "success")
        self.assertEqual(steal(), 404)

    def test_a_rotated_token_is_taken_written_and_used(self):
        """R021 to R024: on disk before it is used; the old one forgotten once it worked."""
        directory = self.join()
        before = json.load(open(os.path.join(directory, "rack.json")))
        self.server.advance(25 * HOUR)
        agent = self.agent("--once", directory=directory)
        until(lambda: agent.has("online") and "previousToken" not in json.load(open(os.path.join(directory, "rack.json")))
              and json.load(open(os.path.join(directory, "rack.json")))["token"] != before["token"])
        self.assertEqual(self.result(self.script("echo 1"))["state"], "success")
        self.assertEqual(agent.end(), 0)
        after = json.load(open(os.path.join(directory, "rack.json")))
        self.assertEqual(after["rackId"], before["rackId"])
        self.assertEqual(os.stat(os.path.join(directory, "rack.json")).st_mode & 0o777, 0o600)
        self.server.advance(20 * MINUTE)  # past the grace of the old one
        agent = self.agent("--once", directory=directory)
        self.assertEqual(self.result(self.script("echo 2"))["state"], "success")
        self.assertEqual(agent.end(), 0)

    def test_a_new_token_that_the_server_forgot_gives_way_to_the_old(self):
        """As after an offer whose successor was replaced (R026)."""
        directory = self.join()
        path = os.path.join(directory, "rack.json")
        state = json.load(open(path))
        state["previousToken"], state["token"] = state["token"], "e3rk_" + "0" * 64
        with open(path, "w") as f:
            json.dump(state, f)
        agent = self.agent("--once", directory=directory)
        self.assertEqual(self.result(self.script("echo 1"))["state"], "success")
        self.assertEqual(agent.end(), 0)
        self.assertEqual(json.load(open(path))["token"], state["previousToken"])

    def test_an_enrolment_token_is_good_once(self):
        """R002."""
        token = self.server.control("/racks/tokens/create", {})["token"]

        def join(name):
            return subprocess.run([LESSOR, "rack", "join", self.gate.url, token, "--dir", self.path(name)],
                                  capture_output=True, text=True)
        self.assertEqual(join("a").returncode, 0)
        again = join("b")
        self.assertEqual(again.returncode, 4)
        self.assertIn("good once", again.stderr)
        self.assertFalse(os.path.exists(self.path("b/rack.json")))
        other = join("a")
        self.assertEqual(other.returncode, 4)
        self.assertIn("--replace", other.stderr)

    def test_a_start_that_waits_for_approval_says_so(self):
        """R031, R034."""
        directory = self.join()
        agent = self.agent("--once", directory=directory)
        self.assertEqual(self.result(self.script("echo 1"))["state"], "success")
        self.assertEqual(agent.end(), 0)
        self.server.control("/racks/policy", {"requireStartApproval": True}, "PUT")
        agent = self.agent("--once", directory=directory)
        self.assertIn("to be approved", agent.wait("notice")["message"])
        lease = self.script("echo 2")
        rack_id = json.load(open(os.path.join(directory, "rack.json")))["rackId"]
        self.server.control("/racks/approve", {"rackId": rack_id})
        self.assertEqual(self.result(lease)["state"], "success")
        self.assertEqual(agent.end(), 0)

    def test_one_agent_a_directory(self):
        agent = self.agent()
        agent.wait("online")
        second = subprocess.run([LESSOR, "rack", "run", "--dir", agent.dir, "--tier", "shell"], capture_output=True,
                                text=True)
        self.assertEqual(second.returncode, 4)
        self.assertIn("another agent runs", second.stderr)


if __name__ == "__main__":
    unittest.main(verbosity=1)
