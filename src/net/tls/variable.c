/* What a connection negotiated, as text: the variables of ngx_http_ssl_module. */
#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/ssl.h>
#include <openssl/x509.h>
#include <stdlib.h>
#include <time.h>

#include "base/text.h"
#include "net/tls/private.h"

#if TLS_HAS_ECH
#include <openssl/ech.h>
#endif

typedef bool getter(const struct tls *tls, struct arena *arena, struct str *out);

/* ---- helpers ---- */

static bool give_text(struct arena *arena, const char *text, struct str *out)
{
    *out = text == NULL ? STR("") : arena_dup(arena, str_of(text));
    return out->len != 0;
}

/* Copies the contents of a memory BIO and frees it. */
static bool give_bio(struct arena *arena, BIO *bio, struct str *out)
{
    char *data;
    long size = BIO_get_mem_data(bio, &data);

    *out = size > 0 ? arena_dup(arena, (struct str){data, (size_t) size}) : STR("");
    BIO_free(bio);
    return true;
}

/* The client's certificate with a reference for the caller; or NULL. */
static X509 *peer_of(const struct tls *tls)
{
    return SSL_get1_peer_certificate(tls->ssl);
}

/* ---- the connection ---- */

static bool get_protocol(const struct tls *tls, struct arena *arena, struct str *out)
{
    return give_text(arena, SSL_get_version(tls->ssl), out);
}

static bool get_cipher(const struct tls *tls, struct arena *arena, struct str *out)
{
    return give_text(arena, SSL_get_cipher_name(tls->ssl), out);
}

static bool get_curve(const struct tls *tls, struct arena *arena, struct str *out)
{
    int nid = (int) SSL_get_negotiated_group(tls->ssl);

    if (nid == 0 || nid == NID_undef) {
        return false;
    }
    if (nid & TLSEXT_nid_unknown) {
        *out = arena_printf(arena, "0x%04x", nid & 0xffff);
        return true;
    }
    return give_text(arena, OBJ_nid2sn(nid), out);
}

static bool get_ciphers(const struct tls *tls, struct arena *arena, struct str *out)
{
    unsigned char *list;
    size_t size = (size_t) SSL_get0_raw_cipherlist(tls->ssl, NULL); /* bytes of one entry */
    size_t count = (size_t) SSL_get0_raw_cipherlist(tls->ssl, &list) / size;
    struct str *names = arena_array(arena, count * 2 + 1, sizeof(*names));
    size_t used = 0;

    for (size_t i = 0; i < count; i++) {
        const SSL_CIPHER *cipher = SSL_CIPHER_find(tls->ssl, list + i * size);

        names[used++] = cipher != NULL
                            ? str_of(SSL_CIPHER_get_name(cipher))
                            : arena_printf(arena, "0x%02x%02x", list[i * size], list[i * size + 1]);
        names[used++] = STR(":");
    }
    *out = arena_join(arena, names, used != 0 ? used - 1 : 0);
    return out->len != 0;
}

static bool get_curves(const struct tls *tls, struct arena *arena, struct str *out)
{
    int count = (int) SSL_get1_curves(tls->ssl, NULL);

    if (count <= 0) {
        return false;
    }
    int *groups = arena_array(arena, (size_t) count, sizeof(*groups));
    struct str *names = arena_array(arena, (size_t) count * 2, sizeof(*names));
    size_t used = 0;
    SSL_get1_curves(tls->ssl, groups);
    for (int i = 0; i < count; i++) {
        names[used++] = groups[i] & TLSEXT_nid_unknown
                            ? arena_printf(arena, "0x%04x", groups[i] & 0xffff)
                            : str_of(OBJ_nid2sn(groups[i]));
        names[used++] = STR(":");
    }
    *out = arena_join(arena, names, used - 1);
    return true;
}

