/* SPDX-License-Identifier: MIT */
#include "wire/beast2_read.h"

#include <assert.h>

#include "base/limits.h"
#include "base/macro.h"
#include "base/size.h"
#include "base/utf8.h"
#include "wire/inflate_exact.h"

#define CONTAINER_NEW 0
#define CONTAINER_REF 1

#define CODEC_DEFLATE 1

#define INDEX_MAGIC \
        "\x89"      \
        "East\r\n\xf5"
#define MAGIC_LEN 8

/* Items of a list that comes in several segments: room for so many at first. */
#define LIST_FIRST 8

/* A list that was read, for those that refer to it. */
struct container {
        const struct beast2_type *type; /* NULL until it is complete */
        struct beast2_list list;
        size_t size; /* beast2, 10, rule 12 */
};

/* A segment of a root container, for the index to be checked against. */
struct segment {
        size_t frame; /* where its frame starts in the input */
        uint64_t count;
};

struct reader {
        const char *p, *end;      /* the logical bytes of the frame that is being read, and how far that is */
        const char *start;        /* of the input */
        struct lessor_slice rest; /* the input after this frame */
        size_t frame;             /* where this frame starts in the input */
        struct lessor_arena *arena;
        size_t bytes_left; /* logical bytes that frames, and aliases once more, may still stand for */
        size_t aliased;    /* sizes of the containers that aliases have named so far */
        size_t memory_left;
        struct container *containers;
        size_t n_containers, containers_cap;
        const char *problem;
};

static int read_value(struct reader *r, const struct beast2_type *type, char *at);

static int wrong(struct reader *r, const char *problem)
{
        r->problem = problem;
        return LESSOR_E_MALFORMED;
}

static int too_large(struct reader *r, const char *problem)
{
        r->problem = problem;
        return LESSOR_E_TOO_LARGE;
}

static size_t left(const struct reader *r)
{
        return (size_t)(r->end - r->p);
}

/* Zeroed memory for `count` things that the message says it has. */
static int take_memory(struct reader *r, size_t count, size_t size, void *ret_memory)
{
        size_t bytes;
        void *memory;

        if (!size_mul(count, size, &bytes) || bytes > r->memory_left)
                return too_large(r, "it would take too much memory");
        r->memory_left -= bytes;
        memory = lessor_arena_alloc(r->arena, bytes);
        if (memory == NULL)
                return LESSOR_E_NOMEM;
        memcpy(ret_memory, &memory, sizeof(memory));
        return 0;
}

/* --- Integers (beast2, 2) --- */

/* One from a slice, which is moved past it. NULL, or what is wrong. */
static const char *take_uvarint(const char **p, const char *end, uint64_t *ret_n)
{
        uint64_t n = 0;

        for (unsigned shift = 0; *p < end; shift += 7) {
                unsigned char byte = (unsigned char)*(*p)++;

                if (shift == 63 && byte > 1)
                        return "an integer has more than 64 bits";
                n |= (uint64_t)(byte & 0x7f) << shift;
                if (byte >= 0x80)
                        continue;
                if (byte == 0 && shift > 0)
                        return "an integer is longer than it needs to be";
                *ret_n = n;
                return NULL;
        }
        return "it ends within an integer";
}

static int read_uvarint(struct reader *r, uint64_t *ret_n)
{
        const char *problem = take_uvarint(&r->p, r->end, ret_n);

        return problem == NULL ? 0 : wrong(r, problem);
}

static int read_svarint(struct reader *r, int64_t *ret_n)
{
        uint64_t n;
        int e = read_uvarint(r, &n);

        if (e == 0)
                *ret_n = (int64_t)(n >> 1) ^ -(int64_t)(n & 1);
        return e;
}

/* A length or count of what is still to come, at least `least` bytes each. */
static int read_count(struct reader *r, size_t least, size_t *ret_count)
{
        uint64_t count;
        int e = read_uvarint(r, &count);

        if (e < 0)
                return e;
        if (count > left(r) / least)
                return wrong(r, "it has fewer bytes than a length or count says");
        *ret_count = (size_t)count;
        return 0;
}

