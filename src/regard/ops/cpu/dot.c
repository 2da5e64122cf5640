/* Scaled dot-product attention, forward and back.

       s = 2^(q' kᵀ)      mass = Σ_j s      out = (s · kept) v / mass
       ds = s · (kept · (d_out' vᵀ) − taken)      d_out' = d_out / mass      taken = d_out' · out
       dq = c · ds k      dk = c · dsᵀ q      dv = (s · kept)ᵀ d_out'

   q' = c · log₂e · q are queries in powers of 2. What is kept by dropout is divided by the share kept
   once, in the far smaller rows. Shapes as in pairs.h. */

#include "pairs.h"

INLINE void score(Tile t, const Attention *a, const Rooms *o, size_t first, size_t n, size_t p) {
    clear(t);
    add_products(t, WIDE, a->m, o->q_in_twos + n * a->m, a->m, 1, o->k_panels + p * PANEL * a->m,
                 PANEL);
    raise_seen(t, a, first + n, p * PANEL);
}

static void block_forward(const Attention *a, const Rooms *o, size_t row, size_t first) {
    const size_t real = least(QUERIES, a->i - first), rows = rounded_up(real, ROWS);
    const float *q = of_row(a->q, a, row) + first * a->q.place;
    copy_scaled(o->q_in_twos, q, a->q.place, real, a->m, a->scale * LOG2_E);
    memset(o->sums, 0, rows * LANES * sizeof(float));
    EACH_TILE(a, first, rows, n, p) {
        Tile t;
        score(t, a, o, first, n, p);
        keep_weights(a, o, t, row, first, n, p);
    }
    put_out(a, o, row, first, real);
}

static void row_forward(const Attention *a, const Rooms *o, size_t row) {
    pack_keys(o->k_panels, of_row(a->k, a, row), a->k.place, a->j, a->m);
    copy_keys(o->v, of_row(a->v, a, row), a->v.place, a->j, a->d);
    for (size_t first = 0; first < a->i; first += QUERIES) block_forward(a, o, row, first);
}

/* d_out divided by the mass, and what the softmax takes off each query. */
static void share_out(const Attention *a, const Rooms *o, size_t row, size_t first, size_t real) {
    const size_t d = a->d;
    for (size_t n = 0; n < rounded_up(real, ROWS); n++) {
        float taken = 0.0f, *to = o->d_out + n * d;
        if (n < real) {
            const float *d_out = of_row(a->d_out, a, row) + (first + n) * a->d_out.place;
            const float *out = of_row(a->out, a, row) + (first + n) * a->out.place;
            const float mass = a->mass[row * a->i + first + n];
            for (size_t k = 0; k < d; k++) {
                taken += d_out[k] * out[k];
                to[k] = d_out[k] / (mass * a->share_kept);
            }
            taken /= mass;
        } else
            memset(to, 0, d * sizeof(float));
        o->taken[n] = taken;
    }
}

static void block_backward(const Attention *a, const Rooms *o, size_t row, size_t first) {
    const size_t real = least(QUERIES, a->i - first), rows = rounded_up(real, ROWS);
    const float *q = of_row(a->q, a, row) + first * a->q.place;
    copy_scaled(o->q, q, a->q.place, real, a->m, a->scale);
    copy_scaled(o->q_in_twos, q, a->q.place, real, a->m, a->scale * LOG2_E);
    share_out(a, o, row, first, real);
    EACH_TILE(a, first, rows, n, p) {
        float *pairs = o->weights + (p * QUERIES + n) * PANEL;
        Tile t;
        score(t, a, o, first, n, p);
        put(pairs, PANEL, WIDE, t); /* there are not registers enough for two tiles */
        clear(t);
        add_products(t, WIDE, a->d, o->d_out + n * a->d, a->d, 1, o->v_panels + p * PANEL * a->d,
                     PANEL);
        EACH_ROW(r) {
            float *at = pairs + r * PANEL, *d_at = o->d_scores + (p * QUERIES + n + r) * PANEL;
            const int16_t *draws = draws_of(a, row, first + n + r);
            Vector taken = all(o->taken[n + r]);
            EACH_VECTOR(c, WIDE) {
                Vector weight = load(at + LANES * c), d_weight = t[r][c];
                if (draws) {
                    Lanes kept = kept_lanes(a, draws, p * PANEL + LANES * c);
                    d_weight = only(kept, d_weight);
                    store(at + LANES * c, only(kept, weight));
                }
                store(d_at + LANES * c, (d_weight - taken) * weight);
            }
        }
    }
    mix_block(o->d_q, a, o->d_scores, o->k, a->m, first, rows);
    for (size_t n = 0; n < real * a->m; n++) o->d_q[n] *= a->scale;
    put_back(a->d_q, a, row, first, o->d_q, real, a->m);
    gather_block(o->d_v, a, o->weights, o->d_out, a->d, first, rows);
    gather_block(o->d_k, a, o->d_scores, o->q, a->m, first, rows);
}

static void row_backward(const Attention *a, const Rooms *o, size_t row) {
    pack_keys(o->k_panels, of_row(a->k, a, row), a->k.place, a->j, a->m);
    copy_keys(o->k, of_row(a->k, a, row), a->k.place, a->j, a->m);
    open_backward(a, o, row);
    for (size_t first = 0; first < a->i; first += QUERIES) block_backward(a, o, row, first);
    put_back(a->d_k, a, row, 0, o->d_k, a->j, a->m);
    put_back(a->d_v, a, row, 0, o->d_v, a->j, a->d);
}

int regard_dot_forward(ROWS_OF(q), ROWS_OF(k), ROWS_OF(v), ROWS_OF(out), SETTING) {
    Attention a = {
        .q = AS_ROWS(q), .k = AS_ROWS(k), .v = AS_ROWS(v), .out = AS_ROWS(out), AS_ASKED};
    return each_row(&a, row_forward, threads);
}

int regard_dot_backward(ROWS_OF(q), ROWS_OF(k), ROWS_OF(v), ROWS_OF(out), ROWS_OF(d_out),
                        ROWS_OF(d_q), ROWS_OF(d_k), ROWS_OF(d_v), SETTING) {
    Attention a = {
        .q = AS_ROWS(q),
        .k = AS_ROWS(k),
        .v = AS_ROWS(v),
        .out = AS_ROWS(out),
        .d_out = AS_ROWS(d_out),
        .d_q = AS_ROWS(d_q),
        .d_k = AS_ROWS(d_k),
        .d_v = AS_ROWS(d_v),
        AS_ASKED,
    };
    return each_row(&a, row_backward, threads);
}
