/* ngx_http_image_filter_module: tests, measures, resizes, crops and rotates images. */
#include "http/modules/filters/image_filter/transform.h"

#include "base/buf.h"
#include "base/parse.h"
#include "http/files/file.h"
#include "http/request/offload.h"
#include "http/request/body_filter.h"
#include "http/routing/hooks.h"
#include "server/generation.h"
#include "server/module.h"

static struct offload_shares image_shares;
static const struct offload_pool image_pool = {.name = STR_INIT("image_filter"),
                                               .waiting = "images wait to be made",
                                               .threads = 2,
                                               .queue = 64,
                                               .shares = &image_shares};

struct image_settings {
    unsigned way;                  /* an enum image_way */
    struct template *width;        /* of RESIZE and CROP */
    struct template *height;       /* of RESIZE and CROP */
    struct template *angle;        /* of ROTATE, and of RESIZE and CROP; NULL = no rotation */
    uint64_t buffer;               /* most bytes of an original image */
    int64_t max_pixels;            /* most pixels of an image */
    struct template *jpeg_quality; /* 1 to 100 */
    struct template *webp_quality; /* 1 to 100 */
    struct template *sharpen;      /* percent; 0 = off */
    struct template *offset_x;     /* of CROP */
    struct template *offset_y;     /* of CROP */
    bool keeps_transparency;       /* of images with a palette */
    bool is_interlaced;            /* of the result */
};

static struct settings_key image_key;

TYPED_SETTINGS(image_filter_settings_at, struct image_settings, image_key, struct http_location)

/* ---- values ---- */

#define SIDE_MAX 1000000
/* Passes of a progressive JPEG. Encoders make ten, and every ten bytes may be one more pass over
 * all pixels. */
#define SCANS_MAX 100

/* Parses a number from 1 on. "-" gives IMAGE_UNBOUNDED where that is allowed. 0: invalid. */
static uint32_t image_filter_read_number(struct str text, uint32_t most, bool may_be_open)
{
    uint64_t number;

    if (may_be_open && str_is(text, "-")) {
        return IMAGE_UNBOUNDED;
    }
    return parse_uint(text, &number) && number <= most ? (uint32_t) number : 0;
}

static bool read_angle(struct str text, unsigned *angle)
{
    *angle = image_filter_read_number(text, 270, false);
    return *angle == 90 || *angle == 180 || *angle == 270;
}

static bool read_offset(struct str text, int *offset)
{
    uint64_t number;

    if (str_is(text, "center")) {
        *offset = OFFSET_CENTER;
    } else if (str_is(text, "left") || str_is(text, "top")) {
        *offset = OFFSET_BEGIN;
    } else if (str_is(text, "right") || str_is(text, "bottom")) {
        *offset = OFFSET_END;
    } else if (parse_uint(text, &number) && number <= SIDE_MAX) {
        *offset = (int) number;
    } else {
        return false;
    }
    return true;
}

/* Parses 1 to 100; a larger number counts as 100, as in libgd. 0: not a number. */
static unsigned read_quality(struct str text)
{
    uint32_t number = image_filter_read_number(text, INT32_MAX, false);

    return number < 100 ? number : 100;
}

/* Evaluates the options of this request. An invalid sharpening, or angle of a resize or crop, is
 * ignored, as in nginx. False: another variable is invalid. */
static bool read_arguments(struct request *request, const struct image_settings *settings,
                           struct image_options *options)
{
    struct variable_env *env = &request->env;
    *options = (struct image_options){
        .way = settings->way,
        .width = IMAGE_UNBOUNDED,
        .height = IMAGE_UNBOUNDED,
        .jpeg_quality = read_quality(template_text(settings->jpeg_quality, env)),
        .webp_quality = read_quality(template_text(settings->webp_quality, env)),
        .is_interlaced = settings->is_interlaced,
        .keeps_transparency = settings->keeps_transparency,
    };
    bool is_good = read_offset(template_text(settings->offset_x, env), &options->offset_x) &&
                   read_offset(template_text(settings->offset_y, env), &options->offset_y);
    options->sharpen =
        image_filter_read_number(template_text(settings->sharpen, env), INT16_MAX, false);
    if (way_has_sides(settings->way)) {
        options->width =
            image_filter_read_number(template_text(settings->width, env), SIDE_MAX, true);
        options->height =
            image_filter_read_number(template_text(settings->height, env), SIDE_MAX, true);
    }
    if (settings->angle != NULL &&
        !read_angle(template_text(settings->angle, env), &options->angle)) {
        options->angle = 0;
        is_good = is_good && settings->way != WAY_ROTATE;
    }
    return is_good && options->width != 0 && options->height != 0;
}

