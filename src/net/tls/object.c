/* Certificates, keys, authorities and revocation lists: loaded once for each reading of the
 * configuration, and kept for later readings while their files are unchanged. */
#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/store.h>
#include <openssl/ui.h>
#include <stdlib.h>
#include <sys/stat.h>
#ifndef OPENSSL_NO_ENGINE
#include <openssl/engine.h>
#endif

#include "base/map.h"
#include "net/tls/private.h"

#define PATH_SIZE 2048 /* bytes of a file name */

enum object_kind { OBJECT_CHAIN, OBJECT_KEY, OBJECT_CA, OBJECT_CRL };

/* A loaded object. In the arena of its reading. */
struct object {
    enum object_kind kind;
    void *value; /* STACK_OF(X509), EVP_PKEY or STACK_OF(X509_CRL); owned */
    bool is_file;
    struct stat stat; /* of the file when it was loaded */
};

/* The objects of one reading. In its arena. */
struct object_cache {
    struct object_cache *older; /* of the previous reading, while that is in use; or NULL */
    struct arena *arena;
    struct map objects; /* kind and name -> struct object * */
    bool inherits;
};

static struct object_cache *newest;

/* ---- references ---- */

static STACK_OF(X509) * share_chain(const STACK_OF(X509) * chain)
{
    return X509_chain_up_ref((STACK_OF(X509) *) chain);
}

static STACK_OF(X509_CRL) * share_crls(const STACK_OF(X509_CRL) * crls)
{
    STACK_OF(X509_CRL) *copy = sk_X509_CRL_dup(crls);

    for (int i = 0; copy != NULL && i < sk_X509_CRL_num(copy); i++) {
        X509_CRL_up_ref(sk_X509_CRL_value(copy, i));
    }
    return copy;
}

static void *object_share(enum object_kind kind, void *value)
{
    switch (kind) {
    case OBJECT_CHAIN:
    case OBJECT_CA:
        return share_chain(value);
    case OBJECT_CRL:
        return share_crls(value);
    case OBJECT_KEY:
        return EVP_PKEY_up_ref(value) == 1 ? value : NULL;
    }
    return NULL;
}

static void object_free(enum object_kind kind, void *value)
{
    switch (kind) {
    case OBJECT_CHAIN:
    case OBJECT_CA:
        sk_X509_pop_free(value, X509_free);
        break;
    case OBJECT_CRL:
        sk_X509_CRL_pop_free(value, X509_CRL_free);
        break;
    case OBJECT_KEY:
        EVP_PKEY_free(value);
        break;
    }
}

/* ---- the cache ---- */

static void cache_free(void *arg)
{
    struct object_cache *cache = arg;

    map_each(slot, &cache->objects) {
        struct object *object = slot->value;
        object_free(object->kind, object->value);
    }
    for (struct object_cache **at = &newest; *at != NULL; at = &(*at)->older) {
        if (*at == cache) {
            *at = cache->older;
            break;
        }
    }
}

void tls_objects_begin(struct arena *arena, bool inherits)
{
    struct object_cache *cache = arena_new(arena, struct object_cache);

    cache->arena = arena;
    cache->inherits = inherits;
    cache->older = newest;
    newest = cache;
    arena_on_free(arena, cache_free, cache);
}

static struct object_cache *cache_of(struct arena *arena)
{
    for (struct object_cache *cache = newest; cache != NULL; cache = cache->older) {
        if (cache->arena == arena) {
            return cache;
        }
    }
    tls_objects_begin(arena, false);
    return newest;
}

/* Inode, device and mtime decide, as in nginx. The size is not compared: it distinguishes keys
 * better than certificates, so that only one of a pair would be loaded again. */
static bool is_same_file(const struct stat *a, const struct stat *b)
{
    return a->st_ino == b->st_ino && a->st_dev == b->st_dev && a->st_mtime == b->st_mtime;
}

/* A revocation list that was replaced within the same second, or with an old mtime, must not be
 * missed: size, nanoseconds and ctime count as well. */
static bool is_unchanged(const struct stat *a, const struct stat *b)
{
    return is_same_file(a, b) && a->st_size == b->st_size &&
           a->st_mtim.tv_nsec == b->st_mtim.tv_nsec && a->st_ctim.tv_sec == b->st_ctim.tv_sec &&
           a->st_ctim.tv_nsec == b->st_ctim.tv_nsec;
}

static bool is_current(enum object_kind kind, const struct object *object, const struct stat *st)
{
    return !object->is_file ||
           (st != NULL && (kind == OBJECT_CRL ? is_unchanged(st, &object->stat)
                                              : is_same_file(st, &object->stat)));
}

