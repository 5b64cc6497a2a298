/* The directory of an issuer: account, certificates, and a lock for the processes that share it. */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fs.h"
#include "base/parse.h"
#include "http/modules/clients/acme/acme.h"

bool acme_state_open(const struct acme_issuer *issuer, const struct log *log)
{
    if (issuer->state_path.len == 0) {
        return true;
    }
    if (!fs_make_directory(issuer->state_path.data, 0700, (uid_t) -1)) {
        log_emerg(log, errno, "mkdir() \"%s\" failed", issuer->state_path.data);
        return false;
    }
    int fd = fs_open_trusted(issuer->state_path.data, O_DIRECTORY | O_RDONLY | O_CLOEXEC, 0);
    if (fd == -1) {
        log_emerg(log, errno, "open() \"%s\" failed", issuer->state_path.data);
        return false;
    }
    bool is_shared = fs_is_shared(fd);
    close(fd);
    if (is_shared) {
        log_emerg(
            log, 0,
            "other users can write to \"%s\", which has the keys of certificates: set its mode to 0700",
            issuer->state_path.data);
    }
    return !is_shared;
}

/* ---- files ---- */

/* Is there a directory, or is it the file of the account's key, which may be anywhere? */
static bool has_file(const struct acme_issuer *issuer, struct str name)
{
    return issuer->state_path.len != 0 || str_equal(name, issuer->account_key.file);
}

int64_t acme_state_time(struct acme_issuer *issuer, struct str name)
{
    struct acme_duty duty = {.kind = ACME_FILE_TIME, .texts = {name}};

    if (has_file(issuer, name)) {
        acme_duty_run(issuer, &duty, NULL);
    }
    return duty.time_ns;
}

bool acme_state_read(struct acme_issuer *issuer, struct str name, struct arena *arena,
                     struct str *out, int64_t *time_ns)
{
    struct acme_duty duty = {.kind = ACME_FILE_READ, .texts = {name}};

    if (!has_file(issuer, name)) {
        return false;
    }
    acme_duty_run(issuer, &duty, arena);
    if (time_ns != NULL) {
        *time_ns = duty.time_ns;
    }
    if (duty.error != 0 && duty.error != ENOENT) {
        log_error(log_main, duty.error, "acme_issuer \"%.*s\": cannot read \"%.*s\"",
                  STR_ARG(issuer->name), STR_ARG(name));
    }
    *out = duty.text;
    return duty.error == 0;
}

bool acme_state_write(struct acme_issuer *issuer, struct str name, struct str text,
                      const struct log *log)
{
    struct acme_duty duty = {.kind = ACME_FILE_WRITE, .texts = {name, text}};

    if (issuer->state_path.len == 0) {
        return true;
    }
    acme_duty_run(issuer, &duty, NULL);
    if (duty.error != 0) {
        log_error(log, duty.error, "cannot write \"%.*s/%.*s\"", STR_ARG(issuer->state_path),
                  STR_ARG(name));
    }
    return duty.error == 0;
}

/* ---- the lock: released by the kernel when its process ends ---- */

bool acme_state_lock(struct acme_issuer *issuer, const struct log *log)
{
    struct acme_duty duty = {.kind = ACME_LOCK};

    if (issuer->state_path.len == 0) {
        return true;
    }
    acme_duty_run(issuer, &duty, NULL);
    if (duty.error == 0) {
        issuer->has_logged_wait = false;
        return true;
    }
    if (!issuer->has_logged_wait) { /* there is an attempt each second */
        issuer->has_logged_wait = true;
        if (duty.error == EAGAIN) {
            log_notice(log, 0,
                       "acme_issuer \"%.*s\": another process has the lock of \"%.*s\" and orders",
                       STR_ARG(issuer->name), STR_ARG(issuer->state_path));
        } else {
            log_error(log, duty.error, "acme_issuer \"%.*s\": cannot lock \"%.*s/lock\"",
                      STR_ARG(issuer->name), STR_ARG(issuer->state_path));
        }
    }
    return false;
}

