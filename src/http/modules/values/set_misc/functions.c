/* The functions of set_misc directives, by name. */
#include <time.h>

#include "base/checksum.h"
#include "base/clock.h"
#include "base/parse.h"
#include "base/text.h"
#include "http/modules/values/set_misc/set_misc.h"
#include "http/modules/values/set_misc/text.h"
#include "http/request/request.h"

#define RANDOM_LENGTH_MAX 64 /* characters of a random string */
#define TIME_SIZE_MAX 4096   /* bytes of a formatted time */

#define COMPUTE(name)                                                                              \
    static bool name(struct request *request, const struct str *args, unsigned count,              \
                     struct str *value)

static bool set_misc_functions_give(struct str *value, struct str text)
{
    *value = text;
    return true;
}

static bool give_hex(struct request *request, const unsigned char *bytes, size_t size,
                     struct str *value)
{
    char *buffer = arena_text(&request->arena, 2 * size);

    return set_misc_functions_give(value, str_from(buffer, hex_encode(buffer, bytes, size)));
}

/* A value that cannot be decoded becomes empty; for set_decode_hex that is a failure. */
static bool give_decoded(bool is_sound, struct str text, struct str *value)
{
    return set_misc_functions_give(value, is_sound ? text : STR(""));
}

static bool give_copy(struct request *request, const unsigned char *bytes, size_t size,
                      struct str *value)
{
    return set_misc_functions_give(value, arena_dup(&request->arena,
                                                    (struct str){(const char *) bytes, size}));
}

/* ---- quoting and encoding ---- */

COMPUTE(if_empty)
{
    return set_misc_functions_give(value, args[0].len != 0 ? args[0] : args[1]);
}

COMPUTE(quote_sql_str)
{
    return set_misc_functions_give(value, quote_sql(&request->arena, args[0], STR_NONE));
}

COMPUTE(quote_pgsql_str)
{
    return set_misc_functions_give(value, quote_sql(&request->arena, args[0], STR("E")));
}

COMPUTE(quote_json_str)
{
    return set_misc_functions_give(value, quote_json(&request->arena, args[0]));
}

COMPUTE(escape_uri)
{
    return set_misc_functions_give(value,
                                   escape_str(&request->arena, args[0], ESCAPE_URI_COMPONENT));
}

COMPUTE(unescape_uri)
{
    char *buffer = arena_text(&request->arena, args[0].len);

    for (size_t i = 0; i < args[0].len; i++) {
        buffer[i] = args[0].data[i] == '+' ? ' ' : args[0].data[i];
    }
    return set_misc_functions_give(value, percent_decode(&request->arena,
                                                         (struct str){buffer, args[0].len}));
}

COMPUTE(encode_base64)
{
    return set_misc_functions_give(value, base64_encode(&request->arena, args[0], false));
}

COMPUTE(encode_base64url)
{
    return set_misc_functions_give(value, base64_encode(&request->arena, args[0], true));
}

COMPUTE(decode_base64)
{
    struct str text = STR("");

    return give_decoded(base64_decode(&request->arena, args[0], false, &text), text, value);
}

COMPUTE(decode_base64url)
{
    struct str text = STR("");

    return give_decoded(base64_decode(&request->arena, args[0], true, &text), text, value);
}

COMPUTE(encode_base32)
{
    const struct set_misc_settings *settings = location_settings(request->location, &set_misc_key);

    return set_misc_functions_give(value, base32_encode(&request->arena, args[0],
                                                        settings->alphabet, settings->has_padding));
}

COMPUTE(decode_base32)
{
    const struct set_misc_settings *settings = location_settings(request->location, &set_misc_key);
    struct str text = STR("");

    return give_decoded(base32_decode(&request->arena, args[0], settings->alphabet, &text), text,
                        value);
}

COMPUTE(encode_hex)
{
    return give_hex(request, (const unsigned char *) args[0].data, args[0].len, value);
}

COMPUTE(decode_hex)
{
    return set_misc_hex_decode(&request->arena, args[0], value);
}

/* ---- hashes ---- */

COMPUTE(md5)
{
    unsigned char sum[16];

    md5_of(args[0], sum);
    return give_hex(request, sum, sizeof(sum), value);
}

COMPUTE(sha1)
{
    unsigned char sum[20];

    sha1_of(args[0], sum);
    return give_hex(request, sum, sizeof(sum), value);
}

COMPUTE(hmac_sha1)
{
    unsigned char sum[20];

    hmac_sha1_of(&request->arena, args[0], args[1], sum);
    return give_copy(request, sum, sizeof(sum), value);
}

COMPUTE(hmac_sha256)
{
    unsigned char sum[32];

    hmac_sha256_of(&request->arena, args[0], args[1], sum);
    return give_copy(request, sum, sizeof(sum), value);
}

/* ---- random values ---- */

