# SPDX-License-Identifier: MIT
"""Published environments, and what a collection of objects spares (rack-protocol 11, 12 and 18)."""
import json
import unittest

from data_support import Held, get, read_object, seed, sha256
from harness import HOUR, Case, Refused, digest, each, task_event

FAST = Case.FAST
VERSION = "1.0.86"
LAYERS = "env-layers"


def put_layer(w, data):
    answer = w.server.ask_control("PUT", "/environments/layers?digest=sha256:" + sha256(data), data)
    assert answer.status == 200, answer
    return {"digest": "sha256:" + sha256(data), "mediaType": "application/vnd.oci.image.layer.v1.tar"}


def publish(w, env, *layers, version=VERSION):
    return w.server.control("/environments/publish", {"envHash": env, "e3Version": version, "baseImage": "base:1",
                                                      "baseTier": "py", "layers": list(layers)})["environment"]


class Environments(Case):
    @each(*FAST, "--rack-version", VERSION)
    def test_an_environment_comes_with_its_layers_in_order(self, w):
        """R121"""
        env, datas = digest(w.name("env")), [w.name("layer").encode() * 3000, b"small layer", w.name("top").encode()]
        publish(w, env, *(put_layer(w, data) for data in datas))
        held = Held(w, event=task_event(w.repo, digest(w.name("task")), environment=env))
        answer = held.value(env=env)["env"]
        manifest = json.loads(answer["manifestJson"])
        self.assertEqual((manifest["envHash"], manifest["e3Version"], manifest["baseImage"], manifest["baseTier"]),
                         (env, VERSION, "base:1", "py"))
        self.assertEqual([l["digest"] for l in manifest["layers"]], ["sha256:" + sha256(data) for data in datas])
        self.assertEqual([(l["digest"], l["sizeBytes"]) for l in answer["layers"]],
                         [("sha256:" + sha256(data), len(data)) for data in datas])
        for layer, data in zip(answer["layers"], datas):
            got = get(w, layer["url"])
            self.assertEqual((got.status, got.body), (200, data))
        self.assertEqual(held.value(env=env)["env"], answer)
        held.complete()
        self.assertEqual(get(w, answer["layers"][0]["url"]).status, 404)  # R116

    @each(*FAST, "--rack-version", VERSION)
    def test_only_the_servers_version_and_the_leases_own(self, w):
        """R119, R120"""
        env, other = digest(w.name("env")), digest(w.name("other"))
        publish(w, env, put_layer(w, b"layer"), version="1.0.85")
        publish(w, other, put_layer(w, b"layer"))
        held = Held(w, event=task_event(w.repo, digest(w.name("task")), environment=env))
        self.assertRefused(held.storage(env=env), 404, "not_found")
        self.assertForbidden(held.storage(env=other))
        self.assertEqual(held.view()["status"], "claimed")
        publish(w, env)
        self.assertEqual(held.value(env=env)["env"]["layers"], [])

    @each(*FAST)
    def test_no_lease_is_of_the_repository_of_layers(self, w):
        """R119: section 1, nobody reads layers but those of the lease's own environment"""
        put_layer(w, b"layer")
        with self.assertRaises(Refused):
            w.submit(w.name("t"), task_event(LAYERS, digest("task"), closure=[sha256(b"layer")]), repo=LAYERS)


class Collection(Case):
    @each(*FAST)
    def test_a_collection_spares_what_leases_need(self, w):
        """R115: section 18, closures, declared targets and outputs"""
        names = ("closure", "target", "output", "garbage")
        data = {name: w.name(name).encode() for name in names}
        for name in names:
            seed(w, data[name])
        running, done = Held(w, closure=[sha256(data["closure"])]), Held(w, closure=[])
        running.declare(data["target"])
        done.succeed(sha256(data["output"]))
        layer = w.name("layer").encode()
        publish(w, digest(w.name("env")), put_layer(w, layer))
        self.collect(w)
        self.assertEqual({name: read_object(w, sha256(data[name])) is not None for name in names},
                         {"closure": True, "target": True, "output": True, "garbage": False})
        self.assertIsNotNone(read_object(w, sha256(layer), LAYERS))
        running.complete()
        self.collect(w)
        self.assertIsNone(read_object(w, sha256(data["closure"])))
        self.assertIsNotNone(read_object(w, sha256(data["output"])))
        w.server.advance(HOUR)  # the lease is forgotten, and with it why
        self.collect(w)
        self.assertIsNone(read_object(w, sha256(data["output"])))

    def collect(self, w):
        w.server.advance(1)
        return w.server.control("/objects/gc", {"graceMs": 0})

    @each(*FAST, "--rack-collect-ms", "50", "--rack-collect-grace-ms", "0", forms=("json",))
    def test_it_is_done_by_itself(self, w):
        """R115: section 18"""
        import time
        wanted, garbage = seed(w, w.name("wanted").encode()), seed(w, w.name("garbage").encode())
        held = Held(w, closure=[wanted])
        w.server.advance(1)
        end = time.monotonic() + 10
        while read_object(w, garbage) is not None and time.monotonic() < end:
            time.sleep(0.01)
        self.assertIsNone(read_object(w, garbage))
        self.assertIsNotNone(read_object(w, wanted))
        self.assertEqual(held.view()["status"], "claimed")


if __name__ == "__main__":
    unittest.main()
