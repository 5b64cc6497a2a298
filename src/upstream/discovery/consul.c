/* Consul: blocking queries of /v1/health/service, by the index of the last answer. */
#include "base/clock.h"
#include "upstream/discovery/parse.h"

/* Without an index a query cannot block, so there is a pause instead. */
enum { NO_INDEX_PAUSE_MS = 1000 };

/* ---- the answer ---- */

struct instance {
    struct str node_address, address;
    uint64_t port, weight;
};

static bool read_node(struct json_text *text, struct instance *instance)
{
    bool is_good = true;
    struct str name;

    JSON_EACH_MEMBER(text, name, is_good)
    {
        is_good = str_is(name, "Address") ? parse_text(text, &instance->node_address)
                                          : json_skip_value(text);
    }
    return is_good;
}

static bool read_weights(struct json_text *text, struct instance *instance)
{
    bool is_good = true;
    struct str name;

    if (parse_is_null(text)) {
        return true;
    }
    JSON_EACH_MEMBER(text, name, is_good)
    {
        is_good =
            str_is(name, "Passing") ? parse_number(text, &instance->weight) : json_skip_value(text);
    }
    return is_good;
}

static bool read_service(struct json_text *text, struct instance *instance)
{
    bool is_good = true;
    struct str name;

    JSON_EACH_MEMBER(text, name, is_good)
    {
        if (str_is(name, "Address")) {
            is_good = parse_text(text, &instance->address);
        } else if (str_is(name, "Port")) {
            is_good = parse_number(text, &instance->port);
        } else if (str_is(name, "Weights")) {
            is_good = read_weights(text, instance);
        } else {
            is_good = json_skip_value(text);
        }
    }
    return is_good;
}

static bool read_instance(struct json_text *text, struct instance *instance)
{
    bool is_good = true;
    struct str name;

    JSON_EACH_MEMBER(text, name, is_good)
    {
        if (str_is(name, "Node")) {
            is_good = read_node(text, instance);
        } else if (str_is(name, "Service")) {
            is_good = read_service(text, instance);
        } else {
            is_good = json_skip_value(text);
        }
    }
    return is_good;
}

bool discovery_consul_read(struct json_text *text, struct discovery_answer *answer)
{
    bool is_good = true;

    JSON_EACH_ITEM(text, is_good)
    {
        struct instance instance = {.weight = 1};
        struct resolved_address endpoint = {.weight = 0};

        is_good = read_instance(text, &instance);
        struct str address = instance.address.len == 0 ? instance.node_address : instance.address;
        if (!addr_parse_ip(address, &endpoint.addr) || instance.port == 0 ||
            instance.port > UINT16_MAX) {
            answer->skipped++;
            continue;
        }
        is_good &= answer->endpoints.count < answer->most;
        addr_set_port(&endpoint.addr, (uint16_t) instance.port);
        endpoint.weight = parse_weight(instance.weight);
        *vec_add(&answer->endpoints, text->arena, struct resolved_address) = endpoint;
    }
    return is_good && json_is_over(text);
}

/* ---- one query ---- */

static const char *consul_round(struct discovery_watch *watch)
{
    const struct discovery_settings *settings = watch->service->discovery->settings;
    struct discovery_answer answer = {.most = (size_t) settings->endpoints_max};
    struct arena *arena = &watch->arena;
    struct str token = STR_NONE;

    const char *wrong = discovery_secret(watch, settings->token_file, &token);
    if (wrong != NULL) {
        return wrong;
    }
    /* Consul adds up to a sixteenth to the wait time. */
    uint64_t wait_ms = watch->index == 0 ? 0 : settings->wait_ms;
    const struct discovery_request request = {
        .method = "GET",
        .target = arena_printf(arena, "/v1/health/service/%.*s?passing=1&index=%llu&wait=%llums",
                               STR_ARG(discovery_escape(arena, watch->service->name)),
                               (unsigned long long) watch->index, (unsigned long long) wait_ms),
        .fields = token.len == 0 ? STR_NONE
                                 : arena_printf(arena, "X-Consul-Token: %.*s\r\n", STR_ARG(token)),
        .deadline_ms = discovery_due(watch) + wait_ms + wait_ms / 16,
    };
    wrong = discovery_ask(&watch->link, &request);
    if (wrong != NULL) {
        return wrong;
    }
    if (watch->link.status != 200) {
        return discovery_bad_status(watch);
    }
    uint64_t index = watch->link.index;
    wrong = discovery_whole(&watch->link, discovery_due(watch));
    if (wrong != NULL) {
        return wrong;
    }
    struct str body = buf_str(&watch->link.body);
    struct json_text text = {body.data, body.data + body.len, arena};
    if (!discovery_consul_read(&text, &answer)) {
        return discovery_refuse(watch, "is no list of instances, or one above endpoints_max");
    }
    for (unsigned i = 0; i < answer.skipped; i++) {
        discovery_count(watch->service->discovery, DISCOVERY_SKIPPED);
    }
    /* An index that decreases means that Consul's state was reset: start over. */
    watch->index = index < watch->index ? 0 : index;
    discovery_tell(watch, &answer.endpoints);
    if (index == 0) {
        fiber_sleep(clock_now.now_ms + NO_INDEX_PAUSE_MS);
    }
    return NULL;
}

const struct discovery_engine discovery_consul = {.name = "consul", .round = consul_round};
