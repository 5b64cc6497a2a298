/* Requests to backends whose fields are coded one by one. */
#include "http/exchange/heads/coded_request.h"

bool client_takes_trailers(const struct request *request)
{
    fields_each(field, &request->headers) {
        struct str rest = field->value;
        while (field->id == FIELD_TE && rest.data != NULL) {
            if (str_equal_nocase(str_trim(str_cut(&rest, ',')), STR("trailers"))) {
                return true;
            }
        }
    }
    return false;
}

size_t coded_request_begin(struct exchange *x, const struct coded_request *coded,
                           struct head_draft *draft, struct coded_request_fields *fields,
                           size_t *count)
{
    struct request *request = x->request;
    char *text = arena_text(&request->arena, head_draft_room(x, draft));
    struct str lines = str_from(text, head_draft_put(text, x, draft));

    *fields = (struct coded_request_fields){
        .rest = lines,
        .has_own_host = draft->has_own_host,
        .adds_te = coded->accepts_trailers && (draft->plan->own & FIELD_BIT(FIELD_TE)) == 0 &&
                   client_takes_trailers(request),
    };
    *count = 1; /* te */
    for (size_t i = 0; i < lines.len; i++) {
        *count += lines.data[i] == '\n';
    }
    return lines.len;
}

/* Fields of a connection have no place here. */
static bool is_sent(const struct coded_request_fields *fields, enum field_id id, struct str name,
                    struct str value)
{
    switch (id) {
    case FIELD_HOST:
        return fields->has_own_host;
    case FIELD_CONNECTION:
    case FIELD_KEEP_ALIVE:
    case FIELD_TRANSFER_ENCODING:
    case FIELD_UPGRADE:
        return false;
    case FIELD_TE:
        return str_equal_nocase(value, STR("trailers"));
    case FIELD_OTHER:
        return !str_equal_nocase(name, STR("Proxy-Connection"));
    default:
        return true;
    }
}

bool coded_request_next(struct coded_request_fields *fields, enum field_id *id, struct str *name,
                        struct str *value)
{
    if (fields->adds_te) {
        fields->adds_te = false;
        *id = FIELD_TE;
        *name = STR("te");
        *value = STR("trailers");
        return true;
    }
    while (fields->rest.len != 0) {
        struct str line = str_cut(&fields->rest, '\n');
        struct str rest = str_head(line, line.len - 1); /* without CR */

        *name = str_cut(&rest, ':');
        if (rest.data == NULL || name->len == 0) {
            continue;
        }
        *value = str_trim(rest);
        *id = field_identify(*name);
        if (is_sent(fields, *id, *name, *value)) {
            return true;
        }
    }
    return false;
}
