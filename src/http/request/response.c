/* Responses: heads through the header filters, bodies through the body filters, the usual short
 * ways. */
#include "base/buf.h"
#include "base/clock.h"
#include "base/fatal.h"
#include "base/parse.h"
#include "base/text.h"
#include "http/client/connection.h"
#include "http/request/body.h"
#include "http/request/body_filter.h"
#include "http/request/request.h"
#include "http/request/wire.h"
#include "http/routing/connection_settings.h"
#include "http/routing/file_settings.h"
#include "http/routing/response_settings.h"

/* Is this one of the codes with which a Location is sent to the client? */
static bool is_redirect(unsigned status)
{
    return status == 201 || (status >= 301 && status <= 303) || status == 307 || status == 308;
}

/* Port of our side as the client sees it, when it has to be shown: ":8080", else empty. */
static struct str visible_port(struct request *request)
{
    if (!request->location->responses->port_in_redirect) {
        return STR_NONE;
    }
    uint16_t port = addr_port(connection_local(request->connection));
    if (port == 0 || port == (request_is_encrypted(request) ? 443 : 80)) {
        return STR_NONE;
    }
    return arena_printf(&request->arena, ":%u", port);
}

/* Only the client's own redirects, and only "/path". */
static bool is_made_absolute(const struct request *request)
{
    struct str location = request->response.location;

    return location.len != 0 && location.data[0] == '/' &&
           request->location->responses->absolute_redirect && request == request->main;
}

struct str response_sent_location(struct request *request)
{
    struct str location = request->response.location;

    if (!is_made_absolute(request)) {
        return location;
    }
    struct str host = request->head.host;
    if (request->location->responses->server_name_in_redirect || host.len == 0) {
        host = request->location->responses->server_name_in_redirect ? request->server->name
                                                                     : STR_NONE;
        if (host.len == 0) {
            char *text = arena_text(&request->arena, ADDR_TEXT_MAX);
            host =
                (struct str){text, addr_format(connection_local(request->connection), false, text)};
        }
    }
    struct str scheme = request_is_encrypted(request) ? STR("https://") : STR("http://");
    const struct str parts[] = {scheme, host, visible_port(request), location};
    return arena_join(&request->arena, parts, 4);
}

void response_set_location(struct request *request, struct str location)
{
    struct response *response = &request->response;

    response->order.is_location_late = false;
    /* A decoded line end out of $uri or a capture must not become one of the head. */
    response->location = escape_str(&request->arena, location, ESCAPE_CONTROLS);
}

/* limit_rate and limit_rate_after at this location, unless a variable was assigned before. */
static void compute_limits(struct request *request)
{
    const struct http_location *location = request->location;
    uint64_t number;

    if (!request->delivery.is_limit_set && location->connections->limit_rate != NULL &&
        parse_size(template_text(location->connections->limit_rate, &request->env), &number)) {
        request->delivery.limit_rate = number;
    }
    if (!request->delivery.is_after_set && location->connections->limit_rate_after != NULL &&
        parse_size(template_text(location->connections->limit_rate_after, &request->env),
                   &number)) {
        request->delivery.limit_rate_after = number;
    }
}

/* Codes whose body is the file that was asked for; an error page's own age means nothing to the
 * client. What a backend says of its own answer stays. */
static bool tells_modification(unsigned status)
{
    return status == 200 || status == 206 || status == 304;
}

/* The header filters from here on, and the head, unless one of them holds it back. */
static enum handler_result finish_head(struct request *request, header_filter *filter)
{
    struct response *response = &request->response;
    unsigned given = response->status;

