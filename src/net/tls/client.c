/* The client's side of TLS: the handshake on a fiber, verification of the peer, resumption of
 * sessions. */
#include <errno.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>
#include <stdlib.h>

#include "base/checksum.h"
#include "base/clock.h"
#include "base/fatal.h"
#include "base/list.h"
#include "net/conn/private.h"
#include "net/tls/private.h"

#define SESSIONS_MAX 1024u /* cached by a worker; some kilobytes each */
#define BUCKETS 512u
#define NAME_MAX_LENGTH 255 /* bytes of a host name in SNI */

/* ---- sessions by identity and address, most recently used first ---- */

/* A session that can be resumed. On the heap. */
struct resumable_session {
    struct list in_order;           /* in `sessions` */
    struct resumable_session *next; /* of the bucket */
    uint64_t key;                   /* hash of identity and address */
    SSL_SESSION *session;           /* counted reference */
};

static struct list sessions = {&sessions, &sessions};
static struct resumable_session *buckets[BUCKETS];
static unsigned session_count;
static int session_key_index = -1;    /* of SSL: the key of its session, or NULL */
static int context_number_index = -1; /* of SSL_CTX: its number, or NULL */

static struct resumable_session **session_slot(uint64_t key)
{
    struct resumable_session **at = &buckets[key % BUCKETS];

    while (*at != NULL && (*at)->key != key) {
        at = &(*at)->next;
    }
    return at;
}

static void session_drop(uint64_t key)
{
    struct resumable_session **at = session_slot(key);
    struct resumable_session *entry = *at;

    if (entry == NULL) {
        return;
    }
    *at = entry->next;
    list_remove(&entry->in_order);
    session_count--;
    SSL_SESSION_free(entry->session);
    free(entry);
}

/* Stores a session; owns the reference from now on. */
static void session_put(uint64_t key, SSL_SESSION *session)
{
    struct resumable_session *entry = *session_slot(key);

    if (entry != NULL) {
        SSL_SESSION_free(entry->session);
        entry->session = session;
        return;
    }
    if (session_count == SESSIONS_MAX) {
        session_drop(container_of(sessions.prev, struct resumable_session, in_order)->key);
    }
    entry = malloc(sizeof(*entry));
    if (entry == NULL) {
        fatal_no_memory(sizeof(*entry));
    }
    *entry = (struct resumable_session){
        .next = buckets[key % BUCKETS],
        .key = key,
        .session = session,
    };
    buckets[key % BUCKETS] = entry;
    list_push_front(&sessions, &entry->in_order);
    session_count++;
}

/* Borrowed, or NULL. */
static SSL_SESSION *session_find(uint64_t key)
{
    struct resumable_session *entry = *session_slot(key);

    if (entry == NULL) {
        return NULL;
    }
    list_remove(&entry->in_order);
    list_push_front(&sessions, &entry->in_order);
    return entry->session;
}

/* In TLS 1.2 called during the handshake; in TLS 1.3 after it, maybe several times (RFC 8446,
 * 4.6.1). */
static int on_session(SSL *ssl, SSL_SESSION *session)
{
    uintptr_t key = (uintptr_t) SSL_get_ex_data(ssl, session_key_index);

    if (key == 0) {
        return 0;
    }
    session_put(key, session);
    return 1; /* the reference is ours now */
}

/* ---- scripts ---- */

/* A hook that runs on a fiber of its own. */
struct client_ask {
    struct tls *tls;
    X509_STORE_CTX *chain; /* for verify; NULL: certify */
    bool is_good;
};

static void run_hook(void *arg)
{
    struct client_ask *ask = arg;
    const struct tls_client_hooks *hooks = ask->tls->client_hooks;

    ask->is_good = ask->chain != NULL ? hooks->verify(ask->tls->ssl, ask->chain, hooks->arg)
                                      : hooks->certify(ask->tls->ssl, hooks->arg);
}

/* Runs the script of a hook. MAY WAIT, until the deadline of the handshake. */
static bool ask_script(struct tls *tls, X509_STORE_CTX *chain)
{
    struct client_ask ask = {.tls = tls, .chain = chain};
    struct fiber_handle handle;

    if (!tls_ask_begin(tls)) {
        return false;
    }
    switch (fiber_start_joinable(run_hook, &ask, &handle)) {
    case FIBER_NO_STACK:
        log_error(tls->conn->log, 0, "no free fiber for a script in a handshake");
        break;
    case FIBER_WAITING:
        tls->asked_wait = fiber_join(&handle, tls->deadline_ms);
        if (tls->asked_wait != WAIT_READY) {
            fiber_cancel_and_join(&handle);
            ask.is_good = false;
            log_info(tls->conn->log, 0, "%s aborted",
                     chain != NULL ? "proxy_ssl_verify_by_lua: cert verify callback"
                                   : "proxy_ssl_certificate_by_lua: cert cb");
        }
        break;
    case FIBER_ENDED:
        break;
    }
    return tls_ask_end(tls) && ask.is_good;
}

