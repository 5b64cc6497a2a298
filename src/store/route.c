/* Selects the server for a command: the only one, the primary that sentinels name, or that of the
 * key's slot. */
#include <stdlib.h>

#include "base/clock.h"
#include "base/parse.h"
#include "store/private.h"

enum {
    LOOK_EVERY_MS = 1000, /* how often the servers are checked */
    LOOK_AGAIN_MS = 50,   /* least time between two checks */
    REDIRECTS_MAX = 3,    /* of one command */
    LOG_EVERY_MS = 60000, /* how often errors of a store are logged */
    REASON_MAX = 200,     /* bytes of an error that are logged */
};

/* ---- log messages ---- */

void store_is_gone(struct store *store, const struct store_node *node, const char *what)
{
    if (atomic_exchange(&store->counts->is_gone, 1) == 0) {
        log_error(
            log_main, 0,
            "redis_store \"%.*s\": the server %.*s %s; zones continue locally until it is back",
            STR_ARG(store->name), (int) node->name_length, node->name, what);
    }
}

void store_is_back(struct store *store, const struct store_node *node)
{
    if (!node->is_sentinel && atomic_exchange(&store->counts->is_gone, 0) != 0) {
        log_notice(log_main, 0, "redis_store \"%.*s\": the server %.*s is back",
                   STR_ARG(store->name), (int) node->name_length, node->name);
    }
}

/* Logs that a command was refused, at most once a minute. */
static void log_refusal(struct store *store, const struct store_node *node, struct str text)
{
    store_count(store, STORE_ERRORS);
    if (store->error_logged_ms == 0 || clock_now.now_ms - store->error_logged_ms > LOG_EVERY_MS) {
        store->error_logged_ms = clock_now.now_ms;
        log_error(log_main, 0, "redis_store \"%.*s\": the server %.*s refused a command: \"%.*s\"",
                  STR_ARG(store->name), (int) node->name_length, node->name,
                  STR_ARG(str_head(text, REASON_MAX)));
    }
}

/* ---- servers ---- */

/* Is the node unused, so that its slot may be reused? */
static bool node_is_idle(const struct store_node *node)
{
    if (node->is_wanted || node->users != 0 || node == node->store->primary ||
        !list_is_empty(&node->waiting)) {
        return false;
    }
    for (unsigned i = 0; i < STORE_LINKS; i++) {
        if (node->links[i].state != LINK_DOWN) {
            return false;
        }
    }
    return true;
}

/* The index of the server with this address, which is added if necessary; -1: there are too
   many. */
static int node_of(struct store *store, const struct addr *addr, struct str host, bool is_sentinel)
{
    unsigned at = store->node_count;
    unsigned most = host.len == 0 ? STORE_NODES_LEARNED : STORE_NODES_MAX;

    for (unsigned i = 0; i < store->node_count; i++) {
        if (store->nodes[i]->is_sentinel == is_sentinel &&
            addr_equal(&store->nodes[i]->addr, addr)) {
            return (int) i;
        }
    }
    if (at >= most) {
        for (at = 0; at < most && !node_is_idle(store->nodes[at]); at++) {
        }
        if (at == most) {
            return -1;
        }
    }
    struct store_node *node = store_node_new(store, addr, host, is_sentinel);
    if (node == NULL) {
        return -1;
    }
    if (at == store->node_count) {
        store->node_count++;
    } else {
        free(store->nodes[at]);
    }
    store->nodes[at] = node;
    return (int) at;
}

/* Parses "10.0.0.5:6379" or "2001:db8::1:6379", as servers write it; without an address, that of
   `from` is used. */
static bool parse_endpoint(struct str text, const struct store_node *from, struct addr *addr)
{
    const char *colon = str_find_last_char(text, ':');
    uint64_t port;

    if (colon == NULL || !parse_uint(str_from(colon + 1, text.data + text.len), &port) ||
        port == 0 || port > UINT16_MAX) {
        return false;
    }
    if (colon == text.data) {
        *addr = from->addr;
        if (addr->any.sa_family == AF_UNIX) {
            return false;
        }
    } else if (!addr_parse_ip(str_from(text.data, colon), addr)) {
        return false;
    }
    addr_set_port(addr, (uint16_t) port);
    return true;
}

