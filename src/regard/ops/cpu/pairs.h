/* What attention of any rule does with its pairs, a row of places and a head at a time.

   A block of queries is scored at a time, and under a causal mask only against the panels of keys it
   can reach: pairs lie as [panel][query][PANEL keys]. Rows of heads are shared out among threads;
   none changes an order of adding.

   Shapes: r rows (batch · heads), i queries, j keys, m width of what is scored, d of what is mixed,
   both multiples of LANES. */

#ifndef REGARD_PAIRS_H
#define REGARD_PAIRS_H

#include "tiles.h"

enum { QUERIES = 64 }; /* of a block */
enum {
    PANELS_ADDED_UP = 384 / PANEL
}; /* longer sums are sums of such: one after another they round apart */

/* A tensor (batch, heads, places, d): how far apart its parts lie. */
typedef struct {
    float *at;
    size_t batch, head, place;
} Rows;

typedef struct {
    Rows q, k, v, out, d_out, d_q, d_k, d_v;
    const float *weight;  /* (heads,m), of additive attention alone */
    float *mass;          /* (r,i) */
    float *d_weight;      /* (r,m) */
    const int16_t *draws; /* (r,i,j), missing without dropout */
    size_t batch, heads, i, j, m, d;
    int causal, least_kept; /* a draw from here on keeps its weight */
    float scale, share_kept;
} Attention;

/* What a thread works in. */
typedef struct {
    float *whole;               /* in which all others lie */
    float *k_panels, *k, *d_k;  /* (keys, m), keys up to whole panels */
    float *v_panels, *v, *d_v;  /* (keys, d) */
    float *q, *q_in_twos, *d_q; /* (QUERIES, m) */
    float *d_out, *mixed;       /* (QUERIES, d) */
    float *sums, *taken;        /* (QUERIES, LANES) and (QUERIES) */
    float *weights, *d_scores;  /* (panels of keys, QUERIES, PANEL) */
    float *d_halves;            /* (QUERIES + 1, m, LANES): lanes of sums, in additive attention */
} Rooms;

INLINE float *of_row(Rows x, const Attention *a, size_t row) {
    return x.at + row / a->heads * x.batch + row % a->heads * x.head;
}

static inline int open_rooms(Rooms *o, const Attention *a) {
    const size_t keys = rounded_up(a->j, PANEL), pairs = QUERIES * keys;
    struct {
        float **at;
        size_t floats;
    } parts[] = {
        {&o->k_panels, keys * a->m}, {&o->k, keys * a->m},
        {&o->d_k, keys * a->m},      {&o->v_panels, keys * a->d},
        {&o->v, keys * a->d},        {&o->d_v, keys * a->d},
        {&o->q, QUERIES * a->m},     {&o->q_in_twos, QUERIES * a->m},
        {&o->d_q, QUERIES * a->m},   {&o->d_out, QUERIES * a->d},
        {&o->mixed, QUERIES * a->d}, {&o->weights, pairs},
        {&o->d_scores, pairs},       {&o->sums, QUERIES * LANES},
        {&o->taken, QUERIES},        {&o->d_halves, a->weight ? (QUERIES + 1) * a->m * LANES : 0},
    };
    size_t all = 0, count = sizeof parts / sizeof *parts;
    for (size_t n = 0; n < count; n++) all += parts[n].floats;
    float *at = o->whole = room(all);
    for (size_t n = 0; at && n < count; at += parts[n].floats, n++) *parts[n].at = at;
    return at != NULL;
}

static inline void copy_keys(float *to, const float *from, size_t place, size_t j, size_t d) {
    for (size_t key = 0; key < j; key++)
        memcpy(to + key * d, from + key * place, d * sizeof(float));
    memset(to + j * d, 0, (rounded_up(j, PANEL) - j) * d * sizeof(float));
}

static inline void pack_keys(float *panels, const float *from, size_t place, size_t j, size_t d) {
    for (size_t key = 0; key < j; key += PANEL)
        pack_panel(panels + key * d, from + key * place, place, least(PANEL, j - key), d);
}

