/* A token in compact form: its parts, its header, its claims. */
#include "shared/jose/token.h"

#include <stdlib.h>

#include "base/fatal.h"
#include "base/text.h"
#include "shared/jose/signature.h"

/* ---- accepted tokens ---- */

static struct jose_token *token_new(json_t *header, json_t *claims)
{
    struct jose_token *token = calloc(1, sizeof(*token));

    if (token == NULL) {
        fatal_no_memory(sizeof(*token));
    }
    token->references = 1;
    token->header = json_incref(header);
    token->claims = claims;
    token->expires = INT64_MAX;
    token->not_before = INT64_MIN;
    return token;
}

void jose_token_release(void *arg)
{
    struct jose_token *token = arg;

    if (token == NULL || --token->references != 0) {
        return;
    }
    json_decref(token->header);
    json_decref(token->claims);
    free((char *) token->payload.data);
    free(token);
}

static void keep_payload(struct jose_token *token, struct str payload)
{
    char *copy = malloc(payload.len + 1);

    if (copy == NULL) {
        fatal_no_memory(payload.len + 1);
    }
    str_put(copy, payload);
    token->payload = (struct str){copy, payload.len};
}

const char *jose_token_outdated(const struct jose_token *token, int64_t now, int64_t leeway)
{
    int64_t late = now > INT64_MIN + leeway ? now - leeway : INT64_MIN;

    if (late >= token->expires) {
        return "it has expired";
    }
    if (now + leeway < token->not_before) {
        return "it is not valid yet";
    }
    return NULL;
}

/* ---- parts ---- */

#define PARTS_SIGNED 3
#define PARTS_ENCRYPTED 5

/* Splits the token at its dots. False: it has another number of parts. */
static bool split(struct str text, struct str *parts, unsigned count)
{
    unsigned found = 0;

    for (struct str rest = text; rest.data != NULL; found++) {
        struct str part = str_cut(&rest, '.');
        if (found == count) {
            return false;
        }
        parts[found] = part;
    }
    return found == count;
}

static bool decode(struct arena *arena, struct str text, struct str *out)
{
    return str_find_char(text, '=') == NULL && base64_decode(arena, text, true, out);
}

/* The JSON object of a part; NULL: it has none. */
static json_t *read_object(struct arena *arena, struct str part)
{
    struct str text;

    return decode(arena, part, &text) ? jose_object(text) : NULL;
}

static const char *judge_header(const json_t *header)
{
    if (header == NULL) {
        return "its header is not a JSON object";
    }
    if (json_object_get(header, "crit") != NULL) {
        return "its header has \"crit\"";
    }
    if (json_object_get(header, "zip") != NULL) {
        return "it is compressed";
    }
    return NULL;
}

/* ---- keys that fit ---- */

/* Iterates over the keys that fit, in all sets. */
struct key_walk {
    unsigned set, item;
    unsigned tries; /* so far */
};

static const struct jose_key *next_key(const struct jose_check *check, struct key_walk *walk,
                                       const struct jose_algorithm *algorithm, struct str id)
{
    for (; walk->set < check->set_count; walk->set++, walk->item = 0) {
        const struct jose_keys *keys = check->sets[walk->set];
        while (walk->item < keys->count) {
            const struct jose_key *key = &keys->items[walk->item++];
            if (jose_key_fits(key, algorithm, id)) {
                return walk->tries++ < JOSE_TRIES_MAX ? key : NULL;
            }
        }
    }
    return NULL;
}

/* ---- signed tokens ---- */

static bool read_times(struct jose_token *token)
{
    return jose_time(token->claims, "exp", &token->expires) >= 0 &&
           jose_time(token->claims, "nbf", &token->not_before) >= 0;
}

