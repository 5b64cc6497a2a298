/* Parts of a context: certificates, trusted authorities, and the id that separates its sessions
 * from those of other contexts. */
#include <errno.h>
#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/x509.h>
#include <openssl/x509v3.h>
#include <sys/uio.h>

#include "net/tls/private.h"

#if TLS_HAS_ECH
#include <openssl/ech.h>
#endif

/* ---- certificates ---- */

void tls_identities_free(struct vec *identities)
{
    vec_each(struct tls_identity, identity, identities) {
        X509_free(identity->leaf);
        X509_free(identity->issuer);
        if (identity->staple != NULL) {
            tls_staple_free(identity->staple);
        }
    }
    *identities = (struct vec){0};
}

/* Finds the issuer of the leaf in the chain. */
static X509 *issuer_in(const STACK_OF(X509) * chain, X509 *leaf)
{
    for (int i = 0; i < sk_X509_num(chain); i++) {
        X509 *one = sk_X509_value(chain, i);
        if (X509_check_issued(one, leaf) == X509_V_OK) {
            X509_up_ref(one);
            return one;
        }
    }
    return NULL;
}

static bool use_chain(struct tls_making *making, struct str name, STACK_OF(X509) * chain,
                      struct tls_identity *identity)
{
    X509 *leaf = sk_X509_shift(chain);

    identity->name = arena_dup(making->arena, name);
    identity->leaf = leaf;
    identity->issuer = issuer_in(chain, leaf);
    if (SSL_CTX_use_certificate(making->ctx, leaf) == 0) {
        sk_X509_pop_free(chain, X509_free);
        *making->error =
            tls_reason(making->arena, "SSL_CTX_use_certificate(\"%.*s\") failed", STR_ARG(name));
        return false;
    }
    if (SSL_CTX_set0_chain(making->ctx, chain) == 0) {
        sk_X509_pop_free(chain, X509_free);
        *making->error =
            tls_reason(making->arena, "SSL_CTX_set0_chain(\"%.*s\") failed", STR_ARG(name));
        return false;
    }
    return true;
}

bool tls_key_fits(X509 *certificate, EVP_PKEY *key)
{
    return EVP_PKEY_get_base_id(X509_get0_pubkey(certificate)) == EVP_PKEY_get_base_id(key) ||
           X509_check_private_key(certificate, key) == 1;
}

bool tls_apply_certificates(struct tls_making *making, const struct tls_settings *settings)
{
    vec_each(struct tls_certificate, pair, &settings->certificates) {
        /* While the configuration is read, passwords may be asked for at the terminal; later
         * not. */
        const struct vec *passwords = &settings->passwords;
        if (making->cache == NULL && passwords->count == 0) {
            passwords = NULL;
        }
        STACK_OF(X509) *chain =
            tls_load_chain(making->cache, making->arena, pair->certificate, making->error);
        if (chain == NULL) {
            return false;
        }
        struct tls_identity *identity =
            vec_add(making->identities, making->arena, struct tls_identity);
        if (!use_chain(making, pair->certificate, chain, identity)) {
            return false;
        }
        EVP_PKEY *key =
            tls_load_key(making->cache, making->arena, pair->key, passwords, making->error);
        if (key == NULL) {
            return false;
        }
        bool is_used =
            SSL_CTX_use_PrivateKey(making->ctx, key) == 1 && tls_key_fits(identity->leaf, key);
        EVP_PKEY_free(key);
        if (!is_used) {
            struct str name = str_starts(pair->key, STR("data:")) ? STR("data:...") : pair->key;
            *making->error =
                tls_reason(making->arena, "SSL_CTX_use_PrivateKey(\"%.*s\") failed", STR_ARG(name));
            return false;
        }
    }
    return true;
}

/* ---- verification ---- */

/* The handshake continues whatever is wrong with a client's certificate: the request is refused
 * later. */
static int accept_any(int is_good, X509_STORE_CTX *store)
{
    return 1;
}

/* Sends the names of authorities to clients, each once even if a file contains it several times. */
static bool send_name_of(SSL_CTX *ctx, X509 *authority)
{
    const STACK_OF(X509_NAME) *names = SSL_CTX_get_client_CA_list(ctx);

    for (int i = 0; i < sk_X509_NAME_num(names); i++) {
        if (X509_NAME_cmp(sk_X509_NAME_value(names, i), X509_get_subject_name(authority)) == 0) {
            return true;
        }
    }
    return SSL_CTX_add_client_CA(ctx, authority) == 1;
}

static bool trust(struct tls_making *making, struct str name, bool sends_names)
{
    STACK_OF(X509) *list = tls_load_ca(making->cache, making->arena, name, making->error);
    X509_STORE *store = SSL_CTX_get_cert_store(making->ctx);
    bool is_good = list != NULL;

    for (int i = 0; is_good && i < sk_X509_num(list); i++) {
        X509 *one = sk_X509_value(list, i);
        is_good = X509_STORE_add_cert(store, one) == 1;
        if (is_good && sends_names) {
            is_good = send_name_of(making->ctx, one);
        }
        if (!is_good) {
            *making->error =
                tls_reason(making->arena, "X509_STORE_add_cert(\"%.*s\") failed", STR_ARG(name));
        }
    }
    sk_X509_pop_free(list, X509_free);
    return is_good;
}

