/* The lexer and the block structure: one text to nodes. */
#include "conf/internal.h"

#define HINT_WORDS 60 /* bytes of a statement that a hint shows */

/* One text that is being read. All state is here; a file that is included has another one. */
struct lexer {
    struct conf *conf;
    const struct conf_reading *reading;
    const struct conf_file *file;
    const char *at;          /* next byte */
    const char *end;         /* one past the last */
    unsigned line;           /* line number of `at` */
    struct conf_node *outer; /* the block that contains the text */
    struct conf_node *block; /* innermost open block */
    unsigned depth;          /* number of open blocks, including those of outer files */
    bool is_good;            /* no grammar error so far */
    bool is_stopped;         /* after an error the remaining text would make no sense */
    const char *stray; /* the last "}" among words: one before it may have been part of a word */

    /* The statement that is being read. */
    struct vec words;    /* struct word */
    const char *source;  /* start of its first word */
    unsigned start_line; /* line of its first word */
    bool is_broken;      /* an error was reported: drop the statement */
};

/* One word of the statement, decoded. */
struct word {
    struct str text;
    bool is_quoted;
};

static bool is_command_line(const struct lexer *lexer)
{
    return lexer->file->name.len == 0;
}

__attribute__((format(printf, 3, 4))) static void grammar_error(struct lexer *lexer, unsigned line,
                                                                const char *format, ...)
{
    if (lexer->is_broken) {
        return;
    }
    va_list args;
    va_start(args, format);
    struct str text = arena_vprintf(lexer->conf->arena, format, args);
    va_end(args);

    const char *source = lexer->words.count != 0 ? lexer->source : lexer->at;
    conf_error_at(lexer->conf, lexer->file, line, source < lexer->end ? source : NULL, "%.*s",
                  STR_ARG(text));
    lexer->is_good = false;
    lexer->is_broken = true;
}

/* An error in the number of braces: see conf_message.braces. */
static void brace_error(struct lexer *lexer, int braces, const char *text)
{
    if (!lexer->is_broken) {
        grammar_error(lexer, lexer->line, "%s", text);
        lexer->conf->messages->braces = braces;
    }
}

/* Decodes the escapes of a word: \" \' \\ \t \r \n; any other backslash is kept. */
static struct str lexer_decode(struct arena *arena, struct str raw)
{
    char *text = arena_text(arena, raw.len + 1);
    char *out = text;

    for (size_t i = 0; i < raw.len; i++) {
        char c = raw.data[i];
        if (c == '\\' && i + 1 < raw.len) {
            switch (raw.data[i + 1]) {
            case '"':
            case '\'':
            case '\\':
                c = raw.data[++i];
                break;
            case 't':
                c = '\t';
                i++;
                break;
            case 'r':
                c = '\r';
                i++;
                break;
            case 'n':
                c = '\n';
                i++;
                break;
            default:
                *out++ = c;
                c = raw.data[++i];
                break;
            }
        }
        *out++ = c;
    }
    *out = '\0';
    return str_from(text, out);
}

static void add_word(struct lexer *lexer, struct str raw, bool is_quoted)
{
    struct word *word = vec_add(&lexer->words, lexer->conf->arena, struct word);

    word->text = lexer_decode(lexer->conf->arena, raw);
    word->is_quoted = is_quoted;
}

/* Takes one byte and counts lines. */
static char next_byte(struct lexer *lexer)
{
    char c = *lexer->at++;
    if (c == '\n') {
        lexer->line++;
    }
    return c;
}

/* The words read so far, for a hint. */
static struct str words_so_far(const struct lexer *lexer)
{
    struct str text = STR("");

    for (size_t i = 0; i < lexer->words.count; i++) {
        text = arena_printf(lexer->conf->arena, "%.*s%s%.*s", STR_ARG(text), i == 0 ? "" : " ",
                            STR_ARG(vec_at(&lexer->words, struct word, i)->text));
    }
    return text;
}

/* Hints at a statement that is cut off by the end of the text or by a brace. quote_line: where a
 * quote opens; 0 = none does. */
