/* ngx_http_upstream_sticky_module: sends the requests of one client to the same peer: by a cookie
 * of ours, by a route in the request, or by sessions that are learned from responses. */
#include <string.h>

#include "base/buf.h"
#include "base/checksum.h"
#include "base/clock.h"
#include "base/parse.h"
#include "base/text.h"
#include "server/module.h"
#include "shared/upstream/sticky_sessions.h"
#include "shared/upstream/sticky_sync.h"
#include "upstream/picking/choose.h"

/* The `sticky` of one group. */
struct sticky {
    struct vec lookup; /* const struct variable *: the first that is not empty names the peer
                          (route, cookie) or the session (learn) */

    /* for cookie */
    struct str name;         /* name of the cookie */
    bool expires;            /* it has Expires and Max-Age */
    bool is_max;             /* `expires=max`: the latest date that all clients understand */
    uint64_t expires_s;      /* from now; not with is_max */
    struct template *domain; /* this and the next two may be NULL */
    struct template *path;
    struct template *samesite; /* strict, lax, none */
    bool is_httponly;
    bool is_secure;

    /* for learn */
    struct vec create; /* const struct variable *: the first that is not empty names a session */
    struct zone *zone;
    struct sessions *sessions;
    struct sticky_sync *sync; /* NULL: the sessions of this node */
    uint64_t timeout_ms;      /* after this time without use a session ends */
    bool begins_at_head; /* when the head of the response has come; otherwise when it is complete */
};

/* ---- shared functions ---- */

/* The first of the variables that has a value. */
static struct str first_value(const struct vec *variables, struct variable_env *env)
{
    vec_each(const struct variable *, variable, variables) {
        struct str value;

        if (variable_get(env, *variable, &value) && value.len != 0) {
            return value;
        }
    }
    return STR_NONE;
}

static struct peer *find_bound(struct upstream_pick *pick,
                               bool (*matches)(struct peer *peer, const void *arg), const void *arg)
{
    bool can_serve;
    struct peer *peer = choose_bound(pick, matches, arg, &can_serve);

    return can_serve ? peer : NULL;
}

/* A bound peer has failed: another one may be bound as well (the same route twice, backups). */
static void find_again(struct upstream_pick *pick, enum peer_outcome outcome)
{
    if (outcome == PEER_FAILED) {
        pick->bound = pick->group->stickiness->find(pick);
    }
}

/* ---- route ---- */

static bool has_route(struct peer *peer, const void *route)
{
    return str_equal(peer->server->route, *(const struct str *) route);
}

static struct peer *route_find(struct upstream_pick *pick)
{
    const struct sticky *sticky = pick->group->stickiness_settings;
    struct str route = first_value(&sticky->lookup, pick->env);

    return route.len == 0 ? NULL : find_bound(pick, has_route, &route);
}

static const struct stickiness sticky_route = {
    .name = "route",
    .find = route_find,
    .done = find_again,
};

/* ---- cookie ---- */

/* The value of the cookie: the route of the `server` line, else the digest of the peer's
   address. */
static struct str cookie_value(struct peer *peer)
{
    return peer->server->route.len != 0 ? peer->server->route : peer_digest(peer);
}

static bool has_cookie(struct peer *peer, const void *value)
{
    return str_equal(cookie_value(peer), *(const struct str *) value);
}

static struct peer *cookie_find(struct upstream_pick *pick)
{
    const struct sticky *sticky = pick->group->stickiness_settings;
    struct str value = first_value(&sticky->lookup, pick->env);

    return value.len == 0 ? NULL : find_bound(pick, has_cookie, &value);
}

/* Adds "; name=value"; nothing for a value that would be more than one attribute. */
static void add_attribute(struct buf *text, const char *name, struct str value)
{
    if (value.len == 0) {
        return;
    }
    for (size_t i = 0; i < value.len; i++) {
        unsigned char c = (unsigned char) value.data[i];

        if (c < 0x20 || c == 0x7f || c == ';') {
            return;
        }
    }
    buf_printf(text, "; %s=%.*s", name, STR_ARG(value));
}

