"""auth_jwt: which tokens are accepted, what is known of them, where keys come from."""

import json
import os
import threading

import pytest

from harness import binaries, h3
from harness.h2 import H2
from harness.wait import until

import certificates
import tokens
from tokens import b64, by_hand, encrypt, in_seconds, key, private, public, sign

pytestmark = pytest.mark.skipif("auth_jwt_module" not in binaries.version_text(binaries.under_test()),
                                reason="without auth_jwt")

SHOWN = "$jwt_claim_sub|$jwt_header_alg|$jwt_payload"


def conf(*, http="", server="", location="", more=""):
    return """
        %s
        server {
            listen 127.0.0.1:@PORT@; listen 127.0.0.1:@PORT1@; http2 on; large_client_header_buffers 4 64k;
            auth_jwt "closed site"; auth_jwt_key_file keys.json; %s
            location / { %s add_header X-Seen "%s" always; empty_gif; }
            %s
        }""" % (http, server, location, SHOWN, more)


@pytest.fixture
def site(serve):
    def start(keys, **how):
        return serve(conf(**how), files={"keys.json": keys})
    return start


def ask(server, token, *fields, target="/"):
    return server.get(target, "Authorization: Bearer " + token, *fields)


def seen(response):
    return response.status, response.header("X-Seen")


# ---- what is accepted

@pytest.mark.one_server
@pytest.mark.parametrize("alg, kind", [
    ("HS256", "oct"), ("HS384", "oct512"), ("HS512", "oct512"), ("RS256", "rsa"), ("RS384", "rsa"), ("RS512", "rsa"),
    ("PS256", "rsa"), ("PS384", "rsa"), ("PS512", "rsa"), ("ES256", "p256"), ("ES384", "p384"), ("ES512", "p521"),
    ("EdDSA", "ed25519"), ("EdDSA", "ed448")])
def test_signed(site, alg, kind):
    server = site(public(key(kind)))
    token = sign(key(kind), alg, {"sub": "ann", "exp": in_seconds(60)})
    for _ in range(2):
        assert seen(ask(server, token)) == (200, "ann|%s|" % alg)
    head, claims, signature = token.split(".")
    changed = ".".join((head, b64({"sub": "bob"}), signature))
    assert ask(server, changed).status == 401
    assert ask(server, ".".join((head, claims, signature[:-8]))).status == 401
    server.wait_log("the JSON Web Token was refused: its signature does not match")


CONTENTS = [("A128CBC-HS256", 256), ("A192CBC-HS384", 384), ("A256CBC-HS512", 512), ("A128GCM", 128), ("A192GCM", 192),
            ("A256GCM", 256)]
WRAPPINGS = [("dir", None), ("A128KW", 128), ("A192KW", 192), ("A256KW", 256), ("A128GCMKW", 128), ("A192GCMKW", 192),
             ("A256GCMKW", 256)]


@pytest.mark.one_server
@pytest.mark.parametrize("alg, kind, enc, bits", [
    *[(alg, kind, enc, bits) for alg, kind in WRAPPINGS for enc, bits in CONTENTS],
    # RSA is slow: one content of each kind.
    *[(alg, "rsa", enc, bits) for alg in ("RSA-OAEP", "RSA-OAEP-256") for enc, bits in (CONTENTS[0], CONTENTS[-1])]])
def test_encrypted(site, alg, kind, enc, bits):
    one = key(kind or bits)
    server = site(private(one), server="auth_jwt_type encrypted;")
    token = encrypt(one, alg, enc)
    for _ in range(2):
        assert seen(ask(server, token)) == (200, 'ann|%s|{"sub": "ann"}' % alg)
    parts = token.split(".")
    for part in (0, 2, 3, 4):
        bad = list(parts)
        bad[part] = b64({"alg": alg, "enc": enc, "x": 1}) if part == 0 else "A" * len(bad[part])
        assert ask(server, ".".join(bad)).status == 401, part


