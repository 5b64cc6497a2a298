/* What a failure leads to: the location's error_page, else the built-in page. */
#include <string.h>

#include "base/clock.h"
#include "base/text.h"
#include "http/message/agent.h"
#include "http/request/request.h"
#include "http/message/status.h"
#include "http/request/wire.h"
#include "http/routing/response_settings.h"

#define CRLF "\r\n"

static const struct str padding =
    STR_INIT("<!-- a padding to disable MSIE and Chrome friendly error page -->" CRLF
             "<!-- a padding to disable MSIE and Chrome friendly error page -->" CRLF
             "<!-- a padding to disable MSIE and Chrome friendly error page -->" CRLF
             "<!-- a padding to disable MSIE and Chrome friendly error page -->" CRLF
             "<!-- a padding to disable MSIE and Chrome friendly error page -->" CRLF
             "<!-- a padding to disable MSIE and Chrome friendly error page -->" CRLF);

/* After these the next request on the connection could not be distinguished from the rest of this
 * one, or nobody should wait for it. */
static bool ends_connection(unsigned status)
{
    switch (status) {
    case 400:
    case 413:
    case 414:
    case 495:
    case 496:
    case 497:
    case 500:
    case 501:
        return true;
    default:
        return false;
    }
}

/* Nothing of a response that a handler had begun to describe belongs to the answer for its failure.
 */
static void forget_description(struct request *request, unsigned status)
{
    struct response *response = &request->response;

    response->content_length = -1;
    response->is_length_set = false;
    response->whole = STR_NONE;
    response->content_type = STR_NONE;
    response->charset = STR_NONE;
    response->wanted_charset = STR_NONE;
    response->etag = STR_NONE;
    response->last_modified = -1;
    response->last_modified_text = STR_NONE;
    response->order.is_modified_late = false;
    response->order.is_location_late = false;
    response->range.is_allowed = false;
    response->order.left_out = 0;
    response->is_built_in = false;
    response->filters = NULL;
    response->hold.is_held = false;
    response->coding = NULL;
    response->is_coding_chosen = false;
    response->keeps_coding = false;
    response->reason = STR_NONE;
    fields_set(&response->fields, &request->arena, FIELD_CONTENT_ENCODING, STR_NONE);
    fields_set(&response->fields, &request->arena, FIELD_ACCEPT_RANGES, STR_NONE);
    if (status != 416) { /* then it tells the size */
        fields_set(&response->fields, &request->arena, FIELD_CONTENT_RANGE, STR_NONE);
    }
}

static const struct error_page *find_page(const struct request *request, unsigned status)
{
    const struct vec *pages = &request->location->responses->error_pages;

    if (request->response.is_error_page || request->uri_changes == 0) {
        return NULL;
    }
    vec_each(const struct error_page, page, pages) {
        if (page->status == status) {
            return page;
        }
    }
    return NULL;
}

bool response_has_page(const struct request *request, unsigned status)
{
    return find_page(request, status) != NULL;
}

/* An internal redirect, a named location, or a redirect of the client. */
static enum handler_result send_to_page(struct request *request, const struct error_page *page,
                                        unsigned status)
{
    struct response *response = &request->response;
    struct str target = template_text(page->target, &request->env);
    struct str uri;
    struct str args;

    response->is_error_page = !request->location->responses->recursive_error_pages;
    response->error_status =
        page->overwrite < 0 ? (status == 494 || (status >= 495 && status <= 497) ? 400 : status)
                            : (unsigned) page->overwrite;
    response->status = 0;
    request->is_error_redirect = true;
    if (target.len != 0 && target.data[0] == '/') {
        if (!request_split_uri(request, target, &uri, &args)) {
            return request_fail(request, 500);
        }
        if (request->method != METHOD_HEAD) {
            request_become_get(request);
        }
        return request_redirect(request, uri, args);
    }
    if (target.len != 0 && target.data[0] == '@') {
        return request_redirect_named(request, target);
    }
    bool is_redirect = page->overwrite == 301 || page->overwrite == 302 || page->overwrite == 303 ||
                       page->overwrite == 307 || page->overwrite == 308;
    response->error_status = 0;
    response->location = target;
    response->status = is_redirect ? (unsigned) page->overwrite : 302;
    return HANDLER_FAIL;
}

/* Browsers that show their own page instead of a short one. */
static bool wants_padding(const struct request *request, unsigned status)
{
    const struct field *agent = fields_get(&request->headers, FIELD_USER_AGENT);

    return status >= 400 && request->location->responses->msie_padding &&
           request->head.version >= HTTP_1_0 && agent != NULL &&
           (agent_is_msie(agent->value) || str_find(agent->value, STR("Chrome/")) != NULL);
}

static bool is_msie(const struct request *request)
{
    const struct field *agent = fields_get(&request->headers, FIELD_USER_AGENT);

    return agent != NULL && agent_is_msie(agent->value);
}

/* A URL inside of a quoted attribute of a page. Its escapes are kept, as nginx does. */
static struct str refresh_url(struct arena *arena, struct str url)
{
    static const char digits[] = "0123456789ABCDEF";
    char *text = arena_text(arena, url.len * 3);
    char *at = text;

    for (size_t i = 0; i < url.len; i++) {
        unsigned char c = (unsigned char) url.data[i];

        if (c > ' ' && c < '~' && memchr("\"'<>\\^`{|", c, 9) == NULL) {
            *at++ = (char) c;
            continue;
        }
        *at++ = '%';
        *at++ = digits[c >> 4];
        *at++ = digits[c & 15];
    }
    return str_from(text, at);
}

/* msie_refresh: a page that refreshes instead of a redirect. */
static struct str refresh_page(struct request *request)
{
    struct str location = request->response.location;
    struct arena *arena = &request->arena;

