/* Locations: the blocks, and the search for the location of a URI. */
#include <stdlib.h>

#include "base/text.h"
#include "http/routing/settings.h"

struct settings_key http_location_key;
struct settings_key file_settings_key;
struct settings_key body_settings_key;
struct settings_key connection_settings_key;
struct settings_key response_settings_key;

/* A prefix location in an array sorted by name, with the longest other one that is a prefix of
 * it. */
struct prefix_entry {
    struct http_location *location;
    int shorter; /* index of the longest other entry that is a prefix of this one, or -1 */
};

struct uri_entry {
    struct str uri;
    struct http_location *location;
};

/* Locations found by a whole URI: a few are compared one by one, many are found by the map. */
struct uri_table {
    struct uri_entry *entries;
    unsigned count;
    struct map map;
};

/* Search structures for the nested locations of a location. */
struct location_index {
    struct prefix_entry *prefixes; /* sorted */
    unsigned prefix_count;
    struct uri_table exact;
    struct uri_table unslashed; /* locations that redirect to their name "/a/", by "/a" */
    struct http_location **regex_locations; /* in the order of the file */
    struct regex_set *regexes;
};

#define ENTRIES_IN_TURN 4

/* ---- blocks ---- */

/* The header of a location block. */
struct location_head {
    enum location_kind kind;
    struct str name;
    bool is_nocase;
};

static void take_modifier(struct location_head *head, struct str modifier, struct str rest)
{
    head->name = rest;
    if (str_is(modifier, "=")) {
        head->kind = LOCATION_EXACT;
    } else if (str_is(modifier, "^~")) {
        head->kind = LOCATION_PREFIX_NO_REGEX;
    } else {
        head->kind = LOCATION_REGEX;
        head->is_nocase = str_is(modifier, "~*");
    }
}

/* Accepts "= /a" and "=/a". */
static bool parse_head(struct conf *conf, const struct conf_node *node, struct location_head *head)
{
    static const char *const modifiers[] = {"=", "^~", "~*", "~"};
    struct str first = node->args[1];

    *head = (struct location_head){.kind = LOCATION_PREFIX, .name = first};
    for (size_t i = 0; i < sizeof(modifiers) / sizeof(modifiers[0]); i++) {
        struct str modifier = str_of(modifiers[i]);

        if (node->count == 3) {
            if (str_equal(first, modifier)) {
                take_modifier(head, modifier, node->args[2]);
                return true;
            }
        } else if (str_starts(first, modifier)) {
            take_modifier(head, modifier, str_skip(first, modifier.len));
            return true;
        }
    }
    if (node->count == 3) {
        return conf_error(conf, node, "invalid location modifier \"%.*s\"", STR_ARG(first));
    }
    if (first.len != 0 && first.data[0] == '@') {
        head->kind = LOCATION_NAMED;
    }
    return true;
}

/* Which locations cannot be nested. */
static bool check_nesting(struct conf *conf, const struct conf_node *node,
                          const struct location_head *head, const struct http_location *outer)
{
    if (outer->kind == LOCATION_UNNAMED) {
        return true;
    }
    if (outer->kind == LOCATION_EXACT) {
        return conf_error(conf, node,
                          "location \"%.*s\" cannot be inside the exact location \"%.*s\"",
                          STR_ARG(head->name), STR_ARG(outer->name));
    }
    if (outer->kind == LOCATION_NAMED) {
        return conf_error(conf, node,
                          "location \"%.*s\" cannot be inside the named location \"%.*s\"",
                          STR_ARG(head->name), STR_ARG(outer->name));
    }
    if (head->kind == LOCATION_NAMED) {
        return conf_error(conf, node, "named location \"%.*s\" can be on the server level only",
                          STR_ARG(head->name));
    }
    if (head->kind != LOCATION_REGEX && outer->kind != LOCATION_REGEX &&
        !str_starts(head->name, outer->name)) {
        return conf_error(conf, node, "location \"%.*s\" is outside location \"%.*s\"",
                          STR_ARG(head->name), STR_ARG(outer->name));
    }
    return true;
}

/* Arguments of location_prepare. */
struct entering {
    const struct location_head *head;
    struct http_location *outer;
    struct http_location *made;
};

static void location_prepare(struct conf_scope *scope, void *arg)
{
    struct entering *entering = arg;
    struct http_location *location = scope_location(scope);

    location->parent = entering->outer;
    location->server = entering->outer->server;
    location->node = scope->node;
    location->settings = scope->settings;
    if (entering->head != NULL) {
        location->kind = entering->head->kind;
        location->name = entering->head->name;
        location->content = (struct content_handler){0};
    } else {
        location->kind = entering->outer->kind;
        location->name = entering->outer->name;
        location->regex = entering->outer->regex;
    }
    entering->made = location;
}

