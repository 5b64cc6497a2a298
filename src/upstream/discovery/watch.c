/* Worker 0 watches each service on a fiber: rounds of its engine, pauses after failures, publishing
 * of results. */
#include <errno.h>
#include <stdlib.h>

#include "base/checksum.h"
#include "base/clock.h"
#include "base/fatal.h"
#include "base/fs.h"
#include "upstream/discovery/private.h"

enum {
    RETRY_FIRST_MS = 100, /* after the first failure; doubled with each further one */
    RETRY_MOST_MS = 10000,
    SHOWN = 200, /* bytes of an engine's message that are logged */
};

static const struct discovery_engine *const engines[DISCOVERY_TYPES] = {
    [DISCOVERY_CONSUL] = &discovery_consul,
    [DISCOVERY_ETCD] = &discovery_etcd,
    [DISCOVERY_KUBERNETES] = &discovery_kubernetes,
};

/* ---- helpers of rounds ---- */

uint64_t discovery_due(const struct discovery_watch *watch)
{
    return clock_now.now_ms + watch->service->discovery->settings->read_timeout_ms;
}

/* Removes spaces and line ends at both ends. */
static struct str trimmed(struct str text)
{
    while (text.len != 0 && (unsigned char) text.data[text.len - 1] <= ' ') {
        text.len--;
    }
    while (text.len != 0 && (unsigned char) text.data[0] <= ' ') {
        text = str_skip(text, 1);
    }
    return text;
}

/* A message of the engine, shortened for the log. */
static struct str shown(struct str text)
{
    return str_head(trimmed(text), SHOWN);
}

const char *discovery_bad_status(struct discovery_watch *watch)
{
    struct discovery_link *link = &watch->link;
    unsigned status = link->status;

    discovery_whole(link, discovery_due(watch));
    const char *text =
        arena_printf(&watch->arena, "answered with status %u%s%.*s", status,
                     link->body.len == 0 ? "" : ": ", STR_ARG(shown(buf_str(&link->body))))
            .data;
    discovery_close(link);
    return text;
}

const char *discovery_refuse(struct discovery_watch *watch, const char *what)
{
    discovery_count(watch->service->discovery, DISCOVERY_REJECTED);
    return arena_printf(&watch->arena, "sent an answer that %s", what).data;
}

const char *discovery_secret(struct discovery_watch *watch, struct str file, struct str *out)
{
    if (file.len == 0) {
        return NULL;
    }
    if (!fs_read_all(&watch->arena, file.data, DISCOVERY_TOKEN_MAX, out)) {
        return arena_printf(&watch->arena, "is not asked: cannot read \"%s\" (%s)", file.data,
                            strerror(errno))
            .data;
    }
    *out = trimmed(*out);
    for (size_t i = 0; i < out->len; i++) {
        if ((unsigned char) out->data[i] < ' ') {
            return arena_printf(&watch->arena, "is not asked: \"%s\" has more than a line",
                                file.data)
                .data;
        }
    }
    return NULL;
}

/* ---- results ---- */

void discovery_works(struct discovery_watch *watch)
{
    struct discovery_service *service = watch->service;

    if (watch->worked_ms == 0) {
        watch->worked_ms = clock_now.now_ms;
    }
    if (watch->is_failing) {
        watch->is_failing = false;
        atomic_store(&service->record->is_failing, 0);
        log_notice(log_main, 0, "discovery \"%.*s\": %.*s is watched again",
                   STR_ARG(service->discovery->name), STR_ARG(service->written));
    }
}

void discovery_tell(struct discovery_watch *watch, struct vec *endpoints)
{
    struct discovery_service *service = watch->service;
    struct discovery *discovery = service->discovery;

    discovery_works(watch);
    switch (discovery_publish(service, endpoints, generation_now->number)) {
    case DISCOVERY_SAME:
        watch->has_no_room = false;
        break;
    case DISCOVERY_CHANGED:
        watch->has_no_room = false;
        discovery_count(discovery, DISCOVERY_CHANGES);
        log_info(log_main, 0, "discovery \"%.*s\": %.*s has %zu addresses",
                 STR_ARG(discovery->name), STR_ARG(service->written), endpoints->count);
        discovery_ring(discovery);
        discovery_state_save(discovery);
        break;
    case DISCOVERY_NO_ROOM:
        discovery_count(discovery, DISCOVERY_REJECTED);
        if (!watch->has_no_room) {
            watch->has_no_room = true;
            log_error(log_main, 0,
                      "discovery \"%.*s\": no room in its zone for %zu addresses of %.*s; a larger "
                      "zone_size helps",
                      STR_ARG(discovery->name), endpoints->count, STR_ARG(service->written));
        }
        break;
    }
}