    const struct str parts[] = {
        STR("<html><head><meta http-equiv=\"Refresh\" content=\"0; URL="),
        refresh_url(arena, location),
        STR("\"></head><body></body></html>" CRLF),
    };
    request->response.location = STR_NONE;
    return arena_join(arena, parts, 3);
}

/* What the client asked for, as a user would type it. */
static struct str asked_url(const struct request *request, struct arena *arena)
{
    const struct str parts[] = {
        STR("http://"),     request->head.host,   request->head.port.len == 0 ? STR_NONE : STR(":"),
        request->head.port, request->head.target,
    };

    if (request->head.target.len == 0 || request->head.target.data[0] != '/') {
        return request->head.target; /* an absolute one, "*", or none at all */
    }
    return arena_join(arena, parts, sizeof(parts) / sizeof(parts[0]));
}

static struct str info_row(struct arena *arena, struct str name, struct str value)
{
    const struct str parts[] = {
        STR("<tr><td>"),        name, STR(":</td><td>"), escape_str(arena, value, ESCAPE_HTML),
        STR("</td></tr>" CRLF),
    };

    return value.len == 0 ? STR_NONE : arena_join(arena, parts, sizeof(parts) / sizeof(parts[0]));
}

/* server_info: what an administrator wants to know. Empty where it is off. */
static struct str server_info(struct request *request, unsigned status)
{
    const struct http_location *location = request->location;
    struct arena *arena = &request->arena;

    if (!location->responses->server_info || status < 400) {
        return STR_NONE;
    }
    const struct str parts[] = {
        STR("<center><table>" CRLF),
        info_row(arena, STR("URL"), asked_url(request, arena)),
        info_row(arena, STR("Server"), request->server->main->hostname),
        info_row(arena, STR("Date"), CLOCK_STR(error_local)),
        info_row(arena, STR("Admin"), location->responses->server_admin),
        STR("</table></center>" CRLF),
    };
    return arena_join(arena, parts, sizeof(parts) / sizeof(parts[0]));
}

static struct str page_body(struct request *request, unsigned status, struct str title)
{
    struct arena *arena = &request->arena;
    struct str signature = request->location->responses->server_text;
    struct str tag = request->location->responses->server_tag;
    bool is_extended = status >= 494 && status <= 497;
    struct str heading = is_extended ? STR("400 Bad Request") : title;

    const struct str parts[] = {
        STR("<html>" CRLF "<head><title>"),
        title,
        STR("</title></head>" CRLF "<body>" CRLF "<center><h1>"),
        heading,
        STR("</h1></center>" CRLF),
        is_extended ? STR("<center>") : STR_NONE,
        is_extended ? str_skip(title, 4) : STR_NONE,
        is_extended ? STR("</center>" CRLF) : STR_NONE,
        server_info(request, status),
        tag.len == 0 ? STR_NONE : STR("<hr/>Powered by "), /* Tengine's line, before nginx's own */
        tag,
        signature.len == 0 ? STR_NONE : STR("<hr><center>"),
        signature,
        signature.len == 0 ? STR_NONE : STR("</center>" CRLF),
        STR("</body>" CRLF "</html>" CRLF),
        wants_padding(request, status) ? padding : STR_NONE,
    };
    return arena_join(arena, parts, sizeof(parts) / sizeof(parts[0]));
}

/* The built-in page; codes that have none get an empty body. */
static enum handler_result built_in(struct request *request, unsigned status)
{
    struct response *response = &request->response;
    unsigned shown = response->error_status != 0 ? response->error_status : status;
    struct str title = status_title(status == 498 ? 404 : status);
    unsigned sent = shown >= 494 && shown <= 497 && request == request->main ? 400 : shown;

    response->error_status = 0;
    response->is_built_in = true;
    fields_set(&response->fields, &request->arena, FIELD_LAST_MODIFIED, STR_NONE);
    if (title.len == 0) {
        response->status = sent;
        response->content_length = 0;
        enum handler_result result = response_start(request);
        return result == HANDLER_NEXT
                   ? (response_send(request, NULL, true) ? HANDLER_DONE : HANDLER_CLOSED)
                   : result;
    }
    if (request->location->responses->msie_refresh && response->location.len != 0 &&
        (status == 301 || status == 302) && is_msie(request)) {
        return response_memory(request, 200, STR("text/html"), refresh_page(request));
    }
    return response_memory(request, sent, STR("text/html"), page_body(request, status, title));
}

#define REFUSAL_MAX 1024 /* bytes of a page that every wire sends with the head */

void response_refuse(struct request *request, unsigned status)
{
    struct response *response = &request->response;

    forget_description(request, status);
    request->keepalive = false;
    response->status = status;
    response->is_built_in = true;
    response->content_length = 0;
    struct str page = page_body(request, status, status_title(status));
    if (request->wire->sends_whole && page.len <= REFUSAL_MAX) {
        response->content_type = STR("text/html");
        response->whole = page;
        response->content_length = (int64_t) page.len;
    }
    request->wire->send_head(request);
    response->progress = RESPONSE_COMPLETE;
}

enum handler_result response_error(struct request *request)
{
    unsigned status = request->response.status;

    if (status == 444 || status == 499 || (status == 408 && !request->incoming.is_too_slow)) {
        request->keepalive = false;
        return HANDLER_CLOSED;
    }
    forget_description(request, status);
    request->response.error_status =
        0; /* a failure on the way to an error page speaks for itself */
    if (ends_connection(status)) {
        request->keepalive = false;
    }
    const struct error_page *page = find_page(request, status);
    if (page != NULL) {
        return send_to_page(request, page, status);
    }
    return built_in(request, status);
}
