/* Requests as subjects of Lua. */
#include "http/exchange/exchange.h"
#include "http/modules/lua/lua.h"
#include "http/client/connection.h"
#include "http/modules/lua/ffi.h"
#include "http/client/listen.h"
#include "http/request/engine.h"
#include "http/routing/hooks.h"
#include "lua/values/variables.h"
#include "lua/vm/life.h"
#include "lua/vm/context.h"

struct settings_key http_lua_main_key;
struct settings_key http_lua_key;

static enum fiber_started http_lua_request_start(struct script_subject *subject,
                                                 void (*run)(void *), void *arg,
                                                 struct fiber_handle *handle)
{
    (void) subject;
    return request_fiber_start(run, arg, handle);
}

static struct variable_env *variables(struct script_subject *subject)
{
    return &container_of(subject, struct http_lua_request, subject)->request->env;
}

static bool values_are_due(struct script_subject *subject)
{
    struct request *request = container_of(subject, struct http_lua_request, subject)->request;
    const struct fetched_values *fetched = request->server->main->hooks->fetched_values;

    return fetched != NULL && fetched->are_due(request);
}

static void fetch_values(struct script_subject *subject)
{
    struct request *request = container_of(subject, struct http_lua_request, subject)->request;

    request->server->main->hooks->fetched_values->fetch(request);
}

static void whom(struct script_subject *subject, struct writer *out)
{
    const struct request *request =
        container_of(subject, struct http_lua_request, subject)->request;
    struct str client = request_client_text(request);
    struct str server = request->connection->listen->address.listener->text;

    log_member(out, "client");
    writer_put(out, client);
    log_member(out, "server");
    writer_put(out, server);
}

static struct request *request_of(struct script_subject *subject)
{
    return container_of(subject, struct http_lua_request, subject)->request;
}

static struct conn *client(struct script_subject *subject)
{
    return connection_carrier(request_of(subject)->connection);
}

static struct ssl_st *ssl(struct script_subject *subject)
{
    const struct conn *tls = connection_tls(request_of(subject)->connection);

    return tls == NULL ? NULL : tls_ssl(tls);
}

/* That of the connection's handshake. */
static int context_before(struct script_subject *subject)
{
    const struct ssl_st *of_client = ssl(subject);

    return of_client == NULL ? LUA_NOREF : script_handshake_context_of(of_client, subject->vm);
}

static struct script_backend *backend(struct script_subject *subject)
{
    return &container_of(subject, struct http_lua_request, subject)->backend;
}

static struct ssl_st *upstream_ssl(struct script_subject *subject)
{
    const struct exchange *x = request_of(subject)->exchange;

    if (backend(subject)->ssl != NULL) {
        return backend(subject)->ssl;
    }
    return x == NULL ? NULL : exchange_ssl(x);
}

static unsigned hops(struct script_subject *subject)
{
    return connection_hops(request_of(subject)->connection);
}

static struct str group_name(struct script_subject *subject)
{
    const struct exchange *x = request_exchange(request_of(subject));

    return x == NULL ? STR("") : exchange_group_name(x);
}

const struct script_subject_kind http_lua_request_kind = {.name = "http",
                                                          .start = http_lua_request_start,
                                                          .variables = variables,
                                                          .values_are_due = values_are_due,
                                                          .fetch_values = fetch_values,
                                                          .whom = whom,
                                                          .client = client,
                                                          .ssl = ssl,
                                                          .upstream_ssl = upstream_ssl,
                                                          .backend = backend,
                                                          .context_before = context_before,
                                                          .group_name = group_name,
                                                          .hops = hops};

static void request_ends(void *arg)
{
    struct http_lua_request *lua = arg;

    http_lua_abort_forget(lua);
    buf_free(&lua->output.gathered);
    script_subject_end(&lua->subject);
}

/*
 * lua_code_cache off: one of its own, so that all code is read again, which its subrequests share.
 * When that fails the shared one will do.
 */
static struct script_vm *vm_for(struct request *request, const struct http_lua_main *main)
{
    struct script_vm *own = NULL;

    if (request->parent != NULL) {
        const struct http_lua_request *parent =
            request_data(request->parent, &http_lua_key, sizeof(struct http_lua_request));

        if (parent->has_begun && parent->subject.vm->is_private) {
            return parent->subject.vm;
        }
    }
    if (!http_lua_settings_of(request)->script.code_cache) {
        own = script_vm_private(&main->script.options, &request->log);
    }
    return own != NULL ? own : main->script.vm;
}

struct http_lua_request *http_lua_request_of(struct request *request)
{
    struct http_lua_request *lua = request_data(request, &http_lua_key, sizeof(*lua));

    if (!lua->has_begun) {
        const struct http_lua_main *main = location_settings(request->location, &http_lua_main_key);

        lua->has_begun = true;
        lua->request = request;
        script_subject_begin(&lua->subject, &http_lua_request_kind, vm_for(request, main),
                             &request->log);
        arena_on_free(&request->arena, request_ends, lua);
    }
    if (lua->redirects !=
        request->redirects) { /* of a request that is another now nothing is kept */
        lua->redirects = request->redirects;
        script_context_drop(&lua->subject);
    }
    lua->subject.settings = &http_lua_settings_of(request)->script;
    return lua;
}

struct http_lua_request *http_lua_request_begun(struct request *request)
{
    return request_data(request, &http_lua_key, 0);
}

struct http_lua_request *http_lua_check_request(lua_State *L, const struct script_thread *thread)
{
    if (thread == NULL || thread->phase == SCRIPT_INIT) {
        luaL_error(L, "no request found");
    }
    if (thread->subject->kind != &http_lua_request_kind) {
        luaL_error(L, "API disabled in the current context");
    }
    return container_of(thread->subject, struct http_lua_request, subject);
}

struct request *http_lua_demand(lua_State *L, const struct script_thread *thread, uint32_t phases)
{
    struct http_lua_request *lua = http_lua_check_request(L, thread);

    if ((thread->phase & phases) == 0) {
        luaL_error(L, "API disabled in the current context");
    }
    return lua->request;
}

_Noreturn void http_lua_decide(lua_State *L, struct script_thread *thread,
                               enum handler_result result)
{
    struct http_lua_request *lua = http_lua_check_request(L, thread);

    script_demand_abortable(L, thread);
    script_demand_leavable(L);
    lua->result = (struct http_lua_result){.kind = LUA_RESULT_DECIDED, .result = result};
    script_leave(thread, SCRIPT_LEFT);
}

int http_lua_ffi_request(uint32_t phases, struct request **out)
{
    const struct script_thread *thread = script_running();

    if (thread == NULL || thread->phase == SCRIPT_INIT) {
        return LUA_FFI_NO_REQUEST;
    }
    if (thread->subject->kind != &http_lua_request_kind || (thread->phase & phases) == 0) {
        return LUA_FFI_BAD_CONTEXT;
    }
    *out = http_lua_running_request();
    return LUA_FFI_OK;
}

struct request *http_lua_running_request(void)
{
    return container_of(script_running()->subject, struct http_lua_request, subject)->request;
}

int http_lua_variable_set(struct request *request, struct str name, struct str value)
{
    return script_variable_set(&request->env, name, value);
}