/* Names of TLS 1.3's list (RFC 8446, 4.2.3) for the two-byte codes. */
static const struct {
    uint16_t code;
    const char *name;
} signature_schemes[] = {
    {0x0401, "rsa_pkcs1_sha256"},
    {0x0501, "rsa_pkcs1_sha384"},
    {0x0601, "rsa_pkcs1_sha512"},
    {0x0403, "ecdsa_secp256r1_sha256"},
    {0x0503, "ecdsa_secp384r1_sha384"},
    {0x0603, "ecdsa_secp521r1_sha512"},
    {0x0804, "rsa_pss_rsae_sha256"},
    {0x0805, "rsa_pss_rsae_sha384"},
    {0x0806, "rsa_pss_rsae_sha512"},
    {0x0807, "ed25519"},
    {0x0808, "ed448"},
    {0x0809, "rsa_pss_pss_sha256"},
    {0x080a, "rsa_pss_pss_sha384"},
    {0x080b, "rsa_pss_pss_sha512"},
    {0x0201, "rsa_pkcs1_sha1"},
    {0x0203, "ecdsa_sha1"},
};

static const char *scheme_name(unsigned code)
{
    for (size_t i = 0; i < sizeof(signature_schemes) / sizeof(signature_schemes[0]); i++) {
        if (signature_schemes[i].code == code) {
            return signature_schemes[i].name;
        }
    }
    return NULL;
}

static bool get_sigalgs(const struct tls *tls, struct arena *arena, struct str *out)
{
    int count = SSL_get_sigalgs(tls->ssl, -1, NULL, NULL, NULL, NULL, NULL);

    if (count <= 0) {
        return false;
    }
    struct str *names = arena_array(arena, (size_t) count * 2, sizeof(*names));
    size_t used = 0;
    for (int i = 0; i < count; i++) {
        unsigned char low = 0, high = 0;

        SSL_get_sigalgs(tls->ssl, i, NULL, NULL, NULL, &low, &high);
        unsigned code = (unsigned) high << 8 | low;
        const char *name = scheme_name(code);
        names[used++] = name != NULL ? str_of(name) : arena_printf(arena, "0x%04x", code);
        names[used++] = STR(":");
    }
    *out = arena_join(arena, names, used - 1);
    return true;
}

#if !TLS_HAS_SIGNATURE_NAMES
/* Builds a name in the form of that list from type and digest, which is all that older libraries
 * report. */
static bool make_scheme(struct arena *arena, int type, int digest, struct str *out)
{
    const char *hash = digest == NID_sha256   ? "sha256"
                       : digest == NID_sha384 ? "sha384"
                       : digest == NID_sha512 ? "sha512"
                       : digest == NID_sha1   ? "sha1"
                                              : "";
    const char *curve = digest == NID_sha256   ? "secp256r1_"
                        : digest == NID_sha384 ? "secp384r1_"
                        : digest == NID_sha512 ? "secp521r1_"
                                               : "";

    switch (type) {
    case EVP_PKEY_RSA:
        *out = arena_printf(arena, "rsa_pkcs1_%s", hash);
        return true;
    case EVP_PKEY_RSA_PSS:
        *out = arena_printf(arena, "rsa_pss_rsae_%s", hash);
        return true;
    case EVP_PKEY_EC:
        *out = arena_printf(arena, "ecdsa_%s%s", curve, hash);
        return true;
    case EVP_PKEY_ED25519:
        *out = STR("ed25519");
        return true;
    case EVP_PKEY_ED448:
        *out = STR("ed448");
        return true;
    default:
        return false;
    }
}
#endif

static bool get_sigalg(const struct tls *tls, struct arena *arena, struct str *out)
{
#if TLS_HAS_SIGNATURE_NAMES
    const char *name;

    return SSL_get0_signature_name(tls->ssl, &name) == 1 && give_text(arena, name, out);
#else
    int type = 0, digest = 0;

    return SSL_get_signature_type_nid(tls->ssl, &type) == 1 &&
           (SSL_get_signature_nid(tls->ssl, &digest) == 1 || type == EVP_PKEY_ED25519) &&
           make_scheme(arena, type, digest, out);
#endif
}

