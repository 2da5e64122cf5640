/* Linear layer over many rows, forward and backward.

       y = x Wᵀ + b        dx = dy W        dW = dyᵀ x        db = Σ dy

   Threads split rows for y and dx, outputs for dW and db: the order of summation, and with it every
   bit, is the same for any number of threads. Shapes as in gemm.h: W (out,in). */

#include "gemm.h"

int regard_block_rows(void) { return BLOCK_ROWS; }

int regard_linear_forward(const float *x, const float *weight, const float *bias, float *y,
                          size_t n, size_t inputs, size_t outputs, size_t threads) {
    float *packed = alloc_buffer(inputs * outputs);
    if (!packed) return 1;
    const BiasStore y_store = {y, bias, outputs};
#pragma omp parallel num_threads((int)threads)
    {
        pack_transposed_weight(packed, inputs, weight, outputs, omp_get_thread_num(),
                               omp_get_num_threads());
#pragma omp barrier
#pragma omp for schedule(dynamic)
        for (size_t block = 0; block < n / BLOCK_ROWS; block++) {
            const size_t first = block * BLOCK_ROWS;
            const Range rows = {first, block_end(first, n, BLOCK_ROWS)};
            gemm(x, rows, inputs, packed, outputs, bias_store, &y_store);
        }
    }
    free(packed);
    return 0;
}

typedef struct {
    const float *d_y, *x, *weight;
    float *d_x, *d_weight, *d_bias;               /* NULL where the gradient is not needed */
    float *packed_weight, *packed_d_y, *packed_x; /* dy and x: of one chunk */
    size_t n, inputs, outputs;
} LinearBackward;

static void linear_backward(const LinearBackward *b, size_t thread, size_t threads) {
    const Range my_outputs = thread_columns(b->outputs, thread, threads);
    const BiasStore d_x_store = {b->d_x, NULL, b->inputs};
    if (b->d_x) pack_weight(b->packed_weight, b->outputs, b->weight, b->inputs, thread, threads);
#pragma omp barrier
    for (size_t first = 0, end; first < b->n; first = end) {
        end = block_end(first, b->n, CHUNK_ROWS);
        const size_t chunk = end - first;
        const Range rows = thread_rows(chunk, thread, threads);
        const size_t from = first + rows.begin, count = rows.end - rows.begin;
        if (b->d_x)
            gemm(b->d_y, (Range){from, from + count}, b->outputs, b->packed_weight, b->inputs,
                 bias_store, &d_x_store);
        if (b->d_weight || b->d_bias)
            pack_rows(b->packed_d_y, chunk, rows.begin, b->d_y + from * b->outputs, count,
                      b->outputs);
        if (b->d_weight)
            pack_rows(b->packed_x, chunk, rows.begin, b->x + from * b->inputs, count, b->inputs);
#pragma omp barrier
        if (b->d_weight)
            gemm_transposed(b->d_weight, my_outputs, b->packed_d_y, b->outputs, b->packed_x,
                            b->inputs, chunk);
        if (b->d_bias) sum_rows(b->d_bias, my_outputs, b->packed_d_y, b->outputs, chunk);
#pragma omp barrier
    }
}

/* d_weight and d_bias are passed in as zeros. */
int regard_linear_backward(const float *d_y, const float *x, const float *weight, float *d_x,
                           float *d_weight, float *d_bias, size_t n, size_t inputs, size_t outputs,
                           size_t threads) {
    const LinearBackward b = {
        .d_y = d_y,
        .x = x,
        .weight = weight,
        .d_x = d_x,
        .d_weight = d_weight,
        .d_bias = d_bias,
        .packed_weight = alloc_buffer(inputs * outputs),
        .packed_d_y = alloc_buffer(2 * CHUNK_ROWS * outputs),
        .packed_x = alloc_buffer(2 * CHUNK_ROWS * inputs),
        .n = n,
        .inputs = inputs,
        .outputs = outputs,
    };
    const int allocated = b.packed_weight && b.packed_d_y && b.packed_x;
    if (allocated) {
#pragma omp parallel num_threads((int)threads)
        linear_backward(&b, omp_get_thread_num(), omp_get_num_threads());
    }
    free(b.packed_weight), free(b.packed_d_y), free(b.packed_x);
    return !allocated;
}
