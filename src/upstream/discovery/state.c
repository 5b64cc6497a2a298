/* The state file of a block: the last addresses of its services as JSON, written by a thread at
 * each change. */
#include <errno.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include "base/fs.h"
#include "upstream/discovery/parse.h"

/* A state file that a thread writes. */
struct discovery_saving {
    struct thread_job job;
    struct thread_pool *pool;
    struct discovery *discovery; /* NULL: the worker has ended */
    const char *file;
    struct buf temporary;
    struct buf text;
    int error;
    _Atomic bool is_written;
};

/* ---- the text ---- */

/* {"services":{"consul:web":[["10.0.0.1:80",1],…],…}} */
void discovery_state_put(struct buf *out, struct discovery *discovery)
{
    struct json json = {.out = out};
    struct arena arena;

    arena_init(&arena);
    json_open(&json, STR_NONE, '{');
    json_open(&json, STR("services"), '{');
    for (struct discovery_service *service = discovery->services; service != NULL;
         service = service->next) {
        struct resolved found;

        if (discovery_read(service, &arena, &found) == 0) {
            continue;
        }
        json_open(&json, service->written, '[');
        for (unsigned i = 0; i < found.count; i++) {
            char text[ADDR_TEXT_MAX];
            size_t length = addr_format(&found.items[i].addr, true, text);

            json_open(&json, STR_NONE, '[');
            json_put_string(&json, "", (struct str){text, length});
            json_put_number(&json, "", found.items[i].weight);
            json_close(&json, ']');
        }
        json_close(&json, ']');
    }
    json_close(&json, '}');
    json_close(&json, '}');
    buf_append_char(out, '\n');
    arena_free(&arena);
}

static bool take_address(struct json_text *text, struct resolved_address *out)
{
    struct str address, host;
    uint64_t weight = 0;
    uint16_t port = 0;

    if (!json_skip(text, '[') || !json_take_string(text, &address) || !json_skip(text, ',') ||
        !json_take_number(text, &weight) || !json_skip(text, ']') ||
        !addr_split_port(address, &host, &port) || port == 0 || !addr_parse_ip(host, &out->addr)) {
        return false;
    }
    addr_set_port(&out->addr, port);
    out->weight = parse_weight(weight);
    return true;
}

static bool take_list(struct json_text *text, struct vec *out)
{
    bool is_good = true;

    JSON_EACH_ITEM(text, is_good)
    {
        struct resolved_address address = {.weight = 0};

        is_good = take_address(text, &address);
        *vec_add(out, text->arena, struct resolved_address) = address;
    }
    return is_good;
}

static struct discovery_service *find(const struct discovery *discovery, struct str written)
{
    struct discovery_service *service = discovery->services;

    while (service != NULL && !str_equal(service->written, written)) {
        service = service->next;
    }
    return service;
}

static bool take_services(struct json_text *text, const struct discovery *discovery)
{
    bool is_good = true;
    struct str name;

    JSON_EACH_MEMBER(text, name, is_good)
    {
        struct discovery_service *service = find(discovery, name);
        struct vec list = {0};

        is_good = take_list(text, &list);
        if (is_good && service != NULL && discovery_version(service) == 0 &&
            list.count <= discovery_most(service)) {
            discovery_publish(service, &list, 0);
        }
    }
    return is_good;
}

bool discovery_state_take(struct discovery *discovery, struct str text)
{
    struct arena arena;
    bool is_good = true;
    struct str name;

    arena_init(&arena);
    struct json_text json = {text.data, text.data + text.len, &arena};
    JSON_EACH_MEMBER(&json, name, is_good)
    {
        is_good =
            str_is(name, "services") ? take_services(&json, discovery) : json_skip_value(&json);
    }
    is_good = is_good && json_is_over(&json);
    arena_free(&arena);
    return is_good;
}

void discovery_state_read(struct conf *conf, struct discovery *discovery)
{
    const char *file = discovery->settings->state_file.data;
    struct arena arena;
    struct str text;

    arena_init(&arena);
    if (!fs_read_all(&arena, file, DISCOVERY_STATE_MAX, &text)) {
        if (errno != ENOENT) {
            conf_warn(conf, discovery->node, "cannot read \"%s\" (%s)", file, strerror(errno));
        }
    } else if (!discovery_state_take(discovery, text)) {
        conf_warn(conf, discovery->node, "\"%s\" is not a state file of a discovery; it is ignored",
                  file);
    }
    arena_free(&arena);
}

/* ---- writing ---- */

static void save_on_thread(struct thread_job *job)
{
    struct discovery_saving *saving = container_of(job, struct discovery_saving, job);

    saving->error = fs_replace(saving->file, saving->temporary.data, buf_str(&saving->text));
    saving->is_written = true;
}

static void saving_free(struct discovery_saving *saving)
{
    buf_free(&saving->text);
    buf_free(&saving->temporary);
    free(saving);
}

static void save_done(struct thread_job *job)
{
    struct discovery_saving *saving = container_of(job, struct discovery_saving, job);
    struct discovery *discovery = saving->discovery;

    if (discovery != NULL) {
        if (saving->error != 0) {
            log_error(log_main, saving->error,
                      "cannot write \"%s\", the state of discovery \"%.*s\"", saving->file,
                      STR_ARG(discovery->name));
        }
        discovery->saving = NULL;
        if (discovery->saves_again) {
            discovery_state_save(discovery);
        }
    }
    saving_free(saving);
}

void discovery_state_save(struct discovery *discovery)
{
    if (discovery->settings->state_file.len == 0) {
        return;
    }
    discovery->saves_again = discovery->saving != NULL;
    if (discovery->saving != NULL) {
        return;
    }
    struct discovery_saving *saving = calloc(1, sizeof(*saving));
    struct thread_pool *pool = worker_own_thread_pool(STR("discovery state"), 1, 64);
    if (saving == NULL || pool == NULL) {
        free(saving);
        log_error(log_main, 0, "no memory to write the state of discovery \"%.*s\"",
                  STR_ARG(discovery->name));
        return;
    }
    saving->job = (struct thread_job){.work = save_on_thread, .done = save_done};
    saving->pool = pool;
    saving->discovery = discovery;
    saving->file = discovery->settings->state_file.data;
    buf_printf(&saving->temporary, "%s.%d.new", saving->file, (int) getpid());
    buf_append_char(&saving->temporary, '\0');
    discovery_state_put(&saving->text, discovery);
    if (!thread_pool_submit(pool, &saving->job)) {
        saving_free(saving);
        return;
    }
    discovery->saving = saving;
}

void discovery_state_end(struct discovery *discovery)
{
    struct discovery_saving *saving = discovery->saving;

    if (saving == NULL) {
        return;
    }
    discovery->saving = NULL;
    saving->discovery = NULL;
    if (thread_pool_withdraw(saving->pool, &saving->job)) {
        save_on_thread(&saving->job);
        saving_free(saving);
        return;
    }
    while (!saving->is_written) {
        nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
    }
}
