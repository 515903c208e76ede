/* --- the CUDA driver: what is used of cuda.h, and libcuda.so.1 loaded once a process */

typedef int CUresult;
typedef int CUdevice;
typedef unsigned long long CUdeviceptr;
typedef struct CUctx_st *CUcontext;
typedef struct CUmod_st *CUmodule;
typedef struct CUfunc_st *CUfunction;
typedef struct {
    _Alignas(64) uint64_t opaque[16];
} CUtensorMap;
typedef struct {
    int id;
    char pad[4];
    union {
        char pad[64];
        int programmatic_stream_serialization;
    } value;
} CUlaunchAttribute;
typedef struct {
    unsigned grid[3], block[3], shared_bytes;
    loopir_stream stream;
    CUlaunchAttribute *attributes;
    unsigned attribute_count;
} CUlaunchConfig;

enum {
    SM_COUNT = 16, CAPABILITY_MAJOR = 75, CAPABILITY_MINOR = 76, SHARED_BYTES_OPT_IN = 97,
    MAX_DYNAMIC_SHARED_BYTES = 8, PREFER_SHARED = 1, PROGRAMMATIC_STREAM_SERIALIZATION = 6,
    NO_INTERLEAVE = 0, L2_PROMOTION_128B = 2, NO_OUT_OF_BOUNDS_FILL = 0,
    INVALID_CONTEXT = 201, NO_BINARY_FOR_GPU = 209, DEFAULT_SHARED_BYTES = 48 * 1024
};

/* name, arguments, whether a driver may lack it */
#define DRIVER_FUNCTIONS(F) \
    F(cuInit, (unsigned), 0) \
    F(cuDriverGetVersion, (int *), 0) \
    F(cuGetErrorName, (CUresult, const char **), 0) \
    F(cuCtxGetCurrent, (CUcontext *), 0) \
    F(cuCtxGetId, (CUcontext, unsigned long long *), 1) \
    F(cuCtxGetDevice, (CUdevice *), 0) \
    F(cuCtxPushCurrent_v2, (CUcontext), 0) \
    F(cuCtxPopCurrent_v2, (CUcontext *), 0) \
    F(cuDeviceGetAttribute, (int *, int, CUdevice), 0) \
    F(cuModuleLoadData, (CUmodule *, const void *), 0) \
    F(cuModuleUnload, (CUmodule), 0) \
    F(cuModuleGetFunction, (CUfunction *, CUmodule, const char *), 0) \
    F(cuFuncSetAttribute, (CUfunction, int, int), 0) \
    F(cuFuncSetCacheConfig, (CUfunction, int), 0) \
    F(cuMemsetD8Async, (CUdeviceptr, unsigned char, size_t, loopir_stream), 0) \
    F(cuMemsetD2D8Async, (CUdeviceptr, size_t, unsigned char, size_t, size_t, loopir_stream), 0) \
    F(cuTensorMapEncodeTiled, \
      (CUtensorMap *, int, uint32_t, void *, const uint64_t *, const uint64_t *, const uint32_t *, \
       const uint32_t *, int, int, int, int), 1) \
    F(cuLaunchKernel, \
      (CUfunction, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, \
       loopir_stream, void **, void **), 0) \
    F(cuLaunchKernelEx, (const CUlaunchConfig *, CUfunction, void **, void **), 1)

#define DECLARED(name, arguments, is_optional) CUresult(*name) arguments;
static struct { DRIVER_FUNCTIONS(DECLARED) } cuda;
static pthread_once_t driver_once = PTHREAD_ONCE_INIT;
static int driver_version;
static char driver_error[200];

static void *found(void *library, const char *name, int is_optional) {
    void *function = dlsym(library, name);
    if (!function && !is_optional)
        snprintf(driver_error, sizeof driver_error, "libcuda.so.1 has no %s", name);
    return function;
}

static void load_driver(void) {
    void *library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_GLOBAL);
    if (!library) {
        snprintf(driver_error, sizeof driver_error, "%s", dlerror());
        return;
    }
    /* POSIX: a pointer to data as one to a function */
#define LOOKED_UP(name, arguments, is_optional) \
    *(void **)&cuda.name = found(library, #name, is_optional);
    DRIVER_FUNCTIONS(LOOKED_UP)
    if (!driver_error[0] && (cuda.cuInit(0) || cuda.cuDriverGetVersion(&driver_version)))
        snprintf(driver_error, sizeof driver_error, "cuInit() failed: is there a GPU?");
}

static int need_driver(int least_version) {
    pthread_once(&driver_once, load_driver);
    if (driver_error[0]) return FAIL(LOOPIR_NO_DRIVER, "%s", driver_error);
    if (driver_version < least_version)
        return FAIL(LOOPIR_OLD_DRIVER, "expected a driver of CUDA %d.%d or later, got %d.%d",
                    least_version / 1000, least_version % 1000 / 10, driver_version / 1000,
                    driver_version % 1000 / 10);
    return LOOPIR_OK;
}

static int checked(CUresult result, const char *call) {
    const char *name = NULL;
    if (!result) return LOOPIR_OK;
    cuda.cuGetErrorName(result, &name);
    return FAIL(LOOPIR_DRIVER_FAILED, "%s: %s (%d)", call, name ? name : "?", result);
}
