/* Probes of health checks that speak HTTP, FastCGI or gRPC: what is sent, and how the response is
 * read and judged. Implemented in probe.c, call.c, fastcgi.c, grpc.c and response.c. */
#ifndef HTTP_EXCHANGE_PROBE_PROBE_H
#define HTTP_EXCHANGE_PROBE_PROBE_H

#include <stdbool.h>
#include <stdint.h>

#include "http/message/fields.h"
#include "base/chunked.h"
#include "upstream/health.h"

#define PROBE_HEAD_MAX (32 * 1024)  /* bytes of a response's head */
#define PROBE_BODY_MAX (256 * 1024) /* bytes of its body that are looked at */

/* A response, in the arena of the probe. */
struct probe_response {
    unsigned version;     /* 10, 11 …; of the status line */
    unsigned status;      /* 100 to 999 */
    bool is_assumed;      /* no field says the status: see is_200_unless_set */
    struct fields fields; /* of the head */
    struct str body;      /* its first bytes, when they were wanted */
};

/* How far a response was read. */
enum probe_step {
    PROBE_MORE, /* all that can be used was used; more has to come */
    PROBE_DONE, /* the response is whole, or what is wanted of it */
    PROBE_BAD,  /* it is none; reason tells */
};

/* Reads a response (RFC 9112), or one of the CGI kind (RFC 3875, 6), piece by piece. */
struct probe_parser {
    struct arena *arena;    /* of the probe */
    bool is_cgi;            /* there is no status line; the body ends with the input */
    bool is_200_unless_set; /* without the field Status it is 200, whatever Location says */
    bool wants_body;        /* response.body is filled with up to PROBE_BODY_MAX bytes */
    bool wants_end; /* reads to the end even without wants_body, so that more can follow it */

    struct probe_response response; /* out */
    const char *reason;             /* out: "status line" … what was wrong with it */
    bool may_keep;                  /* out, with PROBE_DONE: another response may follow */
    bool has_head; /* out: status and fields are those of the response, however it ends */

    uint8_t state;          /* where it stands; 0 at first */
    uint8_t interims;       /* responses of 1xx so far */
    uint64_t left;          /* of a body whose length is known */
    uint64_t received;      /* bytes of the body so far */
    struct chunked chunked; /* of a body that is */
    size_t body_room;       /* bytes allocated for response.body */
    size_t looked;          /* bytes of the input in which no head ends */
};

/*
 * Takes what it can use off *input. A head has to be whole: what is left of the input is to be
 * given again with more after it, up to PROBE_HEAD_MAX. is_end: nothing will follow.
 */
enum probe_step probe_parse(struct probe_parser *parser, struct str *input, bool is_end);

/* Gathers what a FastCGI responder sends to its standard output (FastCGI 1.0, 3.3 and 5). */
struct probe_records {
    struct arena *arena; /* of the probe */
    char head[8];        /* of the current record, as far as it has come */
    uint8_t head_size;   /* bytes of that */
    uint8_t type;        /* of the current record */
    uint8_t padding;     /* bytes that follow its content */
    uint16_t left;       /* bytes of content that are to come */
    uint8_t end[8];      /* content of FCGI_END_REQUEST */
    uint8_t end_size;    /* bytes of that so far */
    struct str output;   /* so far; at most PROBE_HEAD_MAX + PROBE_BODY_MAX bytes are kept */
    size_t output_room;  /* bytes allocated */
    const char *reason;  /* out: what was wrong */
};

/* Takes bytes off *input. PROBE_DONE: the request has ended well. */
enum probe_step probe_records_take(struct probe_records *records, struct str *input);

/* What a check of the HTTP family sends and wants; the speak_settings of the two functions below.
 */
struct http_probe {
    struct str request;      /* bytes to be sent when the connection ends with the response */
    struct str request_kept; /* bytes to be sent when another request may follow */
    bool wants_body;         /* judge looks at response->body */
    bool is_200_unless_set;  /* FastCGI: see probe_parser */
    /* Is this the response of a healthy peer? False: probe->reason tells why not. */
    bool (*judge)(struct health_probe *probe, struct probe_response *response,
                  const void *settings);
    const void *judge_settings; /* given to judge */
};

/*
 * Receives a response that the parser reads; *step is what it said last. False: nothing was
 * answered, or not all of it; the probe's reason tells. MAY WAIT.
 */
