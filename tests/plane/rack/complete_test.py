# SPDX-License-Identifier: MIT
"""The end of a lease by its rack (rack-protocol 6.5, 10, 13 and 20)."""
import json
import threading
import unittest

from data_support import Held, put, read_object, seed, sha256, staged
from harness import MINUTE, SECOND, VISIBILITY, Case, digest, each, function_event, ref

FAST = Case.FAST
SUCCESS = {"taskName": "t", "status": "success"}
FAILED = {"taskName": "t", "status": "failed"}


def tree(*files):
    """A tree object that names these: (path, hash, size)."""
    entries = [{"type": "file", "path": path, "mode": "644", "hash": hash, "size": size} for path, hash, size in files]
    return json.dumps({"format": "lessor.tree/1", "entries": entries}, separators=(",", ":")).encode()


class CompleteCase(Case):
    def assertDisposition(self, reply, disposition):
        self.assertEqual((reply.status, reply.code), (200, None), reply)
        self.assertEqual(reply.value, {"disposition": disposition})

    def assertStillHeld(self, held):
        self.assertEqual(held.view()["status"], "claimed")

    def assertBad(self, held, result):
        """400 in JSON, ERR in BEAST2; and the lease stays as it is."""
        text = result if isinstance(result, str) else json.dumps(result)
        reply = held.rack.call("complete", {**ref(held.lease), "resultJson": text, "outputUploadId": None,
                                            "inlineOutput": None})
        self.assertRefused(reply, 400, "bad_request")
        self.assertStillHeld(held)

    def attempts(self, held):
        return held.w.inspect(held.lease)["attempts"]


