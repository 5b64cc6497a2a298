/* Lists of allow and deny, and networks in the form of the configuration. */
#include "shared/access/access.h"

enum access_verdict access_check(const struct vec *rules, const struct addr *client)
{
    static const struct addr unix_addr = {.len = sizeof(unix_addr.any.sa_family),
                                          .any.sa_family = AF_UNIX};

    vec_each(const struct access_rule, rule, rules) {
        /* The peer of a unix socket has no name. */
        if (cidr_contains(&rule->network, client->len != 0 ? client : &unix_addr)) {
            return rule->is_deny ? ACCESS_DENIED : ACCESS_ALLOWED;
        }
    }
    return ACCESS_UNDECIDED;
}

bool access_rule_read(struct conf *conf, const struct conf_node *node, struct vec *rules)
{
    struct access_rule rule = {.is_deny = str_is(node->args[0], "deny")};
    struct str text = node->args[1];

    if (text.len == 0 || *text.data == '[' || !cidr_parse(text, &rule.network)) {
        return conf_error(conf, node, "invalid parameter \"%.*s\"", STR_ARG(text));
    }
    if (rule.network.has_low_bits) {
        conf_warn(conf, node, "low address bits of %.*s are meaningless", STR_ARG(text));
    }
    *vec_add(rules, conf->arena, struct access_rule) = rule;
    return true;
}

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
