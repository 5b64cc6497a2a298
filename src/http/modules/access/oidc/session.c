/* Sessions: the stored records that cookies refer to. */
#include <stdlib.h>

#include "base/checksum.h"
#include "base/text.h"
#include "http/modules/access/oidc/oidc.h"
#include "http/variables/variables.h"

struct str oidc_random(struct arena *arena)
{
    unsigned char bytes[OIDC_RANDOM];

    random_bytes(bytes, sizeof(bytes));
    return base64_encode(arena, (struct str){(char *) bytes, sizeof(bytes)}, true);
}

/* Digests, so that access to the store does not reveal the cookies. */
struct str oidc_store_key(struct arena *arena, const char *kind, struct str text)
{
    unsigned char digest[32];

    sha256_of(text, digest);
    return arena_concat(arena, str_of(kind),
                        base64_encode(arena, (struct str){(char *) digest, sizeof(digest)}, true));
}

/* ---- the store ---- */

#define ROUNDS_MAX 4 /* how often sessions are removed to store one */

/* If the store is full, removes the oldest sessions. */
static enum keyval_result put(struct oidc_provider *provider, const struct vec *changes,
                              bool is_new)
{
    struct keyval_store *store = provider->store->store;
    enum keyval_result result;
    unsigned rounds = 0;

    do {
        result = is_new ? keyval_make(store, changes) : keyval_change(store, changes);
    } while (result == KEYVAL_FULL && rounds++ < ROUNDS_MAX && oidc_store_make_room(provider));
    return result;
}

static enum keyval_result change(struct oidc_provider *provider, const struct keyval_change *change,
                                 bool is_new)
{
    struct vec changes = {.items = (void *) change, .count = 1};
    enum keyval_result result = put(provider, &changes, is_new);

    if (result == KEYVAL_DONE) {
        keyval_changed(provider->store, &changes);
    }
    return result;
}

/* may_make: also if the key does not exist. */
static enum keyval_result store(struct oidc_provider *provider, struct str key, struct str value,
                                uint64_t ms, bool may_make)
{
    const struct keyval_change pair = {
        .pair = {.key = key, .value = value, .expires_ms = keyval_now() + ms}};
    enum keyval_result result = may_make ? change(provider, &pair, true) : KEYVAL_EXISTS;

    return result == KEYVAL_EXISTS ? change(provider, &pair, false) : result;
}

bool oidc_store_put(struct oidc_provider *provider, struct str key, struct str value, uint64_t ms)
{
    return store(provider, key, value, ms, true) == KEYVAL_DONE;
}

static void drop_claim(const struct keyval_zone *zone, struct str key)
{
    const struct keyval_change gone = {.pair = {.key = key}, .is_deleted = true};

    keyval_change(zone->store, &(const struct vec){.items = (void *) &gone, .count = 1});
}

bool oidc_store_claim(struct oidc_provider *provider, struct str key, uint64_t ms)
{
    const struct keyval_change pair = {
        .pair = {.key = key, .value = STR("1"), .expires_ms = keyval_now() + ms}};
    struct keyval_zone *zone = provider->store;
    const struct vec changes = {.items = (void *) &pair, .count = 1};

    if (put(provider, &changes, true) != KEYVAL_DONE) {
        return false;
    }
    bool is_ours = zone->table == NULL || store_table_claim(zone->table, key, ms);
    if (!is_ours) {
        drop_claim(zone, key);
    }
    return is_ours;
}

void oidc_store_release(const struct oidc_provider *provider, struct str key)
{
    struct keyval_zone *zone = provider->store;

    drop_claim(zone, key);
    if (zone->table != NULL) {
        store_table_release(zone->table, key);
    }
}

void oidc_store_delete(struct oidc_provider *provider, struct str key)
{
    const struct keyval_change gone = {.pair = {.key = key}, .is_deleted = true};
    const struct vec changes = {.items = (void *) &gone, .count = 1};

    /* Another node may have it. */
    if (change(provider, &gone, false) == KEYVAL_ABSENT && provider->store->table != NULL) {
        keyval_changed(provider->store, &changes);
    }
}

bool oidc_store_get(struct request *request, const struct oidc_provider *provider, struct str key,
                    struct str *out)
{
    if (keyval_find(provider->store->store, key, &request->arena, out)) {
        return true;
    }
    /* The browser may have arrived before the change of another node. */
    return oidc_store_refresh(provider, key) &&
           keyval_find(provider->store->store, key, &request->arena, out);
}

