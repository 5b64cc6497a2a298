/* The functions of libGeoIP for the geoip modules. Included only by them: they may be loadable
 * objects, and are linked with it. */
#ifndef SHARED_GEO_GEOIP_LIBRARY_H
#define SHARED_GEO_GEOIP_LIBRARY_H

#include <GeoIP.h>

/* Initialises a struct geoip_library. */
#define GEOIP_LIBRARY                                                                              \
    {                                                                                              \
        .country_count = GeoIP_num_countries, .code = GeoIP_code_by_id,                            \
        .code3 = GeoIP_code3_by_id, .continent = GeoIP_continent_by_id, .name = GeoIP_name_by_id,  \
        .utf8_names = GeoIP_utf8_country_name, .region_name = GeoIP_region_name_by_code            \
    }

#endif