/* ---- a response ---- */

/* Per response, in the request's arena. */
struct image_filter {
    struct body_filter filter;
    const struct image_settings *settings;
    struct buf bytes; /* the original image so far */
    bool is_passing;  /* the header was sent; further pieces are passed on */
    struct image_options options;
    struct image_head head;
    struct image_result result;
};

static void drop_image(void *arg)
{
    struct image_filter *image = arg;

    buf_free(&image->bytes);
    if (image->result.data != NULL) {
        image_free(image->result.data);
    }
}

static bool image_filter_refuse(struct request *request)
{
    return response_withdraw(request, 415, STR_NONE);
}

static bool refuse_size(struct request *request, const char *what, uint64_t size)
{
    counters_mine->limited++;
    log_error(&request->log, 0, "image filter: too big %s: %llu", what, (unsigned long long) size);
    return image_filter_refuse(request);
}

/* Sends the header and these bytes. MAY WAIT. False: stop. */
static bool image_filter_give(struct image_filter *image, struct request *request, struct str bytes,
                              bool is_last)
{
    const struct body_piece piece = {.bytes = bytes, .fd = -1};

    image->is_passing = true;
    switch (response_resume(request)) {
    case HANDLER_NEXT:
        return body_filter_next(&image->filter, request, &piece, is_last);
    case HANDLER_DONE:
        return true;
    default:
        return false;
    }
}

/* ---- the transformation ---- */

static bool give_size(struct image_filter *image, struct request *request)
{
    struct response *response = &request->response;
    struct str name = image_kind_name(image->head.kind);
    struct str text = STR("{}\r\n");

    if (image_head_parse(buf_str(&image->bytes), &image->head)) {
        name = image_kind_name(image->head.kind);
        text =
            arena_printf(&request->arena,
                         "{ \"img\" : { \"width\": %u, \"height\": %u, \"type\": \"%.*s\" } }\r\n",
                         image->head.width, image->head.height, STR_ARG(name));
    }
    response_change_body(request, false);
    response->status = 200;
    response->content_type = STR("application/json");
    response->charset = STR_NONE;
    response->content_length = (int64_t) text.len;
    return image_filter_give(image, request, text, true);
}

static void transform_on_thread(void *arg)
{
    struct image_filter *image = arg;

    image->result = image_transform(&image->options, &image->head, buf_str(&image->bytes));
}

/* MAY WAIT. False: it failed; a status is set unless the client is gone. */
static bool transform_offloaded(struct image_filter *image, struct request *request)
{
    switch (offload_run(&image_pool, request, transform_on_thread, image)) {
    case THREAD_CALL_DONE:
        if (image->result.data == NULL) {
            log_error(&request->log, 0, "%s() failed", image->result.failed);
            return image_filter_refuse(request);
        }
        return true;
    case THREAD_CALL_CANCELLED:
        return false;
    default:
        return response_withdraw(request, 503, STR_NONE);
    }
}

