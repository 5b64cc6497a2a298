/* Variables: definition, lookup and evaluation. */
#include "conf/internal.h"
#include "conf/template.h"

#define RUNTIME_NAME_MAX 256 /* longest name that is looked up at run time */

const struct subject_kind any_subject = {.name = "any"};

struct variable_state_of_conf {
    struct variable_set *set; /* of the subsystem whose block is being applied */
};

void conf_set_variables(struct conf *conf, struct variable_set *set)
{
    struct variable_state_of_conf *state = conf_state(conf, "conf.variables", sizeof(*state));
    state->set = set;
}

struct variable_set *conf_variables(struct conf *conf)
{
    const struct variable_state_of_conf *state = conf_state(conf, "conf.variables", sizeof(*state));
    return state->set;
}

/* ---- while the configuration is read */

static struct str lower(struct arena *arena, struct str name)
{
    char *text = arena_text(arena, name.len + 1);

    for (size_t i = 0; i < name.len; i++) {
        text[i] = (char) ascii_lower((unsigned char) name.data[i]);
    }
    text[name.len] = '\0';
    return (struct str){text, name.len};
}

static struct variable *add_variable(struct conf *conf, struct variable_set *set, struct str name,
                                     unsigned flags)
{
    struct variable *variable = arena_new(conf->arena, struct variable);

    variable->name = lower(conf->arena, name);
    variable->kind = &any_subject;
    variable->flags = flags;
    map_put_nocase(&set->by_name, conf->arena, variable->name, variable);
    return variable;
}

static void give_index(struct conf *conf, struct variable_set *set, struct variable *variable)
{
    if ((variable->flags & VARIABLE_INDEXED) == 0) {
        variable->flags |= VARIABLE_INDEXED;
        variable->index = (unsigned) set->used.count;
        *vec_add(&set->used, conf->arena, struct variable *) = variable;
    }
}

/* The family with the longest prefix of this name, or NULL. The name is in lower case. */
static const struct variable *find_family(const struct variable_set *set, struct str name)
{
    const struct variable *best = NULL;
    char first = name.len != 0 ? *name.data : '\0'; /* excludes most of the many families */

    vec_each(struct variable *, item, &set->prefixes) {
        if (*(*item)->name.data == first && str_starts(name, (*item)->name) &&
            (best == NULL || (*item)->name.len > best->name.len)) {
            best = *item;
        }
    }
    return best;
}

/* Makes an undefined name a member of its family, if there is one. */
static void join_family(const struct variable_set *set, struct variable *variable)
{
    const struct variable *family = find_family(set, variable->name);

    if (family != NULL) {
        variable->get = family->get;
        variable->set = family->set;
        variable->data = family->data;
        variable->kind = family->kind;
        variable->rest = str_skip(variable->name, family->name.len);
        variable->flags &= ~(unsigned) VARIABLE_WEAK;
        variable->flags |= VARIABLE_MEMBER | VARIABLE_CHANGEABLE;
        variable->flags |= family->flags & VARIABLE_VOLATILE;
    }
}

struct variable *variable_define(struct conf *conf, const struct conf_node *node,
                                 struct variable_set *set, struct str name, unsigned flags)
{
    if (name.len == 0 || conf->is_later) {
        conf_error(conf, node, "invalid variable name");
        return NULL;
    }
    struct variable *variable = map_get_nocase(&set->by_name, name);
    if (variable == NULL) {
        variable = add_variable(conf, set, name, flags);
    } else if ((variable->flags & (VARIABLE_WEAK | VARIABLE_MEMBER)) != 0) {
        variable->get = NULL;
        variable->set = NULL;
        variable->data = 0;
        variable->kind = &any_subject;
        variable->rest = STR_NONE;
        variable->flags = flags | (variable->flags & (VARIABLE_INDEXED | VARIABLE_NEEDED));
    } else if ((variable->flags & VARIABLE_CHANGEABLE) == 0) {
        conf_error(conf, node, "the duplicate \"%.*s\" variable", STR_ARG(variable->name));
        return NULL;
    }
    give_index(conf, set, variable);
    return variable;
}

struct variable *variable_define_word(struct conf *conf, const struct conf_node *node,
                                      struct str word)
{
    if (word.len < 2 || *word.data != '$') {
        conf_error(conf, node, "invalid variable name \"%.*s\"", STR_ARG(word));
        return NULL;
    }
    return variable_define(conf, node, conf_variables(conf), str_skip(word, 1),
                           VARIABLE_CHANGEABLE);
}

struct variable *variable_assignable_word(struct conf *conf, const struct conf_node *node,
                                          struct str word)
{
    struct variable_set *set = conf_variables(conf);

