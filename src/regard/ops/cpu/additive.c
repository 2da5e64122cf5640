/* Additive attention, forward and back.

       s = 2^(Σ_m w'_m σ(q_m + k_m))      mass = Σ_j s      p = s / mass      out = (p · kept) v
       ds = p · dp − p · Σ_j p · dp      dp = kept · (d_out vᵀ)
       dw = Σ ds · σ      dq = w Σ_j ds · (σ − σ²)      dk = w Σ_i ds · (σ − σ²)

   w' = log₂e · w. σ(u) = 1 / (1 + 2^−u'), u' = log₂e · u: queries and keys come in powers of 2, turned
   round. σ is made anew in the backward pass. Unlike in dot.c weights are divided before they are
   used there: where a query sees one key, nothing has to be left. Shapes as in pairs.h. */

#include "pairs.h"

INLINE Vector logistic(Vector turned) {
    const Vector one = all(1.0f);
    return one / (one + power_of_2(turned));
}

INLINE const float *weight_of(const Attention *a, size_t row) {
    return a->weight + row % a->heads * a->m;
}

static void score(Tile out, const Attention *a, const Rooms *o, size_t row, size_t first, size_t n,
                  size_t p) {
    const float *q = o->q_in_twos + n * a->m, *k = o->k_panels + p * PANEL * a->m,
                *w = weight_of(a, row);
    Tile t;
    clear(t);
    for (size_t m = 0; m < a->m; m++, k += PANEL) {
        const Vector weight = all(w[m] * LOG2_E);
        EACH_ROW(r) {
            const Vector query = all(q[r * a->m + m]);
            EACH_VECTOR(c, WIDE) {
                Vector inner = logistic(query + load(k + LANES * c));
                t[r][c] = times_plus(weight, inner, t[r][c]);
            }
        }
    }
    raise_seen(t, a, first + n, p * PANEL);
    EACH_ROW(r)
        EACH_VECTOR(c, WIDE) out[r][c] = t[r][c];
}

static void pack_turned(const Attention *a, const Rooms *o, size_t row) {
    pack_keys(o->k_panels, of_row(a->k, a, row), a->k.place, a->j, a->m);
    for (size_t n = 0; n < rounded_up(a->j, PANEL) * a->m; n++) o->k_panels[n] *= -LOG2_E;
}

static void copy_turned(const Attention *a, const Rooms *o, size_t row, size_t first, size_t real) {
    const float *q = of_row(a->q, a, row) + first * a->q.place;
    copy_scaled(o->q_in_twos, q, a->q.place, real, a->m, -LOG2_E);
}

static void block_forward(const Attention *a, const Rooms *o, size_t row, size_t first) {
    const size_t real = least(QUERIES, a->i - first), rows = rounded_up(real, ROWS);
    copy_turned(a, o, row, first, real);
    memset(o->sums, 0, rows * LANES * sizeof(float));
    EACH_TILE(a, first, rows, n, p) {
        Tile t;
        score(t, a, o, row, first, n, p);
        keep_weights(a, o, t, row, first, n, p);
    }
    put_out(a, o, row, first, real);
}

static void row_forward(const Attention *a, const Rooms *o, size_t row) {
    pack_turned(a, o, row);
    copy_keys(o->v, of_row(a->v, a, row), a->v.place, a->j, a->d);
    for (size_t first = 0; first < a->i; first += QUERIES) block_forward(a, o, row, first);
}

/* Weights p and their gradients of one tile; sums of p · dp by lanes. */
static void weigh(const Attention *a, const Rooms *o, size_t row, size_t first, size_t n,
                  size_t p) {
    Tile t;
    score(t, a, o, row, first, n, p);
    EACH_ROW(r) {
        size_t query = least(first + n + r, a->i - 1);
        Vector mass = all(a->mass[row * a->i + query]);
        EACH_VECTOR(c, WIDE)
            store(o->weights + (p * QUERIES + n + r) * PANEL + LANES * c, t[r][c] / mass);
    }
    clear(t);
    add_products(t, WIDE, a->d, o->d_out + n * a->d, a->d, 1, o->v_panels + p * PANEL * a->d,
                 PANEL);
    EACH_ROW(r) {
        float *at = o->weights + (p * QUERIES + n + r) * PANEL, *sums = o->sums + (n + r) * LANES;
        float *d_at = o->d_scores + (p * QUERIES + n + r) * PANEL;
        const int16_t *draws = draws_of(a, row, first + n + r);
        Vector sum = load(sums);
        EACH_VECTOR(c, WIDE) {
            Vector d_weight = t[r][c];
            if (draws) d_weight = only(kept_lanes(a, draws, p * PANEL + LANES * c), d_weight);
            sum = times_plus(load(at + LANES * c), d_weight, sum);
            store(d_at + LANES * c, d_weight);
        }
        store(sums, sum);
    }
}

/* From gradients of weights to those of scores, and weights to what was kept of them. */
static void take_off(const Attention *a, const Rooms *o, size_t row, size_t first, size_t n,
                     size_t p) {
    EACH_ROW(r) {
        float *at = o->weights + (p * QUERIES + n + r) * PANEL;
        float *d_at = o->d_scores + (p * QUERIES + n + r) * PANEL;
        const int16_t *draws = draws_of(a, row, first + n + r);
        Vector taken = all(o->taken[n + r]);
        EACH_VECTOR(c, WIDE) {
            Vector weight = load(at + LANES * c), d_weight = load(d_at + LANES * c);
            store(d_at + LANES * c, times_plus(weight, d_weight, -(weight * taken)));
            if (draws) {
                Lanes kept = kept_lanes(a, draws, p * PANEL + LANES * c);
                store(at + LANES * c, only(kept, weight));
            }
        }
    }
}

