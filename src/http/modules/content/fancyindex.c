/* ngx_http_fancyindex_module: directory listings that can be sorted, between a custom header and
 * footer. */
#define _GNU_SOURCE
#include <errno.h>
#include <time.h>

#include "base/fs.h"
#include "conf/regex.h"
#include "http/files/directory.h"
#include "http/files/listing.h"
#include "http/request/request.h"
#include "http/request/subrequest.h"
#include "http/routing/hooks.h"
#include "server/module.h"

#define PART_MAX ((size_t) 1 << 20) /* most bytes of a header or footer from a file */

enum { ENTRIES_A_TURN = 64 }; /* entries written before other requests get a turn */

enum sort_key { SORT_NAME, SORT_SIZE, SORT_DATE, SORT_DESCENDING = 4 };

/* A header, or a footer. */
struct fancy_part {
    struct str uri;  /* of a subrequest; empty: `text` is used */
    struct str args; /* arguments of that subrequest */
    struct str text; /* contents of a local file, read with the configuration */
    bool is_set;
};

struct fancy_settings {
    bool is_on;
    unsigned default_sort; /* an enum sort_key */
    bool directories_first;
    bool local_time;
    bool exact_size;
    int64_t name_length; /* characters of a name that are shown; 0 = all */
    struct fancy_part header;
    struct fancy_part footer;
    struct str css_href;
    struct vec ignored; /* struct regex *: names that are not listed */
    bool hides_symlinks;
    bool shows_path;
    bool shows_dotfiles;
    bool hides_parent;
    struct str time_format; /* for strftime, NUL-terminated */
};

static struct settings_key fancy_key;

/* A listing that is being written. */
struct listing {
    struct request *request;
    const struct fancy_settings *settings;
    unsigned sort; /* an enum sort_key */
    struct str
        sorting; /* arguments to append to links if the client selected an order; else empty */
    struct vec entries; /* struct directory_entry */
    size_t at;          /* index of the next entry */
    bool has_begun;     /* everything before the entries was written */
};

/* ---- order ---- */

static int compare_numbers(uint64_t left, uint64_t right)
{
    return left < right ? -1 : left > right;
}

/* For qsort_r. Equal entries are ordered by name, ascending. */
static int compare_entries(const void *a, const void *b, void *arg)
{
    const struct directory_entry *left = a;
    const struct directory_entry *right = b;
    const struct listing *listing = arg;
    unsigned key = listing->sort & ~(unsigned) SORT_DESCENDING;
    int by_name = str_compare(left->name, right->name);
    int order = by_name;

    if (listing->settings->directories_first && left->is_directory != right->is_directory) {
        return left->is_directory ? -1 : 1;
    }
    if (key == SORT_SIZE) {
        order = compare_numbers(left->size, right->size);
    } else if (key == SORT_DATE) {
        order = compare_numbers((uint64_t) left->mtime, (uint64_t) right->mtime);
    }
    order = (listing->sort & SORT_DESCENDING) != 0 ? -order : order;
    return order != 0 ? order : by_name;
}

/* Parses "C=N&O=D" at the beginning of the arguments: the column and the order that the client
 * selected. */
static void read_order(struct listing *listing)
{
    struct str args = listing->request->args;

    listing->sort = listing->settings->default_sort;
    if (!str_starts(args, STR("C=")) || args.len < 3 || (args.len > 3 && args.data[3] != '&')) {
        return;
    }
    bool is_descending = str_starts(str_skip(args, 3), STR("&O=D"));
    char column = args.data[2] == 'S' || args.data[2] == 'M' ? args.data[2] : 'N';
    listing->sort = column == 'S' ? SORT_SIZE : column == 'M' ? SORT_DATE : SORT_NAME;
    listing->sort |= is_descending ? SORT_DESCENDING : 0;
    if (listing->sort != listing->settings->default_sort) {
        listing->sorting = arena_printf(&listing->request->arena, "?C=%c&amp;O=%c", column,
                                        is_descending ? 'D' : 'A');
    }
}