def test_nested(site):
    inner = sign(key("p256"), "ES256", {"sub": "ann", "exp": in_seconds(60)})
    token = encrypt(key(256), "A256KW", "A128GCM", inner, cty="JWT")
    server = site(json.dumps({"keys": json.loads(private(key(256)))["keys"] + json.loads(public(key("p256")))["keys"]}),
                  server="auth_jwt_type nested;")
    assert seen(ask(server, token)) == (200, "ann|A256KW|" + inner)
    assert ask(server, inner).status == 401
    assert ask(server, encrypt(key(256), "A256KW", "A128GCM")).status == 401
    bad = encrypt(key(256), "A256KW", "A128GCM", by_hand({"alg": "none"}, {"sub": "ann"}))
    assert ask(server, bad).status == 401


def test_challenges(site):
    server = site(public(key("p256")))
    assert server.get("/").header("WWW-Authenticate") == 'Bearer realm="closed site"'
    assert server.get("/", "Authorization: Basic YTpi").header("WWW-Authenticate") == 'Bearer realm="closed site"'
    refused = ask(server, "x.y.z")
    assert refused.header("WWW-Authenticate") == 'Bearer realm="closed site", error="invalid_token"'
    assert seen(refused) == (401, "||")


def test_token_of_a_variable(site):
    server = site(public(key("p256")), more='location /arg { auth_jwt "" token=$arg_t; empty_gif; }'
                  'location /cookie { auth_jwt "" token=$cookie_t; empty_gif; } location /open { auth_jwt off; empty_gif; }')
    token = sign(key("p256"), "ES256")
    assert server.get("/arg?t=" + token).status == 200
    assert server.get("/cookie", "Cookie: a=b; t=" + token).status == 200
    assert ask(server, token, target="/arg").status == 401
    assert server.get("/open").status == 200


# ---- times

def test_times_and_leeway(site):
    server = site(public(key("p256")), more="location /late { auth_jwt_leeway 90s; empty_gif; }")

    def status(target, **claims):
        return ask(server, sign(key("p256"), "ES256", claims), target=target).status

    assert [status("/", exp=in_seconds(n)) for n in (-60, 60)] == [401, 200]
    assert [status("/", nbf=in_seconds(n)) for n in (-60, 60)] == [200, 401]
    assert [status("/late", exp=in_seconds(n)) for n in (-60, -120)] == [200, 401]
    assert [status("/late", nbf=in_seconds(n)) for n in (60, 120)] == [200, 401]
    assert [status("/", exp=value) for value in (in_seconds(60) + 0.5, "1", None, True, 1e300, -1)] == [200] + [401] * 5
    server.wait_log("refused: it has expired")
    server.wait_log("refused: it is not valid yet")


def test_kept_token_expires(site):
    """A token that was verified is looked at again: its time, and where it is accepted."""
    server = site(public(key("p256")), more="location /late { auth_jwt_leeway 1h; empty_gif; }")
    token = sign(key("p256"), "ES256", {"exp": in_seconds(-60)})
    assert [ask(server, token, target=target).status for target in ("/late", "/", "/late")] == [200, 401, 200]


# ---- attacks of RFC 8725

def test_algorithm_confusion(site):
    """3.1: a public key is no secret of an HMAC, in any spelling of it; a key is for the algorithm that it names."""
    rsa = key("rsa")
    bound = key("p256", alg="ES256", kid="bound")
    server = site(public(rsa, bound, key("oct", use="enc", kid="enc"), key("p384", key_ops=["sign"], kid="ops")))
    pem = rsa.export_to_pem()
    modulus = tokens.base64.urlsafe_b64decode(json.loads(rsa.export_public())["n"] + "==")
    for secret in (pem, pem.strip(), modulus, public(rsa).encode(), b"x"):
        assert ask(server, by_hand({"alg": "HS256"}, {"sub": "ann"}, secret)).status == 401
    for alg in ("none", "None", "NONE", "", "hs256", "RS256 ", "RSA1_5", "dir", None, 5, ["RS256"]):
        assert ask(server, by_hand({"alg": alg}, {"sub": "ann"})).status == 401, alg
    assert ask(server, by_hand({}, {"sub": "ann"})).status == 401
    assert ask(server, sign(bound, "ES256")).status == 200
    secret = tokens.base64.urlsafe_b64decode(json.loads(key("oct", use="enc", kid="enc").export())["k"] + "==")
    assert ask(server, by_hand({"alg": "HS256"}, {"sub": "ann"}, secret)).status == 401
    assert ask(server, sign(key("p384", key_ops=["sign"], kid="ops"), "ES384")).status == 401
    assert ask(server, sign(key("p521"), "ES512")).status == 401


