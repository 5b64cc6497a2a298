/* The commands of SSI. */
#include "base/text.h"
#include "http/modules/filters/ssi/ssi.h"

#define PARAMETERS_MAX 5 /* of one command */

/* A parameter of a command. */
struct parameter {
    const char *name;
    bool is_mandatory;
};

/* Values by the command's parameters; NULL for one that is absent. False: output the error
 * message. */
typedef bool (*command_run)(struct ssi_page *page, const struct str *const *values);

struct command {
    const char *name;
    struct parameter parameters[PARAMETERS_MAX + 1]; /* ended by a NULL name */
    command_run run;
    bool is_structure; /* runs even where text is skipped */
};

/* ---- echo, set, config ---- */

/* An unknown name leaves the encoding unchanged. */
static void choose_encoding(struct ssi_page *page, struct str name)
{
    if (str_is(name, "none")) {
        page->encoding = SSI_NONE;
    } else if (str_is(name, "url")) {
        page->encoding = SSI_URL;
    } else if (str_is(name, "entity")) {
        page->encoding = SSI_ENTITY;
    } else {
        log_error(&page->request->log, 0, "unknown encoding \"%.*s\" in the \"echo\" command",
                  STR_ARG(name));
    }
}

static struct str encode(struct ssi_page *page, struct str value)
{
    return page->encoding == SSI_NONE
               ? value
               : escape_str(&page->request->arena, value,
                            page->encoding == SSI_URL ? ESCAPE_IN_PAGE : ESCAPE_HTML);
}

/* var, default, encoding */
static bool run_echo(struct ssi_page *page, const struct str *const *values)
{
    struct str value;

    if (!ssi_get(page->request, *values[0], &value)) {
        if (values[1] == NULL) {
            ssi_output(page, STR("(none)"));
            return true;
        }
        value = *values[1];
    }
    if (values[2] != NULL) {
        choose_encoding(page, *values[2]);
    }
    ssi_output(page, encode(page, value));
    return true;
}

/* var, value */
static bool run_set(struct ssi_page *page, const struct str *const *values)
{
    struct str value;

    if (!ssi_evaluate(page->request, *values[1], &value)) {
        return false;
    }
    ssi_set(page->request, *values[0], value);
    return true;
}

/* timefmt, errmsg */
static bool run_config(struct ssi_page *page, const struct str *const *values)
{
    struct arena *arena = &page->request->arena;

    if (values[0] != NULL) {
        page->timefmt = (struct str){arena_cstr(arena, *values[0]), values[0]->len};
    }
    if (values[1] != NULL) {
        page->error_message = arena_dup(arena, *values[1]);
    }
    return true;
}

/* ---- if ---- */

static bool tell_context(struct ssi_page *page, const char *command)
{
    log_error(&page->request->log, 0, "invalid context of SSI command: \"%s\"", command);
    return false;
}

/* expr */
static bool run_if(struct ssi_page *page, const struct str *const *values)
{
    struct ssi_if new = {.is_dead = ssi_is_skipping(page)};

    if (page->if_count == SSI_IF_DEPTH_MAX) {
        log_error(&page->request->log, 0, "too many \"if\" commands inside each other");
        return false;
    }
    if (!new.is_dead && !ssi_evaluate_condition(page->request, *values[0], &new.is_taken)) {
        return false;
    }
    new.was_taken = new.is_taken;
    page->ifs[page->if_count++] = new;
    return true;
}

static struct ssi_if *last_if(struct ssi_page *page)
{
    return page->if_count == 0 ? NULL : &page->ifs[page->if_count - 1];
}

/* expr */
static bool run_elif(struct ssi_page *page, const struct str *const *values)
{
    struct ssi_if *last = last_if(page);

    if (last == NULL || last->had_else) {
        return tell_context(page, "elif");
    }
    last->is_taken = false;
    if (last->is_dead || last->was_taken) {
        return true;
    }
    if (!ssi_evaluate_condition(page->request, *values[0], &last->is_taken)) {
        return false;
    }
    last->was_taken = last->is_taken;
    return true;
}

static bool run_else(struct ssi_page *page, const struct str *const *values)
{
    struct ssi_if *last = last_if(page);

    if (last == NULL || last->had_else) {
        return tell_context(page, "else");
    }
    last->is_taken = !last->is_dead && !last->was_taken;
    last->had_else = true;
    return true;
}

