/* C = relu(A @ B + bias) in bf16, by the kernels of a bundle; checked on the CPU.
 *
 *     example FOLDER [M N K]
 */
#define _POSIX_C_SOURCE 200809L
#include "device.h"
#include "loopir_bundle.h"

#include <math.h>
#include <string.h>
#include <time.h>

typedef struct {
    int64_t m, n, k;
    uint16_t *a, *b, *c; /* bf16: A [M, K], B stored as [N, K], C [M, N] */
    float *bias;
} problem;

static float from_bf16(uint16_t bits) {
    uint32_t wide = (uint32_t)bits << 16;
    float value;
    memcpy(&value, &wide, sizeof value);
    return value;
}

/* A number of -1 to 1 that bf16 has: a multiple of 1/64. */
static float next_number(void) {
    static uint32_t state = 1;
    state = state * 1664525u + 1013904223u;
    return (float)((int)(state >> 24) % 129 - 64) / 64;
}

static uint16_t *bf16_numbers(int64_t count) {
    uint16_t *numbers = malloc((size_t)count * sizeof *numbers + 1);
    for (int64_t i = 0; i < count; i++) {
        float value = next_number();
        uint32_t bits;
        memcpy(&bits, &value, sizeof bits);
        numbers[i] = (uint16_t)(bits >> 16);
    }
    return numbers;
}

static problem new_problem(int64_t m, int64_t n, int64_t k) {
    problem p = {m, n, k, bf16_numbers(m * k), bf16_numbers(n * k), bf16_numbers(m * n), NULL};
    p.bias = malloc((size_t)n * sizeof *p.bias + 1);
    for (int64_t j = 0; j < n; j++) p.bias[j] = next_number();
    return p;
}

/* A and bias are dense; B [K, N] has its first dimension contiguous; C is full of NaN. */
static void place_tensors(const problem *p, loopir_tensor t[4]) {
    const int64_t a[] = {p->m, p->k}, b[] = {p->k, p->n}, c[] = {p->m, p->n};
    size_t a_bytes = 2 * (size_t)(p->m * p->k), b_bytes = 2 * (size_t)(p->n * p->k);
    t[0] = loopir_dense(device_memory(a_bytes), LOOPIR_BF16, 2, a);
    t[1] = loopir_dense(device_memory(b_bytes), LOOPIR_BF16, 2, b);
    t[1].strides[0] = 1;
    t[1].strides[1] = p->k;
    t[2] = loopir_dense(device_memory(4 * (size_t)p->n), LOOPIR_F32, 1, &p->n);
    t[3] = loopir_dense(device_memory(2 * (size_t)(p->m * p->n)), LOOPIR_BF16, 2, c);
    to_device(t[0].data, p->a, a_bytes);
    to_device(t[1].data, p->b, b_bytes);
    to_device(t[2].data, p->bias, 4 * (size_t)p->n);
    fill_device(t[3].data, 0xff, 2 * (size_t)(p->m * p->n));
}

static void must(int code, const char *call) {
    if (!code) return;
    fprintf(stderr, "%s: %s: %s\n", call, loopir_error_text(code), loopir_last_error());
    exit(1);
}

/* Memory for launches of these sizes, its counters zeroed once: launches leave them zero. */
static loopir_workspace new_workspace(const loopir_program *program, const loopir_tensor t[4]) {
    loopir_workspace w = {NULL, 0, 0, 1};
    size_t tile_bytes;
    must(loopir_workspace_bytes(program, t, 4, NULL, 0, &w.counter_bytes, &tile_bytes), "bytes");
    w.bytes = w.counter_bytes + tile_bytes;
    w.data = device_memory(w.bytes);
    fill_device(w.data, 0, w.counter_bytes);
    return w;
}

/* The host's time of a launch that waits for nothing. */
static double launch_us(const loopir_program *program, const loopir_tensor t[4],
                        const loopir_workspace *w, stream_t stream) {
    enum { LAUNCHES = 200 };
    struct timespec start, stop;
    wait_for(stream);
    clock_gettime(CLOCK_MONOTONIC, &start);
    for (int i = 0; i < LAUNCHES; i++)
        must(loopir_launch(program, t, 4, NULL, 0, w, stream), "launch");
    clock_gettime(CLOCK_MONOTONIC, &stop);
    wait_for(stream);
    double ns = 1e9 * (double)(stop.tv_sec - start.tv_sec) + (double)(stop.tv_nsec - start.tv_nsec);
    return ns / LAUNCHES / 1000;
}

/* Within what fp32 sums and one rounding to bf16 allow. */
static int is_right(const problem *p, int64_t i, int64_t j) {
    double sum = p->bias[j], size = fabs(sum), found = from_bf16(p->c[i * p->n + j]);
    for (int64_t k = 0; k < p->k; k++) {
        double term = (double)from_bf16(p->a[i * p->k + k]) * from_bf16(p->b[j * p->k + k]);
        sum += term;
        size += fabs(term);
    }
    double wanted = sum > 0 ? sum : 0;
    if (fabs(found - wanted) <= sqrt((double)p->k) * ldexp(size, -23) + ldexp(wanted, -8)) return 1;
    printf("wrong: C[%lld, %lld] is %g, expected %g\n", (long long)i, (long long)j, found, wanted);
    return 0;
}

static int check(problem *p, const loopir_tensor t[4]) {
    from_device(p->c, t[3].data, 2 * (size_t)(p->m * p->n));
    for (int64_t i = 0; i < p->m; i++)
        for (int64_t j = 0; j < p->n; j++)
            if (!is_right(p, i, j)) return 1;
    printf("all %lld elements are right\n", (long long)(p->m * p->n));
    return 0;
}

static int run(const char *folder, problem p) {
    loopir_bundle *bundle;
    const loopir_program *program;
    loopir_tensor tensors[4];
    open_device(0);
    stream_t stream = new_stream();
    must(loopir_open(&loopir_tables, folder, &bundle), "open");
    must(loopir_find(bundle, "gemm", &program), "find");
    place_tensors(&p, tensors);
    loopir_workspace workspace = new_workspace(program, tensors);
    must(loopir_launch(program, tensors, 4, NULL, 0, &workspace, stream), "launch");
    printf("%lld x %lld x %lld, workspace of %zu bytes, %.2f us of the host a launch\n",
           (long long)p.m, (long long)p.n, (long long)p.k, workspace.bytes,
           launch_us(program, tensors, &workspace, stream));
    int failed = check(&p, tensors);
    loopir_close(bundle);
    return failed;
}

int main(int count, char **words) {
    int64_t sizes[] = {1000, 1000, 512};
    if (count != 2 && count != 5) {
        fprintf(stderr, "usage: %s FOLDER [M N K]\n", words[0]);
        return 2;
    }
    for (int i = 2; i < count; i++) sizes[i - 2] = atoll(words[i]);
    return run(words[1], new_problem(sizes[0], sizes[1], sizes[2]));
}
