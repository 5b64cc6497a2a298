/* ngx_http_gunzip_filter_module: decompresses responses for clients that do not support gzip. */
#include "http/modules/filters/gunzip/gunzip.h"

#include "http/codings/choice.h"
#include "http/codings/coded_body.h"
#include "http/codings/rules.h"
#include "http/request/request.h"
#include "server/module.h"

/* Settings of a location. */
struct gunzip_settings {
    bool is_on;
    struct buffers
        buffers;       /* output buffers; their total size limits the pieces that are passed on */
    int64_t ratio_max; /* most bytes of output per byte of input; 0 = no limit */
};

static struct settings_key key;

#define S struct gunzip_settings
static const struct directive rows[] = {
    {"gunzip", IN_HTTP_ALL, FLAG(S, is_on), .initial = "off",
     .doc = "Enables decompression of responses with `Content-Encoding: gzip` for clients "
            "that do not accept gzip, and for subrequests."},
    {"gunzip_buffers", IN_HTTP_ALL, BUFFERS(S, buffers), .initial = "32 4k",
     .doc = "Number and size of output buffers. Their total, up to 32k, is the size of the "
            "pieces that are passed on."},
    {"gunzip_max_ratio", IN_HTTP_ALL, NUMBER(S, ratio_max), .initial = "250",
     .doc = "Maximum ratio of the decompressed to the compressed size of a response, which "
            "applies after the first megabyte; the response is aborted if it is exceeded. "
            "0 disables the limit."},
    {0},
};
#undef S

TYPED_SETTINGS(gunzip_settings_at, struct gunzip_settings, key, struct http_location)

/* The Content-Encoding field if gzip is the only coding of the body. Fields from add_header are
 * ignored. */
static struct field *find_gzip(struct request *request)
{
    struct field *found = NULL;

    fields_each(field, &request->response.fields) {
        if (field->id == FIELD_CONTENT_ENCODING && !field->is_removed && !field->is_added) {
            if (found != NULL || !str_equal_nocase(field->value, coding_gzip.token)) {
                return NULL;
            }
            found = field;
        }
    }
    return found;
}

static void gunzip_header(struct request *request)
{
    struct response *response = &request->response;
    const struct gunzip_settings *settings = gunzip_settings_at(request->location);
    struct field *encoding = find_gzip(request);

    if (encoding == NULL || response->status == 206 || response->status == 304 ||
        response->framing == FRAMING_TUNNEL || response->keeps_coding) {
        return;
    }
    response_varies_by_encoding(request);
    if (request_coding_weight(request, &coding_gzip) > 0) {
        return;
    }
    struct decoder decoder = {.encoding = encoding,
                              .shape = {.kind = &codec_inflate,
                                        .out_size = codec_out_size(&settings->buffers)},
                              .ratio_max = (uint64_t) settings->ratio_max};
    response_decode(request, &decoder);
}

static const struct filter_hook filters[] = {
    {.name = "gunzip", .run = gunzip_header, .when = SETTING(key, struct gunzip_settings, is_on)},
    {.run = NULL},
};
static const struct http_module hooks = {.filters = filters};

const struct module ngx_http_gunzip_filter_module = {
    .magic = MODULE_MAGIC,
    .name = "ngx_http_gunzip_filter_module",
    .kind = MODULE_HTTP,
    .table = {.key = &key,
              .rows = rows,
              .contexts = IN_HTTP_LOCATION_SETTINGS,
              .size = sizeof(struct gunzip_settings)},
    .hooks = &hooks,
    .worker_end = codecs_drop,
};