P256_ORDER = 0xffffffff00000000ffffffffffffffffbce6faada7179e84f3b9cac2fc632551


@pytest.mark.one_server
@pytest.mark.parametrize("r, s", [(0, 0), (1, 0), (0, 1), (P256_ORDER, P256_ORDER), (P256_ORDER + 1, 1), (1, 1)])
def test_signatures_that_fit_any_text(site, r, s):
    """Numbers outside 1 to n-1 (CVE-2022-21449), and such as anyone can write."""
    server = site(public(key("p256")))
    signature = r.to_bytes(32, "big") + s.to_bytes(32, "big")
    assert ask(server, by_hand({"alg": "ES256"}, {"sub": "ann"}, signature=signature)).status == 401


def test_keys_of_the_token_are_not_used(site):
    """3.10: neither jwk nor jku, x5u or x5c."""
    server = site(public(key("p256")))
    mine = key("p256", kid="mine")
    for more in ({"jwk": json.loads(mine.export_public())}, {"jku": "http://127.0.0.1/keys"}, {"x5u": "http://127.0.0.1/x"}):
        assert ask(server, sign(mine, "ES256", **more)).status == 401


@pytest.mark.one_server
@pytest.mark.parametrize("token", [
    "", ".", "..", "...", "....", "a.b.c", "e30.e30.", "e30.e30.AAAA", "." * 1000, "\xff.\xff.\xff", "a" * 20000,
    by_hand("[]", {}), by_hand("{", {}), by_hand({"alg": "HS256", "crit": ["exp"]}, {}, b"x"), by_hand("", ""),
    by_hand('{"alg":"HS256","alg":"none"}', {}), by_hand('{"alg":"HS256","a":%s1%s}' % ("[" * 5000, "]" * 5000), {}),
    by_hand('{"alg":"HS256","kid":"a\\u0000b"}', {}), by_hand('{"alg":"HS256"}\0', {}), by_hand('{"alg":"HS256"} x', {}),
    "eyJhbGciOiJIUzI1NiJ9=.e30.AAAA", "eyJhbGciOiJIUzI1NiJ9\t.e30.AAAA"])
def test_malformed(site, token):
    server = site(public(key("oct")))
    assert ask(server, token).status == 401


@pytest.mark.one_server
@pytest.mark.parametrize("claims", ["", "[]", "1", '"x"', "null", "{", '{"sub":"a","sub":"b"}', '{"exp":1e999}',
                                    '{"exp":99999999999999999999}', '{"a":%s}' % ("[" * 40 + "]" * 40)])
def test_signed_claims_that_are_no_object(site, claims):
    server = site(public(key("oct")))
    secret = tokens.base64.urlsafe_b64decode(json.loads(key("oct").export())["k"] + "==")
    assert ask(server, by_hand({"alg": "HS256"}, claims, secret)).status == 401
    assert ask(server, by_hand({"alg": "HS256"}, '{"sub":"ann"}', secret)).status == 200


@pytest.mark.one_server
@pytest.mark.parametrize("header", [{"zip": "DEF"}, {"crit": ["x"]}, {"enc": "A128GCM", "alg": "RSA1_5"},
                                    {"alg": "PBES2-HS256+A128KW", "p2c": 2**31, "p2s": "AAAA"}, {"alg": "ECDH-ES"},
                                    {"enc": "none"}, {"alg": "HS256"}, {"alg": "A128GCMKW"}])
