/* From the head of a client's request to the request: the rules that hold for every version. What
 * is wrong is logged by the wire format. */
#ifndef HTTP_REQUEST_FROM_HEAD_H
#define HTTP_REQUEST_FROM_HEAD_H

#include "http/message/parser.h"
#include "http/message/uri.h"
#include "http/request/known_host.h"
#include "http/request/request.h"

/* Splits "host[:port]", of a Host field or its like. False: it is not valid. */
bool host_split(struct known_host *known, struct arena *arena, struct str value, struct str *host,
                struct str *port);

/* The server, by request->head.host where that was valid: the default one of the address otherwise,
 * and where there is only one. Sets the location. */
void request_choose_server(struct request *request, bool is_host_valid);

/* Where headers.has_repeats: the first field that may be there once only, and is there again;
 * *former is the one before it. NULL: there is none. */
const struct field *request_repeated_field(const struct request *request,
                                           const struct field **former);

/* Content-Length, to content_length and sent_length; -1 = none. False: it is not valid. */
static inline bool request_set_length(struct request *request)
{
    const struct field *length = fields_get(&request->headers, FIELD_CONTENT_LENGTH);

    request->incoming.length = -1;
    bool is_valid =
        length == NULL || content_length_parse(length->value, &request->incoming.length);
    if (!is_valid) {
        request->incoming.length = -1;
    }
    request->incoming.sent_length = request->incoming.length;
    return is_valid;
}

/* Does the client ask for 100 (Continue)? Any other expectation is overlooked, as nginx does (RFC
 * 9110, 10.1.1). */
static inline bool request_wants_continue(const struct request *request)
{
    const struct field *expect = fields_get(&request->headers, FIELD_EXPECT);

    return expect != NULL && str_equal_nocase(expect->value, STR("100-continue"));
}

/* The target names no path, or none that is valid: the URI is empty. */
static inline void request_set_no_path(struct request *request)
{
    request_set_uri_of_target(request, STR(""), STR_NONE, false);
}

/* The path of the target and what follows '?' in it, to uri and args. False: it is not valid, and
 * uri is empty. */
static inline bool request_set_path(struct request *request, struct str path)
{
    struct uri uri;

    if (!uri_normalise(&request->arena, path, request->server->merge_slashes, &uri)) {
        request_set_no_path(request);
        return false;
    }
    request_set_uri_of_target(request, uri.path, uri.args.len != 0 ? uri.args : STR_NONE,
                              uri.was_quoted);
    return true;
}

/* Why a head is refused; status 0: it is not. */
struct head_refusal {
    unsigned status;
    const char *reason; /* for the log; NULL: the path is not valid, which each version says in its
                           own form */
};

/*
 * The target, but for that of CONNECT: path is its path and what follows '?'. Empty: the target
 * names the whole server, as "*" does. "?…" is what follows an authority without a path.
 */
static inline struct head_refusal request_set_target(struct request *request, struct str path)
{
    if (path.len == 0) {
        request_set_uri_of_target(request, STR("/"), STR_NONE, false);
    } else if (path.data[0] == '?' && str_find_char(path, '#') == NULL) {
        request_set_uri_of_target(request, STR("/"), path.len > 1 ? str_skip(path, 1) : STR_NONE,
                                  false);
    } else if (!request_set_path(request, path)) {
        return (struct head_refusal){.status = 400};
    }
    return request->method == METHOD_TRACE ? (struct head_refusal){405, "client sent TRACE method"}
                                           : (struct head_refusal){0, NULL};
}

/* Does its server make tunnels for clients of its version? */
static inline bool request_accepts_connect(const struct request *request)
{
    return request->server->accepts_connect &&
           request->head.version >= (request->server->accepts_connect_1_0 ? HTTP_1_0 : HTTP_1_1);
}

/*
 * CONNECT (RFC 9110, 9.3.6): the target is host and port, the URI is that of the whole server. What
 * follows the head is not for us to read as a request, whatever becomes of this one.
 */
void request_set_tunnel(struct request *request);
/* Its host and port are there. */
bool request_names_tunnel_end(const struct request *request);

#endif