/* The addresses of a `server`: struct addr. MAY WAIT. */
static void server_addrs(struct store *store, const struct store_server *server,
                         struct arena *arena, struct vec *out)
{
    const struct store_settings *settings = store->settings;
    struct resolved found;

    if (!server->is_resolved) {
        *out = server->addrs;
        return;
    }
    const struct dns_lookup lookup = {.settings = settings->resolver,
                                      .name = server->host,
                                      .deadline_ms =
                                          clock_now.now_ms + settings->resolver_timeout_ms,
                                      .log = log_main,
                                      .arena = arena};
    if (resolver_addresses(&lookup, &found) != RESOLVE_OK) {
        return;
    }
    for (unsigned i = 0; i < found.count; i++) {
        struct addr *addr = vec_add(out, arena, struct addr);
        *addr = found.items[i].addr;
        addr_set_port(addr, server->port);
    }
}

/* Adds all servers of the configuration to this worker's: indexes in `nodes`, at most `most`. MAY
 * WAIT. */
static unsigned configured_nodes(struct store *store, struct arena *arena, bool is_sentinel,
                                 int *numbers, unsigned most)
{
    unsigned count = 0;

    vec_each(const struct store_server, server, &store->settings->servers) {
        struct vec addrs = {NULL, 0, 0};

        server_addrs(store, server, arena, &addrs);
        vec_each(const struct addr, addr, &addrs) {
            int number = node_of(store, addr, server->host, is_sentinel);
            if (number != -1 && count < most) {
                numbers[count++] = number;
            }
        }
    }
    return count;
}

/* ---- finding the servers ---- */

/* From now on commands go to this server. */
static void use_primary(struct store *store, struct store_node *node)
{
    struct store_node *former = store->primary;

    store->primary = node;
    if (former != NULL && former != node) {
        store_node_close(former);
    }
    store_node_connect(node);
}

/* Tries servers in turn, starting with the last one that worked. MAY WAIT. */
static void look_standalone(struct store *store, struct arena *arena)
{
    int numbers[STORE_NODES_MAX / 4];
    unsigned count = configured_nodes(store, arena, false, numbers, STORE_NODES_MAX / 4);

    if (count == 0) {
        return;
    }
    struct store_node *node = store->nodes[numbers[store->server % count]];
    if (node->failures != 0 && !store_node_is_up(node)) {
        store->server = (store->server + 1) % count;
        node = store->nodes[numbers[store->server]];
    }
    use_primary(store, node);
}

/* Sends a command to one server; the timeout is that of connecting. MAY WAIT. False: no valid
   reply. */
static bool ask_about_servers(struct store_node *node, struct arena *arena, const struct str *words,
                              size_t count, struct str *reply)
{
    const struct store_settings *settings = node->store->settings;
    struct store_request *request =
        store_node_send(node, resp_command(arena, words, count), false, arena);

    return request != NULL &&
           store_node_reply(request, clock_now.now_ms + settings->connect_timeout_ms, reply) ==
               STORE_OK;
}

/* The first sentinel that replies names the primary. MAY WAIT. */
static void look_sentinel(struct store *store, struct arena *arena)
{
    const struct str words[] = {STR("SENTINEL"), STR("GET-MASTER-ADDR-BY-NAME"),
                                store->settings->primary};
    int numbers[STORE_NODES_MAX / 4];
    unsigned count = configured_nodes(store, arena, true, numbers, STORE_NODES_MAX / 4);

    for (unsigned i = 0; i < count; i++) {
        struct store_node *sentinel = store->nodes[numbers[(store->server + i) % count]];
        struct str reply, ip, port;
        uint64_t number;
        struct addr addr;

        if (!ask_about_servers(sentinel, arena, words, 3, &reply) || resp_next_list(&reply) != 2 ||
            !resp_next_string(&reply, &ip) || !resp_next_string(&reply, &port) ||
            !addr_parse_ip(ip, &addr) || !parse_uint(port, &number) || number > UINT16_MAX) {
            continue;
        }
        addr_set_port(&addr, (uint16_t) number);
        int found = node_of(store, &addr, STR_NONE, false);
        if (found != -1) {
            store->server = (store->server + i) % count;
            use_primary(store, store->nodes[found]);
        }
        return;
    }
}

