"""The C of a bundle is strict C11, its header is C++ too, and what it says of CUDA is true."""

import hashlib
import random
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from backends.triton_codegen.bundle.c.files import c_files, launcher_text
from backends.triton_codegen.bundle.c.tables import MOST
from tests.support.c_launcher import SANITIZED, STRICT, codes, compile_c, needs_gcc
from tests.support.manifests import kernel, manifest, program, variant

pytestmark = needs_gcc
FILES = c_files(manifest(program(kernels=[kernel(1, variant("k"))])))


@pytest.fixture
def written(tmp_path: Path) -> Path:
    for name, text in FILES.items():
        (tmp_path / name).write_text(text, encoding="ascii")
    return tmp_path


@pytest.mark.parametrize("options", [("-O2",), SANITIZED, ("-O3", "-Wshadow", "-Wconversion")])
def test_it_compiles_without_a_warning(written: Path, options: tuple[str, ...]):
    for name in ("loopir_launch.c", "loopir_bundle.c"):
        compile_c(written / "x.o", [written / name], *STRICT, *options, "-c")


def test_a_warning_would_be_seen(written: Path):
    """Control."""
    (written / "x.c").write_text("int f(void) { int unused; return 0; }\n")
    with pytest.raises(AssertionError, match="unused"):
        compile_c(written / "x.o", [written / "x.c"], *STRICT, "-c")


@pytest.mark.skipif(shutil.which("g++") is None, reason="g++ is not installed")
def test_the_headers_are_cpp(written: Path):
    (written / "x.cc").write_text(
        '#include "loopir_bundle.h"\nint main() {\n    loopir_bundle *b = nullptr;\n'
        '    return loopir_open(&loopir_tables, "x", &b) == LOOPIR_NO_DRIVER ? 0 : 1;\n}\n'
    )
    objects = [written / f"{name}.o" for name in ("loopir_launch", "loopir_bundle")]
    for one in objects:
        compile_c(one, [one.with_suffix(".c")], *STRICT, "-c")
    options = ("-std=c++17", *STRICT[1:], "-ldl", "-lpthread")
    program = compile_c(written / "x", [written / "x.cc", *objects], *options, compiler="g++")
    assert subprocess.run([program], env={"LD_LIBRARY_PATH": str(written)}).returncode in (0, 1)


def test_it_needs_no_library_of_cuda_and_exports_its_own_names_only(written: Path):
    compile_c(written / "x.o", [written / "loopir_launch.c"], *STRICT, "-c")
    words = ["nm", "--defined-only", "--extern-only", str(written / "x.o")]
    defined = subprocess.run(words, capture_output=True, text=True, check=True).stdout
    names = {line.split()[-1] for line in defined.splitlines()}
    header = FILES["loopir_launch.h"]
    assert names == set(re.findall(r"^[a-z][\w *]*?(loopir_\w+)\(", header, re.M))
    words = ["nm", "--undefined-only", str(written / "x.o")]
    wanted = subprocess.run(words, capture_output=True, text=True, check=True).stdout
    assert " cu" not in wanted


def test_two_bundles_fit_in_one_program(written: Path):
    (written / "x.c").write_text(
        '#include "loopir_bundle.h"\nextern const struct loopir_tables first, second;\n'
        "int main(void) { return first.version != second.version; }\n"
    )
    for name in ("first", "second"):
        options = (*STRICT, "-c", f"-Dloopir_tables={name}")
        compile_c(written / f"{name}.o", [written / "loopir_bundle.c"], *options)
    sources = [written / "x.c", written / "first.o", written / "second.o"]
    assert subprocess.run([compile_c(written / "x", sources, *STRICT)]).returncode == 0


# --- SHA-256

HASHER = """
#include "loopir_launch.c"
int main(void) {
    static uint8_t data[1 << 20];
    uint8_t digest[32];
    unsigned size;
    while (scanf("%u", &size) == 1) {
        for (unsigned i = 0; i < size; i++) data[i] = (uint8_t)(i * 167 + size);
        sha256(data, size, digest);
        for (int i = 0; i < 32; i++) printf("%02x", digest[i]);
        puts("");
    }
    return 0;
}
"""


def test_hashes_are_those_of_sha_256(written: Path):
    """Every length around the blocks' ends, where padding differs, and some long ones."""
    (written / "x.c").write_text(HASHER)
    flags = ("-std=c11", *SANITIZED, "-ldl", "-lpthread")
    hasher = compile_c(written / "x", [written / "x.c"], *flags)
    rng = random.Random(1)
    sizes = [*range(200), 1000, 4096, *(rng.randrange(1 << 20) for _ in range(5)), 1 << 20]
    done = subprocess.run(
        [hasher], input=" ".join(map(str, sizes)), capture_output=True, text=True, check=True
    )
    wanted = [
        hashlib.sha256(bytes((i * 167 + size) % 256 for i in range(size))).hexdigest()
        for size in sizes
    ]
    assert done.stdout.split() == wanted


# --- what is said of cuda.h

