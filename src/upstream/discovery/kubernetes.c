/* Kubernetes: the EndpointSlices of a service, listed and watched by resourceVersion. */
#include "base/clock.h"
#include "upstream/discovery/parse.h"

enum { CONTINUE_MAX = 4096 }; /* bytes of the token for the next page of a list */

/* ---- an EndpointSlice ---- */

static bool read_metadata(struct json_text *text, struct discovery_slice *slice, struct str *more)
{
    bool is_good = true;
    struct str name;

    JSON_EACH_MEMBER(text, name, is_good)
    {
        if (str_is(name, "name")) {
            is_good = parse_text(text, &slice->name);
        } else if (str_is(name, "resourceVersion")) {
            is_good = parse_text(text, &slice->version);
        } else if (str_is(name, "continue")) {
            is_good = parse_text(text, more);
        } else {
            is_good = json_skip_value(text);
        }
    }
    return is_good;
}

struct slice_port {
    struct str name;
    uint64_t number;
};

static bool read_port(struct json_text *text, struct slice_port *port)
{
    bool is_good = true;
    struct str name;

    JSON_EACH_MEMBER(text, name, is_good)
    {
        if (str_is(name, "name")) {
            is_good = parse_text(text, &port->name);
        } else if (str_is(name, "port")) {
            is_good = parse_is_null(text) || json_take_number(text, &port->number);
        } else {
            is_good = json_skip_value(text);
        }
    }
    return is_good;
}

/* The configured port: by name, by number, or the first one. 0: the slice has no such port. */
static bool read_ports(struct json_text *text, struct str wanted, uint64_t *out)
{
    bool is_good = true;
    uint64_t number = 0;
    bool is_number = parse_uint(wanted, &number);

    if (parse_is_null(text)) {
        return true;
    }
    JSON_EACH_ITEM(text, is_good)
    {
        struct slice_port port = {.number = 0};

        is_good = read_port(text, &port);
        if (*out == 0 && (wanted.len == 0 || str_equal(port.name, wanted) ||
                          (is_number && port.number == number))) {
            *out = port.number;
        }
    }
    return is_good;
}

/* Only `ready` is used; it is true if it is absent. */
static bool read_conditions(struct json_text *text, bool *is_ready)
{
    bool is_good = true;
    struct str name;

    if (parse_is_null(text)) {
        return true;
    }
    JSON_EACH_MEMBER(text, name, is_good)
    {
        if (str_is(name, "ready") && json_peek(text) == 'f') {
            *is_ready = false;
        }
        is_good = json_skip_value(text);
    }
    return is_good;
}

/* The first of several addresses: all belong to the same pod. */
static bool read_addresses(struct json_text *text, struct str *out)
{
    bool is_good = true;
    struct str address;

    JSON_EACH_ITEM(text, is_good)
    {
        is_good = json_take_string(text, &address);
        if (is_good && out->len == 0) {
            *out = address;
        }
    }
    return is_good;
}

static bool read_endpoint(struct json_text *text, uint16_t port, struct discovery_slice *slice,
                          struct discovery_slices *out)
{
    struct resolved_address endpoint = {.weight = 1};
    struct str name, address = STR_NONE;
    bool is_good = true, is_ready = true;

    JSON_EACH_MEMBER(text, name, is_good)
    {
        if (str_is(name, "addresses")) {
            is_good = read_addresses(text, &address);
        } else if (str_is(name, "conditions")) {
            is_good = read_conditions(text, &is_ready);
        } else {
            is_good = json_skip_value(text);
        }
    }
    if (!is_good || !is_ready) {
        return is_good;
    }
    if (port == 0 || !addr_parse_ip(address, &endpoint.addr)) {
        out->skipped++;
        return true;
    }
    addr_set_port(&endpoint.addr, port);
    *vec_add(&slice->endpoints, text->arena, struct resolved_address) = endpoint;
    return slice->endpoints.count <= out->most;
}

static bool read_endpoints(struct json_text *text, uint16_t port, struct discovery_slice *slice,
                           struct discovery_slices *out)
{
    bool is_good = true;

    if (parse_is_null(text)) {
        return true;
    }
    JSON_EACH_ITEM(text, is_good)
    {
        is_good = read_endpoint(text, port, slice, out);
    }
    return is_good;
}