bool location_enter(struct conf_scope *scope, const struct directive *row, struct conf_node *node,
                    void *settings)
{
    struct conf *conf = scope->conf;
    struct http_location *outer = settings;
    struct location_head head;
    struct regex *regex = NULL;

    if (!parse_head(conf, node, &head) || !check_nesting(conf, node, &head, outer)) {
        return false;
    }
    if (head.kind == LOCATION_REGEX) {
        regex = regex_compile(conf, node, head.name, head.is_nocase, true);
        if (regex == NULL) {
            return false;
        }
    }
    struct entering entering = {.head = &head, .outer = outer};
    struct conf_scope *inner = conf_enter(scope, node, IN_LOCATION, location_prepare, &entering);
    if (entering.made == NULL) {
        return false;
    }
    entering.made->regex = regex;
    *vec_add(&outer->nested, conf->arena, struct http_location *) = entering.made;
    return inner != NULL;
}

struct http_location *location_enter_unnamed(struct conf_scope *scope, struct conf_node *node,
                                             uint32_t context)
{
    struct entering entering = {.outer = scope_location(scope)};

    conf_enter(scope, node, context, location_prepare, &entering);
    return entering.made;
}

/* ---- after a server was read ---- */

static int by_name(const void *a, const void *b)
{
    const struct prefix_entry *left = a;
    const struct prefix_entry *right = b;

    return str_compare(left->location->name, right->location->name);
}

static bool say_duplicate(struct conf *conf, const struct http_location *a,
                          const struct http_location *b)
{
    const struct http_location *first = a->node->order < b->node->order ? a : b;
    const struct http_location *second = first == a ? b : a;

    conf_error(conf, NULL, "duplicate location \"%.*s\" in %.*s:%u", STR_ARG(second->name),
               STR_ARG(second->node->file->name), second->node->end_line);
    conf_hint(conf, "the first one is in %.*s:%u", STR_ARG(first->node->file->name),
              first->node->end_line);
    return false;
}

/* The first location of a URI is used. Gives that one if it is another, else NULL. */
static struct http_location *table_add(struct conf *conf, struct uri_table *table, struct str uri,
                                       struct http_location *location)
{
    struct http_location *former = map_get(&table->map, uri);

    if (former == NULL) {
        map_put(&table->map, conf->arena, uri, location);
        table->entries[table->count++] = (struct uri_entry){uri, location};
    }
    return former;
}

static void add_unslashed(struct conf *conf, struct location_index *index,
                          struct http_location *location)
{
    struct str name = location->name;

    if (location->content.redirects_slash && name.len != 0 && name.data[name.len - 1] == '/') {
        table_add(conf, &index->unslashed, str_head(name, name.len - 1), location);
    }
}

static bool link_prefixes(struct conf *conf, struct location_index *index)
{
    qsort(index->prefixes, index->prefix_count, sizeof(*index->prefixes), by_name);
    for (unsigned i = 0; i < index->prefix_count; i++) {
        struct prefix_entry *entry = &index->prefixes[i];
        int shorter = (int) i - 1;

        if (i != 0 && str_equal(entry->location->name, entry[-1].location->name)) {
            return say_duplicate(conf, entry[-1].location, entry->location);
        }
        while (shorter >= 0 &&
               !str_starts(entry->location->name, index->prefixes[shorter].location->name)) {
            shorter = index->prefixes[shorter].shorter;
        }
        entry->shorter = shorter;
        add_unslashed(conf, index, entry->location);
    }
    return true;
}

static bool add_exact(struct conf *conf, struct location_index *index,
                      struct http_location *location)
{
    struct http_location *former = table_add(conf, &index->exact, location->name, location);

    add_unslashed(conf, index, location);
    return former == NULL || say_duplicate(conf, former, location);
}

static bool add_named(struct conf *conf, struct http_location *location)
{
    /* nginx accepts a name twice; the first location is used. */
    if (map_get(&location->server->named, location->name) == NULL) {
        map_put(&location->server->named, conf->arena, location->name, location);
    }
    return true;
}

/* Combines the regular expressions of one level to a set. */
static void make_regexes(struct conf *conf, struct location_index *index, unsigned count)
{
    struct regex **regexes = arena_array(conf->arena, count + 1, sizeof(void *));

    for (unsigned i = 0; i < count; i++) {
        regexes[i] = index->regex_locations[i]->regex;
    }
    if (count != 0) {
        index->regexes = regex_set_new(conf, regexes, count);
    }
}

