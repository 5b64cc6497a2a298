/* One HTTP/1.1 request to a CA, or to a hook, on a separate connection. */
#include <errno.h>
#include <netdb.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fatal.h"
#include "http/modules/clients/acme/acme.h"
#include "net/conn/conn.h"
#include "net/resolver/resolver.h"
#include "server/generation.h"

#define INPUT_MAX (ACME_ANSWER_MAX + 65536)
#define ADDRESSES_MAX 4 /* most addresses to connect to */
#define THREADS 2       /* for names resolved by the system */

/* A request in progress. */
struct fetching {
    const struct acme_issuer *issuer;
    struct acme_call *call;
    struct arena *arena;
    struct acme_url url;
    uint64_t deadline_ms;
    struct addr addresses[ADDRESSES_MAX];
    unsigned count;
    struct conn *conn;
};

static bool fail(struct fetching *fetching, const char *why, int error)
{
    fetching->call->why = why;
    log_error(log_main, error, "acme_issuer \"%.*s\": %s of \"%.*s\"",
              STR_ARG(fetching->issuer->name), why, STR_ARG(fetching->call->url));
    return false;
}

/* ---- addresses ---- */

/* A lookup by the system's resolver, which blocks, on a thread. On the heap. */
struct system_lookup {
    char *host;
    struct addr found[ADDRESSES_MAX];
    unsigned count;
};

static void ask_system(void *arg)
{
    struct system_lookup *lookup = arg;
    const struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_flags = AI_ADDRCONFIG};
    struct addrinfo *list = NULL;

    if (getaddrinfo(lookup->host, NULL, &hints, &list) != 0) {
        return;
    }
    for (struct addrinfo *one = list; one != NULL && lookup->count < ADDRESSES_MAX;
         one = one->ai_next) {
        struct addr *addr = &lookup->found[lookup->count];

        if (one->ai_addrlen <= sizeof(struct sockaddr_in6)) {
            memcpy(&addr->any, one->ai_addr, one->ai_addrlen);
            addr->len = one->ai_addrlen;
            lookup->count++;
        }
    }
    freeaddrinfo(list);
}

static bool find_by_system(struct fetching *fetching)
{
    struct system_lookup *lookup = calloc(1, sizeof(*lookup));
    char *host = strndup(fetching->url.host.data, fetching->url.host.len);

    if (lookup == NULL || host == NULL) {
        fatal_no_memory(sizeof(*lookup));
    }
    lookup->host = host;
    bool is_done = thread_pool_call(worker_own_thread_pool(STR("acme"), THREADS, 16), ask_system,
                                    lookup) == THREAD_CALL_DONE;
    for (unsigned i = 0; is_done && i < lookup->count; i++) {
        fetching->addresses[fetching->count++] = lookup->found[i];
    }
    free(lookup->host);
    free(lookup);
    return fetching->count != 0 || fail(fetching, "the system does not know the host", 0);
}

static bool find_by_resolver(struct fetching *fetching)
{
    struct resolved found;
    uint64_t limit = clock_now.now_ms + fetching->issuer->resolver_timeout_ms;
    const struct dns_lookup lookup = {
        .settings = fetching->issuer->resolver,
        .name = fetching->url.host,
        .deadline_ms = limit < fetching->deadline_ms ? limit : fetching->deadline_ms,
        .log = log_main,
        .arena = fetching->arena,
    };
    enum resolve_result result = resolver_addresses(&lookup, &found);

    if (result != RESOLVE_OK) {
        return fail(fetching, resolve_result_text(result), 0);
    }
    for (unsigned i = 0; i < found.count && i < ADDRESSES_MAX; i++) {
        fetching->addresses[fetching->count++] = found.items[i].addr;
    }
    return true;
}

static bool find_addresses(struct fetching *fetching)
{
    bool is_found = true;

    if (addr_parse_ip(fetching->url.host, &fetching->addresses[0])) {
        fetching->count = 1;
    } else if (fetching->issuer->resolver != NULL) {
        is_found = find_by_resolver(fetching);
    } else {
        is_found = find_by_system(fetching);
    }
    for (unsigned i = 0; i < fetching->count; i++) {
        addr_set_port(&fetching->addresses[i], fetching->url.port);
    }
    return is_found;
}

/* ---- the connection ---- */

static const struct conn_owner fetch_owner = {.input = NULL};

static bool connect_to(struct fetching *fetching, const struct addr *addr, int *error)
{
    int fd = socket(addr->any.sa_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);

    if (fd == -1 || (connect(fd, &addr->any, addr->len) == -1 && errno != EINPROGRESS)) {
        *error = errno;
        if (fd != -1) {
            close(fd);
        }
        return false;
    }
    struct conn *conn = conn_new(fd, addr, &fetch_owner, log_main);
    if (conn == NULL) {
        *error = EMFILE;
        close(fd);
        return false;
    }
    conn->is_readable = 0;
    if (conn_wait_connected(conn, fetching->deadline_ms) != WAIT_READY || conn->is_broken) {
        *error = conn->is_broken ? conn->error : ETIMEDOUT;
        conn_close(conn);
        return false;
    }
    fetching->conn = conn;
    return true;
}

static bool open_connection(struct fetching *fetching)
{
    int error = 0;

    for (unsigned i = 0; i < fetching->count; i++) {
        if (connect_to(fetching, &fetching->addresses[i], &error)) {
            return true;
        }
    }
    return fail(fetching, "connect() failed to the host", error);
}

