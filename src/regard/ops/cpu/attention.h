/* Attention over (query, key) pairs, one head of one batch row at a time: what dot-product and
   additive attention have in common.

   Queries are processed in blocks; under a causal mask a block is scored only against the key
   panels it can see. Pairs are laid out as [panel][query][PANEL keys]. Threads split heads: the
   order of summation, and with it every bit, is the same for any number of threads.

   Shapes: bh batch row and head, i queries, j keys, m width that is scored, d width of the values,
   both multiples of LANES. */

#ifndef REGARD_ATTENTION_H
#define REGARD_ATTENTION_H

#include "tiles.h"

enum { BLOCK_QUERIES = 64 };
enum {
    PANELS_PER_SUM = 384 / PANEL
}; /* longer sums are sums of partial sums: one running sum loses accuracy */

/* A tensor (batch, heads, rows, d) with its strides; d is contiguous. */
typedef struct {
    float *data;
    size_t batch_stride, head_stride, row_stride;
} Strided;

typedef struct {
    Strided q, k, v, out, d_out, d_q, d_k, d_v;
    const float *weight;  /* (heads,m), additive attention only */
    float *denominator;   /* (bh,i) */
    float *d_weight;      /* (bh,m) */
    const int16_t *draws; /* (bh,i,j), NULL without dropout */
    size_t batch, heads, i, j, m, d;
    int causal, keep_threshold; /* draws from the threshold on keep their weight */
    float scale, keep_probability;
} Attention;

/* Buffers of one thread. */
typedef struct {
    float *buffer;                  /* holds all the others */
    float *k_panels, *k, *d_k;      /* (keys, m), keys padded to whole panels */
    float *v_panels, *v, *d_v;      /* (keys, d) */
    float *q, *q_log2_scaled, *d_q; /* (BLOCK_QUERIES, m) */
    float *d_out, *out;             /* (BLOCK_QUERIES, d) */
    float *sums, *delta;            /* (BLOCK_QUERIES, LANES) and (BLOCK_QUERIES) */
    float *weights, *d_scores;      /* (panels, BLOCK_QUERIES, PANEL) */
    float *lane_sums; /* (BLOCK_QUERIES + 1, m, LANES), additive attention: of d_q and d_weight */
} Workspace;

INLINE float *head_data(Strided x, const Attention *a, size_t bh) {
    return x.data + bh / a->heads * x.batch_stride + bh % a->heads * x.head_stride;
}

static inline int alloc_workspace(Workspace *ws, const Attention *a) {
    const size_t keys = round_up(a->j, PANEL), pairs = BLOCK_QUERIES * keys;
    struct {
        float **at;
        size_t floats;
    } slices[] = {
        {&ws->k_panels, keys * a->m},
        {&ws->k, keys * a->m},
        {&ws->d_k, keys * a->m},
        {&ws->v_panels, keys * a->d},
        {&ws->v, keys * a->d},
        {&ws->d_v, keys * a->d},
        {&ws->q, BLOCK_QUERIES * a->m},
        {&ws->q_log2_scaled, BLOCK_QUERIES * a->m},
        {&ws->d_q, BLOCK_QUERIES * a->m},
        {&ws->d_out, BLOCK_QUERIES * a->d},
        {&ws->out, BLOCK_QUERIES * a->d},
        {&ws->weights, pairs},
        {&ws->d_scores, pairs},
        {&ws->sums, BLOCK_QUERIES * LANES},
        {&ws->delta, BLOCK_QUERIES},
        {&ws->lane_sums, a->weight ? (BLOCK_QUERIES + 1) * a->m * LANES : 0},
    };
    size_t total = 0, count = sizeof slices / sizeof *slices;
    for (size_t n = 0; n < count; n++) total += slices[n].floats;
    float *at = ws->buffer = alloc_buffer(total);
    for (size_t n = 0; at && n < count; at += slices[n].floats, n++) *slices[n].at = at;
    return at != NULL;
}

/* Copies keys or values (j,d), padded with zeros to whole panels. */
static inline void copy_keys(float *to, const float *from, size_t stride, size_t j, size_t d) {
    for (size_t key = 0; key < j; key++)
        memcpy(to + key * d, from + key * stride, d * sizeof(float));
    memset(to + j * d, 0, (round_up(j, PANEL) - j) * d * sizeof(float));
}

static inline void pack_keys(float *panels, const float *from, size_t stride, size_t j, size_t d) {
    for (size_t key = 0; key < j; key += PANEL)
        pack_panel(panels + key * d, from + key * stride, stride, min_size(PANEL, j - key), d);
}

