/*
 * Fuzz target: key sets and tokens. The first byte says which: a key set, or a token that is
 * checked with keys of each kind. Nobody who does not have the keys makes a token that is accepted.
 */
#include <stdlib.h>

#include "shared/jose/token.h"

static const char keys_text[] =
    "{\"keys\":["
    "{\"kty\":\"oct\",\"k\":\"AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8\"},"
    "{\"kty\":\"oct\",\"k\":\"AAECAwQFBgcICQoLDA0ODw\"},"
    "{\"kty\":\"OKP\",\"crv\":\"Ed25519\",\"x\":\"11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo\"},"
    "{\"kty\":\"EC\",\"crv\":\"P-256\",\"x\":\"f83OJ3D2xF1Bg8vub9tLe1gHMzV76e8Tus9uPHvRVEU\","
    "\"y\":\"x_FEzRu9m36HLN_tue659LNpXW6pCyStikYjKIWI5a0\"}]}";

static void check_token(struct arena *arena, struct str text, enum jose_form form,
                        const struct jose_keys *keys)
{
    struct jose_check check = {.arena = arena,
                               .text = text,
                               .form = form,
                               .sets = &keys,
                               .set_count = 1};
    struct str value;

    jose_check_begin(&check);
    jose_check_decrypt(&check);
    jose_check_end(&check);
    if ((check.token == NULL) == (check.why == NULL)) {
        abort();
    }
    if (check.token != NULL) {
        jose_token_outdated(check.token, 1000, 10);
        jose_text(check.token->claims, true, arena, &value);
        jose_token_release(check.token);
    }
}

static void read_keys(struct arena *arena, struct str text)
{
    static const struct log quiet;
    struct jose_keys *keys = jose_keys_read(text, &quiet, STR("fuzz"));

    if (keys != NULL && keys->count > JOSE_KEYS_MAX) {
        abort();
    }
    jose_keys_release(keys);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct jose_keys *keys;
    static const struct log quiet;
    struct arena arena;

    if (keys == NULL) {
        keys = jose_keys_read(str_of(keys_text), &quiet, STR("fuzz"));
    }
    if (size == 0) {
        return 0;
    }
    struct str text = {(const char *) data + 1, size - 1};
    arena_init(&arena);
    if (data[0] % 4 == 3) {
        read_keys(&arena, text);
    } else {
        check_token(&arena, text, data[0] % 4, keys);
        jose_token_release(jose_token_unverified(&arena, text));
    }
    arena_free(&arena);
    return 0;
}
