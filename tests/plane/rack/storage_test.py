# SPDX-License-Identifier: MIT
"""What a lease's guest may read and write (rack-protocol 6.6, 11 and 12)."""
import os
import unittest

import beast2
import rack_types
from data_support import Held, checksum, get, object_path, put, read_object, restarted, seed, sha256, staged
from harness import SECOND, VISIBILITY, Case, digest, each, function_event, task_event

FAST = Case.FAST
LARGEST = 5368709120


def output(data):
    return {"hash": sha256(data), "size": len(data)}


class StorageCase(Case):
    def assertBad(self, reply, status=400, code="bad_request"):
        self.assertRefused(reply, status, code)

    def kinds(self, targets):
        return [next(iter(t["target"])) if isinstance(t["target"], dict) else t["target"] for t in targets]


class Reading(StorageCase):
    @each(*FAST)
    def test_a_lease_that_is_not_held_is_forbidden(self, w):
        """R095"""
        held, stranger = Held(w, closure=[]), w.rack(["x"])
        self.assertForbidden(stranger.storage(held.lease))
        self.assertForbidden(stranger.storage({"repo": w.repo, "leaseId": "unknown"}))
        self.assertForbidden(stranger.storage(w.submit(w.name("t"))))
        w.cancel(held.lease)
        self.assertForbidden(held.storage())

    @each(*FAST, forms=("json",))
    def test_an_earlier_attempt_is_a_stranger(self, w):
        """Section 19"""
        held = Held(w, closure=[])
        self.assertEqual(held.storage(attempt=held.attempt).status, 200)
        self.assertForbidden(held.storage(attempt="0199c82c-c000-74ab-9574-0e5af39cba5e"))

    @each(*FAST)
    def test_a_need_outside_the_closure_forbids_the_whole_request(self, w):
        """R096"""
        inside, outside = seed(w, b"inside"), seed(w, w.name("outside").encode())
        held = Held(w, closure=[inside])
        for need in ([outside], [inside, outside], ["no hash"], [inside.upper()], [""]):
            self.assertForbidden(held.storage(need=need))
        data = w.name("new").encode()
        before = staged(w)
        self.assertForbidden(held.storage(need=[outside], outputs=[output(data)]))
        self.assertEqual(held.view().get("targets", 0), 0)
        self.assertEqual(staged(w), before)

    @each(*FAST)
    def test_needs_are_answered_in_order(self, w):
        """R097, R098, R100"""
        datas = [b"", b"small", b"x" * 4096, b"y" * 4097, b"z" * 100000]
        hashes = [seed(w, data) for data in datas]
        held = Held(w, closure=hashes)
        asked = [hashes[i] for i in (4, 0, 3, 3, 1, 2, 4)]
        answered = held.value(need=asked)["objects"]
        self.assertEqual([next(iter(o.values()))["hash"] for o in answered], asked)
        for object in answered:
            [(kind, value)] = object.items()
            data = datas[hashes.index(value["hash"])]
            if len(data) > 4096:
                self.assertEqual(kind, "url")
                answer = get(w, value["url"])
                self.assertEqual((answer.status, answer.body), (200, data))
            elif kind == "inline":
                self.assertEqual(value["data"], data)
        self.assertEqual(answered[0], answered[6])  # the same URL while it lives

    @each(*FAST, stores=("memory",))
    def test_an_answer_holds_only_so_much(self, w):
        """R098: what is small may come by URL as well"""
        datas = [b"%08d" % i * 512 for i in range(1100)]
        hashes = sorted(seed(w, data) for data in datas)
        event = task_event(w.repo, digest(w.name("task")))
        listing = seed(w, beast2.encode(rack_types.CLOSURE_LIST, hashes))
        event["closure"] = {"object": listing, "count": len(hashes)}
        kinds = [next(iter(o)) for o in Held(w, event=event).value(need=hashes)["objects"]]
        self.assertEqual(kinds, ["inline"] * 1024 + ["url"] * 76)

    @each(*FAST)
    def test_a_long_closure_and_its_list_can_be_read(self, w):
        """R099"""
        datas = [f"{w.repo} {i}".encode() for i in range(700)]
        hashes = sorted(seed(w, data) for data in datas)
        listing = beast2.encode(rack_types.CLOSURE_LIST, hashes)
        listed = seed(w, listing)
        event = task_event(w.repo, digest(w.name("task")))
        event["closure"] = {"object": listed, "count": len(hashes)}
        held = Held(w, event=event)
        url = held.value(need=[listed])["objects"][0]["url"]["url"]
        self.assertEqual(get(w, url).body, listing)
        objects = held.value(need=hashes[:256])["objects"]
        self.assertEqual([sha256(o["inline"]["data"]) for o in objects], hashes[:256])
        self.assertForbidden(held.storage(need=[seed(w, b"not listed")]))

    @each(*FAST)
    def test_a_closure_that_cannot_be_read_whole_is_an_error(self, w):
        """Section 20: whenever there is any need."""
        missing, there = digest(w.name("missing")), seed(w, b"there")
        held = Held(w, closure=[missing, there])
        self.assertBad(held.storage(need=[there]), 409, "conflict")
        self.assertEqual(held.storage().status, 200)
        wrong = task_event(w.repo, digest(w.name("task")))
        wrong["closure"] = {"object": seed(w, beast2.encode(rack_types.CLOSURE_LIST, [there])), "count": 2}
        other = Held(w, event=wrong)
        self.assertBad(other.storage(need=[there]), 409, "conflict")
        self.assertEqual(other.view()["status"], "claimed")

    @each(*FAST)
    def test_a_function_reads_and_does_not_write(self, w):
        """R107"""
        there = seed(w, b"argument")
        event = function_event(w.repo)
        event["closure"] = {"hashes": [there]}
        held = Held(w, event=event)
        self.assertEqual(held.value(need=[there])["objects"][0]["inline"]["data"], b"argument")
        one = output(b"x")
        self.assertForbidden(held.storage(outputs=[one]))
        self.assertForbidden(held.storage(commits=[{**one, "version": "v"}]))
        self.assertForbidden(held.storage(output=one))

    @each(*FAST)
    def test_an_object_of_another_repository_is_not_readable(self, w):
        """R096: section 1"""
        elsewhere = seed(w, w.name("elsewhere").encode(), repo=w.repo + "-other")
        held = Held(w, closure=[elsewhere])
        self.assertBad(held.storage(need=[elsewhere]), 409, "conflict")

    @each(*FAST)
    def test_environments_are_the_leases_own_and_published(self, w):
        """R119, R120"""
        own = digest(w.name("env"))
        held = Held(w, event=task_event(w.repo, digest(w.name("task")), environment=own))
        self.assertForbidden(held.storage(env=digest("another")))
        self.assertBad(held.storage(env=own), 404, "not_found")
        without = Held(w, closure=[])
        self.assertForbidden(without.storage(env=own))
        self.assertForbidden(without.storage(env=""))