/* Queries of a block times a factor; those that only fill up its last tile are zeros. */
static inline void copy_scaled(float *to, const float *from, size_t place, size_t real, size_t d,
                               float by) {
    for (size_t row = 0; row < rounded_up(real, ROWS); row++)
        for (size_t k = 0; k < d; k++)
            to[row * d + k] = row < real ? from[row * place + k] * by : 0.0f;
}

/* A query's draws, where there is dropout. */
INLINE const int16_t *draws_of(const Attention *a, size_t row, size_t query) {
    return a->draws ? a->draws + (row * a->i + least(query, a->i - 1)) * a->j : NULL;
}

/* Where a weight is kept, from a key on. */
INLINE Lanes kept_lanes(const Attention *a, const int16_t *draws, size_t key) {
    int16_t last[LANES] = {0};
    const int16_t *from = draws + key;
    if (key + LANES > a->j) {
        if (key < a->j) memcpy(last, from, (a->j - key) * sizeof(int16_t));
        from = last;
    }
    return lanes_from(from, a->least_kept);
}

/* One tile of weights, before they are divided: 0 where there is no key or none may be seen. */
INLINE void raise_seen(Tile t, const Attention *a, size_t query, size_t key) {
    const int masked = key + PANEL > a->j || (a->causal && key + PANEL > query + 1);
    EACH_ROW(r) {
        size_t seen = a->causal ? least(a->j, query + r + 1) : a->j;
        EACH_VECTOR(c, WIDE) {
            t[r][c] = power_of_2(t[r][c]);
            if (masked)
                t[r][c] =
                    only(first_lanes((ptrdiff_t)seen - (ptrdiff_t)(key + LANES * c)), t[r][c]);
        }
    }
}

INLINE size_t panels_seen(const Attention *a, size_t last_query) {
    size_t seen = a->causal ? least(a->j, last_query + 1) : a->j;
    return rounded_up(seen, PANEL) / PANEL;
}

/* The first tile of a block that sees anything of a panel; those before it are never written. */
INLINE size_t first_to_see(const Attention *a, size_t first, size_t panel) {
    return a->causal && panel * PANEL > first ? (panel * PANEL - first) / ROWS * ROWS : 0;
}

/* Every tile of a block that sees anything: its first query n in the block, its panel p of keys. */
#define EACH_TILE(a, first, rows, n, p)                                                            \
    for (size_t p = 0; p < panels_seen(a, (first) + (rows) - 1); p++)                              \
        for (size_t n = first_to_see(a, first, p); n < (rows); n += ROWS)

INLINE void mix(float *out, size_t d, int vectors, const float *pairs, size_t panels,
                const float *keys) {
    Tile t;
    clear(t);
    put(out, d, vectors, t);
    for (size_t p = 0; p < panels;) {
        clear(t);
        for (size_t end = least(panels, p + PANELS_ADDED_UP); p < end; p++)
            add_products(t, vectors, PANEL, pairs + p * QUERIES * PANEL, PANEL, 1,
                         keys + p * PANEL * d, d);
        add_to(out, d, vectors, t);
    }
}

/* Each tile of queries against all it can see: out = pairs · keys, (i,j), (j,d) -> (i,d). */
static inline void mix_block(float *out, const Attention *a, const float *pairs, const float *keys,
                             size_t width, size_t first, size_t rows) {
    EACH_GROUP(g, columns, width) {
        for (size_t row = 0; row < rows; row += ROWS) {
            size_t panels = panels_seen(a, first + row + ROWS - 1);
            const float *from = pairs + row * PANEL;
            float *to = out + row * width + g;
            BY_VECTORS(columns, mix(to, width, vectors, from, panels, keys + g));
        }
    }
}

