/* The token endpoint (OpenID Connect Core, 3.1.3 and 12) and the userinfo endpoint (5.3). */
#include "base/checksum.h"
#include "base/clock.h"
#include "base/text.h"
#include "http/modules/access/oidc/oidc.h"
#include "http/request/request.h"

/* A response of the token endpoint, and the data to check it. */
struct answer_reading {
    struct request *request;
    struct oidc_token_question *asked;
    const json_t *answer;
    const json_t *userinfo; /* or NULL */
    const char *why;        /* why it was rejected; or NULL */
    bool lacks_key;         /* because it names a key that the provider's set lacks */
    json_t *claims;         /* a reference */
};

/* ---- the ID token (3.1.3.7) ---- */

static bool has_audience(const json_t *claims, struct str client)
{
    const json_t *audience = json_object_get(claims, "aud");
    struct str party = jose_string(claims, "azp");
    size_t index;
    json_t *value;

    if (json_is_string(audience)) {
        return str_equal(jose_string(claims, "aud"), client) &&
               (party.data == NULL || str_equal(party, client));
    }
    if (json_array_size(audience) > 1 ? !str_equal(party, client)
                                      : party.data != NULL && !str_equal(party, client)) {
        return false;
    }
    json_array_foreach(audience, index, value)
    {
        if (json_is_string(value) &&
            str_equal((struct str){json_string_value(value), json_string_length(value)}, client)) {
            return true;
        }
    }
    return false;
}

const char *oidc_claims_judge(const struct oidc_token_question *asked,
                              const struct jose_token *token)
{
    const json_t *claims = token->claims;
    const json_t *former = json_object_get(asked->former, "claims");

    if (!str_equal(jose_string(claims, "iss"), asked->provider->issuer)) {
        return "the ID token is of another issuer";
    }
    if (!has_audience(claims, asked->provider->client_id)) {
        return "the ID token is for another client";
    }
    if (token->expires == INT64_MAX ||
        jose_token_outdated(token, clock_now.seconds, OIDC_SKEW_S) != NULL) {
        return "the ID token is not valid now";
    }
    if (jose_string(claims, "sub").len == 0) {
        return "the ID token has no \"sub\"";
    }
    if (asked->nonce.data != NULL && !secret_equal(jose_string(claims, "nonce"), asked->nonce)) {
        return "the ID token has another nonce";
    }
    if (former != NULL && !str_equal(jose_string(claims, "sub"), jose_string(former, "sub"))) {
        return "the ID token is of another user";
    }
    return NULL;
}

/* On the worker's own stack. */
static void read_id_token(void *arg)
{
    struct answer_reading *reading = arg;
    const struct jose_keys *sets[] = {reading->asked->metadata->keys};
    struct jose_check check = {
        .arena = &reading->request->arena,
        .text = jose_string(reading->answer, "id_token"),
        .sets = sets,
        .set_count = 1,
    };

    if (check.text.data == NULL && reading->asked->former != NULL) {
        reading->claims = json_incref(json_object_get(reading->asked->former, "claims"));
        return; /* a renewal need not have one */
    }
    if (check.text.data == NULL) {
        reading->why = "there is no ID token";
        return;
    }
    jose_check_begin(&check);
    if (check.token == NULL) {
        reading->why = check.why;
        reading->lacks_key = check.lacks_key;
        return;
    }
    reading->why = oidc_claims_judge(reading->asked, check.token);
    if (reading->why == NULL) {
        reading->claims = json_incref(check.token->claims);
    }
    jose_token_release(check.token);
}

/* The provider's keys may have changed since they were requested: checks again with its current
 * keys. False: the client is gone. MAY WAIT. */
static bool read_with_newer_keys(struct answer_reading *reading)
{
    struct oidc_token_question *asked = reading->asked;
    const struct oidc_metadata *newer;

    if (asked->provider->metadata == asked->metadata) {
        asked->provider->metadata->until = 0;
    }
    if (oidc_metadata_of(reading->request, asked->provider, &newer) != HANDLER_NEXT) {
        return false;
    }
    if (newer != NULL) {
        asked->metadata = newer;
        reading->why = NULL;
        fiber_call_on_main(read_id_token, reading);
    }
    return true;
}

/* ---- the record ---- */

/* Copies a token of the response or, if it has none, of the record that is renewed. */
static void copy_member(json_t *record, const struct answer_reading *reading, const char *name)
{
    json_t *value = json_object_get(reading->answer, name);

    if (!json_is_string(value)) {
        value = json_object_get(reading->asked->former, name);
    }
    if (json_is_string(value)) {
        json_object_set(record, name, value);
    }
}

