/* Two-layer MLP over many rows, forward and backward; the hidden layer stays in a core's L2 cache.

       z = x Uᵀ + a        h = f(z)        y = h Wᵀ + b
       dz = (dy W) · f'(z)        dx = dz U
       dU = dzᵀ x        da = Σ dz        dW = dyᵀ h        db = Σ dy

   Only z is saved for the backward pass; f is the activation. Threads split work as in linear.c.
   Shapes as in gemm.h: U = up (hidden,w), W = down (w,hidden). */

#include "activations.h"
#include "gemm.h"

/* Hidden layer of `rows` rows from `first` on. z holds all rows, or is NULL if it is not saved;
   h and d_z hold these rows alone. */
typedef struct {
    float *z, *h, *d_z;
    const float *bias;
    size_t hidden, first, rows;
    int activation;
} Hidden;

/* Epilogue: z = tile + bias, h = f(z). */
INLINE void activate_store(Tile t, int vectors, size_t row, size_t column, const void *context) {
    const Hidden *s = context;
    FOR_VECTORS(c, vectors) {
        const size_t at = column + LANES * c;
        const Vector bias = s->bias ? load(s->bias + at) : broadcast(0.0f);
        for (int r = 0; r < TILE_ROWS; r++) {
            const Vector z = t[r][c] + bias;
            if (s->z) store(s->z + (row + r) * s->hidden + at, z);
            store(s->h + (row + r - s->first) * s->hidden + at, activate(z, s->activation).value);
        }
    }
}

/* Epilogue: dz = dh · f'(z), dh being the tile. h is recomputed and packed. */
INLINE void activate_backward(Tile t, int vectors, size_t row, size_t column, const void *context) {
    const Hidden *s = context;
    float *h = group_row(s->h, s->rows, column, LANES * vectors, row - s->first);
    FOR_VECTORS(c, vectors) {
        const size_t at = column + LANES * c;
        for (int r = 0; r < TILE_ROWS; r++) {
            const Activation f = activate(load(s->z + (row + r) * s->hidden + at), s->activation);
            store(h + (r * vectors + c) * LANES, f.value);
            store(s->d_z + (row + r - s->first) * s->hidden + at, t[r][c] * f.derivative);
        }
    }
}

int regard_mlp_forward(const float *x, const float *up, const float *up_bias, const float *down,
                       const float *down_bias, float *y, float *z, size_t n, size_t w,
                       size_t hidden, size_t activation, size_t threads) {
    float *packed_up = alloc_buffer(w * hidden), *packed_down = alloc_buffer(w * hidden);
    int out_of_memory = !packed_up || !packed_down;
    if (!out_of_memory) {
#pragma omp parallel num_threads((int)threads) reduction(| : out_of_memory)
        {
            float *h = alloc_buffer(2 * BLOCK_ROWS * hidden);
            const size_t thread = omp_get_thread_num(), team = omp_get_num_threads();
            out_of_memory = !h;
            pack_transposed_weight(packed_up, w, up, hidden, thread, team);
            pack_transposed_weight(packed_down, hidden, down, w, thread, team);
#pragma omp barrier
#pragma omp for schedule(dynamic)
            for (size_t block = 0; block < n / BLOCK_ROWS; block++) {
                if (out_of_memory) continue;
                const size_t first = block * BLOCK_ROWS, end = block_end(first, n, BLOCK_ROWS);
                const Hidden layer = {.z = z,
                                      .h = h,
                                      .bias = up_bias,
                                      .hidden = hidden,
                                      .first = first,
                                      .activation = (int)activation};
                const BiasStore y_store = {y + first * w, down_bias, w};
                gemm(x, (Range){first, end}, w, packed_up, hidden, activate_store, &layer);
                gemm(h, (Range){0, end - first}, hidden, packed_down, w, bias_store, &y_store);
            }
            free(h);
        }
    }
    free(packed_up), free(packed_down);
    return out_of_memory;
}

typedef struct {
    const float *d_y, *x, *up, *down;
    float *d_x, *d_up, *d_up_bias, *d_down, *d_down_bias; /* NULL where not needed */
    float *packed_up, *packed_down;
    float *z, *h, *d_z, *packed_d_z, *packed_d_y, *packed_x; /* of one chunk, except z */
    size_t n, w, hidden;
    int activation;
} MlpBackward;

