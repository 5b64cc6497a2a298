/* Header fields that WebDAV methods share. */
#include "http/message/dav_fields.h"

#include "http/message/uri.h"

enum dav_depth dav_depth_of(const struct fields *headers)
{
    const struct field *field = fields_find(headers, STR("Depth"));

    if (field == NULL) {
        return DEPTH_ABSENT;
    }
    return str_is(field->value, "0")          ? DEPTH_0
           : str_is(field->value, "1")        ? DEPTH_1
           : str_is(field->value, "infinity") ? DEPTH_INFINITY
                                              : DEPTH_INVALID;
}

enum dav_overwrite dav_overwrite_of(const struct fields *headers)
{
    const struct field *field = fields_find(headers, STR("Overwrite"));

    if (field == NULL || str_equal_nocase(field->value, STR("T"))) {
        return OVERWRITE_YES;
    }
    return str_equal_nocase(field->value, STR("F")) ? OVERWRITE_NO : OVERWRITE_INVALID;
}

/* Is it the host, optionally with a port? */
static bool names_host(struct str authority, struct str host)
{
    if (host.len == 0 || !str_starts_nocase(authority, host)) {
        return false;
    }
    struct str port = str_skip(authority, host.len);
    for (size_t i = 1; i < port.len; i++) {
        if (!ascii_is_digit((unsigned char) port.data[i])) {
            return false;
        }
    }
    return port.len == 0 || port.data[0] == ':';
}

enum dav_destination dav_destination_parse(struct arena *arena, struct str value,
                                           const struct dav_origin *origin, struct str *path)
{
    struct uri uri;

    if (value.len != 0 && value.data[0] != '/') {
        if (!str_starts_nocase(value, origin->scheme) ||
            !str_starts(str_skip(value, origin->scheme.len), STR("://"))) {
            return DESTINATION_INVALID;
        }
        value = str_skip(value, origin->scheme.len + 3);
        const char *slash = str_find_char(value, '/');
        if (slash == NULL) {
            return DESTINATION_INVALID;
        }
        if (!names_host(str_from(value.data, slash), origin->host)) {
            return DESTINATION_FOREIGN;
        }
        value = str_from(slash, value.data + value.len);
    }
    if (!uri_normalise(arena, value, origin->merge_slashes, &uri)) {
        return DESTINATION_INVALID;
    }
    *path = uri.path;
    return DESTINATION_GOOD;
}
