#include "worker/trainer/comm/cpu_host_copy.h"

#include <algorithm>
#include <cstring>
#include <utility>

namespace paceline {
namespace {

// Small, so that two threads end at about the same time, but not too small: taking one has a cost.
constexpr size_t kChunkBytes = 1 << 20;

}  // namespace

CpuHostCopy::CpuHostCopy(const std::vector<HostCopyPiece>& pieces) {
  size_t end = 0;
  for (const HostCopyPiece& piece : pieces) {
    for (size_t at = 0; at < piece.bytes; at += kChunkBytes) {
      const size_t bytes = std::min(kChunkBytes, piece.bytes - at);
      end += bytes;
      chunks_.push_back({{piece.from + at, piece.to + at, bytes}, end, false});
    }
  }
  if (!chunks_.empty()) thread_ = std::thread([this] { Work(); });
}

CpuHostCopy::~CpuHostCopy() {
  if (thread_.joinable()) thread_.join();
}

void CpuHostCopy::Work() {
  absl::MutexLock lock(&mu_);
  while (next_ < chunks_.size()) {
    Chunk& chunk = chunks_[next_++];
    mu_.Unlock();
    std::memcpy(chunk.piece.to, chunk.piece.from, chunk.piece.bytes);
    mu_.Lock();
    chunk.copied = true;
    while (first_missing_ < chunks_.size() && chunks_[first_missing_].copied) ++first_missing_;
  }
}

void CpuHostCopy::BeforeChange() {
  Work();
  const absl::MutexLock lock(&mu_);
  const auto all_copied = [this]() ABSL_SHARED_LOCKS_REQUIRED(mu_) {
    return first_missing_ == chunks_.size();
  };
  mu_.Await(absl::Condition(&all_copied));
}

size_t CpuHostCopy::BytesInPlace() const {
  return first_missing_ == 0 ? 0 : chunks_[first_missing_ - 1].end;
}

void CpuHostCopy::Wait(size_t bytes) {
  const absl::MutexLock lock(&mu_);
  const auto in_place = [this, bytes]()
                            ABSL_SHARED_LOCKS_REQUIRED(mu_) { return BytesInPlace() >= bytes; };
  mu_.Await(absl::Condition(&in_place));
}

}  // namespace paceline
