/* Fuzzes the reader of PROXY protocol headers: any bytes, also cut short, every TLV by name, and
 * those of vendors. */
#include <stdlib.h>

#include "shared/variables/proxy_vendor.h"

static const struct str names[] = {
    STR_INIT("alpn"),        STR_INIT("authority"),  STR_INIT("unique_id"),
    STR_INIT("ssl"),         STR_INIT("netns"),      STR_INIT("ssl_version"),
    STR_INIT("ssl_cn"),      STR_INIT("ssl_cipher"), STR_INIT("ssl_sig_alg"),
    STR_INIT("ssl_key_alg"), STR_INIT("ssl_verify"), STR_INIT("0x04"),
    STR_INIT("ssl_0x21"),
};

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void read_vendors(const struct proxy_header *header)
{
    struct arena arena;
    struct variable_env env = {.arena = &arena};
    struct str value;

    arena_init(&arena);
    for (unsigned which = 0; which <= PROXY_VENDOR_GCP_CONN_ID; which++) {
        if (variable_give_proxy_vendor(&env, &value, header, (enum proxy_vendor) which) &&
            value.len == 0) {
            abort();
        }
    }
    arena_free(&arena);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    /* A copy of its own, so that a byte read too far is seen. */
    char *copy = malloc(size + 1);
    struct proxy_header *header = NULL;
    size_t used = 0;

    if (copy == NULL) {
        return 0;
    }
    if (size != 0) {
        memcpy(copy, data, size);
    }
    char *input = realloc(copy, size == 0 ? 1 : size);
    if (proxy_header_parse((struct str){input, size}, &header, &used) == PROXY_HEADER_DONE) {
        struct str value;
        char text[ADDR_TEXT_MAX];

        if (used == 0 || used > size || header->tlvs.len > size) {
            abort();
        }
        for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
            if (proxy_header_tlv(header, names[i], &value) && value.len > size + 10) {
                abort();
            }
        }
        read_vendors(header);
        if (header->source.len != 0) {
            addr_format(&header->source, true, text);
            addr_format(&header->destination, true, text);
        }
        free(header);
    }
    free(input);
    return 0;
}