static void mlp_backward(const MlpBackward *b, size_t thread, size_t threads) {
    const Range my_hidden = thread_columns(b->hidden, thread, threads),
                my_width = thread_columns(b->w, thread, threads);
    pack_weight(b->packed_up, b->hidden, b->up, b->w, thread, threads);
    pack_weight(b->packed_down, b->w, b->down, b->hidden, thread, threads);
#pragma omp barrier
    for (size_t first = 0, end; first < b->n; first = end) {
        end = block_end(first, b->n, CHUNK_ROWS);
        const size_t chunk = end - first;
        const Range rows = thread_rows(chunk, thread, threads);
        const size_t from = first + rows.begin, count = rows.end - rows.begin;
        const Hidden layer = {.z = b->z,
                              .h = b->h,
                              .d_z = b->d_z,
                              .hidden = b->hidden,
                              .first = first,
                              .rows = chunk,
                              .activation = b->activation};
        gemm(b->d_y, (Range){from, from + count}, b->w, b->packed_down, b->hidden,
             activate_backward, &layer);
        if (b->d_x) {
            const BiasStore d_x_store = {b->d_x + first * b->w, NULL, b->w};
            gemm(b->d_z, rows, b->hidden, b->packed_up, b->w, bias_store, &d_x_store);
        }
        if (b->d_up || b->d_up_bias)
            pack_rows(b->packed_d_z, chunk, rows.begin, b->d_z + rows.begin * b->hidden, count,
                      b->hidden);
        if (b->d_down || b->d_down_bias)
            pack_rows(b->packed_d_y, chunk, rows.begin, b->d_y + from * b->w, count, b->w);
        if (b->d_up) pack_rows(b->packed_x, chunk, rows.begin, b->x + from * b->w, count, b->w);
#pragma omp barrier
        if (b->d_up)
            gemm_transposed(b->d_up, my_hidden, b->packed_d_z, b->hidden, b->packed_x, b->w, chunk);
        if (b->d_down)
            gemm_transposed(b->d_down, my_width, b->packed_d_y, b->w, b->h, b->hidden, chunk);
        if (b->d_up_bias) sum_rows(b->d_up_bias, my_hidden, b->packed_d_z, b->hidden, chunk);
        if (b->d_down_bias) sum_rows(b->d_down_bias, my_width, b->packed_d_y, b->w, chunk);
#pragma omp barrier
    }
}

/* Gradients of weights and biases are passed in as zeros. */
int regard_mlp_backward(const float *d_y, const float *x, float *z, const float *up,
                        const float *down, float *d_x, float *d_up, float *d_up_bias, float *d_down,
                        float *d_down_bias, size_t n, size_t w, size_t hidden, size_t activation,
                        size_t threads) {
    enum { MAX_CHUNK_ROWS = 2 * CHUNK_ROWS };
    MlpBackward b = {
        .d_y = d_y,
        .x = x,
        .up = up,
        .down = down,
        .d_x = d_x,
        .d_up = d_up,
        .d_up_bias = d_up_bias,
        .d_down = d_down,
        .d_down_bias = d_down_bias,
        .z = z,
        .n = n,
        .w = w,
        .hidden = hidden,
        .activation = (int)activation,
    };
    const size_t weights = w * hidden, inner = MAX_CHUNK_ROWS * hidden, outer = MAX_CHUNK_ROWS * w;
    float *buffer = alloc_buffer(2 * weights + 3 * inner + 2 * outer);
    if (!buffer) return 1;
    b.packed_up = buffer, b.packed_down = b.packed_up + weights;
    b.h = b.packed_down + weights, b.d_z = b.h + inner, b.packed_d_z = b.d_z + inner;
    b.packed_d_y = b.packed_d_z + inner, b.packed_x = b.packed_d_y + outer;
#pragma omp parallel num_threads((int)threads)
    mlp_backward(&b, omp_get_thread_num(), omp_get_num_threads());
    free(buffer);
    return 0;
}
