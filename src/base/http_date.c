/* HTTP dates (RFC 9110, 5.6.7): parses all three forms, writes one. */
#include "base/clock.h"
#include "base/parse.h"

static const char day_names[7][4] = {"Sun", "Mon", "Tue", "Wed", "Thu", "Fri", "Sat"};
static const struct str long_day_names[7] = {
    STR_INIT("Sunday"),   STR_INIT("Monday"), STR_INIT("Tuesday"),  STR_INIT("Wednesday"),
    STR_INIT("Thursday"), STR_INIT("Friday"), STR_INIT("Saturday"),
};
static const char month_names[12][4] = {"Jan", "Feb", "Mar", "Apr", "May", "Jun",
                                        "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"};

/* A moment in UTC, broken down. */
struct moment {
    int64_t year;
    unsigned month; /* 1 to 12 */
    unsigned day;   /* 1 to 31 */
    unsigned hour;
    unsigned minute;
    unsigned second; /* up to 60, a leap second */
};

/* Days from 1970-01-01 to a date of the Gregorian calendar; years are counted from March. */
static int64_t days_from_date(int64_t year, unsigned month, unsigned day)
{
    year -= month <= 2;
    int64_t era = year / 400; /* years are not negative here */
    unsigned year_of_era = (unsigned) (year - era * 400);
    unsigned day_of_year = (153 * (month > 2 ? month - 3 : month + 9) + 2) / 5 + day - 1;
    unsigned day_of_era = year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year;
    return era * 146097 + (int64_t) day_of_era - 719468;
}

static void date_from_days(int64_t days, struct moment *out)
{
    days += 719468;
    int64_t era = days / 146097;
    unsigned day_of_era = (unsigned) (days - era * 146097);
    unsigned year_of_era =
        (day_of_era - day_of_era / 1460 + day_of_era / 36524 - day_of_era / 146096) / 365;
    unsigned day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    unsigned shifted = (5 * day_of_year + 2) / 153;
    out->day = day_of_year - (153 * shifted + 2) / 5 + 1;
    out->month = shifted < 10 ? shifted + 3 : shifted - 9;
    out->year = (int64_t) year_of_era + era * 400 + (out->month <= 2);
}

static unsigned days_of_month(int64_t year, unsigned month)
{
    static const unsigned char days[12] = {31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31};
    bool is_leap = (year % 4 == 0 && year % 100 != 0) || year % 400 == 0;
    return days[month - 1] + (month == 2 && is_leap ? 1 : 0);
}

static bool http_date_take_text(struct str *s, struct str text)
{
    if (!str_starts(*s, text)) {
        return false;
    }
    *s = str_skip(*s, text.len);
    return true;
}

/* Takes exactly `width` digits. */
static bool take_number(struct str *s, size_t width, unsigned *out)
{
    uint64_t n;

    if (s->len < width || !parse_uint(str_head(*s, width), &n)) {
        return false;
    }
    *s = str_skip(*s, width);
    *out = (unsigned) n;
    return true;
}

static bool take_month(struct str *s, unsigned *out)
{
    for (unsigned i = 0; i < 12; i++) {
        if (http_date_take_text(s, (struct str){month_names[i], 3})) {
            *out = i + 1;
            return true;
        }
    }
    return false;
}

static bool take_time(struct str *s, struct moment *m)
{
    return take_number(s, 2, &m->hour) && http_date_take_text(s, STR(":")) &&
           take_number(s, 2, &m->minute) && http_date_take_text(s, STR(":")) &&
           take_number(s, 2, &m->second);
}

/* After "Sun": " Nov  6 08:49:37 1994". */
static bool take_asctime_form(struct str *s, struct moment *m)
{
    unsigned year;

    if (!http_date_take_text(s, STR(" ")) || !take_month(s, &m->month) ||
        !http_date_take_text(s, STR(" "))) {
        return false;
    }
    size_t width = http_date_take_text(s, STR(" ")) ? 1 : 2;
    if (!take_number(s, width, &m->day) || !http_date_take_text(s, STR(" ")) || !take_time(s, m) ||
        !http_date_take_text(s, STR(" ")) || !take_number(s, 4, &year)) {
        return false;
    }
    m->year = year;
    return true;
}

/*
 * After "Sunday": ", 06-Nov-94 08:49:37 GMT". A year that would be more than 50 years ahead is the
 * last one in the past with these two digits.
 */
static bool take_rfc850_form(struct str *s, struct moment *m)
{
    unsigned year;

    if (!http_date_take_text(s, STR(", ")) || !take_number(s, 2, &m->day) ||
        !http_date_take_text(s, STR("-")) || !take_month(s, &m->month) ||
        !http_date_take_text(s, STR("-")) || !take_number(s, 2, &year) ||
        !http_date_take_text(s, STR(" ")) || !take_time(s, m)) {
        return false;
    }
    struct moment today;
    date_from_days((clock_now.seconds != 0 ? clock_now.seconds : time(NULL)) / 86400, &today);
    m->year = today.year / 100 * 100 + year;
    if (m->year > today.year + 50) {
        m->year -= 100;
    } else if (m->year + 50 <= today.year) {
        m->year += 100;
    }
    return http_date_take_text(s, STR(" GMT"));
}

