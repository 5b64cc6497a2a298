/* The blocks and services of a reading; how workers are informed of changes. */
#include <errno.h>

#include "upstream/discovery/private.h"

/* ---- names ---- */

static const struct str prefixes[DISCOVERY_TYPES] = {
    [DISCOVERY_CONSUL] = STR_INIT("consul:"),
    [DISCOVERY_ETCD] = STR_INIT("etcd:"),
    [DISCOVERY_KUBERNETES] = STR_INIT("kubernetes:"),
};

/* Only digits after the colon: a port. */
static bool is_port(struct str text)
{
    for (size_t i = 0; i < text.len; i++) {
        if (!ascii_is_digit((unsigned char) text.data[i])) {
            return false;
        }
    }
    return true;
}

static enum discovery_type type_of(struct str written)
{
    for (unsigned i = DISCOVERY_CONSUL; i < DISCOVERY_TYPES; i++) {
        if (str_starts(written, prefixes[i]) && !is_port(str_skip(written, prefixes[i].len))) {
            return i;
        }
    }
    return DISCOVERY_NO_TYPE;
}

bool discovery_is_name(struct str written)
{
    return type_of(written) != DISCOVERY_NO_TYPE;
}

/* NAMESPACE/SERVICE[:PORT] */
static bool is_kubernetes_name(struct str name)
{
    struct str rest = name;
    struct str namespace = str_cut(&rest, '/');
    struct str service = str_cut(&rest, ':');

    return namespace.len != 0 && service.len != 0 && str_find_char(name, '/') != NULL &&
           (str_find_char(name, ':') == NULL || rest.len != 0) &&
           str_find_char(service, '/') == NULL && str_find_char(rest, '/') == NULL;
}

/* ---- blocks ---- */

struct discovery **discoveries_of(struct conf *conf)
{
    return conf_state(conf, "discoveries", sizeof(struct discovery *));
}

const struct discovery *discovery_first(struct conf *conf)
{
    return *discoveries_of(conf);
}

const struct discovery *discovery_after(const struct discovery *discovery)
{
    return discovery->next;
}

struct str discovery_name(const struct discovery *discovery)
{
    return discovery->name;
}

const struct discovery_counts *discovery_counts_of(const struct discovery *discovery)
{
    return &discovery->shared->counts;
}

bool discovery_is_failing(const struct discovery_service *service)
{
    return atomic_load_explicit(&service->record->is_failing, memory_order_relaxed) != 0;
}

unsigned discovery_failing(const struct discovery *discovery)
{
    unsigned count = 0;

    for (const struct discovery_service *service = discovery->services; service != NULL;
         service = service->next) {
        count += discovery_is_failing(service);
    }
    return count;
}

struct discovery *discovery_find(struct conf *conf, struct str name)
{
    struct discovery *discovery = *discoveries_of(conf);

    while (discovery != NULL && !str_equal(discovery->name, name)) {
        discovery = discovery->next;
    }
    return discovery;
}

/* ---- services ---- */

struct discovery_service **discovery_services_of(struct conf *conf)
{
    return conf_state(conf, "discovered services", sizeof(struct discovery_service *));
}

struct discovery_service *discovery_use(struct conf *conf, const struct conf_node *node,
                                        struct str written, struct str discovery)
{
    struct discovery_service **place = discovery_services_of(conf);
    enum discovery_type type = type_of(written);
    struct str name = str_skip(written, prefixes[type].len);

    if (conf->is_later) {
        conf_error(conf, node, "\"%.*s\" can only be in the configuration files", STR_ARG(written));
        return NULL;
    }
    if (name.len > DISCOVERY_NAME_MAX ||
        (type == DISCOVERY_KUBERNETES && !is_kubernetes_name(name))) {
        conf_error(conf, node, "invalid name of a service in upstream \"%.*s\"", STR_ARG(written));
        return NULL;
    }
    while (*place != NULL &&
           !(str_equal((*place)->written, written) && str_equal((*place)->wanted, discovery))) {
        place = &(*place)->mentioned;
    }
    if (*place == NULL) {
        struct discovery_service *service = arena_new(conf->arena, struct discovery_service);

        service->node = node;
        service->written = written;
        service->name = name;
        service->type = type;
        service->wanted = discovery;
        list_init(&service->listeners);
        *place = service;
    }
    return *place;
}

