/* ngx.var: what it asks by FFI. */
#include "lua/values/variables.h"

#include "lua/vm/function.h"
#include "lua/vm/library.h"

/* Where the variables of the running thread's subject are. */
static int find_env(struct variable_env **out)
{
    const struct script_thread *thread = script_running();

    if (thread == NULL || thread->phase == SCRIPT_INIT) {
        return SCRIPT_VARIABLE_NO_REQUEST;
    }
    if (thread->subject->kind->variables == NULL) {
        return SCRIPT_VARIABLE_BAD_CONTEXT;
    }
    *out = thread->subject->kind->variables(thread->subject);
    return SCRIPT_VARIABLE_OK;
}

/* Gives a value as the functions below do. */
static int give_value(struct str value, const char **out)
{
    *out = value.data;
    return (int) value.len;
}

int script_ffi_capture(int number, const char **out)
{
    struct variable_env *env;
    int result = find_env(&env);

    if (result != SCRIPT_VARIABLE_OK) {
        return result;
    }
    unsigned count = env->capture_count;
    while (count > 0 && env->captures[count - 1].data == NULL) {
        count--;
    }
    if (number <= 0 || (unsigned) number >= count) {
        return SCRIPT_VARIABLE_NONE;
    }
    return give_value(env->captures[number].data != NULL ? env->captures[number] : STR(""), out);
}

static bool values_are_due(void)
{
    struct script_subject *subject = script_running_subject();

    return subject != NULL && subject->kind->values_are_due != NULL &&
           script_runs_in(SCRIPT_WAITING) && subject->kind->values_are_due(subject);
}

static int fetch_values(lua_State *L, struct script_thread *thread)
{
    (void) L;
    thread->subject->kind->fetch_values(thread->subject);
    return 0;
}

int script_ffi_variable(const char *name, size_t len, const char **out)
{
    return values_are_due() ? SCRIPT_VARIABLE_DUE : script_ffi_variable_fetched(name, len, out);
}

int script_ffi_variable_fetched(const char *name, size_t len, const char **out)
{
    struct variable_env *env;
    struct str value;
    int result = find_env(&env);

    if (result != SCRIPT_VARIABLE_OK) {
        return result;
    }
    return variable_get_by_name(env, (struct str){name, len}, &value) ? give_value(value, out)
                                                                      : SCRIPT_VARIABLE_NONE;
}

int script_variable_set(struct variable_env *env, struct str name, struct str value)
{
    const struct variable *variable = map_get_nocase(&env->set->by_name, name);

    if (variable == NULL || (variable->flags & VARIABLE_WEAK) != 0) {
        return SCRIPT_VARIABLE_NONE;
    }
    if ((variable->flags & VARIABLE_CHANGEABLE) == 0) {
        return SCRIPT_VARIABLE_FIXED;
    }
    if (value.data == NULL) {
        variable_clear(env, variable);
    } else {
        variable_assign(env, variable, arena_dup(env->arena, value));
    }
    return SCRIPT_VARIABLE_OK;
}

int script_ffi_variable_set(const char *name, size_t len, const char *value, size_t value_len)
{
    struct variable_env *env;
    int result = find_env(&env);

    if (result != SCRIPT_VARIABLE_OK) {
        return result;
    }
    return script_variable_set(env, (struct str){name, len}, (struct str){value, value_len});
}

SCRIPT_TEXT(script_library_variables, "src/lua/library/variables.lua")

void script_variables_add(lua_State *L)
{
    static const struct script_row row = {"fetch_values", fetch_values, SCRIPT_WAITING,
                                          .waits = true};

    lua_pushvalue(L, -1);
    script_push_function(L, &row);
    script_text_run(L, "ngx.var", SCRIPT_TEXT_OF(script_library_variables), 2);
}