    if (word.len > 1 && *word.data == '$') {
        struct str name = str_skip(word, 1);
        const struct variable *known = map_get_nocase(&set->by_name, name);
        bool is_member = known != NULL ? (known->flags & VARIABLE_MEMBER) != 0
                                       : find_family(set, lower(conf->arena, name)) != NULL;
        if (is_member) {
            return variable_use(conf, node, set, name);
        }
    }
    return variable_define_word(conf, node, word);
}

void variable_add_all(struct conf *conf, struct variable_set *set, const struct variable *rows)
{
    for (; rows->name.len != 0; rows++) {
        struct variable *copy = arena_new(conf->arena, struct variable);
        *copy = *rows;
        copy->kind = rows->kind != NULL ? rows->kind : set->kind;
        copy->flags &= ~(unsigned) (VARIABLE_INDEXED | VARIABLE_MEMBER | VARIABLE_WEAK);
        if ((rows->flags & VARIABLE_PREFIX) != 0) {
            *vec_add(&set->prefixes, conf->arena, struct variable *) = copy;
            continue;
        }
        struct variable *known = map_get_nocase(&set->by_name, rows->name);
        if (known == NULL) {
            map_put_nocase(&set->by_name, conf->arena, copy->name, copy);
        } else {
            /* The variable was used before it was added: users hold the pointer, so it is kept. */
            copy->index = known->index;
            copy->node = known->node;
            copy->flags |= known->flags & VARIABLE_INDEXED;
            *known = *copy;
        }
    }
}

/* For configuration text at run time: requests in progress have no slot for a new variable, so it
 * is computed at each use. */
static struct variable *use_later(struct conf *conf, const struct conf_node *node,
                                  const struct variable_set *set, struct str name)
{
    struct variable *known = map_get_nocase(&set->by_name, name);
    struct str lowered = lower(conf->arena, name);

    if (known != NULL && (known->flags & VARIABLE_INDEXED) != 0) {
        return known;
    }
    const struct variable *model = known != NULL ? known : find_family(set, lowered);
    if (model == NULL || (model->flags & VARIABLE_WEAK) != 0) {
        conf_error(conf, node, "unknown \"%.*s\" variable", STR_ARG(name));
        return NULL;
    }
    struct variable *made = arena_new(conf->arena, struct variable);
    *made = *model;
    if (known == NULL) {
        made->name = lowered;
        made->rest = str_skip(lowered, model->name.len);
    }
    return made;
}

struct variable *variable_use(struct conf *conf, const struct conf_node *node,
                              struct variable_set *set, struct str name)
{
    if (name.len == 0) {
        conf_error(conf, node, "invalid variable name");
        return NULL;
    }
    if (conf->is_later) {
        return use_later(conf, node, set, name);
    }
    struct variable *variable = map_get_nocase(&set->by_name, name);
    if (variable == NULL) {
        variable = add_variable(conf, set, name, VARIABLE_WEAK);
        join_family(set, variable);
    }
    if (variable->node == NULL) {
        variable->node = node;
    }
    if (conf->engine != NULL && conf->engine->late != NULL) {
        *vec_add(&conf->engine->late->variables, conf->arena, struct variable *) = variable;
    } else {
        variable->flags |= VARIABLE_NEEDED;
    }
    give_index(conf, set, variable);
    return variable;
}

static void tell_unknown(struct conf *conf, const struct variable_set *set,
                         const struct variable *variable)
{
    struct vec names = {0};
    const struct conf_node *node = variable->node;
    struct str hint = STR("");

    conf_error(conf, NULL, "unknown \"%.*s\" variable", STR_ARG(variable->name));
    map_each(slot, &set->by_name) {
        const struct variable *other = slot->value;
        if ((other->flags & VARIABLE_WEAK) == 0) {
            *vec_add(&names, conf->arena, struct str) = other->name;
        }
    }
    struct str near = conf_nearest(variable->name, names.items, names.count);
    if (node != NULL && node->file != NULL && node->file->name.len != 0) {
        hint = arena_printf(conf->arena, "it is used in %.*s:%u", STR_ARG(node->file->name),
                            node->end_line);
    }
    if (near.data != NULL) {
        conf_hint(conf, "%.*s%sdid you mean \"%.*s\"?", STR_ARG(hint), hint.len == 0 ? "" : "; ",
                  STR_ARG(near));
    } else if (hint.len != 0) {
        conf_hint(conf, "%.*s", STR_ARG(hint));
    }
}

bool variable_check_all(struct conf *conf, struct variable_set *set)
{
    bool is_good = true;

    vec_each(struct variable *, item, &set->used) {
        struct variable *variable = *item;
        if ((variable->flags & VARIABLE_WEAK) != 0) {
            join_family(set, variable);
        }
        if ((variable->flags & VARIABLE_WEAK) != 0 && (variable->flags & VARIABLE_NEEDED) != 0) {
            tell_unknown(conf, set, variable);
            is_good = false;
        }
    }
    return is_good;
}

