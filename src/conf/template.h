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
    VARIABLE_VOLATILE = 1,   /* computed at each use ("cacheable: no") */
    VARIABLE_CHANGEABLE = 2, /* set, map, … may define the same name */
    VARIABLE_PREFIX = 4,     /* a family: name is the prefix ("http_"), rest has the remainder */
    VARIABLE_WEAK = 8,       /* known only by name; not defined yet */
    VARIABLE_INDEXED = 16,   /* has an index in variable_env.values */
    VARIABLE_MEMBER = 32,    /* created on demand from a family; a definition replaces it */
    VARIABLE_NEEDED = 64,    /* will be used: it is an error if it is not defined */
};

struct variable_env;
struct variable;

/*
 * The kind of object that variables are evaluated for: a request, a connection in its handshake, a
 * session, the response to a health check. Each kind is one static struct, and its address
 * identifies it. Code that evaluates variables embeds a struct variable_env in such an object and
 * sets its kind; a getter finds the object from the struct, since it is never called for another
 * kind.
 */
struct subject_kind {
    const char *name; /* "request", for debuggers */
    /*
     * Rows that this kind has for names whose getters need another kind (ended by an empty name),
     * or NULL. Any other variable of another kind is not found.
     */
    const struct variable *variables;
};

/* The kind of getters that use only the environment: maps, clocks, values that `set` assigned. */
extern const struct subject_kind any_subject;

/*
 * A variable. get gives false when there is no value ("not found": empty in text, "-" in logs). The
 * value lives as long as the request. For a member of a family, variable->rest is the part after
 * the prefix.
 */
struct variable {
    struct str name; /* lower case, without '$' */
    bool (*get)(struct variable_env *env, const struct variable *variable, struct str *out);
    /* May be NULL: an assignment then stores the value. After a call of set, get is called
       again. */
    void (*set)(struct variable_env *env, const struct variable *variable, struct str value);
    uintptr_t data; /* for get and set */
    /* The kind that get and set need. NULL in a row: the kind of the set that it is added to. */
    const struct subject_kind *kind;
    struct str rest; /* for members of a family: the name after the prefix */
    unsigned flags;
    unsigned index; /* index in variable_env.values, once the variable is used (VARIABLE_INDEXED) */
    const struct conf_node *node; /* the first use, for hints; or NULL */
    const char *doc;              /* in a row: one line for the manual */
};

/* All variables of one subsystem (http, stream) and generation. */
struct variable_set {
    struct map by_name;              /* struct variable * */
    struct vec prefixes;             /* struct variable *: the families */
    struct vec used;                 /* struct variable *: by index */
    const struct subject_kind *kind; /* the kind of rows that have none */
};

enum variable_state { VARIABLE_UNSET, VARIABLE_FOUND, VARIABLE_NOT_FOUND, VARIABLE_EVALUATING };

struct variable_value {
    struct str text;
    uint8_t state; /* enum variable_state */
};

/* The environment in which templates are evaluated: embedded in a request, or another subject. */
struct variable_env {
    const struct subject_kind *kind; /* kind of the object that contains it */
    /* By index, cleared when the request starts; may be NULL as long as nothing was evaluated. */
    struct variable_value *values;
    const struct variable_set *set;
    struct arena *arena; /* of the request */
    const struct log *log;
    const struct str *captures; /* $0 … of the last regular expression */
    unsigned capture_count;
};

/*
 * Defines a variable and gives it an index. NULL after conf_error (`the duplicate "x" variable`,
 * `invalid variable name`). flags of variable_flags. A variable that is defined already must be
 * CHANGEABLE; it is given with its get and set, which the caller replaces.
 */
struct variable *variable_define(struct conf *conf, const struct conf_node *node,
                                 struct variable_set *set, struct str name, unsigned flags);
/* The same for an argument "$name", for directives that define a variable: it is CHANGEABLE. */
struct variable *variable_define_word(struct conf *conf, const struct conf_node *node,
                                      struct str word);
/* Gives a defined variable a getter that uses only the environment: it works with any kind of
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
 * The variable that `set` assigns: defined here, unless a family has its name. Then it is a member
 * of the family, whose getter applies as long as nothing was assigned.
 */
struct variable *variable_assignable_word(struct conf *conf, const struct conf_node *node,
                                          struct str word);
/* Adds built-in rows (ended by an empty name). Rows without a kind get the kind of the set. */
void variable_add_all(struct conf *conf, struct variable_set *set, const struct variable *rows);
/*
 * The variable with this name, with an index. It may be unknown, since it may be defined later in
 * the file. Members of families are created on demand.
 */
struct variable *variable_use(struct conf *conf, const struct conf_node *node,
                              struct variable_set *set, struct str name);
/* After the whole file was read: reports `unknown "x" variable` for those that are needed and not
   defined. */
bool variable_check_all(struct conf *conf, struct variable_set *set);

/*
 * The value; false = not found. Cached unless volatile. A cycle is logged as an error, and the
 * value is not found.
 */
bool variable_get(struct variable_env *env, const struct variable *variable, struct str *out);
void variable_assign(struct variable_env *env, const struct variable *variable, struct str value);
/* Removes the value, where assignments store one. */
void variable_clear(struct variable_env *env, const struct variable *variable);
/* By a name that is known at run time only (ssi, lua). */
bool variable_get_by_name(struct variable_env *env, struct str name, struct str *out);

/* One part of a template. */
struct template_part {
    enum { PART_TEXT, PART_VARIABLE, PART_CAPTURE } kind;
    struct str text;                 /* PART_TEXT */
    const struct variable *variable; /* PART_VARIABLE */
    unsigned capture;                /* PART_CAPTURE: 0 to 9 */
    unsigned same; /* PART_VARIABLE: 1 + the index of the first part with this variable; 0 = this is
                      the first. A text has one value for each variable */
};

struct template
{
    struct str source; /* as written */
    struct template_part *parts;
    unsigned count;
    bool is_constant;    /* no variables: constant has the value */
    struct str constant; /* NUL-terminated */
    struct str prefix;   /* run prefix, put before a relative value if is_path */
    bool is_path;
};

/*
 * Compiles a text. Its variables belong to conf_variables(conf), the set of the subsystem whose
 * block is being applied. NULL after conf_error (`the closing bracket in "x" variable is missing`,
 * `invalid variable name`).
 */
struct template *template_compile(struct conf *conf, const struct conf_node *node, struct str text);
/* Concatenates texts. Each has its own values: a variable that changes with each evaluation is
 * evaluated in each. */
struct template *template_join(struct conf *conf, const struct vec *templates);
/*
 * Makes it a path: a relative value gets the prefix (with its slash). Computes the constant again.
 */
void template_make_path(struct template *template, struct arena *arena, struct str prefix);
/* Number of '$' names in a text: 0 = constant. */
unsigned template_variable_count(struct str text);

/*
 * The value, in the request's arena unless constant. NUL-terminated (not counted). Parts that are
 * not found are empty.
 */
struct str template_eval(const struct template *template, struct variable_env *env);

static inline struct str template_text(const struct template *template, struct variable_env *env)
{
    return template->is_constant ? template->constant : template_eval(template, env);
}

/* For predicates: is any value neither empty nor "0"? An empty list gives false. */
bool templates_any_true(const struct vec *templates, struct variable_env *env);
/* For predicates: is every value neither empty nor "0"? An empty list gives true. */
bool templates_all_true(const struct vec *templates, struct variable_env *env);

/* The set that template_compile uses. */
void conf_set_variables(struct conf *conf, struct variable_set *set);
struct variable_set *conf_variables(struct conf *conf);

#endif