def test_encrypted_headers_that_are_refused(site, header):
    server = site(private(key(128)), server="auth_jwt_type encrypted;")
    for sizes in ((0, 0, 0, 0), (24, 12, 16, 16), (16, 12, 1, 16), (24, 16, 16, 16), (600, 12, 16, 16)):
        parts = [b64(dict({"alg": "A128KW", "enc": "A128GCM"}, **header))] + [b64(b"x" * size) for size in sizes]
        assert ask(server, ".".join(parts)).status == 401


# ---- keys

def test_kid(site):
    ann, bob, any_one = key("p256", kid="ann"), key("p256", kid="bob"), key("p256")
    server = site(public(ann, bob))
    assert ask(server, sign(ann, "ES256", kid="ann")).status == 200
    assert ask(server, sign(bob, "ES256", kid="ann")).status == 401
    assert ask(server, sign(bob, "ES256")).status == 200
    assert ask(server, sign(any_one, "ES256", kid="eve")).status == 401
    server.wait_log('no key fits its "alg" and "kid"')


def test_keys_that_cannot_be_used_are_left_out(site):
    weak = json.loads(tokens.jwk.JWK.generate(kty="RSA", size=1024, kid="weak").export_public())
    point = dict(json.loads(key("p256").export_public()), y=b64(b"\1" * 32), kid="point")
    bad = [weak, point, {"kty": "new"}, {"kty": "oct"}, {"kty": "oct", "k": ""}, {"kty": "oct", "k": "*"}, 5, None, {},
           {"kty": "EC", "crv": "secp256k1", "x": "AA", "y": "AA"}, {"kty": "OKP", "crv": "Ed25519", "x": "AA"},
           {"kty": "RSA", "n": b64(b"\xff" * 256), "e": "AA"}, {"kty": "RSA", "n": b64(b"\xff" * 5000), "e": "AQAB"},
           {"kty": "EC", "crv": "P-256", "alg": "RS256", "x": point["x"], "y": point["y"]}]
    good = json.loads(key("ed25519").export_public())
    server = site(json.dumps({"keys": bad + [good]}))
    assert ask(server, sign(key("ed25519"), "EdDSA")).status == 200
    assert server.error_log.count("is not used: ") == len(bad)
    server.wait_log('the key "weak" of ".*keys.json" is not used: it has less than 2048 bits')


@pytest.mark.parametrize("text", ["", "{", "[]", '{"keys": []}', '{"keys": 1}', '{"keys": {}}', "{}", "x" * 300000])
def test_no_keys(site, text):
    server = site(text)
    assert ask(server, sign(key("p256"), "ES256")).status == 500
    assert server.get("/").status == 401


def test_missing_keys(serve):
    server = serve(conf(more="location /none { auth_jwt_key_file none.json; empty_gif; }").replace("auth_jwt_key_file keys.json;", ""))
    assert ask(server, "a.b.c").status == 500
    assert ask(server, "a.b.c", target="/none").status == 500
    server.wait_log('no keys are configured for "auth_jwt"')
    server.wait_log('cannot read the keys ".*none.json" .2: No such file')


def test_file_is_read_again_when_it_changes(site):
    server = site(public(key("p256")), more="location /cached { auth_jwt_key_cache 1h; empty_gif; }")
    token = sign(key("p256"), "ES256")
    assert [ask(server, token, target=target).status for target in ("/", "/cached")] == [200, 200]
    server.write("new.json", public(key("p384")))
    os.replace(server.path("new.json"), server.path("keys.json"))
    assert [ask(server, token, target=target).status for target in ("/cached", "/", "/cached")] == [200, 401, 401]
    assert ask(server, sign(key("p384"), "ES384")).status == 200


def test_several_files(site):
    server = site(public(key("p256")), server="auth_jwt_key_file $arg_more.json;",
                  more="location /own { auth_jwt_key_file own.json; empty_gif; }")
    server.write("x.json", public(key("p384")))
    server.write("own.json", public(key("p521")))
    one, two, own = sign(key("p256"), "ES256"), sign(key("p384"), "ES384"), sign(key("p521"), "ES512")
    assert [ask(server, token, target="/?more=x").status for token in (one, two, own)] == [200, 200, 401]
    assert ask(server, one, target="/?more=y").status == 500
    assert [ask(server, token, target="/own").status for token in (one, two, own)] == [401, 401, 200]


