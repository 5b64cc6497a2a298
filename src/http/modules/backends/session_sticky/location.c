/* Directives of session_sticky in locations: cookies that are hidden from servers, and cookies for
 * responses that no server of the group made. */
#include "base/buf.h"
#include "base/clock.h"
#include "http/exchange/exchange.h"
#include "http/routing/hooks.h"
#include "http/modules/backends/session_sticky/session_sticky.h"

/* A group named by a directive; resolved after http was read. */
struct named_group {
    struct str name;
    const struct conf_node *node;
    const struct upstream_group *group;
};

/* Settings of a location. */
struct sticky_location_settings {
    struct vec hidden; /* struct named_group *: session_sticky_hide_cookie */
    struct vec given;  /* struct named_group *: session_sticky_header */
};

/* ---- session_sticky_hide_cookie ---- */

static const struct sticky_location_settings *sticky_location_settings_of(
    const struct http_location *location)
{
    return location_settings(location, &sticky_location_key);
}

/* Does the server get this cookie? Appends it to `out`: unchanged, without the prefix, or not at
 * all. */
static bool keeps_cookie(const struct vec *hidden, struct str pair, struct buf *out)
{
    vec_each(const struct named_group *, named, hidden) {
        const struct session_sticky *settings = session_settings((*named)->group);
        struct str value;

        if (!session_is_cookie(pair, settings->cookie, &value)) {
            continue;
        }
        if (settings->mode == MODE_INSERT && settings->is_indirect) {
            return false;
        }
        const char *end = str_find_char(value, PREFIX_END);
        if (settings->mode == MODE_PREFIX && end != NULL) {
            buf_printf(out, "%.*s=", STR_ARG(settings->cookie));
            buf_append(out, str_from(end + 1, value.data + value.len));
            return true;
        }
    }
    pair = str_trim(pair);
    buf_append(out, pair);
    return pair.len != 0;
}

/* A Cookie field without hidden cookies. */
static struct str hide_in(const struct vec *hidden, struct str value, struct arena *arena)
{
    struct buf out = {0};
    struct str text;

    while (value.data != NULL) {
        size_t start = out.len;

        buf_append(&out, out.len != 0 ? STR("; ") : STR(""));
        if (!keeps_cookie(hidden, str_cut(&value, ';'), &out)) {
            out.len = start;
        }
    }
    text = arena_dup(arena, buf_str(&out));
    buf_free(&out);
    return text;
}

/* Runs once per request: after an internal redirect the cookies are already hidden. */
static enum handler_result hide_cookies(struct request *request)
{
    const struct vec *hidden = &sticky_location_settings_of(request->location)->hidden;
    uint32_t count = request->headers.count;

    fields_each(field, &request->headers) {
        if (field->id == FIELD_COOKIE && field->is_removed) {
            return HANDLER_NEXT;
        }
    }
    for (uint32_t i = 0; i < count; i++) {
        struct field *field = &request->headers.items[i];

        if (field->id == FIELD_COOKIE) {
            struct str value = hide_in(hidden, field->value, &request->arena);

            field->is_removed = true;
            if (value.len != 0) {
                fields_add_identified(&request->headers, &request->arena, FIELD_COOKIE, field->name,
                                      value);
            }
        }
    }
    return HANDLER_NEXT;
}

/* ---- session_sticky_header ---- */

/* Binds the client to a server of the group, although none of them made this response. */
static void give_cookie(struct request *request, const struct upstream_group *group)
{
    const struct session_sticky *settings = session_settings(group);
    struct upstream_pick pick = {
        .env = &request->env,
        .arena = &request->arena,
        .log = &request->log,
        .subject = request,
    };
    struct peer *peer;

    upstream_pick_begin(&pick, (struct upstream_group *) group);
    peer = session_find(&pick);
    if (peer == NULL && pick.list->primary.count != 0) {
        peer = group->balancer->pick(&pick, &pick.list->primary);
        if (peer != NULL) {
            fields_add_known(&request->response.fields, &request->arena, FIELD_SET_COOKIE,
                             session_make_cookie(settings, peer, (uint64_t) clock_now.seconds,
                                                 &request->arena));
        }
    }
    upstream_pick_end(&pick);
}

