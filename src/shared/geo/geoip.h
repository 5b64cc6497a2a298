/* Values by client address, from GeoIP databases of the legacy format: shared by the geoip
 * modules. */
#ifndef SHARED_GEO_GEOIP_H
#define SHARED_GEO_GEOIP_H

#include "conf/directive.h"
#include "conf/template.h"
#include "shared/geo/geo.h"
#include "shared/geo/legacy.h"

/* The functions of libGeoIP: names for numbers of countries. Each gives NULL if there is none. Set
 * by the modules with geoip_library.h, since the program itself is not linked with that library. */
struct geoip_library {
    unsigned (*country_count)(void);
    const char *(*code)(int country);
    const char *(*code3)(int country);
    const char *(*continent)(int country);
    const char *(*name)(int country);
    const char **utf8_names; /* by number */
    const char *(*region_name)(const char *country_code, const char *region);
};

struct geoip_database {
    struct geo_legacy legacy; /* .bytes is empty if no file was configured */
    bool is_utf8;             /* give texts as UTF-8 */
};

/* The settings of the block that has the directives. */
struct geoip_settings {
    struct geoip_database country;
    struct geoip_database region; /* http only */
    struct geoip_database city;
    struct geoip_database org;
    struct forwarded forwarded; /* geoip_proxy, http only: trusted proxies */
};

/* The parameters of a lookup. */
struct geoip_lookup {
    const struct geoip_settings *settings;
    const struct geoip_library *library;
    const struct geo_clients *clients;
    struct variable_env *env;
};

enum geoip_value {
    GEOIP_COUNTRY_CODE,
    GEOIP_COUNTRY_CODE3,
    GEOIP_COUNTRY_NAME,
    GEOIP_REGION_COUNTRY,
    GEOIP_REGION_REGION,
    GEOIP_CITY_CONTINENT,
    GEOIP_CITY_COUNTRY_CODE,
    GEOIP_CITY_COUNTRY_CODE3,
    GEOIP_CITY_COUNTRY_NAME,
    GEOIP_CITY_REGION,
    GEOIP_CITY_REGION_NAME,
    GEOIP_CITY_NAME,
    GEOIP_CITY_POSTAL_CODE,
    GEOIP_CITY_LATITUDE,
    GEOIP_CITY_LONGITUDE,
    GEOIP_CITY_METRO,
    GEOIP_CITY_AREA,
    GEOIP_ORG,
};

/* False: the database has nothing about the client, or there is no database. */
bool geoip_give(const struct geoip_lookup *lookup, enum geoip_value wanted, struct str *out);

#define GEOIP_VARIABLE(NAME, GET, VALUE, WORDS)                                                    \
    {                                                                                              \
        .name = STR_INIT(NAME), .get = GET, .data = VALUE, .doc = WORDS                            \
    }

/* The variables of all geoip modules; GET calls geoip_give with the data of its variable. */
#define GEOIP_VARIABLES(GET)                                                                       \
    GEOIP_VARIABLE("geoip_country_code", GET, GEOIP_COUNTRY_CODE,                                  \
                   "Two-letter code of the country."),                                             \
        GEOIP_VARIABLE("geoip_country_code3", GET, GEOIP_COUNTRY_CODE3,                            \
                       "Three-letter code of the country."),                                       \
        GEOIP_VARIABLE("geoip_country_name", GET, GEOIP_COUNTRY_NAME, "Name of the country."),     \
        GEOIP_VARIABLE("geoip_city_continent_code", GET, GEOIP_CITY_CONTINENT,                     \
                       "Two-letter code of the continent."),                                       \
        GEOIP_VARIABLE("geoip_city_country_code", GET, GEOIP_CITY_COUNTRY_CODE,                    \
                       "Two-letter code of the country, from the city database."),                 \
        GEOIP_VARIABLE("geoip_city_country_code3", GET, GEOIP_CITY_COUNTRY_CODE3,                  \
                       "Three-letter code of the country, from the city database."),               \
        GEOIP_VARIABLE("geoip_city_country_name", GET, GEOIP_CITY_COUNTRY_NAME,                    \
                       "Name of the country, from the city database."),                            \
        GEOIP_VARIABLE("geoip_region", GET, GEOIP_CITY_REGION,                                     \
                       "Two-character code of the region, from the city database."),               \
        GEOIP_VARIABLE("geoip_region_name", GET, GEOIP_CITY_REGION_NAME, "Name of the region."),   \
        GEOIP_VARIABLE("geoip_city", GET, GEOIP_CITY_NAME, "Name of the city."),                   \
        GEOIP_VARIABLE("geoip_postal_code", GET, GEOIP_CITY_POSTAL_CODE, "Postal code."),          \
        GEOIP_VARIABLE("geoip_latitude", GET, GEOIP_CITY_LATITUDE, "Latitude."),                   \
        GEOIP_VARIABLE("geoip_longitude", GET, GEOIP_CITY_LONGITUDE, "Longitude."),                \
        GEOIP_VARIABLE("geoip_dma_code", GET, GEOIP_CITY_METRO, "DMA or metro code in the US."),   \
        GEOIP_VARIABLE("geoip_area_code", GET, GEOIP_CITY_AREA, "Telephone area code."),           \
        GEOIP_VARIABLE("geoip_org", GET, GEOIP_ORG, "Organization.")

/* Apply functions of rows whose settings are a struct geoip_settings: the file of a database, and
 * "utf8". */
bool geoip_country_apply(struct conf_scope *scope, const struct directive *row,
                         struct conf_node *node, void *settings);
bool geoip_region_apply(struct conf_scope *scope, const struct directive *row,
                        struct conf_node *node, void *settings);
bool geoip_city_apply(struct conf_scope *scope, const struct directive *row, struct conf_node *node,
                      void *settings);
bool geoip_org_apply(struct conf_scope *scope, const struct directive *row, struct conf_node *node,
                     void *settings);

/* One row: its name, the member of struct geoip_settings, its documentation. */
#define GEOIP_ROW(NAME, CONTEXT, MEMBER, APPLY, DOC)                                               \
    {                                                                                              \
        NAME, CONTEXT, CUSTOM_FIELD(struct geoip_settings, MEMBER, APPLY), ARGS(1, 2),             \
            .syntax = "file [utf8]", .doc = DOC                                                    \
    }

/* The rows of all geoip modules, for blocks of this context. */
#define GEOIP_ROWS(CONTEXT)                                                                        \
    GEOIP_ROW("geoip_country", CONTEXT, country, geoip_country_apply,                              \
              "Database of countries in the legacy format, for IPv4 or IPv6, for the variables "   \
              "`$geoip_country_*`. It is read into memory; a changed file is used after the next " \
              "reload. `utf8`: names are converted to UTF-8; otherwise they are in ISO 8859-1."),  \
        GEOIP_ROW("geoip_city", CONTEXT, city, geoip_city_apply,                                   \
                  "Database of cities, for variables such as `$geoip_city`, `$geoip_city_*`, "     \
                  "`$geoip_region` and `$geoip_latitude`."),                                       \
        GEOIP_ROW(                                                                                 \
            "geoip_org", CONTEXT, org, geoip_org_apply,                                            \
            "Database of organizations, Internet providers, domains or autonomous systems, for "   \
            "`$geoip_org`.")

#endif