/* --- Simple values (beast2, 6) --- */

static int read_bytes(struct reader *r, struct lessor_slice *ret_bytes)
{
        size_t n;
        int e = read_count(r, 1, &n);

        if (e < 0)
                return e;
        *ret_bytes = (struct lessor_slice){r->p, n};
        r->p += n;
        return 0;
}

static int read_string(struct reader *r, struct lessor_slice *ret_text)
{
        int e = read_bytes(r, ret_text);

        return e == 0 && !utf8_valid(*ret_text) ? wrong(r, "a text is not valid UTF-8") : e;
}

static int read_boolean(struct reader *r, bool *ret_value)
{
        if (r->p == r->end)
                return wrong(r, "it ends before a Boolean");
        if ((unsigned char)*r->p > 1)
                return wrong(r, "a Boolean is neither 0 nor 1");
        *ret_value = *r->p++ == 1;
        return 0;
}

static int read_datetime(struct reader *r, int64_t *ret_ms)
{
        int e = read_svarint(r, ret_ms);

        if (e == 0 && (*ret_ms > BEAST2_DATETIME_MOST || *ret_ms < -BEAST2_DATETIME_MOST))
                return wrong(r, "a time is out of range");
        return e;
}

/* --- What is made of others --- */

static int read_struct(struct reader *r, const struct beast2_type *type, char *at)
{
        for (size_t i = 0; i < type->n_members; i++) {
                const struct beast2_member *m = &type->members[i];
                int e;

                if (m->flags & BEAST2_JSON_ONLY)
                        continue;
                e = read_value(r, m->type, at + m->offset);
                if (e < 0)
                        return e;
        }
        return 0;
}

static int read_case(struct reader *r, size_t n_cases, size_t *ret_number)
{
        uint64_t number;
        int e = read_uvarint(r, &number);

        if (e < 0)
                return e;
        if (number >= n_cases)
                return wrong(r, "there is no such case");
        *ret_number = (size_t)number;
        return 0;
}

static int read_variant(struct reader *r, const struct beast2_type *type, char *at)
{
        size_t number;
        int e = read_case(r, type->n_members, &number);
        int tag;

        if (e < 0)
                return e;
        tag = (int)number;
        memcpy(at, &tag, sizeof(tag));
        return read_value(r, type->members[number].type, at + type->members[number].offset);
}

static int read_option(struct reader *r, const struct beast2_type *type, char *at)
{
        size_t number;
        char *content;
        int e = read_case(r, 2, &number);

        if (e < 0 || number == 0)
                return e;
        if (beast2_option_is_slice(type))
                return read_value(r, type->element, at);
        e = take_memory(r, 1, type->element->size, &content);
        if (e < 0)
                return e;
        memcpy(at, &content, sizeof(content));
        return read_value(r, type->element, content);
}

/* --- Lists --- */

/* Makes room for `more` items. What is given up stays in the arena: room doubles, so that it is no more
 * again. */
static int reserve_items(struct reader *r, const struct beast2_type *type, size_t more,
                         struct beast2_list *list, size_t *cap)
{
        size_t wanted = list->n + more; /* each item is a byte of the message at least: no overflow */
        char *items;
        int e;

        if (wanted <= *cap)
                return 0;
        if (list->n > 0) {
                wanted = wanted < *cap * 2 ? *cap * 2 : wanted;
                wanted = wanted < LIST_FIRST ? LIST_FIRST : wanted;
        }
        e = take_memory(r, wanted, type->element->size, &items);
        if (e < 0)
                return e;
        if (list->n > 0)
                memcpy(items, list->items, list->n * type->element->size);
        list->items = items;
        *cap = wanted;
        return 0;
}

/* An entry of a Dict begins with its key, which must come after that of the entry before. */
static bool keys_ascend(const struct beast2_type *type, const char *item)
{
        const struct lessor_slice *key = (const void *)item;
        const struct lessor_slice *before = (const void *)(item - type->element->size);

        return lessor_slice_cmp(*before, *key) < 0;
}