static void cache_put(struct object_cache *cache, enum object_kind kind, struct str key,
                      void *value, const struct stat *st)
{
    struct object *object = arena_new(cache->arena, struct object);

    object->kind = kind;
    object->value = value;
    object->is_file = st != NULL;
    if (st != NULL) {
        object->stat = *st;
    }
    map_put(&cache->objects, cache->arena, arena_dup(cache->arena, key), object);
}

/* Finds an object of this reading, or of the previous one if its file is unchanged. Borrowed. */
static void *find_cached(struct object_cache *cache, enum object_kind kind, struct str key,
                         const struct stat *st)
{
    struct object *object = map_get(&cache->objects, key);

    if (object != NULL) {
        return object->value;
    }
    if (!cache->inherits || cache->older == NULL) {
        return NULL;
    }
    object = map_get(&cache->older->objects, key);
    if (object == NULL || !is_current(kind, object, st)) {
        return NULL;
    }
    void *value = object_share(kind, object->value);
    if (value != NULL) {
        cache_put(cache, kind, key, value, object->is_file ? st : NULL);
    }
    return value;
}

/* ---- loading ---- */

static bool is_data(struct str name)
{
    return str_starts(name, STR("data:"));
}

/* Opens a file, or the data itself. NULL with an error of OpenSSL; *what is the failed call. */
static BIO *open_source(struct str name, const char **what)
{
    char path[PATH_SIZE];

    if (is_data(name)) {
        struct str data = str_skip(name, 5);
        *what = "BIO_new_mem_buf() failed";
        return BIO_new_mem_buf(data.data, (int) data.len);
    }
    *what = "BIO_new_file() failed";
    snprintf(path, sizeof(path), "%.*s", STR_ARG(name));
    return BIO_new_file(path, "r");
}

/* The name for messages, without data, which is long or secret. */
static struct str shown(struct str name)
{
    return is_data(name) ? STR("data:...") : name;
}

/* Was the error only that there are no more PEM blocks, as at the end of each file? */
static bool is_at_end(void)
{
    unsigned long code = ERR_peek_last_error();

    if (ERR_GET_LIB(code) == ERR_LIB_PEM && ERR_GET_REASON(code) == PEM_R_NO_START_LINE) {
        ERR_clear_error();
        return true;
    }
    return false;
}

/* Reads the leaf, then the certificates that lead to its root. */
static void *read_chain(struct str name, const char **what)
{
    BIO *bio = open_source(name, what);

    if (bio == NULL) {
        return NULL;
    }
    STACK_OF(X509) *chain = sk_X509_new_null();
    *what = "PEM_read_bio_X509_AUX() failed";
    X509 *one = PEM_read_bio_X509_AUX(bio, NULL, NULL, NULL);
    bool is_good = one != NULL;
    while (one != NULL && chain != NULL) {
        if (sk_X509_push(chain, one) == 0) {
            X509_free(one);
            is_good = false;
            break;
        }
        *what = "PEM_read_bio_X509() failed";
        one = PEM_read_bio_X509(bio, NULL, NULL, NULL);
        if (one == NULL) {
            is_good = is_at_end();
        }
    }
    BIO_free(bio);
    if (!is_good) {
        sk_X509_pop_free(chain, X509_free);
        return NULL;
    }
    return chain;
}

static void *read_ca(struct str name, const char **what)
{
    BIO *bio = open_source(name, what);

    if (bio == NULL) {
        return NULL;
    }
    STACK_OF(X509) *list = sk_X509_new_null();
    X509 *one;
    *what = "PEM_read_bio_X509_AUX() failed";
    while (list != NULL && (one = PEM_read_bio_X509_AUX(bio, NULL, NULL, NULL)) != NULL) {
        if (sk_X509_push(list, one) == 0) {
            X509_free(one);
            break;
        }
    }
    BIO_free(bio);
    if (sk_X509_num(list) <= 0 || !is_at_end()) {
        sk_X509_pop_free(list, X509_free);
        return NULL;
    }
    return list;
}

static void *read_crl(struct str name, const char **what)
{
    BIO *bio = open_source(name, what);

    if (bio == NULL) {
        return NULL;
    }
    STACK_OF(X509_CRL) *list = sk_X509_CRL_new_null();
    X509_CRL *one;
    *what = "PEM_read_bio_X509_CRL() failed";
    while (list != NULL && (one = PEM_read_bio_X509_CRL(bio, NULL, NULL, NULL)) != NULL) {
        if (sk_X509_CRL_push(list, one) == 0) {
            X509_CRL_free(one);
            break;
        }
    }
    BIO_free(bio);
    if (sk_X509_CRL_num(list) <= 0 || !is_at_end()) {
        sk_X509_CRL_pop_free(list, X509_CRL_free);
        return NULL;
    }
    return list;
}

