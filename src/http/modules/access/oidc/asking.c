/* Requests to a provider, through the location that was generated for it; its metadata and keys. */
#include <stdlib.h>

#include "base/clock.h"
#include "base/fatal.h"
#include "http/modules/access/oidc/oidc.h"
#include "http/request/body.h"
#include "http/request/subrequest.h"

/* ---- one request ---- */

struct asking {
    struct subrequest sub;
    const struct oidc_question *question;
};

static char question_key; /* only its address is used */

bool oidc_request_url(struct variable_env *env, const struct variable *variable, struct str *out)
{
    struct oidc_question const **question = request_data(variable_request(env), &question_key, 0);

    if (question == NULL) {
        return false;
    }
    *out = (*question)->url;
    return true;
}

/* The provider gets only the data of the question, and nothing of the client. */
static void prepare(struct subrequest *sub)
{
    const struct oidc_question *question = container_of(sub, struct asking, sub)->question;
    struct request *child = sub->request;
    struct arena *arena = &child->arena;

    child->headers = (struct fields){.items = NULL};
    fields_add(&child->headers, arena, STR("Accept"), STR("application/json"));
    if (question->authorization.len != 0) {
        fields_add_known(&child->headers, arena, FIELD_AUTHORIZATION, question->authorization);
    }
    if (question->body.data != NULL) {
        fields_add_known(&child->headers, arena, FIELD_CONTENT_TYPE,
                         STR("application/x-www-form-urlencoded"));
        fields_add_known(&child->headers, arena, FIELD_CONTENT_LENGTH,
                         arena_printf(arena, "%zu", question->body.len));
    }
    *(struct oidc_question const **) request_data(child, &question_key, sizeof(void *)) = question;
}

static struct request_body *make_body(struct request *request, struct str text)
{
    struct request_body *body = arena_new(&request->arena, struct request_body);

    body->bytes = text;
    body->size = text.len;
    body->fd = -1;
    return body;
}

/* MAY WAIT. The answer is used even if the client has left and the request continues
 * (abort_watcher). */
static enum handler_result run(struct request *request, struct asking *asking)
{
    enum handler_result result = subrequest_run(request, &asking->sub);
    const struct request *child = asking->sub.request;

    return result == HANDLER_CLOSED && !request->main->is_cancelled && child != NULL &&
                   child->response.progress == RESPONSE_COMPLETE
               ? HANDLER_DONE
               : result;
}

bool oidc_ask(struct request *request, const struct oidc_provider *provider,
              struct oidc_question *question)
{
    bool is_post = question->body.data != NULL;
    struct asking *asking = arena_new(&request->arena, struct asking);

    asking->question = question;
    asking->sub = (struct subrequest){
        .uri = arena_concat(&request->arena, STR("@oidc/"), provider->name),
        .output = SUBREQUEST_MEMORY,
        .method = is_post ? STR("POST") : STR("GET"),
        .given = is_post ? make_body(request, question->body) : NULL,
        .memory_max = OIDC_ANSWER_MAX,
        .own_headers = true,
        .own_variables = true,
        .prepare = prepare,
    };
    enum handler_result result = run(request, asking);
    if (result == HANDLER_CLOSED) {
        return false;
    }
    if (result == HANDLER_DONE && !asking->sub.is_cut) {
        question->status = asking->sub.request->response.status;
        question->answer = oidc_object(request, asking->sub.body);
    }
    if (question->status != 200 || question->answer == NULL) {
        struct str error = jose_string(question->answer, "error");
        log_error(&request->log, 0, "the OpenID provider \"%.*s\" answered \"%.*s\" with %u%s%.*s",
                  STR_ARG(provider->name), STR_ARG(question->url), question->status,
                  error.len != 0 ? ": " : "", STR_ARG(str_head(error, 100)));
        question->answer = NULL;
    }
    return true;
}

/* ---- metadata ---- */

void oidc_metadata_release(void *arg)
{
    struct oidc_metadata *metadata = arg;

    if (metadata != NULL && --metadata->references == 0) {
        jose_keys_release(metadata->keys);
        arena_free(&metadata->arena);
        free(metadata);
    }
}

/* A URL of the metadata that may be requested: with TLS if the issuer has TLS, and without bytes
 * that would end a line or an argument. */
static struct str url_of(struct oidc_metadata *metadata, const struct oidc_provider *provider,
                         const json_t *object, const char *name)
{
    struct str url = jose_string(object, name);
    bool may_be_plain = str_starts(provider->issuer, STR("http://"));

    if (!str_starts(url, STR("https://")) && !(may_be_plain && str_starts(url, STR("http://")))) {
        return STR_NONE;
    }
    for (size_t i = 0; i < url.len; i++) {
        if ((unsigned char) url.data[i] <= ' ' || (unsigned char) url.data[i] >= 127) {
            return STR_NONE;
        }
    }
    return arena_dup(&metadata->arena, url);
}

static bool lists_word(const json_t *object, const char *name, const char *word)
{
    size_t index;
    json_t *value;

    json_array_foreach(json_object_get(object, name), index, value)
    {
        if (json_is_string(value) && strcmp(json_string_value(value), word) == 0) {
            return true;
        }
    }
    return false;
}

