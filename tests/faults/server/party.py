# SPDX-License-Identifier: MIT
"""Sites and devices that sign what they ask, as relay-protocol sections 3 and 4 want it."""
import hashlib
import json
import time

from sodium import SigningKey, base64url

_SYMBOLS = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"
CAPABILITIES = [{"kind": "llm.generate", "service": "s", "backendId": "ollama", "backendClass": "http",
                 "model": "m", "offerScope": "team"}]


def now_ms():
    return time.time_ns() // 1000000


def key_id(public):
    number = int.from_bytes(hashlib.sha256(public).digest()[:15], "big")
    symbols = "".join(_SYMBOLS[number >> 5 * i & 31] for i in range(23, -1, -1))
    return "BYOLLM-" + "-".join(symbols[i:i + 4] for i in range(0, 24, 4))


class Request:
    """One request, as its parts, so that a test can damage any of them and still send it signed."""

    def __init__(self, method, target, headers, body):
        self.method, self.target, self.headers, self.body = method, target, headers, body

    def head(self, *more, length=True):
        lines = [f"{self.method} {self.target} HTTP/1.1", "Host: relay.example"]
        lines += [f"{name}: {value}" for name, value in self.headers.items()]
        if length and (self.body or self.method == "POST"):
            lines.append(f"Content-Length: {len(self.body)}")
        return ("\r\n".join([*lines, *more]) + "\r\n\r\n").encode("latin-1")

    def bytes(self):
        return self.head() + self.body


class Party:
    """Whoever signs. Its key follows from its name, so that runs are alike."""

    def __init__(self, name):
        self.id = name
        self.key = SigningKey(hashlib.sha256(name.encode()).digest())
        self.key_id = key_id(self.key.public)

    def identity(self):
        encryption = base64url(hashlib.sha256(b"encryption" + self.id.encode()).digest())
        return {"identity": base64url(self.key.public), "encryption": encryption,
                "encryptionSig": self.key.sign(b"byollm/v1/encryption-key:" + encryption.encode())}

    def signature(self, endpoint, body, at_ms=None):
        at_ms = now_ms() if at_ms is None else at_ms
        text = "\n".join(["byollm/v1/request", endpoint, self.id, str(at_ms), hashlib.sha256(body).hexdigest()])
        return {self.header: self.id, "x-byollm-issued-at": str(at_ms),
                "x-byollm-signature": self.key.sign(text.encode())}

    def post(self, name, body, at_ms=None):
        """`body` is what JSON is made of, or bytes that are sent as they are."""
        if not isinstance(body, bytes):
            body = json.dumps(body, separators=(",", ":")).encode()
        text = body.removeprefix(b"\xef\xbb\xbf")  # one byte order mark is not signed
        headers = {"content-type": "application/json", **self.signature(self.prefix + name, text, at_ms)}
        return Request("POST", self.path + name, headers, body)


class Site(Party):
    header, prefix, path = "x-byollm-site", "site/", "/relay/site/"

    def stub(self, job_id, owner, deadline_ms=None, **more):
        return {"id": job_id, "kind": "llm.generate", "owner": owner, "site": self.key_id, "audience": "private",
                "sizeClass": "small", "streaming": False,
                "deadlineAt": now_ms() + 86400000 if deadline_ms is None else deadline_ms, **more}

    def enqueue(self, job_id, owner, **more):
        return self.post("enqueue", {"protocolVersion": "2", "siteId": self.id,
                                     "stub": self.stub(job_id, owner, **more)})

    def payload(self, job_id, envelope):
        return self.post("payload", {"protocolVersion": "2", "siteId": self.id, "jobId": job_id,
                                     "envelope": envelope})

    def cancel(self, job_id):
        return self.post("cancel", {"protocolVersion": "2", "siteId": self.id, "jobId": job_id})

    def ack(self, job_ids):
        return self.post("ack", {"protocolVersion": "2", "siteId": self.id, "jobIds": job_ids})

    def read(self, name, query="", at_ms=None):
        return Request("GET", f"{self.path}{name}?siteId={self.id}&protocolVersion=2{query}",
                       self.signature(self.prefix + name, b"", at_ms), b"")

    def pending(self, query="", at_ms=None):
        return self.read("pending", query, at_ms)

    def results(self, query="", at_ms=None):
        return self.read("results", query, at_ms)


class Device(Party):
    header, prefix, path = "x-byollm-runner", "", "/byollm/"

    def __init__(self, name, owner):
        super().__init__(name)
        self.owner = owner

    def ask(self, name, at_ms=None, **fields):
        return self.post(name, {"protocolVersion": "2", "runnerId": self.id, **fields}, at_ms)

    def claim(self, n=1, at_ms=None):
        return self.ask("claim", at_ms, capabilities=CAPABILITIES, max=n)

    def fetch(self, job_id, lease_id):
        return self.ask("fetch", jobId=job_id, leaseId=lease_id)

    def result(self, job_id, lease_id, envelope, disposition="ok"):
        return self.ask("result", jobId=job_id, leaseId=lease_id, envelope=envelope, disposition=disposition)

    def release(self, *grants, reason="shutdown"):
        return self.ask("release", leases=[{"jobId": j, "leaseId": l} for j, l in grants], reason=reason)

    def heartbeat(self, *grants, at_ms=None):
        return self.ask("heartbeat", at_ms, daemonVersion="1.0.0", capabilities=CAPABILITIES,
                        activeLeases=[{"jobId": j, "leaseId": l} for j, l in grants])


def envelope(sender, recipient, direction, ciphertext):
    """The relay looks at none of it, so its text need not be a sealed one."""
    return {"ciphertext": ciphertext, "recipientKeyId": recipient.key_id, "senderKeyId": sender.key_id,
            "direction": direction, "deadlineAt": now_ms() + 86400000}


def projection(sites, devices):
    """Every owner of a device consents to every site."""
    owners = sorted({device.owner for device in devices})
    return {"sites": [{"siteId": s.id, "site": s.identity()} for s in sites],
            "consents": [{"owner": o, "siteId": s.id} for o in owners for s in sites],
            "devices": [{"owner": d.owner, "runnerId": d.id, "device": d.identity()} for d in devices]}