static bool give_image(struct image_filter *image, struct request *request)
{
    struct response *response = &request->response;
    struct str bytes = buf_str(&image->bytes);

    if (!image_head_parse(bytes, &image->head)) {
        return image_filter_refuse(request);
    }
    if (!read_arguments(request, image->settings, &image->options)) {
        log_error(&request->log, 0, "image filter: a variable has no valid value");
        return image_filter_refuse(request);
    }
    bool changes = image_changes(&image->options, &image->head);
    if (changes) {
        unsigned quality = image->head.kind == IMAGE_JPEG   ? image->options.jpeg_quality
                           : image->head.kind == IMAGE_WEBP ? image->options.webp_quality
                                                            : 1;
        uint64_t pixels = (uint64_t) image->head.width * image->head.height;
        if (pixels > (uint64_t) image->settings->max_pixels) {
            return refuse_size(request, "image of pixels", pixels);
        }
        unsigned scans = image_scans(image->head.kind, bytes);
        if (scans > SCANS_MAX) {
            return refuse_size(request, "image of scans", scans);
        }
        if (quality == 0) {
            return image_filter_refuse(request);
        }
        if (!transform_offloaded(image, request)) {
            return false;
        }
        bytes = (struct str){image->result.data, image->result.size};
        response_change_body(request, true);
    }
    response->content_type = image_media_type(image->head.kind);
    response->content_length = (int64_t) bytes.len;
    return image_filter_give(image, request, bytes, true);
}

/* ---- the body ---- */

/* `test`: the first bytes decide, the remainder is passed on. */
static bool test_beginning(struct image_filter *image, struct request *request, bool is_last)
{
    enum image_kind kind = image_kind_of(buf_str(&image->bytes));

    if (kind == IMAGE_NONE || image->bytes.len < IMAGE_KIND_BYTES) {
        return image_filter_refuse(request);
    }
    request->response.content_type = image_media_type(kind);
    return image_filter_give(image, request, buf_str(&image->bytes), is_last);
}

static bool image_send(struct body_filter *filter, struct request *request,
                       const struct body_piece *piece, bool is_last)
{
    struct image_filter *image = container_of(filter, struct image_filter, filter);

    if (image->is_passing) {
        return body_filter_next(filter, request, piece, is_last);
    }
    if (piece != NULL) {
        size_t size = piece->bytes.data == NULL ? 0 : piece->bytes.len;
        bool is_too_big = size > image->settings->buffer - image->bytes.len;
        if (!is_too_big || image->settings->way == WAY_TEST) {
            buf_append(&image->bytes, piece->bytes);
        }
        if (piece->release != NULL) {
            piece->release(piece->release_arg);
        }
        if (is_too_big && image->settings->way != WAY_TEST) {
            return refuse_size(request, "response", image->bytes.len + size);
        }
    }
    if (image->settings->way == WAY_TEST) {
        return is_last || image->bytes.len >= IMAGE_KIND_BYTES
                   ? test_beginning(image, request, is_last)
                   : true;
    }
    if (!is_last) {
        return true;
    }
    return image->settings->way == WAY_SIZE ? give_size(image, request)
                                            : give_image(image, request);
}

/* Error pages are not images, and are not treated as such. */
static bool image_filter_is_wanted(const struct request *request)
{
    const struct response *response = &request->response;

    return request == request->main && !response->is_built_in && !response->is_error_page &&
           response->framing != FRAMING_TUNNEL && response->status != 204 &&
           (response->status < 300 || response->status >= 400);
}

static void image_header(struct request *request)
{
    const struct image_settings *settings = image_filter_settings_at(request->location);
    struct response *response = &request->response;

    if (!image_filter_is_wanted(request)) {
        return;
    }
    if (response->content_length > 0 && (uint64_t) response->content_length > settings->buffer) {
        refuse_size(request, "response", (uint64_t) response->content_length);
        response->hold.refusal = 0;
        response->status = 415;
        return;
    }
    struct image_filter *image = arena_new(&request->arena, struct image_filter);
    image->filter.send = image_send;
    image->settings = settings;
    arena_on_free(&request->arena, drop_image, image);
    response->range.is_allowed = false;
    fields_set(&response->fields, &request->arena, FIELD_ACCEPT_RANGES, STR_NONE);
    response_needs_memory(request);
    response_append_filter(request, &image->filter);
    response_hold(request);
}

/* ---- directives ---- */