static void add_template(struct buf *text, const char *name, const struct template *value,
                         struct variable_env *env)
{
    if (value != NULL) {
        add_attribute(text, name, template_text(value, env));
    }
}

static void add_expires(struct buf *text, const struct sticky *sticky)
{
    char date[HTTP_DATE_LENGTH];

    if (!sticky->expires) {
        return;
    }
    if (sticky->is_max) {
        buf_append(text, STR("; expires=Thu, 31-Dec-37 23:55:55 GMT; max-age=315360000"));
        return;
    }
    const char *end = cookie_date_format(date, clock_now.seconds + (time_t) sticky->expires_s);
    buf_printf(text, "; expires=%.*s; max-age=%llu", STR_ARG(str_from(date, end)),
               (unsigned long long) sticky->expires_s);
}

static bool is_samesite(struct str word)
{
    return str_equal_nocase(word, STR("strict")) || str_equal_nocase(word, STR("lax")) ||
           str_equal_nocase(word, STR("none"));
}

/* Each response sets the cookie, so that its lifetime starts again (RFC 6265, 4.1). */
static void cookie_picked(struct upstream_pick *pick)
{
    const struct sticky *sticky = pick->group->stickiness_settings;
    struct buf text = {0};
    struct str samesite;

    buf_printf(&text, "%.*s=%.*s", STR_ARG(sticky->name), STR_ARG(cookie_value(pick->peer)));
    add_expires(&text, sticky);
    add_template(&text, "domain", sticky->domain, pick->env);
    add_template(&text, "path", sticky->path, pick->env);
    buf_append(&text, sticky->is_httponly ? STR("; httponly") : STR(""));
    if (sticky->samesite != NULL) {
        samesite = template_text(sticky->samesite, pick->env);
        if (samesite.len != 0) { /* if the variable is empty, the browser decides */
            add_attribute(&text, "samesite", is_samesite(samesite) ? samesite : STR("strict"));
        }
    }
    buf_append(&text, sticky->is_secure ? STR("; secure") : STR(""));
    pick->set_cookie = arena_dup(pick->arena, buf_str(&text));
    buf_free(&text);
}

static const struct stickiness sticky_cookie = {
    .name = "cookie",
    .find = cookie_find,
    .picked = cookie_picked,
    .done = find_again,
};

/* ---- learn ---- */

/* Several groups may share a zone: the group's name is part of the key. */
static void make_key(const struct upstream_pick *pick, struct str value, struct session_id *key)
{
    const struct sticky *sticky = pick->group->stickiness_settings;
    const struct str parts[] = {pick->group->name, STR("\n"), value};
    struct str text = arena_join(pick->arena, parts, 3);

    if (sticky->sync != NULL) {
        sticky_sync_key(sticky->sync, text, key);
    } else {
        md5_of(text, key->md5);
    }
}

static bool has_digest(struct peer *peer, const void *digest)
{
    return str_equal(peer_digest(peer), *(const struct str *) digest);
}

/* The peer of a session. MAY WAIT, with `sync`: another node may have begun the session just
   now. */
static bool learn_look(struct upstream_pick *pick, const struct session_id *key,
                       struct session_id *peer)
{
    const struct sticky *sticky = pick->group->stickiness_settings;

    return sessions_look(sticky->sessions, key, peer) ||
           (sticky->sync != NULL && pick->tries == 0 && sticky_sync_look(sticky->sync, key, peer));
}

static struct peer *learn_find(struct upstream_pick *pick)
{
    const struct sticky *sticky = pick->group->stickiness_settings;
    struct str value = first_value(&sticky->lookup, pick->env);
    struct session_id key, peer;
    char hex[2 * sizeof(peer.md5)];
    struct str digest = {hex, sizeof(hex)};

