/* OpenSSL's errors as text, and their log levels. */
#include <errno.h>
#include <openssl/err.h>

#include "base/buf.h"
#include "net/tls/private.h"

#define REASON_MAX 1600 /* bytes of all errors of one line */

/* Appends one error: "error:0A0000B9:SSL routines::no cipher match", and what the library adds. */
static void put_error(struct writer *writer, unsigned long code, const char *data, int flags)
{
    char text[256];

    ERR_error_string_n(code, text, sizeof(text));
    writer_put(writer, str_of(text));
    if ((flags & ERR_TXT_STRING) != 0 && data != NULL && data[0] != '\0') {
        writer_printf(writer, ":%s", data);
    }
}

/* All errors of OpenSSL's queue, in order; empties the queue. */
static struct str drain_errors(char *text, size_t size)
{
    struct writer writer = {text, text + size};
    const char *data;
    unsigned long code;
    int flags;
    bool is_first = true;

    while ((code = ERR_get_error_all(NULL, NULL, NULL, &data, &flags)) != 0) {
        if (!is_first) {
            writer_put(&writer, STR(" "));
        }
        is_first = false;
        put_error(&writer, code, data, flags);
    }
    return str_from(text, writer.at);
}

struct str tls_reason(struct arena *arena, const char *format, ...)
{
    char text[REASON_MAX];
    va_list args;

    va_start(args, format);
    struct str what = arena_vprintf(arena, format, args);
    va_end(args);
    struct str errors = drain_errors(text, sizeof(text));
    if (errors.len == 0) {
        return what;
    }
    return arena_printf(arena, "%.*s (SSL: %.*s)", STR_ARG(what), STR_ARG(errors));
}

void tls_log_at(const struct log *log, enum log_level level, const char *what)
{
    char text[REASON_MAX];

    if (log->level < level) {
        ERR_clear_error();
        return;
    }
    struct str errors = drain_errors(text, sizeof(text));
    if (errors.len == 0) {
        log_at(log, level, 0, "%s", what);
    } else {
        log_at(log, level, 0, "%s (SSL: %.*s)", what, STR_ARG(errors));
    }
}

/*
 * Errors of the TLS library about records and messages are caused by the peer. Errors of other
 * parts of OpenSSL, of memory, and those that it calls internal are ours.
 */
static enum log_level level_of(unsigned long code)
{
    if (code == 0) {
        return LOG_INFO;
    }
    if (ERR_GET_LIB(code) != ERR_LIB_SSL) {
        return LOG_CRIT;
    }
    switch (ERR_GET_REASON(code)) {
    case ERR_R_MALLOC_FAILURE:
    case ERR_R_INTERNAL_ERROR:
    case ERR_R_PASSED_NULL_PARAMETER:
    case SSL_R_NO_CERTIFICATE_ASSIGNED:
    case SSL_R_NO_PRIVATE_KEY_ASSIGNED:
    case SSL_R_LIBRARY_BUG:
    case SSL_R_UNINITIALIZED:
        return LOG_CRIT;
    default:
        return LOG_INFO;
    }
}

enum log_level tls_backend_level(unsigned long code)
{
    bool is_ours = ERR_GET_LIB(code) == ERR_LIB_SSL &&
                   (ERR_GET_REASON(code) == SSL_R_CERTIFICATE_VERIFY_FAILED ||
                    ERR_GET_REASON(code) == SSL_R_CALLBACK_FAILED);

    return is_ours || level_of(code) == LOG_CRIT ? LOG_CRIT : LOG_ERROR;
}

static enum tls_failure last_failure;

enum tls_failure tls_last_failure(void)
{
    return last_failure;
}

void tls_forget_failure(void)
{
    last_failure = TLS_FAILURE_OTHER;
}

static enum tls_failure failure_of(unsigned long code)
{
    switch (ERR_GET_LIB(code) == ERR_LIB_SSL ? ERR_GET_REASON(code) : 0) {
    case SSL_R_UNSUPPORTED_PROTOCOL:
    case SSL_R_NO_PROTOCOLS_AVAILABLE:
    case SSL_R_VERSION_TOO_LOW:
    case SSL_R_WRONG_VERSION_NUMBER:
        return TLS_NO_PROTOCOL;
    case SSL_R_NO_SHARED_CIPHER:
        return TLS_NO_CIPHER;
    case SSL_R_SSLV3_ALERT_BAD_CERTIFICATE:
    case SSL_R_SSLV3_ALERT_CERTIFICATE_EXPIRED:
    case SSL_R_SSLV3_ALERT_CERTIFICATE_REVOKED:
    case SSL_R_SSLV3_ALERT_CERTIFICATE_UNKNOWN:
    case SSL_R_SSLV3_ALERT_UNSUPPORTED_CERTIFICATE:
    case SSL_R_TLSV1_ALERT_UNKNOWN_CA:
        return TLS_REJECTED_CERTIFICATE;
    default:
        return TLS_FAILURE_OTHER;
    }
}

void tls_log_failure(const struct log *log, const char *what)
{
    last_failure = failure_of(ERR_peek_last_error());
    /* The last error is the one that the call failed with; earlier ones led to it. */
    tls_log_at(log, level_of(ERR_peek_last_error()), what);
}

void tls_log_errno(const struct log *log, int error, const char *what)
{
    switch (error) {
    case ECONNRESET:
    case ENOTCONN:
    case ETIMEDOUT:
    case ECONNREFUSED:
    case ENETDOWN:
    case ENETUNREACH:
    case EHOSTDOWN:
    case EHOSTUNREACH:
    case EPIPE:
        log_info(log, error, "%s", what);
        break;
    default:
        log_crit(log, error, "%s", what);
        break;
    }
    ERR_clear_error();
}