static int on_certificate(SSL *ssl, void *arg)
{
    return ask_script(SSL_get_ex_data(ssl, tls_index), NULL);
}

/* Called instead of X509_verify_cert. */
static int on_verify(X509_STORE_CTX *chain, void *arg)
{
    SSL *ssl = X509_STORE_CTX_get_ex_data(chain, SSL_get_ex_data_X509_STORE_CTX_idx());
    struct tls *tls = SSL_get_ex_data(ssl, tls_index);
    const struct tls_client_hooks *hooks = tls->client_hooks;
    int result = 1;

    if (hooks == NULL || hooks->verify == NULL || !hooks->skips_default) {
        result = X509_verify_cert(chain);
    }
    if (hooks == NULL || hooks->verify == NULL) {
        return result;
    }
    if (!ask_script(tls, chain)) {
        if (X509_STORE_CTX_get_error(chain) == X509_V_OK) {
            X509_STORE_CTX_set_error(chain, X509_V_ERR_APPLICATION_VERIFICATION);
        }
        return 0;
    }
    return X509_STORE_CTX_get_error(chain) == X509_V_OK;
}

/* ---- identity of connections ---- */

/* The number of an SSL_CTX; assigning one prepares the SSL_CTX for client connections. */
static uintptr_t context_number(SSL_CTX *ctx)
{
    static uintptr_t last;

    if (context_number_index == -1) {
        context_number_index = SSL_CTX_get_ex_new_index(0, NULL, NULL, NULL, NULL);
        session_key_index = SSL_get_ex_new_index(0, NULL, NULL, NULL, NULL);
    }
    uintptr_t number = (uintptr_t) SSL_CTX_get_ex_data(ctx, context_number_index);
    if (number == 0) {
        number = ++last;
        SSL_CTX_set_ex_data(ctx, context_number_index, (void *) number);
        SSL_CTX_set_session_cache_mode(ctx, SSL_SESS_CACHE_CLIENT | SSL_SESS_CACHE_NO_INTERNAL |
                                                SSL_SESS_CACHE_NO_AUTO_CLEAR);
        SSL_CTX_sess_set_new_cb(ctx, on_session);
        SSL_CTX_set_cert_verify_callback(ctx, on_verify, NULL);
    }
    return number;
}

static uint64_t hash_words(const uint64_t *words, size_t count)
{
    uint64_t hash = keyed_hash((struct str){(const char *) words, count * sizeof(*words)});

    return hash != 0 ? hash : 1;
}

uint64_t tls_client_identity(struct tls_context *context, const struct tls_client_options *options)
{
    const uint64_t words[] = {
        context_number(context->ctx),
        (uint64_t) options->sends_name | (uint64_t) options->verifies << 1,
        options->sends_name || options->verifies ? keyed_hash(options->name) : 0,
        keyed_hash(options->alpn),
        keyed_hash(options->certificate),
        keyed_hash(options->key),
        options->objects != NULL ? tls_objects_identity(options->objects) : 0,
    };

    return hash_words(words, sizeof(words) / sizeof(words[0]));
}

static uint64_t session_key(const struct conn *conn, const struct tls_client_options *options)
{
    struct addr addr;

    if (!options->reuses_session || options->identity == 0) {
        return 0;
    }
    conn_peer(conn, &addr);
    const uint64_t words[] = {
        options->identity,
        keyed_hash((struct str){(const char *) &addr.any, addr.len}),
    };
    return hash_words(words, 2);
}

/* ---- preparing the handshake ---- */

/* SNI contains host names, never addresses. */
static bool tls_client_is_name(struct str name)
{
    struct addr addr;

    return name.len != 0 && name.data[0] != '[' && !addr_parse_ip(name, &addr);
}

static bool send_name(SSL *ssl, struct str name)
{
    char text[NAME_MAX_LENGTH + 1];

    if (name.len > NAME_MAX_LENGTH || memchr(name.data, '\0', name.len) != NULL) {
        return false;
    }
    memcpy(text, name.data, name.len);
    text[name.len] = '\0';
    return SSL_set_tlsext_host_name(ssl, text) == 1;
}

