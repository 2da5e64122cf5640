/* One pass over the scores of an output layer: sums of their exponentials, and both gradients.

       s = 2^(x' Eᵀ)      mass = Σ_v s      f = weight / mass      dx = f · s E      dE = sᵀ (f · x)

   x' are the vectors in powers of 2. A chunk of places is scored, raised, summed and mixed by places,
   each thread its own; then the table's gradient is gathered by tokens, each thread its own. Scores
   are written once, and read once by each, panel by panel: scores[panel][place][PANEL tokens]. Which thread
   does what never changes an order of adding, so the bits do not depend on how many there are.

   Shapes: n places, v vocabulary (tokens), w width, a multiple of LANES. */

#include <omp.h>

#include "tiles.h"

enum {
    PANELS_AT_ONCE = 240 / PANEL
}; /* scored, then mixed: they stay in a core's own cache in between */

typedef struct {
    const float *x, *in_twos, *weights, *table;
    float *mass, *d_x, *d_table; /* d_x or d_table may be missing: nobody wants it */
    size_t n, v, w, chunk, panels;
    float *scored; /* the table, panel by panel: (panels, w, PANEL) */
    float *
        mixed_in; /* its columns: `columns_at` of them after the other, each (panels · PANEL, columns) */
    float *scores, *sums, *mixed, *given, *shares;
    double *totals;
} Pass;

static void pack_table(const Pass *p, Range panels) {
    for (size_t panel = panels.begin; panel < panels.end; panel++) {
        size_t real = least(PANEL, p->v - panel * PANEL);
        const float *rows = p->table + panel * PANEL * p->w;
        pack_panel(p->scored + panel * PANEL * p->w, rows, p->w, real, p->w);
        EACH_GROUP(g, columns, p->w) {
            float *to = p->mixed_in + g * p->panels * PANEL + panel * PANEL * columns;
            memset(to, 0, PANEL * columns * sizeof(float));
            for (size_t j = 0; j < real; j++)
                memcpy(to + j * columns, rows + j * p->w + g, columns * sizeof(float));
        }
    }
}

static void score(float *scores, const float *x, const float *panel, size_t w, size_t tokens,
                  float *sums) {
    Tile t;
    clear(t);
    add_products(t, WIDE, w, x, w, 1, panel, PANEL);
    EACH_ROW(r) {
        Vector sum = load(sums + r * LANES);
        EACH_VECTOR(c, WIDE) {
            Vector raised = power_of_2(t[r][c]);
            if (tokens < PANEL) raised = only(first_lanes((ptrdiff_t)tokens - LANES * c), raised);
            sum += raised;
            store(scores + r * PANEL + LANES * c, raised);
        }
        store(sums + r * LANES, sum);
    }
}

INLINE void mix(float *mixed, size_t w, int vectors, const float *scores, size_t panel_size,
                size_t panels, const float *table) {
    Tile t;
    clear(t);
    for (size_t p = 0; p < panels; p++)
        add_products(t, vectors, PANEL, scores + p * panel_size, PANEL, 1,
                     table + p * PANEL * LANES * vectors, LANES * vectors);
    add_to(mixed, w, vectors, t);
}

/* Places `rows` of the chunk that begins at `first` and has `all` places, padded to whole tiles. */
static void score_and_mix(const Pass *p, size_t first, size_t real, size_t all, Range rows) {
    const size_t w = p->w, count = rows.end - rows.begin;
    for (size_t row = rows.begin; row < rows.end; row++) {
        if (row < real)
            memcpy(p->given + row * w, p->in_twos + (first + row) * w, w * sizeof(float));
        else
            memset(p->given + row * w, 0, w * sizeof(float));
        p->totals[row] = 0;
    }
    memset(p->mixed + rows.begin * w, 0, count * w * sizeof(float));
    for (size_t b = 0; b < p->panels; b += PANELS_AT_ONCE) {
        size_t panels = least(PANELS_AT_ONCE, p->panels - b);
        memset(p->sums + rows.begin * LANES, 0, count * LANES * sizeof(float));
        for (size_t panel = b; panel < b + panels; panel++)
            for (size_t row = rows.begin; row < rows.end; row += ROWS)
                score(p->scores + (panel * all + row) * PANEL, p->given + row * w,
                      p->scored + panel * w * PANEL, w, least(PANEL, p->v - panel * PANEL),
                      p->sums + row * LANES);
        if (p->d_x)
            EACH_GROUP(g, columns, w) {
                const float *table = p->mixed_in + g * p->panels * PANEL + b * PANEL * columns;
                for (size_t row = rows.begin; row < rows.end; row += ROWS) {
                    const float *scores = p->scores + (b * all + row) * PANEL;
                    float *out = p->mixed + row * w + g;
                    BY_VECTORS(columns, mix(out, w, vectors, scores, all * PANEL, panels, table));
                }
            }
        for (size_t row = rows.begin; row < rows.end; row++)
            p->totals[row] += sum_of(load(p->sums + row * LANES));
    }
}