/* What the scores of one tile hand on to queries, keys (panel by panel) and weights, by lanes, but
   for the weight that both halves' are to be multiplied by. */
static void hand_on(const Attention *a, const Rooms *o, size_t n, size_t p) {
    const float *q = o->q_in_twos + n * a->m, *k = o->k_panels + p * PANEL * a->m;
    const float *d_scores = o->d_scores + (p * QUERIES + n) * PANEL;
    float *d_k = o->d_k + p * PANEL * a->m, *d_q = o->d_halves + n * a->m * LANES;
    float *d_w = o->d_halves + QUERIES * a->m * LANES;
    for (size_t m = 0; m < a->m; m++, k += PANEL, d_k += PANEL) {
        Vector of_weight = all(0.0f), of_key[WIDE];
        EACH_VECTOR(c, WIDE) of_key[c] = load(d_k + LANES * c);
        EACH_ROW(r) {
            const Vector query = all(q[r * a->m + m]);
            float *at = d_q + (r * a->m + m) * LANES;
            Vector of_query = load(at);
            EACH_VECTOR(c, WIDE) {
                Vector inner = logistic(query + load(k + LANES * c));
                Vector d_inner = load(d_scores + r * PANEL + LANES * c) * inner;
                Vector bent = times_plus(-d_inner, inner, d_inner);
                of_weight += d_inner;
                of_query += bent;
                of_key[c] += bent;
            }
            store(at, of_query);
        }
        store(d_w + m * LANES, load(d_w + m * LANES) + of_weight);
        EACH_VECTOR(c, WIDE) store(d_k + LANES * c, of_key[c]);
    }
}

static void block_backward(const Attention *a, const Rooms *o, size_t row, size_t first) {
    const size_t real = least(QUERIES, a->i - first), rows = rounded_up(real, ROWS);
    const float *w = weight_of(a, row);
    copy_turned(a, o, row, first, real);
    copy_scaled(o->d_out, of_row(a->d_out, a, row) + first * a->d_out.place, a->d_out.place, real,
                a->d, 1.0f / a->share_kept);
    memset(o->sums, 0, rows * LANES * sizeof(float));
    memset(o->d_halves, 0, rows * a->m * LANES * sizeof(float));
    EACH_TILE(a, first, rows, n, p) weigh(a, o, row, first, n, p);
    for (size_t n = 0; n < rows; n++) o->taken[n] = sum_of(load(o->sums + n * LANES));
    EACH_TILE(a, first, rows, n, p) {
        take_off(a, o, row, first, n, p);
        hand_on(a, o, n, p);
    }
    for (size_t n = 0; n < real * a->m; n++)
        o->d_q[n] = w[n % a->m] * sum_of(load(o->d_halves + n * LANES));
    put_back(a->d_q, a, row, first, o->d_q, real, a->m);
    gather_block(o->d_v, a, o->weights, o->d_out, a->d, first, rows);
}

static void row_backward(const Attention *a, const Rooms *o, size_t row) {
    const float *w = weight_of(a, row), *d_w = o->d_halves + QUERIES * a->m * LANES;
    pack_turned(a, o, row);
    open_backward(a, o, row);
    memset(o->d_halves + QUERIES * a->m * LANES, 0, a->m * LANES * sizeof(float));
    for (size_t first = 0; first < a->i; first += QUERIES) block_backward(a, o, row, first);
    for (size_t m = 0; m < a->m; m++) a->d_weight[row * a->m + m] = sum_of(load(d_w + m * LANES));
    for (size_t key = 0; key < a->j; key++) {
        float *to = of_row(a->d_k, a, row) + key * a->d_k.place;
        const float *panel = o->d_k + key / PANEL * PANEL * a->m + key % PANEL;
        for (size_t m = 0; m < a->m; m++) to[m] = w[m] * panel[m * PANEL];
    }
    put_back(a->d_v, a, row, 0, o->d_v, a->j, a->d);
}

int regard_additive_forward(ROWS_OF(q), ROWS_OF(k), ROWS_OF(v), ROWS_OF(out), SETTING,
                            float *weight) {
    Attention a = {
        .q = AS_ROWS(q),
        .k = AS_ROWS(k),
        .v = AS_ROWS(v),
        .out = AS_ROWS(out),
        .weight = weight,
        AS_ASKED,
    };
    return each_row(&a, row_forward, threads);
}

int regard_additive_backward(ROWS_OF(q), ROWS_OF(k), ROWS_OF(v), ROWS_OF(out), ROWS_OF(d_out),
                             ROWS_OF(d_q), ROWS_OF(d_k), ROWS_OF(d_v), SETTING, float *weight,
                             float *d_weight) {
    Attention a = {
        .q = AS_ROWS(q),
        .k = AS_ROWS(k),
        .v = AS_ROWS(v),
        .out = AS_ROWS(out),
        .d_out = AS_ROWS(d_out),
        .d_q = AS_ROWS(d_q),
        .d_k = AS_ROWS(d_k),
        .d_v = AS_ROWS(d_v),
        .weight = weight,
        .d_weight = d_weight,
        AS_ASKED,
    };
    return each_row(&a, row_backward, threads);
}
