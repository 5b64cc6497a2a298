/* Times for Lua: the clock of this turn of the loop, and dates of HTTP. */
#include <stdio.h>
#include <time.h>

#include "base/clock.h"
#include "base/parse.h"
#include "lua/values/ffi.h"

#define LAST_SECOND 253402300799.0 /* of the year 9999 */

void script_ffi_update_time(void)
{
    clock_update();
}

double script_ffi_monotonic_ms(void)
{
    return (double) clock_now.now_ms;
}

void script_ffi_clock_text(int which, struct script_text *out)
{
    time_t when = clock_now.seconds + (which == SCRIPT_UTCTIME ? 0 : clock_now.gmt_offset_min * 60);
    char *text = script_scratch(64);
    struct tm parts;

    gmtime_r(&when, &parts);
    out->data = text;
    out->len = strftime(text, 64, which == SCRIPT_TODAY ? "%Y-%m-%d" : "%Y-%m-%d %H:%M:%S", &parts);
}

void script_ffi_http_time(double seconds, int is_cookie, struct script_text *out)
{
    time_t when = !(seconds > 0)          ? 0
                  : seconds > LAST_SECOND ? (time_t) LAST_SECOND
                                          : (time_t) seconds;
    char *text = script_scratch(HTTP_DATE_LENGTH);
    const char *end = is_cookie ? cookie_date_format(text, when) : http_date_format(text, when);

    *out = (struct script_text){text, (size_t) (end - text)};
}

double script_ffi_parse_http_time(const char *data, size_t len)
{
    return (double) http_date_parse((struct str){data, len});
}
