/* --- checks of tensors */

static const struct {
    const char *name;
    int bytes;
} dtypes[] = {{"f8e4m3", 1}, {"f8e5m2", 1}, {"f16", 2}, {"bf16", 2}, {"f32", 4}, {"f64", 8},
              {"i8", 1}, {"i16", 2}, {"i32", 4}, {"i64", 8}, {"bool", 1}};

static const char *dtype_name(loopir_dtype dtype) {
    return (unsigned)dtype <= LOOPIR_BOOL ? dtypes[dtype].name : "no dtype";
}

/* Whether there is no element; sizes are not negative. */
static int is_empty(const loopir_tensor *t) {
    for (int d = 0; d < t->rank; d++)
        if (!t->sizes[d]) return 1;
    return 0;
}

static int check_form(const loopir_parameter *p, const loopir_tensor *t) {
    if (t->dtype != p->dtype)
        return FAIL(LOOPIR_WRONG_DTYPE, "%s: expected %s, got %s", p->name, dtype_name(p->dtype),
                    dtype_name(t->dtype));
    if (t->rank != p->rank)
        return FAIL(LOOPIR_WRONG_RANK, "%s: expected %d dimensions, got %d", p->name, p->rank,
                    t->rank);
    for (int d = 0; d < p->rank; d++)
        if (t->sizes[d] < 0)
            return FAIL(LOOPIR_WRONG_SIZE, "%s: dimension %d has a negative size", p->name, d);
    if (!t->data && !is_empty(t)) return FAIL(LOOPIR_NULL_POINTER, "%s: a null pointer", p->name);
    if ((uintptr_t)t->data % (unsigned)dtypes[p->dtype].bytes)
        return FAIL(LOOPIR_MISALIGNED, "%s: expected an address at a multiple of %d, got %p",
                    p->name, dtypes[p->dtype].bytes, t->data);
    return LOOPIR_OK;
}

static int check_forms(const loopir_program_table *program, const loopir_tensor *tensors,
                       size_t count) {
    if (count != (size_t)program->parameter_count)
        return FAIL(LOOPIR_WRONG_COUNT, "@%s: expected %d tensors, got %zu", program->name,
                    program->parameter_count, count);
    if (!tensors) return FAIL(LOOPIR_NULL_POINTER, "tensors: a null pointer");
    for (int i = 0; i < program->parameter_count; i++)
        TRY(check_form(&program->parameters[i], &tensors[i]));
    return LOOPIR_OK;
}

static int check_shape(const request *r, const loopir_parameter *p, const loopir_tensor *t) {
    for (int d = 0; d < p->rank; d++) {
        int64_t size;
        TRY(take(evaluated(p->shape[d], r), INT64_MIN, p->name, &size));
        if (size != t->sizes[d])
            return FAIL(LOOPIR_WRONG_SIZE, "%s: expected %lld along dimension %d, got %lld",
                        p->name, (long long)size, d, (long long)t->sizes[d]);
    }
    return LOOPIR_OK;
}

/* Dimensions of more than one element, by their strides, smallest first. */
static int by_stride(const loopir_tensor *t, int order[LOOPIR_MOST_DIMENSIONS]) {
    int count = 0;
    for (int d = 0; d < t->rank; d++) {
        int at = count;
        if (t->sizes[d] < 2) continue;
        for (; at && t->strides[order[at - 1]] > t->strides[d]; at--) order[at] = order[at - 1];
        order[at] = d;
        count++;
    }
    return count;
}

static int check_strides(const loopir_parameter *p, const loopir_tensor *t) {
    int inner = p->contiguous;
    for (int d = 0; d < p->rank; d++)
        if (t->strides[d] < 0)
            return FAIL(LOOPIR_WRONG_STRIDE, "%s: dimension %d has a negative stride", p->name, d);
    if (inner >= 0 && t->sizes[inner] > 1 && t->strides[inner] != 1)
        return FAIL(LOOPIR_WRONG_STRIDE, "%s: expected stride 1 in dimension %d, got %lld", p->name,
                    inner, (long long)t->strides[inner]);
    return LOOPIR_OK;
}

