/* Scripts in handshakes with backends. */
#include "lua/tls/backend.h"

#include <openssl/x509.h>

/* Runs the code; false: the handshake fails. MAY WAIT. */
static bool script_backend_run(struct script_backend *backend, const struct script_code *code,
                               enum script_phase phase, const char *action)
{
    struct script_subject *subject = backend->subject;
    struct script_call call = {.subject = subject, .phase = phase, .code = code};
    const char *former = subject->log->action;

    subject->exit_code = 0;
    subject->log->action = action;
    enum script_end end = script_run(&call);
    bool is_good = script_tls_agrees(end, subject->exit_code);

    if (end != SCRIPT_CANCELLED) {
        log_info(subject->log, 0, "%s: handler return value: %d, %s exit code: %d",
                 phase == SCRIPT_PROXY_VERIFY ? "proxy_ssl_verify_by_lua"
                                              : "proxy_ssl_certificate_by_lua",
                 end == SCRIPT_FAILED ? 500 : subject->exit_code,
                 phase == SCRIPT_PROXY_VERIFY ? "cert verify callback" : "cert cb", is_good);
    }
    subject->log->action = former;
    return is_good;
}

static bool script_backend_certify(SSL *ssl, void *arg)
{
    struct script_backend *backend = arg;

    backend->ssl = ssl;
    bool is_good =
        script_backend_run(backend, backend->codes->certificate, SCRIPT_PROXY_CERTIFICATE,
                           "loading proxy ssl certificate by lua");
    backend->ssl = NULL;
    return is_good;
}

static bool verify(SSL *ssl, X509_STORE_CTX *chain, void *arg)
{
    struct script_backend *backend = arg;

    backend->ssl = ssl;
    backend->chain = chain;
    bool is_good = script_backend_run(backend, backend->codes->verify, SCRIPT_PROXY_VERIFY,
                                      "loading proxy ssl verify by lua");
    backend->ssl = NULL;
    backend->chain = NULL;
    return is_good;
}

const struct tls_client_hooks *script_backend_hooks(struct script_backend *backend,
                                                    struct script_subject *subject,
                                                    const struct script_backend_codes *codes)
{
    backend->subject = subject;
    backend->codes = codes;
    backend->hooks =
        (struct tls_client_hooks){.certify =
                                      codes->certificate != NULL ? script_backend_certify : NULL,
                                  .verify = codes->verify != NULL ? verify : NULL,
                                  .skips_default = codes->skips_default,
                                  .arg = backend};
    return &backend->hooks;
}

/* ---- ngx.ssl.proxysslverify ---- */

static X509_STORE_CTX *verified(char **error)
{
    struct script_subject *subject = script_running_subject();
    struct script_backend *backend =
        subject == NULL || subject->kind->backend == NULL ? NULL : subject->kind->backend(subject);

    if (!script_runs_in(SCRIPT_PROXY_VERIFY) || backend == NULL || backend->chain == NULL) {
        *error = (char *) (uintptr_t) "API disabled in the current context";
        return NULL;
    }
    return backend->chain;
}

static int verify_result(void *r, char **error)
{
    X509_STORE_CTX *chain = verified(error);

    return chain == NULL ? SCRIPT_TLS_ERROR : X509_STORE_CTX_get_error(chain);
}

static int set_verify_result(void *r, int result, char **error)
{
    X509_STORE_CTX *chain = verified(error);

    if (chain == NULL) {
        return SCRIPT_TLS_ERROR;
    }
    X509_STORE_CTX_set_error(chain, result);
    return SCRIPT_TLS_OK;
}

/* The backend's chain, its own certificate first; to be freed. */
static void *verify_cert(void *r, char **error)
{
    X509_STORE_CTX *chain = verified(error);
    STACK_OF(X509) *sent = chain == NULL ? NULL : X509_STORE_CTX_get0_untrusted(chain);

    if (chain == NULL) {
        return NULL;
    }
    if (sent == NULL) {
        *error = (char *) (uintptr_t) "X509_STORE_CTX_get0_untrusted() failed";
        return NULL;
    }
    return X509_chain_up_ref(sent);
}

SCRIPT_FFI_NAME(verify_result, proxy_ssl_get_verify_result);
SCRIPT_FFI_NAME(set_verify_result, proxy_ssl_set_verify_result);
SCRIPT_FFI_NAME(verify_cert, proxy_ssl_get_verify_cert);
