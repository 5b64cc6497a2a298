/* Messages about a configuration: collects them, and shows them in the order of the file. */
#define _GNU_SOURCE
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/fs.h"
#include "conf/internal.h"

#define WARNINGS_MAX 100 /* warnings that are shown for one reading */
#define ERRORS_MAX                                                                                 \
    1000 /* errors that are shown, regardless of the number of warnings before them */
#define EXCERPT_MAX 160 /* bytes of a source line that are shown */
#define NEAREST_MAX 48  /* longest words that are compared for "did you mean" */

/* Is the configuration refused because of it? conf_alert only warns. */
static bool is_fatal(const struct conf_message *message)
{
    return message->level <= LOG_ERROR && message->level != LOG_ALERT;
}

/* Adds a formatted message. */
static void add_message(struct conf *conf, struct conf_message *message)
{
    message->sequence = conf->messages == NULL ? 0 : conf->messages->sequence + 1;
    message->next = conf->messages;
    conf->messages = message;
    conf->error_count += is_fatal(message);
}

/* Finish hooks of a block in which a directive failed run without messages, which would be
 * consequences of that failure. */
static bool is_muted(const struct conf *conf)
{
    return conf->engine != NULL && conf->engine->mute != NULL;
}

static bool is_finishing(const struct conf *conf)
{
    return conf->engine != NULL && conf->engine->is_finishing;
}

/*
 * A message has the line at which nginx would have stopped reading: that of the ';' or '{' of its
 * directive; of the '}' of a block that was read to its end; for a finish hook, of the '}' of the
 * outermost block. The report is sorted by `order`.
 */
static void insert_message(const struct conf *conf, struct conf_message *message,
                           const struct conf_node *node)
{
    if (node == NULL || node->file == NULL) {
        return;
    }
    bool at_end = node->is_closed;

    message->node = node;
    if (is_finishing(conf) && node->is_block) {
        while (node->parent != NULL && node->parent->file != NULL) {
            node = node->parent;
        }
        at_end = true;
    }
    message->file = node->file;
    message->line = at_end ? node->close_line : node->end_line;
    message->order = at_end ? node->close_order : node->order;
    message->source = at_end ? NULL : node->source;
}

/* Is there an equal message for this line already? A finish hook finds the same mistake in each
 * block that inherits it. */
static bool was_said(const struct conf *conf, const struct conf_message *message)
{
    for (const struct conf_message *old = conf->messages; old != NULL; old = old->next) {
        if (old->file == message->file && old->line == message->line &&
            str_equal(old->text, message->text)) {
            return true;
        }
    }
    return false;
}

static void conf_messages_add_text(struct conf *conf, const struct conf_node *node,
                                   enum log_level level, int error, struct str text)
{
    if (is_muted(conf)) {
        return;
    }
    struct conf_message *message = arena_new(conf->arena, struct conf_message);
    message->level = level;
    message->error = error;
    message->order = conf->engine == NULL ? conf->next_order : conf->position;
    message->text = text;
    insert_message(conf, message, node);
    if (!is_finishing(conf) || !was_said(conf, message)) {
        add_message(conf, message);
    }
}

bool conf_error(struct conf *conf, const struct conf_node *node, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    conf_messages_add_text(conf, node, LOG_EMERG, 0, arena_vprintf(conf->arena, format, args));
    va_end(args);
    return false;
}

bool conf_errno(struct conf *conf, const struct conf_node *node, int error, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    conf_messages_add_text(conf, node, LOG_EMERG, error, arena_vprintf(conf->arena, format, args));
    va_end(args);
    return false;
}

bool conf_failure(struct conf *conf, const struct conf_node *node, enum log_level level, int error,
                  const char *format, ...)
{
    va_list args;
    va_start(args, format);
    conf_messages_add_text(conf, node, level, error, arena_vprintf(conf->arena, format, args));
    va_end(args);
    return false;
}

void conf_warn(struct conf *conf, const struct conf_node *node, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    conf_messages_add_text(conf, node, LOG_WARN, 0, arena_vprintf(conf->arena, format, args));
    va_end(args);
}

void conf_alert(struct conf *conf, const struct conf_node *node, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    conf_messages_add_text(conf, node, LOG_ALERT, 0, arena_vprintf(conf->arena, format, args));
    va_end(args);
}

bool conf_error_at(struct conf *conf, const struct conf_file *file, unsigned line,
                   const char *source, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    struct str text = arena_vprintf(conf->arena, format, args);
    va_end(args);

    struct conf_message *message = arena_new(conf->arena, struct conf_message);
    message->level = LOG_EMERG;
    message->text = text;
    message->file = file;
    message->line = line;
    message->order = conf->next_order++;
    message->source = source;
    add_message(conf, message);
    conf->grammar_error_count++;
    return false;
}