/* Accepts the claims of a token of any form. Takes over the reference of `claims`. */
static void accept_claims(struct jose_check *check, json_t *header, json_t *claims)
{
    if (claims == NULL) {
        check->why = "its claims are not a JSON object";
        return;
    }
    struct jose_token *token = token_new(header, claims);
    if (!read_times(token)) {
        check->why = "its \"exp\" or \"nbf\" is not a number";
        jose_token_release(token);
        return;
    }
    check->token = token;
}

/* The reason why no key worked. */
static const char *judge_tries(struct jose_check *check, const struct key_walk *walk, struct str id,
                               const char *why)
{
    if (walk->tries != 0) {
        return why;
    }
    check->lacks_key = id.data != NULL;
    return "no key fits its \"alg\" and \"kid\"";
}

static const char *judge_signature(struct jose_check *check, const json_t *header, struct str text,
                                   const struct str *parts)
{
    const struct jose_algorithm *algorithm = jose_algorithm_named(jose_string(header, "alg"));
    struct str id = jose_string(header, "kid");
    struct str signed_text = str_from(text.data, parts[2].data - 1);
    struct str signature;
    struct key_walk walk = {.set = 0};
    const struct jose_key *key;

    if (algorithm == NULL || !jose_is_signature(algorithm)) {
        return "its \"alg\" is not one of signatures";
    }
    if (!decode(check->arena, parts[2], &signature)) {
        return "its signature is not base64url";
    }
    while ((key = next_key(check, &walk, algorithm, id)) != NULL) {
        if (jose_signature_matches(key, algorithm, signed_text, signature)) {
            return NULL;
        }
    }
    return judge_tries(check, &walk, id, "its signature does not match");
}

/* `outer` is the header to keep, or NULL: that of this token. */
static void check_signed(struct jose_check *check, struct str text, json_t *outer)
{
    struct str parts[PARTS_SIGNED];

    if (!split(text, parts, PARTS_SIGNED)) {
        check->why = "it is not a signed token";
        return;
    }
    json_t *header = read_object(check->arena, parts[0]);
    check->why = judge_header(header);
    if (check->why == NULL) {
        check->why = judge_signature(check, header, text, parts);
    }
    if (check->why == NULL) {
        accept_claims(check, outer != NULL ? outer : header, read_object(check->arena, parts[1]));
    }
    json_decref(header);
}

struct jose_token *jose_token_unverified(struct arena *arena, struct str text)
{
    struct str parts[PARTS_SIGNED];

    if (text.len > JOSE_TOKEN_MAX || !split(text, parts, PARTS_SIGNED)) {
        return NULL;
    }
    json_t *header = read_object(arena, parts[0]);
    json_t *claims = header == NULL ? NULL : read_object(arena, parts[1]);
    struct jose_token *token = claims == NULL ? NULL : token_new(header, claims);
    json_decref(header);
    return token;
}

/* ---- encrypted tokens ---- */

#define GCM_IV_SIZE 12
#define GCM_TAG_SIZE 16
#define CBC_BLOCK_SIZE 16

/* Do all parts have the sizes of their algorithms? */
static bool are_sizes_sound(const struct jose_sealed *sealed)
{
    const struct jose_content *content = sealed->content;

    if (content->digest == NULL) {
        if (sealed->iv.len != GCM_IV_SIZE || sealed->tag.len != GCM_TAG_SIZE) {
            return false;
        }
    } else if (sealed->iv.len != CBC_BLOCK_SIZE || sealed->tag.len != content->key_size / 2 ||
               sealed->text.len % CBC_BLOCK_SIZE != 0) {
        return false;
    }
    switch (sealed->algorithm->kind) {
    case JOSE_DIRECT:
        return sealed->key.len == 0;
    case JOSE_AES_WRAP:
        return sealed->key.len == content->key_size + 8;
    case JOSE_AES_GCM:
        return sealed->key.len == content->key_size && sealed->key_iv.len == GCM_IV_SIZE &&
               sealed->key_tag.len == GCM_TAG_SIZE;
    default:
        return sealed->key.len != 0 && sealed->key.len <= sizeof(sealed->content_key);
    }
}

