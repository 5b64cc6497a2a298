/* Variables and templates: text such as "$host$request_uri", compiled once, evaluated often.
 * Implemented in template.c and variables.c. */
#ifndef CONF_TEMPLATE_H
#define CONF_TEMPLATE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/log.h"
#include "base/map.h"
#include "base/str.h"
#include "conf/conf.h"

enum variable_flags {
    VARIABLE_VOLATILE = 1,   /* computed at every use ("cacheable: no") */
    VARIABLE_CHANGEABLE = 2, /* set, map, … may define the same name */
    VARIABLE_PREFIX = 4,     /* a family: name is the prefix ("http_"), get is handed the rest */
    VARIABLE_WEAK = 8,       /* known by a name only; defined by nobody yet */
    VARIABLE_INDEXED = 16,   /* has a place in variable_env.values */
    VARIABLE_MEMBER = 32,    /* made on demand from a family; a definition replaces it */
    VARIABLE_NEEDED = 64,    /* somebody will ask for it: it is an error when nobody defines it */
};

struct variable_env;
struct variable;

/*
 * What variables are asked of: a request, a connection in its handshake, a session, the answer to a
 * probe. Each kind is one static struct, and its address distinguishes it from the others. Code
 * that evaluates something embeds a struct variable_env and names its kind there; a getter finds
 * the struct around it, since it is never called for another kind.
 */
struct subject_kind {
    const char *name; /* "request", for debuggers */
    /*
     * What this kind says itself of names whose getters take another kind (ended by an empty name),
     * or NULL. Everything else of that kind is not found.
     */
    const struct variable *variables;
};

/* Of getters that use nothing but the environment: maps, clocks, what `set` assigned. */
extern const struct subject_kind any_subject;

/*
 * A variable. get gives false when there is no value ("not found": empty in text, "-" in logs). The
 * text lives as long as the request. For a member of a family, variable->rest is the part after the
 * prefix.
 */
struct variable {
    struct str name; /* lower case, without '$' */
    bool (*get)(struct variable_env *env, const struct variable *variable, struct str *out);
    /* Or NULL: an assignment stores the value. After a call of set, get is called again. */
    void (*set)(struct variable_env *env, const struct variable *variable, struct str value);
    uintptr_t data; /* of get and set */
    /* Whom get and set take. Of a row, NULL: the kind of the set that it is added to. */
    const struct subject_kind *kind;
    struct str rest; /* family members: the name after the prefix */
    unsigned flags;
    unsigned index; /* place in variable_env.values, once it is used (VARIABLE_INDEXED) */
    const struct conf_node *node; /* of the first use, for hints; or NULL */
    const char *doc;              /* of a row: one line for the manual */
};

/* All variables of one subsystem (http, stream) and generation. */
struct variable_set {
    struct map by_name;              /* struct variable * */
    struct vec prefixes;             /* struct variable *: families */
    struct vec used;                 /* struct variable *: by index */
    const struct subject_kind *kind; /* whom the rows take that name none */
};

enum variable_state { VARIABLE_UNSET, VARIABLE_FOUND, VARIABLE_NOT_FOUND, VARIABLE_EVALUATING };

struct variable_value {
    struct str text;
    uint8_t state; /* enum variable_state */
};

/* The place where templates are evaluated: embedded in a request, or another subject. */
struct variable_env {
    const struct subject_kind *kind; /* what it is embedded in */
    /* By index, cleared when the request starts; may be NULL while nothing was evaluated. */
    struct variable_value *values;
    const struct variable_set *set;
    struct arena *arena; /* of the request */
    const struct log *log;
    const struct str *captures; /* $0 … of the last regular expression */
    unsigned capture_count;
};

/*
 * Defines; NULL after conf_error (`the duplicate "x" variable`, `invalid variable name`). flags of
 * variable_flags. One that is there already must be CHANGEABLE; it is given as it is, with its get
 * and set, and the caller puts its own there. It has an index from here on.
 */
struct variable *variable_define(struct conf *conf, const struct conf_node *node,
                                 struct variable_set *set, struct str name, unsigned flags);
