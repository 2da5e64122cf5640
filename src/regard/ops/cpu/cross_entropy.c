/* One pass over the logits of an output layer: softmax denominators and both gradients.

       s = 2^(x' Eᵀ)      denominator = Σ_v s      f = weight / denominator
       dx = f · s E      dE = sᵀ (f · x)

   x' = log₂e · x. For a chunk of rows, threads split the rows to compute s, its sums and s E; then
   they split the vocabulary to accumulate dE. s is written once and read once by each, in panels:
   s[panel][row][PANEL tokens]. The order of summation, and with it every bit, is the same for any
   number of threads.

   Shapes: n rows, v vocabulary (tokens), w width, a multiple of LANES. */

#include <omp.h>

#include "tiles.h"

enum {
    PANELS_PER_BLOCK = 240 / PANEL
}; /* s of a block of panels stays in L2 until it is multiplied by E */

typedef struct {
    const float *x, *log2_scaled, *weights, *table;
    float *denominators, *d_x, *d_table; /* d_x and d_table are NULL where not needed */
    size_t n, v, w, chunk, panels;
    float *table_panels;  /* E, packed for the logits: (panels, w, PANEL) */
    float *table_columns; /* E by column groups, packed for s E: (panels · PANEL, columns) each */
    float *exp_logits;    /* (panels, chunk, PANEL): s */
    float *lane_sums;     /* (chunk, LANES): of s */
    float *mixed;         /* (chunk, w): s E */
    float *chunk_x;       /* (chunk, w): x', padded to whole tiles */
    float *weighted_x;    /* (chunk, w): f · x, by column groups */
    double *totals;       /* (chunk): Σ_v s */
} LogitsPass;

static void pack_table(const LogitsPass *p, Range panels) {
    for (size_t panel = panels.begin; panel < panels.end; panel++) {
        size_t valid = min_size(PANEL, p->v - panel * PANEL);
        const float *rows = p->table + panel * PANEL * p->w;
        pack_panel(p->table_panels + panel * PANEL * p->w, rows, p->w, valid, p->w);
        FOR_COLUMN_GROUPS(g, columns, p->w) {
            float *to = p->table_columns + g * p->panels * PANEL + panel * PANEL * columns;
            memset(to, 0, PANEL * columns * sizeof(float));
            for (size_t j = 0; j < valid; j++)
                memcpy(to + j * columns, rows + j * p->w + g, columns * sizeof(float));
        }
    }
}

/* s of one tile; adds it to the rows' lane sums. */
static void exp_logits_tile(float *exp_logits, const float *x, const float *panel, size_t w,
                            size_t tokens, float *lane_sums) {
    Tile t;
    tile_zero(t);
    tile_matmul(t, TILE_VECTORS, w, x, w, 1, panel, PANEL);
    FOR_TILE_ROWS(r) {
        Vector sum = load(lane_sums + r * LANES);
        FOR_VECTORS(c, TILE_VECTORS) {
            Vector s = vexp2(t[r][c]);
            if (tokens < PANEL)
                s = blend_zero(mask_first_clamped((ptrdiff_t)tokens - LANES * c), s);
            sum += s;
            store(exp_logits + r * PANEL + LANES * c, s);
        }
        store(lane_sums + r * LANES, sum);
    }
}

/* mixed += s E of one tile, over some panels. */
INLINE void mix_tile(float *mixed, size_t w, int vectors, const float *exp_logits,
                     size_t panel_stride, size_t panels, const float *table) {
    Tile t;
    tile_zero(t);
    for (size_t p = 0; p < panels; p++)
        tile_matmul(t, vectors, PANEL, exp_logits + p * panel_stride, PANEL, 1,
                    table + p * PANEL * LANES * vectors, LANES * vectors);
    tile_accumulate(mixed, w, vectors, t);
}

/* s, its sums and s E for `rows` of the chunk that begins at row `first`: `valid` rows, padded to
   `padded`. */
static void logits_forward(const LogitsPass *p, size_t first, size_t valid, size_t padded,
                           Range rows) {
    const size_t w = p->w, count = rows.end - rows.begin;
    for (size_t row = rows.begin; row < rows.end; row++) {
        if (row < valid)
            memcpy(p->chunk_x + row * w, p->log2_scaled + (first + row) * w, w * sizeof(float));
        else
            memset(p->chunk_x + row * w, 0, w * sizeof(float));
        p->totals[row] = 0;
    }
    memset(p->mixed + rows.begin * w, 0, count * w * sizeof(float));
    for (size_t b = 0; b < p->panels; b += PANELS_PER_BLOCK) {
        size_t panels = min_size(PANELS_PER_BLOCK, p->panels - b);
        memset(p->lane_sums + rows.begin * LANES, 0, count * LANES * sizeof(float));
        for (size_t panel = b; panel < b + panels; panel++)
            for (size_t row = rows.begin; row < rows.end; row += TILE_ROWS)
                exp_logits_tile(p->exp_logits + (panel * padded + row) * PANEL,
                                p->chunk_x + row * w, p->table_panels + panel * w * PANEL, w,
                                min_size(PANEL, p->v - panel * PANEL), p->lane_sums + row * LANES);
        if (p->d_x)
            FOR_COLUMN_GROUPS(g, columns, w) {
                const float *table = p->table_columns + g * p->panels * PANEL + b * PANEL * columns;
                for (size_t row = rows.begin; row < rows.end; row += TILE_ROWS) {
                    const float *exp_logits = p->exp_logits + (b * padded + row) * PANEL;
                    float *mixed = p->mixed + row * w + g;
                    DISPATCH_VECTORS(columns, mix_tile(mixed, w, vectors, exp_logits,
                                                       padded * PANEL, panels, table));
                }
            }
        for (size_t row = rows.begin; row < rows.end; row++)
            p->totals[row] += reduce_add(load(p->lane_sums + row * LANES));
    }
}