/* Two digits; other characters make the result 100 or more. */
static inline unsigned two_digits(const char *at)
{
    unsigned tens = (unsigned) (unsigned char) at[0] - '0';
    unsigned ones = (unsigned) (unsigned char) at[1] - '0';

    return tens > 9 || ones > 9 ? 100 : tens * 10 + ones;
}

/* The index of the name that the three letters are; another byte must follow them. `count` if they
   are none. */
static inline unsigned find_name(const char (*names)[4], unsigned count, const char *at)
{
    const char letters[4] = {at[0], at[1], at[2], '\0'};
    uint32_t wanted;
    unsigned i = 0;

    memcpy(&wanted, letters, 4);
    for (; i < count; i++) {
        uint32_t name;
        memcpy(&name, names[i], 4);
        if (name == wanted) {
            break;
        }
    }
    return i;
}

/* "Sun, 06 Nov 1994 08:49:37 GMT", by far the most common form, parsed at fixed positions. */
static bool is_usual_form(struct str s, struct moment *m)
{
    const char *at = s.data;

    if (s.len != HTTP_DATE_LENGTH || memcmp(at + 3, ", ", 2) != 0 || at[7] != ' ' ||
        at[11] != ' ' || at[16] != ' ' || at[19] != ':' || at[22] != ':' ||
        memcmp(at + 25, " GMT", 4) != 0 || find_name(day_names, 7, at) == 7) {
        return false;
    }
    unsigned century = two_digits(at + 12);
    unsigned year = two_digits(at + 14);
    m->month = find_name(month_names, 12, at + 8) + 1;
    m->day = two_digits(at + 5);
    m->hour = two_digits(at + 17);
    m->minute = two_digits(at + 20);
    m->second = two_digits(at + 23);
    m->year = century * 100 + year;
    return m->month <= 12 && century < 100 && year < 100;
}

static bool take_any_form(struct str *s, struct moment *m)
{
    for (int i = 0; i < 7; i++) {
        if (http_date_take_text(s, long_day_names[i])) {
            return take_rfc850_form(s, m);
        }
    }
    for (int i = 0; i < 7; i++) {
        if (http_date_take_text(s, (struct str){day_names[i], 3})) {
            return take_asctime_form(s, m);
        }
    }
    return false;
}

time_t http_date_parse(struct str s)
{
    struct moment m;

    if (!is_usual_form(s, &m) && (!take_any_form(&s, &m) || s.len != 0)) {
        return -1;
    }
    if (m.year < 1970 || m.day < 1 || m.day > days_of_month(m.year, m.month) || m.hour > 23 ||
        m.minute > 59 || m.second > 60) {
        return -1;
    }
    return (time_t) (days_from_date(m.year, m.month, m.day) * 86400 + m.hour * 3600 +
                     m.minute * 60 + m.second);
}

time_t http_date_parse_loosely(struct str s)
{
    char usual[40]; /* "Wednesday, 06-Nov-94 08:49:37 GMT" has 33 */
    time_t when = http_date_parse(s);

    if (when != -1 || s.len > sizeof(usual)) {
        return when;
    }
    bool is_zone = false;
    for (size_t i = 0; i < s.len; i++) {
        unsigned char c = (unsigned char) s.data[i];
        unsigned char letter = c | 0x20;
        bool is_letter = letter >= 'a' && letter <= 'z';
        /* cppcheck-suppress uninitvar ; the loop has written what is before i */
        bool is_first = i == 0 || usual[i - 1] < 'A';
        is_zone = is_zone || (is_letter && is_first && s.len - i == 3);
        usual[i] = (char) (!is_letter ? c : is_first || is_zone ? letter & ~0x20 : letter);
    }
    return http_date_parse((struct str){usual, s.len});
}

static char *put_two(char *at, unsigned n)
{
    at[0] = (char) ('0' + n / 10);
    at[1] = (char) ('0' + n % 10);
    return at + 2;
}

char *http_date_format(char *at, time_t when)
{
    const time_t last = 253402300799; /* the end of the year 9999 */
    struct moment m;

    when = when < 0 ? 0 : when > last ? last : when;
    int64_t days = when / 86400;
    unsigned rest = (unsigned) (when % 86400);
    date_from_days(days, &m);

    memcpy(at, day_names[(days + 4) % 7], 3);
    memcpy(at + 3, ", ", 2);
    at = put_two(at + 5, m.day);
    *at++ = ' ';
    memcpy(at, month_names[m.month - 1], 3);
    at[3] = ' ';
    at = put_two(at + 4, (unsigned) m.year / 100);
    at = put_two(at, (unsigned) m.year % 100);
    *at++ = ' ';
    at = put_two(at, rest / 3600);
    *at++ = ':';
    at = put_two(at, rest / 60 % 60);
    *at++ = ':';
    at = put_two(at, rest % 60);
    memcpy(at, " GMT", 4);
    return at + 4;
}

char *cookie_date_format(char *at, time_t when)
{
    char date[HTTP_DATE_LENGTH];

    http_date_format(date, when);
    size_t year = memcmp(date + 12, "2037", 4) > 0 ? 12 : 14;
    memcpy(at, date, 12);
    at[7] = at[11] = '-';
    memcpy(at + 12, date + year, HTTP_DATE_LENGTH - year);
    return at + 12 + HTTP_DATE_LENGTH - year;
}
