# SPDX-License-Identifier: MIT
"""`lessor run`: a command on another machine, from its files to its results, and what becomes of it on the way."""
import json
import os
import shutil
import signal
import subprocess
import tempfile
import time
import unittest

import harness
from harness import PATIENCE

LESSOR = os.path.join(os.path.dirname(os.environ["LESSORD"]), "lessor")


class Process:
    """A program whose output goes to a file."""

    def __init__(self, test, name, words, cwd, env):
        self.path = os.path.join(cwd, f"{name}.log")
        with open(self.path, "wb") as log:
            self.child = subprocess.Popen(words, cwd=cwd, env=env, stdin=subprocess.DEVNULL, stdout=log,
                                          stderr=subprocess.STDOUT)
        test.addCleanup(self.kill)

    def kill(self):
        if self.child.poll() is None:
            self.child.kill()
        self.child.wait()

    def text(self):
        with open(self.path) as log:
            return log.read()

    def until(self, text):
        end = time.monotonic() + PATIENCE
        while text not in self.text():
            if time.monotonic() > end or self.child.poll() is not None and text not in self.text():
                raise AssertionError(f"no {text!r} in: {self.text()}")
            time.sleep(0.01)

    def end(self):
        return self.child.wait(PATIENCE)


class Case(unittest.TestCase):
    def setUp(self):
        self.dir = tempfile.mkdtemp(prefix="lessor-run-")
        self.addCleanup(shutil.rmtree, self.dir, True)
        self.work = os.path.join(self.dir, "work")
        os.mkdir(self.work)
        self.data = os.path.join(self.dir, "data")
        self.env = {**os.environ, "LESSOR_DATA": self.data}
        self.port = 0
        self.serve()

    def serve(self, *options):
        """Starts the server, or starts it again at its old port. Its clock is the machine's."""
        self.server = Process(self, "server", [os.environ["LESSORD"], "--data", self.data, "--listen",
                                               f"127.0.0.1:{self.port}", *options], self.dir,
                              {k: v for k, v in os.environ.items() if k != "LESSOR_TEST_NOW_MS"})
        self.server.until("listening on http://")
        self.port = int(self.server.text().split("listening on http://127.0.0.1:")[1].split()[0])

    def rack(self, name="rack", *options):
        """A rack of the tier shell that is up. Without a sandbox: what is tested here is not it."""
        place = os.path.join(self.dir, name)
        words = self.lessor("rack", "token").stdout.split()
        self.lessor(*words[1:], "--dir", place, "--tier", "shell", "--label", name)
        rack = Process(self, f"{name}-agent", [LESSOR, "rack", "run", "--dir", place, "--tier", "shell",
                                               "--no-sandbox", *options], self.dir, self.env)
        rack.until("online")
        return rack

    def lessor(self, *words, code=0):
        done = subprocess.run([LESSOR, *words], cwd=self.work, env=self.env, stdin=subprocess.DEVNULL,
                              capture_output=True, text=True, timeout=PATIENCE)
        self.assertEqual(done.returncode, code, f"{words}: {done.stdout}{done.stderr}")
        return done

    def run_command(self, *words, code=0):
        return self.lessor("run", *words, code=code)

    def begin(self, *words):
        return Process(self, "run", [LESSOR, "run", *words], self.dir, self.env)

    def write(self, name, text, mode=0o644):
        path = os.path.join(self.work, name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "w") as file:
            file.write(text)
        os.chmod(path, mode)
        return path

    def read(self, name):
        with open(os.path.join(self.work, name)) as file:
            return file.read()

    def lease(self, number):
        return json.loads(self.lessor("lease", "show", str(number), "--json").stdout)


