/* Parses the response of an authentication server. */
#include "mail/words/auth_response.h"

#include "base/parse.h"

/* Removes the next line from *rest and gives it without line end; data NULL: there is none. */
static struct str next_line(struct str *rest)
{
    struct str line = str_cut(rest, '\n');

    line.len -= str_ends(line, STR("\r"));
    return line;
}

static bool mail_answer_is_name(struct str name)
{
    for (size_t i = 0; i < name.len; i++) {
        unsigned char c = (unsigned char) name.data[i];
        bool is_letter = (unsigned char) ((c | 0x20) - 'a') < 26;

        if (!is_letter && !ascii_is_digit(c) && c != '-' && c != '_') {
            return false;
        }
    }
    return name.len != 0;
}

/* Values are sent to clients and backends in lines of their protocols, so none may contain a line
 * end. */
static bool is_value(struct str value)
{
    return memchr(value.data, '\0', value.len) == NULL &&
           memchr(value.data, '\r', value.len) == NULL;
}

static void take_status(struct str value, struct auth_response *out)
{
    out->has_status = true;
    out->is_ok = str_is(value, "OK");
    out->is_wait = str_is(value, "WAIT");
    out->status = value;
}

static void mail_answer_take_field(struct str name, struct str value, struct auth_response *out)
{
    static const struct {
        struct str name;
        size_t offset; /* of the member in struct auth_response */
    } texts[] = {
        {STR_INIT("Auth-Server"), offsetof(struct auth_response, server)},
        {STR_INIT("Auth-Port"), offsetof(struct auth_response, port)},
        {STR_INIT("Auth-User"), offsetof(struct auth_response, user)},
        {STR_INIT("Auth-Pass"), offsetof(struct auth_response, password)},
        {STR_INIT("Auth-Error-Code"), offsetof(struct auth_response, error_code)},
    };
    uint64_t seconds;

    if (str_equal_nocase(name, STR("Auth-Status"))) {
        take_status(value, out);
    } else if (str_equal_nocase(name, STR("Auth-Wait"))) {
        out->wait_s = parse_uint(value, &seconds) ? seconds : 0;
    }
    for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
        if (str_equal_nocase(name, texts[i].name)) {
            *(struct str *) (void *) ((char *) out + texts[i].offset) = value;
        }
    }
}

/* Has the whole header arrived? */
static bool is_whole(struct str input, size_t *seen)
{
    while (*seen < input.len) {
        const char *end = str_find_char(str_skip(input, *seen), '\n');

        if (end == NULL) {
            *seen = input.len;
            return false;
        }
        *seen = (size_t) (end + 1 - input.data);
        if (end > input.data &&
            (end[-1] == '\n' || (end[-1] == '\r' && end - 1 > input.data && end[-2] == '\n'))) {
            return true;
        }
    }
    return false;
}

enum auth_reading auth_response_read(struct str input, size_t *seen, struct auth_response *out)
{
    if (!is_whole(input, seen)) {
        return AUTH_MORE;
    }
    struct str rest = str_head(input, *seen);

    *out = (struct auth_response){.has_status = false};
    if (!str_starts(next_line(&rest), STR("HTTP/"))) {
        return AUTH_BAD;
    }
    for (;;) {
        struct str line = next_line(&rest);

        if (line.len == 0) {
            return AUTH_DONE;
        }
        struct str name = str_cut(&line, ':');
        if (line.data == NULL || !mail_answer_is_name(name) || !is_value(line)) {
            return AUTH_BAD;
        }
        mail_answer_take_field(name, str_trim(line), out);
    }
}
