#include "worker/trainer/cuda/cuda_memory.h"

#include <ATen/cuda/CUDAContextLight.h>
#include <c10/cuda/CUDACachingAllocator.h>
#include <torch/csrc/cuda/memory_snapshot.h>

#include <exception>
#include <optional>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "common/atomic_file/atomic_file.h"

namespace paceline {
namespace {

using c10::CachingAllocator::StatType;

// Each takes about 100 bytes in a snapshot's file, plus a stack.
constexpr size_t kMostRecorded = 100'000;

std::string GiB(int64_t bytes) {
  return absl::StrFormat("%.2f GiB", static_cast<double>(bytes) / (1 << 30));
}

}  // namespace

DeviceMemory ReadDeviceMemory(c10::Device device) {
  const auto stats = c10::cuda::CUDACachingAllocator::getDeviceStats(device.index());
  const auto of = [](const auto& stat, StatType type) { return stat[static_cast<size_t>(type)]; };
  DeviceMemory memory;
  memory.active = of(stats.active_bytes, StatType::AGGREGATE).current;
  memory.active_peak = of(stats.active_bytes, StatType::AGGREGATE).peak;
  memory.reserved = of(stats.reserved_bytes, StatType::AGGREGATE).current;
  memory.reserved_peak = of(stats.reserved_bytes, StatType::AGGREGATE).peak;
  memory.small_pool = of(stats.reserved_bytes, StatType::SMALL_POOL).current;
  memory.large_pool = of(stats.reserved_bytes, StatType::LARGE_POOL).current;
  memory.capacity =
      static_cast<int64_t>(at::cuda::getDeviceProperties(device.index())->totalGlobalMem);
  memory.alloc_retries = stats.num_alloc_retries;
  memory.ooms = stats.num_ooms;
  memory.small_pool_peak = of(stats.reserved_bytes, StatType::SMALL_POOL).peak;
  memory.large_pool_peak = of(stats.reserved_bytes, StatType::LARGE_POOL).peak;
  return memory;
}

void RecordDeviceMemory(bool on) {
  const std::optional<std::string> what =
      on ? std::make_optional<std::string>("all") : std::nullopt;
  torch::cuda::_record_memory_history(what, /*context=*/"all", /*stacks=*/"all", kMostRecorded,
                                      /*clearHistory=*/on);
}

absl::Status SnapshotDeviceMemory(const std::string& path) {
  return WriteFileAtomically(path, {torch::cuda::_memory_snapshot_pickled()});
}

std::string DescribeDeviceMemory(const DeviceMemory& memory) {
  return absl::StrCat("GPU memory: ", GiB(memory.active), " in use (peak ", GiB(memory.active_peak),
                      "), ", GiB(memory.reserved), " reserved (peak ", GiB(memory.reserved_peak),
                      "; small pool ", GiB(memory.small_pool), ", large pool ",
                      GiB(memory.large_pool), ") of ", GiB(memory.capacity), "; ",
                      memory.alloc_retries, " allocations retried, ", memory.ooms, " failed");
}

std::string DescribeDeviceOutOfMemory(c10::Device device, const std::string& path) {
  std::string text;
  try {
    text = DescribeDeviceMemory(ReadDeviceMemory(device));
    if (path.empty()) return text;
    const absl::Status written = SnapshotDeviceMemory(path);
    absl::StrAppend(
        &text,
        written.ok() ? "; snapshot (for https://pytorch.org/memory_viz): " : "; no snapshot: ",
        written.ok() ? absl::string_view(path) : written.message());
  } catch (const std::exception& error) {
    absl::StrAppend(&text, "; no more can be told: ", error.what());
  }
  return text;
}

}  // namespace paceline
