/* ngx_http_autoindex_module: listings of directories as HTML, JSON, JSONP and XML. */
#include <stdlib.h>
#include <time.h>

#include "base/parse.h"
#include "base/text.h"
#include "http/files/directory.h"
#include "http/files/listing.h"
#include "http/routing/hooks.h"
#include "http/request/request.h"
#include "server/module.h"

#define NAME_WIDTH 50 /* columns of a name in HTML */
#define NAME_SHOWN 47 /* … and of its beginning, when it is longer */

enum format { FORMAT_HTML, FORMAT_JSON, FORMAT_JSONP, FORMAT_XML };

static const struct directive_word format_words[] = {{"html", FORMAT_HTML},
                                                     {"json", FORMAT_JSON},
                                                     {"jsonp", FORMAT_JSONP},
                                                     {"xml", FORMAT_XML},
                                                     {NULL, 0}};

struct autoindex_settings {
    bool is_on;
    unsigned format; /* enum format */
    bool local_time; /* times of HTML */
    bool exact_size; /* sizes of HTML */
};

#define S struct autoindex_settings
static const struct directive rows[] = {
    {"autoindex", IN_HTTP_ALL, FLAG(S, is_on), .initial = "off",
     .doc = "Lists directories that have no index file."},
    {"autoindex_format", IN_HTTP_ALL, ENUM(S, format, format_words), .initial = "html",
     .doc = "Form of the listing."},
    {"autoindex_localtime", IN_HTTP_ALL, FLAG(S, local_time), .initial = "off",
     .doc = "Shows times of the HTML listing in the local time zone, and not in UTC."},
    {"autoindex_exact_size", IN_HTTP_ALL, FLAG(S, exact_size), .initial = "on",
     .doc = "Shows bytes in the HTML listing, and not rounded kilobytes, megabytes and gigabytes."},
    {0},
};
#undef S

static struct settings_key key;
static const struct directive_table table = {.key = &key,
                                             .rows = rows,
                                             .contexts = IN_HTTP_ALL,
                                             .size = sizeof(struct autoindex_settings),
                                             .module_name = "ngx_http_autoindex_module"};
static const struct directive_table *const tables[] = {&table, NULL};

/* ---- order ---- */

static int by_kind_and_name(const void *a, const void *b)
{
    const struct directory_entry *left = a;
    const struct directory_entry *right = b;

    if (left->is_directory != right->is_directory) {
        return left->is_directory ? -1 : 1;
    }
    return str_compare(left->name, right->name);
}

/* ---- HTML ---- */

static void put_name(struct buf *out, const struct directory_entry *entry, bool is_utf8)
{
    size_t width = listing_put_name(out, entry->name, NAME_WIDTH, NAME_SHOWN, is_utf8);

    if (entry->is_directory && width < NAME_WIDTH) {
        buf_append_char(out, '/');
        width++;
    }
    buf_append(out, STR("</a>"));
    buf_printf(out, "%*s", (int) (NAME_WIDTH - (width < NAME_WIDTH ? width : NAME_WIDTH) + 1), "");
}

static void put_time(struct buf *out, time_t when, bool is_local)
{
    static const char months[12][4] = {"Jan", "Feb", "Mar", "Apr", "May", "Jun",
                                       "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"};
    struct tm tm;

    if (is_local) {
        localtime_r(&when, &tm);
    } else {
        gmtime_r(&when, &tm);
    }
    buf_printf(out, "%02d-%s-%d %02d:%02d", tm.tm_mday, months[tm.tm_mon], tm.tm_year + 1900,
               tm.tm_hour, tm.tm_min);
}

/* "10K", "3M", "1G": eight columns, rounded; up to 9999 in bytes. */
static void put_rounded_size(struct buf *out, uint64_t size)
{
    static const struct {
        uint64_t bytes;
        char letter;
    } units[] = {{1 << 30, 'G'}, {1 << 20, 'M'}, {1 << 10, 'K'}};

    if (size <= 9999) {
        buf_printf(out, "%8llu", (unsigned long long) size);
        return;
    }
    size_t i = 0;
    while (i < 2 && size < units[i].bytes) {
        i++;
    }
    uint64_t rounded = size / units[i].bytes + (size % units[i].bytes >= units[i].bytes / 2);
    buf_printf(out, "%7llu%c", (unsigned long long) rounded, units[i].letter);
}

