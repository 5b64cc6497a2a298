/* Shared by the files of gzip. */
#ifndef HTTP_MODULES_FILTERS_GZIP_H
#define HTTP_MODULES_FILTERS_GZIP_H

#include "config.h"
#include "http/codings/codec.h"

/* zlib: levels 1 to 9. */
extern const struct codec_kind codec_deflate;
#ifdef HAVE_LIBDEFLATE
/* libdeflate: levels 1 to 9, faster than zlib, for bodies that are in memory as a whole. */
extern const struct codec_kind codec_libdeflate;
#endif
#ifdef HAVE_ISAL
/* ISA-L: levels 1 to 3, in half of zlib's time or less. */
extern const struct codec_kind codec_igzip;
#endif

#endif
