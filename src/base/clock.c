/* The cached clock of the process, and its formatted times. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/parse.h"

struct clock clock_now;

static const char month_names[12][4] = {"Jan", "Feb", "Mar", "Apr", "May", "Jun",
                                        "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"};

/* Large enough for any int in each field of the formats below; the results are shorter. */
enum { TEXT_SIZE = 96 };

static void keep_text(char *to, size_t size, const char *text)
{
    memcpy(to, text, size);
}

static struct tm local_time(time_t when)
{
    struct tm local;

    if (localtime_r(&when, &local) == NULL) {
        gmtime_r(&when, &local);
        local.tm_gmtoff = 0;
    }
    return local;
}

static void put_log_time(char *at, const struct tm *local)
{
    char text[TEXT_SIZE];
    int offset = (int) (local->tm_gmtoff / 60);

    snprintf(text, sizeof(text), "%02d/%s/%04d:%02d:%02d:%02d %c%02d%02d", local->tm_mday,
             month_names[local->tm_mon], local->tm_year + 1900, local->tm_hour, local->tm_min,
             local->tm_sec, offset < 0 ? '-' : '+', abs(offset) / 60, abs(offset) % 60);
    keep_text(at, CLOCK_LOG_LENGTH, text);
}

void clock_log_format(char *at, time_t when)
{
    struct tm local = local_time(when);

    put_log_time(at, &local);
}

static void lay_out_texts(void)
{
    struct tm local = local_time(clock_now.seconds);
    char text[TEXT_SIZE];

    http_date_format(clock_now.http_date, clock_now.seconds);
    int offset = (int) (local.tm_gmtoff / 60);
    clock_now.gmt_offset_min = offset;
    char sign = offset < 0 ? '-' : '+';
    int distance = abs(offset);
    int year = local.tm_year + 1900;

    put_log_time(clock_now.log_local, &local);
    snprintf(text, sizeof(text), "%04d/%02d/%02d %02d:%02d:%02d", year, local.tm_mon + 1,
             local.tm_mday, local.tm_hour, local.tm_min, local.tm_sec);
    keep_text(clock_now.error_local, sizeof(clock_now.error_local), text);
    snprintf(text, sizeof(text), "%04d-%02d-%02dT%02d:%02d:%02d%c%02d:%02d", year, local.tm_mon + 1,
             local.tm_mday, local.tm_hour, local.tm_min, local.tm_sec, sign, distance / 60,
             distance % 60);
    keep_text(clock_now.iso8601, sizeof(clock_now.iso8601), text);
}

uint64_t clock_read_ns(void)
{
    struct timespec steady;

    clock_gettime(CLOCK_MONOTONIC, &steady);
    return (uint64_t) steady.tv_sec * 1000000000 + (uint64_t) steady.tv_nsec;
}

uint64_t clock_age_ms(void)
{
    return clock_read_ns() / 1000000 - clock_now.now_ms;
}

void clock_update(void)
{
    struct timespec wall;

    clock_gettime(CLOCK_REALTIME, &wall);
    clock_now.now_ns = clock_read_ns();
    clock_now.now_ms = clock_now.now_ns / 1000000;
    clock_now.milliseconds = (unsigned) (wall.tv_nsec / 1000000);
    if (wall.tv_sec != clock_now.seconds) {
        clock_now.seconds = wall.tv_sec;
        lay_out_texts();
    }
}
