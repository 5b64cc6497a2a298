/* etcd v3 by its JSON gateway: lists the keys below a prefix, then watches from that revision
 * on. */
#include "base/clock.h"
#include "base/text.h"
#include "upstream/discovery/parse.h"

/* ---- answers ---- */

static bool read_header(struct json_text *text, struct discovery_etcd_answer *answer)
{
    bool is_good = true;
    struct str name;

    JSON_EACH_MEMBER(text, name, is_good)
    {
        is_good = str_is(name, "revision") ? parse_number(text, &answer->revision)
                                           : json_skip_value(text);
    }
    return is_good;
}

static bool read_base64(struct json_text *text, struct str *out)
{
    struct str coded;

    return parse_text(text, &coded) && base64_decode(text->arena, coded, false, out);
}

/* {"key":…,"value":…} */
static bool read_pair(struct json_text *text, struct discovery_etcd_event *event)
{
    bool is_good = true;
    struct str name;

    JSON_EACH_MEMBER(text, name, is_good)
    {
        if (str_is(name, "key")) {
            is_good = read_base64(text, &event->key);
        } else if (str_is(name, "value")) {
            is_good = read_base64(text, &event->value);
        } else {
            is_good = json_skip_value(text);
        }
    }
    return is_good;
}

static struct discovery_etcd_event *add_event(struct json_text *text,
                                              struct discovery_etcd_answer *answer)
{
    return answer->events.count == answer->most
               ? NULL
               : vec_add(&answer->events, text->arena, struct discovery_etcd_event);
}

static bool read_pairs(struct json_text *text, struct discovery_etcd_answer *answer)
{
    bool is_good = true;

    JSON_EACH_ITEM(text, is_good)
    {
        struct discovery_etcd_event *event = add_event(text, answer);

        is_good = event != NULL && read_pair(text, event);
    }
    return is_good;
}

bool discovery_etcd_range_read(struct json_text *text, struct discovery_etcd_answer *answer)
{
    bool is_good = true;
    struct str name;

    JSON_EACH_MEMBER(text, name, is_good)
    {
        if (str_is(name, "header")) {
            is_good = read_header(text, answer);
        } else if (str_is(name, "kvs")) {
            is_good = read_pairs(text, answer);
        } else if (str_is(name, "more")) { /* true: more keys than the limit */
            is_good = json_take_word(text, STR("false"));
        } else {
            is_good = json_skip_value(text);
        }
    }
    return is_good && json_is_over(text);
}

static bool read_event(struct json_text *text, struct discovery_etcd_event *event)
{
    bool is_good = true;
    struct str name, type;

    JSON_EACH_MEMBER(text, name, is_good)
    {
        if (str_is(name, "type")) {
            is_good = parse_text(text, &type);
            event->is_gone = str_is(type, "DELETE");
        } else if (str_is(name, "kv")) {
            is_good = read_pair(text, event);
        } else {
            is_good = json_skip_value(text);
        }
    }
    return is_good && event->key.len != 0;
}

static bool read_events(struct json_text *text, struct discovery_etcd_answer *answer)
{
    bool is_good = true;

    JSON_EACH_ITEM(text, is_good)
    {
        struct discovery_etcd_event *event = add_event(text, answer);

        is_good = event != NULL && read_event(text, event);
    }
    return is_good;
}

static bool read_flag(struct json_text *text, bool *out)
{
    *out = json_peek(text) == 't';
    return json_take_word(text, *out ? STR("true") : STR("false"));
}

static bool read_result(struct json_text *text, struct discovery_etcd_answer *answer)
{
    bool is_good = true;
    struct str name;

    JSON_EACH_MEMBER(text, name, is_good)
    {
        if (str_is(name, "header")) {
            is_good = read_header(text, answer);
        } else if (str_is(name, "canceled")) {
            is_good = read_flag(text, &answer->is_cancelled);
        } else if (str_is(name, "cancel_reason")) {
            is_good = parse_text(text, &answer->reason);
        } else if (str_is(name, "events")) {
            is_good = read_events(text, answer);
        } else {
            is_good = json_skip_value(text);
        }
    }
    return is_good;
}

static bool read_error(struct json_text *text, struct discovery_etcd_answer *answer)
{
    bool is_good = true;
    struct str name;

    answer->is_cancelled = true;
    JSON_EACH_MEMBER(text, name, is_good)
    {
        is_good =
            str_is(name, "message") ? parse_text(text, &answer->reason) : json_skip_value(text);
    }
    return is_good;
}