static bool get_client_sigalg(const struct tls *tls, struct arena *arena, struct str *out)
{
#if TLS_HAS_SIGNATURE_NAMES
    const char *name;

    return SSL_get0_peer_signature_name(tls->ssl, &name) == 1 && give_text(arena, name, out);
#else
    int type = 0, digest = 0;

    return SSL_get_peer_signature_type_nid(tls->ssl, &type) == 1 &&
           (SSL_get_peer_signature_nid(tls->ssl, &digest) == 1 || type == EVP_PKEY_ED25519) &&
           make_scheme(arena, type, digest, out);
#endif
}

static bool get_session_id(const struct tls *tls, struct arena *arena, struct str *out)
{
    unsigned len;
    SSL_SESSION *session = SSL_get0_session(tls->ssl);

    if (session == NULL) {
        return false;
    }
    const unsigned char *id = SSL_SESSION_get_id(session, &len);
    char *text = arena_text(arena, len * 2 + 1);
    *out = str_from(text, hex_encode(text, id, len));
    return len != 0;
}

static bool get_session_reused(const struct tls *tls, struct arena *arena, struct str *out)
{
    *out = SSL_session_reused(tls->ssl) ? STR("r") : STR(".");
    return true;
}

static bool get_early_data(const struct tls *tls, struct arena *arena, struct str *out)
{
    *out = STR("1");
    return tls->is_early && !SSL_is_init_finished(tls->ssl);
}

static bool get_server_name(const struct tls *tls, struct arena *arena, struct str *out)
{
    return give_text(arena, SSL_get_servername(tls->ssl, TLSEXT_NAMETYPE_host_name), out);
}

static bool get_alpn(const struct tls *tls, struct arena *arena, struct str *out)
{
    const unsigned char *name;
    unsigned len;

    SSL_get0_alpn_selected(tls->ssl, &name, &len);
    *out = len == 0 ? STR("") : arena_dup(arena, (struct str){(const char *) name, len});
    return len != 0;
}

static bool get_handshake_time_ms(const struct tls *tls, struct arena *arena, struct str *out)
{
    *out = arena_printf(arena, "%u", tls->took_ms);
    return true;
}

static bool get_handshake_time(const struct tls *tls, struct arena *arena, struct str *out)
{
    *out = arena_printf(arena, "%u.%03u", tls->took_ms / 1000, tls->took_ms % 1000);
    return true;
}

#if TLS_HAS_ECH
static struct str ech_status_text(int status)
{
    switch (status) {
    case SSL_ECH_STATUS_NOT_TRIED:
        return STR("NOT_TRIED");
    case SSL_ECH_STATUS_SUCCESS:
        return STR("SUCCESS");
    case SSL_ECH_STATUS_BACKEND:
        return STR("BACKEND");
    case SSL_ECH_STATUS_GREASE:
        return STR("GREASE");
    default:
        return STR("FAILED");
    }
}

/* The status, or the outer name (RFC 9849). */
static bool ech_of(const struct tls *tls, struct arena *arena, bool is_name, struct str *out)
{
    char *inner = NULL, *outer = NULL;
    int status = SSL_ech_get1_status(tls->ssl, &inner, &outer);
    bool is_there = true;

    if (is_name) {
        is_there = give_text(arena, outer, out);
    } else {
        *out = ech_status_text(status);
    }
    OPENSSL_free(inner);
    OPENSSL_free(outer);
    return is_there;
}

static bool get_ech_status(const struct tls *tls, struct arena *arena, struct str *out)
{
    return ech_of(tls, arena, false, out);
}

static bool get_ech_outer_name(const struct tls *tls, struct arena *arena, struct str *out)
{
    return ech_of(tls, arena, true, out);
}
#endif

/* ---- the client's certificate ---- */

