/* The modules of a reading, and their tables under numbers that never change. */
#include "server/configuration/registry.h"

#include <dlfcn.h>
#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/fatal.h"
#include "base/fs.h"
#include "config.h"
#include "server/configuration/dso_module.h"
#include "server/configuration/not_built.h"
#include "server/module.h"
#include "server/process/server.h"

enum { LOADED_MOST = 128 };

/* All modules that this process ever loaded; they stay for its life. */
static struct {
    struct loaded_module *first;
    struct loaded_module **last;
    unsigned count;
} loaded;

/* Tables by number: of linked modules, then of loaded ones in the order of their first loading. */
static struct {
    struct known_table {
        const struct directive_table *table;
        const struct module *owner;
    } * items;
    unsigned count;
    unsigned capacity;
} tables;

/* The modules that a reading has requested. */
struct reading_modules {
    struct vec loaded;  /* const struct module * */
    struct vec skipped; /* struct str: names of modules that could not be loaded */
};

static struct reading_modules *modules_of(struct conf *conf)
{
    return conf_state(conf, "registry.modules", sizeof(struct reading_modules));
}

static const struct module *linked_find(struct str name)
{
    for (const struct module *const *m = linked_modules; *m != NULL; m++) {
        if (str_is(name, (*m)->name)) {
            return *m;
        }
    }
    return NULL;
}

/* Is the module loaded, not linked in? */
static bool is_loaded(const struct module *module)
{
    return linked_find(str_of(module->name)) != module;
}

/* "ngx_http_x_module" of "/a/b/ngx_http_x_module.so". */
static struct str module_name_of(struct str path)
{
    const char *slash = str_find_last_char(path, '/');
    struct str name = slash == NULL ? path : str_from(slash + 1, path.data + path.len);

    if (str_ends(name, STR(".so"))) {
        name.len -= 3;
    }
    return name;
}

static struct loaded_module *loaded_find(struct str path)
{
    for (struct loaded_module *item = loaded.first; item != NULL; item = item->next) {
        if (str_equal(item->path, path)) {
            return item;
        }
    }
    return NULL;
}

/* With -t -q, no notice about modules that are skipped or not needed: only the result counts. */
static bool is_reported(void)
{
    return !(server.options.is_quiet && server.options.test != 0);
}

static bool is_of_nginx(const char *why)
{
    return str_find(str_of(why), STR("undefined symbol: ngx_")) != NULL;
}

/*
 * A module that cannot be loaded is skipped: many configurations load modules that they do not use.
 * If one of its directives is used, the error names the module (registry_skipped).
 */
static void skip(struct conf *conf, const struct conf_node *node, struct str path, struct str name,
                 const char *why)
{
    const char *absent = not_built_words(name);

    *vec_add(&modules_of(conf)->skipped, conf->arena, struct str) = name;
    if (!is_reported()) {
        return;
    }
    if (is_of_nginx(why)) {
        conf_warn(conf, node, "\"%.*s\" is a module of nginx's; it cannot be loaded here",
                  STR_ARG(path));
    } else {
        conf_warn(conf, node, "dlopen() \"%.*s\" failed (%s)%s%s", STR_ARG(path), why,
                  *absent != '\0' ? ", the module is " : "", absent);
    }
    conf_hint(conf, "the start continues without it, as long as none of its directives is used");
}

static struct loaded_module *loaded_add(const struct module *module, void *handle, struct str path)
{
    struct loaded_module *item = calloc(1, sizeof(*item));
    char *copy = malloc(path.len + 1);

    if (item == NULL || copy == NULL) {
        fatal_no_memory(sizeof(*item));
    }
    memcpy(copy, path.data, path.len + 1);
    *item = (struct loaded_module){.module = module, .handle = handle, .path = {copy, path.len}};
    if (loaded.last == NULL) {
        loaded.last = &loaded.first;
    }
    *loaded.last = item;
    loaded.last = &item->next;
    loaded.count++;
    return item;
}

/* Adds the module of an open object; NULL after conf_error. */
static struct loaded_module *loaded_check(struct conf *conf, const struct conf_node *node,
                                          struct str path, void *handle)
{
    const struct module *module = dlsym(handle, arena_cstr(conf->arena, module_name_of(path)));
    const char *interface = dlsym(handle, "loaded_interface");

