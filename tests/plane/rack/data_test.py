# SPDX-License-Identifier: MIT
"""Capability URLs (rack-protocol 7 and 20)."""
import os
import time
import unittest

from data_support import Held, checksum, get, path_of, put, read_object, restarted, seed, sha256, staged, status_of_head
from harness import MINUTE, SECOND, SOON, START_MS, VISIBILITY, Case, Request, World, each

FAST = Case.FAST
LIFE = 15 * MINUTE


class DataCase(Case):
    def assertUnknown(self, answer):
        self.assertEqual((answer.status, answer.json["error"]), (404, "not_found"))

    def reading(self, held, hash):
        """A URL to read an object."""
        return held.value(need=[hash])["objects"][0]["url"]["url"]

    def writing(self, held, data):
        return held.declare(data)[0]["target"]["put"]

    def until(self, condition):
        end = time.monotonic() + SOON
        while not condition():
            self.assertLess(time.monotonic(), end, "it never came to that")
            time.sleep(0.002)


class Get(DataCase):
    @each(*FAST)
    def test_the_bytes_are_those_of_the_hash(self, w):
        """R100"""
        data = os.urandom(3000000)
        held = Held(w, closure=[seed(w, data)])
        answer = get(w, self.reading(held, sha256(data)))
        self.assertEqual((answer.status, sha256(answer.body)), (200, sha256(data)))
        self.assertEqual(answer.headers["etag"], f'"{sha256(data)}"')

    @each(*FAST)
    def test_a_part_can_be_had(self, w):
        """R100: a transfer that broke off goes on where it stopped"""
        data = os.urandom(100000)
        held = Held(w, closure=[seed(w, data)])
        url = self.reading(held, sha256(data))
        for range, part in (("bytes=10-19", data[10:20]), ("bytes=99990-", data[99990:]), ("bytes=-5", data[-5:])):
            answer = get(w, url, Range=range)
            self.assertEqual((answer.status, answer.body), (206, part))
        self.assertEqual(get(w, url, Range="bytes=50000-59999", If_Range=f'"{sha256(data)}"').status, 206)
        self.assertEqual(get(w, url, Range="bytes=100000-").status, 416)

    @each(*FAST)
    def test_authorization_is_refused_first_and_all_else_is_unknown(self, w):
        """R118"""
        data = b"x" * 5000
        held = Held(w, closure=[seed(w, data)])
        url, target = self.reading(held, sha256(data)), self.writing(held, w.name("new").encode())
        for path in (url, target["url"], url[:-1] + "g"):
            self.assertEqual(get(w, path, Authorization="Bearer " + held.rack.token).status, 400)
            self.assertEqual(get(w, path, method="PUT", Authorization="x").status, 400)
            self.assertEqual(get(w, path, method="DELETE", Authorization="x").status, 400)
        self.assertEqual((status_of_head(w, url), status_of_head(w, target["url"])), (404, 404))
        for method in ("POST", "PUT", "DELETE", "OPTIONS"):
            self.assertEqual(get(w, url, method=method).status, 404, method)
        for method in ("GET", "POST"):
            self.assertEqual(get(w, target["url"], method=method).status, 404, method)
        self.assertUnknown(get(w, url[:-64] + "0" * 64))
        for path in ("/api/rack/data/", "/api/rack/data", path_of(url) + "/", path_of(url).replace("/data/", "/Data/")):
            self.assertEqual(w.server.ask(Request("GET", path, {}, b"")).status, 404, path)
        self.assertEqual(get(w, url).status, 200)

    @each(*FAST, "--log-level", "info", forms=("json",))
    def test_a_url_is_not_logged(self, w):
        """R118: section 7, whoever has the URL has the bytes"""
        held = Held(w, closure=[seed(w, b"x" * 5000)])
        url, target = self.reading(held, sha256(b"x" * 5000)), self.writing(held, w.name("new").encode())
        get(w, url)
        get(w, url, method="POST")
        put(w, target, b"wrong")
        end = time.monotonic() + SOON
        while w.server.log().count('"path":"/api/rack/data/*"') < 3 and time.monotonic() < end:
            time.sleep(0.01)
        log = w.server.log()
        self.assertEqual(log.count('"path":"/api/rack/data/*"'), 3)
        for secret in (url, target["url"]):
            self.assertNotIn(secret[-64:], log)

    @each(*FAST)
    def test_a_url_dies_with_the_lease(self, w):
        """R116"""
        data = b"x" * 5000
        hash = seed(w, data)
        for end in (lambda held: w.cancel(held.lease), lambda held: w.supersede(held.lease),
                    lambda held: held.complete(), lambda held: w.remove(held.rack)):
            held = Held(w, closure=[hash])
            url, target = self.reading(held, hash), self.writing(held, w.name("new").encode())
            self.assertEqual(get(w, url).status, 200)
            end(held)
            self.assertUnknown(get(w, url))
            self.assertUnknown(put(w, target, b"new"))

    @each(*FAST)
    def test_a_url_dies_with_the_attempt(self, w):
        """R116"""
        hash = seed(w, b"x" * 5000)
        held, new = Held(w, closure=[hash]), w.name("new").encode()
        url, target = self.reading(held, hash), self.writing(held, new)
        w.server.advance(VISIBILITY + SECOND)
        self.assertEqual(get(w, url).status, 200)  # nobody took it up yet
        second = w.rack([held.tier])
        held.grant(second)
        self.assertUnknown(get(w, url))
        self.assertUnknown(put(w, target, new))
        held.rack = second
        self.assertNotEqual(self.reading(held, hash), url)
        self.assertNotEqual(self.writing(held, new)["url"], target["url"])

    @each(*FAST)
    def test_a_url_lives_for_15_minutes(self, w):
        """R117: asking for it again does not lengthen its life, and a new one works."""
        hash = seed(w, b"x" * 5000)
        held, new = Held(w, closure=[hash]), w.name("new").encode()
        url, target = self.reading(held, hash), self.writing(held, new)
        held.outlive(LIFE - 10 * SECOND)
        self.assertEqual(self.reading(held, hash), url)
        self.assertEqual(self.writing(held, new), target)
        held.outlive(10 * SECOND - 1)
        self.assertEqual(get(w, url).status, 200)
        w.server.advance(1)
        self.assertUnknown(get(w, url))
        self.assertUnknown(put(w, target, new))
        self.assertEqual(get(w, self.reading(held, hash)).status, 200)
        self.assertEqual(self.writing(held, new), target)  # the same, for another quarter of an hour
        self.assertEqual(put(w, target, new).status, 200)


