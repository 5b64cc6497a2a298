/* ngx_http_acme_module: obtains certificates from a CA by ACME (RFC 8555). */
#include "base/parse.h"
#include "http/client/protocol.h"
#include "http/modules/clients/acme/conf.h"
#include "http/request/request.h"
#include "http/routing/hooks.h"
#include "server/isolated.h"
#include "server/module.h"

#define LOAD_MS 30000  /* for the files of all issuers */
#define CONNECTIONS 64 /* of the process that orders */
#define WELL_KNOWN "/.well-known/acme-challenge/"

static char acme_zone_tag; /* identifies the owner of the zone */

/* Settings of a server. */
struct acme_server {
    struct acme_certificate *certificate; /* or NULL */
};

static struct settings_key acme_server_key;

struct acme_main *acme_main_of(struct conf *conf)
{
    return conf_state(conf, "acme", sizeof(struct acme_main));
}

/* ---- rows ---- */

static bool certificate_apply(struct conf_scope *scope, const struct directive *row,
                              struct conf_node *node, void *settings)
{
    struct acme_server *server = settings;
    struct conf *conf = scope->conf;
    struct acme_certificate *certificate = arena_new(conf->arena, struct acme_certificate);

    certificate->issuer_name = node->args[1];
    certificate->node = node;
    certificate->key = (struct acme_key_type){.bits = 256};
    for (unsigned i = 2; i < node->count; i++) {
        struct str word = node->args[i];

        if (str_starts(word, STR("key="))) {
            if (!acme_key_type_parse(str_skip(word, 4), &certificate->key)) {
                return conf_error(conf, node, "invalid parameter \"%.*s\"", STR_ARG(word));
            }
        } else if (!acme_identifier_add(conf, node, &certificate->identifiers, word)) {
            return false;
        }
    }
    server->certificate = certificate;
    return true;
}

static bool server_finish(struct conf_scope *scope, void *settings)
{
    struct acme_certificate *certificate = ((struct acme_server *) settings)->certificate;

    return certificate == NULL || certificate->identifiers.count != 0 ||
           acme_identifiers_of_server(scope->conf, certificate->node, &certificate->identifiers,
                                      &scope_server(scope)->names);
}

/* "zone=NAME:SIZE" */
static bool zone_apply(struct conf_scope *scope, const struct directive *row,
                       struct conf_node *node, void *settings)
{
    struct acme_http *http = settings;
    struct str text = node->args[1];

    http->sync = (struct store_sync_words){.is_wanted = false};
    for (unsigned i = 2; i < node->count; i++) {
        bool is_one;

        if (!store_sync_read(scope->conf, node, node->args[i], false, &http->sync, &is_one)) {
            return false;
        }
        if (!is_one) {
            return conf_error(scope->conf, node, "invalid parameter \"%.*s\"",
                              STR_ARG(node->args[i]));
        }
    }
    if (!store_sync_check(scope->conf, node, &http->sync)) {
        return false;
    }
    if (!str_starts(text, STR("zone="))) {
        return conf_error(scope->conf, node, "invalid parameter \"%.*s\"", STR_ARG(text));
    }
    struct str rest = str_skip(text, 5);
    http->zone_name = str_cut(&rest, ':');
    if (http->zone_name.len == 0 || rest.data == NULL || !parse_size(rest, &http->zone_size)) {
        return conf_error(scope->conf, node, "invalid zone size \"%.*s\"", STR_ARG(text));
    }
    http->zone_node = conf_is_default(scope) ? NULL : node;
    return true;
}

static bool http_finish(struct conf_scope *scope, void *settings)
{
    acme_main_of(scope->conf)->http = settings;
    return true;
}

