/* Data that several nodes share in a redis_store: accounts, certificates, open challenges, and when
 * a failed order is repeated. docs/scaling-out.md describes the items. Their values are encrypted
 * with the store's password. */
#include "base/clock.h"
#include "base/parse.h"
#include "http/modules/clients/acme/acme.h"

enum {
    MEMORY = 64 * 1024, /* for names that are missing in the store */
    INTERVAL_MS = 100,
    FLUSH_MS = 2000,     /* the store must accept the data of an order within this time */
    FLUSH_PAUSE_MS = 20, /* interval of checks for it */
    SPREAD = 4,          /* intervals until all nodes have read a challenge */
    RENEW_MS = 15000,    /* interval of extensions of the lock */
    LEASE_MS =
        90000, /* lease time: longer than a request to the CA, and than a pause between two */
    HOOK_MS = 120000,      /* added for a hook's program */
    CHALLENGE_MS = 900000, /* lifetime of a challenge in the store */
    CLOCK_S = 3600,        /* accepted difference between the clocks of nodes */
};

/* ---- names: "KIND WHAT" ---- */

static const struct str kind_certificate = STR_INIT("certificate");
static const struct str kind_failure = STR_INIT("failure");
static const struct str kind_account = STR_INIT("account");
static const struct str kind_challenge = STR_INIT("challenge");

static struct str issuer_item(struct arena *arena, const struct acme_issuer *issuer)
{
    return arena_printf(arena, "%.*s %.*s %.*s", STR_ARG(kind_account), STR_ARG(issuer->name),
                        STR_ARG(issuer->uri));
}

static struct str certificate_item(struct arena *arena, struct str kind,
                                   const struct acme_certificate *certificate)
{
    const struct acme_issuer *issuer = certificate->issuer;

    return arena_printf(arena, "%.*s %.*s %.*s %.*s", STR_ARG(kind), STR_ARG(issuer->name),
                        STR_ARG(issuer->uri), STR_ARG(certificate->name));
}

static struct str challenge_item(struct arena *arena, enum acme_challenge_type type,
                                 struct str name)
{
    return arena_printf(arena, "%.*s %s %.*s", STR_ARG(kind_challenge), acme_challenge_names[type],
                        STR_ARG(name));
}

static struct acme_certificate *find_certificate(const struct acme_main *main, struct arena *arena,
                                                 struct str kind, struct str item)
{
    vec_each(struct acme_certificate *, certificate, &main->certificates) {
        if (str_equal(certificate_item(arena, kind, *certificate), item)) {
            return *certificate;
        }
    }
    return NULL;
}

/* An account whose key is a configured file is not shared. */
static struct acme_issuer *find_issuer(const struct acme_main *main, struct arena *arena,
                                       struct str item)
{
    vec_each(struct acme_issuer *, issuer, &main->issuers) {
        if ((*issuer)->account_key.file.len == 0 && str_equal(issuer_item(arena, *issuer), item)) {
            return *issuer;
        }
    }
    return NULL;
}

static bool read_challenge(struct str item, struct acme_open_challenge *out)
{
    str_cut(&item, ' ');
    struct str type = str_cut(&item, ' ');

    out->name = item;
    for (unsigned i = ACME_HTTP_01; i <= ACME_TLS_ALPN_01; i++) {
        if (str_is(type, acme_challenge_names[i])) {
            out->type = (enum acme_challenge_type) i;
            return item.len != 0;
        }
    }
    return false;
}

static bool has_kind(struct str item, struct str kind)
{
    return item.len > kind.len && str_starts(item, kind) && item.data[kind.len] == ' ';
}

/* ---- values ---- */

/* "SIZE-OF-KEY\nKEY VALUE", without the space */
static struct str pack_pair(struct arena *arena, const struct acme_pair *pair)
{
    return arena_printf(arena, "%zu\n%.*s%.*s", pair->key.len, STR_ARG(pair->key),
                        STR_ARG(pair->value));
}

static bool unpack_pair(struct str text, struct acme_pair *out)
{
    uint64_t size;
    struct str digits = str_cut(&text, '\n');

    if (text.data == NULL || !parse_uint(digits, &size) || size > text.len) {
        return false;
    }
    out->key = str_head(text, (size_t) size);
    out->value = str_skip(text, (size_t) size);
    return true;
}

/* ---- certificates ---- */

static bool certificate_get(const struct acme_certificate *certificate, struct arena *arena,
                            struct store_item *item)
{
    struct zone *zone = certificate->issuer->main->zone;
    const struct acme_facts facts = acme_facts_get(zone, certificate->entry);
    int64_t left_s = facts.not_after - (int64_t) clock_now.seconds;
    struct acme_pair pair;

