/* Values of variables of several kinds of subjects: numbers, times and addresses as text. */
#include "shared/variables/give.h"

#include <unistd.h>

#include "base/clock.h"
#include "base/parse.h"
#include "config.h"

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

/* ---- addresses ---- */

bool variable_give_address(struct variable_env *env, struct str *out, const struct addr *addr)
{
    char text[ADDR_TEXT_MAX];

    *out = arena_dup(env->arena, (struct str){text, addr_format(addr, false, text)});
    return true;
}

/* A unix socket has no port: the value exists, and is empty. */
bool variable_give_port(struct variable_env *env, struct str *out, const struct addr *addr)
{
    uint16_t port = addr_port(addr);

    *out = STR("");
    return port == 0 || variable_give_number(env, out, port);
}

bool variable_give_binary_address(struct variable_env *env, struct str *out,
                                  const struct addr *addr)
{
    if (addr->len != 0 && addr->any.sa_family == AF_INET6) {
        *out = (struct str){(const char *) &addr->v6.sin6_addr, sizeof(addr->v6.sin6_addr)};
    } else if (addr->len != 0 && addr->any.sa_family == AF_INET) {
        *out = (struct str){(const char *) &addr->v4.sin_addr, sizeof(addr->v4.sin_addr)};
    } else {
        return false;
    }
    *out = arena_dup(env->arena, *out);
    return true;
}

/* The source or destination address in the header; NULL when it has none. */
static const struct addr *proxy_end(const struct proxy_header *proxy, bool is_destination)
{
    if (proxy == NULL) {
        return NULL;
    }
    const struct addr *end = is_destination ? &proxy->destination : &proxy->source;
    return end->len == 0 ? NULL : end;
}

bool variable_give_proxy_address(struct variable_env *env, struct str *out,
                                 const struct proxy_header *proxy, bool is_destination)
{
    const struct addr *end = proxy_end(proxy, is_destination);

    return end != NULL && variable_give_address(env, out, end);
}

bool variable_give_proxy_port(struct variable_env *env, struct str *out,
                              const struct proxy_header *proxy, bool is_destination)
{
    const struct addr *end = proxy_end(proxy, is_destination);

    return end != NULL && variable_give_port(env, out, end);
}

/* ---- clocks: copies, because the texts change with the second; the machine's name ---- */

bool variable_get_msec(struct variable_env *env, const struct variable *variable, struct str *out)
{
    return variable_give_seconds(env, out,
                                 (uint64_t) clock_now.seconds * 1000 + clock_now.milliseconds);
}

bool variable_get_time_local(struct variable_env *env, const struct variable *variable,
                             struct str *out)
{
    return variable_give(out, arena_dup(env->arena, CLOCK_STR(log_local)));
}

bool variable_get_time_iso8601(struct variable_env *env, const struct variable *variable,
                               struct str *out)
{
    return variable_give(out, arena_dup(env->arena, CLOCK_STR(iso8601)));
}

bool variable_get_time_iso8601_ms(struct variable_env *env, const struct variable *variable,
                                  struct str *out)
{
    struct str whole = CLOCK_STR(iso8601);

    /* "2026-11-23T17:42:00+00:00": the milliseconds are before the offset. */
    *out = arena_printf(env->arena, "%.*s.%03u%.*s", 19, whole.data, clock_now.milliseconds,
                        (int) (whole.len - 19), whole.data + 19);
    return true;
}

bool variable_get_pid(struct variable_env *env, const struct variable *variable, struct str *out)
{
    return variable_give_number(env, out, (uint64_t) getpid());
}

bool variable_get_nginx_version(struct variable_env *env, const struct variable *variable,
                                struct str *out)
{
    return variable_give(out, STR(NGINX_COMPAT_VERSION));
}

struct str variable_machine_name(struct arena *arena)
{
    char name[256];

    if (gethostname(name, sizeof(name)) == -1) {
        return STR_NONE;
    }
    name[sizeof(name) - 1] = '\0';
    for (char *c = name; *c != '\0'; c++) {
        *c = (char) ascii_lower((unsigned char) *c);
    }
    return arena_dup(arena, str_of(name));
}
