/* The process that orders: one fiber per issuer checks when its certificates are due. */
#include "base/checksum.h"
#include "base/clock.h"
#include "http/modules/clients/acme/acme.h"
/* Interval of checks of the wall clock, and of files that other processes write. */

#define LOOK_S 60
#define LOCKED_S 1         /* the same while another process has the lock */
#define RETRY_FIRST_S 30   /* after the first failure; doubled with each further one */
#define RETRY_MOST_S 21600 /* 6 hours */
/* After the rate limit of a CA that does not tell for how long. */
#define RETRY_LIMITED_S 3600
#define CLOCK_SLACK_S 5 /* tolerance for a clock that was set back */
#define SPACE_S 60      /* least time between two certificates for the same names */

/* ---- times ---- */

/* Spreads the renewals of many certificates: up to a fiftieth of the lifetime earlier. */
static int64_t jitter(const struct acme_certificate *certificate, int64_t life_s)
{
    return (int64_t) (str_hash(certificate->name) % (uint64_t) (life_s / 50 + 1));
}

int64_t acme_due(const struct acme_certificate *certificate, const struct acme_facts *facts)
{
    int64_t due_s = 0;

    if (facts->not_after != 0 && !facts->is_self_signed) {
        int64_t life_s = facts->not_after - facts->not_before;

        due_s = facts->not_before + life_s / 3 * 2 - jitter(certificate, life_s);
        if (certificate->ari_due_s != 0) {
            int64_t last_s = facts->not_after - life_s / 10;
            due_s = certificate->ari_due_s < last_s ? certificate->ari_due_s : last_s;
        }
    }
    if (facts->noted_s > (int64_t) clock_now.seconds + CLOCK_SLACK_S) {
        return due_s;
    }
    return due_s > facts->not_until_s ? due_s : facts->not_until_s;
}

static int64_t retry_s(const struct acme_facts *facts, const struct acme_problem *problem)
{
    unsigned doublings = facts->failures < 10 ? facts->failures : 10;
    int64_t wait_s = (int64_t) RETRY_FIRST_S << doublings;
    uint32_t random;

    if (problem->retry_after_s > 0) {
        return problem->retry_after_s;
    }
    if (str_is(problem->type, "rateLimited") && wait_s < RETRY_LIMITED_S) {
        wait_s = RETRY_LIMITED_S;
    }
    wait_s = wait_s < RETRY_MOST_S ? wait_s : RETRY_MOST_S;
    random_bytes(&random, sizeof(random));
    return wait_s + (int64_t) (random % (uint32_t) (wait_s / 10 + 1));
}

/* ---- one certificate ---- */

static struct acme_facts facts_of(const struct acme_certificate *certificate)
{
    return acme_facts_get(certificate->issuer->main->zone, certificate->entry);
}

static int64_t due_of(const struct acme_certificate *certificate)
{
    const struct acme_facts facts = facts_of(certificate);

    return acme_due(certificate, &facts);
}

static bool is_due(const struct acme_certificate *certificate)
{
    return due_of(certificate) <= (int64_t) clock_now.seconds;
}

static void put_off(struct acme_certificate *certificate, const struct acme_problem *problem)
{
    struct zone *zone = certificate->issuer->main->zone;
    struct acme_facts facts = facts_of(certificate);
    int64_t wait_s = retry_s(&facts, problem);

    facts.failures++;
    facts.noted_s = (int64_t) clock_now.seconds;
    facts.not_until_s = facts.noted_s + wait_s;
    acme_facts_put(zone, certificate->entry, &facts);
    acme_sync_failure(certificate);
    log_notice(log_main, 0, "acme_issuer \"%.*s\": certificate \"%.*s\" is ordered again in %llds",
               STR_ARG(certificate->issuer->name), STR_ARG(certificate->name), (long long) wait_s);
}

static void count(const struct acme_issuer *issuer, enum order_count what)
{
    atomic_fetch_add(&acme_entry_counts(issuer->account)->of[what], 1);
}

