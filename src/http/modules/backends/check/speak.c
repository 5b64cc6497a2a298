/* Probes of `check`: a TLS ClientHello, MySQL's greeting, AJP's CPing. */
#include "http/modules/backends/check/speak.h"

#include <string.h>

#include "base/checksum.h"
#include "net/conn/conn.h"
#include "upstream/health.h"

enum { INPUT_MAX = 16 * 1024 };

/* Waits until conn_input has at least `least` bytes. */
static bool check_receive(struct health_probe *probe, size_t least)
{
    bool is_end = false;

    while (conn_input_len(probe->conn) < least) {
        if (!health_receive(probe, INPUT_MAX, &is_end)) {
            return false;
        }
        if (is_end && conn_input_len(probe->conn) < least) {
            return health_fail(probe, "answer, which was cut short", 0);
        }
    }
    return true;
}

/* ---- TLS ---- */

/* A ClientHello of TLS 1.2 (RFC 5246, 7.4.1.2) that servers of TLS 1.2 and 1.3 accept: record
 * header, cipher suites, no compression, and the extensions supported_groups, ec_point_formats,
 * signature_algorithms, supported_versions, key_share. The key share is empty: a TLS 1.3 server
 * requests one (HelloRetryRequest), which is a valid answer as well. HELLO_RANDOM is the offset of
 * the random bytes. */
static const unsigned char hello[] = {
    0x16, 3,    1,    0,    113, /* record: handshake, 113 bytes */
    1,    0,    0,    109,       /* client_hello, 109 bytes */
    3,    3,                     /* TLS 1.2 */
    0,    0,    0,    0,    0,    0,    0, 0,  0, 0,  0, 0,  0, 0, 0, 0,    /* random */
    0,    0,    0,    0,    0,    0,    0, 0,  0, 0,  0, 0,  0, 0, 0, 0, 0, /* no session */
    0,    16,                                                               /* cipher suites */
    0x13, 1,    0x13, 2,    0x13, 3,    /* AES_128_GCM, AES_256_GCM, CHACHA20 of 1.3 */
    0xc0, 0x2b, 0xc0, 0x2f, 0xc0, 0x30, /* ECDHE-ECDSA, ECDHE-RSA with AES GCM */
    0,    0x9c, 0,    0x2f,             /* RSA with AES_128 GCM, CBC */
    1,    0,                            /* no compression */
    0,    52,                           /* extensions */
    0,    10,   0,    8,    0,    6,    0, 29, 0, 23, 0, 24, /* supported_groups: x25519, P-256,
                                                                P-384 */
    0,    11,   0,    2,    1,    0,                         /* ec_point_formats: uncompressed */
    0,    13,   0,    10,   0,    8,    4, 3,  8, 4,  4, 1,  2, 1, /* signature_algorithms */
    0,    43,   0,    5,    4,    3,    4, 3,  3, /* supported_versions: 1.3, 1.2 */
    0,    51,   0,    2,    0,    0,              /* key_share: none yet */
    0xff, 1,    0,    1,    0,                    /* renegotiation_info: empty */
};
enum { HELLO_RANDOM = 11, RECORD_HEAD = 5, HANDSHAKE = 0x16, ALERT = 0x15 };

_Static_assert(sizeof(hello) == RECORD_HEAD + 113, "the record's length");

bool check_speak_tls(struct health_probe *probe)
{
    unsigned char bytes[sizeof(hello)];
    struct str input;

    memcpy(bytes, hello, sizeof(hello));
    random_bytes(bytes + HELLO_RANDOM, 32);
    if (!health_send(probe, (struct str){(const char *) bytes, sizeof(bytes)}) ||
        !check_receive(probe, RECORD_HEAD + 1)) {
        return false;
    }
    input = conn_input(probe->conn);
    if (input.data[0] != HANDSHAKE || input.data[1] != 3) {
        return health_fail(probe,
                           input.data[0] == ALERT ? "TLS hello, which was refused" : "TLS hello",
                           0);
    }
    return input.data[RECORD_HEAD] == 2 || health_fail(probe, "TLS hello", 0);
}

/* ---- MySQL ---- */

/* A packet: 3 bytes of length, sequence number 0, then the protocol version, or 0xff and an
 * error. */
enum { MYSQL_HEAD = 4, MYSQL_ERROR = 0xff };

bool check_speak_mysql(struct health_probe *probe)
{
    const unsigned char *bytes;
    size_t size;

    if (!check_receive(probe, MYSQL_HEAD + 1)) {
        return false;
    }
    bytes = (const unsigned char *) conn_input(probe->conn).data;
    size = (size_t) bytes[0] | (size_t) bytes[1] << 8 | (size_t) bytes[2] << 16;
    if (bytes[MYSQL_HEAD] == MYSQL_ERROR) {
        return health_fail(probe, "greeting of MySQL, which is an error", 0);
    }
    if (bytes[3] != 0 || size < 2 || (bytes[MYSQL_HEAD] != 10 && bytes[MYSQL_HEAD] != 9)) {
        return health_fail(probe, "greeting of MySQL", 0);
    }
    return true;
}

/* ---- AJP ---- */

/* AJP 1.3: magic number, length 1, CPing; the server answers with CPong. */
bool check_speak_ajp(struct health_probe *probe)
{
    if (!health_send(probe, STR("\x12\x34\x00\x01\x0a")) || !check_receive(probe, 5)) {
        return false;
    }
    struct str input = conn_input(probe->conn);
    if (memcmp(input.data, "AB\x00\x01\x09", 5) != 0) {
        return health_fail(probe, "answer to AJP's CPing", 0);
    }
    conn_consume(probe->conn, 5);
    probe->keeps_conn = conn_input_len(probe->conn) == 0;
    return true;
}
