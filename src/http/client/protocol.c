/* The protocols that are registered: which of them is it? */
#include "http/client/protocol.h"

#include "http/routing/settings.h"

const struct http_protocol *protocol_of_parameter(const struct http_main *main, struct str word)
{
    vec_each(const struct http_protocol *, protocol, &main->protocols) {
        if ((*protocol)->parameter != NULL && str_is(word, (*protocol)->parameter)) {
            return *protocol;
        }
    }
    return NULL;
}

bool listen_is_quic(const struct http_listen *listen)
{
    return listen->asked != NULL && listen->asked->is_quic;
}

bool protocol_is_on(const struct http_protocol *protocol, const struct http_listen *listen,
                    const struct http_server *server)
{
    if (protocol->is_quic != listen_is_quic(listen)) {
        return false;
    }
    return protocol->is_on == NULL || (listen->asked == protocol && !protocol->is_quic) ||
           protocol->is_on(server);
}

/* The protocols of this set, a bit each, the newest first. */
static struct str offer_of(const struct vec *protocols, unsigned set, struct arena *arena)
{
    struct str list = STR_NONE;

    for (unsigned i = (unsigned) protocols->count; i-- > 0;) {
        if ((set & 1u << i) != 0) {
            struct str names = (*vec_at(protocols, const struct http_protocol *, i))->alpn;
            list = arena_join(arena, (struct str[]){list, names}, 2);
        }
    }
    return list;
}

void protocols_finish(struct http_main *main, struct arena *arena)
{
    unsigned sets = 1u << main->protocols.count;

    main->offers = arena_array(arena, sets, sizeof(*main->offers));
    for (unsigned set = 0; set < sets; set++) {
        main->offers[set] = offer_of(&main->protocols, set, arena);
    }
}

struct str protocols_offered(const struct http_listen *listen, const struct http_server *server)
{
    const struct http_main *main = listen->default_server->main;
    unsigned set = 0;

    for (unsigned i = 0; i < main->protocols.count; i++) {
        const struct http_protocol *protocol =
            *vec_at(&main->protocols, const struct http_protocol *, i);
        set |= protocol_is_on(protocol, listen, server) ? 1u << i : 0;
    }
    return main->offers[set];
}

/* Is the name one of a list in wire form? */
static bool has_name(struct str list, struct str name)
{
    while (list.len != 0) {
        size_t len = (unsigned char) list.data[0];

        if (str_equal(str_head(str_skip(list, 1), len), name)) {
            return true;
        }
        list = str_skip(list, 1 + len);
    }
    return false;
}

const struct http_protocol *protocol_agreed(const struct http_listen *listen, struct str name)
{
    if (name.len != 0) {
        vec_each(const struct http_protocol *, protocol, &listen->default_server->main->protocols) {
            if (has_name((*protocol)->alpn, name)) {
                return *protocol;
            }
        }
    }
    return listen->protocol;
}

static bool is_known_by_preface(const struct http_protocol *protocol,
                                const struct http_listen *listen)
{
    return protocol->preface.len != 0 && protocol_is_on(protocol, listen, listen->default_server);
}

const struct http_protocol *protocol_of_preface(const struct http_listen *listen, struct str input,
                                                bool *may_come)
{
    *may_come = false;
    vec_each(const struct http_protocol *, protocol, &listen->default_server->main->protocols) {
        struct str preface = (*protocol)->preface;

        if (!is_known_by_preface(*protocol, listen)) {
            continue;
        }
        if (input.len >= preface.len && str_starts(input, preface)) {
            return *protocol;
        }
        *may_come |= str_starts(preface, input);
    }
    return NULL;
}

bool protocols_have_preface(const struct http_listen *listen)
{
    vec_each(const struct http_protocol *, protocol, &listen->default_server->main->protocols) {
        if (is_known_by_preface(*protocol, listen)) {
            return true;
        }
    }
    return false;
}
