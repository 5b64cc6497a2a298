/* Adds to ngx what library/values has; and times: the clock of this turn of the loop, dates of
 * HTTP. */
#include <lauxlib.h>
#include <stdio.h>
#include <time.h>

#include "base/clock.h"
#include "base/parse.h"
#include "lua/values/ffi.h"
#include "lua/values/values.h"
#include "lua/vm/library.h"
#include "lua/vm/thread.h"

#define LAST_SECOND 253402300799.0 /* of the year 9999 */

void script_ffi_update_time(void)
{
    clock_update();
}

double script_ffi_monotonic_ms(void)
{
    return (double) clock_now.now_ms;
}

int script_ffi_clock_text(int which, char *out)
{
    time_t when = clock_now.seconds + (which == SCRIPT_UTCTIME ? 0 : clock_now.gmt_offset_min * 60);
    struct tm parts;

    gmtime_r(&when, &parts);
    return (int) strftime(out, 64, which == SCRIPT_TODAY ? "%Y-%m-%d" : "%Y-%m-%d %H:%M:%S",
                          &parts);
}

int script_ffi_http_time(double seconds, int is_cookie, char *out)
{
    time_t when = !(seconds > 0)          ? 0
                  : seconds > LAST_SECOND ? (time_t) LAST_SECOND
                                          : (time_t) seconds;
    const char *end = is_cookie ? cookie_date_format(out, when) : http_date_format(out, when);

    return (int) (end - out);
}

double script_ffi_parse_http_time(const char *data, size_t len)
{
    return (double) http_date_parse((struct str){data, len});
}

void *script_ffi_request(void)
{
    struct script_thread *thread = script_running();

    return thread == NULL || thread->phase == SCRIPT_INIT ? NULL : thread->subject;
}

SCRIPT_TEXT(script_values_text, "src/lua/library/values/text.lua")
SCRIPT_TEXT(script_values_time, "src/lua/library/values/time.lua")
SCRIPT_TEXT(script_values_regex, "src/lua/library/values/regex.lua")

/* Runs a part with the table ngx, which is on top, as its argument. */
static void script_values_run(lua_State *L, const char *name, struct str text)
{
    lua_pushvalue(L, -1);
    script_text_run(L, name, text, 1);
}

void script_values_add(struct script_vm *vm, lua_State *L)
{
    script_values_run(L, "values.text", SCRIPT_TEXT_OF(script_values_text));
    script_values_run(L, "values.time", SCRIPT_TEXT_OF(script_values_time));
    lua_pushvalue(L, -1);
    lua_pushnumber(L, (double) vm->options->regex_cache_max);
    lua_pushnumber(L, (double) vm->options->regex_match_limit);
    script_text_run(L, "values.regex", SCRIPT_TEXT_OF(script_values_regex), 3);
}
