/* Tests of when a certificate is to be renewed. */
#include "base/unit.h"

#include <stdio.h>

#include "base/clock.h"
#include "http/modules/clients/acme/acme.h"

#define DAY 86400
#define START 1000000000 /* when the certificates begin */

static int64_t due_of(const char *name, int64_t days, int64_t ari_due_s)
{
    const struct acme_certificate certificate = {.name = str_of(name), .ari_due_s = ari_due_s};
    const struct acme_facts facts = {.not_before = START, .not_after = START + days * DAY};

    return acme_due(&certificate, &facts);
}

/* At two thirds of the life, up to a fiftieth of it earlier: always the same time for one name, and
 * spread for many. */
static void test_two_thirds_with_jitter(void **state)
{
    static const int64_t lives[] = {90, 45, 6};

    for (size_t i = 0; i < sizeof(lives) / sizeof(lives[0]); i++) {
        int64_t last = START + lives[i] * DAY / 3 * 2, width = lives[i] * DAY / 50;
        unsigned parts[4] = {0};

        for (unsigned n = 0; n < 1000; n++) {
            char name[32];

            snprintf(name, sizeof(name), "n%u.test-0123456789abcdef", n);
            int64_t due = due_of(name, lives[i], 0);
            assert_in_range(due, last - width, last);
            assert_int_equal(due, due_of(name, lives[i], 0));
            parts[(last - due) * 4 / (width + 1)]++;
        }
        for (unsigned part = 0; part < 4; part++) {
            assert_in_range(parts[part], 150, 350);
        }
    }
}

/* What the CA suggests comes first, but not the last tenth of the life. */
static void test_what_the_ca_suggests(void **state)
{
    assert_int_equal(due_of("a", 90, START + 10 * DAY), START + 10 * DAY);
    assert_int_equal(due_of("a", 90, START + 80 * DAY), START + 80 * DAY);
    assert_int_equal(due_of("a", 90, START + 89 * DAY), START + 81 * DAY);
    assert_int_equal(due_of("a", 90, INT64_MAX), START + 81 * DAY);
}

/* An order that failed is put off, but not for the time by which a clock was wrong. */
static void test_put_off(void **state)
{
    const struct acme_certificate certificate = {.name = STR("a")};
    struct acme_facts facts = {.is_self_signed = true,
                               .not_until_s = START + 3600,
                               .noted_s = START};

    clock_now.seconds = START + 1;
    assert_int_equal(acme_due(&certificate, &facts), START + 3600);
    clock_now.seconds = START - 2; /* it is adjusted */
    assert_int_equal(acme_due(&certificate, &facts), START + 3600);
    clock_now.seconds = START - DAY;
    assert_int_equal(acme_due(&certificate, &facts), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_two_thirds_with_jitter),
        cmocka_unit_test(test_what_the_ca_suggests),
        cmocka_unit_test(test_put_off),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