static bool secure(struct fetching *fetching)
{
    const struct tls_client_options options = {
        .name = fetching->url.host,
        .sends_name = true,
        .verifies = fetching->issuer->verifies,
    };
    const struct tls_connecting connecting = {
        .context = fetching->issuer->tls,
        .options = &options,
        .deadline_ms = fetching->deadline_ms,
        .log = log_main,
        .action = "connecting to the CA of an acme_issuer",
    };
    int error = 0;

    return tls_connect(fetching->conn, &connecting, &error) == TLS_CONNECTED ||
           fail(fetching, "no TLS connection to the host", error);
}

/* ---- request and response ---- */

static bool send_request(struct fetching *fetching)
{
    const struct acme_call *call = fetching->call;
    struct arena *arena = fetching->arena;
    const struct acme_url *url = &fetching->url;
    struct str type = call->body.len == 0
                          ? STR("")
                          : arena_printf(arena, "Content-Type: %s\r\nContent-Length: %zu\r\n",
                                         call->content_type, call->body.len);
    struct str accept =
        call->accept == NULL ? STR("") : arena_printf(arena, "Accept: %s\r\n", call->accept);

    conn_write(fetching->conn,
               arena_printf(arena,
                            "%s %.*s HTTP/1.1\r\nHost: %.*s\r\nUser-Agent: Portunus\r\n"
                            "Connection: close\r\n%.*s%.*s\r\n",
                            call->method, STR_ARG(url->target), STR_ARG(url->authority),
                            STR_ARG(accept), STR_ARG(type)));
    conn_write(fetching->conn, call->body);
    return conn_wait_output(fetching->conn, 1, fetching->deadline_ms) == WAIT_READY ||
           fail(fetching, "the host takes no request", fetching->conn->error);
}

/* Copies the slices, which point into the input or into memory of the parser. */
static void keep_answer(struct arena *arena, struct acme_answer *answer)
{
    struct str *texts[] = {&answer->location, &answer->nonce, &answer->retry_after,
                           &answer->content_type, &answer->body};

    for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
        *texts[i] = arena_dup(arena, *texts[i]);
    }
    for (unsigned i = 0; i < answer->alternate_count; i++) {
        answer->alternates[i] = arena_dup(arena, answer->alternates[i]);
    }
}

/* Is the response complete? *wanted: input bytes before which this need not be called again. */
static enum acme_read look_at_input(struct fetching *fetching, bool is_end, size_t *wanted)
{
    struct str input = conn_input(fetching->conn);
    struct acme_answer *answer = &fetching->call->answer;
    struct arena arena;

    if (!is_end && (input.len < *wanted || (answer->is_chunked && !str_ends(input, STR("\n"))))) {
        return ACME_MORE;
    }
    arena_init(&arena);
    enum acme_read result = acme_answer_read(&arena, input, is_end,
                                             strcmp(fetching->call->method, "HEAD") == 0, answer);
    if (result == ACME_WHOLE) {
        keep_answer(fetching->arena, answer);
    }
    *wanted = answer->missing == 0 ? 0 : input.len + answer->missing;
    arena_free(&arena);
    return result;
}

/* Waits for more input. False: there is none, or too much. */
static bool await_input(struct fetching *fetching)
{
    struct conn *conn = fetching->conn;

    while (!conn_fill(conn, 16384, INPUT_MAX)) {
        if (conn->is_broken || conn->is_input_closed) {
            return true;
        }
        if (conn_input_len(conn) >= INPUT_MAX) {
            return fail(fetching, "too large an answer", 0);
        }
        if (conn_wait_input(conn, fetching->deadline_ms) != WAIT_READY) {
            return fail(fetching, "no answer in time", ETIMEDOUT);
        }
    }
    return true;
}

static bool read_answer(struct fetching *fetching)
{
    const struct conn *conn = fetching->conn;
    size_t wanted = 0;

    while (await_input(fetching)) {
        bool is_end = conn->is_input_closed || conn->is_broken;
        enum acme_read result = look_at_input(fetching, is_end, &wanted);

        if (result == ACME_WHOLE) {
            return true;
        }
        if (result == ACME_BAD || is_end) {
            return fail(fetching, "no proper answer", conn->is_broken ? conn->error : 0);
        }
    }
    return false;
}

static bool talk(struct fetching *fetching)
{
    if (fetching->url.is_secure && !secure(fetching)) {
        return false;
    }
    return send_request(fetching) && read_answer(fetching);
}

bool acme_fetch(const struct acme_issuer *issuer, struct arena *arena, struct acme_call *call)
{
    struct fetching *fetching = arena_new(arena, struct fetching);

    fetching->issuer = issuer;
    fetching->call = call;
    fetching->arena = arena;
    fetching->deadline_ms = clock_now.now_ms + ACME_CALL_MS;
    call->answer = (struct acme_answer){.status = 0};
    if (!acme_url_parse(call->url, call->allows_plain, &fetching->url)) {
        return fail(fetching, "it is not a URL that may be asked: the host", 0);
    }
    if (!find_addresses(fetching) || !open_connection(fetching)) {
        return false;
    }
    bool is_good = talk(fetching);
    conn_close(fetching->conn);
    return is_good;
}