    if (value.len == 0) {
        return NULL;
    }
    make_key(pick, value, &key);
    if (!learn_look(pick, &key, &peer)) {
        return NULL;
    }
    hex_encode(hex, peer.md5, sizeof(peer.md5));
    return find_bound(pick, has_digest, &digest);
}

static void learn_put(const struct sticky *sticky, const struct session_id *key,
                      const struct session_id *peer)
{
    if (sticky->sync != NULL) {
        sticky_sync_put(sticky->sync, key, peer, sticky->timeout_ms);
    } else {
        sessions_put(sticky->sessions, key, peer, sticky->timeout_ms);
    }
}

/* Begins the session that the response names. Without one, continues the session of the request,
 * with the peer that served it. A session that the backend has replaced by another is left to
 * expire. MAY WAIT, with `sync`. */
static void learn_session(struct upstream_pick *pick)
{
    const struct sticky *sticky = pick->group->stickiness_settings;
    struct str created = first_value(&sticky->create, pick->env);
    struct str known = first_value(&sticky->lookup, pick->env);
    struct session_id key, peer, former;

    md5_of(pick->peer->name, peer.md5);
    if (created.len != 0) {
        make_key(pick, created, &key);
        learn_put(sticky, &key, &peer);
    } else if (known.len != 0) {
        make_key(pick, known, &key);
        if (sessions_find(sticky->sessions, &key, sticky->timeout_ms, &former) &&
            (sticky->sync != NULL || memcmp(&former, &peer, sizeof(peer)) != 0)) {
            learn_put(sticky, &key, &peer);
        }
    }
}

static void learn_responded(struct upstream_pick *pick)
{
    const struct sticky *sticky = pick->group->stickiness_settings;

    if (sticky->begins_at_head) {
        learn_session(pick);
    }
}

static void learn_done(struct upstream_pick *pick, enum peer_outcome outcome)
{
    const struct sticky *sticky = pick->group->stickiness_settings;

    if (outcome == PEER_SERVED && !sticky->begins_at_head) {
        learn_session(pick);
    }
    find_again(pick, outcome);
}

static const struct stickiness sticky_learn = {
    .name = "learn",
    .find = learn_find,
    .responded = learn_responded,
    .done = learn_done,
};

/* ---- the directive ---- */

static bool bad_parameter(struct conf_scope *scope, const struct conf_node *node, struct str word)
{
    return conf_error(scope->conf, node, "invalid parameter \"%.*s\"", STR_ARG(word));
}

/* Is it "name=value" with this name? The value must not be empty. */
static bool word_takes(struct str word, struct str name, struct str *value)
{
    if (!str_starts(word, name) || word.len <= name.len || word.data[name.len] != '=') {
        return false;
    }
    *value = str_skip(word, name.len + 1);
    return value->len != 0;
}

/* Adds a variable that is written with '$'. */
static bool add_variable(struct conf_scope *scope, struct conf_node *node, struct str text,
                         struct vec *out)
{
    struct conf *conf = scope->conf;
    const struct variable *variable;

    if (text.len < 2 || text.data[0] != '$') {
        return conf_error(conf, node, "invalid variable name \"%.*s\"", STR_ARG(text));
    }
    text = str_skip(text, 1);
    if (text.data[0] == '{' && text.data[text.len - 1] == '}') {
        text = (struct str){text.data + 1, text.len - 2};
    }
    variable = variable_use(conf, node, conf_variables(conf), text);
    if (variable == NULL) {
        return false;
    }
    *vec_add(out, conf->arena, const struct variable *) = variable;
    return true;
}

static bool read_route(struct conf_scope *scope, struct conf_node *node, struct sticky *sticky)
{
    for (unsigned i = 2; i < node->count; i++) {
        if (!add_variable(scope, node, node->args[i], &sticky->lookup)) {
            return false;
        }
    }
    return true;
}