static void make_mac_input(struct arena *arena, struct jose_sealed *sealed)
{
    uint64_t bits = (uint64_t) sealed->header.len * 8;
    char length[8];

    for (unsigned i = 0; i < sizeof(length); i++) {
        length[i] = (char) (bits >> (56 - 8 * i));
    }
    const struct str parts[] = {sealed->header, sealed->iv, sealed->text, {length, sizeof(length)}};
    sealed->mac_input = arena_join(arena, parts, 4);
}

/* NULL: check->sealed can be decrypted; else the reason why not. */
static const char *read_sealed(struct jose_check *check, const struct str *parts)
{
    struct arena *arena = check->arena;
    struct jose_sealed *sealed = arena_new(arena, struct jose_sealed);
    const json_t *header = check->header;

    sealed->algorithm = jose_algorithm_named(jose_string(header, "alg"));
    sealed->content = jose_content_named(jose_string(header, "enc"));
    if (sealed->algorithm == NULL || jose_is_signature(sealed->algorithm) ||
        sealed->content == NULL) {
        return "its \"alg\" or \"enc\" is not one of encryption";
    }
    if (sealed->algorithm->kind == JOSE_AES_GCM &&
        (!jose_bytes(arena, header, "iv", &sealed->key_iv) ||
         !jose_bytes(arena, header, "tag", &sealed->key_tag))) {
        return "its header has no \"iv\" and \"tag\"";
    }
    sealed->header = parts[0];
    if (!decode(arena, parts[1], &sealed->key) || !decode(arena, parts[2], &sealed->iv) ||
        !decode(arena, parts[3], &sealed->text) || !decode(arena, parts[4], &sealed->tag)) {
        return "its parts are not base64url";
    }
    if (!are_sizes_sound(sealed)) {
        return "its parts do not have the sizes of its algorithms";
    }
    make_mac_input(arena, sealed);
    sealed->output = arena_alloc(arena, sealed->text.len + CBC_BLOCK_SIZE);
    check->is_costly = sealed->algorithm->kind == JOSE_RSA_OAEP;
    check->sealed = sealed;
    return NULL;
}

static void begin_encrypted(struct jose_check *check)
{
    struct str parts[PARTS_ENCRYPTED];

    if (!split(check->text, parts, PARTS_ENCRYPTED)) {
        check->why = "it is not an encrypted token";
        return;
    }
    check->header = read_object(check->arena, parts[0]);
    check->why = judge_header(check->header);
    check->id = jose_string(check->header, "kid");
    if (check->why == NULL) {
        check->why = read_sealed(check, parts);
    }
}

/* ---- the three steps ---- */

void jose_check_begin(void *arg)
{
    struct jose_check *check = arg;

    if (check->text.len > JOSE_TOKEN_MAX) {
        check->why = "it is too long";
    } else if (check->form == JOSE_SIGNED) {
        check_signed(check, check->text, NULL);
    } else {
        begin_encrypted(check);
    }
}

void jose_check_decrypt(void *arg)
{
    struct jose_check *check = arg;
    struct key_walk walk = {.set = 0};
    const struct jose_key *key;

    if (check->sealed == NULL) {
        return;
    }
    while (!check->is_open &&
           (key = next_key(check, &walk, check->sealed->algorithm, check->id)) != NULL) {
        check->is_open = jose_unseal(check->sealed, key);
    }
    if (!check->is_open) {
        check->why = judge_tries(check, &walk, check->id, "it cannot be decrypted");
    }
}

void jose_check_end(void *arg)
{
    struct jose_check *check = arg;

    if (check->is_open) {
        struct str payload = check->sealed->result;
        if (check->form == JOSE_NESTED) {
            check_signed(check, payload, check->header);
        } else {
            accept_claims(check, check->header, jose_object(payload));
        }
        if (check->token != NULL) {
            keep_payload(check->token, payload);
        }
    }
    json_decref(check->header);
    check->header = NULL;
}
