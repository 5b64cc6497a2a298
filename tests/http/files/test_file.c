/* Tests of opened and kept files: contents, freshness, links, limits. */
#define _GNU_SOURCE
#include "base/unit.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "http/files/file_private.h"
#include "http/request/request.h"
#include "http/routing/file_settings.h"

static char directory[64];
static struct http_location location;
static struct file_settings files;
static struct request request;
static struct generation generation;
static struct http_main http_main;
static struct http_server server;

static const char *full(const char *name)
{
    static char path[4][256];
    static unsigned turn;
    char *at = path[turn++ % 4];

    snprintf(at, sizeof(path[0]), "%s/%s", directory, name);
    return at;
}

static void put_file(const char *name, const char *text)
{
    int fd = open(full(name), O_WRONLY | O_CREAT | O_TRUNC, 0644);

    assert_int_not_equal(fd, -1);
    assert_int_equal(write(fd, text, strlen(text)), (ssize_t) strlen(text));
    close(fd);
}

/* Waits until the file's ctime is old enough for its contents to be kept. */
static void let_settle(const char *name)
{
    struct stat st;
    struct timespec now;

    assert_int_equal(stat(full(name), &st), 0);
    do {
        usleep(1000);
        clock_gettime(CLOCK_REALTIME_COARSE, &now);
    } while ((now.tv_sec - st.st_ctim.tv_sec) * 1000 +
                 (now.tv_nsec - st.st_ctim.tv_nsec) / 1000000 <=
             21);
}

static int set_up(void **state)
{
    strcpy(directory, "/tmp/test_file.XXXXXX");
    if (mkdtemp(directory) == NULL) {
        return -1;
    }
    clock_update();
    arena_init(&generation.arena);
    http_main.generation = &generation;
    server.main = &http_main;
    memset(&location, 0, sizeof(location));
    files = (struct file_settings){.directio = INT64_MAX};
    location.files = &files;
    location.server = &server;
    memset(&request, 0, sizeof(request));
    arena_init(&request.arena);
    request.location = &location;
    request.env.arena = &request.arena;
    return 0;
}

static int tear_down(void **state)
{
    char command[128];

    arena_free(&request.arena);
    arena_free(&generation.arena);
    file_cache_drop();
    snprintf(command, sizeof(command), "rm -rf %s", directory);
    return system(command);
}

static struct file *open_name(const char *name)
{
    return file_open(&request, str_of(full(name)));
}

static void small_file_carries_its_contents(void **state)
{
    put_file("a", "hello");
    struct file *file = open_name("a");

    assert_int_equal(file->error, 0);
    assert_true(file->is_file && !file->is_directory);
    assert_int_equal(file->size, 5);
    assert_text(file->contents, "hello");
    assert_int_equal(file->fd, -1);
    file_release(file);
}

static void failures_name_the_call(void **state)
{
    struct file *file = open_name("none");
    assert_int_equal(file->error, ENOENT);
    assert_string_equal(file->failed, "open");
    file_release(file);

    file = file_stat(&request, str_of(full("none")));
    assert_int_equal(file->error, ENOENT);
    assert_string_equal(file->failed, "stat");
    file_release(file);
}

static void name_with_a_zero_byte_is_no_file(void **state)
{
    put_file("a", "x");
    const char *path = full("a");
    char copy[256] = {0};
    memcpy(copy, path, strlen(path));
    struct str longer = {copy, strlen(path) + 3}; /* "…/a\0\0\0" */
    struct file *file = file_open(&request, longer);

    assert_int_equal(file->error, ENOENT);
    file_release(file);
}

static void directories_and_others_have_no_contents(void **state)
{
    assert_int_equal(mkdir(full("d"), 0755), 0);
    assert_int_equal(mkfifo(full("f"), 0644), 0);
    struct file *file = open_name("d");
    assert_true(file->is_directory && !file->is_file);
    assert_null(file->contents.data);
    file_release(file);

    file = open_name("f");
    assert_int_equal(file->error, 0);
    assert_true(!file->is_directory && !file->is_file);
    file_release(file);
}

