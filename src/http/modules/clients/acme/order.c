/* One order (RFC 8555, 7.4): challenges, the certificate request, the certificate. */
#include "base/checksum.h"
#include "base/clock.h"
#include "http/modules/clients/acme/acme.h"

#define POLL_FIRST_S 1
#define POLL_MOST_S 30
#define POLL_TIME_MS 300000 /* time limit for one authorization, and for the certificate */

const char *const acme_challenge_names[] = {
    [ACME_HTTP_01] = "http-01",
    [ACME_TLS_ALPN_01] = "tls-alpn-01",
    [ACME_DNS_01] = "dns-01",
    [ACME_DNS_PERSIST_01] = "dns-persist-01",
};

/* An order in progress. */
struct order {
    struct acme_session *session;
    struct acme_certificate *certificate;
    struct arena *arena;
    struct acme_order_urls urls;
    struct str download;
    EVP_PKEY *key;
    struct acme_pair pair;
    struct acme_chain chain;
    struct str text; /* a chain to parse */
    const char *why;
};

/* The authorization of one identifier. */
struct authorization {
    struct order *order;
    struct str url;
    struct acme_authorization wanted;
    struct str answer;
    struct str zone_name;      /* key of the answer in the zone; or empty */
    struct acme_record record; /* for dns-01 */
};

static bool order_fail(struct order *order, const char *why)
{
    log_error(order->session->log, 0, "acme_issuer \"%.*s\", certificate \"%.*s\": %s",
              STR_ARG(order->session->issuer->name), STR_ARG(order->certificate->name), why);
    return false;
}

static struct str status_of(const struct acme_session *session)
{
    return jose_string(session->answer, "status");
}

/* ---- waiting for a status ---- */

/* False: the fiber was cancelled. */
static bool pause_s(int64_t seconds)
{
    return fiber_sleep(clock_now.now_ms + (uint64_t) seconds * 1000) != WAIT_CANCELLED;
}

/* Requests an object until it has a status other than these two. False: it failed, or the status
 * did not change in time. MAY WAIT. */
static bool poll(struct order *order, struct str url, const char *status, const char *other)
{
    struct acme_session *session = order->session;
    uint64_t limit_ms = clock_now.now_ms + POLL_TIME_MS;
    int64_t wait_s = POLL_FIRST_S;

    while (clock_now.now_ms < limit_ms) {
        if (!acme_post(session, url, STR(""), NULL)) {
            return false;
        }
        if (session->answer == NULL) {
            return order_fail(order, "the CA sent no object of JSON");
        }
        if (!str_is(status_of(session), status) && !str_is(status_of(session), other)) {
            return true;
        }
        int64_t wanted_s = acme_retry_after(session->got.retry_after, (int64_t) clock_now.seconds);
        wanted_s = wanted_s < wait_s ? wait_s : wanted_s > POLL_MOST_S ? POLL_MOST_S : wanted_s;
        if (!pause_s(wanted_s)) {
            return false;
        }
        wait_s = wait_s * 2 > POLL_MOST_S ? POLL_MOST_S : wait_s * 2;
    }
    return order_fail(order, "the CA did not decide in time");
}

/* ---- challenges ---- */

/* Makes "1.2.0.192.in-addr.arpa" (RFC 8738, 6), which clients send as SNI. */
static struct str reverse_name(struct arena *arena, struct str ip)
{
    struct addr addr;

    if (!addr_parse_ip(ip, &addr)) {
        return ip;
    }
    if (addr.any.sa_family == AF_INET) {
        const unsigned char *b = (const unsigned char *) &addr.v4.sin_addr;
        return arena_printf(arena, "%u.%u.%u.%u.in-addr.arpa", b[3], b[2], b[1], b[0]);
    }
    struct str text = STR("");
    for (int i = 15; i >= 0; i--) {
        unsigned byte = addr.v6.sin6_addr.s6_addr[i];
        text = arena_printf(arena, "%.*s%x.%x.", STR_ARG(text), byte & 15, byte >> 4);
    }
    return arena_concat(arena, text, STR("ip6.arpa"));
}

