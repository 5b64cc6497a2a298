/* Values by client address, from GeoIP databases of the legacy format. */
#include "shared/geo/geoip.h"

#include <errno.h>

#include "base/fs.h"
#include "shared/variables/give.h"

#define FILE_LIMIT ((size_t) 1 << 30) /* bytes of a database */

/* ---- lookup ---- */

/* The leaf for the client. */
static bool find_leaf(const struct geoip_lookup *lookup, const struct geoip_database *database,
                      uint32_t *leaf)
{
    const struct geo_clients *clients = lookup->clients;
    struct addr client = {.len = 0};

    if (database->legacy.bytes.len == 0) {
        return false;
    }
    clients->find(lookup->env, &client);
    if (clients->follow != NULL) {
        clients->follow(lookup->env, &lookup->settings->forwarded, &client);
    }
    return geo_legacy_find(&database->legacy, &client, leaf);
}

static bool give_text(struct str *out, const char *text)
{
    return text != NULL && variable_give(out, str_of(text));
}

/* Number 0 means no country. */
static bool is_country(const struct geoip_lookup *lookup, uint32_t number)
{
    return number != 0 && number < lookup->library->country_count();
}

/* A text of the database, converted to UTF-8 if is_utf8. */
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

/* `wanted` is one of GEOIP_COUNTRY_… or GEOIP_CITY_CONTINENT. */
static bool give_country(const struct geoip_lookup *lookup, uint32_t number,
                         enum geoip_value wanted, bool is_utf8, struct str *out)
{
    const struct geoip_library *library = lookup->library;
    int id = (int) number;

    if (!is_country(lookup, number)) {
        return false;
    }
    switch (wanted) {
    case GEOIP_COUNTRY_CODE:
        return give_text(out, library->code(id));
    case GEOIP_COUNTRY_CODE3:
        return give_text(out, library->code3(id));
    case GEOIP_CITY_CONTINENT:
        return give_text(out, library->continent(id));
    default:
        return give_text(out, is_utf8 ? library->utf8_names[id] : library->name(id));
    }
}

/* ---- regions ---- */

static bool give_region(const struct geoip_lookup *lookup, uint32_t leaf, enum geoip_value wanted,
                        struct str *out)
{
    struct geo_region region;

    if (!geo_legacy_region(&lookup->settings->region.legacy, leaf, &region)) {
        return false;
    }
    if (wanted == GEOIP_REGION_REGION) {
        return region.region[0] != '\0' &&
               variable_give(out, arena_dup(lookup->env->arena, str_of(region.region)));
    }
    if (region.is_us || region.is_canada) {
        return variable_give(out, region.is_us ? STR("US") : STR("CA"));
    }
    return give_country(lookup, region.country, GEOIP_COUNTRY_CODE, false, out);
}

/* ---- cities ---- */

static bool give_city_country(const struct geoip_lookup *lookup, const struct geo_city *city,
                              enum geoip_value wanted, struct str *out)
{
    if (city->country == 0) { /* a location without a country */
        return wanted != GEOIP_COUNTRY_NAME && variable_give(out, STR("--"));
    }
    return give_country(lookup, city->country, wanted, lookup->settings->city.is_utf8, out);
}

/* The strings of a city end with a NUL in the database. */
static bool give_region_name(const struct geoip_lookup *lookup, const struct geo_city *city,
                             struct str *out)
{
    return is_country(lookup, city->country) && city->region.len != 0 &&
           give_text(out, lookup->library->region_name(lookup->library->code((int) city->country),
                                                       city->region.data));
}

static bool give_degrees(struct variable_env *env, int32_t degrees, struct str *out)
{
    unsigned size = (unsigned) (degrees < 0 ? -degrees : degrees);

    return variable_give(out, arena_printf(env->arena, "%s%u.%04u", degrees < 0 ? "-" : "",
                                           size / 10000, size % 10000));
}

static bool give_city(const struct geoip_lookup *lookup, uint32_t leaf, enum geoip_value wanted,
                      struct str *out)
{
    const struct geoip_database *database = &lookup->settings->city;
    struct variable_env *env = lookup->env;
    struct geo_city city;

    if (!geo_legacy_city(&database->legacy, leaf, &city)) {
        return false;
    }
    switch (wanted) {
    case GEOIP_CITY_COUNTRY_CODE:
        return give_city_country(lookup, &city, GEOIP_COUNTRY_CODE, out);
    case GEOIP_CITY_COUNTRY_CODE3:
        return give_city_country(lookup, &city, GEOIP_COUNTRY_CODE3, out);
    case GEOIP_CITY_COUNTRY_NAME:
        return give_city_country(lookup, &city, GEOIP_COUNTRY_NAME, out);
    case GEOIP_CITY_REGION:
        return city.region.len != 0 && variable_give(out, city.region);
    case GEOIP_CITY_REGION_NAME:
        return give_region_name(lookup, &city, out);
    case GEOIP_CITY_NAME:
        return give_latin(env, database, city.city, out);
    case GEOIP_CITY_POSTAL_CODE:
        return city.postal_code.len != 0 && variable_give(out, city.postal_code);
    case GEOIP_CITY_LATITUDE:
        return give_degrees(env, city.latitude, out);
    case GEOIP_CITY_LONGITUDE:
        return give_degrees(env, city.longitude, out);
    case GEOIP_CITY_METRO:
        return variable_give_number(env, out, city.metro);
    case GEOIP_CITY_AREA:
        return variable_give_number(env, out, city.area);
    default:
        return give_city_country(lookup, &city, GEOIP_CITY_CONTINENT, out);
    }
}

/* ---- all of them ---- */

static const struct geoip_database *database_of(const struct geoip_settings *settings,
                                                enum geoip_value wanted)
{
    switch (wanted) {
    case GEOIP_COUNTRY_CODE:
    case GEOIP_COUNTRY_CODE3:
    case GEOIP_COUNTRY_NAME:
        return &settings->country;
    case GEOIP_REGION_COUNTRY:
    case GEOIP_REGION_REGION:
        return &settings->region;
    case GEOIP_ORG:
        return &settings->org;
    default:
        return &settings->city;
    }
}

bool geoip_give(const struct geoip_lookup *lookup, enum geoip_value wanted, struct str *out)
{
    const struct geoip_settings *settings = lookup->settings;
    const struct geoip_database *database = database_of(settings, wanted);
    struct str text;
    uint32_t leaf;

    if (!find_leaf(lookup, database, &leaf)) {
        return false;
    }
    if (database == &settings->country) {
        return give_country(lookup, leaf, wanted, database->is_utf8, out);
    }
    if (database == &settings->region) {
        return give_region(lookup, leaf, wanted, out);
    }
    if (database == &settings->org) {
        return geo_legacy_text(&database->legacy, leaf, &text) &&
               give_latin(lookup->env, database, text, out);
    }
    return give_city(lookup, leaf, wanted, out);
}

/* ---- directives ---- */

/* Opens the file of a directive, and reads its "utf8". */
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

#define APPLY(NAME, KIND, MEMBER)                                                                  \
    bool NAME(struct conf_scope *scope, const struct directive *row, struct conf_node *node,       \
              void *settings)                                                                      \
    {                                                                                              \
        return open_database(scope, node, KIND, &((struct geoip_settings *) settings)->MEMBER);    \
    }

APPLY(geoip_country_apply, GEO_LEGACY_COUNTRY, country)
APPLY(geoip_region_apply, GEO_LEGACY_REGION, region)
APPLY(geoip_city_apply, GEO_LEGACY_CITY, city)
APPLY(geoip_org_apply, GEO_LEGACY_TEXT, org)