static void hint_unfinished(struct lexer *lexer, unsigned quote_line)
{
    struct str words = words_so_far(lexer);

    if (quote_line != 0) {
        conf_hint(lexer->conf, "the quote that opens in line %u is not closed", quote_line);
    } else if (words.len != 0) {
        conf_hint(lexer->conf, "is \";\" missing after \"%.*s%s\"?",
                  (int) (words.len > HINT_WORDS ? HINT_WORDS : words.len), words.data,
                  words.len > HINT_WORDS ? "..." : "");
    }
}

static void end_of_text(struct lexer *lexer, bool is_inside_statement, unsigned quote_line)
{
    lexer->is_stopped = true;
    if (is_inside_statement && !lexer->is_broken) {
        grammar_error(lexer, lexer->line, "unexpected end of %s",
                      is_command_line(lexer) ? "parameter, expecting \";\""
                                             : "file, expecting \";\" or \"}\"");
        hint_unfinished(lexer, quote_line);
    } else if (is_inside_statement) {
        return;
    } else if (lexer->block != lexer->outer && !lexer->block->is_dropped) {
        /* A case such as "return 200}" was reported already, and this error is its consequence. */
        if (lexer->stray == NULL || lexer->stray < lexer->block->source) {
            brace_error(lexer, -1, "unexpected end of file, expecting \"}\"");
            conf_hint(lexer->conf, "the block \"%.*s\" of line %u is open",
                      STR_ARG(lexer->block->args[0]), lexer->block->line);
        }
    }
}

/* Reports a word that is too long; the message quotes its first bytes. */
static void too_long(struct lexer *lexer, const char *start, unsigned line)
{
    grammar_error(lexer, line, "too long parameter \"%.*s...\" started",
                  (int) (lexer->end - start < 10 ? lexer->end - start : 10), start);
}

/* Reads a word in quotes; `at` is after the opening one. Only a space, ';', '{' or ')' may
 * follow. */
static void read_quoted(struct lexer *lexer, char quote)
{
    const char *start = lexer->at;
    unsigned line = lexer->line;

    for (;;) {
        if (lexer->at - start >= TOKEN_MAX) {
            grammar_error(lexer, line,
                          "too long parameter, probably missing terminating \"%c\" character",
                          quote);
            hint_unfinished(lexer, line);
            lexer->is_stopped = true;
            return;
        }
        if (lexer->at == lexer->end) {
            end_of_text(lexer, true, line);
            return;
        }
        char c = next_byte(lexer);
        if (c == '\\' && lexer->at < lexer->end) {
            next_byte(lexer);
        } else if (c == quote) {
            break;
        }
    }
    if (lexer->at - start >= TOKEN_MAX) {
        too_long(lexer, start, line);
        return;
    }
    add_word(lexer, str_from(start, lexer->at - 1), true);
    if (lexer->at < lexer->end) {
        char c = *lexer->at;
        if (!ascii_is_space(c) && c != ';' && c != '{' && c != ')') {
            grammar_error(lexer, lexer->line, "unexpected \"%c\"", c);
        }
    }
}

/*
 * Reads a word without quotes: white space, ';' or '{' ends it, "${" and characters after a
 * backslash do not.
 */
static void read_bare(struct lexer *lexer)
{
    const char *start = lexer->at;
    unsigned line = lexer->line;

    while (lexer->at < lexer->end) {
        char c = *lexer->at;
        if (ascii_is_space(c) || c == ';' || c == '{') {
            if (lexer->at - start >= TOKEN_MAX) {
                too_long(lexer, start, line);
                return;
            }
            add_word(lexer, str_from(start, lexer->at), false);
            return;
        }
        next_byte(lexer);
        if (lexer->at == lexer->end) {
            break;
        }
        if (c == '\\' || (c == '$' && *lexer->at == '{')) {
            next_byte(lexer);
        }
    }
    if (lexer->at - start >= TOKEN_MAX) {
        too_long(lexer, start, line);
        lexer->is_stopped = true;
        return;
    }
    add_word(lexer, str_from(start, lexer->end), false);
    end_of_text(lexer, true, 0);
}

static void lexer_skip_blanks(struct lexer *lexer)
{
    while (lexer->at < lexer->end) {
        if (*lexer->at == '#') {
            while (lexer->at < lexer->end && *lexer->at != '\n') {
                lexer->at++;
            }
        } else if (ascii_is_space(*lexer->at)) {
            next_byte(lexer);
        } else {
            return;
        }
    }
}

