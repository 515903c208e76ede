/* --- the variant of a kernel for some arguments, and what it is passed */

typedef struct {
    CUfunction function;
    const loopir_variant *variant;
    CUtensorMap maps[LOOPIR_MOST_MAPS];
    union {
        int64_t wide;
        int32_t narrow;
    } scalars[LOOPIR_MOST_ARGUMENTS];
    void *pointers[LOOPIR_MOST_ARGUMENTS];
} prepared;

/* What a variant says that does not take the arguments: the next one may. */
enum { NEXT_VARIANT = -1 };

static int holds(const loopir_condition *c, const request *r) {
    number n = evaluated(c->expression, r);
    return !n.error && n.value >= c->least && n.value <= c->most && n.value % c->multiple_of == 0;
}

static int conditions_hold(const loopir_variant *v, const request *r) {
    for (int i = 0; i < v->condition_count; i++)
        if (!holds(&v->conditions[i], r)) return 0;
    return 1;
}

static int encode(const loopir_map *m, const request *r, CUtensorMap *map) {
    const loopir_tensor *t = &r->tensors[m->tensor];
    uint64_t sizes[LOOPIR_MOST_MAP_DIMENSIONS], strides[LOOPIR_MOST_MAP_DIMENSIONS];
    if (!cuda.cuTensorMapEncodeTiled) return NEXT_VARIANT;
    for (int i = 0; i < m->rank; i++) {
        int outer = i + 1 < m->rank ? m->dims[i + 1] : 0;
        sizes[i] = (uint64_t)t->sizes[m->dims[i]];
        strides[i] = (uint64_t)t->strides[outer] * (uint64_t)m->element_bytes;
    }
    CUresult result = cuda.cuTensorMapEncodeTiled(
        map, m->data_type, (uint32_t)m->rank, t->data, sizes, strides, m->box, m->element_strides,
        m->interleave, m->swizzle, m->l2_promotion, m->oob_fill);
    return result ? NEXT_VARIANT : LOOPIR_OK;
}

static int set_argument(const request *r, prepared *p, int at) {
    const loopir_argument *a = &p->variant->arguments[at];
    int64_t value;
    p->pointers[at] = &p->scalars[at];
    if (a->type == LOOPIR_TENSOR_MAP) {
        p->pointers[at] = &p->maps[a->map];
        return LOOPIR_OK;
    }
    TRY(take(evaluated(a->expression, r), INT64_MIN, p->variant->symbol, &value));
    if (a->type == LOOPIR_64_BITS) {
        p->scalars[at].wide = value;
        return LOOPIR_OK;
    }
    if (value < INT32_MIN || value > INT32_MAX)
        return FAIL(LOOPIR_OVERFLOW, "%s: argument %d does not fit in 32 bits",
                    p->variant->symbol, at);
    p->scalars[at].narrow = (int32_t)value;
    return LOOPIR_OK;
}

static int set_arguments(const request *r, prepared *p) {
    const loopir_variant *v = p->variant;
    if (!conditions_hold(v, r)) return NEXT_VARIANT;
    for (int i = 0; i < v->map_count; i++) TRY(encode(&v->maps[i], r, &p->maps[i]));
    for (int i = 0; i < v->argument_count; i++) TRY(set_argument(r, p, i));
    return LOOPIR_OK;
}

/* The first variant that takes the arguments; for the one who holds the lock. */
static int prepare(loopir_bundle *bundle, loaded_context *c, const loopir_kernel *kernel,
                   const request *r, prepared *p) {
    const loopir_build *build;
    TRY(find_build(kernel, c, &build));
    for (int i = 0; i < build->variant_count; i++) {
        p->variant = &build->variants[i];
        int failed = set_arguments(r, p);
        if (failed == NEXT_VARIANT) continue;
        return failed ? failed : load_function(bundle, c, build, i, &p->function);
    }
    return FAIL(LOOPIR_MISALIGNED, "@%s: these addresses, strides and sizes suit no variant",
                kernel->name);
}