static enum order_count failure_kind(const struct acme_problem *problem)
{
    return str_is(problem->type, "rateLimited") ? ORDERS_LIMITED
           : problem->status != 0               ? ORDERS_REFUSED
                                                : ORDERS_FAILED;
}

static void space_out(struct acme_certificate *certificate)
{
    struct zone *zone = certificate->issuer->main->zone;
    struct acme_facts facts = facts_of(certificate);

    facts.noted_s = (int64_t) clock_now.seconds;
    facts.not_until_s = facts.noted_s + SPACE_S;
    acme_facts_put(zone, certificate->entry, &facts);
}

static void order_one(struct acme_session *session, struct acme_certificate *certificate)
{
    count(session->issuer, ORDERS_STARTED);
    if (acme_order(session, certificate)) {
        count(session->issuer, ORDERS_ISSUED);
        space_out(certificate);
        return;
    }
    if (fiber_is_cancelled()) {
        return;
    }
    count(session->issuer, failure_kind(&session->problem));
    if (str_is(session->problem.type, "accountDoesNotExist")) {
        acme_forget_account(session);
    } else if (str_is(session->problem.type, "unauthorized") && session->problem.status == 403) {
        log_error(log_main, 0,
                  "acme_issuer \"%.*s\": if the account was deactivated, remove account.key and "
                  "account.url from \"%.*s\" and restart for a new one",
                  STR_ARG(session->issuer->name), STR_ARG(session->issuer->state_path));
    }
    put_off(certificate, &session->problem);
}

/* ---- one check ---- */

static bool wants_renewal_time(const struct acme_certificate *certificate)
{
    const struct acme_facts facts = facts_of(certificate);
    int64_t now = (int64_t) clock_now.seconds;

    return facts.not_after != 0 && !facts.is_self_signed &&
           (certificate->ari_next_s <= now || certificate->ari_asked_s > now + CLOCK_SLACK_S);
}

static bool has_work(const struct acme_issuer *issuer)
{
    vec_each(struct acme_certificate *, certificate, &issuer->certificates) {
        if (is_due(*certificate) || wants_renewal_time(*certificate)) {
            return true;
        }
    }
    return false;
}

/* Reads files that another process has written. On the worker's own stack. */
static bool read_files(void *arg)
{
    struct acme_issuer *issuer = arg;

    vec_each(struct acme_certificate *, certificate, &issuer->certificates) {
        if (acme_state_load(*certificate, log_main)) {
            log_notice(log_main, 0,
                       "acme_issuer \"%.*s\": certificate \"%.*s\" was read from its file",
                       STR_ARG(issuer->name), STR_ARG((*certificate)->name));
            (*certificate)->ari_due_s = (*certificate)->ari_next_s = 0;
        }
        acme_state_save_shared(*certificate, log_main);
    }
    acme_state_save_account(issuer, log_main);
    return true;
}

/* Another process may have written it, too. On the worker's own stack. */
static bool read_account(void *arg)
{
    return acme_state_load_account(arg, log_main);
}

/* Reads that of the process that has the lock. On the worker's own stack. */
static bool read_challenge(void *arg)
{
    acme_state_load_challenge(arg);
    return true;
}

/* Takes the lock of the directory, for processes of this machine and those that share the
 * directory; then that of the store, for nodes. */
static bool lock(struct acme_issuer *issuer)
{
    if (!acme_state_lock(issuer, log_main)) {
        return false;
    }
    acme_state_drop_challenge(issuer);
    if (!acme_sync_lock(issuer)) {
        acme_state_unlock(issuer);
        return false;
    }
    acme_sync_fetch(issuer);
    return true;
}

static void unlock(struct acme_issuer *issuer)
{
    acme_sync_unlock(issuer);
    acme_state_unlock(issuer);
}

