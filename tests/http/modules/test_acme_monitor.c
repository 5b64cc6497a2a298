/* Tests of the monitor of an acme_issuer: what the process that orders may have done with the
 * master's rights, and nothing else. */
#include "base/unit.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include "http/modules/clients/acme/acme.h"

#define DIGEST "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLM-_01"

static struct acme_identifier identifiers[] = {{STR_INIT("*.a.test"), false},
                                               {STR_INIT("192.0.2.1"), true}};
static struct acme_certificate certificate = {.name = STR_INIT("a.test-0123"),
                                              .identifiers = {identifiers, 2, 2}};
static struct acme_certificate *certificates[] = {&certificate};
static struct acme_issuer issuer = {.name = STR_INIT("ca"),
                                    .state_path = STR_INIT("/state"),
                                    .account_key = {.file = STR_INIT("/keys/account.pem")},
                                    .dns_hook = STR_INIT("/bin/false"),
                                    .certificates = {certificates, 1, 1},
                                    .lock = -1};

static bool allows(enum acme_duty_kind kind, const char *first, const char *second,
                   const char *third)
{
    const struct acme_duty duty = {.kind = kind,
                                   .texts = {str_of(first), str_of(second), str_of(third)}};

    return acme_duty_is_allowed(&issuer, &duty);
}

static void test_files_of_the_folder_only(void **state)
{
    static const char *const others[] = {"",
                                         "lock",
                                         ".",
                                         "../account.key",
                                         "/etc/shadow",
                                         "account.key/",
                                         "a.test-0123",
                                         "a.test-0123.pem.new",
                                         "b.test-0123.pem",
                                         "/keys/account.pem2"};

    assert_true(allows(ACME_FILE_READ, "account.key", "", ""));
    assert_true(allows(ACME_FILE_WRITE, "account.url", "x", ""));
    assert_true(allows(ACME_FILE_TIME, "a.test-0123.pem", "", ""));
    assert_true(allows(ACME_FILE_READ, "/keys/account.pem", "", ""));
    assert_false(allows(ACME_FILE_WRITE, "/keys/account.pem", "x", "")); /* it is the owner's */
    for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++) {
        assert_false(allows(ACME_FILE_READ, others[i], "", ""));
        assert_false(allows(ACME_FILE_WRITE, others[i], "x", ""));
    }
}

static void test_records_of_the_names_only(void **state)
{
    assert_true(allows(ACME_RUN_HOOK, "add", "_acme-challenge.a.test", DIGEST));
    assert_true(allows(ACME_RUN_HOOK, "remove", "_acme-challenge.a.test", DIGEST));
    assert_false(allows(ACME_RUN_HOOK, "set", "_acme-challenge.a.test", DIGEST));
    assert_false(allows(ACME_RUN_HOOK, "add", "a.test", DIGEST));
    assert_false(allows(ACME_RUN_HOOK, "add", "_acme-challenge.b.test", DIGEST));
    assert_false(allows(ACME_RUN_HOOK, "add", "_acme-challenge.192.0.2.1", DIGEST));
    assert_false(allows(ACME_RUN_HOOK, "add", "_acme-challenge.a.test", "short"));
    assert_false(allows(ACME_RUN_HOOK, "add", "_acme-challenge.a.test", DIGEST "x"));
    assert_false(allows(ACME_RUN_HOOK, "add", "_acme-challenge.a.test",
                        "$(reboot)ijklmnopqrstuvwxyzABCDEFGHIJKLM-_0123"));
}

/* What the monitor sends back for these bytes, until it ends. */
static size_t serve(const void *bytes, size_t size, void *out, size_t room)
{
    int ends[2];
    size_t got = 0;

    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, ends), 0);
    assert_int_equal(write(ends[0], bytes, size), (ssize_t) size);
    shutdown(ends[0], SHUT_WR);
    acme_monitor_serve(ends[1], &issuer);
    close(ends[1]);
    for (ssize_t n; (n = read(ends[0], (char *) out + got, room - got)) > 0;) {
        got += (size_t) n;
    }
    close(ends[0]);
    return got;
}

/* kind and three sizes, then the texts; the answer begins with an errno */
static void test_messages(void **state)
{
    struct {
        uint32_t kind, sizes[3];
        char text[16];
    } one = {ACME_FILE_READ, {11, 0, 0}, "/etc/shadow"};
    struct {
        int32_t error, status;
        uint32_t end, size;
        int64_t time_ns;
    } reply;

    assert_int_equal(serve(&one, 16 + 11, &reply, sizeof(reply)), sizeof(reply));
    assert_int_equal(reply.error, EPERM);
    assert_int_equal(reply.size, 0);
    assert_int_equal(serve(&one, 16 + 10, &reply, sizeof(reply)), 0); /* it is cut */
    one.sizes[0] = 1 << 30;
    assert_int_equal(serve(&one, sizeof(one), &reply, sizeof(reply)), 0);
    one.sizes[0] = 11;
    one.kind = ACME_RUN_HOOK + 1;
    assert_int_equal(serve(&one, 16 + 11, &reply, sizeof(reply)), 0);
    assert_int_equal(serve("", 0, &reply, sizeof(reply)), 0);
}

/* It has no reply, and holds for what comes after it. */
static void test_stop(void **state)
{
    struct {
        uint32_t stop[4];
        uint32_t kind, sizes[3];
        char text[11];
    } __attribute__((packed)) both = {{ACME_STOP}, ACME_FILE_READ, {11, 0, 0}, "/etc/shadow"};
    int32_t reply[12];

    issuer.is_stopping = false;
    assert_int_equal(serve(&both, sizeof(both), reply, sizeof(reply)), 24);
    assert_int_equal(reply[0], EPERM);
    assert_true(issuer.is_stopping);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_files_of_the_folder_only),
        cmocka_unit_test(test_records_of_the_names_only),
        cmocka_unit_test(test_messages),
        cmocka_unit_test(test_stop),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
