/*
 * ngx_http_geoip_module: variables by the client's address, of GeoIP databases of the legacy format. The databases are
 * read into memory, and what they say is read by our own code (shared/geo/legacy.h); libGeoIP has the names of countries
 * and regions.
 */
#include <GeoIP.h>
#include <errno.h>

#include "base/fs.h"
#include "http/routing/hooks.h"
#include "http/variables/variables.h"
#include "server/module.h"
#include "shared/geo/legacy.h"

#define FILE_LIMIT ((size_t) 1 << 30) /* bytes of a database */

struct geoip_database {
    struct geo_legacy legacy; /* .bytes is empty where no file was named */
    bool is_utf8;             /* texts are given as UTF-8 */
};

struct geoip_settings {
    struct geoip_database country;
    struct geoip_database region;
    struct geoip_database city;
    struct geoip_database org;
    struct forwarded forwarded; /* geoip_proxy: who is believed about the client */
};

static struct settings_key geoip_key;

/* ---- looking up ---- */

static const struct geoip_settings *settings_of(struct variable_env *env)
{
    return location_settings(variable_request(env)->location, &geoip_key);
}

/* The leaf of the client of a request. */
static bool find_leaf(struct variable_env *env, const struct geoip_database *database,
                      uint32_t *leaf)
{
    struct addr client = {.len = 0};

    if (database->legacy.bytes.len == 0) {
        return false;
    }
    variable_client(env, &client);
    variable_follow_client(env, &settings_of(env)->forwarded, &client);
    return geo_legacy_find(&database->legacy, &client, leaf);
}

static bool give_text(struct str *out, const char *text)
{
    return text != NULL && variable_give(out, str_of(text));
}

/* Number 0 is no country. */
static bool is_country(uint32_t number)
{
    return number != 0 && number < GeoIP_num_countries();
}

/* A text of the database, in UTF-8 where that is wanted. */
static bool give_latin(struct variable_env *env, const struct geoip_database *database,
                       struct str latin, struct str *out)
{
    if (latin.len == 0) {
        return false;
    }
    if (!database->is_utf8) {
        return variable_give(out, latin);
    }
    char *text = arena_text(env->arena, latin.len * 2);
    char *at = text;
    for (size_t i = 0; i < latin.len; i++) {
        unsigned char c = (unsigned char) latin.data[i];

        if (c >= 0x80) {
            *at++ = (char) (0xc0 | c >> 6);
            c = 0x80 | (c & 0x3f);
        }
        *at++ = (char) c;
    }
    return variable_give(out, str_from(text, at));
}

/* ---- countries ---- */

enum country_part { COUNTRY_CODE, COUNTRY_CODE3, COUNTRY_NAME, COUNTRY_CONTINENT };

static bool give_country(struct str *out, uint32_t number, enum country_part part, bool is_utf8)
{
    int id = (int) number;

    if (!is_country(number)) {
        return false;
    }
    switch (part) {
    case COUNTRY_CODE:
        return give_text(out, GeoIP_code_by_id(id));
    case COUNTRY_CODE3:
        return give_text(out, GeoIP_code3_by_id(id));
    case COUNTRY_CONTINENT:
        return give_text(out, GeoIP_continent_by_id(id));
    case COUNTRY_NAME:
        break;
    }
    return give_text(out, is_utf8 ? GeoIP_utf8_country_name[id] : GeoIP_name_by_id(id));
}

static bool get_country(struct variable_env *env, const struct variable *variable, struct str *out)
{
    const struct geoip_database *database = &settings_of(env)->country;
    uint32_t leaf;

    return find_leaf(env, database, &leaf) &&
           give_country(out, leaf, (enum country_part) variable->data, database->is_utf8);
}

/* ---- regions ---- */

enum region_part { REGION_COUNTRY, REGION_REGION };

static bool get_region(struct variable_env *env, const struct variable *variable, struct str *out)
{
    const struct geoip_database *database = &settings_of(env)->region;
    struct geo_region region;
    uint32_t leaf;

    if (!find_leaf(env, database, &leaf) || !geo_legacy_region(&database->legacy, leaf, &region)) {
        return false;
    }
    if (variable->data == REGION_REGION) {
        return region.region[0] != '\0' &&
               variable_give(out, arena_dup(env->arena, str_of(region.region)));
    }
    if (region.is_us || region.is_canada) {
        return variable_give(out, region.is_us ? STR("US") : STR("CA"));
    }
    return give_country(out, region.country, COUNTRY_CODE, false);
}

/* ---- cities ---- */

static bool find_city(struct variable_env *env, struct geo_city *out)
{
    const struct geoip_database *database = &settings_of(env)->city;
    uint32_t leaf;

    return find_leaf(env, database, &leaf) && geo_legacy_city(&database->legacy, leaf, out);
}

static bool get_city_country(struct variable_env *env, const struct variable *variable,
                             struct str *out)
{
    enum country_part part = (enum country_part) variable->data;
    struct geo_city city;