/* ---- keys ---- */

static bool was_password_asked;

static int give_password(char *at, int size, int is_writing, void *arg)
{
    const struct str *password = arg;

    was_password_asked = true;
    if (is_writing || password == NULL || password->len > (size_t) size) {
        return 0;
    }
    memcpy(at, password->data, password->len);
    return (int) password->len;
}

static EVP_PKEY *read_key_file(struct str name, const struct vec *passwords, const char **what)
{
    BIO *bio = open_source(name, what);
    EVP_PKEY *key = NULL;

    if (bio == NULL) {
        return NULL;
    }
    *what = "PEM_read_bio_PrivateKey() failed";
    if (passwords == NULL) {
        key = PEM_read_bio_PrivateKey(bio, NULL, give_password, NULL);
    } else if (passwords->count == 0) {
        key = PEM_read_bio_PrivateKey(bio, NULL, NULL, NULL); /* OpenSSL asks at the terminal */
    }
    for (size_t i = 0; passwords != NULL && key == NULL && i < passwords->count; i++) {
        if (i != 0 && BIO_reset(bio) < 0) {
            break;
        }
        ERR_clear_error();
        key = PEM_read_bio_PrivateKey(bio, NULL, give_password, vec_at(passwords, struct str, i));
    }
    if (key != NULL) {
        ERR_clear_error();
    }
    BIO_free(bio);
    return key;
}

/* "engine:NAME:KEY". */
static EVP_PKEY *read_key_engine(struct str name, const char **what)
{
#ifndef OPENSSL_NO_ENGINE
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wdeprecated-declarations"
    struct str rest = str_skip(name, 7);
    struct str engine_name = str_cut(&rest, ':');
    char id[256], key_id[1024];

    if (rest.data == NULL) {
        *what = "invalid syntax";
        return NULL;
    }
    snprintf(id, sizeof(id), "%.*s", STR_ARG(engine_name));
    snprintf(key_id, sizeof(key_id), "%.*s", STR_ARG(rest));
    ENGINE *engine = ENGINE_by_id(id);
    if (engine == NULL) {
        *what = "ENGINE_by_id() failed";
        return NULL;
    }
    EVP_PKEY *key = NULL;
    *what = "ENGINE_init() failed";
    if (ENGINE_init(engine) == 1) {
        *what = "ENGINE_load_private_key() failed";
        key = ENGINE_load_private_key(engine, key_id, NULL, NULL);
        ENGINE_finish(engine);
    }
    ENGINE_free(engine);
    return key;
#pragma GCC diagnostic pop
#else
    *what = "loading \"engine:...\" certificate keys is not supported";
    return NULL;
#endif
}

bool tls_use_engine(struct str name, struct arena *arena, struct str *error)
{
#ifndef OPENSSL_NO_ENGINE
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wdeprecated-declarations"
    tls_library_init();
    ENGINE *engine = ENGINE_by_id(arena_cstr(arena, name));
    bool is_good = engine != NULL && ENGINE_set_default(engine, ENGINE_METHOD_ALL) == 1;

    if (engine == NULL) {
        *error = tls_reason(arena, "ENGINE_by_id(\"%.*s\") failed", STR_ARG(name));
    } else if (!is_good) {
        *error = tls_reason(arena, "ENGINE_set_default(\"%.*s\", ENGINE_METHOD_ALL) failed",
                            STR_ARG(name));
    }
    ENGINE_free(engine);
    return is_good;
#pragma GCC diagnostic pop
#else
    *error = arena_printf(arena, "\"ssl_engine\" is not supported by %s",
                          OpenSSL_version(OPENSSL_VERSION));
    return false;
#endif
}

/* "store:URI": a key of a provider. */
static EVP_PKEY *read_key_store(struct str name, const struct vec *passwords, const char **what)
{
    char uri[PATH_SIZE];
    EVP_PKEY *key = NULL;
    struct str *password =
        passwords != NULL && passwords->count != 0 ? vec_at(passwords, struct str, 0) : NULL;
    UI_METHOD *ui = UI_UTIL_wrap_read_pem_callback(give_password, 0);

    snprintf(uri, sizeof(uri), "%.*s", STR_ARG(str_skip(name, 6)));
    *what = "OSSL_STORE_open() failed";
    OSSL_STORE_CTX *store = OSSL_STORE_open(uri, ui, password, NULL, NULL);
    while (store != NULL && key == NULL && !OSSL_STORE_eof(store)) {
        *what = "OSSL_STORE_load() failed";
        OSSL_STORE_INFO *info = OSSL_STORE_load(store);

        if (info == NULL) {
            if (OSSL_STORE_error(store)) {
                break;
            }
            continue;
        }
        if (OSSL_STORE_INFO_get_type(info) == OSSL_STORE_INFO_PKEY) {
            key = OSSL_STORE_INFO_get1_PKEY(info);
        }
        OSSL_STORE_INFO_free(info);
    }
    if (store != NULL) {
        OSSL_STORE_close(store);
    }
    UI_destroy_method(ui);
    return key;
}

