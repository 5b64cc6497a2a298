/*
 * Fuzz target: what an OpenID provider says of itself, and claims of ID tokens. The first byte says which. Metadata that are taken have the issuer
 * of the configuration and URLs without blanks, with TLS; claims that are taken are for this client, of this issuer and of this login.
 */
#include <stdlib.h>

#include "base/clock.h"
#include "http/modules/access/oidc/oidc.h"

static struct oidc_provider provider = {.name = STR_INIT("fuzz"),
                                        .issuer = STR_INIT("https://a"),
                                        .client_id = STR_INIT("c")};

static void check_url(struct str url, bool is_needed)
{
    if (url.len == 0 ? is_needed : !str_starts(url, STR("https://"))) {
        abort();
    }
    for (size_t i = 0; i < url.len; i++) {
        if (url.data[i] <= ' ' || url.data[i] == 127) {
            abort();
        }
    }
}

static void read_metadata(const json_t *object)
{
    const char *why = NULL;
    struct oidc_metadata *metadata = oidc_metadata_read(&provider, object, &why);

    if ((metadata == NULL) == (why == NULL)) {
        abort();
    }
    if (metadata != NULL) {
        check_url(metadata->authorization, true);
        check_url(metadata->token, true);
        check_url(metadata->keys_url, true);
        check_url(metadata->userinfo, false);
        check_url(metadata->logout, false);
        oidc_metadata_release(metadata);
    }
}

static void judge_claims(json_t *claims)
{
    const struct oidc_token_question asked = {.provider = &provider, .nonce = STR("n")};
    const struct jose_token token = {.claims = claims, .expires = (int64_t) clock_now.seconds + 60};

    if (oidc_claims_judge(&asked, &token) == NULL &&
        (!str_is(jose_string(claims, "iss"), "https://a") || jose_string(claims, "sub").len == 0 ||
         !str_is(jose_string(claims, "nonce"), "n"))) {
        abort();
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    json_t *object =
        size == 0 ? NULL : jose_object((struct str){(const char *) data + 1, size - 1});

    if (object != NULL && data[0] % 2 == 0) {
        read_metadata(object);
    } else if (object != NULL) {
        judge_claims(object);
    }
    json_decref(object);
    return 0;
}
