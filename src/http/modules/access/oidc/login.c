/* A login (OpenID Connect Core, 3.1): the browser is redirected to the provider, and comes back
 * with a code. */
#include "base/checksum.h"
#include "base/clock.h"
#include "base/text.h"
#include "http/modules/access/oidc/oidc.h"
#include "http/variables/variables.h"

#define COOKIES_MAX 8 /* most login cookies of a browser; older ones are deleted */
#define DROPS_MAX 32  /* most cookies that one response deletes; later responses delete more */

static struct str login_cookie_name(struct request *request, const struct oidc_provider *provider,
                                    struct str id)
{
    const struct str parts[] = {provider->cookie_name, STR("_LOGIN_"), id};

    return arena_join(&request->arena, parts, 3);
}

/* ---- redirect to the provider ---- */

struct str oidc_escape(struct request *request, struct str text)
{
    return escape_str(&request->arena, text, ESCAPE_URI_COMPONENT);
}

struct str oidc_absolute(struct request *request, struct str uri)
{
    if (uri.len == 0 || uri.data[0] != '/') {
        return uri;
    }
    bool has_port = request->head.port.len != 0;
    const struct str parts[] = {request_is_encrypted(request) ? STR("https://") : STR("http://"),
                                request->head.host, has_port ? STR(":") : STR_NONE,
                                request->head.port, uri};

    return arena_join(&request->arena, parts, 5);
}

/* Was this request made by a page rather than by the user (Fetch Metadata: an image, a script,
 * fetch())? A login would not work: browsers do not follow the redirect for scripts, the form is
 * not visible, and its cookie could replace that of a page that the browser requests at the same
 * time. */
static bool is_part_of_page(const struct request *request)
{
    const struct field *mode = fields_find(&request->headers, STR("Sec-Fetch-Mode"));

    return mode != NULL && !str_is(mode->value, "navigate");
}

/* Is it a name that this server may have generated? Other cookies may contain anything, and the
 * name becomes part of responses and of requests to the provider. */
static bool has_login_name(const struct request_cookie *cookie, struct str prefix)
{
    struct str id = str_skip(cookie->name, prefix.len);

    for (size_t i = 0; i < id.len; i++) {
        if (!ascii_is_digit((unsigned char) id.data[i]) && (id.data[i] < 'a' || id.data[i] > 'f')) {
            return false;
        }
    }
    return id.len == OIDC_ID_SIZE;
}

static bool is_login_value(struct str value)
{
    struct str bytes;
    struct arena arena;

    arena_init(&arena);
    bool is_one = value.len == OIDC_TEXT && base64_decode(&arena, value, true, &bytes);
    arena_free(&arena);
    return is_one;
}

/* Finds the newest login cookie of the browser. False: none. The oldest are deleted if there are
 * too many. */
static bool find_cookie(struct request *request, const struct oidc_provider *provider,
                        struct oidc_login *login)
{
    struct str prefix = login_cookie_name(request, provider, STR_NONE);
    struct vec cookies = {0};
    size_t left = 0;
    unsigned drops = 0;

    request_cookies(request, prefix, &request->arena, &cookies);
    vec_each(const struct request_cookie, cookie, &cookies) {
        left += has_login_name(cookie, prefix);
    }
    vec_each(const struct request_cookie, cookie, &cookies) {
        if (!has_login_name(cookie, prefix)) {
            continue;
        }
        if (is_login_value(cookie->value)) {
            login->id = str_skip(cookie->name, prefix.len);
            login->cookie = cookie->value;
        }
        if (left-- > COOKIES_MAX && drops++ < DROPS_MAX) {
            oidc_set_cookie(request, provider, cookie->name, STR_NONE, 0);
        }
    }
    return login->cookie.len != 0;
}

static void take_browser_cookie(struct request *request, const struct oidc_provider *provider,
                                struct oidc_login *login)
{
    unsigned char bytes[OIDC_ID_SIZE / 2];
    char *digits;

