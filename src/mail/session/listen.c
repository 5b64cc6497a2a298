/* `listen` of mail: one server for each address. */
#include "mail/session/session.h"

struct settings_key mail_main_key;
struct settings_key mail_server_key;

struct mail_main *mail_main_of(struct conf *conf)
{
    return *(struct mail_main **) conf_state(conf, "mail", sizeof(struct mail_main *));
}

void mail_main_set(struct conf *conf, struct mail_main *main)
{
    *(struct mail_main **) conf_state(conf, "mail", sizeof(struct mail_main *)) = main;
}

static bool refuse_word(struct conf *conf, const struct conf_node *node, struct str word)
{
    return conf_error(conf, node, "the invalid \"%.*s\" parameter", STR_ARG(word));
}

static bool read_words(struct conf *conf, const struct conf_node *node, struct listen_words *words)
{
    listen_words_init(words);
    for (unsigned i = 2; i < node->count; i++) {
        struct str word = node->args[i];

        if (str_is(word, "ssl")) {
            if (mail_ssl_key.number == 0) {
                return conf_error(conf, node, "the \"ssl\" parameter requires ngx_mail_ssl_module");
            }
            words->is_ssl = true;
            continue;
        }
        switch (listen_word_read(conf, node, word, words)) {
        case LISTEN_WORD_TAKEN:
            if (words->is_default) {
                return refuse_word(conf, node, word);
            }
            break;
        case LISTEN_WORD_OTHER:
            return refuse_word(conf, node, word);
        case LISTEN_WORD_WRONG:
            return false;
        }
    }
    return true;
}

/* Is it an address without a port, as "127.0.0.1"? Mail has no default port. */
static bool lacks_port(const struct addr_list *addresses)
{
    return addresses->count != 0 && addresses->items[0].any.sa_family != AF_UNIX &&
           addr_port(&addresses->items[0]) == 0;
}

static bool add_address(struct conf *conf, const struct conf_node *node, struct mail_server *server,
                        const struct addr *addr, const struct listen_words *words)
{
    struct mail_main *main = server->main;

    vec_each(struct mail_listen *, other, &main->listens) {
        const struct listener *listener = (*other)->address.listener;

        if (addr_equal(&listener->addr, addr)) {
            return conf_error(conf, node, "duplicate \"%.*s\" address and port pair",
                              STR_ARG(listener->text));
        }
    }
    struct mail_listen *listen = arena_new(conf->arena, struct mail_listen);
    struct listener *listener = listen_address_open(conf, node, addr, &listen->address);
    if (listener == NULL) {
        return false;
    }
    listener->log = &listen->log;
    listener->accepted = mail_accepted;
    listener->user = listen;
    listen->server = server;
    *vec_add(&main->listens, conf->arena, struct mail_listen *) = listen;
    *vec_add(&server->listens, conf->arena, struct mail_listen *) = listen;
    return listen_address_add(conf, node, words, &listen->address);
}

bool mail_listen_apply(struct conf_scope *scope, const struct directive *row,
                       struct conf_node *node, void *settings)
{
    struct mail_server *server = settings;
    struct conf *conf = scope->conf;
    struct addr_list addresses;
    struct listen_words words;

    if (!addr_parse(conf->arena, node->args[1], 0, true, &addresses)) {
        return conf_error(conf, node, "%s in \"%.*s\" of the \"listen\" directive", addresses.error,
                          STR_ARG(node->args[1]));
    }
    if (lacks_port(&addresses)) {
        return conf_error(conf, node, "no port in \"%.*s\" of the \"listen\" directive",
                          STR_ARG(node->args[1]));
    }
    if (!read_words(conf, node, &words)) {
        return false;
    }
    for (size_t i = 0; i < addresses.count; i++) {
        if (!add_address(conf, node, server, &addresses.items[i], &words)) {
            return false;
        }
    }
    return true;
}
