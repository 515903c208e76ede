/* --- sizes: integers of 63 bits, or why there is none */

typedef struct {
    int64_t value;
    int error;
} number;

/* What a launch of some arguments is made of. */
typedef struct {
    const loopir_program_table *program;
    const loopir_tensor *tensors;
    const loopir_size *sizes;
    size_t size_count;
    int64_t values[LOOPIR_MOST_VALUES];
    int64_t spans[LOOPIR_MOST_TENSORS]; /* bytes from the first element to the last */
    uint64_t addresses[2 * LOOPIR_MOST_TENSORS]; /* of buffers */
    int64_t part_bytes[LOOPIR_MOST_TENSORS];
    int64_t blocks[LOOPIR_MOST_KERNELS];
    int64_t counter_bytes, tile_bytes;
    int is_idle; /* no kernel has a block */
} request;

static number defined(int64_t value) { return (number){value, LOOPIR_OK}; }

static number undefined(int error) { return (number){0, error}; }

static number divided(loopir_opcode code, int64_t a, int64_t b) {
    if (b < 1) return undefined(LOOPIR_WRONG_SIZE);
    int64_t down = a / b, rest = a % b;
    if (rest < 0) {
        down--;
        rest += b;
    }
    if (code == LOOPIR_MODULO) return defined(rest);
    return defined(down + (code == LOOPIR_CEIL_DIVIDE && rest));
}

static number combined(loopir_opcode code, number left, number right) {
    int64_t a = left.value, b = right.value, c = 0;
    int overflows = 0;
    if (left.error || right.error) return undefined(left.error ? left.error : right.error);
    switch (code) {
    case LOOPIR_ADD: overflows = __builtin_add_overflow(a, b, &c); break;
    case LOOPIR_SUBTRACT: overflows = __builtin_sub_overflow(a, b, &c); break;
    case LOOPIR_MULTIPLY: overflows = __builtin_mul_overflow(a, b, &c); break;
    case LOOPIR_MINIMUM: return a < b ? left : right;
    case LOOPIR_MAXIMUM: return a > b ? left : right;
    default: return divided(code, a, b);
    }
    return overflows ? undefined(LOOPIR_OVERFLOW) : defined(c);
}

static int64_t leaf(const loopir_op *op, const request *r) {
    switch (op->code) {
    case LOOPIR_VALUE: return r->values[op->operand];
    case LOOPIR_EXTENT: return r->tensors[op->operand].sizes[op->dim];
    case LOOPIR_STRIDE: return r->tensors[op->operand].strides[op->dim];
    case LOOPIR_ADDRESS: return (int64_t)r->addresses[op->operand];
    default: return op->operand;
    }
}

static number evaluated(loopir_expression e, const request *r) {
    number stack[LOOPIR_MOST_DEPTH];
    int top = 0;
    for (const loopir_op *op = e.ops; op < e.ops + e.count; op++) {
        if (op->code < LOOPIR_ADD) {
            stack[top++] = defined(leaf(op, r));
        } else {
            top--;
            stack[top - 1] = combined(op->code, stack[top - 1], stack[top]);
        }
    }
    return stack[0];
}

/* Takes the value of a number, which must have one of at least `least`. */
static int take(number n, int64_t least, const char *what, int64_t *value) {
    if (n.error == LOOPIR_OVERFLOW) return FAIL(n.error, "%s: does not fit in 63 bits", what);
    if (n.error) return FAIL(n.error, "%s: cannot be computed, a divisor is not positive", what);
    if (n.value < least)
        return FAIL(LOOPIR_WRONG_SIZE, "%s: expected at least %lld, got %lld", what,
                    (long long)least, (long long)n.value);
    *value = n.value;
    return LOOPIR_OK;
}

static const loopir_size *said(const request *r, const char *name) {
    for (size_t i = 0; i < r->size_count; i++)
        if (!strcmp(r->sizes[i].name, name)) return &r->sizes[i];
    return NULL;
}

static int has_picks(const loopir_program_table *program) {
    for (int i = 0; i < program->value_count; i++)
        if (program->values[i].kind == LOOPIR_PICKED) return 1;
    return 0;
}