bool probe_receive(struct health_probe *probe, struct probe_parser *parser, enum probe_step *step);

/* The speak functions of health_settings: one request, one response. MAY WAIT. */
bool probe_speak_http(struct health_probe *probe);
bool probe_speak_fastcgi(struct health_probe *probe);

/* A FastCGI request without a body: params are struct probe_param. Each value may have 64k bytes;
 * false when one is longer. */
struct probe_param {
    struct str name;  /* not empty */
    struct str value; /* may be empty */
};
bool probe_fastcgi_request(struct arena *arena, const struct vec *params, bool keeps_conn,
                           struct str *out);

/* ---- gRPC (grpc.c, call.c) ---- */

#define PROBE_GRPC_TEXT_MAX 4096 /* bytes of an authority, of a service's name */

/* A unary call. */
struct grpc_call {
    struct str authority, path; /* PROBE_GRPC_TEXT_MAX at most, each */
    bool is_https;
    struct str user_agent;
    const struct probe_param *metadata; /* further fields; names in lower case */
    unsigned metadata_count;
    struct str message; /* without the head of five bytes; stays until the call has ended, or the
                           conn was closed */
};

/* What is known of a connection of HTTP/2 from one call to the next. All zero: nothing was sent on
 * it. */
struct grpc_link {
    uint32_t stream;        /* of the last call; 0 = none was made */
    uint32_t frame_size;    /* bytes of a DATA frame at most; 0 = FRAME_SIZE_DEFAULT */
    int64_t window;         /* bytes of DATA that the peer takes on the connection */
    int64_t stream_window;  /* the same of the call */
    int64_t initial_window; /* the same of a call that begins */
    uint32_t received;      /* bytes of DATA that we got and did not give back */
    bool has_settings;      /* the peer's first frame has come */
    bool is_closing;        /* GOAWAY came: no call after this one */
};

/* What a check by grpc.health.v1.Health/Check sends and wants; the speak_settings of
 * probe_speak_grpc. */
struct grpc_probe {
    struct grpc_call call;
    unsigned status; /* this status of gRPC is healthy, too: 12 where there is no such service; 0 =
                        none is */
};

/* A call that asks for a service; empty: for the server as a whole. False: a text is too long. */
bool probe_grpc_request(struct arena *arena, struct str authority, bool is_https,
                        struct str service, struct grpc_call *out);

/* One call, on a connection of its own: it is never kept. MAY WAIT. */
bool probe_speak_grpc(struct health_probe *probe);

/* Reads the response, frame by frame. */
struct probe_grpc {
    struct arena *arena;    /* of the probe */
    struct grpc_link *link; /* of the connection; its `stream` is that of the call */
    bool is_in_block;       /* a header block is not whole yet */
    bool is_ended;          /* nothing comes after that block */
    bool is_grpc;           /* out: Content-Type says so */
    unsigned http_status;   /* out; 0 = none came */
    int grpc_status;        /* out; -1 at first: none came */
    char *block;            /* a header block so far, or NULL */
    size_t block_size;      /* bytes of it */
    size_t received;        /* bytes of frames so far */
    char reply[1024];       /* out: acknowledgements, to be sent; reply_size is 0 then */
    size_t reply_size;
    size_t message_size;
    char message[256];     /* out: with its head of five bytes */
    char status_text[128]; /* out: grpc-message, as it was sent, as far as it has room; ends with a
                              NUL */
    const char *reason;    /* out: what was wrong */
};

/*
 * Makes a call, and reads its response into *grpc, whose `arena` and `link` are set. The connection
 * may carry another one after it when link->is_closing is not set. MAY WAIT until the deadline.
 * False: there is no whole response; the probe's reason and error tell, and the connection is of no
 * use any more.
 */
bool grpc_call_run(struct health_probe *probe, const struct grpc_call *call,
                   struct probe_grpc *grpc);

/* Takes whole frames off *input; the rest is to be given again with more after it, which is never
 * above PROBE_HEAD_MAX. PROBE_DONE: the call has ended. */
enum probe_step probe_grpc_take(struct probe_grpc *grpc, struct str *input);

/* The number in a HealthCheckResponse: 1 is SERVING. False: the message is none. */
bool probe_grpc_serving(const struct probe_grpc *grpc, uint64_t *serving);

#endif
