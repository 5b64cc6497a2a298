/* Tests of what is said of directives and modules that this build is without. */
#include "base/unit.h"

#include <string.h>

#include "server/configuration/not_built.h"
#include "server/module.h"

static struct arena arena;
static struct conf conf = {.arena = &arena};

/* Both are of the commercial nginx. */
static void a_directive_leads_to_its_module(void **state)
{
    assert_text(
        not_built_explain(&conf, STR("hls_fragment"), IN_HTTP),
        "it belongs to ngx_http_hls_module, which is left out of Portunus on purpose: make playlists "
        "and segments with ffmpeg, and serve them as files");
    assert_text(
        not_built_explain(&conf, STR("f4f"), IN_LOCATION),
        "it belongs to ngx_http_f4f_module, which is left out of Portunus on purpose: make HLS or DASH "
        "with ffmpeg, and serve it as files");
}

/* njs has modules for both; keyval is of one protocol where it stands. */
static void the_context_says_whose_it_is(void **state)
{
    assert_text(not_built_explain(&conf, STR("js_import"), IN_LOCATION),
                "it belongs to ngx_http_js_module, which is not in Portunus yet");
    assert_text(not_built_explain(&conf, STR("js_import"), IN_STREAM_SERVER),
                "it belongs to ngx_stream_js_module, which is not in Portunus yet");
    assert_text(not_built_explain(&conf, STR("js_preread"), IN_STREAM),
                "it belongs to ngx_stream_js_module, which is not in Portunus yet");
    assert_text(not_built_explain(&conf, STR("zone_sync"), IN_STREAM_SERVER),
                "it belongs to ngx_stream_zone_sync_module, which is not in Portunus yet");
    /* in a foreign block it is at least told what it is */
    assert_text(not_built_explain(&conf, STR("js_import"), IN_MAIL_SERVER),
                "it belongs to ngx_http_js_module, which is not in Portunus yet");
}

static bool is_linked(const char *name)
{
    for (const struct module *const *module = linked_modules; *module != NULL; module++) {
        if (strcmp((*module)->name, name) == 0) {
            return true;
        }
    }
    return false;
}

/* rr_discarded_range is Tengine's, proxy_ssl_verify waits for TLS. */
static void a_module_that_is_there_lacks_the_directive(void **state)
{
    assert_text(not_built_explain(&conf, STR("rr_discarded_range"), IN_UPSTREAM),
                "ngx_http_upstream_module of Portunus does not have it");
    if (!is_linked("ngx_http_proxy_module")) {
        assert_true(str_starts(not_built_explain(&conf, STR("proxy_ssl_verify"), IN_HTTP),
                               STR("it belongs to ngx_http_proxy_module, which is not ")));
        return;
    }
    assert_str(not_built_explain(&conf, STR("proxy_ssl_verify"), IN_HTTP),
               is_linked("ngx_http_ssl_module")
                   ? STR("ngx_http_proxy_module of Portunus does not have it")
                   : STR("it needs TLS, which is not built"));
    assert_text(not_built_explain(&conf, STR("proxy_bind_dynamic"), IN_HTTP),
                "ngx_http_proxy_module of Portunus does not have it");
}

static bool is_loadable(const char *module)
{
    for (const char *const *name = loadable_modules; *name != NULL; name++) {
        if (strcmp(*name, module) == 0) {
            return true;
        }
    }
    return false;
}

/* One that the catalogue of nginx's modules does not have, but this program does. */
static void a_module_of_our_own_is_named_with_its_object(void **state)
{
    struct str text = not_built_explain(&conf, STR("modsecurity"), IN_HTTP);

    if (is_loadable("ngx_http_modsecurity_module")) {
        assert_text(text, "it belongs to ngx_http_modsecurity_module, which is not loaded: add "
                          "\"load_module modules/ngx_http_modsecurity_module.so;\" at the top");
    } else {
        assert_text(text, "it belongs to ngx_http_modsecurity_module, which is not built");
    }
}

static void only_whole_names_count(void **state)
{
    static const char *const words[] = {"", "auth_jwt_key", "auth_jwt auth_jwt_type", " ", "foo"};

    for (size_t i = 0; i < COUNT(words); i++) {
        assert_int_equal(not_built_explain(&conf, str_of(words[i]), IN_HTTP).len, 0);
    }
}

static void modules_that_are_here_are_built(void **state)
{
    assert_string_equal(not_built_words(STR("ngx_http_js_module")), "not in Portunus yet");
    assert_string_equal(not_built_words(STR("ngx_http_perl_module")),
                        "left out of Portunus on purpose");
    assert_string_equal(not_built_words(STR("ngx_http_nosuch_module")), "");
    for (const struct module *const *module = linked_modules; *module != NULL; module++) {
        assert_string_equal(not_built_words(str_of((*module)->name)), "");
    }
    for (const char *const *name = loadable_modules; *name != NULL; name++) {
        assert_string_equal(not_built_words(str_of(*name)), "");
    }
}

static int tear_down_group(void **state)
{
    arena_free(&arena);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_directive_leads_to_its_module),
        cmocka_unit_test(the_context_says_whose_it_is),
        cmocka_unit_test(a_module_that_is_there_lacks_the_directive),
        cmocka_unit_test(a_module_of_our_own_is_named_with_its_object),
        cmocka_unit_test(only_whole_names_count),
        cmocka_unit_test(modules_that_are_here_are_built),
    };

    return cmocka_run_group_tests_name("server/not_built", tests, NULL, tear_down_group);
}