/* Endpoints come before the ports in a slice, so they are parsed when the whole slice was seen. */
static bool read_slice(struct json_text *text, struct discovery_slices *out,
                       struct discovery_slice *slice)
{
    struct json_text endpoints = {.at = NULL};
    struct str name, more;
    uint64_t port = 0;
    bool is_good = true;

    JSON_EACH_MEMBER(text, name, is_good)
    {
        if (str_is(name, "metadata")) {
            is_good = read_metadata(text, slice, &more);
        } else if (str_is(name, "ports")) {
            is_good = read_ports(text, out->port, &port);
        } else if (str_is(name, "endpoints")) {
            endpoints = *text;
            is_good = json_skip_value(text);
        } else {
            is_good = json_skip_value(text);
        }
    }
    return is_good &&
           (endpoints.at == NULL ||
            read_endpoints(&endpoints, (uint16_t) (port > UINT16_MAX ? 0 : port), slice, out));
}

static bool read_items(struct json_text *text, struct discovery_slices *out)
{
    bool is_good = true;

    if (parse_is_null(text)) {
        return true;
    }
    JSON_EACH_ITEM(text, is_good)
    {
        is_good = out->slices.count < out->most;
        if (is_good) {
            struct discovery_slice *slice =
                vec_add(&out->slices, text->arena, struct discovery_slice);

            is_good = read_slice(text, out, slice) && slice->name.len != 0;
        }
    }
    return is_good;
}

bool discovery_slices_read(struct json_text *text, struct discovery_slices *out)
{
    struct discovery_slice list = {.name = STR_NONE};
    bool is_good = true;
    struct str name;

    JSON_EACH_MEMBER(text, name, is_good)
    {
        if (str_is(name, "metadata")) {
            is_good = read_metadata(text, &list, &out->more);
        } else if (str_is(name, "items")) {
            is_good = read_items(text, out);
        } else {
            is_good = json_skip_value(text);
        }
    }
    out->version = list.version;
    return is_good && json_is_over(text) && list.version.len != 0;
}

/* ---- an event ---- */

/* Parses the Status of an error: code 410 means that the version is too old. */
static bool read_status(struct json_text *text, uint64_t *code)
{
    bool is_good = true;
    struct str name;

    JSON_EACH_MEMBER(text, name, is_good)
    {
        is_good = str_is(name, "code") ? json_take_number(text, code) : json_skip_value(text);
    }
    return is_good;
}

static bool read_object(struct json_text *text, struct discovery_slices *out, struct str type,
                        enum discovery_event *event)
{
    uint64_t code = 0;

    if (str_is(type, "ERROR")) {
        bool is_good = read_status(text, &code);

        *event = code == 410 ? DISCOVERY_EXPIRED : DISCOVERY_ERROR;
        return is_good;
    }
    struct discovery_slice *slice = vec_add(&out->slices, text->arena, struct discovery_slice);
    *event = str_is(type, "DELETED")    ? DISCOVERY_DELETED
             : str_is(type, "BOOKMARK") ? DISCOVERY_BOOKMARK
                                        : DISCOVERY_PUT;
    return read_slice(text, out, slice) && slice->version.len != 0 &&
           (*event == DISCOVERY_BOOKMARK || slice->name.len != 0) &&
           (*event != DISCOVERY_PUT || str_is(type, "ADDED") || str_is(type, "MODIFIED"));
}

bool discovery_event_read(struct json_text *text, struct discovery_slices *out,
                          enum discovery_event *event)
{
    struct json_text object = {.at = NULL};
    struct str name, type = STR_NONE;
    bool is_good = true;

    JSON_EACH_MEMBER(text, name, is_good)
    {
        if (str_is(name, "type")) {
            is_good = parse_text(text, &type);
        } else if (str_is(name, "object")) {
            object = *text;
            is_good = json_skip_value(text);
        } else {
            is_good = json_skip_value(text);
        }
    }
    return is_good && json_is_over(text) && object.at != NULL &&
           read_object(&object, out, type, event);
}

/* ---- one round ---- */

/* NAMESPACE/SERVICE[:PORT] */
struct service_name {
    struct str path; /* path of its EndpointSlices */
    struct str port;
};