# ---- keys by request

def keys_answer(*keys, status="200 OK"):
    body = public(*keys).encode()
    return b"HTTP/1.1 %s\r\nContent-Length: %d\r\n\r\n%s" % (status.encode(), len(body), body)


def by_request(backend, cache="", more=""):
    return conf(location=cache, more="location = /keys { internal; proxy_read_timeout 20s; proxy_pass http://127.0.0.1:%d; } %s"
                % (backend.port, more)).replace("auth_jwt_key_file keys.json", "auth_jwt_key_request /keys")


def test_keys_by_request(serve, backend):
    back = backend([keys_answer(key("p256"))] * 2, [keys_answer(key("p256"))] * 2)
    server = serve(by_request(back))
    for _ in range(2):
        assert ask(server, sign(key("p256"), "ES256")).status == 200
    assert len(back.requests) == 2


def test_kept_keys_are_asked_for_once(serve, backend):
    """Many requests come while the first one asks: all wait for its answer, which is asked for without fields of a client."""
    go = threading.Event()

    def answer(conn, request):
        go.wait(10)
        conn.sendall(keys_answer(key("p256")))

    back = backend([answer])
    server = serve(by_request(back, "auth_jwt_key_cache 1h;"), main="worker_processes 1;")
    token = sign(key("p256"), "ES256")
    clients = [server.client() for _ in range(10)]
    for client in clients:
        client.send("GET / HTTP/1.1\r\nHost: x\r\nAccept-Encoding: gzip\r\nCookie: c=1\r\nIf-None-Match: x\r\n"
                    "Authorization: Bearer %s\r\n\r\n" % token)
    back.wait_requests(1)
    clients[0].close()
    go.set()
    assert [client.response("GET").status for client in clients[1:]] == [200] * 9
    assert len(back.requests) <= 2
    for field in (b"cookie", b"authorization", b"accept-encoding", b"if-none-match"):
        assert field not in back.requests[-1].lower()


@pytest.mark.parametrize("answer", [
    b"HTTP/1.1 404 No\r\nContent-Length: 2\r\n\r\nno", b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n", b"",
    b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}", b"HTTP/1.1 204 No\r\n\r\n",
    b"HTTP/1.1 200 OK\r\n\r\n" + b" " * 400000 + keys_answer(key("p256"))])
def test_key_server_that_fails_is_left_alone_for_a_second(serve, backend, answer):
    back = backend([answer], [answer], [answer])
    server = serve(by_request(back, "auth_jwt_key_cache 1h;"), main="worker_processes 1;")
    token = sign(key("p256"), "ES256")
    assert [ask(server, token).status for _ in range(20)] == [500] * 20
    assert back.connections <= 3
    server.wait_log('the keys "/keys" are not available')


def test_key_server_that_stalls(serve, backend):
    """Those that wait get 500 when its time is over, and nobody waits for it again at once; the worker serves others meanwhile."""
    go = threading.Event()
    back = backend([lambda conn, request: go.wait(10)] * 2)
    server = serve(by_request(back, "auth_jwt_key_cache 1h;").replace("read_timeout 20s", "read_timeout 200ms"), main="worker_processes 1;")
    token = sign(key("p256"), "ES256")
    clients = [server.client() for _ in range(5)]
    for client in clients:
        client.send("GET / HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer %s\r\n\r\n" % token)
    back.wait_requests(1)
    assert server.get("/").status == 401    # without a token no keys are needed
    assert [client.response("GET").status for client in clients] == [500] * 5
    assert len(back.requests) == 1
    go.set()