static bool image_filter_invalid(struct conf_scope *scope, const struct conf_node *node,
                                 unsigned arg)
{
    return conf_error(scope->conf, node, "invalid parameter \"%.*s\"", STR_ARG(node->args[arg]));
}

/* A width or height of RESIZE and CROP. */
static bool read_side(struct conf_scope *scope, struct conf_node *node, unsigned arg,
                      struct template **out)
{
    *out = template_compile(scope->conf, node, node->args[arg]);
    if (*out == NULL) {
        return false;
    }
    return !(*out)->is_constant ||
           image_filter_read_number((*out)->constant, SIDE_MAX, true) != 0 ||
           image_filter_invalid(scope, node, arg);
}

static bool read_rotate(struct conf_scope *scope, struct conf_node *node,
                        struct image_settings *own)
{
    bool is_beside = conf_is_set(scope, &image_key, "image_filter");
    unsigned angle;

    own->angle = template_compile(scope->conf, node, node->args[2]);
    if (own->angle == NULL) {
        return false;
    }
    if (own->angle->is_constant && !read_angle(own->angle->constant, &angle)) {
        return image_filter_invalid(scope, node, 2);
    }
    if (!is_beside || !way_has_sides(own->way)) {
        own->way = WAY_ROTATE;
    }
    return true;
}

static bool filter_apply(struct conf_scope *scope, const struct directive *row,
                         struct conf_node *node, void *settings)
{
    /* clang-format off */
    static const struct directive_word words[] = {
        {"off", WAY_OFF},
        {"test", WAY_TEST},
        {"size", WAY_SIZE},
        {"resize", WAY_RESIZE},
        {"crop", WAY_CROP},
        {"crop_keepx", WAY_CROP_KEEP_X},
        {"crop_keepy", WAY_CROP_KEEP_Y},
        {"rotate", WAY_ROTATE},
        {NULL, 0},
    };
    /* clang-format on */
    struct image_settings *own = settings;
    const struct directive_word *word = words;

    while (word->word != NULL && !str_is(node->args[1], word->word)) {
        word++;
    }
    unsigned count = way_has_sides(word->value) ? 4 : word->value == WAY_ROTATE ? 3 : 2;
    if (word->word == NULL || node->count != count) {
        return image_filter_invalid(scope, node, 1);
    }
    if (word->value == WAY_ROTATE) {
        return read_rotate(scope, node, own);
    }
    if (!conf_is_set(scope, &image_key, row->name)) {
        own->angle = NULL; /* that of an outer block */
    }
    own->way = word->value;
    if (!way_has_sides(word->value)) {
        own->angle = NULL;
        return true;
    }
    return read_side(scope, node, 2, &own->width) && read_side(scope, node, 3, &own->height);
}

/* A template; a constant one must be a number from `min` to `max` of the row. */
static bool check_number(struct conf_scope *scope, const struct directive *row,
                         struct conf_node *node, void *settings)
{
    const struct template *text;
    uint64_t number;

    memcpy(&text, (const char *) settings + row->offset, sizeof(text));
    if (text->is_constant && (!parse_uint(text->constant, &number) ||
                              number < (uint64_t) row->min || number > (uint64_t) row->max)) {
        return conf_error(scope->conf, node, "invalid value \"%.*s\"", STR_ARG(node->args[1]));
    }
    return true;
}

static bool offset_apply(struct conf_scope *scope, const struct directive *row,
                         struct conf_node *node, void *settings)
{
    struct image_settings *own = settings;
    struct template *texts[2];
    int offset;

    for (unsigned i = 0; i < 2; i++) {
        texts[i] = template_compile(scope->conf, node, node->args[i + 1]);
        if (texts[i] == NULL) {
            return false;
        }
        if (texts[i]->is_constant && !read_offset(texts[i]->constant, &offset)) {
            return image_filter_invalid(scope, node, i + 1);
        }
    }
    own->offset_x = texts[0];
    own->offset_y = texts[1];
    return true;
}

