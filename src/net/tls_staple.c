/* OCSP stapling (RFC 6066, 8). */
#include "net/tls_private.h"

bool tls_staples_init(struct tls_context *context, SSL_CTX *ctx, struct vec *identities,
                      struct arena *arena, const struct log *log, struct str *error)
{
    (void) context; (void) ctx; (void) identities; (void) arena; (void) log; (void) error;
    return true;
}
void tls_staple_free(struct tls_staple *staple) { (void) staple; }
void tls_staples_start(const struct log *log) { (void) log; }
void tls_staples_end(void) {}
enum tls_progress tls_ocsp_check(struct tls *tls) { (void) tls; return TLS_DONE; }
void tls_ocsp_forget(struct tls *tls) { (void) tls; }
