/* Tests of templates and variables: compiling, evaluating, families, definitions, cycles. */
#include "conf/fixture.h"

#include "conf/template.h"

static struct variable_set set;
static struct variable_env env;
static int gets; /* calls of get functions */

static bool get_data(struct variable_env *e, const struct variable *variable, struct str *out)
{
    gets++;
    if (variable->data == 0) {
        return false;
    }
    *out = str_of((const char *) variable->data);
    return true;
}

static bool get_rest(struct variable_env *e, const struct variable *variable, struct str *out)
{
    gets++;
    *out = arena_printf(e->arena, "[%.*s]", STR_ARG(variable->rest));
    return true;
}

static bool get_count(struct variable_env *e, const struct variable *variable, struct str *out)
{
    *out = arena_printf(e->arena, "%d", ++gets);
    return true;
}

static const struct variable *other; /* of get_other */

static bool get_other(struct variable_env *e, const struct variable *variable, struct str *out)
{
    return variable_get(e, other, out);
}

static struct str was_set;

static void set_limit(struct variable_env *e, const struct variable *variable, struct str value)
{
    was_set = value;
}

static const struct variable rows[] = {
    {.name = STR_INIT("host"), .get = get_data, .data = (uintptr_t) "example.org"},
    {.name = STR_INIT("empty"), .get = get_data, .data = (uintptr_t) ""},
    {.name = STR_INIT("zero"), .get = get_data, .data = (uintptr_t) "0"},
    {.name = STR_INIT("none"), .get = get_data},
    {.name = STR_INIT("uri"), .get = get_data, .data = (uintptr_t) "/a/b"},
    {.name = STR_INIT("count"), .get = get_count, .flags = VARIABLE_VOLATILE},
    {.name = STR_INIT("limit"), .get = get_data, .set = set_limit, .flags = VARIABLE_CHANGEABLE},
    {.name = STR_INIT("http_"), .get = get_rest, .flags = VARIABLE_PREFIX},
    {.name = STR_INIT("http_x_"), .get = get_count, .flags = VARIABLE_PREFIX | VARIABLE_VOLATILE},
    {.name = STR_NONE},
};

static int set_up_variables(void **state)
{
    set_up(state);
    memset(&set, 0, sizeof(set));
    variable_add_all(&conf, &set, rows);
    conf_set_variables(&conf, &set);
    gets = 0;
    return 0;
}

/* A request begins. */
static struct variable_env *new_env(void)
{
    memset(&env, 0, sizeof(env));
    env.set = &set;
    env.arena = &arena;
    env.log = &memory_log;
    return &env;
}

static struct template *compile(const char *text)
{
    struct template *made = template_compile(&conf, NULL, str_of(text));

    assert_non_null(made);
    return made;
}

static void texts_with_names_in_them(void **state)
{
    static const struct str captures[] = {STR_INIT("all"), STR_INIT("one"), STR_INIT("two")};
    static const struct {
        const char *text;
        const char *value;
    } cases[] = {
        {"", ""},
        {"plain", "plain"},
        {"$host", "example.org"},
        {"${host}", "example.org"},
        {"$HOST", "example.org"},
        {"${HoSt}x", "example.orgx"},
        {"a$host.b", "aexample.org.b"},
        {"$host$uri", "example.org/a/b"},
        {"$none-$empty-", "--"},
        {"$1$2$3$9", "onetwo"},
        {"$12", "one2"},
        {"$1x${host}", "onexexample.org"},
        {"\\$host", "\\example.org"},
        {"$http_", "[]"},
        {"$http_User_Agent", "[user_agent]"},
        {"}${host}{", "}example.org{"},
        {"$host}", "example.org}"},
    };

    for (size_t i = 0; i < COUNT(cases); i++) {
        struct template *template = compile(cases[i].text);
        new_env();
        env.captures = captures;
        env.capture_count = COUNT(captures);
        struct str value = template_text(template, &env);
        assert_str(value, str_of(cases[i].value));
        assert_int_equal(value.data[value.len], '\0');
        assert_str(template->source, str_of(cases[i].text));
        assert_int_equal(template->is_constant, str_find_char(str_of(cases[i].text), '$') == NULL);
    }
    assert_int_equal(template_variable_count(STR("a$b$c")), 2);
    assert_int_equal(template_variable_count(STR("")), 0);
}