static int read_items(struct reader *r, const struct beast2_type *type, size_t count,
                      struct beast2_list *list, size_t *cap)
{
        int e = reserve_items(r, type, count, list, cap);

        for (; e == 0 && count > 0; count--) {
                char *item = (char *)list->items + list->n * type->element->size;

                e = read_value(r, type->element, item);
                if (e == 0 && type->kind == BEAST2_DICT && list->n > 0 && !keys_ascend(type, item))
                        e = wrong(r, "the keys of a Dict do not ascend");
                list->n++;
        }
        return e;
}

static int add_container(struct reader *r, size_t *ret_place)
{
        if (r->n_containers == r->containers_cap) {
                size_t cap = r->containers_cap == 0 ? LIST_FIRST : r->containers_cap * 2;
                struct container *more;
                int e = take_memory(r, cap, sizeof(*more), &more);

                if (e < 0)
                        return e;
                if (r->n_containers > 0)
                        memcpy(more, r->containers, r->n_containers * sizeof(*more));
                r->containers = more;
                r->containers_cap = cap;
        }
        *ret_place = r->n_containers++;
        return 0;
}

/*
 * The same contents as an earlier container. They are shared here, but whoever writes them, or reads them
 * all, pays for each time: hence rule 12.
 */
static int read_alias(struct reader *r, const struct beast2_type *type, struct beast2_list *ret_list)
{
        const struct container *named;
        uint64_t distance;
        int e = read_uvarint(r, &distance);

        if (e < 0)
                return e;
        if (distance == 0 || distance > r->n_containers)
                return wrong(r, "an alias names no container");
        named = &r->containers[r->n_containers - (size_t)distance];
        if (named->type != type)
                return wrong(r, "an alias names a container of another type");
        if (named->size > r->bytes_left)
                return too_large(r, "its aliases multiply it beyond the limit");
        r->bytes_left -= named->size;
        r->aliased += named->size;
        *ret_list = named->list;
        return 0;
}

static int read_container_tag(struct reader *r, unsigned *ret_tag)
{
        if (r->p == r->end)
                return wrong(r, "it ends before a container");
        *ret_tag = (unsigned char)*r->p++;
        return *ret_tag <= CONTAINER_REF ? 0 : wrong(r, "a container begins with an unknown tag");
}

static int read_list(struct reader *r, const struct beast2_type *type, struct beast2_list *ret_list)
{
        size_t least = beast2_least_size(type->element), aliased_before = r->aliased, cap = 0, place, count;
        struct beast2_list list = {NULL, 0};
        const char *from;
        unsigned tag;
        int e = read_container_tag(r, &tag);

        if (e < 0)
                return e;
        if (tag == CONTAINER_REF)
                return read_alias(r, type, ret_list);
        from = r->p;
        e = add_container(r, &place);
        if (e < 0)
                return e;
        do {
                e = read_count(r, least, &count);
                if (e == 0)
                        e = read_items(r, type, count, &list, &cap);
                if (e < 0)
                        return e;
        } while (count > 0);
        r->containers[place].list = list;
        r->containers[place].size = (size_t)(r->p - from) + r->aliased - aliased_before;
        r->containers[place].type = type;
        *ret_list = list;
        return 0;
}

static int read_value(struct reader *r, const struct beast2_type *type, char *at)
{
        switch (type->kind) {
        case BEAST2_NULL:
                return 0;
        case BEAST2_BOOLEAN:
                return read_boolean(r, (void *)at);
        case BEAST2_INTEGER:
                return read_svarint(r, (void *)at);
        case BEAST2_DATETIME:
                return read_datetime(r, (void *)at);
        case BEAST2_STRING:
                return read_string(r, (void *)at);
        case BEAST2_BLOB:
                return read_bytes(r, (void *)at);
        case BEAST2_STRUCT:
                return read_struct(r, type, at);
        case BEAST2_VARIANT:
                return read_variant(r, type, at);
        case BEAST2_OPTION:
                return read_option(r, type, at);
        case BEAST2_ARRAY:
        case BEAST2_DICT:
                return read_list(r, type, (void *)at);
        }
        return wrong(r, "its type is unknown");
}

