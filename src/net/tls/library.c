/* OpenSSL as a whole: made ready once, where our things hang on its objects, all contexts of this process. */
#include <openssl/err.h>
#include <openssl/ssl.h>

#include "net/tls/private.h"

int tls_context_index = -1;
int tls_index = -1;
struct tls_context *tls_contexts;

void tls_library_init(void)
{
    if (tls_index != -1) {
        return;
    }
    tls_memory_init();
    OPENSSL_init_ssl(OPENSSL_INIT_LOAD_CONFIG | OPENSSL_INIT_LOAD_SSL_STRINGS, NULL);
    tls_context_index = SSL_CTX_get_ex_new_index(0, NULL, NULL, NULL, NULL);
    tls_index = SSL_get_ex_new_index(0, NULL, NULL, NULL, NULL);
    ERR_clear_error();
}

const char *tls_version_built(void)
{
    return OPENSSL_VERSION_TEXT;
}

const char *tls_version_running(void)
{
    return OpenSSL_version(OPENSSL_VERSION);
}
