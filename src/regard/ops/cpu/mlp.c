/* A feed-forward network over many places, forward and back: what lies between its two layers stays in
   a core's own cache.

       z = x Uᵀ + a        h = bend(z)        y = h Wᵀ + b
       dz = (dy W) · bend'(z)        dx = dz U
       dU = dzᵀ x        da = Σ dz        dW = dyᵀ h        db = Σ dy

   z alone is kept for the way back. Threads share the work out as in linear.c.
   Shapes as in products.h: U (hidden,w), W (w,hidden). */

#include "activations.h"
#include "products.h"

/* Places from `first` on, between the layers: z of all places, if it is kept; h and dz of these. */
typedef struct {
    float *z, *h, *d_z;
    const float *bias;
    size_t hidden, first, places;
    int bend;
} Between;

INLINE void bend_tile(Tile t, int vectors, size_t row, size_t column, const void *with) {
    const Between *b = with;
    EACH_VECTOR(c, vectors) {
        const size_t at = column + LANES * c;
        const Vector added = b->bias ? load(b->bias + at) : all(0.0f);
        for (int r = 0; r < ROWS; r++) {
            const Vector z = t[r][c] + added;
            if (b->z) store(b->z + (row + r) * b->hidden + at, z);
            store(b->h + (row + r - b->first) * b->hidden + at, bent(z, b->bend).value);
        }
    }
}

/* From dh, which the tile is, to dz; h is made anew, and packed at once. */
INLINE void unbend_tile(Tile t, int vectors, size_t row, size_t column, const void *with) {
    const Between *b = with;
    float *h = in_group(b->h, b->places, column, LANES * vectors, row - b->first);
    EACH_VECTOR(c, vectors) {
        const size_t at = column + LANES * c;
        for (int r = 0; r < ROWS; r++) {
            const Bent here = bent(load(b->z + (row + r) * b->hidden + at), b->bend);
            store(h + (r * vectors + c) * LANES, here.value);
            store(b->d_z + (row + r - b->first) * b->hidden + at, t[r][c] * here.slope);
        }
    }
}

int regard_feed_forward(const float *x, const float *widen, const float *widen_bias,
                        const float *narrow, const float *narrow_bias, float *y, float *z, size_t n,
                        size_t w, size_t hidden, size_t bend, size_t threads) {
    float *widening = room(w * hidden), *narrowing = room(w * hidden);
    int missing = !widening || !narrowing;
    if (!missing) {
#pragma omp parallel num_threads((int)threads) reduction(| : missing)
        {
            float *h = room(2 * ROWS_AT_ONCE * hidden);
            const size_t me = omp_get_thread_num(), there = omp_get_num_threads();
            missing = !h;
            pack_turned_weight(widening, w, widen, hidden, me, there);
            pack_turned_weight(narrowing, hidden, narrow, w, me, there);
#pragma omp barrier
#pragma omp for schedule(dynamic)
            for (size_t block = 0; block < n / ROWS_AT_ONCE; block++) {
                if (missing) continue;
                const size_t first = block * ROWS_AT_ONCE, end = end_of(first, n, ROWS_AT_ONCE);
                const Between between = {.z = z,
                                         .h = h,
                                         .bias = widen_bias,
                                         .hidden = hidden,
                                         .first = first,
                                         .bend = (int)bend};
                const Put to = {y + first * w, narrow_bias, w};
                multiply(x, (Range){first, end}, w, widening, hidden, bend_tile, &between);
                multiply(h, (Range){0, end - first}, hidden, narrowing, w, put_tile, &to);
            }
            free(h);
        }
    }
    free(widening), free(narrowing);
    return missing;
}

typedef struct {
    const float *d_y, *x, *widen, *narrow;
    float *d_x, *d_widen, *d_widen_bias, *d_narrow, *d_narrow_bias; /* missing if unwanted */
    float *widening, *narrowing;
    float *z, *h, *d_z, *d_z_packed, *d_y_packed, *x_packed; /* of a chunk, but for z */
    size_t n, w, hidden;
    int bend;
} Backward;

