"""JSON Web Tokens for tests, made by a library that is not ours (jwcrypto), and by hand where they are to be bad."""

import base64
import hmac
import json
import time

import pytest

jwk = pytest.importorskip("jwcrypto.jwk")
jwe = pytest.importorskip("jwcrypto.jwe")
jws = pytest.importorskip("jwcrypto.jws")

KINDS = {
    "oct": {"kty": "oct", "size": 256},
    "oct512": {"kty": "oct", "size": 512},
    "rsa": {"kty": "RSA", "size": 2048},
    "p256": {"kty": "EC", "crv": "P-256"},
    "p384": {"kty": "EC", "crv": "P-384"},
    "p521": {"kty": "EC", "crv": "P-521"},
    "ed25519": {"kty": "OKP", "crv": "Ed25519"},
    "ed448": {"kty": "OKP", "crv": "Ed448"},
}
_made = {}


def key(kind, **members):
    """A private key of this kind: one for each kind and set of members in a run."""
    name = (kind, json.dumps(members, sort_keys=True))
    if name not in _made:
        how = dict(KINDS.get(kind, {"kty": "oct", "size": kind if isinstance(kind, int) else 0}))
        _made[name] = jwk.JWK.generate(**how, **members)
    return _made[name]


def public(*keys, **more):
    """A key set as text: public halves, but for secrets."""
    members = [json.loads(one.export() if one["kty"] == "oct" else one.export_public()) for one in keys]
    return json.dumps(dict({"keys": members}, **more))


def private(*keys):
    return json.dumps({"keys": [json.loads(one.export()) for one in keys]})


def b64(data):
    if isinstance(data, dict):
        data = json.dumps(data)
    if isinstance(data, str):
        data = data.encode()
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def sign(one, alg, claims=None, **header):
    """A signed token. Claims: a dict, or any text."""
    text = claims if isinstance(claims, str) else json.dumps({"sub": "ann"} if claims is None else claims)
    token = jws.JWS(text)
    token.allowed_algs = [alg]
    token.add_signature(one, alg, json.dumps(dict({"alg": alg, "typ": "JWT"}, **header)))
    return token.serialize(True)


def encrypt(one, alg, enc, text=None, **header):
    text = json.dumps({"sub": "ann"}) if text is None else text
    token = jwe.JWE(text.encode(), json.dumps(dict({"alg": alg, "enc": enc}, **header)),
                    algs=[alg, enc])
    token.add_recipient(one)
    return token.serialize(True)


def by_hand(header, claims, secret=b"", digest="sha256", signature=None):
    """header and claims: a dict, or the text that is encoded."""
    text = b64(header) + "." + b64(claims)
    if signature is None:
        signature = hmac.new(secret, text.encode(), digest).digest() if secret else b""
    return text + "." + b64(signature)


def in_seconds(seconds):
    return int(time.time()) + seconds
