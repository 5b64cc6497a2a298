/* The environment of workers and of a new binary. */
#include "server/process/environment.h"

#include <stdbool.h>

static bool has_name(const char *variable, struct str name)
{
    return strncmp(variable, name.data, name.len) == 0 && variable[name.len] == '=';
}

static void environment_add(struct vec *list, struct arena *arena, char *variable)
{
    *vec_add(list, arena, char *) = variable;
}

/* Adds one `env`: with its value if it has one, else with the value that the variable had at start,
   if it was set. */
static void add_named(struct vec *list, struct arena *arena, struct str name, char *const *at_start)
{
    const char *equals = str_find_char(name, '=');
    struct str bare = equals == NULL ? name : str_from(name.data, equals);

    vec_each(char *, variable, list) {
        if (has_name(*variable, bare)) {
            return;
        }
    }
    if (equals != NULL) {
        environment_add(list, arena, arena_cstr(arena, name));
        return;
    }
    for (; *at_start != NULL; at_start++) {
        if (has_name(*at_start, name)) {
            environment_add(list, arena, *at_start);
            return;
        }
    }
}

char **environment_make(struct arena *arena, const struct vec *names, char *const *at_start,
                        char *const *extra)
{
    struct vec list = {0};

    for (; extra != NULL && *extra != NULL; extra++) {
        environment_add(&list, arena, *extra);
    }
    vec_each(const struct str, name, names) {
        add_named(&list, arena, *name, at_start);
    }
    add_named(&list, arena, STR("TZ"), at_start);
    environment_add(&list, arena, NULL);
    return list.items;
}
