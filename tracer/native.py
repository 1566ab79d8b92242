"""The C++ part of the allocator meter: built once per machine, loaded by ctypes.

It wraps c10's CPU allocator (`c10::SetCPUAllocator`) and needs only a C++ compiler and
the c10 headers that PyTorch ships: no ninja, no Python headers. The library lies in
Encamp's cache folder, named after everything that decides what is in it.
"""

from __future__ import annotations

import ctypes
import functools
import hashlib
import os
import platform
import shlex
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import torch

from encamp.folders import cache_folder

SOURCE = r"""
#include <c10/core/Allocator.h>
#include <c10/core/CPUAllocator.h>
#include <pthread.h>

#include <cstdint>
#include <mutex>
#include <unordered_map>

namespace {

// Never destroyed: tensors die after the statics of this library would.
struct Ledger {
  std::mutex mutex;
  std::unordered_map<void*, std::size_t> sizes;
  std::int64_t live = 0;
  std::int64_t peak = 0;
  c10::Allocator* base = nullptr;
};

Ledger& ledger() {
  static Ledger* instance = new Ledger;
  return *instance;
}

void release(void* data) {
  if (data == nullptr) return;
  Ledger& book = ledger();
  {
    // Forget the block before it is given back: another thread may get it at once.
    std::lock_guard<std::mutex> lock(book.mutex);
    auto entry = book.sizes.find(data);
    if (entry != book.sizes.end()) {
      book.live -= static_cast<std::int64_t>(entry->second);
      book.sizes.erase(entry);
    }
  }
  book.base->raw_deallocate(data);
}

// Blocks from before the installation carry the base allocator's own deleter and
// never come here, so they count neither when live nor when freed.
class CountingAllocator final : public c10::Allocator {
 public:
  c10::DataPtr allocate(std::size_t size) override {
    Ledger& book = ledger();
    void* data = size == 0 ? nullptr : book.base->raw_allocate(size);
    if (data != nullptr) {
      std::lock_guard<std::mutex> lock(book.mutex);
      book.sizes[data] = size;
      book.live += static_cast<std::int64_t>(size);
      if (book.live > book.peak) book.peak = book.live;
    }
    return {data, data, &release, c10::Device(c10::DeviceType::CPU)};
  }

  c10::DeleterFnPtr raw_deleter() const override { return &release; }

  void copy_data(void* to, const void* from, std::size_t size) const override {
    ledger().base->copy_data(to, from, size);
  }
};

}  // namespace

extern "C" {

// Returns 1 when every later CPU allocation is counted, 0 where the allocator in
// place cannot be wrapped (it gives no plain pointers).
int encamp_install() {
  Ledger& book = ledger();
  if (book.base != nullptr) return 1;
  c10::Allocator* base = c10::GetCPUAllocator();
  if (base == nullptr || base->raw_deleter() == nullptr) return 0;
  book.base = base;
  // A child forked while another thread holds the lock would wait for it for ever.
  pthread_atfork([] { ledger().mutex.lock(); },
                 [] { ledger().mutex.unlock(); },
                 [] { ledger().mutex.unlock(); });
  c10::SetCPUAllocator(new CountingAllocator, 255);
  return 1;
}

std::int64_t encamp_live() {
  std::lock_guard<std::mutex> lock(ledger().mutex);
  return ledger().live;
}

std::int64_t encamp_peak() {
  std::lock_guard<std::mutex> lock(ledger().mutex);
  return ledger().peak;
}

// Starts a new peak at what is live now and returns the old one.
std::int64_t encamp_restart_peak() {
  std::lock_guard<std::mutex> lock(ledger().mutex);
  std::int64_t before = ledger().peak;
  ledger().peak = ledger().live;
  return before;
}

// Lifts the peak to at least `bytes`: what an enclosing measurement had seen.
void encamp_raise_peak(std::int64_t bytes) {
  std::lock_guard<std::mutex> lock(ledger().mutex);
  if (bytes > ledger().peak) ledger().peak = bytes;
}

}  // extern "C"
"""


@functools.cache
def load_library() -> ctypes.CDLL | None:
    """Return the allocator meter's library, installed, or None where it cannot be.

    The first call on a machine compiles it (about a second). A compiler that fails
    leaves its output beside the library as `.failed` and is not tried again for this
    version of PyTorch; delete that file to try again.
    """
    compiler = _compiler()
    if compiler is None:
        return None
    library = _library_path(compiler)
    if not library.exists() and not _build(compiler, library):
        return None
    return _open(library)


def _compiler() -> tuple[str, ...] | None:
    """Return the command of a C++ compiler; CXX names one, as everywhere."""
    if sys.platform == "win32":
        return None
    wanted = shlex.split(os.environ.get("CXX", ""))
    if wanted:
        return tuple(wanted) if shutil.which(wanted[0]) else None
    found = (shutil.which(name) for name in ("c++", "g++", "clang++"))
    return next(((path,) for path in found if path), None)


def _library_path(compiler: tuple[str, ...]) -> Path:
    """Return where the library lies, named after all that decides its content."""
    identity = "\n".join(
        (SOURCE, torch.__version__, torch.__file__, platform.machine(), *compiler)
    )
    digest = hashlib.sha256(identity.encode()).hexdigest()[:12]
    return cache_folder() / f"allocator-{torch.__version__}-{digest}.so"


def _build(compiler: tuple[str, ...], library: Path) -> bool:
    """Compile the library beside its place and move it there; say whether it did."""
    failed = library.with_suffix(".failed")
    if failed.exists():
        return False
    try:
        library.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=library.parent) as folder:
            built = Path(folder) / library.name
            run = subprocess.run(  # noqa: S603 -- the user's own compiler
                _command(compiler, built),
                input=SOURCE,
                capture_output=True,
                text=True,
                check=False,
            )
            if run.returncode != 0:
                failed.write_text(run.stderr or run.stdout, encoding="utf-8")
                return False
            built.replace(library)
    except OSError:  # no place to build in: the profiler needs none
        return False
    return True


def _command(compiler: tuple[str, ...], library: Path) -> list[str]:
    home = Path(torch.__file__).parent
    abi = int(torch.compiled_with_cxx11_abi())
    return [
        *compiler,
        *("-x", "c++", "-std=c++20", "-O2", "-shared", "-fPIC", "-w"),
        f"-D_GLIBCXX_USE_CXX11_ABI={abi}",
        f"-I{home / 'include'}",
        "-",
        *("-o", str(library)),
        f"-L{home / 'lib'}",
        "-lc10",
    ]


def _open(path: Path) -> ctypes.CDLL | None:
    try:
        library = ctypes.CDLL(str(path))
    except OSError:  # built elsewhere, e.g. a home folder shared by unlike machines
        return None
    for name in ("encamp_live", "encamp_peak", "encamp_restart_peak"):
        getattr(library, name).restype = ctypes.c_int64
    library.encamp_raise_peak.argtypes = [ctypes.c_int64]
    library.encamp_raise_peak.restype = None
    return library if library.encamp_install() else None
