"""What -t says of certificates, keys, lists and options that are no good: file and reason, in nginx's words."""

import functools
import os
import re
import shutil
import tempfile

import pytest

import certificates
from harness import binaries, run_binary

GOOD = "ssl_certificate ec.crt; ssl_certificate_key ec.key;"
PROXY = "location / { proxy_pass https://127.0.0.1:1; %s }"

# Text of a server with `listen ... ssl`; the reference must say the same of it, word by word.
SAME = [
    # certificates
    "ssl_certificate nx.crt; ssl_certificate_key ec.key;",
    "ssl_certificate empty; ssl_certificate_key ec.key;",
    "ssl_certificate junk; ssl_certificate_key ec.key;",
    "ssl_certificate torn.crt; ssl_certificate_key ec.key;",
    "ssl_certificate base64.crt; ssl_certificate_key ec.key;",
    "ssl_certificate asn1.crt; ssl_certificate_key ec.key;",
    "ssl_certificate ec.key; ssl_certificate_key ec.key;",
    "ssl_certificate chain.crt; ssl_certificate_key ec.key;",
    "ssl_certificate directory; ssl_certificate_key ec.key;",
    "ssl_certificate ec.crt;",
    "ssl_certificate ec.crt; ssl_certificate rsa.crt; ssl_certificate_key ec.key;",
    "ssl_certificate_key ec.key;",
    "",
    # keys
    "ssl_certificate ec.crt; ssl_certificate_key nx.key;",
    "ssl_certificate ec.crt; ssl_certificate_key empty;",
    "ssl_certificate ec.crt; ssl_certificate_key ec.crt;",
    "ssl_certificate ec.crt; ssl_certificate_key torn.key;",
    "ssl_certificate ec.crt; ssl_certificate_key directory;",
    "ssl_certificate ec.crt; ssl_certificate_key other.key;",
    "ssl_certificate ec.crt; ssl_certificate_key engine:nx;",
    # pass phrases
    "ssl_certificate ec.crt; ssl_certificate_key locked.key; ssl_password_file wrong;",
    "ssl_certificate ec.crt; ssl_certificate_key locked.key; ssl_password_file two-wrong;",
    GOOD + "ssl_password_file nx;",
    GOOD + "ssl_password_file directory;",
    # authorities and revocation lists
    GOOD + "ssl_verify_client maybe;",
    GOOD + "ssl_verify_depth x;",
    # parameters
    GOOD + "ssl_dhparam nx;",
    GOOD + "ssl_ecdh_curve nowhere;",
    GOOD + "ssl_ecdh_curve X25519:nowhere;",
    GOOD + "ssl_ciphers NONE-SUCH;",
    GOOD + "ssl_ciphers a; ssl_ciphers b;",
    GOOD + "ssl_protocols TLSv7;",
    GOOD + "ssl_prefer_server_ciphers perhaps;",
    GOOD + "ssl_conf_command Foo bar;",
    GOOD + "ssl_conf_command MinProtocol TLSv7;",
    GOOD + "ssl_conf_command Ciphersuites none;",
    GOOD + "ssl_conf_command Options;",
    GOOD + "ssl_conf_command Certificate nx.crt;",
    GOOD + "ssl_buffer_size x;",
    GOOD + "ssl_early_data maybe;",
    GOOD + "ssl_reject_handshake maybe;",
    # sessions
    GOOD + "ssl_session_cache foo;",
    GOOD + "ssl_session_cache shared:a;",
    GOOD + "ssl_session_cache shared::1m;",
    GOOD + "ssl_session_cache shared:a:x;",
    GOOD + "ssl_session_cache shared:a:1k;",
    GOOD + "ssl_session_cache builtin:x;",
    GOOD + "ssl_session_ticket_key nx;",
    GOOD + "ssl_session_ticket_key ec.crt;",
    GOOD + "ssl_session_ticket_key empty;",
    GOOD + "ssl_session_timeout soon;",
    # OCSP
    GOOD + "ssl_stapling on; ssl_stapling_file nx;",
    GOOD + "ssl_stapling on; ssl_stapling_file empty;",
    GOOD + "ssl_stapling on; ssl_stapling_file junk;",
    GOOD + "ssl_ocsp maybe;",
    GOOD + "ssl_verify_client on; ssl_client_certificate ec.crt; ssl_ocsp on; "
           "ssl_ocsp_responder ftp://x;",
    GOOD + "ssl_verify_client optional_no_ca; ssl_ocsp on;",
    GOOD + "ssl_ocsp_cache foo;",
    GOOD + "ssl_ocsp_cache shared:o;",
    GOOD + "ssl_ocsp_cache shared:o:1k;",
    # towards backends
    GOOD + PROXY % "proxy_ssl_certificate nx; proxy_ssl_certificate_key nx;",
    GOOD + PROXY % "proxy_ssl_certificate ec.crt;",
    GOOD + PROXY % "proxy_ssl_certificate ec.crt; proxy_ssl_certificate_key other.key;",
    GOOD + PROXY % "proxy_ssl_certificate ec.crt; proxy_ssl_certificate_key locked.key; "
                   "proxy_ssl_password_file wrong;",
    GOOD + PROXY % "proxy_ssl_verify on;",
    GOOD + PROXY % "proxy_ssl_ciphers NONE-SUCH;",
    GOOD + PROXY % "proxy_ssl_conf_command Foo bar;",
    GOOD + PROXY % "proxy_ssl_protocols TLSv7;",
]

