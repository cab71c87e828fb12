#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""lessor object and lessor env against a real lessord, and their endpoints of the control API."""
import filecmp
import hashlib
import json
import os
import signal
import socket
import subprocess
import sys
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from harness import LESSOR, PATIENCE, Case  # noqa: E402


def sha(data):
    return hashlib.sha256(data).hexdigest()


class ObjectCase(Case):
    def setUp(self):
        super().setUp()
        self.serve()

    def make(self, name, data):
        os.makedirs(os.path.dirname(self.path(name)) or self.dir, exist_ok=True)
        with open(self.path(name), "wb") as f:
            f.write(data)
        return sha(data)

    def put(self, *paths, **more):
        return [line.split("  ", 1)[0] for line in self.lessor("object", "put", *paths, **more).out.splitlines()]

    def same(self, a, b):
        """Files, links, and which files can be run."""
        def walk(top):
            found = {}
            for place, dirs, files in os.walk(self.path(top)):
                for name in dirs + files:
                    path = os.path.join(place, name)
                    key = os.path.relpath(path, self.path(top))
                    if os.path.islink(path):
                        found[key] = ("link", os.readlink(path))
                    elif os.path.isdir(path):
                        found[key] = ("directory",)
                    else:
                        with open(path, "rb") as f:
                            found[key] = ("file", f.read(), bool(os.stat(path).st_mode & 0o100))
            return found
        self.assertEqual(walk(a), walk(b))

    def requests(self, route, n):
        """The access log's lines of a route, once there are n."""
        def there():
            lines = [json.loads(line) for line in self.read("lessord.log").splitlines()]
            found = [line for line in lines if line.get("route") == route]
            return found if len(found) >= n else None
        return self.until(there, f"{n} requests of {route}")

    def stored(self, hash, repo="default"):
        return os.path.join(self.data, "objects", "repos", repo, "objects", hash[:2], hash[2:])

    def raw(self, method, path, body=b"", headers=()):
        """One request at the control socket. Returns (status, headers, bytes)."""
        with socket.socket(socket.AF_UNIX) as s:
            s.settimeout(PATIENCE)
            s.connect(os.path.join(self.data, "control.sock"))
            head = [f"{method} /api/control/v1{path} HTTP/1.1", "Host: localhost", "Connection: close", *headers]
            if not any(h.lower().startswith(("content-length", "transfer")) for h in headers):
                head.append(f"Content-Length: {len(body)}")
            s.sendall("\r\n".join([*head, "", ""]).encode() + body)
            got = b"".join(iter(lambda: s.recv(1 << 18), b""))
        head, _, rest = got.partition(b"\r\n\r\n")
        lines = head.decode("latin-1").split("\r\n")
        return int(lines[0].split()[1]), dict(line.lower().split(": ", 1) for line in lines[1:]), rest