    for (; *filter != NULL; filter++) {
        (*filter)(request);
        if (response->is_dropped) {
            request->keepalive = false;
            return HANDLER_CLOSED;
        }
        if ((response->status >= 400 && given < 400 && !response->keeps_head) ||
            response->hold.refusal != 0) {
            return HANDLER_FAIL; /* a condition or a range cannot be met, or somebody withdraws it
                                  */
        }
        if (response->hold.is_held) {
            response->hold.filters_left = filter + 1;
            return HANDLER_NEXT;
        }
    }
    if (response->status != given && !tells_modification(response->status) &&
        !response->order.is_modified_late) {
        response->last_modified = -1; /* a filter has made it an answer of another kind */
    }
    if (request->location->connections->limits_rate || request->delivery.is_limit_set) {
        compute_limits(request);
    }
    if (request->incoming.expects_continue && !request->incoming.is_read) {
        request->incoming.expects_continue = false;
        if (response->status < 300) {
            request->wire->send_interim(request, 100, NULL); /* the body is dropped after this */
        } else {
            request->keepalive = false; /* the client may or may not send the body now */
        }
    }
    request->responded_ms = clock_now.now_ms;
    if (response->location.len != 0) { /* the filters have seen it as it was given, as in nginx */
        response->order.is_location_late = !is_made_absolute(request);
        response->location = response_sent_location(request);
    }
    request->wire->send_head(request);
    if (response->is_header_only) {
        response->progress = RESPONSE_COMPLETE;
        return HANDLER_DONE;
    }
    return HANDLER_NEXT;
}

void response_hold(struct request *request)
{
    struct response *response = &request->response;

    response->hold.is_held = true;
    response->hold.is_header_only = response->is_header_only;
    response->is_header_only = false;
    response->whole = STR_NONE;
}

enum handler_result response_resume(struct request *request)
{
    struct response *response = &request->response;

    response->hold.is_held = false;
    response->is_header_only = response->hold.is_header_only;
    enum handler_result result = finish_head(request, response->hold.filters_left);
    if (result == HANDLER_FAIL) {
        response->hold.refusal = response->status;
    }
    return result;
}

bool response_withdraw(struct request *request, unsigned status, struct str location)
{
    struct response *response = &request->response;

    response->hold.is_held = false;
    response->hold.refusal = status;
    response->fields = (struct fields){0};
    response->trailers = NULL;
    response->raw_head = STR_NONE;
    response->location = location;
    return false;
}

enum handler_result response_start(struct request *request)
{
    struct response *response = &request->response;

    CHECK_MAGIC(request, REQUEST_MAGIC);
    if (request->is_post_action) {
        return HANDLER_DONE;
    }
    if (request->main->is_over_memory) {
        return request_fail(request, 500);
    }
    if (response->is_broken) {
        return HANDLER_CLOSED; /* a subrequest's body filter has failed */
    }
    if (!request->incoming.is_read && !request->incoming.is_streamed && response->status < 400 &&
        request->incoming.refusal == 0 && !request_drop_arrived_body(request)) {
        return HANDLER_FAIL;
    }
    if (response->error_status != 0) {
        response->status = response->error_status;
        if (!tells_modification(response->status)) {
            response->last_modified = -1;
        }
    }
    if (response->location.len != 0) {
        response_set_location(request, response->location);
    }
    if (request->method == METHOD_HEAD) {
        response->is_header_only = true;
    }
    return finish_head(request, request->location->header_filters);
}

bool response_drop(const struct body_piece *piece)
{
    if (piece != NULL && piece->release != NULL) {
        piece->release(piece->release_arg);
    }
    return false;
}

bool response_send(struct request *request, const struct body_piece *piece, bool is_last)
{
    struct body_filter *filter = request->response.filters;

    if (request->main->is_over_memory || request->response.is_broken) {
        return response_drop(piece);
    }
    bool is_sound = filter != NULL ? filter->send(filter, request, piece, is_last)
                                   : response_to_wire(request, piece, is_last);
    if (!is_sound) {
        return response_break(request);
    }
    return is_last || response_goes_on(request);
}

bool response_break(struct request *request)
{
    request->response.is_broken |= request->response.hold.refusal == 0;
    return false;
}

/* A handler or a filter has lost count. Gives false, as to one whose client is gone. */
static bool break_off(struct request *request, const struct body_piece *piece, const char *what)
{
    struct response *response = &request->response;

    log_error(&request->log, 0, "the body has %s than the %lld bytes that were announced", what,
              (long long) response->content_length);
    request->keepalive = false;
    return response_drop(piece);
}

/* As much of the body as was said of it (is_length_set). One that ends before that ends the
 * connection. MAY WAIT. */
