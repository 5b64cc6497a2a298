/* The sockets of questions: datagrams to the name servers, TCP for truncated answers, and parsing
 * what comes back (RFC 1035, 4.2; RFC 5452). */
#define _GNU_SOURCE
#include <errno.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "net/conn/conn.h"
#include "net/resolver/private.h"

enum {
    LENGTH_SIZE = 2,       /* bytes before a message over TCP */
    TCP_FIRST_SIZE = 4096, /* first size of its input buffer */
    ERRORS_MAX = 8, /* errors read from a socket at one time: each lost datagram may cause one */
};

/* Shared by all sockets: a datagram is parsed before the next one is read. */
static char datagram[DNS_MESSAGE_MAX];

static void query_failed_over(struct query *query);

/* ---- the log ---- */

static void describe_server(const struct log *log, struct writer *out)
{
    char text[ADDR_TEXT_MAX];
    size_t len = addr_format(log->subject, true, text);

    log_member(out, "resolver");
    writer_put(out, (struct str){text, len});
}

/* The process's log, with the server's address at the end of each line. */
static struct log log_about(const struct question *question, unsigned server)
{
    struct log log = *log_main;

    log.action = "resolving";
    log.describe = describe_server;
    log.subject = &question->resolver->servers[server];
    return log;
}

static void log_failure(const struct question *question, unsigned server, int error,
                        const char *message)
{
    struct log log = log_about(question, server);

    log_at(&log, error == EPERM || error == EACCES ? LOG_ALERT : LOG_ERROR, error, "%s", message);
}

/* ---- answers ---- */

/* The answer is an alias without the records of its target: queries the target next. False: too
 * many aliases, or a loop. */
static bool query_follow(struct query *query, const struct dns_answer *answer)
{
    query->aliases += answer->aliases;
    if (query->aliases > DNS_ALIASES_MAX ||
        dns_name_equal(&answer->name, &query->question->entry->name)) {
        return false;
    }
    query->name = answer->name;
    query->is_followed = true;
    query_draw_id(query);
    return true;
}

static void query_shorten_ttl(struct query *query, const struct dns_answer *answer)
{
    if (answer->has_ttl && (!query->has_ttl || answer->ttl_s < query->ttl_s)) {
        query->ttl_s = answer->ttl_s;
        query->has_ttl = true;
    }
}

/* Looks for the alias's target in the cache. True: the query has its records. */
static bool query_recall(struct query *query, enum dns_verdict *verdict)
{
    struct resolver *resolver = query->question->resolver;
    const struct resolver_entry *entry =
        query->question->entry->type == RESOLVER_ADDRESSES
            ? resolver_find(resolver, &query->name, RESOLVER_ADDRESSES)
            : NULL;

    if (entry == NULL || entry->answer == NULL ||
        entry->answer->valid_until_ms <= clock_now.now_ms) {
        return false;
    }
    uint64_t left_s = (entry->answer->valid_until_ms - clock_now.now_ms) / 1000;
    struct dns_answer known = {
        .has_ttl = true,
        .ttl_s = left_s < UINT32_MAX ? (uint32_t) left_s : UINT32_MAX,
    };

    query_shorten_ttl(query, &known);
    for (unsigned i = 0; i < entry->answer->count; i++) {
        if (entry->answer->records[i].type == query->type) {
            *vec_add(&query->records, &query->question->arena, struct dns_record) =
                entry->answer->records[i];
        }
    }
    *verdict = query->records.count != 0             ? DNS_FOUND
               : entry->answer->result == RESOLVE_OK ? DNS_NO_DATA
                                                     : DNS_NO_NAME;
    return true;
}

/* The server's answer is not usable: asks the next server, unless this was the last. True: the
 * question is freed. */
static bool query_refused(struct query *query, enum dns_verdict verdict)
{
    if (++query->refusals >= query->question->resolver->server_count) {
        return query_done(query, verdict);
    }
    query_failed_over(query);
    return false;
}

static bool query_ask_over_tcp(struct query *query);

