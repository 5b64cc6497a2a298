/*
 * Handshakes in messages with a library that has no calls for them: it reads and writes records in
 * memory. This code opens the records that the library writes, and wraps messages for it in
 * records, with the secrets from its key log.
 */
#include "net/tls/messages_private.h"

#if !TLS_HAS_QUIC_CALLS

#include <assert.h>
#include <openssl/err.h>
#include <stdlib.h>

#include "base/fatal.h"
#include "net/tls/secret.h"

#define RECORD_HEAD 5u
#define TAG_SIZE 16u
#define FINISHED 20u             /* a handshake message (RFC 8446, 4) */
#define PARAMETERS_EXTENSION 57u /* RFC 9001, 8.2 */

const char *tls_messages_way(void)
{
    return "records over memory";
}

static struct tls_messages *messages_of_ssl(const SSL *ssl)
{
    const struct tls *tls = SSL_get_ex_data(ssl, tls_index);

    return tls == NULL ? NULL : tls->messages;
}

/* ---- records ---- */

static bool record_keys_make(struct record_keys *keys, unsigned number, struct str secret,
                             bool encrypts)
{
    const struct tls_suite *suite = tls_suite_of(number);
    unsigned char key[32];

    if (suite == NULL) {
        return false;
    }
    EVP_CIPHER_CTX_free(keys->aead);
    keys->aead = EVP_CIPHER_CTX_new();
    keys->sequence = 0;
    return keys->aead != NULL && tls_expand_label(suite, secret, "key", key, suite->key_size) &&
           tls_expand_label(suite, secret, "iv", keys->iv, sizeof(keys->iv)) &&
           EVP_CipherInit_ex(keys->aead, suite->aead, NULL, key, NULL, encrypts) == 1;
}

static bool begin_record(struct record_keys *keys, const unsigned char *head)
{
    unsigned char nonce[12];
    int n;

    memcpy(nonce, keys->iv, sizeof(nonce));
    for (unsigned i = 0; i < 8; i++) {
        nonce[11 - i] ^= (unsigned char) (keys->sequence >> (8 * i));
    }
    keys->sequence++;
    return EVP_CipherInit_ex(keys->aead, NULL, NULL, NULL, nonce, -1) == 1 &&
           EVP_CipherUpdate(keys->aead, NULL, &n, head, RECORD_HEAD) == 1;
}

static void messages_records_put_head(unsigned char *at, unsigned type, size_t size)
{
    at[0] = (unsigned char) type;
    at[1] = 3;
    at[2] = 3;
    at[3] = (unsigned char) (size >> 8);
    at[4] = (unsigned char) size;
}

/* Wraps messages in one record for the library to read. */
static bool close_record(struct tls_messages *messages, struct str bytes)
{
    struct record_keys *keys = &messages->closes;
    unsigned char *head =
        message_bytes_reserve(&messages->in, RECORD_HEAD + bytes.len + 1 + TAG_SIZE);
    unsigned char *body = head + RECORD_HEAD;
    int n;

    memcpy(body, bytes.data, bytes.len);
    if (keys->aead == NULL) {
        messages_records_put_head(head, SSL3_RT_HANDSHAKE, bytes.len);
        messages->in.used += RECORD_HEAD + bytes.len;
        return true;
    }
    size_t size = bytes.len + 1;
    body[bytes.len] = SSL3_RT_HANDSHAKE;
    messages_records_put_head(head, SSL3_RT_APPLICATION_DATA, size + TAG_SIZE);
    messages->in.used += RECORD_HEAD + size + TAG_SIZE;
    return begin_record(keys, head) &&
           EVP_EncryptUpdate(keys->aead, body, &n, body, (int) size) == 1 &&
           EVP_EncryptFinal_ex(keys->aead, body + size, &n) == 1 &&
           EVP_CIPHER_CTX_ctrl(keys->aead, EVP_CTRL_AEAD_GET_TAG, TAG_SIZE, body + size) == 1;
}

