/* The access phase: was the token signed or encrypted with one of our keys, and is it valid now? */
#include "base/clock.h"
#include "http/modules/access/auth_jwt/auth_jwt.h"
#include "http/request/offload.h"
#include "http/variables/variables.h"
#include "server/generation.h"

/* RSA decryption takes milliseconds, so it runs on separate threads and delays neither the loop nor
 * file operations. */
static struct offload_shares jwt_shares;
static const struct offload_pool jwt_pool = {.name = STR_INIT("auth_jwt"),
                                             .waiting = "tokens wait to be decrypted",
                                             .threads = 2,
                                             .queue = 128,
                                             .shares = &jwt_shares};

struct jwt_state *jwt_state_of(struct request *request)
{
    static char state_key; /* only its address is used */

    return request_data(request->main, &state_key, sizeof(struct jwt_state));
}

/* ---- the text of the token ---- */

#define BEARER STR("Bearer ")

bool jwt_text(struct request *request, const struct jwt_settings *settings, struct str *out)
{
    if (settings->token != NULL) {
        *out = template_text(settings->token, &request->env);
        return out->len != 0;
    }
    enum field_id id =
        request->method == METHOD_CONNECT ? FIELD_PROXY_AUTHORIZATION : FIELD_AUTHORIZATION;
    const struct field *field = fields_get(&request->headers, id);

    if (field == NULL || !str_starts_nocase(field->value, BEARER)) {
        return false;
    }
    *out = str_trim(str_skip(field->value, BEARER.len));
    return out->len != 0;
}

/* ---- refusals ---- */

/* Sets 401 with the required scheme (RFC 6750, 3), or 407 for CONNECT. */
static enum handler_result demand_token(struct request *request,
                                        const struct jwt_settings *settings, bool is_invalid)
{
    bool is_proxy = request->method == METHOD_CONNECT;
    struct str realm = template_text(settings->realm, &request->env);
    const struct str parts[] = {STR("Bearer realm=\""), field_value_safe(&request->arena, realm),
                                is_invalid ? STR("\", error=\"invalid_token\"") : STR("\"")};

    fields_add_known(&request->response.fields, &request->arena,
                     is_proxy ? FIELD_PROXY_AUTHENTICATE : FIELD_WWW_AUTHENTICATE,
                     arena_join(&request->arena, parts, 3));
    return request_fail(request, is_proxy ? 407 : 401);
}

static enum handler_result refuse(struct request *request, const struct jwt_settings *settings,
                                  const char *why)
{
    jwt_state_of(request)->outcome = JWT_REFUSED;
    log_error(&request->log, 0, "the JSON Web Token was refused: %s", why);
    return demand_token(request, settings, true);
}

/* ---- the keys ---- */

/* HANDLER_NEXT: `check` has the sets of all sources. MAY WAIT. */
static enum handler_result gather_keys(struct request *request, const struct jwt_settings *settings,
                                       struct jose_check *check)
{
    const struct jose_keys **sets =
        arena_array(&request->arena, settings->sources.count + 1, sizeof(*sets));
    enum handler_result result = HANDLER_NEXT;

    check->sets = sets;
    check->set_count = 0;
    vec_each(const struct key_source, source, &settings->sources) {
        result = jwt_keys_of(request, source, settings->key_cache_ms, &sets[check->set_count]);
        if (result != HANDLER_NEXT) {
            return result;
        }
        check->set_count++;
    }
    if (check->set_count == 0) {
        log_error(&request->log, 0, "no keys are configured for \"auth_jwt\"");
        return request_fail(request, 500);
    }
    return result;
}

/* ---- verification ---- */

/* MAY WAIT. HANDLER_NEXT: check->token is set, or the reason why not; otherwise the result of the
 * phase. */
static enum handler_result verify(struct request *request, struct jose_check *check)
{
    enum handler_result result = HANDLER_NEXT;

    check->why = NULL;
    check->lacks_key = false;
    fiber_call_on_main(jose_check_begin, check);
    if (check->is_costly) {
        result =
            offload_result(request, offload_run(&jwt_pool, request, jose_check_decrypt, check));
    } else {
        fiber_call_on_main(jose_check_decrypt, check);
    }
    fiber_call_on_main(jose_check_end, check);
    if (check->token != NULL) {
        arena_on_free(&request->arena, jose_token_release, check->token);
    }
    return result;
}

/* Copies the input of a check, so that a second attempt has no results of the first. */
static struct jose_check *check_again(struct request *request, const struct jose_check *former)
{
    struct jose_check *check = arena_new(&request->arena, struct jose_check);

