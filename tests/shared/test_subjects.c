/* Tests of variables that several kinds of subject are asked for: one map, one template, three
 * kinds. */
#include "conf/fixture.h"

#include "conf/template.h"
#include "shared/variables/map.h"
#include "shared/variables/split_clients.h"

/* A request, a session and a connection, each with an environment at another place. */
struct request {
    uint64_t number;
    struct variable_env env;
    struct str host;
};
struct session {
    struct str name;
    struct variable_env env;
};
struct connection {
    struct variable_env env;
    int descriptor;
};

#define GETTER(name)                                                                               \
    static bool name(struct variable_env *env, const struct variable *variable, struct str *out)

GETTER(get_host)
{
    *out = container_of(env, struct request, env)->host;
    return true;
}

GETTER(get_number)
{
    *out = arena_printf(env->arena, "%d", (int) container_of(env, struct request, env)->number);
    return true;
}

GETTER(get_name)
{
    *out = container_of(env, struct session, env)->name;
    return true;
}

GETTER(get_clock)
{
    *out = STR("noon");
    return true;
}

static const struct variable rows[] = {
    {.name = STR_INIT("host"), .get = get_host},
    {.name = STR_INIT("number"), .get = get_number, .flags = VARIABLE_VOLATILE},
    {.name = STR_INIT("time"), .get = get_clock, .kind = &any_subject},
    {.name = STR_NONE},
};
static const struct variable session_rows[] = {
    {.name = STR_INIT("host"), .get = get_name},
    {.name = STR_NONE},
};

static const struct subject_kind request_kind = {.name = "request"};
static const struct subject_kind session_kind = {.name = "session", .variables = session_rows};
static const struct subject_kind connection_kind = {.name = "connection"};

static struct variable_set set;
static const struct directive map_rows[] = {VALUE_MAP_ROWS(IN_MAIN),
                                            SPLIT_CLIENTS_ROW(IN_MAIN),
                                            {0}};
static const struct directive_table map_table = {.rows = map_rows,
                                                 .contexts = IN_MAIN,
                                                 .size = sizeof(struct value_map_settings)};

static struct variable_env env_of(const struct subject_kind *kind)
{
    return (struct variable_env){.kind = kind, .set = &set, .arena = &arena, .log = &memory_log};
}

static int set_up_map(void **state)
{
    set_up(state);
    memset(&set, 0, sizeof(set));
    set.kind = &request_kind;
    variable_add_all(&conf, &set, rows);
    conf_set_variables(&conf, &set);
    return 0;
}

/* A block as the lexer gives it. */
static bool read_block(const char *text)
{
    struct conf_scope scope = {.conf = &conf};

    assert_true(parse(text));
    struct conf_node *node = conf.root->last_child;
    for (const struct directive *row = map_table.rows; row->name != NULL; row++) {
        if (str_is(node->args[0], row->name)) {
            return row->apply(&scope, row, node, NULL);
        }
    }
    return false;
}

static void one_map_for_three_kinds(void **state)
{
    assert_true(
        read_block("map $host $place { default nowhere; a.org first; ~^(s)\\. \"$1 $time\"; }"));
    const struct template *text = template_compile(&conf, NULL, STR("$place/$host/$number"));
    struct request request = {.number = 7, .env = env_of(&request_kind), .host = STR("a.org")};
    struct session session = {.name = STR("s.org"), .env = env_of(&session_kind)};
    struct connection connection = {.env = env_of(&connection_kind)};

    assert_str(template_text(text, &request.env), STR("first/a.org/7"));
    assert_str(template_text(text, &session.env), STR("s noon/s.org/"));
    assert_str(template_text(text, &connection.env), STR("nowhere//"));
}

static void clients_are_split_by_what_there_is(void **state)
{
    assert_true(read_block("split_clients $host $part { 50% a; * b; }"));
    const struct variable *part = variable_use(&conf, NULL, &set, STR("part"));
    struct request request = {.env = env_of(&request_kind), .host = STR("x")};
    struct session session = {.name = STR("x"), .env = env_of(&session_kind)};
    struct connection connection = {.env = env_of(&connection_kind)};
    struct str of_request, of_session, of_connection;

    assert_true(variable_get(&request.env, part, &of_request));
    assert_true(variable_get(&session.env, part, &of_session));
    assert_true(variable_get(&connection.env, part, &of_connection));
    assert_str(of_session, of_request);
    assert_int_equal(of_connection.len, 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(one_map_for_three_kinds, set_up_map, tear_down),
        cmocka_unit_test_setup_teardown(clients_are_split_by_what_there_is, set_up_map, tear_down),
    };

    return cmocka_run_group_tests_name("shared/subjects", tests, NULL, NULL);
}
