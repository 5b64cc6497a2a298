/* From a parsed head to a request: version, method, host, framing of the body, whether the
 * connection is kept. */
#include "base/clock.h"
#include "base/parse.h"
#include "http/request/from_head.h"
#include "http/v1/v1.h"
#include "server/generation.h"

/*
 * The steps below give 0, or the status with which the request is refused: `return REFUSE(request,
 * 400, FORMAT, …)` logs why and gives the status.
 */
#define REFUSE(request, status, ...)                                                               \
    ({                                                                                             \
        log_info(&(request)->log, 0, __VA_ARGS__);                                                 \
        (unsigned) (status);                                                                       \
    })

/* The request is refused for this field: what follows it does not count in $request_length. */
static void end_at(struct request *request, const struct field *field)
{
    request->head_size =
        (uint64_t) (field->value.data + field->value.len + 2 - request->head.line.data);
}

/* Fields that may come once only; a second is logged with both values. */
static unsigned check_repeats(struct request *request)
{
    const struct field *former;
    const struct field *field = request_repeated_field(request, &former);

    if (field == NULL) {
        return 0;
    }
    end_at(request, field);
    return REFUSE(request, 400,
                  "client sent duplicate %s: \"%.*s: %.*s\", previous value: \"%.*s: %.*s\"",
                  field->id == FIELD_HOST ? "host header" : "header line", STR_ARG(field->name),
                  STR_ARG(field->value), STR_ARG(former->name), STR_ARG(former->value));
}

/* The last value of Host that was split, of all connections: the next request has, as a rule, the
 * same. */
static struct known_host last_host;

/* Host (RFC 9112, 3.2): the target's authority wins over the field, which must be there in 1.1. */
static unsigned set_host(struct request *request, const struct head *head)
{
    const struct field *field = fields_get(&request->headers, FIELD_HOST);
    struct str host = STR_NONE;
    struct str port = STR_NONE;

    if (head->authority.len != 0) {
        if (!authority_parse(&request->arena, head->authority, &request->head.host,
                             &request->head.port)) {
            return REFUSE(request, 400, "client sent invalid host in request line");
        }
    }
    if (field == NULL) {
        if (request->head.version >= HTTP_1_1) {
            return REFUSE(request, 400, "client sent HTTP/1.1 request without \"Host\" header");
        }
        return 0;
    }
    if (!host_split(&last_host, &request->arena, field->value, &host, &port)) {
        end_at(request, field);
        return REFUSE(request, 400, "client sent invalid host header");
    }
    if (head->authority.len == 0) {
        request->head.host = host;
        request->head.port = port;
    }
    return 0;
}

/* How long the body is (RFC 9112, 6.3). */
static unsigned set_framing(struct request *request)
{
    const struct field *coding = fields_get(&request->headers, FIELD_TRANSFER_ENCODING);

    if (!request_set_length(request)) {
        return REFUSE(request, 400, "client sent invalid \"Content-Length\" header");
    }
    if (coding == NULL) {
        request->incoming.is_read = request->incoming.length <= 0;
        return 0;
    }
    if (request->head.version < HTTP_1_1) {
        return REFUSE(request, 400,
                      "client sent HTTP/1.0 request with \"Transfer-Encoding\" header");
    }
    if (!str_equal_nocase(coding->value, STR("chunked"))) {
        return REFUSE(request, 501, "client sent unknown \"Transfer-Encoding\": \"%.*s\"",
                      STR_ARG(coding->value));
    }
    if (fields_get(&request->headers, FIELD_CONTENT_LENGTH) != NULL) {
        return REFUSE(request, 400,
                      "client sent \"Content-Length\" and \"Transfer-Encoding\" headers at the "
                      "same time");
    }
    request->incoming.is_chunked = true;
    request->incoming.is_read = false;
    return 0;
}

/* Connection: close and keep-alive (RFC 9112, 9.3). Whether it is really kept is seen when the
 * response begins. */