    if (module == NULL) {
        module = dlsym(handle, "module_exported");
    }
    if (interface != NULL && strcmp(interface, module_interface) != 0) {
        conf_error(conf, node,
                   "module \"%s\" is not binary compatible: it was compiled with the headers of "
                   "%s, the program with those of %s",
                   path.data, interface, module_interface);
    } else if (module == NULL || module->magic != MODULE_MAGIC || interface == NULL) {
        conf_error(conf, node, "module \"%s\" is not binary compatible", path.data);
    } else {
        return loaded_add(module, handle, path);
    }
    conf_hint(conf, "build the module again, with the sources and the options of this program");
    dlclose(handle);
    return NULL;
}

/*
 * Where the object may be: the path as written, below the prefix; or the file of that name in the
 * directory of our own modules, if the first does not exist or is a module of nginx. So
 * "modules/X.so" means our module X, whatever the prefix is and whatever other modules are below
 * it.
 */
enum { OBJECT_PATHS = 2 };

static void list_objects(const struct conf *conf, struct str path, struct str objects[OBJECT_PATHS])
{
    struct str usual = fs_full_name(conf->arena, conf->prefix, STR(DEFAULT_MODULES_PATH "/"));
    const char *slash = str_find_last_char(path, '/');
    struct str file = slash == NULL ? path : str_from(slash + 1, path.data + path.len);

    objects[0] = fs_full_name(conf->arena, conf->prefix, path);
    objects[1] = fs_full_name(conf->arena, usual, file);
}

/* Opens the object, or finds it open. NULL: it was skipped; or there was a conf_error, and *is_good
 * is false. */
static struct loaded_module *loaded_open(struct conf *conf, const struct conf_node *node,
                                         const struct str objects[OBJECT_PATHS], bool *is_good)
{
    struct str chosen = {0};
    const char *why = NULL;

    if (loaded.count == LOADED_MOST) {
        *is_good =
            conf_error(conf, node, "too many modules are loaded, %d is the most", LOADED_MOST);
        return NULL;
    }
    for (unsigned i = 0; i < OBJECT_PATHS; i++) {
        struct loaded_module *item = loaded_find(objects[i]);
        bool is_there = access(objects[i].data, F_OK) == 0;

        if (item != NULL) {
            return item;
        }
        if (why != NULL && !is_there) {
            continue;
        }
        void *handle = dlopen(objects[i].data, RTLD_NOW | RTLD_GLOBAL);
        if (handle != NULL) {
            item = loaded_check(conf, node, objects[i], handle);
            *is_good = item != NULL;
            return item;
        }
        chosen = objects[i];
        why = arena_cstr(conf->arena, str_of(dlerror()));
        if (is_there && !is_of_nginx(why)) {
            break;
        }
    }
    skip(conf, node, chosen, module_name_of(chosen), why);
    return NULL;
}

bool module_load(struct conf *conf, const struct conf_node *node, struct str path)
{
    struct reading_modules *reading = modules_of(conf);
    struct str name = module_name_of(path);
    struct str objects[OBJECT_PATHS];

    if (linked_find(name) != NULL) {
        if (is_reported()) {
            log_notice(log_main, 0, "module \"%.*s\" is linked in, \"%.*s\" is not needed in %s:%u",
                       STR_ARG(name), STR_ARG(path), node->file->name.data, node->line);
        }
        return true;
    }
    bool is_good = true;
    list_objects(conf, path, objects);
    struct loaded_module *item = loaded_open(conf, node, objects, &is_good);
    if (item == NULL) {
        return is_good;
    }
    vec_each(const struct module *, other, &reading->loaded) {
        if (*other == item->module) {
            return conf_error(conf, node, "module \"%s\" is already loaded", item->module->name);
        }
    }
    *vec_add(&reading->loaded, conf->arena, const struct module *) = item->module;
    return true;
}

/* Is it a part of a module's name that distinguishes it from other modules? */
static bool is_telling(struct str word)
{
    static const char *const usual[] = {"ngx", "http", "stream", "mail", "filter", "module"};

    for (size_t i = 0; i < sizeof(usual) / sizeof(usual[0]); i++) {
        if (str_is(word, usual[i])) {
            return false;
        }
    }
    return word.len >= 3;
}

struct str registry_skipped(struct conf *conf, struct str directive)
{
    struct str word = str_cut(&directive, '_');

    vec_each(const struct str, name, &modules_of(conf)->skipped) {
        struct str names = *name;
        while (is_telling(word) && names.data != NULL) {
            if (str_equal(str_cut(&names, '_'), word)) {
                return *name;
            }
        }
    }
    return STR_NONE;
}