/* The block that a service belongs to. */
static struct discovery *block_of(struct conf *conf, const struct discovery_service *service)
{
    struct discovery *found = NULL;

    if (service->wanted.len != 0) {
        found = discovery_find(conf, service->wanted);
        if (found == NULL || found->settings->type != service->type) {
            conf_error(conf, service->node, "no discovery \"%.*s\" for \"%.*s\"",
                       STR_ARG(service->wanted), STR_ARG(service->written));
            return NULL;
        }
        return found;
    }
    for (struct discovery *block = *discoveries_of(conf); block != NULL; block = block->next) {
        if (block->settings->type != service->type) {
            continue;
        }
        if (found != NULL) {
            conf_error(conf, service->node,
                       "several discoveries for \"%.*s\": name one with \"discovery=\"",
                       STR_ARG(service->written));
            return NULL;
        }
        found = block;
    }
    if (found == NULL) {
        conf_error(conf, service->node, "no discovery of type %.*s for \"%.*s\"",
                   (int) prefixes[service->type].len - 1, prefixes[service->type].data,
                   STR_ARG(service->written));
    }
    return found;
}

bool discovery_bind(struct conf *conf)
{
    bool is_good = true;

    for (struct discovery_service *service = *discovery_services_of(conf); service != NULL;
         service = service->mentioned) {
        struct discovery *block = block_of(conf, service);

        if (block == NULL) {
            is_good = false;
            continue;
        }
        service->discovery = block;
        service->record = discovery_record_of(block, service->written);
        if (service->record == NULL) {
            is_good = conf_error(conf, service->node, "no room in the zone of discovery \"%.*s\"",
                                 STR_ARG(block->name));
            continue;
        }
        service->next = block->services;
        block->services = service;
    }
    return is_good;
}

unsigned discovery_most(const struct discovery_service *service)
{
    return (unsigned) service->discovery->settings->endpoints_max;
}

/* ---- in a worker ---- */

void discovery_listen(struct discovery_service *service, struct discovery_listener *listener)
{
    list_push_back(&service->listeners, &listener->node);
}

static void look(struct discovery_service *service)
{
    uint64_t version = discovery_version(service);
    bool is_failing = discovery_is_failing(service);

    if (version == service->seen && is_failing == service->seen_failing) {
        return;
    }
    service->seen = version;
    service->seen_failing = is_failing;
    list_each(item, &service->listeners) {
        struct discovery_listener *listener = container_of(item, struct discovery_listener, node);

        listener->changed(listener);
    }
}

/* The eventfd was written. It is never read: it is watched edge-triggered, so each write is an
 * event in all workers. */
static void bell_rang(struct event_source *source, unsigned events)
{
    const struct discovery *discovery = container_of(source, struct discovery, bell_source);

    for (struct discovery_service *service = discovery->services; service != NULL;
         service = service->next) {
        look(service);
    }
}

bool discovery_worker_start(struct discovery *discovery)
{
    discovery->is_running = true;
    event_source_init(&discovery->bell_source, discovery->bell, bell_rang);
    bool watches = worker_slot == 0 && worker_role == WORKER_SERVES;
    if (watches) {
        discovery_forget_unused(discovery, generation_now->number);
    }
    if (discovery->services == NULL) {
        return true;
    }
    if (!event_add_input(&discovery->bell_source)) {
        log_alert(log_main, errno, "epoll_ctl() failed");
        return false;
    }
    for (struct discovery_service *service = discovery->services; service != NULL;
         service = service->next) {
        if (watches && !discovery_watch_start(service)) {
            log_alert(log_main, ENOMEM, "%.*s is not watched", STR_ARG(service->written));
            return false;
        }
    }
    return true;
}

void discovery_worker_quit(struct discovery *discovery)
{
    for (struct discovery_service *service = discovery->services; service != NULL;
         service = service->next) {
        discovery_watch_quit(service);
    }
}

void discovery_worker_end(struct discovery *discovery)
{
    if (!discovery->is_running) {
        return;
    }
    discovery_worker_quit(discovery);
    for (struct discovery_service *service = discovery->services; service != NULL;
         service = service->next) {
        discovery_watch_free(service);
    }
    discovery_state_end(discovery);
    discovery->is_running = false;
}