#define S struct image_settings
static const struct directive image_rows[] = {
    {"image_filter", IN_LOCATION, CUSTOM_FIELD(S, way, filter_apply), ARGS(1, 3),
     .repeat = REPEAT_CUSTOM, .initial = "off",
     .syntax =
         "off | test | size | rotate 90|180|270 | resize width height | crop width height | crop_keepx width "
         "height | crop_keepy width height",
     .doc = "Transformation of images (JPEG, GIF, PNG and WebP): `test` accepts only "
            "images, `size` returns width, height and type as JSON, `resize` reduces an "
            "image until it fits into the size, `crop` reduces it until it covers the size "
            "and cuts off the rest, `crop_keepx` reduces it to the width (`crop_keepy`: to "
            "the height) and cuts off the other dimension, `rotate` rotates it "
            "counter-clockwise, alone or after resizing or cropping. One dimension may be "
            "`-`. Responses that are not images are replaced with 415. Images are "
            "processed on threads: `thread_pool image_filter` sets the number of threads "
            "(2 by default) and of waiting requests (64)."},
    {"image_filter_buffer", IN_HTTP_ALL, SIZE(S, buffer), .initial = "1M",
     .doc = "Maximum size of the original image; larger ones are refused with 415."},
    {"image_filter_max_pixels", IN_HTTP_ALL, NUMBER(S, max_pixels), .initial = "50000000",
     .doc = "Maximum number of pixels of an image that is changed. The number in its "
            "header is checked before decoding; larger images are refused with 415. Each "
            "pixel takes four bytes of memory. Progressive JPEG images of more than 100 "
            "scans are refused, too. nginx does not have this directive."},
    {"image_filter_jpeg_quality", IN_HTTP_ALL, TEMPLATE(S, jpeg_quality), .initial = "75", .min = 1,
     .max = INT32_MAX, .apply = check_number,
     .doc = "Quality of JPEG output, from 1 to 100; higher values have the effect of 100."},
    {"image_filter_webp_quality", IN_HTTP_ALL, TEMPLATE(S, webp_quality), .initial = "80", .min = 1,
     .max = INT32_MAX, .apply = check_number,
     .doc = "Quality of WebP output, from 1 to 100; higher values have the effect of 100."},
    {"image_filter_sharpen", IN_HTTP_ALL, TEMPLATE(S, sharpen), .initial = "0", .min = 0,
     .max = INT16_MAX, .apply = check_number, .doc = "Sharpens output images by this percentage."},
    {"image_filter_transparency", IN_HTTP_ALL, FLAG(S, keeps_transparency), .initial = "on",
     .doc = "Whether transparency is preserved in images with a palette. In other PNG "
            "images it is always preserved."},
    {"image_filter_interlace", IN_HTTP_ALL, FLAG(S, is_interlaced), .initial = "off",
     .doc = "Whether output images are interlaced; JPEG images are then progressive."},
    {"image_filter_crop_offset", IN_HTTP_ALL, CUSTOM_FIELD(S, offset_x, offset_apply), ARGS(2, 2),
     .initial = "center center", .syntax = "x y",
     .doc = "Position of the part that `crop` keeps: `left`, `center` or `right` and "
            "`top`, `center` or `bottom`, or the number of pixels that are cut off at the "
            "left and at the top. From Tengine."},
    {0},
};
#undef S

static const struct filter_hook image_filters[] = {
    {.name = "image_filter",
     .run = image_header,
     .when = SETTING(image_key, struct image_settings, way)},
    {.run = NULL},
};
static const struct http_module image_hooks = {.filters = image_filters};

static bool image_filter_worker_start(struct generation *generation)
{
    image_quiet();
    return true;
}

const struct module ngx_http_image_filter_module = {
    .magic = MODULE_MAGIC,
    .name = "ngx_http_image_filter_module",
    .kind = MODULE_HTTP,
    .table = {.key = &image_key,
              .rows = image_rows,
              .contexts = IN_HTTP_LOCATION_SETTINGS,
              .size = sizeof(struct image_settings)},
    .hooks = &image_hooks,
    .worker_start = image_filter_worker_start,
};
