/* HTTP/1.1 to an engine: one connection, one request after another, answers read whole or line by
 * line. */
#include <errno.h>
#include <netinet/tcp.h>
#include <string.h>

#include "base/clock.h"
#include "base/parse.h"
#include "upstream/connection.h"
#include "upstream/discovery/private.h"

enum {
    READ_FIRST = 16384,
    INTERIM_MAX = 16, /* responses of 1xx before the answer */
    /* A peer that disappears is detected within 25 s. */
    KEEPALIVE_IDLE_S = 10,
    KEEPALIVE_INTERVAL_S = 5,
    KEEPALIVE_PROBES = 3,
};

void discovery_close(struct discovery_link *link)
{
    if (link->conn != NULL) {
        conn_close(link->conn);
        link->conn = NULL;
    }
    link->body.len = 0;
    link->lines_end = link->line_start = 0;
}

struct str discovery_escape(struct arena *arena, struct str text)
{
    static const char digits[] = "0123456789ABCDEF";
    char *start = arena_text(arena, 3 * text.len), *at = start;

    for (size_t i = 0; i < text.len; i++) {
        unsigned char c = (unsigned char) text.data[i];

        if ((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
            c == '-' || c == '.' || c == '_' || c == '~') {
            *at++ = (char) c;
        } else {
            *at++ = '%';
            *at++ = digits[c >> 4];
            *at++ = digits[c & 15];
        }
    }
    return str_from(start, at);
}

/* ---- the connection ---- */

static const struct conn_owner link_owner = {.input = NULL};

static void keep_alive(const struct conn *conn)
{
    static const int values[][2] = {{TCP_KEEPIDLE, KEEPALIVE_IDLE_S},
                                    {TCP_KEEPINTVL, KEEPALIVE_INTERVAL_S},
                                    {TCP_KEEPCNT, KEEPALIVE_PROBES}};

    for (size_t i = 0; i < sizeof(values) / sizeof(*values); i++) {
        setsockopt(conn->source.fd, IPPROTO_TCP, values[i][0], &values[i][1], sizeof(int));
    }
}

/* Connects to an address. MAY WAIT. NULL: link->conn is connected; else the error. */
static const char *reach(struct discovery_link *link, const struct addr *addr)
{
    static const struct log silent = {.sinks = NULL};
    const struct discovery_settings *settings = link->discovery->settings;
    const struct discovery_server *server = link->server;
    struct upstream_connection_tls tls = {.context = settings->tls.context};
    struct upstream_connection_options options = {.keepalive = true, .tells_timeout = true};
    const struct upstream_target target = {.addr = *addr,
                                           .name = server->authority,
                                           .log = server->is_secure ? link->log : &silent};
    uint64_t deadline_ms = clock_now.now_ms + settings->connect_timeout_ms;
    int error = 0;

    if (server->is_secure) {
        tls.options.name = settings->tls.name.len == 0 ? server->host : settings->tls.name;
        tls.options.verifies = settings->tls.verifies;
        tls.options.sends_name = settings->tls.sends_name;
        tls.options.identity = tls_client_identity(settings->tls.context, &tls.options);
        options.tls = &tls;
    }
    switch (upstream_connection_reach(&target, &options, deadline_ms, &link->conn, &error)) {
    case UPSTREAM_CONNECT_OK:
        break;
    case UPSTREAM_CONNECT_TIMED_OUT:
        link->conn = NULL;
        return "could not be connected in time";
    case UPSTREAM_CONNECT_CANCELLED:
    case UPSTREAM_CONNECT_FAILED:
    case UPSTREAM_CONNECT_ERROR:
        link->conn = NULL;
        return error == 0
                   ? "could not be connected"
                   : arena_printf(link->arena, "could not be connected (%s)", strerror(error)).data;
    }
    link->conn->owner = &link_owner;
    link->conn->log = link->log;
    conn_set_nodelay(link->conn, true);
    conn_backend_is_busy(link->conn, false); /* it belongs to the worker, not to a request */
    keep_alive(link->conn);
    return NULL;
}

/* Finds the addresses of the server. MAY WAIT. NULL, or the error. */
static const char *find(struct discovery_link *link, struct vec *addrs)
{
    const struct discovery_settings *settings = link->discovery->settings;
    const struct discovery_server *server = link->server;
    const struct dns_lookup lookup = {.settings = settings->resolver,
                                      .name = server->host,
                                      .deadline_ms =
                                          clock_now.now_ms + settings->resolver_timeout_ms,
                                      .log = link->log,
                                      .arena = link->arena};
    struct resolved found;

    if (!server->is_resolved) {
        *addrs = server->addrs;
        return NULL;
    }
    enum resolve_result result = resolver_addresses(&lookup, &found);
    if (result != RESOLVE_OK) {
        return arena_printf(link->arena, "could not be resolved (%s)", resolve_result_text(result))
            .data;
    }
    for (unsigned i = 0; i < found.count; i++) {
        addr_set_port(&found.items[i].addr, server->port);
        *vec_add(addrs, link->arena, struct addr) = found.items[i].addr;
    }
    return NULL;
}

static const char *open_connection(struct discovery_link *link)
{
    const struct vec *servers = &link->discovery->settings->servers;
    struct vec addrs = {0};

    link->server = vec_at(servers, struct discovery_server, link->turn % servers->count);
    const char *wrong = find(link, &addrs);
    if (wrong != NULL) {
        return wrong;
    }
    vec_each(struct addr, addr, &addrs) {
        wrong = reach(link, addr);
        if (wrong == NULL || fiber_is_cancelled()) {
            break;
        }
    }
    return wrong;
}

/* ---- response headers ---- */

static bool take_field(struct discovery_link *link, struct str name, struct str value)
{
    if (str_equal_nocase(name, STR("Content-Length"))) {
        return parse_uint(value, &link->left) && (link->is_until_close = false, true);
    }
    if (str_equal_nocase(name, STR("Transfer-Encoding"))) {
        link->is_chunked = str_equal_nocase(value, STR("chunked"));
        link->is_until_close = false;
        return link->is_chunked;
    }
    if (str_equal_nocase(name, STR("Connection"))) {
        link->closes |= str_equal_nocase(value, STR("close"));
    } else if (str_equal_nocase(name, STR("X-Consul-Index")) && !parse_uint(value, &link->index)) {
        link->index = 0;
    }
    return true;
}

/* The next line, without line end and without spaces at both ends. */
static struct str next_line(struct str *rest)
{
    struct str line = str_cut(rest, '\n');