static const char *judge_metadata(const struct oidc_provider *provider, const json_t *object,
                                  const struct oidc_metadata *metadata)
{
    if (!str_equal(jose_string(object, "issuer"), provider->issuer)) {
        return "its \"issuer\" is another one";
    }
    if (metadata->authorization.len == 0 || metadata->token.len == 0 ||
        metadata->keys_url.len == 0) {
        return "it lacks an endpoint, or names one without TLS";
    }
    return NULL;
}

struct oidc_metadata *oidc_metadata_read(const struct oidc_provider *provider, const json_t *object,
                                         const char **why)
{
    static const char methods[] = "token_endpoint_auth_methods_supported";
    struct oidc_metadata *metadata = calloc(1, sizeof(*metadata));

    if (metadata == NULL) {
        fatal_no_memory(sizeof(*metadata));
    }
    metadata->references = 1;
    arena_init(&metadata->arena);
    metadata->authorization = url_of(metadata, provider, object, "authorization_endpoint");
    metadata->token = url_of(metadata, provider, object, "token_endpoint");
    metadata->userinfo = url_of(metadata, provider, object, "userinfo_endpoint");
    metadata->logout = url_of(metadata, provider, object, "end_session_endpoint");
    metadata->keys_url = url_of(metadata, provider, object, "jwks_uri");
    metadata->has_s256 = lists_word(object, "code_challenge_methods_supported", "S256");
    metadata->wants_post = lists_word(object, methods, "client_secret_post") &&
                           !lists_word(object, methods, "client_secret_basic");
    metadata->says_issuer =
        json_is_true(json_object_get(object, "authorization_response_iss_parameter_supported"));
    metadata->until = (int64_t) clock_now.seconds + OIDC_METADATA_S;
    *why = judge_metadata(provider, object, metadata);
    if (*why != NULL) {
        oidc_metadata_release(metadata);
        return NULL;
    }
    return metadata;
}

struct keys_reading {
    const json_t *object;
    const struct log *log;
    struct str name;
    struct jose_keys *keys;
};

static void read_keys(void *arg)
{
    struct keys_reading *reading = arg;
    char *text = json_dumps(reading->object, JSON_COMPACT);

    if (text != NULL) {
        reading->keys = jose_keys_read(str_of(text), reading->log, reading->name);
        free(text);
    }
}

/* Requests metadata and keys. False: the client is gone; *out NULL: it failed. MAY WAIT. */
static bool fetch(struct request *request, const struct oidc_provider *provider,
                  struct oidc_metadata **out)
{
    struct oidc_question question = {.url = provider->config_url};
    struct oidc_question keys_question = {.status = 0};

    *out = NULL;
    bool is_there = oidc_ask(request, provider, &question);
    if (question.answer == NULL) {
        return is_there;
    }
    const char *why;
    struct oidc_metadata *metadata = oidc_metadata_read(provider, question.answer, &why);
    if (metadata == NULL) {
        log_error(&request->log, 0, "the OpenID provider \"%.*s\" cannot be used: %s",
                  STR_ARG(provider->name), why);
        return true;
    }
    keys_question.url = metadata->keys_url;
    is_there = oidc_ask(request, provider, &keys_question);
    if (is_there && keys_question.answer != NULL) {
        struct keys_reading reading = {.object = keys_question.answer,
                                       .log = &request->log,
                                       .name = metadata->keys_url};
        fiber_call_on_main(read_keys, &reading);
        metadata->keys = reading.keys;
    }
    if (metadata->keys == NULL) {
        oidc_metadata_release(metadata);
    } else {
        *out = metadata;
    }
    return is_there;
}

/* MAY WAIT. HANDLER_NEXT: check again. */
static enum handler_result renew(struct request *request, struct oidc_provider *provider)
{
    struct oidc_metadata *newer = NULL;

    single_flight_begin(&provider->flight);
    bool is_there = fetch(request, provider, &newer);
    if (newer != NULL) {
        oidc_metadata_release(provider->metadata);
        provider->metadata = newer;
        provider->flight.failed_ms = 0;
    } else if (is_there) {
        provider->flight.failed_ms = clock_now.now_ms;
    }
    single_flight_end(&provider->flight);
    return is_there ? HANDLER_NEXT : HANDLER_CLOSED;
}

enum handler_result oidc_metadata_of(struct request *request, struct oidc_provider *provider,
                                     const struct oidc_metadata **out)
{
    enum handler_result result = HANDLER_NEXT;

    while (result == HANDLER_NEXT &&
           (provider->metadata == NULL || clock_now.seconds >= provider->metadata->until)) {
        if (provider->flight.is_busy) {
            result = single_flight_wait(&provider->flight) ? HANDLER_NEXT : HANDLER_CLOSED;
        } else if (single_flight_has_failed(&provider->flight, OIDC_RETRY_MS)) {
            *out = NULL;
            return HANDLER_NEXT;
        } else {
            result = renew(request, provider);
        }
    }
    if (result == HANDLER_NEXT) {
        provider->metadata->references++;
        arena_on_free(&request->arena, oidc_metadata_release, provider->metadata);
        *out = provider->metadata;
    }
    return result;
}