def test_waiting_client_leaves(serve, backend):
    """The one that asked leaves: another one asks."""
    back = backend([lambda conn, request: conn.recv(1)], [keys_answer(key("p256"))])
    server = serve(by_request(back, "auth_jwt_key_cache 1h;"), main="worker_processes 1;")
    token = sign(key("p256"), "ES256")
    first, second = server.client(), server.client()
    text = "GET / HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer %s\r\n\r\n" % token
    first.send(text)
    back.wait_requests(1)
    second.send(text)
    first.close()
    assert second.response("GET").status == 200


def test_keys_are_renewed_before_they_expire(serve, backend):
    """No request waits for the renewal: it is answered with the former keys while the key server thinks."""
    go = threading.Event()

    def late(conn, request):
        go.wait(10)
        conn.sendall(keys_answer(key("p384")))

    back = backend([keys_answer(key("p256"))], [late])
    server = serve(by_request(back, "auth_jwt_key_cache 3s;"), main="worker_processes 1;")
    old, new = sign(key("p256"), "ES256"), sign(key("p384"), "ES384")
    with server.client() as client:
        def requests_for_keys():
            assert ask(server, old).status == 200
            return len(back.requests)
        until(lambda: requests_for_keys() == 2, "the second request for keys")
        assert client.request("/", "Authorization: Bearer " + old).status == 200
        go.set()
        until(lambda: client.request("/", "Authorization: Bearer " + new).status == 200, "the new keys")
        assert client.request("/", "Authorization: Bearer " + old).status == 401


def test_unknown_kid_has_keys_renewed(serve, backend):
    """At most every five seconds, whatever tokens come; the former keys stay where that fails."""
    new = key("p256", kid="new")
    back = backend([keys_answer(key("p384", kid="old"))], [b"HTTP/1.1 500 No\r\nContent-Length: 0\r\n\r\n"], [keys_answer(new)])
    server = serve(by_request(back, "auth_jwt_key_cache 1h;"), main="worker_processes 1;")
    first = sign(key("p384", kid="old"), "ES384", kid="old")
    assert ask(server, first).status == 200
    token = sign(new, "ES256", kid="new")
    assert ask(server, token).status == 401 and len(back.requests) == 1
    until(lambda: ask(server, token).status == 401 and len(back.requests) == 2, "a request for newer keys")
    assert ask(server, first).status == 200
    until(lambda: ask(server, token).status == 200, "the newer keys")
    assert len(back.requests) == 3 and ask(server, first).status == 401


def test_request_of_a_variable_is_not_kept(serve, backend):
    back = backend(*[[keys_answer(key("p256"))]] * 3)
    server = serve(by_request(back, "auth_jwt_key_cache 1h; auth_jwt_key_request /keys?$arg_a;"))
    assert [ask(server, sign(key("p256"), "ES256"), target="/?a=" + one).status for one in "112"] == [200] * 3
    assert len(back.requests) == 3


# ---- what else is required, and where

def test_require(site):
    server = site(public(key("p256")), http="map $jwt_claim_iss $good { https://us 1; default 0; }",
                  location="auth_jwt_require $good; auth_jwt_require $jwt_claim_admin $jwt_claim_ok error=403;")

    def answer(**claims):
        response = ask(server, sign(key("p256"), "ES256", claims))
        return response.status, response.header("WWW-Authenticate")

    assert answer(iss="https://us", admin=True, ok="x") == (200, None)
    assert answer(iss="https://us", admin=False, ok="x") == (403, None)
    assert answer(iss="https://us", admin=True) == (403, None)
    assert answer(iss="https://them", admin=True, ok=1)[0] == 401
    assert answer(iss="https://them", admin=True, ok=1)[1].endswith('error="invalid_token"')
    server.wait_log(r'refused: "\$good" is not met')