/* A token (RFC 6265, 4.1.1; RFC 9110, 5.6.2). */
static bool is_cookie_name(struct str name)
{
    for (size_t i = 0; i < name.len; i++) {
        unsigned char c = (unsigned char) name.data[i];

        if (c <= 0x20 || c >= 0x7f || strchr("()<>@,;:\\\"/[]?={}$", c) != NULL) {
            return false;
        }
    }
    return name.len != 0;
}

static bool read_expires(struct str value, struct sticky *sticky)
{
    sticky->expires = true;
    sticky->is_max = str_is(value, "max");
    return sticky->is_max ||
           (parse_sec(value, &sticky->expires_s) && sticky->expires_s <= INT32_MAX);
}

static bool read_cookie_parameter(struct conf_scope *scope, struct conf_node *node, unsigned arg,
                                  struct sticky *sticky)
{
    struct conf *conf = scope->conf;
    struct str word = node->args[arg], value;

    if (word_takes(word, STR("expires"), &value)) {
        return read_expires(value, sticky) || bad_parameter(scope, node, word);
    }
    if (word_takes(word, STR("domain"), &value)) {
        return (sticky->domain = template_compile(conf, node, value)) != NULL;
    }
    if (word_takes(word, STR("path"), &value)) {
        return (sticky->path = template_compile(conf, node, value)) != NULL;
    }
    if (word_takes(word, STR("samesite"), &value) &&
        (template_variable_count(value) != 0 || is_samesite(value))) {
        return (sticky->samesite = template_compile(conf, node, value)) != NULL;
    }
    if (str_is(word, "httponly")) {
        return sticky->is_httponly = true;
    }
    if (str_is(word, "secure")) {
        return sticky->is_secure = true;
    }
    return bad_parameter(scope, node, word);
}

static bool read_cookie(struct conf_scope *scope, struct conf_node *node, struct sticky *sticky)
{
    struct conf *conf = scope->conf;

    sticky->name = node->args[2];
    if (!is_cookie_name(sticky->name)) {
        return conf_error(conf, node, "invalid cookie name \"%.*s\"", STR_ARG(sticky->name));
    }
    if (!add_variable(scope, node, arena_concat(conf->arena, STR("$cookie_"), sticky->name),
                      &sticky->lookup)) {
        return false;
    }
    for (unsigned i = 3; i < node->count; i++) {
        if (!read_cookie_parameter(scope, node, i, sticky)) {
            return false;
        }
    }
    return true;
}

/* "NAME:SIZE". */
static bool read_zone(struct conf_scope *scope, struct conf_node *node, struct str value,
                      struct sticky *sticky)
{
    static const char tag;
    const char *colon = str_find_last_char(value, ':');
    uint64_t size;

    if (colon == NULL || colon == value.data ||
        !parse_size(str_from(colon + 1, value.data + value.len), &size) || size == 0) {
        return conf_error(scope->conf, node, "invalid zone size \"%.*s\"", STR_ARG(value));
    }
    sticky->zone =
        generation_zone(scope->conf->generation, node, str_from(value.data, colon), size, &tag);
    if (sticky->zone == NULL) {
        return false;
    }
    sticky->sessions = sessions_of(sticky->zone);
    return sticky->sessions != NULL ||
           conf_error(scope->conf, node, "zone \"%.*s\" is too small", STR_ARG(value));
}

/* Reads `header`, and `sync` with its related parameters. */
static bool read_learn_word(struct conf_scope *scope, struct conf_node *node, struct str word,
                            struct sticky *sticky, struct store_sync_words *sync)
{
    bool is_sync;

    if (!store_sync_read(scope->conf, node, word, false, sync, &is_sync)) {
        return false;
    }
    if (is_sync || str_is(word, "header")) {
        sticky->begins_at_head |= !is_sync;
        return true;
    }
    return bad_parameter(scope, node, word);
}