static EVP_PKEY *read_key(struct str name, const struct vec *passwords, const char **what)
{
    if (str_starts(name, STR("engine:"))) {
        return read_key_engine(name, what);
    }
    if (str_starts(name, STR("store:"))) {
        return read_key_store(name, passwords, what);
    }
    return read_key_file(name, passwords, what);
}

/* ---- interface ---- */

struct object_options {
    enum object_kind kind;
    struct str name;
    const struct vec *passwords; /* for a key; NULL = none */
};

static void *read_object(const struct object_options *options, const char **what)
{
    switch (options->kind) {
    case OBJECT_CHAIN:
        return read_chain(options->name, what);
    case OBJECT_CA:
        return read_ca(options->name, what);
    case OBJECT_CRL:
        return read_crl(options->name, what);
    case OBJECT_KEY:
        return read_key(options->name, options->passwords, what);
    }
    return NULL;
}

static struct str object_say_failure(struct arena *arena, enum object_kind kind, struct str name,
                                     const char *what)
{
    struct str s = shown(name);

    switch (kind) {
    case OBJECT_CHAIN:
        return tls_reason(arena, "cannot load certificate \"%.*s\": %s", STR_ARG(s), what);
    case OBJECT_KEY:
        return tls_reason(arena, "cannot load certificate key \"%.*s\": %s", STR_ARG(s), what);
    case OBJECT_CA:
        return tls_reason(arena, "cannot load CA certificates \"%.*s\": %s", STR_ARG(s), what);
    case OBJECT_CRL:
        return tls_reason(arena, "cannot load CRL \"%.*s\": %s", STR_ARG(s), what);
    }
    return STR_NONE;
}

static void *object_load(struct arena *cache_arena, struct arena *arena,
                         const struct object_options *options, struct str *error)
{
    enum object_kind kind = options->kind;
    struct str name = options->name;
    const char *what = "";
    struct stat st;
    char path[PATH_SIZE];

    ERR_clear_error();
    was_password_asked = false;
    if (cache_arena == NULL) {
        void *value = read_object(options, &what);
        if (value == NULL) {
            *error = object_say_failure(arena, kind, name, what);
        }
        return value;
    }
    struct object_cache *cache = cache_of(cache_arena);
    struct str key = arena_printf(arena, "%d%.*s", kind, STR_ARG(name));
    snprintf(path, sizeof(path), "%.*s", STR_ARG(name));
    bool is_file = !is_data(name) && stat(path, &st) == 0;
    void *value = find_cached(cache, kind, key, is_file ? &st : NULL);
    if (value == NULL) {
        value = read_object(options, &what);
        if (value == NULL) {
            *error = object_say_failure(arena, kind, name, what);
            return NULL;
        }
        cache_put(cache, kind, key, value, is_file ? &st : NULL);
    }
    return object_share(kind, value);
}

STACK_OF(X509) *
    tls_load_chain(struct arena *cache, struct arena *arena, struct str name, struct str *error)
{
    const struct object_options options = {.kind = OBJECT_CHAIN, .name = name};

    return object_load(cache, arena, &options, error);
}

EVP_PKEY *tls_load_key(struct arena *cache, struct arena *arena, struct str name,
                       const struct vec *passwords, struct str *error)
{
    const struct object_options options = {.kind = OBJECT_KEY,
                                           .name = name,
                                           .passwords = passwords};

    return object_load(cache, arena, &options, error);
}

bool tls_key_was_encrypted(void)
{
    return was_password_asked;
}

STACK_OF(X509) *
    tls_load_ca(struct arena *cache, struct arena *arena, struct str name, struct str *error)
{
    const struct object_options options = {.kind = OBJECT_CA, .name = name};

    return object_load(cache, arena, &options, error);
}

STACK_OF(X509_CRL) *
    tls_load_crl(struct arena *cache, struct arena *arena, struct str name, struct str *error)
{
    const struct object_options options = {.kind = OBJECT_CRL, .name = name};

    return object_load(cache, arena, &options, error);
}