def test_values(site):
    http = """auth_jwt_claim_set $mail info e-mail; auth_jwt_claim_set $roles realm_access roles; auth_jwt_claim_set $all info;
              auth_jwt_claim_set $dotted a.b; auth_jwt_claim_set $missing info none deep; auth_jwt_header_set $kind typ;"""
    shown = ("$mail|$roles|$all|$dotted|$missing|$kind|$jwt_claim_number|$jwt_claim_real|$jwt_claim_yes|$jwt_claim_null|"
             "$jwt_claim_list|$jwt_claim_mixedcase|$jwt_claim_twice")
    server = site(public(key("p256")), http=http, location='add_header X-Values "%s";' % shown)
    claims = {"info": {"e-mail": "a@b"}, "realm_access": {"roles": ["x", "y", 1]}, "a.b": "dot", "number": -5, "real": 1.5,
              "yes": True, "null": None, "list": ["p", {"q": 1}], "mixedCase": "found", "Twice": 1, "tWice": 2}
    response = ask(server, sign(key("p256"), "ES256", claims))
    assert response.header("X-Values") == ('a@b|x,y,1|{"e-mail":"a@b"}|dot||JWT|-5|1.5|true||["p",{"q":1}]|found|')


def test_value_cannot_split_the_response(site):
    server = site(public(key("p256")), location='add_header X-Value "$jwt_claim_evil";')
    response = ask(server, sign(key("p256"), "ES256", {"evil": "a\r\nX-Evil: 1"}))
    assert response.status == 200 and response.header("X-Evil") is None


def test_values_before_the_access_phase(site):
    """Claims can be keys of limits; a token that was refused shows nothing afterwards."""
    server = site(public(key("p256")), http="limit_req_zone $jwt_claim_sub zone=z:64k rate=1r/m;",
                  more="location /limited { limit_req zone=z; empty_gif; }")
    ann, bob = (sign(key("p256"), "ES256", {"sub": name}) for name in ("ann", "bob"))
    assert [ask(server, token, target="/limited").status for token in (ann, ann, bob)] == [200, 503, 200]
    assert seen(ask(server, by_hand({"alg": "ES256"}, {"sub": "eve"}, b"x"))) == (401, "||")


def test_satisfy_any(site):
    server = site(public(key("p256")), more="""
        location /any { satisfy any; deny 127.0.0.1; allow all; set $early "$jwt_claim_sub"; add_header X-Seen "%s|$early"; empty_gif; }
        location /by_address { satisfy any; allow 127.0.0.1; set $early "$jwt_claim_sub"; add_header X-Seen "%s|$early"; empty_gif; }
        """ % (SHOWN, SHOWN))
    assert seen(ask(server, sign(key("p256"), "ES256"), target="/any")) == (200, "ann|ES256||")
    assert ask(server, "a.b.c", target="/any").status == 401
    forged = by_hand({"alg": "ES256"}, {"sub": "eve"}, b"x")
    assert seen(ask(server, forged, target="/by_address")) == (200, "|||")


def test_redirects_and_subrequests(site):
    server = site(public(key("p256")), more="""
        location /away { rewrite ^ /inner; } location /inner { internal; add_header X-Seen "%s"; empty_gif; }
        location /other { auth_jwt_key_file other.json; error_page 404 /inner; return 404; }
        location /ssi { ssi on; ssi_types *; alias page.html; } location = /part { return 200 "part of $jwt_claim_sub"; }
        location /to { try_files /nothing @named; } location @named { add_header X-Seen "%s"; empty_gif; }
        """ % (SHOWN, SHOWN))
    server.write("page.html", '<!--#include virtual="/part" -->')
    token = sign(key("p256"), "ES256")
    assert seen(ask(server, token, target="/away")) == (200, "ann|ES256|")
    assert seen(ask(server, token, target="/to")) == (200, "ann|ES256|")
    assert ask(server, token, target="/ssi").text == "part of ann"
    assert server.get("/away").status == 401


def test_limit_except(site):
    server = site(public(key("p256")), location="auth_jwt off; limit_except GET { auth_jwt x; auth_jwt_require $jwt_claim_rw error=403; }")
    assert server.get("/").status == 200
    with server.client() as client:
        assert client.request("/", method="DELETE").status == 401
        field = "Authorization: Bearer " + sign(key("p256"), "ES256")
        assert client.request("/", field, method="DELETE").status == 403


