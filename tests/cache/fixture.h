/* A cache as a worker has it, without http: a configuration is read, a loop and fibers run, and
 * requests are accesses. */
#ifndef TESTS_CACHE_FIXTURE_H
#define TESTS_CACHE_FIXTURE_H

#include "base/unit.h"

#include <dirent.h>
#include <fcntl.h>
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/memory_log.h"
#include "base/clock.h"
#include "cache/internal.h"
#include "event/loop.h"
#include "fiber/fiber.h"
#include "server/configuration/generation_life.h"
#include "server/process/cells.h"
#include "server/process/server.h"

static struct generation *generation; /* what was read, or NULL */
static struct cache *cache;           /* "one" of it */
static char directory[] = "/tmp/portunus-cache-XXXXXX";
static char conf_path[sizeof(directory) + 16];
static struct arena request_arena; /* of all accesses of a test */

/* ---- the log ---- */

static inline void assert_quiet(void)
{
    static const char *const levels[] = {"[alert]", "[crit]", "[error]", "[emerg]"};

    for (size_t i = 0; i < COUNT(levels); i++) {
        if (was_logged(levels[i])) {
            fail_msg("logged: %.*s", STR_ARG(buf_str(&messages)));
        }
    }
}

/* ---- files ---- */

static inline int remove_one(const char *path, const struct stat *info, int kind, struct FTW *where)
{
    return remove(path);
}

static inline void remove_tree(const char *path)
{
    nftw(path, remove_one, 16, FTW_DEPTH | FTW_PHYS);
}

static unsigned files_counted;

static inline int count_one(const char *path, const struct stat *info, int kind, struct FTW *where)
{
    const char *name = path + where->base;

    files_counted += kind == FTW_F && name[0] != '.';
    return 0;
}

/* Files below the cache's directory, the hidden ones left out. */
static inline unsigned count_files(void)
{
    char path[sizeof(directory) + 8];

    snprintf(path, sizeof(path), "%s/one", directory);
    files_counted = 0;
    nftw(path, count_one, 16, FTW_PHYS);
    return files_counted;
}

/* ---- configurations ---- */

/* Reads what stands in http { }; the generation before it, if any, hands its zones down. */
static inline struct generation *read_conf(struct generation *old, const char *text)
{
    FILE *file = fopen(conf_path, "w");

    assert_non_null(file);
    fprintf(file, "events {} http {\n%s\n}\n", text);
    fclose(file);
    return generation_read(old, true, false);
}

/* The loop is there, modules are not started: accesses work, nobody keeps the cache. */
static inline void begin(const char *parameters)
{
    char text[512];
    const struct loop_options options = {.log = &memory_log};

    messages.len = 0;
    clock_update();
    snprintf(text, sizeof(text), "proxy_cache_path one keys_zone=one:1m %s;", parameters);
    generation = read_conf(NULL, text);
    if (generation == NULL) {
        fail_msg("not taken: %.*s", STR_ARG(buf_str(&messages)));
    }
    assert_true(generation_make_paths(generation));
    cache = cache_find(generation, STR("one"));
    assert_non_null(cache);
    assert_true(loop_init(&options));
    assert_true(loop_host_fibers(64, 0));
    generation_now = generation;
    worker_slot = 0;
    worker_is_replaced = false;
}

/* The worker ends: what it kept is let go, the index file is written when it was the manager. */
static inline void end(void)
{
    struct fiber_pool_stats fibers;

    if (generation == NULL) {
        return;
    }
    cache_worker_quit(generation);
    for (fiber_pool_stats(&fibers); fibers.in_use != 0; fiber_pool_stats(&fibers)) {
        loop_turn(10);
    }
    arena_free(&request_arena);
    cache_worker_end(generation);
    loop_destroy();
    fiber_pool_destroy();
    generation_free(generation);
    generation = NULL;
    generation_now = NULL;
    cache = NULL;
}

