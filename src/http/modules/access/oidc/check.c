/* The access phase: does this browser have a session, and are its tokens still valid? */
#include "base/clock.h"
#include "http/modules/access/oidc/oidc.h"
#include "http/request/engine.h"
#include "http/request/wire.h"

#define RENEWAL_MS 10000 /* one request renews a session's tokens, and has this long for it */

struct oidc_session *oidc_session_of(struct request *request)
{
    static char session_key; /* only its address is used */
    struct oidc_session *session =
        request_data(request->main, &session_key, sizeof(struct oidc_session));

    return session;
}

struct vec *oidc_providers(struct conf *conf)
{
    return conf_state(conf, "oidc_provider", sizeof(struct vec));
}

/* Is this request for this URI of the provider's block, which may be absolute and have
 * arguments? */
static bool is_at(const struct request *request, struct str uri)
{
    struct str path = uri;

    if (path.len != 0 && path.data[0] != '/') {
        const char *host = str_find(path, STR("://"));
        path = host == NULL ? STR_NONE : str_skip(path, (size_t) (host + 3 - path.data));
        const char *slash = str_find_char(path, '/');
        path = slash == NULL ? STR("/") : str_skip(path, (size_t) (slash - path.data));
    }
    const char *args = str_find_char(path, '?');
    if (args != NULL) {
        path = str_from(path.data, (char *) (uintptr_t) args);
    }
    return uri.len != 0 && str_equal(request->uri, path);
}

/* ---- tokens that have expired ---- */

static bool is_fresh(const json_t *record)
{
    int64_t expires = 0;

    return jose_string(record, "refresh_token").len == 0 ||
           jose_time(record, "expires", &expires) != 1 || clock_now.seconds < expires;
}

/* The renewal is completed even if the client leaves meanwhile, because a refresh token is valid
 * only once. */
struct renewal {
    struct abort_watcher watcher;
    bool has_left;
};

static bool renewal_goes_on(struct abort_watcher *watcher)
{
    container_of(watcher, struct renewal, watcher)->has_left = true;
    return true;
}

/* A client that closed its sending side, and whose remaining input was not read yet, still waits
 * for its response. */
static bool client_is_gone(const struct request *request)
{
    return request->wire->bare == NULL || connection_peer_is_gone(request->connection);
}

/* Like oidc_tokens, but the client's leaving takes effect afterwards. MAY WAIT. */
static enum handler_result renew_tokens(struct request *request, struct oidc_token_question *asked)
{
    struct renewal *renewal = arena_new(&request->arena, struct renewal);
    struct abort_watcher *outer = request->abort_watcher;

    renewal->watcher.goes_on = renewal_goes_on;
    request->abort_watcher = &renewal->watcher;
    enum handler_result result = oidc_tokens(request, asked);
    request->abort_watcher = outer;
    if (renewal->has_left && client_is_gone(request)) {
        request_cancel(request);
    }
    return result;
}

/* Replaces the stored record, unless the session was logged out meanwhile, on any node; NULL: ends
 * the session. MAY WAIT. */
static void keep_renewed(struct request *request, struct oidc_provider *provider,
                         struct oidc_session *session, json_t *record)
{
    oidc_store_refresh(provider, session->key);
    if (record != NULL && oidc_session_store(request, provider, session->key, record, false)) {
        session->record = record;
        oidc_remember_sid(provider, request, record, session->key);
    } else {
        session->record = NULL;
        oidc_store_delete(provider, session->key);
    }
}

/* One request of one worker renews the tokens; others use the old ones meanwhile, and so do all if
 * the provider cannot be reached. If the provider rejects the refresh token, the session ends. MAY
 * WAIT. HANDLER_NEXT: session->record is set, or NULL after the end. */
static enum handler_result renew(struct request *request, struct oidc_provider *provider,
                                 struct oidc_session *session)
{
    const struct oidc_metadata *metadata;
    struct str claim = arena_concat(&request->arena, STR("renewal:"), session->key);

    if (!oidc_store_claim(provider, claim, RENEWAL_MS)) {
        return HANDLER_NEXT;
    }
    if (oidc_store_refresh(provider, session->key) &&
        (!oidc_session_load(request, provider, session) || is_fresh(session->record))) {
        oidc_store_release(provider, claim); /* another node has renewed it */
        return HANDLER_NEXT;
    }
    enum handler_result result = oidc_metadata_of(request, provider, &metadata);
    if (result != HANDLER_NEXT || metadata == NULL) {
        return result;
    }
    struct oidc_token_question asked = {
        .provider = provider,
        .metadata = metadata,
        .former = session->record,
        .form = arena_concat(&request->arena, STR("grant_type=refresh_token&refresh_token="),
                             oidc_escape(request, jose_string(session->record, "refresh_token"))),
    };
    result = renew_tokens(request, &asked);
    if (result != HANDLER_NEXT ||
        (asked.record == NULL && asked.status != 200 && asked.status / 100 != 4)) {
        return result;
    }
    keep_renewed(request, provider, session, asked.record);
    oidc_store_release(provider, claim);
    return HANDLER_NEXT;
}

/* ---- the phase ---- */

static struct oidc_provider *provider_of(struct request *request, struct str name)
{
    const struct oidc_settings *settings = location_settings(request->location, &auth_oidc_key);

    vec_each(struct oidc_provider *, provider, settings->providers) {
        if (str_equal((*provider)->name, name)) {
            return *provider;
        }
    }
    return NULL;
}

/* MAY WAIT. */
static enum handler_result check_session(struct request *request, struct oidc_provider *provider)
{
    struct oidc_session *session = oidc_session_of(request);
    struct oidc_session found = {.record = NULL};
    enum handler_result result = HANDLER_NEXT;

    session->record = NULL;
    if (oidc_session_load(request, provider, &found) && !is_fresh(found.record)) {
        result = renew(request, provider, &found);
    }
    if (result != HANDLER_NEXT) {
        return result;
    }
    if (found.record == NULL) {
        return oidc_login(request, provider);
    }
    *session = found;
    return HANDLER_ALLOW;
}

enum handler_result oidc_check(struct request *request)
{
    const struct oidc_settings *settings = location_settings(request->location, &auth_oidc_key);
    struct str name = template_text(settings->provider, &request->env);

    if (str_is(name, "off")) {
        return HANDLER_NEXT;
    }
    struct oidc_provider *provider = provider_of(request, name);
    if (provider == NULL) {
        log_error(&request->log, 0, "there is no oidc_provider \"%.*s\"", STR_ARG(name));
        return request_fail(request, 500);
    }
    if (is_at(request, provider->redirect_uri)) {
        return oidc_callback(request, provider);
    }
    if (is_at(request, provider->logout_uri)) {
        return oidc_logout(request, provider);
    }
    if (is_at(request, provider->frontchannel_uri)) {
        return oidc_frontchannel(request, provider);
    }
    return check_session(request, provider);
}