def test_http2(site):
    server = site(public(key("p256")))
    with H2(server.port) as h2:
        good = h2.get("/", headers=[("authorization", "Bearer " + sign(key("p256"), "ES256"))])
        bad = h2.get("/", headers=[("authorization", "Bearer a.b.c")])
        assert good.status == 200 and bad.status == 401


@pytest.mark.skipif(not h3.HAS_AIOQUIC, reason="without aioquic: see auto/aioquic")
def test_http3(serve):
    made = certificates.own("localhost")
    server = serve("""server { listen 127.0.0.1:@PORT@ quic; ssl_certificate %s; ssl_certificate_key %s;
                      auth_jwt api; auth_jwt_key_file keys.json; add_header X-User $jwt_claim_sub; location / { empty_gif; } }""" % (made.crt, made.key),
                   files={"keys.json": public(key("p256"))})
    with h3.H3(server.port) as client:
        good = client.get("/", headers=[("authorization", "Bearer " + sign(key("p256"), "ES256"))])
        bad = client.get("/", headers=[("authorization", "Bearer a.b.c")])
    assert (good.status, good.headers["x-user"]) == (200, "ann")
    assert (bad.status, bad.headers["www-authenticate"]) == (401, 'Bearer realm="api", error="invalid_token"')


FORGED = by_hand({"alg": "ES256"}, {"sub": "eve"}, b"x")


@pytest.mark.parametrize("lines, http", [
    ('auth_jwt $off;', 'map $host $off { default off; }'), ("auth_jwt off;", ""), ("satisfy any; allow 127.0.0.1;", "")])
def test_nothing_of_a_forged_token_after_the_access_phase(site, lines, http):
    """Where no token is asked for there is none, also where somebody looked at it before."""
    server = site(public(key("p256")), http=http, server='set $early "$jwt_claim_sub";',
                  more='location /free { %s add_header X-Seen "%s"; empty_gif; }' % (lines, SHOWN))
    assert seen(ask(server, FORGED, target="/free")) == (200, "||")


def test_nothing_of_a_forged_token_in_subrequests(site):
    """Their access phase does not run."""
    server = site(public(key("p256")), more="""
        location /ssi { auth_jwt off; ssi on; ssi_types *; alias page.html; } location = /part { return 200 "part of $jwt_claim_sub"; }""")
    server.write("page.html", '<!--#include virtual="/part" -->')
    assert ask(server, FORGED, target="/ssi").text == "part of "


def test_host_of_the_client_does_not_choose_kept_keys(serve, backend):
    """They are those of all clients."""
    back = backend([keys_answer(key("p256"))])
    server = serve(by_request(back, "auth_jwt_key_cache 1h;").replace(
        "location = /keys {", "location = /keys { proxy_set_header X-Host $host$is_request_port$request_port;"), main="worker_processes 1;")
    with server.client() as client:
        assert client.request("/", "Authorization: Bearer " + sign(key("p256"), "ES256"), host="evil.example:77").status == 200
    assert b"evil" not in back.requests[-1] and b":77\r\n" not in back.requests[-1]


@pytest.mark.parametrize("lines, message", [
    ("auth_jwt x tokn=$a;", 'invalid parameter "tokn=\\$a"'), ("auth_jwt x token=;", 'invalid parameter "token="'),
    ("auth_jwt_type sealed;", 'invalid value "sealed"'), ("auth_jwt_require $a error=404;", 'invalid parameter "error=404"'),
    ("auth_jwt_leeway x;", 'auth_jwt_leeway'), ("auth_jwt a; auth_jwt b;", '"auth_jwt" directive is duplicate')])
def test_configuration(lines, message, tmp_path):
    from harness.server import run_binary
    (tmp_path / "nginx.conf").write_text("events {} http { server { listen unix:x; %s } }" % lines)
    result = run_binary("-t", "-p", str(tmp_path), "-c", "nginx.conf", "-e", "stderr")
    assert result.returncode == 1
    import re
    assert re.search(message, result.stderr), result.stderr
