#include "worker/trainer/copies/copy_link.h"

#include <ATen/core/Tensor.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/from_blob.h>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstring>
#include <future>
#include <string>
#include <type_traits>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "common/checkpoint/checksum.h"

namespace paceline {
namespace {

static_assert(std::is_trivially_copyable_v<CopyHeader>);

// Large enough for a fast network.
constexpr double kMostPieceBytes = 16 << 20;
constexpr double kLeastPieceBytes = 4096;

// The group of a rank and its buddy. `use` names the sender: both may be each other's buddies.
CopyLink Link(Groups groups, int rank, int other, int sender) {
  CopyLink link;
  link.pair = groups.Make({std::min(rank, other), std::max(rank, other)},
                          absl::StrCat(kCopyUse, sender), /*version=*/0);
  link.peer = other < rank ? 0 : 1;
  return link;
}

template <typename Value>
void SendValue(const CopyLink& link, const Value& value) {
  const at::Tensor bytes = at::empty({static_cast<int64_t>(sizeof(Value))}, at::kByte);
  std::memcpy(bytes.mutable_data_ptr(), &value, sizeof(Value));
  link.pair->Send(bytes, link.peer);
}

template <typename Value>
Value ReceiveValue(const CopyLink& link) {
  const at::Tensor bytes = at::empty({static_cast<int64_t>(sizeof(Value))}, at::kByte);
  link.pair->Receive(bytes, link.peer);
  Value value;
  std::memcpy(&value, bytes.const_data_ptr(), sizeof(Value));
  return value;
}

// With a limit, those of a second: a receiver that waits for the next one must not take this for a
// failure.
uint64_t PieceBytes(double limit) {
  if (limit <= 0) return static_cast<uint64_t>(kMostPieceBytes);
  return static_cast<uint64_t>(std::clamp(limit, kLeastPieceBytes, kMostPieceBytes));
}

// Calls `use` with each piece of the image, in order.
template <typename F>
void ForEachPiece(const CopyHeader& header, const char* image, F use) {
  for (uint64_t at = 0; at < header.bytes; at += header.piece_bytes) {
    use(image + at, std::min(header.piece_bytes, header.bytes - at));
  }
}

// A tensor over host memory that somebody else owns.
at::Tensor Over(const char* memory, uint64_t bytes) {
  return at::from_blob(const_cast<char*>(memory), {static_cast<int64_t>(bytes)}, at::kByte);
}

uint64_t ChecksumOfPiece(const char* memory, uint64_t bytes) {
  return ChecksumOf(absl::string_view(memory, static_cast<size_t>(bytes)));
}

// For how long `bytes`, sent since `begun`, are above the limit; not positive: they are not.
absl::Duration PauseAfter(std::chrono::steady_clock::time_point begun, uint64_t bytes,
                          double limit) {
  if (limit <= 0) return absl::ZeroDuration();
  return absl::Seconds(static_cast<double>(bytes) / limit) -
         absl::FromChrono(std::chrono::steady_clock::now() - begun);
}

at::Tensor ChecksumTensor(const CopyHeader& header) {
  const uint64_t pieces = (header.bytes + header.piece_bytes - 1) / header.piece_bytes;
  return at::empty({static_cast<int64_t>(pieces)}, at::kLong);
}

bool ReceivePieces(const CopyLink& link, const CopyHeader& header, char* memory) {
  ForEachPiece(header, memory, [&](const char* piece, uint64_t size) {
    link.pair->Receive(Over(piece, size), link.peer);
  });
  const at::Tensor reported = ChecksumTensor(header);
  link.pair->Receive(reported, link.peer);
  const int64_t* checksum = reported.const_data_ptr<int64_t>();
  bool whole = true;
  ForEachPiece(header, memory, [&](const char* piece, uint64_t size) {
    whole = whole && static_cast<uint64_t>(*checksum++) == ChecksumOfPiece(piece, size);
  });
  return whole;
}

}  // namespace

std::shared_ptr<const CopyLinks> ConnectCopies(const Groups& groups, int rank,
                                               const CopyOrders& orders) {
  if (orders.buddy_rank < 0 || orders.ward_rank < 0) return nullptr;
  auto links = std::make_shared<CopyLinks>();
  // At once: if each made one group after the other, all would wait for each other in a ring.
  std::future<CopyLink> to_buddy =
      std::async(std::launch::async, [&] { return Link(groups, rank, orders.buddy_rank, rank); });
  links->from_ward = Link(groups, rank, orders.ward_rank, orders.ward_rank);
  links->to_buddy = to_buddy.get();
  return links;
}

bool SendCopy(const CopyLink& link, CopyHeader header, const char* image, double limit,
              const std::function<void(absl::Duration)>& pause) {
  header.piece_bytes = PieceBytes(limit);
  SendValue(link, header);
  if (header.bytes == 0 || ReceiveValue<char>(link) == 0) return false;
  const auto begun = std::chrono::steady_clock::now();
  const at::Tensor checksums = ChecksumTensor(header);
  int64_t* checksum = checksums.mutable_data_ptr<int64_t>();
  uint64_t sent = 0;
  ForEachPiece(header, image, [&](const char* piece, uint64_t size) {
    *checksum++ = static_cast<int64_t>(ChecksumOfPiece(piece, size));
    link.pair->Send(Over(piece, size), link.peer);
    sent += size;
    const absl::Duration ahead = PauseAfter(begun, sent, limit);
    if (ahead > absl::ZeroDuration()) pause(ahead);
  });
  link.pair->Send(checksums, link.peer);
  return ReceiveValue<char>(link) != 0;
}

void ReceiveCopy(const CopyLink& link, const std::function<char*(const CopyHeader&)>& take,
                 const std::function<void(bool whole)>& finish) {
  const auto header = ReceiveValue<CopyHeader>(link);
  if (header.bytes == 0) return;
  char* const memory = take(header);
  SendValue<char>(link, memory != nullptr ? 1 : 0);
  if (memory == nullptr) return;
  bool whole = false;
  try {
    whole = ReceivePieces(link, header, memory);
  } catch (...) {
    finish(false);
    throw;
  }
  finish(whole);
  SendValue<char>(link, whole ? 1 : 0);
}

}  // namespace paceline
