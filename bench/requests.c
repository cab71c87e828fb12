/* SPDX-License-Identifier: MIT */
#include "requests.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lessor/error.h"
#include "machine.h"

#define DEADLINE_MS 7200000
#define NAP_NS      200000 /* a few requests' worth */

int request_enqueue(const struct world *world, unsigned site, const char *owner, const char *job_id,
                    const char *kind, struct buf *out)
{
        const struct party *party = &world->sites[site];
        _cleanup_(buf_done) struct buf body = {0};

        buf_printf(&body,
                   "{\"protocolVersion\":\"2\",\"siteId\":\"%s\",\"stub\":{\"id\":\"%s\",\"kind\":\"%s\","
                   "\"owner\":\"%s\",\"site\":\"%s\",\"audience\":\"private\",\"sizeClass\":\"small\","
                   "\"streaming\":false,\"deadlineAt\":%lld}}",
                   party->id, job_id, kind, owner, party->key_id.text, (long long)wall_ms() + DEADLINE_MS);
        if (buf_failed(&body) < 0)
                return buf_failed(&body);
        return party_request(party, REQUEST_PLANE_SITE, "enqueue", buf_view(&body), out);
}

int request_claim(const struct party *device, unsigned max, struct buf *out)
{
        _cleanup_(buf_done) struct buf body = {0};

        buf_printf(&body,
                   "{\"protocolVersion\":\"2\",\"runnerId\":\"%s\",\"capabilities\":[{\"kind\":\"" JOB_KIND
                   "\",\"service\":\"local\",\"backendId\":\"ollama\",\"backendClass\":\"http\","
                   "\"model\":\"llama3.2\",\"offerScope\":\"private\"}],\"max\":%u}",
                   device->id, max);
        if (buf_failed(&body) < 0)
                return buf_failed(&body);
        return party_request(device, REQUEST_PLANE_DEVICE, "claim", buf_view(&body), out);
}

void request_list_done(struct request_list *list)
{
        buf_done(&list->text);
        free(list->ends);
}

void request_list_clear(struct request_list *list)
{
        buf_clear(&list->text);
        list->n = 0;
}

int request_list_close(struct request_list *list)
{
        if (buf_failed(&list->text) < 0)
                return LESSOR_E_NOMEM;
        if (list->n == list->cap) {
                size_t cap = list->cap == 0 ? 1024 : list->cap * 2;
                size_t *ends = reallocarray(list->ends, cap, sizeof(*ends));

                if (ends == NULL)
                        return LESSOR_E_NOMEM;
                list->ends = ends;
                list->cap = cap;
        }
        list->ends[list->n++] = list->text.n;
        return 0;
}

struct lessor_slice request_list_at(const struct request_list *list, size_t index)
{
        size_t begin = index == 0 ? 0 : list->ends[index - 1];

        return (struct lessor_slice){list->text.p + begin, list->ends[index] - begin};
}

struct sending {
        const struct request_list *list;
        size_t next;
        struct request_outcome *outcome;
};

static int send_next(void *context, unsigned lane, struct lessor_slice *ret_request)
{
        struct sending *s = context;

        (void)lane;
        if (s->next == s->list->n)
                return 0;
        *ret_request = request_list_at(s->list, s->next++);
        return 1;
}

static int note_answer(void *context, unsigned lane, const struct traffic_answer *answer)
{
        static const char empty[] = "{\"jobs\":[]";
        struct request_outcome *outcome = ((struct sending *)context)->outcome;

        (void)lane;
        percentiles_add(&outcome->latencies, answer->elapsed_ns);
        if (answer->status != 200) {
                if (outcome->n_refused++ == 0) {
                        outcome->refusal = answer->status;
                        snprintf(outcome->why, sizeof(outcome->why), "%.*s",
                                 (int)(answer->body.n > 200 ? 200 : answer->body.n), answer->body.p);
                }
        } else if (answer->body.n >= sizeof(empty) - 1 &&
                   memcmp(answer->body.p, empty, sizeof(empty) - 1) == 0) {
                outcome->n_empty++;
        }
        return 0;
}

int request_list_send(const struct request_list *list, struct traffic *traffic,
                      struct request_outcome *ret_outcome)
{
        struct sending s = {.list = list, .outcome = ret_outcome};
        const struct traffic_plan plan = {
                .next = send_next, .answered = note_answer, .context = &s, .nap_ns = NAP_NS};
        uint64_t begin_ns = now_ns();
        int e;

        memset(ret_outcome, 0, sizeof(*ret_outcome));
        e = traffic_run(traffic, &plan);
        ret_outcome->elapsed_ns = now_ns() - begin_ns;
        if (e == 0 && ret_outcome->n_refused > 0) {
                fprintf(stderr, "load: %zu of %zu requests refused, the first with %d %s\n",
                        ret_outcome->n_refused, list->n, ret_outcome->refusal, ret_outcome->why);
                return LESSOR_E_REFUSED;
        }
        return e;
}

struct lessor_slice text_after(struct lessor_slice text, const char *before)
{
        size_t n = strlen(before);
        const char *at = memmem(text.p, text.n, before, n), *end;

        if (at == NULL)
                return (struct lessor_slice){NULL, 0};
        at += n;
        end = memchr(at, '"', (size_t)(text.p + text.n - at));
        return (struct lessor_slice){at, end == NULL ? 0 : (size_t)(end - at)};
}