/* Makes the node of the statement that just ended with ';' or '{'. */
static struct conf_node *make_node(struct lexer *lexer, bool is_block)
{
    struct arena *arena = lexer->conf->arena;
    struct conf_node *node = arena_new(arena, struct conf_node);
    size_t count = lexer->words.count;
    struct str *args = arena_array(arena, count + 1, sizeof(*args));
    bool *quoted = arena_array(arena, count + 1, sizeof(*quoted));

    for (size_t i = 0; i < count; i++) {
        const struct word *word = vec_at(&lexer->words, struct word, i);
        args[i] = word->text;
        quoted[i] = word->is_quoted;
    }
    node->args = args;
    node->quoted = quoted;
    node->count = (unsigned) count;
    node->is_block = is_block;
    node->parent = lexer->block;
    node->file = lexer->file;
    node->line = lexer->start_line;
    node->end_line = node->close_line = lexer->line;
    node->order = node->close_order = lexer->conf->next_order++;
    node->source = lexer->source;
    node->is_dropped = lexer->is_broken || lexer->block->is_dropped;
    return node;
}

static void append_node(struct conf_node *block, struct conf_node *node)
{
    if (block->last_child == NULL) {
        block->children = node;
    } else {
        block->last_child->next = node;
    }
    block->last_child = node;
}

static void include_here(struct lexer *lexer, const struct conf_node *node)
{
    if (node->count != 2) {
        grammar_error(lexer, node->end_line,
                      "invalid number of arguments in \"include\" directive");
    } else if (!conf_include_into(lexer->conf, lexer->reading, lexer->block, node)) {
        lexer->is_good = false;
    }
}

static void end_statement(struct lexer *lexer)
{
    if (lexer->words.count == 0) {
        grammar_error(lexer, lexer->line, "unexpected \";\"");
    } else {
        struct conf_node *node = make_node(lexer, false);
        if (!node->is_dropped) {
            if (str_equal(node->args[0], STR("include"))) {
                include_here(lexer, node);
            } else {
                append_node(lexer->block, node);
            }
        }
    }
    lexer->at++;
}

static bool is_in_stream(const struct conf_node *block)
{
    while (block != NULL && block->count != 0 && !str_equal(block->args[0], STR("stream"))) {
        block = block->parent;
    }
    return block != NULL && block->count != 0;
}

/* Reports a long bracket that is not closed, at its start. The messages are those of OpenResty's
   modules. */
static void complain_of_bracket(struct lexer *lexer, const char *start, const char *bracket,
                                int level)
{
    unsigned line = lexer->line;

    for (const char *at = start; at < bracket; at++) {
        line += *at == '\n';
    }
    grammar_error(lexer, line, "Lua code block missing the closing long bracket \"]%.*s]\"%s",
                  level, bracket + 1,
                  is_in_stream(lexer->block) ? "" : ", the inlined Lua code may be too long");
}

/* `content_by_lua_block {`: the text up to the closing brace is the last argument of the
 * statement. */
static void read_code(struct lexer *lexer)
{
    const char *start = ++lexer->at;
    const char *close = start;
    int level = 0;

    switch (conf_code_block(start, lexer->end, &close, &level)) {
    case CODE_CLOSED:
        break;
    case CODE_OPEN:
        lexer->is_stopped = true;
        grammar_error(
            lexer, lexer->line,
            "unexpected end of file, expecting terminating characters for lua code block");
        return;
    case CODE_LONG_BRACKET:
        lexer->is_stopped = true;
        complain_of_bracket(lexer, start, close, level);
        return;
    case CODE_QUOTE:
        lexer->is_stopped = true;
        grammar_error(lexer, lexer->line, "Lua code block missing the closing quote %c of a string",
                      *close);
        return;
    }
    struct word *word = vec_add(&lexer->words, lexer->conf->arena, struct word);

    word->text = str_from(start, close);
    word->text.data = arena_cstr(lexer->conf->arena, word->text);
    word->is_quoted = true;

    struct conf_node *node = make_node(lexer, false);
    node->is_code = true;
    while (lexer->at < close) {
        next_byte(lexer);
    }
    lexer->at++;
    if (!node->is_dropped) {
        append_node(lexer->block, node);
    }
}

