/* The text format of a record of `config_history`. */
#include <string.h>

#include "base/checksum.h"
#include "base/parse.h"
#include "server/configuration/history.h"

enum {
    HASH_SIZE = 32,
    HASH_TEXT = 2 * HASH_SIZE,
};

#define HEAD "portunus configuration 1\n"

static void put_hash(struct buf *out, const unsigned char hash[HASH_SIZE])
{
    for (unsigned i = 0; i < HASH_SIZE; i++) {
        buf_printf(out, "%02x", hash[i]);
    }
}

static int digit_of(char c)
{
    return ascii_is_digit((unsigned char) c) ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

static bool take_hash(struct str text, unsigned char hash[HASH_SIZE])
{
    for (unsigned i = 0; text.len == HASH_TEXT && i < HASH_SIZE; i++) {
        int high = digit_of(text.data[2 * i]), low = digit_of(text.data[2 * i + 1]);

        if (high < 0 || low < 0) {
            return false;
        }
        hash[i] = (unsigned char) (high * 16 + low);
    }
    return text.len == HASH_TEXT;
}

void history_write(struct buf *out, const struct history_entry *entry)
{
    unsigned char hash[HASH_SIZE];

    buf_printf(out, HEAD "number %u\nbefore %u\ntime %llu\n", entry->number, entry->before,
               (unsigned long long) entry->time_s);
    for (const struct history_certificate *c = entry->certificates; c != NULL; c = c->next) {
        buf_append(out, STR("certificate "));
        put_hash(out, c->hash);
        buf_printf(out, " %zu\n", c->name.len);
        buf_append(out, c->name);
        buf_append_char(out, '\n');
    }
    for (const struct conf_file *file = entry->files; file != NULL; file = file->next) {
        if (file->name.len != 0) {
            buf_printf(out, "file %zu %zu\n", file->text.len, file->name.len);
            buf_append(out, file->name);
            buf_append_char(out, '\n');
            buf_append(out, file->text);
            buf_append_char(out, '\n');
        }
    }
    sha256_of(buf_str(out), hash);
    buf_append(out, STR("end "));
    put_hash(out, hash);
    buf_append_char(out, '\n');
}

/* Takes the next line, without its newline; false when there is no complete line. */
static bool take_line(struct str *rest, struct str *line)
{
    if (str_find_char(*rest, '\n') == NULL) {
        return false;
    }
    *line = str_cut(rest, '\n');
    return true;
}

/* Takes `count` bytes and a newline. */
static bool take_bytes(struct str *rest, struct str count, struct str *out)
{
    uint64_t len;

    if (!parse_uint(count, &len) || len >= rest->len || rest->data[len] != '\n') {
        return false;
    }
    *out = str_head(*rest, len);
    *rest = str_skip(*rest, len + 1);
    return true;
}

/* The same for a name, which is copied with a NUL at its end. */
static bool take_name(struct arena *arena, struct str *rest, struct str count, struct str *out)
{
    struct str name;

    if (!take_bytes(rest, count, &name) || name.len == 0 ||
        memchr(name.data, '\0', name.len) != NULL) {
        return false;
    }
    *out = (struct str){arena_cstr(arena, name), name.len};
    return true;
}

bool history_take_number(struct str *rest, const char *name, uint64_t most, uint64_t *out)
{
    struct str line;

    if (!take_line(rest, &line)) {
        return false;
    }
    return str_equal(str_cut(&line, ' '), str_of(name)) && parse_uint(line, out) && *out <= most;
}

static bool take_certificate(struct arena *arena, struct str *rest, struct str line,
                             struct history_certificate ***last)
{
    struct history_certificate *certificate = arena_new(arena, struct history_certificate);
    struct str hash = str_cut(&line, ' ');

    **last = certificate;
    *last = &certificate->next;
    return take_hash(hash, certificate->hash) && take_name(arena, rest, line, &certificate->name);
}

static bool take_file(struct arena *arena, struct str *rest, struct str line,
                      struct conf_file ***last)
{
    struct conf_file *file = arena_new(arena, struct conf_file);
    struct str size = str_cut(&line, ' ');

    **last = file;
    *last = &file->next;
    return take_name(arena, rest, line, &file->name) && take_bytes(rest, size, &file->text);
}

bool history_parse(struct arena *arena, struct str text, struct history_entry *out)
{
    struct conf_file **last_file = &out->files;
    struct history_certificate **last_certificate = &out->certificates;
    uint64_t number, before;

    *out = (struct history_entry){0};
    if (!str_starts(text, STR(HEAD))) {
        return false;
    }
    text = str_skip(text, sizeof(HEAD) - 1);
    if (!history_take_number(&text, "number", HISTORY_NUMBER_MOST, &number) ||
        !history_take_number(&text, "before", HISTORY_NUMBER_MOST, &before) ||
        !history_take_number(&text, "time", INT64_MAX, &out->time_s)) {
        return false;
    }
    out->number = (unsigned) number;
    out->before = (unsigned) before;
    while (text.len != 0) {
        struct str line;

        if (!take_line(&text, &line)) {
            return false;
        }
        struct str kind = str_cut(&line, ' ');
        bool is_good = str_is(kind, "file") ? take_file(arena, &text, line, &last_file)
                       : str_is(kind, "certificate")
                           ? take_certificate(arena, &text, line, &last_certificate)
                           : false;
        if (!is_good) {
            return false;
        }
    }
    return out->files != NULL && number != 0;
}

bool history_strip_checksum(struct str *text)
{
    static const size_t len = sizeof("end ") - 1 + HASH_TEXT + 1;
    unsigned char written[HASH_SIZE], hash[HASH_SIZE];

    if (text->len < len) {
        return false;
    }
    struct str line = str_skip(*text, text->len - len);

    *text = str_head(*text, text->len - len);
    if (!str_starts(line, STR("end ")) || line.data[len - 1] != '\n' ||
        !take_hash(str_head(str_skip(line, 4), HASH_TEXT), written)) {
        return false;
    }
    sha256_of(*text, hash);
    return memcmp(hash, written, sizeof(hash)) == 0;
}