static void give_cookies(struct request *request)
{
    vec_each(const struct named_group *, named,
             &sticky_location_settings_of(request->location)->given) {
        const struct upstream_group *group = (*named)->group;
        bool was_asked = request->exchange != NULL && request->exchange->pick.group == group;

        if (!was_asked && session_settings(group)->mode == MODE_INSERT) {
            give_cookie(request, group);
        }
    }
}

/* ---- directives ---- */

/* Names to resolve after http was read. */
static struct vec *wanted_groups(struct conf *conf)
{
    return conf_state(conf, "session_sticky groups", sizeof(struct vec));
}

/* "upstream=NAME" in a location; `row` determines which of the two lists it is added to. */
static bool named_group_apply(struct conf_scope *scope, const struct directive *row,
                              struct conf_node *node, void *settings)
{
    struct conf *conf = scope->conf;
    struct vec *list = (struct vec *) ((char *) settings + row->offset);
    struct named_group *named = arena_new(conf->arena, struct named_group);
    struct str word = node->args[1];

    if (!str_starts(word, STR("upstream=")) || word.len == sizeof("upstream=") - 1) {
        return conf_error(conf, node, "invalid parameter \"%.*s\"", STR_ARG(word));
    }
    named->name = str_skip(word, sizeof("upstream=") - 1);
    named->node = node;
    *vec_add(list, conf->arena, struct named_group *) = named;
    *vec_add(wanted_groups(conf), conf->arena, struct named_group *) = named;
    return true;
}

static const struct upstream_group *group_named(const struct upstream_set *set, struct str name)
{
    vec_each(struct upstream_group *, group, &set->groups) {
        if (!(*group)->is_implicit && str_equal((*group)->name, name)) {
            return *group;
        }
    }
    return NULL;
}

static bool find_groups(struct conf *conf, struct http_main *main)
{
    const struct upstream_set *set = upstream_set_of(conf, &upstream_http);
    bool is_good = true;

    vec_each(struct named_group *, named, wanted_groups(conf)) {
        const struct upstream_group *group = group_named(set, (*named)->name);

        if (group == NULL) {
            is_good = conf_error(conf, (*named)->node, "upstream \"%.*s\" not found",
                                 STR_ARG((*named)->name));
        } else if (group->stickiness != &session_sticky) {
            is_good =
                conf_error(conf, (*named)->node, "upstream \"%.*s\" has no \"session_sticky\"",
                           STR_ARG((*named)->name));
        }
        (*named)->group = group;
    }
    return is_good;
}

#define P struct sticky_location_settings
static const struct directive sticky_location_rows[] = {
    {"session_sticky_hide_cookie", IN_HTTP_ALL, CUSTOM_FIELD(P, hidden, named_group_apply),
     ARGS(1, 1), .repeat = REPEAT_APPEND, .syntax = "upstream=name",
     .doc = "Removes the session_sticky cookie of the named upstream from requests to the "
            "backend, with `option=indirect`, or the prefix from its value, with "
            "`mode=prefix`."},
    {"session_sticky_header", IN_HTTP_ALL, CUSTOM_FIELD(P, given, named_group_apply), ARGS(1, 1),
     .repeat = REPEAT_APPEND, .syntax = "upstream=name",
     .doc = "Binds the client to a server of the named upstream with responses of this "
            "location, even if they were not generated by its servers."},
    {0},
};
#undef P

struct settings_key sticky_location_key;
const struct directive_table sticky_location_table = {.key = &sticky_location_key,
                                                      .rows = sticky_location_rows,
                                                      .contexts = IN_HTTP_LOCATION_SETTINGS,
                                                      .size =
                                                          sizeof(struct sticky_location_settings)};
/* Before try_files, so that its requests to the server are without the cookie as well. */
static const struct phase_hook phases[] = {
    {PHASE_PRECONTENT, .name = "session_sticky", .run = hide_cookies,
     .when = SETTING(sticky_location_key, struct sticky_location_settings, hidden.count)},
    {.run = NULL},
};
static const struct filter_hook filters[] = {
    {.name = "session_sticky",
     .run = give_cookies,
     .when = SETTING(sticky_location_key, struct sticky_location_settings, given.count)},
    {.run = NULL},
};

const struct http_module sticky_location_hooks = {
    .phases = phases,
    .filters = filters,
    .end = find_groups,
};