const struct directive_table *module_table(const struct module *module, unsigned number)
{
    if (module->tables != NULL) {
        return module->tables[number];
    }
    return number == 0 && (module->table.rows != NULL || module->table.key != NULL) ? &module->table
                                                                                    : NULL;
}

static void number_table(const struct directive_table *table, const struct module *owner)
{
    for (unsigned i = 0; i < tables.count; i++) {
        if (tables.items[i].table == table) {
            return;
        }
    }
    if (tables.count == tables.capacity) {
        tables.capacity = tables.capacity == 0 ? 256 : tables.capacity * 2;
        tables.items = realloc(tables.items, tables.capacity * sizeof(*tables.items));
        if (tables.items == NULL) {
            fatal_no_memory(tables.capacity * sizeof(*tables.items));
        }
    }
    if (tables.count == 0) {
        tables.items[tables.count++] = (struct known_table){0};
    }
    tables.items[tables.count++] = (struct known_table){.table = table, .owner = owner};
}

static void number_tables(const struct module *const *modules)
{
    for (const struct module *const *m = modules; *m != NULL; m++) {
        const struct directive_table *table;

        for (unsigned i = 0; (table = module_table(*m, i)) != NULL; i++) {
            number_table(table, *m);
        }
    }
}

static bool is_used(const struct module *const *modules, const struct module *module)
{
    while (*modules != NULL && *modules != module) {
        modules++;
    }
    return *modules != NULL;
}

/* Tables by number; the table of a module that this reading does not have is left empty. */
static void lay_out_tables(struct conf *conf, const struct module *const *modules)
{
    conf->tables = arena_array(conf->arena, tables.count + 1, sizeof(*conf->tables));
    conf->table_count = tables.count;
    for (unsigned i = 0; i < tables.count; i++) {
        const struct known_table *known = &tables.items[i];
        if (known->table != NULL && is_used(modules, known->owner)) {
            conf->tables[i] = (struct conf_table){known->table, known->owner->name};
        }
    }
}

bool registry_collect(struct conf *conf, struct generation *generation)
{
    bool is_good = dso_load_all(conf);
    struct vec modules = {0};

    for (const struct module *const *m = linked_modules; *m != NULL; m++) {
        *vec_add(&modules, conf->arena, const struct module *) = *m;
    }
    vec_each(const struct module *, m, &modules_of(conf)->loaded) {
        *vec_add(&modules, conf->arena, const struct module *) = *m;
    }
    vec_add(&modules, conf->arena, const struct module *);
    generation->modules = modules.items;

    number_tables(generation->modules);
    lay_out_tables(conf, generation->modules);
    return is_good;
}

static bool is_listed(const struct module *const *modules, const char *name)
{
    while (*modules != NULL && strcmp((*modules)->name, name) != 0) {
        modules++;
    }
    return *modules != NULL;
}

/* The directory of the running program, with a slash at the end; empty when it is not known. */
static struct str program_folder(struct arena *arena)
{
    char *path = arena_text(arena, PATH_MAX);
    ssize_t n = readlink("/proc/self/exe", path, PATH_MAX);
    struct str name = {path, n < 0 ? 0 : (size_t) n};
    const char *slash = str_find_last_char(name, '/');

    return slash == NULL ? STR_NONE : str_from(path, slash + 1);
}

/* Is the object of a loadable module in the default directory or, before the installation, beside
 * the program? */
static bool is_object_there(struct generation *generation, const char *name)
{
    struct arena *arena = &generation->arena;
    struct str file = arena_printf(arena, "%s.so", name);
    const struct str folders[] = {
        fs_full_name(arena, generation->conf.prefix, STR(DEFAULT_MODULES_PATH "/")),
        program_folder(arena),
    };

    for (size_t i = 0; i < sizeof(folders) / sizeof(folders[0]); i++) {
        if (folders[i].len != 0 && access(fs_full_name(arena, folders[i], file).data, F_OK) == 0) {
            return true;
        }
    }
    return false;
}

void modules_list(struct generation *generation, struct buf *out)
{
    buf_printf(out, "loaded modules:\n");
    for (const struct module *const *m = generation->modules; *m != NULL; m++) {
        buf_printf(out, "    %s (%s)\n", (*m)->name, is_loaded(*m) ? "shared" : "static");
    }
    for (const char *const *name = loadable_modules; *name != NULL; name++) {
        if (!is_listed(generation->modules, *name) && is_object_there(generation, *name)) {
            buf_printf(out, "    %s (shared)\n", *name);
        }
    }
}
