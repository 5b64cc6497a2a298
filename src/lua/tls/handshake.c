/* Scripts in handshakes: what they run as, and what their end means. */
#include "lua/tls/tls.h"

#include <lauxlib.h>
#include <stdlib.h>

#include "base/buf.h"
#include "base/fatal.h"
#include "lua/vm/context.h"
#include "net/conn/conn.h"

static struct script_handshake *handshake_of(struct script_subject *subject)
{
    return container_of(subject, struct script_handshake, subject);
}

static struct conn *client(struct script_subject *subject)
{
    return handshake_of(subject)->conn;
}

static SSL *ssl(struct script_subject *subject)
{
    return handshake_of(subject)->ssl;
}

const struct script_subject_kind script_handshake_kind = {.name = "handshake",
                                                          .client = client,
                                                          .ssl = ssl};

struct script_handshake *script_tls_handshake(void)
{
    struct script_subject *subject = script_running_subject();

    return subject != NULL && subject->kind == &script_handshake_kind ? handshake_of(subject)
                                                                      : NULL;
}

SSL *script_tls_ssl(void)
{
    struct script_subject *subject = script_running_subject();

    return subject == NULL || subject->kind->ssl == NULL ? NULL : subject->kind->ssl(subject);
}

SSL *script_tls_upstream_ssl(void)
{
    struct script_subject *subject = script_running_subject();

    return subject == NULL || subject->kind->upstream_ssl == NULL
               ? NULL
               : subject->kind->upstream_ssl(subject);
}

/* ", context: ssl_certificate_by_lua*", and what the connection's lines say. */
static void script_handshake_describe(const struct log *log, struct writer *out)
{
    const struct script_handshake *handshake = log->subject;

    log_member(out, "context");
    writer_put(out, str_of(script_phase_text(handshake->phase)));
    if (handshake->connection_log.describe != NULL) {
        handshake->connection_log.describe(&handshake->connection_log, out);
    }
}

/* ---- ngx.ctx of a connection, for what comes after its handshake: with OpenSSL's object, which
 * lives as long */

struct pooled_context {
    struct script_vm *vm;
    int position; /* LUA_NOREF: no script has asked for it */
};

static void free_kept(void *ssl, void *data, CRYPTO_EX_DATA *all, int index, long number, void *arg)
{
    struct pooled_context *context = data;

    if (context != NULL) {
        script_context_release(context->vm, context->position);
        free(context);
    }
}

static int kept_index(void)
{
    static int index = -1;

    if (index < 0) {
        index = SSL_get_ex_new_index(0, NULL, NULL, NULL, free_kept);
        if (index < 0) {
            fatal_no_memory(0);
        }
    }
    return index;
}

int *script_handshake_context(SSL *ssl, struct script_vm *vm)
{
    struct pooled_context *context = SSL_get_ex_data(ssl, kept_index());

    if (context == NULL) {
        context = malloc(sizeof(*context));
        if (context == NULL || SSL_set_ex_data(ssl, kept_index(), context) == 0) {
            fatal_no_memory(sizeof(*context));
        }
        *context = (struct pooled_context){vm, LUA_NOREF};
    }
    return &context->position;
}

int script_handshake_context_of(const SSL *ssl, const struct script_vm *vm)
{
    const struct pooled_context *context = SSL_get_ex_data(ssl, kept_index());

    return context != NULL && context->vm == vm ? context->position : LUA_NOREF;
}

/* ngx.ctx lives on in the connection, which is gone where the fiber was cancelled. */
static void give_context(const struct script_handshake_call *call,
                         struct script_handshake *handshake, int kept)
{
    struct script_subject *subject = &handshake->subject;

    if (call->context == NULL) {
        return;
    }
    if (!fiber_is_cancelled()) {
        *call->context = subject->context;
    } else if (subject->context != kept) {
        return;
    }
    subject->context = LUA_NOREF;
}

bool script_handshake_run(const struct script_handshake_call *call,
                          struct script_handshake *handshake)
{
    struct script_call run = {.subject = &handshake->subject,
                              .phase = call->phase,
                              .code = call->code};

    handshake->phase = call->phase;
    handshake->log = handshake->connection_log;
    handshake->log.action = NULL;
    handshake->log.describe = script_handshake_describe;
    handshake->log.subject = handshake;
    handshake->conn = call->conn;
    handshake->ssl = call->ssl;
    script_subject_begin(&handshake->subject, &script_handshake_kind, call->vm, &handshake->log);
    handshake->subject.settings = call->settings;
    int kept = call->context != NULL ? *call->context : LUA_NOREF;
    handshake->subject.context = kept;
    enum script_end end = script_run(&run);
    bool is_good = script_tls_agrees(end, handshake->subject.exit_code);

    give_context(call, handshake, kept);
    script_subject_end(&handshake->subject);
    if (call->name != NULL && (end == SCRIPT_ENDED || end == SCRIPT_LEFT)) {
        int code = end == SCRIPT_LEFT ? handshake->subject.exit_code : 0;

        log_at(&handshake->log, LOG_DEBUG, 0, "%s: handler return value: %d, cert cb exit code: %d",
               call->name, code, is_good);
    }
    return is_good;
}
