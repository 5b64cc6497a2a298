/* Reading the answer to a health check's probe: status line, fields, a bounded part of the body. */
#include "base/parse.h"
#include "http/exchange/probe/probe.h"
#include "http/message/parser.h"

enum { INTERIMS_MAX = 16 }; /* responses of 1xx before the one that counts */
enum state { AT_HEAD, AT_LENGTH, AT_CHUNKS, AT_TRAILERS, AT_END_OF_INPUT };

static const struct head_limits limits = {
    .line_max = PROBE_HEAD_MAX,
    .head_max = PROBE_HEAD_MAX,
    .headers_max = 1000,
    .underscores = true,
};

static enum probe_step bad_answer(struct probe_parser *parser, const char *reason)
{
    parser->reason = reason;
    return PROBE_BAD;
}

/* ---- the head ---- */

/* Bytes of a head with its empty line; 0 = it is not whole. A lone CR is none: fields_parse sees
 * it. */
static size_t head_length(struct probe_parser *parser, struct str input)
{
    struct str rest = str_skip(input, parser->looked);
    const char *newline;

    while ((newline = str_find_char(rest, '\n')) != NULL) {
        rest = str_from(newline + 1, input.data + input.len);
        if (str_starts(rest, STR("\n")) || str_starts(rest, STR("\r\n"))) {
            parser->looked = 0;
            return (size_t) (rest.data - input.data) + (rest.data[0] == '\n' ? 1 : 2);
        }
        parser->looked = (size_t) (newline - input.data);
    }
    return 0;
}

/* "HTTP/1.1 200 OK" (RFC 9112, 4): takes the line off *head. */
static bool parse_status_line(struct probe_parser *parser, struct str *head)
{
    struct str line = str_cut(head, '\n');
    uint64_t status;

    if (str_ends(line, STR("\r"))) {
        line.len--;
    }
    if (!str_starts(line, STR("HTTP/")) || line.len < sizeof("HTTP/1.1 200") - 1 ||
        !ascii_is_digit((unsigned char) line.data[5]) || line.data[6] != '.' ||
        !ascii_is_digit((unsigned char) line.data[7]) || line.data[8] != ' ' ||
        (line.len > 12 && line.data[12] != ' ') ||
        !parse_uint((struct str){line.data + 9, 3}, &status) || status < 100) {
        return false;
    }
    parser->response.version =
        (unsigned) (line.data[5] - '0') * 10 + (unsigned) (line.data[7] - '0');
    parser->response.status = (unsigned) status;
    return true;
}

/* The fields `Status` and `Location` of CGI say what a status line would. */
static bool find_cgi_status(struct probe_parser *parser)
{
    struct probe_response *response = &parser->response;
    const struct field *status = fields_find(&response->fields, STR("Status"));
    uint64_t number = 200;

    if (status != NULL) {
        if (status->value.len < 3 || (status->value.len > 3 && status->value.data[3] != ' ') ||
            !parse_uint(str_head(status->value, 3), &number) || number < 100) {
            return false;
        }
    } else if (!parser->is_200_unless_set &&
               fields_get(&response->fields, FIELD_LOCATION) != NULL) {
        number = 302;
    }
    response->status = (unsigned) number;
    response->is_assumed = status == NULL && parser->is_200_unless_set;
    return true;
}

/* Does a field of tokens hold this one? */
static bool has_token(struct probe_parser *parser, enum field_id id, struct str token)
{
    struct str values;

    if (!fields_joined(&parser->response.fields, parser->arena, id, &values)) {
        return false;
    }
    while (values.data != NULL) {
        if (str_equal_nocase(str_trim(str_cut(&values, ',')), token)) {
            return true;
        }
    }
    return false;
}

/* How the body ends (RFC 9112, 6.3). */
static enum probe_step find_framing(struct probe_parser *parser)
{
    const struct probe_response *response = &parser->response;
    const struct fields *fields = &response->fields;
    const struct field *length = fields_get(fields, FIELD_CONTENT_LENGTH);
    int64_t bytes = 0;

    parser->may_keep = response->version >= 11
                           ? !has_token(parser, FIELD_CONNECTION, STR("close"))
                           : has_token(parser, FIELD_CONNECTION, STR("keep-alive"));
    if (parser->is_cgi) {
        parser->state = AT_END_OF_INPUT;
    } else if (response->status == 204 || response->status == 304) {
        parser->state = AT_LENGTH;
    } else if (fields_get(fields, FIELD_TRANSFER_ENCODING) != NULL) {
        if (length != NULL || !has_token(parser, FIELD_TRANSFER_ENCODING, STR("chunked"))) {
            return bad_answer(parser, "header \"Transfer-Encoding\"");
        }
        parser->state = AT_CHUNKS;
    } else if (length != NULL) {
        if (!content_length_parse(length->value, &bytes)) {
            return bad_answer(parser, "header \"Content-Length\"");
        }
        parser->state = AT_LENGTH;
        parser->left = (uint64_t) bytes;
    } else {
        parser->state = AT_END_OF_INPUT;
        parser->may_keep = false;
    }
    return PROBE_MORE;
}

/* A whole head. Interim ones are passed over. */
static enum probe_step parse_head(struct probe_parser *parser, struct str head)
{
    struct probe_response *response = &parser->response;
    const struct field_reading reading = {&limits, parser->arena, &response->fields, NULL, 0};
    struct head unused = {0};
    uint32_t used;