bool set_misc_range(struct request *request, const char *name, const struct str texts[2],
                    uint64_t out[2])
{
    for (unsigned i = 0; i < 2; i++) {
        if (!parse_uint(texts[i], &out[i]) || out[i] > INT64_MAX) {
            log_error(&request->log, 0, "%s: bad \"%s\" argument: \"%.*s\"", name,
                      i == 0 ? "from" : "to", STR_ARG(texts[i]));
            return false;
        }
    }
    if (out[0] > out[1]) {
        uint64_t from = out[0];
        out[0] = out[1];
        out[1] = from;
    }
    return true;
}

COMPUTE(random_number)
{
    uint64_t range[2];
    uint64_t chance;
    char digits[20];

    if (!set_misc_range(request, "set_random", args, range)) {
        return false;
    }
    random_bytes(&chance, sizeof(chance));
    chance = range[0] + chance % (range[1] - range[0] + 1);
    return set_misc_functions_give(value, arena_dup(&request->arena,
                                                    str_from(digits, format_uint(digits, chance))));
}

/* Random characters of a set. Random bytes for which some characters would be more likely than
 * others are discarded. */
static bool random_text(struct request *request, struct str length_text, struct str alphabet,
                        struct str *value)
{
    uint64_t length;
    unsigned limit = 256 - 256 % (unsigned) alphabet.len;

    if (!parse_uint(length_text, &length) || length == 0 || length > RANDOM_LENGTH_MAX) {
        log_error(&request->log, 0, "set_secure_random: bad \"length\" argument: \"%.*s\"",
                  STR_ARG(length_text));
        return false;
    }
    char *buffer = arena_text(&request->arena, (size_t) length);
    for (uint64_t i = 0; i < length;) {
        unsigned char byte;
        random_bytes(&byte, 1);
        if (byte < limit) {
            buffer[i++] = alphabet.data[byte % alphabet.len];
        }
    }
    return set_misc_functions_give(value, (struct str){buffer, (size_t) length});
}

COMPUTE(random_alphanum)
{
    return random_text(request, args[0],
                       STR("0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"),
                       value);
}

COMPUTE(random_lcalpha)
{
    return random_text(request, args[0], STR("abcdefghijklmnopqrstuvwxyz"), value);
}

/* ---- times ---- */

/* The result is empty if strftime does not have enough space. */
static bool give_time(struct request *request, struct str format, const struct tm *parts,
                      struct str *value)
{
    char *text = arena_text(&request->arena, TIME_SIZE_MAX);

    return set_misc_functions_give(value,
                                   (struct str){text, strftime(text, TIME_SIZE_MAX,
                                                               arena_cstr(&request->arena, format),
                                                               parts)});
}

COMPUTE(local_today)
{
    time_t now = clock_now.seconds;
    struct tm parts;

    localtime_r(&now, &parts);
    return give_time(request, STR("%Y-%m-%d"), &parts, value);
}

COMPUTE(formatted_local_time)
{
    time_t now = clock_now.seconds;
    struct tm parts;

    localtime_r(&now, &parts);
    return give_time(request, args[0], &parts, value);
}

COMPUTE(formatted_gmt_time)
{
    time_t now = clock_now.seconds;
    struct tm parts;

    gmtime_r(&now, &parts);
    return give_time(request, args[0], &parts, value);
}

const struct value_function set_misc_functions[] = {
    {"set_if_empty", 2, 2, if_empty},
    {"set_quote_sql_str", 1, 1, quote_sql_str},
    {"set_quote_pgsql_str", 1, 1, quote_pgsql_str},
    {"set_quote_json_str", 1, 1, quote_json_str},
    {"set_escape_uri", 1, 1, escape_uri},
    {"set_unescape_uri", 1, 1, unescape_uri},
    {"set_encode_base64", 1, 1, encode_base64},
    {"set_encode_base64url", 1, 1, encode_base64url},
    {"set_decode_base64", 1, 1, decode_base64},
    {"set_decode_base64url", 1, 1, decode_base64url},
    {"set_encode_base32", 1, 1, encode_base32},
    {"set_decode_base32", 1, 1, decode_base32},
    {"set_encode_hex", 1, 1, encode_hex},
    {"set_decode_hex", 1, 1, decode_hex},
    {"set_md5", 1, 1, md5},
    {"set_sha1", 1, 1, sha1},
    {"set_hmac_sha1", 2, 2, hmac_sha1},
    {"set_hmac_sha256", 2, 2, hmac_sha256},
    {"set_random", 2, 2, random_number},
    {"set_secure_random_alphanum", 1, 1, random_alphanum},
    {"set_secure_random_lcalpha", 1, 1, random_lcalpha},
    {"set_local_today", 0, 0, local_today},
    {"set_formatted_local_time", 1, 1, formatted_local_time},
    {"set_formatted_gmt_time", 1, 1, formatted_gmt_time},
    {NULL, 0, 0, NULL},
};