    if (!find_cookie(request, provider, login)) {
        random_bytes(bytes, sizeof(bytes));
        digits = arena_text(&request->arena, OIDC_ID_SIZE);
        hex_encode(digits, bytes, sizeof(bytes));
        login->id = (struct str){digits, OIDC_ID_SIZE};
        login->cookie = oidc_random(&request->arena);
    }
    oidc_set_cookie(request, provider, login_cookie_name(request, provider, login->id),
                    login->cookie, OIDC_LOGIN_S);
}

static struct str challenge_of(struct request *request, struct str verifier)
{
    unsigned char digest[32];

    sha256_of(verifier, digest);
    return base64_encode(&request->arena, (struct str){(char *) digest, sizeof(digest)}, true);
}

static bool has_pkce(const struct oidc_provider *provider, const struct oidc_metadata *metadata)
{
    return provider->is_pkce_set ? provider->pkce : metadata->has_s256;
}

static struct str scopes_of(struct request *request, const struct oidc_provider *provider)
{
    struct str text = STR_NONE;

    vec_each(const struct str, scope, &provider->scopes) {
        const struct str parts[] = {text, text.len != 0 ? STR(" ") : STR_NONE, *scope};
        text = arena_join(&request->arena, parts, 3);
    }
    return text;
}

/* Where the browser is redirected after the login: the current URI, if it can be requested
 * again. */
static struct str return_uri(struct request *request)
{
    struct str uri = request_origin_form(request);
    bool is_safe = request->method == METHOD_GET || request->method == METHOD_HEAD;

    return is_safe && uri.len <= OIDC_URI_MAX ? uri : STR("/");
}

/* The page can see from the status that the session has ended. Browsers do not know the scheme, so
 * they do not prompt for a password. */
static enum handler_result refuse_part(struct request *request,
                                       const struct oidc_provider *provider)
{
    fields_add_known(&request->response.fields, &request->arena, FIELD_WWW_AUTHENTICATE,
                     arena_printf(&request->arena, "Cookie realm=\"%.*s\", cookie-name=%.*s",
                                  STR_ARG(provider->name), STR_ARG(provider->cookie_name)));
    fields_add_known(&request->response.fields, &request->arena, FIELD_CACHE_CONTROL,
                     STR("no-store"));
    return request_fail(request, 401);
}

enum handler_result oidc_login(struct request *request, struct oidc_provider *provider)
{
    const struct oidc_metadata *metadata;

    if (is_part_of_page(request)) {
        return refuse_part(request, provider);
    }
    enum handler_result result = oidc_metadata_of(request, provider, &metadata);

    if (result != HANDLER_NEXT) {
        return result;
    }
    if (metadata == NULL) {
        return request_fail(request, 502);
    }
    if (request->head.host.len == 0 && str_starts(provider->redirect_uri, STR("/"))) {
        return request_fail(request, 400); /* of HTTP/1.0: there would be no URI to come back to */
    }
    struct oidc_login login = {
        .state = {.time = clock_now.seconds},
        .uri = return_uri(request),
    };
    take_browser_cookie(request, provider, &login);
    random_bytes(login.state.salt, OIDC_SALT_SIZE);
    struct str verifier = oidc_derive(&request->arena, provider, "verifier", &login);
    bool is_first = str_find_char(metadata->authorization, '?') == NULL;
    const struct str parts[] = {
        metadata->authorization,
        is_first ? STR("?") : STR("&"),
        STR("response_type=code&scope="),
        oidc_escape(request, scopes_of(request, provider)),
        STR("&client_id="),
        oidc_escape(request, provider->client_id),
        STR("&redirect_uri="),
        oidc_escape(request, oidc_absolute(request, provider->redirect_uri)),
        STR("&state="),
        oidc_state_seal(&request->arena, provider, &login),
        STR("&nonce="),
        oidc_derive(&request->arena, provider, "nonce", &login),
        has_pkce(provider, metadata) ? STR("&code_challenge_method=S256&code_challenge=")
                                     : STR_NONE,
        has_pkce(provider, metadata) ? challenge_of(request, verifier) : STR_NONE,
        provider->extra_args.len != 0 ? STR("&") : STR_NONE,
        provider->extra_args,
    };
    fields_add_known(&request->response.fields, &request->arena, FIELD_CACHE_CONTROL,
                     STR("no-store"));
    return response_redirect(request, 302,
                             arena_join(&request->arena, parts, sizeof(parts) / sizeof(*parts)));
}