/* out += pairsᵀ · queries, (i,j), (i,d) -> (j,d), over the queries of a block that see a panel. */
static inline void gather_block(float *out, const Attention *a, const float *pairs,
                                const float *queries, size_t width, size_t first, size_t rows) {
    const size_t panels = panels_seen(a, first + rows - 1);
    for (size_t p = 0; p < panels; p++) {
        const size_t blind = first_to_see(a, first, p);
        EACH_GROUP(g, columns, width) {
            for (size_t j = 0; j < PANEL; j += ROWS) {
                const float *from = pairs + (p * QUERIES + blind) * PANEL + j;
                const float *with = queries + blind * width + g;
                float *to = out + (p * PANEL + j) * width + g;
                BY_VECTORS(columns,
                           gather_tile(to, width, vectors, from, PANEL, with, width, rows - blind));
            }
        }
    }
}

/* Weights of a tile that was scored: summed, and kept for the mixing. */
INLINE void keep_weights(const Attention *a, const Rooms *o, Tile t, size_t row, size_t first,
                         size_t n, size_t p) {
    EACH_ROW(r) {
        float *sums = o->sums + (n + r) * LANES, *to = o->weights + (p * QUERIES + n + r) * PANEL;
        const int16_t *draws = draws_of(a, row, first + n + r);
        Vector sum = load(sums);
        EACH_VECTOR(c, WIDE) {
            Vector weight = t[r][c];
            sum += weight;
            if (draws) weight = only(kept_lanes(a, draws, p * PANEL + LANES * c), weight);
            store(to + LANES * c, weight);
        }
        store(sums, sum);
    }
}

/* Mixes what was kept of a block, and divides it. */
static inline void put_out(const Attention *a, const Rooms *o, size_t row, size_t first,
                           size_t real) {
    mix_block(o->mixed, a, o->weights, o->v, a->d, first, rounded_up(real, ROWS));
    for (size_t n = 0; n < real; n++) {
        float mass = sum_of(load(o->sums + n * LANES));
        float *out = of_row(a->out, a, row) + (first + n) * a->out.place;
        a->mass[row * a->i + first + n] = mass;
        for (size_t k = 0; k < a->d; k++) out[k] = o->mixed[n * a->d + k] / (mass * a->share_kept);
    }
}

static inline void open_backward(const Attention *a, const Rooms *o, size_t row) {
    const size_t keys = rounded_up(a->j, PANEL);
    pack_keys(o->v_panels, of_row(a->v, a, row), a->v.place, a->j, a->d);
    memset(o->d_k, 0, keys * a->m * sizeof(float));
    memset(o->d_v, 0, keys * a->d * sizeof(float));
}

/* From what a thread has gathered to where the row's gradients belong. */
static inline void put_back(Rows to, const Attention *a, size_t row, size_t first,
                            const float *from, size_t places, size_t width) {
    for (size_t n = 0; n < places; n++)
        memcpy(of_row(to, a, row) + (first + n) * to.place, from + n * width,
               width * sizeof(float));
}

typedef void (*Does)(const Attention *, const Rooms *, size_t row);

static inline int each_row(const Attention *a, Does does, size_t threads) {
    int missing = 0;
#pragma omp parallel num_threads((int)threads) reduction(| : missing)
    {
        Rooms o;
        missing = !open_rooms(&o, a);
#pragma omp for schedule(dynamic)
        for (size_t row = 0; row < a->batch * a->heads; row++)
            if (!missing) does(a, &o, row);
        free(o.whole);
    }
    return missing;
}

/* Arguments of a kernel: of each tensor where it begins, and how far apart its batch rows, heads and
   places lie. */
#define ROWS_OF(x) float *x, size_t x##_batch, size_t x##_head, size_t x##_place
#define AS_ROWS(x) {x, x##_batch, x##_head, x##_place}
#define SETTING                                                                                    \
    float *mass, const int16_t *draws, size_t batch, size_t heads, size_t i, size_t j, size_t m,   \
        size_t d, size_t causal, ptrdiff_t least_kept, float scale, float share_kept,              \
        size_t threads
#define AS_ASKED                                                                                   \
    .mass = mass, .draws = draws, .batch = batch, .heads = heads, .i = i, .j = j, .m = m, .d = d,  \
    .causal = (int)causal, .least_kept = (int)least_kept, .scale = scale, .share_kept = share_kept

#endif