static struct service_name split_name(struct discovery_watch *watch)
{
    struct arena *arena = &watch->arena;
    struct str rest = watch->service->name;
    struct str namespace = str_cut(&rest, '/');
    struct str service = str_cut(&rest, ':');

    return (struct service_name){
        .path = arena_printf(arena,
                             "/apis/discovery.k8s.io/v1/namespaces/%.*s/endpointslices"
                             "?labelSelector=kubernetes.io%%2Fservice-name%%3D%.*s",
                             STR_ARG(discovery_escape(arena, namespace)),
                             STR_ARG(discovery_escape(arena, service))),
        .port = rest};
}

/* Reads the token from its file, which may change at any time. */
static const char *authorize(struct discovery_watch *watch, struct str *fields)
{
    struct str token = STR_NONE;
    const char *wrong =
        discovery_secret(watch, watch->service->discovery->settings->token_file, &token);

    *fields = token.len == 0
                  ? STR_NONE
                  : arena_printf(&watch->arena, "Authorization: Bearer %.*s\r\n", STR_ARG(token));
    return wrong;
}

static void keep_version(struct discovery_watch *watch, struct str version)
{
    struct str head = str_head(version, sizeof(watch->version_text));

    memcpy(watch->version_text, head.data, head.len);
    watch->version = (struct str){watch->version_text, head.len};
}

static void note_skipped(const struct discovery_watch *watch, const struct discovery_slices *slices)
{
    for (unsigned i = 0; i < slices->skipped; i++) {
        discovery_count(watch->service->discovery, DISCOVERY_SKIPPED);
    }
}

/* Handles a page that was read. What the next page needs is kept in the round's arena, all else is
 * in `scratch`. */
static const char *take_page(struct discovery_watch *watch, const struct service_name *name,
                             struct discovery_slices *slices, struct arena *scratch)
{
    struct str body = buf_str(&watch->link.body);
    struct json_text text = {body.data, body.data + body.len, scratch};

    *slices = (struct discovery_slices){.port = name->port, .most = watch->items.most};
    if (!discovery_slices_read(&text, slices) || slices->more.len > CONTINUE_MAX) {
        return discovery_refuse(watch, "is no list of EndpointSlices, or one above endpoints_max");
    }
    note_skipped(watch, slices);
    vec_each(struct discovery_slice, slice, &slices->slices) {
        if (!discovery_items_put(&watch->items, slice->name, &slice->endpoints)) {
            return discovery_refuse(watch, "has more endpoints than endpoints_max");
        }
    }
    slices->more = arena_dup(&watch->arena, slices->more);
    slices->version =
        arena_dup(&watch->arena, str_head(slices->version, sizeof(watch->version_text)));
    return NULL;
}

/* Requests one page of the list. */
static const char *list_page(struct discovery_watch *watch, const struct service_name *name,
                             struct discovery_slices *slices)
{
    struct arena *arena = &watch->arena;
    struct str fields;
    struct str more =
        slices->more.len == 0
            ? STR_NONE
            : arena_printf(arena, "&continue=%.*s", STR_ARG(discovery_escape(arena, slices->more)));

    const char *wrong = authorize(watch, &fields);
    if (wrong != NULL) {
        return wrong;
    }
    const struct discovery_request request = {.method = "GET",
                                              .target =
                                                  arena_printf(arena, "%.*s&limit=100%.*s",
                                                               STR_ARG(name->path), STR_ARG(more)),
                                              .fields = fields,
                                              .deadline_ms = discovery_due(watch)};
    wrong = discovery_ask(&watch->link, &request);
    if (wrong == NULL && watch->link.status != 200) {
        wrong = discovery_bad_status(watch);
    }
    wrong = wrong == NULL ? discovery_whole(&watch->link, discovery_due(watch)) : wrong;
    if (wrong != NULL) {
        return wrong;
    }
    struct arena scratch;
    arena_init(&scratch);
    wrong = take_page(watch, name, slices, &scratch);
    arena_free(&scratch);
    return wrong;
}

