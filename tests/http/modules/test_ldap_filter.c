/* Names of clients in search filters of LDAP. */
#include "base/unit.h"

#include "http/modules/access/auth_ldap/filter.c"

static struct str escaped(struct str text)
{
    static char room[256];

    return str_from(room, ldap_filter_escape(room, text));
}

/* RFC 4515, 3 and 4 */
static void what_means_something_is_escaped(void **state)
{
    assert_str(escaped(STR("ann")), STR("ann"));
    assert_str(escaped(STR("a(b)c*d\\e")), STR("a\\28b\\29c\\2ad\\5ce"));
    assert_str(escaped((struct str){"a\0b", 3}), STR("a\\00b"));
    assert_str(escaped(STR("Lu\xc4\x8di\x7f\n")), STR("Lu\\c4\\8di\\7f\\0a"));
    assert_str(escaped(STR("")), STR(""));
}

static void attributes(void **state)
{
    assert_true(ldap_is_attribute(STR("uid")));
    assert_true(ldap_is_attribute(STR("2.5.4.3")));
    assert_true(ldap_is_attribute(STR("cn;lang-en")));
    assert_false(ldap_is_attribute(STR("")));
    assert_false(ldap_is_attribute(STR("uid)")));
    assert_false(ldap_is_attribute(STR("u id")));
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(what_means_something_is_escaped),
                                       cmocka_unit_test(attributes)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
