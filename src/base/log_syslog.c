/* Syslog over datagram sockets: "syslog:server=…" of error_log and access_log, and Tengine's
 * "syslog:facility:level:target:port:ident". The formats are those of RFC 3164 and RFC 5424. */
#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/parse.h"

enum {
    TAG_MAX = 32,
    HOST_MAX = 256,
    DEFAULT_FACILITY = 23, /* local7 */
    DEFAULT_SEVERITY = 6,  /* info */
    HEAD_MAX = HOST_MAX + TAG_MAX + 64,
    REPORT_INTERVAL_MS = 60000,
};

/* Numbered as in RFC 3164, 4.1.1. */
static const struct str facilities[24] = {
    STR_INIT("kern"),   STR_INIT("user"),   STR_INIT("mail"),     STR_INIT("daemon"),
    STR_INIT("auth"),   STR_INIT("intern"), STR_INIT("lpr"),      STR_INIT("news"),
    STR_INIT("uucp"),   STR_INIT("clock"),  STR_INIT("authpriv"), STR_INIT("ftp"),
    STR_INIT("ntp"),    STR_INIT("audit"),  STR_INIT("alert"),    STR_INIT("cron"),
    STR_INIT("local0"), STR_INIT("local1"), STR_INIT("local2"),   STR_INIT("local3"),
    STR_INIT("local4"), STR_INIT("local5"), STR_INIT("local6"),   STR_INIT("local7"),
};

struct syslog_target {
    union {
        struct sockaddr any;
        struct sockaddr_un unix_path;
        struct sockaddr_in ip4;
        struct sockaddr_in6 ip6;
    } address;
    socklen_t address_size; /* of address */
    struct str server;      /* as configured, for messages; in the arena */
    struct str tag;         /* in the arena */
    char host[HOST_MAX];    /* NUL-terminated name of this machine */
    int facility;           /* 0 to 23 */
    int severity;           /* 0 to 7 */
    bool has_host;          /* false with nohostname */
    bool is_rfc5424;        /* format=rfc5424; else the older form */
    bool is_busy; /* inside syslog_send: a failure that is logged now must not be sent here */
    int fd;       /* connected, non-blocking; -1 until needed and after a failure */
    uint64_t next_report_ms; /* a failure is logged again from this time on */
};

static void close_socket(struct syslog_target *target)
{
    if (target->fd >= 0) {
        close(target->fd);
        target->fd = -1;
    }
}

static void close_with_arena(void *target)
{
    close_socket(target);
}

/* Splits "host", "host:port", "[v6]" or "[v6]:port". */
static bool split_address(struct str text, struct str *host, struct str *port)
{
    const char *end = text.data + text.len;
    const char *colon;

    *port = STR("514");
    if (text.len != 0 && text.data[0] == '[') {
        const char *bracket = str_find_char(text, ']');
        if (bracket == NULL) {
            return false;
        }
        *host = str_from(text.data + 1, bracket);
        colon = bracket + 1;
        if (colon == end) {
            return true;
        }
        if (*colon != ':') {
            return false;
        }
    } else {
        colon = str_find_char(text, ':');
        *host = colon == NULL ? text : str_from(text.data, colon);
        if (colon == NULL) {
            return true;
        }
    }
    *port = str_from(colon + 1, end);
    return true;
}

/* Resolves a numeric address, or a host name: that may wait, while the configuration is read. */
static bool target_resolve(struct arena *arena, struct syslog_target *target, struct str *error)
{
    struct str host;
    struct str port;
    uint64_t number;

    if (!split_address(target->server, &host, &port)) {
        *error = arena_printf(arena, "invalid address in syslog server \"%.*s\"",
                              STR_ARG(target->server));
        return false;
    }
    if (!parse_uint(port, &number) || number < 1 || number > 65535) {
        *error =
            arena_printf(arena, "invalid port in syslog server \"%.*s\"", STR_ARG(target->server));
        return false;
    }
    if (host.len == 0) {
        *error = arena_printf(arena, "no host in syslog server \"%.*s\"", STR_ARG(target->server));
        return false;
    }
    const struct addrinfo hints = {.ai_family = AF_UNSPEC, .ai_socktype = SOCK_DGRAM};
    struct addrinfo *found = NULL;
    if (getaddrinfo(arena_cstr(arena, host), arena_cstr(arena, port), &hints, &found) != 0 ||
        found->ai_addrlen > sizeof(target->address)) {
        *error = arena_printf(arena, "host not found in syslog server \"%.*s\"",
                              STR_ARG(target->server));
        if (found != NULL) {
            freeaddrinfo(found);
        }
        return false;
    }
    memcpy(&target->address, found->ai_addr, found->ai_addrlen);
    target->address_size = found->ai_addrlen;
    freeaddrinfo(found);
    return true;
}

