/* Names of servers: parsing, the tables of an address, and the lookup of a host. */
#include "shared/names/server_names.h"

/* ---- parsing ---- */

static struct str lower_copy(struct arena *arena, struct str s)
{
    char *copy = arena_text(arena, s.len + 1);

    for (size_t i = 0; i < s.len; i++) {
        copy[i] = (char) ascii_lower((unsigned char) s.data[i]);
    }
    copy[s.len] = '\0';
    return (struct str){copy, s.len};
}

static size_t count_stars(struct str s)
{
    size_t stars = 0;

    for (size_t i = 0; i < s.len; i++) {
        stars += s.data[i] == '*';
    }
    return stars;
}

/*
 * Determines the kind of a name ("*.a.b", "a.b.*", ".a.b", "a.b"), and removes the dots and the
 * star of its wildcard. False for names that nginx refuses at once; is_sound checks the others.
 */
static bool classify(struct server_name *name)
{
    struct str text = name->name;

    name->kind = NAME_EXACT;
    if (str_starts(text, STR("."))) {
        name->kind = NAME_BOTH;
        name->name = str_skip(text, 1);
        return text.len > 1;
    }
    if (str_starts(text, STR("*"))) {
        name->kind = NAME_HEAD;
        name->name = str_skip(text, 2);
        return str_starts(text, STR("*.")) && text.len > 2;
    }
    if (str_ends(text, STR(".*"))) {
        name->kind = NAME_TAIL;
        name->name = str_head(text, text.len - 2);
    }
    return true;
}

/* Is the name valid? The only server of an address may have any name, as with nginx. */
static bool is_sound(const struct server_name *name)
{
    size_t stars = count_stars(name->written);

    if (name->kind == NAME_REGEX) {
        return true;
    }
    return stars <= 1 && str_find(name->written, STR("..")) == NULL &&
           (stars == 0 || name->kind != NAME_EXACT);
}

/* "~regex": compiled without case unless it has an upper-case letter, as in nginx. */
static bool add_regex(struct conf *conf, struct conf_node *node, struct server_name *name,
                      struct str pattern)
{
    if (pattern.len == 0) {
        return conf_error(conf, node, "empty regex in server name \"%.*s\"",
                          STR_ARG(name->written));
    }
    name->kind = NAME_REGEX;
    name->regex = regex_compile(conf, node, pattern, true, true);
    return name->regex != NULL;
}

static bool read_one(struct conf *conf, struct conf_node *node, struct str text,
                     struct str hostname, struct server_name *name)
{
    name->written = text;
    if (str_find_char(text, '/') != NULL) {
        conf_warn(conf, node, "server name \"%.*s\" has suspicious symbols", STR_ARG(text));
    }
    if (text.len != 0 && text.data[0] == '~') {
        return add_regex(conf, node, name, str_skip(text, 1));
    }
    name->name = str_is(text, "$hostname") ? hostname : lower_copy(conf->arena, text);
    name->written = name->name;
    return classify(name) ||
           conf_error(conf, node, "server name \"%.*s\" is invalid", STR_ARG(text));
}

bool server_names_read(struct conf *conf, struct conf_node *node, struct str hostname,
                       const struct server_name *owner, struct vec *names)
{
    for (unsigned i = 1; i < node->count; i++) {
        struct server_name *name = vec_add(names, conf->arena, struct server_name);

        *name = *owner;
        if (!read_one(conf, node, node->args[i], hostname, name)) {
            return false;
        }
    }
    return true;
}

/* ---- tables ---- */

/* The tables to which names are added. */
struct table {
    struct server_names *names;
    struct conf *conf;
    struct str address;
    bool is_alone; /* the names of the only server of an address are never looked up */
};