/* Reads one range of CLUSTER SLOTS, which has `count` values: first, last, the primary, replicas.
 * from: the address of a server without a name. */
static bool take_range(struct store *store, const struct addr *from, struct str *reply,
                       int64_t count, uint8_t *slots)
{
    int64_t first, last, port;
    struct resp_value host;
    struct addr addr = *from;

    if (count < 3 || !resp_next_integer(reply, &first) || !resp_next_integer(reply, &last)) {
        return false;
    }
    int64_t parts = resp_next_list(reply);
    if (parts < 2 || !resp_next(reply, &host) || !resp_next_integer(reply, &port) ||
        !resp_skip(reply, (uint64_t) parts - 2) || !resp_skip(reply, (uint64_t) count - 3) ||
        first < 0 || last >= STORE_SLOTS || port <= 0 || port > UINT16_MAX) {
        return false;
    }
    if (host.type == RESP_STRING && host.text.len != 0 && !addr_parse_ip(host.text, &addr)) {
        return false;
    }
    if (addr.any.sa_family == AF_UNIX) {
        return false;
    }
    addr_set_port(&addr, (uint16_t) port);
    int number = node_of(store, &addr, STR_NONE, false);
    for (int64_t slot = first; number != -1 && slot <= last; slot++) {
        slots[slot] = (uint8_t) (number + 1);
    }
    return true;
}

static bool take_slots(struct store *store, const struct store_node *from, struct arena *arena,
                       struct str reply)
{
    uint8_t *slots = arena_zalloc(arena, STORE_SLOTS);
    int64_t ranges = resp_next_list(&reply);
    const struct addr own = from->addr; /* a copy, since the node may be replaced by others */

    if (ranges <= 0) {
        return false;
    }
    for (; ranges > 0; ranges--) {
        if (!take_range(store, &own, &reply, resp_next_list(&reply), slots)) {
            return false;
        }
    }
    memcpy(store->slots, slots, STORE_SLOTS);
    for (unsigned i = 0; i < store->node_count; i++) {
        store->nodes[i]->is_wanted = memchr(slots, (int) i + 1, STORE_SLOTS) != NULL;
        if (store->nodes[i]->is_wanted) {
            store_node_connect(store->nodes[i]);
        }
    }
    return true;
}

/* Asks servers that are up first. MAY WAIT. */
static void look_cluster(struct store *store, struct arena *arena)
{
    const struct str words[] = {STR("CLUSTER"), STR("SLOTS")};
    int numbers[STORE_NODES_MAX];
    unsigned count = 0;
    struct str reply;

    for (unsigned i = 0; i < store->node_count; i++) {
        if (store->nodes[i]->is_wanted && store_node_is_up(store->nodes[i])) {
            numbers[count++] = (int) i;
        }
    }
    count += configured_nodes(store, arena, false, numbers + count, STORE_NODES_MAX - count);
    for (unsigned i = 0; i < count; i++) {
        struct store_node *node = store->nodes[numbers[i]];
        if (ask_about_servers(node, arena, words, 2, &reply) &&
            take_slots(store, node, arena, reply)) {
            return;
        }
    }
}

