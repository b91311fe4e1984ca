#include "worker/trainer/checkpoint/host_buffer.h"

#include <sys/mman.h>

#include <new>

namespace paceline {
namespace {

constexpr size_t kPageBytes = 4096;
constexpr size_t kHugePageBytes = 2 << 20;

char* Map(size_t bytes) {
  void* const data =
      ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (data == MAP_FAILED) throw std::bad_alloc();
  ::madvise(data, bytes, MADV_HUGEPAGE);  // Only a hint: pages may stay small.
  return static_cast<char*>(data);
}

}  // namespace

HostBuffer::HostBuffer(Platform& platform, size_t bytes)
    : platform_(platform), size_((bytes / kHugePageBytes + 1) * kHugePageBytes), data_(Map(size_)) {
  platform_.PinHostMemory(data_, size_);
}

HostBuffer::~HostBuffer() {
  platform_.UnpinHostMemory(data_);
  ::munmap(data_, size_);
}

void HostBuffer::Touch() {
  for (size_t at = 0; at < size_; at += kPageBytes) {
    *const_cast<volatile char*>(data_ + at) = 0;
  }
}

}  // namespace paceline
