/* ngx_http_upstream_session_sticky_module (Tengine's): sends requests of one client to the same
 * server of a group, by a cookie that is ours (insert), the server's (rewrite), or the server's
 * with a prefix. */
#include "base/clock.h"
#include "base/parse.h"
#include "http/exchange/exchange.h"
#include "http/modules/backends/session_sticky/session_sticky.h"
#include "server/module.h"
#include "upstream/picking/choose.h"

/* ---- the peer of a request ---- */

/* For choose_bound: the server name to find. */
struct wanted {
    const struct session_sticky *settings;
    struct str name;
};

static bool has_name(struct peer *peer, const void *arg)
{
    const struct wanted *wanted = arg;

    return str_equal(session_peer_name(wanted->settings, peer), wanted->name);
}

struct peer *session_find(struct upstream_pick *pick)
{
    const struct session_sticky *settings = session_settings(pick->group);
    struct session_cookie cookie;
    struct wanted wanted = {.settings = settings};
    struct peer *peer;
    bool can_serve;

    session_read_cookie(pick->subject, settings, &cookie);
    if (cookie.server.len == 0) {
        return NULL;
    }
    wanted.name = cookie.server;
    peer = choose_bound(pick, has_name, &wanted, &can_serve);
    pick->is_astray = peer == NULL;
    return peer;
}

static bool session_may_leave(struct upstream_pick *pick)
{
    return session_settings(pick->group)->falls_back;
}

/* ---- cookies in a response ---- */

/* Mode insert: sets a cookie if the client has none for this peer, or to update its time of use. */
static void session_picked(struct upstream_pick *pick)
{
    const struct session_sticky *settings = session_settings(pick->group);
    bool was_bound = pick->bound == pick->peer;
    struct session_cookie cookie;

    pick->set_cookie = STR_NONE;
    if (settings->mode != MODE_INSERT || (was_bound && !settings->has_times)) {
        return;
    }
    session_read_cookie(pick->subject, settings, &cookie);
    pick->set_cookie =
        session_make_cookie(settings, pick->peer,
                            was_bound ? cookie.begun_s : (uint64_t) clock_now.seconds, pick->arena);
}

/* The server's own cookie, with the name of the peer in it. */
static struct str renamed(const struct upstream_pick *pick, struct str value, struct str attributes)
{
    const struct session_sticky *settings = session_settings(pick->group);
    bool is_prefix = settings->mode == MODE_PREFIX;
    const struct str parts[] = {
        settings->cookie,
        STR("="),
        session_peer_name(settings, pick->peer),
        is_prefix ? STR("~") : STR(""),
        is_prefix ? value : STR(""),
        attributes.data == NULL ? STR("") : STR(";"),
        attributes,
    };

    return arena_join(pick->arena, parts, sizeof(parts) / sizeof(parts[0]));
}

/* Modes rewrite and prefix: adds the name of the peer to the server's own cookie. Mode insert with
 * option=indirect: the cookie is only between client and this server, so a cookie of that name from
 * the backend is removed. */
static void session_responded(struct upstream_pick *pick)
{
    const struct session_sticky *settings = session_settings(pick->group);
    struct request *request = pick->subject;

    if (request->exchange == NULL || (settings->mode == MODE_INSERT && !settings->is_indirect)) {
        return;
    }
    fields_each(field, &request->exchange->response.fields) {
        struct str attributes = field->value, value, pair;

        if (field->id != FIELD_SET_COOKIE || field->is_removed) {
            continue;
        }
        pair = str_cut(&attributes, ';');
        if (!session_is_cookie(pair, settings->cookie, &value)) {
            continue;
        }
        if (settings->mode == MODE_INSERT) {
            field->is_removed = true;
        } else {
            field->value = renamed(pick, value, attributes);
        }
    }
}

/* may_leave: after the bound peer has failed, may another one be used, or does the request end? */
const struct stickiness session_sticky = {
    .name = "session_sticky",
    .find = session_find,
    .picked = session_picked,
    .responded = session_responded,
    .may_leave = session_may_leave,
};

/* ---- directives ---- */

static bool read_time(struct str value, uint64_t *out)
{
    return parse_sec(value, out) && *out <= INT32_MAX;
}

/* One of two values. */
static bool session_sticky_read_word(struct str value, const char *yes, const char *no, bool *out)
{
    *out = str_is(value, yes);
    return *out || str_is(value, no);
}

static bool read_mode(struct str value, enum session_mode *out)
{
    static const char *const words[] = {"insert", "rewrite", "prefix"};

    for (unsigned i = 0; i < 3; i++) {
        if (str_is(value, words[i])) {
            *out = (enum session_mode) i;
            return true;
        }
    }
    return false;
}

