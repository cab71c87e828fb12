/* SPDX-License-Identifier: MIT */
#include "wire/version.h"

#include <stddef.h>

/* The first daemon that knows what an offer is (relay-protocol 12). */
#define OFFER_SINCE LESSOR_SLICE("0.1.0-alpha.83")

struct version {
        struct lessor_slice triple[3]; /* digits */
        struct lessor_slice pre;       /* absent: a release */
};

static bool is_digit(char c)
{
        return c >= '0' && c <= '9';
}

static bool is_label_char(char c)
{
        return is_digit(c) || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '.' || c == '-';
}

/* Takes the longest run of such characters off the front. */
static struct lessor_slice take_run(struct lessor_slice *text, bool (*wanted)(char c))
{
        struct lessor_slice run = {text->p, 0};

        while (run.n < text->n && wanted(text->p[run.n]))
                run.n++;
        text->p += run.n;
        text->n -= run.n;
        return run;
}

static bool take_char(struct lessor_slice *text, char c)
{
        if (text->n == 0 || text->p[0] != c)
                return false;
        text->p++;
        text->n--;
        return true;
}

static bool version_parse(struct lessor_slice text, struct version *ret_version)
{
        struct version v = {0};

        if (text.p == NULL)
                return false;
        for (int i = 0; i < 3; i++) {
                if (i > 0 && !take_char(&text, '.'))
                        return false;
                v.triple[i] = take_run(&text, is_digit);
                if (v.triple[i].n == 0)
                        return false;
        }
        if (take_char(&text, '-')) {
                v.pre = take_run(&text, is_label_char);
                if (v.pre.n == 0)
                        return false;
        }
        if (take_char(&text, '+') && take_run(&text, is_label_char).n == 0)
                return false;
        if (text.n > 0)
                return false;
        *ret_version = v;
        return true;
}

static int sign(int order)
{
        return (order > 0) - (order < 0);
}

/* By value, of any length, leading zeros ignored. */
static int digits_compare(struct lessor_slice a, struct lessor_slice b)
{
        while (a.n > 0 && a.p[0] == '0')
                take_char(&a, '0');
        while (b.n > 0 && b.p[0] == '0')
                take_char(&b, '0');
        if (a.n != b.n)
                return a.n < b.n ? -1 : 1;
        return sign(lessor_slice_cmp(a, b));
}

static bool all_digits(struct lessor_slice text)
{
        return text.n > 0 && take_run(&text, is_digit).n > 0 && text.n == 0;
}

/* Takes the text up to the next dot, and the dot. False at the end. */
static bool take_identifier(struct lessor_slice *pre, bool *more, struct lessor_slice *ret_identifier)
{
        struct lessor_slice identifier = {pre->p, 0};

        if (!*more)
                return false;
        while (identifier.n < pre->n && pre->p[identifier.n] != '.')
                identifier.n++;
        pre->p += identifier.n;
        pre->n -= identifier.n;
        /* An identifier follows each dot, be it empty. */
        *more = take_char(pre, '.');
        *ret_identifier = identifier;
        return true;
}

static int identifier_compare(struct lessor_slice a, struct lessor_slice b)
{
        bool a_number = all_digits(a);
        bool b_number = all_digits(b);

        if (a_number && b_number)
                return digits_compare(a, b);
        if (a_number != b_number)
                return a_number ? -1 : 1;
        return sign(lessor_slice_cmp(a, b));
}

static int pre_compare(struct lessor_slice a, struct lessor_slice b)
{
        bool a_more = true, b_more = true;

        if (a.p == NULL || b.p == NULL)
                return (a.p == NULL) - (b.p == NULL);
        for (;;) {
                struct lessor_slice x = {0}, y = {0};
                bool a_has = take_identifier(&a, &a_more, &x);
                bool b_has = take_identifier(&b, &b_more, &y);
                int order;

                if (!a_has || !b_has)
                        return a_has - b_has;
                order = identifier_compare(x, y);
                if (order != 0)
                        return order;
        }
}

bool version_valid(struct lessor_slice version)
{
        struct version v;

        return version_parse(version, &v);
}

bool version_compare(struct lessor_slice a, struct lessor_slice b, int *ret_order)
{
        struct version x, y;
        int order = 0;

        if (!version_parse(a, &x) || !version_parse(b, &y))
                return false;
        for (int i = 0; i < 3 && order == 0; i++)
                order = digits_compare(x.triple[i], y.triple[i]);
        *ret_order = order != 0 ? order : pre_compare(x.pre, y.pre);
        return true;
}

bool version_below_floor(struct lessor_slice daemon, struct lessor_slice floor)
{
        int order;

        return version_compare(daemon, floor, &order) && order < 0;
}

bool version_offered(struct lessor_slice daemon, struct lessor_slice offer)
{
        int order;

        if (!version_valid(offer) || !version_compare(daemon, OFFER_SINCE, &order) || order < 0)
                return false;
        return !lessor_slice_equal(daemon, offer);
}
