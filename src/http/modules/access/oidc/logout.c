/* Logout: by the browser (RP-Initiated Logout 1.0), and by the provider (Front-Channel Logout 1.0).
 */
#include "base/text.h"
#include "http/modules/access/oidc/oidc.h"
#include "http/variables/variables.h"

/* The key includes the provider, because several may share a store. */
static struct str sid_key(struct request *request, const struct oidc_provider *provider,
                          struct str sid)
{
    const struct str parts[] = {provider->name, STR("\n"), sid};

    return oidc_store_key(&request->arena, "sid:", arena_join(&request->arena, parts, 3));
}

void oidc_remember_sid(struct oidc_provider *provider, struct request *request,
                       const json_t *record, struct str key)
{
    struct str sid = jose_string(json_object_get(record, "claims"), "sid");

    if (sid.len != 0 && provider->frontchannel_uri.len != 0) {
        oidc_store_put(provider, sid_key(request, provider, sid), key, provider->session_ms);
    }
}

static void no_store(struct request *request)
{
    fields_add_known(&request->response.fields, &request->arena, FIELD_CACHE_CONTROL,
                     STR("no-store"));
}

/* The URI where the provider ends its own session, and redirects the browser to post_logout_uri. */
static struct str provider_logout(struct request *request, const struct oidc_provider *provider,
                                  const struct oidc_metadata *metadata, const json_t *record)
{
    struct str back = oidc_absolute(request, provider->post_logout_uri);
    struct str hint = provider->hints_token ? jose_string(record, "id_token") : STR_NONE;
    const struct str parts[] = {
        metadata->logout,
        str_find_char(metadata->logout, '?') == NULL ? STR("?client_id=") : STR("&client_id="),
        oidc_escape(request, provider->client_id),
        back.len != 0 ? STR("&post_logout_redirect_uri=") : STR_NONE,
        oidc_escape(request, back),
        hint.len != 0 ? STR("&id_token_hint=") : STR_NONE,
        hint,
    };

    return arena_join(&request->arena, parts, 7);
}

enum handler_result oidc_logout(struct request *request, struct oidc_provider *provider)
{
    const struct oidc_metadata *metadata;
    struct oidc_session session = {.record = NULL};
    struct str target = provider->post_logout_uri.len != 0 ? provider->post_logout_uri : STR("/");
    bool has_session = oidc_session_load(request, provider, &session);

    if (has_session) {
        oidc_store_delete(provider, session.key);
    }
    enum handler_result result = oidc_metadata_of(request, provider, &metadata);
    if (result == HANDLER_CLOSED) {
        return result;
    }
    if (metadata != NULL && metadata->logout.len != 0 && has_session) {
        target = provider_logout(request, provider, metadata, session.record);
    }
    oidc_set_cookie(request, provider, provider->cookie_name, STR_NONE, 0);
    no_store(request);
    return response_redirect(request, 302, target);
}

/* The provider's page loads this URI: ends the session with its `sid`, or that of the cookie. */
enum handler_result oidc_frontchannel(struct request *request, struct oidc_provider *provider)
{
    struct oidc_session session = {.record = NULL};
    struct str issuer;
    struct str sid;
    struct str key;

    if (request_argument(request, STR("iss"), &issuer) &&
        request_argument(request, STR("sid"), &sid)) {
        issuer = percent_decode(&request->arena, issuer);
        key = sid_key(request, provider, percent_decode(&request->arena, sid));
        if (str_equal(issuer, provider->issuer)) {
            oidc_store_refresh(provider, key); /* another node may have a newer session */
        }
        if (str_equal(issuer, provider->issuer) &&
            oidc_store_get(request, provider, key, &session.key)) {
            oidc_store_delete(provider, session.key);
            oidc_store_delete(provider, key);
        }
    } else if (oidc_session_load(request, provider, &session)) {
        oidc_store_delete(provider, session.key);
    }
    oidc_set_cookie(request, provider, provider->cookie_name, STR_NONE, 0);
    no_store(request);
    return response_memory(request, 200, STR("text/plain"), STR("logged out\n"));
}
