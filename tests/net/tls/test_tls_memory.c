/* The memory that OpenSSL gets from us: pieces of all sizes, resized, given back by other threads.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>
#include <openssl/crypto.h>
#include <pthread.h>
#include <sys/param.h>

#include "base/poison.h"
#include "net/tls/private.h"

#define PIECES 3000
#define PAGE_SIZE 4096u

/* A piece of OpenSSL's memory that is full of one byte. */
struct filled {
    unsigned char *at;
    size_t size;
};

static bool is_whole(const struct filled *piece, size_t size, unsigned char byte)
{
    for (size_t i = 0; i < size; i++) {
        if (piece->at[i] != byte) {
            return false;
        }
    }
    return true;
}

static void fill_all(struct filled *pieces)
{
    for (unsigned i = 0; i < PIECES; i++) {
        pieces[i].size = i % 16 == 0 ? (i * 97) % 70000 + 1 : (i * 13) % 1500 + 1;
        pieces[i].at = OPENSSL_malloc(pieces[i].size);
        assert_non_null(pieces[i].at);
        assert_int_equal((uintptr_t) pieces[i].at % 16, 0);
        memset(pieces[i].at, (int) (i & 255), pieces[i].size);
    }
}

static void *free_all(void *arg)
{
    struct filled *pieces = arg;

    for (unsigned i = 0; i < PIECES; i++) {
        if (!is_whole(&pieces[i], pieces[i].size, (unsigned char) i)) {
            return NULL;
        }
        OPENSSL_free(pieces[i].at);
    }
    return arg;
}

static void *fill_in_thread(void *arg)
{
    fill_all(arg);
    return arg;
}

/* What a thread says, who has come to its end. */
static void *in_thread(void *(*run)(void *), void *arg)
{
    pthread_t thread;
    void *result;

    assert_int_equal(pthread_create(&thread, NULL, run, arg), 0);
    assert_int_equal(pthread_join(thread, &result), 0);
    return result;
}

static void pieces_of_memory_do_not_touch(void **state)
{
    static struct filled pieces[PIECES];

    assert_null(OPENSSL_malloc(0));
    OPENSSL_free(NULL);
    fill_all(pieces);
    assert_non_null(free_all(pieces));
    fill_all(pieces);
    assert_non_null(in_thread(free_all, pieces));
    assert_non_null(in_thread(fill_in_thread, pieces));
    assert_non_null(free_all(pieces));
}

static void memory_is_resized(void **state)
{
    static const size_t sizes[] = {1,    16,    17,    1024,   1025,  300,
                                   8192, 20480, 20481, 100000, 60000, 5};
    struct filled piece = {OPENSSL_realloc(NULL, 8), 8};

    memset(piece.at, 'x', 8);
    for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
        piece.at = OPENSSL_realloc(piece.at, sizes[i]);
        assert_non_null(piece.at);
        assert_true(is_whole(&piece, MIN(piece.size, sizes[i]), 'x'));
        piece.size = sizes[i];
        memset(piece.at, 'x', piece.size);
    }
    assert_null(OPENSSL_realloc(piece.at, 0));
}

/* Pages of this process that are in memory. */
static unsigned long pages_in_memory(void)
{
    unsigned long all, resident = 0;
    FILE *file = fopen("/proc/self/statm", "r");

    assert_non_null(file);
    assert_int_equal(fscanf(file, "%lu %lu", &all, &resident), 2);
    fclose(file);
    return resident;
}

static void pages_go_back(void **state)
{
    static void *pieces[PIECES];
    unsigned long before = pages_in_memory();

    for (unsigned i = 0; i < PIECES; i++) {
        pieces[i] = OPENSSL_zalloc(PAGE_SIZE);
    }
    unsigned long full = pages_in_memory();
    assert_true(full > before + PIECES / 2);
    for (unsigned i = 0; i < PIECES; i++) {
        OPENSSL_free(pieces[i]);
    }
#ifndef POISON_IS_ON /* which keeps what was freed */
    assert_true(pages_in_memory() < full - PIECES / 2);
#endif
}

static void memory_is_ours(void **state)
{
    CRYPTO_malloc_fn allocate;
    CRYPTO_realloc_fn resize;
    CRYPTO_free_fn release;

    CRYPTO_get_mem_functions(&allocate, &resize, &release);
#ifdef POISON_IS_ON
    assert_true(allocate == CRYPTO_malloc);
#else
    assert_true(allocate != CRYPTO_malloc && resize != CRYPTO_realloc && release != CRYPTO_free);
#endif
}

static int setup(void **state)
{
    tls_library_init();
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(memory_is_ours),
        cmocka_unit_test(pieces_of_memory_do_not_touch),
        cmocka_unit_test(memory_is_resized),
        cmocka_unit_test(pages_go_back),
    };

    return cmocka_run_group_tests(tests, setup, NULL);
}