void acme_state_unlock(struct acme_issuer *issuer)
{
    struct acme_duty duty = {.kind = ACME_UNLOCK};

    if (issuer->state_path.len != 0) {
        acme_duty_run(issuer, &duty, NULL);
    }
}

/* ---- copying to the zone ---- */

/* If two nodes have ordered, this selects the same certificate on all nodes. */
static bool is_newer(const struct acme_certificate *certificate, struct arena *arena,
                     const struct acme_facts *facts, const struct acme_chain *chain)
{
    struct acme_pair present;

    if (certificate->issuer->main->table == NULL || facts->is_self_signed ||
        !acme_entry_get(certificate->issuer->main->zone, certificate->entry, arena, &present)) {
        return true;
    }
    return chain->not_before != facts->not_before ? chain->not_before > facts->not_before
                                                  : str_compare(chain->pem, present.value) > 0;
}

bool acme_state_take(struct acme_certificate *certificate, struct arena *arena, struct str text,
                     const char **why)
{
    struct zone *zone = certificate->issuer->main->zone;
    EVP_PKEY *key = acme_key_read(text);
    struct acme_chain chain;
    struct acme_facts facts = acme_facts_get(zone, certificate->entry);
    struct acme_pair pair;

    *why = "it has no key";
    bool is_good = key != NULL && acme_chain_read(arena, text, key, certificate, &chain, why) &&
                   acme_key_write(key, arena, &pair.key);
    EVP_PKEY_free(key);
    if (!is_good) {
        return false;
    }
    if (!is_newer(certificate, arena, &facts, &chain)) {
        *why = NULL;
        return false;
    }
    pair.value = chain.pem;
    if (!acme_entry_put(zone, certificate->entry, &pair,
                        certificate->issuer->main->generation->number)) {
        *why = "acme_shared_zone is full: give it more memory";
        return false;
    }
    if (facts.is_self_signed || facts.not_after != chain.not_after) {
        facts.failures = 0;
        facts.not_until_s = 0;
    }
    facts.not_before = chain.not_before;
    facts.not_after = chain.not_after;
    facts.is_self_signed = false;
    acme_facts_put(zone, certificate->entry, &facts);
    return true;
}

/* Notes that the file has the same certificate as the zone. */
static void note_file(struct acme_certificate *certificate, int64_t time_ns)
{
    struct zone *zone = certificate->issuer->main->zone;
    struct acme_facts facts = acme_facts_get(zone, certificate->entry);

    facts.file_time_ns = time_ns;
    facts.file_begins_s = facts.not_before;
    acme_facts_put(zone, certificate->entry, &facts);
}

bool acme_state_load(struct acme_certificate *certificate, const struct log *log)
{
    struct zone *zone = certificate->issuer->main->zone;
    struct arena arena;
    struct str text;
    bool is_good = false;

    arena_init(&arena);
    struct str name = arena_concat(&arena, certificate->name, STR(".pem"));
    struct acme_facts facts = acme_facts_get(zone, certificate->entry);
    int64_t time_ns = acme_state_time(certificate->issuer, name);
    if (time_ns != 0 && time_ns != facts.file_time_ns && time_ns != certificate->refused_ns &&
        acme_state_read(certificate->issuer, name, &arena, &text, NULL)) {
        const char *why;

        is_good = acme_state_take(certificate, &arena, text, &why);
        certificate->refused_ns = is_good ? 0 : time_ns;
        if (is_good) {
            note_file(certificate, time_ns);
        } else if (why != NULL) {
            log_error(log, 0, "\"%.*s/%.*s.pem\" is not used: %s",
                      STR_ARG(certificate->issuer->state_path), STR_ARG(certificate->name), why);
        }
    }
    arena_free(&arena);
    return is_good;
}