/* Handles a message for this query from a server. True: the question is freed. */
static bool query_heard(struct query *query, unsigned server, struct str message, bool is_tcp)
{
    struct question *question = query->question;
    struct dns_answer answer;
    const struct dns_question asked = {&query->name, query->type, query->id};
    enum dns_verdict verdict = dns_answer_read(message, &asked, &question->arena, &answer);

    query->rcode = answer.rcode;
    switch (verdict) {
    case DNS_FOREIGN: {
        struct log log = log_about(question, server);

        log_info(&log, 0, "unexpected DNS response");
        if (is_tcp) {
            query_failed_over(query);
        }
        return false;
    }
    case DNS_TRUNCATED:
        if (is_tcp) {
            return query_refused(query, DNS_MALFORMED);
        }
        if (query->tcp == NULL) {
            query->server = server;
            if (!query_ask_over_tcp(query)) {
                query_failed_over(query);
            }
        }
        return false;
    case DNS_ALIAS:
        query_shorten_ttl(query, &answer);
        if (!query_follow(query, &answer)) {
            return query_done(query, DNS_NO_NAME);
        }
        if (query_recall(query, &verdict)) {
            return query_done(query, verdict);
        }
        query_close_tcp(query);
        query->server = server;
        query_send(query);
        return false;
    case DNS_REFUSAL:
    case DNS_MALFORMED: {
        struct log log = log_about(question, server);

        log_info(&log, 0, "DNS error (%u: %s)", answer.rcode,
                 verdict == DNS_MALFORMED ? "malformed response" : dns_rcode_text(answer.rcode));
        /* An answer of a server that is not in use any more is ignored. */
        return server == query->server && query_refused(query, verdict);
    }
    default:
        question->resolver->good = server;
        query->records = answer.records;
        query->is_of_name = answer.aliases == 0;
        query_shorten_ttl(query, &answer);
        return query_done(query, verdict);
    }
}

/* ---- UDP ---- */

/* The open query with the id of a datagram, which is its first two bytes. */
static struct query *query_of(struct question *question, const char *message, size_t size)
{
    for (unsigned i = 0; size >= 2 && i < question->query_count; i++) {
        struct query *query = &question->queries[i];

        if (query->is_open &&
            query->id == ((unsigned char) message[0] << 8 | (unsigned char) message[1])) {
            return query;
        }
    }
    return NULL;
}

/* The server cannot be reached: its open queries go to the next server. */
static void line_failed(struct question *question, unsigned server)
{
    for (unsigned i = 0; i < question->query_count; i++) {
        struct query *query = &question->queries[i];

        if (query->is_open && query->server == server && query->tcp == NULL) {
            query_failed_over(query);
        }
    }
}

static void line_ready(struct event_source *source, unsigned events)
{
    struct resolver_line *line = container_of(source, struct resolver_line, source);
    struct question *question = line->question;
    unsigned errors = 0;

    for (;;) {
        ssize_t size = recv(source->fd, datagram, sizeof(datagram), 0);

        if (size < 0 && errno == EINTR) {
            continue;
        }
        if (size < 0) {
            if (errno == EAGAIN || ++errors > ERRORS_MAX) {
                return;
            }
            log_failure(question, line->server, errno, "recv() failed");
            line_failed(question, line->server);
            continue;
        }
        struct query *query = query_of(question, datagram, (size_t) size);

        /* Other datagrams are late repetitions or guesses of an attacker. */
        if (query != NULL &&
            query_heard(query, line->server, (struct str){datagram, (size_t) size}, false)) {
            return;
        }
    }
}

static void line_close(struct resolver_line *line)
{
    if (line->source.fd != -1) {
        event_forget(&line->source);
        close(line->source.fd);
        line->source.fd = -1;
    }
}

/* Connected, so the socket receives only from its server; the kernel picks a random port. */
static bool line_open(struct resolver_line *line)
{
    const struct addr *server = &line->question->resolver->servers[line->server];
    const char *failure = "socket() failed";
    int fd = socket(server->any.sa_family, SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);

    if (fd != -1) {
        event_source_init(&line->source, fd, line_ready);
        failure = "connect() failed";
        if (connect(fd, &server->any, server->len) == 0) {
            failure = "epoll_ctl() failed";
            if (event_add_input(&line->source)) {
                return true;
            }
        }
    }
    log_failure(line->question, line->server, errno, failure);
    line_close(line);
    return false;
}

