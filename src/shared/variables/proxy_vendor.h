/* Data of cloud providers in the header of the PROXY protocol, about the private endpoint of a
 * client. */
#ifndef SHARED_VARIABLES_PROXY_VENDOR_H
#define SHARED_VARIABLES_PROXY_VENDOR_H

#include "conf/template.h"
#include "net/conn/proxy_protocol.h"

enum proxy_vendor {
    PROXY_VENDOR_AWS_VPCE_ID,  /* a string */
    PROXY_VENDOR_AZURE_PEL_ID, /* a number */
    PROXY_VENDOR_GCP_CONN_ID,  /* a number */
};

/* Variables of a module; GET calls variable_give_proxy_vendor with the data of its variable. */
#define PROXY_VENDOR_VARIABLES(GET)                                                                \
    {.name = STR_INIT("proxy_protocol_tlv_aws_vpce_id"),                                           \
     .doc = "ID of the VPC endpoint in the PROXY protocol header, set by AWS.",                    \
     .get = GET,                                                                                   \
     .data = PROXY_VENDOR_AWS_VPCE_ID},                                                            \
        {.name = STR_INIT("proxy_protocol_tlv_azure_pel_id"),                                      \
         .doc = "ID of the private link in the PROXY protocol header, set by Azure.",              \
         .get = GET,                                                                               \
         .data = PROXY_VENDOR_AZURE_PEL_ID},                                                       \
    {                                                                                              \
        .name = STR_INIT("proxy_protocol_tlv_gcp_conn_id"),                                        \
        .doc = "ID of the connection in the PROXY protocol header, set by Google Cloud.",          \
        .get = GET, .data = PROXY_VENDOR_GCP_CONN_ID                                               \
    }

/* False: the header, which may be NULL, does not have it in the vendor's format. */
bool variable_give_proxy_vendor(struct variable_env *env, struct str *out,
                                const struct proxy_header *proxy, enum proxy_vendor which);

#endif