void acme_state_save_shared(struct acme_certificate *certificate, const struct log *log)
{
    struct acme_issuer *issuer = certificate->issuer;
    const struct acme_facts facts = acme_facts_get(issuer->main->zone, certificate->entry);
    struct arena arena;
    struct acme_pair pair;

    if (issuer->main->table == NULL || facts.is_self_signed || facts.not_before == 0 ||
        facts.not_before == facts.file_begins_s) {
        return;
    }
    arena_init(&arena);
    struct str file = arena_concat(&arena, certificate->name, STR(".pem"));
    if (acme_entry_get(issuer->main->zone, certificate->entry, &arena, &pair)) {
        log_notice(log, 0, "acme_issuer \"%.*s\": certificate \"%.*s\" came from the store",
                   STR_ARG(issuer->name), STR_ARG(certificate->name));
        acme_state_write(issuer, file, arena_concat(&arena, pair.key, pair.value), log);
        note_file(certificate, acme_state_time(issuer, file));
        certificate->ari_due_s = certificate->ari_next_s = 0;
    }
    arena_free(&arena);
}

/* The first line of the file, if the second is the directory URL of this issuer. */
static struct str account_url(struct acme_issuer *issuer, struct arena *arena)
{
    struct str text;

    if (!acme_state_read(issuer, STR("account.url"), arena, &text, NULL)) {
        return STR("");
    }
    struct str url = str_cut(&text, '\n');
    return text.data != NULL && str_equal(str_cut(&text, '\n'), issuer->uri) ? url : STR("");
}

/* The account in the zone is that of all nodes; the files may be older. */
static bool has_shared_account(const struct acme_issuer *issuer, struct arena *arena,
                               struct acme_pair *pair)
{
    return issuer->main->table != NULL && issuer->account_key.file.len == 0 &&
           acme_entry_get(issuer->main->zone, issuer->account, arena, pair);
}

static bool write_account(struct acme_issuer *issuer, struct arena *arena,
                          const struct acme_pair *pair, const struct log *log)
{
    struct str lines =
        arena_printf(arena, "%.*s\n%.*s\n", STR_ARG(pair->value), STR_ARG(issuer->uri));

    return (issuer->account_key.file.len != 0 ||
            acme_state_write(issuer, STR("account.key"), pair->key, log)) &&
           acme_state_write(issuer, STR("account.url"), lines, log);
}

void acme_state_save_account(struct acme_issuer *issuer, const struct log *log)
{
    struct arena arena;
    struct acme_pair pair;
    struct str key;

    arena_init(&arena);
    if (has_shared_account(issuer, &arena, &pair) &&
        (!acme_state_read(issuer, STR("account.key"), &arena, &key, NULL) ||
         !str_equal(key, pair.key) || !str_equal(account_url(issuer, &arena), pair.value))) {
        write_account(issuer, &arena, &pair, log);
    }
    arena_free(&arena);
}

bool acme_state_keep_account(struct acme_issuer *issuer, const struct acme_pair *pair,
                             const struct log *log)
{
    struct arena arena;

    arena_init(&arena);
    bool is_good = write_account(issuer, &arena, pair, log);
    arena_free(&arena);
    return is_good;
}

#define UNUSABLE_KEY STR("account.key.unusable")

/* The process that orders certificates writes this file, so a malformed one must not prevent the
 * start. */
static void refuse_own_key(struct acme_issuer *issuer, struct str text, const struct log *log)
{
    log_error(log, 0,
              "acme_issuer \"%.*s\": \"%.*s/account.key\" is no key of P-256, P-384, P-521 or RSA "
              "with 2048 bits; it was renamed to %.*s, and a new account is made",
              STR_ARG(issuer->name), STR_ARG(issuer->state_path), STR_ARG(UNUSABLE_KEY));
    acme_state_write(issuer, UNUSABLE_KEY, text, log);
}