/* Bytes from the first element to the end of the last; no element of an output is there twice. */
static int check_span(const loopir_parameter *p, const loopir_tensor *t, int64_t *bytes) {
    int order[LOOPIR_MOST_DIMENSIONS], count = by_stride(t, order);
    number reach = defined(0), width = defined(dtypes[p->dtype].bytes);
    for (int i = 0; i < count; i++) {
        number stride = defined(t->strides[order[i]]), steps = defined(t->sizes[order[i]] - 1);
        if (p->is_written && stride.value <= reach.value)
            return FAIL(LOOPIR_WRONG_STRIDE, "%s: expected elements that do not overlap", p->name);
        reach = combined(LOOPIR_ADD, reach, combined(LOOPIR_MULTIPLY, steps, stride));
    }
    reach = combined(LOOPIR_MULTIPLY, combined(LOOPIR_ADD, reach, defined(1)), width);
    return take(reach, 0, p->name, bytes);
}

/* Distances wrap, ends of memory do not count. */
static int shares_bytes(uint64_t a, uint64_t a_bytes, uint64_t b, uint64_t b_bytes) {
    return a_bytes && b_bytes && (a - b < b_bytes || b - a < a_bytes);
}

static int check_apart(const request *r) {
    for (int i = 0; i < r->program->pair_count; i++) {
        int a = r->program->pairs[i].a, b = r->program->pairs[i].b;
        if (shares_bytes(r->addresses[a], (uint64_t)r->spans[a], r->addresses[b],
                         (uint64_t)r->spans[b]))
            return FAIL(LOOPIR_WRONG_STRIDE, "%s: expected memory of its own, got bytes of %s",
                        r->program->parameters[a].name, r->program->parameters[b].name);
    }
    return LOOPIR_OK;
}

static int check_tensors(request *r) {
    for (int i = 0; i < r->program->parameter_count; i++) {
        const loopir_parameter *p = &r->program->parameters[i];
        const loopir_tensor *t = &r->tensors[i];
        TRY(check_shape(r, p, t));
        r->spans[i] = 0;
        r->addresses[i] = (uint64_t)(uintptr_t)t->data;
        if (is_empty(t)) continue;
        TRY(check_strides(p, t));
        TRY(check_span(p, t, &r->spans[i]));
    }
    return check_apart(r);
}

/* The counters of a workspace end, and its tiles begin, at `*counter_bytes`. */
static int check_regions(const request *r, const loopir_workspace *w, uint64_t *counter_bytes) {
    uint64_t counters = (uint64_t)r->counter_bytes, tiles = (uint64_t)r->tile_bytes;
    *counter_bytes = w->counter_bytes ? w->counter_bytes : counters;
    if (*counter_bytes % 256 || *counter_bytes < counters)
        return FAIL(LOOPIR_WORKSPACE_TOO_SMALL, "workspace: expected a multiple of 256 bytes, at "
                    "least %llu, for counters, got %llu", (unsigned long long)counters,
                    (unsigned long long)*counter_bytes);
    if (w->bytes < *counter_bytes || w->bytes - *counter_bytes < tiles)
        return FAIL(LOOPIR_WORKSPACE_TOO_SMALL, "workspace: expected %llu bytes of counters and "
                    "%llu of tiles, got %zu", (unsigned long long)*counter_bytes,
                    (unsigned long long)tiles, w->bytes);
    return LOOPIR_OK;
}

static int check_workspace(request *r, const loopir_workspace *w) {
    uint64_t start, counter_bytes;
    if (r->is_idle) return LOOPIR_OK;
    if (!r->counter_bytes && !r->tile_bytes) return place_parts(r, 0, 0);
    if (!w || !w->data) return FAIL(LOOPIR_NULL_POINTER, "workspace: a null pointer");
    TRY(check_regions(r, w, &counter_bytes));
    start = (uint64_t)(uintptr_t)w->data;
    if (start % 16)
        return FAIL(LOOPIR_MISALIGNED, "workspace: expected an address at a multiple of 16");
    for (int i = 0; i < r->program->parameter_count; i++)
        if (shares_bytes(start, w->bytes, r->addresses[i], (uint64_t)r->spans[i]))
            return FAIL(LOOPIR_WRONG_STRIDE, "workspace: expected memory of its own, got bytes of "
                        "%s", r->program->parameters[i].name);
    return place_parts(r, start, start + counter_bytes);
}
