/* ngx_http_empty_gif_module: one transparent pixel. */
#include "http/request/request.h"
#include "server/module.h"

/* GIF89a, 1 by 1, two colours, the second transparent. */
static const unsigned char pixel[] = {
    'G',  'I',  'F',  '8',  '9',  'a',        /* signature */
    1,    0,    1,    0,                      /* screen: width, height */
    0x80, 1,    0,                            /* palette of two colours, background 1, aspect */
    0,    0,    0,    0xff, 0xff, 0xff,       /* black, and white */
    0x21, 0xf9, 4,    1,    0,    0,    1, 0, /* graphic control: colour 1 is transparent */
    0x2c, 0,    0,    0,    0,    1,    0, 1, 0, 0, /* image: position and size */
    2,    2,    0x4c, 1,    0,                      /* data, LZW */
    0x3b,                                           /* trailer */
};
_Static_assert(sizeof(pixel) == 43, "the pixel has 43 bytes");

/* The date that nginx sends, so that a cached copy stays valid when one server replaces the
 * other. */
#define PIXEL_MODIFIED 23349600
#define PIXEL_MODIFIED_TEXT "Mon, 28 Sep 1970 06:00:00 GMT"

static enum handler_result empty_gif_answer(struct request *request)
{
    static const struct str body = {(const char *) pixel, sizeof(pixel)};

    if ((request->method & (METHOD_GET | METHOD_HEAD)) == 0) {
        return request_fail(request, 405);
    }
    request->response.last_modified = PIXEL_MODIFIED;
    request->response.last_modified_text = STR(PIXEL_MODIFIED_TEXT);
    return response_memory(request, 200, STR("image/gif"), body);
}

static bool empty_gif_apply(struct conf_scope *scope, const struct directive *row,
                            struct conf_node *node, void *settings)
{
    content_set(scope_location(scope), empty_gif_answer, NULL);
    return true;
}

static const struct directive empty_gif_rows[] = {
    {"empty_gif", IN_LOCATION, CUSTOM(empty_gif_apply), ARGS(0, 0), .repeat = REPEAT_CUSTOM,
     .doc = "Responds with a transparent GIF image of one pixel."},
    {0},
};

const struct module ngx_http_empty_gif_module = {
    .magic = MODULE_MAGIC,
    .name = "ngx_http_empty_gif_module",
    .kind = MODULE_HTTP,
    .table = {.rows = empty_gif_rows},
};