class Put(DataCase):
    @each(*FAST)
    def test_wrong_bytes_are_refused_and_the_right_ones_taken(self, w):
        """R108, R109"""
        held, data = Held(w, closure=[]), w.name("data").encode() * 100
        target, before = self.writing(held, data), staged(w)
        wrong = data[:-1] + b"!"
        for body in (wrong, data[:-1], data + b"!", b""):
            self.assertEqual(put(w, target, body).status, 400, len(body))
        self.assertEqual(staged(w), before)
        answer = put(w, target, data)
        self.assertEqual(answer.status, 200)
        self.assertTrue(answer.headers["x-amz-version-id"])
        self.assertIsNone(read_object(w, sha256(data)))  # R111

    @each(*FAST)
    def test_the_length_need_not_be_told(self, w):
        """R108: chunked"""
        held, data = Held(w, closure=[]), w.name("data").encode() * 100
        target = self.writing(held, data)

        def send(body):
            with w.server.wire() as wire:
                head = Request("PUT", path_of(target["url"]), target["headers"], b"").head("Transfer-Encoding: chunked")
                wire.send(head + b"".join(b"%x\r\n%s\r\n" % (len(part), part) for part in (body[:10], body[10:])) +
                          b"0\r\n\r\n")
                return wire.answer()
        self.assertEqual(send(data + b"!").status, 400)
        self.assertEqual(send(data[:-1]).status, 400)
        self.assertEqual(send(data).status, 200)

    @each(*FAST)
    def test_a_checksum_other_than_declared_is_a_conflict(self, w):
        """R108: section 7, a changed declaration"""
        held, data = Held(w, closure=[]), w.name("data").encode()
        target = self.writing(held, data)
        for value in (checksum(b"other"), "", "no base64", checksum(data)[:-4]):
            self.assertEqual(put(w, target, data, {"x-amz-checksum-sha256": value}).status, 409, value)
        self.assertEqual(put(w, {"url": target["url"]}, data).status, 200)  # the URL alone binds it too

    @each(*FAST)
    def test_an_acknowledgement_repeats(self, w):
        """R110: whatever the bytes (section 20)"""
        held, data = Held(w, closure=[]), w.name("data").encode() * 1000
        target = self.writing(held, data)
        first = put(w, target, data)
        self.assertEqual(first.status, 200)
        kept = staged(w)
        for body in (data, b"other", b"", data + data):
            again = put(w, target, body)
            self.assertEqual(again.status, 200)
            self.assertEqual(again.headers["x-amz-version-id"], first.headers["x-amz-version-id"])
        self.assertEqual(staged(w), kept)
        commit = {"hash": sha256(data), "size": len(data), "version": first.headers["x-amz-version-id"]}
        self.assertEqual(held.commit(commit), [True])
        self.assertEqual(put(w, target, b"").headers["x-amz-version-id"], commit["version"])
        self.assertEqual(held.commit(commit), [True])

    @each(*FAST)
    def test_an_empty_object_is_an_object(self, w):
        """R108, R114"""
        held = Held(w, closure=[])
        target = held.declare(b"")[0]["target"]["put"]
        self.assertEqual(put(w, target, b"x").status, 400)
        self.assertEqual(held.write(b""), sha256(b""))
        self.assertEqual(read_object(w, sha256(b"")), b"")

    @each(*FAST)
    def test_a_receipt_outlives_its_url(self, w):
        """Section 7: committable until the lease is cleaned up"""
        held, data = Held(w, closure=[]), w.name("data").encode()
        commit = held.upload(data)
        held.outlive(LIFE + SECOND)
        self.assertEqual(held.commit(commit), [True])

    @each(*FAST)
    def test_a_broken_upload_leaves_nothing_and_harms_nothing(self, w):
        """R108"""
        held, data = Held(w, closure=[]), w.name("data").encode() * 100000
        target, before = self.writing(held, data), staged(w)
        wire = w.server.wire()
        wire.send(Request("PUT", path_of(target["url"]), target["headers"], b"")
                  .head(f"Content-Length: {len(data)}", length=False) + data[:500000])
        wire.reset()
        commit = held.upload(data)
        self.assertEqual(len(set(staged(w)) - set(before)), 1)
        self.assertEqual(held.commit(commit), [True])
        self.until(lambda: not os.listdir(self.tmp(w)))

    def tmp(self, w):
        """Where the server writes."""
        root = os.path.join(w.server.data, "objects", "tmp")
        [own] = os.listdir(root)
        return os.path.join(root, own)

    @each(*FAST)
    def test_uploads_of_one_url_at_once(self, w):
        """R110: each has a file of its own, and one receipt wins."""
        import threading
        held, data, answers = Held(w, closure=[]), w.name("data").encode() * 30000, []
        target = self.writing(held, data)
        threads = [threading.Thread(target=lambda: answers.append(put(w, target, data))) for _ in range(6)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual({answer.status for answer in answers}, {200})
        self.assertEqual(len({answer.headers["x-amz-version-id"] for answer in answers}), 1)
        receipt = answers[0].headers["x-amz-version-id"]
        self.assertEqual(held.commit({"hash": sha256(data), "size": len(data), "version": receipt}), [True])

    @each(*FAST)
    def test_an_upload_is_broken_off_when_its_lease_ends(self, w):
        """R116: in-flight streams are aborted"""
        held, data = Held(w, closure=[]), w.name("data").encode() * 100000
        target, before = self.writing(held, data), staged(w)
        wire = w.server.wire()
        wire.send(Request("PUT", path_of(target["url"]), target["headers"], b"")
                  .head(f"Content-Length: {len(data)}", length=False) + data[:100000])
        self.until(lambda: os.listdir(self.tmp(w)))  # it has begun
        w.cancel(held.lease)
        self.assertTrue(self.is_cut_off(wire))
        wire.close()
        self.assertEqual(staged(w), before)
        self.until(lambda: not os.listdir(self.tmp(w)))

    def is_cut_off(self, wire):
        """Whether the server ends the connection by itself."""
        wire.socket.settimeout(SOON)
        try:
            while wire.socket.recv(65536):
                pass
        except ConnectionResetError:
            pass
        except TimeoutError:
            return False
        return True

    @each(*FAST)
    def test_a_transfer_ends_with_its_url(self, w):
        """R117: the lesser of 600 s and the remaining life (section 7), on real time (section 20)"""
        held, data = Held(w, closure=[]), w.name("data").encode() * 1000
        target, before = self.writing(held, data), staged(w)
        held.outlive(LIFE - 700)
        began, wire = time.monotonic(), w.server.wire()
        wire.send(Request("PUT", path_of(target["url"]), target["headers"], b"")
                  .head(f"Content-Length: {len(data)}", length=False) + data[:100])
        answer = wire.answer()
        self.assertEqual((answer.status, answer.json["error"]), (408, "timeout"))
        self.assertGreaterEqual(time.monotonic() - began, 0.69)
        self.assertEqual(staged(w), before)
        wire.close()

    @each(*FAST)
    def test_a_download_is_broken_off_when_its_lease_ends(self, w):
        """R116: in-flight streams are aborted"""
        data = b"x" * 40000000
        hash = seed(w, data)
        held = Held(w, closure=[hash])
        url = self.reading(held, hash)
        wire = w.server.wire()
        wire.send(Request("GET", path_of(url), {}, b"").bytes())
        self.assertTrue(wire.socket.recv(1000).startswith(b"HTTP/1.1 200"))
        held.complete()
        # Nobody reads on until the server has heard of it; then what is in the buffers comes, and no more.
        self.until(lambda: get(w, url).status == 404)
        time.sleep(0.3)
        got = 0
        wire.socket.settimeout(SOON)
        try:
            while part := wire.socket.recv(1000000):
                got += len(part)
        except ConnectionResetError:
            pass
        self.assertLess(got, len(data) - 1000)
        wire.close()

    def test_what_a_crash_left_behind_is_swept(self):
        """R115: an upload that nobody can commit any more"""
        data, now = self.path("data"), START_MS
        w = World(self, self.serve("--store", "memory", *FAST, data=data), "json", 0)
        held = Held(w, closure=[])
        held.upload(b"lost with the store")
        [receipt] = staged(w)
        w.server.kill()
        for later, left in ((14 * MINUTE, [receipt]), (16 * MINUTE, [])):
            env = {"LESSOR_TEST_NOW_MS": str(now + later)}
            w.server = self.serve("--store", "memory", *FAST, data=data, env=env)
            end = time.monotonic() + SOON
            while staged(w) != left and time.monotonic() < end:
                time.sleep(0.01)
            w.server.stop()  # which waits for what was begun at the start
            self.assertEqual(staged(w), left)

    def test_a_restart_keeps_urls_and_receipts(self):
        """R110, R117: with a durable lease store"""
        def test(w, again):
            held, sent, unsent = Held(w, closure=[]), w.name("sent").encode(), w.name("unsent").encode()
            commit, target = held.upload(sent), self.writing(held, unsent)
            old = self.writing(held, sent)
            again(held.rack)
            self.assertEqual(put(w, old, sent).headers["x-amz-version-id"], commit["version"])
            self.assertEqual(put(w, target, unsent).status, 200)
            self.assertEqual(held.commit(commit), [True])
            self.assertEqual(read_object(w, sha256(sent)), sent)
        restarted(self, test)

    def test_what_was_answered_outlives_a_kill(self):
        """R110, R114: a receipt and a commit are on the disk when they are answered"""
        def test(w, again):
            held, one, two = Held(w, closure=[]), w.name("one").encode(), w.name("two").encode()
            commit = held.upload(one)
            again(held.rack)
            self.assertEqual(held.commit(commit), [True])
            later = held.upload(two)
            self.assertEqual(held.commit(later), [True])
            again(held.rack)
            self.assertEqual((read_object(w, sha256(one)), read_object(w, sha256(two))), (one, two))
            self.assertEqual(held.commit(commit, later), [True, True])
        restarted(self, test, kill=True)


if __name__ == "__main__":
    unittest.main()
