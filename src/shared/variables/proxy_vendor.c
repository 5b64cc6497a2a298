/* Data of cloud providers in the header of the PROXY protocol. */
#include "shared/variables/proxy_vendor.h"

#include "shared/variables/give.h"

#define SUBTYPE 1 /* first byte of the data of Amazon and Azure; each has only this one */

static uint64_t proxy_vendor_read_number(struct str bytes, bool is_little_endian)
{
    uint64_t number = 0;

    for (size_t i = 0; i < bytes.len; i++) {
        size_t at = is_little_endian ? bytes.len - 1 - i : i;

        number = number << 8 | (unsigned char) bytes.data[at];
    }
    return number;
}

bool variable_give_proxy_vendor(struct variable_env *env, struct str *out,
                                const struct proxy_header *proxy, enum proxy_vendor which)
{
    static const struct str types[] = {[PROXY_VENDOR_AWS_VPCE_ID] = STR_INIT("0xea"),
                                       [PROXY_VENDOR_AZURE_PEL_ID] = STR_INIT("0xee"),
                                       [PROXY_VENDOR_GCP_CONN_ID] = STR_INIT("0xe0")};
    struct str value;

    if (proxy == NULL || !proxy_header_tlv(proxy, types[which], &value)) {
        return false;
    }
    if (which == PROXY_VENDOR_GCP_CONN_ID) {
        return value.len == sizeof(uint64_t) &&
               variable_give_number(env, out, proxy_vendor_read_number(value, false));
    }
    if (value.len < 2 || value.data[0] != SUBTYPE) {
        return false;
    }
    value = str_skip(value, 1);
    if (which == PROXY_VENDOR_AZURE_PEL_ID) {
        return value.len == sizeof(uint32_t) &&
               variable_give_number(env, out, proxy_vendor_read_number(value, true));
    }
    return variable_give(out, value);
}