/* Copies `valid` queries of a block times a factor; rows that pad the last tile are zeros. */
static inline void copy_scaled(float *to, const float *from, size_t stride, size_t valid, size_t d,
                               float factor) {
    for (size_t n = 0; n < round_up(valid, TILE_ROWS); n++)
        for (size_t k = 0; k < d; k++)
            to[n * d + k] = n < valid ? from[n * stride + k] * factor : 0.0f;
}

/* A query's dropout draws (j); NULL without dropout. */
INLINE const int16_t *query_draws(const Attention *a, size_t bh, size_t query) {
    return a->draws ? a->draws + (bh * a->i + min_size(query, a->i - 1)) * a->j : NULL;
}

/* Lanes that dropout keeps, of the LANES weights from `key` on. */
INLINE LaneMask keep_mask(const Attention *a, const int16_t *draws, size_t key) {
    int16_t padded[LANES] = {0};
    const int16_t *from = draws + key;
    if (key + LANES > a->j) {
        if (key < a->j) memcpy(padded, from, (a->j - key) * sizeof(int16_t));
        from = padded;
    }
    return mask_at_least(from, a->keep_threshold);
}

/* From log2-scaled scores to unnormalised weights 2^score; zero for padding and masked keys. */
INLINE void exp2_visible(Tile t, const Attention *a, size_t query, size_t key) {
    const int masked = key + PANEL > a->j || (a->causal && key + PANEL > query + 1);
    FOR_TILE_ROWS(r) {
        size_t visible = a->causal ? min_size(a->j, query + r + 1) : a->j;
        FOR_VECTORS(c, TILE_VECTORS) {
            t[r][c] = vexp2(t[r][c]);
            if (masked)
                t[r][c] = blend_zero(
                    mask_first_clamped((ptrdiff_t)visible - (ptrdiff_t)(key + LANES * c)), t[r][c]);
        }
    }
}

/* Panels that hold any key visible up to `last_query`. */
INLINE size_t visible_panels(const Attention *a, size_t last_query) {
    size_t visible = a->causal ? min_size(a->j, last_query + 1) : a->j;
    return round_up(visible, PANEL) / PANEL;
}

/* First row, a multiple of TILE_ROWS, of a block whose tile sees any key of a panel; pairs of the
   rows before it are never written. */
INLINE size_t first_visible_row(const Attention *a, size_t first, size_t panel) {
    return a->causal && panel * PANEL > first ? (panel * PANEL - first) / TILE_ROWS * TILE_ROWS : 0;
}

/* Every tile of a block of queries from `first` on that sees any key: n is its first row in the
   block, p its key panel. */
#define FOR_VISIBLE_TILES(a, first, rows, n, p)                                                    \
    for (size_t p = 0; p < visible_panels(a, (first) + (rows) - 1); p++)                           \
        for (size_t n = first_visible_row(a, first, p); n < (rows); n += TILE_ROWS)

INLINE void matmul_pairs_tile(float *out, size_t d, int vectors, const float *pairs, size_t panels,
                              const float *right) {
    Tile t;
    tile_zero(t);
    tile_store(out, d, vectors, t);
    for (size_t p = 0; p < panels;) {
        tile_zero(t);
        for (size_t end = min_size(panels, p + PANELS_PER_SUM); p < end; p++)
            tile_matmul(t, vectors, PANEL, pairs + p * BLOCK_QUERIES * PANEL, PANEL, 1,
                        right + p * PANEL * d, d);
        tile_accumulate(out, d, vectors, t);
    }
}

/* out = pairs · right over the visible keys of a block: (i,j), (j,width) -> (i,width) */
static inline void matmul_pairs(float *out, const Attention *a, const float *pairs,
                                const float *right, size_t width, size_t first, size_t rows) {
    FOR_COLUMN_GROUPS(g, columns, width) {
        for (size_t n = 0; n < rows; n += TILE_ROWS) {
            size_t panels = visible_panels(a, first + n + TILE_ROWS - 1);
            const float *from = pairs + n * PANEL;
            float *to = out + n * width + g;
            DISPATCH_VECTORS(columns,
                             matmul_pairs_tile(to, width, vectors, from, panels, right + g));
        }
    }
}

/* out += pairsᵀ · right over the queries of a block that see a panel: (i,j), (i,width) ->
   (j,width) */