# What the reference does not know, or says otherwise, and why.
OTHER = [
    # The reference takes it, and has no certificate then.
    ("ssl_certificate ec.crt; ssl_certificate_key rsa.key;",
     r'SSL_CTX_use_PrivateKey\("@DIR@/rsa.key"\) failed \(SSL: error:.*key type mismatch'),
    # The whole name of the key is shown.
    ("ssl_certificate ec.crt; ssl_certificate_key engine:nx:1;",
     r'cannot load certificate key "engine:nx:1": ENGINE_by_id\(\) failed \(SSL: error:'),
    # Both will do since 1.29.
    (GOOD + "ssl_verify_client on;",
     "no ssl_client_certificate or ssl_trusted_certificate for ssl_verify_client"),
    # Lists are read by ourselves, so that they are kept over a reload.
    (GOOD + "ssl_verify_client on; ssl_client_certificate nx;",
     r'cannot load CA certificates "@DIR@/nx": BIO_new_file\(\) failed \(SSL: .*No such file'),
    (GOOD + "ssl_verify_client on; ssl_client_certificate empty;",
     r'cannot load CA certificates "@DIR@/empty": .* failed \(SSL: .*no start line'),
    (GOOD + "ssl_verify_client on; ssl_client_certificate junk;",
     r'cannot load CA certificates "@DIR@/junk": .* failed \(SSL: .*no start line'),
    (GOOD + "ssl_verify_client on; ssl_client_certificate ec.key;",
     r'cannot load CA certificates "@DIR@/ec.key": .* failed \(SSL: .*no start line'),
    (GOOD + "ssl_verify_client on; ssl_client_certificate chain.crt;",
     r'cannot load CA certificates "@DIR@/chain.crt": .* failed \(SSL: .*bad end line'),
    (GOOD + "ssl_trusted_certificate nx;",
     r'cannot load CA certificates "@DIR@/nx": BIO_new_file\(\) failed \(SSL: '),
    (GOOD + "ssl_trusted_certificate empty;", r'cannot load CA certificates "@DIR@/empty": '),
    (GOOD + "ssl_verify_client on; ssl_client_certificate ec.crt; ssl_crl nx;",
     r'cannot load CRL "@DIR@/nx": BIO_new_file\(\) failed \(SSL: .*No such file'),
    (GOOD + "ssl_verify_client on; ssl_client_certificate ec.crt; ssl_crl empty;",
     r'cannot load CRL "@DIR@/empty": PEM_read_bio_X509_CRL\(\) failed \(SSL: .*no start line'),
    (GOOD + "ssl_verify_client on; ssl_client_certificate ec.crt; ssl_crl junk;",
     r'cannot load CRL "@DIR@/junk": PEM_read_bio_X509_CRL\(\) failed \(SSL: .*no start line'),
    (GOOD + PROXY % "proxy_ssl_verify on; proxy_ssl_trusted_certificate nx;",
     r'cannot load CA certificates "@DIR@/nx": BIO_new_file\(\) failed'),
    (GOOD + PROXY % "proxy_ssl_verify on; proxy_ssl_trusted_certificate ec.crt; proxy_ssl_crl nx;",
     r'cannot load CRL "@DIR@/nx": BIO_new_file\(\) failed'),
    # The same call by its newer name inside of the library.
    (GOOD + "ssl_dhparam empty;", r'PEM_read_bio_DHparams\("@DIR@/empty"\) failed \(SSL: '),
    (GOOD + "ssl_dhparam ec.crt;", r'PEM_read_bio_DHparams\("@DIR@/ec.crt"\) failed \(SSL: '),
    # Of 1.23 to 1.31.
    ("ssl_certificate data:junk; ssl_certificate_key ec.key;",
     r'cannot load certificate "data:\.\.\.": PEM_read_bio_X509_AUX\(\) failed \(SSL: '),
    ("ssl_certificate ec.crt; ssl_certificate_key data:junk;",
     r'cannot load certificate key "data:\.\.\.": PEM_read_bio_PrivateKey\(\) failed \(SSL: '),
    ("ssl_certificate ec.crt; ssl_certificate_key store:nx:1;",
     r'cannot load certificate key "store:nx:1": OSSL_STORE_open\(\) failed \(SSL: '),
    (GOOD + "ssl_certificate_cache;", 'invalid number of arguments in "ssl_certificate_cache"'),
    (GOOD + "ssl_certificate_cache max=0;", 'invalid parameter "max=0"'),
    (GOOD + "ssl_certificate_cache valid=1m;", '"ssl_certificate_cache" must have the "max"'),
    (GOOD + "ssl_certificate_cache max=1 off;", 'invalid parameter "off"'),
    (GOOD + "ssl_certificate_compression maybe;", 'invalid value "maybe"'),
    (GOOD + "ssl_ocsp leave;", 'invalid value "leave"'),
    ("ssl_certificate ec.crt; ssl_certificate_key locked.key; ssl_password_file empty;",
     'cannot load certificate key "@DIR@/locked.key": '),
    (GOOD + "ssl_password_file big;", '"@DIR@/big" is too big'),
    # Of nginx's subscription.
    (GOOD + "ssl_key_log nx/log;", r'open\(\) "@DIR@/nx/log" failed \(2: No such file'),
    (GOOD + "ssl_key_log;", 'invalid number of arguments in "ssl_key_log"'),
    (GOOD + PROXY % "proxy_ssl_key_log nx/log;", r'open\(\) "@DIR@/nx/log" failed'),
    (GOOD + "location / { uwsgi_pass x:1; uwsgi_ssl_key_log nx/log; }", r'open\(\) "@DIR@/nx/log" failed'),
    (GOOD + "location / { grpc_pass x:1; grpc_ssl_key_log nx/log; }", r'open\(\) "@DIR@/nx/log" failed'),
    # Of Tengine.
    (GOOD + "enable_ntls on;", r'unknown directive "enable_ntls" \(.*Tongsuo'),
    (GOOD + "ssl_sign_certificate ec.crt;", r'unknown directive "ssl_sign_.*\(.*Tongsuo'),
    (GOOD + "ssl_enc_certificate_key ec.key;", r'unknown directive "ssl_enc_.*\(.*Tongsuo'),
    (GOOD + PROXY % "proxy_enable_ntls on;", r'unknown directive "proxy_enable_ntls" \(.*Tongsuo'),
    (GOOD + PROXY % "proxy_ssl_enc_certificate x;", r'unknown directive "proxy_ssl_enc.*Tongsuo'),
    (GOOD + "ssl_async on;", r'unknown directive "ssl_async" \(.*engine'),
    (GOOD + "ssl_verify_client_exception on;", r'"ssl_verify_client_exception" directive is not '
     "allowed here"),
    (GOOD + "location / { ssl_verify_client_exception maybe; }", 'invalid value "maybe"'),
    (GOOD + "ssl_pass_phrase_dialog maybe;", 'invalid parameter "maybe"'),
    (GOOD + "ssl_pass_phrase_dialog exec:/bin/false;", '"/bin/false" gave no pass phrase'),
]

