/* ngx_mail_pop3_module: POP3. */
#include "mail/modules/pop3/pop3.h"
#include "mail/words/sasl.h"
#include "server/module.h"

/* clang-format off */
static const struct directive_word auth_words[] = {
    {"plain", MAIL_PLAIN | MAIL_LOGIN},
    {"apop", MAIL_APOP},
    {"cram-md5", MAIL_CRAM_MD5},
    {"external", MAIL_EXTERNAL},
    {NULL, 0},
};
/* clang-format on */

#define S struct pop3_settings
static const struct directive rows[] = {
    {"pop3_auth", IN_MAIL_ALL, BITS(S, auth, auth_words), .initial = "plain",
     .repeat = REPEAT_APPEND,
     .doc = "Authentication methods for POP3 clients. USER and PASS, AUTH PLAIN and AUTH LOGIN "
            "are always allowed."},
    {"pop3_capabilities", IN_MAIL_ALL, STRINGS(S, listed), .initial = "TOP USER UIDL",
     .repeat = REPEAT_APPEND,
     .doc = "Extensions listed in the response to CAPA. SASL and STLS are added automatically."},
    {0},
};
#undef S

static struct str with(struct arena *arena, struct str text, const char *line)
{
    return arena_concat(arena, text, str_of(line));
}

/* "SASL PLAIN LOGIN" for CAPA; *methods: the same with one name a line, for AUTH. */
static struct str sasl_line(struct arena *arena, const struct pop3_settings *settings,
                            struct str *methods)
{
    struct str line = STR("SASL");

    *methods = STR("+OK methods supported:\r\n");
    for (const struct sasl_name *known = sasl_names; known->method != 0; known++) {
        if (settings->auth & known->method) {
            line = arena_printf(arena, "%.*s %.*s", STR_ARG(line), STR_ARG(known->name));
            *methods = arena_printf(arena, "%.*s%.*s\r\n", STR_ARG(*methods), STR_ARG(known->name));
        }
    }
    *methods = with(arena, *methods, ".\r\n");
    return with(arena, line, "\r\n");
}

static bool mail_pop3_finish(struct conf_scope *scope, void *arg)
{
    struct pop3_settings *settings = arg;
    struct arena *arena = scope->conf->arena;
    struct str head = STR("+OK Capability list follows\r\n");
    struct str secret = head; /* without methods that send a password in the clear */

    vec_each(struct str, word, &settings->listed) {
        head = arena_printf(arena, "%.*s%.*s\r\n", STR_ARG(head), STR_ARG(*word));
        if (!str_equal_nocase(*word, STR("USER"))) {
            secret = arena_printf(arena, "%.*s%.*s\r\n", STR_ARG(secret), STR_ARG(*word));
        }
    }
    head = arena_concat(arena, head, sasl_line(arena, settings, &settings->methods));
    settings->capabilities = with(arena, head, ".\r\n");
    settings->starttls_capabilities = with(arena, head, "STLS\r\n.\r\n");
    settings->starttls_only_capabilities = with(arena, secret, "STLS\r\n.\r\n");
    return true;
}

struct settings_key pop3_key;

static const struct mail_module hooks = {.protocol = &pop3_protocol};

const struct module ngx_mail_pop3_module = {
    .magic = MODULE_MAGIC,
    .name = "ngx_mail_pop3_module",
    .kind = MODULE_MAIL,
    .table = {.key = &pop3_key,
              .rows = rows,
              .contexts = IN_MAIL_ALL,
              .size = sizeof(struct pop3_settings),
              .finish = mail_pop3_finish},
    .hooks = &hooks,
};