static const struct directive acme_rows[] = {
    {"acme_issuer", IN_HTTP, BLOCK(acme_issuer_enter), ARGS(1, 1), .repeat = REPEAT_CUSTOM,
     .syntax = "name", .doc = "Defines a CA that supports ACME, and the account of this server."},
    {"acme_shared_zone", IN_HTTP, CUSTOM_FIELD(struct acme_http, zone_name, zone_apply), ARGS(1, 3),
     .initial = "zone=ngx_acme_shared:256k",
     .syntax = "zone=name:size [sync[=store]] [sync_interval=time]",
     .doc = "Shared memory zone with certificates and keys, 8k each. With `sync`, several "
            "nodes share accounts, certificates and pending challenges through a "
            "`redis_store`."},
    {0},
};
static const struct directive server_rows[] = {
    {"acme_certificate", IN_SERVER,
     CUSTOM_FIELD(struct acme_server, certificate, certificate_apply), ARGS(1, ARGS_ANY),
     .syntax = "issuer [name | address ...] [key=ecdsa[:size] | key=rsa[:size]]",
     .doc = "Orders and renews a certificate for the names of the server or for the given "
            "names. It is available in $acme_certificate and $acme_certificate_key."},
    {0},
};
static const struct directive_table acme_table = {
    .rows = acme_rows,
    .contexts = IN_HTTP,
    .size = sizeof(struct acme_http),
    .finish = http_finish,
};
static const struct directive_table server_table = {
    .key = &acme_server_key,
    .rows = server_rows,
    .contexts = IN_SERVER,
    .size = sizeof(struct acme_server),
    .finish = server_finish,
};
static const struct directive_table *const acme_tables[] = {&acme_table, &server_table,
                                                            &acme_issuer_table, NULL};

/* ---- after the http block was read ---- */

static struct acme_issuer *find_issuer(const struct acme_main *main, struct str name)
{
    vec_each(struct acme_issuer *, issuer, &main->issuers) {
        if (str_equal((*issuer)->name, name)) {
            return *issuer;
        }
    }
    return NULL;
}

/* Can the challenge of the issuer validate these identifiers? */
static bool check_identifiers(struct conf *conf, const struct acme_certificate *certificate)
{
    const struct acme_issuer *issuer = certificate->issuer;
    bool is_dns = issuer->challenge == ACME_DNS_01 || issuer->challenge == ACME_DNS_PERSIST_01;

    vec_each(const struct acme_identifier, one, &certificate->identifiers) {
        if (one->is_ip ? is_dns : str_starts(one->value, STR("*.")) && !is_dns) {
            return conf_error(conf, certificate->node,
                              "\"%.*s\" cannot be validated with the challenge %s of acme_issuer "
                              "\"%.*s\"",
                              STR_ARG(one->value), acme_challenge_names[issuer->challenge],
                              STR_ARG(issuer->name));
        }
    }
    return true;
}

/* Returns an existing certificate with this name, or adds this one. */
static struct acme_certificate *unify(struct conf *conf, struct acme_main *main,
                                      struct acme_certificate *certificate)
{
    vec_each(struct acme_certificate *, known, &main->certificates) {
        if ((*known)->issuer == certificate->issuer &&
            str_equal((*known)->name, certificate->name)) {
            return *known;
        }
    }
    *vec_add(&main->certificates, conf->arena, struct acme_certificate *) = certificate;
    *vec_add(&certificate->issuer->certificates, conf->arena, struct acme_certificate *) =
        certificate;
    return certificate;
}

static bool end_server(struct conf *conf, struct acme_main *main, struct acme_server *server)
{
    struct acme_certificate *certificate = server->certificate;

    certificate->issuer = find_issuer(main, certificate->issuer_name);
    if (certificate->issuer == NULL) {
        return conf_error(conf, certificate->node, "there is no acme_issuer \"%.*s\"",
                          STR_ARG(certificate->issuer_name));
    }
    if (certificate->identifiers.count == 0) {
        return true; /* reported as an error elsewhere */
    }
    certificate->name = acme_certificate_name(conf->arena, certificate);
    if (!check_identifiers(conf, certificate)) {
        return false;
    }
    server->certificate = unify(conf, main, certificate);
    return true;
}

static bool make_zone(struct conf *conf, struct acme_main *main)
{
    main->zone = generation_zone(conf->generation, main->http->zone_node, main->http->zone_name,
                                 main->http->zone_size, &acme_zone_tag);
    return main->zone != NULL;
}