static void many_parts(void **state)
{
    struct buf text = {0};
    struct buf value = {0};

    for (int i = 0; i < 100; i++) {
        buf_append(&text, STR("$host,"));
        buf_append(&value, STR("example.org,"));
    }
    struct template *template = template_compile(&conf, NULL, buf_str(&text));
    assert_str(template_eval(template, new_env()), buf_str(&value));
    assert_int_equal(gets, 1);
    buf_free(&text);
    buf_free(&value);
}

/* As nginx 1.22 was seen to say them. */
static void errors_of_names(void **state)
{
    static const struct {
        const char *text;
        const char *report;
    } cases[] = {
        {"$", "[emerg] invalid variable name\n"},
        {"a$", "[emerg] invalid variable name\n"},
        {"$ b", "[emerg] invalid variable name\n"},
        {"$-b", "[emerg] invalid variable name\n"},
        {"$$host", "[emerg] invalid variable name\n"},
        {"${", "[emerg] invalid variable name\n"},
        {"${}", "[emerg] invalid variable name\n"},
        {"${host", "[emerg] the closing bracket in \"host\" variable is missing\n"},
        {"${host-a}", "[emerg] the closing bracket in \"host\" variable is missing\n"},
        {"${-}", "[emerg] the closing bracket in \"\" variable is missing\n"},
        {"${1", "[emerg] the closing bracket in \"1\" variable is missing\n"},
    };

    for (size_t i = 0; i < COUNT(cases); i++) {
        tear_down(state);
        set_up_variables(state);
        assert_null(template_compile(&conf, NULL, str_of(cases[i].text)));
        assert_str(report(), str_of(cases[i].report));
    }
}

static void unknown_names_are_told_at_the_end(void **state)
{
    compile("$nosuch ${1} $0 $http_x $host $later");
    assert_non_null(variable_define(&conf, NULL, &set, STR("later"), VARIABLE_CHANGEABLE));
    assert_false(variable_check_all(&conf, &set));
    assert_text(report(), "[emerg] unknown \"nosuch\" variable\n"
                          "[emerg] unknown \"1\" variable\n"
                          "[emerg] unknown \"0\" variable\n");
}

static void variables_need_a_set(void **state)
{
    conf_set_variables(&conf, NULL);
    assert_null(template_compile(&conf, NULL, STR("$host")));
    assert_text(report(), "[emerg] variables are not supported here: \"$host\"\n");
    assert_non_null(compile("no name"));
}

static void definitions(void **state)
{
    assert_null(variable_define(&conf, NULL, &set, STR(""), 0));
    assert_null(variable_use(&conf, NULL, &set, STR("")));
    assert_null(variable_define(&conf, NULL, &set, STR("HOST"), VARIABLE_CHANGEABLE));
    assert_text(report(), "[emerg] invalid variable name\n[emerg] invalid variable name\n"
                          "[emerg] the duplicate \"host\" variable\n");

    struct variable *limit = variable_define(&conf, NULL, &set, STR("limit"), VARIABLE_CHANGEABLE);
    assert_ptr_equal(limit->set, set_limit);
    struct variable *mine = variable_define(&conf, NULL, &set, STR("Mine"), VARIABLE_CHANGEABLE);
    assert_text(mine->name, "mine");
    assert_ptr_equal(variable_define(&conf, NULL, &set, STR("mine"), VARIABLE_CHANGEABLE), mine);
    assert_ptr_equal(variable_use(&conf, NULL, &set, STR("MINE")), mine);
    assert_true(variable_check_all(&conf, &set));
}