static const char *list_slices(struct discovery_watch *watch, const struct service_name *name)
{
    struct discovery_slices slices = {.more = STR_NONE};
    const char *wrong = NULL;
    size_t pages = 0;

    discovery_items_clear(&watch->items);
    do {
        wrong = pages++ > watch->items.most /* every page has a slice, except the last one */
                    ? discovery_refuse(watch, "has more pages than endpoints_max")
                    : list_page(watch, name, &slices);
    } while (wrong == NULL && slices.more.len != 0);
    if (wrong != NULL) {
        return wrong;
    }
    keep_version(watch, slices.version);
    watch->is_listed = true;
    discovery_follow(watch);
    return NULL;
}

/* Applies one event. */
static const char *apply_event(struct discovery_watch *watch, const struct service_name *name,
                               struct str line, struct arena *scratch)
{
    struct discovery_slices slices = {.port = name->port, .most = watch->items.most};
    struct json_text text = {line.data, line.data + line.len, scratch};
    enum discovery_event event = DISCOVERY_ERROR;

    if (!discovery_event_read(&text, &slices, &event)) {
        return discovery_refuse(watch, "is no event, or one above endpoints_max");
    }
    if (event == DISCOVERY_EXPIRED) {
        watch->is_listed = false;
        watch->has_expired = true;
        return NULL;
    }
    if (event == DISCOVERY_ERROR) {
        watch->is_listed = false;
        return "sent an event of type ERROR";
    }
    note_skipped(watch, &slices);
    const struct discovery_slice *slice = slices.slices.items;
    if (event == DISCOVERY_DELETED) {
        discovery_items_drop(&watch->items, slice->name);
    } else if (event == DISCOVERY_PUT &&
               !discovery_items_put(&watch->items, slice->name, &slice->endpoints)) {
        watch->is_listed = false;
        return discovery_refuse(watch, "has more endpoints than endpoints_max");
    }
    keep_version(watch, slice->version);
    return NULL;
}

static const char *take_event(struct discovery_watch *watch, const struct service_name *name,
                              struct str line)
{
    struct arena scratch;

    arena_init(&scratch);
    const char *wrong = apply_event(watch, name, line, &scratch);
    arena_free(&scratch);
    return wrong;
}

static const char *watch_slices(struct discovery_watch *watch, const struct service_name *name,
                                uint64_t wait_ms)
{
    uint64_t until_ms = clock_now.now_ms + wait_ms + wait_ms / 16;
    struct arena *arena = &watch->arena;
    struct str fields, line;
    bool is_end = false;

    const char *wrong = authorize(watch, &fields);
    if (wrong != NULL) {
        return wrong;
    }
    const struct discovery_request request =
        {.method = "GET",
         .target =
             arena_printf(arena,
                          "%.*s&watch=1&allowWatchBookmarks=true&resourceVersion=%.*s"
                          "&timeoutSeconds=%llu",
                          STR_ARG(name->path), STR_ARG(discovery_escape(arena, watch->version)),
                          (unsigned long long) (wait_ms + 999) / 1000),
         .fields = fields,
         .deadline_ms = discovery_due(watch)};
    wrong = discovery_ask(&watch->link, &request);
    if (wrong == NULL && watch->link.status == 410) {
        watch->is_listed = false;
        watch->has_expired = true;
        return NULL;
    }
    if (wrong == NULL && watch->link.status != 200) {
        wrong = discovery_bad_status(watch);
    }
    if (wrong == NULL) {
        discovery_works(watch);
    }
    while (wrong == NULL && watch->is_listed) {
        wrong = discovery_line(&watch->link, until_ms, &line, &is_end);
        if (wrong != NULL || is_end) {
            break;
        }
        wrong = take_event(watch, name, line);
        if (wrong == NULL && watch->is_listed && !discovery_has_line(&watch->link)) {
            discovery_follow(watch);
        }
    }
    return wrong;
}

static const char *kubernetes_round(struct discovery_watch *watch)
{
    const struct discovery_settings *settings = watch->service->discovery->settings;
    struct service_name name = split_name(watch);
    const char *wrong = NULL;

    if (!watch->is_listed) {
        wrong = list_slices(watch, &name);
    }
    if (wrong == NULL) {
        wrong = watch_slices(watch, &name, settings->wait_ms);
        discovery_close(&watch->link);
    }
    return wrong;
}

const struct discovery_engine discovery_kubernetes = {.name = "kubernetes",
                                                      .round = kubernetes_round};