/* The same of a word "$name", for directives that define a variable: it is CHANGEABLE. */
struct variable *variable_define_word(struct conf *conf, const struct conf_node *node,
                                      struct str word);
/* Gives a variable that was defined a value made of the environment alone: it may be asked of any
 * subject. */
static inline void variable_compute(struct variable *variable,
                                    bool (*get)(struct variable_env *env,
                                                const struct variable *variable, struct str *out),
                                    const void *data)
{
    variable->get = get;
    variable->data = (uintptr_t) data;
    variable->kind = &any_subject;
}
/*
 * The variable that `set` assigns: defined by that, unless a family has such names. A member gives
 * what its family says wherever nothing was assigned to it.
 */
struct variable *variable_assignable_word(struct conf *conf, const struct conf_node *node,
                                          struct str word);
/* Adds built-in rows (ended by an empty name). Those without a kind take the kind of the set. */
void variable_add_all(struct conf *conf, struct variable_set *set, const struct variable *rows);
/*
 * The variable of this name with an index, known or still unknown (it may be defined later in the
 * file). Family members are made on demand.
 */
struct variable *variable_use(struct conf *conf, const struct conf_node *node,
                              struct variable_set *set, struct str name);
/* When all is read: `unknown "x" variable` for those that nobody defined. */
bool variable_check_all(struct conf *conf, struct variable_set *set);

/*
 * The value; false = not found. Cached unless volatile; cycles are logged as errors and are
 * not found.
 */
bool variable_get(struct variable_env *env, const struct variable *variable, struct str *out);
void variable_assign(struct variable_env *env, const struct variable *variable, struct str value);
/* From here on it has no value, where assignments store one. */
void variable_clear(struct variable_env *env, const struct variable *variable);
/* By a name known at run time only (ssi, lua). */
bool variable_get_by_name(struct variable_env *env, struct str name, struct str *out);

/* One part of a template. */
struct template_part {
    enum { PART_TEXT, PART_VARIABLE, PART_CAPTURE } kind;
    struct str text;                 /* PART_TEXT */
    const struct variable *variable; /* PART_VARIABLE */
    unsigned capture;                /* PART_CAPTURE: 0 to 9 */
    unsigned same; /* PART_VARIABLE: 1 + the place of the first part with this variable; 0 = it is
                      that. A text has one value of each */
};

struct template
{
    struct str source; /* as written */
    struct template_part *parts;
    unsigned count;
    bool is_constant;    /* no variables: constant holds the value */
    struct str constant; /* NUL-terminated */
    struct str prefix;   /* run prefix, put before a relative value when is_path */
    bool is_path;
};

/*
 * Compiles. The variables belong to the set of the scope's subsystem, which conf_variables_of(conf)
 * gives (set by http when its block is entered). NULL after conf_error (`the closing bracket in "x"
 * variable is missing`, `invalid variable name`).
 */
struct template *template_compile(struct conf *conf, const struct conf_node *node, struct str text);
/* Texts one after the other, each with values of its own: a variable that changes when it is asked
 * is asked for each. */
struct template *template_join(struct conf *conf, const struct vec *templates);
/*
 * Makes it a path: a relative value gets the prefix (with its slash) in front. The constant is made
 * again.
 */
void template_make_path(struct template *template, struct arena *arena, struct str prefix);
/* How many '$' names a text holds: 0 = constant. */
unsigned template_variable_count(struct str text);

/*
 * The value, in the request's arena unless constant. NUL-terminated (not counted). Unknown parts
 * are empty.
 */
struct str template_eval(const struct template *template, struct variable_env *env);

static inline struct str template_text(const struct template *template, struct variable_env *env)
{
    return template->is_constant ? template->constant : template_eval(template, env);
}

/* For predicates: any value not empty and not "0". An empty list gives false. */
bool templates_any_true(const struct vec *templates, struct variable_env *env);
/* For predicates: every value not empty and not "0". An empty list gives true. */
bool templates_all_true(const struct vec *templates, struct variable_env *env);

/* The set that template_compile uses. */
void conf_set_variables(struct conf *conf, struct variable_set *set);
struct variable_set *conf_variables(struct conf *conf);

#endif