_CUDA = """
#include <cuda.h>
#define CUresult cu_result
#define CUdevice cu_device
#define CUdeviceptr cu_deviceptr
#define CUcontext cu_context
#define CUmodule cu_module
#define CUfunction cu_function
#define CUtensorMap cu_tensor_map
#define CUlaunchAttribute cu_launch_attribute
#define CUlaunchConfig cu_launch_config
#undef cuCtxPushCurrent_v2
"""
_CLAIMS = """
typedef struct CUlaunchConfig_st theirs;
#define SAME(a, b) _Static_assert((a) == (b), #a " is not " #b)
SAME(sizeof(cu_launch_config), sizeof(theirs));
SAME(offsetof(cu_launch_config, block), offsetof(theirs, blockDimX));
SAME(offsetof(cu_launch_config, shared_bytes), offsetof(theirs, sharedMemBytes));
SAME(offsetof(cu_launch_config, stream), offsetof(theirs, hStream));
SAME(offsetof(cu_launch_config, attributes), offsetof(theirs, attrs));
SAME(offsetof(cu_launch_config, attribute_count), offsetof(theirs, numAttrs));
SAME(sizeof(cu_launch_attribute), sizeof(struct CUlaunchAttribute_st));
SAME(offsetof(cu_launch_attribute, value), offsetof(struct CUlaunchAttribute_st, value));
SAME(sizeof(cu_tensor_map), sizeof(struct CUtensorMap_st));
SAME(_Alignof(cu_tensor_map), _Alignof(struct CUtensorMap_st));
SAME(sizeof(loopir_stream), sizeof(CUstream));
SAME(SM_COUNT, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT);
SAME(CAPABILITY_MAJOR, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR);
SAME(CAPABILITY_MINOR, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR);
SAME(SHARED_BYTES_OPT_IN, CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN);
SAME(MAX_DYNAMIC_SHARED_BYTES, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES);
SAME(PREFER_SHARED, CU_FUNC_CACHE_PREFER_SHARED);
SAME(PROGRAMMATIC_STREAM_SERIALIZATION, CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION);
SAME(NO_BINARY_FOR_GPU, CUDA_ERROR_NO_BINARY_FOR_GPU);
"""


def _cuda_header() -> Path | None:
    """Triton ships one."""
    for root in map(Path, sys.path):
        found = root / "triton" / "backends" / "nvidia" / "include" / "cuda.h"
        if found.exists():
            return found
    return None


def _check_claims(written: Path, text: str) -> None:
    header = _cuda_header()
    if header is None:
        pytest.skip("this Triton ships no cuda.h")
    (written / "x.c").write_text(f"{_CUDA}{text}{_CLAIMS}")
    compile_c(
        written / "x.o",
        [written / "x.c"],
        "-std=c11",
        "-D_POSIX_C_SOURCE=200809L",
        f"-I{header.parent}",
        "-c",
    )


def test_structures_and_numbers_are_those_of_cuda_h(written: Path):
    _check_claims(written, launcher_text())


def test_a_wrong_number_would_be_seen(written: Path):
    """Control."""
    text = launcher_text().replace("SM_COUNT = 16", "SM_COUNT = 17")
    with pytest.raises(AssertionError, match="SM_COUNT is not"):
        _check_claims(written, text)


def test_functions_have_the_parameters_of_cuda_h(written: Path):
    """Each declared pointer against the function of the header, up to the names of types."""
    header = _cuda_header()
    if header is None:
        pytest.skip("this Triton ships no cuda.h")
    theirs = header.read_text()
    listed = re.search(r"#define DRIVER_FUNCTIONS\(F\)(.*?)\n\n", launcher_text(), re.S)
    assert listed
    pattern = r"F\((\w+),\s*\((.*?)\), [01]\)"
    ours = re.findall(pattern, listed[1].replace("\\\n", " "), re.S)
    assert len(ours) == listed[1].count("F(cu")
    for name, arguments in ours:
        found = re.search(rf"CUresult CUDAAPI {name.removesuffix('_v2')}\(([^;]*?)\);", theirs)
        assert found, name
        pairs = zip(arguments.split(","), found[1].split(","), strict=True)
        for mine, theirs_one in pairs:
            assert is_same_kind(mine, theirs_one), (name, mine, theirs_one)


def is_same_kind(mine: str, theirs: str) -> bool:
    """As many stars, and both const or neither."""
    return (mine.count("*"), "const" in mine) == (theirs.count("*"), "const" in theirs)


# --- one meaning of each limit and code


def test_limits_of_the_tables_are_those_of_the_header():
    text = "".join(FILES[name] for name in ("loopir_bundle.h", "loopir_launch.h"))
    found = {n: int(v) for n, v in re.findall(r"#define LOOPIR_MOST_(\w+) (\d+)", text)}
    names = {
        "dimensions": "DIMENSIONS",
        "parameters": "TENSORS",
        "workspaces": "TENSORS",
        "values": "VALUES",
        "kernels": "KERNELS",
        "arguments": "ARGUMENTS",
        "descriptors": "MAPS",
        "dimensions of a descriptor": "MAP_DIMENSIONS",
    }
    assert {what: found[names[what]] for what in MOST} == MOST


def test_each_code_has_a_text():
    source = launcher_text()
    texts = dict(re.findall(r'\[LOOPIR_(\w+)\] = "([^"]+)"', source))
    assert set(texts) == set(codes())
    assert len(set(texts.values())) == len(texts)