/* `set $http_y …` makes a variable of its own out of a member of a family, for early users, too. */
static void a_definition_replaces_a_family_member(void **state)
{
    struct template *template = compile("$http_y");
    assert_text(template_eval(template, new_env()), "[y]");
    struct variable *y = variable_define(&conf, NULL, &set, STR("http_y"), VARIABLE_CHANGEABLE);
    assert_text(template_eval(template, new_env()), "");
    variable_assign(new_env(), y, STR("own"));
    assert_text(template_eval(template, &env), "own");
    assert_true(variable_check_all(&conf, &set));
}

static void the_longest_prefix_wins(void **state)
{
    struct template *template = compile("$http_x_y");
    assert_text(template_eval(template, new_env()), "1");
    assert_text(template_eval(template, &env), "2");
}

static void values_are_kept_unless_volatile(void **state)
{
    struct template *kept = compile("$host $host $none $none");
    struct template *anew = compile("$count $count");

    assert_text(template_eval(kept, new_env()), "example.org example.org  ");
    assert_int_equal(gets, 2);
    gets = 0;
    /* A text has one value of each, as in nginx; the next text another one. */
    assert_text(template_eval(anew, &env), "1 1");
    assert_text(template_eval(anew, new_env()), "2 2");
}

static void joined_texts_have_values_of_their_own(void **state)
{
    struct vec texts = {0};

    *vec_add(&texts, conf.arena, const struct template *) = compile("$count-$count");
    *vec_add(&texts, conf.arena, const struct template *) = compile(" ");
    *vec_add(&texts, conf.arena, const struct template *) = compile("$count-$count");
    assert_text(template_eval(template_join(&conf, &texts), new_env()), "1-1 2-2");
    texts = (struct vec){0};
    *vec_add(&texts, conf.arena, const struct template *) = compile("a");
    *vec_add(&texts, conf.arena, const struct template *) = compile("b");
    struct template *constant = template_join(&conf, &texts);
    assert_true(constant->is_constant);
    assert_text(template_text(constant, new_env()), "ab");
}

static void assignment(void **state)
{
    struct variable *mine = variable_define(&conf, NULL, &set, STR("mine"), VARIABLE_CHANGEABLE);
    struct variable *limit = variable_use(&conf, NULL, &set, STR("limit"));
    struct template *template = compile("<$mine>");
    struct str value;

    new_env();
    assert_text(template_eval(template, &env), "<>");
    variable_assign(&env, mine, STR("1"));
    assert_text(template_eval(template, &env), "<1>");
    variable_assign(&env, mine, STR("2"));
    assert_text(template_eval(template, &env), "<2>");
    assert_true(variable_get(&env, mine, &value));
    variable_assign(&env, limit, STR("10k"));
    assert_text(was_set, "10k");
    assert_false(variable_get(&env, limit, &value));
}

static const struct variable connection_rows[] = {
    {.name = STR_INIT("host"), .get = get_data, .data = (uintptr_t) "sni.example"},
    {.name = STR_INIT("http_"), .get = get_data, .flags = VARIABLE_PREFIX},
    {.name = STR_NONE},
};
static const struct subject_kind connection = {.name = "connection", .variables = connection_rows};
static const struct subject_kind probe = {.name = "probe"};

/* A getter is called for its own kind of subject alone. */
static void subjects_of_another_kind(void **state)
{
    const struct template *text = compile("$host|$uri|$http_x|$group");
    struct variable *group = variable_define(&conf, NULL, &set, STR("group"), 0);

    variable_compute(group, get_data, "computed");
    assert_str(template_text(text, new_env()), STR("example.org|/a/b|[x]|computed"));
    new_env()->kind = &connection;
    assert_str(template_text(text, &env), STR("sni.example|||computed"));
    new_env()->kind = &probe;
    assert_str(template_text(text, &env), STR("|||computed"));
    struct str value;
    assert_false(variable_get_by_name(&env, STR("http_y"), &value));
}