/* ---- the way back ---- */

static struct str argument_of(struct request *request, struct str name)
{
    struct str value;

    return request_argument(request, name, &value) ? percent_decode(&request->arena, value)
                                                   : STR_NONE;
}

static enum handler_result refuse(struct request *request, const struct oidc_provider *provider,
                                  const char *why, struct str more)
{
    log_error(&request->log, 0, "a login with the OpenID provider \"%.*s\" was refused: %s%.*s",
              STR_ARG(provider->name), why, STR_ARG(str_head(more, 100)));
    return request_fail(request, 403);
}

/* RFC 9207: did this provider send the browser back? */
static bool is_from_provider(struct request *request, const struct oidc_provider *provider,
                             const struct oidc_metadata *metadata)
{
    struct str issuer = argument_of(request, STR("iss"));

    return issuer.data == NULL ? !metadata->says_issuer : str_equal(issuer, provider->issuer);
}

static struct str token_form(struct request *request, const struct oidc_provider *provider,
                             const struct oidc_metadata *metadata, struct str code,
                             struct str verifier)
{
    bool is_pkce = has_pkce(provider, metadata);
    const struct str parts[] = {
        STR("grant_type=authorization_code&code="),
        oidc_escape(request, code),
        STR("&redirect_uri="),
        oidc_escape(request, oidc_absolute(request, provider->redirect_uri)),
        is_pkce ? STR("&code_verifier=") : STR_NONE,
        is_pkce ? verifier : STR_NONE,
    };

    return arena_join(&request->arena, parts, 6);
}

static enum handler_result begin_session(struct request *request, struct oidc_provider *provider,
                                         const json_t *record, struct str uri)
{
    struct str id = oidc_random(&request->arena);
    struct str key = oidc_store_key(&request->arena, "session:", id);

    if (!oidc_session_store(request, provider, key, record, true)) {
        return request_fail(request, 500);
    }
    oidc_remember_sid(provider, request, record, key);
    oidc_set_cookie(request, provider, provider->cookie_name, id, -1);
    fields_add_known(&request->response.fields, &request->arena, FIELD_CACHE_CONTROL,
                     STR("no-store"));
    return response_redirect(request, 302, oidc_local_uri(uri));
}

/* False: not made by this server for this browser, or too old. */
static bool open_state(struct request *request, const struct oidc_provider *provider,
                       struct oidc_login *login)
{
    struct str text = argument_of(request, STR("state"));
    struct str name = login_cookie_name(request, provider, str_head(text, OIDC_ID_SIZE));

    return text.len > OIDC_ID_SIZE && request_cookie(request, name, &login->cookie) &&
           oidc_state_open(&request->arena, provider, text, login);
}

enum handler_result oidc_callback(struct request *request, struct oidc_provider *provider)
{
    struct oidc_token_question asked = {.provider = provider};
    struct oidc_login login = {.id = STR_NONE};
    struct str code = argument_of(request, STR("code"));
    struct str error = argument_of(request, STR("error"));

    if (!open_state(request, provider, &login)) {
        return refuse(request, provider, "its state is not one of this browser, or is too old",
                      STR(""));
    }
    enum handler_result result = oidc_metadata_of(request, provider, &asked.metadata);
    if (result != HANDLER_NEXT) {
        return result;
    }
    if (asked.metadata == NULL) {
        return request_fail(request, 502);
    }
    if (!is_from_provider(request, provider, asked.metadata)) {
        return refuse(request, provider, "it comes from another issuer", STR(""));
    }
    if (error.data != NULL || code.len == 0) {
        return refuse(request, provider,
                      "the provider says: ", error.data != NULL ? error : STR("no code"));
    }
    asked.form = token_form(request, provider, asked.metadata, code,
                            oidc_derive(&request->arena, provider, "verifier", &login));
    asked.nonce = oidc_derive(&request->arena, provider, "nonce", &login);
    result = oidc_tokens(request, &asked);
    if (result != HANDLER_NEXT) {
        return result;
    }
    if (asked.record == NULL) {
        return request_fail(request, asked.status / 100 == 4 ? 403 : 502);
    }
    return begin_session(request, provider, asked.record, login.uri);
}
