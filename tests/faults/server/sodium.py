# SPDX-License-Identifier: MIT
"""Ed25519 for tests: the library that lessord links anyway, so that nothing else has to be installed."""
import base64
import ctypes
import ctypes.util

_lib = ctypes.CDLL(ctypes.util.find_library("sodium") or "libsodium.so.23")
if _lib.sodium_init() < 0:
    raise ImportError("libsodium does not start")


def base64url(raw):
    return base64.urlsafe_b64encode(raw).decode().rstrip("=")


class SigningKey:
    """An Ed25519 key that follows from 32 bytes of seed."""

    def __init__(self, seed):
        public, secret = ctypes.create_string_buffer(32), ctypes.create_string_buffer(64)
        _lib.crypto_sign_seed_keypair(public, secret, seed)
        self.public, self._secret = public.raw, secret.raw

    def sign(self, text):
        """The signature of bytes, in base64url."""
        signature = ctypes.create_string_buffer(64)
        _lib.crypto_sign_detached(signature, None, text, ctypes.c_ulonglong(len(text)), self._secret)
        return base64url(signature.raw)