bool acme_state_load_account(struct acme_issuer *issuer, const struct log *log)
{
    struct arena arena;
    struct acme_pair pair;
    const char *file = issuer->account_key.file.data;
    bool is_good = true;

    arena_init(&arena);
    if (has_shared_account(issuer, &arena, &pair)) {
        arena_free(&arena);
        return true;
    }
    if (file != NULL) {
        is_good = acme_state_read(issuer, issuer->account_key.file, &arena, &pair.key, NULL);
        if (!is_good) {
            log_emerg(log, 0, "the account key \"%s\" cannot be read", file);
        }
    } else if (!acme_state_read(issuer, STR("account.key"), &arena, &pair.key, NULL)) {
        arena_free(&arena);
        return true; /* it will be made with the account */
    }
    if (is_good) {
        EVP_PKEY *key = acme_key_read(pair.key);

        is_good = key != NULL && acme_key_fits(key);
        EVP_PKEY_free(key);
        if (!is_good && file == NULL) {
            refuse_own_key(issuer, pair.key, log);
            arena_free(&arena);
            return true;
        }
        if (!is_good) {
            log_emerg(
                log, 0,
                "the account key of acme_issuer \"%.*s\" is none of P-256, P-384, P-521 or RSA "
                "with 2048 bits",
                STR_ARG(issuer->name));
        }
    }
    if (is_good) {
        pair.value = account_url(issuer, &arena);
        is_good = acme_entry_put(issuer->main->zone, issuer->account, &pair,
                                 issuer->main->generation->number);
    }
    arena_free(&arena);
    return is_good;
}

/* ---- the open challenge ---- */

#define CHALLENGE_FILE STR("challenge")
#define CHALLENGE_TIME_S 600 /* longer than an authorization may take (order.c) */

/* Format: "TYPE NAME UNTIL KEY-SIZE" in a line, then key and value. */
void acme_state_keep_challenge(struct acme_issuer *issuer, enum acme_challenge_type type,
                               struct str name, const struct acme_pair *pair)
{
    struct arena arena;
    struct str text = STR("");

    arena_init(&arena);
    if (pair != NULL) {
        text = arena_printf(&arena, "%u %.*s %lld %zu\n%.*s%.*s", (unsigned) type, STR_ARG(name),
                            (long long) clock_now.seconds + CHALLENGE_TIME_S, pair->key.len,
                            STR_ARG(pair->key), STR_ARG(pair->value));
    }
    acme_state_write(issuer, CHALLENGE_FILE, text, log_main);
    arena_free(&arena);
}

void acme_state_drop_challenge(struct acme_issuer *issuer)
{
    const struct acme_foreign_challenge *foreign = &issuer->foreign;

    if (foreign->size != 0) {
        acme_challenge_remove(issuer->main->zone, (enum acme_challenge_type) foreign->type,
                              (struct str){foreign->name, foreign->size});
        issuer->foreign.size = 0;
    }
}

/* Processes with the same zone may have the same challenge in it, so it is replaced without a
 * gap. */
static void take_foreign(struct acme_issuer *issuer, unsigned type, struct str name,
                         const struct acme_pair *pair)
{
    struct acme_foreign_challenge *foreign = &issuer->foreign;

    if (foreign->type != type || !str_equal((struct str){foreign->name, foreign->size}, name)) {
        acme_state_drop_challenge(issuer);
    }
    if (acme_challenge_put(issuer->main->zone, (enum acme_challenge_type) type, name, pair)) {
        foreign->type = type;
        foreign->size = name.len;
        memcpy(foreign->name, name.data, name.len);
    }
}

void acme_state_load_challenge(struct acme_issuer *issuer)
{
    struct arena arena;
    struct str text = STR_NONE;
    uint64_t type = 0, until = 0, size = 0;

    arena_init(&arena);
    if (acme_state_read(issuer, CHALLENGE_FILE, &arena, &text, NULL)) {
        struct str line = text.len != 0 ? str_cut(&text, '\n') : STR("");
        bool is_good = parse_uint(str_cut(&line, ' '), &type) && type <= ACME_TLS_ALPN_01;
        struct str name = str_cut(&line, ' ');

        if (is_good && name.len != 0 && name.len <= ACME_CHALLENGE_NAME_MAX &&
            parse_uint(str_cut(&line, ' '), &until) && parse_uint(line, &size) &&
            size <= text.len && until > (uint64_t) clock_now.seconds) {
            take_foreign(issuer, (unsigned) type, name,
                         &(const struct acme_pair){str_head(text, size), str_skip(text, size)});
        } else {
            acme_state_drop_challenge(issuer);
        }
    }
    arena_free(&arena);
}