class Dispositions(CompleteCase):
    @each(*FAST)
    def test_the_first_result_is_recorded_and_stands(self, w):
        """R068, R069"""
        held = Held(w, closure=[])
        first, other = {**FAILED, "error": "first", "exitCode": 3}, {**FAILED, "error": "other", "exitCode": 4}
        self.assertDisposition(held.complete(first), "recorded")
        self.assertDisposition(held.complete(first), "idempotent")
        self.assertDisposition(held.complete(other), "idempotent")
        self.assertDisposition(held.complete({**SUCCESS, "outputHash": digest("none")}), "idempotent")
        self.assertEqual(held.view()["result"], first)
        w.server.advance(14 * MINUTE)  # section 20: at least as long as a terminal lease is kept
        self.assertDisposition(held.complete(other), "idempotent")

    @each(*FAST)
    def test_whoever_asks_of_a_completed_lease_hears_that_it_is(self, w):
        """R068: section 6.5, idempotent"""
        held, stranger = Held(w, closure=[]), w.rack(["other"])
        held.complete()
        self.assertDisposition(stranger.complete(held.lease), "idempotent")

    @each(*FAST)
    def test_a_result_for_a_lease_that_was_ended_is_discarded(self, w):
        """R070"""
        for end in (w.cancel, w.supersede):
            held = Held(w, closure=[])
            end(held.lease)
            self.assertDisposition(held.complete(SUCCESS, inline=b"too late"), "discarded")
            self.assertIsNone(read_object(w, sha256(b"too late")))
            self.assertIn(held.view()["status"], ("cancelled", "superseded"))
            self.assertNotIn("result", held.view())

    @each(*FAST)
    def test_a_result_for_a_lease_that_another_holds_is_discarded(self, w):
        """R071"""
        held = Held(w, closure=[])
        w.server.advance(VISIBILITY + SECOND)
        second = w.rack([held.tier])
        held.grant(second)
        self.assertDisposition(held.complete(SUCCESS, inline=b"late"), "discarded")
        self.assertIsNone(read_object(w, sha256(b"late")))
        self.assertStillHeld(held)
        self.assertDisposition(second.complete(held.lease), "recorded")

    @each(*FAST)
    def test_a_result_for_an_unknown_or_pending_lease_is_discarded(self, w):
        """R072"""
        rack = w.rack(["x"])
        self.assertDisposition(rack.complete({"repo": w.repo, "leaseId": "a#b#c"}, inline=b"x"), "discarded")
        pending = w.submit(w.name("t"))
        self.assertDisposition(rack.complete(pending, SUCCESS), "discarded")
        self.assertEqual(w.view(pending)["status"], "pending")
        self.assertIsNone(read_object(w, sha256(b"x")))

    @each(*FAST, forms=("json",))
    def test_a_word_of_an_earlier_attempt_is_a_strangers(self, w):
        """Section 19: `attempt`."""
        held = Held(w, closure=[])
        first = held.attempt
        w.server.advance(VISIBILITY + SECOND)
        held.rack.boot = "boot-2"  # another start of the same machine
        held.rack.beat()
        held.grant()
        self.assertNotEqual(held.attempt, first)
        self.assertDisposition(held.complete(SUCCESS, inline=b"of old", attempt=first), "discarded")
        self.assertIsNone(read_object(w, sha256(b"of old")))
        self.assertDisposition(held.complete(FAILED, attempt=held.attempt), "recorded")

    @each(*FAST)
    def test_completed_wins_over_what_comes_later(self, w):
        """R091"""
        held = Held(w, closure=[])
        self.assertDisposition(held.complete(), "recorded")
        for end in (w.cancel, w.supersede):
            self.assertEqual(end(held.lease)["status"], "completed")
        self.assertEqual(held.view()["status"], "completed")

    @each(*FAST)
    def test_a_race_with_a_cancellation_has_one_of_two_ends(self, w):
        """R092"""
        for round in range(8):
            held, replies = Held(w, closure=[]), []
            threads = [threading.Thread(target=lambda: replies.append(held.complete())),
                       threading.Thread(target=lambda: w.cancel(held.lease))]
            for thread in threads if round % 2 else reversed(threads):
                thread.start()
            for thread in threads:
                thread.join()
            ends = replies[0].value["disposition"], held.view()["status"]
            self.assertIn(ends, (("recorded", "completed"), ("discarded", "cancelled")))

    @each(*FAST)
    def test_of_many_at_once_one_is_recorded(self, w):
        """R068"""
        held, replies = Held(w, closure=[]), []
        threads = [threading.Thread(target=lambda i=i: replies.append(held.complete({**FAILED, "exitCode": i})))
                   for i in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        dispositions = sorted(reply.value["disposition"] for reply in replies)
        self.assertEqual(dispositions, ["idempotent"] * 7 + ["recorded"])


class Validation(CompleteCase):
    @each(*FAST)
    def test_every_member_is_checked(self, w):
        """R073 to R082: the lease stays claimed, and the right result is taken then."""
        held = Held(w, closure=[])
        for text in ("", "null", "[]", "7", '"text"', "{", '{"taskName":"t","status":"failed"} x'):
            self.assertBad(held, text)  # R073
        self.assertBad(held, {"status": "failed"})  # R074
        self.assertBad(held, {"taskName": "t"})  # R075
        wrong = {
            "taskName": (7, None, ["t"]),  # R074
            "status": ("ok", "Success", None, True),  # R075
            "state": ("done", "cancelled", None, 1, "success"),  # R076, R077
            "outputHash": ("", "abc", digest("x").upper(), None, 7),  # R080
            "exitCode": (1.5, "1", None, 2 ** 53, True),  # R078
            "error": (7, None, False),  # R081
            "peakBytes": (-1, 0.5, None, "1", 2 ** 53),  # R079
            "cancelled": (1, "true", None),  # R081
            "duration": (-1, -0.5, None, "1"),  # R079
        }
        for key, values in wrong.items():
            for value in values:
                self.assertBad(held, {**FAILED, key: value})
        self.assertBad(held, {**SUCCESS, "state": "failed"})  # R077
        self.assertBad(held, {**SUCCESS, "state": "error"})
        self.assertBad(held, '{"taskName":"t","status":"failed","duration":1e400}')
        result = '{"taskName":1,"taskName":"other","status":"failed","exitCode":-0,"peakBytes":1e3,"duration":0.5,' \
                 '"state":"failed","detached":null,"extra":[1e400],"cancelled":false}'
        reply = held.rack.call("complete", {**ref(held.lease), "resultJson": result, "outputUploadId": None,
                                            "inlineOutput": None})
        self.assertDisposition(reply, "recorded")

    @each(*FAST)
    def test_validation_comes_first_for_everybody(self, w):
        """Section 20: also of a lease that is completed, unknown or another's."""
        held, rack = Held(w, closure=[]), w.rack(["x"])
        held.complete()
        for lease in (held.lease, {"repo": w.repo, "leaseId": "unknown"}):
            self.assertRefused(rack.complete(lease, {"status": "failed"}), 400, "bad_request")

    @each(*FAST)
    def test_a_result_may_be_as_large_and_as_deep_as_section_20_says(self, w):
        """Section 20: 64 levels, and up to the body's limit; kept whole."""
        held = Held(w, closure=[])
        deep = 1
        for _ in range(63):
            deep = [deep]
        result = {**FAILED, "detached": {"stdout": "x" * 1000000}, "deep": deep, "unknown": {"a": None}}
        self.assertBad(held, {**FAILED, "deep": [deep]})
        self.assertDisposition(held.complete(result), "recorded")
        self.assertEqual(held.view()["result"], result)


class Outputs(CompleteCase):
    @each(*FAST)
    def test_an_inline_output_is_stored_under_its_own_hash(self, w):
        """R083"""
        for declared in ({}, {"outputHash": digest("something else")}):
            held, data = Held(w, closure=[]), w.name("inline").encode()
            self.assertDisposition(held.complete({**SUCCESS, **declared}, inline=data), "recorded")
            self.assertEqual(read_object(w, sha256(data)), data)
            self.assertEqual(self.attempts(held)[-1]["outputHash"], sha256(data))
            self.assertEqual(held.view()["result"]["outputHash"], sha256(data))

    @each(*FAST)
    def test_an_inline_output_has_at_most_4096_bytes(self, w):
        """R084"""
        held = Held(w, closure=[])
        self.assertRefused(held.complete(SUCCESS, inline=b"x" * 4097), 413, "too_large")
        self.assertStillHeld(held)
        self.assertDisposition(held.complete(SUCCESS, inline=b"x" * 4096), "recorded")
        empty = Held(w, closure=[])
        self.assertDisposition(empty.complete(SUCCESS, inline=b""), "recorded")
        self.assertEqual(read_object(w, sha256(b"")), b"")

    @each(*FAST)
    def test_a_whole_output_is_staged_and_taken_in(self, w):
        """R085, R086: section 6.5 step 2"""
        data = w.name("output").encode() * 1000
        held = Held(w, closure=[])
        output = held.value(output={"hash": sha256(data), "size": len(data)})["output"]
        self.assertRefused(held.complete(SUCCESS, upload=output["uploadId"]), 400, "bad_request")  # R085
        self.assertRefused(held.succeed(sha256(data), upload=output["uploadId"]), 409, "conflict")  # not sent yet
        self.assertRefused(held.succeed(sha256(data), upload="0" * 64), 409, "conflict")
        self.assertStillHeld(held)
        self.assertEqual(put(w, output, data).status, 200)
        self.assertRefused(held.succeed(digest("other"), upload=output["uploadId"]), 409, "conflict")  # R086
        self.assertStillHeld(held)
        self.assertIsNone(read_object(w, sha256(data)))
        self.assertDisposition(held.succeed(sha256(data), upload=output["uploadId"]), "recorded")
        self.assertEqual(read_object(w, sha256(data)), data)

    @each(*FAST)
    def test_a_staged_output_that_changed_on_the_disk_does_not_verify(self, w):
        """R086: verified again at complete (section 20)."""
        import os
        data = w.name("output").encode()
        held = Held(w, closure=[])
        output = held.value(output={"hash": sha256(data), "size": len(data)})["output"]
        before = staged(w)
        self.assertEqual(put(w, output, data).status, 200)
        [receipt] = set(staged(w)) - set(before)
        path = os.path.join(w.server.data, "objects", "repos", w.repo, "staged", receipt)
        os.chmod(path, 0o600)
        with open(path, "r+b") as f:
            f.write(b"X")
        self.assertRefused(held.succeed(sha256(data), upload=output["uploadId"]), 409, "conflict")
        self.assertStillHeld(held)
        self.assertIsNone(read_object(w, sha256(data)))

    @each(*FAST)
    def test_a_staged_output_is_taken_in_while_its_url_lives(self, w):
        """Section 7"""
        data = w.name("output").encode()
        held = Held(w, closure=[])
        output = held.value(output={"hash": sha256(data), "size": len(data)})["output"]
        self.assertEqual(put(w, output, data).status, 200)
        held.outlive(15 * MINUTE)
        self.assertRefused(held.succeed(sha256(data), upload=output["uploadId"]), 409, "conflict")
        again = held.value(output={"hash": sha256(data), "size": len(data)})["output"]
        self.assertEqual(again, output)  # the same URL for another quarter of an hour
        self.assertDisposition(held.succeed(sha256(data), upload=output["uploadId"]), "recorded")

    @each(*FAST)
    def test_a_success_needs_an_output(self, w):
        """R087"""
        held = Held(w, closure=[])
        self.assertRefused(held.complete(SUCCESS), 400, "bad_request")
        self.assertStillHeld(held)
        self.assertDisposition(held.complete(), "recorded")

    @each(*FAST)
    def test_everything_that_an_output_names_must_be_there(self, w):
        """R088"""
        held, leaf = Held(w, closure=[]), w.name("leaf").encode()
        root = tree(("a", sha256(leaf), len(leaf)))
        self.assertRefused(held.succeed(sha256(root)), 409, "conflict")  # not even the root
        held.write(root)
        reply = held.succeed(sha256(root))
        self.assertRefused(reply, 409, "conflict")
        self.assertIn(sha256(leaf), reply.message)
        self.assertStillHeld(held)
        self.assertEqual(self.attempts(held)[-1]["state"], "running")
        held.write(leaf)
        self.assertDisposition(held.succeed(sha256(root)), "recorded")
        self.assertEqual(self.attempts(held)[-1]["state"], "success")

    @each(*FAST)
    def test_an_output_that_lies_about_a_size_is_not_whole(self, w):
        """R088"""
        held, leaf = Held(w, closure=[]), w.name("leaf").encode()
        root = tree(("a", sha256(leaf), len(leaf) + 1))
        held.write(leaf)
        held.write(root)
        self.assertRefused(held.succeed(sha256(root)), 409, "conflict")
        self.assertStillHeld(held)

    @each(*FAST)
    def test_a_failed_completion_stores_nothing(self, w):
        """R089"""
        held, data = Held(w, closure=[]), w.name("inline").encode()
        self.assertDisposition(held.complete(FAILED, inline=data, upload="whatever"), "recorded")
        self.assertIsNone(read_object(w, sha256(data)))
        big = Held(w, closure=[])
        self.assertDisposition(big.complete(FAILED, inline=b"x" * 5000), "recorded")  # section 20: R084 is for success

    @each(*FAST)
    def test_a_function_writes_nothing(self, w):
        """Section 17"""
        held = Held(w, event=function_event(w.repo))
        self.assertRefused(held.complete(SUCCESS, inline=b"x"), 400, "bad_request")
        self.assertRefused(held.complete(SUCCESS, upload="x"), 400, "bad_request")
        self.assertStillHeld(held)
        result = {**SUCCESS, "detached": {"kind": "success", "valueB64": "AA=="}}
        self.assertDisposition(held.complete(result), "recorded")
        self.assertEqual(held.view()["result"]["detached"]["valueB64"], "AA==")
        failed = Held(w, event=function_event(w.repo))
        self.assertDisposition(failed.complete(FAILED, inline=b"x", upload="x"), "recorded")

    @each(*FAST)
    def test_a_shared_output_is_referenced_and_kept(self, w):
        """R088: what the store had before counts."""
        held = Held(w, closure=[])
        self.assertDisposition(held.succeed(seed(w, b"old output")), "recorded")


class Attempts(CompleteCase):
    @each(*FAST)
    def test_what_is_recorded_of_each_outcome(self, w):
        """R090, R093, R094: section 10"""
        cases = [
            ({**FAILED, "exitCode": 7, "peakBytes": 99}, {"state": "failed", "exitCode": 7, "peakBytes": 99}),
            ({**FAILED, "error": "boom"}, {"state": "failed", "exitCode": -1, "reason": "boom"}),  # R094
            ({**FAILED, "state": "error", "error": "no disk"}, {"state": "error", "reason": "no disk"}),
            ({**FAILED, "cancelled": True, "error": "stopped"}, {"state": "cancelled", "reason": "stopped"}),  # R093
            ({**FAILED, "cancelled": True, "state": "error"}, {"state": "cancelled"}),
        ]
        for result, expected in cases:
            held = Held(w, closure=[])
            self.assertDisposition(held.complete(result), "recorded")
            attempt = self.attempts(held)[-1]
            self.assertEqual({key: attempt.get(key) for key in expected}, expected, attempt)
            self.assertEqual(attempt["executionId"], held.attempt)

    @each(*FAST)
    def test_a_result_that_says_cancelled_leaves_its_line(self, w):
        """R093: section 10, stderr"""
        held = Held(w, closure=[])
        held.rack.logs(held.lease, ("stderr", "working"))
        held.complete({**FAILED, "cancelled": True, "error": "the run\nwas aborted"})
        self.assertEqual(held.log("stderr"), "working\ne3: the run was aborted\n")
        self.assertEqual(held.log("stdout"), "")
        plain = Held(w, closure=[])
        plain.complete({**FAILED, "cancelled": True})
        self.assertEqual(plain.log("stderr"), "e3: cancelled\n")

    @each(*FAST)
    def test_a_cancelled_success_is_checked_and_reads_cancelled(self, w):
        """Section 20"""
        held = Held(w, closure=[])
        result = {**SUCCESS, "cancelled": True}
        self.assertRefused(held.complete({**result, "outputHash": digest("missing")}), 409, "conflict")
        self.assertStillHeld(held)
        self.assertDisposition(held.complete(result, inline=b"partial"), "recorded")
        self.assertEqual(self.attempts(held)[-1]["state"], "cancelled")

    @each(*FAST)
    def test_what_was_posted_is_readable_once_recorded(self, w):
        """R090"""
        held = Held(w, closure=[])
        held.rack.logs(held.lease, ("stdout", "a\n"))
        held.rack.logs(held.lease, ("stdout", "b\n"))
        self.assertDisposition(held.complete(), "recorded")
        self.assertEqual(held.log("stdout"), "a\nb\n")
        self.assertNotEqual(self.attempts(held)[-1]["state"], "running")

    @each(*FAST)
    def test_what_the_host_ends_leaves_a_line(self, w):
        """R070: section 10, stderr of attempts that are cancelled or superseded"""
        import time
        for end, expected in ((lambda l: w.cancel(l, reason="not needed"), "e3: not needed\n"),
                              (w.cancel, "e3: cancelled\n"), (w.supersede, "e3: superseded\n")):
            held = Held(w, closure=[])
            held.rack.logs(held.lease, ("stderr", "half a line"))
            end(held.lease)
            until = time.monotonic() + 5
            while not held.log("stderr").endswith(expected) and time.monotonic() < until:
                time.sleep(0.002)
            self.assertEqual(held.log("stderr"), "half a line\n" + expected)


if __name__ == "__main__":
    unittest.main()
