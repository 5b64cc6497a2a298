/* Zones in which requests or sessions are counted by key: shared by limit_conn and limit_req. */
#include "shared/limit/zone.h"

#include "base/checksum.h"
#include "base/json.h"
#include "base/parse.h"
#include "server/generation.h"

#define ZONE_LEAST (8 * 4096)

/* At the end of a table's head: the outcome counts and, for the next reading, the keys by which it
 * counts. */
struct source_note {
    struct limit_counts counts;
    uint32_t len;
    char text[];
};

const struct directive_word limit_log_levels[] = {{"info", LOG_INFO},
                                                  {"notice", LOG_NOTICE},
                                                  {"warn", LOG_WARN},
                                                  {"error", LOG_ERROR},
                                                  {NULL, 0}};

const struct str limit_outcome_names[] = {[LIMIT_PASSED] = STR_INIT("passed"),
                                          [LIMIT_DELAYED] = STR_INIT("delayed"),
                                          [LIMIT_REJECTED] = STR_INIT("rejected"),
                                          [LIMIT_DELAYED_DRY_RUN] = STR_INIT("delayed_dry_run"),
                                          [LIMIT_REJECTED_DRY_RUN] = STR_INIT("rejected_dry_run")};

static struct limit_zone **list_of(struct conf *conf, const struct limit_kind *kind)
{
    return conf_state(conf, kind->state, sizeof(struct limit_zone *));
}

struct limit_zone *limit_zones_of(struct conf *conf, const struct limit_kind *kind)
{
    return *list_of(conf, kind);
}

static struct limit_zone **list_of_all(struct conf *conf)
{
    return conf_state(conf, "limit zones", sizeof(struct limit_zone *));
}

struct limit_zone *limit_zones_all(struct conf *conf)
{
    return *list_of_all(conf);
}

/* ---- while the configuration is read ---- */

static struct limit_zone *find_or_make(struct conf *conf, struct conf_node *node,
                                       const struct limit_kind *kind, struct str name,
                                       uint64_t size)
{
    struct zone *zone = generation_zone(conf->generation, node, name, size, kind);
    struct limit_zone **list = list_of(conf, kind), **all = list_of_all(conf), *found = *list;

    if (zone == NULL) {
        return NULL;
    }
    while (found != NULL && found->zone != zone) {
        found = found->next;
    }
    if (found == NULL) {
        found = arena_zalloc(conf->arena, kind->size);
        found->zone = zone;
        found->kind = kind;
        found->next = *list;
        *list = found;
        found->beside = *all;
        *all = found;
    }
    return found;
}

struct limit_zone *limit_zone_named(struct conf *conf, struct conf_node *node,
                                    const struct limit_kind *kind, struct str name)
{
    return find_or_make(conf, node, kind, name, 0);
}

bool limit_zone_read(struct conf *conf, const struct conf_node *node, struct str argument,
                     struct str *name, uint64_t *size)
{
    struct str rest = str_skip(argument, sizeof("zone=") - 1);

    *name = str_cut(&rest, ':');
    if (rest.data == NULL || !parse_size(rest, size)) {
        return conf_error(conf, node, "invalid zone size \"%.*s\"", STR_ARG(argument));
    }
    if (*size < ZONE_LEAST) {
        return conf_error(conf, node, "zone \"%.*s\" is too small", STR_ARG(argument));
    }
    return true;
}

static bool compile_keys(struct conf *conf, const struct conf_node *node, struct limit_zone *zone,
                         const unsigned *arguments, unsigned count)
{
    for (unsigned i = 0; i < count; i++) {
        struct str text = node->args[arguments[i]];
        struct template *key = template_compile(conf, node, text);

        if (key == NULL) {
            return false;
        }
        *vec_add(&zone->keys, conf->arena, struct template *) = key;
        zone->source =
            i == 0 ? text
                   : arena_printf(conf->arena, "%.*s %.*s", STR_ARG(zone->source), STR_ARG(text));
    }
    return true;
}

/* If the running generation has the same zone, it must count by the same keys; otherwise the
 * reading fails. */