/* May it be part of a cookie attribute? Not with a character that would end the attribute or the
 * field. */
static bool is_attribute(struct str value)
{
    for (size_t i = 0; i < value.len; i++) {
        unsigned char c = (unsigned char) value.data[i];

        if (c <= 0x20 || c == 0x7f || c == ';' || c == ',') {
            return false;
        }
    }
    return value.len != 0;
}

static bool session_sticky_read_parameter(struct str word, struct session_sticky *settings)
{
    struct str value = word;
    struct str name = str_cut(&value, '=');

    if (value.data == NULL || !is_attribute(value)) {
        return false;
    }
    if (str_is(name, "cookie")) {
        settings->cookie = value;
        return str_find_char(value, '=') == NULL;
    }
    if (str_is(name, "domain")) {
        settings->domain = value;
        return true;
    }
    if (str_is(name, "path")) {
        settings->path = value;
        return true;
    }
    if (str_is(name, "maxage")) {
        settings->has_maxage = true;
        return read_time(value, &settings->maxage_s);
    }
    return (str_is(name, "maxidle") && read_time(value, &settings->maxidle_s)) ||
           (str_is(name, "maxlife") && read_time(value, &settings->maxlife_s)) ||
           (str_is(name, "mode") && read_mode(value, &settings->mode)) ||
           (str_is(name, "option") &&
            session_sticky_read_word(value, "indirect", "direct", &settings->is_indirect)) ||
           (str_is(name, "fallback") &&
            session_sticky_read_word(value, "on", "off", &settings->falls_back)) ||
           (str_is(name, "hash") &&
            session_sticky_read_word(value, "plain", "md5", &settings->is_plain));
}

static bool session_sticky_apply(struct conf_scope *scope, const struct directive *row,
                                 struct conf_node *node, void *unused)
{
    struct upstream_group *group = scope_group(scope);
    struct session_sticky *settings = arena_new(scope->conf->arena, struct session_sticky);

    if (group->stickiness != NULL) {
        return conf_error(scope->conf, node, "requests are bound to servers already");
    }
    settings->cookie = STR("route");
    settings->path = STR("/");
    settings->falls_back = true;
    for (unsigned i = 1; i < node->count; i++) {
        if (!session_sticky_read_parameter(node->args[i], settings)) {
            return conf_error(scope->conf, node, "invalid parameter \"%.*s\"",
                              STR_ARG(node->args[i]));
        }
    }
    settings->has_times = settings->maxidle_s != 0 || settings->maxlife_s != 0;
    if (settings->mode != MODE_INSERT && settings->has_times) {
        conf_warn(scope->conf, node,
                  "\"maxidle\" and \"maxlife\" have no effect without \"mode=insert\"");
    }
    settings->maxidle_s = settings->maxidle_s != 0 ? settings->maxidle_s : TIMES_NO_LIMIT;
    settings->maxlife_s = settings->maxlife_s != 0 ? settings->maxlife_s : TIMES_NO_LIMIT;
    group->stickiness = &session_sticky;
    group->stickiness_settings = settings;
    return true;
}

static const struct directive group_rows[] = {
    {"session_sticky", IN_UPSTREAM, CUSTOM(session_sticky_apply), ARGS(0, ARGS_ANY),
     .syntax =
         "[cookie=name] [domain=domain] [path=path] [maxage=time] [mode=insert|rewrite|prefix] "
         "[option=indirect|direct] [maxidle=time] [maxlife=time] [fallback=on|off] "
         "[hash=plain|md5]",
     .doc = "Passes the requests of a client to the same server. `insert` adds a cookie to "
            "responses, `rewrite` replaces the value of a cookie that the server sets, "
            "`prefix` adds the server to the beginning of that value. With `fallback=off` "
            "no other server is used if that server is not available, or if the cookie "
            "contains an unknown one (502). With `maxidle` or `maxlife`, which require "
            "`insert`, the cookie contains the times when it was last used and created, and "
            "has no `Max-Age`. With `option=indirect` a cookie of this name that the server "
            "sets is not passed to the client, and `session_sticky_hide_cookie` removes it "
            "from requests."},
    {0},
};

static const struct directive_table group_table = {.rows = group_rows};
static const struct directive_table *const tables[] = {&group_table, &sticky_location_table, NULL};

const struct module ngx_http_upstream_session_sticky_module = {
    .magic = MODULE_MAGIC,
    .name = "ngx_http_upstream_session_sticky_module",
    .kind = MODULE_HTTP,
    .tables = tables,
    .hooks = &sticky_location_hooks,
};