class Put(ObjectCase):
    def test_files_are_objects_by_their_hash(self):
        a = self.make("a", b"hello")
        empty = self.make("empty", b"")
        self.assertEqual(self.put("a", "empty"), [a, empty])
        self.assertEqual(self.lessor("object", "get", a).out, "hello")
        self.assertEqual(self.lessor("object", "get", empty).out, "")
        listed = self.lessor("object", "ls", "--json").json
        self.shape(listed, {"objects": [{"hash": str, "size": int, "touchedAt": int}], "more": bool})
        self.assertEqual([(o["hash"], o["size"]) for o in listed["objects"]], sorted([(a, 5), (empty, 0)]))
        self.assertEqual(self.lessor("object", "repos", "--json").json, {"repos": [{"repo": "default"}]})
        self.assertIn("5 B", self.lessor("object", "ls").out)

    def test_stdin_is_a_file_too(self):
        self.assertEqual(self.put("-", stdin="from a pipe"), [sha(b"from a pipe")])

    def test_repositories_keep_to_themselves(self):
        a = self.make("a", b"mine")
        self.put("a", "--repo", "lab")
        self.assertIn("lab", self.lessor("object", "get", a, "--repo", "lab2", code=5).err)
        self.assertIn("default", self.lessor("object", "get", a, code=5).err)
        self.env["LESSOR_REPO"] = "lab"
        self.assertEqual(self.lessor("object", "get", a).out, "mine")
        self.lessor("object", "put", "a", "--repo", "../x", code=1)

    def test_what_is_there_is_referenced_and_not_sent(self):
        a = self.make("a", b"x" * 100000)
        self.put("a")
        os.utime(self.stored(a), (1000, 1000))
        self.put("a")
        self.assertGreater(os.stat(self.stored(a)).st_mtime, 1000)
        self.assertEqual(len(self.requests("object-touch", 4)), 4)
        self.assertEqual(len(self.requests("object-put", 1)), 1)

    def test_json_tells_what_became_of_each(self):
        self.make("d/x", b"12345")
        self.make("f", b"1")
        answer = self.lessor("object", "put", "d", "f", "--json").json
        self.shape(answer, {"repo": str, "objects": [{"path": str, "hash": str, "size": int, "kind": str,
                                                      "files?": int, "fileBytes?": int}]})
        self.assertEqual([o["kind"] for o in answer["objects"]], ["tree", "file"])
        self.assertEqual(answer["objects"][0]["fileBytes"], 5)

    def test_what_cannot_be_put(self):
        self.assertIn("none", self.lessor("object", "put", "none", code=5).err)
        os.mkdir(self.path("d"))
        os.mkfifo(self.path("d/pipe"))
        self.assertIn("pipe: this is a named pipe", self.lessor("object", "put", "d", code=1).err)
        self.lessor("object", "put", "d/pipe", code=1)
        os.unlink(self.path("d/pipe"))
        os.symlink("/etc/passwd", self.path("d/way"))
        self.assertIn("leads out", self.lessor("object", "put", "d", code=1).err)
        os.unlink(self.path("d/way"))
        open(os.path.join(self.dir.encode(), b"d", b"caf\xe9"), "w").close()
        self.assertIn("no UTF-8", self.lessor("object", "put", "d", code=1).err)
        self.assertEqual(self.lessor("object", "ls", "--json").json["objects"], [])

    def test_a_terminal_shows_a_long_transfer(self):
        with open(self.path("big"), "wb") as f:
            f.truncate(600 << 20)
        out, shown = self.at_terminal("object", "put", "big")
        self.assertRegex(out, r"^[0-9a-f]{64}  big\n$")
        if "sending" in shown:  # it took longer than a second
            self.assertRegex(shown, r"sending \[=*>? *\] +\d+% [\d.]+ \w+ of 600\.0 MiB, [\d.]+ \w+/s")
            self.assertTrue(shown.endswith("\r\x1b[K"), repr(shown[-80:]))