void conf_drop_brace_error(struct conf *conf, const struct conf_node *node, int braces)
{
    struct conf_message **first = NULL;

    /* The list is newest first: the last match is the first one in the file. */
    for (struct conf_message **link = &conf->messages; *link != NULL; link = &(*link)->next) {
        if ((*link)->braces == braces && (*link)->file == node->file &&
            (*link)->order > node->order) {
            first = link;
        }
    }
    if (first != NULL) {
        *first = (*first)->next;
        conf->error_count--;
    }
}

void conf_hint(struct conf *conf, const char *format, ...)
{
    if (conf->messages == NULL || is_muted(conf)) {
        return;
    }
    va_list args;
    va_start(args, format);
    conf->messages->hint = arena_vprintf(conf->arena, format, args);
    va_end(args);
}

/* The first of these nodes whose name begins with `prefix` and that has an argument which the text
   contains. */
static const struct conf_node *named_by(const struct conf_node *node, struct str prefix,
                                        struct str text)
{
    for (; node != NULL; node = node->next) {
        for (unsigned i = 1; str_starts(node->args[0], prefix) && i < node->count; i++) {
            if (node->args[i].len > 2 && str_find(text, node->args[i]) != NULL) {
                return node;
            }
        }
    }
    return NULL;
}

void conf_hint_origin(const struct conf_scope *scope, const char *prefix)
{
    struct conf *conf = scope->conf;

    for (; scope != NULL && conf->messages != NULL; scope = scope->parent) {
        const struct conf_node *node =
            named_by(scope->node->children, str_of(prefix), conf->messages->text);
        if (node != NULL && node->file != NULL) {
            conf_hint(conf, "\"%.*s\" in %.*s:%u names it", STR_ARG(node->args[0]),
                      STR_ARG(node->file->name), node->line);
            return;
        }
    }
}

void conf_mark(struct conf *conf, struct str word)
{
    if (conf->messages != NULL && !is_muted(conf)) {
        conf->messages->mark = word;
    }
}

/* ---- showing */

static int compare_messages(const void *a, const void *b)
{
    const struct conf_message *const *left = a;
    const struct conf_message *const *right = b;

    if ((*left)->order != (*right)->order) {
        return (*left)->order < (*right)->order ? -1 : 1;
    }
    return ((*left)->sequence > (*right)->sequence) - ((*left)->sequence < (*right)->sequence);
}

/*
 * The word that a message quotes, searched in its statement; else the start of the statement.
 */
static const char *find_spot(const struct conf_message *message)
{
    struct str text = message->text;
    const char *text_end = message->file->text.data + message->file->text.len;
    struct str statement = str_from(message->source, text_end);

    for (size_t i = 0; i < statement.len; i++) {
        if (statement.data[i] == ';' || statement.data[i] == '{') {
            statement.len = i;
        }
    }
    if (message->mark.len != 0) {
        /* Search the arguments only: the mark may also be part of the directive's name. */
        const char *blank = str_find_char(statement, ' ');
        const char *spot = blank == NULL ? NULL
                                         : str_find(str_from(blank, statement.data + statement.len),
                                                    message->mark);
        return spot != NULL ? spot : message->source;
    }
    const char *open = str_find_char(text, '"');
    const char *close =
        open == NULL ? NULL : str_find_char(str_from(open + 1, text.data + text.len), '"');
    if (close != NULL && close > open + 1) {
        const char *spot = str_find(statement, str_from(open + 1, close));
        if (spot != NULL) {
            return spot;
        }
    }
    return message->source;
}

/* Writes the source line, and a caret below the spot. */
static void put_excerpt(struct buf *out, const struct conf_message *message)
{
    struct str text = message->file->text;
    const char *spot = find_spot(message);
    const char *start = spot;
    const char *end = spot;

    while (start > text.data && start[-1] != '\n') {
        start--;
    }
    while (start < spot && (*start == ' ' || *start == '\t')) {
        start++;
    }
    if (spot - start > EXCERPT_MAX / 2) {
        start = spot - EXCERPT_MAX / 2;
    }
    while (end < text.data + text.len && *end != '\n' && *end != '\r' &&
           end - start < EXCERPT_MAX) {
        end++;
    }
    buf_append(out, STR("    "));
    for (const char *at = start; at < end; at++) {
        buf_append_char(out, (unsigned char) *at < ' ' || *at == 127 ? ' ' : *at);
    }
    buf_append(out, STR("\n    "));
    for (const char *at = start; at < spot; at++) {
        if (((unsigned char) *at & 0xc0) != 0x80) {
            buf_append_char(out, ' ');
        }
    }
    buf_append(out, STR("^\n"));
}

static void put_details(const struct conf_message *message)
{
    struct buf out = {0};

    if (message->source != NULL && message->file != NULL) {
        put_excerpt(&out, message);
    }
    if (message->hint.len != 0) {
        buf_append(&out, STR("    "));
        for (size_t i = 0; i < message->hint.len; i++) {
            unsigned char c = (unsigned char) message->hint.data[i];
            buf_append_char(&out, c < ' ' || c == 127 ? ' ' : (char) c);
        }
        buf_append_char(&out, '\n');
    }
    if (out.len != 0) {
        fs_write_all(STDERR_FILENO, buf_str(&out));
    }
    buf_free(&out);
}