/* Makes the SSL with the options applied. False: logged. */
static bool client_prepare(struct tls *tls, const struct tls_client_options *options, uint64_t key)
{
    SSL *ssl = tls_ssl_new(tls, tls->context->ctx);

    if (ssl == NULL) {
        return false;
    }
    SSL_set_connect_state(ssl);
    tls->client_hooks = options->hooks;
    if (options->hooks != NULL && options->hooks->certify != NULL) {
        SSL_set_cert_cb(ssl, on_certificate, NULL);
    }
    if (options->certificate.len != 0 &&
        !tls_use_certificate(tls->conn, options->certificate, options->key, options->passwords,
                             options->certificate_cache)) {
        return false;
    }
    if (options->sends_name && tls_client_is_name(options->name) &&
        !send_name(ssl, options->name)) {
        tls_log_at(tls->conn->log, LOG_ERROR, "SSL_set_tlsext_host_name() failed");
        return false;
    }
    if (options->alpn.len != 0 &&
        SSL_set_alpn_protos(ssl, (const unsigned char *) options->alpn.data,
                            (unsigned) options->alpn.len) != 0) {
        tls_log_at(tls->conn->log, LOG_ERROR, "SSL_set_alpn_protos() failed");
        return false;
    }
    if (options->objects != NULL && !tls_use_objects(ssl, options->objects, tls->conn->log)) {
        return false;
    }
    SSL_SESSION *session = key == 0 ? NULL : session_find(key);
    SSL_set_ex_data(ssl, session_key_index, (void *) (uintptr_t) key);
    if (session != NULL && SSL_set_session(ssl, session) != 1) {
        session_drop(key); /* it is not usable; a full handshake follows */
    }
    ERR_clear_error();
    return true;
}

bool tls_client_prepare(struct tls *tls, const struct tls_client_options *options)
{
    context_number(tls->context->ctx);
    return client_prepare(tls, options, session_key(tls->conn, options));
}

/* ---- verifying the peer ---- */

/* Is the certificate for this host: a name, or an address in its subjectAltName? */
bool tls_certificate_is_for(X509 *certificate, struct str name)
{
    char text[NAME_MAX_LENGTH + 1];

    if (name.len == 0 || name.len > NAME_MAX_LENGTH) {
        return false;
    }
    if (X509_check_host(certificate, name.data, name.len, 0, NULL) == 1) {
        return true;
    }
    if (name.len > 2 && name.data[0] == '[' && name.data[name.len - 1] == ']') {
        name = (struct str){name.data + 1, name.len - 2};
    }
    memcpy(text, name.data, name.len);
    text[name.len] = '\0';
    return X509_check_ip_asc(certificate, text, 0) == 1;
}

bool tls_client_is_right_peer(SSL *ssl, const struct tls_client_options *options,
                              const struct log *log)
{
    X509 *certificate = SSL_get0_peer_certificate(ssl);
    long result = SSL_get_verify_result(ssl);
    bool is_right = false;

    if (result != X509_V_OK) {
        log_error(log, 0, "upstream SSL certificate verify error: (%ld:%s)", result,
                  X509_verify_cert_error_string(result));
    } else if (certificate == NULL || !tls_certificate_is_for(certificate, options->name)) {
        log_error(log, 0, "upstream SSL certificate does not match \"%.*s\"",
                  STR_ARG(options->name));
    } else {
        is_right = true;
    }
    ERR_clear_error();
    return is_right;
}

/* ---- the handshake ---- */

/* One step of the handshake, run on the worker's own stack, since OpenSSL needs much stack. */
struct step {
    struct tls *tls;
    int kind; /* result of SSL_get_error */
};

static void step_run(void *arg)
{
    struct step *step = arg;
    struct tls *tls = step->tls;
    struct conn *conn = tls->conn;

    tls_clear_errors();
    tls->is_raw_readable = conn->is_readable;
    tls_gather_begin(tls);
    int result = SSL_do_handshake(tls->ssl);
    step->kind = result == 1 ? SSL_ERROR_NONE : SSL_get_error(tls->ssl, result);
    tls_gather_end(tls, false);
    conn->is_readable = tls->is_raw_readable || SSL_has_pending(tls->ssl) != 0;
    tls_flush(conn); /* what the socket did not accept is sent when it is writable */
}

/* Logs why the handshake failed. Gives the errno, or 0. */
static int tls_client_say_failure(const struct tls *tls, const struct step *step,
                                  const struct log *log)
{
    if (tls->io_error == ECONNRESET || tls->io_error == EPIPE) {
        log_error(log, tls->io_error, "peer closed connection in SSL handshake");
    } else if (tls->io_error != 0) {
        log_crit(log, tls->io_error, "SSL_do_handshake() failed");
    } else if (tls->is_raw_closed || step->kind == SSL_ERROR_SYSCALL ||
               step->kind == SSL_ERROR_ZERO_RETURN) {
        log_error(log, 0, "peer closed connection in SSL handshake");
    } else {
        tls_log_at(log, tls_backend_level(ERR_peek_last_error()), "SSL_do_handshake() failed");
    }
    ERR_clear_error();
    return tls->io_error;
}