static void settled_file_is_read_once(void **state)
{
    put_file("a", "hello");
    let_settle("a");
    struct file *first = open_name("a");
    struct file *second = open_name("a");

    assert_ptr_equal(first, second);
    assert_int_equal(first->references, 3); /* two here, one of the cache */
    file_release(first);
    file_release(second);
}

static void young_file_is_not_kept(void **state)
{
    put_file("a", "hello");
    struct file *first = open_name("a");

    assert_null(first->cache);
    assert_text(first->contents, "hello");
    file_release(first);
}

static void every_change_is_seen(void **state)
{
    put_file("a", "one");
    let_settle("a");
    file_release(open_name("a"));
    for (int i = 0; i < 50; i++) {
        char text[16];
        snprintf(text, sizeof(text), "n%02d", i); /* the same size each time */
        put_file("a", text);
        struct file *file = open_name("a");
        assert_str(file->contents, str_of(text));
        file_release(file);
        if (i % 10 == 0) {
            let_settle("a");
            file_release(open_name("a"));
        }
    }
}

static void change_is_seen_when_mtime_is_set_back(void **state)
{
    struct timespec times[2] = {{1700000000, 0}, {1700000000, 0}};

    put_file("a", "one");
    assert_int_equal(utimensat(AT_FDCWD, full("a"), times, 0), 0);
    let_settle("a");
    file_release(open_name("a"));
    put_file("a", "two");
    assert_int_equal(utimensat(AT_FDCWD, full("a"), times, 0), 0);
    struct file *file = open_name("a");
    assert_text(file->contents, "two");
    file_release(file);
}

static void renamed_and_removed_files_are_noticed(void **state)
{
    put_file("a", "one");
    put_file("b", "two");
    let_settle("b");
    file_release(open_name("a"));
    assert_int_equal(rename(full("b"), full("a")), 0);
    struct file *file = open_name("a");
    assert_text(file->contents, "two");
    file_release(file);
    let_settle("a");
    file_release(open_name("a"));
    assert_int_equal(unlink(full("a")), 0);
    file = open_name("a");
    assert_int_equal(file->error, ENOENT);
    file_release(file);
}

static void contents_in_use_survive_their_replacement(void **state)
{
    put_file("a", "one");
    let_settle("a");
    struct file *old = open_name("a");
    put_file("a", "two");
    let_settle("a");
    struct file *new = open_name("a");

    assert_ptr_not_equal(old, new);
    assert_text(old->contents, "one");
    assert_text(new->contents, "two");
    file_release(old);
    file_release(new);
}

static void large_file_keeps_its_descriptor(void **state)
{
    assert_int_equal(mkdir(full("x"), 0755), 0);
    put_file("a", "");
    assert_int_equal(truncate(full("a"), FILE_CONTENTS_MAX + 1), 0);
    struct file *file = open_name("a");
    assert_int_not_equal(file->fd, -1);
    assert_null(file->contents.data);
    assert_int_equal(file->size, FILE_CONTENTS_MAX + 1);
    file_release(file);
}

static void aio_and_directio_keep_no_contents(void **state)
{
    put_file("a", "hello");
    let_settle("a");
    files.aio = 2;
    struct file *file = open_name("a");
    assert_null(file->contents.data);
    assert_int_not_equal(file->fd, -1);
    file_release(file);
    files.aio = 0;
    files.directio = 5;
    file = open_name("a");
    assert_null(file->contents.data);
    assert_int_not_equal(file->fd, -1);
    file_release(file);
    files.directio = 6;
    file = open_name("a");
    assert_text(file->contents, "hello");
    file_release(file);
}

/* ---- disable_symlinks ---- */

static int error_of(const char *name)
{
    struct file *file = open_name(name);
    struct file *status = file_stat(&request, str_of(full(name)));
    int error = file->error;

    assert_int_equal(error, status->error);
    file_release(file);
    file_release(status);
    return error;
}