struct alpn_making {
    struct authorization *authorization;
    struct acme_pair pair;
};

static bool make_alpn(void *arg)
{
    struct alpn_making *making = arg;
    struct authorization *a = making->authorization;

    return acme_alpn_certificate(a->order->arena, &a->wanted.identifier, a->answer, &making->pair);
}

static bool put_in_zone(struct authorization *a, enum acme_challenge_type type, struct str name,
                        const struct acme_pair *pair)
{
    struct zone *zone = a->order->session->issuer->main->zone;

    if (!acme_challenge_put(zone, type, name, pair)) {
        return order_fail(a->order, "acme_shared_zone has no room for a challenge");
    }
    a->zone_name = name;
    acme_state_keep_challenge(a->order->session->issuer, type, name, pair);
    acme_sync_challenge(a->order->session->issuer->main, type, name);
    return acme_sync_spread(a->order->session->issuer->main) ||
           order_fail(a->order, "the store did not take the answer to a challenge in time, so that "
                                "other nodes cannot give it");
}

static bool answer_alpn(struct authorization *a)
{
    struct alpn_making making = {.authorization = a};
    struct str name = a->wanted.identifier.is_ip
                          ? reverse_name(a->order->arena, a->wanted.identifier.value)
                          : a->wanted.identifier.value;

    return acme_on_main(make_alpn, &making) && put_in_zone(a, ACME_TLS_ALPN_01, name, &making.pair);
}

static bool answer_dns(struct authorization *a)
{
    struct acme_issuer *issuer = a->order->session->issuer;
    struct arena *arena = a->order->arena;
    const struct acme_record record = {
        .name = arena_concat(arena, STR("_acme-challenge."), a->wanted.identifier.value),
        .value = acme_digest_text(arena, a->answer),
    };

    if (!acme_hook_run(issuer, arena, "add", &record, a->order->session->log)) {
        return false;
    }
    a->record = record;
    return fiber_sleep(clock_now.now_ms + issuer->dns_wait_ms) != WAIT_CANCELLED;
}

/* The owner manages this record, which is permanent; the log tells its contents. */
static bool tell_record(const struct authorization *a)
{
    const struct acme_session *session = a->order->session;

    log_notice(session->log, 0,
               "acme_issuer \"%.*s\" looks for the record _validation-persist.%.*s. IN TXT "
               "\"%.*s; accounturi=%.*s%s\"",
               STR_ARG(session->issuer->name), STR_ARG(a->wanted.identifier.value),
               STR_ARG(a->wanted.domain), STR_ARG(session->kid),
               a->wanted.is_wildcard ? "; policy=wildcard" : "");
    return true;
}

static bool answer_challenge(struct authorization *a)
{
    struct acme_pair pair = {.key = STR(""), .value = a->answer};

    switch (a->order->session->issuer->challenge) {
    case ACME_HTTP_01:
        return put_in_zone(a, ACME_HTTP_01, a->wanted.token, &pair);
    case ACME_TLS_ALPN_01:
        return answer_alpn(a);
    case ACME_DNS_01:
        return answer_dns(a);
    default:
        return tell_record(a);
    }
}

static void take_back(struct authorization *a)
{
    const struct acme_session *session = a->order->session;

    if (a->zone_name.len != 0) {
        acme_challenge_remove(session->issuer->main->zone, session->issuer->challenge,
                              a->zone_name);
        acme_state_keep_challenge(session->issuer, session->issuer->challenge, a->zone_name, NULL);
        acme_sync_challenge(session->issuer->main, session->issuer->challenge, a->zone_name);
    }
    if (a->record.name.len != 0) {
        acme_hook_run(session->issuer, a->order->arena, "remove", &a->record, session->log);
    }
}

/* ---- authorizations ---- */

