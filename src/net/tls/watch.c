/* ssl_certificate_watch: loads changed files of a context without a reload. */
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <stdlib.h>
#include <sys/stat.h>

#include "base/clock.h"
#include "base/fatal.h"
#include "event/loop.h"
#include "net/tls/private.h"

#define LOOK_EVERY_MS 1000

/* A file and its stat when last looked at. */
struct watched_file {
    const char *path;
    struct stat stat;
};

/* Memory for what the thread allocates: it cannot get more, since arenas belong to the loop. */
#define LOADING_SIZE (128 * 1024)

/* The files of one context. On the heap. */
struct tls_watch {
    struct tls_context *context;
    struct vec files; /* struct watched_file */
    /* Something changed at the last look: it is loaded when the next look finds no further
     * change. */
    bool is_unsettled;
    bool is_loading;  /* the thread has the job */
    bool is_orphaned; /* its context was freed */
    struct thread_job job;
    struct arena arena;        /* for what is being loaded */
    struct arena current;      /* for what has been in use since a change */
    struct tls_context loaded; /* result of the thread; ctx NULL: see error */
    struct str error;
};

static struct timer timer;
static struct thread_pool *pool; /* created when there is something to load */
static unsigned users;           /* generations that this worker serves */
static const struct log *watch_log;

static bool look_at_file(struct watched_file *file)
{
    struct stat st;

    if (stat(file->path, &st) == -1) {
        return false; /* it may be about to be replaced */
    }
    bool is_changed = st.st_ino != file->stat.st_ino || st.st_size != file->stat.st_size ||
                      st.st_mtim.tv_sec != file->stat.st_mtim.tv_sec ||
                      st.st_mtim.tv_nsec != file->stat.st_mtim.tv_nsec;
    file->stat = st;
    return is_changed;
}

static void add_file(struct tls_watch *watch, struct str name)
{
    struct arena *arena = watch->context->arena;

    if (name.len == 0 || name.data[0] != '/') {
        return; /* data, or a key that is not in a file */
    }
    struct watched_file *file = vec_add(&watch->files, arena, struct watched_file);
    file->path = arena_cstr(arena, name);
    look_at_file(file);
}

void tls_watch_init(struct tls_context *context)
{
    const struct tls_settings *settings = &context->settings;
    struct tls_watch *watch = calloc(1, sizeof(*watch));

    if (watch == NULL) {
        fatal_no_memory(sizeof(*watch));
    }
    arena_init(&watch->arena);
    arena_init(&watch->current);
    watch->context = context;
    context->watch = watch;
    vec_each(struct tls_certificate, pair, &settings->certificates) {
        add_file(watch, pair->certificate);
        add_file(watch, pair->key);
    }
    add_file(watch, settings->client_certificate);
    add_file(watch, settings->trusted_certificate);
    add_file(watch, settings->crl);
    add_file(watch, settings->dhparam);
    add_file(watch, settings->stapling_file);
    vec_each(struct str, file, &settings->ticket_keys) {
        add_file(watch, *file);
    }
    vec_each(struct str, file, &settings->ech_files) {
        add_file(watch, *file);
    }
}

/* Runs on a thread; does not change the context. */
static void load_files(struct thread_job *job)
{
    struct tls_watch *watch = container_of(job, struct tls_watch, job);
    struct tls_context *loaded = &watch->loaded;

    *loaded = (struct tls_context){.magic = TLS_CONTEXT_MAGIC,
                                   .settings = watch->context->settings,
                                   .arena = &watch->arena};
    struct tls_making making = {.arena = &watch->arena,
                                .identities = &loaded->identities,
                                .error = &watch->error};
    loaded->ctx = tls_ctx_new(loaded, &making);
}