/* ---- reading ---- */

static bool is_ignored(const void *arg, struct str name)
{
    const struct listing *listing = arg;

    vec_each(struct regex *const, regex, &listing->settings->ignored) {
        if (regex_match(*regex, name, NULL, &listing->request->log)) {
            return true;
        }
    }
    return false;
}

/* MAY WAIT. */
static enum handler_result read_listing(struct listing *listing)
{
    const struct directory_view view = {is_ignored, compare_entries, listing};
    struct request *request = listing->request;
    struct directory directory;

    enum handler_result result = directory_open(&directory, request);
    if (result != HANDLER_NEXT) {
        return result;
    }
    directory.shows_hidden = listing->settings->shows_dotfiles;
    directory.hides_symlinks = listing->settings->hides_symlinks;
    if (directory_read(&directory, &view, &listing->entries)) {
        return HANDLER_NEXT;
    }
    return request->main->is_over_memory ? request_fail(request, 500) : HANDLER_CLOSED;
}

/* ---- the page ---- */

#define STYLE                                                                                      \
    "<style>body{font-family:sans-serif;margin:1em}table{width:100%;border-collapse:collapse}"     \
    "th,td{text-align:left;padding:.15em .6em}th{border-bottom:1px solid #999}"                    \
    "tbody tr:nth-child(even){background:#f3f3f3}</style>\n"

static void fancyindex_put_head(struct buf *out, const struct listing *listing)
{
    const struct fancy_settings *settings = listing->settings;

    buf_append(out, STR("<!DOCTYPE html>\n<html><head><meta charset=\"utf-8\">"
                        "<meta name=\"viewport\" content=\"width=device-width\">\n" STYLE));
    if (settings->css_href.len != 0) {
        buf_append(out, STR("<link rel=\"stylesheet\" href=\""));
        listing_put_escaped(out, settings->css_href, ESCAPE_HTML);
        buf_append(out, STR("\" type=\"text/css\">\n"));
    }
    buf_append(out, STR("<title>Index of "));
    listing_put_escaped(out, listing->request->uri, ESCAPE_HTML);
    buf_append(out, STR("</title>\n</head><body><h1>Index of "));
}

static void put_column(struct buf *out, char letter, const char *title)
{
    buf_printf(out,
               "<th><a href=\"?C=%c&amp;O=A\">%s</a>&nbsp;<a href=\"?C=%c&amp;O=D\">&nbsp;&darr;"
               "&nbsp;</a></th>",
               letter, title, letter);
}

static void put_size(struct buf *out, const struct directory_entry *entry, bool is_exact)
{
    static const char *const units[] = {"B", "KiB", "MiB", "GiB", "TiB", "PiB"};
    double size = (double) entry->size;
    unsigned unit = 0;

    if (entry->is_directory) {
        buf_append_char(out, '-');
        return;
    }
    if (is_exact) {
        buf_printf(out, "%19llu", (unsigned long long) entry->size);
        return;
    }
    for (; size >= 1024 && unit < 5; unit++) {
        size /= 1024;
    }
    buf_printf(out, unit == 0 ? "%.0f %s" : "%.1f %s", size, units[unit]);
}

static void put_time(struct buf *out, time_t when, const struct fancy_settings *settings)
{
    char text[256];
    struct tm tm;

    if (settings->local_time) {
        localtime_r(&when, &tm);
    } else {
        gmtime_r(&when, &tm);
    }
    size_t length = strftime(text, sizeof(text), settings->time_format.data, &tm);
    listing_put_escaped(out, (struct str){text, length}, ESCAPE_HTML);
}

