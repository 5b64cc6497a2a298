/*
 * Fuzz target: what an OpenID provider says of itself, claims of ID tokens, and what a browser
 * brings back. The first byte says which. Metadata that are taken have the issuer of the
 * configuration and URLs without spaces, with TLS; claims that are taken are for this client, of
 * this issuer and of this login. Nobody makes a state that opens; one of this server opens with its
 * cookie only, and leads to a path of it.
 */
#include <stdlib.h>

#include "base/clock.h"
#include "base/text.h"
#include "http/modules/access/oidc/oidc.h"
#include "http/variables/variables.h"

static struct oidc_provider provider = {.name = STR_INIT("fuzz"),
                                        .issuer = STR_INIT("https://a"),
                                        .client_id = STR_INIT("c")};

static void check_url(struct str url, bool is_needed)
{
    if (url.len == 0 ? is_needed : !str_starts(url, STR("https://"))) {
        abort();
    }
    for (size_t i = 0; i < url.len; i++) {
        if (url.data[i] <= ' ' || url.data[i] == 127) {
            abort();
        }
    }
}

static void read_metadata(const json_t *object)
{
    const char *why = NULL;
    struct oidc_metadata *metadata = oidc_metadata_read(&provider, object, &why);

    if ((metadata == NULL) == (why == NULL)) {
        abort();
    }
    if (metadata != NULL) {
        check_url(metadata->authorization, true);
        check_url(metadata->token, true);
        check_url(metadata->keys_url, true);
        check_url(metadata->userinfo, false);
        check_url(metadata->logout, false);
        oidc_metadata_release(metadata);
    }
}

static void judge_claims(json_t *claims)
{
    const struct oidc_token_question asked = {.provider = &provider, .nonce = STR("n")};
    const struct jose_token token = {.claims = claims, .expires = (int64_t) clock_now.seconds + 60};

    if (oidc_claims_judge(&asked, &token) == NULL &&
        (!str_is(jose_string(claims, "iss"), "https://a") || jose_string(claims, "sub").len == 0 ||
         !str_is(jose_string(claims, "nonce"), "n"))) {
        abort();
    }
}

/* A query, a line, a field Cookie. */
static void come_back(struct str text)
{
    static const char *const names[] = {"state", "code", "error", "iss", "sid"};
    struct oidc_login login = {.id = STR_NONE};
    struct vec cookies = {0};
    struct request request = {.args = str_cut(&text, '\n')};
    struct str value;

    arena_init(&request.arena);
    fields_add_known(&request.headers, &request.arena, FIELD_COOKIE, text);
    request_cookies(&request, STR("NGX_OIDC_SESSION_LOGIN_"), &request.arena, &cookies);
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        if (request_argument(&request, str_of(names[i]), &value)) {
            percent_decode(&request.arena, value);
        }
    }
    login.cookie = STR("c");
    if (request_argument(&request, STR("state"), &value) &&
        oidc_state_open(&request.arena, &provider, percent_decode(&request.arena, value), &login)) {
        abort();
    }
    arena_free(&request.arena);
}

/* A byte that says what is changed, a URI. */
static void seal(struct str text)
{
    struct oidc_login login = {.id = STR("0123456789abcdef"),
                               .cookie = STR("c"),
                               .state = {.time = (int64_t) clock_now.seconds},
                               .uri = str_head(str_skip(text, 1), OIDC_URI_MAX)};
    struct oidc_login other = {.cookie = STR("c")};
    struct arena arena;

    if (text.len == 0) {
        return;
    }
    arena_init(&arena);
    struct str state = oidc_state_seal(&arena, &provider, &login);
    bool is_short = state.len <= 2 * OIDC_URI_MAX;
    if (oidc_state_open(&arena, &provider, state, &other) != is_short ||
        (is_short && !str_equal(other.uri, login.uri))) {
        abort();
    }
    struct str local = oidc_local_uri(other.uri);
    if (local.data[0] != '/' ||
        (local.len > 1 && strchr("/\\", local.data[1]) != NULL && local.data[1] != '\0')) {
        abort();
    }
    size_t at = OIDC_ID_SIZE + (unsigned char) text.data[0] % (state.len - OIDC_ID_SIZE - 1);
    ((char *) (uintptr_t) state.data)[at] ^= 1;
    if (oidc_state_open(&arena, &provider, state, &other)) {
        abort();
    }
    arena_free(&arena);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size == 0) {
        return 0;
    }
    const struct str text = {(const char *) data + 1, size - 1};
    if (data[0] == 'c') {
        come_back(text);
        return 0;
    }
    if (data[0] == 's') {
        seal(text);
        return 0;
    }
    json_t *object = jose_object(text);

    if (object != NULL && data[0] % 2 == 0) {
        read_metadata(object);
    } else if (object != NULL) {
        judge_claims(object);
    }
    json_decref(object);
    return 0;
}