/* --- Frames (beast2, 5 and 9) --- */

/* The payload undone, in the input or in the arena. Every bound is checked before memory is taken. */
static int open_payload(struct reader *r, uint64_t codec, uint64_t logical, struct lessor_slice payload)
{
        struct lessor_slice bytes = payload;
        int e = 0;

        if (codec == CODEC_DEFLATE) {
                if (!inflate_is_plausible(payload.n, (size_t)logical))
                        return wrong(r, "a DEFLATE stream cannot give as many bytes as the frame says");
                e = inflate_exact(payload, (size_t)logical, r->arena, &bytes);
        } else if (logical != payload.n) {
                return wrong(r, "a frame that is not compressed states two lengths");
        }
        if (e == LESSOR_E_MALFORMED)
                return wrong(r, "a DEFLATE stream is not valid or not as long as the frame says");
        if (e < 0)
                return e;
        r->bytes_left -= (size_t)logical;
        r->p = bytes.p;
        r->end = bytes.p + bytes.n;
        return 0;
}

/* Opens the next frame of the rest of the input. */
static int open_frame(struct reader *r)
{
        const char *p = r->rest.p, *end = p + r->rest.n;
        uint64_t codec, logical, payload;
        const char *problem = take_uvarint(&p, end, &codec);

        if (problem == NULL)
                problem = take_uvarint(&p, end, &logical);
        if (problem == NULL)
                problem = take_uvarint(&p, end, &payload);
        if (problem != NULL)
                return wrong(r, problem);
        if (codec > CODEC_DEFLATE)
                return wrong(r, "a frame has an unknown codec");
        if (logical == 0)
                return wrong(r, "a frame is empty");
        if (logical > r->bytes_left)
                return too_large(r, "it stands for more bytes than the limit");
        if (payload > (size_t)(end - p))
                return wrong(r, "a frame is longer than the input");
        r->frame = (size_t)(r->rest.p - r->start);
        r->rest = (struct lessor_slice){p + payload, (size_t)(end - p) - (size_t)payload};
        return open_payload(r, codec, logical, (struct lessor_slice){p, (size_t)payload});
}

/* --- Root containers, which may be paged (beast2, 7) --- */

struct segments {
        struct segment *items;
        size_t n, cap;
};

/* The next frame if this one is used up: between two units that is allowed. */
static int next_unit(struct reader *r)
{
        return left(r) > 0 ? 0 : open_frame(r);
}

static int add_segment(struct reader *r, struct segments *segments, uint64_t count)
{
        if (segments->n == segments->cap) {
                size_t cap = segments->cap == 0 ? LIST_FIRST : segments->cap * 2;
                struct segment *more;
                int e = take_memory(r, cap, sizeof(*more), &more);

                if (e < 0)
                        return e;
                if (segments->n > 0)
                        memcpy(more, segments->items, segments->n * sizeof(*more));
                segments->items = more;
                segments->cap = cap;
        }
        segments->items[segments->n++] = (struct segment){r->frame, count};
        return 0;
}

static bool is_index_of(const struct segments *segments, const char **p, const char *end)
{
        uint64_t flags, n, delta, count, offset = 0;

        if (take_uvarint(p, end, &flags) != NULL || flags > 1)
                return false;
        if (take_uvarint(p, end, &n) != NULL || n != segments->n)
                return false;
        for (size_t i = 0; i < segments->n; i++) {
                if (take_uvarint(p, end, &delta) != NULL || take_uvarint(p, end, &count) != NULL)
                        return false;
                offset += delta; /* if it wraps, it is some other number */
                if (offset != segments->items[i].frame || count != segments->items[i].count)
                        return false;
        }
        return true;
}

