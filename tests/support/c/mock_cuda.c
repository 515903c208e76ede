/* A libcuda.so.1 without a GPU: every call is a line of JSON in the file $MOCK_LOG.
 *
 * $MOCK_PARAMS: a file of lines "SYMBOL SIZE SIZE ...", the bytes of each kernel parameter; also
 * "HASH:SYMBOL ...", of the function in the binary of that hash.
 * $MOCK_FAIL: "cuLaunchKernel=700,...": calls that fail, with their codes.
 * $MOCK_FAIL_AT: the number, from 1 on, of one call that fails, of those that ask whether to.
 * $MOCK_CAPABILITY (9.0), $MOCK_SMS (132), $MOCK_SHARED (232448), $MOCK_VERSION (12080).
 * -DOLD: without the functions that an old driver lacks.
 */
#define _GNU_SOURCE
#include <pthread.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef int CUresult;
typedef struct function {
    struct function *next; /* of the module */
    char symbol[256];
    int count, sizes[256];
    int has_sizes;
} function;
typedef struct {
    function *functions;
    uint64_t hash;
} module;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static __thread void *current, *below; /* contexts are of threads, at most two of each */
static char contexts[8];

static const char *setting(const char *name, const char *otherwise) {
    const char *value = getenv(name);
    return value && *value ? value : otherwise;
}

static void note(const char *format, ...) {
    va_list arguments;
    const char *path = getenv("MOCK_LOG");
    if (!path) return;
    pthread_mutex_lock(&lock);
    FILE *file = fopen(path, "a");
    va_start(arguments, format);
    vfprintf(file, format, arguments);
    va_end(arguments);
    fputc('\n', file);
    fclose(file);
    pthread_mutex_unlock(&lock);
}

static CUresult failing(const char *name) {
    static int calls;
    if (__atomic_add_fetch(&calls, 1, __ATOMIC_RELAXED) == atoi(setting("MOCK_FAIL_AT", "0")))
        return 700;
    const char *at = strstr(setting("MOCK_FAIL", ""), name);
    return at && at[strlen(name)] == '=' ? atoi(at + strlen(name) + 1) : 0;
}

#define ENTER(name) \
    do { \
        CUresult failed = failing(name); \
        if (failed) { \
            note("{\"call\": \"%s\", \"failed\": %d}", name, failed); \
            return failed; \
        } \
    } while (0)

static uint64_t hashed(uint64_t hash, const void *data, size_t size) {
    for (const uint8_t *p = data; p < (const uint8_t *)data + size; p++)
        hash = (hash ^ *p) * 1099511628211ULL;
    return hash;
}
static const uint64_t SEED = 14695981039346656037ULL;

/* The bytes of an ELF file, or of text. */
static size_t image_size(const uint8_t *image) {
    uint64_t phoff, shoff;
    uint16_t phsize, phnum, shsize, shnum;
    if (strncmp((const char *)image, "\177ELF", 4)) return strlen((const char *)image);
    memcpy(&phoff, image + 32, 8), memcpy(&shoff, image + 40, 8);
    memcpy(&phsize, image + 54, 2), memcpy(&phnum, image + 56, 2);
    memcpy(&shsize, image + 58, 2), memcpy(&shnum, image + 60, 2);
    uint64_t a = phoff + phsize * phnum, b = shoff + shsize * shnum;
    return a > b ? a : b;
}

