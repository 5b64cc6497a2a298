/* Tests of the order of hooks: names of the house's own, names beside them, and what is refused. */
#include "http/fixture.h"

#include "http/routing/hooks.h"
#include "server/module.h"

static void run_filter(struct request *asked)
{
    asked->response.status = 0;
}

#define FILTER(...)                                                                                \
    {                                                                                              \
        __VA_ARGS__, .run = run_filter                                                             \
    }
#define MODULE(...)                                                                                \
    &(const struct module)                                                                         \
    {                                                                                              \
        .kind = MODULE_HTTP, .hooks = &(const struct http_module)                                  \
        {                                                                                          \
            .filters = (const struct filter_hook[])                                                \
            {                                                                                      \
                __VA_ARGS__,                                                                       \
                {                                                                                  \
                    .run = NULL                                                                    \
                }                                                                                  \
            }                                                                                      \
        }                                                                                          \
    }

/* The names of the filters of these modules in their order, a blank behind each. */
static void assert_order(const struct module *const *modules, const char *wanted)
{
    assert_true(read_http("server { listen 127.0.0.1:8080; }"));
    const struct http_hooks *hooks = hooks_collect(&generation->conf, modules);
    struct buf text = {0};

    vec_each(const struct filter_hook *, hook, &hooks->filters) {
        buf_printf(&text, "%s ", (*hook)->name);
    }
    assert_str(buf_str(&text), str_of(wanted));
    buf_free(&text);
}

static bool was_said(const char *text)
{
    for (const struct conf_message *said = generation->conf.messages; said != NULL;
         said = said->next) {
        if (str_equal(said->text, str_of(text))) {
            return true;
        }
    }
    return false;
}

static void own_names_have_an_order(void **state)
{
    const struct module *const modules[] = {
        MODULE(FILTER(.name = "range"), FILTER(.name = "headers")),
        MODULE(FILTER(.name = "gzip")),
        MODULE(FILTER(.name = "not_modified")),
        NULL,
    };

    assert_order(modules, "not_modified headers gzip range ");
}

static void others_stand_beside_them(void **state)
{
    const struct module *const modules[] = {
        MODULE(FILTER(.name = "second", .after = "first")),
        MODULE(FILTER(.name = "first", .after = "headers")),
        MODULE(FILTER(.name = "third", .after = "headers")),
        MODULE(FILTER(.name = "zero", .before = "headers")),
        MODULE(FILTER(.name = "gzip"), FILTER(.name = "headers")),
        NULL,
    };

    assert_order(modules, "zero headers first second third gzip ");
}

static void names_need_not_be_built_in(void **state)
{
    const struct module *const modules[] = {
        MODULE(FILTER(.name = "late", .after = "xslt")),
        MODULE(FILTER(.name = "early", .before = "xslt")),
        MODULE(FILTER(.name = "gzip"), FILTER(.name = "sub")),
        NULL,
    };

    assert_order(modules, "sub early late gzip ");
}

static void wrong_names_are_refused(void **state)
{
    const struct module *const nobody[] = {MODULE(FILTER(.name = "x", .after = "nobody")), NULL};
    const struct module *const nowhere[] = {MODULE(FILTER(.name = "x")), NULL};
    const struct module *const circle[] = {
        MODULE(FILTER(.name = "x", .after = "y"), FILTER(.name = "y", .after = "x")),
        NULL,
    };

    assert_order(nobody, "");
    assert_true(was_said("hook \"x\" stands beside \"nobody\", which there is not"));
    assert_order(nowhere, "");
    assert_true(was_said("hook \"x\" says neither \"after\" nor \"before\""));
    assert_order(circle, "");
    assert_int_equal(generation->conf.error_count, 2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        http_test(own_names_have_an_order),
        http_test(others_stand_beside_them),
        http_test(names_need_not_be_built_in),
        http_test(wrong_names_are_refused),
    };

    return http_tests_run("hooks", tests);
}