/* What may follow the frames of a root container. */
static int check_index(struct reader *r, const struct segments *segments)
{
        const char *p = r->rest.p, *end = p + r->rest.n;
        uint64_t stated = 0, offset = (uint64_t)(p - r->start);

        if (r->rest.n == 0)
                return 0;
        if (!is_index_of(segments, &p, end))
                return wrong(r, "what follows the list is not its index");
        if (end - p != sizeof(stated) + MAGIC_LEN)
                return wrong(r, "the index has no footer");
        for (size_t i = 0; i < sizeof(stated); i++)
                stated |= (uint64_t)(unsigned char)p[i] << (8 * i);
        if (stated != offset)
                return wrong(r, "the footer does not say where the index is");
        if (memcmp(p + sizeof(stated), INDEX_MAGIC, MAGIC_LEN) != 0)
                return wrong(r, "the footer does not end with its magic");
        return 0;
}

static int read_root_list(struct reader *r, const struct beast2_type *type, struct beast2_list *list)
{
        size_t least = beast2_least_size(type->element), cap = 0, count = 0, place;
        struct segments segments = {NULL, 0, 0};
        unsigned tag;
        int e = read_container_tag(r, &tag);

        if (e == 0 && tag == CONTAINER_REF)
                return wrong(r, "an alias names no container");
        if (e == 0)
                e = add_container(r, &place); /* never complete, and so never named */
        if (e < 0)
                return e;
        do {
                e = next_unit(r);
                if (e == 0)
                        e = read_count(r, least, &count);
                if (e == 0 && count > 0)
                        e = add_segment(r, &segments, count);
                if (e == 0)
                        e = read_items(r, type, count, list, &cap);
                if (e < 0)
                        return e;
        } while (count > 0);
        if (left(r) > 0)
                return wrong(r, "there are bytes after the value");
        return check_index(r, &segments);
}

/* --- Messages --- */

/* Everything before the frame is fixed by the type, to the byte (beast2, 10, rule 2). */
static int skip_prefix(struct reader *r, const struct beast2_type *type)
{
        _cleanup_(buf_done) struct buf prefix = {0};
        int e = beast2_prefix_append(type, &prefix);

        if (e < 0)
                return e;
        if (r->rest.n < MAGIC_LEN || memcmp(r->rest.p, prefix.p, MAGIC_LEN) != 0)
                return wrong(r, "it does not begin as BEAST2 of version 5 does");
        if (r->rest.n < prefix.n || memcmp(r->rest.p, prefix.p, prefix.n) != 0)
                return wrong(r, "it is of another type than expected");
        r->rest.p += prefix.n;
        r->rest.n -= prefix.n;
        return 0;
}

static int read_message(struct reader *r, const struct beast2_type *type, char *at)
{
        int e = skip_prefix(r, type);

        if (e == 0)
                e = open_frame(r);
        if (e < 0)
                return e;
        if (type->kind == BEAST2_ARRAY || type->kind == BEAST2_DICT)
                return read_root_list(r, type, (void *)at);
        if (r->rest.n > 0)
                return wrong(r, "there are bytes after the frame");
        e = read_value(r, type, at);
        if (e == 0 && left(r) > 0)
                e = wrong(r, "there are bytes after the value");
        return e;
}

int beast2_read(const struct beast2_type *type, struct lessor_slice bytes, const struct beast2_limits *limits,
                struct lessor_arena *arena, void *ret_value, const char **ret_problem)
{
        static const struct beast2_limits usual = {LIMIT_BEAST2_LOGICAL, LIMIT_BEAST2_MEMORY};
        struct reader r = {.start = bytes.p, .rest = bytes, .arena = arena};
        int e;

        limits = limits == NULL ? &usual : limits;
        assert(limits->logical <= LIMIT_BEAST2_LOGICAL_MOST);
        r.bytes_left = limits->logical;
        r.memory_left = limits->memory;
        if (bytes.n == 0)
                r.start = r.rest.p = "";
        memset(ret_value, 0, type->size);
        e = read_message(&r, type, ret_value);
        if (e == 0)
                return 0;
        memset(ret_value, 0, type->size);
        if (ret_problem != NULL)
                *ret_problem = r.problem == NULL ? lessor_error_text(e) : r.problem;
        return e;
}
