/* Tests of a certificate and its key that are replaced while a handshake reads them. */
#include "conf/fixture.h"

#include "conf/template.h"
#include "shared/tls/options.h"

static unsigned reads;       /* of both */
static unsigned replaced_at; /* after so many of them */

static bool get_part(struct variable_env *env, const struct variable *variable, struct str *out)
{
    *out = arena_printf(env->arena, "%u", reads >= replaced_at ? 2 : 1);
    reads++;
    return true;
}

static const struct variable rows[] = {
    {.name = STR_INIT("certificate"), .get = get_part, .flags = VARIABLE_VOLATILE},
    {.name = STR_INIT("key"), .get = get_part, .flags = VARIABLE_VOLATILE},
    {.name = STR_NONE},
};
static const struct subject_kind kind = {.name = "handshake"};
static struct variable_set set;

static int set_up_pair(void **state)
{
    set_up(state);
    memset(&set, 0, sizeof(set));
    set.kind = &kind;
    variable_add_all(&conf, &set, rows);
    conf_set_variables(&conf, &set);
    reads = 0;
    return 0;
}

static void read_pair(const char *certificate, const char *key, struct str *certificate_out,
                      struct str *key_out)
{
    struct variable_env env = {.kind = &kind, .set = &set, .arena = &arena, .log = &memory_log};
    const struct template *certificate_text = template_compile(&conf, NULL, str_of(certificate));
    const struct template *key_text = template_compile(&conf, NULL, str_of(key));

    reads = 0;
    tls_option_pair(certificate_text, key_text, &env, certificate_out, key_out);
}

static void both_are_of_one_moment(void **state)
{
    struct str certificate, key;

    for (replaced_at = 0; replaced_at < 6; replaced_at++) {
        read_pair("data:$certificate", "data:$key", &certificate, &key);
        assert_str(key, certificate);
        assert_str(certificate, replaced_at < 3 ? STR("data:2") : STR("data:1"));
    }
}

static void files_are_named_once(void **state)
{
    struct str certificate, key;

    replaced_at = 1;
    read_pair("$certificate.crt", "$key.key", &certificate, &key);
    assert_str(certificate, STR("1.crt"));
    assert_str(key, STR("2.key"));
    assert_int_equal(reads, 2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(both_are_of_one_moment, set_up_pair, tear_down),
        cmocka_unit_test_setup_teardown(files_are_named_once, set_up_pair, tear_down),
    };

    return cmocka_run_group_tests_name("shared/tls_pair", tests, NULL, NULL);
}
