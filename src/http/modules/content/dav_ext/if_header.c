/* The field If: lists of conditions about resources. */
#include "http/modules/content/dav_ext/if_header.h"

void if_begin(struct if_reader *reader, struct str value)
{
    *reader = (struct if_reader){.rest = value};
}

static void dav_ext_if_header_skip_blanks(struct if_reader *reader)
{
    while (reader->rest.len != 0 && (reader->rest.data[0] == ' ' || reader->rest.data[0] == '\t')) {
        reader->rest = str_skip(reader->rest, 1);
    }
}

/* The text from here up to `end`, which is consumed; the first byte is the opening character. */
static bool take_until(struct if_reader *reader, char end, struct str *inner)
{
    struct str rest = str_skip(reader->rest, 1);
    const char *at = str_find_char(rest, end);

    if (at == NULL) {
        return false;
    }
    *inner = str_from(rest.data, at);
    reader->rest = str_from(at + 1, rest.data + rest.len);
    return true;
}

static enum if_event read_condition(struct if_reader *reader)
{
    bool is_good;

    reader->is_not = reader->rest.len > 3 && str_starts_nocase(reader->rest, STR("Not"));
    if (reader->is_not) {
        reader->rest = str_skip(reader->rest, 3);
        dav_ext_if_header_skip_blanks(reader);
    }
    reader->is_etag = str_starts(reader->rest, STR("["));
    if (reader->is_etag) {
        is_good = take_until(reader, ']', &reader->value);
    } else {
        is_good = str_starts(reader->rest, STR("<")) && take_until(reader, '>', &reader->value);
    }
    reader->has_condition = true;
    return is_good && reader->value.len != 0 ? IF_CONDITION : IF_ERROR;
}

static enum if_event read_list(struct if_reader *reader)
{
    if (reader->rest.len == 0) {
        return reader->has_list ? IF_END : IF_ERROR;
    }
    if (reader->rest.data[0] == '<') {
        /* Either all lists have a tag or none has, and each tag has a list. */
        bool is_good = reader->is_tagged == reader->has_list;
        if (!is_good || !take_until(reader, '>', &reader->resource) || reader->resource.len == 0) {
            return IF_ERROR;
        }
        reader->is_tagged = true;
        reader->has_list = false;
        dav_ext_if_header_skip_blanks(reader);
    }
    if (!str_starts(reader->rest, STR("("))) {
        return IF_ERROR;
    }
    reader->rest = str_skip(reader->rest, 1);
    reader->is_in_list = true;
    reader->has_list = true;
    reader->has_condition = false;
    return IF_LIST;
}

enum if_event if_next(struct if_reader *reader)
{
    dav_ext_if_header_skip_blanks(reader);
    if (!reader->is_in_list) {
        return read_list(reader);
    }
    if (!str_starts(reader->rest, STR(")"))) {
        return read_condition(reader);
    }
    reader->rest = str_skip(reader->rest, 1);
    reader->is_in_list = false;
    return reader->has_condition ? IF_LIST_END : IF_ERROR;
}
