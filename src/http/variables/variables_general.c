/* Variables about clocks and the host, and those computed from other values. */
#include <time.h>

#include "base/checksum.h"
#include "base/clock.h"
#include "base/parse.h"
#include "base/text.h"
#include "http/variables/variables_get.h"

/* ---- clocks: values are copied, because the strings change every second ---- */

VARIABLE_GET(get_time_http)
{
    *out = arena_dup(env->arena, CLOCK_STR(http_date));
    return true;
}

VARIABLE_GET(get_unix_time)
{
    return variable_give_number(env, out, (uint64_t) clock_now.seconds);
}

/* Local time, as in $time_local. */
VARIABLE_GET(get_date_part)
{
    struct tm now;
    int number = 0;

    if (localtime_r(&clock_now.seconds, &now) == NULL) {
        return false;
    }
    switch ((enum date_part) variable->data) {
    case YEAR:
        *out = arena_printf(env->arena, "%04d", now.tm_year + 1900);
        return true;
    case YEAR_2:
        number = now.tm_year % 100;
        break;
    case MONTH:
        number = now.tm_mon + 1;
        break;
    case DAY:
        number = now.tm_mday;
        break;
    case HOUR:
        number = now.tm_hour;
        break;
    case HOUR_12:
        number = now.tm_hour % 12 == 0 ? 12 : now.tm_hour % 12;
        break;
    case MINUTE:
        number = now.tm_min;
        break;
    case SECOND:
        number = now.tm_sec;
        break;
    }
    *out = arena_printf(env->arena, "%02d", number);
    return true;
}

/* ---- the host ---- */

/* For subjects of any kind: their set of variables is that of http. */
static struct str hostname_of(struct variable_env *env)
{
    return container_of(env->set, struct http_main, variables)->hostname;
}

VARIABLE_GET(get_hostname)
{
    return variable_give(out, hostname_of(env));
}

VARIABLE_GET(get_dollar)
{
    return variable_give(out, STR("$"));
}

VARIABLE_GET(get_host_comment)
{
    struct str host = hostname_of(env);

    *out = arena_printf(env->arena, "<!-- %.*s %.*s -->", STR_ARG(host),
                        STR_ARG(CLOCK_STR(http_date)));
    return true;
}

/* ---- values of other variables, encoded: the name after the prefix is that of the other one ----
 */

VARIABLE_GET(get_escaped_uri)
{
    struct str value;

    if (!variable_get_by_name(env, variable->rest, &value)) {
        return false;
    }
    return variable_give(out, escape_str(env->arena, value, ESCAPE_URI_COMPONENT));
}

VARIABLE_GET(get_md5)
{
    struct str value;
    unsigned char digest[16];

    if (!variable_get_by_name(env, variable->rest, &value)) {
        return false;
    }
    md5_of(value, digest);
    char *text = arena_text(env->arena, 2 * sizeof(digest));
    return variable_give(out, str_from(text, hex_encode(text, digest, sizeof(digest))));
}

VARIABLE_GET(get_base64_decoded)
{
    struct str value;

    return variable_get_by_name(env, variable->rest, &value) &&
           base64_decode(env->arena, value, false, out);
}

/* $ascii_37 or $ascii_0x25: the byte with that code. */
VARIABLE_GET(get_ascii)
{
    struct str name = variable->rest;
    uint64_t code;
    bool is_number = str_starts_nocase(name, STR("0x")) ? parse_hex(str_skip(name, 2), &code)
                                                        : parse_uint(name, &code);

    if (!is_number || code > 127) {
        return false;
    }
    char byte = (char) code;
    *out = arena_dup(env->arena, (struct str){&byte, 1});
    return true;
}
