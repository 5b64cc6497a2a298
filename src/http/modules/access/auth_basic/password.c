/* Password verification: plain text, single digests, apr1, and crypt(). */
#include "http/modules/access/auth_basic/password.h"

#include <crypt.h>
#include <stdlib.h>
#include <string.h>

#include <openssl/crypto.h>

#include "base/checksum.h"
#include "base/text.h"

#define PLAIN STR("{PLAIN}")
#define SHA STR("{SHA}")
#define SSHA STR("{SSHA}")
#define APR1 STR("$apr1$")

#define SHA1_SIZE 20
#define MD5_SIZE 16

/* ---- single digests ---- */

static bool match_sha(struct arena *arena, struct str stored, struct str given)
{
    unsigned char digest[SHA1_SIZE];

    sha1_of(given, digest);
    struct str text = base64_encode(arena, (struct str){(char *) digest, sizeof(digest)}, false);
    return secret_equal(text, stored);
}

/* base64 of the digest of password and salt, followed by the salt. */
static bool match_ssha(struct arena *arena, struct str stored, struct str given)
{
    unsigned char digest[SHA1_SIZE];
    struct str decoded;

    if (!base64_decode(arena, stored, false, &decoded) || decoded.len < SHA1_SIZE) {
        return false;
    }
    sha1_of(arena_concat(arena, given, str_skip(decoded, SHA1_SIZE)), digest);
    return secret_equal(str_head(decoded, SHA1_SIZE),
                        (struct str){(char *) digest, sizeof(digest)});
}

bool password_is_costly(struct str stored)
{
    return !str_starts(stored, PLAIN) && !str_starts(stored, SHA) && !str_starts(stored, SSHA);
}

bool password_matches(struct arena *arena, struct str stored, struct str given)
{
    if (str_starts(stored, PLAIN)) {
        return secret_equal(str_skip(stored, PLAIN.len), given);
    }
    if (str_starts(stored, SHA)) {
        return match_sha(arena, str_skip(stored, SHA.len), given);
    }
    return str_starts(stored, SSHA) && match_ssha(arena, str_skip(stored, SSHA.len), given);
}

/* ---- apr1: MD5 with a thousand rounds, as made by Apache's htpasswd ---- */

#define APR1_SALT_MAX 8
#define APR1_ROUNDS 1000
#define APR1_TEXT 22 /* characters of the encoded digest */

/* A buffer for the bytes to digest. */
struct message {
    char *data; /* large enough for the longest message */
    size_t len;
};

static void message_add(struct message *message, struct str part)
{
    if (part.len != 0) {
        memcpy(message->data + message->len, part.data, part.len);
    }
    message->len += part.len;
}

/* Computes the digest of the contents, and empties the buffer. */
static void message_digest(struct message *message, unsigned char digest[MD5_SIZE])
{
    md5_of((struct str){message->data, message->len}, digest);
    message->len = 0;
}

static void apr1_begin(struct message *message, struct str given, struct str salt,
                       unsigned char digest[MD5_SIZE])
{
    const struct str digested = {(char *) digest, MD5_SIZE};
    size_t left = given.len;

    message_add(message, given);
    message_add(message, salt);
    message_add(message, given);
    message_digest(message, digest);
    message_add(message, given);
    message_add(message, APR1);
    message_add(message, salt);
    for (; left > MD5_SIZE; left -= MD5_SIZE) {
        message_add(message, digested);
    }
    message_add(message, str_head(digested, left));
    for (size_t bits = given.len; bits != 0; bits >>= 1) {
        message_add(message, (bits & 1) != 0 ? (struct str){"", 1} : str_head(given, 1));
    }
    message_digest(message, digest);
}

static void apr1_rounds(struct message *message, struct str given, struct str salt,
                        unsigned char digest[MD5_SIZE])
{
    const struct str digested = {(char *) digest, MD5_SIZE};

    for (unsigned round = 0; round < APR1_ROUNDS; round++) {
        bool is_odd = round % 2 != 0;
        message_add(message, is_odd ? given : digested);
        if (round % 3 != 0) {
            message_add(message, salt);
        }
        if (round % 7 != 0) {
            message_add(message, given);
        }
        message_add(message, is_odd ? digested : given);
        message_digest(message, digest);
    }
}

/* Encodes three bytes of the digest as four characters, lowest bits first; the last byte as two. */
static void apr1_text(const unsigned char digest[MD5_SIZE], char text[APR1_TEXT])
{
    static const char letters[] =
        "./0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
    static const unsigned char order[5][3] = {{0, 6, 12},
                                              {1, 7, 13},
                                              {2, 8, 14},
                                              {3, 9, 15},
                                              {4, 10, 5}};

    for (unsigned i = 0; i < 5; i++) {
        uint32_t bits = (uint32_t) digest[order[i][0]] << 16 | (uint32_t) digest[order[i][1]] << 8 |
                        digest[order[i][2]];
        for (unsigned n = 0; n < 4; n++, bits >>= 6) {
            *text++ = letters[bits & 63];
        }
    }
    *text++ = letters[digest[11] & 63];
    *text = letters[digest[11] >> 6];
}

/* Compares with "$apr1$salt$digest". */
static bool match_apr1(struct str stored, struct str given)
{
    struct str rest = str_skip(stored, APR1.len);
    struct str salt = str_cut(&rest, '$');
    unsigned char digest[MD5_SIZE];
    char text[APR1_TEXT];

    if (rest.data == NULL || salt.len > APR1_SALT_MAX) {
        return false;
    }
    /* The second message is the longest: password, "$apr1$", salt, the digest to the length of the
     * password, a byte per bit of that length. */
    size_t size = 2 * given.len + 128;
    struct message message = {.data = malloc(size)};
    if (message.data == NULL) {
        return false;
    }
    apr1_begin(&message, given, salt, digest);
    apr1_rounds(&message, given, salt, digest);
    apr1_text(digest, text);
    OPENSSL_cleanse(message.data, size);
    free(message.data);
    return secret_equal(rest, (struct str){text, sizeof(text)});
}

/* ---- crypt() ---- */

/* crypt() takes C strings: a line with a NUL byte is rejected, not truncated. */
static bool match_crypt(struct str stored, struct str given)
{
    if (stored.len == 0 || str_find_char(stored, '\0') != NULL) {
        return false;
    }
    struct crypt_data *data = calloc(1, sizeof(*data)); /* 32 KB, too large for the stack */
    if (data == NULL) {
        return false;
    }
    const char *result = crypt_r(given.data, stored.data, data);
    bool is_equal = result != NULL && result[0] != '*' && secret_equal(str_of(result), stored);
    OPENSSL_cleanse(data, sizeof(*data));
    free(data);
    return is_equal;
}

bool password_matches_hash(struct str stored, struct str given)
{
    return str_starts(stored, APR1) ? match_apr1(stored, given) : match_crypt(stored, given);
}