/* Parses the session's answer. False: logged. */
static bool read_authorization(struct authorization *a)
{
    struct acme_session *session = a->order->session;
    unsigned type = session->issuer->challenge;
    const char *why = acme_authorization_read(a->order->arena, session->answer,
                                              a->order->certificate, type, &a->wanted);

    if (why != NULL) {
        log_error(session->log, 0, "acme_issuer \"%.*s\", certificate \"%.*s\", challenge %s: %s",
                  STR_ARG(session->issuer->name), STR_ARG(a->order->certificate->name),
                  acme_challenge_names[type], why);
        return false;
    }
    const struct str parts[] = {a->wanted.token, STR("."), session->thumbprint};
    a->answer = arena_join(a->order->arena, parts, 3);
    return true;
}

/* Logs why the CA rejected an answer, from the error of the challenge. */
static bool tell_invalid(struct authorization *a)
{
    struct acme_session *session = a->order->session;
    const char *type = acme_challenge_names[session->issuer->challenge];
    const json_t *challenge = acme_find_challenge(session->answer, session->issuer->challenge);
    const json_t *error = json_object_get(challenge, "error");
    struct str detail = arena_dup(a->order->arena, str_head(jose_string(error, "detail"), 300));

    for (size_t i = 0; i < detail.len; i++) {
        if ((unsigned char) detail.data[i] < ' ' || (unsigned char) detail.data[i] >= 127) {
            ((char *) (uintptr_t) detail.data)[i] = '?';
        }
    }
    log_error(session->log, 0, "acme_issuer \"%.*s\": the challenge %s for \"%.*s\" failed%s%.*s",
              STR_ARG(session->issuer->name), type, STR_ARG(a->wanted.identifier.value),
              detail.len != 0 ? ": " : "", STR_ARG(detail));
    return false;
}

static bool authorize(struct authorization *a)
{
    struct acme_session *session = a->order->session;

    if (!acme_post(session, a->url, STR(""), NULL)) {
        return false;
    }
    if (session->answer == NULL) {
        return order_fail(a->order, "the CA sent no object of JSON");
    }
    if (str_is(status_of(session), "valid")) {
        return true;
    }
    if (!read_authorization(a) || !answer_challenge(a)) {
        return false;
    }
    if (!acme_post(session, a->wanted.challenge_url, STR("{}"), NULL) ||
        !poll(a->order, a->url, "pending", "processing")) {
        return false;
    }
    return str_is(status_of(session), "valid") || tell_invalid(a);
}

static bool authorize_all(struct order *order)
{
    vec_each(const struct str, url, &order->urls.authorizations) {
        struct authorization a = {.order = order, .url = *url};
        bool is_good = authorize(&a);

        take_back(&a);
        if (!is_good) {
            return false;
        }
    }
    return true;
}

/* ---- the order ---- */

/* "replaces" (RFC 9773, 5): the CA may have other limits for renewals. */
static struct str replaced(struct order *order)
{
    struct acme_session *session = order->session;
    struct zone *zone = session->issuer->main->zone;
    struct acme_facts facts = acme_facts_get(zone, order->certificate->entry);

    if (session->renewal_info.len == 0 || facts.is_self_signed || order->chain.id.len == 0) {
        return STR("");
    }
    return arena_printf(order->arena, ",\"replaces\":\"%.*s\"", STR_ARG(order->chain.id));
}

/* False: the profile is required, and the CA does not offer it. */
static bool profile_of(struct order *order, struct str *out)
{
    const struct acme_issuer *issuer = order->session->issuer;

    *out = STR("");
    if (issuer->profile.len == 0) {
        return true;
    }
    if (json_object_getn(order->session->profiles, issuer->profile.data, issuer->profile.len) !=
        NULL) {
        *out = arena_printf(order->arena, ",\"profile\":\"%.*s\"", STR_ARG(issuer->profile));
        return true;
    }
    log_at(order->session->log, issuer->needs_profile ? LOG_ERROR : LOG_WARN, 0,
           "acme_issuer \"%.*s\": the CA has no profile \"%.*s\"", STR_ARG(issuer->name),
           STR_ARG(issuer->profile));
    return !issuer->needs_profile;
}

static struct str identifiers_text(struct order *order)
{
    struct buf out = {0};