static void put_size(struct buf *out, const struct directory_entry *entry, bool is_exact)
{
    if (entry->is_directory) {
        buf_printf(out, "%*s", is_exact ? 20 : 8, "-");
    } else if (is_exact) {
        buf_printf(out, "%20llu", (unsigned long long) entry->size);
    } else {
        put_rounded_size(out, entry->size);
    }
}

static void put_html(struct buf *out, struct request *request, const struct vec *entries,
                     const struct autoindex_settings *settings)
{
    bool is_utf8 = str_equal_nocase(request->response.charset, STR("utf-8"));

    buf_append(out, STR("<html>\r\n<head><title>Index of "));
    listing_put_escaped(out, request->uri, ESCAPE_HTML);
    buf_append(out, STR("</title></head>\r\n<body>\r\n<h1>Index of "));
    listing_put_escaped(out, request->uri, ESCAPE_HTML);
    buf_append(out, STR("</h1><hr><pre><a href=\"../\">../</a>\r\n"));
    vec_each(const struct directory_entry, entry, entries) {
        buf_append(out, STR("<a href=\""));
        listing_put_escaped(out, entry->name, ESCAPE_URI_COMPONENT);
        buf_append(out, entry->is_directory ? STR("/\">") : STR("\">"));
        put_name(out, entry, is_utf8);
        put_time(out, entry->mtime, settings->local_time);
        put_size(out, entry, settings->exact_size);
        buf_append(out, STR("\r\n"));
    }
    buf_append(out, STR("</pre><hr></body>\r\n</html>\r\n"));
}

/* ---- JSON and XML ---- */

static struct str kind_of(const struct directory_entry *entry)
{
    return entry->is_directory ? STR("directory") : entry->is_file ? STR("file") : STR("other");
}

static void put_json(struct buf *out, const struct vec *entries, struct str callback)
{
    if (callback.len != 0) {
        buf_append(out, STR("/* callback */\r\n"));
        buf_append(out, callback);
        buf_append_char(out, '(');
    }
    buf_append_char(out, '[');
    vec_each(const struct directory_entry, entry, entries) {
        buf_append(out,
                   entry == entries->items ? STR("\r\n{ \"name\":\"") : STR(",\r\n{ \"name\":\""));
        listing_put_escaped(out, entry->name, ESCAPE_JSON);
        buf_append(out, STR("\", \"type\":\""));
        buf_append(out, kind_of(entry));
        buf_append(out, STR("\", \"mtime\":\""));
        http_date_format(buf_reserve(out, HTTP_DATE_LENGTH), entry->mtime);
        out->len += HTTP_DATE_LENGTH;
        buf_append_char(out, '"');
        if (entry->is_file) {
            buf_printf(out, ", \"size\":%llu", (unsigned long long) entry->size);
        }
        buf_append(out, STR(" }"));
    }
    buf_append(out, STR("\r\n]"));
    if (callback.len != 0) {
        buf_append(out, STR(");"));
    }
}

static void put_xml(struct buf *out, const struct vec *entries)
{
    buf_append(out, STR("<?xml version=\"1.0\"?>\r\n<list>\r\n"));
    vec_each(const struct directory_entry, entry, entries) {
        struct str kind = kind_of(entry);
        struct tm tm;

        gmtime_r(&entry->mtime, &tm);
        buf_printf(out, "<%.*s mtime=\"%d-%02d-%02dT%02d:%02d:%02dZ\"", STR_ARG(kind),
                   tm.tm_year + 1900, tm.tm_mon + 1, tm.tm_mday, tm.tm_hour, tm.tm_min, tm.tm_sec);
        if (entry->is_file) {
            buf_printf(out, " size=\"%llu\"", (unsigned long long) entry->size);
        }
        buf_append_char(out, '>');
        listing_put_escaped(out, entry->name, ESCAPE_HTML);
        buf_printf(out, "</%.*s>\r\n", STR_ARG(kind));
    }
    buf_append(out, STR("</list>\r\n"));
}