bool discovery_etcd_watch_read(struct json_text *text, struct discovery_etcd_answer *answer)
{
    bool is_good = true;
    struct str name;

    JSON_EACH_MEMBER(text, name, is_good)
    {
        if (str_is(name, "result")) {
            is_good = read_result(text, answer);
        } else if (str_is(name, "error")) {
            is_good = read_error(text, answer);
        } else {
            is_good = json_skip_value(text);
        }
    }
    return is_good && json_is_over(text);
}

/* ---- values ---- */

static bool read_address(struct str text, struct resolved_address *out)
{
    struct str host;
    uint16_t port = 0;

    if (!addr_split_port(text, &host, &port) || port == 0 || !addr_parse_ip(host, &out->addr)) {
        return false;
    }
    addr_set_port(&out->addr, port);
    return true;
}

bool discovery_etcd_value_read(struct json_text *text, struct resolved_address *out)
{
    struct str name, address = STR_NONE;
    uint64_t weight = 1;
    bool is_good = true;

    *out = (struct resolved_address){.weight = 1};
    if (json_peek(text) != '{') {
        return read_address(str_trim(str_from(text->at, text->end)), out);
    }
    JSON_EACH_MEMBER(text, name, is_good)
    {
        if (str_is(name, "Addr") || str_is(name, "address")) {
            is_good = json_take_string(text, &address);
        } else if (str_is(name, "weight")) {
            is_good = parse_number(text, &weight);
        } else {
            is_good = json_skip_value(text);
        }
    }
    out->weight = parse_weight(weight);
    return is_good && json_is_over(text) && read_address(address, out);
}

/* ---- one round ---- */

/* "key" and "range_end" for all keys that begin with the name of the service. */
static struct str range_of(struct discovery_watch *watch)
{
    struct arena *arena = &watch->arena;
    struct str key = watch->service->name;
    struct str end = arena_dup(arena, key);

    while (end.len != 0 && (unsigned char) end.data[end.len - 1] == 0xff) {
        end.len--;
    }
    if (end.len != 0) {
        ((char *) (uintptr_t) end.data)[end.len - 1]++;
    }
    return arena_printf(arena, "\"key\":\"%.*s\",\"range_end\":\"%.*s\"",
                        STR_ARG(base64_encode(arena, key, false)),
                        STR_ARG(base64_encode(arena, end, false)));
}

/* Logs in, if a user is configured. */
static const char *log_in(struct discovery_watch *watch, struct str *fields)
{
    const struct discovery_settings *settings = watch->service->discovery->settings;
    struct arena *arena = &watch->arena;
    struct str password = STR_NONE, name, token = STR_NONE;
    struct buf body = {0};
    struct json json = {.out = &body, .arena = arena};
    bool is_good = true;

    *fields = STR_NONE;
    if (settings->user.len == 0) {
        return NULL;
    }
    const char *wrong = discovery_secret(watch, settings->password_file, &password);
    if (wrong != NULL) {
        return wrong;
    }
    json_open(&json, STR_NONE, '{');
    json_put_string(&json, "name", settings->user);
    json_put_string(&json, "password", password);
    json_close(&json, '}');
    struct discovery_request request = {.method = "POST",
                                        .target = STR("/v3/auth/authenticate"),
                                        .body = arena_dup(arena, buf_str(&body)),
                                        .deadline_ms = discovery_due(watch)};
    buf_free(&body);
    wrong = discovery_ask(&watch->link, &request);
    if (wrong == NULL && watch->link.status != 200) {
        wrong = discovery_bad_status(watch);
    }
    wrong = wrong == NULL ? discovery_whole(&watch->link, discovery_due(watch)) : wrong;
    if (wrong != NULL) {
        return wrong;
    }
    struct str answer = arena_dup(arena, buf_str(&watch->link.body));
    struct json_text text = {answer.data, answer.data + answer.len, arena};
    JSON_EACH_MEMBER(&text, name, is_good)
    {
        is_good = str_is(name, "token") ? json_take_string(&text, &token) : json_skip_value(&text);
    }
    if (!is_good || token.len == 0) {
        return discovery_refuse(watch, "has no token for the user");
    }
    *fields = arena_printf(arena, "Authorization: %.*s\r\n", STR_ARG(token));
    return NULL;
}