class Get(ObjectCase):
    def test_a_directory_comes_back_as_it_was(self):
        self.make("d/a/b/deep", b"1")
        self.make("d/-rf", b"2")
        self.make("d/new\nline", b"3")
        self.make("d/gr\u00fc\u00dfe \U0001f332", b"4")
        self.make("d/" + "n" * 255, b"5")
        self.make("d/run", b"#!/bin/sh\n")
        os.chmod(self.path("d/run"), 0o755)
        os.mkdir(self.path("d/empty"))
        os.symlink("../../run", self.path("d/a/b/link"))
        os.link(self.path("d/-rf"), self.path("d/same"))
        tree, = self.put("d")
        self.assertEqual(self.lessor("object", "get", tree, "e").out, "")
        self.same("d", "e")
        self.assertEqual(self.put("e"), [tree])
        # Nothing that is there is replaced, but an empty directory is a place.
        self.assertIn("already", self.lessor("object", "get", tree, "e", code=4).err)
        os.mkdir(self.path("place"))
        self.lessor("object", "get", tree, "place")
        self.same("d", "place")
        self.assertTrue(self.lessor("object", "get", tree, "--raw", "text").out == "" and
                        self.read("text").startswith('{"format":"lessor.tree/1"'))
        self.assertEqual([n for n in os.listdir(self.dir) if n.startswith(".lessor-")], [])

    def test_many_small_files_come_back(self):
        for i in range(40):
            for j in range(25):
                self.make(f"d/{i}/{j}", f"{i}.{j}".encode())
        tree, = self.put("d")
        self.lessor("object", "get", tree, "e")
        self.same("d", "e")

    def test_a_file_goes_on_where_it_was(self):
        data = os.urandom(3 << 20)
        hash = self.make("f", data)
        self.put("f")
        part = self.path(f".lessor-{hash[:16]}.part")
        with open(part, "wb") as f:
            f.write(data[:2 << 20])
        self.lessor("object", "get", hash, "g")
        self.assertTrue(filecmp.cmp(self.path("f"), self.path("g"), shallow=False))
        self.assertFalse(os.path.exists(part))
        # Only the rest was sent.
        looked, sent = self.requests("object", 2)
        self.assertEqual((sent["status"], sent["out"]), (206, 1 << 20))

    def test_a_rest_that_is_wrong_is_thrown_away(self):
        hash = self.make("f", b"right" * 1000)
        self.put("f")
        with open(self.path(f".lessor-{hash[:16]}.part"), "wb") as f:
            f.write(b"wrong")
        self.assertIn("other bytes", self.lessor("object", "get", hash, "g", code=1).err)
        self.assertFalse(os.path.exists(self.path("g")))
        self.lessor("object", "get", hash, "g")
        self.assertEqual(self.read("g"), "right" * 1000)

    def test_what_is_there_is_kept_unless_told(self):
        hash = self.make("f", b"new")
        self.put("f")
        self.make("g", b"old")
        self.lessor("object", "get", hash, "g", code=4)
        self.assertEqual(self.read("g"), "old")
        answer = self.lessor("object", "get", hash, "g", "--force", "--json").json
        self.shape(answer, {"path": str, "hash": str, "kind": str, "size": int})
        self.assertEqual(self.read("g"), "new")
        self.lessor("object", "get", hash, "g/", code=2)
        self.lessor("object", "get", "short", "h", code=2)
        self.lessor("object", "get", hash, "none/g", code=5)

    def test_a_damaged_object_never_becomes_a_file(self):
        self.make("d/x", b"right")
        tree, = self.put("d")
        x = sha(b"right")
        with open(self.stored(x), "wb") as f:
            f.write(b"wrong")
        answer = self.lessor("object", "get", tree, "e", code=1)
        self.assertIn("x: its object has other bytes", answer.err)
        self.assertFalse(os.path.exists(self.path("e")))
        self.assertIn("other bytes", self.lessor("object", "get", x, "x", code=1).err)
        self.assertFalse(os.path.exists(self.path("x")))

    def test_an_interrupted_tree_leaves_nothing(self):
        with open(self.path("big"), "wb") as f:
            f.truncate(1 << 30)
        os.makedirs(self.path("d"))
        os.rename(self.path("big"), self.path("d/big"))
        tree, = self.put("d")
        getting = subprocess.Popen([LESSOR, "object", "get", tree, "e"], cwd=self.dir, env=self.env,
                                   stderr=subprocess.PIPE, text=True)
        self.until(lambda: getting.poll() is not None or
                   any(n.startswith(".lessor-") for n in os.listdir(self.dir)), "the beginning")
        getting.send_signal(signal.SIGINT)
        err = getting.communicate(timeout=PATIENCE)[1]
        self.assertIn(getting.returncode, (130, 0), err)  # 0: it was faster
        self.assertEqual([n for n in os.listdir(self.dir) if n.startswith(".lessor-")], [])


