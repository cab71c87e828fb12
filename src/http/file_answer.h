/* SPDX-License-Identifier: MIT */
#ifndef HTTP_FILE_ANSWER_H
#define HTTP_FILE_ANSWER_H

#include "http/http.h"

/*
 * Answers with `length` bytes of a regular file from `offset` on. On a plain connection they never pass
 * through our memory. Takes the descriptor on every return. The file must not get shorter meanwhile. A page
 * that is not in memory is waited for on the worker.
 */
void http_answer_file(struct http_request *request, unsigned status, const char *content_type, int fd,
                      uint64_t offset, uint64_t length);

/*
 * Answers with a file of `size` bytes, or with the part of it that the request wants (RFC 9110, 14): 200, 206
 * or 416, with Accept-Ranges, Content-Range and ETag. Takes the descriptor on every return.
 *
 * etag  a strong one, with its quotes; NULL: none, and an If-Range then never holds
 */
void http_answer_ranges(struct http_request *request, const char *content_type, int fd, uint64_t size,
                        const char *etag);

enum http_range {
        HTTP_RANGE_WHOLE, /* none was asked for, or one that is not understood; or several, which are not
                             served */
        HTTP_RANGE_PART,
        HTTP_RANGE_NONE, /* it lies beyond the end: 416 */
};

/*
 * What a request asks for of something of `size` bytes that has this etag (as above).
 *
 * ret_offset, ret_length  written unless the answer is HTTP_RANGE_NONE
 */
enum http_range http_range(struct http_request *request, uint64_t size, const char *etag,
                           uint64_t *ret_offset, uint64_t *ret_length);

#endif