    if (facts.is_self_signed || left_s <= 0 ||
        !acme_entry_get(zone, certificate->entry, arena, &pair)) {
        return false;
    }
    item->value = pack_pair(arena, &pair);
    item->ttl_ms = (uint64_t) left_s * 1000;
    return true;
}

struct taking {
    struct acme_certificate *certificate;
    struct str text;
    struct arena *arena;
    const char *why;
};

static bool take(void *arg)
{
    struct taking *taking = arg;

    return acme_state_take(taking->certificate, taking->arena, taking->text, &taking->why);
}

/* An unusable certificate is logged and not requested again: this node orders one, or the next
 * change brings another. */
static void certificate_put(struct acme_certificate *certificate, struct arena *arena,
                            const struct acme_pair *pair)
{
    struct taking taking = {.certificate = certificate,
                            .text = arena_concat(arena, pair->key, pair->value),
                            .arena = arena};
    struct acme_pair present;

    if (!acme_on_main(take, &taking) && taking.why != NULL) {
        log_error(log_main, 0,
                  "acme_issuer \"%.*s\": certificate \"%.*s\" of the store is not used: %s",
                  STR_ARG(certificate->issuer->name), STR_ARG(certificate->name), taking.why);
    }
    if (taking.why == NULL &&
        acme_entry_get(certificate->issuer->main->zone, certificate->entry, arena, &present) &&
        !str_equal(present.value, pair->value)) {
        acme_sync_certificate(certificate); /* this node's is newer */
    }
}

/* ---- failures: "NUMBER SECONDS": how many, and when to order again (seconds since the epoch) ----
 */

static bool failure_get(const struct acme_certificate *certificate, struct arena *arena,
                        struct store_item *item)
{
    const struct acme_facts facts =
        acme_facts_get(certificate->issuer->main->zone, certificate->entry);
    int64_t left_s = facts.not_until_s - (int64_t) clock_now.seconds;

    if (facts.failures == 0 || left_s <= 0) {
        return false;
    }
    item->value =
        arena_printf(arena, "%u %llu", facts.failures, (unsigned long long) facts.not_until_s);
    item->ttl_ms = (uint64_t) left_s * 1000;
    return true;
}

static void failure_put(const struct acme_certificate *certificate, const struct store_item *item)
{
    struct zone *zone = certificate->issuer->main->zone;
    struct acme_facts facts = acme_facts_get(zone, certificate->entry);
    struct str rest = item->value, digits = str_cut(&rest, ' ');
    uint64_t failures, until_s;

    if (rest.data == NULL || !parse_uint(digits, &failures) || !parse_uint(rest, &until_s) ||
        failures > 1000 || until_s > (uint64_t) clock_now.seconds + ACME_WAIT_MOST_S + CLOCK_S ||
        (int64_t) until_s <= facts.not_until_s || until_s <= (uint64_t) clock_now.seconds) {
        return;
    }
    facts.failures = (unsigned) failures;
    facts.not_until_s = (int64_t) until_s;
    facts.noted_s = (int64_t) clock_now.seconds;
    acme_facts_put(zone, certificate->entry, &facts);
    log_notice(log_main, 0,
               "acme_issuer \"%.*s\": another node could not order certificate \"%.*s\", which is "
               "ordered again in %llds",
               STR_ARG(certificate->issuer->name), STR_ARG(certificate->name),
               (long long) (until_s - (uint64_t) clock_now.seconds));
}

/* ---- the table ---- */

static bool acme_item_get(void *owner, struct str name, struct arena *arena,
                          struct store_item *item)
{
    const struct acme_main *main = owner;
    const struct acme_certificate *certificate;
    const struct acme_issuer *issuer;
    struct acme_open_challenge challenge;
    struct acme_pair pair;
    bool is_there = false;

    if (has_kind(name, kind_certificate)) {
        certificate = find_certificate(main, arena, kind_certificate, name);
        return certificate != NULL && certificate_get(certificate, arena, item);
    }
    if (has_kind(name, kind_failure)) {
        certificate = find_certificate(main, arena, kind_failure, name);
        return certificate != NULL && failure_get(certificate, arena, item);
    }
    if (has_kind(name, kind_account)) {
        issuer = find_issuer(main, arena, name);
        is_there = issuer != NULL && acme_entry_get(main->zone, issuer->account, arena, &pair);
    } else if (has_kind(name, kind_challenge) && read_challenge(name, &challenge)) {
        is_there = acme_challenge_find(main->zone, challenge.type, challenge.name, arena, &pair);
        item->ttl_ms = CHALLENGE_MS;
    }
    if (is_there) {
        item->value = pack_pair(arena, &pair);
    }
    return is_there;
}

