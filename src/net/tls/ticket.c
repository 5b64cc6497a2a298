/* Keys of session tickets (RFC 5077; RFC 8446, 4.6.1): from files, or generated and shared by all
 * workers. */
#include <errno.h>
#include <fcntl.h>
#include <openssl/core_names.h>
#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/rand.h>
#include <time.h>
#include <unistd.h>

#include "base/shm.h"
#include "net/tls/private.h"
#include "net/tls/ring.h"

#define SHORT_FILE 48 /* name, HMAC-SHA256 and AES-128: 16 bytes each */
/* Positions for the keys of the previous, the current and the next period. */
#define SHARED_KEYS 4
#define LONG_FILE 80 /* name of 16 bytes, HMAC-SHA256 and AES-256 of 32 bytes each */

/*
 * Generated keys: the root of the zone. All workers know the next key before it is used. The
 * previous key is valid for as long as a session may last.
 */
struct ticket_ring {
    struct shm_lock lock;
    uint64_t period_s; /* for which a key encrypts; as long as the longest session */
    /* The period of the configuration that was read last. It takes effect when one of its contexts
     * is used, since the configuration may be refused. */
    _Atomic uint64_t wanted_s;
    _Atomic uint32_t reading; /* the number of that reading */
    struct ring_key {
        struct tls_ticket_key key;
        uint64_t until; /* seconds of the wall clock: encrypts until then; 0 = no key */
    } current, previous;
    /* Keys that several nodes share; preferred to the own ones. The position follows from the
     * number of the period. */
    struct shared_key {
        struct tls_ticket_key key;
        uint64_t number; /* of the period since the epoch; 0 = no key */
    } shared[SHARED_KEYS];
};

/* ---- files ---- */

static bool read_key(struct arena *arena, struct str name, struct tls_ticket_key *key,
                     struct str *error)
{
    unsigned char bytes[LONG_FILE + 1];
    int fd = open(arena_cstr(arena, name), O_RDONLY | O_CLOEXEC);
    ssize_t size = fd == -1 ? -1 : read(fd, bytes, sizeof(bytes));

    if (size == -1) {
        *error = arena_printf(arena, "%s \"%.*s\" failed (%d: %s)", fd == -1 ? "open()" : "read()",
                              STR_ARG(name), errno, strerror(errno));
    } else if (size != SHORT_FILE && size != LONG_FILE) {
        *error = arena_printf(arena, "\"%.*s\" must be 48 or 80 bytes", STR_ARG(name));
    }
    if (fd != -1) {
        close(fd);
    }
    if (size != SHORT_FILE && size != LONG_FILE) {
        OPENSSL_cleanse(bytes, sizeof(bytes));
        return false;
    }
    key->size = size == SHORT_FILE ? 16 : 32;
    memcpy(key->name, bytes, 16);
    if (size == SHORT_FILE) {
        memcpy(key->aes, bytes + 16, 16);
        memcpy(key->hmac, bytes + 32, 16);
    } else {
        memcpy(key->hmac, bytes + 16, 32);
        memcpy(key->aes, bytes + 48, 32);
    }
    OPENSSL_cleanse(bytes, sizeof(bytes));
    return true;
}

static bool read_keys(struct tls_context *context, struct arena *arena, struct str *error)
{
    const struct vec *files = &context->settings.ticket_keys;
    struct tls_ticket_key *keys = arena_array(context->arena, files->count, sizeof(*keys));

    for (size_t i = 0; i < files->count; i++) {
        if (!read_key(arena, *vec_at(files, struct str, i), &keys[i], error)) {
            return false;
        }
    }
    context->ticket_keys = keys;
    context->ticket_key_count = files->count;
    return true;
}

/* ---- generated keys ---- */

