/* OCSP (RFC 6960): the request about a certificate, and parsing the response. */
#include <openssl/err.h>
#include <openssl/ocsp.h>
#include <time.h>

#include "net/tls/private.h"

#define CLOCK_SKEW_S 300
#define VALID_FOR_EVER (UINT64_C(1) << 40)

struct str ocsp_request_bytes(const struct ocsp_question *question, struct arena *arena)
{
    OCSP_CERTID *id = OCSP_cert_to_id(NULL, question->certificate, question->issuer);
    OCSP_REQUEST *request = OCSP_REQUEST_new();
    struct str bytes = STR_NONE;

    if (id == NULL || request == NULL || OCSP_request_add0_id(request, id) == NULL) {
        OCSP_CERTID_free(id);
    } else {
        int size = i2d_OCSP_REQUEST(request, NULL);
        if (size > 0) {
            unsigned char *at = arena_alloc(arena, (size_t) size);
            bytes = (struct str){(char *) at, (size_t) size};
            i2d_OCSP_REQUEST(request, &at);
        }
    }
    OCSP_REQUEST_free(request);
    if (bytes.len == 0) {
        tls_log_at(question->log, LOG_ALERT, "could not create an OCSP request");
    }
    return bytes;
}

static bool verify_signature(const struct ocsp_question *question, OCSP_BASICRESP *basic)
{
    STACK_OF(X509) *signers = sk_X509_new_null();

    if (signers == NULL || sk_X509_push(signers, question->issuer) == 0) {
        sk_X509_free(signers);
        return false;
    }
    /* The issuer itself is trusted; other responders need a certificate of the issuer for this
     * purpose. */
    int result = OCSP_basic_verify(basic, signers, question->store,
                                   question->verifies ? OCSP_TRUSTOTHER : OCSP_NOVERIFY);
    sk_X509_free(signers);
    if (result != 1) {
        tls_log_at(question->log, LOG_ERROR, "OCSP_basic_verify() failed");
    }
    return result == 1;
}

/* Seconds of the wall clock; VALID_FOR_EVER if the response has no time. */
static uint64_t tls_status_time_of(const ASN1_GENERALIZEDTIME *at)
{
    struct tm tm;

    if (at == NULL || ASN1_TIME_to_tm(at, &tm) != 1) {
        return VALID_FOR_EVER;
    }
    time_t seconds = timegm(&tm);
    return seconds < 0 ? 0 : (uint64_t) seconds;
}

static bool read_status(const struct ocsp_question *question, OCSP_BASICRESP *basic,
                        struct ocsp_response *out)
{
    OCSP_CERTID *id = OCSP_cert_to_id(NULL, question->certificate, question->issuer);
    ASN1_GENERALIZEDTIME *this_update, *next_update;
    bool is_good = false;

    if (id == NULL || OCSP_resp_find_status(basic, id, &out->status, NULL, NULL, &this_update,
                                            &next_update) != 1) {
        tls_log_at(question->log, LOG_ERROR, "certificate status not found in the OCSP response");
    } else if (OCSP_check_validity(this_update, next_update, CLOCK_SKEW_S, -1) != 1) {
        tls_log_at(question->log, LOG_ERROR, "OCSP_check_validity() failed");
    } else {
        out->valid_until = tls_status_time_of(next_update);
        is_good = true;
    }
    OCSP_CERTID_free(id);
    return is_good;
}

bool ocsp_response_read(const struct ocsp_question *question, struct str der,
                        struct ocsp_response *out)
{
    const unsigned char *at = (const unsigned char *) der.data;

    ERR_clear_error();
    OCSP_RESPONSE *response = d2i_OCSP_RESPONSE(NULL, &at, (long) der.len);
    if (response == NULL) {
        tls_log_at(question->log, LOG_ERROR, "d2i_OCSP_RESPONSE() failed");
        return false;
    }
    int status = OCSP_response_status(response);
    if (status != OCSP_RESPONSE_STATUS_SUCCESSFUL) {
        log_error(question->log, 0, "OCSP response not successful (%d: %s)", status,
                  OCSP_response_status_str(status));
        OCSP_RESPONSE_free(response);
        return false;
    }
    OCSP_BASICRESP *basic = OCSP_response_get1_basic(response);
    bool is_good = false;
    if (basic == NULL) {
        tls_log_at(question->log, LOG_ERROR, "OCSP_response_get1_basic() failed");
    } else {
        is_good = verify_signature(question, basic) && read_status(question, basic, out);
    }
    OCSP_BASICRESP_free(basic);
    OCSP_RESPONSE_free(response);
    ERR_clear_error();
    out->der = der;
    return is_good;
}

bool ocsp_ask(const struct ocsp_question *question, struct arena *arena, struct ocsp_response *out)
{
    struct str answer;
    struct str request = ocsp_request_bytes(question, arena);

    return request.len != 0 && ocsp_fetch(question, request, arena, &answer) &&
           ocsp_response_read(question, answer, out);
}