static bool put_pair(struct acme_main *main, struct arena *arena, struct str name,
                     const struct acme_pair *pair)
{
    struct acme_open_challenge challenge;

    if (has_kind(name, kind_certificate)) {
        struct acme_certificate *certificate =
            find_certificate(main, arena, kind_certificate, name);
        if (certificate != NULL) {
            certificate_put(certificate, arena, pair);
        }
        return true;
    }
    if (has_kind(name, kind_account)) {
        const struct acme_issuer *issuer = find_issuer(main, arena, name);
        return issuer == NULL ||
               acme_entry_put(main->zone, issuer->account, pair, main->generation->number);
    }
    return !has_kind(name, kind_challenge) || !read_challenge(name, &challenge) ||
           acme_challenge_put(main->zone, challenge.type, challenge.name, pair);
}

static bool acme_item_put(void *owner, const struct store_item *item)
{
    struct acme_main *main = owner;
    struct arena arena;
    struct acme_pair pair;
    bool is_good = true;

    arena_init(&arena);
    if (has_kind(item->name, kind_failure)) {
        const struct acme_certificate *certificate =
            find_certificate(main, &arena, kind_failure, item->name);
        if (certificate != NULL) {
            failure_put(certificate, item);
        }
    } else if (unpack_pair(item->value, &pair)) {
        is_good = put_pair(main, &arena, item->name, &pair);
    }
    arena_free(&arena);
    return is_good;
}

/* Certificates and accounts that are missing in the store are sent again: nodes never drop them. */
static void acme_item_drop(void *owner, struct str name)
{
    struct acme_main *main = owner;
    struct acme_open_challenge challenge;
    struct store_item item = {.name = name};
    struct arena arena;

    if (has_kind(name, kind_challenge)) {
        if (read_challenge(name, &challenge)) {
            acme_challenge_remove(main->zone, challenge.type, challenge.name);
        }
        return;
    }
    arena_init(&arena);
    if (!has_kind(name, kind_failure) && acme_item_get(main, name, &arena, &item)) {
        store_table_note(main->table, name);
    }
    arena_free(&arena);
}

static bool acme_item_list(void *owner, uint32_t *cursor, struct arena *arena, struct vec *names)
{
    const struct acme_main *main = owner;
    struct vec challenges = {0};

    vec_each(struct acme_issuer *, issuer, &main->issuers) {
        if ((*issuer)->account_key.file.len == 0) {
            *vec_add(names, arena, struct str) = issuer_item(arena, *issuer);
        }
    }
    vec_each(struct acme_certificate *, certificate, &main->certificates) {
        *vec_add(names, arena, struct str) =
            certificate_item(arena, kind_certificate, *certificate);
    }
    acme_challenge_list(main->zone, arena, &challenges);
    vec_each(const struct acme_open_challenge, one, &challenges) {
        *vec_add(names, arena, struct str) = challenge_item(arena, one->type, one->name);
    }
    return false;
}

static const struct store_table_kind acme_table = {.purpose = "acme",
                                                   .get = acme_item_get,
                                                   .put = acme_item_put,
                                                   .drop = acme_item_drop,
                                                   .list = acme_item_list,
                                                   .starts_again = true,
                                                   .is_secret = true};

bool acme_sync_open(struct conf *conf, struct acme_main *main)
{
    const struct acme_http *http = main->http;
    const struct store_table_wanted wanted = {.kind = &acme_table,
                                              .owner = main,
                                              .name = http->zone_name,
                                              .size = MEMORY,
                                              .words = &http->sync,
                                              .interval_ms = INTERVAL_MS};

    if (!http->sync.is_wanted) {
        return true;
    }
    main->table = store_table_new(conf, http->zone_node, &wanted);
    return main->table != NULL;
}

/* ---- changes of this node ---- */

static void note(const struct acme_main *main, struct arena *arena, struct str item)
{
    store_table_note(main->table, item);
    arena_free(arena);
}

static void note_certificate(const struct acme_certificate *certificate, struct str kind)
{
    struct arena arena;

    if (certificate->issuer->main->table != NULL) {
        arena_init(&arena);
        note(certificate->issuer->main, &arena, certificate_item(&arena, kind, certificate));
    }
}

void acme_sync_certificate(const struct acme_certificate *certificate)
{
    note_certificate(certificate, kind_certificate);
}