/* Waits until the socket may have what the last step lacked. MAY WAIT. */
static enum wait_result await(struct tls *tls, const struct step *step, uint64_t deadline_ms)
{
    struct conn *conn = tls->conn;

    if (step->kind == SSL_ERROR_WANT_READ) {
        return conn_wait_input(conn, deadline_ms);
    }
    /* Only if OpenSSL writes to the socket itself: tls_transport's drain then calls back. */
    tls->wants_write = true;
    conn->is_output_waiting = 1;
    conn->is_writable = 0;
    conn->input_wait.is_signalled = false;
    if (!event_want_output(&conn->source)) {
        conn_break(conn, errno);
        return WAIT_READY;
    }
    return fiber_wait(&conn->input_wait, deadline_ms);
}

/* Performs the handshake. MAY WAIT. */
static enum tls_connected shake_hands(struct tls *tls, const struct tls_connecting *connecting,
                                      const struct log *log, int *error)
{
    struct step step = {.tls = tls};

    tls->deadline_ms = connecting->deadline_ms;
    for (;;) {
        if (tls->client_hooks != NULL) {
            step_run(&step); /* with scripts, which may wait */
        } else {
            fiber_call_on_main(step_run, &step);
        }
        enum wait_result waited = tls->asked_wait;
        if (waited == WAIT_READY) {
            if (tls->io_error == 0 && step.kind == SSL_ERROR_NONE) {
                return TLS_CONNECTED;
            }
            if (tls->io_error != 0 ||
                (step.kind != SSL_ERROR_WANT_READ && step.kind != SSL_ERROR_WANT_WRITE)) {
                *error = tls_client_say_failure(tls, &step, log);
                return TLS_CONNECT_FAILED;
            }
            if (step.kind == SSL_ERROR_WANT_READ && tls->conn->is_input_closed) {
                /* Before the handshake began. */
                log_error(log, 0, "peer closed connection in SSL handshake");
                return TLS_CONNECT_FAILED;
            }
            waited = await(tls, &step, connecting->deadline_ms);
        }
        switch (waited) {
        case WAIT_CANCELLED:
            return TLS_CONNECT_CANCELLED;
        case WAIT_TIMED_OUT:
            *error = ETIMEDOUT;
            if (!connecting->tells_timeout) {
                log_error(log, ETIMEDOUT, "upstream timed out");
            }
            return TLS_CONNECT_TIMED_OUT;
        case WAIT_READY:
            break;
        }
        if (tls->conn->is_broken) {
            *error = tls->conn->error;
            log_error(log, *error, "peer closed connection in SSL handshake");
            return TLS_CONNECT_FAILED;
        }
    }
}

static enum tls_connected establish(struct tls *tls, const struct tls_connecting *connecting,
                                    struct log *log, int *error)
{
    const struct tls_client_options *options = connecting->options;
    uint64_t key = session_key(tls->conn, options);

    if (!client_prepare(tls, options, key)) {
        return TLS_CONNECT_ERROR;
    }
    log->action = connecting->action;
    enum tls_connected result = shake_hands(tls, connecting, log, error);
    if (result == TLS_CONNECTED) {
        tls->is_established = true;
        tls->took_ms = (uint32_t) clock_now.now_ms - tls->start_ms;
        if (options->verifies && !tls_client_is_right_peer(tls->ssl, options, log)) {
            result = TLS_CONNECT_FAILED;
        }
    } else {
        tls->is_failed = true;
    }
    if (result == TLS_CONNECT_FAILED) {
        session_drop(key); /* the peer may have rejected it */
    }
    return result;
}

enum tls_connected tls_connect(struct conn *conn, const struct tls_connecting *connecting,
                               int *error)
{
    /* Input NULL: input wakes the fiber. */
    static const struct conn_owner waiting = {.input = NULL};
    const struct conn_owner *owner = conn->owner;
    struct log *conn_log = conn->log;
    struct log shaking = *connecting->log;
    struct tls *tls = tls_attach(conn, connecting->context);

    *error = 0;
    tls->is_client = true;
    context_number(connecting->context->ctx);
    conn->owner = &waiting;
    conn->log = &shaking;
    enum tls_connected result = establish(tls, connecting, &shaking, error);
    conn->log = conn_log;
    conn->owner = owner;
    return result;
}