static bool use_crl(struct tls_making *making, struct str name)
{
    STACK_OF(X509_CRL) *list = tls_load_crl(making->cache, making->arena, name, making->error);
    X509_STORE *store = SSL_CTX_get_cert_store(making->ctx);
    bool is_good = list != NULL;

    for (int i = 0; is_good && i < sk_X509_CRL_num(list); i++) {
        is_good = X509_STORE_add_crl(store, sk_X509_CRL_value(list, i)) == 1;
        if (!is_good) {
            *making->error =
                tls_reason(making->arena, "X509_STORE_add_crl(\"%.*s\") failed", STR_ARG(name));
        }
    }
    sk_X509_CRL_pop_free(list, X509_CRL_free);
    if (is_good) {
        X509_STORE_set_flags(store, X509_V_FLAG_CRL_CHECK | X509_V_FLAG_CRL_CHECK_ALL);
    }
    return is_good;
}

bool tls_apply_verification(struct tls_making *making, const struct tls_settings *settings)
{
    if (settings->verify != TLS_VERIFY_OFF) {
        /* A client checks the result and the name after the handshake. */
        SSL_CTX_set_verify(making->ctx, SSL_VERIFY_PEER, accept_any);
    }
    SSL_CTX_set_verify_depth(making->ctx, (int) settings->verify_depth);
    if (settings->client_certificate.len != 0 &&
        !trust(making, settings->client_certificate, true)) {
        return false;
    }
    if (settings->trusted_certificate.len != 0 &&
        !trust(making, settings->trusted_certificate, false)) {
        return false;
    }
    return settings->crl.len == 0 || use_crl(making, settings->crl);
}

/* ---- encrypted ClientHello ---- */

#if TLS_HAS_ECH
/* Clients whose key is not usable get the first file's (RFC 9849, 7.1). */
static bool read_ech(OSSL_ECHSTORE *store, struct arena *arena, struct str name, int for_retry,
                     struct str *error)
{
    BIO *bio = BIO_new_file(arena_cstr(arena, name), "r");

    if (bio == NULL) {
        *error = tls_reason(arena, "BIO_new_file(\"%.*s\") failed", STR_ARG(name));
        return false;
    }
    bool is_good = OSSL_ECHSTORE_read_pem(store, bio, for_retry) == 1;
    BIO_free(bio);
    if (!is_good) {
        *error = tls_reason(arena, "OSSL_ECHSTORE_read_pem(\"%.*s\") failed", STR_ARG(name));
    }
    return is_good;
}

bool tls_apply_ech(SSL_CTX *ctx, const struct tls_settings *settings, struct arena *arena,
                   struct str *error)
{
    const struct vec *files = &settings->ech_files;

    if (files->count == 0) {
        return true;
    }
    OSSL_ECHSTORE *store = OSSL_ECHSTORE_new(NULL, NULL);
    if (store == NULL) {
        *error = tls_reason(arena, "OSSL_ECHSTORE_new() failed");
        return false;
    }
    bool is_good = true;
    for (size_t i = 0; is_good && i < files->count; i++) {
        is_good = read_ech(store, arena, *vec_at(files, struct str, i),
                           i == 0 ? OSSL_ECH_FOR_RETRY : OSSL_ECH_NO_RETRY, error);
    }
    if (is_good && SSL_CTX_set1_echstore(ctx, store) != 1) {
        *error = tls_reason(arena, "SSL_CTX_set1_echstore() failed");
        is_good = false;
    }
    OSSL_ECHSTORE_free(store);
    return is_good;
}
#else
bool tls_apply_ech(SSL_CTX *ctx, const struct tls_settings *settings, struct arena *arena,
                   struct str *error)
{
    return true; /* warn_of_missing has logged it */
}
#endif

/* ---- key log ---- */

/* Writes one line of NSS's key log format (RFC 9850); `line` has no newline. */
void tls_key_log(const SSL *ssl, const char *line)
{
    static bool was_logged;
    const struct log_file *file = tls_chosen_context(ssl)->settings.key_log;
    struct iovec parts[] = {{(void *) (uintptr_t) line, strlen(line)}, {(void *) "\n", 1}};

    if (file == NULL || file->fd < 0) {
        return;
    }
    /* In one write, since other workers write to the file as well. */
    bool is_written = writev(file->fd, parts, 2) == (ssize_t) (parts[0].iov_len + 1);
    if (!is_written && !was_logged) {
        log_alert(log_main, errno, "write to the key log \"%.*s\" failed", STR_ARG(file->path));
    }
    was_logged = !is_written;
}

void tls_apply_key_log(SSL_CTX *ctx, const struct tls_settings *settings)
{
    if (settings->key_log != NULL) {
        SSL_CTX_set_keylog_callback(ctx, tls_key_log);
    }
}