    if (!find_city(env, &city)) {
        return false;
    }
    if (city.country == 0) { /* a place that is in no country */
        return part != COUNTRY_NAME && variable_give(out, STR("--"));
    }
    return give_country(out, city.country, part, settings_of(env)->city.is_utf8);
}

enum city_text { CITY_REGION, CITY_NAME, CITY_POSTAL_CODE };

static bool get_city_text(struct variable_env *env, const struct variable *variable,
                          struct str *out)
{
    struct geo_city city;

    if (!find_city(env, &city)) {
        return false;
    }
    switch ((enum city_text) variable->data) {
    case CITY_REGION:
        return city.region.len != 0 && variable_give(out, city.region);
    case CITY_POSTAL_CODE:
        return city.postal_code.len != 0 && variable_give(out, city.postal_code);
    case CITY_NAME:
        break;
    }
    return give_latin(env, &settings_of(env)->city, city.city, out);
}

/* The texts of a city end with a NUL in the database. */
static bool get_region_name(struct variable_env *env, const struct variable *variable,
                            struct str *out)
{
    struct geo_city city;

    return find_city(env, &city) && is_country(city.country) && city.region.len != 0 &&
           give_text(out, GeoIP_region_name_by_code(GeoIP_code_by_id((int) city.country),
                                                    city.region.data));
}

enum city_degrees { CITY_LATITUDE, CITY_LONGITUDE };

static bool get_degrees(struct variable_env *env, const struct variable *variable, struct str *out)
{
    struct geo_city city;

    if (!find_city(env, &city)) {
        return false;
    }
    int32_t degrees = variable->data == CITY_LATITUDE ? city.latitude : city.longitude;
    unsigned size = (unsigned) (degrees < 0 ? -degrees : degrees);
    return variable_give(out, arena_printf(env->arena, "%s%u.%04u", degrees < 0 ? "-" : "",
                                           size / 10000, size % 10000));
}

enum city_number { CITY_METRO, CITY_AREA };

static bool get_city_number(struct variable_env *env, const struct variable *variable,
                            struct str *out)
{
    struct geo_city city;

    return find_city(env, &city) &&
           variable_give_number(env, out, variable->data == CITY_METRO ? city.metro : city.area);
}

/* ---- organisations ---- */

static bool get_org(struct variable_env *env, const struct variable *variable, struct str *out)
{
    const struct geoip_database *database = &settings_of(env)->org;
    struct str text;
    uint32_t leaf;

    return find_leaf(env, database, &leaf) && geo_legacy_text(&database->legacy, leaf, &text) &&
           give_latin(env, database, text, out);
}

static const struct variable geoip_variables[] = {
    {.name = STR_INIT("geoip_country_code"), .get = get_country, .data = COUNTRY_CODE},
    {.name = STR_INIT("geoip_country_code3"), .get = get_country, .data = COUNTRY_CODE3},
    {.name = STR_INIT("geoip_country_name"), .get = get_country, .data = COUNTRY_NAME},
    {.name = STR_INIT("geoip_region_country_code"), .get = get_region, .data = REGION_COUNTRY},
    {.name = STR_INIT("geoip_region_region"), .get = get_region, .data = REGION_REGION},
    {.name = STR_INIT("geoip_city_continent_code"),
     .get = get_city_country,
     .data = COUNTRY_CONTINENT},
    {.name = STR_INIT("geoip_city_country_code"), .get = get_city_country, .data = COUNTRY_CODE},
    {.name = STR_INIT("geoip_city_country_code3"), .get = get_city_country, .data = COUNTRY_CODE3},
    {.name = STR_INIT("geoip_city_country_name"), .get = get_city_country, .data = COUNTRY_NAME},
    {.name = STR_INIT("geoip_region"), .get = get_city_text, .data = CITY_REGION},
    {.name = STR_INIT("geoip_region_name"), .get = get_region_name},
    {.name = STR_INIT("geoip_city"), .get = get_city_text, .data = CITY_NAME},
    {.name = STR_INIT("geoip_postal_code"), .get = get_city_text, .data = CITY_POSTAL_CODE},
    {.name = STR_INIT("geoip_latitude"), .get = get_degrees, .data = CITY_LATITUDE},
    {.name = STR_INIT("geoip_longitude"), .get = get_degrees, .data = CITY_LONGITUDE},
    {.name = STR_INIT("geoip_dma_code"), .get = get_city_number, .data = CITY_METRO},
    {.name = STR_INIT("geoip_area_code"), .get = get_city_number, .data = CITY_AREA},
    {.name = STR_INIT("geoip_org"), .get = get_org},
    {.name = {NULL, 0}},
};

/* ---- directives ---- */

/* The file of a directive, and "utf8". */
static bool open_database(struct conf_scope *scope, const struct conf_node *node,
                          enum geo_legacy_kind kind, struct geoip_database *database)
{
    struct conf *conf = scope->conf;
    struct str path = conf_full_name(conf, node->args[1], true);
    struct str bytes;

