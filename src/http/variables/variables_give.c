/* Values that variables of several kinds have: numbers and times as text. */
#include "base/clock.h"
#include "base/parse.h"
#include "http/variables/variables.h"

bool variable_give_number(struct variable_env *env, struct str *out, uint64_t number)
{
    char *digits = arena_text(env->arena, 20);

    *out = str_from(digits, format_uint(digits, number));
    return true;
}

bool variable_give_moment(struct variable_env *env, struct str *out, uint64_t ms)
{
    uint64_t wall_ms = (uint64_t) clock_now.seconds * 1000 + clock_now.milliseconds;

    return variable_give_seconds(env, out, wall_ms - (clock_now.now_ms - ms));
}

bool variable_give_seconds(struct variable_env *env, struct str *out, uint64_t ms)
{
    char digits[24];
    char *at = format_uint(digits, ms / 1000);
    unsigned rest = (unsigned) (ms % 1000);

    *at++ = '.';
    *at++ = (char) ('0' + rest / 100);
    *at++ = (char) ('0' + rest / 10 % 10);
    *at++ = (char) ('0' + rest % 10);
    *out = arena_dup(env->arena, str_from(digits, at));
    return true;
}

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
