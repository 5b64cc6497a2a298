/*
 * Fuzz target: what a hostile CA sends. The first byte says which: an answer of HTTP, whole or in
 * two parts; a chain of certificates; a time, a Retry-After, a URL; an object of JSON as directory,
 * order, authorization and window; or what a process that a CA has taken over asks of its monitor.
 * What is given is inside the bounds, nobody without the key makes a chain that is taken, and the
 * monitor, which has no folder and no hook here, does nothing.
 */
#include <errno.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include "http/modules/clients/acme/acme.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check(bool is_good)
{
    if (!is_good) {
        abort();
    }
}

/* What is said of a part holds for the whole. */
static void read_answer(struct arena *arena, struct str text)
{
    struct acme_answer part, whole;
    struct str half = str_head(text, text.len / 2);
    enum acme_read first = acme_answer_read(arena, half, false, false, &part);
    enum acme_read all = acme_answer_read(arena, text, true, false, &whole);

    check(all != ACME_MORE);
    check(first != ACME_BAD || all == ACME_BAD);
    check(part.missing == 0 || first == ACME_MORE);
    if (all == ACME_WHOLE) {
        check(whole.status >= 200 && whole.status <= 999);
        check(whole.body.len <= text.len && whole.alternate_count <= ACME_CHAIN_MAX);
        check(first != ACME_WHOLE || part.status == whole.status);
        acme_retry_after(whole.retry_after, 1000);
        json_decref(jose_object(whole.body));
    }
}

static void read_chain(struct arena *arena, struct str text)
{
    static EVP_PKEY *key;
    struct acme_identifier name = {.value = STR("a.test")};
    const struct acme_certificate certificate = {.identifiers = {&name, 1, 1}};
    struct acme_chain chain;
    const char *why;

    if (key == NULL) {
        const struct acme_key_type type = {.bits = 256};
        key = acme_key_new(&type);
    }
    check(!acme_chain_read(arena, text, key, &certificate, &chain, &why) && why != NULL);
    EVP_PKEY_free(acme_key_read(text));
}

static void read_values(struct str text)
{
    struct acme_url url;
    int64_t when;

    if (acme_url_parse(text, true, &url)) {
        check(url.host.len != 0 && url.port != 0 && url.target.data[0] == '/');
    }
    if (acme_time_parse(text, &when)) {
        check(when > -86400 && when < 400000000000);
    }
    int64_t wait_s = acme_retry_after(text, 1000);
    check(wait_s >= 0 && wait_s <= 30 * 86400);
}

/* As acme_monitor_serve reads and answers it: 24 bytes, of which the first four are an errno. */
static void ask_monitor(struct str text)
{
    struct acme_issuer issuer = {.lock = -1};
    int ends[2];
    int32_t reply[6];

    if (text.len > 65536 || socketpair(AF_UNIX, SOCK_STREAM, 0, ends) != 0) {
        return;
    }
    check(write(ends[0], text.data, text.len) == (ssize_t) text.len);
    shutdown(ends[0], SHUT_WR);
    acme_monitor_serve(ends[1], &issuer);
    close(ends[1]);
    while (read(ends[0], reply, sizeof(reply)) == sizeof(reply)) {
        check(reply[0] == EPERM && reply[3] == 0);
    }
    close(ends[0]);
}

static void check_url(struct str text)
{
    struct acme_url url;

    check(acme_url_parse(text, false, &url));
}

/* A URL that is taken may be asked, a token goes to a file's and a header's text as it is, a name
 * is one that was ordered. */
static void read_object(struct arena *arena, const json_t *object)
{
    struct acme_identifier names[] = {{STR("*.a.test"), false}, {STR("192.0.2.1"), true}};
    const struct acme_certificate certificate = {.identifiers = {names, 2, 2}};
    struct acme_authorization wanted;
    struct acme_order_urls urls;
    int64_t start, end;

    if (acme_order_read(arena, object, STR("https://a/order"), &urls)) {
        check_url(urls.finalize);
        check(urls.authorizations.count <= ACME_IDENTIFIERS_MAX);
        vec_each(const struct str, url, &urls.authorizations) {
            check_url(*url);
        }
    }
    for (unsigned type = ACME_HTTP_01; type <= ACME_DNS_PERSIST_01; type++) {
        if (acme_authorization_read(arena, object, &certificate, type, &wanted) != NULL) {
            continue;
        }
        check_url(wanted.challenge_url);
        check(wanted.token.len <= 256 && (wanted.token.len != 0) == (type != ACME_DNS_PERSIST_01));
        check(str_find_char(wanted.token, '/') == NULL && wanted.domain.len <= 255);
        check(str_is(wanted.identifier.value, "a.test") ||
              str_is(wanted.identifier.value, "192.0.2.1"));
    }
    check(!acme_window_read(object, &start, &end) || start < end);
}

static void read_json(struct arena *arena, struct str text)
{
    struct acme_session session = {.directory = jose_object(text)};

    if (session.directory == NULL) {
        return;
    }
    arena_init(&session.arena);
    if (acme_directory_read(&session)) {
        check_url(session.new_nonce);
        check_url(session.new_account);
        check_url(session.new_order);
    }
    read_object(arena, session.directory);
    json_decref(session.directory);
    arena_free(&session.arena);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct arena arena;

    if (size == 0) {
        return 0;
    }
    const struct str text = {(const char *) data + 1, size - 1};
    arena_init(&arena);
    if (data[0] == 'j') {
        read_json(&arena, text);
        arena_free(&arena);
        return 0;
    }
    switch (data[0] % 4) {
    case 0:
        read_answer(&arena, text);
        break;
    case 1:
        read_chain(&arena, text);
        break;
    case 3:
        ask_monitor(text);
        break;
    default:
        read_values(text);
        break;
    }
    arena_free(&arena);
    return 0;
}