static void take_up(struct tls_watch *watch)
{
    struct tls_context *context = watch->context;
    struct tls_context *loaded = &watch->loaded;
    SSL_CTX *old = context->ctx;
    struct str error = STR_NONE;
    const struct tls_making made = {.ctx = loaded->ctx,
                                    .arena = &watch->arena,
                                    .identities = &loaded->identities,
                                    .error = &error};

    if (!tls_staples_init(context, &made, watch_log)) {
        log_error(watch_log, 0, "%.*s", STR_ARG(error));
    }
    SSL_CTX_set_ex_data(loaded->ctx, tls_context_index, context);
    tls_identities_free(&context->identities);
    context->ctx = loaded->ctx;
    context->identities = loaded->identities;
    context->ticket_keys = loaded->ticket_keys;
    context->ticket_key_count = loaded->ticket_key_count;
    loaded->ctx = NULL;
    tls_ctx_let_go(old); /* connections have their own references */
    arena_free(&watch->current);
    watch->current = watch->arena;
    arena_init(&watch->arena);
    if (context->settings.certificates.count != 0) {
        const struct tls_certificate *first =
            vec_at(&context->settings.certificates, struct tls_certificate, 0);
        log_notice(watch_log, 0, "certificate \"%.*s\" changed, reloaded",
                   STR_ARG(first->certificate));
    }
}

static void destroy(struct tls_watch *watch)
{
    SSL_CTX_free(watch->loaded.ctx);
    tls_identities_free(&watch->loaded.identities);
    arena_free(&watch->arena);
    arena_free(&watch->current);
    free(watch);
}

static void loaded(struct thread_job *job)
{
    struct tls_watch *watch = container_of(job, struct tls_watch, job);

    watch->is_loading = false;
    if (watch->is_orphaned) {
        destroy(watch);
        return;
    }
    if (watch->loaded.ctx != NULL) {
        take_up(watch);
        return;
    }
    log_error(watch_log, 0, "%.*s, the previous certificates are kept", STR_ARG(watch->error));
    tls_identities_free(&watch->loaded.identities);
    arena_free(&watch->arena);
}

/* Everything that the thread allocates comes from one block. */
static void notes_make_room(struct arena *arena)
{
    char *buffer = arena_alloc(arena, LOADING_SIZE);

    arena->next = buffer;
    arena->end = buffer + LOADING_SIZE;
}

void tls_watch_free(struct tls_watch *watch)
{
    if (watch->is_loading) {
        watch->is_orphaned = true;
        thread_pool_free(pool); /* waits for the thread, which uses what is about to be freed */
        pool = NULL;
        if (users != 0) {
            return; /* the loop calls `loaded` when it is done */
        }
    }
    destroy(watch);
}

static void look_at_all(struct tls_watch *watch)
{
    bool is_changed = false;

    if (watch->is_loading) {
        return;
    }
    vec_each(struct watched_file, file, &watch->files) {
        is_changed |= look_at_file(file);
    }
    if (is_changed) {
        watch->is_unsettled = true; /* the process that writes the files may not be done */
    } else if (watch->is_unsettled) {
        watch->is_unsettled = false;
        if (pool == NULL) {
            pool = thread_pool_new(STR("tls"), 1, 1024);
        }
        notes_make_room(&watch->arena);
        watch->job.work = load_files;
        watch->job.done = loaded;
        watch->is_loading = thread_pool_submit(pool, &watch->job);
        if (!watch->is_loading) {
            watch->is_unsettled = true;
            arena_free(&watch->arena);
        }
    }
}

static void tick(struct timer *fired)
{
    for (struct tls_context *context = tls_contexts; context != NULL; context = context->next) {
        if (context->watch != NULL) {
            look_at_all(context->watch);
        }
    }
    timer_set(fired, clock_now.now_ms + LOOK_EVERY_MS);
}

void tls_watch_start(const struct log *log)
{
    bool is_wanted = false;

    watch_log = log;
    if (users++ == 0) {
        timer_init(&timer, tick);
    }
    for (struct tls_context *context = tls_contexts; context != NULL; context = context->next) {
        is_wanted |= context->watch != NULL;
    }
    if (is_wanted) {
        timer_set(&timer, clock_now.now_ms + LOOK_EVERY_MS);
    }
}

void tls_watch_end(void)
{
    if (users != 0 && --users == 0) {
        timer_remove(&timer);
        thread_pool_free(pool);
        pool = NULL;
    }
}