static bool acme_end(struct conf *conf, struct http_main *http)
{
    struct acme_main *main = acme_main_of(conf);
    struct generation *generation = conf->generation;
    bool is_good = true;

    main->generation = generation;
    vec_each(struct http_server *, server, &http->servers) {
        struct acme_server *settings = server_settings(*server, &acme_server_key);

        if (settings->certificate != NULL) {
            is_good = end_server(conf, main, settings) && is_good;
        }
    }
    if (!is_good || main->certificates.count == 0) {
        return is_good;
    }
    vec_each(struct acme_issuer *, issuer, &main->issuers) {
        const struct http_server *first = *vec_at(&http->servers, struct http_server *, 0);
        is_good = acme_issuer_finish(conf, *issuer, first->root) && is_good;
    }
    if (generation->background_connections < CONNECTIONS) {
        generation->background_connections = CONNECTIONS;
    }
    return make_zone(conf, main) && acme_sync_open(conf, main) && is_good;
}

/* ---- start ---- */

static bool serve_own(struct acme_main *main, struct acme_certificate *certificate)
{
    const struct acme_facts facts = {.is_self_signed = true};
    struct acme_pair pair;
    struct arena arena;

    arena_init(&arena);
    bool is_good = acme_self_signed(&arena, &certificate->identifiers, &pair) &&
                   acme_entry_put(main->zone, certificate->entry, &pair, main->generation->number);
    arena_free(&arena);
    if (is_good) {
        acme_facts_put(main->zone, certificate->entry, &facts);
        log_notice(
            log_main, 0,
            "acme_issuer \"%.*s\": there is no certificate \"%.*s\" yet; until it is issued, "
            "a self-signed one is served",
            STR_ARG(certificate->issuer->name), STR_ARG(certificate->name));
    } else {
        log_emerg(log_main, 0, "acme_shared_zone \"%.*s\" is full: give it more memory",
                  STR_ARG(main->zone->name));
    }
    return is_good;
}

/* Makes the entries in the zone; their contents come later. */
static bool open_entries(struct acme_main *main)
{
    bool is_good = true;
    struct arena arena;

    arena_init(&arena);
    vec_each(struct acme_issuer *, issuer, &main->issuers) {
        const struct str parts[] = {(*issuer)->name, STR("\n"), (*issuer)->uri};

        (*issuer)->account =
            acme_entry_of(main->zone, arena_join(&arena, parts, 3), main->generation->number);
        is_good = is_good && (*issuer)->account != NULL;
    }
    vec_each(struct acme_certificate *, certificate, &main->certificates) {
        const struct acme_issuer *issuer = (*certificate)->issuer;
        const struct str parts[] = {issuer->name, STR("\n"), issuer->uri, STR("\n"),
                                    (*certificate)->name};

        (*certificate)->entry =
            acme_entry_of(main->zone, arena_join(&arena, parts, 5), main->generation->number);
        is_good = is_good && (*certificate)->entry != NULL;
    }
    arena_free(&arena);
    if (!is_good) {
        log_emerg(log_main, 0, "acme_shared_zone \"%.*s\" is full: give it more memory",
                  STR_ARG(main->zone->name));
    }
    return is_good;
}

static bool open_issuer(struct acme_main *main, struct acme_issuer *issuer)
{
    if (issuer->certificates.count != 0) {
        *vec_add(issuer_counts_of(&main->generation->conf), main->generation->conf.arena,
                 struct issuer_counts) =
            (struct issuer_counts){issuer->name, acme_entry_counts(issuer->account)};
    }
    return acme_state_open(issuer, log_main);
}

static bool start_monitors(void *arg)
{
    const struct acme_main *main = arg;

    vec_each(struct acme_issuer *, issuer, &main->issuers) {
        if (!acme_monitor_start(*issuer)) {
            return false;
        }
    }
    return true;
}

static bool has_pair(const struct acme_main *main, const struct acme_certificate *certificate)
{
    struct arena arena;
    struct acme_pair pair;

    arena_init(&arena);
    bool is_there = acme_entry_get(main->zone, certificate->entry, &arena, &pair);
    arena_free(&arena);
    return is_there;
}

