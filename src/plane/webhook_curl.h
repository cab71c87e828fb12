/* SPDX-License-Identifier: MIT */
#ifndef PLANE_WEBHOOK_CURL_H
#define PLANE_WEBHOOK_CURL_H

#include <curl/curl.h>

/*
 * What the webhooks need of libcurl, which is loaded with the first of them: a server without any has neither
 * the library nor the thirty that it brings along in its memory.
 */
#define WEBHOOK_CURL_FUNCTIONS(X) \
        X(global_init)            \
        X(global_cleanup)         \
        X(slist_append)           \
        X(slist_free_all)         \
        X(easy_init)              \
        X(easy_setopt)            \
        X(easy_getinfo)           \
        X(easy_strerror)          \
        X(easy_cleanup)           \
        X(multi_init)             \
        X(multi_add_handle)       \
        X(multi_remove_handle)    \
        X(multi_perform)          \
        X(multi_poll)             \
        X(multi_wakeup)           \
        X(multi_info_read)        \
        X(multi_cleanup)

struct webhook_curl {
#define WEBHOOK_CURL_MEMBER(name) __typeof__(curl_##name) *(name);
        WEBHOOK_CURL_FUNCTIONS(WEBHOOK_CURL_MEMBER)
#undef WEBHOOK_CURL_MEMBER
};

/* Loads it, once and for good. Thread-safe. Returns NULL when there is none. */
const struct webhook_curl *webhook_curl_load(void);

#endif