void discovery_follow(struct discovery_watch *watch)
{
    struct arena scratch;

    arena_init(&scratch);
    struct vec endpoints = discovery_items_list(&watch->items, &scratch);
    discovery_tell(watch, &endpoints);
    arena_free(&scratch);
    fiber_sleep(clock_now.now_ms + DISCOVERY_PAUSE_MS);
}

/* ---- rounds ---- */

/* The time of the next attempt, after another round that failed. */
static uint64_t next_attempt(struct discovery_watch *watch)
{
    uint64_t pause_ms = RETRY_FIRST_MS;

    for (unsigned i = 0; i < watch->failures && pause_ms < RETRY_MOST_MS; i++) {
        pause_ms *= 2;
    }
    pause_ms = pause_ms < RETRY_MOST_MS ? pause_ms : RETRY_MOST_MS;
    watch->failures++;
    return clock_now.now_ms + pause_ms - random_uint32() % (unsigned) (pause_ms / 4);
}

/* Logs the first failure, and gives the time of the next round, which uses the next server. */
static uint64_t note_failure(struct discovery_watch *watch, const char *wrong)
{
    struct discovery *discovery = watch->service->discovery;
    const struct discovery_link *link = &watch->link;

    discovery_count(discovery, DISCOVERY_FAILURES);
    if (!watch->is_failing) {
        watch->is_failing = true;
        atomic_store(&watch->service->record->is_failing, 1);
        discovery_ring(discovery);
        log_error(log_main, 0,
                  "discovery \"%.*s\": %.*s %s; the addresses of %.*s stay as they are",
                  STR_ARG(discovery->name),
                  STR_ARG(link->server == NULL ? discovery->name : link->server->authority), wrong,
                  STR_ARG(watch->service->written));
    }
    watch->link.turn++;
    watch->index = 0;
    return next_attempt(watch);
}

/* Has the engine worked for long? A successful list is not sufficient, since the watch after it may
 * end at once each time. */
static bool has_worked_long(const struct discovery_watch *watch)
{
    return watch->worked_ms != 0 && clock_now.now_ms - watch->worked_ms > RETRY_MOST_MS;
}

static void watch_run(void *arg)
{
    struct discovery_watch *watch = arg;
    const struct discovery_settings *settings = watch->service->discovery->settings;

    watch->fiber = fiber_self();
    while (!fiber_is_cancelled()) {
        uint64_t again_ms = clock_now.now_ms + DISCOVERY_PAUSE_MS;

        arena_init(&watch->arena);
        watch->has_expired = false;
        watch->worked_ms = 0;
        const char *wrong = engines[settings->type]->round(watch);
        if ((wrong == NULL && !watch->has_expired) || has_worked_long(watch)) {
            watch->failures = 0;
        }
        if (watch->has_expired) {
            again_ms = next_attempt(watch);
        }
        if (wrong != NULL && !fiber_is_cancelled()) {
            again_ms = note_failure(watch, wrong);
        }
        if (wrong != NULL) {
            discovery_close(&watch->link);
        }
        arena_free(&watch->arena);
        if (fiber_sleep(again_ms) == WAIT_CANCELLED) {
            break;
        }
    }
    discovery_close(&watch->link);
    watch->fiber = NULL;
}

bool discovery_watch_start(struct discovery_service *service)
{
    struct discovery_watch *watch = calloc(1, sizeof(*watch));

    if (watch == NULL) {
        fatal_no_memory(sizeof(*watch));
    }
    watch->service = service;
    watch->link.discovery = service->discovery;
    watch->link.log = log_main;
    watch->link.arena = &watch->arena;
    watch->link.turn = random_uint32() % 1024; /* so that nodes begin with different servers */
    watch->items.most = discovery_most(service);
    service->watch = watch;
    /* An earlier worker may have died while it was set. */
    atomic_store(&service->record->is_failing, 0);
    return fiber_start(watch_run, watch, NULL) != FIBER_NO_STACK;
}

void discovery_watch_quit(struct discovery_service *service)
{
    if (service->watch != NULL && service->watch->fiber != NULL) {
        fiber_cancel(service->watch->fiber);
    }
}

void discovery_watch_free(struct discovery_service *service)
{
    struct discovery_watch *watch = service->watch;

    if (watch == NULL || watch->fiber != NULL) {
        return; /* the process ends with it */
    }
    discovery_items_clear(&watch->items);
    buf_free(&watch->link.body);
    free(watch);
    service->watch = NULL;
}