class Way(Case):
    """There and back."""

    def test_files_go_there_and_results_come_back(self):
        self.rack()
        self.write("data.csv", "1,2\n3,4\n")
        self.write("train.sh", "#!/bin/sh\nmkdir -p model/deep\ncp \"$1\" model/deep/weights\n"
                               "echo out; echo err >&2\nln -s deep/weights model/link\n", 0o755)
        done = self.run_command("--in", "data.csv", "--out", "model", "--", "./train.sh", "data.csv")
        self.assertEqual(done.stdout, "out\n")
        self.assertIn("err\n", done.stderr)
        self.assertEqual(self.read("model/deep/weights"), "1,2\n3,4\n")
        self.assertEqual(os.readlink(os.path.join(self.work, "model/link")), "deep/weights")
        self.assertEqual([n for n in os.listdir(self.work) if n.startswith(".")], [])

    def test_bytes_are_what_they_were_but_for_those_that_are_no_text(self):
        """Logs are texts on the wire: what is no UTF-8 becomes U+FFFD."""
        self.rack()
        self.write("all.sh", "#!/bin/sh\nprintf '\\000\\r\\303\\251\\377\\n'\n", 0o755)
        done = subprocess.run([LESSOR, "run", "--quiet", "--", "./all.sh"], cwd=self.work, env=self.env,
                              capture_output=True, timeout=PATIENCE)
        self.assertEqual((done.returncode, done.stdout, done.stderr), (0, b"\x00\r\xc3\xa9\xef\xbf\xbd\n", b""))

    def test_it_ends_as_the_command_did(self):
        self.rack()
        self.run_command("--", "sh", "-c", "exit 3", code=3)
        self.assertIn("signal", self.run_command("--", "sh", "-c", "kill -9 $$", code=128).stderr)
        self.assertIn("out", self.run_command("--out", "nothing", "--", "true", code=128).stderr.lower())
        self.run_command("--", "no-such-program", code=127)

    def test_the_environment_is_what_was_asked_for(self):
        self.rack()
        self.env["SECRET_OF_MINE"] = "x"
        self.env["GIVEN"] = "here"
        done = self.run_command("--env", "A=b c", "--env", "GIVEN", "--", "sh", "-c",
                                'echo "$A/$GIVEN/$SECRET_OF_MINE"')
        self.assertEqual(done.stdout, "b c/here/\n")

    def test_nothing_that_is_there_is_lost(self):
        self.rack()
        self.write("out/old", "old")
        make = ["--", "sh", "-c", "mkdir out; echo new >out/new"]
        self.assertIn("--force", self.run_command(*make, code=125).stderr)
        self.assertEqual(self.lessor("lease", "ls").stdout, "")
        self.run_command("--force", *make)
        self.assertEqual(os.listdir(os.path.join(self.work, "out")), ["new"])
        os.mkdir(os.path.join(self.work, "elsewhere"))
        self.run_command("--dest", "elsewhere", *make)
        self.assertEqual(self.read("elsewhere/out/new"), "new\n")

    def test_what_cannot_be_is_refused_before_anything_is_sent(self):
        for words, said in ((["--in", "none", "--", "true"], "none"), (["--out", "/etc", "--", "true"], "--out"),
                            (["--out", "../x", "--", "true"], "--out"), (["--in", "/", "--", "true"], "--in"),
                            (["--env", "=x", "--", "true"], "--env"), (["--memory", "lots", "--", "true"], "--memory"),
                            (["--attempts", "0", "--", "true"], "--attempts")):
            self.assertIn(said, self.run_command(*words, code=125).stderr)
        self.assertEqual(self.lessor("lease", "ls").stdout, "")

    def test_a_detached_run_is_found_again(self):
        self.rack()
        number = int(self.run_command("--detach", "--key", "k", "--", "echo", "hello").stdout)
        self.lessor("lease", "watch", str(number))
        self.assertEqual(self.lessor("logs", str(number)).stdout, "hello\n")
        self.assertEqual(self.run_command("--key", "k", "--", "echo", "hello").stdout, "hello\n")
        self.assertEqual(len(json.loads(self.lessor("lease", "ls", "--json").stdout)["leases"]), 1)


class Trouble(Case):
    """What goes wrong ends in a state that is right, and said."""

    def test_nobody_to_run_it(self):
        run = self.begin("--ttl", "5s", "--tier", "gpu", "--", "true")
        run.until("waits: ")
        self.assertEqual(run.end(), 125)
        self.assertIn("no rack took lease 1 in time", run.text())

    def test_ctrl_c_cancels_and_leaves_no_process(self):
        self.rack()
        flag = os.path.join(self.dir, "pid")
        run = self.begin("--", "sh", "-c", f"echo $$ >{flag}; echo up; exec sleep 600")
        run.until("up")
        with open(flag) as file:
            pid = int(file.read())
        run.child.send_signal(signal.SIGINT)
        self.assertEqual(run.end(), 130)
        self.assertIn("lease 1 is cancelled", run.text())
        end = time.monotonic() + 2 + harness.SOON
        while os.path.exists(f"/proc/{pid}"):
            self.assertLess(time.monotonic(), end, "the command goes on")
            time.sleep(0.01)
        self.assertEqual(self.lease(1)["lease"]["status"], "cancelled")

    def test_a_server_that_is_started_anew(self):
        self.rack()
        go = os.path.join(self.dir, "go")
        run = self.begin("--", "sh", "-c", f"echo before; while ! test -e {go}; do sleep 0.05; done; echo after")
        run.until("before")
        self.server.child.kill()
        self.server.end()
        run.until("the server is away")
        self.serve()
        open(go, "w").close()
        self.assertEqual(run.end(), 0, run.text())
        self.assertEqual(run.text().count("before"), 1)
        self.assertEqual(run.text().count("after"), 1)

    def test_a_rack_that_is_killed_is_told_of_and_replaced(self):
        self.server.child.terminate()
        self.server.end()
        self.serve("--rack-visibility-ms", "2000")
        first = self.rack("first")
        run = self.begin("--", "sh", "-c", "echo here; test -e again || exec sleep 600")
        run.until("here")
        first.kill()
        self.rack("second")
        run.until("attempt 2")
        self.assertIn("was interrupted", run.text())
        self.assertEqual(self.lease(1)["attempts"][0]["state"], "interrupted")
