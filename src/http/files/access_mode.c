/* Permissions of files that are made. */
#include "http/files/access_mode.h"

bool access_mode_read(struct conf_scope *scope, const struct conf_node *node, unsigned *out)
{
    static const struct {
        struct str users;
        unsigned shift;
    } groups[] = {{STR_INIT("user:"), 6}, {STR_INIT("group:"), 3}, {STR_INIT("all:"), 0}};
    unsigned access = 0600; /* who wrote the file may always do so */

    for (unsigned i = 1; i < node->count; i++) {
        struct str value = node->args[i];
        unsigned g = 0;

        while (g < 3 && !str_starts(value, groups[g].users)) {
            g++;
        }
        struct str rights = g < 3 ? str_skip(value, groups[g].users.len) : STR_NONE;
        if (str_is(rights, "rw")) {
            access |= 6u << groups[g].shift;
        } else if (str_is(rights, "r")) {
            access |= 4u << groups[g].shift;
        } else {
            return conf_error(scope->conf, node, "invalid value \"%.*s\"", STR_ARG(value));
        }
    }
    *out = access;
    return true;
}
