/* Parses and checks orders, authorizations and renewal information of a CA. */
#include "http/modules/clients/acme/acme.h"

#define DOMAIN_MAX 255
#define TOKEN_MAX 256

struct str acme_url_of(struct arena *arena, const json_t *object, const char *name)
{
    struct str text = jose_string(object, name);
    struct acme_url url;

    return acme_url_parse(text, false, &url) ? arena_dup(arena, text) : STR("");
}

static struct str text_of(const json_t *value)
{
    return json_is_string(value) ? (struct str){json_string_value(value), json_string_length(value)}
                                 : STR_NONE;
}

bool acme_order_read(struct arena *arena, const json_t *object, struct str location,
                     struct acme_order_urls *out)
{
    const json_t *list = json_object_get(object, "authorizations");
    size_t index;
    json_t *one;
    struct acme_url url;

    *out = (struct acme_order_urls){
        .order = arena_dup(arena, location),
        .finalize = acme_url_of(arena, object, "finalize"),
    };
    json_array_foreach(list, index, one)
    {
        struct str text = text_of(one);

        if (index >= ACME_IDENTIFIERS_MAX || !acme_url_parse(text, false, &url)) {
            return false;
        }
        *vec_add(&out->authorizations, arena, struct str) = arena_dup(arena, text);
    }
    return out->finalize.len != 0 && acme_url_parse(out->order, false, &url);
}

/* ---- authorizations ---- */

const json_t *acme_find_challenge(const json_t *authorization, enum acme_challenge_type type)
{
    const json_t *list = json_object_get(authorization, "challenges");
    size_t index;
    json_t *one;

    json_array_foreach(list, index, one)
    {
        if (str_is(jose_string(one, "type"), acme_challenge_names[type])) {
            return one;
        }
    }
    return NULL;
}

/* Is it one of the ordered identifiers? The CA sends a wildcard name without "*.". */
static bool take_identifier(const json_t *object, const struct acme_certificate *certificate,
                            struct acme_authorization *out)
{
    struct str value = jose_string(json_object_get(object, "identifier"), "value");

    out->is_wildcard = json_is_true(json_object_get(object, "wildcard"));
    vec_each(const struct acme_identifier, ours, &certificate->identifiers) {
        struct str name = ours->value;
        bool is_wildcard = str_starts(name, STR("*."));
        if (is_wildcard) {
            name = str_skip(name, 2);
        }
        if (str_equal_nocase(name, value) && is_wildcard == out->is_wildcard) {
            out->identifier = (struct acme_identifier){name, ours->is_ip};
            return true;
        }
    }
    return false;
}

static bool take_domain(struct arena *arena, const json_t *challenge, struct str *out)
{
    struct str text = text_of(json_array_get(json_object_get(challenge, "issuer-domain-names"), 0));

    for (size_t i = 0; i < text.len; i++) {
        unsigned char c = (unsigned char) text.data[i];
        if (c <= ' ' || c >= 127) {
            return false;
        }
    }
    *out = arena_dup(arena, text);
    return text.len != 0 && text.len <= DOMAIN_MAX;
}

const char *acme_authorization_read(struct arena *arena, const json_t *object,
                                    const struct acme_certificate *certificate,
                                    enum acme_challenge_type type, struct acme_authorization *out)
{
    const json_t *challenge = acme_find_challenge(object, type);

    *out = (struct acme_authorization){.token = STR("")};
    if (!take_identifier(object, certificate, out)) {
        return "the CA wants an authorization for another name";
    }
    if (challenge == NULL) {
        return "the CA has no challenge of this type";
    }
    out->challenge_url = acme_url_of(arena, challenge, "url");
    if (out->challenge_url.len == 0) {
        return "the challenge has no URL";
    }
    if (type == ACME_DNS_PERSIST_01) {
        return take_domain(arena, challenge, &out->domain)
                   ? NULL
                   : "the CA names no domain for dns-persist-01";
    }
    out->token = arena_dup(arena, jose_string(challenge, "token"));
    return acme_is_base64url(out->token) && out->token.len <= TOKEN_MAX
               ? NULL
               : "the CA sent a malformed challenge";
}

/* ---- renewal information ---- */

bool acme_window_read(const json_t *object, int64_t *start, int64_t *end)
{
    const json_t *window = json_object_get(object, "suggestedWindow");

    return acme_time_parse(jose_string(window, "start"), start) &&
           acme_time_parse(jose_string(window, "end"), end) && *end > *start;
}
