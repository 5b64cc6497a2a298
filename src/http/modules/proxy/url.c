/* Where a proxied request goes: the parts of proxy_pass, and the URI that the backend is asked for. */
#include "http/modules/proxy/proxy.h"

#include "base/text.h"

bool proxy_url_scheme(struct str *text, bool *is_https)
{
    *is_https = str_starts_nocase(*text, STR("https://"));
    if (!*is_https && !str_starts_nocase(*text, STR("http://"))) {
        return false;
    }
    *text = str_skip(*text, *is_https ? 8 : 7);
    return true;
}

void proxy_url_cut(struct str rest, struct proxy_url *url)
{
    size_t i = 0;

    if (str_starts_nocase(rest, STR("unix:"))) {
        struct str path = str_skip(rest, 5);
        const char *colon = str_find_char(path, ':');

        url->address = colon == NULL ? rest : str_from(rest.data, colon);
        url->uri = colon == NULL ? STR_NONE : str_from(colon + 1, rest.data + rest.len);
        return;
    }
    while (i < rest.len && rest.data[i] != '/' && rest.data[i] != '?') {
        i++;
    }
    url->address = str_head(rest, i);
    url->uri = str_skip(rest, i);
}

void proxy_url_name(struct proxy_url *url)
{
    struct str address = url->address;
    const char *colon = str_find_last_char(address, ':');
    const char *bracket = str_find_last_char(address, ']');

    if (str_starts_nocase(address, STR("unix:"))) {
        url->host = STR("localhost");
        url->port = STR("");
        return;
    }
    url->host = address;
    url->port = url->is_https ? STR("443") : STR("80");
    if (colon == NULL || (bracket != NULL && colon < bracket)) {
        return;
    }
    struct str usual = url->port;
    url->port = str_from(colon + 1, address.data + address.len);
    if (str_equal(url->port, usual)) {
        url->host = str_from(address.data, colon);
    }
}

/* May the byte not stand in a request line as it is? */
static bool ends_word(char c)
{
    return (unsigned char) c <= ' ' || c == 127;
}

/* What variables and rewritten URIs put together: nobody ends the request line with it (RFC 9112, 3.2). */
static struct str line_safe(struct arena *arena, struct str text)
{
    static const char digits[] = "0123456789ABCDEF";
    size_t extra = 0;

    for (size_t i = 0; i < text.len; i++) {
        extra += ends_word(text.data[i]) ? 2 : 0;
    }
    if (extra == 0) {
        return text;
    }
    char *start = arena_text(arena, text.len + extra);
    char *at = start;
    for (size_t i = 0; i < text.len; i++) {
        unsigned char c = (unsigned char) text.data[i];
        if (ends_word((char) c)) {
            *at++ = '%';
            *at++ = digits[c >> 4];
            *at++ = digits[c & 15];
        } else {
            *at++ = (char) c;
        }
    }
    return str_from(start, at);
}

/* A decoded path as it is sent. What the client sent unquoted goes on unquoted. */
static struct str encoded(struct request *request, struct str path)
{
    return request->uri_has_quoted || request->is_internal
               ? escape_str(&request->arena, path, ESCAPE_URI)
               : path;
}

/* "first" and the request's URI from `from` bytes on, with the arguments. */
static struct str assembled(struct request *request, struct str first, size_t from)
{
    const struct str parts[] = {first, encoded(request, str_skip(request->uri, from)),
                                request->args.len != 0 ? STR("?") : STR_NONE, request->args};

    return line_safe(&request->arena, arena_join(&request->arena, parts, 4));
}

/* A target begins with a slash (RFC 9112, 3.2.1). */
static struct str rooted(struct arena *arena, struct str target)
{
    return target.len != 0 && *target.data == '/' ? target : arena_concat(arena, STR("/"), target);
}

struct str proxy_request_uri(struct request *request, const struct proxy_target *target,
                             struct str own_uri)
{
    struct arena *arena = &request->arena;

    if (own_uri.len != 0 && target->text != NULL) {
        return line_safe(arena, rooted(arena, own_uri));
    }
    if (own_uri.len != 0 && !request->is_uri_rewritten &&
        str_starts(request->uri, target->prefix)) {
        return assembled(request, rooted(arena, own_uri), target->prefix.len);
    }
    if (!request->is_target_stale) {
        return rooted(arena, request_origin_form(request));
    }
    return assembled(request, STR_NONE, 0);
}