    check->arena = former->arena;
    check->text = former->text;
    check->form = former->form;
    return check;
}

/* Verifies a token that is not cached, and caches it if it is valid. MAY WAIT. */
static enum handler_result verify_first(struct request *request,
                                        const struct jwt_settings *settings,
                                        struct jose_check **check)
{
    enum handler_result result = verify(request, *check);
    bool is_newer = false;

    if (result == HANDLER_NEXT && (*check)->lacks_key) {
        result = jwt_keys_renew(request, &settings->sources, settings->key_cache_ms, &is_newer);
    }
    if (result == HANDLER_NEXT && is_newer) {
        *check = check_again(request, *check);
        result = gather_keys(request, settings, *check);
        if (result == HANDLER_NEXT) {
            result = verify(request, *check);
        }
    }
    return result;
}

/* Sets that are requested every time get a new number every time, so a token cached for them would
 * never be found. */
static bool has_kept_sets(const struct jwt_settings *settings)
{
    vec_each(const struct key_source, source, &settings->sources) {
        if (source->is_request && settings->key_cache_ms == 0) {
            return false;
        }
    }
    return true;
}

/* MAY WAIT. */
static enum handler_result find_token(struct request *request, const struct jwt_settings *settings,
                                      struct jose_check **check)
{
    unsigned char digest[TOKEN_DIGEST_SIZE];

    if (!has_kept_sets(settings)) {
        return verify_first(request, settings, check);
    }
    jwt_digest(*check, digest);
    (*check)->token = jwt_token_find(digest);
    if ((*check)->token != NULL) {
        arena_on_free(&request->arena, jose_token_release, (*check)->token);
        return HANDLER_NEXT;
    }
    enum handler_result result = verify_first(request, settings, check);
    if (result == HANDLER_NEXT && (*check)->token != NULL) {
        jwt_digest(*check, digest);
        jwt_token_keep(digest, (*check)->token, (*check)->text.len);
    }
    return result;
}

/* ---- further requirements ---- */

static bool is_true(struct str value)
{
    return value.len != 0 && !str_is(value, "0") && !str_is(value, "false");
}

static enum handler_result check_required(struct request *request,
                                          const struct jwt_settings *settings)
{
    vec_each(const struct jwt_require, require, &settings->requires) {
        vec_each(struct template *const, value, &require->values) {
            if (is_true(template_text(*value, &request->env))) {
                continue;
            }
            log_error(&request->log, 0, "the JSON Web Token was refused: \"%.*s\" is not met",
                      STR_ARG((*value)->source));
            jwt_state_of(request)->outcome = JWT_REFUSED;
            return require->status == 401 ? demand_token(request, settings, true)
                                          : request_fail(request, require->status);
        }
    }
    return HANDLER_ALLOW;
}

/* ---- the phase ---- */

/* MAY WAIT. */
static enum handler_result check_text(struct request *request, const struct jwt_settings *settings,
                                      struct str text)
{
    struct jose_check *check = arena_new(&request->arena, struct jose_check);
    struct jwt_state *state = jwt_state_of(request);

    check->arena = &request->arena;
    check->text = text;
    check->form = settings->form;
    if (text.len > JOSE_TOKEN_MAX) {
        counters_mine->limited++;
        return refuse(request, settings, "it is too long");
    }
    enum handler_result result = gather_keys(request, settings, check);
    if (result == HANDLER_NEXT) {
        result = find_token(request, settings, &check);
    }
    if (result != HANDLER_NEXT) {
        return result;
    }
    const char *why = check->token == NULL ? check->why
                                           : jose_token_outdated(check->token, clock_now.seconds,
                                                                 (int64_t) settings->leeway_s);
    if (why != NULL) {
        return refuse(request, settings, why);
    }
    state->outcome = JWT_ACCEPTED;
    state->token = check->token;
    return check_required(request, settings);
}

enum handler_result jwt_check(struct request *request)
{
    const struct jwt_settings *settings = jwt_settings_at(request->location);
    struct jwt_state *state = jwt_state_of(request);
    struct str text;

    if (str_is(template_text(settings->realm, &request->env), "off")) {
        if (state->outcome == JWT_UNCHECKED) {
            state->outcome = JWT_REFUSED; /* variables do not show an unchecked token */
        }
        return HANDLER_NEXT;
    }
    state->outcome = JWT_REFUSED;
    if (!jwt_text(request, settings, &text)) {
        return demand_token(request, settings, false);
    }
    return check_text(request, settings, text);
}
