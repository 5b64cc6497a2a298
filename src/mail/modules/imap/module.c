/* ngx_mail_imap_module: IMAP. */
#include "mail/modules/imap/imap.h"
#include "mail/words/sasl.h"
#include "server/module.h"

/* clang-format off */
static const struct directive_word auth_words[] = {
    {"plain", MAIL_PLAIN},
    {"login", MAIL_LOGIN},
    {"cram-md5", MAIL_CRAM_MD5},
    {"external", MAIL_EXTERNAL},
    {NULL, 0},
};
/* clang-format on */

#define S struct imap_settings
static const struct directive rows[] = {
    {"imap_client_buffer", IN_MAIL_ALL, SIZE(S, client_buffer), .initial = "4k", .min = 64,
     .max = 1 << 20, .doc = "Largest size of a command, including its literals."},
    {"imap_auth", IN_MAIL_ALL, BITS(S, auth, auth_words), .initial = "plain",
     .repeat = REPEAT_APPEND,
     .doc = "Methods allowed with the AUTHENTICATE command. The LOGIN command is always allowed."},
    {"imap_capabilities", IN_MAIL_ALL, STRINGS(S, listed), .initial = "IMAP4 IMAP4rev1 UIDPLUS",
     .repeat = REPEAT_APPEND,
     .doc = "Extensions listed in the response to CAPABILITY. AUTH= and STARTTLS are added "
            "automatically."},
    {0},
};
#undef S

static bool mail_imap_finish(struct conf_scope *scope, void *arg)
{
    struct imap_settings *settings = arg;
    struct arena *arena = scope->conf->arena;
    struct str bare = STR("* CAPABILITY");

    vec_each(struct str, word, &settings->listed) {
        bare = arena_printf(arena, "%.*s %.*s", STR_ARG(bare), STR_ARG(*word));
    }
    struct str full = bare;
    for (const struct sasl_name *known = sasl_names; known->method != 0; known++) {
        if (settings->auth & known->method) {
            full = arena_printf(arena, "%.*s AUTH=%.*s", STR_ARG(full), STR_ARG(known->name));
        }
    }
    settings->capabilities = arena_concat(arena, full, STR("\r\n"));
    settings->starttls_capabilities = arena_concat(arena, full, STR(" STARTTLS\r\n"));
    settings->starttls_only_capabilities =
        arena_concat(arena, bare, STR(" STARTTLS LOGINDISABLED\r\n"));
    return true;
}

struct settings_key imap_key;

static const struct mail_module hooks = {.protocol = &imap_protocol};

const struct module ngx_mail_imap_module = {
    .magic = MODULE_MAGIC,
    .name = "ngx_mail_imap_module",
    .kind = MODULE_MAIL,
    .table = {.key = &imap_key,
              .rows = rows,
              .contexts = IN_MAIL_ALL,
              .size = sizeof(struct imap_settings),
              .finish = mail_imap_finish},
    .hooks = &hooks,
};
