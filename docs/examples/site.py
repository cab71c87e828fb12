#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""A whole site in one file: publishes a job, seals it to the device that takes it, opens and verifies the answer.

    site.py RELAY SITE KEYFILE OWNER PROMPT

Needs Python 3 and libsodium (the Debian package libsodium23), which it calls without a binding, so that each primitive is
seen. To be read next to docs/relay-api.md, whose sections it names. It is run by the project's tests.
"""
import base64
import ctypes
import hashlib
import json
import secrets
import sys
import time
import urllib.error
import urllib.parse
import urllib.request

sodium = ctypes.CDLL("libsodium.so.23")
if sodium.sodium_init() < 0:
    sys.exit("libsodium does not work here")

SEAL_BYTES, SIGNATURE_BYTES, KEY_BYTES = 48, 64, 32
CROCKFORD = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"


# --- Text, as both sides spell it ---

def b64(data):
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def unb64(text):
    return base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))


def dump(value):
    """JSON as JSON.stringify writes it: signatures cover this spelling."""
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False)


# --- Keys ---

def sign(seed, message):
    public, secret = ctypes.create_string_buffer(KEY_BYTES), ctypes.create_string_buffer(64)
    signature = ctypes.create_string_buffer(SIGNATURE_BYTES)
    sodium.crypto_sign_seed_keypair(public, secret, seed)
    sodium.crypto_sign_detached(signature, None, message, ctypes.c_ulonglong(len(message)), secret)
    return signature.raw


def verifies(public, message, signature):
    return (len(signature) == SIGNATURE_BYTES and len(public) == KEY_BYTES and
            sodium.crypto_sign_verify_detached(signature, message, ctypes.c_ulonglong(len(message)), public) == 0)


def key_id(identity):
    """The fingerprint that people compare: 120 bits of SHA-256 in groups of four."""
    bits = int.from_bytes(hashlib.sha256(unb64(identity)).digest()[:15], "big")
    text = "".join(CROCKFORD[bits >> shift & 31] for shift in range(115, -5, -5))
    return "BYOLLM-" + "-".join(text[i:i + 4] for i in range(0, 24, 4))


def consistent(device):
    """Whether the owner of the identity key has signed the encryption key beside it."""
    return verifies(unb64(device["identity"]), ("byollm/v1/encryption-key:" + device["encryption"]).encode(),
                    unb64(device["encryptionSig"]))


class Keys:
    def __init__(self, path):
        with open(path, encoding="utf-8") as f:
            stored = json.load(f)
        # PKCS#8 in standard base64: the last 32 of 48 bytes are the key.
        self.seed = base64.b64decode(stored["identityPrivate"])[16:]
        self.encryption_private = base64.b64decode(stored["encryptionPrivate"])[16:]
        self.encryption = unb64(stored["encryptionPublic"])
        self.id = key_id(stored["identityPublic"])


# --- Requests ("Signing") ---

class Refused(Exception):
    def __init__(self, status, body):
        super().__init__(f"{status} {body.get('error')}: {body.get('message')}")
        self.status, self.error = status, body.get("error")


class Relay:
    def __init__(self, url, site, keys):
        self.url, self.site, self.keys = url.rstrip("/"), site, keys

    def call(self, endpoint, body=None, **query):
        """POST with a body, else GET. Comes back to what may pass; raises Refused for what does not."""
        for attempt in range(6):
            try:
                return self.once(endpoint, body, query)
            except Refused as e:
                if attempt == 5 or not (e.status >= 500 or e.status == 429):
                    raise
            except (urllib.error.URLError, TimeoutError):
                if attempt == 5:
                    raise
            time.sleep(0.2 * 2 ** attempt * (0.5 + secrets.randbelow(1000) / 1000))
        raise AssertionError

    def once(self, endpoint, body, query):
        data = None if body is None else dump(dict({"protocolVersion": "2", "siteId": self.site}, **body)).encode()
        issued = str(int(time.time() * 1000))
        digest = hashlib.sha256(data or b"").hexdigest()
        signed = "\n".join(["byollm/v1/request", "site/" + endpoint, self.site, issued, digest])
        url = f"{self.url}/relay/site/{endpoint}"
        if data is None:
            url += "?" + urllib.parse.urlencode(dict({"siteId": self.site, "protocolVersion": "2"}, **query))
        request = urllib.request.Request(url, data, {
            "content-type": "application/json",
            "x-byollm-site": self.site,
            "x-byollm-issued-at": issued,
            "x-byollm-signature": b64(sign(self.keys.seed, signed.encode())),
        })
        try:
            with urllib.request.urlopen(request, timeout=40) as answer:
                return json.load(answer)
        except urllib.error.HTTPError as e:
            raise Refused(e.code, json.loads(e.read() or b"{}")) from None


# --- Envelopes ("Sealing", "Opening") ---

def seal(keys, job_id, device, plaintext, deadline):
    recipient = key_id(device["identity"])
    body = dump({"v": "byollm/v1/envelope", "jobId": job_id, "senderKeyId": keys.id, "recipientKeyId": recipient,
                 "deadlineAt": deadline, "direction": "payload", "plaintext": plaintext}).encode()
    inner = dump({"body": b64(body), "signature": b64(sign(keys.seed, body))}).encode()
    sealed = ctypes.create_string_buffer(len(inner) + SEAL_BYTES)
    if sodium.crypto_box_seal(sealed, inner, ctypes.c_ulonglong(len(inner)), unb64(device["encryption"])) != 0:
        raise ValueError("the device's encryption key is none")
    return {"ciphertext": b64(sealed.raw), "recipientKeyId": recipient, "senderKeyId": keys.id,
            "direction": "payload", "deadlineAt": deadline}


def open_result(keys, result):
    """The outcome inside, or ValueError for whatever is not as it should be."""
    envelope, device = result["envelope"], result["device"]
    expected = {"jobId": result["jobId"], "senderKeyId": key_id(device["identity"]), "recipientKeyId": keys.id,
                "direction": "result"}
    if not consistent(device) or any(envelope[k] != expected[k]
                                     for k in ("senderKeyId", "recipientKeyId", "direction")):
        raise ValueError("not for us, or not from that device")
    sealed = unb64(envelope["ciphertext"])
    if len(sealed) < SEAL_BYTES:
        raise ValueError("too short")
    plain = ctypes.create_string_buffer(max(len(sealed) - SEAL_BYTES, 1))
    if sodium.crypto_box_seal_open(plain, sealed, ctypes.c_ulonglong(len(sealed)), keys.encryption,
                                   keys.encryption_private) != 0:
        raise ValueError("does not open")
    inner = json.loads(plain.raw[:len(sealed) - SEAL_BYTES])
    body = unb64(inner["body"])
    if not verifies(unb64(device["identity"]), body, unb64(inner["signature"])):
        raise ValueError("the signature inside does not verify")
    context = json.loads(body)
    if any(context[k] != v for k, v in expected.items()) or context["deadlineAt"] != envelope["deadlineAt"]:
        raise ValueError("sealed for another job or direction")
    outcome = json.loads(context["plaintext"])
    if outcome["outcome"]["outcome"] != result["disposition"]:
        raise ValueError("the relay says another disposition than the device")
    return outcome


def main(relay_url, site, keyfile, owner, prompt):
    keys = Keys(keyfile)
    relay = Relay(relay_url, site, keys)
    payload = dump({"prompt": prompt})
    job_id = secrets.token_hex(16)
    deadline = int(time.time() * 1000) + 600_000
    state = relay.call("enqueue", {"stub": {
        "id": job_id, "kind": "llm.generate", "owner": owner, "site": keys.id, "audience": "private",
        "sizeClass": "small" if len(payload) <= 4000 else "medium", "streaming": False, "deadlineAt": deadline}})
    print(f"{job_id}: {state['state']}", file=sys.stderr)

    while time.time() * 1000 < deadline:
        # A device that took the job and went away without an answer leads back to here: seal for the next one.
        for job in relay.call("pending", wait=1000)["jobs"]:
            if job["jobId"] != job_id or not consistent(job["device"]):
                continue
            print(f"{job_id}: taken by {key_id(job['device']['identity'])}", file=sys.stderr)
            try:
                relay.call("payload", {"jobId": job_id, "envelope": seal(keys, job_id, job["device"], payload, deadline)})
            except Refused as e:
                if e.error != "too-late":  # its window passed: it will be pending again
                    raise
        for result in relay.call("results", wait=1000)["jobs"]:
            if result["jobId"] != job_id:
                continue
            outcome = open_result(keys, result)
            # Store the answer before this; afterwards the relay has forgotten it.
            relay.call("ack", {"jobIds": [job_id]})
            if outcome["outcome"]["outcome"] != "ok":
                sys.exit(f"{job_id}: {outcome['outcome']}")
            print(outcome["outcome"]["text"])
            return
    sys.exit(f"{job_id}: nobody answered in time")


if __name__ == "__main__":
    if len(sys.argv) != 6:
        sys.exit(__doc__)
    main(*sys.argv[1:])
