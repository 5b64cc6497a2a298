/* Claims and header parameters as variables. */
#include "http/modules/access/auth_jwt/auth_jwt.h"
#include "http/variables/variables.h"

/* ---- the token ---- */

/* A text to parse on the worker's own stack. */
struct unverified_reading {
    struct arena *arena;
    struct str text;
    struct jose_token *token;
};

static void read_unverified(void *arg)
{
    struct unverified_reading *reading = arg;

    reading->token = jose_token_unverified(reading->arena, reading->text);
}

/* Parses a token that was not verified yet, as nginx does, so that claims can be keys of limits:
 * before the access phase, and only signed tokens. Not where the access phase may let a request
 * pass without checking its token, nor in a subrequest, which has no access phase. */
static const struct jose_token *unverified_token(struct request *request, struct jwt_state *state)
{
    const struct jwt_settings *settings = jwt_settings_at(request->location);
    struct unverified_reading reading = {.arena = &request->arena};

    if (request != request->main || settings->form != JOSE_SIGNED ||
        request->location->satisfy == SATISFY_ANY || !realm_may_be_on(settings->realm)) {
        return NULL;
    }
    if (state->was_read) {
        return state->unverified;
    }
    state->was_read = true;
    if (jwt_text(request, settings, &reading.text)) {
        fiber_call_on_main(read_unverified, &reading);
    }
    if (reading.token != NULL) {
        state->unverified = reading.token;
        arena_on_free(&request->main->arena, jose_token_release, reading.token);
    }
    return state->unverified;
}

static const struct jose_token *token_of(struct variable_env *env)
{
    struct request *request = variable_request(env);
    struct jwt_state *state = jwt_state_of(request);

    switch (state->outcome) {
    case JWT_ACCEPTED:
        return state->token;
    case JWT_UNCHECKED:
        return unverified_token(request, state);
    default:
        return NULL;
    }
}

/* ---- values ---- */

/* A value to write on the worker's own stack: jansson recurses. */
struct value_writing {
    const json_t *value;
    bool as_list;
    struct arena *arena;
    struct str text;
    bool is_there;
};

static void write_value(void *arg)
{
    struct value_writing *writing = arg;

    writing->is_there = jose_text(writing->value, writing->as_list, writing->arena, &writing->text);
}

static bool give_value(struct variable_env *env, const json_t *value, bool as_list, struct str *out)
{
    struct value_writing writing = {.value = value, .as_list = as_list, .arena = env->arena};

    if (json_is_string(value)) {
        write_value(&writing);
    } else {
        fiber_call_on_main(write_value, &writing);
    }
    *out = writing.text;
    return writing.is_there;
}

static bool get_claim(struct variable_env *env, const struct variable *variable, struct str *out)
{
    const struct jose_token *token = token_of(env);

    return token != NULL && give_value(env, jose_member(token->claims, variable->rest), false, out);
}

static bool get_header(struct variable_env *env, const struct variable *variable, struct str *out)
{
    const struct jose_token *token = token_of(env);

    return token != NULL && give_value(env, jose_member(token->header, variable->rest), false, out);
}

static bool get_payload(struct variable_env *env, const struct variable *variable, struct str *out)
{
    const struct jose_token *token = token_of(env);

    if (token == NULL || token->payload.len == 0) {
        return false;
    }
    *out = arena_dup(env->arena, token->payload);
    return true;
}

/* ---- auth_jwt_claim_set and auth_jwt_header_set ---- */

/* One of these directives. */
struct value_path {
    bool is_header;
    const struct str *names;
    unsigned count;
};

static bool get_path(struct variable_env *env, const struct variable *variable, struct str *out)
{
    const struct value_path *path = (const struct value_path *) variable->data;
    const struct jose_token *token = token_of(env);

    if (token == NULL) {
        return false;
    }
    const json_t *value = path->is_header ? token->header : token->claims;
    for (unsigned i = 0; value != NULL && i < path->count; i++) {
        value = json_object_getn(value, path->names[i].data, path->names[i].len);
    }
    return give_value(env, value, true, out);
}

static bool define_path(struct conf_scope *scope, struct conf_node *node, bool is_header)
{
    struct conf *conf = scope->conf;
    struct variable *variable = variable_define_word(conf, node, node->args[1]);

    if (variable == NULL) {
        return false;
    }
    struct value_path *path = arena_new(conf->arena, struct value_path);
    path->is_header = is_header;
    path->names = node->args + 2;
    path->count = node->count - 2;
    variable->get = get_path;
    variable->kind = &request_subject;
    variable->data = (uintptr_t) path;
    variable->flags |= VARIABLE_VOLATILE;
    return true;
}

bool jwt_claim_set_apply(struct conf_scope *scope, const struct directive *row,
                         struct conf_node *node, void *settings)
{
    return define_path(scope, node, false);
}

bool jwt_header_set_apply(struct conf_scope *scope, const struct directive *row,
                          struct conf_node *node, void *settings)
{
    return define_path(scope, node, true);
}

#define FAMILY .flags = VARIABLE_PREFIX | VARIABLE_VOLATILE

const struct variable jwt_variables[] = {
    {.name = STR_INIT("jwt_claim_"),
     .doc = "Claim of the JSON Web Token with this name: a string as it is, other values as "
            "JSON.",
     .get = get_claim,
     FAMILY},
    {.name = STR_INIT("jwt_header_"),
     .doc = "Parameter with this name of the header of the JSON Web Token.",
     .get = get_header,
     FAMILY},
    {.name = STR_INIT("jwt_payload"),
     .doc = "Decrypted content of an encrypted or nested JSON Web Token: its claims, or the "
            "signed token.",
     .get = get_payload,
     .flags = VARIABLE_VOLATILE},
    {.name = {NULL, 0}},
};
