/* --- zeroing, on the stream */

enum { MOST_PITCH = INT32_MAX }; /* CU_DEVICE_ATTRIBUTE_MAX_PITCH */

/* A tensor as rows of `width` bytes, a pitch apart, under `outer` more dimensions. */
typedef struct {
    size_t width, height, pitch;
    int order[LOOPIR_MOST_DIMENSIONS], first_outer, count;
} rows;

static rows rows_of(const loopir_tensor *t) {
    size_t each = (size_t)dtypes[t->dtype].bytes;
    rows found = {each, 1, each, {0}, 0, 0};
    int is_gapless = 1;
    found.count = by_stride(t, found.order);
    for (; found.first_outer < found.count; found.first_outer++) {
        int d = found.order[found.first_outer];
        size_t step = (size_t)t->strides[d] * each, size = (size_t)t->sizes[d];
        is_gapless = is_gapless && step == found.width;
        if (!is_gapless && found.height > 1 && step != found.pitch * found.height) break;
        if (!is_gapless && step > MOST_PITCH && found.height == 1) break;
        if (!is_gapless && found.height == 1) found.pitch = step;
        *(is_gapless ? &found.width : &found.height) *= size;
    }
    return found;
}

static int zero_rows(CUdeviceptr at, const rows *found, loopir_stream stream) {
    if (found->height == 1)
        return checked(cuda.cuMemsetD8Async(at, 0, found->width, stream), "cuMemsetD8Async");
    return checked(
        cuda.cuMemsetD2D8Async(at, found->pitch, 0, found->width, found->height, stream),
        "cuMemsetD2D8Async");
}

static int zero_outer(const loopir_tensor *t, const rows *found, int outer, CUdeviceptr at,
                      loopir_stream stream) {
    if (outer >= found->count) return zero_rows(at, found, stream);
    int d = found->order[outer], each = dtypes[t->dtype].bytes;
    for (int64_t i = 0; i < t->sizes[d]; i++)
        TRY(zero_outer(t, found, outer + 1, at + (CUdeviceptr)(i * t->strides[d] * each), stream));
    return LOOPIR_OK;
}

static int zero_buffer(const request *r, int buffer, loopir_stream stream) {
    int part = buffer - r->program->parameter_count;
    if (part < 0) {
        const loopir_tensor *t = &r->tensors[buffer];
        rows found = rows_of(t);
        if (is_empty(t)) return LOOPIR_OK;
        return zero_outer(t, &found, found.first_outer, r->addresses[buffer], stream);
    }
    if (r->is_idle || !r->part_bytes[part]) return LOOPIR_OK;
    return checked(
        cuda.cuMemsetD8Async(r->addresses[buffer], 0, (size_t)r->part_bytes[part], stream),
        "cuMemsetD8Async");
}

static int zero_counters(const request *r, const loopir_workspace *w, loopir_stream stream) {
    if (!r->counter_bytes || w->counters_are_zero) return LOOPIR_OK;
    CUdeviceptr start = (CUdeviceptr)(uintptr_t)w->data;
    return checked(cuda.cuMemsetD8Async(start, 0, (size_t)r->counter_bytes, stream),
                   "cuMemsetD8Async");
}