/* What a request would act on is a value like any other elsewhere. */
static void assignment_for_another_kind(void **state)
{
    const struct variable *limit = variable_use(&conf, NULL, &set, STR("limit"));
    struct str value;

    was_set = STR_NONE;
    new_env()->kind = &probe;
    variable_assign(&env, limit, STR("7"));
    assert_int_equal(was_set.len, 0);
    assert_true(variable_get(&env, limit, &value));
    assert_str(value, STR("7"));
}

static void cycles_end(void **state)
{
    struct variable *a = variable_define(&conf, NULL, &set, STR("a"), VARIABLE_CHANGEABLE);
    struct str value;

    a->get = get_other;
    other = a;
    report_text.len = 0;
    assert_false(variable_get(new_env(), a, &value));
    assert_text(buf_str(&report_text), "[error] cycle while evaluating variable \"a\"\n");
}

static void names_known_at_run_time_only(void **state)
{
    struct str value;

    compile("$weak");
    new_env();
    assert_true(variable_get_by_name(&env, STR("HOST"), &value));
    assert_text(value, "example.org");
    assert_true(variable_get_by_name(&env, STR("HTTP_Accept"), &value));
    assert_text(value, "[accept]");
    assert_false(variable_get_by_name(&env, STR("none"), &value));
    assert_false(variable_get_by_name(&env, STR("nosuch"), &value));
    assert_false(variable_get_by_name(&env, STR("weak"), &value));
    assert_false(variable_get_by_name(&env, STR(""), &value));
}

static void predicates(void **state)
{
    struct vec list = {0};

    assert_false(templates_any_true(&list, new_env()));
    *vec_add(&list, &arena, struct template *) = compile("$empty");
    *vec_add(&list, &arena, struct template *) = compile("0");
    *vec_add(&list, &arena, struct template *) = compile("$zero");
    *vec_add(&list, &arena, struct template *) = compile("$none");
    assert_false(templates_any_true(&list, &env));
    *vec_add(&list, &arena, struct template *) = compile("$zero$zero");
    assert_true(templates_any_true(&list, &env));
}

static void paths(void **state)
{
    static const struct {
        const char *text;
        const char *value;
    } cases[] = {
        {"html", "/run/html"},
        {"/html", "/html"},
        {"", "/run/"},
        {"$uri", "/a/b"},
        {"$host/x", "/run/example.org/x"},
        {"$none$uri", "/a/b"},
        {"x$uri", "/run/x/a/b"},
        {"$empty", "/run/"},
    };

    for (size_t i = 0; i < COUNT(cases); i++) {
        struct template *template = compile(cases[i].text);
        template_make_path(template, &arena, STR("/run/"));
        struct str value = template_text(template, new_env());
        assert_str(value, str_of(cases[i].value));
        assert_int_equal(value.data[value.len], '\0');
    }
}

#define variable_test(function)                                                                    \
    cmocka_unit_test_setup_teardown(function, set_up_variables, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        variable_test(texts_with_names_in_them),
        variable_test(many_parts),
        variable_test(errors_of_names),
        variable_test(unknown_names_are_told_at_the_end),
        variable_test(variables_need_a_set),
        variable_test(definitions),
        variable_test(a_definition_replaces_a_family_member),
        variable_test(the_longest_prefix_wins),
        variable_test(values_are_kept_unless_volatile),
        variable_test(joined_texts_have_values_of_their_own),
        variable_test(assignment),
        variable_test(subjects_of_another_kind),
        variable_test(assignment_for_another_kind),
        variable_test(cycles_end),
        variable_test(names_known_at_run_time_only),
        variable_test(predicates),
        variable_test(paths),
    };

    return cmocka_run_group_tests_name("conf/template", tests, NULL, NULL);
}
