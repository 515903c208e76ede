/* --- launches */

loopir_tensor loopir_dense(void *data, loopir_dtype dtype, int rank, const int64_t *sizes) {
    loopir_tensor t = {data, dtype, rank, {0}, {0}};
    int64_t stride = 1;
    for (int d = rank - 1; d >= 0 && rank <= LOOPIR_MOST_DIMENSIONS; d--) {
        t.sizes[d] = sizes[d];
        t.strides[d] = stride;
        if (sizes[d] > 0 && __builtin_mul_overflow(stride, sizes[d], &stride)) stride = INT64_MAX;
    }
    return t;
}

static int device_of(loopir_bundle *bundle, int *sms) {
    loaded_context *c;
    pthread_mutex_lock(&bundle->lock);
    int failed = current_context(bundle, &c);
    if (!failed) *sms = c->sms;
    pthread_mutex_unlock(&bundle->lock);
    return failed;
}

/* All that follows from the tensors and sizes; no address of a workspace. */
static int check_request(loopir_bundle *bundle, request *r, size_t tensor_count) {
    int sms = 0;
    TRY(check_forms(r->program, r->tensors, tensor_count));
    TRY(check_names(r));
    if (has_picks(r->program)) TRY(device_of(bundle, &sms));
    TRY(bind_values(r, 0, sms));
    TRY(check_tensors(r));
    TRY(count_blocks(r));
    if (!r->is_idle) TRY(bind_values(r, 1, sms));
    return measure_workspace(r);
}

int loopir_workspace_bytes(const loopir_program *program, const loopir_tensor *tensors,
                           size_t tensor_count, const loopir_size *sizes, size_t size_count,
                           size_t *counter_bytes, size_t *tile_bytes) {
    request r;
    if (!program || !counter_bytes || !tile_bytes)
        return FAIL(LOOPIR_NULL_POINTER, "workspace_bytes: a null pointer");
    r.program = program->table;
    r.tensors = tensors;
    r.sizes = sizes;
    r.size_count = size_count;
    TRY(check_request(program->bundle, &r, tensor_count));
    *counter_bytes = (size_t)r.counter_bytes;
    *tile_bytes = (size_t)r.tile_bytes;
    return LOOPIR_OK;
}

static int prepare_all(loopir_bundle *bundle, const request *r, prepared *calls) {
    loaded_context *c;
    TRY(current_context(bundle, &c));
    for (int i = 0; i < r->program->kernel_count; i++)
        if (r->blocks[i] > 0)
            TRY(prepare(bundle, c, &r->program->kernels[i], r, &calls[i]));
    return LOOPIR_OK;
}

static int enqueue(const loopir_kernel *kernel, int64_t blocks, prepared *p, loopir_stream stream) {
    const loopir_variant *v = p->variant;
    CUlaunchAttribute overlap = {PROGRAMMATIC_STREAM_SERIALIZATION, {0}, {{0}}};
    CUlaunchConfig how = {{(unsigned)blocks, 1, 1}, {v->threads, 1, 1}, v->shared_bytes, stream,
                          &overlap, 1};
    if (!kernel->overlaps || !cuda.cuLaunchKernelEx)
        return checked(cuda.cuLaunchKernel(p->function, (unsigned)blocks, 1, 1, v->threads, 1, 1,
                                           v->shared_bytes, stream, p->pointers, NULL),
                       "cuLaunchKernel");
    overlap.value.programmatic_stream_serialization = 1;
    return checked(cuda.cuLaunchKernelEx(&how, p->function, p->pointers, NULL), "cuLaunchKernelEx");
}

static int enqueue_all(const request *r, const loopir_workspace *w, prepared *calls,
                       loopir_stream stream) {
    TRY(zero_counters(r, w, stream));
    for (int i = 0; i < r->program->kernel_count; i++) {
        const loopir_kernel *kernel = &r->program->kernels[i];
        for (int z = 0; z < kernel->zeroed_count; z++)
            TRY(zero_buffer(r, kernel->zeroed[z], stream));
        if (r->blocks[i] > 0) TRY(enqueue(kernel, r->blocks[i], &calls[i], stream));
    }
    return LOOPIR_OK;
}

int loopir_launch(const loopir_program *program, const loopir_tensor *tensors, size_t tensor_count,
                  const loopir_size *sizes, size_t size_count, const loopir_workspace *workspace,
                  loopir_stream stream) {
    request r;
    prepared calls[LOOPIR_MOST_KERNELS];
    if (!program) return FAIL(LOOPIR_NULL_POINTER, "launch: a null pointer");
    r.program = program->table;
    r.tensors = tensors;
    r.sizes = sizes;
    r.size_count = size_count;
    TRY(check_request(program->bundle, &r, tensor_count));
    TRY(check_workspace(&r, workspace));
    pthread_mutex_lock(&program->bundle->lock);
    int failed = prepare_all(program->bundle, &r, calls);
    pthread_mutex_unlock(&program->bundle->lock);
    return failed ? failed : enqueue_all(&r, workspace, calls, stream);
}