static void order_all(struct acme_issuer *issuer)
{
    struct acme_session session;

    acme_session_begin(&session, issuer, log_main);
    bool is_open = acme_on_main(read_account, issuer) && acme_session_open(&session);
    if (!is_open && str_is(session.problem.type, "accountDoesNotExist")) {
        acme_forget_account(&session);
    }
    const struct acme_problem problem = session.problem;
    vec_each(struct acme_certificate *, certificate, &issuer->certificates) {
        if (fiber_is_cancelled() || issuer->must_end) {
            break;
        }
        if (!is_due(*certificate)) {
            if (wants_renewal_time(*certificate)) {
                (*certificate)->ari_next_s = (int64_t) clock_now.seconds + 3600;
                if (is_open) {
                    acme_ask_renewal(&session, *certificate);
                }
            }
        } else if (is_open) {
            order_one(&session, *certificate);
        } else {
            count(issuer, ORDERS_STARTED);
            count(issuer, failure_kind(&problem));
            put_off(*certificate, &problem);
        }
    }
    acme_session_end(&session);
}

/* Returns the seconds until the next check. */
static int64_t look(struct acme_issuer *issuer)
{
    int64_t wait_s = LOOK_S;

    acme_on_main(read_files, issuer);
    if (has_work(issuer)) {
        if (!lock(issuer)) {
            acme_on_main(read_challenge, issuer);
            return LOCKED_S;
        }
        acme_on_main(read_files, issuer); /* the former owner of the lock may have written them */
        if (has_work(issuer)) {
            order_all(issuer);
        }
        unlock(issuer);
    }
    int64_t next_s = INT64_MAX;
    vec_each(struct acme_certificate *, certificate, &issuer->certificates) {
        int64_t due_s = due_of(*certificate);
        next_s = due_s < next_s ? due_s : next_s;
        int64_t left_s = wants_renewal_time(*certificate) ? 0 : due_s - (int64_t) clock_now.seconds;
        wait_s = left_s < wait_s ? left_s : wait_s;
    }
    atomic_store(&acme_entry_counts(issuer->account)->next_s, (uint64_t) next_s);
    return wait_s < 1 ? 1 : wait_s;
}

static void keep_issuer(void *arg)
{
    struct acme_issuer *issuer = arg;
    enum wait_result result =
        fiber_sleep(clock_now.now_ms + 1); /* until this process has dropped its rights */

    while (result != WAIT_CANCELLED && !issuer->must_end) {
        uint64_t wait_ms = (uint64_t) look(issuer) * 1000;
        result = issuer->must_end ? WAIT_CANCELLED
                                  : fiber_wait(&issuer->wake, clock_now.now_ms + wait_ms);
    }
    issuer->is_running = false;
}

/* ---- start and end ---- */

/* Before any fiber can start threads: a fork would copy their state at any point. */
static bool start_monitors(struct acme_main *main)
{
    vec_each(struct acme_issuer *, issuer, &main->issuers) {
        if ((*issuer)->certificates.count != 0 && !acme_monitor_start(*issuer)) {
            return false;
        }
    }
    return true;
}

bool acme_renewals_start(struct acme_main *main, bool has_monitors)
{
    if (has_monitors && !start_monitors(main)) {
        return false;
    }
    vec_each(struct acme_issuer *, issuer, &main->issuers) {
        if ((*issuer)->certificates.count == 0) {
            continue;
        }
        (*issuer)->is_running = true;
        if (fiber_start(keep_issuer, *issuer, &(*issuer)->fiber) == FIBER_NO_STACK) {
            (*issuer)->is_running = false;
            log_emerg(log_main, 0, "no fiber for acme_issuer \"%.*s\"", STR_ARG((*issuer)->name));
            return false;
        }
    }
    return true;
}

void acme_renewals_quit(struct acme_main *main, bool may_finish)
{
    vec_each(struct acme_issuer *, issuer, &main->issuers) {
        if ((*issuer)->is_running) {
            (*issuer)->must_end = true;
            if (may_finish && main->table == NULL &&
                (*issuer)->state_path.len != 0) { /* the next process waits for the lock */
                wait_signal_later(&(*issuer)->wake);
            } else {
                fiber_cancel((*issuer)->fiber);
            }
        }
    }
}

void acme_renewals_end(struct acme_main *main)
{
    vec_each(struct acme_issuer *, issuer, &main->issuers) {
        acme_monitor_end(*issuer);
    }
}
