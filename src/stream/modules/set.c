/* ngx_stream_set_module: assigns variables in a server. */
#include "server/module.h"
#include "stream/session/hooks.h"
#include "stream/session/session.h"

/* One `set`. */
struct assignment {
    struct variable *variable;
    struct template *value;
};

struct set_settings {
    struct vec assignments; /* struct assignment, in the order of the lines */
};

static struct settings_key set_key;

static enum session_step assign(struct session *session)
{
    const struct set_settings *settings = stream_settings(session->server, &set_key);

    vec_each(const struct assignment, assignment, &settings->assignments) {
        struct str value = template_text(assignment->value, &session->env);

        if (assignment->variable->set != NULL) {
            assignment->variable->set(&session->env, assignment->variable, value);
        } else {
            variable_assign(&session->env, assignment->variable, value);
        }
    }
    return SESSION_NEXT;
}

/* A variable that was not assigned is empty, as in nginx. */
static bool get_unset(struct variable_env *env, const struct variable *variable, struct str *out)
{
    *out = STR("");
    return true;
}

static bool set_apply(struct conf_scope *scope, const struct directive *row, struct conf_node *node,
                      void *arg)
{
    struct set_settings *settings = arg;
    struct variable *variable = variable_define_word(scope->conf, node, node->args[1]);
    struct template *value = template_compile(scope->conf, node, node->args[2]);

    if (variable == NULL || value == NULL) {
        return false;
    }
    if (variable->get == NULL) {
        variable_compute(variable, get_unset, NULL);
    }
    *vec_add(&settings->assignments, scope->conf->arena, struct assignment) =
        (struct assignment){variable, value};
    return true;
}

static const struct directive set_rows[] = {
    {"set", IN_STREAM_SERVER, CUSTOM_FIELD(struct set_settings, assignments, set_apply), ARGS(2, 2),
     .repeat = REPEAT_APPEND, .inherit = INHERIT_NEVER, .syntax = "$variable value",
     .doc = "Sets a variable. `set` directives are executed in order, before limit_conn and the "
            "access rules."},
    {0},
};

static const struct session_hook session_hooks[] = {
    {.phase = STREAM_PREACCESS,
     .run = assign,
     .when = SETTING(set_key, struct set_settings, assignments.count)},
    {.run = NULL},
};
static const struct stream_module set_hooks = {.hooks = session_hooks};

const struct module ngx_stream_set_module = {
    .magic = MODULE_MAGIC,
    .name = "ngx_stream_set_module",
    .kind = MODULE_STREAM,
    .table = {.key = &set_key,
              .rows = set_rows,
              .contexts = IN_STREAM | IN_STREAM_SERVER,
              .size = sizeof(struct set_settings)},
    .hooks = &set_hooks,
};
