/* --- errors */

static _Thread_local char last_error[320];

#define FAIL(code, ...) (snprintf(last_error, sizeof last_error, __VA_ARGS__), (int)(code))
#define TRY(call) \
    do { \
        int failed = (call); \
        if (failed) return failed; \
    } while (0)

static const char *const error_texts[LOOPIR_ERROR_COUNT] = {
    [LOOPIR_OK] = "no error",
    [LOOPIR_NO_DRIVER] = "libcuda.so.1 cannot be loaded, or lacks a function",
    [LOOPIR_OLD_DRIVER] = "the driver is older than the bundle needs",
    [LOOPIR_NO_CONTEXT] = "no CUDA context is current to this thread",
    [LOOPIR_DRIVER_FAILED] = "the driver refused a call",
    [LOOPIR_OTHER_TABLES] = "the tables were made for another version of this launcher",
    [LOOPIR_NO_FILE] = "a file of the bundle cannot be read",
    [LOOPIR_WRONG_HASH] = "a file of the bundle is not the one that was built",
    [LOOPIR_NO_MEMORY] = "out of host memory",
    [LOOPIR_NO_PROGRAM] = "no program of that name is in the bundle",
    [LOOPIR_NO_IMAGE] = "no kernel is built for the device's compute capability",
    [LOOPIR_WRONG_COUNT] = "another number of tensors is expected",
    [LOOPIR_NULL_POINTER] = "a pointer is null",
    [LOOPIR_WRONG_DTYPE] = "a tensor has another element type",
    [LOOPIR_WRONG_RANK] = "a tensor has another number of dimensions",
    [LOOPIR_WRONG_SIZE] = "sizes disagree, or one is missing, unknown or out of range",
    [LOOPIR_WRONG_STRIDE] = "strides do not suit, or memory is shared that must not be",
    [LOOPIR_SHARED_MEMORY] = "the device has less shared memory than a block needs",
    [LOOPIR_OVERFLOW] = "a size does not fit in 63 bits",
    [LOOPIR_GRID_TOO_LARGE] = "a grid of 2^31 blocks or more",
    [LOOPIR_WORKSPACE_TOO_SMALL] = "the workspace is too small",
    [LOOPIR_MISALIGNED] = "addresses or strides suit no variant of a kernel",
};

const char *loopir_error_text(int code) {
    return code >= 0 && code < LOOPIR_ERROR_COUNT ? error_texts[code] : "no such code";
}

const char *loopir_last_error(void) { return last_error; }