/* Turns the loop until something is true; it must become so. */
#define turn_until(condition)                                                                      \
    do {                                                                                           \
        uint64_t until_ = cache_now_ms() + 20000;                                                  \
        while (!(condition)) {                                                                     \
            if (cache_now_ms() > until_) {                                                         \
                fail_msg("never: %s", #condition);                                                 \
            }                                                                                      \
            loop_turn(10);                                                                         \
        }                                                                                          \
    } while (0)

/* ---- requests ---- */

static inline void access_begin(struct cache_access *access, const char *key)
{
    *access = (struct cache_access){
        .cache = cache,
        .arena = &request_arena,
        .log = &memory_log,
        .key = str_of(key),
        .min_uses = 1,
    };
}

static inline enum cache_found open_key(struct cache_access *access, const char *key)
{
    access_begin(access, key);
    return cache_open(access);
}

static inline struct cache_meta meta_for(int64_t seconds)
{
    return (struct cache_meta){
        .valid_until = clock_now.seconds + seconds,
        .date = clock_now.seconds,
        .last_modified = 784111777,
        .etag = STR("\"e\""),
        .status = 200,
        .head = STR("Content-Type: text/plain"),
    };
}

static inline void fill_with(struct cache_access *access, struct str body,
                             const struct cache_meta *meta)
{
    assert_true(cache_fill_begin(access, NULL));
    assert_true(cache_fill_write(access, body));
    assert_true(cache_fill_commit(access, meta));
}

/* Stores a body under a key, as a request does that found nothing. */
static inline void store(const char *key, const char *body, int64_t seconds)
{
    struct cache_access access;
    struct cache_meta meta = meta_for(seconds);

    open_key(&access, key);
    fill_with(&access, str_of(body), &meta);
    cache_close(&access);
}

/* The stored body, read from wherever it is. */
static inline struct str body_of(const struct cache_access *access)
{
    struct cache_body body;

    cache_body_of(access, &body);
    if (body.bytes.data != NULL) {
        assert_int_equal(body.bytes.len, body.size);
        return body.bytes;
    }
    char *bytes = arena_text(&request_arena, body.size + 1);
    assert_int_equal(pread(body.fd, bytes, body.size, (off_t) body.offset), body.size);
    return (struct str){bytes, body.size};
}

/* What a request for the key finds. */
static inline enum cache_found look(const char *key)
{
    struct cache_access access;
    enum cache_found found = open_key(&access, key);

    cache_close(&access);
    return found;
}

static inline void assert_stored(const char *key, const char *body)
{
    struct cache_access access;

    assert_int_equal(open_key(&access, key), CACHE_FRESH);
    assert_str(body_of(&access), str_of(body));
    cache_close(&access);
}

/* As another worker sees it: nothing is kept. */
static inline void forget_kept(void)
{
    cache_kept_drop_all(NULL);
}

/* The file of a key. */
static inline const char *file_of(const char *key)
{
    static char name[CACHE_NAME_MAX];
    uint8_t hash[CACHE_KEY_SIZE];

    md5_of(str_of(key), hash);
    cache_file_name(cache, hash, name);
    return name;
}

/* ---- the frame ---- */

static int set_up_group(void **state)
{
    clock_update();
    log_main = &memory_log;
    log_is_starting = false;
    assert_true(cells_init());
    counters_mine = cell_counters(cell_take());
    assert_non_null(mkdtemp(directory));
    snprintf(conf_path, sizeof(conf_path), "%s/t.conf", directory);
    server.file_name = str_of(conf_path);
    server.prefix = arena_printf(&server.arena, "%s/", directory);
    server.cpu_count = 1;
    return 0;
}

static int tear_down_group(void **state)
{
    remove_tree(directory);
    buf_free(&messages);
    arena_free(&server.arena);
    return 0;
}

static int tear_down(void **state)
{
    char path[sizeof(directory) + 8];

    end();
    snprintf(path, sizeof(path), "%s/one", directory);
    remove_tree(path);
    return 0;
}

#define cache_test(function) cmocka_unit_test_teardown(function, tear_down)

#define cache_tests_run(name, tests)                                                               \
    cmocka_run_group_tests_name(name, tests, set_up_group, tear_down_group)

#endif