static void put_entry(struct buf *out, const struct listing *listing,
                      const struct directory_entry *entry)
{
    size_t most =
        listing->settings->name_length == 0 ? SIZE_MAX : (size_t) listing->settings->name_length;

    buf_append(out, STR("<tr><td class=\"link\"><a href=\""));
    listing_put_escaped(out, entry->name, ESCAPE_URI_COMPONENT);
    if (entry->is_directory) {
        buf_append_char(out, '/');
        buf_append(out, listing->sorting);
    }
    buf_append(out, STR("\" title=\""));
    listing_put_escaped(out, entry->name, ESCAPE_HTML);
    buf_append(out, STR("\">"));
    listing_put_name(out, entry->name, most, most > 2 ? most - 2 : 0, true);
    buf_append(out, entry->is_directory ? STR("/</a></td><td class=\"size\">")
                                        : STR("</a></td><td class=\"size\">"));
    put_size(out, entry, listing->settings->exact_size);
    buf_append(out, STR("</td><td class=\"date\">"));
    put_time(out, entry->mtime, listing->settings);
    buf_append(out, STR("</td></tr>\n"));
}

static void begin_table(struct buf *out, const struct listing *listing)
{
    buf_append(out, STR("<table id=\"list\"><thead><tr>"));
    put_column(out, 'N', "File Name");
    put_column(out, 'S', "File Size");
    put_column(out, 'M', "Date");
    buf_append(out, STR("</tr></thead>\n<tbody>"));
    if (!listing->settings->hides_parent && listing->request->uri.len > 1) {
        buf_append(out, STR("<tr><td class=\"link\"><a href=\"../"));
        buf_append(out, listing->sorting);
        buf_append(out, STR("\">Parent directory/</a></td><td class=\"size\">-</td>"
                            "<td class=\"date\">-</td></tr>\n"));
    }
}

static void begin_page(struct buf *out, const struct listing *listing)
{
    if (!listing->settings->header.is_set) {
        fancyindex_put_head(out, listing);
    }
    if (listing->settings->shows_path) {
        listing_put_escaped(out, listing->request->uri, ESCAPE_HTML);
        buf_append(out, STR("</h1>\n"));
    }
    begin_table(out, listing);
}

/* Writes some more entries; a struct body_maker. */
static bool make_some(void *arg, struct buf *out)
{
    struct listing *listing = arg;

    if (!listing->has_begun) {
        listing->has_begun = true;
        begin_page(out, listing);
    }
    for (unsigned n = 0; n < ENTRIES_A_TURN && listing->at < listing->entries.count;
         n++, listing->at++) {
        put_entry(out, listing, vec_at(&listing->entries, struct directory_entry, listing->at));
    }
    if (listing->at < listing->entries.count) {
        return true;
    }
    buf_append(out, STR("</tbody></table>"));
    if (!listing->settings->footer.is_set) {
        buf_append(out, STR("</body></html>\n"));
    }
    return false;
}

/* ---- the response ---- */

/* Sends a header or footer from a file or a subrequest. MAY WAIT. False: the client is gone. */
static bool send_part(struct request *request, const struct fancy_part *part)
{
    const struct body_piece piece = {.bytes = part->text, .fd = -1};
    struct subrequest sub = {.uri = part->uri, .args = part->args, .output = SUBREQUEST_INLINE};

    if (part->uri.len != 0) {
        if (*part->uri.data != '/') { /* relative to the listed directory */
            sub.uri = arena_printf(&request->arena, "%.*s%.*s", STR_ARG(request->uri),
                                   STR_ARG(part->uri));
        }
        return subrequest_run(request, &sub) != HANDLER_CLOSED;
    }
    return part->text.len == 0 || response_send(request, &piece, false);
}

/* MAY WAIT. False: the client is gone. */
static bool send_page(struct listing *listing)
{
    const struct fancy_settings *settings = listing->settings;
    struct request *request = listing->request;
    const struct body_maker maker = {make_some, listing, NULL};

    return (!settings->header.is_set || send_part(request, &settings->header)) &&
           response_produce_part(request, &maker) &&
           (!settings->footer.is_set || send_part(request, &settings->footer)) &&
           response_send(request, NULL, true);
}