class Writing(StorageCase):
    @each(*FAST)
    def test_every_output_has_its_target_in_order(self, w):
        """R101, R102"""
        new, old, other = (w.name(n).encode() for n in ("new", "old", "other"))
        seed(w, old)
        held = Held(w, closure=[])
        targets = held.declare(new, old, other, new)
        self.assertEqual([t["hash"] for t in targets], [sha256(d) for d in (new, old, other, new)])
        self.assertEqual(self.kinds(targets), ["put", "held", "put", "put"])
        self.assertEqual(targets[0], targets[3])
        self.assertEqual(targets[0]["target"]["put"]["headers"], {"x-amz-checksum-sha256": checksum(new)})
        self.assertEqual(held.declare(new), targets[:1])  # again: the same URL

    @each(*FAST)
    def test_256_outputs_are_taken_and_257_of_either_are_not(self, w):
        """R103"""
        held = Held(w, closure=[])
        outputs = [output(b"%d" % i) for i in range(257)]
        commits = [{**o, "version": "v"} for o in outputs]
        self.assertBad(held.storage(outputs=outputs))
        self.assertBad(held.storage(commits=commits))
        self.assertEqual(held.view().get("targets", 0), 0)
        self.assertEqual(len(held.value(outputs=outputs[:256], commits=commits[:256])["targets"]), 256)

    @each(*FAST)
    def test_one_bad_entry_issues_nothing(self, w):
        """R104"""
        held, good = Held(w, closure=[]), output(w.name("good").encode())
        hash = sha256(b"x")
        bad = [{"hash": "", "size": 1}, {"hash": hash.upper(), "size": 1}, {"hash": hash + "0", "size": 1},
               {"hash": hash, "size": -1}, {"hash": hash, "size": LARGEST + 1}]
        for entry in bad:
            self.assertBad(held.storage(outputs=[good, entry]))
            self.assertBad(held.storage(outputs=[good], commits=[{**entry, "version": "v"}]))
            self.assertBad(held.storage(outputs=[good], output=entry))
        self.assertEqual(held.view().get("targets", 0), 0)
        largest = held.value(outputs=[{"hash": sha256(b"huge"), "size": LARGEST}])
        self.assertEqual(self.kinds(largest["targets"]), ["put"])

    @each(*FAST)
    def test_a_lease_declares_at_most_4096_outputs(self, w):
        """R105, R106"""
        held = Held(w, closure=[])
        for at in range(0, 4096, 256):
            held.value(outputs=[output(b"%d" % i) for i in range(at, at + 256)])
        held.value(outputs=[output(b"%d" % i) for i in range(100, 356)])  # R106
        self.assertBad(held.storage(outputs=[output(b"0"), output(b"one more")]), 409, "conflict")
        self.assertEqual(self.kinds(held.declare(b"0")), ["put"])
        seed(w, b"there already")
        self.assertBad(held.storage(outputs=[output(b"there already")]), 409, "conflict")  # held ones count too
        self.assertEqual(held.commit({**output(b"never declared"), "version": "v"}), [False])  # and those do not

    @each(*FAST)
    def test_another_size_for_a_hash_is_an_error(self, w):
        """Section 20: before anything new is recorded, and the first binding stays good."""
        held, data = Held(w, closure=[]), w.name("data").encode()
        target = held.declare(data)[0]["target"]["put"]
        wrong = {"hash": sha256(data), "size": len(data) + 1}
        self.assertBad(held.storage(outputs=[output(b"fresh"), wrong]), 409, "conflict")
        self.assertEqual(held.view()["targets"], 1)
        self.assertEqual(put(w, target, data).status, 200)
        stored = seed(w, w.name("stored").encode())
        self.assertBad(held.storage(outputs=[{"hash": stored, "size": 1}]), 409, "conflict")
        twice = [output(b"twice"), {"hash": sha256(b"twice"), "size": 9}]
        self.assertBad(held.storage(outputs=twice), 409, "conflict")

    @each(*FAST)
    def test_a_commit_makes_an_object(self, w):
        """R111, R114"""
        held, data = Held(w, closure=[]), w.name("data").encode()
        commit = held.upload(data)
        self.assertIsNone(read_object(w, sha256(data)))
        self.assertEqual(held.commit(commit), [True])
        self.assertEqual(read_object(w, sha256(data)), data)
        self.assertEqual(held.commit(commit, commit), [True, True])
        self.assertEqual(self.kinds(held.declare(data)), ["held"])

    @each(*FAST)
    def test_a_commit_that_does_not_fit_is_false(self, w):
        """R112, R113: and the right one still works."""
        held, data, old = Held(w, closure=[]), w.name("data").encode(), w.name("old").encode()
        commit = held.upload(data)
        other = held.upload(w.name("other").encode())
        seed(w, old)
        held.declare(old)
        self.assertEqual(held.commit({**commit, "version": "wrong"}, {**commit, "version": ""},
                                     {**commit, "size": commit["size"] + 1}, {**commit, "version": other["version"]},
                                     {**output(b"undeclared"), "version": commit["version"]},
                                     {**output(old), "version": "v"}),
                         [False] * 6)
        self.assertIsNone(read_object(w, sha256(data)))
        self.assertEqual(held.commit({**commit, "version": "wrong"}, commit), [False, True])
        self.assertEqual(read_object(w, sha256(data)), data)

    @each(*FAST)
    def test_a_commit_is_for_the_attempt_that_sent(self, w):
        """R112, R115"""
        held, data = Held(w, closure=[]), w.name("data").encode()
        commit = held.upload(data)
        w.server.advance(VISIBILITY + SECOND)
        second = w.rack([held.tier])
        held.grant(second)
        self.assertForbidden(held.storage(commits=[commit]))
        held.rack = second
        self.assertEqual(held.commit(commit), [False])
        self.assertIsNone(read_object(w, sha256(data)))
        self.assertEqual(held.write(data), sha256(data))

    @each(*FAST)
    def test_one_request_may_do_everything(self, w):
        """R097, R101, R114: section 6.6, the order"""
        inside, one, two = seed(w, b"inside"), w.name("one").encode(), w.name("two").encode()
        held = Held(w, closure=[inside])
        commit = held.upload(one)
        value = held.value(need=[inside], output=output(two), outputs=[output(two)], commits=[commit])
        self.assertEqual(value["objects"][0]["inline"]["data"], b"inside")
        self.assertEqual(value["committed"], [{"hash": sha256(one), "committed": True}])
        self.assertEqual(self.kinds(value["targets"]), ["put"])
        self.assertNotEqual(value["output"]["url"], value["targets"][0]["target"]["put"]["url"])
        self.assertTrue(value["output"]["url"].endswith(value["output"]["uploadId"]))

    @each(*FAST)
    def test_what_is_not_committed_goes_with_the_lease(self, w):
        """R115"""
        import time
        held = Held(w, closure=[])
        kept, lost = w.name("kept").encode(), w.name("lost").encode()
        before = staged(w)
        held.write(kept)
        late = held.upload(lost)
        held.complete()
        self.assertForbidden(held.storage(commits=[late]))
        until = time.monotonic() + 5
        while late["version"] in staged(w) and time.monotonic() < until:
            time.sleep(0.002)
        self.assertNotIn(late["version"], staged(w))
        self.assertIsNone(read_object(w, sha256(lost)))
        self.assertEqual(read_object(w, sha256(kept)), kept)
        self.assertLessEqual(len(set(staged(w)) - set(before)), 1)

    def test_a_commit_that_stopped_half_way_goes_on(self):
        """R114: recorded, and its bytes not moved yet: asking again moves them, after a restart too"""
        def test(w, again):
            held, data = Held(w, closure=[]), w.name("data").encode()
            commit = held.upload(data)
            shard = os.path.dirname(object_path(w, sha256(data)))
            os.rename(shard, shard + ".away")
            for _ in range(2):
                self.assertRefused(held.storage(commits=[commit]), 500, "internal")
                again(held.rack)
            os.rename(shard + ".away", shard)
            self.assertIsNone(read_object(w, sha256(data)))
            self.assertEqual(held.commit(commit), [True])
            self.assertEqual(read_object(w, sha256(data)), data)
        restarted(self, test, kill=True)


if __name__ == "__main__":
    unittest.main()
