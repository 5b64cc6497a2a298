/* ngx_http_slice_module, Tengine's: a range of a file, given by two arguments. */
#include "base/parse.h"
#include "http/files/file.h"
#include "http/request/request.h"
#include "http/routing/hooks.h"
#include "http/variables/variables.h"
#include "server/module.h"

struct slice_settings {
    struct str begin, end;     /* names of the arguments */
    struct str header, footer; /* sent before and after a part */
    bool header_first;         /* send the header even before the first byte of the file */
    bool footer_last;          /* send the footer even after the last byte of the file */
};

static struct settings_key slice_key;

/* A part of a file, with its header and footer. */
struct slice {
    struct file *file;
    uint64_t begin, end;
    struct str header, footer;
};

/* The offset in an argument; `missing` if it is absent. */
static uint64_t slice_start_of(const struct request *request, struct str name, uint64_t size,
                               uint64_t missing)
{
    struct str text;
    uint64_t position;

    return request_argument(request, name, &text) && parse_uint(text, &position) && position <= size
               ? position
               : missing;
}

static void read_slice(const struct request *request, struct slice *slice)
{
    const struct slice_settings *settings = location_settings(request->location, &slice_key);
    uint64_t size = slice->file->size;

    slice->begin = slice_start_of(request, settings->begin, size, 0);
    slice->end = slice_start_of(request, settings->end, size, size);
    if (slice->end < slice->begin) {
        slice->end = size;
    }
    if (slice->begin == slice->end) {
        return;
    }
    if (slice->begin != 0 || settings->header_first) {
        slice->header = settings->header;
    }
    if (slice->end != size || settings->footer_last) {
        slice->footer = settings->footer;
    }
}

/* MAY WAIT. */
static bool send_text(struct request *request, struct str text, bool is_last)
{
    const struct body_piece piece = {.bytes = text.data == NULL ? STR("") : text, .fd = -1};

    return (text.len == 0 && !is_last) || response_send(request, &piece, is_last);
}

/* Takes over the file. MAY WAIT. */
static enum handler_result send_slice(struct request *request, const struct slice *slice)
{
    uint64_t size = slice->end - slice->begin;

    response_describe_file(request, slice->file, slice->header.len + size + slice->footer.len);
    request->response.range.is_single = true; /* the body has several pieces */
    enum handler_result result = response_start(request);
    if (result == HANDLER_NEXT && !send_text(request, slice->header, false)) {
        result = HANDLER_CLOSED;
    }
    if (result != HANDLER_NEXT) {
        file_release(slice->file);
        return result;
    }
    if (size == 0) {
        file_release(slice->file);
    } else if (!response_send_part(request, slice->file, slice->begin, size, false)) {
        return HANDLER_CLOSED;
    }
    return send_text(request, slice->footer, true) ? HANDLER_DONE : HANDLER_CLOSED;
}

static enum handler_result slice_answer(struct request *request)
{
    enum handler_result result;
    struct slice slice = {.file = request_open_file(request, &result)};

    if (slice.file == NULL) {
        return result;
    }
    read_slice(request, &slice);
    return send_slice(request, &slice);
}

static bool slice_apply(struct conf_scope *scope, const struct directive *row,
                        struct conf_node *node, void *settings)
{
    content_set(scope_location(scope), slice_answer, NULL);
    return true;
}

#define S struct slice_settings
static const struct directive slice_rows[] = {
    {"slice", IN_LOCATION, CUSTOM(slice_apply), ARGS(0, 0), .repeat = REPEAT_CUSTOM,
     .doc = "Without a size, the directive of Tengine: serves the part of a file from the "
            "argument `begin` (inclusive) to the argument `end` (exclusive). With a size, "
            "it is the directive of ngx_http_slice_filter_module."},
    {"slice_arg_begin", IN_HTTP_ALL, STRING(S, begin), .initial = "begin",
     .doc = "Name of the argument with the first byte of the part."},
    {"slice_arg_end", IN_HTTP_ALL, STRING(S, end), .initial = "end",
     .doc = "Name of the argument with the end of the part; the byte at this offset is not "
            "included."},
    {"slice_header", IN_HTTP_ALL, STRING(S, header), .doc = "Text that is sent before each part."},
    {"slice_header_first", IN_HTTP_ALL, FLAG(S, header_first), .initial = "on",
     .doc = "Whether slice_header is also sent before the part that contains the first "
            "byte."},
    {"slice_footer", IN_HTTP_ALL, STRING(S, footer), .doc = "Text that is sent after each part."},
    {"slice_footer_last", IN_HTTP_ALL, FLAG(S, footer_last), .initial = "on",
     .doc = "Whether slice_footer is also sent after the part that contains the last byte."},
    {0},
};
#undef S

const struct module ngx_http_slice_module = {
    .magic = MODULE_MAGIC,
    .name = "ngx_http_slice_module",
    .kind = MODULE_HTTP,
    .table = {.key = &slice_key,
              .rows = slice_rows,
              .contexts = IN_HTTP_LOCATION_SETTINGS,
              .size = sizeof(struct slice_settings)},
};