/* If the names of a server have changed, a certificate that is valid for most of them is used until
 * the CA issues a new one, rather than a self-signed one. */
static void serve_former(const struct acme_main *main, struct acme_certificate *certificate)
{
    const struct acme_issuer *issuer = certificate->issuer;
    const struct acme_facts facts = {.is_self_signed = true};
    struct acme_entry *entry = NULL;
    struct acme_pair pair, best;
    struct arena arena;
    unsigned most = 0;

    arena_init(&arena);
    struct str prefix =
        arena_printf(&arena, "%.*s\n%.*s\n", STR_ARG(issuer->name), STR_ARG(issuer->uri));
    while (acme_entry_next(main->zone, prefix, &entry, &arena, &pair)) {
        unsigned count = acme_names_covered(&arena, pair.value, &certificate->identifiers);

        if (count > most) {
            most = count;
            best = pair;
        }
    }
    if (most != 0 &&
        acme_entry_put(main->zone, certificate->entry, &best, main->generation->number)) {
        acme_facts_put(main->zone, certificate->entry, &facts);
        log_notice(
            log_main, 0,
            "acme_issuer \"%.*s\": there is no certificate \"%.*s\" yet; until it is issued, "
            "a former one is served, for %u of its %zu names",
            STR_ARG(issuer->name), STR_ARG(certificate->name), most,
            certificate->identifiers.count);
    }
    arena_free(&arena);
}

/* Copies files to the zone. */
static bool load(void *arg)
{
    const struct acme_main *main = arg;
    bool is_good = true;

    vec_each(struct acme_issuer *, issuer, &main->issuers) {
        is_good = is_good && acme_state_load_account(*issuer, log_main);
        vec_each(struct acme_certificate *, certificate, &(*issuer)->certificates) {
            acme_state_load(*certificate, log_main);
        }
        acme_monitor_end(*issuer);
    }
    vec_each(struct acme_certificate *, certificate, &main->certificates) {
        if (!has_pair(main, *certificate)) {
            serve_former(main, *certificate);
        }
    }
    return is_good;
}

/* Copies existing files to the zone before any worker runs, in a process with the workers' rights.
 * The process that orders has written the files, so keys and certificates are not parsed with the
 * master's rights. */
static bool acme_opened(struct generation *generation)
{
    struct acme_main *main = acme_main_of(&generation->conf);
    const struct isolated_work work = {.title = STR("acme loader process"),
                                       .prepare = start_monitors,
                                       .run = load,
                                       .arg = main,
                                       .limit_ms = LOAD_MS};

    if (main->certificates.count == 0 || generation->is_test) {
        return true;
    }
    if (!acme_zone_open(main->zone) || !open_entries(main)) {
        return false;
    }
    vec_each(struct acme_issuer *, issuer, &main->issuers) {
        if (!open_issuer(main, *issuer)) {
            return false;
        }
    }
    if (!isolated_run(generation, &work)) {
        return false;
    }
    vec_each(struct acme_issuer *, issuer, &main->issuers) {
        acme_state_load_challenge(*issuer);
    }
    vec_each(struct acme_certificate *, certificate, &main->certificates) {
        if (!has_pair(main, *certificate) && !serve_own(main, *certificate)) {
            return false;
        }
    }
    return true;
}

/* ---- workers ---- */

/* Finds the certificate for a handshake with acme-tls/1. */
static bool find_alpn(struct str name, struct arena *arena, struct str *certificate,
                      struct str *key)
{
    const struct acme_main *main = acme_main_of(&generation_now->conf);
    struct acme_pair pair;

    if (main->zone == NULL || !main->has_tls_alpn_01 ||
        !acme_challenge_find(main->zone, ACME_TLS_ALPN_01, name, arena, &pair)) {
        return false;
    }
    *certificate = arena_concat(arena, STR("data:"), pair.value);
    *key = arena_concat(arena, STR("data:"), pair.key);
    return true;
}

static bool acme_worker_start(struct generation *generation)
{
    struct acme_main *main = acme_main_of(&generation->conf);

    if (main->certificates.count == 0) {
        return true;
    }
    if (main->has_tls_alpn_01) {
        tls_answer_challenges(find_alpn);
    }
    bool is_background = worker_role == WORKER_BACKGROUND;

    return (!is_background && generation->core->master_process) ||
           acme_renewals_start(main, is_background);
}