static void go_back(const Backward *b, size_t me, size_t threads) {
    const Range inside = vectors_of(b->hidden, me, threads),
                outside = vectors_of(b->w, me, threads);
    pack_weight(b->widening, b->hidden, b->widen, b->w, me, threads);
    pack_weight(b->narrowing, b->w, b->narrow, b->hidden, me, threads);
#pragma omp barrier
    for (size_t first = 0, end; first < b->n; first = end) {
        end = end_of(first, b->n, CHUNK);
        const size_t places = end - first;
        const Range rows = tiles_of(places, me, threads);
        const size_t from = first + rows.begin, count = rows.end - rows.begin;
        const Between between = {.z = b->z,
                                 .h = b->h,
                                 .d_z = b->d_z,
                                 .hidden = b->hidden,
                                 .first = first,
                                 .places = places,
                                 .bend = b->bend};
        multiply(b->d_y, (Range){from, from + count}, b->w, b->narrowing, b->hidden, unbend_tile,
                 &between);
        if (b->d_x) {
            const Put to = {b->d_x + first * b->w, NULL, b->w};
            multiply(b->d_z, rows, b->hidden, b->widening, b->w, put_tile, &to);
        }
        if (b->d_widen || b->d_widen_bias)
            pack_rows(b->d_z_packed, places, rows.begin, b->d_z + rows.begin * b->hidden, count,
                      b->hidden);
        if (b->d_narrow || b->d_narrow_bias)
            pack_rows(b->d_y_packed, places, rows.begin, b->d_y + from * b->w, count, b->w);
        if (b->d_widen) pack_rows(b->x_packed, places, rows.begin, b->x + from * b->w, count, b->w);
#pragma omp barrier
        if (b->d_widen)
            gather(b->d_widen, inside, b->d_z_packed, b->hidden, b->x_packed, b->w, places);
        if (b->d_narrow) gather(b->d_narrow, outside, b->d_y_packed, b->w, b->h, b->hidden, places);
        if (b->d_widen_bias) sum_rows(b->d_widen_bias, inside, b->d_z_packed, b->hidden, places);
        if (b->d_narrow_bias) sum_rows(b->d_narrow_bias, outside, b->d_y_packed, b->w, places);
#pragma omp barrier
    }
}

/* Gradients of weights and biases come as zeros. */
int regard_feed_forward_backward(const float *d_y, const float *x, float *z, const float *widen,
                                 const float *narrow, float *d_x, float *d_widen,
                                 float *d_widen_bias, float *d_narrow, float *d_narrow_bias,
                                 size_t n, size_t w, size_t hidden, size_t bend, size_t threads) {
    enum { PLACES = 2 * CHUNK };
    Backward b = {
        .d_y = d_y,
        .x = x,
        .widen = widen,
        .narrow = narrow,
        .d_x = d_x,
        .d_widen = d_widen,
        .d_widen_bias = d_widen_bias,
        .d_narrow = d_narrow,
        .d_narrow_bias = d_narrow_bias,
        .z = z,
        .n = n,
        .w = w,
        .hidden = hidden,
        .bend = (int)bend,
    };
    const size_t weights = w * hidden, inside = PLACES * hidden, outside = PLACES * w;
    float *whole = room(2 * weights + 3 * inside + 2 * outside);
    if (!whole) return 1;
    b.widening = whole, b.narrowing = b.widening + weights;
    b.h = b.narrowing + weights, b.d_z = b.h + inside, b.d_z_packed = b.d_z + inside;
    b.d_y_packed = b.d_z_packed + inside, b.x_packed = b.d_y_packed + outside;
#pragma omp parallel num_threads((int)threads)
    go_back(&b, omp_get_thread_num(), omp_get_num_threads());
    free(whole);
    return 0;
}
