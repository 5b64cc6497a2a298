/* The directory of a CA, an account, and signed requests (RFC 8555, 6 and 7). */
#include "base/clock.h"
#include "http/modules/clients/acme/acme.h"

#define NONCE_TRIES 8 /* attempts of a request whose nonce is rejected */
#define SHOWN 300     /* bytes of a CA's text that are logged */

/* ---- steps on the worker's own stack ---- */

struct step {
    bool (*run)(void *arg);
    void *arg;
    bool result;
};

static void run_step(void *arg)
{
    struct step *step = arg;

    step->result = step->run(step->arg);
}

bool acme_on_main(bool (*run)(void *arg), void *arg)
{
    struct step step = {run, arg, false};

    fiber_call_on_main(run_step, &step);
    return step.result;
}

/* ---- responses ---- */

static void answer_drop(struct acme_session *session)
{
    json_decref(session->answer);
    session->answer = NULL;
}

static bool read_object(void *arg)
{
    struct acme_session *session = arg;

    session->answer = jose_object(session->got.body);
    return session->answer != NULL;
}

/* Prepares text of the CA for the log, where it must not be mistaken for something else. */
static struct str shown(struct arena *arena, struct str text)
{
    struct str head = arena_dup(arena, str_head(text, SHOWN));

    for (size_t i = 0; i < head.len; i++) {
        unsigned char c = (unsigned char) head.data[i];
        if (c < ' ' || c >= 127) {
            ((char *) (uintptr_t) head.data)[i] = '?';
        }
    }
    return head;
}

static void take_problem(struct acme_session *session)
{
    static const struct str prefix = STR_INIT("urn:ietf:params:acme:error:");
    struct str type = jose_string(session->answer, "type");

    session->problem.status = session->got.status;
    session->problem.type =
        shown(&session->arena, str_starts(type, prefix) ? str_skip(type, prefix.len) : type);
    session->problem.detail = shown(&session->arena, jose_string(session->answer, "detail"));
    session->problem.retry_after_s =
        acme_retry_after(session->got.retry_after, (int64_t) clock_now.seconds);
}

static bool refuse(struct acme_session *session, struct str url)
{
    const struct acme_problem *problem = &session->problem;

    log_error(session->log, 0, "acme_issuer \"%.*s\": the CA answered \"%.*s\" with %u%s%.*s%s%.*s",
              STR_ARG(session->issuer->name), STR_ARG(url), problem->status,
              problem->type.len != 0 ? " " : "", STR_ARG(problem->type),
              problem->detail.len != 0 ? ": " : "", STR_ARG(problem->detail));
    return false;
}

/* Frees the data of the previous request. */
static void forget_call(struct acme_session *session)
{
    answer_drop(session);
    session->problem = (struct acme_problem){.status = 0};
    session->got = (struct acme_answer){.status = 0};
    arena_free(&session->call_arena);
}

/* Call forget_call before. */
static bool call(struct acme_session *session, struct acme_call *call)
{
    if (!acme_fetch(session->issuer, &session->call_arena, call)) {
        return false;
    }
    session->got = call->answer;
    if (call->answer.nonce.len != 0) {
        session->nonce = arena_dup(&session->arena, call->answer.nonce);
    }
    if (session->got.body.len != 0 && session->got.body.data[0] == '{') {
        acme_on_main(read_object, session);
    }
    if (session->got.status / 100 != 2) {
        take_problem(session);
        return false;
    }
    return true;
}

bool acme_get(struct acme_session *session, struct str url)
{
    struct acme_call get = {.url = url, .method = "GET", .accept = "application/json"};

    forget_call(session);
    if (!call(session, &get)) {
        return session->problem.status != 0 ? refuse(session, url) : false;
    }
    if (session->answer == NULL) {
        log_error(session->log, 0, "acme_issuer \"%.*s\": \"%.*s\" gave no object of JSON",
                  STR_ARG(session->issuer->name), STR_ARG(url));
        return false;
    }
    return true;
}

/* ---- signed requests ---- */

static bool renew_nonce(struct acme_session *session)
{
    struct acme_call head = {.url = session->new_nonce, .method = "HEAD"};

    forget_call(session);
    if (!call(session, &head)) {
        return session->problem.status != 0 ? refuse(session, session->new_nonce) : false;
    }
    if (session->nonce.len == 0) {
        log_error(session->log, 0, "acme_issuer \"%.*s\": \"%.*s\" gave no nonce",
                  STR_ARG(session->issuer->name), STR_ARG(session->new_nonce));
    }
    return session->nonce.len != 0;
}