# What is said at a start that goes on.
WARNINGS = [
    (GOOD + "ssl_stapling on;", r'\[warn\] "ssl_stapling" ignored, issuer certificate not found '
     'for certificate "@DIR@/ec.crt"'),
    (GOOD + "ssl_stapling on; ssl_trusted_certificate ec.crt;",
     r'\[warn\] "ssl_stapling" ignored, no OCSP responder URL in the certificate "@DIR@/ec.crt"'),
    (GOOD + "ssl_stapling on; ssl_trusted_certificate ec.crt; ssl_stapling_responder ftp://x;",
     r'\[warn\] "ssl_stapling" ignored, invalid URL prefix in OCSP responder "ftp://x"'),
    ("ssl on;" + GOOD, r'\[warn\] the "ssl" directive is deprecated'),
    (GOOD + "ssl_ech_file nx;", r'\[warn\] "ssl_ech_file" is not supported by OpenSSL 3.*ignored'),
]


@functools.lru_cache(maxsize=None)
def place():
    """The directory of the files that the rows name."""
    made = tempfile.mkdtemp(prefix="portunus-test-")
    one, rsa, other = (certificates.own(*words) for words in (("one",), ("one", "rsa"), ("two",)))
    locked = certificates.openssl("ec", "-in", one.key, "-aes128", "-passout", "pass:secret")
    lines = one.pem.splitlines(True)
    files = {
        "ec.crt": one.pem, "ec.key": one.key_pem, "rsa.crt": rsa.pem, "rsa.key": rsa.key_pem,
        "other.key": other.key_pem, "locked.key": locked.decode(), "empty": "", "junk": "junk\n" * 9,
        "torn.crt": "".join(lines[:4]), "torn.key": one.key_pem[:60],
        "base64.crt": lines[0] + "!!!!\n" + "".join(lines[1:]),
        "asn1.crt": lines[0] + "".join(lines[4:]), "chain.crt": one.pem + "".join(lines[:4]),
        "wrong": "no\n", "two-wrong": "no\nneither\n", "big": "x" * 70000,
    }
    for name, text in files.items():
        with open(os.path.join(made, name), "w", encoding="ascii") as out:
            out.write(text)
    os.mkdir(os.path.join(made, "directory"))
    return made