    if (str_ends(line, STR("\r"))) {
        line.len--;
    }
    return str_trim(line);
}

static bool take_status(struct discovery_link *link, struct str line)
{
    uint64_t status;

    if (!str_starts(line, STR("HTTP/1.")) || line.len < 12 || line.data[8] != ' ' ||
        !parse_uint(str_head(str_skip(line, 9), 3), &status) || status < 100) {
        return false;
    }
    link->status = (unsigned) status;
    link->closes = line.data[7] == '0';
    return true;
}

ssize_t discovery_head_read(struct str input, struct discovery_link *link)
{
    const char *end = str_find(input, STR("\r\n\r\n"));

    if (end == NULL) {
        return input.len >= DISCOVERY_HEAD_MAX ? -1 : 0;
    }
    struct str rest = str_from(input.data, end + 2);
    struct str line = next_line(&rest);
    link->index = 0;
    link->left = 0;
    link->is_chunked = link->has_trailers = false;
    link->is_until_close = true;
    link->chunked = (struct chunked){.state = 0};
    if (!take_status(link, line)) {
        return -1;
    }
    while (rest.len != 0) {
        line = next_line(&rest);
        struct str value = line;
        struct str name = str_cut(&value, ':');

        if (name.len == line.len || !take_field(link, name, str_trim(value))) {
            return -1;
        }
    }
    if (link->is_chunked) {
        link->left = 0;
    }
    return end + 4 - input.data;
}

/* ---- input ---- */

/* Waits for more input. NULL: input has arrived, or the end. Else the error. */
static const char *await(struct discovery_link *link, uint64_t deadline_ms, bool *is_late)
{
    struct conn *conn = link->conn;

    *is_late = false;
    while (!conn_fill(conn, READ_FIRST, DISCOVERY_HEAD_MAX)) {
        if (conn->is_broken || conn->is_input_closed) {
            return NULL;
        }
        switch (conn_wait_input(conn, deadline_ms)) {
        case WAIT_READY:
            break;
        case WAIT_TIMED_OUT:
            *is_late = true;
            return "did not answer in time";
        case WAIT_CANCELLED:
            return "is not needed any more";
        }
    }
    return NULL;
}

static bool has_ended(const struct discovery_link *link)
{
    return conn_input_len(link->conn) == 0 &&
           (link->conn->is_input_closed || link->conn->is_broken);
}

/* Reads the header of the answer, skipping interim responses. */
static const char *read_head(struct discovery_link *link, uint64_t deadline_ms)
{
    unsigned interim = 0;
    bool is_late;

    for (;;) {
        ssize_t size = discovery_head_read(conn_input(link->conn), link);
        if (size < 0) {
            return "sent an invalid HTTP/1.1 response";
        }
        if (size > 0) {
            conn_consume(link->conn, (size_t) size);
            if (link->status >= 200) {
                return NULL;
            }
            if (++interim > INTERIM_MAX) {
                return "sent too many interim answers";
            }
            continue;
        }
        size_t before = conn_input_len(link->conn);
        const char *wrong = await(link, deadline_ms, &is_late);
        if (wrong != NULL) {
            return wrong;
        }
        if (conn_input_len(link->conn) == before) {
            return "closed the connection";
        }
    }
}

static bool send_request(struct discovery_link *link, const struct discovery_request *request)
{
    const struct discovery_server *server = link->server;
    struct str length = request->body.len == 0 ? STR_NONE
                                               : arena_printf(link->arena,
                                                              "Content-Type: application/json\r\n"
                                                              "Content-Length: %zu\r\n",
                                                              request->body.len);

    conn_write(link->conn,
               arena_printf(link->arena,
                            "%s %.*s%.*s HTTP/1.1\r\nHost: %.*s\r\n"
                            "User-Agent: Portunus\r\nAccept: application/json\r\n"
                            "%.*s%.*s\r\n",
                            request->method, STR_ARG(server->path), STR_ARG(request->target),
                            STR_ARG(server->authority), STR_ARG(request->fields), STR_ARG(length)));
    conn_write(link->conn, request->body);
    return conn_wait_output(link->conn, 1, request->deadline_ms) == WAIT_READY;
}

const char *discovery_ask(struct discovery_link *link, const struct discovery_request *request)
{
    bool is_fresh = link->conn == NULL;
    const char *wrong = is_fresh ? open_connection(link) : NULL;

    link->body.len = 0;
    link->lines_end = link->line_start = 0;
    link->is_over = false;
    discovery_count(link->discovery, DISCOVERY_REQUESTS);
    if (wrong == NULL && !send_request(link, request)) {
        wrong = "took no request";
    }
    wrong = wrong == NULL ? read_head(link, request->deadline_ms) : wrong;
    if (wrong != NULL) {
        discovery_close(link);
    }
    if (wrong != NULL && !is_fresh && !fiber_is_cancelled()) {
        return discovery_ask(link, request); /* the engine had closed the idle connection */
    }
    return wrong;
}

/* Consumes trailers, which are ignored, and the empty line that ends a chunked body. */
static bool skip_trailers(struct discovery_link *link)
{
    struct str input = conn_input(link->conn);

    if (str_starts(input, STR("\r\n"))) {
        conn_consume(link->conn, 2);
        return true;
    }
    const char *end = str_find(input, STR("\r\n\r\n"));
    if (end != NULL) {
        conn_consume(link->conn, (size_t) (end + 4 - input.data));
    }
    return end != NULL;
}

/* Decodes the chunks that have arrived. NULL, or the error. */
static const char *take_chunks(struct discovery_link *link)
{
    for (;;) {
        struct str input = conn_input(link->conn);
        struct str rest = input, data = STR_NONE;
        enum chunked_result result = chunked_decode(&link->chunked, &rest, &data);

        if (result == CHUNKED_DATA) {
            buf_append(&link->body, data);
        }
        conn_consume(link->conn, input.len - rest.len);
        if (result == CHUNKED_LAST) {
            link->is_chunked = false;
            link->has_trailers = true;
            return NULL;
        }
        if (result != CHUNKED_DATA) {
            return result == CHUNKED_BAD ? "sent invalid chunks" : NULL;
        }
    }
}

static const char *take_body(struct discovery_link *link)
{
    struct str input = conn_input(link->conn);

    if (link->is_chunked) {
        return take_chunks(link);
    }
    if (!link->is_until_close) {
        input = str_head(input, link->left);
        link->left -= input.len;
    }
    buf_append(&link->body, input);
    conn_consume(link->conn, input.len);
    return NULL;
}

/* The body is complete: the connection may be used for another request. */
static void finish(struct discovery_link *link)
{
    link->is_over = true;
    if (link->closes || conn_input_len(link->conn) != 0) {
        conn_close(link->conn);
        link->conn = NULL;
    }
}

/* Has the whole body arrived? */
static bool is_whole(struct discovery_link *link, bool was_chunked)
{
    if (was_chunked) {
        return !link->is_chunked && skip_trailers(link);
    }
    return link->is_until_close ? has_ended(link) : link->left == 0;
}

static const char *more(struct discovery_link *link, uint64_t deadline_ms, bool *is_late)
{
    bool was_chunked = link->is_chunked || link->has_trailers;

    *is_late = false;
    for (;;) {
        size_t before = link->body.len;
        const char *wrong = link->is_chunked || !was_chunked ? take_body(link) : NULL;

        if (wrong != NULL) {
            return wrong;
        }
        if (is_whole(link, was_chunked)) {
            link->closes |= link->is_until_close;
            finish(link);
            return NULL;
        }
        if (link->body.len != before) {
            return NULL;
        }
        before = conn_input_len(link->conn);
        if (before >= DISCOVERY_HEAD_MAX) {
            return "sent trailers that are too long";
        }
        wrong = await(link, deadline_ms, is_late);
        if (wrong != NULL) {
            return wrong;
        }
        if (conn_input_len(link->conn) == before && !link->is_until_close) {
            return "closed the connection";
        }
    }
}

const char *discovery_more(struct discovery_link *link, uint64_t deadline_ms)
{
    bool is_late;
    const char *wrong = more(link, deadline_ms, &is_late);

    if (wrong != NULL) {
        discovery_close(link);
    }
    return wrong;
}

const char *discovery_whole(struct discovery_link *link, uint64_t deadline_ms)
{
    const char *wrong = NULL;

    while (wrong == NULL && !link->is_over) {
        wrong = discovery_more(link, deadline_ms);
        if (wrong == NULL && link->body.len > link->discovery->settings->answer_max) {
            discovery_close(link);
            discovery_count(link->discovery, DISCOVERY_REJECTED);
            wrong = "sent an answer above answer_max";
        }
    }
    return wrong;
}

/* ---- lines ---- */

bool discovery_has_line(const struct discovery_link *link)
{
    return link->lines_end > link->line_start;
}

/* Removes the lines that were used from the buffer. */
static void drop_used(struct discovery_link *link)
{
    memmove(link->body.data, link->body.data + link->line_start, link->body.len - link->line_start);
    link->body.len -= link->line_start;
    link->lines_end = link->line_start = 0;
}

/* Searches new bytes for the last line end. */
static void find_lines(struct discovery_link *link, size_t from)
{
    const char *last =
        str_find_last_char((struct str){link->body.data + from, link->body.len - from}, '\n');

    if (last != NULL) {
        link->lines_end = (size_t) (last + 1 - link->body.data);
    }
}

const char *discovery_line(struct discovery_link *link, uint64_t deadline_ms, struct str *line,
                           bool *is_end)
{
    *is_end = false;
    while (!discovery_has_line(link)) {
        if (link->is_over) {
            *is_end = true;
            return NULL;
        }
        if (link->line_start != 0) {
            drop_used(link);
        }
        size_t from = link->body.len;
        const char *wrong = more(link, deadline_ms, is_end);
        if (wrong != NULL) {
            discovery_close(link);
            return *is_end ? NULL : wrong;
        }
        if (link->body.len != from) {
            find_lines(link, from);
        }
        if (!discovery_has_line(link) && link->body.len > link->discovery->settings->answer_max) {
            discovery_close(link);
            discovery_count(link->discovery, DISCOVERY_REJECTED);
            return "sent an event above answer_max";
        }
    }
    struct str rest = {link->body.data + link->line_start, link->lines_end - link->line_start};
    *line = str_cut(&rest, '\n');
    link->line_start += line->len + 1;
    return NULL;
}