/* The callback argument of JSONP; empty when there is none. False: it is no name of JavaScript. */
static bool find_callback(struct request *request, struct str *out)
{
    struct str rest = request->args;

    *out = STR_NONE;
    while (rest.data != NULL) {
        struct str argument = str_cut(&rest, '&');
        if (str_starts_nocase(argument, STR("callback="))) {
            *out = str_skip(argument, 9);
            break;
        }
    }
    for (size_t i = 0; i < out->len; i++) {
        unsigned char c = (unsigned char) out->data[i];
        if (!ascii_is_digit(c) && (ascii_lower(c) < 'a' || ascii_lower(c) > 'z') && c != '_' &&
            c != '.') {
            log_info(&request->log, 0, "client sent invalid callback name: \"%.*s\"",
                     STR_ARG(*out));
            return false;
        }
    }
    return true;
}

/* ---- the answer ---- */

static enum flow send_listing(struct request *request, const struct vec *entries,
                              const struct autoindex_settings *settings, unsigned format,
                              struct str callback)
{
    struct response *response = &request->response;
    struct buf text = {0};

    response->status = 200;
    response->content_length = -1;
    switch (format) {
    case FORMAT_JSON:
        response->content_type = STR("application/json");
        break;
    case FORMAT_JSONP:
        response->content_type = STR("application/javascript");
        break;
    case FORMAT_XML:
        response->content_type = STR("text/xml");
        response->charset = STR("utf-8");
        break;
    default:
        response->content_type = STR("text/html");
    }
    enum flow flow = response_start(request);
    if (flow != FLOW_NEXT) {
        return flow;
    }
    if (format == FORMAT_HTML) {
        put_html(&text, request, entries, settings);
    } else if (format == FORMAT_XML) {
        put_xml(&text, entries);
    } else {
        put_json(&text, entries, callback);
    }
    struct body_piece piece = {.bytes = buf_str(&text),
                               .fd = -1,
                               .release = free,
                               .release_arg = text.data};
    return response_send(request, &piece, true) ? FLOW_DONE : FLOW_CLOSED;
}

static enum flow list_directory(struct request *request)
{
    const struct autoindex_settings *settings = location_settings(request->location, &key);
    unsigned format = settings->format;
    struct str callback = STR_NONE;
    struct vec entries = {0};
    struct directory directory;

    if ((request->method & (METHOD_GET | METHOD_HEAD)) == 0) {
        return FLOW_NEXT;
    }
    if (format == FORMAT_JSONP) {
        if (!find_callback(request, &callback)) {
            return request_fail(request, 400);
        }
        if (callback.len == 0) {
            format = FORMAT_JSON;
        }
    }
    enum flow flow = directory_open(&directory, request);
    if (flow != FLOW_NEXT) {
        return flow;
    }
    directory_read(&directory, &entries);
    if (entries.count > 1) {
        qsort(entries.items, entries.count, sizeof(struct directory_entry), by_kind_and_name);
    }
    return send_listing(request, &entries, settings, format, callback);
}

static bool is_active(const struct http_location *location)
{
    const struct autoindex_settings *settings = location_settings(location, &key);

    return settings->is_on;
}

static const struct phase_hook phases[] = {
    {PHASE_DIRECTORY, .name = "autoindex", .run = list_directory, .is_active = is_active},
    {.run = NULL},
};
static const struct http_module hooks = {.phases = phases};

const struct module ngx_http_autoindex_module = {
    .magic = MODULE_MAGIC,
    .name = "ngx_http_autoindex_module",
    .kind = MODULE_HTTP,
    .tables = tables,
    .hooks = &hooks,
};
