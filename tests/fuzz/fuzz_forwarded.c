/*
 * Fuzz target: X-Forwarded-For, as realip and geo follow it. With everybody trusted and nobody
 * believed beyond the list, the client is one that the list names; with nobody trusted it stays.
 */
#include <stdlib.h>

#include "http/client/forwarded.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct cidr all = {.family = 0};
    struct forwarded everybody = {.trusted = {&all, 1, 1}, .is_recursive = size % 2 != 0};
    struct forwarded nobody = {.is_recursive = true};
    struct str list = {(const char *) data, size};
    struct addr start;
    char text[ADDR_TEXT_MAX];

    addr_parse_ip(STR("192.0.2.1"), &start);
    struct addr client = start;
    if (forwarded_follow(&nobody, list, &client) || !addr_equal(&client, &start)) {
        abort();
    }
    forwarded_follow(&everybody, list, &client);
    if ((client.any.sa_family != AF_INET && client.any.sa_family != AF_INET6) ||
        addr_format(&client, true, text) > sizeof(text)) {
        abort();
    }
    return 0;
}