/* ---- while a request is served */

/* The slot of a variable's value; allocates the table at the request's first use. */
static struct variable_value *value_slot(struct variable_env *env, const struct variable *variable)
{
    if (env->values == NULL) {
        env->values = arena_array(env->arena, env->set->used.count, sizeof(struct variable_value));
    }
    return &env->values[variable->index];
}

static bool takes_kind(const struct variable *variable, const struct variable_env *env)
{
    return variable->kind == env->kind || variable->kind == &any_subject;
}

/* Evaluates the row that the kind of the environment has for a name whose getter needs another
   kind. */
static __attribute__((cold)) bool ask_kind(struct variable_env *env,
                                           const struct variable *variable, struct str *out)
{
    const struct variable *row = env->kind == NULL ? NULL : env->kind->variables;

    for (; row != NULL && row->name.len != 0; row++) {
        bool is_family = (row->flags & VARIABLE_PREFIX) != 0;

        if (is_family ? str_starts(variable->name, row->name)
                      : str_equal(variable->name, row->name)) {
            struct variable asked = *row;
            asked.name = variable->name;
            asked.rest = str_skip(variable->name, is_family ? row->name.len : 0);
            return row->get(env, &asked, out);
        }
    }
    return false;
}

static bool call_get(struct variable_env *env, const struct variable *variable, struct str *out)
{
    *out = STR_NONE;
    if (!takes_kind(variable, env)) {
        return ask_kind(env, variable, out);
    }
    /* A variable that is only assigned is empty before the first assignment. */
    return variable->get == NULL || variable->get(env, variable, out);
}

/* Evaluates a variable without a cached value. */
static __attribute__((noinline)) bool compute(struct variable_env *env,
                                              const struct variable *variable, struct str *out)
{
    if ((variable->flags & VARIABLE_INDEXED) == 0) {
        return call_get(env, variable, out);
    }
    struct variable_value *value = value_slot(env, variable);
    if (value->state == VARIABLE_EVALUATING) {
        log_error(env->log, 0, "cycle while evaluating variable \"%.*s\"", STR_ARG(variable->name));
        *out = STR_NONE;
        return false;
    }
    if (value->state != VARIABLE_UNSET) {
        *out = value->text;
        return value->state == VARIABLE_FOUND;
    }
    value->state = VARIABLE_EVALUATING;
    bool is_found = call_get(env, variable, out);
    /* get may have assigned the variable or replaced the table: look it up again. */
    value = value_slot(env, variable);
    value->text = *out;
    value->state = is_found ? VARIABLE_FOUND : VARIABLE_NOT_FOUND;
    if ((variable->flags & VARIABLE_VOLATILE) != 0) {
        value->state = VARIABLE_UNSET; /* only an assignment stores a value */
    }
    return is_found;
}

bool variable_get(struct variable_env *env, const struct variable *variable, struct str *out)
{
    if (env->values != NULL &&
        (variable->flags & (VARIABLE_INDEXED | VARIABLE_VOLATILE)) == VARIABLE_INDEXED) {
        const struct variable_value *value = &env->values[variable->index];
        if (value->state == VARIABLE_FOUND) {
            *out = value->text;
            return true;
        }
    }
    return compute(env, variable, out);
}

void variable_assign(struct variable_env *env, const struct variable *variable, struct str text)
{
    bool is_set_by = variable->set != NULL && takes_kind(variable, env);

    if (is_set_by) {
        variable->set(env, variable, text);
    }
    if ((variable->flags & VARIABLE_INDEXED) == 0) {
        return;
    }
    struct variable_value *value = value_slot(env, variable);
    if (is_set_by) {
        value->state = VARIABLE_UNSET; /* get gives the new value */
        return;
    }
    value->text = text;
    value->state = VARIABLE_FOUND;
}

void variable_clear(struct variable_env *env, const struct variable *variable)
{
    variable_assign(env, variable, STR_NONE);
    if (variable->set == NULL && (variable->flags & VARIABLE_INDEXED) != 0) {
        value_slot(env, variable)->state = VARIABLE_NOT_FOUND;
    }
}

bool variable_get_by_name(struct variable_env *env, struct str name, struct str *out)
{
    const struct variable *variable = map_get_nocase(&env->set->by_name, name);

    *out = STR_NONE;
    if (variable != NULL) {
        return (variable->flags & VARIABLE_WEAK) == 0 && variable_get(env, variable, out);
    }
    if (name.len > RUNTIME_NAME_MAX) {
        return false;
    }
    struct str lowered = lower(env->arena, name);
    const struct variable *family = find_family(env->set, lowered);
    if (family == NULL) {
        return false;
    }
    struct variable member = *family;
    member.name = lowered;
    member.rest = str_skip(lowered, family->name.len);
    return call_get(env, &member, out);
}
