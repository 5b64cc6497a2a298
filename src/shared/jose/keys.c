/* Key sets: reading them, and selecting keys for a token. */
#include "shared/jose/keys.h"

#include <stdlib.h>

#include <openssl/crypto.h>
#include <openssl/err.h>

#include "base/fatal.h"
#include "base/text.h"

bool jose_bytes(struct arena *arena, const json_t *object, const char *name, struct str *out)
{
    struct str text = jose_string(object, name);

    return text.len != 0 && str_find_char(text, '=') == NULL &&
           base64_decode(arena, text, true, out) && out->len != 0;
}

/* ---- one key ---- */

/* Does an array of strings contain the word? */
static bool has_word(const json_t *array, const char *word)
{
    size_t index;
    json_t *value;

    json_array_foreach(array, index, value)
    {
        if (json_is_string(value) && strcmp(json_string_value(value), word) == 0) {
            return true;
        }
    }
    return false;
}

/* Reads `use` and `key_ops` (RFC 7517, 4.2 and 4.3). */
static void read_purpose(const json_t *jwk, struct jose_key *key)
{
    struct str use = jose_string(jwk, "use");
    const json_t *operations = json_object_get(jwk, "key_ops");

    key->verifies = use.data == NULL || str_is(use, "sig");
    key->decrypts = use.data == NULL || str_is(use, "enc");
    if (operations != NULL) {
        key->verifies = key->verifies && has_word(operations, "verify");
        key->decrypts =
            key->decrypts && (has_word(operations, "decrypt") || has_word(operations, "unwrapKey"));
    }
}

static const char *read_secret(struct jose_keys *keys, const json_t *jwk, struct jose_key *key)
{
    key->type = JOSE_OCT;
    return jose_bytes(&keys->arena, jwk, "k", &key->secret) ? NULL : "it has no \"k\"";
}

static const char *read_curve(struct jose_keys *keys, const json_t *jwk, enum jose_key_type type,
                              struct jose_key *key)
{
    const char *why = NULL;
    struct str curve = jose_string(jwk, "crv");

    key->type = type;
    key->curve = arena_dup(&keys->arena, curve);
    bool is_edwards = str_is(curve, "Ed25519") || str_is(curve, "Ed448");
    bool is_weierstrass =
        str_is(curve, "P-256") || str_is(curve, "P-384") || str_is(curve, "P-521");
    if (type == JOSE_OKP ? !is_edwards : !is_weierstrass) {
        return "its \"crv\" is not supported";
    }
    key->pkey = jose_curve_key(&keys->arena, jwk, curve, &why);
    return why;
}

/* NULL: the key can be used; else the reason why not. */
static const char *read_key(struct jose_keys *keys, const json_t *jwk, struct jose_key *key)
{
    const char *why = NULL;
    struct str type = jose_string(jwk, "kty");
    struct str id = jose_string(jwk, "kid");
    const json_t *algorithm = json_object_get(jwk, "alg");

    if (!json_is_object(jwk)) {
        return "it is not an object";
    }
    key->id = id.data == NULL ? STR_NONE : arena_concat(&keys->arena, id, STR("\0"));
    key->id.len = id.len;
    read_purpose(jwk, key);
    key->algorithm = jose_algorithm_named(jose_string(jwk, "alg"));
    if (algorithm != NULL && key->algorithm == NULL) {
        return "its \"alg\" is not supported";
    }
    if (str_is(type, "RSA")) {
        key->type = JOSE_RSA;
        key->pkey = jose_rsa_key(&keys->arena, jwk, &why);
    } else if (str_is(type, "oct")) {
        why = read_secret(keys, jwk, key);
    } else if (str_is(type, "EC")) {
        why = read_curve(keys, jwk, JOSE_EC, key);
    } else if (str_is(type, "OKP")) {
        why = read_curve(keys, jwk, JOSE_OKP, key);
    } else {
        why = "its \"kty\" is not supported";
    }
    if (why == NULL && key->algorithm != NULL && key->algorithm->type != key->type) {
        why = "its \"alg\" does not fit its \"kty\"";
    }
    return why;
}

bool jose_key_fits(const struct jose_key *key, const struct jose_algorithm *algorithm,
                   struct str id)
{
    if (key->type != algorithm->type || (key->algorithm != NULL && key->algorithm != algorithm) ||
        (algorithm->curve.len != 0 && !str_equal(algorithm->curve, key->curve)) ||
        (id.data != NULL && key->id.data != NULL && !str_equal(id, key->id))) {
        return false;
    }
    if (algorithm->kind == JOSE_AES_WRAP || algorithm->kind == JOSE_AES_GCM) {
        return key->decrypts && key->secret.len == algorithm->size;
    }
    return jose_is_signature(algorithm) ? key->verifies : key->decrypts;
}

/* ---- a set ---- */

static struct jose_keys *keys_new(unsigned most)
{
    static uint64_t made;
    struct jose_keys *keys = calloc(1, sizeof(*keys));

    if (keys == NULL) {
        fatal_no_memory(sizeof(*keys));
    }
    arena_init(&keys->arena);
    keys->references = 1;
    keys->number = ++made;
    keys->items = arena_array(&keys->arena, most, sizeof(*keys->items));
    return keys;
}

void jose_keys_release(void *arg)
{
    struct jose_keys *keys = arg;

    if (keys == NULL || --keys->references != 0) {
        return;
    }
    for (unsigned i = 0; i < keys->count; i++) {
        struct jose_key *key = &keys->items[i];
        EVP_PKEY_free(key->pkey);
        if (key->secret.len != 0) {
            OPENSSL_cleanse((char *) key->secret.data, key->secret.len);
        }
    }
    arena_free(&keys->arena);
    free(keys);
}

static void add_key(struct jose_keys *keys, const json_t *jwk, const struct log *log,
                    struct str name)
{
    struct jose_key *key = &keys->items[keys->count];
    const char *why = read_key(keys, jwk, key);

    if (why != NULL) {
        struct str id = key->id.data == NULL ? STR("") : key->id;
        log_warn(log, 0, "the key \"%.*s\" of \"%.*s\" is not used: %s", STR_ARG(id), STR_ARG(name),
                 why);
        EVP_PKEY_free(key->pkey);
        *key = (struct jose_key){.pkey = NULL};
        return;
    }
    keys->count++;
}

static void add_all(struct jose_keys *keys, const json_t *document, const struct log *log,
                    struct str name)
{
    const json_t *list = json_object_get(document, "keys");
    size_t index;
    json_t *jwk;

    if (list == NULL) {
        add_key(keys, document, log, name);
        return;
    }
    json_array_foreach(list, index, jwk)
    {
        if (index == JOSE_KEYS_MAX) {
            log_warn(log, 0, "\"%.*s\" has more than %d keys: the others are not used",
                     STR_ARG(name), JOSE_KEYS_MAX);
            break;
        }
        add_key(keys, jwk, log, name);
    }
}

struct jose_keys *jose_keys_read(struct str text, const struct log *log, struct str name)
{
    json_t *document = text.len <= JOSE_KEYS_TEXT_MAX ? jose_object(text) : NULL;

    if (document == NULL) {
        log_error(log, 0, "\"%.*s\" is not a JSON Web Key set", STR_ARG(name));
        return NULL;
    }
    struct jose_keys *keys = keys_new(JOSE_KEYS_MAX);
    add_all(keys, document, log, name);
    json_decref(document);
    ERR_clear_error();
    if (keys->count == 0) {
        log_error(log, 0, "\"%.*s\" has no key that can be used", STR_ARG(name));
        jose_keys_release(keys);
        keys = NULL;
    }
    return keys;
}