static void show_message(const struct conf_message *message, const struct log *log)
{
    struct buf line = {0};

    buf_append(&line, message->text);
    if (message->error != 0) {
        const char *text = strerrordesc_np(message->error);
        buf_printf(&line, " (%d: %s)", message->error, text == NULL ? "Unknown error" : text);
    }
    if (message->file != NULL && message->file->name.len == 0) {
        buf_append(&line, STR(" in command line"));
    } else if (message->file != NULL) {
        buf_printf(&line, " in %.*s:%u", STR_ARG(message->file->name), message->line);
    }
    log_write(log, message->level, 0, "%.*s", STR_ARG(buf_str(&line)));
    buf_free(&line);
}

void conf_report(const struct conf *conf, const struct log *log, bool is_verbose)
{
    size_t count = 0;

    for (const struct conf_message *m = conf->messages; m != NULL; m = m->next) {
        count++;
    }
    if (count == 0) {
        return;
    }
    const struct conf_message **sorted =
        arena_array(conf->arena, count, sizeof(struct conf_message *));
    size_t at = count;
    for (const struct conf_message *m = conf->messages; m != NULL; m = m->next) {
        sorted[--at] = m;
    }
    qsort(sorted, count, sizeof(*sorted), compare_messages);
    size_t errors = 0;
    size_t warnings = 0;
    size_t hidden = 0;
    for (size_t i = 0; i < count; i++) {
        bool is_error = is_fatal(sorted[i]);
        if (is_error ? errors++ >= ERRORS_MAX : warnings++ >= WARNINGS_MAX) {
            hidden++;
            continue;
        }
        show_message(sorted[i], log);
        if (is_verbose) {
            put_details(sorted[i]);
        }
    }
    if (hidden != 0) {
        log_write(log, LOG_WARN, 0, "%zu more messages about the configuration are not shown",
                  hidden);
    }
}

/* ---- "did you mean" */

/*
 * Edit distance (insert, delete, change, swap neighbours) of words of at most NEAREST_MAX bytes.
 */
static unsigned distance(struct str a, struct str b)
{
    unsigned rows[3][NEAREST_MAX + 1];

    for (size_t j = 0; j <= b.len; j++) {
        rows[0][j] = (unsigned) j;
    }
    for (size_t i = 1; i <= a.len; i++) {
        unsigned *now = rows[i % 3];
        const unsigned *before = rows[(i - 1) % 3];
        now[0] = (unsigned) i;
        for (size_t j = 1; j <= b.len; j++) {
            char x = (char) ascii_lower((unsigned char) a.data[i - 1]);
            char y = (char) ascii_lower((unsigned char) b.data[j - 1]);
            unsigned best = before[j - 1] + (x != y);
            if (before[j] + 1 < best) {
                best = before[j] + 1;
            }
            if (now[j - 1] + 1 < best) {
                best = now[j - 1] + 1;
            }
            if (i > 1 && j > 1 && a.data[i - 1] == b.data[j - 2] &&
                a.data[i - 2] == b.data[j - 1] && rows[(i - 2) % 3][j - 2] + 1 < best) {
                best = rows[(i - 2) % 3][j - 2] + 1;
            }
            now[j] = best;
        }
    }
    return rows[a.len % 3][b.len];
}

/* The difference of the first bytes that differ: TLSv1.4 is closer to TLSv1.3 than to TLSv1.1. */
static int gap_of(struct str a, struct str b)
{
    size_t i = 0;

    while (i < a.len && i < b.len &&
           ascii_lower((unsigned char) a.data[i]) == ascii_lower((unsigned char) b.data[i])) {
        i++;
    }
    if (i == a.len || i == b.len || !ascii_is_digit((unsigned char) a.data[i]) ||
        !ascii_is_digit((unsigned char) b.data[i])) {
        return 10;
    }
    return abs(a.data[i] - b.data[i]);
}

struct str conf_nearest(struct str word, const struct str *candidates, size_t count)
{
    struct str best = STR_NONE;
    unsigned least = word.len <= 3   ? 1
                     : word.len <= 6 ? 2
                                     : 3; /* edits that still count as close */

    if (word.len == 0 || word.len > NEAREST_MAX) {
        return best;
    }
    for (size_t i = 0; i < count; i++) {
        struct str candidate = candidates[i];
        size_t gap = candidate.len > word.len ? candidate.len - word.len : word.len - candidate.len;
        if (candidate.len > NEAREST_MAX || gap > least) {
            continue;
        }
        unsigned edits = distance(word, candidate);
        if (edits < least || (edits == least && (best.data == NULL ||
                                                 gap_of(word, candidate) < gap_of(word, best)))) {
            least = edits;
            best = candidate;
        }
    }
    return best;
}