static bool check_source(struct conf *conf, const struct conf_node *node,
                         const struct limit_kind *kind, struct limit_zone *zone, bool is_new)
{
    struct source_note *note =
        (struct source_note *) (void *) ((char *) shm_table_head(zone->table) + kind->head_size);

    zone->counts = &note->counts;
    if (is_new) {
        note->len = (uint32_t) zone->source.len;
        str_put(note->text, zone->source);
        return true;
    }
    if (str_equal((struct str){note->text, note->len}, zone->source)) {
        return true;
    }
    return conf_error(conf, node,
                      "%s \"%.*s\" uses the \"%.*s\" key while previously it used the \"%.*s\" key",
                      kind->label, STR_ARG(zone->zone->name), STR_ARG(zone->source),
                      (int) note->len, note->text);
}

struct limit_zone *limit_zone_declare(struct conf *conf, struct conf_node *node,
                                      const struct limit_kind *kind,
                                      const struct limit_zone_words *words)
{
    struct limit_zone *zone = find_or_make(conf, node, kind, words->name, words->size);

    if (zone == NULL) {
        return NULL;
    }
    if (zone->table != NULL) {
        conf_error(conf, node, "%s \"%.*s\" is already bound to key \"%.*s\"", kind->directive,
                   STR_ARG(words->name), STR_ARG(zone->source));
        return NULL;
    }
    if (!compile_keys(conf, node, zone, words->keys, words->key_count)) {
        return NULL;
    }
    bool is_new = zone->zone->root == NULL;
    zone->table = shm_table_of(zone->zone, kind->record_size,
                               kind->head_size + sizeof(struct source_note) + zone->source.len);
    if (zone->table == NULL) {
        conf_error(conf, node, "zone \"%.*s\" is too small", STR_ARG(words->name));
        return NULL;
    }
    return check_source(conf, node, kind, zone, is_new) ? zone : NULL;
}

/* ---- at run time ---- */

/* The hash of a text, with the secret of the zone's table or with another one. */
static struct shm_key hash_of(const struct limit_zone *zone, const uint64_t *secret,
                              struct str bytes)
{
    if (secret == NULL) {
        return shm_table_key(zone->table, bytes);
    }
    return (struct shm_key){{siphash_1_3(bytes, secret), siphash_1_3(bytes, secret + 2)}};
}

/* The hash of all keys; false: all are empty. */
static bool hash_keys(const struct limit_zone *zone, struct variable_env *env,
                      const uint64_t *secret, struct shm_key *key)
{
    struct shm_key pair[2]; /* the keys so far, and the next one */
    bool is_counted = false;
    unsigned i = 0;

    vec_each(struct template *, text, &zone->keys) {
        struct str value = template_text(*text, env);

        is_counted = is_counted || value.len != 0;
        pair[1] = hash_of(zone, secret, value);
        pair[0] = i++ == 0 ? pair[1]
                           : hash_of(zone, secret, (struct str){(const char *) pair, sizeof(pair)});
    }
    *key = pair[0];
    return is_counted;
}

bool limit_zone_key(const struct limit_zone *zone, struct variable_env *env, struct shm_key *key)
{
    return hash_keys(zone, env, NULL, key);
}

bool limit_zone_name(const struct limit_zone *zone, struct variable_env *env,
                     const uint64_t secret[4], struct shm_key *name)
{
    return hash_keys(zone, env, secret, name);
}

void limit_counts_put(struct json *json, const struct limit_zone *zone)
{
    for (unsigned i = 0; i < LIMIT_OUTCOMES; i++) {
        if (zone->kind->delays || (i != LIMIT_DELAYED && i != LIMIT_DELAYED_DRY_RUN)) {
            json_put_number(json, limit_outcome_names[i].data, atomic_load(&zone->counts->of[i]));
        }
    }
}

void limit_counts_reset(const struct limit_zone *zone)
{
    for (unsigned i = 0; i < LIMIT_OUTCOMES; i++) {
        atomic_store(&zone->counts->of[i], 0);
    }
}