struct signing {
    struct arena *arena;
    struct acme_jws jws;
    struct str out;
};

static bool make_jws(void *arg)
{
    struct signing *signing = arg;

    return acme_jws_make(signing->arena, &signing->jws, &signing->out);
}

/* One attempt, which uses a nonce. */
static bool post_once(struct acme_session *session, struct str url, struct str payload,
                      const char *accept)
{
    struct signing signing = {
        .arena = &session->call_arena,
        .jws = {.key = session->key,
                .url = url,
                .nonce = session->nonce,
                .kid = session->kid,
                .jwk = session->jwk,
                .payload = payload},
    };

    forget_call(session);
    session->nonce = STR("");
    if (!acme_on_main(make_jws, &signing)) {
        log_error(session->log, 0, "acme_issuer \"%.*s\": OpenSSL cannot sign a request",
                  STR_ARG(session->issuer->name));
        return false;
    }
    struct acme_call post = {.url = url,
                             .method = "POST",
                             .body = signing.out,
                             .content_type = "application/jose+json",
                             .accept = accept};
    return call(session, &post);
}

bool acme_post(struct acme_session *session, struct str url, struct str payload, const char *accept)
{
    if (!acme_sync_lock(session->issuer)) {
        return false;
    }
    for (unsigned i = 0; i < NONCE_TRIES; i++) {
        if (session->nonce.len == 0 && !renew_nonce(session)) {
            return false;
        }
        if (post_once(session, url, payload, accept)) {
            return true;
        }
        if (!str_is(session->problem.type, "badNonce")) {
            break;
        }
    }
    return session->problem.status != 0 ? refuse(session, url) : false;
}

/* ---- the directory ---- */

bool acme_directory_read(struct acme_session *session)
{
    const json_t *meta = json_object_get(session->directory, "meta");
    session->new_nonce = acme_url_of(&session->arena, session->directory, "newNonce");
    session->new_account = acme_url_of(&session->arena, session->directory, "newAccount");
    session->new_order = acme_url_of(&session->arena, session->directory, "newOrder");
    session->renewal_info = acme_url_of(&session->arena, session->directory, "renewalInfo");
    session->terms = shown(&session->arena, jose_string(meta, "termsOfService"));
    session->needs_external = json_is_true(json_object_get(meta, "externalAccountRequired"));
    session->profiles = json_object_get(meta, "profiles");
    return session->new_nonce.len != 0 && session->new_account.len != 0 &&
           session->new_order.len != 0;
}

static bool open_directory(struct acme_session *session)
{
    if (!acme_get(session, session->issuer->uri)) {
        return false;
    }
    session->directory = session->answer;
    session->answer = NULL;
    if (!acme_directory_read(session)) {
        log_error(session->log, 0,
                  "acme_issuer \"%.*s\": \"%.*s\" is not the directory of an ACME server",
                  STR_ARG(session->issuer->name), STR_ARG(session->issuer->uri));
        return false;
    }
    return true;
}

/* ---- the account's key ---- */

/* Uses the file of the configuration, an existing key, or a new one. */
static EVP_PKEY *find_key(struct acme_session *session)
{
    struct acme_issuer *issuer = session->issuer;
    struct acme_pair pair;

    if (acme_entry_get(issuer->main->zone, issuer->account, &session->arena, &pair)) {
        session->kid = pair.value;
        session->key_pem = pair.key;
        return acme_key_read(pair.key);
    }
    EVP_PKEY *key = acme_key_new(&issuer->account_key);
    if (key != NULL && !acme_key_write(key, &session->arena, &session->key_pem)) {
        EVP_PKEY_free(key);
        key = NULL;
    }
    return key;
}

static bool open_key(void *arg)
{
    struct acme_session *session = arg;

    session->key = find_key(session);
    if (session->key == NULL || !acme_key_fits(session->key) ||
        !acme_jwk(&session->arena, session->key, &session->jwk)) {
        return false;
    }
    session->thumbprint = acme_thumbprint(&session->arena, session->jwk);
    return true;
}