static bool make_key(struct tls_ticket_key *key)
{
    key->size = 32;
    return RAND_bytes(key->name, sizeof(key->name)) == 1 &&
           RAND_priv_bytes(key->hmac, sizeof(key->hmac)) == 1 &&
           RAND_priv_bytes(key->aes, sizeof(key->aes)) == 1;
}

/* Replaces keys whose time is over. */
static bool ring_turn(struct ticket_ring *ring, uint64_t now)
{
    if (now < ring->current.until) {
        return true;
    }
    struct ring_key fresh = {.until = now + ring->period_s};
    if (!make_key(&fresh.key)) {
        return ring->current.until != 0;
    }
    /* A key that was not used for long is not kept. */
    if (ring->current.until != 0 && now < ring->current.until + ring->period_s) {
        ring->previous = ring->current;
    } else {
        OPENSSL_cleanse(&ring->previous, sizeof(ring->previous));
    }
    ring->current = fresh;
    return true;
}

/*
 * Finds the key to encrypt with (name NULL), or the one with this name. 0 = none, 1 = found, 2 = an
 * old one: the client should get a new ticket. With the lock held.
 */
static int own_find(const struct ticket_ring *ring, const unsigned char *name, uint64_t now,
                    struct tls_ticket_key *out)
{
    if (name == NULL || memcmp(name, ring->current.key.name, sizeof(out->name)) == 0) {
        *out = ring->current.key;
        return 1;
    }
    if (ring->previous.until != 0 && now < ring->previous.until + ring->period_s &&
        memcmp(name, ring->previous.key.name, sizeof(out->name)) == 0) {
        *out = ring->previous.key;
        return 2;
    }
    return 0;
}

static void ring_lock(struct ticket_ring *ring)
{
    if (shm_lock_take(&ring->lock)) { /* the contents may be incomplete */
        ring->current.until = ring->previous.until = 0;
        OPENSSL_cleanse(ring->shared, sizeof(ring->shared));
    }
}

/* With the lock held. */
static void set_period(struct ticket_ring *ring, uint64_t period_s)
{
    uint64_t now = (uint64_t) time(NULL);

    ring->period_s = period_s;
    if (ring->current.until > now + period_s) {
        ring->current.until = now + period_s;
    }
    /* Periods have other numbers now. */
    OPENSSL_cleanse(ring->shared, sizeof(ring->shared));
}

bool tls_ring_begin(struct zone *zone)
{
    struct ticket_ring *ring = tls_ring_of(zone, 0);

    if (ring != NULL) {
        ring->reading++;
        ring->wanted_s = 0;
    }
    return ring != NULL;
}

void tls_ring_use(struct ticket_ring *ring, uint32_t reading)
{
    if (ring->reading == reading && ring->period_s != ring->wanted_s) {
        ring_lock(ring);
        set_period(ring, ring->wanted_s);
        shm_lock_release(&ring->lock);
    }
}

struct ticket_ring *tls_ring_of(struct zone *zone, uint64_t period_s)
{
    struct ticket_ring *ring = zone->root;

    if (ring == NULL) {
        ring = slab_alloc(zone->slab, sizeof(*ring));
        if (ring == NULL) {
            return NULL;
        }
        shm_lock_init(&ring->lock);
        zone->root = ring;
    }
    if (ring->wanted_s < period_s) {
        ring->wanted_s = period_s;
    }
    if (ring->period_s < period_s) {
        ring_lock(ring);
        set_period(ring, period_s);
        shm_lock_release(&ring->lock);
    }
    return ring;
}

/* ---- keys that nodes share ---- */

uint64_t tls_ring_period_s(const struct ticket_ring *ring)
{
    return ring->period_s;
}

static struct shared_key *shared_slot(struct ticket_ring *ring, uint64_t number)
{
    return &ring->shared[number % SHARED_KEYS];
}

