"""One function compiled, or taken from the cache."""

import warnings
from collections.abc import Callable
from contextlib import closing

from backends.triton_codegen.cache.entry import (
    Built,
    Damaged,
    Identity,
    files_of,
    key_of,
    parsed,
)
from backends.triton_codegen.cache.folder import NoHome
from backends.triton_codegen.cache.options import is_on, limit_bytes
from backends.triton_codegen.cache.store import Store, open_store
from backends.triton_codegen.cache.toolchain import is_observed


def cached(identity: Callable[[], Identity], build: Callable[[], Built]) -> Built:
    """The entry of `identity()`, which is called only where there is a cache, else what `build`
    gives, which becomes the entry.

    Warns of a damaged entry, which is replaced, and of a cache that cannot be used; it is then as
    if there were none. CodegenError: what the environment says of the cache; and of `build`.
    """
    store = _open() if is_on() and not is_observed() else None
    if store is None:
        return build()
    with closing(store):
        name = identity()
        found = _found(store, key_of(name))
        if found is None:
            found = build()
            _keep(store, name, found)
        return found


def _open() -> Store | None:
    limit = limit_bytes()
    try:
        return open_store(limit)
    except NoHome:
        return None
    except OSError as error:
        _warn(f"not used, {error}")
        return None


def _found(store: Store, key: str) -> Built | None:
    try:
        found = store.load(key)
    except Damaged as damage:
        _warn(f"{key[:12]} is compiled again, {damage}")
        _remove(store, key)
        return None
    except OSError as error:
        _warn(f"{key[:12]} is not read, {error}")
        return None
    if found is not None:
        store.touch(key)
    return found


def _remove(store: Store, key: str) -> None:
    try:
        store.remove(key)
    except OSError as error:
        _warn(f"{key[:12]} is not removed, {error}")


def _keep(store: Store, identity: Identity, built: Built) -> None:
    """Only what reads back the same: metadata of another Triton might not."""
    key, files = key_of(identity), files_of(identity, built)
    if parsed(key, lambda name, _: files[name]) != built:
        return
    try:
        store.save(key, files)
    except OSError as error:
        _warn(f"{key[:12]} is not kept, {error}")


def _warn(text: str) -> None:
    warnings.warn(f"cache of kernels: {text}", stacklevel=2)
