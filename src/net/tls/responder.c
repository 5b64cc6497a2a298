/* The HTTP side of OCSP (RFC 6960, appendix A): one GET on a connection of its own. */
#include <errno.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/parse.h"
#include "base/text.h"
#include "net/conn/conn.h"
#include "net/tls/private.h"

#define ANSWER_MAX (64 * 1024)
#define TIME_MS 60000 /* for the whole exchange */

bool ocsp_target_parse(struct arena *arena, struct str url, struct ocsp_target *out)
{
    if (!str_starts_nocase(url, STR("http://"))) {
        return false;
    }
    struct str rest = str_skip(url, 7);
    const char *slash = str_find_char(rest, '/');
    struct str host = slash == NULL ? rest : str_from(rest.data, slash);

    *out = (struct ocsp_target){.port = 80};
    out->path = slash == NULL ? STR("") : str_from(slash, rest.data + rest.len);
    while (str_ends(out->path, STR("/"))) {
        out->path.len--;
    }
    if (!addr_split_port(host, &out->host, &out->port) || out->host.len == 0) {
        return false;
    }
    for (size_t i = 0; i < url.len; i++) {
        if ((unsigned char) url.data[i] <= ' ' || url.data[i] == 0x7f) {
            return false;
        }
    }
    out->host = arena_dup(arena, out->host);
    out->path = arena_dup(arena, out->path);
    return true;
}

/* ---- connecting ---- */

static bool find_address(const struct ocsp_question *question, struct arena *arena,
                         uint64_t deadline_ms, struct addr *out)
{
    const struct ocsp_target *target = question->target;
    const struct tls_settings *settings = question->settings;
    struct resolved found;

    if (addr_parse_ip(target->host, out)) {
        addr_set_port(out, target->port);
        return true;
    }
    if (settings->resolver == NULL) {
        if (target->addresses.count == 0) {
            log_error(question->log, 0, "no resolver defined to resolve %.*s",
                      STR_ARG(target->host));
            return false;
        }
        *out = target->addresses.items[0];
        return true;
    }
    uint64_t limit = clock_now.now_ms + settings->resolver_timeout_ms;
    const struct dns_lookup lookup = {.settings = settings->resolver,
                                      .name = target->host,
                                      .deadline_ms = limit < deadline_ms ? limit : deadline_ms,
                                      .log = question->log,
                                      .arena = arena};
    enum resolve_result result = resolver_addresses(&lookup, &found);
    if (result != RESOLVE_OK) {
        log_error(question->log, 0, "%.*s could not be resolved (%s)", STR_ARG(target->host),
                  resolve_result_text(result));
        return false;
    }
    *out = found.items[0].addr;
    addr_set_port(out, target->port);
    return true;
}

struct log tls_log(const struct tls_settings *settings)
{
    struct log log = *log_main;

    if (settings->error_log != NULL && *settings->error_log != NULL) {
        log.sinks = *settings->error_log;
        log.level = log_chain_level(log.sinks);
    }
    return log;
}

static const struct conn_owner responder_owner = {.input = NULL};

static struct conn *open_connection(const struct ocsp_question *question, const struct addr *addr,
                                    uint64_t deadline_ms)
{
    int fd = socket(addr->any.sa_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);

    if (fd == -1 || (connect(fd, &addr->any, addr->len) == -1 && errno != EINPROGRESS)) {
        log_error(question->log, errno, "connect() to OCSP responder failed");
        if (fd != -1) {
            close(fd);
        }
        return NULL;
    }
    struct conn *conn = conn_new(fd, addr, &responder_owner, (struct log *) log_main);
    if (conn == NULL) {
        log_error(question->log, 0, "no connection left for an OCSP responder");
        close(fd);
        return NULL;
    }
    conn->is_readable = 0;
    if (conn_wait_connected(conn, deadline_ms) != WAIT_READY || conn->is_broken) {
        if (!fiber_is_cancelled()) {
            log_error(question->log, conn->is_broken ? conn->error : ETIMEDOUT,
                      "connect() to OCSP responder failed");
        }
        conn_close(conn);
        return NULL;
    }
    return conn;
}

/* ---- the response ---- */