CUresult cuInit(unsigned flags) { (void)flags; ENTER("cuInit"); return 0; }
CUresult cuDriverGetVersion(int *version) { ENTER("cuDriverGetVersion"); *version = atoi(setting("MOCK_VERSION", "12080")); return 0; }
CUresult cuGetErrorName(CUresult e, const char **text) { *text = e == 700 ? "CUDA_ERROR_ILLEGAL_ADDRESS" : "CUDA_ERROR_OTHER"; return 0; }
CUresult cuGetErrorString(CUresult e, const char **text) { return cuGetErrorName(e, text); }
CUresult cuDeviceGet(int *device, int number) { *device = number; return 0; }
CUresult cuCtxGetCurrent(void **context) { ENTER("cuCtxGetCurrent"); *context = current; return 0; }
CUresult cuCtxSetCurrent(void *context) { current = context; return 0; }
CUresult cuDevicePrimaryCtxRetain(void **context, int device) { *context = &contexts[device]; return 0; }
CUresult cuCtxGetDevice(int *device) { ENTER("cuCtxGetDevice"); *device = 0; return 0; }
CUresult cuCtxPushCurrent_v2(void *context) { below = current, current = context; return 0; }
CUresult cuCtxPopCurrent_v2(void **context) { *context = current, current = below, below = NULL; return 0; }
CUresult cuPointerGetAttribute(void *data, int attribute, uint64_t pointer) {
    (void)attribute;
    memcpy(data, &pointer, 8);
    return 0;
}
CUresult cuMemAlloc_v2(uint64_t *pointer, size_t bytes) {
    *pointer = (uint64_t)(uintptr_t)aligned_alloc(256, (bytes + 255) / 256 * 256);
    return *pointer ? 0 : 2;
}
CUresult cuMemFree_v2(uint64_t pointer) { free((void *)(uintptr_t)pointer); return 0; }
CUresult cuMemcpyHtoD_v2(uint64_t to, const void *from, size_t bytes) { memcpy((void *)(uintptr_t)to, from, bytes); return 0; }
CUresult cuMemcpyDtoH_v2(void *to, uint64_t from, size_t bytes) { memcpy(to, (void *)(uintptr_t)from, bytes); return 0; }
CUresult cuMemsetD8_v2(uint64_t to, unsigned char value, size_t bytes) { memset((void *)(uintptr_t)to, value, bytes); return 0; }
CUresult cuStreamCreate(void **stream, unsigned flags) { (void)flags; *stream = NULL; return 0; }
CUresult cuStreamSynchronize(void *stream) { (void)stream; return 0; }
CUresult cuStreamIsCapturing(void *stream, int *status) { (void)stream; *status = 0; return 0; }
CUresult cuThreadExchangeStreamCaptureMode(int *mode) { *mode = 2 - *mode; return 0; }
CUresult cuCtxGetLimit(size_t *value, int limit) { (void)limit; *value = 0; return 0; }
CUresult cuCtxSetLimit(int limit, size_t value) { (void)limit, (void)value; return 0; }
CUresult cuCtxSynchronize(void) { return 0; }
CUresult cuDeviceGetName(char *name, int size, int device) { (void)device; snprintf(name, (size_t)size, "mock"); return 0; }

CUresult cuDeviceGetAttribute(int *value, int attribute, int device) {
    (void)device;
    ENTER("cuDeviceGetAttribute");
    double capability = atof(setting("MOCK_CAPABILITY", "9.0"));
    int tenths = (int)(capability * 10 + 0.5);
    switch (attribute) {
    case 16: *value = atoi(setting("MOCK_SMS", "132")); break;
    case 75: *value = tenths / 10; break;
    case 76: *value = tenths % 10; break;
    case 81: case 97: *value = atoi(setting("MOCK_SHARED", "232448")); break;
    default: *value = 0;
    }
    return 0;
}

CUresult cuModuleLoadData(void **out, const void *image) {
    *out = (void *)image; /* where it fails: not to be used */
    ENTER("cuModuleLoadData");
    module *m = calloc(1, sizeof *m);
    m->hash = hashed(SEED, image, image_size(image));
    note("{\"call\": \"cuModuleLoadData\", \"image\": \"%016llx\"}", (unsigned long long)m->hash);
    *out = m;
    return 0;
}
CUresult cuModuleUnload(void *unloaded) {
    module *m = unloaded;
    note("{\"call\": \"cuModuleUnload\", \"image\": \"%016llx\"}", (unsigned long long)m->hash);
    for (function *next; m->functions; m->functions = next) {
        next = m->functions->next;
        free(m->functions);
    }
    free(m);
    return 0;
}

static void read_sizes(function *f, const module *m) {
    char line[4096], name[512], wanted[512];
    snprintf(wanted, sizeof wanted, "%016llx:%s", (unsigned long long)m->hash, f->symbol);
    FILE *file = fopen(setting("MOCK_PARAMS", "/dev/null"), "r");
    while (file && fgets(line, sizeof line, file)) {
        int at = 0, used = 0;
        if (sscanf(line, "%511s%n", name, &at) != 1) continue;
        if (strcmp(name, f->symbol) && strcmp(name, wanted)) continue;
        f->has_sizes = 1;
        for (f->count = 0; sscanf(line + at, "%d%n", &f->sizes[f->count], &used) == 1; f->count++)
            at += used;
    }
    if (file) fclose(file);
}

CUresult cuModuleGetFunction(void **out, void *m, const char *symbol) {
    ENTER("cuModuleGetFunction");
    function *f = calloc(1, sizeof *f);
    snprintf(f->symbol, sizeof f->symbol, "%s", symbol);
    read_sizes(f, m);
    note("{\"call\": \"cuModuleGetFunction\", \"symbol\": \"%s\", \"image\": \"%016llx\"}", symbol,
         (unsigned long long)((module *)m)->hash);
    f->next = ((module *)m)->functions;
    ((module *)m)->functions = f;
    *out = f;
    return 0;
}
CUresult cuFuncGetAttribute(int *value, int attribute, void *f) {
    (void)attribute, (void)f;
    *value = 0;
    return 0;
}
CUresult cuFuncSetAttribute(void *f, int attribute, int value) {
    ENTER("cuFuncSetAttribute");
    note("{\"call\": \"cuFuncSetAttribute\", \"symbol\": \"%s\", \"attribute\": %d, \"value\": %d}",
         ((function *)f)->symbol, attribute, value);
    return 0;
}
CUresult cuFuncSetCacheConfig(void *f, int config) {
    ENTER("cuFuncSetCacheConfig");
    note("{\"call\": \"cuFuncSetCacheConfig\", \"symbol\": \"%s\", \"config\": %d}", ((function *)f)->symbol, config);
    return 0;
}

