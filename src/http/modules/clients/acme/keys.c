/* Keys, certificate requests and certificates, with OpenSSL. */
#include <string.h>

#include <openssl/bn.h>
#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/rsa.h>
#include <openssl/x509v3.h>

#include "base/checksum.h"
#include "base/text.h"
#include "http/modules/clients/acme/acme.h"

#define SELF_SIGNED_S (7 * 86400) /* lifetime of a self-signed certificate */
#define SKEW_S 3600               /* accepted difference between clocks */

/* ---- keys ---- */

EVP_PKEY *acme_key_new(const struct acme_key_type *type)
{
    if (type->is_rsa) {
        return EVP_RSA_gen(type->bits);
    }
    return EVP_EC_gen(type->bits == 521 ? "P-521" : type->bits == 384 ? "P-384" : "P-256");
}

/* Prevents a prompt for a password. */
static int no_password(char *at, int size, int writes, void *arg)
{
    return -1;
}

EVP_PKEY *acme_key_read(struct str pem)
{
    BIO *bio = BIO_new_mem_buf(pem.data, (int) pem.len);
    EVP_PKEY *key = bio == NULL ? NULL : PEM_read_bio_PrivateKey(bio, NULL, no_password, NULL);

    BIO_free(bio);
    ERR_clear_error();
    return key;
}

static struct str take_bio(struct arena *arena, BIO *bio)
{
    char *data;
    long size = BIO_get_mem_data(bio, &data);
    struct str text = arena_dup(arena, (struct str){data, size > 0 ? (size_t) size : 0});

    BIO_free(bio);
    return text;
}

bool acme_key_write(EVP_PKEY *key, struct arena *arena, struct str *pem)
{
    BIO *bio = BIO_new(BIO_s_mem());

    if (bio == NULL || PEM_write_bio_PrivateKey(bio, key, NULL, NULL, 0, NULL, NULL) != 1) {
        BIO_free(bio);
        ERR_clear_error();
        return false;
    }
    *pem = take_bio(arena, bio);
    return true;
}

/* ---- extensions ---- */

/* Makes "DNS:a,IP:::1": the characters were checked when the configuration was read. */
static struct str alternative_names(struct arena *arena, const struct acme_identifier *items,
                                    size_t count)
{
    struct str *parts = arena_array(arena, count * 3, sizeof(*parts));

    for (size_t i = 0; i < count; i++) {
        parts[3 * i] = i == 0 ? STR("") : STR(",");
        parts[3 * i + 1] = items[i].is_ip ? STR("IP:") : STR("DNS:");
        parts[3 * i + 2] = items[i].value;
    }
    return arena_join(arena, parts, count * 3);
}

static X509_EXTENSION *names_extension(struct arena *arena, const struct acme_identifier *items,
                                       size_t count)
{
    return X509V3_EXT_conf_nid(NULL, NULL, NID_subject_alt_name,
                               arena_cstr(arena, alternative_names(arena, items, count)));
}

/* acmeIdentifier (RFC 8737, 3): critical, an OCTET STRING of the digest. */
static X509_EXTENSION *alpn_extension(struct str authorization)
{
    unsigned char value[34] = {0x04, 32};
    ASN1_OBJECT *object = OBJ_txt2obj("1.3.6.1.5.5.7.1.31", 1);
    ASN1_OCTET_STRING *octets = ASN1_OCTET_STRING_new();
    X509_EXTENSION *extension = NULL;

    sha256_of(authorization, value + 2);
    if (object != NULL && octets != NULL && ASN1_OCTET_STRING_set(octets, value, 34) == 1) {
        extension = X509_EXTENSION_create_by_OBJ(NULL, object, 1, octets);
    }
    ASN1_OCTET_STRING_free(octets);
    ASN1_OBJECT_free(object);
    return extension;
}

/* ---- self-signed certificates ---- */

static bool set_serial(X509 *certificate)
{
    BIGNUM *number = BN_new();
    bool is_good = number != NULL && BN_rand(number, 126, BN_RAND_TOP_ONE, 0) == 1 &&
                   BN_to_ASN1_INTEGER(number, X509_get_serialNumber(certificate)) != NULL;

    BN_free(number);
    return is_good;
}

static bool add_extension(X509 *certificate, X509_EXTENSION *extension)
{
    bool is_good = extension != NULL && X509_add_ext(certificate, extension, -1) == 1;

    X509_EXTENSION_free(extension);
    return is_good;
}

static bool fill_own(X509 *certificate, EVP_PKEY *key)
{
    X509_NAME *name = X509_get_subject_name(certificate);
    static const unsigned char text[] = "certificate that is being ordered";

    return X509_set_version(certificate, X509_VERSION_3) == 1 && set_serial(certificate) &&
           X509_gmtime_adj(X509_getm_notBefore(certificate), -SKEW_S) != NULL &&
           X509_gmtime_adj(X509_getm_notAfter(certificate), SELF_SIGNED_S) != NULL &&
           X509_set_pubkey(certificate, key) == 1 &&
           X509_NAME_add_entry_by_txt(name, "CN", MBSTRING_ASC, text, -1, -1, 0) == 1 &&
           X509_set_issuer_name(certificate, name) == 1;
}