class House(ObjectCase):
    def test_collection_spares_what_is_young_and_what_is_named(self):
        a = self.make("a", b"a")
        self.put("a")
        kept = self.lessor("object", "gc", "--json").json
        self.shape(kept, {"ok": bool, "dryRun": bool, "kept": int, "keptBytes": int, "removed": int,
                          "removedBytes": int, "missing": int})
        self.assertEqual((kept["kept"], kept["removed"]), (1, 0))
        would = self.lessor("object", "gc", "--grace", "0s", "--dry-run")
        self.assertIn("would remove 1 object, 1 B", would.out)
        self.assertEqual(self.lessor("object", "get", a).out, "a")
        os.utime(self.stored(a), (1000, 1000))
        self.assertIn("removed 1 object", self.lessor("object", "gc").out)
        self.lessor("object", "get", a, code=5)
        self.lessor("object", "gc", "--grace", "soon", code=2)

    def test_verification_finds_what_is_damaged(self):
        a, b = self.make("a", b"a"), self.make("b", b"b")
        self.put("a", "b")
        self.assertIn("sound: 2 objects", self.lessor("object", "verify").out)
        with open(self.stored(b), "wb") as f:
            f.write(b"c")
        found = self.lessor("object", "verify", code=1)
        self.assertIn(f"damaged: default {b}", found.out)
        answer = self.lessor("object", "verify", "--set-aside", "--repo", "default", "--json", code=1).json
        self.assertEqual(answer["damaged"], [{"repo": "default", "hash": b}])
        self.lessor("object", "get", b, code=5)
        self.put("b")
        self.assertEqual(self.lessor("object", "get", b).out, "b")
        self.lessor("object", "verify")
        self.assertEqual(self.lessor("object", "get", a).out, "a")

    def test_environments(self):
        env = "e" * 64
        self.make("base.tar", b"base" * 1000)
        self.make("extra.tar", b"extra" * 1000)
        published = self.lessor("env", "publish", env, "1.0.94", "--image", "python:3.12", "--tier", "py", "base.tar",
                                "extra.tar", "--json").json
        manifest = published["environment"]["manifest"]
        self.assertEqual([(layer["digest"], layer["sizeBytes"]) for layer in manifest["layers"]],
                         [("sha256:" + sha(b"base" * 1000), 4000), ("sha256:" + sha(b"extra" * 1000), 5000)])
        self.assertEqual(manifest["baseTier"], "py")
        listed = self.lessor("env", "ls", "--json").json
        self.shape(listed, {"environments": [{"envHash": str, "e3Version": str, "baseImage": str, "baseTier": str,
                                              "layers": int, "publishedAt": int}]})
        # Its layers are kept for as long as it is published.
        for data in (b"base" * 1000, b"extra" * 1000):
            os.utime(self.stored(sha(data), "env-layers"), (1000, 1000))
        self.assertEqual(self.lessor("object", "gc", "--json").json["removed"], 0)
        self.assertIn("not published", self.lessor("env", "rm", env, "1.0.94").out)
        self.lessor("env", "rm", env, "1.0.94", code=5)
        self.assertEqual(self.lessor("object", "gc", "--grace", "0s", "--json").json["removed"], 2)
        self.lessor("env", "publish", env, "1.0.94", code=2)
        self.assertIn("no layer", json.loads(self.raw(
            "POST", "/environments/publish", json.dumps(
                {"envHash": env, "e3Version": "1", "baseImage": "i", "baseTier": "py",
                 "layers": [{"digest": "sha256:" + "a" * 64}]}).encode())[2])["message"])


class FullDisk(ObjectCase):
    def setUp(self):
        super(ObjectCase, self).setUp()
        self.serve("--low-disk-bytes", str(1 << 60))

    def test_nothing_is_taken_when_the_disk_is_nearly_full(self):
        a = self.make("a", b"a")
        self.assertIn("nearly full", self.lessor("object", "put", "a", code=3).err)
        status, _, answer = self.raw("PUT", "/objects?repo=lab", b"x")
        self.assertEqual((status, json.loads(answer)["error"]), (503, "low-space"))
        self.lessor("object", "get", a, code=5)