static bool set_server(struct arena *arena, struct syslog_target *target, struct str value,
                       struct str *error)
{
    if (target->address_size != 0) {
        *error = STR("duplicate syslog \"server\"");
        return false;
    }
    target->server = arena_dup(arena, value);
    if (!str_starts_nocase(value, STR("unix:"))) {
        return target_resolve(arena, target, error);
    }
    struct str path = str_skip(value, 5);
    struct sockaddr_un *address = &target->address.unix_path;
    if (path.len == 0 || path.len >= sizeof(address->sun_path)) {
        const char *what = path.len == 0 ? "no" : "too long";
        *error = arena_printf(arena, "%s path in the unix domain socket in syslog server \"%.*s\"",
                              what, STR_ARG(value));
        return false;
    }
    address->sun_family = AF_UNIX;
    memcpy(address->sun_path, path.data, path.len);
    target->address_size = sizeof(*address);
    return true;
}

static bool set_facility(struct arena *arena, struct syslog_target *target, struct str value,
                         struct str *error)
{
    if (target->facility >= 0) {
        *error = STR("duplicate syslog \"facility\"");
        return false;
    }
    for (int i = 0; i < 24; i++) {
        if (str_equal(value, facilities[i])) {
            target->facility = i;
            return true;
        }
    }
    *error = arena_printf(arena, "unknown syslog facility \"%.*s\"", STR_ARG(value));
    return false;
}

static bool set_severity(struct arena *arena, struct syslog_target *target, struct str value,
                         struct str *error)
{
    enum log_level level;

    if (target->severity >= 0) {
        *error = STR("duplicate syslog \"severity\"");
        return false;
    }
    if (!log_level_parse(value, &level)) {
        *error = arena_printf(arena, "unknown syslog severity \"%.*s\"", STR_ARG(value));
        return false;
    }
    target->severity = (int) level - LOG_EMERG;
    return true;
}

/* False when the value is too long, or has bytes other than letters, digits, underscores and those
 * of `more`. */
static bool check_tag(struct str value, struct str more, struct str *error)
{
    if (value.len > TAG_MAX) {
        *error = STR("syslog tag length exceeds 32");
        return false;
    }
    for (size_t i = 0; i < value.len; i++) {
        unsigned char c = (unsigned char) value.data[i];
        bool is_letter = (unsigned char) (ascii_lower(c) - 'a') < 26;
        if (!is_letter && !ascii_is_digit(c) && c != '_' && str_find_char(more, (char) c) == NULL) {
            *error = STR("syslog \"tag\" only allows alphanumeric characters and underscore");
            return false;
        }
    }
    return true;
}

static bool set_tag(struct arena *arena, struct syslog_target *target, struct str value,
                    struct str *error)
{
    if (target->tag.data != NULL) {
        *error = STR("duplicate syslog \"tag\"");
        return false;
    }
    if (!check_tag(value, STR(""), error)) {
        return false;
    }
    target->tag = arena_dup(arena, value);
    return true;
}

static bool set_format(struct arena *arena, struct syslog_target *target, struct str value,
                       struct str *error)
{
    target->is_rfc5424 = str_is(value, "rfc5424");
    if (!target->is_rfc5424 && !str_is(value, "rfc3164")) {
        *error = arena_printf(arena, "unknown syslog format \"%.*s\"", STR_ARG(value));
        return false;
    }
    return true;
}

static bool set_parameter(struct arena *arena, struct syslog_target *target, struct str parameter,
                          struct str *error)
{
    static const struct {
        struct str prefix;
        bool (*set)(struct arena *, struct syslog_target *, struct str, struct str *);
    } setters[] = {
        /* clang-format off */
        {STR_INIT("server="), set_server},
        {STR_INIT("facility="), set_facility},
        {STR_INIT("severity="), set_severity},
        {STR_INIT("tag="), set_tag},
        {STR_INIT("format="), set_format},
        /* clang-format on */
    };

    for (size_t i = 0; i < sizeof(setters) / sizeof(setters[0]); i++) {
        if (str_starts(parameter, setters[i].prefix)) {
            struct str value = str_skip(parameter, setters[i].prefix.len);
            return setters[i].set(arena, target, value, error);
        }
    }
    if (str_is(parameter, "nohostname")) {
        target->has_host = false;
        return true;
    }
    *error = arena_printf(arena, "unknown syslog parameter \"%.*s\"", STR_ARG(parameter));
    return false;
}