/* Applies f = weight / denominator: to s E, which gives dx, and to x, for the gradient of E. */
static void apply_weights(const LogitsPass *p, size_t first, size_t valid, size_t padded,
                          Range rows) {
    const size_t w = p->w;
    for (size_t row = rows.begin; row < rows.end; row++) {
        const size_t n = first + row;
        float factor = row < valid ? (float)(p->weights[n] / p->totals[row]) : 0.0f;
        FOR_COLUMN_GROUPS(g, columns, w) {
            float *weighted = p->weighted_x + g * padded + row * columns;
            for (size_t k = 0; k < columns; k++)
                weighted[k] = row < valid ? p->x[n * w + g + k] * factor : 0.0f;
        }
        if (row >= valid) continue;
        p->denominators[n] = (float)p->totals[row];
        for (size_t k = 0; p->d_x && k < w; k++) p->d_x[n * w + k] = p->mixed[row * w + k] * factor;
    }
}

/* dE += sᵀ (f · x) for some panels of the vocabulary. */
static void accumulate_d_table(const LogitsPass *p, size_t padded, Range panels) {
    for (size_t panel = panels.begin; panel < panels.end; panel++)
        FOR_COLUMN_GROUPS(g, columns, p->w) {
            for (size_t j = 0; j < PANEL; j += TILE_ROWS) {
                const float *exp_logits = p->exp_logits + panel * padded * PANEL + j,
                            *weighted = p->weighted_x + g * padded;
                float *out = p->d_table + (panel * PANEL + j) * p->w + g;
                DISPATCH_VECTORS(columns,
                                 tile_accumulate_transposed(out, p->w, vectors, exp_logits, PANEL,
                                                            weighted, columns, padded));
            }
        }
}

static void run(const LogitsPass *p, int threads) {
#pragma omp parallel num_threads(threads)
    {
        const size_t thread = omp_get_thread_num(), team = omp_get_num_threads();
        const Range panels = thread_range(p->panels, thread, team);
        pack_table(p, panels);
#pragma omp barrier
        for (size_t first = 0; first < p->n; first += p->chunk) {
            size_t valid = min_size(p->chunk, p->n - first), padded = round_up(valid, TILE_ROWS);
            Range tiles = thread_range(padded / TILE_ROWS, thread, team);
            Range rows = {tiles.begin * TILE_ROWS, tiles.end * TILE_ROWS};
            logits_forward(p, first, valid, padded, rows);
            apply_weights(p, first, valid, padded, rows);
#pragma omp barrier
            if (p->d_table) accumulate_d_table(p, padded, panels);
#pragma omp barrier
        }
    }
}

/* x, x' (n,w), weights (n), E (v,w) -> denominators (n), dx (n,w), dE (v padded to panels, w); dE
   is passed in as zeros. Returns 1 if out of memory. */
int regard_cross_entropy(const float *x, const float *log2_scaled, const float *weights,
                         const float *table, float *denominators, float *d_x, float *d_table,
                         size_t n, size_t v, size_t w, size_t chunk, size_t threads) {
    size_t panels = round_up(v, PANEL) / PANEL;
    LogitsPass p = {
        .x = x,
        .log2_scaled = log2_scaled,
        .weights = weights,
        .table = table,
        .denominators = denominators,
        .d_x = d_x,
        .d_table = d_table,
        .n = n,
        .v = v,
        .w = w,
        .chunk = chunk,
        .panels = panels,
        .table_panels = alloc_buffer(panels * PANEL * w),
        .table_columns = alloc_buffer(panels * PANEL * w),
        .exp_logits = alloc_buffer(chunk * panels * PANEL),
        .lane_sums = alloc_buffer(chunk * LANES),
        .mixed = alloc_buffer(chunk * w),
        .chunk_x = alloc_buffer(chunk * w),
        .weighted_x = alloc_buffer(chunk * w),
        .totals = malloc(chunk * sizeof(double)),
    };
    int allocated = p.table_panels && p.table_columns && p.exp_logits && p.lane_sums && p.mixed &&
                    p.chunk_x && p.weighted_x && p.totals;
    if (allocated) run(&p, (int)threads);
    free(p.table_panels), free(p.table_columns), free(p.exp_logits), free(p.lane_sums);
    free(p.mixed), free(p.chunk_x), free(p.weighted_x), free(p.totals);
    return !allocated;
}