/* MAY WAIT. */
static enum handler_result list_directory(struct request *request)
{
    const struct fancy_settings *settings = location_settings(request->location, &fancy_key);

    if (!settings->is_on || (request->method & (METHOD_GET | METHOD_HEAD)) == 0) {
        return HANDLER_NEXT;
    }
    struct listing *listing = arena_new(&request->arena, struct listing);
    listing->request = request;
    listing->settings = settings;
    read_order(listing);
    enum handler_result result = read_listing(listing);
    if (result != HANDLER_NEXT) {
        return result;
    }
    request->response.status = 200;
    request->response.content_type = STR("text/html");
    request->response.content_length = -1;
    result = response_start(request);
    return result != HANDLER_NEXT ? result : send_page(listing) ? HANDLER_DONE : HANDLER_CLOSED;
}

/* ---- directives ---- */

static bool read_local(struct conf_scope *scope, const struct conf_node *node, struct str *out)
{
    struct str path = conf_full_name(scope->conf, node->args[1], false);
    const char *name = arena_cstr(scope->conf->arena, path);

    return fs_read_all(scope->conf->arena, name, PART_MAX, out) ||
           conf_errno(scope->conf, node, errno, "cannot open file \"%s\"", name);
}

/* path [subrequest | local] */
static bool part_apply(struct conf_scope *scope, const struct directive *row,
                       struct conf_node *node, void *settings)
{
    struct fancy_part *part = (struct fancy_part *) (void *) ((char *) settings + row->offset);
    struct str rest = node->args[1];

    *part = (struct fancy_part){.is_set = true};
    if (node->count == 2 || str_is(node->args[2], "subrequest")) {
        part->uri = str_cut(&rest, '?');
        part->args = rest;
        return true;
    }
    if (!str_is(node->args[2], "local")) {
        return conf_error(scope->conf, node, "unknown header/footer kind \"%.*s\"",
                          STR_ARG(node->args[2]));
    }
    return read_local(scope, node, &part->text);
}

static bool ignore_apply(struct conf_scope *scope, const struct directive *row,
                         struct conf_node *node, void *settings)
{
    struct fancy_settings *fancy = settings;
    bool is_good = true;

    if (!conf_is_set(scope, &fancy_key, "fancyindex_ignore")) {
        fancy->ignored = (struct vec){0};
    }
    for (unsigned i = 1; i < node->count; i++) {
        struct regex *regex = regex_compile(scope->conf, node, node->args[i], true, false);
        is_good &= regex != NULL;
        *vec_add(&fancy->ignored, scope->conf->arena, struct regex *) = regex;
    }
    return is_good;
}

/* A format for strftime. */
static bool time_apply(struct conf_scope *scope, const struct directive *row,
                       struct conf_node *node, void *settings)
{
    struct str *format = &((struct fancy_settings *) settings)->time_format;

    *format = (struct str){arena_cstr(scope->conf->arena, *format), format->len};
    return true;
}

static bool fancy_finish(struct conf_scope *scope, void *arg)
{
    const struct fancy_settings *settings = arg;

    return settings->shows_path || settings->header.is_set ||
           conf_error(
               scope->conf, scope->node,
               "FancyIndex : cannot set show_path to off without providing a custom header !");
}

/* clang-format off */
static const struct directive_word sort_words[] = {
    {"name", SORT_NAME},
    {"size", SORT_SIZE},
    {"date", SORT_DATE},
    {"name_desc", SORT_NAME | SORT_DESCENDING},
    {"size_desc", SORT_SIZE | SORT_DESCENDING},
    {"date_desc", SORT_DATE | SORT_DESCENDING},
    {NULL, 0},
};
/* clang-format on */