static void links_are_refused_at_each_place_of_the_path(void **state)
{
    put_file("a", "x");
    assert_int_equal(mkdir(full("d"), 0755), 0);
    put_file("d/a", "x");
    assert_int_equal(symlink("a", full("link")), 0);
    assert_int_equal(symlink("d", full("dlink")), 0);
    assert_int_equal(symlink("none", full("dangling")), 0);
    files.disable_symlinks = SYMLINKS_FORBIDDEN;
    assert_int_equal(error_of("a"), 0);
    assert_int_equal(error_of("d/a"), 0);
    assert_int_equal(error_of("d"), 0);
    assert_int_equal(error_of("d/"), 0);
    assert_int_equal(error_of("link"), ELOOP);
    assert_int_equal(error_of("dangling"), ELOOP);
    assert_int_equal(error_of("dlink/a"), ENOTDIR);
    assert_int_equal(error_of("d//a"), 0);
    assert_int_equal(error_of("none"), ENOENT);
    files.disable_symlinks = SYMLINKS_IF_NOT_OWNER;
    assert_int_equal(error_of("link"), 0);
    assert_int_equal(error_of("dlink/a"), 0);
    if (geteuid() == 0) {
        assert_int_equal(lchown(full("link"), 65534, 65534), 0);
        assert_int_equal(error_of("link"), ELOOP);
        assert_int_equal(lchown(full("dlink"), 65534, 65534), 0);
        assert_int_equal(error_of("dlink/a"), ELOOP);
    }
}

static void part_named_by_from_is_not_checked(void **state)
{
    struct template from = {.is_constant = true};

    assert_int_equal(mkdir(full("d"), 0755), 0);
    put_file("d/a", "x");
    assert_int_equal(symlink("d", full("dlink")), 0);
    assert_int_equal(symlink("a", full("d/link")), 0);
    files.disable_symlinks = SYMLINKS_FORBIDDEN;
    files.disable_symlinks_from = &from;
    char part[256];
    snprintf(part, sizeof(part), "%s/dlink", directory);
    from.constant = str_of(part);
    assert_int_equal(error_of("dlink/a"), 0);
    assert_int_equal(error_of("dlink/link"), ELOOP);
    snprintf(part, sizeof(part), "%s/dlink/", directory);
    from.constant = str_of(part);
    assert_int_equal(error_of("dlink/a"), 0);
    snprintf(part, sizeof(part), "%s/dl", directory); /* no whole component */
    from.constant = str_of(part);
    assert_int_equal(error_of("dlink/a"), ENOTDIR);
    snprintf(part, sizeof(part), "%s/d/link", directory); /* all of the path */
    from.constant = str_of(part);
    assert_int_equal(error_of("d/link"), 0);
    snprintf(part, sizeof(part), "/elsewhere");
    from.constant = str_of(part);
    assert_int_equal(error_of("dlink/a"), ENOTDIR);
}

/* ---- open_file_cache ---- */

static struct file_cache_settings kept;

static void use_open_file_cache(uint64_t max)
{
    kept = (struct file_cache_settings){.max = max, .inactive_s = 60};
    files.open_file_cache = &kept;
    files.open_file_cache_valid_s = 60;
    files.open_file_cache_min_uses = 1;
    files.open_file_cache_errors = false;
}

static void valid_entry_is_used_without_a_look_at_the_disk(void **state)
{
    use_open_file_cache(10);
    put_file("a", "one");
    let_settle("a");
    file_release(open_name("a"));
    put_file("a", "two");
    struct file *file = open_name("a");
    assert_text(file->contents, "one");
    file_release(file);
    clock_now.now_ms += 60000;
    file = open_name("a");
    assert_text(file->contents, "two");
    file_release(file);
    clock_update();
}

static void errors_are_kept_where_wanted(void **state)
{
    use_open_file_cache(10);
    assert_int_equal(error_of("a"), ENOENT);
    put_file("a", "one");
    assert_int_equal(error_of("a"), 0);
    files.open_file_cache_errors = true;
    assert_int_equal(error_of("b"), ENOENT);
    put_file("b", "one");
    assert_int_equal(error_of("b"), ENOENT);
    clock_now.now_ms += 60000;
    assert_int_equal(error_of("b"), 0);
    clock_update();
}