/* Writes the account to the zone and to files. The URL belongs to this CA only. */
static bool keep_account(struct acme_session *session)
{
    struct acme_issuer *issuer = session->issuer;
    const struct acme_pair pair = {.key = session->key_pem, .value = session->kid};

    if (!acme_entry_put(issuer->main->zone, issuer->account, &pair,
                        issuer->main->generation->number)) {
        log_error(session->log, 0, "acme_shared_zone \"%.*s\" is full: give it more memory",
                  STR_ARG(issuer->main->zone->name));
        return false;
    }
    acme_sync_account(issuer);
    return acme_state_keep_account(issuer, &pair, session->log);
}

void acme_forget_account(struct acme_session *session)
{
    session->kid = STR("");
    keep_account(session);
}

/* ---- the account ---- */

/* RFC 8555, 7.3.4: the account's key, signed with a key that the CA has provided outside of
 * ACME. */
static bool bind_external(struct acme_session *session, struct str *out)
{
    const struct acme_issuer *issuer = session->issuer;
    struct signing signing = {
        .arena = &session->arena,
        .jws = {.secret = issuer->external_key,
                .url = session->new_account,
                .kid = issuer->external_kid,
                .payload = session->jwk},
    };

    if (!acme_on_main(make_jws, &signing)) {
        return false;
    }
    *out = arena_concat(&session->arena, STR(",\"externalAccountBinding\":"), signing.out);
    return true;
}

static struct str contacts(struct acme_session *session)
{
    struct buf out = {0};

    vec_each(const struct str, contact, &session->issuer->contacts) {
        buf_printf(&out, "%s\"%.*s\"", out.len == 0 ? ",\"contact\":[" : ",", STR_ARG(*contact));
    }
    if (out.len != 0) {
        buf_append_char(&out, ']');
    }
    struct str text = arena_dup(&session->arena, buf_str(&out));
    buf_free(&out);
    return text;
}

static bool make_account(struct acme_session *session)
{
    const struct acme_issuer *issuer = session->issuer;
    struct str binding = STR("");
    struct acme_url url;

    if (session->terms.len != 0 && !issuer->accepts_terms) {
        log_error(session->log, 0,
                  "acme_issuer \"%.*s\": the CA has terms of service, %.*s: read them and add "
                  "\"accept_terms_of_service\"",
                  STR_ARG(issuer->name), STR_ARG(session->terms));
        return false;
    }
    if (session->needs_external && issuer->external_key.len == 0) {
        log_error(session->log, 0,
                  "acme_issuer \"%.*s\": the CA wants an account of its own bound to this one: add "
                  "\"external_account_key\"",
                  STR_ARG(issuer->name));
        return false;
    }
    if (issuer->external_key.len != 0 && !bind_external(session, &binding)) {
        return false;
    }
    struct str listed = contacts(session);
    struct str payload =
        arena_printf(&session->arena, "{\"termsOfServiceAgreed\":%s%.*s%.*s}",
                     issuer->accepts_terms ? "true" : "false", STR_ARG(listed), STR_ARG(binding));
    if (!acme_post(session, session->new_account, payload, NULL)) {
        return false;
    }
    if (!acme_url_parse(session->got.location, false, &url)) {
        log_error(session->log, 0, "acme_issuer \"%.*s\": the CA gave the account no URL",
                  STR_ARG(issuer->name));
        return false;
    }
    session->kid = arena_dup(&session->arena, session->got.location);
    log_notice(session->log, 0, "acme_issuer \"%.*s\": the account is \"%.*s\"",
               STR_ARG(issuer->name), STR_ARG(session->kid));
    return keep_account(session);
}

/* Checks the account URL, since that from a file may be anything. */
static bool has_account(const struct acme_session *session)
{
    struct acme_url url;

    return session->kid.len != 0 && acme_url_parse(session->kid, false, &url);
}

void acme_session_begin(struct acme_session *session, struct acme_issuer *issuer,
                        const struct log *log)
{
    *session = (struct acme_session){.issuer = issuer, .log = log};
    arena_init(&session->arena);
    arena_init(&session->call_arena);
}

bool acme_session_open(struct acme_session *session)
{
    if (!open_directory(session)) {
        return false;
    }
    if (!acme_on_main(open_key, session)) {
        log_error(session->log, 0, "acme_issuer \"%.*s\": the account's key cannot be used",
                  STR_ARG(session->issuer->name));
        return false;
    }
    if (has_account(session)) {
        return true;
    }
    session->kid = STR("");
    return make_account(session);
}

void acme_session_end(struct acme_session *session)
{
    json_decref(session->answer);
    json_decref(session->directory);
    EVP_PKEY_free(session->key);
    arena_free(&session->call_arena);
    arena_free(&session->arena);
}