#define S struct fancy_settings
static const struct directive fancy_rows[] = {
    {"fancyindex", IN_HTTP_ALL, FLAG(S, is_on), .initial = "off",
     .doc = "Enables listings of directories that have no index file, as a table that "
            "clients can sort."},
    {"fancyindex_default_sort", IN_HTTP_ALL, ENUM(S, default_sort, sort_words), .initial = "name",
     .doc = "Default order of a listing."},
    {"fancyindex_directories_first", IN_HTTP_ALL, FLAG(S, directories_first), .initial = "on",
     .doc = "Whether directories are listed before files in any order."},
    {"fancyindex_localtime", IN_HTTP_ALL, FLAG(S, local_time), .initial = "off",
     .doc = "Whether times are shown in the local time zone instead of UTC."},
    {"fancyindex_time_format", IN_HTTP_ALL, STRING(S, time_format), .apply = time_apply,
     .initial = "\"%Y-%b-%d %H:%M\"", .syntax = "string",
     .doc = "Format of times, as for strftime()."},
    {"fancyindex_exact_size", IN_HTTP_ALL, FLAG(S, exact_size), .initial = "on",
     .doc = "Whether exact sizes in bytes are shown instead of rounded KiB, MiB and larger "
            "units."},
    {"fancyindex_name_length", IN_HTTP_ALL, NUMBER(S, name_length), .initial = "50",
     .doc = "Maximum number of characters that are shown of a name; longer names are "
            "truncated. 0 disables the limit."},
    {"fancyindex_header", IN_HTTP_ALL, CUSTOM_FIELD(S, header, part_apply), ARGS(1, 2),
     .syntax = "path [subrequest | local]",
     .doc = "Replaces the beginning of the page, before the table: with the response to a "
            "subrequest for this URI, which is relative to the directory unless it begins "
            "with `/`, or, with `local`, with the contents of this file, which is read "
            "with the configuration."},
    {"fancyindex_footer", IN_HTTP_ALL, CUSTOM_FIELD(S, footer, part_apply), ARGS(1, 2),
     .syntax = "path [subrequest | local]",
     .doc = "Replaces the end of the page, after the table, in the same way as "
            "fancyindex_header."},
    {"fancyindex_css_href", IN_HTTP_ALL, STRING(S, css_href), .syntax = "uri",
     .doc = "URL of a style sheet for the listing."},
    {"fancyindex_ignore", IN_HTTP_ALL, CUSTOM_FIELD(S, ignored, ignore_apply), ARGS(1, ARGS_ANY),
     .repeat = REPEAT_APPEND, .syntax = "regex ...",
     .doc = "Names that match one of these regular expressions, which ignore case, are not "
            "listed."},
    {"fancyindex_hide_symlinks", IN_HTTP_ALL, FLAG(S, hides_symlinks), .initial = "off",
     .doc = "Whether symbolic links are left out of the listing."},
    {"fancyindex_show_path", IN_HTTP_ALL, FLAG(S, shows_path), .initial = "on",
     .doc = "Whether the path and the end of the heading are shown after the header. `off` "
            "requires fancyindex_header."},
    {"fancyindex_show_dotfiles", IN_HTTP_ALL, FLAG(S, shows_dotfiles), .initial = "off",
     .doc = "Whether names that begin with a dot are listed."},
    {"fancyindex_hide_parent_dir", IN_HTTP_ALL, FLAG(S, hides_parent), .initial = "off",
     .doc = "Whether the link to the parent directory is left out of the listing."},
    {0},
};
#undef S

static const struct phase_hook fancy_phases[] = {
    {PHASE_DIRECTORY, .name = "fancyindex", .run = list_directory},
    {.run = NULL},
};
static const struct http_module fancy_hooks = {.phases = fancy_phases};

const struct module ngx_http_fancyindex_module = {
    .magic = MODULE_MAGIC,
    .name = "ngx_http_fancyindex_module",
    .kind = MODULE_HTTP,
    .table = {.key = &fancy_key,
              .rows = fancy_rows,
              .contexts = IN_HTTP_LOCATION_SETTINGS,
              .size = sizeof(struct fancy_settings),
              .finish = fancy_finish},
    .hooks = &fancy_hooks,
};