/* Logs that a name is ignored since another server has it. */
static void say_conflict(const struct table *table, const struct server_name *name,
                         const struct server_name *first)
{
    struct conf *conf = table->conf;
    const struct conf_node *block = name->block;
    const struct conf_node *other = first->block;

    if (table->is_alone) {
        return;
    }
    conf_warn(conf, NULL, "conflicting server name \"%.*s\" on %.*s, ignored",
              STR_ARG(name->written), STR_ARG(table->address));
    if (block != NULL && other != NULL && block->file != NULL && other->file != NULL) {
        conf_hint(conf, "the server in %.*s:%u has it already, that in %.*s:%u goes without",
                  STR_ARG(other->file->name), other->line, STR_ARG(block->file->name), block->line);
    }
}

/* Adds the name to one or two maps (the second may be NULL): to both or to none. */
static void server_names_add_name(const struct table *table, struct server_name *name,
                                  struct map *map, struct map *other)
{
    const struct server_name *first = map_get(map, name->name);

    if (first == NULL && other != NULL) {
        first = map_get(other, name->name);
    }
    if (first != NULL) {
        say_conflict(table, name, first);
        return;
    }
    map_put(map, table->conf->arena, name->name, name);
    if (other != NULL) {
        map_put(other, table->conf->arena, name->name, name);
    }
}

bool server_names_add(struct server_names *names, struct conf *conf, const struct vec *added,
                      struct str address, bool is_alone)
{
    const struct table table = {names, conf, address, is_alone};
    bool is_good = true;

    vec_each(struct server_name, name, added) {
        if (!is_alone && !is_sound(name)) {
            is_good = conf_error(conf, NULL, "invalid server name or wildcard \"%.*s\" on %.*s",
                                 STR_ARG(name->written), STR_ARG(address));
            continue;
        }
        switch (name->kind) {
        case NAME_EXACT:
            server_names_add_name(&table, name, &names->exact, NULL);
            break;
        case NAME_HEAD:
            server_names_add_name(&table, name, &names->heads, NULL);
            break;
        case NAME_TAIL:
            server_names_add_name(&table, name, &names->tails, NULL);
            break;
        case NAME_BOTH:
            server_names_add_name(&table, name, &names->exact, &names->heads);
            break;
        case NAME_REGEX:
            *vec_add(&names->by_regex, conf->arena, struct server_name *) = name;
            break;
        }
    }
    return is_good;
}

void server_names_finish(struct server_names *names, struct conf *conf)
{
    size_t count = names->by_regex.count;

    if (count != 0) {
        struct regex **regexes = arena_array(conf->arena, count, sizeof(void *));
        for (size_t i = 0; i < count; i++) {
            regexes[i] = (*vec_at(&names->by_regex, struct server_name *, i))->regex;
        }
        names->regexes = regex_set_new(conf, regexes, (unsigned) count);
    }
}

/* ---- lookup ---- */

/* "example.com" of "*.example.com": the longest part after a dot that the map has. */
static const struct server_name *find_head(const struct map *map, struct str host)
{
    for (size_t i = 0; i + 1 < host.len; i++) {
        if (host.data[i] == '.') {
            const struct server_name *name = map_get(map, str_skip(host, i + 1));
            if (name != NULL) {
                return name;
            }
        }
    }
    return NULL;
}

/* "www" of "www.*": the longest part before a dot that the map has. */
static const struct server_name *find_tail(const struct map *map, struct str host)
{
    for (size_t i = host.len; i > 1; i--) {
        if (host.data[i - 1] == '.') {
            const struct server_name *name = map_get(map, str_head(host, i - 1));
            if (name != NULL) {
                return name;
            }
        }
    }
    return NULL;
}

const struct server_name *server_names_find(const struct server_names *names, struct str host,
                                            struct variable_env *env)
{
    const struct server_name *name = map_get(&names->exact, host);

    if (name == NULL && names->heads.count != 0) {
        name = find_head(&names->heads, host);
    }
    if (name == NULL && names->tails.count != 0) {
        name = find_tail(&names->tails, host);
    }
    if (name == NULL && names->regexes != NULL) {
        int number = regex_set_first(names->regexes, host, env, env->log);
        if (number >= 0) {
            name = *vec_at(&names->by_regex, struct server_name *, number);
        }
    }
    return name;
}