bool oidc_store_refresh(const struct oidc_provider *provider, struct str key)
{
    struct store_table *table = provider->store->table;

    if (table != NULL) {
        store_table_fetch(table, key);
    }
    return table != NULL;
}

/* ---- records ---- */

struct record_writing {
    const json_t *value;
    char *text;
};

static void write_record(void *arg)
{
    struct record_writing *writing = arg;

    writing->text = json_dumps(writing->value, JSON_COMPACT);
}

struct str oidc_dump(struct request *request, const json_t *value)
{
    struct record_writing writing = {.value = value};

    fiber_call_on_main(write_record, &writing);
    struct str text = arena_dup(&request->arena, str_of(writing.text));
    free(writing.text);
    return text;
}

bool oidc_session_store(struct request *request, struct oidc_provider *provider, struct str key,
                        const json_t *record, bool is_new)
{
    struct str text = oidc_dump(request, record);
    enum keyval_result result = KEYVAL_FULL;

    if (text.len != 0 && text.len <= OIDC_SESSION_MAX) {
        result = store(provider, key, text, provider->session_ms, is_new);
    }
    if (result != KEYVAL_DONE && result != KEYVAL_ABSENT) {
        log_error(&request->log, 0,
                  "no room for a session of %zu bytes in the store of the OpenID provider \"%.*s\"",
                  text.len, STR_ARG(provider->name));
    }
    return result == KEYVAL_DONE;
}

struct object_reading {
    struct str text;
    json_t *object;
};

static void read_object(void *arg)
{
    struct object_reading *reading = arg;

    reading->object = jose_object(reading->text);
}

static void release_object(void *object)
{
    json_decref(object);
}

json_t *oidc_object(struct request *request, struct str text)
{
    struct object_reading reading = {.text = text};

    fiber_call_on_main(read_object, &reading);
    if (reading.object != NULL) {
        arena_on_free(&request->arena, release_object, reading.object);
    }
    return reading.object;
}

/* A store may have sessions of several providers, and those of another issuer that the block had
 * before a reload. */
static bool is_of_provider(const json_t *record, const struct oidc_provider *provider)
{
    struct str issuer = jose_string(json_object_get(record, "claims"), "iss");

    return str_equal(jose_string(record, "provider"), provider->name) &&
           str_equal(issuer, provider->issuer);
}

bool oidc_session_load(struct request *request, const struct oidc_provider *provider,
                       struct oidc_session *session)
{
    struct str text;
    struct str cookie;

    session->record = NULL;
    if (!request_cookie(request, provider->cookie_name, &cookie) || cookie.len != OIDC_TEXT) {
        return false;
    }
    session->key = oidc_store_key(&request->arena, "session:", cookie);
    if (!oidc_store_get(request, provider, session->key, &text)) {
        return false;
    }
    session->record = oidc_object(request, text);
    if (!is_of_provider(session->record, provider)) {
        session->record = NULL;
    }
    return session->record != NULL;
}

struct claim_writing {
    const json_t *value;
    struct arena *arena;
    struct str text;
    bool is_there;
};

static void write_claim(void *arg)
{
    struct claim_writing *writing = arg;

    writing->is_there = jose_text(writing->value, true, writing->arena, &writing->text);
}

bool oidc_claim_text(struct variable_env *env, const json_t *record, struct str name,
                     struct str *out)
{
    struct claim_writing writing = {
        .value = jose_member(json_object_get(record, "claims"), name),
        .arena = env->arena,
    };

    if (writing.value == NULL) {
        writing.value = jose_member(json_object_get(record, "userinfo"), name);
    }
    fiber_call_on_main(write_claim, &writing);
    *out = writing.text;
    return writing.is_there;
}

/* ---- cookies ---- */

void oidc_set_cookie(struct request *request, const struct oidc_provider *provider, struct str name,
                     struct str value, int age_s)
{
    bool is_secure =
        request_is_encrypted(request) || str_starts(provider->redirect_uri, STR("https://"));
    struct str age = age_s < 0 ? STR_NONE : arena_printf(&request->arena, "; Max-Age=%d", age_s);
    const struct str parts[] = {name,
                                STR("="),
                                value,
                                STR("; Path=/; HttpOnly; SameSite=Lax"),
                                is_secure ? STR("; Secure") : STR_NONE,
                                age};

    fields_add_known(&request->response.fields, &request->arena, FIELD_SET_COOKIE,
                     arena_join(&request->arena, parts, 6));
}