/* What is divided by a place's mass: its mixed vectors, and its own for the table's gradient. */
static void share_out(const Pass *p, size_t first, size_t real, size_t all, Range rows) {
    const size_t w = p->w;
    for (size_t row = rows.begin; row < rows.end; row++) {
        const size_t place = first + row;
        float factor = row < real ? (float)(p->weights[place] / p->totals[row]) : 0.0f;
        EACH_GROUP(g, columns, w) {
            float *share = p->shares + g * all + row * columns;
            for (size_t k = 0; k < columns; k++)
                share[k] = row < real ? p->x[place * w + g + k] * factor : 0.0f;
        }
        if (row >= real) continue;
        p->mass[place] = (float)p->totals[row];
        for (size_t k = 0; p->d_x && k < w; k++)
            p->d_x[place * w + k] = p->mixed[row * w + k] * factor;
    }
}

static void gather_panels(const Pass *p, size_t all, Range panels) {
    for (size_t panel = panels.begin; panel < panels.end; panel++)
        EACH_GROUP(g, columns, p->w) {
            for (size_t j = 0; j < PANEL; j += ROWS) {
                const float *scores = p->scores + panel * all * PANEL + j,
                            *shares = p->shares + g * all;
                float *out = p->d_table + (panel * PANEL + j) * p->w + g;
                BY_VECTORS(columns,
                           gather_tile(out, p->w, vectors, scores, PANEL, shares, columns, all));
            }
        }
}

static void run(const Pass *p, int threads) {
#pragma omp parallel num_threads(threads)
    {
        const size_t me = omp_get_thread_num(), threads_there = omp_get_num_threads();
        const Range panels = part_of(p->panels, me, threads_there);
        pack_table(p, panels);
#pragma omp barrier
        for (size_t first = 0; first < p->n; first += p->chunk) {
            size_t real = least(p->chunk, p->n - first), places = rounded_up(real, ROWS);
            Range tiles = part_of(places / ROWS, me, threads_there);
            Range rows = {tiles.begin * ROWS, tiles.end * ROWS};
            score_and_mix(p, first, real, places, rows);
            share_out(p, first, real, places, rows);
#pragma omp barrier
            if (p->d_table) gather_panels(p, places, panels);
#pragma omp barrier
        }
    }
}

/* (n,w) twice, (n), (v,w) -> (n), (n,w), (v up to whole panels, w), which comes as zeros; 1 where
   there is no memory. */
int regard_loss_pass(const float *x, const float *in_twos, const float *weights, const float *table,
                     float *mass, float *d_x, float *d_table, size_t n, size_t v, size_t w,
                     size_t chunk, size_t threads) {
    size_t panels = rounded_up(v, PANEL) / PANEL;
    Pass p = {
        .x = x,
        .in_twos = in_twos,
        .weights = weights,
        .table = table,
        .mass = mass,
        .d_x = d_x,
        .d_table = d_table,
        .n = n,
        .v = v,
        .w = w,
        .chunk = chunk,
        .panels = panels,
        .scored = room(panels * PANEL * w),
        .mixed_in = room(panels * PANEL * w),
        .scores = room(chunk * panels * PANEL),
        .sums = room(chunk * LANES),
        .mixed = room(chunk * w),
        .given = room(chunk * w),
        .shares = room(chunk * w),
        .totals = malloc(chunk * sizeof(double)),
    };
    int whole =
        p.scored && p.mixed_in && p.scores && p.sums && p.mixed && p.given && p.shares && p.totals;
    if (whole) run(&p, (int)threads);
    free(p.scored), free(p.mixed_in), free(p.scores), free(p.sums), free(p.mixed), free(p.given);
    free(p.shares), free(p.totals);
    return !whole;
}