/* The end of the header, after its empty line; NULL: it has not arrived. */
static const char *head_end(struct str input)
{
    for (size_t i = 0; i + 1 < input.len; i++) {
        if (input.data[i] == '\n' &&
            (input.data[i + 1] == '\n' ||
             (i + 2 < input.len && input.data[i + 1] == '\r' && input.data[i + 2] == '\n'))) {
            return input.data + i + (input.data[i + 1] == '\n' ? 2 : 3);
        }
    }
    return NULL;
}

/* Checks for status 200 and the right type. *length: of the body, SIZE_MAX without Content-
 * Length. */
static bool check_head(const struct ocsp_question *question, struct str head, size_t *length)
{
    struct str line = str_cut(&head, '\n');
    uint64_t number;

    *length = SIZE_MAX;
    if (line.len < 12 || !str_starts(line, STR("HTTP/1.")) ||
        memcmp(line.data + 8, " 200", 4) != 0) {
        struct str shown = str_head(str_trim(line), 80);
        log_error(question->log, 0, "OCSP responder sent invalid response: \"%.*s\"",
                  STR_ARG(shown));
        return false;
    }
    while (head.data != NULL) {
        struct str field = str_cut(&head, '\n');
        struct str value = field;
        struct str name = str_cut(&value, ':');

        if (str_ends(value, STR("\r"))) {
            value.len--;
        }
        value = str_trim(value);
        if (str_equal_nocase(name, STR("Content-Type")) &&
            !str_equal_nocase(value, STR("application/ocsp-response"))) {
            log_error(question->log, 0,
                      "OCSP responder sent invalid \"Content-Type\" header: \"%.*s\"",
                      STR_ARG(value));
            return false;
        }
        if (str_equal_nocase(name, STR("Content-Length")) && parse_uint(value, &number) &&
            number <= ANSWER_MAX) {
            *length = (size_t) number;
        }
    }
    return true;
}

/* Reads until the end of the body. */
static bool answer_receive(const struct ocsp_question *question, struct conn *conn,
                           uint64_t deadline_ms, struct arena *arena, struct str *body)
{
    const char *start = NULL;
    size_t length = SIZE_MAX;
    size_t head_size = 0;

    for (;;) {
        struct str input = conn_input(conn);

        if (start == NULL && (start = head_end(input)) != NULL) {
            head_size = (size_t) (start - input.data);
            if (!check_head(question, str_head(input, head_size), &length)) {
                return false;
            }
        }
        bool is_whole = start != NULL && input.len - head_size >= length;
        if (is_whole || conn->is_input_closed) {
            break;
        }
        if (conn_fill(conn, 4096, ANSWER_MAX)) {
            continue;
        }
        if (conn->is_broken || input.len >= ANSWER_MAX) {
            log_error(question->log, conn->is_broken ? conn->error : 0,
                      "OCSP responder sent no proper response");
            return false;
        }
        if (!conn->is_input_closed && conn_wait_input(conn, deadline_ms) != WAIT_READY) {
            if (!fiber_is_cancelled()) {
                log_error(question->log, ETIMEDOUT, "OCSP responder timed out");
            }
            return false;
        }
    }
    struct str input = conn_input(conn);
    if (start == NULL || (length != SIZE_MAX && input.len - head_size < length)) {
        log_error(question->log, 0, "OCSP responder prematurely closed connection");
        return false;
    }
    *body = arena_dup(arena, str_head(str_skip(input, head_size), length));
    return true;
}

bool ocsp_fetch(const struct ocsp_question *question, struct str request, struct arena *arena,
                struct str *answer)
{
    const struct ocsp_target *target = question->target;
    uint64_t deadline_ms = clock_now.now_ms + TIME_MS;
    struct addr addr;

    if (!find_address(question, arena, deadline_ms, &addr)) {
        return false;
    }
    struct conn *conn = open_connection(question, &addr, deadline_ms);
    if (conn == NULL) {
        return false;
    }
    struct str encoded =
        escape_str(arena, base64_encode(arena, request, false), ESCAPE_URI_COMPONENT);
    conn_write(conn, arena_printf(arena, "GET %.*s/%.*s HTTP/1.0\r\nHost: %.*s\r\n\r\n",
                                  STR_ARG(target->path), STR_ARG(encoded), STR_ARG(target->host)));
    bool is_good = conn_flush(conn) && answer_receive(question, conn, deadline_ms, arena, answer);
    conn_close(conn);
    return is_good;
}
