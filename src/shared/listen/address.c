/* Addresses that protocols listen on: all listeners are created here. */
#include "shared/listen/address.h"

#include "server/generation.h"

struct listener *listen_address_open(struct conf *conf, const struct conf_node *node,
                                     const struct addr *addr, struct listen_address *address)
{
    struct generation *generation = conf->generation;
    struct listener **last = &generation->listeners;
    char text[ADDR_TEXT_MAX];

    for (; *last != NULL; last = &(*last)->next) {
        if ((*last)->options.is_datagram == address->is_datagram &&
            addr_equal(&(*last)->addr, addr)) {
            /* nginx finds out when it binds the second one */
            conf_error(conf, node, "bind() to %.*s failed (98: Address already in use)",
                       STR_ARG((*last)->text));
            conf_hint(conf, "another block (http, stream, mail) listens there");
            return NULL;
        }
    }
    struct listener *listener = arena_new(conf->arena, struct listener);
    listener->magic = LISTENER_MAGIC;
    listener->addr = *addr;
    listener->text = arena_dup(conf->arena, (struct str){text, addr_format(addr, true, text)});
    listener->options = (struct listen_options) LISTEN_OPTIONS_INIT;
    listener->options.is_datagram = address->is_datagram;
    *last = listener;
    address->listener = listener;
    address->needs_local_address = addr_is_wildcard(addr);
    return listener;
}

bool listen_address_add(struct conf *conf, const struct conf_node *node,
                        const struct listen_words *words, struct listen_address *address)
{
    struct listener *listener = address->listener;

    address->is_proxy_protocol |= words->is_proxy_protocol;
    address->is_ssl |= words->is_ssl;
    if (words->is_ssl && address->ssl_node == NULL) {
        address->ssl_node = node;
    }
    if (words->has_options) {
        bool is_only_reuseport = words->options.is_reuseport && listener->options.is_reuseport;

        if (address->has_options && !is_only_reuseport) {
            return conf_error(conf, node, "duplicate listen options for %.*s",
                              STR_ARG(listener->text));
        }
        address->has_options = true;
        listener->options = words->options;
        listener->options.is_datagram = address->is_datagram;
    }
    if (words->is_default) {
        if (address->is_default_explicit) {
            return conf_error(conf, node, "a duplicate default server for %.*s",
                              STR_ARG(listener->text));
        }
        address->is_default_explicit = true;
    }
    return true;
}