bool tls_messages_put(struct tls_messages *messages, enum tls_level level, struct str bytes)
{
    if (messages->in_read == messages->in.used) {
        messages->in_read = messages->in.used = 0;
    }
    while (bytes.len != 0) {
        struct str part = str_head(bytes, TLS_RECORD_MAX);

        if (!close_record(messages, part)) {
            return false;
        }
        bytes = str_skip(bytes, part.len);
    }
    return true;
}

/* Opens a record in place. Gives its inner type, and the size without padding; 0 = it cannot be
 * opened. */
static unsigned open_record(struct record_keys *keys, unsigned char *record, size_t *size)
{
    unsigned char *body = record + RECORD_HEAD;
    int n;

    if (keys->aead == NULL || *size < TAG_SIZE + 1) {
        return 0;
    }
    *size -= TAG_SIZE;
    if (!begin_record(keys, record) ||
        EVP_CIPHER_CTX_ctrl(keys->aead, EVP_CTRL_AEAD_SET_TAG, TAG_SIZE, body + *size) != 1 ||
        EVP_DecryptUpdate(keys->aead, body, &n, body, (int) *size) != 1 ||
        EVP_DecryptFinal_ex(keys->aead, body, &n) != 1) {
        return 0;
    }
    while (*size != 0 && body[*size - 1] == 0) {
        (*size)--;
    }
    return *size == 0 ? 0 : body[--*size];
}

static bool use_own_secret(struct tls_messages *messages, enum tls_level level)
{
    if (messages->own == NULL) {
        return false;
    }
    struct str secret = {(const char *) messages->own->bytes[level], messages->own->size[level]};

    messages->writing = level;
    return record_keys_make(&messages->opens, messages->suite, secret, false);
}

/* The first record after Finished has the library's application keys. */
static bool follow_messages(struct tls_messages *messages, struct str bytes)
{
    while (bytes.len != 0) {
        if (message_walk_on(&messages->written, &bytes) == MESSAGE_MET_END &&
            messages->written.head[0] == FINISHED && messages->writing == TLS_LEVEL_HANDSHAKE) {
            return bytes.len == 0 && use_own_secret(messages, TLS_LEVEL_APPLICATION);
        }
    }
    return true;
}

/* Passes the contents of a record to the owner. */
static bool collect_record(struct tls_messages *messages, unsigned char *record, size_t size)
{
    enum tls_level level = TLS_LEVEL_INITIAL;
    unsigned type = record[0];

    if (type == SSL3_RT_APPLICATION_DATA) {
        if (messages->opens.aead == NULL && !use_own_secret(messages, TLS_LEVEL_HANDSHAKE)) {
            return false;
        }
        level = messages->writing;
        type = open_record(&messages->opens, record, &size);
    }
    struct str bytes = {(const char *) record + RECORD_HEAD, size};
    switch (type) {
    case SSL3_RT_CHANGE_CIPHER_SPEC:
        return true; /* has no meaning in TLS 1.3 */
    case SSL3_RT_ALERT:
        if (size == 2 && messages->alert == 0) {
            messages->alert = (unsigned char) bytes.data[1];
        }
        return size == 2;
    case SSL3_RT_HANDSHAKE:
        messages->owner->send(messages->arg, level, bytes);
        return follow_messages(messages, bytes);
    default:
        return false;
    }
}

bool tls_messages_collect(struct tls_messages *messages)
{
    struct message_bytes *out = &messages->out;
    bool is_good = true;
    size_t at = 0;

    while (is_good && out->used - at >= RECORD_HEAD) {
        size_t size = (size_t) (out->at[at + 3] << 8 | out->at[at + 4]);

        is_good =
            out->used - at - RECORD_HEAD >= size && collect_record(messages, out->at + at, size);
        at += RECORD_HEAD + size;
    }
    free(out->at);
    *out = (struct message_bytes){0};
    return is_good;
}

/* ---- secrets ---- */