/* Applies events. False: above the limit. */
static bool apply(struct discovery_watch *watch, const struct discovery_etcd_answer *answer,
                  struct arena *arena)
{
    bool is_good = true;

    vec_each(struct discovery_etcd_event, event, &answer->events) {
        struct json_text text = {event->value.data, event->value.data + event->value.len, arena};
        struct vec endpoints = {0};
        struct resolved_address endpoint;

        if (event->is_gone) {
            discovery_items_drop(&watch->items, event->key);
        } else if (discovery_etcd_value_read(&text, &endpoint)) {
            *vec_add(&endpoints, arena, struct resolved_address) = endpoint;
            is_good &= discovery_items_put(&watch->items, event->key, &endpoints);
        } else {
            discovery_items_drop(&watch->items, event->key);
            discovery_count(watch->service->discovery, DISCOVERY_SKIPPED);
        }
    }
    return is_good;
}

static const char *list_keys(struct discovery_watch *watch, struct str range, struct str fields)
{
    size_t most = watch->items.most;
    struct discovery_etcd_answer answer = {.most = most};
    const struct discovery_request request = {.method = "POST",
                                              .target = STR("/v3/kv/range"),
                                              .fields = fields,
                                              .body = arena_printf(&watch->arena,
                                                                   "{%.*s,\"limit\":\"%zu\"}",
                                                                   STR_ARG(range), most),
                                              .deadline_ms = discovery_due(watch)};

    const char *wrong = discovery_ask(&watch->link, &request);
    if (wrong == NULL && watch->link.status != 200) {
        wrong = discovery_bad_status(watch);
    }
    wrong = wrong == NULL ? discovery_whole(&watch->link, discovery_due(watch)) : wrong;
    if (wrong != NULL) {
        return wrong;
    }
    struct str body = buf_str(&watch->link.body);
    struct json_text text = {body.data, body.data + body.len, &watch->arena};
    discovery_items_clear(&watch->items);
    if (!discovery_etcd_range_read(&text, &answer) || answer.revision == 0 ||
        !apply(watch, &answer, &watch->arena)) {
        return discovery_refuse(watch, "is no list of keys, or one above endpoints_max");
    }
    watch->index = answer.revision;
    struct vec endpoints = discovery_items_list(&watch->items, &watch->arena);
    discovery_tell(watch, &endpoints);
    return NULL;
}

/* Handles one message. *ends: etcd has ended the watch. */
static const char *take_message(struct discovery_watch *watch, struct str line, bool *ends)
{
    struct discovery_etcd_answer answer = {.most = watch->items.most};
    struct arena scratch;

    arena_init(&scratch);
    struct json_text text = {line.data, line.data + line.len, &scratch};
    bool is_good = discovery_etcd_watch_read(&text, &answer) && apply(watch, &answer, &scratch);
    *ends = answer.is_cancelled;
    arena_free(&scratch);
    return is_good ? NULL : discovery_refuse(watch, "is no event, or one above endpoints_max");
}

static const char *etcd_round(struct discovery_watch *watch)
{
    uint64_t until_ms = clock_now.now_ms + watch->service->discovery->settings->wait_ms;
    struct str range = range_of(watch), fields, line;
    bool is_end = false, is_cancelled = false;

    const char *wrong = log_in(watch, &fields);
    wrong = wrong == NULL ? list_keys(watch, range, fields) : wrong;
    if (wrong != NULL) {
        return wrong;
    }
    const struct discovery_request request =
        {.method = "POST",
         .target = STR("/v3/watch"),
         .fields = fields,
         .body =
             arena_printf(&watch->arena, "{\"create_request\":{%.*s,\"start_revision\":\"%llu\"}}",
                          STR_ARG(range), (unsigned long long) watch->index + 1),
         .deadline_ms = discovery_due(watch)};
    wrong = discovery_ask(&watch->link, &request);
    if (wrong == NULL && watch->link.status != 200) {
        wrong = discovery_bad_status(watch);
    }
    while (wrong == NULL && !is_cancelled) {
        wrong = discovery_line(&watch->link, until_ms, &line, &is_end);
        if (wrong != NULL || is_end) {
            break;
        }
        wrong = take_message(watch, line, &is_cancelled);
        if (wrong == NULL && !discovery_has_line(&watch->link)) {
            discovery_follow(watch);
        }
    }
    discovery_close(&watch->link);
    return wrong;
}

const struct discovery_engine discovery_etcd = {.name = "etcd", .round = etcd_round};