static void set_keepalive(struct request *request)
{
    fields_each(field, &request->headers) {
        struct str rest = field->value;
        if (field->id != FIELD_CONNECTION) {
            continue;
        }
        while (rest.data != NULL) {
            struct str option = str_trim(str_cut(&rest, ','));
            if (str_equal_nocase(option, STR("close"))) {
                request->keepalive = false;
                return;
            }
            if (str_equal_nocase(option, STR("keep-alive"))) {
                request->keepalive = true;
            }
        }
    }
}

static unsigned set_tunnel_target(struct request *request, const struct head *head)
{
    request->head.target = head->target;
    if (!request_names_tunnel_end(request)) {
        return REFUSE(request, 400, "client sent CONNECT without host and port");
    }
    if (!request_accepts_connect(request)) {
        return REFUSE(request, 405, "client sent CONNECT method");
    }
    if (request->incoming.length > 0 || request->incoming.is_chunked) {
        return REFUSE(request, 400, "client sent CONNECT with a body");
    }
    request_set_tunnel(request);
    request->keepalive = false;
    return 0;
}

static unsigned set_target(struct request *request, const struct head *head)
{
    if (request->method == METHOD_CONNECT) {
        return set_tunnel_target(request, head);
    }
    request->head.target = head->target;
    request->head.scheme = head->scheme;
    const struct head_refusal refusal = request_set_target(request, head->path);
    if (refusal.status == 0) {
        return 0;
    }
    if (refusal.reason == NULL) {
        request->head_size = head->line.len + 2;
    }
    return REFUSE(request, refusal.status, "%s",
                  refusal.reason == NULL ? "client sent invalid request" : refusal.reason);
}

/* What is known of a bad head: enough for its log line, and for the server whose error page it
 * gets. */
static void take_what_is_good(struct request *request, const struct head *head)
{
    const struct field *host = fields_get(&request->headers, FIELD_HOST);

    if (head->version == HTTP_0_9) {
        request->head.version = HTTP_0_9;
    }
    if (str_starts(head->line, STR("HEAD "))) {
        request->method = METHOD_HEAD; /* its answer has no body, whatever is wrong with it */
    }
    if (!head->is_line_done) {
        return;
    }
    bool is_valid = host != NULL && host_split(&last_host, &request->arena, host->value,
                                               &request->head.host, &request->head.port);
    request_choose_server(request, is_valid);
    set_target(request, head);
}

unsigned v1_request_setup(struct request *request, const struct head *head)
{
    /* Without any of these a request has no body, and its version says whether the connection is
     * kept. */
    const uint64_t message_fields = FIELD_BIT(FIELD_CONNECTION) | FIELD_BIT(FIELD_CONTENT_LENGTH) |
                                    FIELD_BIT(FIELD_TRANSFER_ENCODING) | FIELD_BIT(FIELD_EXPECT);
    unsigned status = 0;

    request->head.line = head->line;
    request->head_size = head->size;
    request->head.target = head->target;
    request->method_name = head->method;
    bool is_get = head->method.len == 3 && memcmp(head->method.data, "GET", 3) == 0;
    request->method = is_get ? METHOD_GET : method_named(head->method);
    if (head->status != 0) {
        take_what_is_good(request, head);
        return head->status;
    }
    request->head.version = (enum http_version) head->version;
    request->keepalive = request->head.version >= HTTP_1_1;
    request->incoming.length = -1;
    request->incoming.sent_length = -1;
    request->incoming.is_read = true;
    if (request->headers.has_repeats) {
        status = check_repeats(request);
    }
    unsigned host_status = set_host(request, head);
    request_choose_server(request,
                          host_status == 0 || fields_get(&request->headers, FIELD_HOST) == NULL);
    if (status == 0) {
        status = host_status;
    }
    if ((request->headers.seen & message_fields) != 0) {
        set_keepalive(request);
        request->incoming.expects_continue =
            request->head.version >= HTTP_1_1 && request_wants_continue(request);
        if (status == 0) {
            status = set_framing(request);
        }
    }
    unsigned target_status = set_target(request, head);
    return status != 0 ? status : target_status;
}