    vec_each(const struct acme_identifier, one, &order->certificate->identifiers) {
        buf_printf(&out, "%s{\"type\":\"%s\",\"value\":\"%.*s\"}", out.len == 0 ? "" : ",",
                   one->is_ip ? "ip" : "dns", STR_ARG(one->value));
    }
    struct str text = arena_dup(order->arena, buf_str(&out));
    buf_free(&out);
    return text;
}

/* Repeats the order without "replaces" if the CA rejects that. */
static bool post_order(struct order *order)
{
    struct acme_session *session = order->session;
    struct str profile, names = identifiers_text(order), former = replaced(order);

    if (!profile_of(order, &profile)) {
        return false;
    }
    struct str payload = arena_printf(order->arena, "{\"identifiers\":[%.*s]%.*s%.*s}",
                                      STR_ARG(names), STR_ARG(profile), STR_ARG(former));
    bool is_good = acme_post(session, session->new_order, payload, NULL);
    if (!is_good && former.len != 0 &&
        (str_is(session->problem.type, "alreadyReplaced") ||
         str_is(session->problem.type, "malformed") || session->problem.status == 409)) {
        payload = arena_printf(order->arena, "{\"identifiers\":[%.*s]%.*s}", STR_ARG(names),
                               STR_ARG(profile));
        is_good = acme_post(session, session->new_order, payload, NULL);
    }
    return is_good &&
           (acme_order_read(order->arena, session->answer, session->got.location, &order->urls) ||
            order_fail(order, "the CA sent a malformed order"));
}

/* ---- the certificate ---- */

static bool make_request(void *arg)
{
    struct order *order = arg;

    order->key = acme_key_new(&order->certificate->key);
    return order->key != NULL && acme_key_write(order->key, order->arena, &order->pair.key) &&
           acme_request(order->arena, order->certificate, order->key, &order->text);
}

static bool finalize(struct order *order)
{
    struct acme_session *session = order->session;

    if (!acme_on_main(make_request, order)) {
        return order_fail(order, "OpenSSL cannot make the request");
    }
    struct str payload = arena_printf(order->arena, "{\"csr\":\"%.*s\"}", STR_ARG(order->text));
    if (!acme_post(session, order->urls.finalize, payload, NULL) ||
        !poll(order, order->urls.order, "processing", "ready")) {
        return false;
    }
    if (!str_is(status_of(session), "valid")) {
        return order_fail(order, "the CA did not issue the certificate");
    }
    order->download = acme_url_of(&session->arena, session->answer, "certificate");
    return order->download.len != 0 || order_fail(order, "the CA names no certificate");
}

static bool read_chain(void *arg)
{
    struct order *order = arg;

    return acme_chain_read(order->arena, order->text, order->key, order->certificate, &order->chain,
                           &order->why);
}

static bool fetch_chain(struct order *order, struct str url)
{
    struct acme_session *session = order->session;

    if (!acme_post(session, url, STR(""), "application/pem-certificate-chain")) {
        return false;
    }
    order->text = session->got.body;
    return acme_on_main(read_chain, order) ||
           order_fail(order,
                      arena_cstr(order->arena,
                                 arena_concat(order->arena, STR("the CA's chain is not used: "),
                                              str_of(order->why))));
}

/* Selects an alternate chain of the CA that ends at the preferred issuer, if there is one. */
static void prefer_chain(struct order *order)
{
    const struct acme_answer *got = &order->session->got;
    const struct acme_chain kept = order->chain;
    struct str wanted = order->session->issuer->preferred_chain;
    struct str alternates[ACME_CHAIN_MAX];
    unsigned count = got->alternate_count;

    if (wanted.len == 0 || str_equal(kept.top_issuer, wanted)) {
        return;
    }
    for (unsigned i = 0; i < count; i++) {
        alternates[i] = arena_dup(order->arena, got->alternates[i]);
    }
    for (unsigned i = 0; i < count; i++) {
        if (fetch_chain(order, alternates[i]) && str_equal(order->chain.top_issuer, wanted)) {
            return;
        }
    }
    log_warn(
        order->session->log, 0,
        "acme_issuer \"%.*s\": the CA has no chain of \"%.*s\" for \"%.*s\"; its first is used",
        STR_ARG(order->session->issuer->name), STR_ARG(wanted), STR_ARG(order->certificate->name));
    order->chain = kept;
}