static bool run_endif(struct ssi_page *page, const struct str *const *values)
{
    if (page->if_count == 0) {
        return tell_context(page, "endif");
    }
    page->if_count--;
    return true;
}

/* ---- block ---- */

/* name */
static bool run_block(struct ssi_page *page, const struct str *const *values)
{
    struct arena *arena = &page->request->main->arena;
    struct ssi_block *block = arena_new(arena, struct ssi_block);

    block->name = arena_dup(arena, *values[0]);
    page->open_block = block;
    page->block_depth = 0;
    return true;
}

/* Without an open block nothing is logged, as in nginx. */
static bool run_endblock(struct ssi_page *page, const struct str *const *values)
{
    return true;
}

/* virtual, file, wait, set, stub */
static bool run_include(struct ssi_page *page, const struct str *const *values)
{
    const struct ssi_include include = {.virtual = values[0],
                                        .file = values[1],
                                        .wait = values[2],
                                        .set = values[3],
                                        .stub = values[4]};

    return ssi_include(page, &include);
}

/* ---- the table ---- */

static const struct command commands[] = {
    {"include",
     {{"virtual", false}, {"file", false}, {"wait", false}, {"set", false}, {"stub", false}},
     run_include,
     false},
    {"echo", {{"var", true}, {"default", false}, {"encoding", false}}, run_echo, false},
    {"config", {{"timefmt", false}, {"errmsg", false}}, run_config, false},
    {"set", {{"var", true}, {"value", true}}, run_set, false},
    {"if", {{"expr", true}}, run_if, true},
    {"elif", {{"expr", true}}, run_elif, true},
    {"else", {{NULL, false}}, run_else, true},
    {"endif", {{NULL, false}}, run_endif, true},
    {"block", {{"name", true}}, run_block, false},
    {"endblock", {{NULL, false}}, run_endblock, false},
};

static const struct command *find_command(struct str name)
{
    for (size_t i = 0; i < sizeof(commands) / sizeof(commands[0]); i++) {
        if (str_is(name, commands[i].name)) {
            return &commands[i];
        }
    }
    return NULL;
}

/* The index of a command's parameter; that of the end if it has none of this name. */
static unsigned find_parameter(const struct command *command, struct str name)
{
    unsigned i = 0;

    while (command->parameters[i].name != NULL && !str_is(name, command->parameters[i].name)) {
        i++;
    }
    return i;
}

/* Assigns the values to the command's parameters. False after an error. */
static bool take_values(struct ssi_page *page, const struct command *command,
                        const struct ssi_directive *directive, const struct str **values)
{
    const struct log *log = &page->request->log;

    for (unsigned i = 0; i < directive->count; i++) {
        const struct ssi_parameter *given = &directive->parameters[i];
        unsigned number = find_parameter(command, given->name);

        if (command->parameters[number].name == NULL) {
            log_error(log, 0, "invalid parameter name: \"%.*s\" in \"%s\" SSI command",
                      STR_ARG(given->name), command->name);
            return false;
        }
        if (values[number] != NULL) {
            log_error(log, 0, "duplicate \"%.*s\" parameter in \"%s\" SSI command",
                      STR_ARG(given->name), command->name);
            return false;
        }
        values[number] = &given->value;
    }
    for (unsigned i = 0; command->parameters[i].name != NULL; i++) {
        if (command->parameters[i].is_mandatory && values[i] == NULL) {
            log_error(log, 0, "mandatory \"%s\" parameter is absent in \"%s\" SSI command",
                      command->parameters[i].name, command->name);
            return false;
        }
    }
    return true;
}

void ssi_run(struct ssi_page *page, const struct ssi_directive *directive)
{
    const struct command *command = find_command(directive->command);
    const struct str *values[PARAMETERS_MAX + 1] = {NULL};
    bool is_skipping = ssi_is_skipping(page);

    if (is_skipping && (command == NULL || !command->is_structure)) {
        return;
    }
    if (command == NULL) {
        log_error(&page->request->log, 0, "invalid SSI command: \"%.*s\"",
                  STR_ARG(directive->command));
        ssi_fail(page);
        return;
    }
    if (!take_values(page, command, directive, values) || !command->run(page, values)) {
        ssi_fail(page);
    }
}