static bool pem_of(const struct tls *tls, struct arena *arena, struct str *out)
{
    X509 *peer = peer_of(tls);
    BIO *bio = peer == NULL ? NULL : BIO_new(BIO_s_mem());
    bool is_good = bio != NULL && PEM_write_bio_X509(bio, peer) == 1;

    X509_free(peer);
    if (!is_good) {
        BIO_free(bio);
        return false;
    }
    return give_bio(arena, bio, out);
}

static bool get_raw_cert(const struct tls *tls, struct arena *arena, struct str *out)
{
    return pem_of(tls, arena, out);
}

/* For a header field: continuation lines begin with a tab, and the last line has no newline. */
static bool get_cert(const struct tls *tls, struct arena *arena, struct str *out)
{
    struct str pem;
    size_t lines = 0;

    if (!pem_of(tls, arena, &pem)) {
        return false;
    }
    if (str_ends(pem, STR("\n"))) {
        pem.len--;
    }
    for (size_t i = 0; i < pem.len; i++) {
        lines += pem.data[i] == '\n';
    }
    char *text = arena_text(arena, pem.len + lines);
    char *at = text;
    for (size_t i = 0; i < pem.len; i++) {
        *at++ = pem.data[i];
        if (pem.data[i] == '\n') {
            *at++ = '\t';
        }
    }
    *out = str_from(text, at);
    return true;
}

static bool get_escaped_cert(const struct tls *tls, struct arena *arena, struct str *out)
{
    struct str pem;

    if (!pem_of(tls, arena, &pem)) {
        return false;
    }
    *out = escape_str(arena, pem, ESCAPE_URI_COMPONENT);
    return true;
}

static bool name_of(const struct tls *tls, struct arena *arena, bool is_issuer, bool is_legacy,
                    struct str *out)
{
    X509 *peer = peer_of(tls);

    if (peer == NULL) {
        return false;
    }
    X509_NAME *name = is_issuer ? X509_get_issuer_name(peer) : X509_get_subject_name(peer);
    bool is_good = false;
    if (is_legacy) {
        char *line = X509_NAME_oneline(name, NULL, 0);
        is_good = line != NULL;
        *out = arena_dup(arena, str_of(line));
        OPENSSL_free(line);
    } else {
        BIO *bio = BIO_new(BIO_s_mem());
        is_good = bio != NULL && X509_NAME_print_ex(bio, name, 0, XN_FLAG_RFC2253) >= 0 &&
                  give_bio(arena, bio, out);
    }
    X509_free(peer);
    return is_good;
}

static bool get_s_dn(const struct tls *tls, struct arena *arena, struct str *out)
{
    return name_of(tls, arena, false, false, out);
}

static bool get_i_dn(const struct tls *tls, struct arena *arena, struct str *out)
{
    return name_of(tls, arena, true, false, out);
}

static bool get_s_dn_legacy(const struct tls *tls, struct arena *arena, struct str *out)
{
    return name_of(tls, arena, false, true, out);
}

static bool get_i_dn_legacy(const struct tls *tls, struct arena *arena, struct str *out)
{
    return name_of(tls, arena, true, true, out);
}

static bool get_serial(const struct tls *tls, struct arena *arena, struct str *out)
{
    X509 *peer = peer_of(tls);
    BIO *bio = peer == NULL ? NULL : BIO_new(BIO_s_mem());

    if (bio != NULL) {
        i2a_ASN1_INTEGER(bio, X509_get_serialNumber(peer));
    }
    X509_free(peer);
    return bio != NULL && give_bio(arena, bio, out);
}

static bool get_fingerprint(const struct tls *tls, struct arena *arena, struct str *out)
{
    X509 *peer = peer_of(tls);
    unsigned char hash[EVP_MAX_MD_SIZE];
    unsigned len;
    bool is_good = peer != NULL && X509_digest(peer, EVP_sha1(), hash, &len) == 1;

    X509_free(peer);
    if (is_good) {
        char *text = arena_text(arena, len * 2);
        *out = str_from(text, hex_encode(text, hash, len));
    }
    return is_good;
}