static bool read_learn(struct conf_scope *scope, struct conf_node *node, struct sticky *sticky)
{
    struct store_sync_words sync = {0};

    sticky->timeout_ms = 10 * 60 * 1000;
    for (unsigned i = 2; i < node->count; i++) {
        struct str word = node->args[i], value;
        bool is_good;

        if (word_takes(word, STR("create"), &value)) {
            is_good = add_variable(scope, node, value, &sticky->create);
        } else if (word_takes(word, STR("lookup"), &value)) {
            is_good = add_variable(scope, node, value, &sticky->lookup);
        } else if (word_takes(word, STR("zone"), &value)) {
            is_good = read_zone(scope, node, value, sticky);
        } else if (word_takes(word, STR("timeout"), &value)) {
            is_good = (parse_msec(value, &sticky->timeout_ms) && sticky->timeout_ms != 0) ||
                      bad_parameter(scope, node, word);
        } else {
            is_good = read_learn_word(scope, node, word, sticky, &sync);
        }
        if (!is_good) {
            return false;
        }
    }
    if (sticky->create.count == 0 || sticky->lookup.count == 0 || sticky->sessions == NULL) {
        return conf_error(scope->conf, node,
                          "\"sticky learn\" must have \"create\", \"lookup\" and \"zone\"");
    }
    if (!store_sync_check(scope->conf, node, &sync)) {
        return false;
    }
    if (sync.is_wanted) {
        sticky->sync = sticky_sync_new(scope->conf, node, sticky->zone, sticky->sessions, &sync);
    }
    return !sync.is_wanted || sticky->sync != NULL;
}

static bool sticky_apply(struct conf_scope *scope, const struct directive *row,
                         struct conf_node *node, void *settings)
{
    static const struct {
        const char *name;
        const struct stickiness *stickiness;
        bool (*read)(struct conf_scope *scope, struct conf_node *node, struct sticky *sticky);
    } methods[] = {
        {"cookie", &sticky_cookie, read_cookie},
        {"route", &sticky_route, read_route},
        {"learn", &sticky_learn, read_learn},
    };
    struct upstream_group *group = scope_group(scope);
    struct sticky *sticky = arena_new(scope->conf->arena, struct sticky);

    if (group->stickiness != NULL) {
        return conf_error(scope->conf, node, "requests are bound to servers already");
    }
    for (unsigned i = 0; i < sizeof(methods) / sizeof(methods[0]); i++) {
        if (str_is(node->args[1], methods[i].name)) {
            group->stickiness = methods[i].stickiness;
            group->stickiness_settings = sticky;
            return methods[i].read(scope, node, sticky);
        }
    }
    return bad_parameter(scope, node, node->args[1]);
}

static const struct directive sticky_rows[] = {
    {"sticky", IN_UPSTREAM, CUSTOM(sticky_apply), ARGS(2, ARGS_ANY),
     .syntax = "cookie name [expires=time|max] [domain=domain] [path=path] [httponly] [secure] "
               "[samesite=strict|lax|none|$variable] | route $variable ... | learn "
               "create=$variable lookup=$variable zone=name:size [timeout=time] [header] "
               "[sync[=store]] [sync_interval=time]",
     .doc = "Passes the requests of a client to the same server. `cookie` adds a cookie to "
            "each response, whose value is `route` of the server line, or a digest of its "
            "address; `samesite=strict` is used if the variable contains none of the three "
            "values. `route` takes the route from variables. `learn` keeps sessions, which "
            "responses create, in shared memory; with `sync` all nodes that share a "
            "`redis_store` know them."},
    {0},
};

const struct module ngx_http_upstream_sticky_module = {
    .magic = MODULE_MAGIC,
    .name = "ngx_http_upstream_sticky_module",
    .kind = MODULE_HTTP,
    .table = {.rows = sticky_rows},
};
