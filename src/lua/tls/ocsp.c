/* ngx.ocsp: asking whether a certificate is good, and giving the answer to clients (RFC 6960). */
#include <openssl/err.h>
#include <openssl/ocsp.h>
#include <time.h>

#include "lua/tls/native.h"
#include "lua/tls/tls.h"
#include "lua/vm/function.h"

/* Clocks may differ by so much (seconds), as with OpenSSL's own programs. */
#define CLOCK_SKEW 300

/* Bytes of a reason of validate_ocsp_response, unless the script says how many. */
#define REASON_MOST 128

/* A userdata that frees a chain when it goes, whatever error is thrown meanwhile. */
static int chain_gc(lua_State *L)
{
    sk_X509_pop_free(*(STACK_OF(X509) **) lua_touserdata(L, 1), X509_free);
    return 0;
}

/* The chain of an argument in DER, as long as it is on the stack; NULL: nil and the reason are
 * pushed. */
static STACK_OF(X509) * check_chain(lua_State *L, int index)
{
    struct str der = script_check_str(L, index);
    STACK_OF(X509) **place = lua_newuserdata(L, sizeof(void *));
    char *error = NULL;

    *place = NULL;
    lua_createtable(L, 0, 1);
    lua_pushcfunction(L, chain_gc);
    lua_setfield(L, -2, "__gc");
    lua_setmetatable(L, -2);
    *place = script_tls_read_chain(der.data, der.len, &error);
    if (*place == NULL) {
        script_fail(L, error);
    }
    return *place;
}

/* The certificate after the first, which must have issued it if that is checked; NULL: *reason says
 * why. */
static X509 *issuer_of(STACK_OF(X509) * chain, bool is_checked, const char **reason)
{
    X509 *leaf = sk_X509_value(chain, 0);
    X509 *issuer = sk_X509_num(chain) < 2 ? NULL : sk_X509_value(chain, 1);

    if (issuer == NULL) {
        *reason = "no issuer certificate in chain";
    } else if (is_checked && X509_check_issued(issuer, leaf) != X509_V_OK) {
        *reason = "issuer certificate not next to leaf";
        issuer = NULL;
    }
    ERR_clear_error();
    return issuer;
}

/* chain, most bytes → URL; URL cut to the most, "truncated"; nil; nil and a reason */
static int responder(lua_State *L, struct script_thread *thread)
{
    lua_Integer most = luaL_optinteger(L, 2, 4096);
    STACK_OF(X509) *chain = check_chain(L, 1);
    const char *reason;

    if (chain == NULL) {
        return 2;
    }
    X509 *issuer = issuer_of(chain, true, &reason);
    STACK_OF(OPENSSL_STRING) *urls = X509_get1_ocsp(sk_X509_value(chain, 0));
    const char *url = sk_OPENSSL_STRING_num(urls) < 1 ? NULL : sk_OPENSSL_STRING_value(urls, 0);

    if (url == NULL) {
        X509_email_free(urls);
        lua_pushnil(L);
        return 1;
    }
    if (issuer == NULL) {
        X509_email_free(urls);
        return script_fail(L, reason);
    }
    bool is_cut = (lua_Integer) strlen(url) > most;

    lua_pushlstring(L, url, is_cut ? (size_t) (most < 0 ? 0 : most) : strlen(url));
    X509_email_free(urls);
    if (!is_cut) {
        return 1;
    }
    lua_pushliteral(L, "truncated");
    return 2;
}

/* The request in DER, on the heap of OpenSSL; NULL: *reason. */
static int make_request(STACK_OF(X509) * chain, X509 *issuer, unsigned char **out,
                        const char **reason)
{
    OCSP_REQUEST *request = OCSP_REQUEST_new();
    OCSP_CERTID *id = OCSP_cert_to_id(NULL, sk_X509_value(chain, 0), issuer);
    int size = -1;

    if (request == NULL || id == NULL) {
        *reason = "OCSP_cert_to_id() failed";
        OCSP_CERTID_free(id);
    } else if (OCSP_request_add0_id(request, id) == NULL) {
        *reason = "OCSP_request_add0_id() failed";
        OCSP_CERTID_free(id);
    } else {
        size = i2d_OCSP_REQUEST(request, out);
        *reason = "i2d_OCSP_REQUEST() failed";
    }
    OCSP_REQUEST_free(request);
    ERR_clear_error();
    return size;
}

static int create_request(lua_State *L, struct script_thread *thread)
{
    lua_Integer most = luaL_optinteger(L, 2, 4096);
    STACK_OF(X509) *chain = check_chain(L, 1);
    unsigned char *text = NULL;
    const char *reason;

    if (chain == NULL) {
        return 2;
    }
    X509 *issuer = issuer_of(chain, false, &reason);
    int size = issuer == NULL ? -1 : make_request(chain, issuer, &text, &reason);

    if (size < 0) {
        return script_fail(L, reason);
    }
    if (size > most) {
        OPENSSL_free(text);
        lua_pushnil(L);
        lua_pushfstring(L, "output buffer too small: %d > %d", size, (int) most);
        return 2;
    }
    lua_pushlstring(L, (char *) text, (size_t) size);
    OPENSSL_free(text);
    return 1;
}

/* An answer that is being judged; each part is owned. */
struct upstream_response {
    OCSP_RESPONSE *response;
    OCSP_BASICRESP *basic;
    OCSP_CERTID *id;
    int64_t next_update; /* seconds of the epoch; 0 = not said */
    int status;          /* V_OCSP_CERTSTATUS_… */
};