/* Writes the file first, so that a certificate that is in use survives a restart. */
static bool keep(struct order *order)
{
    struct acme_certificate *certificate = order->certificate;
    struct acme_issuer *issuer = certificate->issuer;
    struct zone *zone = issuer->main->zone;
    struct str file = arena_concat(order->arena, certificate->name, STR(".pem"));
    struct acme_facts facts = {.not_before = order->chain.not_before,
                               .not_after = order->chain.not_after};

    if (order->chain.not_after <= (int64_t) clock_now.seconds) {
        return order_fail(order,
                          "the certificate has expired already, by the clock of this machine");
    }
    order->pair.value = order->chain.pem;
    bool is_kept = acme_state_write(issuer, file,
                                    arena_concat(order->arena, order->pair.key, order->pair.value),
                                    order->session->log);
    facts.file_time_ns = acme_state_time(issuer, file);
    facts.file_begins_s = facts.not_before;
    if (!acme_entry_put(zone, certificate->entry, &order->pair, issuer->main->generation->number)) {
        return order_fail(order, "acme_shared_zone is full: give it more memory");
    }
    acme_facts_put(zone, certificate->entry, &facts);
    acme_sync_certificate(certificate);
    certificate->ari_due_s = certificate->ari_next_s = 0;
    log_notice(order->session->log, 0, "acme_issuer \"%.*s\": certificate \"%.*s\" was issued%s",
               STR_ARG(issuer->name), STR_ARG(certificate->name),
               is_kept ? "" : ", but is lost with a restart");
    return true;
}

/* ---- the current certificate ---- */

static bool read_present(void *arg)
{
    struct order *order = arg;
    EVP_PKEY *key = acme_key_read(order->pair.key);

    order->text = order->pair.value;
    bool is_good = key != NULL && acme_chain_read(order->arena, order->text, key,
                                                  order->certificate, &order->chain, &order->why);
    EVP_PKEY_free(key);
    return is_good;
}

/* Gets the identifier of the certificate that is to be replaced. */
static bool find_present(struct order *order)
{
    return acme_entry_get(order->session->issuer->main->zone, order->certificate->entry,
                          order->arena, &order->pair) &&
           acme_on_main(read_present, order);
}

bool acme_order(struct acme_session *session, struct acme_certificate *certificate)
{
    struct order order = {.session = session, .certificate = certificate, .arena = &session->arena};

    find_present(&order);
    bool is_good = post_order(&order) && authorize_all(&order) && finalize(&order) &&
                   fetch_chain(&order, order.download);
    if (is_good) {
        prefer_chain(&order);
        is_good = keep(&order);
    }
    EVP_PKEY_free(order.key);
    return is_good;
}

/* ---- renewal information (RFC 9773) ---- */

void acme_ask_renewal(struct acme_session *session, struct acme_certificate *certificate)
{
    struct order order = {.session = session, .certificate = certificate, .arena = &session->arena};
    int64_t now = (int64_t) clock_now.seconds;
    int64_t start, end;
    uint64_t random;

    certificate->ari_asked_s = now;
    certificate->ari_next_s = now + 6 * 3600;
    if (session->renewal_info.len == 0 || !find_present(&order) || order.chain.id.len == 0) {
        return;
    }
    const struct str parts[] = {session->renewal_info, STR("/"), order.chain.id};
    if (!acme_get(session, arena_join(order.arena, parts, 3))) {
        return;
    }
    int64_t wait_s = acme_retry_after(session->got.retry_after, now);
    if (wait_s > 0) {
        certificate->ari_next_s = now + (wait_s < 60 ? 60 : wait_s > 86400 ? 86400 : wait_s);
    }
    if (!acme_window_read(session->answer, &start, &end)) {
        order_fail(&order, "the CA suggests no proper time to renew");
        return;
    }
    random_bytes(&random, sizeof(random));
    if (certificate->ari_due_s < start || certificate->ari_due_s > end) {
        certificate->ari_due_s = start + (int64_t) (random % (uint64_t) (end - start));
    }
}