    if (node->count == 3 && !str_is(node->args[2], "utf8")) {
        return conf_error(conf, node, "invalid parameter \"%.*s\"", STR_ARG(node->args[2]));
    }
    database->is_utf8 = node->count == 3;
    if (!fs_read_all(conf->arena, path.data, FILE_LIMIT, &bytes)) {
        return conf_errno(conf, node, errno, "GeoIP_open(\"%.*s\") failed", STR_ARG(node->args[1]));
    }
    if (!geo_legacy_open(bytes, &database->legacy)) {
        conf_error(conf, node, "GeoIP_open(\"%.*s\") failed", STR_ARG(node->args[1]));
        conf_hint(conf, "it is no GeoIP database of the legacy format, or its end is missing");
        return false;
    }
    if (database->legacy.kind != kind) {
        return conf_error(conf, node, "invalid GeoIP %sdatabase \"%.*s\" type:%u",
                          kind == GEO_LEGACY_CITY ? "City " : "", STR_ARG(node->args[1]),
                          database->legacy.type);
    }
    return true;
}

static bool country_apply(struct conf_scope *scope, const struct directive *row,
                          struct conf_node *node, void *settings)
{
    return open_database(scope, node, GEO_LEGACY_COUNTRY,
                         &((struct geoip_settings *) settings)->country);
}

static bool region_apply(struct conf_scope *scope, const struct directive *row,
                         struct conf_node *node, void *settings)
{
    return open_database(scope, node, GEO_LEGACY_REGION,
                         &((struct geoip_settings *) settings)->region);
}

static bool city_apply(struct conf_scope *scope, const struct directive *row,
                       struct conf_node *node, void *settings)
{
    return open_database(scope, node, GEO_LEGACY_CITY, &((struct geoip_settings *) settings)->city);
}

static bool org_apply(struct conf_scope *scope, const struct directive *row, struct conf_node *node,
                      void *settings)
{
    return open_database(scope, node, GEO_LEGACY_TEXT, &((struct geoip_settings *) settings)->org);
}

static bool proxy_apply(struct conf_scope *scope, const struct directive *row,
                        struct conf_node *node, void *settings)
{
    return forwarded_trust_network(scope->conf, node,
                                   &((struct geoip_settings *) settings)->forwarded);
}

#define S struct geoip_settings
static const struct directive geoip_rows[] = {
    {"geoip_country", IN_HTTP, CUSTOM_FIELD(S, country, country_apply), ARGS(1, 2),
     .syntax = "file [utf8]",
     .doc =
         "The database of countries, of the legacy format, for IPv4 or IPv6: `$geoip_country_*`. It is read into memory; a new one is taken "
         "with the next reload. `utf8`: names are given in UTF-8, not in ISO 8859-1."},
    {"geoip_region", IN_HTTP, CUSTOM_FIELD(S, region, region_apply), ARGS(1, 2),
     .syntax = "file [utf8]",
     .doc =
         "The database of regions (Tengine): `$geoip_region_country_code`, `$geoip_region_region`."},
    {"geoip_city", IN_HTTP, CUSTOM_FIELD(S, city, city_apply), ARGS(1, 2), .syntax = "file [utf8]",
     .doc =
         "The database of cities: `$geoip_city`, `$geoip_city_*`, `$geoip_region`, `$geoip_latitude` and the like."},
    {"geoip_org", IN_HTTP, CUSTOM_FIELD(S, org, org_apply), ARGS(1, 2), .syntax = "file [utf8]",
     .doc =
         "The database of organisations, providers, domains or autonomous systems: `$geoip_org`."},
    {"geoip_proxy", IN_HTTP, CUSTOM_FIELD(S, forwarded.trusted, proxy_apply), ARGS(1, 1),
     .repeat = REPEAT_APPEND, .syntax = "address | CIDR",
     .doc = "A proxy that is believed when its X-Forwarded-For says for whom it asks."},
    {"geoip_proxy_recursive", IN_HTTP, FLAG(S, forwarded.is_recursive), .initial = "off",
     .doc =
         "Takes the last address that is not a trusted proxy's itself, instead of the last one."},
    {0},
};
#undef S

static const struct directive_table geoip_table = {.key = &geoip_key,
                                                   .rows = geoip_rows,
                                                   .contexts = IN_HTTP,
                                                   .size = sizeof(struct geoip_settings)};
static const struct directive_table *const geoip_tables[] = {&geoip_table, NULL};
static const struct http_module geoip_hooks = {.variables = geoip_variables};

const struct module ngx_http_geoip_module = {
    .magic = MODULE_MAGIC,
    .name = "ngx_http_geoip_module",
    .kind = MODULE_HTTP,
    .tables = geoip_tables,
    .hooks = &geoip_hooks,
};
