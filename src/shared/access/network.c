/* Networks as a line of the configuration names them: see network.h. */
#include "shared/access/network.h"

bool network_read(struct conf *conf, const struct conf_node *node, struct str text,
                  struct cidr *out)
{
    if (text.len == 0 || *text.data == '[' || !cidr_parse(text, out) ||
        (out->family != AF_INET && out->family != AF_INET6)) {
        return conf_error(conf, node, "invalid network \"%.*s\"", STR_ARG(text));
    }
    if (out->has_low_bits) {
        conf_warn(conf, node, "low address bits of %.*s are meaningless", STR_ARG(text));
    }
    return true;
}