void acme_sync_failure(const struct acme_certificate *certificate)
{
    note_certificate(certificate, kind_failure);
}

void acme_sync_account(const struct acme_issuer *issuer)
{
    struct arena arena;

    if (issuer->main->table != NULL && issuer->account_key.file.len == 0) {
        arena_init(&arena);
        note(issuer->main, &arena, issuer_item(&arena, issuer));
    }
}

void acme_sync_challenge(const struct acme_main *main, enum acme_challenge_type type,
                         struct str name)
{
    struct arena arena;

    if (main->table != NULL) {
        arena_init(&arena);
        note(main, &arena, challenge_item(&arena, type, name));
    }
}

bool acme_sync_flush(const struct acme_main *main)
{
    uint64_t limit_ms = clock_now.now_ms + FLUSH_MS;

    if (main->table == NULL) {
        return true;
    }
    do {
        store_table_flush(main->table, NULL);
        if (store_table_waiting(main->table) == 0) {
            return true;
        }
    } while (clock_now.now_ms < limit_ms &&
             fiber_sleep(clock_now.now_ms + FLUSH_PAUSE_MS) != WAIT_CANCELLED);
    return false;
}

bool acme_sync_spread(const struct acme_main *main)
{
    if (main->table == NULL) {
        return true;
    }
    uint64_t interval_ms =
        main->http->sync.interval_ms != 0 ? main->http->sync.interval_ms : INTERVAL_MS;
    return acme_sync_flush(main) &&
           fiber_sleep(clock_now.now_ms + SPREAD * interval_ms) != WAIT_CANCELLED;
}

/* ---- the lock ---- */

static struct str lock_item(struct arena *arena, const struct acme_issuer *issuer)
{
    return arena_printf(arena, "order %.*s %.*s", STR_ARG(issuer->name), STR_ARG(issuer->uri));
}

static uint64_t lease_ms(const struct acme_issuer *issuer)
{
    return LEASE_MS + (issuer->challenge == ACME_DNS_01 ? HOOK_MS + issuer->dns_wait_ms : 0);
}

static void log_lock(struct acme_issuer *issuer, enum store_result result)
{
    if (issuer->has_logged_store) { /* there is an attempt each second */
        return;
    }
    issuer->has_logged_store = true;
    if (result == STORE_ABSENT) {
        log_notice(log_main, 0, "acme_issuer \"%.*s\": another node orders", STR_ARG(issuer->name));
    } else {
        log_error(
            log_main, 0,
            "acme_issuer \"%.*s\": the redis_store does not answer; nothing is ordered until it does",
            STR_ARG(issuer->name));
    }
}

bool acme_sync_lock(struct acme_issuer *issuer)
{
    uint64_t now_ms = clock_now.now_ms, since_ms = now_ms - issuer->leased_ms;
    struct arena arena;

    if (issuer->main->table == NULL || (issuer->leased_ms != 0 && since_ms < RENEW_MS)) {
        return true;
    }
    arena_init(&arena);
    enum store_result result =
        store_table_lease(issuer->main->table, lock_item(&arena, issuer), lease_ms(issuer));
    arena_free(&arena);
    if (result == STORE_OK) {
        issuer->leased_ms = now_ms;
        issuer->has_logged_store = false;
        return true;
    }
    if (result != STORE_ABSENT && issuer->leased_ms != 0 && since_ms < lease_ms(issuer) / 2) {
        return true; /* the lease is still valid */
    }
    issuer->leased_ms = 0;
    log_lock(issuer, result);
    return false;
}

/* The next process of this node gets the lock at once. */
void acme_sync_unlock(struct acme_issuer *issuer)
{
    struct arena arena;

    if (issuer->main->table != NULL && !fiber_is_cancelled()) {
        acme_sync_flush(issuer->main);
        arena_init(&arena);
        store_table_lease_end(issuer->main->table, lock_item(&arena, issuer));
        arena_free(&arena);
    }
    issuer->leased_ms = 0;
}

void acme_sync_fetch(struct acme_issuer *issuer)
{
    struct store_table *table = issuer->main->table;
    struct arena arena;

    if (table == NULL) {
        return;
    }
    arena_init(&arena);
    store_table_fetch(table, issuer_item(&arena, issuer));
    vec_each(struct acme_certificate *, certificate, &issuer->certificates) {
        store_table_fetch(table, certificate_item(&arena, kind_certificate, *certificate));
        store_table_fetch(table, certificate_item(&arena, kind_failure, *certificate));
    }
    arena_free(&arena);
}
