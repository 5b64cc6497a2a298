/* Tokens: the examples of RFC 7515, 7516 and 8037, made by others. */
#include "base/unit.h"

#include "shared/jose/token.h"

#define CLAIMS_7515                                                                                \
    "eyJpc3MiOiJqb2UiLA0KICJleHAiOjEzMDA4MTkzODAsDQogImh0dHA6Ly9leGFtcGxlLmNvbS9pc19yb290Ijp0cn"   \
    "VlfQ"

struct vector {
    const char *name, *key, *token;
    enum jose_form form;
    const char *why; /* NULL: its claims are those of RFC 7515, A.1 */
};

static const struct vector vectors[] = {
    {"RFC 7515, A.1: HS256",
     "{\"kty\":\"oct\",\"k\":\"AyM1SysPpbyDfgZld3umj1qzKObwVMkoqQ-EstJQLr_T-"
     "1qS0gZH75aKtMN3Yj0iPS4hcgUuTwjAzZr1Z9CAow\"}",
     "eyJ0eXAiOiJKV1QiLA0KICJhbGciOiJIUzI1NiJ9." CLAIMS_7515
     ".dBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1gFWFOEjXk",
     JOSE_SIGNED, NULL},
    {"RFC 7515, A.3: ES256",
     "{\"kty\":\"EC\",\"crv\":\"P-256\",\"x\":\"f83OJ3D2xF1Bg8vub9tLe1gHMzV76e8Tus9uPHvRVEU\","
     "\"y\":\"x_FEzRu9m36HLN_tue659LNpXW6pCyStikYjKIWI5a0\"}",
     "eyJhbGciOiJFUzI1NiJ9." CLAIMS_7515
     ".DtEhU3ljbEg8L38VWAfUAqOyKAM6-Xx-F4GawxaepmXFCgfTjDxw5djxLa8ISlSApmWQxfKTUJqPP3-Kg6NU1Q",
     JOSE_SIGNED, NULL},
    {"RFC 8037, A.4: EdDSA; the signature matches, the text is no JSON",
     "{\"kty\":\"OKP\",\"crv\":\"Ed25519\",\"x\":\"11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo\"}",
     "eyJhbGciOiJFZERTQSJ9.RXhhbXBsZSBvZiBFZDI1NTE5IHNpZ25pbmc."
     "hgyY0il_MGCjP0JzlnLWG1PPOt7-09PGcvMg3AIbQR6dWbhijcNR4ki4iylGjg5BhVsPt9g7sVvpAr_MuM0KAg",
     JOSE_SIGNED, "its claims are not a JSON object"},
    {"RFC 7516, A.3: A128KW and A128CBC-HS256; decrypted, the text is no JSON",
     "{\"kty\":\"oct\",\"k\":\"GawgguFyGrWKav7AX4VKUg\"}",
     "eyJhbGciOiJBMTI4S1ciLCJlbmMiOiJBMTI4Q0JDLUhTMjU2In0."
     "6KB707dM9YTIgHtLvtgWQ8mKwboJW3of9locizkDTHzBC2IlrT1oOQ.AxY8DCtDaGlsbGljb3RoZQ."
     "KDlTtXchhZTGufMYmOYGS4HffxPSUrfmqCHXaI9wOGY.U0m_YmjN04DJvceFICbCVQ",
     JOSE_ENCRYPTED, "its claims are not a JSON object"},
};

static struct jose_keys *keys_of(const char *key)
{
    static const struct log quiet;
    char text[1024];
    int size = snprintf(text, sizeof(text), "{\"keys\":[%s]}", key);

    return jose_keys_read((struct str){text, (size_t) size}, &quiet, STR("test"));
}

/* The check of a token, after its three steps. */
static struct jose_check checked(struct arena *arena, const struct jose_keys *const *keys,
                                 const char *token, enum jose_form form)
{
    struct jose_check check = {.arena = arena,
                               .text = str_of(token),
                               .form = form,
                               .sets = keys,
                               .set_count = 1};

    jose_check_begin(&check);
    jose_check_decrypt(&check);
    jose_check_end(&check);
    return check;
}

static void assert_vector(const struct vector *vector)
{
    struct jose_keys *keys = keys_of(vector->key);
    const struct jose_keys *set = keys;
    struct arena arena;

    arena_init(&arena);
    assert_non_null(keys);
    struct jose_check check = checked(&arena, &set, vector->token, vector->form);
    if (vector->why != NULL) {
        assert_string_equal(check.why, vector->why);
        assert_null(check.token);
    } else {
        assert_null(check.why);
        assert_int_equal(check.token->expires, 1300819380);
        assert_string_equal(json_string_value(json_object_get(check.token->claims, "iss")), "joe");
        jose_token_release(check.token);
    }
    jose_keys_release(keys);
    arena_free(&arena);
}

/* One bit of the last part is another. */
static void assert_changed_is_refused(const struct vector *vector)
{
    struct jose_keys *keys = keys_of(vector->key);
    const struct jose_keys *set = keys;
    char token[1024];
    struct arena arena;

    arena_init(&arena);
    snprintf(token, sizeof(token), "%s", vector->token);
    char *last = strrchr(token, '.') + 1;
    *last = *last == 'A' ? 'B' : 'A';
    struct jose_check check = checked(&arena, &set, token, vector->form);
    assert_null(check.token);
    assert_string_equal(check.why, vector->form == JOSE_SIGNED ? "its signature does not match"
                                                               : "it cannot be decrypted");
    jose_keys_release(keys);
    arena_free(&arena);
}

static void test_examples_of_the_rfcs(void **state)
{
    for (size_t i = 0; i < sizeof(vectors) / sizeof(vectors[0]); i++) {
        print_message("%s\n", vectors[i].name);
        assert_vector(&vectors[i]);
        assert_changed_is_refused(&vectors[i]);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_examples_of_the_rfcs),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