static bool read_hex(struct str digits, unsigned char *out, size_t *size)
{
    static const char all[] = "0123456789abcdef";

    *size = digits.len / 2;
    if (digits.len % 2 != 0 || *size > EVP_MAX_MD_SIZE) {
        return false;
    }
    for (size_t i = 0; i < digits.len; i++) {
        const char *digit = memchr(all, ascii_lower((unsigned char) digits.data[i]), 16);
        if (digit == NULL) {
            return false;
        }
        out[i / 2] = (unsigned char) (out[i / 2] << 4 | (digit - all));
    }
    return true;
}

static unsigned suite_of(const SSL *ssl)
{
    const SSL_CIPHER *cipher = SSL_get_pending_cipher(ssl);

    cipher = cipher == NULL ? SSL_get_current_cipher(ssl) : cipher;
    return cipher == NULL ? 0 : SSL_CIPHER_get_protocol_id(cipher);
}

static void own_secret_keep(struct tls_messages *messages, enum tls_level level, struct str secret)
{
    if (messages->own == NULL) {
        messages->own = calloc(1, sizeof(*messages->own));
        if (messages->own == NULL) {
            fatal_no_memory(sizeof(*messages->own));
        }
    }
    memcpy(messages->own->bytes[level], secret.data, secret.len);
    messages->own->size[level] = (unsigned char) secret.len;
}

static bool take_secret(struct tls_messages *messages, enum tls_level level, bool is_for_sending,
                        struct str secret)
{
    if (is_for_sending) {
        own_secret_keep(messages, level, secret);
    } else {
        messages->reading = level;
        if (!record_keys_make(&messages->closes, messages->suite, secret, true)) {
            return false;
        }
    }
    return messages->owner->secret(messages->arg, level, is_for_sending, messages->suite, secret);
}

/* A line of the key log: label, client random, secret. */
static void on_secret(const SSL *ssl, const char *line)
{
    static const struct {
        struct str label;
        enum tls_level level;
        bool of_server;
    } labels[] = {
        {STR_INIT("CLIENT_HANDSHAKE_TRAFFIC_SECRET"), TLS_LEVEL_HANDSHAKE, false},
        {STR_INIT("SERVER_HANDSHAKE_TRAFFIC_SECRET"), TLS_LEVEL_HANDSHAKE, true},
        {STR_INIT("CLIENT_TRAFFIC_SECRET_0"), TLS_LEVEL_APPLICATION, false},
        {STR_INIT("SERVER_TRAFFIC_SECRET_0"), TLS_LEVEL_APPLICATION, true},
    };
    struct tls_messages *messages = messages_of_ssl(ssl);
    unsigned char secret[EVP_MAX_MD_SIZE];
    struct str rest = str_of(line);
    size_t size;

    tls_key_log(ssl, line);
    if (messages == NULL) {
        return;
    }
    struct str label = str_cut(&rest, ' ');
    str_cut(&rest, ' ');
    for (size_t i = 0; i < sizeof(labels) / sizeof(labels[0]); i++) {
        if (!str_equal(label, labels[i].label)) {
            continue;
        }
        messages->suite = suite_of(ssl);
        if (!read_hex(rest, secret, &size) ||
            !take_secret(messages, labels[i].level, labels[i].of_server != messages->tls->is_client,
                         (struct str){(const char *) secret, size})) {
            messages->has_failed = true;
        }
    }
    OPENSSL_cleanse(secret, sizeof(secret));
}

/* ---- transport parameters, as a custom extension ---- */

static int add_parameters(SSL *ssl, unsigned type, unsigned context, const unsigned char **out,
                          size_t *size, X509 *certificate, size_t index, int *alert, void *arg)
{
    struct tls_messages *messages = messages_of_ssl(ssl);

    if (messages == NULL) {
        return 0; /* not sent in TLS over TCP */
    }
    struct str own = messages->owner->own_parameters(messages->arg);
    *out = (const unsigned char *) own.data;
    *size = own.len;
    return 1;
}

