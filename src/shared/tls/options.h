/* Values of directives about TLS that the side of clients and the side of backends have in common.
 */
#ifndef SHARED_TLS_OPTIONS_H
#define SHARED_TLS_OPTIONS_H

#include "conf/directive.h"
#include "conf/template.h"
#include "net/tls/tls.h"

/* Versions, as ssl_protocols and similar directives name them: enum tls_protocol. */
extern const struct directive_word tls_protocol_words[];

/* Each reads the arguments of a node; what it gives lives as long as the configuration. */

/* A file of pass phrases, one a line: struct str, wiped when the configuration goes. False after
 * conf_error. */
bool tls_option_passwords(struct conf *conf, struct conf_node *node, struct vec *passwords);
/* Adds a pass phrase. */
void tls_option_add_password(struct conf *conf, struct vec *passwords, struct str text);
/* off | max=N [inactive=time] [valid=time]; *cache is NULL when off. False after conf_error. */
bool tls_option_certificate_cache(struct conf *conf, struct conf_node *node,
                                  struct tls_certificate_cache **cache);
/* A log of secrets; opened and reopened with the others, for its owner alone. */
struct log_file *tls_option_key_log(struct conf *conf, struct conf_node *node);

/* *_quic_host_key: reads the file; 32 bytes or more, of which keys are made. False after
 * conf_error. */
bool tls_option_quic_host_key(struct conf *conf, const struct conf_node *node, struct str path,
                              struct str *key);

/* The full name of a certificate or key; what is no file, or empty, stays as it is. */
struct str tls_option_full_name(struct arena *arena, struct str directory, struct str name);
/*
 * The texts of a certificate and its key. Where they are data, another process may replace both
 * between two looks: the key is asked for again when the certificate has changed since.
 */
void tls_option_pair(const struct template *certificate_text, const struct template *key_text,
                     struct variable_env *env, struct str *certificate, struct str *key);

#endif