static bool write_certificate(X509 *certificate, struct arena *arena, struct str *pem)
{
    BIO *bio = BIO_new(BIO_s_mem());

    if (bio == NULL || PEM_write_bio_X509(bio, certificate) != 1) {
        BIO_free(bio);
        return false;
    }
    *pem = take_bio(arena, bio);
    return true;
}

/* Makes one with a new key. authorization: data NULL: not for a challenge. */
static bool make_own(struct arena *arena, const struct acme_identifier *items, size_t count,
                     struct str authorization, struct acme_pair *out)
{
    static const struct acme_key_type type = {.bits = 256};
    EVP_PKEY *key = acme_key_new(&type);
    X509 *certificate = X509_new();
    bool is_good =
        key != NULL && certificate != NULL && fill_own(certificate, key) &&
        add_extension(certificate, names_extension(arena, items, count)) &&
        (authorization.data == NULL || add_extension(certificate, alpn_extension(authorization))) &&
        X509_sign(certificate, key, EVP_sha256()) != 0 &&
        write_certificate(certificate, arena, &out->value) && acme_key_write(key, arena, &out->key);

    X509_free(certificate);
    EVP_PKEY_free(key);
    ERR_clear_error();
    return is_good;
}

bool acme_self_signed(struct arena *arena, const struct vec *identifiers, struct acme_pair *out)
{
    return make_own(arena, identifiers->items, identifiers->count, STR_NONE, out);
}

bool acme_alpn_certificate(struct arena *arena, const struct acme_identifier *identifier,
                           struct str authorization, struct acme_pair *out)
{
    return make_own(arena, identifier, 1, authorization, out);
}

/* ---- certificate requests ---- */

static bool add_names(X509_REQ *request, struct arena *arena, const struct vec *identifiers)
{
    X509_EXTENSION *extension = names_extension(arena, identifiers->items, identifiers->count);
    STACK_OF(X509_EXTENSION) *list = sk_X509_EXTENSION_new_null();
    bool is_good = extension != NULL && list != NULL && sk_X509_EXTENSION_push(list, extension) > 0;

    if (!is_good) {
        X509_EXTENSION_free(extension);
    }
    is_good = is_good && X509_REQ_add_extensions(request, list) == 1;
    sk_X509_EXTENSION_pop_free(list, X509_EXTENSION_free);
    return is_good;
}

/* Adds the first name that is short enough (ub-common-name of RFC 5280). */
static bool add_common_name(X509_REQ *request, const struct vec *identifiers)
{
    vec_each(const struct acme_identifier, identifier, identifiers) {
        if (!identifier->is_ip && identifier->value.len <= 64) {
            return X509_NAME_add_entry_by_txt(X509_REQ_get_subject_name(request), "CN",
                                              MBSTRING_ASC,
                                              (const unsigned char *) identifier->value.data,
                                              (int) identifier->value.len, -1, 0) == 1;
        }
    }
    return true;
}

static bool encode_request(X509_REQ *request, struct arena *arena, struct str *out)
{
    unsigned char *der = NULL;
    int size = i2d_X509_REQ(request, &der);

    if (size <= 0) {
        return false;
    }
    *out = base64_encode(arena, (struct str){(const char *) der, (size_t) size}, true);
    OPENSSL_free(der);
    return true;
}

bool acme_request(struct arena *arena, const struct acme_certificate *certificate, EVP_PKEY *key,
                  struct str *out)
{
    X509_REQ *request = X509_REQ_new();
    bool is_good = request != NULL && X509_REQ_set_version(request, X509_REQ_VERSION_1) == 1 &&
                   X509_REQ_set_pubkey(request, key) == 1 &&
                   (!certificate->issuer->has_common_name ||
                    add_common_name(request, &certificate->identifiers)) &&
                   add_names(request, arena, &certificate->identifiers) &&
                   X509_REQ_sign(request, key, EVP_sha256()) != 0 &&
                   encode_request(request, arena, out);

    X509_REQ_free(request);
    ERR_clear_error();
    return is_good;
}

/* ---- chains ---- */

static bool is_for(X509 *leaf, struct arena *arena, const struct acme_identifier *identifier)
{
    struct str name = identifier->value;

    if (identifier->is_ip) {
        return X509_check_ip_asc(leaf, arena_cstr(arena, name), 0) == 1;
    }
    if (str_starts(name, STR("*."))) {
        name = arena_concat(arena, STR("some-name"), str_skip(name, 1));
    }
    return X509_check_host(leaf, name.data, name.len, X509_CHECK_FLAG_NEVER_CHECK_SUBJECT, NULL) ==
           1;
}