bool locations_finish(struct conf *conf, struct http_location *root)
{
    unsigned count = (unsigned) root->nested.count;
    bool is_ok = true;

    if (root->limited != NULL) {
        is_ok &= locations_finish(conf, root->limited);
    }
    if (count == 0) {
        return is_ok;
    }
    struct location_index *index = arena_new(conf->arena, struct location_index);
    unsigned regexes = 0;
    index->prefixes = arena_array(conf->arena, count, sizeof(*index->prefixes));
    index->exact.entries = arena_array(conf->arena, count, sizeof(struct uri_entry));
    index->unslashed.entries = arena_array(conf->arena, count, sizeof(struct uri_entry));
    index->regex_locations = arena_array(conf->arena, count, sizeof(void *));
    vec_each(struct http_location *, item, &root->nested) {
        struct http_location *location = *item;

        switch (location->kind) {
        case LOCATION_EXACT:
            is_ok &= add_exact(conf, index, location);
            break;
        case LOCATION_PREFIX:
        case LOCATION_PREFIX_NO_REGEX:
            index->prefixes[index->prefix_count++].location = location;
            break;
        case LOCATION_REGEX:
            index->regex_locations[regexes++] = location;
            break;
        case LOCATION_NAMED:
            is_ok &= add_named(conf, location);
            break;
        case LOCATION_UNNAMED:
            break;
        }
        is_ok &= locations_finish(conf, location);
    }
    make_regexes(conf, index, regexes);
    root->index = index;
    return link_prefixes(conf, index) && is_ok;
}

/* ---- the search ---- */

static struct http_location *table_find(const struct uri_table *table, struct str uri)
{
    if (table->count > ENTRIES_IN_TURN) {
        return map_get(&table->map, uri);
    }
    for (unsigned i = 0; i < table->count; i++) {
        if (str_equal(table->entries[i].uri, uri)) {
            return table->entries[i].location;
        }
    }
    return NULL;
}

/* The longest location that is a prefix of the URI: the greatest name not above the URI, or a
 * prefix of that name. */
static struct http_location *find_prefix(const struct location_index *index, struct str uri)
{
    int low = 0;
    int high = (int) index->prefix_count;

    while (low < high) {
        int middle = (low + high) / 2;
        if (str_compare(index->prefixes[middle].location->name, uri) <= 0) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    int at = low - 1;
    while (at >= 0 && !str_starts(uri, index->prefixes[at].location->name)) {
        at = index->prefixes[at].shorter;
    }
    return at < 0 ? NULL : index->prefixes[at].location;
}

/* The state of a search. */
struct location_search {
    struct str uri;
    struct variable_env *env;          /* where captures are stored */
    const struct http_location *found; /* the best match so far */
    bool lacks_slash;                  /* see location_find */
};

/* The result of a search at one level. */
enum found { FOUND_NOTHING, FOUND_PREFIX, FOUND_LAST };

static enum found find_in(struct location_search *search, const struct http_location *level)
{
    const struct location_index *index = level->index;
    struct str uri = search->uri;
    enum found how = FOUND_NOTHING;
    bool skips_regexes = false;

    if (index == NULL) {
        return FOUND_NOTHING;
    }
    const struct http_location *exact = table_find(&index->exact, uri);
    if (exact != NULL) {
        search->found = exact;
        return FOUND_LAST;
    }
    const struct http_location *prefix = find_prefix(index, uri);
    if (prefix == NULL || prefix->name.len != uri.len) {
        const struct http_location *slashed = table_find(&index->unslashed, uri);
        if (slashed != NULL) {
            search->found = slashed;
            search->lacks_slash = true;
            return FOUND_LAST;
        }
    }
    if (prefix != NULL) {
        search->found = prefix;
        how = FOUND_PREFIX;
        if (prefix->index != NULL && find_in(search, prefix) == FOUND_LAST) {
            return FOUND_LAST;
        }
        skips_regexes = prefix->kind == LOCATION_PREFIX_NO_REGEX;
    }
    if (index->regexes != NULL && !skips_regexes) {
        int number = regex_set_first(index->regexes, uri, search->env, search->env->log);
        if (number >= 0) {
            search->found = index->regex_locations[number];
            find_in(search, search->found);
            return FOUND_LAST;
        }
    }
    return how;
}

const struct http_location *location_find(const struct http_location *root, struct str uri,
                                          struct variable_env *env, bool *lacks_slash)
{
    struct location_search search = {.uri = uri, .env = env, .found = root};

    find_in(&search, root);
    *lacks_slash = search.lacks_slash;
    return search.found;
}