static bool parse_parameters(struct arena *arena, struct syslog_target *target, struct str text,
                             struct str *error)
{
    struct str rest = text.data == NULL ? STR("") : text;

    while (rest.data != NULL) {
        if (!set_parameter(arena, target, str_cut(&rest, ','), error)) {
            return false;
        }
    }
    if (target->address_size == 0) {
        *error = STR("no syslog server specified");
        return false;
    }
    return true;
}

/* Tengine's form begins with a facility: the first word is neither "name=value" nor
 * "nohostname". */
static bool is_colon_form(struct str text)
{
    struct str rest = text;

    if (text.data == NULL) {
        return false;
    }
    struct str first = str_cut(&rest, ':');
    if (str_find_char(first, '=') != NULL || str_find_char(first, ',') != NULL) {
        return false;
    }
    for (int i = 0; i < 24; i++) {
        if (str_equal(first, facilities[i])) {
            return true;
        }
    }
    return rest.data != NULL;
}

/* Takes the next part of Tengine's form; empty when there is none. "[v6]" keeps its colons. */
static struct str next_part(struct str *rest)
{
    if (rest->data == NULL) {
        return STR("");
    }
    if (rest->len != 0 && rest->data[0] == '[') {
        const char *bracket = str_find_char(*rest, ']');
        const char *end = rest->data + rest->len;
        if (bracket != NULL && (bracket + 1 == end || bracket[1] == ':')) {
            struct str part = str_from(rest->data, bracket + 1);
            *rest = bracket + 1 == end ? STR_NONE : str_from(bracket + 2, end);
            return part;
        }
    }
    return str_cut(rest, ':');
}

/* Is the part before the next colon a port, or empty in place of one? */
static bool port_is_next(struct str rest)
{
    if (rest.data == NULL) {
        return false;
    }
    struct str part = str_cut(&rest, ':');
    for (size_t i = 0; i < part.len; i++) {
        if (!ascii_is_digit((unsigned char) part.data[i])) {
            return false;
        }
    }
    return part.len != 0 || rest.data != NULL;
}

/* Parses "host", "host:port" or a path, for which a port is ignored; /dev/log when there is
 * none. */
static bool parse_colon_server(struct arena *arena, struct syslog_target *target, struct str *rest,
                               struct str *error)
{
    struct str server = next_part(rest);
    struct str port = port_is_next(*rest) ? next_part(rest) : STR("");

    if (server.len == 0 || server.data[0] == '/') {
        server = server.len == 0 ? STR("/dev/log") : server;
        return set_server(arena, target, arena_printf(arena, "unix:%.*s", STR_ARG(server)), error);
    }
    if (port.len != 0) {
        server = arena_printf(arena, "%.*s:%.*s", STR_ARG(server), STR_ARG(port));
    }
    return set_server(arena, target, server, error);
}

/* Parses Tengine's "facility[:level[:target[:port][:ident]]]"; empty parts have their defaults. */
static bool parse_colon_form(struct arena *arena, struct syslog_target *target, struct str text,
                             struct str *error)
{
    struct str rest = text;

    if (!set_facility(arena, target, next_part(&rest), error)) {
        return false;
    }
    struct str level = next_part(&rest);
    if (level.len != 0 && !set_severity(arena, target, level, error)) {
        return false;
    }
    if (!parse_colon_server(arena, target, &rest, error)) {
        return false;
    }
    struct str ident = next_part(&rest);
    if (rest.data != NULL && rest.len != 0) {
        *error = arena_printf(arena, "unknown syslog parameter \"%.*s\"", STR_ARG(rest));
        return false;
    }
    /* Characters of program names. Any other that nginx's tag refuses would end the TAG for a
       receiver. */
    if (!check_tag(ident, STR("-./"), error)) {
        return false;
    }
    if (ident.len != 0) {
        target->tag = arena_dup(arena, ident);
    }
    return true;
}

struct syslog_target *syslog_target_parse(struct arena *arena, struct str text, struct str *error)
{
    struct syslog_target *target = arena_new(arena, struct syslog_target);

    target->fd = -1;
    target->facility = -1;
    target->severity = -1;
    target->has_host = true;
    bool is_valid = is_colon_form(text) ? parse_colon_form(arena, target, text, error)
                                        : parse_parameters(arena, target, text, error);
    if (!is_valid) {
        return NULL;
    }
    if (target->facility < 0) {
        target->facility = DEFAULT_FACILITY;
    }
    if (target->severity < 0) {
        target->severity = DEFAULT_SEVERITY;
    }
    if (target->tag.data == NULL) {
        target->tag = STR("nginx");
    }
    if (gethostname(target->host, sizeof(target->host) - 1) != 0) {
        target->has_host = false;
    }
    arena_on_free(arena, close_with_arena, target);
    return target;
}