static void descriptor_is_kept_after_min_uses(void **state)
{
    use_open_file_cache(10);
    files.open_file_cache_min_uses = 3;
    put_file("a", "");
    assert_int_equal(truncate(full("a"), FILE_CONTENTS_MAX + 1), 0);
    for (int uses = 1; uses <= 4; uses++) {
        struct file *file = open_name("a");
        assert_int_not_equal(file->fd, -1);
        assert_int_equal(file->cache != NULL, uses >= 3);
        file_release(file);
    }
}

static void least_recently_used_goes_first(void **state)
{
    struct file_cache_limits limits = {2, UINT64_MAX, 1000};
    struct file_cache *cache = file_cache_new(&limits);
    struct file_options options[3];
    static const char *const names[] = {"/a", "/b", "/c"};

    for (int i = 0; i < 3; i++) {
        options[i] = (struct file_options){.path = str_of(names[i]),
                                           .hash = file_cache_hash(str_of(names[i]))};
    }
    for (int i = 0; i < 3; i++) {
        struct file *file = file_new(options[i].path);
        file_cache_put(cache, file, options[i].hash);
        file_release(file);
        assert_non_null(file_cache_find(cache, &options[0])); /* the first stays in use */
    }
    assert_null(file_cache_find(cache, &options[1]));
    assert_non_null(file_cache_find(cache, &options[2]));
    file_cache_expire(cache, 1000, 2);
    assert_non_null(file_cache_find(cache, &options[0]));
    file_cache_expire(cache, 1001, 2);
    assert_null(file_cache_find(cache, &options[0]));
    assert_null(file_cache_find(cache, &options[2]));
    file_cache_free(cache);
}

static void bytes_are_bounded(void **state)
{
    struct file_cache_limits limits = {UINT64_MAX, 64 * 1024, UINT64_MAX};
    struct file_cache *cache = file_cache_new(&limits);
    unsigned found = 0;

    for (int i = 0; i < 1000; i++) {
        char name[16];
        snprintf(name, sizeof(name), "/%d", i);
        struct file *file = file_new(str_of(name));
        file->contents = (struct str){calloc(1, 1024), 1024};
        file->owns_contents = true;
        file_cache_put(cache, file, file_cache_hash(file->path));
        file_release(file);
    }
    for (int i = 0; i < 1000; i++) {
        char name[16];
        snprintf(name, sizeof(name), "/%d", i);
        struct file_options options = {.path = str_of(name), .hash = file_cache_hash(str_of(name))};
        bool is_there = file_cache_find(cache, &options) != NULL;
        found += is_there;
        assert_true(is_there || i < 999);
    }
    assert_in_range(found, 30, 64);
    file_cache_free(cache);
}

static void validators_are_laid_out(void **state)
{
    struct file *file = file_new(STR("/a"));

    file->mtime = 784111777;
    file->size = 0x1f40;
    file_describe(file);
    assert_text(file->etag, "\"2ebc98a1-1f40\"");
    assert_text(file->last_modified, "Sun, 06 Nov 1994 08:49:37 GMT");
    file_release(file);
    file = file_new(STR("/b"));
    file_describe(file);
    assert_text(file->etag, "\"0-0\"");
    file_release(file);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(small_file_carries_its_contents),
        TEST(failures_name_the_call),
        TEST(name_with_a_zero_byte_is_no_file),
        TEST(directories_and_others_have_no_contents),
        TEST(settled_file_is_read_once),
        TEST(young_file_is_not_kept),
        TEST(every_change_is_seen),
        TEST(change_is_seen_when_mtime_is_set_back),
        TEST(renamed_and_removed_files_are_noticed),
        TEST(contents_in_use_survive_their_replacement),
        TEST(large_file_keeps_its_descriptor),
        TEST(aio_and_directio_keep_no_contents),
        TEST(links_are_refused_at_each_place_of_the_path),
        TEST(part_named_by_from_is_not_checked),
        TEST(valid_entry_is_used_without_a_look_at_the_disk),
        TEST(errors_are_kept_where_wanted),
        TEST(descriptor_is_kept_after_min_uses),
        TEST(least_recently_used_goes_first),
        TEST(bytes_are_bounded),
        TEST(validators_are_laid_out),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
