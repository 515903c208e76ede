/* --- modules and functions, loaded once a context */

static CUresult id_of(CUcontext context, unsigned long long *id) {
    *id = 0;
    return cuda.cuCtxGetId ? cuda.cuCtxGetId(context, id) : 0;
}

/* Modules went with their context, if that is no more. */
static int is_alive(const loaded_context *c) {
    unsigned long long id;
    return !id_of(c->context, &id) && id == c->id;
}

static void unload(const struct loopir_tables *tables, loaded_context *c) {
    CUcontext popped;
    if (c->modules && is_alive(c) && !cuda.cuCtxPushCurrent_v2(c->context)) {
        for (int i = 0; i < tables->image_count; i++)
            if (c->modules[i]) cuda.cuModuleUnload(c->modules[i]);
        cuda.cuCtxPopCurrent_v2(&popped);
    }
    free(c->modules);
    free(c->functions);
    free(c);
}

void loopir_close(loopir_bundle *bundle) {
    if (!bundle) return;
    while (bundle->contexts) {
        loaded_context *c = bundle->contexts;
        bundle->contexts = c->next;
        unload(bundle->tables, c);
    }
    for (int i = 0; bundle->binaries && i < bundle->tables->image_count; i++)
        free(bundle->binaries[i].bytes);
    pthread_mutex_destroy(&bundle->lock);
    free(bundle->binaries);
    free(bundle->programs);
    free(bundle);
}

static int look_at_device(loaded_context *c) {
    CUdevice device;
    const struct {
        int attribute, *value;
    } wanted[] = {{CAPABILITY_MAJOR, &c->major}, {CAPABILITY_MINOR, &c->minor}, {SM_COUNT, &c->sms},
                  {SHARED_BYTES_OPT_IN, &c->shared_bytes}};
    TRY(checked(cuda.cuCtxGetDevice(&device), "cuCtxGetDevice"));
    for (size_t i = 0; i < sizeof wanted / sizeof *wanted; i++)
        TRY(checked(cuda.cuDeviceGetAttribute(wanted[i].value, wanted[i].attribute, device),
                    "cuDeviceGetAttribute"));
    return LOOPIR_OK;
}

static int add_context(loopir_bundle *bundle, CUcontext context, unsigned long long id,
                       loaded_context **found) {
    loaded_context *c = calloc(1, sizeof *c);
    if (!c) return FAIL(LOOPIR_NO_MEMORY, "a context: out of memory");
    c->context = context;
    c->id = id;
    c->modules = calloc((size_t)bundle->tables->image_count + 1, sizeof *c->modules);
    c->functions = calloc((size_t)bundle->tables->variant_count + 1, sizeof *c->functions);
    int failed = c->modules && c->functions ? look_at_device(c)
                                            : FAIL(LOOPIR_NO_MEMORY, "a context: out of memory");
    if (failed) {
        unload(bundle->tables, c);
        return failed;
    }
    c->next = bundle->contexts;
    *found = bundle->contexts = c;
    return LOOPIR_OK;
}

/* What is loaded in the current context; for the one who holds the lock. */
static int current_context(loopir_bundle *bundle, loaded_context **found) {
    CUcontext context = NULL;
    unsigned long long id;
    TRY(checked(cuda.cuCtxGetCurrent(&context), "cuCtxGetCurrent"));
    if (!context)
        return FAIL(LOOPIR_NO_CONTEXT, "no CUDA context is current: call cuCtxSetCurrent(), or "
                    "cudaSetDevice() and cudaFree(0), in this thread");
    TRY(checked(id_of(context, &id), "cuCtxGetId"));
    for (*found = bundle->contexts; *found; *found = (*found)->next)
        if ((*found)->context == context && (*found)->id == id) return LOOPIR_OK;
    return add_context(bundle, context, id, found);
}

static int is_runnable(const loopir_build *build, const loaded_context *c) {
    if (build->major != c->major || build->minor > c->minor) return 0;
    return build->minor == c->minor || !build->is_exact;
}

/* The build with the latest capability that the device runs. */
static int find_build(const loopir_kernel *kernel, const loaded_context *c,
                      const loopir_build **found) {
    *found = NULL;
    for (int i = 0; i < kernel->build_count; i++) {
        const loopir_build *build = &kernel->builds[i];
        if (is_runnable(build, c) && (!*found || build->minor > (*found)->minor)) *found = build;
    }
    if (*found) return LOOPIR_OK;
    return FAIL(LOOPIR_NO_IMAGE, "@%s: nothing is built for compute capability %d.%d", kernel->name,
                c->major, c->minor);
}

static int load_module(loopir_bundle *bundle, loaded_context *c, int image) {
    if (c->modules[image]) return LOOPIR_OK;
    CUmodule module = NULL; /* what a call leaves that fails is no module */
    CUresult result = cuda.cuModuleLoadData(&module, bundle->binaries[image].bytes);
    if (!result) c->modules[image] = module;
    if (result == NO_BINARY_FOR_GPU)
        return FAIL(LOOPIR_NO_IMAGE, "%s: the driver finds no code for compute capability %d.%d",
                    bundle->tables->images[image].file, c->major, c->minor);
    return checked(result, "cuModuleLoadData");
}

static int allow_shared(const loopir_variant *v, const loaded_context *c, CUfunction function) {
    if (v->shared_bytes <= DEFAULT_SHARED_BYTES) return LOOPIR_OK;
    int bytes = (int)v->shared_bytes;
    if (bytes > c->shared_bytes)
        return FAIL(LOOPIR_SHARED_MEMORY, "%s: needs %d bytes of shared memory, a block has %d",
                    v->symbol, bytes, c->shared_bytes);
    TRY(checked(cuda.cuFuncSetCacheConfig(function, PREFER_SHARED), "cuFuncSetCacheConfig"));
    return checked(cuda.cuFuncSetAttribute(function, MAX_DYNAMIC_SHARED_BYTES, bytes),
                   "cuFuncSetAttribute");
}

/* The function of variant `at` of a build; for the one who holds the lock. */
static int load_function(loopir_bundle *bundle, loaded_context *c, const loopir_build *build,
                         int at, CUfunction *function) {
    const loopir_variant *v = &build->variants[at];
    CUfunction *kept = &c->functions[build->first + at];
    if (!*kept) {
        TRY(load_module(bundle, c, v->image));
        TRY(checked(cuda.cuModuleGetFunction(function, c->modules[v->image], v->symbol),
                    "cuModuleGetFunction"));
        TRY(allow_shared(v, c, *function));
        *kept = *function;
    }
    *function = *kept;
    return LOOPIR_OK;
}

static int load_all(const loopir_program *program) {
    loaded_context *c;
    const loopir_build *build;
    CUfunction function;
    TRY(current_context(program->bundle, &c));
    for (int k = 0; k < program->table->kernel_count; k++) {
        TRY(find_build(&program->table->kernels[k], c, &build));
        for (int i = 0; i < build->variant_count; i++)
            TRY(load_function(program->bundle, c, build, i, &function));
    }
    return LOOPIR_OK;
}

int loopir_load(const loopir_program *program) {
    if (!program) return FAIL(LOOPIR_NULL_POINTER, "load: a null pointer");
    pthread_mutex_lock(&program->bundle->lock);
    int failed = load_all(program);
    pthread_mutex_unlock(&program->bundle->lock);
    return failed;
}