static void answer_free(struct upstream_response *response)
{
    OCSP_CERTID_free(response->id);
    OCSP_BASICRESP_free(response->basic);
    OCSP_RESPONSE_free(response->response);
    ERR_clear_error();
}

static int64_t seconds_of(const ASN1_GENERALIZEDTIME *time)
{
    struct tm parts;

    return time != NULL && ASN1_TIME_to_tm(time, &parts) == 1 ? timegm(&parts) : 0;
}

/* NULL: it is an answer; else why not. */
static const char *answer_read(struct upstream_response *response, struct str der)
{
    const unsigned char *at = (const unsigned char *) der.data;

    response->response = der.len > INT32_MAX ? NULL : d2i_OCSP_RESPONSE(NULL, &at, (long) der.len);
    if (response->response == NULL) {
        return "d2i_OCSP_RESPONSE() failed";
    }
    if (OCSP_response_status(response->response) != OCSP_RESPONSE_STATUS_SUCCESSFUL) {
        return "OCSP response not successful";
    }
    response->basic = OCSP_response_get1_basic(response->response);
    if (response->basic == NULL) {
        return "OCSP_response_get1_basic() failed";
    }
    return NULL;
}

/* NULL: it is good; else what is wrong with it. */
static const char *script_ocsp_judge(struct upstream_response *response, STACK_OF(X509) * chain,
                                     X509 *issuer)
{
    ASN1_GENERALIZEDTIME *this_update, *next_update;
    X509_STORE *store = X509_STORE_new();

    if (store == NULL) {
        return "X509_STORE_new() failed";
    }
    int verified = OCSP_basic_verify(response->basic, chain, store, OCSP_NOVERIFY);
    X509_STORE_free(store);
    if (verified != 1) {
        return "OCSP_basic_verify() failed";
    }
    response->id = OCSP_cert_to_id(NULL, sk_X509_value(chain, 0), issuer);
    if (response->id == NULL) {
        return "OCSP_cert_to_id() failed";
    }
    if (OCSP_resp_find_status(response->basic, response->id, &response->status, NULL, NULL,
                              &this_update, &next_update) != 1) {
        return "certificate status not found in the OCSP response";
    }
    response->next_update = seconds_of(next_update);
    if (response->status == V_OCSP_CERTSTATUS_GOOD &&
        OCSP_check_validity(this_update, next_update, CLOCK_SKEW, -1) != 1) {
        return "OCSP_check_validity() failed";
    }
    return NULL;
}

/* nil and a reason, of which the first `most` bytes are given (below 0: all). */
static int fail_briefly(lua_State *L, const char *reason, lua_Integer most)
{
    size_t len = strlen(reason);

    lua_pushnil(L);
    lua_pushlstring(L, reason, most >= 0 && (size_t) most < len ? (size_t) most : len);
    return 2;
}

/* response, chain, most bytes of a reason → true and when the next is due (nil: not said); nil and
 * a reason */
static int validate(lua_State *L, struct script_thread *thread)
{
    struct str der = script_check_str(L, 1);
    struct upstream_response response = {0};

    lua_Integer most = luaL_optinteger(L, 3, REASON_MOST);

    script_check_str(L, 2); /* no error is thrown while the answer is there */
    const char *reason = answer_read(&response, der);
    STACK_OF(X509) *chain = reason == NULL ? check_chain(L, 2) : NULL;
    if (reason == NULL && chain == NULL) {
        answer_free(&response);
        return fail_briefly(L, lua_tostring(L, -1), most);
    }
    X509 *issuer = reason == NULL ? issuer_of(chain, true, &reason) : NULL;
    if (issuer != NULL) {
        reason = script_ocsp_judge(&response, chain, issuer);
    }
    if (reason == NULL && response.status != V_OCSP_CERTSTATUS_GOOD) {
        const char *status = OCSP_cert_status_str(response.status);

        answer_free(&response);
        return fail_briefly(L,
                            lua_pushfstring(L, "certificate status \"%s\" in the OCSP response",
                                            status),
                            most);
    }
    int64_t next_update = response.next_update;

    answer_free(&response);
    if (reason != NULL) {
        return fail_briefly(L, reason, most);
    }
    lua_pushboolean(L, true);
    if (next_update == 0) {
        return 1;
    }
    lua_pushnumber(L, (lua_Number) next_update);
    return 2;
}

/* An answer that the client gets with the certificate; "no status req": it has not asked for one.
 */
static int set_status_response(lua_State *L, struct script_thread *thread)
{
    struct str der = script_check_str(L, 1);
    SSL *ssl = script_tls_ssl();

    if (ssl == NULL) {
        return script_fail(L, "bad request");
    }
    if (SSL_get_tlsext_status_type(ssl) != TLSEXT_STATUSTYPE_ocsp) {
        lua_pushboolean(L, true);
        lua_pushliteral(L, "no status req");
        return 2;
    }
    unsigned char *copy = OPENSSL_memdup(der.data, der.len);

    if (copy == NULL || SSL_set_tlsext_status_ocsp_resp(ssl, copy, (long) der.len) != 1) {
        OPENSSL_free(copy);
        return script_fail(L, "SSL_set_tlsext_status_ocsp_resp() failed");
    }
    lua_pushboolean(L, true);
    return 1;
}

static const struct script_row rows[] = {
    {"ocsp_responder", responder, 0, false},
    {"ocsp_request", create_request, 0, false},
    {"ocsp_validate", validate, 0, false},
    {"ocsp_set", set_status_response, SCRIPT_ALL & ~SCRIPT_INIT, false},
    {0},
};

void script_ocsp_add(lua_State *L)
{
    script_add(L, rows);
}