static void watch_run(void *arg)
{
    static void (*const looks[])(struct store *,
                                 struct arena *) = {[STORE_STANDALONE] = look_standalone,
                                                    [STORE_SENTINEL] = look_sentinel,
                                                    [STORE_CLUSTER] = look_cluster};
    struct store *store = arg;

    store->watcher = fiber_self();
    while (!fiber_is_cancelled() && !store->is_ending) {
        struct arena arena;

        arena_init(&arena);
        looks[store->settings->mode](store, &arena);
        arena_free(&arena);
        if (fiber_sleep(clock_now.now_ms + LOOK_AGAIN_MS) == WAIT_CANCELLED ||
            fiber_wait(&store->wake, clock_now.now_ms + LOOK_EVERY_MS) == WAIT_CANCELLED) {
            break;
        }
    }
    store->watcher = NULL;
}

void store_route_is_old(struct store *store)
{
    if (!store->is_ending) {
        wait_signal_later(&store->wake);
    }
}

bool store_route_start(struct store *store)
{
    store->slots = calloc(1, STORE_SLOTS);
    return store->slots != NULL && fiber_start(watch_run, store, NULL) != FIBER_NO_STACK;
}

void store_route_end(struct store *store)
{
    store->is_ending = true;
    if (store->watcher != NULL) {
        fiber_cancel(store->watcher);
    }
    for (unsigned i = 0; i < store->node_count; i++) {
        store_node_retire(store->nodes[i]);
    }
}

void store_route_close(struct store *store)
{
    store->is_closed = true;
    for (unsigned i = 0; i < store->node_count; i++) {
        store_node_close(store->nodes[i]);
    }
}

void store_route_free(struct store *store)
{
    store_route_close(store);
    while (store->node_count > 0) {
        free(store->nodes[--store->node_count]);
    }
    free(store->slots);
    store->slots = NULL;
    store->primary = NULL;
}

/* ---- commands ---- */

/* CRC-16 with the polynomial 0x1021, as in the specification of Redis Cluster. */
static unsigned crc16_of(struct str s)
{
    unsigned crc = 0;

    for (size_t i = 0; i < s.len; i++) {
        crc ^= (unsigned) (unsigned char) s.data[i] << 8;
        for (unsigned bit = 0; bit < 8; bit++) {
            crc = (crc << 1 ^ ((crc & 0x8000) != 0 ? 0x1021 : 0)) & 0xffff;
        }
    }
    return crc;
}

/* If the key contains {…}, the part in the first braces is used, unless that is empty. */
unsigned store_slot_of(struct str key)
{
    const char *open = str_find_char(key, '{');

    if (open != NULL) {
        struct str rest = str_from(open + 1, key.data + key.len);
        const char *close = str_find_char(rest, '}');
        if (close != NULL && close != rest.data) {
            key = str_from(rest.data, close);
        }
    }
    return crc16_of(key) % STORE_SLOTS;
}

struct store_node *store_route(struct store *store, struct str key)
{
    if (store->settings->mode != STORE_CLUSTER) {
        return store->primary;
    }
    unsigned number = store->slots[store_slot_of(key)];
    return number == 0 ? NULL : store->nodes[number - 1];
}

/* How an error redirects the command. */
enum error_kind { ERROR_OTHER, ERROR_MOVED, ERROR_ASK, ERROR_NOT_HERE };

static enum error_kind error_kind_of(struct str text)
{
    static const struct {
        struct str code;
        enum error_kind kind;
    } codes[] = {{STR_INIT("MOVED "), ERROR_MOVED},
                 {STR_INIT("ASK "), ERROR_ASK},
                 {STR_INIT("READONLY"), ERROR_NOT_HERE},
                 {STR_INIT("LOADING"), ERROR_NOT_HERE},
                 {STR_INIT("MASTERDOWN"), ERROR_NOT_HERE},
                 {STR_INIT("CLUSTERDOWN"), ERROR_NOT_HERE}};

    for (size_t i = 0; i < sizeof(codes) / sizeof(*codes); i++) {
        if (str_starts(text, codes[i].code)) {
            return codes[i].kind;
        }
    }
    return ERROR_OTHER;
}

/* "MOVED 3999 10.0.0.5:6381": gives the server, or NULL. Updates the map if is_move. */
static struct store_node *redirected(struct store *store, const struct store_node *from,
                                     struct str text, bool is_move)
{
    struct addr addr;
    uint64_t slot;