static void describe_target(const struct log *log, struct writer *out)
{
    const struct syslog_target *target = log->subject;

    log_member(out, "server");
    writer_put(out, target->server);
}

static void report_failure(struct syslog_target *target, const char *call, int error)
{
    if (clock_now.now_ms < target->next_report_ms) {
        return;
    }
    target->next_report_ms = clock_now.now_ms + REPORT_INTERVAL_MS;
    struct log about = *log_main;
    about.action = "logging to syslog";
    about.describe = describe_target;
    about.subject = target;
    log_alert(&about, error, "%s failed", call);
}

/* False with errno, and the name of the call that failed. */
static bool open_socket(struct syslog_target *target, const char **call)
{
    if (target->fd >= 0) {
        return true;
    }
    *call = "socket()";
    target->fd =
        socket(target->address.any.sa_family, SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (target->fd < 0) {
        return false;
    }
    *call = "connect()";
    if (connect(target->fd, &target->address.any, target->address_size) != 0) {
        int error = errno;
        close_socket(target);
        errno = error;
        return false;
    }
    return true;
}

/* "<190>1 2026-11-06T08:49:37+00:00 host nginx 4711 - - " (RFC 5424, 6.2): no MSGID, no structured
 * data. */
static void log_syslog_put_head_5424(struct writer *writer, const struct syslog_target *target,
                                     int severity)
{
    writer_printf(writer, "<%d>1 ", target->facility * 8 + severity);
    writer_put(writer, CLOCK_STR(iso8601));
    writer_printf(writer, " %s ", target->has_host && target->host[0] != '\0' ? target->host : "-");
    writer_put(writer, target->tag);
    writer_printf(writer, " %d - - ", (int) getpid());
}

/* "<190>Nov  6 08:49:37 host nginx: " (RFC 3164, 4.1). */
static void log_syslog_put_head(struct writer *writer, const struct syslog_target *target,
                                int severity)
{
    struct str date = CLOCK_STR(log_local); /* 22/Jul/2026:10:11:12 +0000 */
    char day = date.data[0] == '0' ? ' ' : date.data[0];

    writer_printf(writer, "<%d>%.3s %c%c %.8s ", target->facility * 8 + severity, date.data + 3,
                  day, date.data[1], date.data + 12);
    if (target->has_host) {
        writer_printf(writer, "%s ", target->host);
    }
    writer_put(writer, target->tag);
    writer_put(writer, STR(": "));
}

/* False with errno and the name of the call; the socket is closed if a new one may work. */
static bool try_send(struct syslog_target *target, const struct msghdr *datagram, const char **call)
{
    if (!open_socket(target, call)) {
        return false;
    }
    *call = "send()";
    if (sendmsg(target->fd, datagram, MSG_NOSIGNAL) >= 0) {
        return true;
    }
    int error = errno;
    if (error != EAGAIN && error != EMSGSIZE) {
        close_socket(target);
    }
    errno = error;
    return false;
}

void syslog_send(struct syslog_target *target, int severity, struct str message)
{
    if (target->is_busy) {
        return;
    }
    target->is_busy = true;
    if (clock_now.seconds == 0) {
        clock_update();
    }
    char text[HEAD_MAX];
    struct writer writer = {text, text + sizeof(text)};
    severity = severity < 0 ? target->severity : severity;
    if (target->is_rfc5424) {
        log_syslog_put_head_5424(&writer, target, severity);
    } else {
        log_syslog_put_head(&writer, target, severity);
    }
    struct iovec parts[2] = {
        {text, (size_t) (writer.at - text)},
        {(void *) message.data, message.len},
    };
    struct msghdr datagram = {.msg_iov = parts, .msg_iovlen = 2};

    /*
     * A receiver that was restarted has another socket at the same path, and the refusal of a
     * datagram is reported for the next one. In both cases a second attempt with a new socket may
     * succeed.
     */
    const char *call;
    bool is_sent = try_send(target, &datagram, &call) ||
                   (target->fd < 0 && try_send(target, &datagram, &call));
    if (!is_sent) {
        report_failure(target, call, errno);
    }
    target->is_busy = false;
}

void syslog_sink_write(struct log_sink *sink, enum log_level level, struct str line)
{
    syslog_send(sink->data, level <= LOG_EMERG ? 0 : (int) level - LOG_EMERG, line);
}