static void open_block(struct lexer *lexer)
{
    if (lexer->words.count == 0) {
        grammar_error(lexer, lexer->line, "unexpected \"{\"");
    } else if (is_command_line(lexer)) {
        grammar_error(lexer, lexer->line, "block directives are not supported in -g option");
    } else if (str_equal(vec_at(&lexer->words, struct word, 0)->text, STR("include"))) {
        grammar_error(lexer, lexer->line, "directive \"include\" is not terminated by \";\"");
    } else if (lexer->depth >= BLOCK_DEPTH) {
        grammar_error(lexer, lexer->line, "blocks are nested too deeply, at most %d are possible",
                      BLOCK_DEPTH);
        lexer->is_stopped = true;
        return;
    }
    struct conf_node *node = make_node(lexer, true);
    if (!node->is_dropped) {
        append_node(lexer->block, node);
    }
    lexer->block = node;
    lexer->depth++;
    lexer->at++;
}

/*
 * Handles a '}'. False when the statement continues after it: the brace closes no block and is
 * among words.
 */
static bool close_block(struct lexer *lexer)
{
    bool closes_nothing = lexer->block == lexer->outer;

    if (lexer->words.count != 0) {
        if (!lexer->is_broken) {
            grammar_error(lexer, lexer->line, "unexpected \"}\"");
            hint_unfinished(lexer, 0);
        }
        lexer->stray = lexer->at;
    } else if (closes_nothing) {
        brace_error(lexer, 1, "unexpected \"}\"");
    }
    lexer->at++;
    if (closes_nothing) {
        return lexer->words.count == 0;
    }
    lexer->block->close_line = lexer->line;
    lexer->block->close_order = lexer->conf->next_order++;
    lexer->block = lexer->block->parent;
    lexer->depth--;
    return true;
}

/* Reads one statement: words up to ';', '{' or '}'. False at the end of the text. */
static bool read_statement(struct lexer *lexer)
{
    lexer->words.count = 0;
    lexer->is_broken = false;

    for (;;) {
        lexer_skip_blanks(lexer);
        if (lexer->at == lexer->end) {
            end_of_text(lexer, lexer->words.count != 0, 0);
            return false;
        }
        if (lexer->words.count == 0) {
            lexer->source = lexer->at;
            lexer->start_line = lexer->line;
        }
        switch (*lexer->at) {
        case ';':
            end_statement(lexer);
            return true;
        case '{':
            if (lexer->words.count != 0 &&
                conf_is_code_block(vec_at(&lexer->words, struct word, 0)->text)) {
                read_code(lexer);
            } else {
                open_block(lexer);
            }
            return !lexer->is_stopped;
        case '}':
            if (close_block(lexer)) {
                return true;
            }
            break;
        case '"':
        case '\'':
            read_quoted(lexer, next_byte(lexer));
            break;
        default:
            read_bare(lexer);
            break;
        }
        if (lexer->is_stopped) {
            return false;
        }
    }
}

bool conf_parse_into(struct conf *conf, const struct conf_reading *reading, struct conf_node *block)
{
    const struct conf_file *file = reading->file;
    struct lexer lexer = {
        .conf = conf,
        .reading = reading,
        .file = file,
        .at = file->text.data,
        .end = file->text.data == NULL ? NULL : file->text.data + file->text.len,
        .line = 1,
        .outer = block,
        .block = block,
        .is_good = true,
    };

    for (const struct conf_node *node = block; node->parent != NULL; node = node->parent) {
        lexer.depth++;
    }
    while (read_statement(&lexer)) {
    }
    /* Blocks that are still open end where the text ends. */
    while (lexer.block != block) {
        lexer.block->close_line = lexer.line;
        lexer.block->close_order = conf->next_order++;
        lexer.block = lexer.block->parent;
    }
    return lexer.is_good;
}

bool conf_parse_text(struct conf *conf, const struct conf_file *file)
{
    struct conf_reading reading = {.file = file};

    if (conf->root == NULL) {
        conf->root = arena_new(conf->arena, struct conf_node);
        conf->root->is_block = true;
    }
    return conf_parse_into(conf, &reading, conf->root);
}
