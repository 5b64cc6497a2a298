/* The walk through lists of addresses: see forwarded.h. */
#include "http/forwarded.h"

bool forwarded_is_trusted(const struct forwarded *forwarded, const struct addr *addr)
{
    struct addr unix_addr = {.len = sizeof(unix_addr.any.sa_family), .any.sa_family = AF_UNIX};

    vec_each(const struct cidr, network, &forwarded->trusted) {
        /* The other end of a unix socket has no name. */
        if (cidr_contains(network, addr->len != 0 ? addr : &unix_addr)) {
            return true;
        }
    }
    return false;
}

/* "1.2.3.4", "1.2.3.4:80", "::1", "[::1]:80"; without a port it is 0. */
static bool parse_address(struct str text, struct addr *out)
{
    uint16_t port;
    struct str host;

    if (text.len == 0) {
        return false;
    }
    if (text.data[0] != '[' && addr_parse_ip(text, out)) {
        return true;
    }
    if (!addr_split_port(text, &host, &port) || host.len == text.len) {
        return false; /* what only begins with '[' needs a port as well */
    }
    if (host.len >= 2 && host.data[0] == '[' && host.data[host.len - 1] == ']') {
        host = (struct str){host.data + 1, host.len - 2};
    } else if (str_find_char(host, ':') != NULL) {
        return false;
    }
    if (!addr_parse_ip(host, out)) {
        return false;
    }
    addr_set_port(out, port);
    return true;
}

/* Cuts the last address off a list whose parts are parted by commas and blanks. */
static struct str cut_last(struct str *list)
{
    size_t end = list->len;

    while (end > 0 && (list->data[end - 1] == ',' || list->data[end - 1] == ' ')) {
        end--;
    }
    size_t start = end;
    while (start > 0 && list->data[start - 1] != ',' && list->data[start - 1] != ' ') {
        start--;
    }
    struct str last = str_from(list->data + start, list->data + end);
    while (start > 0 && (list->data[start - 1] == ',' || list->data[start - 1] == ' ')) {
        start--;
    }
    *list = str_head(*list, start);
    return last;
}

bool forwarded_follow(const struct forwarded *forwarded, struct str list, struct addr *client)
{
    do {
        struct addr said = {.len = 0};

        if (!forwarded_is_trusted(forwarded, client) || !parse_address(cut_last(&list), &said)) {
            return false;
        }
        *client = said;
    } while (forwarded->is_recursive && list.len != 0);
    return forwarded->is_recursive;
}

void forwarded_follow_all(const struct forwarded *forwarded, const struct fields *fields,
                          struct addr *client)
{
    for (uint32_t i = fields->count; i-- > 0;) {
        const struct field *field = &fields->items[i];

        if (field->id == FIELD_X_FORWARDED_FOR && !field->is_removed &&
            !forwarded_follow(forwarded, field->value, client)) {
            return;
        }
    }
}