    str_cut(&text, ' ');
    struct str number = str_cut(&text, ' ');
    if (!parse_uint(number, &slot) || slot >= STORE_SLOTS || !parse_endpoint(text, from, &addr)) {
        return NULL;
    }
    store_count(store, STORE_REDIRECTS);
    int found = node_of(store, &addr, STR_NONE, false);
    if (found == -1) {
        return NULL;
    }
    if (is_move) {
        store->slots[slot] = (uint8_t) (found + 1);
        store->nodes[found]->is_wanted = true;
        store_route_is_old(store);
    }
    return store->nodes[found];
}

static enum store_result count_failure(struct store *store, enum store_result result)
{
    if (result != STORE_CANCELLED) {
        store_count(store, result == STORE_TIMED_OUT ? STORE_TIMEOUTS : STORE_UNAVAILABLE);
    }
    return result;
}

static uint64_t deadline_of(const struct store_call *call)
{
    return call->deadline_ms != 0 ? call->deadline_ms
                                  : clock_now.now_ms + call->store->settings->timeout_ms;
}

static bool store_is_usable(const struct store *store)
{
    return store->is_running && !store->is_closed;
}

/*
 * The reply to a command that was sent to this server (request NULL: sending failed), after
 * redirections. node NULL: there is no server.
 */
static enum store_result follow(const struct store_call *call, struct store_node *node,
                                struct str bytes, struct store_request *request, struct str *reply)
{
    struct store *store = call->store;
    bool is_asking = false;

    for (unsigned tries = 0; node != NULL && tries <= REDIRECTS_MAX; tries++) {
        if (tries != 0) {
            request = store_node_send(node, bytes, is_asking, call->arena);
        }
        enum store_result result =
            request == NULL ? STORE_GONE : store_node_reply(request, call->deadline_ms, reply);
        struct str rest = *reply;
        struct resp_value value;

        if (result != STORE_OK) {
            return count_failure(store, result);
        }
        if (!resp_next(&rest, &value)) {
            return STORE_REFUSED;
        }
        if (value.type != RESP_ERROR || str_starts(value.text, STR("NOSCRIPT"))) {
            return STORE_OK;
        }
        enum error_kind kind = error_kind_of(value.text);
        if (store->settings->mode != STORE_CLUSTER || kind == ERROR_OTHER ||
            kind == ERROR_NOT_HERE) {
            log_refusal(store, node, value.text);
            if (kind == ERROR_NOT_HERE) {
                store_node_close(node); /* the new primary is found when it connects again */
                store_route_is_old(store);
            }
            return STORE_REFUSED;
        }
        is_asking = kind == ERROR_ASK;
        node = redirected(store, node, value.text, kind == ERROR_MOVED);
    }
    store_route_is_old(store);
    return count_failure(store, STORE_GONE);
}

enum store_result store_ask(const struct store_call *call, struct str key, const struct str *words,
                            size_t count, struct str *reply)
{
    struct store_asked asked = {.key = key, .words = {words, count}};

    store_ask_all(call, &asked, 1);
    *reply = asked.reply;
    return asked.result;
}

void store_ask_all(const struct store_call *call, struct store_asked *asked, size_t count)
{
    struct store_call own = *call;

    own.deadline_ms = deadline_of(call);
    for (size_t i = 0; i < count; i++) {
        asked[i].bytes = resp_command(call->arena, asked[i].words.items, asked[i].words.count);
        asked[i].node =
            store_is_usable(call->store) ? store_route(call->store, asked[i].key) : NULL;
        asked[i].request = asked[i].node == NULL
                               ? NULL
                               : store_node_send(asked[i].node, asked[i].bytes, false, call->arena);
    }
    for (size_t i = 0; i < count; i++) {
        asked[i].result =
            store_is_usable(call->store) || asked[i].request != NULL
                ? follow(&own, asked[i].node, asked[i].bytes, asked[i].request, &asked[i].reply)
                : count_failure(call->store, STORE_GONE);
    }
}