static int is_known(const loopir_program_table *program, const char *name) {
    for (int i = 0; i < program->value_count; i++) {
        const loopir_value *value = &program->values[i];
        if (value->kind != LOOPIR_COMPUTED && !strcmp(value->name, name)) return 1;
    }
    return has_picks(program) && !strcmp(name, "blocks_per_sm");
}

static int check_names(const request *r) {
    if (r->size_count && !r->sizes) return FAIL(LOOPIR_NULL_POINTER, "sizes: a null pointer");
    for (size_t i = 0; i < r->size_count; i++) {
        const char *name = r->sizes[i].name;
        if (!name) return FAIL(LOOPIR_NULL_POINTER, "sizes: a name that is a null pointer");
        if (!is_known(r->program, name))
            return FAIL(LOOPIR_WRONG_SIZE, "%s: @%s takes no such size", name, r->program->name);
    }
    return LOOPIR_OK;
}

static int given_value(const request *r, const char *name, int64_t *value) {
    const loopir_size *size = said(r, name);
    if (!size) return FAIL(LOOPIR_WRONG_SIZE, "%s: no size of that name is given", name);
    return take(defined(size->value), 0, name, value);
}

/* What the caller says of the grid, or another value. */
static int said_limit(const request *r, const char *name, int64_t otherwise, number *limit) {
    const loopir_size *size = said(r, name);
    *limit = defined(otherwise);
    return size ? take(defined(size->value), 1, name, &limit->value) : LOOPIR_OK;
}

static int picked_value(const request *r, const loopir_value *v, int sms, int64_t *value) {
    number each, limit, most;
    TRY(said_limit(r, "blocks_per_sm", 1, &each));
    TRY(said_limit(r, v->name, INT64_MAX, &limit));
    most = combined(LOOPIR_MULTIPLY, each, defined(sms));
    most = combined(LOOPIR_MINIMUM, most, evaluated(v->expression, r));
    return take(combined(LOOPIR_MINIMUM, most, limit), INT64_MIN, v->name, value);
}

static int bind_values(request *r, int are_late, int sms) {
    for (int i = 0; i < r->program->value_count; i++) {
        const loopir_value *v = &r->program->values[i];
        if (v->is_late != are_late) continue;
        if (v->kind == LOOPIR_GIVEN) TRY(given_value(r, v->name, &r->values[i]));
        if (v->kind == LOOPIR_PICKED) TRY(picked_value(r, v, sms, &r->values[i]));
        if (v->kind == LOOPIR_COMPUTED)
            TRY(take(evaluated(v->expression, r), INT64_MIN, v->name, &r->values[i]));
    }
    return LOOPIR_OK;
}

static int count_blocks(request *r) {
    r->is_idle = 1;
    for (int i = 0; i < r->program->kernel_count; i++) {
        const loopir_kernel *kernel = &r->program->kernels[i];
        int64_t *blocks = &r->blocks[i];
        TRY(take(evaluated(kernel->blocks, r), INT64_MIN, kernel->name, blocks));
        if (*blocks > INT32_MAX)
            return FAIL(LOOPIR_GRID_TOO_LARGE, "@%s: expected fewer than 2^31 blocks, got %lld",
                        kernel->name, (long long)*blocks);
        if (*blocks > 0) r->is_idle = 0;
    }
    return LOOPIR_OK;
}

static int measure_workspace(request *r) {
    r->counter_bytes = r->tile_bytes = 0;
    if (r->is_idle || !r->program->part_count) return LOOPIR_OK;
    TRY(take(evaluated(r->program->counter_bytes, r), 0, "bytes of counters", &r->counter_bytes));
    return take(evaluated(r->program->tile_bytes, r), 0, "bytes of tiles", &r->tile_bytes);
}

/* Addresses of the parts of a workspace whose counters and tiles start there. */
static int place_parts(request *r, uint64_t counters, uint64_t tiles) {
    for (int i = 0; i < r->program->part_count; i++) {
        const loopir_part *part = &r->program->parts[i];
        int64_t offset;
        TRY(take(evaluated(part->offset, r), 0, part->name, &offset));
        TRY(take(evaluated(part->bytes, r), 0, part->name, &r->part_bytes[i]));
        r->addresses[r->program->parameter_count + i] =
            (part->is_counter ? counters : tiles) + (uint64_t)offset;
    }
    return LOOPIR_OK;
}
