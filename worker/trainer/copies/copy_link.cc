#include "worker/trainer/copies/copy_link.h"

#include <ATen/core/Tensor.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/from_blob.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstring>
#include <future>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/synchronization/notification.h"
#include "common/boot_clock.h"
#include "common/checkpoint/checksum.h"
#include "worker/trainer/comm/connecting.h"

namespace paceline {
namespace {

static_assert(std::is_trivially_copyable_v<CopyHeader>);

// Large enough for a fast network.
constexpr double kMostPieceBytes = 16 << 20;
constexpr double kLeastPieceBytes = 4096;

// Between two looks for a word of the other rank: doubles from the first value up to the second.
constexpr absl::Duration kFirstPause = absl::Milliseconds(10);
constexpr absl::Duration kLongestPause = absl::Seconds(1);
// How long an attempt that is given up may take to end. As a rule it ends at once.
constexpr absl::Duration kFarewell = absl::Milliseconds(500);

// A connection in use.
struct Connection {
  std::shared_ptr<Group> pair;
  int peer = 0;
};

Connection Open(const CopyLink& link) {
  Connection connection{link.pair(), link.peer()};
  if (connection.pair == nullptr) throw CollectiveError("copy", "the connection has broken");
  return connection;
}

template <typename Value>
void SendValue(const Connection& link, const Value& value) {
  const at::Tensor bytes = at::empty({static_cast<int64_t>(sizeof(Value))}, at::kByte);
  std::memcpy(bytes.mutable_data_ptr(), &value, sizeof(Value));
  link.pair->Send(bytes, link.peer);
}

template <typename Value>
Value ReceiveValue(const Connection& link) {
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

bool ReceivePieces(const Connection& link, const CopyHeader& header, char* memory) {
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

// What connects the two.
struct CopyLink::Ends {
  Ends(const Groups& its_groups, int rank, int other, int sender)
      : groups(its_groups),
        ranks{std::min(rank, other), std::max(rank, other)},
        use(absl::StrCat(kCopyUse, sender)),
        sends(rank == sender) {}

  std::string Word(absl::string_view what, int64_t number) const {
    return absl::StrCat(use, "/", what, "/", number);
  }
  std::shared_ptr<Group> Connect(int64_t number) { return groups.Make(ranks, use, number); }
  // Null: it was given up first.
  std::shared_ptr<Group> Offer(const absl::Notification& given_up);
  std::shared_ptr<Group> Take(const absl::Notification& given_up);

  Groups groups;
  const std::vector<int> ranks;
  const std::string use;  // Names the sender: both may be each other's buddies.
  const bool sends;
  // The newest offer of which this end knows. The first connection has number 0.
  std::atomic<int64_t> newest{0};
};

std::shared_ptr<Group> CopyLink::Ends::Offer(const absl::Notification& given_up) {
  const int64_t number = ++newest;  // Before it is said: no other attempt offers the same one.
  groups.Say(Word("offered", number));
  absl::Duration pause = kFirstPause;
  while (!groups.WasSaid(Word("taken", number))) {
    if (given_up.WaitForNotificationWithTimeout(pause)) {
      // Who has taken it meanwhile must not wait: it gets the connection, and learns that it
      // closes.
      if (groups.WasSaid(Word("taken", number))) break;
      groups.Say(Word("withdrawn", number));
      return nullptr;
    }
    pause = std::min(2 * pause, kLongestPause);
  }
  return Connect(number);
}

std::shared_ptr<Group> CopyLink::Ends::Take(const absl::Notification& given_up) {
  absl::Duration pause = kFirstPause;
  do {
    const int64_t before = newest;
    int64_t number = before;
    while (groups.WasSaid(Word("offered", number + 1))) ++number;
    newest = number;
    const bool stands = number > before && !groups.WasSaid(Word("withdrawn", number));
    if (stands && !given_up.HasBeenNotified()) {
      groups.Say(Word("taken", number));
      return Connect(number);
    }
    pause = std::min(2 * pause, kLongestPause);
  } while (!given_up.WaitForNotificationWithTimeout(pause));
  return nullptr;
}

CopyLink::CopyLink(const Groups& groups, int rank, int other, int sender)
    : ends_(std::make_shared<Ends>(groups, rank, other, sender)),
      peer_(other < rank ? 0 : 1),
      pair_(ends_->Connect(/*number=*/0)) {}

std::shared_ptr<Group> CopyLink::pair() const {
  const absl::MutexLock lock(&mu_);
  return pair_;
}

void CopyLink::Abort() {
  const std::shared_ptr<Group> pair = this->pair();
  if (pair != nullptr) pair->Abort();
}

void CopyLink::Close() {
  std::shared_ptr<Group> pair;
  {
    const absl::MutexLock lock(&mu_);
    pair.swap(pair_);
  }
  if (pair != nullptr) pair->Abort();  // Its destructor waits for nothing then.
}

bool CopyLink::Reconnect(const std::function<bool()>& is_over) {
  struct Attempt {
    absl::Notification given_up;
    std::shared_ptr<Group> pair;
  };
  const auto attempt = std::make_shared<Attempt>();
  Connecting connecting([attempt, ends = ends_] {
    attempt->pair = ends->sends ? ends->Offer(attempt->given_up) : ends->Take(attempt->given_up);
    return Connected();
  });
  if (!connecting.Wait(is_over).has_value()) {
    attempt->given_up.Notify();
    connecting.Wait([until = BootNow() + kFarewell] { return BootNow() >= until; });
    return false;
  }
  const absl::MutexLock lock(&mu_);
  pair_ = std::move(attempt->pair);
  return pair_ != nullptr;
}

std::shared_ptr<const CopyLinks> ConnectCopies(const Groups& groups, int rank,
                                               const CopyOrders& orders) {
  if (orders.buddy_rank < 0 || orders.ward_rank < 0) return nullptr;
  auto links = std::make_shared<CopyLinks>();
  // At once: if each made one group after the other, all would wait for each other in a ring.
  std::future<std::shared_ptr<CopyLink>> to_buddy = std::async(std::launch::async, [&] {
    return std::make_shared<CopyLink>(groups, rank, orders.buddy_rank, /*sender=*/rank);
  });
  links->from_ward =
      std::make_shared<CopyLink>(groups, rank, orders.ward_rank, /*sender=*/orders.ward_rank);
  links->to_buddy = to_buddy.get();
  return links;
}

bool SendCopy(const CopyLink& to, CopyHeader header, const char* image, double limit,
              const std::function<void(absl::Duration)>& pause) {
  const Connection link = Open(to);
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

CopyHeader ReceiveHeader(const CopyLink& from) { return ReceiveValue<CopyHeader>(Open(from)); }

void ReceiveCopy(const CopyLink& from, const CopyHeader& header,
                 const std::function<char*(const CopyHeader&)>& take,
                 const std::function<void(bool whole)>& finish) {
  if (header.bytes == 0) return;
  const Connection link = Open(from);
  char* const memory = take(header);
  if (memory == nullptr) return SendValue<char>(link, 0);
  bool whole = false;
  try {
    SendValue<char>(link, 1);
    whole = ReceivePieces(link, header, memory);
  } catch (...) {
    finish(false);
    throw;
  }
  finish(whole);
  SendValue<char>(link, whole ? 1 : 0);
}

}  // namespace paceline