/* On the worker's own stack. */
static void make_record(void *arg)
{
    struct answer_reading *reading = arg;
    json_t *record = json_object();
    int64_t lifetime = 0;
    int64_t expires = 0;
    struct str name = reading->asked->provider->name;

    json_object_set_new(record, "provider", json_stringn(name.data, name.len));
    copy_member(record, reading, "id_token");
    copy_member(record, reading, "access_token");
    copy_member(record, reading, "refresh_token");
    json_object_set(record, "claims", reading->claims);
    if (reading->userinfo != NULL) {
        json_object_set(record, "userinfo", (json_t *) reading->userinfo);
    }
    if (jose_time(reading->answer, "expires_in", &lifetime) == 1 && lifetime > 0 &&
        lifetime < INT32_MAX) {
        expires = (int64_t) clock_now.seconds + lifetime;
    } else if (jose_time(reading->claims, "exp", &expires) != 1) {
        expires = clock_now.seconds;
    }
    json_object_set_new(record, "expires", json_integer(expires));
    json_decref(reading->claims);
    reading->asked->record = record;
}

static void release_record(void *record)
{
    json_decref(record);
}

/* False: the client is gone. MAY WAIT. */
static bool ask_userinfo(struct answer_reading *reading)
{
    struct request *request = reading->request;
    struct oidc_question question = {
        .url = reading->asked->metadata->userinfo,
        .authorization =
            arena_concat(&request->arena, STR("Bearer "),
                         field_value_safe(&request->arena,
                                          jose_string(reading->answer, "access_token"))),
    };

    if (!oidc_ask(request, reading->asked->provider, &question)) {
        return false;
    }
    if (question.answer == NULL) {
        reading->why = "its userinfo cannot be had";
    } else if (!str_equal(jose_string(question.answer, "sub"),
                          jose_string(reading->claims, "sub"))) {
        reading->why = "its userinfo is of another user";
    }
    reading->userinfo = question.answer;
    return true;
}

/* ---- the request ---- */

/* Authenticates the client (RFC 6749, 2.3.1). */
static void authenticate(struct request *request, const struct oidc_provider *provider,
                         const struct oidc_metadata *metadata, struct oidc_question *question)
{
    struct arena *arena = &request->arena;
    struct str id = oidc_escape(request, provider->client_id);
    struct str secret = oidc_escape(request, provider->client_secret);

    if (secret.len != 0 && !metadata->wants_post) {
        const struct str pair[] = {id, STR(":"), secret};
        question->authorization =
            arena_concat(arena, STR("Basic "),
                         base64_encode(arena, arena_join(arena, pair, 3), false));
        return;
    }
    const struct str parts[] = {question->body, STR("&client_id="), id,
                                secret.len != 0 ? STR("&client_secret=") : STR_NONE, secret};
    question->body = arena_join(arena, parts, 5);
}

enum handler_result oidc_tokens(struct request *request, struct oidc_token_question *asked)
{
    const struct oidc_provider *provider = asked->provider;
    struct oidc_question question = {
        .url = asked->metadata->token,
        .body = asked->form,
    };

    authenticate(request, provider, asked->metadata, &question);
    bool is_there = oidc_ask(request, provider, &question);
    asked->status = question.status;
    if (!is_there || question.answer == NULL) {
        return is_there ? HANDLER_NEXT : HANDLER_CLOSED;
    }
    struct answer_reading reading = {
        .request = request,
        .asked = asked,
        .answer = question.answer,
    };
    fiber_call_on_main(read_id_token, &reading);
    if (reading.lacks_key && !read_with_newer_keys(&reading)) {
        return HANDLER_CLOSED;
    }
    if (reading.why == NULL && provider->has_userinfo && asked->metadata->userinfo.len != 0) {
        is_there = ask_userinfo(&reading);
    }
    if (!is_there || reading.why != NULL) {
        json_decref(reading.claims);
        if (is_there) {
            log_error(&request->log, 0,
                      "the tokens of the OpenID provider \"%.*s\" were refused: %s",
                      STR_ARG(provider->name), reading.why);
        }
        return is_there ? HANDLER_NEXT : HANDLER_CLOSED;
    }
    fiber_call_on_main(make_record, &reading);
    arena_on_free(&request->arena, release_record, asked->record);
    return HANDLER_NEXT;
}
