/* Old browsers by their User-Agent, as the reference tells them apart. */
#include "base/unit.h"

#include "http/message/agent.h"

static void versions_of_msie(void **state)
{
    assert_true(agent_is_msie(STR("Mozilla/4.0 (compatible; MSIE 7.0; X)")));
    assert_false(agent_is_msie6(STR("Mozilla/4.0 (compatible; MSIE 7.0; X)")));
    assert_true(agent_is_msie6(STR("Mozilla/4.0 (compatible; MSIE 6.0; X)")));
    assert_true(agent_is_msie6(STR("MSIE 4.0")));
    assert_true(agent_is_msie6(STR("MSIE 5.0 SV1")));
    assert_false(agent_is_msie6(STR("MSIE 10.0")));
    assert_false(agent_is_msie6(STR("MSIE 3.0")));
    assert_false(agent_is_msie6(STR("MSIE 6.0; SV1")));
    assert_true(agent_is_msie(STR("MSIE 6.0; SV1")));
}

static void others_that_give_the_name(void **state)
{
    assert_false(agent_is_msie(STR("Mozilla/4.0 (compatible; MSIE 6.0; X) Opera 7.5")));
    assert_false(agent_is_msie6(STR("Mozilla/4.0 (compatible; MSIE 6.0; X) Opera 7.5")));
    assert_true(agent_is_msie6(STR("MSIE 6.0 opera")));
    assert_false(agent_is_msie(STR("MSIE 6.")));
    assert_false(agent_is_msie(STR("MSIE/6.0")));
    assert_false(agent_is_msie(STR("")));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(versions_of_msie),
        cmocka_unit_test(others_that_give_the_name),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