@pytest.fixture(scope="module", autouse=True)
def clean_up():
    yield
    shutil.rmtree(place())
    place.cache_clear()


def check(binary, text, main=""):
    """What -t says of a server with this text, without what differs from run to run."""
    with open(os.path.join(place(), "nginx.conf"), "w", encoding="ascii") as out:
        out.write("error_log stderr; pid p; %s\nevents { }\nhttp {\n access_log off;\n server {\n"
                  "listen 127.0.0.1:1 ssl;\n%s\n}\n}\n" % (main, text))
    result = run_binary("-t", "-p", place() + "/", "-c", "nginx.conf", "-e", "stderr", binary=binary,
                        cwd=place())
    return result.returncode, [re.sub(r"^(nginx: |\S+ \S+ )(\[\w+\]) (\d+#\d+: )?", r"\2 ", line)
                               for line in result.stderr.splitlines()]


def without_place(line):
    """Ours names the line of the directive more often, and more closely."""
    return re.sub(r" in \S+/nginx\.conf:\d+$", "", line)


@pytest.mark.parametrize("text", SAME)
def test_same_as_the_reference(text):
    expected = check(binaries.reference(), text)
    assert expected[0] == 1, "a fault of the table: %r" % (expected,)
    got = check(binaries.under_test(), text)
    assert got[0] == 1
    assert without_place(got[1][0]) == without_place(expected[1][0])


@pytest.mark.parametrize("engine", ["nx", "", "afalg"])
def test_engines_that_are_not_there(engine):
    expected = check(binaries.reference(), GOOD, "ssl_engine \"%s\";" % engine)
    if expected[0] == 0:
        pytest.skip("this engine works here")
    got = check(binaries.under_test(), GOOD, "ssl_engine \"%s\";" % engine)
    assert got[0] == 1
    assert without_place(got[1][0]) == expected[1][0]


@pytest.mark.parametrize("text, message", OTHER)
def test_of_our_own(text, message):
    code, lines = check(binaries.under_test(), text)
    assert code == 1
    said = [line for line in lines if line.startswith("[emerg]")]
    assert re.search(r"\[emerg\] .*(%s)" % message.replace("@DIR@", place()), said[0])


@pytest.mark.parametrize("text, message", WARNINGS)
def test_warnings(text, message):
    code, lines = check(binaries.under_test(), text)
    assert code == 0
    assert re.search(message.replace("@DIR@", place()), lines[0])


@pytest.mark.parametrize("text", [
    GOOD + "ssl_session_cache off; ssl_session_cache shared:twice:1m;",
    GOOD + "ssl_client_certificate \"\"; ssl_trusted_certificate \"\"; ssl_crl \"\"; ssl_dhparam \"\";",
])
def test_what_is_taken_though_it_looks_odd(text):
    expected = check(binaries.reference(), text)
    assert expected[0] == 0
    assert check(binaries.under_test(), text) == expected


@pytest.mark.parametrize("first, second, is_told", [
    ("ssl http2", "ssl", True), ("ssl", "ssl http2", True), ("ssl", "ssl proxy_protocol", True),
    ("ssl http2", "ssl http2", False), ("ssl", "", False), ("", "ssl", False), ("ssl http2", "", False),
])
def test_protocols_of_an_address_are_said_once(first, second, is_told):
    """Twice unlike is told; a line with none only names the address."""
    code, lines = check(binaries.under_test(), GOOD + "listen 127.0.0.1:2 %s; } server { listen 127.0.0.1:2 %s; "
                        "server_name other; %s" % (first, second, GOOD))
    assert code == 0, lines
    assert any("protocol options redefined for 127.0.0.1:2" in line for line in lines) == is_told


@pytest.mark.parametrize("text, is_good", [
    ("proxy_ssl_certificate \"\"; proxy_ssl_certificate_key \"\";", True),
    ("proxy_ssl_certificate \"\";", True),
    ("proxy_ssl_certificate ec.crt;", False),
    ("proxy_ssl_certificate ec.crt; proxy_ssl_certificate_key \"\";", False),
])
def test_an_empty_certificate_is_none(text, is_good):
    """As with variables that are empty: it takes back what was inherited."""
    code, lines = check(binaries.under_test(), GOOD + "location / { proxy_pass https://127.0.0.1; %s }" % text)
    assert (code == 0) == is_good, lines
