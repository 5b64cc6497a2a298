/* From the head of a client's request to the request: server, target, length. */
#include "http/request/from_head.h"

#include "http/message/parser.h"

bool host_split(struct known_host *known, struct arena *arena, struct str value, struct str *host,
                struct str *port)
{
    if (known_host_is(known, value)) {
        *host = str_head(value, known->name_len);
        *port = str_skip(value, value.len - known->port_len);
        return true;
    }
    if (!authority_parse(arena, value, host, port)) {
        return false;
    }
    if (host->data == value.data && value.len <= sizeof(known->value)) {
        memcpy(known->value, value.data, value.len);
        known->len = (uint8_t) value.len;
        known->name_len = (uint8_t) host->len;
        known->port_len = (uint8_t) port->len;
        known->server = NULL;
    }
    return true;
}

void request_choose_server(struct request *request, bool is_host_valid)
{
    const struct http_listen *listen = request->connection->listen;

    request->server = listen->default_server;
    if (listen->has_names && is_host_valid) {
        request->server = server_find(listen, request->head.host, &request->env);
    }
    request_set_location(request, request->server->root);
}

const struct field *request_repeated_field(const struct request *request,
                                           const struct field **former)
{
#define ONCE(id, name, repeats) [id] = !(repeats),
    static const bool once[FIELD_COUNT] = {KNOWN_FIELDS(ONCE)};
#undef ONCE
    const struct fields *fields = &request->headers;

    for (uint32_t i = 0; i < fields->count; i++) {
        const struct field *field = &fields->items[i];

        *former = once[field->id] ? fields_get(fields, (enum field_id) field->id) : field;
        if (*former != field) {
            return field;
        }
    }
    return NULL;
}

void request_set_tunnel(struct request *request)
{
    request_set_uri(request, STR("/"), STR_NONE);
}

bool request_names_tunnel_end(const struct request *request)
{
    return request->head.host.len != 0 && request->head.port.len != 0;
}