bool tls_ring_wants(struct ticket_ring *ring, uint64_t now_s, uint64_t *number)
{
    uint64_t current = ring->period_s == 0 ? 0 : now_s / ring->period_s;

    if (current == 0) {
        return false; /* no server uses the ring */
    }
    ring_lock(ring);
    bool has_current = shared_slot(ring, current)->number == current;
    bool has_next = shared_slot(ring, current + 1)->number == current + 1;
    shm_lock_release(&ring->lock);
    *number = has_current ? current + 1 : current;
    return !has_current || (!has_next && now_s % ring->period_s >= ring->period_s / 2);
}

bool tls_ring_make(struct ticket_ring *ring, uint64_t number)
{
    struct shared_key made = {.number = number};

    if (!make_key(&made.key)) {
        return false;
    }
    ring_lock(ring);
    *shared_slot(ring, number) = made;
    shm_lock_release(&ring->lock);
    OPENSSL_cleanse(&made, sizeof(made));
    return true;
}

bool tls_ring_get(struct ticket_ring *ring, uint64_t number, unsigned char out[TLS_RING_KEY])
{
    ring_lock(ring);
    const struct shared_key *shared = shared_slot(ring, number);
    bool is_there = number != 0 && shared->number == number;
    if (is_there) {
        memcpy(out, shared->key.name, 16);
        memcpy(out + 16, shared->key.hmac, 32);
        memcpy(out + 48, shared->key.aes, 32);
    }
    shm_lock_release(&ring->lock);
    return is_there;
}

void tls_ring_put(struct ticket_ring *ring, uint64_t number, const unsigned char key[TLS_RING_KEY])
{
    ring_lock(ring);
    struct shared_key *shared = shared_slot(ring, number);
    if (key == NULL && shared->number == number) {
        OPENSSL_cleanse(shared, sizeof(*shared));
    } else if (key != NULL && number >= shared->number) {
        shared->number = number;
        shared->key.size = 32;
        memcpy(shared->key.name, key, 16);
        memcpy(shared->key.hmac, key + 16, 32);
        memcpy(shared->key.aes, key + 48, 32);
    }
    shm_lock_release(&ring->lock);
}

/* Like tls_ring_find, for the shared keys, with the lock held. */
static int shared_find(struct ticket_ring *ring, const unsigned char *name, uint64_t now,
                       struct tls_ticket_key *out)
{
    uint64_t current = now / ring->period_s;

    for (uint64_t number = current - 1; number <= current + 1; number++) {
        const struct shared_key *shared = shared_slot(ring, number);
        if (shared->number == number &&
            (name == NULL ? number == current
                          : memcmp(name, shared->key.name, sizeof(out->name)) == 0)) {
            *out = shared->key;
            return number < current ? 2 : 1;
        }
    }
    return 0;
}

int tls_ring_find(struct ticket_ring *ring, const unsigned char *name, uint64_t now,
                  struct tls_ticket_key *out)
{
    ring_lock(ring);
    int found = shared_find(ring, name, now, out);
    if (found == 0 && ring_turn(ring, now)) {
        found = own_find(ring, name, now, out);
    }
    shm_lock_release(&ring->lock);
    return found;
}

static int files_find(const struct tls_context *context, const unsigned char *name,
                      struct tls_ticket_key *out)
{
    if (name == NULL) {
        *out = context->ticket_keys[0];
        return 1;
    }
    for (size_t i = 0; i < context->ticket_key_count; i++) {
        if (memcmp(name, context->ticket_keys[i].name, sizeof(out->name)) == 0) {
            *out = context->ticket_keys[i];
            return i == 0 ? 1 : 2;
        }
    }
    return 0;
}

/* ---- the callback ---- */

/* Fetched once: a fetch costs more than a ticket. */
static const EVP_CIPHER *cipher_of(unsigned size)
{
    static EVP_CIPHER *ciphers[2];
    EVP_CIPHER **cipher = &ciphers[size != 16];

    if (*cipher == NULL) {
        *cipher = EVP_CIPHER_fetch(NULL, size == 16 ? "AES-128-CBC" : "AES-256-CBC", NULL);
    }
    return *cipher != NULL ? *cipher : size == 16 ? EVP_aes_128_cbc() : EVP_aes_256_cbc();
}

