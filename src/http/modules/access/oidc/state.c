/* The data of a login are in `state`, encrypted: nothing is stored for browsers that never come
 * back. It is bound to a cookie of the browser, from which nonce and PKCE verifier are derived as
 * well. The cookie's name ends with the digits with which the state begins, so that tabs that start
 * a login at the same time get different cookies, and none replaces another. Later logins use an
 * existing cookie. */
#include "base/checksum.h"
#include "base/clock.h"
#include "base/text.h"
#include "http/modules/access/oidc/oidc.h"
#include "net/tls/seal.h"

static struct str bound_text(struct arena *arena, const struct oidc_provider *provider,
                             struct str cookie)
{
    const struct str parts[] = {provider->name, STR("\n"), cookie};

    return arena_join(arena, parts, 3);
}

struct str oidc_state_seal(struct arena *arena, const struct oidc_provider *provider,
                           const struct oidc_login *login)
{
    const struct str parts[] = {{(const char *) &login->state, sizeof(login->state)}, login->uri};
    struct str sealed = tls_seal(provider->secret, bound_text(arena, provider, login->cookie),
                                 arena_join(arena, parts, 2), arena);

    return arena_concat(arena, login->id, base64_encode(arena, sealed, true));
}

bool oidc_state_open(struct arena *arena, const struct oidc_provider *provider, struct str text,
                     struct oidc_login *login)
{
    struct str sealed, state;

    login->id = str_head(text, OIDC_ID_SIZE);
    if (text.len <= OIDC_ID_SIZE || text.len > 2 * OIDC_URI_MAX ||
        !base64_decode(arena, str_skip(text, OIDC_ID_SIZE), true, &sealed) ||
        sealed.len < TLS_SEAL_EXTRA + sizeof(login->state) ||
        !tls_unseal(provider->secret, bound_text(arena, provider, login->cookie), sealed, arena,
                    &state)) {
        return false;
    }
    memcpy(&login->state, state.data, sizeof(login->state));
    login->uri = str_skip(state, sizeof(login->state));
    return clock_now.seconds >= login->state.time - OIDC_SKEW_S &&
           clock_now.seconds < login->state.time + OIDC_LOGIN_S;
}

struct str oidc_derive(struct arena *arena, const struct oidc_provider *provider, const char *what,
                       const struct oidc_login *login)
{
    const struct str parts[] = {str_of(what), login->cookie, {login->state.salt, OIDC_SALT_SIZE}};
    unsigned char digest[32];

    hmac_sha256_of(arena, (struct str){(const char *) provider->secret, OIDC_RANDOM},
                   arena_join(arena, parts, 3), digest);
    return base64_encode(arena, (struct str){(char *) digest, sizeof(digest)}, true);
}

/* Only a path of this server: "//host" would lead to another one. */
struct str oidc_local_uri(struct str uri)
{
    bool is_local = uri.len != 0 && uri.data[0] == '/' &&
                    (uri.len == 1 || (uri.data[1] != '/' && uri.data[1] != '\\'));

    return is_local ? uri : STR("/");
}
