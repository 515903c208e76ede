/* --- the bundle: its files, verified as they are read */

typedef struct {
    uint8_t *bytes;
} binary;

/* What a context has loaded: a module of each image, a function of each variant, or null. */
typedef struct loaded_context {
    struct loaded_context *next;
    CUcontext context;
    unsigned long long id; /* tells it from a later context at the same address */
    int major, minor, sms, shared_bytes;
    CUmodule *modules;
    CUfunction *functions;
} loaded_context;

struct loopir_program {
    loopir_bundle *bundle;
    const loopir_program_table *table;
};

struct loopir_bundle {
    const struct loopir_tables *tables;
    loopir_program *programs;
    binary *binaries; /* of images */
    pthread_mutex_t lock; /* of contexts, and of all that they hold */
    loaded_context *contexts;
};

static int read_all(int file, uint8_t *bytes, size_t size, const char *path) {
    for (size_t at = 0; at < size;) {
        ssize_t count = read(file, bytes + at, size - at);
        if (count <= 0) return FAIL(LOOPIR_NO_FILE, "%s: cannot be read", path);
        at += (size_t)count;
    }
    return LOOPIR_OK;
}

static int check_file(int file, const loopir_image *image) {
    struct stat about;
    if (fstat(file, &about) || !S_ISREG(about.st_mode))
        return FAIL(LOOPIR_NO_FILE, "%s: expected a file", image->file);
    if ((uint64_t)about.st_size != image->bytes)
        return FAIL(LOOPIR_WRONG_HASH, "%s: expected %llu bytes, got %llu", image->file,
                    (unsigned long long)image->bytes, (unsigned long long)about.st_size);
    return LOOPIR_OK;
}

static int read_binary(int file, const loopir_image *image, uint8_t **bytes) {
    uint8_t digest[32];
    char digits[65];
    TRY(check_file(file, image));
    *bytes = malloc(image->bytes + 1);
    if (!*bytes) return FAIL(LOOPIR_NO_MEMORY, "%s: out of memory", image->file);
    (*bytes)[image->bytes] = 0; /* so that no reader of text runs beyond it */
    TRY(read_all(file, *bytes, image->bytes, image->file));
    sha256(*bytes, image->bytes, digest);
    for (int i = 0; i < 32; i++) snprintf(digits + 2 * i, 3, "%02x", digest[i]);
    if (strcmp(digits, image->sha256))
        return FAIL(LOOPIR_WRONG_HASH, "%s: its SHA-256 is another", image->file);
    return LOOPIR_OK;
}

/* Opens a file below a folder, through no link. */
static int open_below(const char *folder, const char *path) {
    char segment[256];
    int at = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    while (at >= 0) {
        size_t length = strcspn(path, "/");
        int is_last = !path[length], above = at;
        int how = O_RDONLY | O_NOFOLLOW | O_CLOEXEC | (is_last ? O_NONBLOCK : O_DIRECTORY);
        snprintf(segment, sizeof segment, "%.*s", (int)length, path);
        at = openat(above, segment, how);
        close(above);
        if (is_last) break;
        path += length + 1;
    }
    return at;
}

static int read_image(const char *folder, const loopir_image *image, uint8_t **bytes) {
    int file = open_below(folder, image->file);
    if (file < 0)
        return FAIL(LOOPIR_NO_FILE, "%s: cannot be opened in %s (%s)", image->file, folder,
                    strerror(errno));
    int failed = read_binary(file, image, bytes);
    close(file);
    return failed;
}

static int read_images(const char *folder, loopir_bundle *bundle) {
    for (int i = 0; i < bundle->tables->image_count; i++)
        TRY(read_image(folder, &bundle->tables->images[i], &bundle->binaries[i].bytes));
    return LOOPIR_OK;
}

static loopir_bundle *new_bundle(const struct loopir_tables *tables) {
    loopir_bundle *bundle = calloc(1, sizeof *bundle);
    if (!bundle) return NULL;
    bundle->tables = tables;
    bundle->binaries = calloc((size_t)tables->image_count + 1, sizeof *bundle->binaries);
    bundle->programs = calloc((size_t)tables->program_count + 1, sizeof *bundle->programs);
    pthread_mutex_init(&bundle->lock, NULL);
    for (int i = 0; bundle->programs && i < tables->program_count; i++)
        bundle->programs[i] = (loopir_program){bundle, &tables->programs[i]};
    if (bundle->binaries && bundle->programs) return bundle;
    loopir_close(bundle);
    return NULL;
}

int loopir_open(const loopir_tables_type *tables, const char *folder, loopir_bundle **bundle) {
    if (!tables || !folder || !bundle) return FAIL(LOOPIR_NULL_POINTER, "open: a null pointer");
    *bundle = NULL;
    if (tables->version != LOOPIR_TABLES_VERSION)
        return FAIL(LOOPIR_OTHER_TABLES, "expected tables of version %d, got %d",
                    LOOPIR_TABLES_VERSION, tables->version);
    TRY(need_driver(tables->least_driver));
    loopir_bundle *opened = new_bundle(tables);
    if (!opened) return FAIL(LOOPIR_NO_MEMORY, "open: out of memory");
    int failed = read_images(folder, opened);
    if (failed) loopir_close(opened);
    else *bundle = opened;
    return failed;
}

int loopir_find(const loopir_bundle *bundle, const char *name, const loopir_program **program) {
    if (!bundle || !name || !program) return FAIL(LOOPIR_NULL_POINTER, "find: a null pointer");
    for (int i = 0; i < bundle->tables->program_count; i++) {
        *program = &bundle->programs[i];
        if (!strcmp((*program)->table->name, name)) return LOOPIR_OK;
    }
    *program = NULL;
    return FAIL(LOOPIR_NO_PROGRAM, "%s: no such program in the bundle", name);
}
