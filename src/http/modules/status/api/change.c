/* Parses the body of a change of a server. */
#include "http/modules/status/api/change.h"

#include "base/json.h"
#include "base/parse.h"

static const struct refusal bad_format = {400, "UpstreamConfFormatError",
                                          "invalid parameter in the request body"};

static bool take_number(struct json_text *text, uint64_t most, uint32_t *out)
{
    uint64_t number;

    if (json_peek(text) != '0' || !json_take_number(text, &number) || number > most) {
        return false;
    }
    *out = (uint32_t) number;
    return true;
}

static bool take_time(struct json_text *text, uint64_t *out)
{
    struct str word;
    uint64_t seconds;

    if (json_peek(text) == '0') {
        *out = 0;
        return json_take_number(text, &seconds) && seconds <= INT32_MAX &&
               (*out = seconds * 1000, true);
    }
    return json_take_string(text, &word) && parse_msec(word, out) && *out <= INT64_MAX / 2;
}

static bool take_flag(struct json_text *text, bool *out)
{
    *out = json_peek(text) == 't';
    return json_take_word(text, *out ? STR("true") : STR("false"));
}

/* A string for a state file and log lines: no control characters. */
static bool take_text(struct json_text *text, struct str *out)
{
    if (!json_take_string(text, out) || out->len > SERVER_TEXT_MOST) {
        return false;
    }
    for (size_t i = 0; i < out->len; i++) {
        if ((unsigned char) out->data[i] < ' ' || out->data[i] == 0x7f) {
            return false;
        }
    }
    return true;
}

static const struct refusal *unknown_member(struct arena *arena, struct str name)
{
    enum { SHOWN = 64 }; /* bytes of the name in a message */
    struct refusal *refusal = arena_new(arena, struct refusal);

    *refusal = bad_format;
    refusal->text =
        arena_printf(arena, "unknown parameter \"%.*s\"", STR_ARG(str_head(name, SHOWN))).data;
    return refusal;
}

/* Parses one member of the body. NULL, or an error. */
static const struct refusal *take_member(struct json_text *text, struct str name,
                                         const struct server_form *form,
                                         struct server_change *change)
{
    static const struct refusal bad_address = {400, "UpstreamBadAddress",
                                               "invalid address in \"server\""};
    static const struct refusal bad_weight = {400, "UpstreamBadWeight", "invalid \"weight\""};
    static const struct refusal bad_conns = {400, "UpstreamBadMaxConns", "invalid \"max_conns\""};
    static const struct refusal bad_fails = {400, "UpstreamBadMaxFails", "invalid \"max_fails\""};
    static const struct refusal bad_timeout = {400, "UpstreamBadFailTimeout",
                                               "invalid \"fail_timeout\""};
    static const struct refusal bad_start = {400, "UpstreamBadSlowStart", "invalid \"slow_start\""};
    static const struct refusal bad_route = {400, "UpstreamBadRoute", "invalid \"route\""};
    static const struct refusal bad_service = {400, "UpstreamBadService", "invalid \"service\""};
    static const struct refusal bad_backup = {400, "UpstreamConfFormatError", "invalid \"backup\""};
    static const struct refusal bad_down = {400, "UpstreamConfFormatError", "invalid \"down\""};
    static const struct refusal bad_drain = {400, "UpstreamConfFormatError", "invalid \"drain\""};
    struct server_entry *entry = &change->entry;

    if (str_is(name, "server")) {
        change->has_server = true;
        return take_text(text, &entry->address) && entry->address.len != 0 ? NULL : &bad_address;
    }
    if (str_is(name, "service")) {
        change->has_service = true;
        return take_text(text, &entry->service) ? NULL : &bad_service;
    }
    if (str_is(name, "route") && !form->is_stream) {
        change->has_route = true;
        return take_text(text, &entry->route) ? NULL : &bad_route;
    }
    if (str_is(name, "weight")) {
        change->has_weight = true;
        return take_number(text, SERVER_WEIGHT_MOST, &entry->weight) && entry->weight != 0
                   ? NULL
                   : &bad_weight;
    }
    if (str_is(name, "max_conns")) {
        change->has_max_conns = true;
        return take_number(text, INT32_MAX, &entry->max_conns) ? NULL : &bad_conns;
    }
    if (str_is(name, "max_fails")) {
        change->has_max_fails = true;
        return take_number(text, INT32_MAX, &entry->max_fails) ? NULL : &bad_fails;
    }
    if (str_is(name, "fail_timeout")) {
        change->has_fail_timeout = true;
        return take_time(text, &entry->fail_timeout_ms) ? NULL : &bad_timeout;
    }
    if (str_is(name, "slow_start")) {
        change->has_slow_start = true;
        return take_time(text, &entry->slow_start_ms) ? NULL : &bad_start;
    }
    if (str_is(name, "backup")) {
        change->has_backup = true;
        return take_flag(text, &entry->is_backup) ? NULL : &bad_backup;
    }
    if (str_is(name, "down")) {
        change->has_down = true;
        return take_flag(text, &entry->is_down) ? NULL : &bad_down;
    }
    if (str_is(name, "drain") && !form->is_stream && form->has_drain) {
        change->has_drain = true;
        return take_flag(text, &entry->is_draining) ? NULL : &bad_drain;
    }
    return unknown_member(text->arena, name);
}

const struct refusal *server_change_read(struct str body, const struct server_form *form,
                                         struct arena *arena, struct server_change *change)
{
    static const struct refusal bad_json = {415, "JsonError", "the request body is no JSON"};
    static const struct refusal down_and_drain = {400, "UpstreamConfFormatError",
                                                  "\"down\" and \"drain\" exclude each other"};
    struct json_text text = {body.data, body.data + body.len, arena};
    struct json_text probe = text;
    bool is_first = true, is_end = false;
    struct str name;

    if (!json_skip_value(&probe) || !json_is_over(&probe)) {
        return &bad_json;
    }
    if (!json_skip(&text, '{')) {
        return &bad_format;
    }
    while (json_next_member(&text, &is_first, &name, &is_end) && !is_end) {
        const struct refusal *refusal = take_member(&text, name, form, change);

        if (refusal != NULL) {
            return refusal;
        }
    }
    if (is_end && change->entry.is_down && change->entry.is_draining) {
        return &down_and_drain;
    }
    return is_end ? NULL : &bad_format;
}

void server_change_apply(const struct server_change *change, struct server_entry *entry)
{
    const struct server_entry *given = &change->entry;

    if (change->has_server) {
        entry->address = given->address;
    }
    if (change->has_service) {
        entry->service = given->service;
    }
    if (change->has_route) {
        entry->route = given->route;
    }
    if (change->has_weight) {
        entry->weight = given->weight;
    }
    if (change->has_max_conns) {
        entry->max_conns = given->max_conns;
    }
    if (change->has_max_fails) {
        entry->max_fails = given->max_fails;
    }
    if (change->has_fail_timeout) {
        entry->fail_timeout_ms = given->fail_timeout_ms;
    }
    if (change->has_slow_start) {
        entry->slow_start_ms = given->slow_start_ms;
    }
    if (change->has_backup) {
        entry->is_backup = given->is_backup;
    }
    /* As in the configuration, a server has either `down` or `drain`: the last one given. */
    if (change->has_down) {
        entry->is_down = given->is_down;
        entry->is_draining = entry->is_draining && !given->is_down;
    }
    if (change->has_drain) {
        entry->is_draining = given->is_draining;
        entry->is_down = entry->is_down && !given->is_draining;
    }
}