static int apply_key(const struct tls_ticket_key *key, unsigned char *iv, EVP_CIPHER_CTX *cipher,
                     EVP_MAC_CTX *mac, int is_encrypting)
{
    const EVP_CIPHER *aes = cipher_of(key->size);
    OSSL_PARAM params[] = {
        OSSL_PARAM_construct_octet_string(OSSL_MAC_PARAM_KEY, (void *) key->hmac, key->size),
        OSSL_PARAM_construct_utf8_string(OSSL_MAC_PARAM_DIGEST, (char *) "SHA256", 0),
        OSSL_PARAM_construct_end(),
    };

    if (is_encrypting && RAND_bytes(iv, EVP_CIPHER_get_iv_length(aes)) != 1) {
        return 0;
    }
    return EVP_CipherInit_ex(cipher, aes, NULL, key->aes, iv, is_encrypting) == 1 &&
           EVP_MAC_CTX_set_params(mac, params) == 1;
}

static int on_ticket(SSL *ssl, unsigned char *name, unsigned char *iv, EVP_CIPHER_CTX *cipher,
                     EVP_MAC_CTX *mac, int is_encrypting)
{
    const struct tls_context *context = tls_session_context(ssl);
    const unsigned char *wanted = is_encrypting ? NULL : name;
    struct tls_ticket_key key;

    if (context->ring != NULL) {
        tls_ring_use(context->ring, context->ring_reading);
    }
    int found = context->ticket_keys != NULL
                    ? files_find(context, wanted, &key)
                    : tls_ring_find(context->ring, wanted, (uint64_t) time(NULL), &key);

    if (found == 0) {
        return is_encrypting ? -1 : 0;
    }
    if (is_encrypting) {
        memcpy(name, key.name, sizeof(key.name));
    }
    int is_good = apply_key(&key, iv, cipher, mac, is_encrypting);
    OPENSSL_cleanse(&key, sizeof(key));
    if (!is_good) {
        return -1;
    }
    /* TLS 1.3 sends a new ticket anyway, and a ticket is not used twice. */
    if (found == 2 || (!is_encrypting && SSL_version(ssl) == TLS1_3_VERSION)) {
        return is_encrypting ? 1 : 2;
    }
    return 1;
}

/* As long as the longest session. Never 0, since times are divided by it: tickets are made even
 * with `ssl_session_timeout 0`. */
static uint64_t ring_period_s(const struct tls_settings *settings)
{
    uint64_t period_s = settings->ticket_period_s > settings->session_timeout_s
                            ? settings->ticket_period_s
                            : settings->session_timeout_s;

    return period_s == 0 ? 1 : period_s;
}

bool tls_tickets_init(struct tls_context *context, SSL_CTX *ctx, struct arena *arena,
                      struct str *error)
{
    const struct tls_settings *settings = &context->settings;

    if (!settings->tickets) {
        SSL_CTX_set_options(ctx, SSL_OP_NO_TICKET);
    }
    if (settings->ticket_keys.count != 0) {
        if (!read_keys(context, arena, error)) {
            return false;
        }
    } else if (settings->ticket_zone != NULL && context->ring == NULL) {
        context->ring = tls_ring_of(settings->ticket_zone, ring_period_s(settings));
        context->ring_reading = context->ring == NULL ? 0 : context->ring->reading;
    }
    if (context->ticket_keys == NULL && context->ring == NULL) {
        return true; /* the library makes keys for this context alone */
    }
    if (SSL_CTX_set_tlsext_ticket_key_evp_cb(ctx, on_ticket) == 0) {
        *error = tls_reason(arena, "SSL_CTX_set_tlsext_ticket_key_evp_cb() failed");
        return false;
    }
    return true;
}