/* ---- session id context ---- */

static bool digest_text(EVP_MD_CTX *md, struct str text)
{
    return EVP_DigestUpdate(md, &text.len, sizeof(text.len)) == 1 &&
           EVP_DigestUpdate(md, text.data, text.len) == 1;
}

static bool digest_certificate(EVP_MD_CTX *md, X509 *certificate)
{
    unsigned char hash[EVP_MAX_MD_SIZE];
    unsigned len;

    return X509_digest(certificate, EVP_sha1(), hash, &len) == 1 &&
           EVP_DigestUpdate(md, hash, len) == 1;
}

static bool digest_object(EVP_MD_CTX *md, const X509_OBJECT *object)
{
    unsigned char hash[EVP_MAX_MD_SIZE];
    unsigned len;

    if (X509_OBJECT_get_type(object) == X509_LU_CRL) {
        return X509_CRL_digest(X509_OBJECT_get0_X509_CRL((X509_OBJECT *) (uintptr_t) object),
                               EVP_sha256(), hash, &len) == 1 &&
               EVP_DigestUpdate(md, hash, len) == 1;
    }
    return digest_certificate(md, X509_OBJECT_get0_X509(object));
}

/* The contents of authorities and revocation lists: other contents of a file with the same name
 * make a difference. */
static bool digest_store(EVP_MD_CTX *md, X509_STORE *store)
{
#if OPENSSL_VERSION_NUMBER >= 0x40000000L
    STACK_OF(X509_OBJECT) *objects = X509_STORE_get1_objects(store);
#else
    const STACK_OF(X509_OBJECT) *objects = X509_STORE_get0_objects(store);
#endif
    bool is_good = objects != NULL;

    for (int i = 0; is_good && i < sk_X509_OBJECT_num(objects); i++) {
        is_good = digest_object(md, sk_X509_OBJECT_value(objects, i));
    }
#if OPENSSL_VERSION_NUMBER >= 0x40000000L
    sk_X509_OBJECT_pop_free(objects, X509_OBJECT_free);
#endif
    return is_good;
}

/* Everything that determines how a client's certificate was verified. */
static bool digest_verification(EVP_MD_CTX *md, SSL_CTX *ctx, const struct tls_settings *settings)
{
    const unsigned modes[] = {settings->verify, settings->verify_depth, settings->ocsp};

    return settings->verify == TLS_VERIFY_OFF ||
           (EVP_DigestUpdate(md, modes, sizeof(modes)) == 1 &&
            digest_text(md, settings->trusted_certificate) && digest_text(md, settings->crl) &&
            digest_store(md, SSL_CTX_get_cert_store(ctx)));
}

static bool digest_all(EVP_MD_CTX *md, SSL_CTX *ctx, const struct tls_settings *settings)
{
    bool is_good =
        EVP_DigestInit_ex(md, EVP_sha256(), NULL) == 1 && EVP_DigestUpdate(md, "HTTP", 4) == 1;

    for (int more = SSL_CTX_set_current_cert(ctx, SSL_CERT_SET_FIRST); is_good && more == 1;
         more = SSL_CTX_set_current_cert(ctx, SSL_CERT_SET_NEXT)) {
        X509 *certificate = SSL_CTX_get0_certificate(ctx);
        is_good = certificate == NULL || digest_certificate(md, certificate);
    }
    vec_each(const struct str, name, &settings->variable_names) {
        is_good = is_good && digest_text(md, *name);
    }
    is_good = is_good && digest_verification(md, ctx, settings);
    const STACK_OF(X509_NAME) *names = SSL_CTX_get_client_CA_list(ctx);
    for (int i = 0; is_good && i < sk_X509_NAME_num(names); i++) {
        unsigned char hash[EVP_MAX_MD_SIZE];
        unsigned len;
        is_good = X509_NAME_digest(sk_X509_NAME_value(names, i), EVP_sha1(), hash, &len) == 1 &&
                  EVP_DigestUpdate(md, hash, len) == 1;
    }
    return is_good;
}

/*
 * Sessions may be resumed by servers with the same certificates, client authorities and revocation
 * lists (RFC 8446, 4.6.1: what was authenticated for a session must hold where it is resumed).
 * Otherwise a client whose certificate was revoked meanwhile could resume a session, which contains
 * no sign of that.
 */
bool tls_apply_session_id_context(SSL_CTX *ctx, const struct tls_settings *settings,
                                  struct arena *arena, struct str *error)
{
    unsigned char hash[EVP_MAX_MD_SIZE];
    unsigned len = 0;
    EVP_MD_CTX *md = EVP_MD_CTX_new();
    bool is_good = md != NULL && digest_all(md, ctx, settings) &&
                   EVP_DigestFinal_ex(md, hash, &len) == 1 &&
                   SSL_CTX_set_session_id_context(ctx, hash, len) == 1;

    EVP_MD_CTX_free(md);
    if (!is_good) {
        *error = tls_reason(arena, "SSL_CTX_set_session_id_context() failed");
    }
    return is_good;
}
