/* SPDX-License-Identifier: MIT */
#include "base/json_write.h"
#include "plane/relay_call.h"
#include "wire/relay_shapes.h"

/*
 * The debug page (relay-protocol 5, step 1): every job of every site, for somebody who develops against a
 * relay of their own. Off unless asked for, and never to be exposed.
 */

#define DEBUG_JOBS 10000

static void put_escaped(struct buf *out, struct lessor_slice text)
{
        for (size_t i = 0; i < text.n; i++) {
                switch (text.p[i]) {
                case '<':
                        buf_text(out, "&lt;");
                        break;
                case '>':
                        buf_text(out, "&gt;");
                        break;
                case '&':
                        buf_text(out, "&amp;");
                        break;
                case '"':
                        buf_text(out, "&quot;");
                        break;
                default:
                        buf_char(out, text.p[i]);
                }
        }
}

static void put_job(struct buf *out, const struct lessor_job *job)
{
        const struct lessor_slice cells[] = {job->site_id,
                                             job->stub.id,
                                             job->stub.owner,
                                             lessor_slice_of(message_word(&kind_words, (int)job->stub.kind)),
                                             lessor_slice_of(message_word(&job_state_words, (int)job->state)),
                                             job->claimed ? job->runner_id : LESSOR_SLICE("")};

        buf_text(out, "<tr>");
        for (size_t i = 0; i < sizeof(cells) / sizeof(cells[0]); i++) {
                buf_text(out, "<td>");
                put_escaped(out, cells[i]);
                buf_text(out, "</td>");
        }
        buf_text(out, "</tr>\n");
}

void relay_handle_debug(struct http_request *http, void *context)
{
        struct relay *relay = context;
        struct lessor_job_list jobs;
        struct lessor_slice site_id = {0};
        struct projection *projection;
        struct buf page = {0}, refusal = {0};
        bool known;

        if (!relay->options.debug) {
                relay_refusal_append(RELAY_REFUSAL_NO_SUCH_PATH, NULL, &refusal);
                http_answer(http, 404, "application/json", &refusal);
                return;
        }
        projection = projection_cell_get(relay->parts.projections);
        known = http_query(http, "site", &site_id) == 0 && site_id.p != NULL &&
                projection_site(projection, site_id) != NULL;
        projection_unref(projection);
        if (!known) {
                relay_refusal_append(RELAY_REFUSAL_DEBUG_BAD_SITE, NULL, &refusal);
                http_answer(http, 400, "application/json", &refusal);
                return;
        }
        /* Nothing here is told to a party of the protocol, so it need not wait for the disk. */
        if (lessor_routing_jobs(relay->parts.store, NULL, DEBUG_JOBS, http->arena, &jobs,
                                &(struct lessor_ticket){0}) < 0) {
                http_answer(http, 503, NULL, NULL);
                return;
        }
        buf_text(&page,
                 "<!doctype html><title>relay jobs</title><table>\n<tr><th>site<th>job<th>owner<th>kind"
                 "<th>state<th>runner</tr>\n");
        for (size_t i = 0; i < jobs.n; i++)
                put_job(&page, &jobs.items[i]);
        buf_text(&page, "</table>\n");
        http_answer(http, 200, "text/html; charset=utf-8", &page);
}
