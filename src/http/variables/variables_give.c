/* The clients of subjects of any kind, for variables by address. */
#include "http/variables/variables.h"

void variable_client(struct variable_env *env, struct addr *out)
{
    struct str text;

    if (env->kind == &request_subject) {
        request_client(variable_request(env), out);
    } else if (variable_get_by_name(env, STR("remote_addr"), &text)) {
        addr_parse_ip(text, out);
    }
}

void variable_follow_client(struct variable_env *env, const struct forwarded *forwarded,
                            struct addr *client)
{
    if (forwarded->trusted.count == 0 || env->kind != &request_subject) {
        return; /* what is no request has no fields yet */
    }
    forwarded_follow_all(forwarded, &variable_request(env)->headers, client);
}
