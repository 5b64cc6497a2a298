/* Splits URLs of proxy_pass. */
#include "http/modules/backends/proxy/proxy.h"

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
