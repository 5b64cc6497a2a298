/* ngx_http_flv_module: Flash video from a given byte offset. */
#include "base/parse.h"
#include "http/files/file.h"
#include "http/request/request.h"
#include "http/routing/hooks.h"
#include "http/variables/variables.h"
#include "server/module.h"

/* The FLV header: version 1, audio and video, nine bytes long, no previous tag. */
#define FLV_HEADER STR("FLV\1\5\0\0\0\11\0\0\0\0")

/* The argument start= if it is an offset within the file; else 0. */
static uint64_t start_of(const struct request *request, uint64_t size)
{
    struct str text;
    uint64_t start;

    return request_argument(request, STR("start"), &text) && parse_uint(text, &start) &&
                   start < size
               ? start
               : 0;
}

static enum handler_result send_from(struct request *request, struct file *file, uint64_t start)
{
    const struct body_piece header = {.bytes = FLV_HEADER, .fd = -1};

    response_describe_file(request, file, FLV_HEADER.len + file->size - start);
    request->response.range.is_single = true; /* the body has two pieces */
    enum handler_result result = response_start(request);
    if (result == HANDLER_NEXT && !response_send(request, &header, false)) {
        result = HANDLER_CLOSED;
    }
    if (result != HANDLER_NEXT) {
        file_release(file);
        return result;
    }
    return response_send_part(request, file, start, file->size - start, true) ? HANDLER_DONE
                                                                              : HANDLER_CLOSED;
}

static enum handler_result flv_answer(struct request *request)
{
    enum handler_result result;
    struct file *file = request_open_file(request, &result);

    if (file == NULL) {
        return result;
    }
    uint64_t start = start_of(request, file->size);
    return start == 0 ? response_file(request, file) : send_from(request, file, start);
}

static bool flv_apply(struct conf_scope *scope, const struct directive *row, struct conf_node *node,
                      void *settings)
{
    content_set(scope_location(scope), flv_answer, NULL);
    return true;
}

static const struct directive flv_rows[] = {
    {"flv", IN_LOCATION, CUSTOM(flv_apply), ARGS(0, 0), .repeat = REPEAT_CUSTOM,
     .doc = "Serves Flash video files. With the argument start=N, the response is a header "
            "followed by the file from byte N."},
    {0},
};

const struct module ngx_http_flv_module = {
    .magic = MODULE_MAGIC,
    .name = "ngx_http_flv_module",
    .kind = MODULE_HTTP,
    .table = {.rows = flv_rows},
};
