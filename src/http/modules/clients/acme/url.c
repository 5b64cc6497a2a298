/* URLs of CAs and hooks. */
#include "http/modules/clients/acme/acme.h"
#include "net/addr/addr.h"

/* Does it contain a byte that a request line or JSON would have to escape? */
static bool has_odd_byte(struct str text)
{
    for (size_t i = 0; i < text.len; i++) {
        unsigned char c = (unsigned char) text.data[i];

        if (c <= ' ' || c >= 127 || c == '"' || c == '\\' || c == '#') {
            return true;
        }
    }
    return false;
}

bool acme_url_parse(struct str text, bool allows_plain, struct acme_url *out)
{
    *out = (struct acme_url){.is_secure = str_starts_nocase(text, STR("https://"))};
    if (text.len > ACME_URL_MAX || has_odd_byte(text) ||
        (!out->is_secure && !(allows_plain && str_starts_nocase(text, STR("http://"))))) {
        return false;
    }
    struct str rest = str_skip(text, out->is_secure ? 8 : 7);
    size_t end = 0;

    while (end < rest.len && rest.data[end] != '/' && rest.data[end] != '?') {
        end++;
    }
    out->authority = str_head(rest, end);
    out->target = str_skip(rest, end);
    out->port = out->is_secure ? 443 : 80;
    if (str_find_char(out->authority, '@') != NULL ||
        !addr_split_port(out->authority, &out->host, &out->port) || out->host.len == 0 ||
        out->port == 0) {
        return false;
    }
    if (out->target.len == 0) {
        out->target = STR("/");
    }
    return out->target.data[0] == '/';
}