class Api(ObjectCase):
    def test_bytes_go_up_and_down_as_they_are(self):
        data = os.urandom(1 << 20)
        status, _, body = self.raw("PUT", f"/objects?repo=lab&hash={sha(data)}", data)
        self.assertEqual((status, json.loads(body)), (200, {"ok": True, "repo": "lab", "hash": sha(data),
                                                            "size": len(data), "existed": False}))
        status, _, body = self.raw("PUT", "/objects?repo=lab", data)
        self.assertEqual((status, json.loads(body)["existed"]), (200, True))
        status, headers, body = self.raw("GET", f"/objects?repo=lab&hash={sha(data)}")
        self.assertEqual((status, body, headers["etag"]), (200, data, f'"{sha(data)}"'))

    def test_parts(self):
        data = bytes(range(256)) * 40
        self.raw("PUT", "/objects?repo=lab", data)
        path = f"/objects?repo=lab&hash={sha(data)}"
        for header, first, last in (("bytes=0-0", 0, 1), ("bytes=100-199", 100, 200), ("bytes=-5", len(data) - 5, None),
                                    ("bytes=10000-", 10000, None), ("bytes=10-99999999", 10, None)):
            status, headers, body = self.raw("GET", path, headers=[f"Range: {header}"])
            self.assertEqual((status, body), (206, data[first:last]), header)
            self.assertEqual(headers["content-range"],
                             f"bytes {first}-{(last or len(data)) - 1}/{len(data)}")
        status, headers, _ = self.raw("GET", path, headers=[f"Range: bytes={len(data)}-"])
        self.assertEqual((status, headers["content-range"]), (416, f"bytes */{len(data)}"))
        status, _, body = self.raw("GET", path, headers=["Range: bytes=1-2", 'If-Range: "other"'])
        self.assertEqual((status, body), (200, data))
        status, _, body = self.raw("GET", path, headers=["Range: bytes=1-2", f'If-Range: "{sha(data)}"'])
        self.assertEqual((status, body), (206, data[1:3]))

    def test_wrong_bytes_leave_nothing(self):
        for path, body, headers, wanted in (
                (f"/objects?repo=lab&hash={'0' * 64}", b"x", (), (400, "mismatch")),
                ("/objects?repo=lab&hash=ABC", b"x", (), (400, "invalid")),
                ("/objects?repo=.lab", b"x", (), (400, "invalid")),
                ("/objects", b"x", (), (400, "invalid")),
                ("/environments/layers?digest=md5:1", b"x", (), (400, "invalid")),
                (f"/environments/layers?digest=sha256:{'0' * 64}", b"x", (), (400, "mismatch")),
                ("/objects?repo=lab", b"x", ["Content-Length: 5368709121"], (413, "too-large"))):
            status, _, answer = self.raw("PUT", path, body, headers)
            self.assertEqual((status, json.loads(answer)["error"]), wanted, path)
        self.assertEqual(self.lessor("object", "ls", "--repo", "lab", "--json").json["objects"], [])
        tmp = os.path.join(self.data, "objects", "tmp")
        self.assertEqual([f for d in os.listdir(tmp) for f in os.listdir(os.path.join(tmp, d))], [])

    def test_a_body_that_stops_half_way_leaves_nothing(self):
        s = socket.socket(socket.AF_UNIX)
        s.connect(os.path.join(self.data, "control.sock"))
        s.sendall(b"PUT /api/control/v1/objects?repo=lab HTTP/1.1\r\nHost: x\r\nContent-Length: 1000000\r\n\r\n" +
                  b"x" * 500000)
        s.close()
        self.until(lambda: any(json.loads(line).get("route") == "object-put"
                               for line in self.read("lessord.log").splitlines()), "the end of the request")
        tmp = os.path.join(self.data, "objects", "tmp")
        self.until(lambda: not [f for d in os.listdir(tmp) for f in os.listdir(os.path.join(tmp, d))], "the tidying")
        self.assertEqual(self.lessor("object", "ls", "--repo", "lab", "--json").json["objects"], [])

    def test_chunks_without_a_length(self):
        body = b"5\r\nhello\r\n6\r\n world\r\n0\r\n\r\n"
        status, _, answer = self.raw("PUT", "/objects?repo=lab", body, ["Transfer-Encoding: chunked"])
        self.assertEqual((status, json.loads(answer)["hash"]), (200, sha(b"hello world")))

    def test_lists_go_by_pages(self):
        hashes = sorted(self.make(f"f{i}", bytes([i])) for i in range(5))
        self.put(*(f"f{i}" for i in range(5)))
        seen, after = [], ""
        while True:
            page = json.loads(self.raw("GET", f"/objects/list?repo=default&limit=2{after}")[2])
            seen += [o["hash"] for o in page["objects"]]
            if not page["more"]:
                break
            after = f"&after={page['next']}"
        self.assertEqual(seen, hashes)

    def test_touch_answers_in_order(self):
        a = self.make("a", b"abc")
        self.put("a")
        answer = self.raw("POST", "/objects/touch", json.dumps({"repo": "default", "hashes": ["b" * 64, a, "no"]}).encode())
        self.assertEqual(json.loads(answer[2]), {"sizes": [-1, 3, -1]})
        answer = self.raw("POST", "/objects/touch", json.dumps({"repo": "default", "hashes": ["a"] * 4097}).encode())
        self.assertEqual(answer[0], 400)


if __name__ == "__main__":
    unittest.main(verbosity=1)