unsigned acme_names_covered(struct arena *arena, struct str chain, const struct vec *identifiers)
{
    BIO *in = BIO_new_mem_buf(chain.data, (int) chain.len);
    X509 *leaf = in == NULL ? NULL : PEM_read_bio_X509(in, NULL, no_password, NULL);
    unsigned count = 0;

    if (leaf != NULL && X509_cmp_current_time(X509_get0_notAfter(leaf)) > 0) {
        vec_each(const struct acme_identifier, identifier, identifiers) {
            count += is_for(leaf, arena, identifier);
        }
    }
    X509_free(leaf);
    BIO_free(in);
    ERR_clear_error();
    return count;
}

static int64_t seconds_of(const ASN1_TIME *time)
{
    struct tm parts;

    return ASN1_TIME_to_tm(time, &parts) == 1 ? (int64_t) timegm(&parts) : 0;
}

/* The authority key identifier and the bytes of the serial number, each in base64url, separated by
 * a dot. */
static struct str renewal_id(struct arena *arena, X509 *leaf)
{
    const ASN1_OCTET_STRING *authority = X509_get0_authority_key_id(leaf);
    unsigned char *der = NULL;
    int size = i2d_ASN1_INTEGER(X509_get_serialNumber(leaf), &der);
    struct str id = STR_NONE;

    /* Tag and length take two bytes: serial numbers have 20 bytes at most (RFC 5280, 4.1.2.2). */
    if (authority != NULL && ASN1_STRING_length(authority) > 0 && size > 2 && size <= 129) {
        const struct str parts[] = {
            base64_encode(arena,
                          (struct str){(const char *) ASN1_STRING_get0_data(authority),
                                       (size_t) ASN1_STRING_length(authority)},
                          true),
            STR("."),
            base64_encode(arena, (struct str){(const char *) der + 2, (size_t) size - 2}, true),
        };
        id = arena_join(arena, parts, 3);
    }
    OPENSSL_free(der);
    return id;
}

static struct str common_name(struct arena *arena, const X509_NAME *name)
{
    char text[256];
    int size = X509_NAME_get_text_by_NID(name, NID_commonName, text, sizeof(text));

    return size > 0 ? arena_dup(arena, str_of(text)) : STR("");
}

static void facts_of(struct arena *arena, X509 *leaf, struct acme_chain *out)
{
    out->not_before = seconds_of(X509_get0_notBefore(leaf));
    out->not_after = seconds_of(X509_get0_notAfter(leaf));
    out->id = renewal_id(arena, leaf);
}

static const char *check_leaf(struct arena *arena, X509 *leaf, EVP_PKEY *key,
                              const struct acme_certificate *certificate)
{
    if (X509_check_private_key(leaf, key) != 1) {
        return "its first certificate is not for the key";
    }
    vec_each(const struct acme_identifier, identifier, &certificate->identifiers) {
        if (!is_for(leaf, arena, identifier)) {
            return "its first certificate is not for the names";
        }
    }
    return NULL;
}

/* Parses and writes the certificates of a chain. NULL, or an error message. */
static const char *copy_chain(struct arena *arena, BIO *in, BIO *copy, EVP_PKEY *key,
                              const struct acme_certificate *certificate, struct acme_chain *out)
{
    const char *why = NULL;
    unsigned count = 0;

    while (why == NULL) {
        X509 *one = PEM_read_bio_X509(in, NULL, no_password, NULL);

        if (one == NULL) {
            bool is_end = ERR_GET_REASON(ERR_peek_last_error()) == PEM_R_NO_START_LINE;
            return !is_end ? "it is malformed" : count == 0 ? "it has no certificate" : NULL;
        }
        if (count == 0) {
            why = check_leaf(arena, one, key, certificate);
            facts_of(arena, one, out);
        }
        out->top_issuer = common_name(arena, X509_get_issuer_name(one));
        if (why == NULL && ++count > ACME_CHAIN_MAX) {
            why = "it is too long";
        }
        if (why == NULL && PEM_write_bio_X509(copy, one) != 1) {
            why = "OpenSSL cannot write it";
        }
        if (why == NULL && BIO_ctrl_pending(copy) > ACME_CHAIN_SIZE) {
            why = "it is too long"; /* its file could not be read again */
        }
        X509_free(one);
    }
    return why;
}

bool acme_chain_read(struct arena *arena, struct str text, EVP_PKEY *key,
                     const struct acme_certificate *certificate, struct acme_chain *out,
                     const char **why)
{
    BIO *in = BIO_new_mem_buf(text.data, (int) text.len);
    BIO *copy = BIO_new(BIO_s_mem());

    ERR_clear_error();
    *out = (struct acme_chain){.pem = STR_NONE};
    *why = in == NULL || copy == NULL ? "OpenSSL has no memory"
                                      : copy_chain(arena, in, copy, key, certificate, out);
    BIO_free(in);
    if (*why == NULL) {
        out->pem = take_bio(arena, copy);
    } else {
        BIO_free(copy);
    }
    ERR_clear_error();
    return *why == NULL;
}