static int parse_parameters(SSL *ssl, unsigned type, unsigned context, const unsigned char *in,
                            size_t size, X509 *certificate, size_t index, int *alert, void *arg)
{
    struct tls_messages *messages = messages_of_ssl(ssl);

    if (messages == NULL || messages->has_parameters) {
        return 1; /* ignored over TCP, and in a second ClientHello */
    }
    messages->has_parameters = true;
    *alert = SSL_AD_ILLEGAL_PARAMETER;
    return messages->owner->parameters(messages->arg, (struct str){(const char *) in, size});
}

bool tls_messages_prepare_ctx(SSL_CTX *ctx)
{
    if (SSL_CTX_has_client_custom_ext(ctx, PARAMETERS_EXTENSION)) {
        return true;
    }
    SSL_CTX_set_keylog_callback(ctx, on_secret);
    return SSL_CTX_add_custom_ext(ctx, PARAMETERS_EXTENSION,
                                  SSL_EXT_CLIENT_HELLO | SSL_EXT_TLS1_3_ENCRYPTED_EXTENSIONS |
                                      SSL_EXT_TLS1_3_ONLY,
                                  add_parameters, NULL, NULL, parse_parameters, NULL) == 1;
}

bool tls_messages_went_over(struct tls *tls)
{
    return true;
}

/* ---- memory instead of a socket ---- */

static int bio_read(BIO *bio, char *at, int size)
{
    struct tls_messages *messages = BIO_get_data(bio);
    size_t left = messages->in.used - messages->in_read;

    BIO_clear_retry_flags(bio);
    if (left == 0 || size <= 0) {
        BIO_set_retry_read(bio);
        return -1;
    }
    left = left < (size_t) size ? left : (size_t) size;
    memcpy(at, messages->in.at + messages->in_read, left);
    messages->in_read += left;
    return (int) left;
}

static int bio_write(BIO *bio, const char *at, int size)
{
    struct tls_messages *messages = BIO_get_data(bio);

    message_bytes_add(&messages->out, at, size < 0 ? 0 : (size_t) size);
    return size;
}

static long bio_ctrl(BIO *bio, int command, long number, void *pointer)
{
    return command == BIO_CTRL_FLUSH || command == BIO_CTRL_DUP;
}

static BIO_METHOD *bio_method(void)
{
    static BIO_METHOD *method;

    if (method == NULL) {
        method = tls_bio_method_new("messages", bio_read, bio_write, bio_ctrl);
    }
    return method;
}

SSL *tls_messages_ssl_new(struct tls *tls, SSL_CTX *ctx)
{
    SSL *ssl = tls_messages_prepare_ctx(ctx) ? SSL_new(ctx) : NULL;
    BIO *bio = ssl == NULL ? NULL : BIO_new(bio_method());

    if (bio == NULL) {
        SSL_free(ssl);
        tls_log_at(tls->conn->log, LOG_ALERT, "SSL_new() failed");
        return NULL;
    }
    BIO_set_data(bio, tls->messages);
    SSL_set_bio(ssl, bio, bio);
    tls->made_with = ctx;
    SSL_set_ex_data(ssl, tls_index, tls);
    tls->ssl = ssl;
    tls_messages_follow(tls);
    return ssl;
}

void tls_messages_settle(struct tls_messages *messages)
{
    EVP_CIPHER_CTX_free(messages->opens.aead);
    EVP_CIPHER_CTX_free(messages->closes.aead);
    messages->opens.aead = messages->closes.aead = NULL;
    if (messages->own != NULL) {
        OPENSSL_cleanse(messages->own, sizeof(*messages->own));
        free(messages->own);
        messages->own = NULL;
    }
    free(messages->in.at);
    messages->in = (struct message_bytes){0};
    messages->in_read = 0;
}

void tls_messages_free(struct tls *tls)
{
    struct tls_messages *messages = tls->messages;

    tls_messages_settle(messages);
    free(messages->out.at);
    free(messages);
}

#endif
