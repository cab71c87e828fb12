/* SPDX-License-Identifier: MIT */
#include "plane/webhook_curl.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdbool.h>
#include <string.h>

#include "base/macro.h"

/* By what it is called with either library for TLS; which one, does not matter to us. */
static const char *const library_names[] = {"libcurl.so.4", "libcurl-gnutls.so.4"};

static struct webhook_curl functions;
static bool loaded;
static pthread_once_t once = PTHREAD_ONCE_INIT;

static bool find(void *library, const char *name, void *ret_function)
{
        void *symbol = dlsym(library, name);

        /* A pointer to a function is as large as one to data wherever dlsym() is. */
        memcpy(ret_function, &symbol, sizeof(symbol));
        return symbol != NULL;
}

static void load(void)
{
        void *library = NULL;
        bool found;

        for (size_t i = 0; library == NULL && i < ARRAY_SIZE(library_names); i++)
                library = dlopen(library_names[i], RTLD_NOW | RTLD_LOCAL);
        found = library != NULL;
#define WEBHOOK_CURL_FIND(name) found = found && find(library, "curl_" #name, &functions.name);
        WEBHOOK_CURL_FUNCTIONS(WEBHOOK_CURL_FIND)
#undef WEBHOOK_CURL_FIND
        loaded = found && functions.global_init(CURL_GLOBAL_DEFAULT) == CURLE_OK;
}

const struct webhook_curl *webhook_curl_load(void)
{
        pthread_once(&once, load);
        return loaded ? &functions : NULL;
}