static bool send_within_length(struct request *request, const struct body_piece *piece,
                               bool is_last)
{
    struct response *response = &request->response;
    uint64_t left = (uint64_t) response->content_length - response->body_given;
    /* cppcheck-suppress internalAstError ; it cannot read this C */
    struct body_piece part = piece == NULL ? (struct body_piece){.fd = -1} : *piece;
    uint64_t size = part.bytes.data != NULL ? part.bytes.len : part.size;

    if (size > left) {
        size = left;
        part.bytes.len = part.bytes.data != NULL ? (size_t) left : 0;
        part.size = left;
    }
    response->body_given += size;
    if (is_last && response->body_given < (uint64_t) response->content_length) {
        request->keepalive = false;
    }
    return request->wire->send_body(request, piece == NULL ? NULL : &part, is_last);
}

bool response_to_wire(struct request *request, const struct body_piece *piece, bool is_last)
{
    struct response *response = &request->response;

    if (response->content_length >= 0 && !response->is_header_only &&
        response->progress != RESPONSE_NOT_SENT && response->framing != FRAMING_TUNNEL &&
        response->raw_head.len == 0) {
        uint64_t announced = (uint64_t) response->content_length;

        if (response->is_length_set && request != request->main) {
            return request->wire->send_body(request, piece, is_last); /* its head goes nowhere */
        }
        if (response->is_length_set) {
            return send_within_length(request, piece, is_last);
        }
        if (piece != NULL) {
            response->body_given += piece->bytes.data != NULL ? piece->bytes.len : piece->size;
        }
        if (response->body_given > announced) {
            return break_off(request, piece, "more");
        }
        if (is_last && response->body_given < announced && !response->lacks_body) {
            return break_off(request, piece, "less");
        }
    }
    return request->wire->send_body(request, piece, is_last);
}

void response_change_body(struct request *request, bool keeps_validators)
{
    struct response *response = &request->response;

    response->content_length = -1;
    response->range.is_allowed = false;
    fields_set(&response->fields, &request->arena, FIELD_ACCEPT_RANGES, STR_NONE);
    if (!keeps_validators) {
        response->last_modified = -1;
        response->last_modified_text = STR_NONE;
        response->etag = STR_NONE;
        fields_set(&response->fields, &request->arena, FIELD_LAST_MODIFIED, STR_NONE);
    } else if (str_starts(response->etag, STR("\""))) {
        response->etag = arena_concat(&request->arena, STR("W/"), response->etag);
    } else if (!str_starts(response->etag, STR("W/\""))) {
        response->etag = STR_NONE; /* a backend's that is none */
    }
}

enum handler_result response_memory(struct request *request, unsigned status,
                                    struct str content_type, struct str body)
{
    struct response *response = &request->response;

    response->status = status;
    response->content_type = content_type;
    response->content_length = (int64_t) body.len;
    response->whole = body;
    enum handler_result result = response_start(request);
    if (result != HANDLER_NEXT) {
        return result;
    }
    if (response->progress == RESPONSE_COMPLETE) {
        return HANDLER_DONE; /* it left with the head */
    }
    struct body_piece piece = {.bytes = body, .fd = -1};
    return response_send(request, &piece, true) ? HANDLER_DONE : HANDLER_CLOSED;
}

enum handler_result response_gathered(struct request *request, unsigned status,
                                      struct str content_type, struct buf *text)
{
    struct str body = arena_dup(&request->arena, buf_str(text));

    buf_free(text);
    return response_memory(request, status, content_type, body);
}

enum handler_result response_redirect(struct request *request, unsigned status, struct str location)
{
    request->response.location = location;
    return request_fail(request, is_redirect(status) ? status : 302);
}

struct str response_type_of(const struct request *request, struct str extension)
{
    const struct http_location *location = request->location;
    const struct str *type = NULL;

    if (extension.len != 0 && location->files->types != NULL) {
        type = map_get_nocase(&location->files->types->by_extension, extension);
    }
    return type != NULL ? *type : location->files->default_type;
}

void response_set_type(struct request *request)
{
    if (request->response.content_type.len ==
        0) { /* else a backend named it with X-Accel-Redirect */
        request->response.content_type = response_type_of(request, request_extension(request));
    }
}