static bool line_send(struct resolver_line *line, const unsigned char *message, size_t size)
{
    if (line->source.fd == -1 && !line_open(line)) {
        return false;
    }
    line->question->resolver->sent++;
    /* An error of an earlier message is reported once, so send again. A full buffer counts as a
     * lost datagram. */
    ssize_t sent = send(line->source.fd, message, size, MSG_NOSIGNAL);

    if (sent < 0 && errno != EAGAIN) {
        sent = send(line->source.fd, message, size, MSG_NOSIGNAL);
    }
    if (sent < 0 && errno != EAGAIN) {
        log_failure(line->question, line->server, errno, "send() failed");
        return false;
    }
    return true;
}

void query_send(struct query *query)
{
    struct question *question = query->question;
    unsigned servers = question->resolver->server_count;
    unsigned char message[DNS_QUERY_MAX];
    size_t size = dns_query_write(&query->name, query->type, query->id, message);

    while (!line_send(&question->lines[query->server], message, size)) {
        if (++query->skips >= servers) {
            return; /* none can be reached: the next round tries again */
        }
        query->server = (query->server + 1) % servers;
    }
}

/* The current server is not usable: sends to the next one, unless all were tried in this round. */
static void query_failed_over(struct query *query)
{
    unsigned servers = query->question->resolver->server_count;

    query_close_tcp(query);
    query->server = (query->server + 1) % servers;
    if (++query->skips < servers) {
        query_send(query);
    }
}

/* ---- TCP ---- */

void query_close_tcp(struct query *query)
{
    if (query->tcp != NULL) {
        conn_close(query->tcp);
        query->tcp = NULL;
    }
}

/* Handles input or its end. Each message follows its length. */
static void tcp_input(struct conn *conn)
{
    struct query *query = conn->user;

    while (conn_fill(conn, TCP_FIRST_SIZE, LENGTH_SIZE + DNS_MESSAGE_MAX)) {
    }
    struct str input = conn_input(conn);
    const unsigned char *bytes = (const unsigned char *) input.data;

    if (input.len >= LENGTH_SIZE) {
        size_t size = (size_t) bytes[0] << 8 | bytes[1];

        if (input.len - LENGTH_SIZE >= size) {
            query_heard(query, query->server, (struct str){input.data + LENGTH_SIZE, size}, true);
            return;
        }
    }
    if (conn->is_broken) {
        log_failure(query->question, query->server, conn->error, "asking over TCP failed");
        query_failed_over(query);
    } else if (conn->is_input_closed) {
        log_failure(query->question, query->server, 0,
                    "name server closed the connection without an answer");
        query_failed_over(query);
    }
}

static const struct conn_owner tcp_owner = {.input = tcp_input};

/* Sends the query to server query->server over TCP. False: the server cannot be reached. */
static bool query_ask_over_tcp(struct query *query)
{
    const struct question *question = query->question;
    const struct addr *server = &question->resolver->servers[query->server];
    unsigned char message[LENGTH_SIZE + DNS_QUERY_MAX];
    size_t size = dns_query_write(&query->name, query->type, query->id, message + LENGTH_SIZE);
    int fd = socket(server->any.sa_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);

    query_close_tcp(query);
    if (fd == -1) {
        log_failure(question, query->server, errno, "socket() failed");
        return false;
    }
    if (connect(fd, &server->any, server->len) == -1 && errno != EINPROGRESS) {
        log_failure(question, query->server, errno, "connect() failed");
        close(fd);
        return false;
    }
    query->tcp = conn_new(fd, server, &tcp_owner, log_main);
    if (query->tcp == NULL) {
        log_failure(question, query->server, 0, "no connection is left to ask over TCP");
        close(fd);
        return false;
    }
    question->resolver->sent++;
    message[0] = (unsigned char) (size >> 8);
    message[1] = (unsigned char) size;
    query->tcp->user = query;
    conn_write(query->tcp, (struct str){(char *) message, LENGTH_SIZE + size});
    return conn_flush(query->tcp) && conn_watch(query->tcp);
}

void question_close(struct question *question)
{
    for (unsigned i = 0; i < question->query_count; i++) {
        query_close_tcp(&question->queries[i]);
    }
    for (unsigned i = 0; i < question->resolver->server_count; i++) {
        line_close(&question->lines[i]);
    }
}