    head = arena_dup(parser->arena, head);
    response->fields = (struct fields){0};
    if (!parser->is_cgi && !parse_status_line(parser, &head)) {
        return bad_answer(parser, "status line");
    }
    if (fields_parse(head, &reading, &unused, &used) != PARSE_DONE) {
        return bad_answer(parser, "header");
    }
    if (parser->is_cgi && !find_cgi_status(parser)) {
        return bad_answer(parser, "header \"Status\"");
    }
    if (response->status < 200 && response->status != 101 && !parser->is_cgi) {
        return ++parser->interims <= INTERIMS_MAX
                   ? PROBE_MORE
                   : bad_answer(parser, "header, after too many of 1xx");
    }
    parser->has_head = true;
    if (response->status == 101) {
        parser->may_keep = false;
        return PROBE_DONE;
    }
    if (find_framing(parser) == PROBE_BAD) {
        return PROBE_BAD;
    }
    if (!parser->wants_body && !parser->wants_end) {
        parser->may_keep = false;
        return PROBE_DONE;
    }
    return PROBE_MORE;
}

static enum probe_step take_head(struct probe_parser *parser, struct str *input, bool is_end)
{
    struct str start = str_head(*input, sizeof("HTTP/") - 1);
    size_t length = head_length(parser, str_head(*input, PROBE_HEAD_MAX));

    if (!parser->is_cgi && !str_equal(start, str_head(STR("HTTP/"), start.len))) {
        return bad_answer(parser, "status line"); /* need not wait for its end */
    }
    if (length == 0) {
        if (input->len >= PROBE_HEAD_MAX) {
            return bad_answer(parser, "header, which is too large");
        }
        return is_end ? bad_answer(parser, "answer, which was cut short") : PROBE_MORE;
    }
    enum probe_step step = parse_head(parser, str_head(*input, length));
    *input = str_skip(*input, length);
    return step;
}

/* ---- the body ---- */

/* False: enough was seen. */
static bool keep_body(struct probe_parser *parser, struct str data)
{
    struct str *body = &parser->response.body;

    parser->received += data.len;
    if (parser->wants_body) {
        data = str_head(data, PROBE_BODY_MAX - body->len);
        if (body->len + data.len > parser->body_room) {
            size_t room = parser->body_room == 0 ? 4096 : parser->body_room * 2;
            while (room < body->len + data.len) {
                room *= 2;
            }
            char *bigger = arena_alloc(parser->arena, room);
            if (body->len != 0) {
                memcpy(bigger, body->data, body->len);
            }
            body->data = bigger;
            parser->body_room = room;
        }
        if (data.len != 0) {
            memcpy((char *) body->data + body->len, data.data, data.len);
            body->len += data.len;
        }
    }
    return parser->received < PROBE_BODY_MAX;
}

/* The rest is too long to be waited for. */
static enum probe_step done_early(struct probe_parser *parser)
{
    parser->may_keep = false;
    return PROBE_DONE;
}

static enum probe_step take_length(struct probe_parser *parser, struct str *input)
{
    struct str data =
        str_head(*input, parser->left < input->len ? (size_t) parser->left : input->len);

    *input = str_skip(*input, data.len);
    parser->left -= data.len;
    if (!keep_body(parser, data) && parser->left != 0) {
        return done_early(parser);
    }
    return parser->left == 0 ? PROBE_DONE : PROBE_MORE;
}

static enum probe_step take_chunks(struct probe_parser *parser, struct str *input)
{
    struct str data;

    for (;;) {
        switch (chunked_decode(&parser->chunked, input, &data)) {
        case CHUNKED_MORE:
            return PROBE_MORE;
        case CHUNKED_DATA:
            if (!keep_body(parser, data)) {
                return done_early(parser);
            }
            break;
        case CHUNKED_LAST:
            parser->state = AT_TRAILERS;
            return PROBE_MORE;
        case CHUNKED_BAD:
            return bad_answer(parser, "body, which is not chunked as announced");
        }
    }
}

/* Trailers mean nothing to a check; they are passed over. */
static enum probe_step take_trailers(struct probe_parser *parser, struct str *input)
{
    size_t length;

    if (str_starts(*input, STR("\r\n"))) {
        *input = str_skip(*input, 2);
        return PROBE_DONE;
    }
    length = head_length(parser, str_head(*input, PROBE_HEAD_MAX));
    if (length == 0) {
        return input->len >= PROBE_HEAD_MAX ? bad_answer(parser, "trailers, which are too large")
                                            : PROBE_MORE;
    }
    *input = str_skip(*input, length);
    return PROBE_DONE;
}

static enum probe_step take_rest(struct probe_parser *parser, struct str *input, bool is_end)
{
    struct str data = *input;

    *input = str_skip(*input, input->len);
    if (!keep_body(parser, data)) {
        return done_early(parser);
    }
    return is_end ? PROBE_DONE : PROBE_MORE;
}

static enum probe_step answer_take(struct probe_parser *parser, struct str *input, bool is_end)
{
    switch ((enum state) parser->state) {
    case AT_HEAD:
        return take_head(parser, input, is_end);
    case AT_LENGTH:
        return take_length(parser, input);
    case AT_CHUNKS:
        return take_chunks(parser, input);
    case AT_TRAILERS:
        return take_trailers(parser, input);
    case AT_END_OF_INPUT:
        return take_rest(parser, input, is_end);
    }
    return PROBE_BAD;
}

enum probe_step probe_parse(struct probe_parser *parser, struct str *input, bool is_end)
{
    enum probe_step step;
    size_t before;
    uint8_t state;

    do { /* until a part needs more than there is */
        before = input->len;
        state = parser->state;
        step = answer_take(parser, input, is_end);
    } while (step == PROBE_MORE && (input->len != before || parser->state != state));
    if (step == PROBE_MORE && is_end) {
        return bad_answer(parser, "answer, which was cut short");
    }
    return step;
}
