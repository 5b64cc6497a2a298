/* What the files of gzip share. */
#ifndef HTTP_MODULES_FILTERS_GZIP_H
#define HTTP_MODULES_FILTERS_GZIP_H

#include "config.h"
#include "http/codings/codec.h"

/* By zlib: levels 1 to 9. */
extern const struct codec_kind codec_deflate;
#ifdef HAVE_LIBDEFLATE
/* By libdeflate: levels 1 to 9, in less of zlib's time, for bodies that are at hand as a whole. */
extern const struct codec_kind codec_libdeflate;
#endif
#ifdef HAVE_ISAL
/* By ISA-L: levels 1 to 3, in half the time and less. */
extern const struct codec_kind codec_igzip;
#endif

#endif