/* A reload does not interrupt an order: the next process waits for the lock. */
static void acme_worker_quit(struct generation *generation)
{
    acme_renewals_quit(acme_main_of(&generation->conf),
                       worker_role == WORKER_BACKGROUND && worker_is_replaced);
}

static void acme_worker_abort(struct generation *generation)
{
    struct acme_main *main = acme_main_of(&generation->conf);

    vec_each(struct acme_issuer *, issuer, &main->issuers) {
        acme_monitor_stop(*issuer);
    }
    acme_renewals_quit(main, false);
}

static void acme_worker_end(struct generation *generation)
{
    acme_renewals_end(acme_main_of(&generation->conf));
}

/* ---- variables ---- */

static const struct acme_certificate *certificate_of(struct variable_env *env)
{
    const struct http_main *main = container_of(env->set, struct http_main, variables);
    const struct http_server *server = env->kind == &request_subject ? variable_request(env)->server
                                       : main->handshake != NULL     ? main->handshake->server(env)
                                                                     : NULL;

    return server == NULL ? NULL
                          : ((const struct acme_server *) server_settings(server, &acme_server_key))
                                ->certificate;
}

static bool get_pair(struct variable_env *env, const struct variable *variable, struct str *out)
{
    const struct acme_certificate *certificate = certificate_of(env);
    struct acme_pair pair;

    if (certificate == NULL ||
        !acme_entry_get(certificate->issuer->main->zone, certificate->entry, env->arena, &pair)) {
        return false;
    }
    *out = arena_concat(env->arena, STR("data:"), variable->data != 0 ? pair.key : pair.value);
    return true;
}

static const struct variable acme_variables[] = {
    {.name = STR_INIT("acme_certificate"),
     .doc = "Certificate of the server's acme_certificate, for ssl_certificate.",
     .get = get_pair,
     .kind = &any_subject,
     .flags = VARIABLE_VOLATILE},
    {.name = STR_INIT("acme_certificate_key"),
     .doc = "Key of the certificate in `$acme_certificate`, for ssl_certificate_key.",
     .get = get_pair,
     .data = 1,
     .kind = &any_subject,
     .flags = VARIABLE_VOLATILE},
    {.name = {NULL, 0}},
};

/* ---- http-01 (RFC 8555, 8.3) ---- */

static enum handler_result acme_answer(struct request *request)
{
    const struct acme_main *main = acme_main_of(&request->server->main->generation->conf);
    struct acme_pair pair;

    if (main->zone == NULL || !str_starts(request->uri, STR(WELL_KNOWN)) ||
        (request->method & (METHOD_GET | METHOD_HEAD)) == 0 ||
        !acme_challenge_find(main->zone, ACME_HTTP_01,
                             str_skip(request->uri, sizeof(WELL_KNOWN) - 1), &request->arena,
                             &pair)) {
        return HANDLER_NEXT;
    }
    return response_memory(request, 200, STR("application/octet-stream"), pair.value);
}

static bool answers(const struct http_location *location)
{
    return location->server != NULL &&
           acme_main_of(&location->server->main->generation->conf)->has_http_01;
}

static const struct phase_hook acme_phases[] = {
    {.phase = PHASE_POST_READ, .name = "acme", .run = acme_answer, .is_active = answers},
    {.run = NULL},
};

static const struct http_module acme_hooks = {
    .variables = acme_variables,
    .phases = acme_phases,
    .begin = acme_generate,
    .end = acme_end,
};

const struct module ngx_http_acme_module = {
    .magic = MODULE_MAGIC,
    .name = "ngx_http_acme_module",
    .kind = MODULE_HTTP,
    .tables = acme_tables,
    .hooks = &acme_hooks,
    .opened = acme_opened,
    .worker_start = acme_worker_start,
    .worker_quit = acme_worker_quit,
    .worker_abort = acme_worker_abort,
    .worker_end = acme_worker_end,
};