CUresult cuMemsetD8Async(uint64_t start, unsigned char value, size_t bytes, void *stream) {
    ENTER("cuMemsetD8Async");
    note("{\"call\": \"memset\", \"start\": %llu, \"value\": %d, \"width\": %zu, \"height\": 1, \"pitch\": 0, \"stream\": %llu}",
         (unsigned long long)start, value, bytes, (unsigned long long)(uintptr_t)stream);
    return 0;
}
CUresult cuMemsetD2D8Async(uint64_t start, size_t pitch, unsigned char value, size_t width, size_t height, void *stream) {
    ENTER("cuMemsetD2D8Async");
    note("{\"call\": \"memset\", \"start\": %llu, \"value\": %d, \"width\": %zu, \"height\": %zu, \"pitch\": %zu, \"stream\": %llu}",
         (unsigned long long)start, value, width, height, pitch, (unsigned long long)(uintptr_t)stream);
    return 0;
}

static void launched(function *f, const unsigned *grid, const unsigned *block, unsigned shared,
                     void *stream, void **params, int overlaps) {
    char hex[16384], *at = hex;
    hex[0] = 0;
    if (!getenv("MOCK_LOG")) return;
    for (int i = 0; i < f->count; i++) {
        for (int b = 0; b < f->sizes[i]; b++)
            at += sprintf(at, "%02x", ((uint8_t *)params[i])[b]);
        *at++ = ' ', *at = 0;
    }
    note("{\"call\": \"launch\", \"symbol\": \"%s\", \"grid\": [%u, %u, %u], \"block\": [%u, %u, %u], "
         "\"shared\": %u, \"stream\": %llu, \"overlaps\": %d, \"params\": \"%s\"}",
         f->symbol, grid[0], grid[1], grid[2], block[0], block[1], block[2], shared,
         (unsigned long long)(uintptr_t)stream, overlaps, f->has_sizes ? hex : "unknown");
}

CUresult cuLaunchKernel(void *f, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by,
                        unsigned bz, unsigned shared, void *stream, void **params, void **extra) {
    unsigned grid[] = {gx, gy, gz}, block[] = {bx, by, bz};
    (void)extra;
    ENTER("cuLaunchKernel");
    launched(f, grid, block, shared, stream, params, 0);
    return 0;
}

#ifndef OLD
typedef struct {
    int id;
    char pad[4];
    union {
        char pad[64];
        int number;
    } value;
} attribute;
typedef struct {
    unsigned grid[3], block[3], shared;
    void *stream;
    attribute *attributes;
    unsigned count;
} configuration;

CUresult cuLaunchKernelEx(const configuration *c, void *f, void **params, void **extra) {
    int overlaps = 0;
    (void)extra;
    ENTER("cuLaunchKernelEx");
    for (unsigned i = 0; i < c->count; i++)
        overlaps |= c->attributes[i].id == 6 && c->attributes[i].value.number;
    launched(f, c->grid, c->block, c->shared, c->stream, params, overlaps);
    return 0;
}

CUresult cuCtxGetId(void *context, unsigned long long *id) {
    ENTER("cuCtxGetId");
    *id = 1000 + (unsigned long long)((char *)context - contexts);
    return 0;
}

/* The map holds a hash of all that it was asked for. */
CUresult cuTensorMapEncodeTiled(void *map, int type, uint32_t rank, void *start, const uint64_t *sizes,
                                const uint64_t *strides, const uint32_t *box, const uint32_t *steps,
                                int interleave, int swizzle, int promotion, int fill) {
    char text[2048], *at = text;
    ENTER("cuTensorMapEncodeTiled");
    if ((uintptr_t)map % 64) return 1;
    if (!getenv("MOCK_LOG")) return 0; /* at the speed of nothing */
    at += sprintf(at, "\"type\": %d, \"start\": %llu, \"options\": [%d, %d, %d, %d], \"dims\": [", type,
                  (unsigned long long)(uintptr_t)start, interleave, swizzle, promotion, fill);
    for (uint32_t i = 0; i < rank; i++)
        at += sprintf(at, "%s[%llu, %llu, %u, %u]", i ? ", " : "", (unsigned long long)sizes[i],
                      i + 1 < rank ? (unsigned long long)strides[i] : 0ULL, box[i], steps[i]);
    note("{\"call\": \"cuTensorMapEncodeTiled\", %s]}", text);
    for (uint64_t i = 0; i < 16; i++) {
        uint64_t word = hashed(SEED + i, text, strlen(text));
        memcpy((char *)map + 8 * i, &word, 8);
    }
    return 0;
}
CUresult cuOccupancyMaxActiveClusters(int *count, void *f, const void *c) { (void)f, (void)c; *count = 1; return 0; }
#endif