static inline void matmul_pairs_transposed(float *out, const Attention *a, const float *pairs,
                                           const float *right, size_t width, size_t first,
                                           size_t rows) {
    const size_t panels = visible_panels(a, first + rows - 1);
    for (size_t p = 0; p < panels; p++) {
        const size_t start = first_visible_row(a, first, p);
        FOR_COLUMN_GROUPS(g, columns, width) {
            for (size_t j = 0; j < PANEL; j += TILE_ROWS) {
                const float *from = pairs + (p * BLOCK_QUERIES + start) * PANEL + j;
                const float *right_rows = right + start * width + g;
                float *to = out + (p * PANEL + j) * width + g;
                DISPATCH_VECTORS(columns,
                                 tile_accumulate_transposed(to, width, vectors, from, PANEL,
                                                            right_rows, width, rows - start));
            }
        }
    }
}

/* Adds a tile of weights to the denominators' lane sums, then stores it with dropout applied. */
INLINE void store_weights(const Attention *a, const Workspace *ws, Tile t, size_t bh, size_t first,
                          size_t n, size_t p) {
    FOR_TILE_ROWS(r) {
        float *sums = ws->sums + (n + r) * LANES,
              *to = ws->weights + (p * BLOCK_QUERIES + n + r) * PANEL;
        const int16_t *draws = query_draws(a, bh, first + n + r);
        Vector sum = load(sums);
        FOR_VECTORS(c, TILE_VECTORS) {
            Vector weight = t[r][c];
            sum += weight;
            if (draws) weight = blend_zero(keep_mask(a, draws, p * PANEL + LANES * c), weight);
            store(to + LANES * c, weight);
        }
        store(sums, sum);
    }
}

/* Output of a block: weights · v, divided by denominator and keep probability. */
static inline void write_output(const Attention *a, const Workspace *ws, size_t bh, size_t first,
                                size_t valid) {
    matmul_pairs(ws->out, a, ws->weights, ws->v, a->d, first, round_up(valid, TILE_ROWS));
    for (size_t n = 0; n < valid; n++) {
        float denominator = reduce_add(load(ws->sums + n * LANES));
        float *out = head_data(a->out, a, bh) + (first + n) * a->out.row_stride;
        a->denominator[bh * a->i + first + n] = denominator;
        for (size_t k = 0; k < a->d; k++)
            out[k] = ws->out[n * a->d + k] / (denominator * a->keep_probability);
    }
}

static inline void begin_backward(const Attention *a, const Workspace *ws, size_t bh) {
    const size_t keys = round_up(a->j, PANEL);
    pack_keys(ws->v_panels, head_data(a->v, a, bh), a->v.row_stride, a->j, a->d);
    memset(ws->d_k, 0, keys * a->m * sizeof(float));
    memset(ws->d_v, 0, keys * a->d * sizeof(float));
}

/* Copies a thread's gradients (rows,width) to rows first, first + 1, … of a head. */
static inline void write_gradient(Strided to, const Attention *a, size_t bh, size_t first,
                                  const float *from, size_t rows, size_t width) {
    for (size_t n = 0; n < rows; n++)
        memcpy(head_data(to, a, bh) + (first + n) * to.row_stride, from + n * width,
               width * sizeof(float));
}

typedef void (*HeadKernel)(const Attention *, const Workspace *, size_t bh);

/* Runs a kernel on every head; 1 if a workspace could not be allocated. */
static inline int for_each_head(const Attention *a, HeadKernel kernel, size_t threads) {
    int out_of_memory = 0;
#pragma omp parallel num_threads((int)threads) reduction(| : out_of_memory)
    {
        Workspace ws;
        out_of_memory = !alloc_workspace(&ws, a);
#pragma omp for schedule(dynamic)
        for (size_t bh = 0; bh < a->batch * a->heads; bh++)
            if (!out_of_memory) kernel(a, &ws, bh);
        free(ws.buffer);
    }
    return out_of_memory;
}

/* The Attention that the parameters of a kernel describe. */
#define STRIDED(x) {x, x##_batch_stride, x##_head_stride, x##_row_stride}
#define ATTENTION                                                                                  \
    (Attention) {                                                                                  \
        .q = STRIDED(q), .k = STRIDED(k), .v = STRIDED(v), .out = STRIDED(out),                    \
        .d_out = STRIDED(d_out), .d_q = STRIDED(d_q), .d_k = STRIDED(d_k), .d_v = STRIDED(d_v),    \
        .weight = weight, .d_weight = d_weight, .denominator = denominator, .draws = draws,        \
        .batch = batch, .heads = heads, .i = i, .j = j, .m = m, .d = d, .causal = (int)causal,     \
        .keep_threshold = (int)keep_threshold, .scale = scale,                                     \
        .keep_probability = keep_probability,                                                      \
    }

#endif