static bool get_verify(const struct tls *tls, struct arena *arena, struct str *out)
{
    bool has_certificate;
    const char *reason;
    long result = tls_verify_result(tls->conn, &has_certificate, &reason);

    *out = !has_certificate      ? STR("NONE")
           : result == X509_V_OK ? STR("SUCCESS")
                                 : arena_printf(arena, "FAILED:%s", reason);
    return true;
}

static bool variable_time_of(const struct tls *tls, struct arena *arena, bool is_end,
                             struct str *out)
{
    X509 *peer = peer_of(tls);
    BIO *bio = peer == NULL ? NULL : BIO_new(BIO_s_mem());

    if (bio != NULL) {
        ASN1_TIME_print(bio, is_end ? X509_get0_notAfter(peer) : X509_get0_notBefore(peer));
    }
    X509_free(peer);
    return bio != NULL && give_bio(arena, bio, out);
}

static bool get_v_start(const struct tls *tls, struct arena *arena, struct str *out)
{
    return variable_time_of(tls, arena, false, out);
}

static bool get_v_end(const struct tls *tls, struct arena *arena, struct str *out)
{
    return variable_time_of(tls, arena, true, out);
}

static bool get_v_remain(const struct tls *tls, struct arena *arena, struct str *out)
{
    X509 *peer = peer_of(tls);
    int days = 0, seconds = 0;
    bool is_good =
        peer != NULL && ASN1_TIME_diff(&days, &seconds, NULL, X509_get0_notAfter(peer)) == 1;

    X509_free(peer);
    if (is_good) {
        *out = arena_printf(arena, "%d", days < 0 || seconds < 0 ? 0 : days);
    }
    return is_good;
}

/* ---- by name ---- */

static const struct {
    const char *name;
    getter *get;
} getters[] = {
    {"protocol", get_protocol},
    {"cipher", get_cipher},
    {"ciphers", get_ciphers},
    {"curve", get_curve},
    {"curves", get_curves},
    {"sigalg", get_sigalg},
    {"sigalgs", get_sigalgs},
    {"session_id", get_session_id},
    {"session_reused", get_session_reused},
    {"early_data", get_early_data},
    {"server_name", get_server_name},
    {"alpn_protocol", get_alpn},
#if TLS_HAS_ECH
    {"ech_status", get_ech_status},
    {"ech_outer_server_name", get_ech_outer_name},
#endif
    {"handshake_time", get_handshake_time},
    {"handshakd_time", get_handshake_time},
    {"handshake_time_msec", get_handshake_time_ms},
    {"client_cert", get_cert},
    {"client_raw_cert", get_raw_cert},
    {"client_escaped_cert", get_escaped_cert},
    {"client_s_dn", get_s_dn},
    {"client_i_dn", get_i_dn},
    {"client_s_dn_legacy", get_s_dn_legacy},
    {"client_i_dn_legacy", get_i_dn_legacy},
    {"client_serial", get_serial},
    {"client_fingerprint", get_fingerprint},
    {"client_verify", get_verify},
    {"client_v_start", get_v_start},
    {"client_v_end", get_v_end},
    {"client_v_remain", get_v_remain},
    {"client_sigalg", get_client_sigalg},
};

bool tls_variable(const struct conn *conn, struct str name, struct arena *arena, struct str *out)
{
    const struct tls *tls = tls_of(conn);

    if (!conn_is_tls(conn) || tls->ssl == NULL) {
        return false;
    }
    for (size_t i = 0; i < sizeof(getters) / sizeof(getters[0]); i++) {
        if (str_is(name, getters[i].name)) {
            bool is_there = getters[i].get(tls, arena, out);
            ERR_clear_error();
            return is_there;
        }
    }
    return false;
}
